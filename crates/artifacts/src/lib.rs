//! Downloads or builds the programs that Gregor runs but does not contain, into a cache.
//!
//! These are Apache Kafka, assembled by Maven from Maven Central, the Java that runs it, and the programs of
//! a Kubernetes control plane, built by Go. This crate does not start what it gets. Only
//! [`Environment::from_process`] reads the process environment, so that tests can pass another one.

#![allow(
    missing_docs,
    reason = "fields and error variants whose names or messages say it need no comment"
)]

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
