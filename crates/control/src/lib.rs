//! Every decision: facts go in, a value comes out that says what to do next, or why not.
//!
//! Nothing here does I/O, reads a clock or fails because the world is odd. A fact that could not be
//! read is an [`Option`] that is `None`, and no rule takes it for "no".

#![warn(clippy::wildcard_enum_match_arm)]

pub mod annotations;
pub mod certificates;
pub mod cluster;
pub mod conditions;
pub mod lag;
pub mod life;
pub mod liveness;
pub mod node;
pub mod pod_set;
pub mod quorum;
pub mod rebalance;
pub mod registration;
pub mod rolling;
pub mod rules;
pub mod scaling;
pub mod takeover;
pub mod topics;
pub mod users;
pub mod words;
