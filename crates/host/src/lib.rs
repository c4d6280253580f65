//! What every program needs of its machine, once: atomic file writes, the clock, errors in one line, and a
//! reaper for child processes.
//!
//! Only the standard library is used, so that every crate with I/O can depend on this one.

pub mod clock;
pub mod error;
pub mod file;
pub mod reaper;
