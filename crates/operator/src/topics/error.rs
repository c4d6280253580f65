//! Why topics of a cluster cannot be reconciled.

use kafka_admin::{CallError, DescribeTopicsError, ListReassignmentsError};

/// Why topics of a cluster cannot be reconciled. Each names what was attempted.
#[derive(Debug, thiserror::Error)]
pub(super) enum TopicsError {
    /// No pass over the cluster has opened a connection yet, or it has no brokers.
    #[error("the cluster has no brokers to ask yet")]
    NoBrokers,
    /// An entity operator of Strimzi runs: two would undo each other's work.
    #[error("the pod {0} of Strimzi's entity operator runs")]
    EntityOperator(String),
    /// The pods of an entity operator cannot be listed.
    #[error("cannot list the pods of Strimzi's entity operator")]
    Pods(#[source] Box<kube::Error>),
    /// Kafka does not show the topics.
    #[error("cannot describe the topics")]
    Describe(#[from] DescribeTopicsError),
    /// Kafka does not show the settings of topics.
    #[error("cannot describe the settings of topics")]
    Settings(#[from] CallError),
    /// Kafka does not show the moves in flight.
    #[error("cannot list the moves in flight")]
    Moves(#[from] ListReassignmentsError),
}
