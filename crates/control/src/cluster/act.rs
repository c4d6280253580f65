//! The acts that a decision asks for, each with the rule that allows it and how old the facts behind it may be.

use std::fmt;

use model::{DirectoryId, NodeId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::area::Area;
use super::fresh::Freshness;
use super::journal::{Entered, Unregistration};
use super::record::Record;
use super::snapshot::{ObjectKey, ObjectKind};
use crate::certificates::authority;
use crate::conditions::{Note, Reason};
use crate::quorum::answer::{self, Answer};
use crate::quorum::migrate;
use crate::quorum::plan::Listener;
use crate::rebalance::auto;
use crate::registration::MetadataVersion;
use crate::registration::metadata_version::Refused;
use crate::rolling::config::Change;
use crate::rolling::reasons;
use crate::users::Mark;

/// An act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Act {
    /// What to do.
    pub what: What,
    /// The rule that allows it.
    pub rule: Rule,
    /// How old the facts behind it may be.
    pub fresh: Freshness,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// Add a voter.
    AddVoter {
        /// The node.
        id: NodeId,
        /// The directory id of its metadata disk.
        directory: DirectoryId,
        /// Its listeners for controllers.
        listeners: Vec<Listener>,
    },
    /// Remove a voter.
    RemoveVoter {
        /// The node.
        id: NodeId,
        /// The directory id with which it votes.
        directory: DirectoryId,
    },
    /// Unregister a broker.
    Unregister {
        /// The broker.
        id: NodeId,
    },
    /// Close a broker for new replicas.
    Cordon {
        /// The broker.
        id: NodeId,
    },
    /// Open a broker for new replicas.
    Uncordon {
        /// The broker.
        id: NodeId,
    },
    /// Delete a claim.
    DeleteClaim {
        /// Its name.
        name: String,
        /// Its uid: another claim with that name is left unchanged.
        uid: String,
    },
    /// Delete an object that nothing needs any more.
    Delete {
        /// Its kind.
        kind: ObjectKind,
        /// Its name.
        name: String,
        /// Its uid: another object with that name is left unchanged.
        uid: String,
    },
    /// Raise `kraft.version`, which makes a static quorum dynamic.
    RaiseKraftVersion {
        /// The level.
        level: i16,
    },
    /// Remove the annotation that asked for a migration.
    RemoveMigrationAnnotation,
    /// Change the metadata version.
    ChangeMetadataVersion {
        /// The version.
        to: MetadataVersion,
        /// Its level.
        level: i16,
        /// Whether it is an upgrade. A downgrade is asked for as a safe one.
        up: bool,
    },
    /// Delete the pod of a node, with its grace period. Its pod set creates it again.
    RestartPod {
        /// The node.
        id: NodeId,
        /// Its pod.
        pod: String,
        /// The uid of the pod: another pod with that name is left unchanged.
        uid: String,
        /// Why.
        reasons: Vec<reasons::Reason>,
    },
    /// Change settings of a running node.
    AlterNode {
        /// The node.
        id: NodeId,
        /// The changes.
        changes: Vec<Change>,
    },
    /// Change settings of all brokers while they run.
    AlterCluster {
        /// The changes.
        changes: Vec<Change>,
    },
    /// Elect the preferred leaders of these partitions.
    ElectPreferred {
        /// The partitions.
        partitions: Vec<TopicPartition>,
    },
    /// Remove the annotation that asked to restart all nodes of a pool.
    ClearRestartRequest {
        /// The pool.
        pool: String,
    },
    /// Apply an object that was built.
    Apply(ObjectKey),
    /// Remove the pods that have to go from the pod set of a pool that is gone.
    ShrinkPodSet {
        /// Its name.
        name: String,
    },
    /// Change the Secrets of a certificate authority.
    ChangeAuthority {
        /// The authority.
        kind: authority::Kind,
        /// The change.
        change: authority::Act,
    },
    /// Publish the certificates of the authorities in the trust bundle of the nodes.
    PublishTrust,
    /// Store the certificate of the operator, issued anew if it is due.
    StoreOperatorCertificate,
    /// Store the certificate of a node, issued anew if it is due, and those of listeners.
    StoreCertificate {
        /// The node.
        id: NodeId,
    },
    /// Change the `KafkaRebalance` that the cluster makes for itself in a mode.
    Rebalance(auto::Act),
    /// Cancel moves whose `KafkaRebalance` is gone.
    StopUnclaimedMoves,
    /// Mark the Secret of a user with what Kafka was given, or is about to be.
    RememberCredential {
        /// The user.
        user: String,
        /// The mark.
        mark: Mark,
    },
    /// Set the SCRAM credential of a user from its Secret.
    SetCredential {
        /// The user.
        user: String,
    },
    /// Delete the SCRAM credential of a user.
    DeleteCredential {
        /// The user.
        user: String,
    },
    /// Remove the finalizer from the Secret of a user.
    ReleaseUser {
        /// The user.
        user: String,
    },
}

/// The rule that allows an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// A controller that runs and has caught up joins, and a majority of the voters has caught up with it.
    VoterJoins,
    /// A majority of the remaining voters has caught up.
    VoterLeaves,
    /// Two passes in a row found the registration stale: fenced, without a pod, without partitions.
    RegistrationIsStale,
    /// A broker that leaves takes no new replicas.
    LeavingIsCordoned,
    /// A broker that does not leave takes new replicas.
    StayingIsOpen,
    /// The node is unregistered, has no pod, and its claims are deleted with it.
    NodeIsGone,
    /// Every registered node supports the metadata version.
    AllSupport,
    /// Every controller runs, votes and has caught up, on versions that support a dynamic quorum.
    ControllersAreReady,
    /// Every node runs with the addresses of the controllers.
    MigrationIsDone,
    /// The node, pool or listener that it belongs to is gone.
    NothingNeedsIt,
    /// Partitions keep their minimum of in-sync replicas, and the quorum its majority, without the nodes that restart; or
    /// these serve nobody.
    RestartIsSafe,
    /// A node runs with other settings than the desired ones, and can change them without a restart.
    SettingsDiffer,
    /// A broker that was restarted and is in sync leads what it is preferred for.
    RestartedLeadAgain,
    /// Every node that was to be restarted has been.
    AllRestarted,
    /// The object does not exist, or differs from what the spec asks for.
    ObjectDiffers,
    /// What the object gives cannot be changed, so it is created anew.
    ObjectIsOutdated,
    /// The pool of the set is gone, and the node has no pod any more.
    PoolIsGone,
    /// The certificate authority is missing, is due, or a stage of the replacement of its key has ended.
    AuthorityIsDue,
    /// Nodes trust what the authorities have signed and will sign.
    TrustComesFirst,
    /// The certificate is missing, is due, or does not fit any more, and its authority may sign.
    CertificateIsDue,
    /// Brokers are to be drained or filled, and no other rebalance of the cluster's own exists.
    BrokersAreScaled,
    /// The brokers to be drained or filled are others than those of the rebalance.
    BrokersHaveChanged,
    /// No broker is to be drained or filled with it any more.
    RebalanceIsObsolete,
    /// The rebalance is being deleted, and none of its moves runs.
    RebalanceHasEnded,
    /// The rebalance that the moves were made for is gone.
    MovesAreUnclaimed,
    /// A Secret says what Kafka was given: it is marked before the first change of the credential and after the last.
    SecretIsMarked,
    /// the password of the Secret is not set in Kafka, and no other credential of that name exists.
    PasswordIsNew,
    /// The Secret is being deleted, and its credential was made from it.
    UserIsRemoved,
    /// The Secret is being deleted, and Kafka has no credential that was made from it.
    CredentialIsGone,
}

impl Rule {
    /// The rule as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::VoterJoins => {
                "a controller that runs and has caught up joins, and a majority of the voters has caught up with it"
            }
            Self::VoterLeaves => "a majority of the remaining voters has caught up",
            Self::RegistrationIsStale => {
                "two passes in a row found the broker fenced, without a pod and without partitions"
            }
            Self::LeavingIsCordoned => "a broker that leaves takes no new replicas",
            Self::StayingIsOpen => "a broker that does not leave takes new replicas",
            Self::NodeIsGone => {
                "the node is unregistered, has no pod, and its claims are deleted with it"
            }
            Self::AllSupport => "every registered node supports the metadata version",
            Self::ControllersAreReady => {
                "every controller runs, votes and has caught up, on versions that support a dynamic quorum"
            }
            Self::MigrationIsDone => "every node runs with the addresses of the controllers",
            Self::NothingNeedsIt => "the node, pool or listener that it belongs to is gone",
            Self::RestartIsSafe => {
                "partitions keep their minimum of in-sync replicas, and the quorum its majority, without the nodes \
                 that restart; or the partitions are offline anyway"
            }
            Self::SettingsDiffer => {
                "a node runs with other settings than the desired ones, and can change them without a restart"
            }
            Self::RestartedLeadAgain => {
                "a broker that was restarted and is in sync leads what it is preferred for"
            }
            Self::AllRestarted => "every node that was to be restarted has been",
            Self::ObjectDiffers => {
                "the object does not exist, or differs from what the spec asks for"
            }
            Self::ObjectIsOutdated => {
                "an immutable field of the object changed, so the object is created again"
            }
            Self::PoolIsGone => "the pool of the set is gone, and the node has no pod any more",
            Self::AuthorityIsDue => {
                "the certificate authority is missing, is due, or a stage of the replacement of its key has ended"
            }
            Self::TrustComesFirst => {
                "nodes trust the current and the next certificates of the authorities"
            }
            Self::CertificateIsDue => {
                "the certificate is missing, due for renewal or out of date, and its authority may sign"
            }
            Self::BrokersAreScaled => {
                "brokers have to be drained or filled, and no other automatic rebalance exists"
            }
            Self::BrokersHaveChanged => {
                "the brokers to drain or fill differ from those of the rebalance"
            }
            Self::RebalanceIsObsolete => "no broker has to be drained or filled with it any longer",
            Self::RebalanceHasEnded => "the rebalance is being deleted, and none of its moves runs",
            Self::MovesAreUnclaimed => "the rebalance that the moves were made for is gone",
            Self::SecretIsMarked => {
                "the Secret records the credential that Kafka has: it is marked before the first \
                 change and after the last"
            }
            Self::PasswordIsNew => {
                "the password of the Secret is not set in Kafka, and no other credential of that name exists"
            }
            Self::UserIsRemoved => {
                "the Secret is being deleted, and its credential was made from it"
            }
            Self::CredentialIsGone => {
                "the Secret is being deleted, and Kafka has no credential that was made from it"
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl Act {
    /// An act.
    #[must_use]
    pub fn new(what: What, rule: Rule) -> Self {
        Self { fresh: Freshness::of(&what), what, rule }
    }

    /// An act that stops a node: the pod set that it applies lacks a pod that exists.
    #[must_use]
    pub fn stopping(what: What, rule: Rule) -> Self {
        Self { fresh: Freshness::of_stop(), what, rule }
    }

    /// How the journal calls the act; `None` if no decision needs its outcome.
    #[must_use]
    pub fn entered(&self) -> Option<(Entered, String)> {
        match &self.what {
            What::AddVoter { id, directory, listeners } => {
                let at: Vec<_> =
                    listeners.iter().map(|one| format!("{}:{}", one.host, one.port)).collect();
                Some((Entered::AddVoter(*id), format!("{directory} at {}", at.join(", "))))
            }
            What::RemoveVoter { id, directory } => {
                Some((Entered::RemoveVoter(*id), directory.to_string()))
            }
            What::Uncordon { id } => Some((Entered::Uncordon(*id), String::new())),
            What::RaiseKraftVersion { level } => {
                Some((Entered::RaiseKraftVersion, level.to_string()))
            }
            What::Unregister { .. }
            | What::Cordon { .. }
            | What::DeleteClaim { .. }
            | What::Delete { .. }
            | What::RemoveMigrationAnnotation
            | What::ChangeMetadataVersion { .. }
            | What::RestartPod { .. }
            | What::AlterNode { .. }
            | What::AlterCluster { .. }
            | What::ElectPreferred { .. }
            | What::ClearRestartRequest { .. }
            | What::Apply(_)
            | What::ShrinkPodSet { .. }
            | What::ChangeAuthority { .. }
            | What::PublishTrust
            | What::StoreOperatorCertificate
            | What::StoreCertificate { .. }
            | What::Rebalance(_)
            | What::StopUnclaimedMoves
            | What::RememberCredential { .. }
            | What::SetCredential { .. }
            | What::DeleteCredential { .. }
            | What::ReleaseUser { .. } => None,
        }
    }

    /// Why the area of the act waits after this answer, where no later decision learns of it. The acts after it in the
    /// area may depend on it; they are left to the next pass.
    #[must_use]
    pub fn unfinished(
        &self,
        area: Area,
        (answer, message): &(Answer, Option<String>),
    ) -> Option<Note> {
        let reason = match area {
            Area::Users => Reason::UsersNotGiven,
            Area::Authorities | Area::Certificates => Reason::CertificateProblem,
            Area::Access
            | Area::Services
            | Area::Claims
            | Area::Configuration
            | Area::Workload
            | Area::Kafka
            | Area::Migration
            | Area::Quorum
            | Area::Roll
            | Area::Rebalance
            | Area::ScaleIn
            | Area::Registration
            | Area::Leftovers => return None,
        };
        let said = || message.clone().unwrap_or_else(|| format!("cannot {}", self.what));
        (*answer != Answer::Done).then(|| Note::new(reason, said()))
    }
}

/// Enters the answer to an act into the record. Returns whether the pass ends with it.
pub(crate) fn settle(
    record: &mut Record,
    act: &Act,
    (answer, message): (Answer, Option<String>),
    now_ms: u64,
) -> bool {
    if let What::ChangeMetadataVersion { to, .. } = act.what {
        match answer {
            Answer::Done => record.refused_metadata_version = None,
            // It may have happened; the next snapshot shows it.
            Answer::Unknown | Answer::NotSent => {}
            Answer::Duplicate
            | Answer::NotFound
            | Answer::NotLeader
            | Answer::StaticQuorum
            | Answer::Invalid
            | Answer::WrongCluster
            | Answer::Refused => {
                let message = message.clone().unwrap_or_default();
                record.refused_metadata_version = Some(Refused { version: to, message });
            }
        }
    }
    if let What::Unregister { id } = act.what {
        // The words of a failed call name seconds, and would be a new status each time.
        let message = match answer {
            Answer::Unknown => Some("no answer in time".to_owned()),
            Answer::Done
            | Answer::NotSent
            | Answer::Duplicate
            | Answer::NotFound
            | Answer::NotLeader
            | Answer::StaticQuorum
            | Answer::Invalid
            | Answer::WrongCluster
            | Answer::Refused => message,
        };
        record.unregistrations.end(Unregistration(id), answer, message, now_ms);
        return false;
    }
    let Some((entered, _)) = act.entered() else { return false };
    record.journal.end(entered, answer, message, now_ms);
    answer::ends_pass(entered, answer)
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddVoter { id, directory, .. } => {
                write!(f, "add controller {id} with directory {directory} to the voters")
            }
            Self::RemoveVoter { id, directory } => {
                write!(f, "remove controller {id} with directory {directory} from the voters")
            }
            Self::Unregister { id } => write!(f, "unregister broker {id}"),
            Self::Cordon { id } => write!(f, "cordon broker {id}"),
            Self::Uncordon { id } => write!(f, "uncordon broker {id}"),
            Self::DeleteClaim { name, .. } => write!(f, "delete PersistentVolumeClaim {name}"),
            Self::Delete { kind, name, .. } => write!(f, "delete {kind:?} {name}"),
            Self::RaiseKraftVersion { level } => write!(f, "raise kraft.version to {level}"),
            Self::RemoveMigrationAnnotation => {
                write!(f, "remove the annotation {}", migrate::ANNOTATION)
            }
            Self::ChangeMetadataVersion { to, .. } => {
                write!(f, "change the metadata version to {to}")
            }
            Self::RestartPod { pod, reasons, .. } => {
                write!(f, "restart pod {pod}: {}", reasons::list(reasons))
            }
            Self::AlterNode { id, changes } => write!(f, "change {} of node {id}", keys(changes)),
            Self::AlterCluster { changes } => {
                write!(f, "change {} of all brokers", keys(changes))
            }
            Self::ElectPreferred { partitions } => {
                write!(f, "elect the preferred leaders of {} partitions", partitions.len())
            }
            Self::ClearRestartRequest { pool } => {
                write!(f, "remove the request to restart pool {pool}")
            }
            Self::Apply(ObjectKey { kind, name }) => write!(f, "apply {kind:?} {name}"),
            Self::ShrinkPodSet { name } => write!(f, "shrink StrimziPodSet {name}"),
            Self::ChangeAuthority { kind, change } => {
                write!(f, "{change} of the {} CA", kind.name())
            }
            Self::PublishTrust => f.write_str("publish the certificates of the CAs"),
            Self::StoreOperatorCertificate => f.write_str("store the certificate of the operator"),
            Self::StoreCertificate { id } => write!(f, "store the certificate of node {id}"),
            Self::Rebalance(act) => write!(f, "{act}"),
            Self::StopUnclaimedMoves => f.write_str("cancel moves of a deleted KafkaRebalance"),
            Self::RememberCredential { user, mark: Mark::Set(_) } => {
                write!(f, "mark the Secret of {user}: its password is set")
            }
            Self::RememberCredential { user, mark: Mark::Setting(_) | Mark::None } => {
                write!(f, "mark the Secret of {user}: its password is about to be set")
            }
            Self::SetCredential { user } => write!(f, "set the SCRAM credential of {user}"),
            Self::DeleteCredential { user } => write!(f, "delete the SCRAM credential of {user}"),
            Self::ReleaseUser { user } => {
                write!(f, "remove the finalizer of the Secret of {user}")
            }
        }
    }
}

/// The names of the settings that change.
fn keys(changes: &[Change]) -> String {
    changes.iter().map(Change::key).collect::<Vec<_>>().join(", ")
}
