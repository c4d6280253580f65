//! Gets the programs that Gregor runs but does not contain, into a cache.
//!
//! They are Apache Kafka, assembled by Maven from Maven Central, the Java that runs it, and the
//! programs of a Kubernetes control plane, built by Go. Nothing here starts what it gets,
//! and nothing reads the process environment except [`Environment::from_process`], so that tests can hand in
//! another one.

mod cache;
mod environment;
mod error;
mod go;
mod jars;
pub mod java;
pub mod kafka;
pub mod kubernetes;
pub mod libraries;
mod lines;
mod manifest;
mod maven;
mod progress;
mod sums;
mod version;

pub use environment::Environment;
pub use error::FetchError;
pub use progress::{Event, Progress, Silent};
pub use sums::Difference;
pub use version::{InvalidVersion, KafkaVersion};
