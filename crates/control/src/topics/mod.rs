//! Topics as resources: what Kafka is asked to change for each `KafkaTopic`, and what its status says.
//!
//! A pass reads the resources of a cluster from a cache and the topics that they name from Kafka, once for all. For each
//! resource, [`triage`] decides whether Kafka matters at all, [`plan`] compares its spec with what Kafka has, and
//! [`Plan::report`] makes a status of the plan and of Kafka's answers. [`batch`] cuts requests.
//!
//! 1. A resource never affects another one: whatever is wrong with it is said in its own status.
//! 2. A topic that could not be read is neither created nor deleted nor changed.
//! 3. A topic is deleted only for a resource that is being deleted, that manages it, and that no other resource claims
//!    it besides. Where the id of the topic is known, only the topic with this id is deleted.
//! 4. Overrides of a topic that existed before its resource are kept if the resource says nothing about configuration.
//! 5. Which of several resources owns a topic depends on the resources only, not on the order of events.
//!
//! What it must not do: read, write, or know how Kubernetes and Kafka encode any of it.

pub mod batch;
pub mod config;
mod decide;
mod ownership;
mod plan;
pub mod replicas;
mod report;
mod resource;
mod settings;

#[cfg(test)]
mod row_tests;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use decide::{Triage, of_vanished, triage};
pub use ownership::Ownership;
pub use plan::{Answers, Found, NewTopic, Plan, View, plan};
pub use report::{ChangeState, Condition, Kind, News, Problem, Reason, ReplicasChange, Report};
pub use resource::{ConfigMode, FINALIZER, Resource, Spec, Status, Value};
pub(crate) use settings::interval_ms;
pub use settings::{Alterable, Settings};
