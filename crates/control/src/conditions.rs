//! The conditions of a cluster, from what came of a pass.
//!
//! 1. There is one answer to "is it as I asked for": `Ready`, or `NotReady` with the reason. Never both, and
//!    never neither, unless nobody works on the cluster because it is paused.
//! 2. A cluster that has been ready stays `Ready` while it is brought to a new spec without a problem: its
//!    clients are served. `Progressing` says what is being done, and the observed generation is the old one
//!    until it is done.
//! 3. A reason is a word of a closed list of its area. No decision about a cluster reads a condition back. Only a
//!    `KafkaRebalance` waits for the `Ready` of its cluster, as one of Strimzi does.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cluster::validate;

/// Declares the reasons once: their names and documentation.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a condition holds: one word for programs. The list is closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
            /// A finding of the validation of the spec.
            Spec(validate::Reason),
        }

        impl Reason {
            /// All but those of the validation.
            pub const OWN: &'static [Self] = &[$(Self::$name,)*];

            /// The word in conditions.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Spec(reason) => reason.name(),
                }
            }
        }
    };
}

reasons! {
    /// A controller is being added to the voters.
    AddingController,
    /// Automatic rebalancing waits for new brokers to run.
    AutoRebalanceAwaitsBrokers,
    /// An automatic rebalance ended without success.
    AutoRebalanceFailed,
    /// A `KafkaRebalance` of the user has the name of an automatic one.
    AutoRebalanceNameTaken,
    /// An automatic rebalance is paused by its user.
    AutoRebalancePaused,
    /// The template of automatic rebalancing does not exist.
    AutoRebalanceTemplateMissing,
    /// The `KafkaRebalance` that is named as the template of automatic rebalancing is not marked as one.
    AutoRebalanceTemplateUnmarked,
    /// Brokers are being drained or filled.
    AutoRebalancing,
    /// A Service has no address yet.
    AwaitingAddresses,
    /// A certificate of a node needs attention.
    Certificate,
    /// A certificate authority needs attention.
    CertificateAuthority,
    /// There is no usable certificate authority.
    CertificateAuthorityMissing,
    /// A certificate is missing and none can be issued.
    CertificateMissing,
    /// Certificates cannot be read or issued.
    CertificateProblem,
    /// A controller of a static quorum has an empty disk.
    ControllerDiskLost,
    /// Kafka repeatedly refused to add a controller.
    ControllerNotAdded,
    /// Removing controllers would leave no majority that has caught up.
    ControllerScaleDownRefused,
    /// Nodes are not ready yet.
    Creating,
    /// Two pools claim the same node id.
    DuplicateNodeIds,
    /// An entity operator of Strimzi keeps topics and users from being managed.
    EntityOperatorRuns,
    /// The facts of a pass were too old to act on.
    FactsOutdated,
    /// An annotation has a value that is not understood.
    InvalidAnnotation,
    /// JVM options are ignored.
    InvalidJvmOptions,
    /// A maintenance window is never open.
    InvalidMaintenanceWindow,
    /// The annotations with node ids are not understood.
    InvalidNodeIds,
    /// The resources cannot be read or contain unsupported fields.
    InvalidResource,
    /// The configuration of loggers cannot work.
    InvalidLogging,
    /// A template does not fit the object that it is for.
    InvalidTemplate,
    /// Kafka does not answer.
    KafkaUnreachable,
    /// The API server does not answer a read.
    KubernetesUnreadable,
    /// The API server did not take a write.
    KubernetesWriteFailed,
    /// The certificate of a listener does not exist.
    ListenerCertificateMissing,
    /// The configuration of loggers does not exist.
    LoggingConfigMissing,
    /// Kafka refused the metadata version.
    MetadataUpdateFailed,
    /// The metadata version cannot be changed as requested.
    MetadataVersionRefused,
    /// The metadata version waits for nodes or registrations.
    MetadataVersionWaiting,
    /// The configuration of metrics does not exist.
    MetricsConfigMissing,
    /// A claim cannot be resized.
    PvcResizingWarning,
    /// Kafka did not remove a voter.
    QuorumChangeFailed,
    /// The metadata of the quorum is lost.
    QuorumLost,
    /// A static quorum is being made dynamic.
    QuorumMigration,
    /// The annotation for migration has no effect.
    QuorumMigrationIgnored,
    /// The quorum cannot be made dynamic.
    QuorumMigrationRefused,
    /// The quorum was made dynamic by somebody else.
    QuorumModeChanged,
    /// The mode of the quorum has just become known.
    QuorumModeFound,
    /// The mode of the quorum is unknown.
    QuorumModeUnknown,
    /// A change of voters waits for something.
    QuorumWaiting,
    /// Rebalances cannot be reconciled.
    RebalanceProblem,
    /// The record is lost, and cannot be rebuilt without a guess.
    RecordLost,
    /// The record was written by a newer operator.
    RecordTooNew,
    /// The record cannot be read.
    RecordUnreadable,
    /// A controller is being removed from the voters.
    RemovingController,
    /// Nodes could not be restarted.
    RollFailed,
    /// A node that does not start stops the roll.
    RollStopped,
    /// Nodes are being restarted.
    Rolling,
    /// A broker that is to go still holds replicas.
    ScaleDownPreventionCheck,
    /// Nodes are being removed.
    ScalingDown,
    /// A node was restarted for settings that it does not run with.
    SettingsNotTaken,
    /// Kafka has a registration of a broker that does not exist.
    StaleBrokerRegistration,
    /// Kafka has registrations of controllers that do not exist.
    StaleControllerRegistration,
    /// The voters of a static quorum cannot be changed.
    StaticQuorum,
    /// Fields of the spec have no effect.
    UnhonouredFields,
    /// Fields of the spec are not known.
    UnknownFields,
    /// Brokers that are gone are being unregistered.
    Unregistering,
    /// Kafka did not unregister a broker.
    UnregistrationFailed,
    /// A user needs attention.
    User,
    /// Users cannot be written to Kafka.
    UsersNotGiven,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something to tell people: a word for programs, a sentence for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Note {
    /// One word for programs.
    pub reason: Reason,
    /// What holds, what is awaited, who must act.
    pub message: String,
}

impl Note {
    /// A note.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What came of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as it was asked for.
    Done,
    /// It is being brought there; nothing is wrong.
    Progressing(Note),
    /// It cannot go on before somebody or something changes.
    Held(Note),
    /// Nobody works on it because its user said so.
    Paused,
}

impl Outcome {
    /// Whether a person has to act.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// Whether the status is about the generation that was read. While a cluster is brought to it, the status is about
    /// the one before.
    #[must_use]
    pub const fn is_observed(&self) -> bool {
        match self {
            Self::Done | Self::Held(_) | Self::Paused => true,
            Self::Progressing(_) => false,
        }
    }
}

impl Outcome {
    /// The condition that says how the cluster is. `was_ready` says whether it has ever been ready: one that was keeps
    /// serving its clients while it is brought to a new spec.
    #[must_use]
    pub const fn kind(&self, was_ready: bool) -> Kind {
        match self {
            Self::Done => Kind::Ready,
            Self::Progressing(_) if was_ready => Kind::Ready,
            Self::Progressing(_) | Self::Held(_) => Kind::NotReady,
            Self::Paused => Kind::ReconciliationPaused,
        }
    }
}

/// A type of condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The cluster is as it was asked for.
    Ready,
    /// It is not.
    NotReady,
    /// Something is being done.
    Progressing,
    /// Something that its user should know.
    Warning,
    /// Nobody works on it.
    ReconciliationPaused,
}

impl Kind {
    /// As it is written in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Progressing => "Progressing",
            Self::Warning => "Warning",
            Self::ReconciliationPaused => "ReconciliationPaused",
        }
    }
}

/// A condition that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: Kind,
    /// Why, if there is something to say.
    pub note: Option<Note>,
}

/// All conditions, in the order in which people read them.
#[must_use]
pub fn conditions(outcome: &Outcome, warnings: &[Note], was_ready: bool) -> Vec<Condition> {
    let bare = |kind| Condition { kind, note: None };
    let with = |kind, note: &Note| Condition { kind, note: Some(note.clone()) };
    let kind = outcome.kind(was_ready);
    let mut all = match outcome {
        Outcome::Done | Outcome::Paused => vec![bare(kind)],
        Outcome::Progressing(note) if was_ready => vec![bare(kind), with(Kind::Progressing, note)],
        Outcome::Progressing(note) | Outcome::Held(note) => vec![with(kind, note)],
    };
    let mut warnings: Vec<_> = warnings.to_vec();
    warnings.sort();
    warnings.dedup();
    all.extend(warnings.iter().map(|note| with(Kind::Warning, note)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two reasons with one word would be told as two conditions.
    #[test]
    fn every_reason_has_a_word_of_its_own() {
        let own = Reason::OWN.iter().map(|reason| reason.name());
        let of_spec = validate::Reason::ALL.iter().map(|reason| reason.name());
        let mut words: Vec<_> = own.chain(of_spec).collect();
        words.sort_unstable();
        let twice: Vec<_> = words.windows(2).filter(|two| two[0] == two[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn there_is_one_answer_to_whether_it_is_ready() {
        let note = || Note::new(Reason::Creating, "nodes start");
        let rows = [
            (Outcome::Done, false, "Ready"),
            (Outcome::Done, true, "Ready"),
            (Outcome::Progressing(note()), false, "NotReady"),
            (Outcome::Progressing(note()), true, "Ready Progressing"),
            (Outcome::Held(note()), false, "NotReady"),
            (Outcome::Held(note()), true, "NotReady"),
            (Outcome::Paused, true, "ReconciliationPaused"),
        ];
        for (outcome, was_ready, expected) in rows {
            let kinds: Vec<_> =
                conditions(&outcome, &[], was_ready).iter().map(|c| c.kind.name()).collect();
            assert_eq!(kinds.join(" "), expected, "{outcome:?} {was_ready}");
        }
    }

    #[test]
    fn a_generation_is_observed_unless_the_cluster_is_still_brought_to_it() {
        let note = || Note::new(Reason::Creating, "nodes start");
        // The outcome, whether the generation is observed, whether a person has to act.
        let rows = [
            (Outcome::Done, true, false),
            (Outcome::Progressing(note()), false, false),
            (Outcome::Held(note()), true, true),
            (Outcome::Paused, true, false),
        ];
        for (outcome, is_observed, is_held) in rows {
            assert_eq!(
                (outcome.is_observed(), outcome.is_held()),
                (is_observed, is_held),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn warnings_are_told_once_and_in_a_stable_order() {
        let note = |reason| Note::new(reason, "m");
        let (later, earlier) = (Reason::User, Reason::Creating);
        let warnings = [note(later), note(earlier), note(later)];
        let all = conditions(&Outcome::Done, &warnings, true);
        let reasons: Vec<_> =
            all.iter().filter_map(|c| c.note.as_ref()).map(|note| note.reason).collect();
        assert_eq!(reasons, [earlier, later]);
    }
}
