//! Consumer lag and metrics of topics: which series a cluster has, from what Kafka says.
//!
//! Names, labels and values are those of the exporter that Strimzi deploys ([danielqsj/kafka_exporter]), so dashboards and
//! alerts stay as they are.
//!
//! 1. Only topics and groups that the [`Filter`] of the cluster wants have series.
//! 2. The number of series is bounded ([`bound`]): whoever may create groups must not exhaust the memory of the operator.
//!    What is left out is counted.
//! 3. What is unknown has no value: a partition without a leader has no offsets.
//!
//! What it must not do: ask Kafka, or know when it is asked.
//!
//! [danielqsj/kafka_exporter]: https://github.com/danielqsj/kafka_exporter

mod bound;
mod filter;
mod series;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, TopicName, TopicPartition};

pub use bound::{SERIES_MAX, TEXT_BYTES_MAX, bound};
pub(crate) use filter::read as read_regex;
pub use filter::{Filter, InvalidRegex, Patterns};
pub use series::{Family, labels, render};

/// What Kafka said of a cluster, at about one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// The brokers that are up.
    pub brokers: Vec<Broker>,
    /// The topics that the filter wants.
    pub topics: Vec<Topic>,
    /// The groups that the filter wants.
    pub groups: Vec<Group>,
}

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its id.
    pub id: NodeId,
    /// Host and port.
    pub address: String,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub number: i32,
    /// The leader, if it has one.
    pub leader: Option<NodeId>,
    /// The first replica.
    pub preferred: Option<NodeId>,
    /// The number of replicas.
    pub replicas: usize,
    /// The number of replicas in sync.
    pub in_sync: usize,
    /// The first offset that is still there.
    pub oldest: Option<u64>,
    /// The offset that the next record gets.
    pub latest: Option<u64>,
}

/// A group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// The number of its members; `None` if it is unknown.
    pub members: Option<usize>,
    /// What its members read now; `None` if it is unknown.
    pub assigned: Option<BTreeSet<TopicPartition>>,
    /// What it has committed.
    pub committed: BTreeMap<TopicPartition, u64>,
}
