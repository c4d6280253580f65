//! The words of a request: what users may ask, what is in the way, and how it is reported.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::machine::Phase;
use crate::rebalance::cruise_control::Refusal;

/// What a user may ask for with `strimzi.io/rebalance`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Command {
    /// Carry the plan out.
    Approve,
    /// Stop.
    Stop,
    /// Make a new plan.
    Refresh,
}

impl Command {
    /// The value of the annotation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Stop => "stop",
            Self::Refresh => "refresh",
        }
    }
}

/// The annotation `strimzi.io/rebalance` as it is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Annotation {
    /// There is none.
    #[default]
    Absent,
    /// A command.
    Command(Command),
    /// The mark of a template.
    Template,
    /// Anything else.
    Unknown(String),
}

impl Annotation {
    /// Reads the value.
    #[must_use]
    pub fn read(value: Option<&str>) -> Self {
        match value {
            None => Self::Absent,
            Some("approve") => Self::Command(Command::Approve),
            Some("stop") => Self::Command(Command::Stop),
            Some("refresh") => Self::Command(Command::Refresh),
            Some("template") => Self::Template,
            Some(other) => Self::Unknown(other.to_owned()),
        }
    }
}

/// Why a request cannot be begun, apart from the engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hindrance {
    /// It does not say which cluster it is for.
    NoClusterLabel,
    /// There is no such cluster.
    NoKafka,
    /// The cluster is not ready.
    KafkaNotReady,
    /// The cluster has no rebalancing.
    NoCruiseControl,
    /// What it asks for makes no sense.
    InvalidSpec(String),
    /// The cluster's Cruise Control must not be contacted.
    CruiseControlUrl(Refusal),
}

/// Why a request is `NotReady`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Failure {
    /// Something is in the way. It is tried again when that is gone.
    Hindered(Hindrance),
    /// The engine could not be reached, or could not do it now. It is tried again after a while.
    Passing(String),
    /// The engine cannot do it. Somebody has to change something.
    Final(String),
}

/// What a user should know, without anything being wrong with the request itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Warning {
    /// The annotation does not fit; it is left unchanged.
    InvalidAnnotation {
        /// Its value.
        value: String,
        /// Where the request is.
        phase: Phase,
    },
    /// It is approved, and another rebalance has to end first.
    AwaitsOther,
    /// It runs, and the cluster is not ready.
    KafkaNotReady,
    /// The engine has not seen enough of the cluster yet.
    TooLittleKnown(String),
    /// It runs, and Cruise Control must not be contacted any more: its progress is unknown.
    CruiseControlUrl(Refusal),
    /// Cruise Control could not be asked.
    Unreachable(String),
    /// Cruise Control does not say how far it is.
    NoProgress(String),
    /// What the plan does not take into account.
    PartialKnowledge(Vec<String>),
    /// A field that is known and has no effect.
    UnhonouredField(String),
    /// A field that is not known.
    UnknownField(String),
}

/// The reason of a condition: one word for programs. The list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The plan is approved, and another rebalance has to end first.
    AwaitsOtherRebalance,
    /// Cruise Control does not say how far it is.
    CruiseControlExecutorState,
    /// Cruise Control could not be asked.
    CruiseControlUnreachable,
    /// The engine could not be reached, or could not do it now.
    EngineUnavailable,
    /// The annotation does not fit the state.
    InvalidAnnotation,
    /// The cluster's Cruise Control must not be contacted.
    InvalidCruiseControlUrl,
    /// What the request asks for makes no sense. Strimzi's word.
    InvalidResourceException,
    /// The cluster is not ready.
    KafkaNotReady,
    /// There is no such cluster. Strimzi's word.
    NoSuchResourceException,
    /// The plan does not take everything into account.
    PartialKnowledge,
    /// The engine cannot do it.
    RebalanceFailed,
    /// The engine has not seen enough of the cluster yet.
    TooLittleKnown,
    /// Fields are known and have no effect.
    UnhonouredFields,
    /// Fields are not known.
    UnknownFields,
}

impl Reason {
    /// The word in conditions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AwaitsOtherRebalance => "AwaitsOtherRebalance",
            Self::CruiseControlExecutorState => "CruiseControlExecutorState",
            Self::CruiseControlUnreachable => "CruiseControlUnreachable",
            Self::EngineUnavailable => "EngineUnavailable",
            Self::InvalidAnnotation => "InvalidAnnotation",
            Self::InvalidCruiseControlUrl => "InvalidCruiseControlUrl",
            Self::InvalidResourceException => "InvalidResourceException",
            Self::KafkaNotReady => "KafkaNotReady",
            Self::NoSuchResourceException => "NoSuchResourceException",
            Self::PartialKnowledge => "PartialKnowledge",
            Self::RebalanceFailed => "RebalanceFailed",
            Self::TooLittleKnown => "TooLittleKnown",
            Self::UnhonouredFields => "UnhonouredFields",
            Self::UnknownFields => "UnknownFields",
        }
    }
}

impl Hindrance {
    /// The reason of the condition.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NoClusterLabel | Self::NoCruiseControl | Self::InvalidSpec(_) => {
                Reason::InvalidResourceException
            }
            Self::NoKafka => Reason::NoSuchResourceException,
            Self::KafkaNotReady => Reason::KafkaNotReady,
            Self::CruiseControlUrl(_) => Reason::InvalidCruiseControlUrl,
        }
    }
}

impl Failure {
    /// The reason of the condition.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Hindered(hindrance) => hindrance.reason(),
            Self::Passing(_) => Reason::EngineUnavailable,
            Self::Final(_) => Reason::RebalanceFailed,
        }
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClusterLabel => f.write_str(
                "Resource lacks label 'strimzi.io/cluster': No cluster related to a possible \
                 rebalance.",
            ),
            Self::NoKafka => f.write_str("There is no Kafka resource of that name"),
            Self::KafkaNotReady => f.write_str("Kafka cluster is not Ready"),
            Self::NoCruiseControl => {
                f.write_str("Kafka resource lacks 'cruiseControl' declaration")
            }
            Self::InvalidSpec(what) => f.write_str(what),
            Self::CruiseControlUrl(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hindered(hindrance) => hindrance.fmt(f),
            Self::Passing(what) | Self::Final(what) => f.write_str(what),
        }
    }
}

impl Warning {
    /// The reason of the condition.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::InvalidAnnotation { .. } => Reason::InvalidAnnotation,
            Self::AwaitsOther => Reason::AwaitsOtherRebalance,
            Self::KafkaNotReady => Reason::KafkaNotReady,
            Self::TooLittleKnown(_) => Reason::TooLittleKnown,
            Self::CruiseControlUrl(_) => Reason::InvalidCruiseControlUrl,
            Self::Unreachable(_) => Reason::CruiseControlUnreachable,
            Self::NoProgress(_) => Reason::CruiseControlExecutorState,
            Self::PartialKnowledge(_) => Reason::PartialKnowledge,
            Self::UnhonouredField(_) => Reason::UnhonouredFields,
            Self::UnknownField(_) => Reason::UnknownFields,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidAnnotation { value, phase } => {
                let names: Vec<_> = phase.commands().iter().map(|command| command.name()).collect();
                write!(
                    f,
                    "Wrong annotation value: {value}. The rebalance resource supports the \
                     following annotations in {} state: [{}]",
                    phase.name(),
                    names.join(", ")
                )
            }
            Self::AwaitsOther => f.write_str(
                "The plan is approved and is carried out when the rebalance that runs has ended",
            ),
            Self::KafkaNotReady => {
                f.write_str("Kafka cluster is not Ready; moves that have begun go on")
            }
            Self::TooLittleKnown(what) => write!(f, "Not enough data for a plan: {what}"),
            Self::CruiseControlUrl(refusal) => {
                write!(f, "The progress of the rebalance is unknown. {refusal}")
            }
            Self::NoProgress(why) => {
                write!(f, "Progress update of rebalance skipped due to the following reason: {why}")
            }
            Self::PartialKnowledge(what) => {
                write!(f, "The plan does not take into account: {}", what.join(", "))
            }
            Self::Unreachable(what) | Self::UnhonouredField(what) | Self::UnknownField(what) => {
                f.write_str(what)
            }
        }
    }
}
