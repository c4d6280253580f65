//! Simulated clusters that obey actions and yield facts, with faults.
//!
//! What this crate must not do: share a rule with what it tests. Whether a partition or a quorum was
//! broken is judged here in its own words.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod rolling;
pub mod whole;
