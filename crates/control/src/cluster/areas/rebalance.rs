//! Automatic rebalancing when the cluster is scaled, as [`auto`] decides; and moves whose `KafkaRebalance` is gone.
//!
//! 1. Which brokers must not be stopped is decided, and recorded, before scale-in.
//! 2. While the `KafkaRebalance` resources are unknown nothing is done, and no broker may be stopped.

use model::NodeId;

use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow, LOOK_AGAIN_MS};
use crate::cluster::snapshot::{Needs, RebalanceView, Snapshot};
use crate::conditions::{Note, Reason};
use crate::node::Roles;
use crate::rebalance::auto::{
    self, Act, Brokers, Decision, Facts, Mode, Notice, Partner, PerMode, Phase,
};

/// How soon a drain that failed, or that waits for its template, is decided on again. No event announces either.
const RETRY_MS: u64 = 20_000;

/// The facts that the area requires.
#[must_use]
pub fn needs(snapshot: &Snapshot, _: &Draft) -> Needs {
    Needs {
        rebalance: snapshot.rebalance.is_unread(),
        partitions: !leaving(snapshot).is_empty() && snapshot.kafka.partitions.is_unread(),
        ..Needs::default()
    }
}

/// Decides which `KafkaRebalance` the cluster makes for itself, and which brokers must not be stopped.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let Some(view) = snapshot.rebalance.known() else {
        draft.outputs.held = None;
        let message = "the KafkaRebalance resources of the cluster are unknown; waiting for them";
        return Flow::Wait(Note::new(Reason::RebalanceProblem, message));
    };
    let decision = auto::decide(draft.record.auto_rebalance.as_ref(), &facts(snapshot, view));
    if let Some(new) = &decision.recorded {
        draft.record.auto_rebalance = Some(new.clone());
    }
    for notice in &decision.notices {
        draft.warn(notice.reason(), notice.to_string());
        if is_retried(notice) {
            draft.look_again(RETRY_MS);
        }
    }
    if view.unclaimed {
        draft.act(What::StopUnclaimedMoves, Rule::MovesAreUnclaimed);
        // No event announces that they have ended.
        draft.look_again(LOOK_AGAIN_MS);
    }
    for act in &decision.acts {
        draft.act(What::Rebalance(act.clone()), rule(act));
    }
    let awaited = awaited(view, &decision);
    draft.outputs.held.clone_from(&decision.held);
    draft.outputs.auto_rebalance = Some(decision);
    match awaited {
        Some(message) => Flow::Wait(Note::new(Reason::AutoRebalancing, message)),
        None => Flow::Go,
    }
}

/// Whether it is tried again after a while, or when its template exists.
const fn is_retried(notice: &Notice) -> bool {
    match notice {
        Notice::Setback(Mode::RemoveBrokers, _)
        | Notice::TemplateMissing(_)
        | Notice::TemplateUnmarked(_) => true,
        Notice::Setback(Mode::AddBrokers, _)
        | Notice::Foreign(_)
        | Notice::Paused(_)
        | Notice::AwaitsBrokers(_) => false,
    }
}

const fn rule(act: &Act) -> Rule {
    match act {
        Act::Create { .. } => Rule::BrokersAreScaled,
        Act::Refresh { .. } => Rule::BrokersHaveChanged,
        Act::Stop(_) | Act::Delete(_) => Rule::RebalanceIsObsolete,
        Act::Release(_) => Rule::RebalanceHasEnded,
    }
}

fn awaited(view: &RebalanceView, decision: &Decision) -> Option<&'static str> {
    if view.unclaimed {
        return Some("cancelling the moves of a deleted KafkaRebalance");
    }
    let is_ours = |partner: &Partner| matches!(partner, Partner::Present(_));
    let has_ours = is_ours(&view.partners.remove) || is_ours(&view.partners.add);
    match decision.recorded.as_ref().map_or(Phase::Idle, |recorded| recorded.phase) {
        Phase::RebalanceOnScaleDown => Some("draining leaving brokers"),
        Phase::RebalanceOnScaleUp => Some("filling new brokers"),
        Phase::Idle if decision.acts.is_empty() && !has_ours => None,
        Phase::Idle => Some("removing a KafkaRebalance that is no longer needed"),
    }
}

fn is_broker(roles: Option<Roles>) -> bool {
    roles.is_some_and(Roles::is_broker)
}

/// All brokers, those that are to leave included.
fn brokers(snapshot: &Snapshot) -> Brokers {
    let brokers = snapshot.nodes.iter().filter(|(_, node)| is_broker(node.recorded));
    brokers.map(|(id, _)| *id).collect()
}

/// The brokers that are to leave.
fn leaving(snapshot: &Snapshot) -> Brokers {
    let leaves = |id: &NodeId| !snapshot.nodes.get(id).is_some_and(|node| is_broker(node.desired));
    brokers(snapshot).into_iter().filter(leaves).collect()
}

fn facts(snapshot: &Snapshot, view: &RebalanceView) -> Facts {
    let leaving = leaving(snapshot);
    // Which brokers hold replicas matters only if one is to leave.
    let holding = match leaving.is_empty() {
        true => Some(Brokers::new()),
        false => snapshot.partitions().map(|all| all.assigned().into_keys().collect()),
    };
    let running = snapshot.kafka.brokers.known().map(|all| {
        let running = all.iter().filter(|(_, broker)| !broker.fenced);
        running.map(|(id, _)| *id).collect()
    });
    let PerMode { remove, add } = view.partners.clone();
    Facts {
        brokers: Some(brokers(snapshot)),
        leaving: Some(leaving),
        holding,
        running,
        moving: Some(view.moving.clone()),
        waived: snapshot.desired.skip_partition_check,
        settings: view.settings,
        partners: PerMode { remove: Some(remove), add: Some(add) },
        now_ms: snapshot.now_ms,
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::areas::samples::{NOW, asked, empty, id, seen, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::cluster::record::Record;
    use crate::cluster::snapshot::Partitions;
    use crate::rebalance::auto::{Recorded, Request, Setback, Setting};
    use crate::rebalance::request::{self, Phase as Said};
    use crate::rolling::availability::PartitionFacts;
    use model::{TopicName, TopicPartition};

    fn ids(list: &[i32]) -> Brokers {
        list.iter().map(|node| id(*node)).collect()
    }

    fn view(snapshot: &mut Snapshot) -> &mut RebalanceView {
        match &mut snapshot.rebalance {
            Fact::Read { value, .. } => value,
            Fact::Unknown(_) => panic!("the sample has it"),
        }
    }

    /// Both modes are on, and brokers 3, 4 and 5 are not new.
    fn on() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        view(&mut snapshot).settings = PerMode { remove: Setting::Plain, add: Setting::Plain };
        let known = ids(&[3, 4, 5]);
        record.auto_rebalance = Some(Recorded { known, round: 7, ..Recorded::default() });
        (snapshot, record)
    }

    fn recorded(record: &mut Record) -> &mut Recorded {
        record.auto_rebalance.as_mut().unwrap()
    }

    /// Brokers are to leave, and broker 5 holds a replica.
    fn leave(snapshot: &mut Snapshot, list: &[i32]) {
        for node in list {
            snapshot.nodes.get_mut(&id(*node)).unwrap().desired = None;
        }
        let held = PartitionFacts {
            partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
            replicas: vec![id(5)],
            isr: vec![id(5)],
            adding: vec![],
            removing: vec![],
            min_isr: Some(1),
        };
        let partitions = Partitions { facts: vec![held], leaders: vec![], brokers: [id(3)].into() };
        snapshot.kafka.partitions = Fact::read(partitions, NOW);
    }

    /// A request of round 7 for broker 5.
    fn present(phase: Said) -> Partner {
        Partner::Present(Request {
            round: Some(7),
            brokers: ids(&[5]),
            deleting: false,
            stopping: false,
            outdated: false,
            recorded: Some(request::Recorded { phase, ..request::Recorded::default() }),
        })
    }

    fn drain(s: &mut Snapshot, r: &mut Record, phase: Said) {
        leave(s, &[5]);
        view(s).partners.remove = present(phase);
        let recorded = recorded(r);
        (recorded.phase, recorded.seen) = (Phase::RebalanceOnScaleDown, true);
        recorded.remove = ids(&[5]);
    }

    fn fill(s: &mut Snapshot, r: &mut Record, phase: Said) {
        view(s).partners.add = present(phase);
        let recorded = recorded(r);
        (recorded.phase, recorded.seen) = (Phase::RebalanceOnScaleUp, true);
        recorded.add = ids(&[5]);
    }

    fn deleting(snapshot: &mut Snapshot) {
        if let Partner::Present(request) = &mut view(snapshot).partners.add {
            request.deleting = true;
        }
    }

    fn fence(snapshot: &mut Snapshot) {
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.get_mut(&id(5)).unwrap().fenced = true;
        }
    }

    fn setback() -> Setback {
        Setback { brokers: ids(&[5]), why: auto::Why::Gone, attempts: 1, at_ms: NOW }
    }

    /// The acts, the reasons of the warnings, and how the pass goes on.
    fn run(snapshot: &Snapshot, record: &Record) -> ([String; 3], Draft) {
        let mut draft = Draft::new(record.clone());
        let flow = decide(snapshot, &mut draft);
        seen(&draft, &flow);
        let flow = match flow {
            Flow::Go => "go".to_owned(),
            Flow::Wait(note) => format!("{}: {}", note.reason, note.message),
            other @ (Flow::Stop(_) | Flow::Hold(_) | Flow::Fault(_)) => panic!("{other:?}"),
        };
        let acts: Vec<_> = draft.acts.iter().map(|act| act.what.to_string()).collect();
        let told: Vec<_> = draft.warnings.iter().map(|note| note.reason.name()).collect();
        ([acts.join("; "), told.join("; "), flow], draft)
    }

    type Change = fn(&mut Snapshot, &mut Record);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const DRAINED: &str = "AutoRebalancing: draining leaving brokers";
        const FILLED: &str = "AutoRebalancing: filling new brokers";
        const REMOVED: &str = "AutoRebalancing: removing a KafkaRebalance that is no longer needed";
        const CANCELLED: &str = "AutoRebalancing: cancelling the moves of a deleted KafkaRebalance";
        const DRAIN: &str = "create the KafkaRebalance with remove-brokers of brokers [5]";
        const FILL: &str = "create the KafkaRebalance with add-brokers of brokers [5]";
        const CANCEL: &str = "cancel moves of a deleted KafkaRebalance";
        const MISSING: Setting = Setting::Template(Some(false));
        // What differs from a settled cluster with both modes on, the acts, the warnings, how the pass goes on.
        let rows: [(&str, Change, &str, &str, &str); 29] = [
            ("settled",                       |_, _| {}, "", "", "go"),
            ("off",                           |s, _| view(s).settings = PerMode { remove: Setting::Off, add: Setting::Off }, "", "", "go"),
            ("seen for the first time",       |_, r| r.auto_rebalance = None, "", "", "go"),
            ("a broker leaves",               |s, _| leave(s, &[5]), DRAIN, "", DRAINED),
            ("it has no partitions",              |s, _| { leave(s, &[5]); empty(s); }, "", "", "go"),
            ("the check is waived",           |s, _| { leave(s, &[5]); s.desired.skip_partition_check = true; }, "", "", "go"),
            ("it is waived in a drain",       |s, r| { drain(s, r, Said::Rebalancing); s.desired.skip_partition_check = true; }, "stop the KafkaRebalance with remove-brokers", "", REMOVED),
            ("that mode is off",              |s, _| { leave(s, &[5]); view(s).settings.remove = Setting::Off; }, "", "", "go"),
            ("its template is missing",       |s, _| { leave(s, &[5]); view(s).settings.remove = MISSING; }, "", "AutoRebalanceTemplateMissing", "go"),
            ("its template is itself a rebalance request",     |s, _| { leave(s, &[5]); view(s).settings.remove = Setting::Unmarked; }, "", "AutoRebalanceTemplateUnmarked", "go"),
            ("it is unknown whether it exists",  |s, _| { leave(s, &[5]); view(s).settings.remove = Setting::Template(None); }, "", "", "go"),
            ("its name is taken",             |s, _| { leave(s, &[5]); view(s).partners.remove = Partner::Foreign; }, "", "AutoRebalanceNameTaken", DRAINED),
            ("the last attempt has just failed",        |s, r| { leave(s, &[5]); recorded(r).setbacks.remove = Some(setback()); }, "", "AutoRebalanceFailed", "go"),
            ("it is being drained",           |s, r| drain(s, r, Said::Rebalancing), "", "", DRAINED),
            ("the drain is paused",           |s, r| drain(s, r, Said::ReconciliationPaused), "", "AutoRebalancePaused", DRAINED),
            ("another one leaves too",        |s, r| { drain(s, r, Said::Rebalancing); leave(s, &[4]); }, "refresh the KafkaRebalance with remove-brokers of brokers [4, 5]", "", DRAINED),
            ("a user stopped it",             |s, r| drain(s, r, Said::Stopped), "delete the KafkaRebalance with remove-brokers", "AutoRebalanceFailed", REMOVED),
            ("it is drained",                 |s, r| drain(s, r, Said::Ready), "delete the KafkaRebalance with remove-brokers", "", REMOVED),
            ("a broker has come",             |_, r| recorded(r).known = ids(&[3, 4]), FILL, "", FILLED),
            ("it does not run yet",           |s, r| { recorded(r).known = ids(&[3, 4]); fence(s); }, "", "AutoRebalanceAwaitsBrokers", "go"),
            ("a fill failed",                 |_, r| recorded(r).setbacks.add = Some(setback()), "", "AutoRebalanceFailed", "go"),
            ("it is being filled",            |s, r| fill(s, r, Said::Rebalancing), "", "", FILLED),
            ("a drain comes first",           |s, r| { fill(s, r, Said::Rebalancing); leave(s, &[4]); if let Fact::Read { value, .. } = &mut s.kafka.partitions { value.facts[0].replicas = vec![id(4)]; } }, "stop the KafkaRebalance with add-brokers", "", DRAINED),
            ("it is filled",                  |s, r| fill(s, r, Said::Ready), "delete the KafkaRebalance with add-brokers", "", REMOVED),
            ("it is no longer requested and runs",      |s, _| view(s).partners.add = present(Said::Rebalancing), "stop the KafkaRebalance with add-brokers", "", REMOVED),
            ("it is being deleted",           |s, _| { view(s).partners.add = present(Said::Ready); deleting(s); }, "remove the finalizer of the KafkaRebalance with add-brokers", "", REMOVED),
            ("it is being deleted and runs",  |s, _| { view(s).partners.add = present(Said::Rebalancing); deleting(s); }, "", "", REMOVED),
            ("moves have no owner",           |s, _| view(s).unclaimed = true, CANCEL, "", CANCELLED),
            ("and a broker leaves",           |s, _| { view(s).unclaimed = true; leave(s, &[5]); }, "cancel moves of a deleted KafkaRebalance; create the KafkaRebalance with remove-brokers of brokers [5]", "", CANCELLED),
        ];
        for (name, change, acts, told, flow) in rows {
            let (mut snapshot, mut record) = on();
            change(&mut snapshot, &mut record);
            assert!(asked(needs, &snapshot, &record).is_empty(), "{name}");
            let (found, draft) = run(&snapshot, &record);
            assert_eq!(found, [acts, told, flow], "{name}");
            let decision = draft.outputs.auto_rebalance.unwrap();
            assert_eq!(draft.record.auto_rebalance, decision.recorded, "{name}");
            assert_eq!(draft.outputs.held, decision.held, "{name}");
            assert_eq!(decision.shown, name != "off", "{name}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn nothing_is_done_on_what_is_unknown() {
        // What is unknown, what is recorded, whether it is known who must not be stopped.
        let rows: [(&str, Change, bool); 6] = [
            ("the requests",                |s, _| { leave(s, &[5]); s.rebalance = Fact::Unknown(Why::NoAnswer); }, false),
            ("the requests, in a drain",    |s, r| { drain(s, r, Said::Ready); s.rebalance = Fact::default(); }, false),
            ("the partitions",              |s, _| { leave(s, &[5]); s.kafka.partitions = Fact::Unknown(Why::NoAnswer); }, true),
            ("the partitions, in a drain",  |s, r| { drain(s, r, Said::Rebalancing); leave(s, &[4]); s.kafka.partitions = Fact::Unknown(Why::NoAnswer); }, true),
            ("the brokers",                 |s, r| { recorded(r).known = ids(&[3, 4]); s.kafka.brokers = Fact::Unknown(Why::NoAnswer); }, true),
            ("the brokers, nobody to ask",  |s, r| { recorded(r).known = ids(&[3, 4]); s.kafka.brokers = Fact::Unknown(Why::Unreachable); }, true),
        ];
        for (name, change, is_held_known) in rows {
            let (mut snapshot, mut record) = on();
            change(&mut snapshot, &mut record);
            let phase = recorded(&mut record).phase;
            let ([acts, _, _], draft) = run(&snapshot, &record);
            assert_eq!(acts, "", "{name}");
            assert_eq!(draft.record.auto_rebalance.as_ref().unwrap().phase, phase, "{name}");
            assert_eq!(draft.outputs.held.is_some(), is_held_known, "{name}");
            if snapshot.rebalance.known().is_none() {
                assert_eq!(draft.record, record, "{name}");
                assert_eq!(draft.outputs.auto_rebalance, None, "{name}");
            }
        }
    }

    #[test]
    fn brokers_of_moves_and_of_requests_are_held() {
        let (mut snapshot, record) = settled();
        assert_eq!(run(&snapshot, &record).1.outputs.held, Some(Brokers::new()));
        view(&mut snapshot).moving = ids(&[3]);
        assert_eq!(run(&snapshot, &record).1.outputs.held, Some(ids(&[3])));
        view(&mut snapshot).partners.add = present(Said::Rebalancing);
        assert_eq!(run(&snapshot, &record).1.outputs.held, Some(ids(&[3, 5])));
    }

    #[test]
    fn what_no_event_announces_is_decided_on_again() {
        let rows: [(&str, Change, Option<u64>); 4] = [
            ("settled", |_, _| {}, None),
            (
                "a failed fill is not tried again",
                |_, r| recorded(r).setbacks.add = Some(setback()),
                None,
            ),
            (
                "a failed drain",
                |s, r| {
                    leave(s, &[5]);
                    recorded(r).setbacks.remove = Some(setback());
                },
                Some(RETRY_MS),
            ),
            ("unclaimed moves", |s, _| view(s).unclaimed = true, Some(LOOK_AGAIN_MS)),
        ];
        for (name, change, expected) in rows {
            let (mut snapshot, mut record) = on();
            change(&mut snapshot, &mut record);
            assert_eq!(run(&snapshot, &record).1.look_again_ms, expected, "{name}");
        }
    }

    #[test]
    fn partitions_are_read_only_if_a_broker_leaves() {
        let (mut snapshot, record) = settled();
        snapshot.rebalance = Fact::default();
        let expected = Needs { rebalance: true, ..Needs::default() };
        assert_eq!(asked(needs, &snapshot, &record), expected);
        snapshot.nodes.get_mut(&id(5)).unwrap().desired = None;
        assert_eq!(asked(needs, &snapshot, &record), Needs { partitions: true, ..expected });
        // A controller has no replicas of its own.
        let (mut snapshot, record) = settled();
        snapshot.nodes.get_mut(&id(0)).unwrap().desired = None;
        assert!(asked(needs, &snapshot, &record).is_empty());
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        nothing_is_done_on_what_is_unknown();
    }
}
