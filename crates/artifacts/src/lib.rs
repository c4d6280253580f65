//! Gets the programs that Gregor runs but does not contain, into a cache.
//!
//! Today that is Apache Kafka, assembled by Maven from Maven Central, and the Java that runs it.
//! Nothing here starts a Kafka node, and nothing reads the process environment except
//! [`Environment::from_process`], so that tests can hand in another one.

mod environment;
mod error;
pub mod java;
pub mod kafka;
mod manifest;
mod maven;
mod progress;
mod version;

pub use environment::Environment;
pub use error::FetchError;
pub use progress::{Event, Progress, Silent};
pub use version::{InvalidVersion, KafkaVersion};
