//! Why a pass ended early.

use control::cluster::execute::Failure;
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
    #[error("cannot connect to Kafka")]
    Access(#[from] AccessError),
    #[error("cannot reconcile the users of the cluster")]
    Users(#[source] Box<UsersError>),
    #[error("cannot reconcile the rebalances of the cluster")]
    Rebalance(#[source] Box<RebalanceError>),
    #[error("cannot issue or read certificates")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl PassError {
    /// Whether another writer caused a conflict, which the next pass resolves.
    pub(crate) fn is_conflict(&self) -> bool {
        if let Self::Rebalance(error) = self {
            return error.is_conflict();
        }
        matches!(
            self,
            Self::Write(WriteError::Conflict { .. } | WriteError::Exists { .. })
                // A record that is gone was deleted with its cluster in the middle of the pass.
                | Self::Record(StoreError::Write(
                    WriteError::Conflict { .. }
                        | WriteError::Exists { .. }
                        | WriteError::Missing { .. }
                ))
        )
    }

    /// What the executor makes the end of a pass of.
    pub(crate) fn failure(&self) -> Failure {
        Failure { note: self.note(), is_conflict: self.is_conflict() }
    }

    /// What people read in the condition.
    pub(crate) fn note(&self) -> Note {
        let reason = match self {
            Self::Read(_)
            | Self::Get(_)
            | Self::NotInSnapshot(_)
            | Self::Record(StoreError::Read { .. }) => Reason::KubernetesUnreadable,
            Self::Record(
                StoreError::Unreadable { .. }
                | StoreError::Version { .. }
                | StoreError::Unpack { .. }
                | StoreError::Taken { .. },
            ) => Reason::RecordUnreadable,
            Self::Record(StoreError::TooNew { .. }) => Reason::RecordTooNew,
            Self::Record(
                StoreError::Pack(_)
                | StoreError::Encode(_)
                | StoreError::NoOwner
                | StoreError::Write(_),
            )
            | Self::Write(_) => Reason::KubernetesWriteFailed,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io;

    use control::cluster::origin::Origin;
    use control::cluster::record::FormatVersion;
    use control::conditions::Outcome;

    use super::*;

    fn text() -> String {
        "x".to_owned()
    }

    fn kube() -> Box<kube::Error> {
        Box::new(kube::Error::TlsRequired)
    }

    fn json() -> serde_json::Error {
        serde_json::from_str::<u8>("").unwrap_err()
    }

    fn conflict() -> WriteError {
        WriteError::Conflict { what: text() }
    }

    #[test]
    #[rustfmt::skip]
    fn every_failure_has_a_reason_and_only_another_writer_is_no_problem() {
        use Reason::{
            CertificateProblem, InvalidResource, InvalidTemplate, KafkaUnreachable, KubernetesUnreadable,
            KubernetesWriteFailed, RebalanceProblem, RecordTooNew, RecordUnreadable, UsersNotGiven,
        };
        let record = PassError::Record;
        let invalid = "1".parse::<FormatVersion>().unwrap_err();
        let access = AccessError::Keys(kafka_admin::Tls::new(b"x", None).err().unwrap());
        let rebalance = |error| PassError::Rebalance(Box::new(error));
        // The error, the reason, whether another writer came first.
        let rows = [
            (PassError::Get(kube()), KubernetesUnreadable, false),
            (PassError::NotInSnapshot(text()), KubernetesUnreadable, false),
            (record(StoreError::Read { name: text(), source: kube() }), KubernetesUnreadable, false),
            (record(StoreError::Unreadable { name: text(), source: json() }), RecordUnreadable, false),
            (record(StoreError::Version { name: text(), source: invalid }), RecordUnreadable, false),
            (record(StoreError::Unpack { name: text(), source: io::ErrorKind::Other.into() }), RecordUnreadable, false),
            (record(StoreError::Taken { name: text() }), RecordUnreadable, false),
            (record(StoreError::TooNew { name: text(), found: FormatVersion { major: 9, minor: 0 } }), RecordTooNew, false),
            (record(StoreError::Pack(io::ErrorKind::Other.into())), KubernetesWriteFailed, false),
            (record(StoreError::Encode(json())), KubernetesWriteFailed, false),
            (record(StoreError::NoOwner), KubernetesWriteFailed, false),
            (record(StoreError::Write(WriteError::Expired { what: text() })), KubernetesWriteFailed, false),
            (record(StoreError::Write(conflict())), KubernetesWriteFailed, true),
            (record(StoreError::Write(WriteError::Exists { what: text() })), KubernetesWriteFailed, true),
            (PassError::Write(conflict()), KubernetesWriteFailed, true),
            (PassError::Write(WriteError::Exists { what: text() }), KubernetesWriteFailed, true),
            (PassError::Write(WriteError::Missing { what: text() }), KubernetesWriteFailed, false),
            (PassError::Write(WriteError::NotLeader { what: text() }), KubernetesWriteFailed, false),
            (PassError::Write(WriteError::Expired { what: text() }), KubernetesWriteFailed, false),
            (PassError::Write(WriteError::Kubernetes { what: text(), source: kube() }), KubernetesWriteFailed, false),
            (PassError::Unreadable(json()), InvalidResource, false),
            (PassError::Build(json()), InvalidTemplate, false),
            (PassError::Access(access), KafkaUnreachable, false),
            (PassError::Users(Box::new(UsersError::Secret(conflict()))), UsersNotGiven, false),
            (rebalance(RebalanceError::Read(kube())), RebalanceProblem, false),
            (rebalance(RebalanceError::Write(conflict())), RebalanceProblem, true),
            (PassError::Certificates(Box::new(json())), CertificateProblem, false),
        ];
        let mut seen = BTreeSet::new();
        for (error, reason, is_conflict) in rows {
            let failure = error.failure();
            assert_eq!((failure.note.reason, failure.is_conflict), (reason, is_conflict), "{error:?}");
            assert_eq!(matches!(failure.outcome(), Outcome::Progressing(_)), is_conflict, "{error:?}");
            seen.insert(reason);
        }
        let listed = Reason::OWN.iter().filter(|one| one.origins().contains(&Origin::Failure));
        assert_eq!(seen, listed.copied().collect());
    }
}
