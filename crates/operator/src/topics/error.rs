//! Why topics of a cluster cannot be reconciled.

use kafka_admin::{
    CallError, DescribeClusterError, DescribeTopicsError, ListReassignmentsError, ListTopicsError,
};

use crate::rebalance::RebalanceError;
use crate::rebalance::store::StoreError;
use crate::takeover::TakeoverError;

/// Why topics of a cluster cannot be reconciled. Each names what was attempted.
#[derive(Debug, thiserror::Error)]
pub enum TopicsError {
    /// No pass over the cluster has opened a connection yet, or it has no brokers.
    #[error("the cluster has no brokers yet")]
    NoBrokers,
    /// An entity operator of Strimzi may run.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// Kafka does not show the topics.
    #[error("cannot describe the topics")]
    Describe(#[from] DescribeTopicsError),
    /// Kafka does not show the settings of topics.
    #[error("cannot describe the settings of topics")]
    Settings(#[from] CallError),
    /// Kafka refuses to show a topic.
    #[error("{0}")]
    Refused(String),
    /// The `Kafka` cannot be read.
    #[error("cannot read the Kafka")]
    Cluster(#[source] Box<kube::Error>),
    /// The `Kafka` is gone, or has no record yet.
    #[error("the cluster has no record")]
    NoCluster,
    /// What moves in the cluster is unknown, or moves could not be carried on.
    #[error("cannot move replicas")]
    Rebalance(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What moves in the cluster cannot be read or recorded.
    #[error("cannot read or record the moves")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Kafka does not show the brokers.
    #[error("cannot describe the cluster")]
    Brokers(#[from] DescribeClusterError),
    /// Kafka does not list the topics.
    #[error("cannot list the topics")]
    Topics(#[from] ListTopicsError),
    /// Kafka does not show the moves in flight.
    #[error("cannot list the moves in flight")]
    Moves(#[from] ListReassignmentsError),
}

impl From<RebalanceError> for TopicsError {
    fn from(error: RebalanceError) -> Self {
        Self::Rebalance(Box::new(error))
    }
}

impl From<StoreError> for TopicsError {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}
