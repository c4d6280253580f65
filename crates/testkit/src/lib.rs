//! Real Kafka clusters as processes.
