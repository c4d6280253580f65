//! The custom resources of Gregor as Rust types, with their schemas and what of them is honoured.
//!
//! The resources are those that people already have: `Kafka`, `KafkaNodePool`, `KafkaRebalance`,
//! `KafkaTopic` and `KafkaUser` of `kafka.strimzi.io`, and `StrimziPodSet` of `core.strimzi.io`. Three things hold everywhere:
//!
//! 1. **Nothing that a user wrote is lost.** Every object of a schema keeps the fields that it does
//!    not know ([`Rest`]), in the API server and in our types, so that they can be reported.
//! 2. **Nothing that Strimzi accepts is rejected.** A field has the type, the values and the limits
//!    that it has there, or is not checked at all. So there are no rules of our own in the schemas;
//!    what else is wrong with a cluster is said in its conditions.
//! 3. **What is not acted on is said.** [`compat`] has a verdict on every field of Strimzi 1.2.0,
//!    and [`compat::unhonoured`] finds those of an object that its user must be told about.
//!
//! [`read`] makes the plain types of `control` out of them, in which all decisions are made.
//!
//! This crate translates and does nothing: no client, no clock, no file.

#![allow(clippy::duplicated_attributes, reason = "two printer columns of one type are no mistake")]

pub mod compat;
pub mod crds;
pub mod kafka;
pub mod names;
pub mod node_pool;
pub mod pod_set;
pub mod read;
pub mod rebalance;
pub mod schema;
pub mod topic;
pub mod user;

mod common;

pub use common::{
    AdditionalVolume, Condition, FORBIDDEN_VOLUME_SOURCES, JvmOptions, ObjectTemplate, Quantity,
    Reference, ResourceTemplate, Resources, Rest, SystemProperty, Verbatim,
};
pub use kafka::{Kafka, KafkaSpec, KafkaStatus};
pub use node_pool::{KafkaNodePool, KafkaNodePoolSpec, KafkaNodePoolStatus};
pub use pod_set::{StrimziPodSet, StrimziPodSetSpec, StrimziPodSetStatus};
pub use rebalance::{KafkaRebalance, KafkaRebalanceSpec, KafkaRebalanceStatus};
pub use topic::{KafkaTopic, KafkaTopicSpec, KafkaTopicStatus};
pub use user::{KafkaUser, KafkaUserSpec, KafkaUserStatus};
