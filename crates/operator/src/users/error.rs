//! Why users of a cluster cannot be reconciled.

use kafka_admin::{
    DescribeAclsError, DescribeClusterError, DescribeQuotasError, DescribeScramError,
};

use crate::store::StoreError;
use crate::takeover::TakeoverError;

/// Why users of a cluster cannot be reconciled. Each names what was attempted.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    /// No pass over the cluster has opened a connection yet, or it has no brokers.
    #[error("the cluster has no brokers yet")]
    NoBrokers,
    /// An entity operator of Strimzi may run.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// The record of the users that are managed cannot be read or written.
    #[error("the record of users is not valid")]
    Record(#[from] StoreError),
    /// Kafka does not show its id.
    #[error("cannot describe the cluster")]
    Cluster(#[from] DescribeClusterError),
    /// Kafka does not show the access rules.
    #[error("cannot describe the access rules")]
    Access(#[from] DescribeAclsError),
    /// Kafka does not show the quotas.
    #[error("cannot describe the quotas")]
    Quotas(#[from] DescribeQuotasError),
    /// Kafka does not show who has a credential.
    #[error("cannot describe the credentials")]
    Scram(#[from] DescribeScramError),
    /// A Secret of the clients CA cannot be read.
    #[error("cannot read the Secrets of the clients CA")]
    Authority(#[source] Box<kube::Error>),
    /// The resources cannot be listed.
    #[error("cannot list the KafkaUsers")]
    List(#[source] Box<kube::Error>),
}
