//! What a pass does besides its decision: what the spec asks for, the pools, and Kafka.

pub(crate) mod desired;
pub(crate) mod kafka;
pub(crate) mod pools;
