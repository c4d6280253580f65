//! Carrying out a plan: which moves are begun next, from what Kafka says now.
//!
//! 1. What is to be begun is recorded before it is begun. What has been begun, and how far it is, is
//!    what Kafka says: a restart resumes from there.
//! 2. No more at once than the limits allow, for each broker and for the cluster, moves of others
//!    included.
//! 3. A move is begun only if the partition has the majority of its replicas in sync, now and with what
//!    it will have when the move is done.
//! 4. A throttle is set on a broker or a topic when the values that were there are recorded, and not
//!    before; the moves come after the throttle. It is taken back to those values, whatever happens.
//! 5. Stopping cancels what is in flight, which gives back what was taken, and ends when Kafka lists
//!    nothing of it any more.
//! 6. A broker that stays down takes no part: what goes to it is cancelled, the rest is done, and a
//!    new plan is asked for. One that is only restarted is waited for.
//! 7. What could not be read begins nothing, cancels nothing and ends nothing.
//! 8. Facts that are older than ten seconds begin and cancel nothing ([`Act::is_stale`]).
//!
//! What it must not do: choose where replicas go. That is the plan's.

mod answer;
mod job;
mod progress;
mod seen;
mod throttle;
mod wave;

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::request::Execution;
use crate::cluster::fresh::is_old;
pub use answer::Door;
pub use job::{Disk, DiskNow, DiskTask, Facts, Job, LimitSpec, Limits, PartitionNow, Task};
pub use progress::Progress;
pub use seen::{MoveSeen, PartitionSeen, is_gone};
pub use throttle::{Subject, Values};

/// A broker that is away for longer does not come back soon: a restart with a long log recovery is
/// waited for by others, not by moves.
const AWAY_MS_MAX: u64 = 5 * 60_000;

/// Leadership that does not come about in this time is left to Kafka. Cruise Control waits as long.
const ELECTION_MS_MAX: u64 = 3 * 60_000;

/// How far the execution is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub enum Phase {
    /// Replicas move between brokers.
    #[default]
    Moving,
    /// Replicas move between the disks of a broker.
    Shifting,
    /// Leaders change.
    Electing,
    /// What is in flight is cancelled.
    Stopping,
    /// The throttle is taken back.
    Restoring,
    /// Nothing is left to do.
    Ended,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// All replicas are on their brokers.
    Placed,
    /// All replicas are on their disks.
    Shifted,
    /// All leaders lead, or will not.
    Elected,
    /// It is to stop.
    StopAsked,
    /// Nothing of it is in flight.
    Cleared,
    /// Something that was asked for earlier has begun after all.
    Reappeared,
    /// Everything is set as it was before.
    Restored,
}

use Event::{Cleared, Elected, Placed, Reappeared, Restored, Shifted, StopAsked};
use Phase::{Electing, Ended, Moving, Restoring, Shifting, Stopping};

/// The whole machine. A pair that is not listed is a bug in [`read`], not a no-op.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Phase, Event, Phase)] = &[
    (Moving,    Placed,     Shifting),
    (Moving,    StopAsked,  Stopping),
    (Shifting,  Shifted,    Electing),
    (Shifting,  StopAsked,  Stopping),
    (Electing,  Elected,    Restoring),
    (Electing,  StopAsked,  Stopping),
    (Stopping,  Cleared,    Restoring),
    (Restoring, Reappeared, Stopping),
    (Restoring, Restored,   Ended),
];

/// The phase that an event leads to; `None` for a pair that is not in the table.
#[must_use]
pub fn next(phase: Phase, event: Event) -> Option<Phase> {
    TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map(|(.., to)| *to)
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// All is done.
    Finished,
    /// It was stopped.
    Stopped,
    /// What could be done is done; for the rest a new plan is needed.
    Outdated,
}

/// What is kept from pass to pass, besides the job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// How far it is.
    pub phase: Phase,
    /// How it ends, once that is known.
    pub outcome: Option<Outcome>,
    /// Since when it is in its phase.
    pub since_ms: u64,
    /// When it began.
    pub began_ms: u64,
    /// Partitions whose moves may have been begun, and have not been seen to end.
    pub in_flight: BTreeSet<TopicPartition>,
    /// Brokers that are away, and since when.
    pub away: BTreeMap<NodeId, u64>,
    /// The throttle: how much each broker may move in a second; `None` is no limit.
    pub rate_bytes: Option<u64>,
    /// What was set before the throttle.
    pub former: BTreeMap<Subject, Values>,
    /// When progress was last measured, and what it was then.
    pub measured: Option<(u64, u64)>,
}

impl Recorded {
    /// An execution that begins now.
    #[must_use]
    pub fn begin(limits: &Limits, now_ms: u64) -> Self {
        Self {
            since_ms: now_ms,
            began_ms: now_ms,
            rate_bytes: limits.rate_bytes_max,
            ..Self::default()
        }
    }
}

impl Recorded {
    /// Whether the next decision looks at the rate, and so needs to know of distress.
    #[must_use]
    pub fn measures(&self, now_ms: u64) -> bool {
        self.phase == Moving && throttle::is_due(self, now_ms)
    }

    /// Forgets what was set on a broker before the throttle. Only for one that is away, and only once
    /// Kafka has acknowledged the former values: it cannot be asked for them, as others are.
    pub fn forget_former(&mut self, broker: NodeId) {
        self.former.remove(&Subject::Broker(broker));
    }

    /// What the request hears of it: see [`request::Facts`](super::request::Facts). A plan that is
    /// outdated is as good as lost: another one is asked for.
    #[must_use]
    pub fn execution(&self) -> Execution {
        match (self.phase, self.outcome) {
            (Ended, Some(Outcome::Finished)) => Execution::Finished,
            (Ended, Some(Outcome::Stopped)) => Execution::Stopped,
            (Ended, Some(Outcome::Outdated) | None) => Execution::Lost,
            (Moving | Shifting | Electing | Stopping | Restoring, _) => Execution::Running,
        }
    }
}

/// Something to do in Kafka. Each is safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Set both values of a throttle; none where nothing is to be set.
    Configure(Subject, Values),
    /// Move a partition to these brokers, leader first.
    Reassign(TopicPartition, Vec<NodeId>),
    /// Take the move of a partition back.
    Cancel(TopicPartition),
    /// Move a replica to another disk of its broker.
    Shift(Disk, String),
    /// Let the first replica of each lead.
    Elect(BTreeSet<TopicPartition>),
}

impl Act {
    /// Whether the act can hurt: it begins or cancels moves. Throttles and elections cannot.
    #[must_use]
    pub const fn can_hurt(&self) -> bool {
        match self {
            Self::Reassign(..) | Self::Cancel(_) | Self::Shift(..) => true,
            Self::Configure(..) | Self::Elect(_) => false,
        }
    }

    /// Whether the facts are too old for the act: partitions may have lost in-sync replicas since then. It is left to
    /// another decision.
    #[must_use]
    pub const fn is_stale(&self, facts: &Facts, now_ms: u64) -> bool {
        self.can_hurt() && is_old(now_ms.saturating_sub(facts.now_ms))
    }
}

/// What to record and then to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What happened, if anything.
    pub event: Option<Event>,
    /// What to record before anything is done.
    pub recorded: Recorded,
    /// What to do, in this order; when one fails, the rest is left for the next pass.
    pub acts: Vec<Act>,
    /// What to read for the next pass.
    pub reads: BTreeSet<Subject>,
    /// How far it is.
    pub progress: Progress,
}

/// Decides what is done next.
#[must_use]
pub fn decide(job: &Job, recorded: &Recorded, facts: &Facts) -> Decision {
    let mut new = recorded.clone();
    notice_brokers(&mut new, facts);
    let standings = wave::standings(job, &new, facts);
    let progress = progress::measure(job, &new, facts, standings.as_deref());
    let event = read(job, &new, facts, standings.as_deref());
    if let Some(event) = event {
        enter(job, &mut new, event, (standings.as_deref(), facts));
    }
    throttle::adapt(&mut new, &job.limits, facts, &progress);
    let (mut acts, mut reads) = (Vec::new(), BTreeSet::new());
    if let Some(standings) = &standings {
        act(job, &mut new, facts, standings, (&mut acts, &mut reads));
    }
    Decision { event, recorded: new, acts, reads, progress }
}

/// What is being collected: what to do, and what to read.
type Collected<'a> = (&'a mut Vec<Act>, &'a mut BTreeSet<Subject>);

fn act(
    job: &Job,
    new: &mut Recorded,
    facts: &Facts,
    standings: &[wave::Standing],
    (acts, reads): Collected<'_>,
) {
    wave::cancel(job, new, facts, standings, acts);
    match new.phase {
        Moving => {
            wave::forget_ended(job, new, standings);
            let wave =
                if facts.hold { Vec::new() } else { wave::choose(job, new, facts, standings) };
            // Without the values that are there now nothing is set, and without the throttle nothing
            // is moved (4).
            let ready = throttle::set(job, new, facts, &wave, (acts, reads));
            if ready {
                for task in wave {
                    new.in_flight.insert(task.partition.clone());
                    acts.push(Act::Reassign(task.partition.clone(), task.target.clone()));
                }
            }
        }
        Shifting if !facts.hold => acts.extend(wave::shift(job, facts)),
        Electing if !facts.hold => acts.extend(wave::elect(job, facts)),
        Restoring => throttle::restore_all(new, facts, (acts, reads)),
        Shifting | Electing | Stopping | Ended => {}
    }
}

/// Keeps the time since when brokers are away.
fn notice_brokers(new: &mut Recorded, facts: &Facts) {
    let Some(live) = &facts.live else { return };
    new.away.retain(|broker, _| !live.contains(broker));
    for broker in facts.brokers.difference(live) {
        new.away.entry(*broker).or_insert(facts.now_ms);
    }
}

/// Whether a broker has been away for so long that it is not waited for, or takes nothing any more.
fn is_lost(recorded: &Recorded, facts: &Facts, broker: NodeId) -> bool {
    let since = recorded.away.get(&broker);
    let away = since.is_some_and(|since| facts.now_ms.saturating_sub(*since) >= AWAY_MS_MAX);
    away || facts.closed.contains(&broker) || !facts.brokers.contains(&broker)
}

/// Reads the facts in the light of what is recorded. First rule that holds wins.
fn read(
    job: &Job,
    recorded: &Recorded,
    facts: &Facts,
    standings: Option<&[wave::Standing]>,
) -> Option<Event> {
    let stop = facts.stop || facts.claimed == Some(false);
    match recorded.phase {
        Moving | Shifting | Electing if stop => Some(StopAsked),
        Moving => {
            // Nothing is left that could be begun, or is in flight.
            standings?.iter().all(wave::Standing::is_over).then_some(Placed)
        }
        Shifting => wave::is_shifted(job, recorded, facts)?.then_some(Shifted),
        Electing => {
            let late = facts.now_ms.saturating_sub(recorded.since_ms) >= ELECTION_MS_MAX;
            let all = facts.partitions.as_ref()?;
            let lost = |broker: &NodeId| is_lost(recorded, facts, *broker);
            let leads =
                |task: &Task| wave::leads(task, all) || task.target.first().is_some_and(lost);
            (late || job.tasks.iter().all(leads)).then_some(Elected)
        }
        Stopping => (!any_in_flight(standings?)).then_some(Cleared),
        Restoring if any_in_flight(standings?) => Some(Reappeared),
        Restoring => recorded.former.is_empty().then_some(Restored),
        Ended => None,
    }
}

fn any_in_flight(standings: &[wave::Standing]) -> bool {
    standings.iter().any(|standing| matches!(standing, wave::Standing::InFlight { .. }))
}

fn enter(
    job: &Job,
    new: &mut Recorded,
    event: Event,
    (standings, facts): (Option<&[wave::Standing]>, &Facts),
) {
    let from = new.phase;
    let Some(to) = next(from, event) else {
        debug_assert!(false, "{from:?} does not know {event:?}");
        return;
    };
    new.phase = to;
    new.since_ms = facts.now_ms;
    match event {
        StopAsked => new.outcome = Some(Outcome::Stopped),
        Placed => {
            let broken = |standing: &wave::Standing| standing.needs_plan();
            let outdated = standings.is_some_and(|all| all.iter().any(broken));
            new.outcome = outdated.then_some(Outcome::Outdated);
        }
        Shifted if wave::is_disk_lost(job, new, facts) => new.outcome = Some(Outcome::Outdated),
        Restored => new.outcome = Some(new.outcome.unwrap_or(Outcome::Finished)),
        Shifted | Elected | Cleared | Reappeared => {}
    }
    if matches!(to, Restoring | Ended) {
        new.in_flight.clear();
    }
}

#[cfg(test)]
mod counts;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
