//! Which `KafkaRebalance` a cluster makes for itself when it is scaled.
//!
//! 1. What is to be drained or filled is recorded before anything is done about it, and a broker is
//!    forgotten only when it is gone, when it has been seen to, or with a warning.
//! 2. Never two at once: a request is made when the one before it is gone, and a request goes when
//!    nothing of it runs any more.
//! 3. Drains come before fills: a fill is stopped, and kept in the queue, when a drain is wanted.
//! 4. A broker of a request that is there, or of moves that run, is held: nobody may stop it before
//!    they are done.
//! 5. Whatever the user does to a request (deletes, stops or pauses it), and whatever is missing
//!    (template, mode, status), is an answer and never an error.
//! 6. What could not be read raises no event and takes nothing out of a queue.
//!
//! The states and edges are those of the first design. It leaves these open, and they are closed so:
//! - a drain list follows what the user wants. Taking a scale-down back cancels the drain; brokers that
//!   are empty already stay in the list, so that nothing is moved to them again;
//! - a failed drain is tried again, less and less often; a failed fill is dropped with a warning. Neither
//!   takes the other's queue with it. A drain that a user stopped is not begun again for the same list;
//! - a mode that is not set is skipped, and so is one whose template is missing or is not marked as a template;
//! - a user who waives the check for replicas wants no drain: none is begun, and one that runs is cancelled;
//! - which brokers are new is not an event that can be missed: it is the difference to those that were
//!   recorded;
//! - every request has the number of its round, so that one of an earlier round, or of an earlier
//!   life, is known for what it is and put away.

mod facts;
mod words;

use std::collections::BTreeSet;

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::request;
use Mode::{AddBrokers, RemoveBrokers};
pub use facts::{Facts, Partner, Request, Seen, Setting, is_copied};
pub use words::{Mode, Notice, PerMode, Setback, Why};

/// A drain that failed is tried again after this time, doubled with each failure.
const RETRY_MS: u64 = 60_000;
/// And after an hour at the latest: what is in the way needs a person by then.
const RETRY_MS_MAX: u64 = 60 * 60_000;

/// A set of brokers.
pub type Brokers = BTreeSet<NodeId>;

/// What the cluster does for itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// It drains brokers that are to leave.
    RebalanceOnScaleDown,
    /// It fills brokers that have come.
    RebalanceOnScaleUp,
}

use Phase::{Idle, RebalanceOnScaleDown, RebalanceOnScaleUp};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Brokers are to leave and hold replicas.
    DrainWanted,
    /// Brokers have come, and none is to leave.
    FillWanted,
    /// The request is done.
    Done,
    /// The drain is done, and a fill is queued.
    DoneFillNext,
    /// The request failed, or is gone.
    Failed,
    /// A user stopped the request.
    Declined,
    /// Nobody is to leave any more, or those who leave need not be empty.
    TakenBack,
    /// It is not wanted any more: it was switched off, or there is nobody left to see to.
    Withdrawn,
}

use Event::{Declined, Done, DoneFillNext, DrainWanted, Failed, FillWanted, TakenBack, Withdrawn};

/// The whole machine. A pair that is not listed is a bug in [`read`], not a no-op.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Phase, Event, Phase)] = &[
    (Idle,                 DrainWanted,  RebalanceOnScaleDown),
    (Idle,                 FillWanted,   RebalanceOnScaleUp),
    (RebalanceOnScaleDown, Done,         Idle),
    (RebalanceOnScaleDown, DoneFillNext, RebalanceOnScaleUp),
    (RebalanceOnScaleDown, Failed,       Idle),
    (RebalanceOnScaleDown, Declined,     Idle),
    (RebalanceOnScaleDown, TakenBack,    Idle),
    (RebalanceOnScaleDown, Withdrawn,    Idle),
    (RebalanceOnScaleUp,   DrainWanted,  RebalanceOnScaleDown), // the fill stays in the queue
    (RebalanceOnScaleUp,   Done,         Idle),
    (RebalanceOnScaleUp,   Failed,       Idle),
    (RebalanceOnScaleUp,   Declined,     Idle),
    (RebalanceOnScaleUp,   Withdrawn,    Idle),
];

/// The phase that an event leads to; `None` for a pair that is not in the table.
#[must_use]
pub fn next(phase: Phase, event: Event) -> Option<Phase> {
    TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map(|(.., to)| *to)
}

/// What is kept from pass to pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// What the cluster does for itself.
    pub phase: Phase,
    /// Since when.
    pub since_ms: u64,
    /// How many requests were begun.
    pub round: u64,
    /// Whether the request of this round has been seen.
    pub seen: bool,
    /// Brokers that are being drained.
    pub remove: Brokers,
    /// Brokers that are being filled, or wait for it.
    pub add: Brokers,
    /// Brokers that are not new.
    pub known: Brokers,
    /// What went wrong last.
    pub setbacks: PerMode<Option<Setback>>,
}

/// Something to do to the request of a mode. Each is safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Make it: from the template, auto-approved, with owner, finalizer and round.
    Create {
        /// Which one.
        mode: Mode,
        /// For these.
        brokers: Brokers,
        /// In this round.
        round: u64,
    },
    /// Give it these brokers and ask it to refresh, in one write, if it is still of this round.
    Refresh {
        /// Which one.
        mode: Mode,
        /// For these.
        brokers: Brokers,
        /// If it is of this round.
        round: u64,
    },
    /// Ask it to stop.
    Stop(Mode),
    /// Delete it; our finalizer keeps it until nothing of it runs.
    Delete(Mode),
    /// Take our finalizer away from one that is being deleted.
    Release(Mode),
}

/// What to record and then to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What happened, if anything.
    pub event: Option<Event>,
    /// What to record before anything is done; `None` if it is not known yet which brokers there are.
    /// It is kept also while all is switched off, so that brokers that come with the switch are new.
    pub recorded: Option<Recorded>,
    /// Whether the status has anything to say of it.
    pub shown: bool,
    /// What to do, in this order.
    pub acts: Vec<Act>,
    /// What to tell the user.
    pub notices: Vec<Notice>,
    /// Brokers that must not be stopped, even if they are empty; `None` is all of them. Others may be
    /// once this decision is recorded.
    pub held: Option<Brokers>,
    /// The queues, for the status.
    pub modes: Vec<(Mode, Brokers)>,
}

/// Decides what the cluster does for itself.
#[must_use]
pub fn decide(recorded: Option<&Recorded>, facts: &Facts) -> Decision {
    let off = facts.settings.remove == Setting::Off && facts.settings.add == Setting::Off;
    let gone = |mode| !matches!(facts.partners.get(mode), None | Some(Partner::Present(_)));
    let all_gone = gone(RemoveBrokers) && gone(AddBrokers);
    let Some(mut new) = recorded.cloned().or_else(|| begin(facts)) else {
        let (acts, notices) = (Vec::new(), Vec::new());
        let held = held(&Recorded::default(), facts);
        let (event, recorded, shown, modes) = (None, None, false, Vec::new());
        return Decision { event, recorded, shown, acts, notices, held, modes };
    };
    merge(&mut new, facts);
    let event = read(&new, facts);
    if let Some(event) = event {
        enter(&mut new, event, facts);
    }
    let acts = duty(&new, facts);
    let notices = words::notices(&new, facts);
    let held = held(&new, facts);
    forget_free(&mut new, facts, held.as_ref());
    let modes = words::modes(&new, fill_list(&new, facts));
    let shown = !(off && new.phase == Idle && all_gone);
    Decision { event, recorded: Some(new), shown, acts, notices, held, modes }
}

/// The first record, also if an older one was lost: brokers that are there are not new, unless a
/// request says that it was to fill them.
fn begin(facts: &Facts) -> Option<Recorded> {
    let known = facts.brokers.clone()?;
    let mut new = Recorded { known, since_ms: facts.now_ms, ..Recorded::default() };
    for mode in [RemoveBrokers, AddBrokers] {
        match facts.partners.get(mode).as_ref()? {
            Partner::Missing | Partner::Foreign => {}
            Partner::Present(request) => {
                new.round = new.round.max(request.round.unwrap_or(0));
                if mode == AddBrokers {
                    new.add.extend(&request.brokers);
                }
            }
        }
    }
    Some(new)
}

/// Brings the queues up to date with what there is and what is wanted (1).
fn merge(new: &mut Recorded, facts: &Facts) {
    new.seen |= own_request(new, facts).is_some();
    if let Some(brokers) = &facts.brokers {
        if facts.settings.add == Setting::Off {
            new.add.clear();
        } else {
            new.add.extend(brokers.difference(&new.known));
        }
        new.known.clone_from(brokers);
        new.add.retain(|broker| brokers.contains(broker));
        for mode in [RemoveBrokers, AddBrokers] {
            let over = |setback: &Setback| setback.brokers.is_disjoint(brokers);
            let setback = new.setbacks.get_mut(mode);
            setback.take_if(|setback| over(setback));
        }
    }
    let Some(list) = drain_list(new, facts) else { return };
    if list.is_empty() {
        new.setbacks.remove = None;
    }
    if new.phase == RebalanceOnScaleDown {
        new.remove = list;
    } else if new.phase == Idle {
        drop_fill_without_template(new, facts);
    }
}

/// A broker that may be stopped now and holds nothing is not known any more: if it is wanted again, even before
/// the next pass, it comes back empty and is a new one. One that is stopped with its replicas, because the user
/// waives the check, comes back to them.
fn forget_free(new: &mut Recorded, facts: &Facts, held: Option<&Brokers>) {
    let (Some(leaving), Some(held)) = (&facts.leaving, held) else { return };
    let may_hold = |b: &NodeId| facts.holding.as_ref().is_none_or(|all| all.contains(b));
    let busy = |b: &NodeId| held.contains(b) || may_hold(b);
    new.known.retain(|b| !leaving.contains(b) || busy(b));
}

/// A fill that cannot be begun because its template is missing is dropped with a warning.
fn drop_fill_without_template(new: &mut Recorded, facts: &Facts) {
    let brokers = fill_list(new, facts);
    if facts.settings.add.lacks_template() && !brokers.is_empty() {
        drop_fill(new, brokers, Why::NoTemplate, facts.now_ms);
    }
}

/// The brokers to be drained, if that is known. While a drain runs, all that are to leave belong to
/// it; otherwise it takes one that holds something to begin. Without the check nobody has to be empty.
fn drain_list(recorded: &Recorded, facts: &Facts) -> Option<Brokers> {
    if facts.waived {
        return Some(Brokers::new());
    }
    let (brokers, leaving) = (facts.brokers.as_ref()?, facts.leaving.as_ref()?);
    let list: Brokers = leaving.intersection(brokers).copied().collect();
    let blocked = !list.is_disjoint(facts.holding.as_ref()?);
    Some(if blocked || recorded.phase == RebalanceOnScaleDown { list } else { Brokers::new() })
}

/// The brokers to be filled: not those that are to leave. They stay in the queue, for a scale-down
/// may be taken back.
fn fill_list(recorded: &Recorded, facts: &Facts) -> Brokers {
    let leaves = |broker: &NodeId| facts.leaving.as_ref().is_some_and(|all| all.contains(broker));
    recorded.add.iter().copied().filter(|broker| !leaves(broker)).collect()
}

/// Whether a drain is to begin now; `None` if that is not known.
fn wants_drain(recorded: &Recorded, facts: &Facts) -> Option<bool> {
    let list = drain_list(recorded, facts)?;
    if list.is_empty() || !facts.settings.remove.is_usable()? {
        return Some(false);
    }
    let setback = recorded.setbacks.remove.as_ref().filter(|setback| setback.brokers == list);
    Some(setback.is_none_or(|setback| match setback.why {
        Why::Stopped => false,
        Why::Failed(_) | Why::Gone | Why::NoTemplate => facts.now_ms >= retry_at_ms(setback),
    }))
}

fn retry_at_ms(setback: &Setback) -> u64 {
    let doublings = setback.attempts.saturating_sub(1).min(16);
    setback.at_ms.saturating_add((RETRY_MS << doublings).min(RETRY_MS_MAX))
}

/// Whether a fill can begin: there is somebody to fill, and all of them run.
fn can_fill(recorded: &Recorded, facts: &Facts) -> bool {
    let list = fill_list(recorded, facts);
    let run = facts.running.as_ref().is_some_and(|running| list.is_subset(running));
    let known = facts.brokers.is_some() && facts.leaving.is_some();
    known && run && !list.is_empty() && facts.settings.add.is_usable() == Some(true)
}

/// Reads the facts in the light of what is recorded. First rule that holds wins.
#[must_use]
pub fn read(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    match recorded.phase {
        Idle if wants_drain(recorded, facts)? => Some(DrainWanted),
        Idle => can_fill(recorded, facts).then_some(FillWanted),
        RebalanceOnScaleDown => read_drain(recorded, facts),
        RebalanceOnScaleUp => read_fill(recorded, facts),
    }
}

fn read_drain(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    if facts.settings.remove == Setting::Off {
        return Some(Withdrawn);
    }
    if recorded.remove.is_empty() {
        return Some(TakenBack);
    }
    let done = |request: &Request| recorded.remove.is_subset(&request.brokers);
    let event = read_partner(recorded, facts, RemoveBrokers, &done)?;
    let fill_next = event == Done && can_fill(recorded, facts);
    Some(if fill_next { DoneFillNext } else { event })
}

fn read_fill(recorded: &Recorded, facts: &Facts) -> Option<Event> {
    if facts.settings.add == Setting::Off {
        return Some(Withdrawn);
    }
    if wants_drain(recorded, facts) == Some(true) {
        return Some(DrainWanted);
    }
    let list = fill_list(recorded, facts);
    if list.is_empty() {
        return Some(Withdrawn);
    }
    read_partner(recorded, facts, AddBrokers, &|request| list.is_subset(&request.brokers))
}

/// What the request of this round says. `covers` is whether it was for all that is wanted now.
fn read_partner(
    recorded: &Recorded,
    facts: &Facts,
    mode: Mode,
    covers: &dyn Fn(&Request) -> bool,
) -> Option<Event> {
    use request::Phase as Said;
    let request = match facts.partners.get(mode).as_ref()? {
        Partner::Missing if recorded.seen => return Some(Failed),
        // The template went before the request was made.
        Partner::Missing => {
            let lost = facts.settings.get(mode).is_usable() == Some(false);
            return lost.then_some(Withdrawn);
        }
        Partner::Foreign => return None,
        Partner::Present(request) => request,
    };
    // What it says is of another round, or of brokers that it had before.
    if request.round != Some(recorded.round) || request.outdated {
        return None;
    }
    match request.phase() {
        Said::Ready => covers(request).then_some(Done),
        Said::NotReady => (covers(request) && !request.recovers()).then_some(Failed),
        // One that is being deleted is waited for; then it is missing.
        Said::Stopped => (!request.deleting).then_some(Declined),
        Said::New
        | Said::PendingProposal
        | Said::ProposalReady
        | Said::Rebalancing
        | Said::ReconciliationPaused => None,
    }
}

/// The request of this round, if it is there.
fn own_request<'a>(recorded: &Recorded, facts: &'a Facts) -> Option<&'a Request> {
    let mode = mode_of(recorded.phase)?;
    match facts.partners.get(mode).as_ref()? {
        Partner::Present(request) if request.round == Some(recorded.round) => Some(request),
        Partner::Present(_) | Partner::Missing | Partner::Foreign => None,
    }
}

const fn mode_of(phase: Phase) -> Option<Mode> {
    match phase {
        Idle => None,
        RebalanceOnScaleDown => Some(RemoveBrokers),
        RebalanceOnScaleUp => Some(AddBrokers),
    }
}

/// Goes to the next phase, and takes out of the queues what is done or given up.
fn enter(new: &mut Recorded, event: Event, facts: &Facts) {
    let from = new.phase;
    let Some(to) = next(from, event) else {
        debug_assert!(false, "{from:?} does not know {event:?}");
        return;
    };
    let own = own_request(new, facts);
    let setback = match event {
        Failed => Some(own.map_or(Why::Gone, Request::why)),
        Declined => Some(Why::Stopped),
        Withdrawn => {
            let lost = |mode: &Mode| facts.settings.get(*mode).lacks_template();
            mode_of(from).filter(lost).map(|_| Why::NoTemplate)
        }
        DrainWanted | FillWanted | Done | DoneFillNext | TakenBack => None,
    };
    match from {
        Idle => {}
        RebalanceOnScaleDown => {
            let brokers = std::mem::take(&mut new.remove);
            let attempts = new.setbacks.remove.take().map_or(0, |setback| setback.attempts);
            new.setbacks.remove = setback.map(|why| Setback {
                brokers,
                why,
                attempts: attempts + 1,
                at_ms: facts.now_ms,
            });
        }
        RebalanceOnScaleUp => {
            let brokers = fill_list(new, facts);
            if let Some(why) = setback.filter(|_| !brokers.is_empty()) {
                drop_fill(new, brokers, why, facts.now_ms);
            } else if let (Done, Some(request)) = (event, own) {
                new.add.retain(|broker| !request.brokers.contains(broker));
                new.setbacks.add = None;
            }
        }
    }
    if to == RebalanceOnScaleDown {
        new.remove = drain_list(new, facts).unwrap_or_default();
    }
    if to != Idle {
        new.round += 1;
        new.seen = false;
    }
    new.phase = to;
    new.since_ms = facts.now_ms;
}

fn drop_fill(new: &mut Recorded, brokers: Brokers, why: Why, at_ms: u64) {
    new.add.retain(|broker| !brokers.contains(broker));
    new.setbacks.add = Some(Setback { brokers, why, attempts: 1, at_ms });
}

/// What is to be done in the phase, again and again, until it is left.
#[must_use]
pub fn duty(recorded: &Recorded, facts: &Facts) -> Vec<Act> {
    let put_away = |mode| put_away(mode, facts.partners.get(mode).as_ref());
    let Some(mode) = mode_of(recorded.phase) else {
        return [RemoveBrokers, AddBrokers].into_iter().filter_map(put_away).collect();
    };
    let mut acts: Vec<Act> = put_away(mode.other()).into_iter().collect();
    let brokers = match mode {
        RemoveBrokers => recorded.remove.clone(),
        AddBrokers => fill_list(recorded, facts),
    };
    let round = recorded.round;
    match facts.partners.get(mode) {
        None | Some(Partner::Foreign) => {}
        Some(Partner::Missing) => {
            let free =
                !matches!(facts.partners.get(mode.other()), None | Some(Partner::Present(_)));
            let ready = match mode {
                RemoveBrokers => facts.settings.remove.is_usable() == Some(true),
                AddBrokers => can_fill(recorded, facts),
            };
            if free && ready && !recorded.seen && !brokers.is_empty() {
                acts.push(Act::Create { mode, brokers, round });
            }
        }
        Some(Partner::Present(request)) => {
            if request.round != Some(round) || request.deleting {
                acts.extend(put_away(mode));
            } else if needs_refresh(recorded, facts, request, &brokers) {
                acts.push(Act::Refresh { mode, brokers, round });
            }
        }
    }
    acts
}

/// Whether the request is for others than it should be. A drain list that only lost brokers which
/// are gone is as good as before; one that lost brokers which stay is not.
fn needs_refresh(recorded: &Recorded, facts: &Facts, request: &Request, brokers: &Brokers) -> bool {
    use request::Phase as Said;
    let (Some(all), Some(_)) = (&facts.brokers, &facts.leaving) else { return false };
    match request.phase() {
        // What it has done it has done, and a user's word stands.
        Said::Ready | Said::NotReady if brokers.is_subset(&request.brokers) => return false,
        Said::Stopped | Said::ReconciliationPaused => return false,
        Said::New
        | Said::PendingProposal
        | Said::ProposalReady
        | Said::Rebalancing
        | Said::Ready
        | Said::NotReady => {}
    }
    if recorded.phase == RebalanceOnScaleUp {
        return can_fill(recorded, facts) && *brokers != request.brokers;
    }
    let still: Brokers = request.brokers.intersection(all).copied().collect();
    !brokers.is_empty() && *brokers != still
}

/// The next step towards a request being gone (2): it is stopped, then deleted, and let go when
/// nothing of it runs. One that is being deleted starts nothing any more.
fn put_away(mode: Mode, partner: Option<&Partner>) -> Option<Act> {
    use request::Phase as Said;
    let request = match partner? {
        Partner::Missing | Partner::Foreign => return None,
        Partner::Present(request) => request,
    };
    if request.deleting {
        return (!request.may_run()).then_some(Act::Release(mode));
    }
    match request.phase() {
        Said::PendingProposal | Said::Rebalancing => (!request.stopping).then_some(Act::Stop(mode)),
        Said::New
        | Said::ProposalReady
        | Said::Stopped
        | Said::NotReady
        | Said::Ready
        | Said::ReconciliationPaused => Some(Act::Delete(mode)),
    }
}

/// The brokers that must not be stopped (4): a drain that is cancelled gives replicas back, and a fill
/// gives some.
fn held(recorded: &Recorded, facts: &Facts) -> Option<Brokers> {
    let mut held = recorded.remove.clone();
    held.extend(facts.moving.as_ref()?);
    for mode in [RemoveBrokers, AddBrokers] {
        match facts.partners.get(mode).as_ref()? {
            Partner::Missing | Partner::Foreign => {}
            // One that goes and runs nothing moves nothing any more.
            Partner::Present(request) if request.deleting && !request.may_run() => {}
            Partner::Present(request) => held.extend(&request.brokers),
        }
    }
    Some(held)
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod story;
#[cfg(test)]
mod tests;
