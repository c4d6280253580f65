//! What is wrong with partitions: counting, without I/O.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use kafka_admin::{Admin, Partition, Topic, TopicPage};
use model::TopicName;
use serde::Serialize;

/// The setting that says how many replicas must be in sync for a write to be safe.
const MIN_ISR: &str = "min.insync.replicas";

/// How many partitions are in which trouble. One partition can be in several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    pub(super) partitions: usize,
    /// Those with a replica that is not in sync and not one that a move just adds.
    pub(super) under_replicated: usize,
    /// Those that take no writes from producers that wait for all; `None` if the setting that
    /// decides it could not be read.
    pub(super) under_min_isr: Option<usize>,
    /// Those without a leader.
    pub(super) offline: usize,
    /// Those that a move in flight adds replicas to or takes them from.
    pub(super) reassigning: usize,
}

impl Health {
    /// The health of one topic.
    pub(super) fn of(topic: &Topic, min_isr: Option<usize>) -> Self {
        let count = |is: &dyn Fn(&Partition) -> bool| {
            topic.partitions.iter().filter(|partition| is(partition)).count()
        };
        Self {
            partitions: topic.partitions.len(),
            under_replicated: count(&under_replicated),
            under_min_isr: min_isr.map(|min| count(&|partition| under_min_isr(partition, min))),
            offline: count(&|partition| partition.leader.is_none()),
            reassigning: count(&reassigning),
        }
    }

    /// Nothing, to begin a sum with.
    pub(super) fn zero() -> Self {
        Self { under_min_isr: Some(0), ..Self::default() }
    }

    /// Both together. What is unknown of one is unknown of the sum.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            partitions: self.partitions + other.partitions,
            under_replicated: self.under_replicated + other.under_replicated,
            under_min_isr: self.under_min_isr.zip(other.under_min_isr).map(|(a, b)| a + b),
            offline: self.offline + other.offline,
            reassigning: self.reassigning + other.reassigning,
        }
    }

    /// Whether something is wrong. A move in flight is not.
    pub(super) fn is_bad(&self) -> bool {
        self.under_replicated > 0 || self.under_min_isr.is_some_and(|n| n > 0) || self.offline > 0
    }
}

/// A replica that a move adds is expected to be behind, all others are not.
pub(super) fn under_replicated(partition: &Partition) -> bool {
    let mut replicas = partition.replicas.iter();
    replicas.any(|id| !partition.isr.contains(id) && !partition.adding.contains(id))
}

/// As brokers judge it: a partition with fewer replicas than the minimum needs only those it has.
pub(super) fn under_min_isr(partition: &Partition, min_isr: usize) -> bool {
    partition.isr.len() < min_isr.min(settled_replicas(partition))
}

/// How many replicas it has but for those that a move adds.
pub(super) fn settled_replicas(partition: &Partition) -> usize {
    partition.replicas.iter().filter(|id| !partition.adding.contains(id)).count()
}

fn reassigning(partition: &Partition) -> bool {
    !partition.adding.is_empty() || !partition.removing.is_empty()
}

/// Reads the smallest number of replicas in sync that each topic of a page asks for. A topic that was
/// deleted meanwhile is left out.
pub(super) async fn read_min_isr(
    admin: &Admin,
    page: &TopicPage,
) -> anyhow::Result<BTreeMap<TopicName, usize>> {
    let names: BTreeSet<_> = page.topics.iter().map(|topic| topic.name.clone()).collect();
    let configs = admin.describe_topic_configs(&names, Some(&[MIN_ISR])).await;
    let configs = configs.context("cannot read min.insync.replicas of the topics")?;
    let value = |(name, entries): (TopicName, Result<Vec<kafka_admin::ConfigEntry>, _>)| {
        let entry = entries.ok()?.into_iter().find(|entry| entry.name == MIN_ISR)?;
        Some((name, entry.value?.parse().ok()?))
    };
    Ok(configs.into_iter().filter_map(value).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use model::{NodeId, PartitionId};

    use super::*;

    pub(in super::super) fn ids(numbers: &[i32]) -> Vec<NodeId> {
        numbers.iter().filter_map(|id| NodeId::new(*id)).collect()
    }

    pub(in super::super) fn partition(number: i32, replicas: &[i32], isr: &[i32]) -> Partition {
        Partition {
            id: PartitionId(number),
            leader: ids(isr).first().copied(),
            leader_epoch: 3,
            replicas: ids(replicas),
            isr: ids(isr),
            offline: vec![],
            eligible_leaders: vec![],
            adding: vec![],
            removing: vec![],
        }
    }

    pub(in super::super) fn topic(name: &str, partitions: Vec<Partition>) -> Topic {
        let id = "U3fHvCoMVWiCVYa2ri_K5w".parse().unwrap();
        Topic { name: TopicName::new(name).unwrap(), id, internal: false, partitions }
    }

    #[test]
    fn each_trouble_is_counted_once_for_each_partition() {
        let moving = Partition {
            adding: ids(&[4]),
            removing: ids(&[1]),
            ..partition(3, &[1, 2, 3, 4], &[1, 2, 3])
        };
        let partitions = vec![
            partition(0, &[1, 2, 3], &[1, 2, 3]),
            partition(1, &[1, 2, 3], &[1]),
            partition(2, &[1, 2, 3], &[]),
            moving,
            partition(4, &[1], &[1]),
        ];
        let topic = topic("a", partitions);
        let expected = Health {
            partitions: 5,
            under_replicated: 2,
            under_min_isr: Some(2),
            offline: 1,
            reassigning: 1,
        };
        assert_eq!(Health::of(&topic, Some(2)), expected);
        assert!(expected.is_bad());
        assert_eq!(Health::of(&topic, None).under_min_isr, None);
        assert_eq!(expected.plus(Health::of(&topic, None)).under_min_isr, None);
        assert_eq!(Health::zero().plus(expected), expected);
    }

    #[test]
    fn a_move_in_flight_is_no_trouble_by_itself() {
        let moving = Partition { adding: ids(&[4]), ..partition(0, &[1, 2, 4], &[1, 2]) };
        assert!(!Health::of(&topic("a", vec![moving]), Some(2)).is_bad());
    }
}
