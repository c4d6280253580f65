//! The controller of `Kafka` resources: one pass after another for each cluster.

pub(crate) mod admins;
