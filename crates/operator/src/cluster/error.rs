//! Why a pass ended early.

use control::conditions::{Note, Reason};

use super::admins::AccessError;
use super::found::ReadError;
use crate::rebalance::RebalanceError;
use crate::store::StoreError;
use crate::users::UsersError;
use crate::words::chain;
use crate::write::WriteError;

/// Why a pass ended early. The next one begins anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("cannot read the cluster from Kubernetes")]
    Read(#[from] ReadError),
    #[error("cannot read from Kubernetes")]
    Get(#[source] Box<kube::Error>),
    #[error("{0} is not part of the snapshot")]
    NotInSnapshot(String),
    #[error("the Kafka resource cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("cannot use the record")]
    Record(#[from] StoreError),
    #[error("cannot write to Kubernetes")]
    Write(#[from] WriteError),
    #[error("cannot build an object of the cluster")]
    Build(#[from] serde_json::Error),
    #[error("cannot talk to Kafka")]
    Access(#[from] AccessError),
    #[error("cannot look after the users of the cluster")]
    Users(#[source] Box<UsersError>),
    #[error("cannot see to rebalances of the cluster")]
    Rebalance(#[source] Box<RebalanceError>),
    #[error("cannot make or read certificates")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl PassError {
    /// Whether somebody else wrote at the same time, so that looking again is all that is needed.
    pub(crate) fn is_conflict(&self) -> bool {
        if let Self::Rebalance(error) = self {
            return error.is_conflict();
        }
        matches!(
            self,
            Self::Write(WriteError::Conflict { .. } | WriteError::Exists { .. })
                | Self::Record(StoreError::Write(
                    WriteError::Conflict { .. } | WriteError::Exists { .. }
                ))
        )
    }

    /// What people read in the condition.
    pub(crate) fn note(&self) -> Note {
        let reason = match self {
            Self::Read(_) | Self::Get(_) | Self::NotInSnapshot(_) => Reason::KubernetesUnreadable,
            Self::Record(
                StoreError::Unreadable { .. }
                | StoreError::Version { .. }
                | StoreError::Unpack { .. },
            ) => Reason::RecordUnreadable,
            Self::Record(StoreError::TooNew { .. }) => Reason::RecordTooNew,
            Self::Record(_) | Self::Write(_) => Reason::KubernetesWriteFailed,
            Self::Unreadable(_) => Reason::InvalidResource,
            Self::Build(_) => Reason::InvalidTemplate,
            Self::Access(_) => Reason::KafkaUnreachable,
            Self::Users(_) => Reason::UsersNotGiven,
            Self::Rebalance(_) => Reason::RebalanceProblem,
            Self::Certificates(_) => Reason::CertificateProblem,
        };
        Note::new(reason, chain(self))
    }
}
