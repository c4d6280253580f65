//! How long things take in a simulated world.

/// Durations and rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From the deletion of a pod until it is gone.
    pub stop_ms: u64,
    /// From the start of a process until it listens.
    pub start_ms: u64,
    /// From the moment that a broker serves until its replicas are in sync.
    pub catch_up_ms: u64,
    /// How many bytes a second moves copy; `None` if a move takes as long as a replica that catches up.
    pub move_bytes_per_s: Option<u64>,
}

impl Pace {
    /// The pace of simulations with faults.
    pub(crate) const TESTS: Self =
        Self { stop_ms: 3_000, start_ms: 2_000, catch_up_ms: 4_000, move_bytes_per_s: None };
}
