//! Ids and names, with their invariants in the constructors.
//!
//! No I/O, no clock, and no knowledge of wire formats. Every crate may depend on this one; it depends on none
//! of ours.

#![warn(clippy::wildcard_enum_match_arm)]

mod ids;
mod topic;

pub use ids::{ClusterId, DirectoryId, InvalidId, NodeId};
pub use topic::{InvalidTopicName, PartitionId, TopicId, TopicName, TopicPartition};
