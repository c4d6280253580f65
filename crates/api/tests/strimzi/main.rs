//! Strimzi's resources and ours, side by side.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod compat;
mod document;
mod passed_on;
mod random;
mod rules;
mod schema;
mod strimzi;
mod topics;
mod users;
