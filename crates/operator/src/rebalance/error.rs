//! Why a pass over a request ended early.

use super::execute::ExecuteError;
use crate::store::StoreError;
use crate::write::WriteError;

/// Why a pass over a request ended early. The next one begins anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RebalanceError {
    #[error("cannot read from Kubernetes")]
    Read(#[source] Box<kube::Error>),
    #[error("the resource cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("cannot use a record")]
    Store(#[from] StoreError),
    #[error("cannot write to Kubernetes")]
    Write(#[from] WriteError),
    #[error("cannot carry out the plan")]
    Execute(#[from] ExecuteError),
    #[error("cannot compute a plan")]
    Plan(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot ask Cruise Control")]
    CruiseControl(#[from] crate::cruise_control::ClientError),
}

impl RebalanceError {
    /// Whether another writer caused a conflict, which the next pass resolves.
    pub(crate) fn is_conflict(&self) -> bool {
        let write = |error: &WriteError| {
            // What is gone by now was deleted in between.
            matches!(
                error,
                WriteError::Conflict { .. }
                    | WriteError::Exists { .. }
                    | WriteError::Missing { .. }
            )
        };
        match self {
            Self::Write(error) | Self::Store(StoreError::Write(error)) => write(error),
            Self::Execute(ExecuteError::Record(source)) => matches!(
                source.downcast_ref::<StoreError>(),
                Some(StoreError::Write(error)) if write(error)
            ),
            Self::Read(_)
            | Self::Unreadable(_)
            | Self::Store(_)
            | Self::Execute(_)
            | Self::Plan(_)
            | Self::CruiseControl(_) => false,
        }
    }
}
