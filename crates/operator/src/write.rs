//! The one door for writes to Kubernetes and to Kafka.
