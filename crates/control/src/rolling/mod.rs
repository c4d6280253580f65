//! Restarting nodes without breaking anything: which may be restarted now, and which together.
//!
//! - [`pass`]: one pass over the cluster. This is what the operator asks; the others are its parts.
//! - [`facts`], [`memory`]: what a pass is told, and what it leaves for the next.
//! - [`node`]: what one node goes through, as a state machine.
//! - [`order`], [`reasons`], [`stuck`], [`config`]: who comes first, and why anybody at all.
//! - [`quorum`]: whether the controllers keep their majority without one of them.
//! - [`availability`]: whether partitions keep their min-ISR without some brokers.
//! - [`batch`]: the largest set of brokers that can be restarted together.
//! - [`why`], [`estimate`]: what a node waits for, and when the roll will have ended.
//! - [`account`]: all of that as it is stored, for people.

pub mod account;
pub mod availability;
pub mod batch;
mod choose;
pub mod config;
mod conflicts;
pub mod estimate;
pub mod facts;
mod loss;
pub mod memory;
pub mod node;
pub mod order;
pub mod pass;
pub mod quorum;
pub mod reasons;
mod report;
pub mod stuck;
pub mod why;
mod work;
