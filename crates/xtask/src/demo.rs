//! `demo`: a short demonstration on this machine, which a newcomer runs first.
//!
//! The plan, in order:
//!
//! 1. build `gregor` and get Kafka, showing progress;
//! 2. start a small real cluster as processes and wait until it serves;
//! 3. show with `gregor`'s own commands what it sees, each command printed before it is run;
//! 4. change the shape of the cluster, and show that clients kept working meanwhile;
//! 5. stop everything that was started, also when a step failed or the user interrupts.
//!
//! It must not need anything that `tools/prepare demo` does not install, and must leave nothing
//! behind but the cache.

use anyhow::{Result, bail};

/// Runs the demonstration.
pub(crate) fn run() -> Result<()> {
    bail!("there is no demonstration yet; the plan is in crates/xtask/src/demo.rs")
}
