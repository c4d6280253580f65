//! The words of the project: ids and names, with their invariants in the constructors.
//!
//! Nothing here does I/O, reads a clock or knows how Kafka or Kubernetes write these things on a
//! wire. Everything else may depend on this crate; it depends on none of ours.

#![warn(clippy::wildcard_enum_match_arm)]

mod ids;
mod topic;

pub use ids::{ClusterId, DirectoryId, InvalidId, NodeId};
pub use topic::{InvalidTopicName, PartitionId, TopicId, TopicName, TopicPartition};
