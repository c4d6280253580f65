//! The operator: reconciles clusters with their `Kafka` and `KafkaNodePool` resources.
//!
//! Every pass observes, asks `control` what to do, records it, and acts. A pass is short and never waits:
//! what has to happen first is what the next pass looks for.
//!
//! What this crate must not do: decide anything, write past [`mod@write`], or wait on Endpoints.

pub mod body;
mod client;
pub mod cluster;
pub mod context;
pub mod crash;
pub mod cruise_control;
pub mod fence;
#[cfg(test)]
mod hostile;
pub mod http;
mod https;
pub mod install;
mod lag;
pub mod lease;
pub mod liveness;
mod managed;
pub mod metrics;
mod news;
mod per_cluster;
pub mod pki;
pub mod pod_set;
pub mod rebalance;
pub mod runtime;
mod seen;
mod store;
pub mod strimzi;
pub mod takeover;
mod tally;
mod time;
pub mod topics;
pub mod trace;
pub mod users;
pub mod words;
pub mod write;

pub use store::format_version;
