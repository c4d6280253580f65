//! Restarting nodes without breaking anything: which may be restarted now, and which together.
//!
//! - [`quorum`]: whether the controllers keep their majority without one of them.
//! - [`availability`]: whether partitions keep their min-ISR without some brokers.
//! - [`batch`]: the largest set of brokers that can be restarted together.

pub mod availability;
pub mod batch;
pub mod quorum;
