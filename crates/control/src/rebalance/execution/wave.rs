//! Where each task stands, and which are begun next.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, TopicPartition};

use super::job::{DiskTask, Facts, Job, PartitionNow, Task};
use super::{Act, Recorded, is_lost};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is done.
    Done,
    /// Its topic is gone.
    Gone,
    /// It is being moved.
    InFlight {
        /// Whether it goes to a broker that is lost.
        lost: bool,
    },
    /// Somebody else is moving it.
    Foreign,
    /// It can be begun.
    Open,
    /// It waits: for a broker, or for replicas to be in sync.
    Waits,
    /// It has more or fewer replicas than it will have, and was in flight a moment ago: brokers hear of
    /// the end of a move a little after the controller that ends it, so it is looked at again.
    Changed,
    /// It cannot be done any more: it needs a broker that is lost, or another plan.
    Broken,
}

impl Standing {
    /// Whether nothing more will be done about it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Gone | Self::Broken)
    }

    /// Whether it needs another plan.
    pub(super) fn needs_plan(&self) -> bool {
        matches!(self, Self::Broken)
    }
}

/// Where all tasks stand; `None` if that is not known.
pub(super) fn standings(job: &Job, recorded: &Recorded, facts: &Facts) -> Option<Vec<Standing>> {
    let all = facts.partitions.as_ref()?;
    let live = facts.live.as_ref()?;
    let of = |task: &Task| {
        standing((task, job.changes_count), all.get(&task.partition), recorded, facts, live)
    };
    Some(job.tasks.iter().map(of).collect())
}

fn standing(
    (task, changes_count): (&Task, bool),
    now: Option<&PartitionNow>,
    recorded: &Recorded,
    facts: &Facts,
    live: &BTreeSet<NodeId>,
) -> Standing {
    let Some(now) = now else { return Standing::Gone };
    let target: BTreeSet<NodeId> = task.target.iter().copied().collect();
    let lost = |broker: &NodeId| is_lost(recorded, facts, *broker);
    if now.is_moving() {
        let lost = now.adding.iter().any(lost);
        let ours = now.target() == target;
        return if ours { Standing::InFlight { lost } } else { Standing::Foreign };
    }
    if now.replicas == task.target {
        return Standing::Done;
    }
    let adding: Vec<&NodeId> = target.iter().filter(|b| !now.replicas.contains(b)).collect();
    // Who has changed the number of replicas since did not do it for a plan to undo it.
    let changed = !changes_count && target.len() != now.replicas.len();
    if changed && recorded.in_flight.contains(&task.partition) {
        return Standing::Changed;
    }
    if changed || adding.iter().any(|broker| lost(broker)) {
        return Standing::Broken;
    }
    let waits = adding.iter().any(|broker| !live.contains(broker)) || !is_safe(now, &target);
    if waits { Standing::Waits } else { Standing::Open }
}

/// Whether the partition has a leader and most of its replicas in sync, and will have most of the
/// new ones (3). What is added is in sync before anything is taken away; Kafka sees to that.
pub(super) fn is_safe(now: &PartitionNow, target: &BTreeSet<NodeId>) -> bool {
    let most = |part: usize, all: usize| 2 * part > all;
    let stay = now.isr.iter().filter(|broker| target.contains(broker)).count();
    let added = target.iter().filter(|broker| !now.replicas.contains(broker)).count();
    now.leader.is_some()
        && most(now.isr.len(), now.replicas.len())
        && most(stay + added, target.len())
        // Fewer in sync than now is no move's business.
        && stay + added >= now.isr.len().min(target.len())
}

/// Which brokers a move takes part of: the one that sends, and those that receive.
fn takes_part(task: &Task, now: &PartitionNow) -> Vec<NodeId> {
    let added = task
        .target
        .iter()
        .copied()
        .filter(|broker| !now.replicas.contains(broker) || now.adding.contains(broker));
    let mut brokers: Vec<NodeId> = added.collect();
    // Another order of the same replicas moves nothing.
    if !brokers.is_empty() {
        brokers.extend(now.leader.filter(|leader| !brokers.contains(leader)));
    }
    brokers
}

/// The tasks to be begun now, in the job's order, within the limits (2).
pub(super) fn choose<'a>(
    job: &'a Job,
    recorded: &Recorded,
    facts: &Facts,
    standings: &[Standing],
) -> Vec<&'a Task> {
    let Some(all) = &facts.partitions else { return Vec::new() };
    let mut used = facts.others.clone();
    let mut moves = 0;
    let mut reordered = 0;
    let of = |task: &Task| all.get(&task.partition).map(|now| takes_part(task, now));
    for (task, standing) in job.tasks.iter().zip(standings) {
        // What was recorded and is not listed may have been asked for and is on its way; also if it would
        // not be begun now, for it is begun again as soon as it may be.
        let may_come = matches!(standing, Standing::Open | Standing::Waits);
        let pending = may_come && recorded.in_flight.contains(&task.partition);
        if pending || matches!(standing, Standing::InFlight { .. }) {
            let brokers = of(task).unwrap_or_default();
            if brokers.is_empty() {
                reordered += 1
            } else {
                moves += 1
            }
            brokers.into_iter().for_each(|broker| *used.entry(broker).or_default() += 1);
        }
    }
    let mut wave = Vec::new();
    for (task, standing) in job.tasks.iter().zip(standings) {
        if *standing != Standing::Open {
            continue;
        }
        if recorded.in_flight.contains(&task.partition) {
            wave.push(task);
            continue;
        }
        let Some(brokers) = of(task) else { continue };
        if brokers.is_empty() {
            if reordered < job.limits.leaders_max {
                reordered += 1;
                wave.push(task);
            }
            continue;
        }
        let per_broker = job.limits.moves_per_broker_max.max(1);
        let room = |broker: &NodeId| used.get(broker).is_none_or(|used| *used < per_broker);
        if moves < job.limits.moves_max.max(1) && brokers.iter().all(room) {
            moves += 1;
            brokers.into_iter().for_each(|broker| *used.entry(broker).or_default() += 1);
            wave.push(task);
        }
    }
    wave
}

/// Takes out of the record what is not in flight any more.
pub(super) fn forget_ended(job: &Job, new: &mut Recorded, standings: &[Standing]) {
    for (task, standing) in job.tasks.iter().zip(standings) {
        match standing {
            Standing::Done
            | Standing::Gone
            | Standing::Foreign
            | Standing::Changed
            | Standing::Broken => {
                new.in_flight.remove(&task.partition);
            }
            Standing::InFlight { .. } => {
                new.in_flight.insert(task.partition.clone());
            }
            Standing::Open | Standing::Waits => {}
        }
    }
}

/// Cancels what goes to a broker that is lost, and, when all stops, whatever is in flight.
pub(super) fn cancel(
    job: &Job,
    recorded: &Recorded,
    facts: &Facts,
    standings: &[Standing],
    acts: &mut Vec<Act>,
) {
    let Some(all) = &facts.partitions else { return };
    let stops = recorded.phase == super::Phase::Stopping;
    for (task, standing) in job.tasks.iter().zip(standings) {
        if let Standing::InFlight { lost } = standing
            && (stops || *lost)
            && all.contains_key(&task.partition)
        {
            acts.push(Act::Cancel(task.partition.clone()));
        }
    }
}

/// Whether the first replica of the task leads, or cannot.
pub(super) fn leads(task: &Task, all: &BTreeMap<TopicPartition, PartitionNow>) -> bool {
    let Some(now) = all.get(&task.partition) else { return true };
    let first = task.target.first();
    now.replicas != task.target || now.leader.as_ref() == first
}

/// The next leaders.
pub(super) fn elect(job: &Job, facts: &Facts) -> Option<Act> {
    let all = facts.partitions.as_ref()?;
    let ready = |task: &&Task| {
        let in_sync =
            |now: &PartitionNow| task.target.first().is_some_and(|first| now.isr.contains(first));
        !leads(task, all) && all.get(&task.partition).is_some_and(in_sync)
    };
    let next = job.tasks.iter().filter(ready).take(job.limits.leaders_max.max(1));
    let next: BTreeSet<TopicPartition> = next.map(|task| task.partition.clone()).collect();
    (!next.is_empty()).then_some(Act::Elect(next))
}

/// Whether all replicas are on their disks, or cannot be; `None` if that is not known.
pub(super) fn is_shifted(job: &Job, recorded: &Recorded, facts: &Facts) -> Option<bool> {
    if job.disks.is_empty() {
        return Some(true);
    }
    let all = facts.disks.as_ref()?;
    let is_over = |task: &DiskTask| match facts.silent.contains(&task.replica.broker) {
        true => is_lost(recorded, facts, task.replica.broker),
        false => all.get(&task.replica).is_none_or(|now| now.path == task.path),
    };
    Some(job.disks.iter().all(is_over))
}

/// Whether some replicas stay where they are because their broker is lost.
pub(super) fn is_disk_lost(job: &Job, recorded: &Recorded, facts: &Facts) -> bool {
    let silent = |task: &DiskTask| facts.silent.contains(&task.replica.broker);
    job.disks.iter().any(|task| silent(task) && is_lost(recorded, facts, task.replica.broker))
}

/// The next replicas to change their disk.
pub(super) fn shift(job: &Job, facts: &Facts) -> Vec<Act> {
    let Some(all) = &facts.disks else { return Vec::new() };
    let mut used: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (replica, now) in all {
        if now.future.is_some() {
            *used.entry(replica.broker).or_default() += 1;
        }
    }
    let mut acts = Vec::new();
    for task in &job.disks {
        let Some(now) = all.get(&task.replica) else { continue };
        let used = used.entry(task.replica.broker).or_default();
        let waits = now.path != task.path && now.future.is_none();
        if waits && *used < job.limits.shifts_per_broker_max.max(1) {
            *used += 1;
            acts.push(Act::Shift(task.replica.clone(), task.path.clone()));
        }
    }
    acts
}
