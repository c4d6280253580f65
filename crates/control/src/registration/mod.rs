//! Which nodes Kafka knows, and the metadata version they agree on.

pub mod metadata_version;
pub mod unregister;
mod versions;

pub use versions::{InvalidVersion, KafkaVersion, MetadataVersion};
