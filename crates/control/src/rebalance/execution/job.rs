//! What is to be carried out, within which limits, and what Kafka says of it now.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, PartitionId, TopicName, TopicPartition};
use serde::{Deserialize, Serialize};

use super::throttle::{Subject, Values};

/// Bytes in a MB, as the optimizer counts them.
const MB: f64 = 1_048_576.0;

/// A partition that gets other replicas, or another leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The partition.
    pub partition: TopicPartition,
    /// Its brokers when it is done, leader first.
    pub target: Vec<NodeId>,
    /// What this copies from broker to broker.
    pub bytes: u64,
}

/// A replica on a broker with several disks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Disk {
    /// The partition.
    pub partition: TopicPartition,
    /// The broker.
    pub broker: NodeId,
}

/// A replica that gets another disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTask {
    /// Which one.
    pub replica: Disk,
    /// The log directory that it goes to.
    pub path: String,
    /// What this copies from disk to disk.
    pub bytes: u64,
}

/// How much is done at once. Cruise Control's numbers, where it has some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Moves that a broker takes part in.
    pub moves_per_broker_max: usize,
    /// Moves in the cluster.
    pub moves_max: usize,
    /// Leaders that change.
    pub leaders_max: usize,
    /// Moves between the disks of a broker.
    pub shifts_per_broker_max: usize,
    /// What a broker may move in a second, if a user has set that.
    pub rate_bytes_max: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            moves_per_broker_max: 5,
            moves_max: 1_250,
            leaders_max: 1_000,
            shifts_per_broker_max: 2,
            rate_bytes_max: None,
        }
    }
}

/// The numbers of a spec that limit moves. One that is not positive is as if it were not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitSpec {
    /// Moves that a broker takes part in.
    pub moves_per_broker: Option<i64>,
    /// Leaders that change.
    pub leaders: Option<i64>,
    /// Moves between the disks of a broker.
    pub shifts_per_broker: Option<i64>,
    /// What a broker may move in a second.
    pub rate_bytes: Option<i64>,
}

impl Limits {
    /// The limits that a user has asked for, and the usual ones where none are set.
    #[must_use]
    pub fn of(spec: &LimitSpec) -> Self {
        let number = |value: Option<i64>| {
            value.filter(|number| *number > 0).and_then(|number| usize::try_from(number).ok())
        };
        let usual = Self::default();
        let moves = number(spec.moves_per_broker).unwrap_or(usual.moves_per_broker_max);
        let shifts = number(spec.shifts_per_broker).unwrap_or(usual.shifts_per_broker_max);
        let rate = spec.rate_bytes.filter(|rate| *rate > 0);
        Self {
            moves_per_broker_max: moves,
            leaders_max: number(spec.leaders).unwrap_or(usual.leaders_max),
            shifts_per_broker_max: shifts,
            rate_bytes_max: rate.and_then(|rate| u64::try_from(rate).ok()),
            ..usual
        }
    }
}

/// What is to be carried out. Stored once; it does not change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Job {
    /// Within which limits.
    pub limits: Limits,
    /// The partitions, in the order in which they are begun.
    pub tasks: Vec<Task>,
    /// The replicas that change their disk.
    pub disks: Vec<DiskTask>,
    /// Whether partitions get another number of replicas. A plan for a rebalance never does that.
    #[serde(default)]
    pub changes_count: bool,
}

impl Job {
    /// The job of carrying out a plan, in its order.
    #[must_use]
    pub fn of(plan: &placement::Plan, limits: Limits) -> Self {
        let task = |change: &placement::Change| Task {
            partition: name(&change.topic, change.partition),
            target: change.after.clone(),
            bytes: (change.mb * MB).round() as u64,
        };
        let tasks = plan.order.iter().map(|at| task(&plan.changes[*at])).collect();
        Self { limits, tasks, ..Self::default() }
    }

    /// The job of moving replicas between the disks of their brokers.
    #[must_use]
    pub fn of_disks(changes: &[placement::DiskChange], limits: Limits) -> Self {
        let task = |change: &placement::DiskChange| DiskTask {
            replica: Disk {
                partition: name(&change.topic, change.partition),
                broker: change.broker,
            },
            path: change.to.clone(),
            bytes: (change.mb * MB).round() as u64,
        };
        Self { limits, disks: changes.iter().map(task).collect(), ..Self::default() }
    }
}

fn name(topic: &TopicName, partition: u32) -> TopicPartition {
    let partition = PartitionId(i32::try_from(partition).unwrap_or(i32::MAX));
    TopicPartition { topic: topic.clone(), partition }
}

/// A partition as Kafka describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionNow {
    /// Its replicas, preferred leader first; with those of a move that are being added.
    pub replicas: Vec<NodeId>,
    /// Of these, those that are being added.
    pub adding: Vec<NodeId>,
    /// Of these, those that go when the move is done.
    pub removing: Vec<NodeId>,
    /// Those in sync.
    pub isr: Vec<NodeId>,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// What has arrived at brokers that are being added, where that is known.
    pub arrived_bytes: u64,
}

impl PartitionNow {
    /// Whether it is being moved.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// The brokers that it will have, or has.
    #[must_use]
    pub fn target(&self) -> BTreeSet<NodeId> {
        self.replicas.iter().copied().filter(|broker| !self.removing.contains(broker)).collect()
    }
}

/// Where a replica is on its broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskNow {
    /// The log directory that it is in.
    pub path: String,
    /// The log directory that it is being copied to.
    pub future: Option<String>,
}

/// What the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The partitions of the job: all, or nothing is known. One that is missing was deleted.
    pub partitions: Option<BTreeMap<TopicPartition, PartitionNow>>,
    /// The replicas of the job's disk tasks, likewise; one that is missing is not there.
    pub disks: Option<BTreeMap<Disk, DiskNow>>,
    /// Brokers of disk tasks whose disks could not be read: of these nothing is in `disks`.
    pub silent: BTreeSet<NodeId>,
    /// For each broker, moves that are in flight and not the job's.
    pub others: BTreeMap<NodeId, usize>,
    /// The brokers of the cluster.
    pub brokers: BTreeSet<NodeId>,
    /// Those that run.
    pub live: Option<BTreeSet<NodeId>>,
    /// Those that are to get nothing, because they leave.
    pub closed: BTreeSet<NodeId>,
    /// What is set for throttles now, as far as it was read.
    pub settings: BTreeMap<Subject, Values>,
    /// Whether partitions that we do not touch fall behind.
    pub distress: Option<bool>,
    /// Whether there is still a request for it.
    pub claimed: Option<bool>,
    /// Whether it is to stop.
    pub stop: bool,
    /// Whether it is to begin nothing new.
    pub hold: bool,
    /// The time, from before the first of these facts was read.
    pub now_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_positive_are_as_if_not_set() {
        let limits = Limits::of(&LimitSpec {
            moves_per_broker: Some(7),
            leaders: Some(0),
            shifts_per_broker: Some(3),
            rate_bytes: Some(1_000),
        });
        assert_eq!((limits.moves_per_broker_max, limits.leaders_max), (7, 1_000));
        assert_eq!((limits.shifts_per_broker_max, limits.rate_bytes_max), (3, Some(1_000)));
        for number in [0, -1, i64::MIN] {
            let number = Some(number);
            let spec = LimitSpec {
                moves_per_broker: number,
                leaders: number,
                shifts_per_broker: number,
                rate_bytes: number,
            };
            assert_eq!(Limits::of(&spec), Limits::default());
        }
        assert_eq!(Limits::of(&LimitSpec::default()), Limits::default());
    }
}
