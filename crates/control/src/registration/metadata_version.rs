//! Which metadata version the cluster should be at.
//!
//! 1. It goes up only when every node runs the Kafka that is desired: a node that does not support the
//!    new version could not come back. So during a change of Kafka's version it stays.
//! 2. It goes up only after the stale registrations are gone that can be forgotten: Kafka asks each
//!    registered node for its support, also those that have not existed for years.
//! 3. It goes down only if the user writes the older version, and never over a change of the form of what
//!    is stored; Kafka refuses that. Going down does not wait for the nodes, because every Kafka reads what
//!    is older: it has to happen before an older Kafka is started.
//! 4. A dynamic quorum needs 3.9-IV0.
//! 5. `kraft.version` is another feature and is never moved along.
//! 6. What is not known is waited for. What Kafka refuses stays as it is and is told, with the node that is
//!    in the way; the cluster works on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::{KafkaVersion, MetadataVersion};
use crate::conditions::{self, Note};
use crate::quorum::format::QuorumMode;
use crate::words::list;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `spec.kafka.metadataVersion`: `4.1-IV1` or `4.1`.
    pub desired: Option<String>,
    /// The Kafka that all nodes are to run.
    pub kafka: KafkaVersion,
    /// The Kafka that each node runs, from its pod; `None` for a node of which it is not known, such as
    /// one without a pod.
    pub nodes: BTreeMap<NodeId, Option<KafkaVersion>>,
    /// The finalized level of `metadata.version`. `None` if Kafka could not be asked.
    pub level: Option<i16>,
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// Registrations of brokers that are about to be forgotten.
    pub unregistering: BTreeSet<NodeId>,
    /// What Kafka said when it was last asked for a change, from the record.
    pub refused: Option<Refused>,
}

/// That Kafka refused a metadata version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The version that was asked for.
    pub version: MetadataVersion,
    /// What Kafka said.
    pub message: String,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is what it should be.
    Keep,
    /// Ask Kafka for this change, of this one feature.
    Change {
        /// The version to go to.
        to: MetadataVersion,
        /// Its level.
        level: i16,
        /// Whether it goes up. Down is asked for as a safe downgrade.
        up: bool,
    },
    /// It will change when this is over.
    Wait(Waiting),
    /// It stays until the user changes something.
    Refuse(Reason),
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Kafka could not be asked for its level.
    Level,
    /// Nodes that run another Kafka, or of which that is not known.
    Nodes(BTreeSet<NodeId>),
    /// Brokers that are gone and that Kafka has not forgotten yet.
    Unregistration(BTreeSet<NodeId>),
}

/// Why the metadata version stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// What the user wrote is no metadata version that we know.
    NotAVersion(String),
    /// The Kafka that is desired does not have it yet.
    TooNew {
        /// What was asked for.
        desired: MetadataVersion,
        /// The newest that this Kafka has.
        newest: MetadataVersion,
    },
    /// The level of the cluster, or the Kafka that is desired, is newer than what we know.
    NewerThanKnown,
    /// It would go back over a change of the form of what is stored.
    NoWayBack {
        /// Where it is.
        from: MetadataVersion,
        /// What was asked for.
        to: MetadataVersion,
        /// The version that changed the form.
        over: MetadataVersion,
    },
    /// A dynamic quorum cannot be at this version.
    DynamicQuorum(MetadataVersion),
}

/// Decides what to do about the metadata version.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let Some(level) = facts.level else { return Decision::Wait(Waiting::Level) };
    let Some(newest) = facts.kafka.newest_metadata() else {
        return Decision::Refuse(Reason::NewerThanKnown);
    };
    let desired = match facts.desired.as_deref().map(MetadataVersion::of_user) {
        None => newest,
        Some(Ok(desired)) => desired,
        Some(Err(_)) => {
            return Decision::Refuse(Reason::NotAVersion(
                facts.desired.clone().unwrap_or_default(),
            ));
        }
    };
    if desired > newest {
        return Decision::Refuse(Reason::TooNew { desired, newest });
    }
    let (Some(current), Some(to)) = (MetadataVersion::of_level(level), desired.level()) else {
        return match facts.desired {
            // Nothing else was asked for.
            None => Decision::Keep,
            Some(_) => Decision::Refuse(Reason::NewerThanKnown),
        };
    };
    match desired.cmp(&current) {
        std::cmp::Ordering::Equal => Decision::Keep,
        std::cmp::Ordering::Greater => up(facts, desired, to),
        // A missing field does not ask for a downgrade.
        std::cmp::Ordering::Less if facts.desired.is_none() => Decision::Keep,
        std::cmp::Ordering::Less => down(facts, current, desired, to),
    }
}

fn up(facts: &Facts, to: MetadataVersion, level: i16) -> Decision {
    let behind = facts.nodes.iter().filter(|(_, runs)| **runs != Some(facts.kafka));
    let behind: BTreeSet<NodeId> = behind.map(|(id, _)| *id).collect();
    if !behind.is_empty() {
        return Decision::Wait(Waiting::Nodes(behind));
    }
    if !facts.unregistering.is_empty() {
        return Decision::Wait(Waiting::Unregistration(facts.unregistering.clone()));
    }
    Decision::Change { to, level, up: true }
}

fn down(facts: &Facts, from: MetadataVersion, to: MetadataVersion, level: i16) -> Decision {
    if facts.mode != QuorumMode::Static && to < MetadataVersion::DYNAMIC_QUORUM {
        return Decision::Refuse(Reason::DynamicQuorum(to));
    }
    match from.point_of_no_return(to) {
        Some(over) => Decision::Refuse(Reason::NoWayBack { from, to, over }),
        None => Decision::Change { to, level, up: false },
    }
}

/// Whether the version is to become another one now or soon. Otherwise it does not matter who could be in the way.
#[must_use]
pub fn is_to_change(facts: &Facts) -> bool {
    match decide(facts) {
        Decision::Change { .. }
        | Decision::Wait(Waiting::Nodes(_) | Waiting::Unregistration(_)) => true,
        Decision::Keep | Decision::Wait(Waiting::Level) | Decision::Refuse(_) => false,
    }
}

/// What to tell of the last refusal: only while it still explains why the cluster differs from its spec.
///
/// `stale` and `ghosts` are the registrations of brokers and controllers that are gone.
#[must_use]
pub fn refusal(facts: &Facts, stale: &BTreeSet<NodeId>, ghosts: &BTreeSet<NodeId>) -> Option<Note> {
    let refused = facts.refused.as_ref()?;
    let Decision::Change { to, .. } = decide(facts) else { return None };
    if to != refused.version {
        return None;
    }
    let gone = |kind: &str, ids: &BTreeSet<NodeId>| {
        let named: Vec<NodeId> =
            ids.iter().copied().filter(|id| names(refused, kind, *id)).collect();
        (!named.is_empty()).then(|| format!("{kind} {}", list(named)))
    };
    let in_the_way: Vec<String> =
        [gone("broker", stale), gone("controller", ghosts)].into_iter().flatten().collect();
    let who = match in_the_way.is_empty() {
        true => String::new(),
        false => format!(" (the registration of {}, which is gone)", in_the_way.join(" and ")),
    };
    let message =
        format!("failed to update the metadata version to {to}: {}{who}", refused.message);
    Some(Note::new(conditions::Reason::MetadataUpdateFailed, message))
}

/// Whether Kafka's sentence names this node: `Broker 5 only supports versions 7-27`.
fn names(refused: &Refused, kind: &str, id: NodeId) -> bool {
    let message = refused.message.to_lowercase();
    let after_kind = message.match_indices(kind).map(|(at, _)| &message[at + kind.len()..]);
    let number = |rest: &str| {
        let rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<i32>().ok()
    };
    after_kind.into_iter().any(|rest| number(rest) == Some(id.get()))
}

impl Waiting {
    /// What to tell about it.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(conditions::Reason::MetadataVersionWaiting, self.to_string())
    }
}

impl Reason {
    /// What to tell about it.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(conditions::Reason::MetadataVersionRefused, self.to_string())
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level => f.write_str("the metadata version could not be read from Kafka"),
            Self::Nodes(nodes) => write!(
                f,
                "the metadata version stays until all nodes run the requested Kafka version; \
                 missing: {}",
                list(nodes)
            ),
            Self::Unregistration(brokers) => write!(
                f,
                "the metadata version stays until these are unregistered, which no longer exist: {}",
                list(brokers)
            ),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAVersion(text) => {
                write!(
                    f,
                    "\"{text}\" is not a known metadata version: use one such as 4.1-IV1 or 4.1"
                )
            }
            Self::TooNew { desired, newest } => write!(
                f,
                "metadata version {desired} is newer than the requested Kafka version, which \
                 supports up to {newest}"
            ),
            Self::NewerThanKnown => f.write_str(
                "this Kafka version or the metadata version of the cluster is newer than this \
                 operator supports: the metadata version stays as it is",
            ),
            Self::NoWayBack { from, to, over } => write!(
                f,
                "metadata version {from} cannot be downgraded to {to}: {over} changed the format \
                 of stored metadata"
            ),
            Self::DynamicQuorum(to) => write!(
                f,
                "a dynamic quorum needs metadata version {} or newer, not {to}",
                MetadataVersion::DYNAMIC_QUORUM
            ),
        }
    }
}

#[cfg(test)]
#[path = "metadata_version_tests.rs"]
mod tests;
