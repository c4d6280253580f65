//! From a static quorum to a dynamic one.
//!
//! 1. It begins when the user asks for it (`strimzi.io/kraft-quorum-migration: "true"`), and can be taken
//!    back until `kraft.version` is raised. From there on there is only the way forward: Kafka never lowers
//!    it again.
//! 2. `kraft.version` is raised only when every controller runs, votes and has caught up, on a Kafka and a
//!    metadata version that can do it. Kafka has the last word: it also wants to have heard of each
//!    controller's disk, and refuses until it has.
//! 3. The directory ids are read after that. Before, Kafka shows zeros.
//! 4. The list of controllers, and that all of them were seen, is recorded before the nodes are rolled: a disk
//!    that is lost during the roll must not come back as a voter.
//! 5. The annotation goes last, so that what is interrupted goes on.
//! 6. A quorum that is dynamic without a list of controllers, because somebody raised `kraft.version` or made
//!    it so before us, is taken from there on without being asked. On one that has its list the annotation
//!    means nothing ([`is_ignored`]).
//!
//! Seed 001 removes the annotation before the nodes are rolled. Here it stays until they are, so that it
//! says when the migration is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::format::QuorumMode;
use super::mode::DYNAMIC_LEVEL;
use super::view::QuorumView;
use super::{InitialController, InitialControllers, QuorumRecord};
use crate::annotations::Annotation;
use crate::registration::{KafkaVersion, MetadataVersion};
use crate::words::list;

/// The annotation that asks for it.
pub const ANNOTATION: &str = Annotation::QuorumMigration.name();

/// The oldest Kafka that can raise `kraft.version` of a cluster that lives.
pub const OLDEST_KAFKA: KafkaVersion = KafkaVersion::new(4, 1, 0);

/// How far a migration is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// Nobody asked.
    #[default]
    Idle,
    /// All controllers have to be up and known.
    Gathering,
    /// `kraft.version` is being raised.
    Raising,
    /// The directory ids are being read and recorded.
    Reading,
    /// The nodes are being restarted with `controller.quorum.bootstrap.servers`.
    Rolling,
    /// The annotation is being removed.
    Unmarking,
    /// It is done.
    Done,
}

use Phase::{Done, Gathering, Idle, Raising, Reading, Rolling, Unmarking};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The user asks for it, and it can be done.
    Asked,
    /// The quorum is dynamic already, and its controllers are not recorded.
    FoundDynamic,
    /// All controllers are up and known.
    Ready,
    /// Not all of them are, any more.
    Unready,
    /// The user does not ask for it any more.
    Withdrawn,
    /// `kraft.version` is 1.
    Raised,
    /// The controllers are recorded.
    Recorded,
    /// All nodes run with the new setting.
    Rolled,
    /// The annotation is gone.
    Unmarked,
}

use Event::{Asked, FoundDynamic, Raised, Ready, Recorded, Rolled, Unmarked, Unready, Withdrawn};

/// The whole machine. A pair that is not listed is a bug in [`read`], not a no-op.
#[rustfmt::skip]
pub const TRANSITIONS: &[(Phase, Event, Phase)] = &[
    (Idle,      Asked,        Gathering),
    (Idle,      FoundDynamic, Reading),
    (Gathering, Raised,       Reading),   // somebody else was faster
    (Gathering, Withdrawn,    Idle),
    (Gathering, Ready,        Raising),
    (Raising,   Raised,       Reading),
    (Raising,   Withdrawn,    Idle),      // if it is raised all the same, it is found dynamic
    (Raising,   Unready,      Gathering),
    (Reading,   Recorded,     Rolling),
    (Rolling,   Rolled,       Unmarking),
    (Unmarking, Unmarked,     Done),
];

/// The ends.
pub const FINAL: &[Phase] = &[Done];

/// What the shell keeps doing, again and again, until the phase is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    Nothing,
    /// Ask Kafka for `kraft.version` 1, and for nothing else in the same request.
    RaiseKraftVersion,
    /// Record what [`controllers`] gives, if it gives something.
    RecordControllers,
    /// Restart the nodes that run with `controller.quorum.voters`, as any other roll.
    Roll,
    /// Remove the annotation.
    RemoveAnnotation,
}

/// What a phase asks for.
#[must_use]
pub const fn duty(phase: Phase) -> Duty {
    match phase {
        Idle | Gathering | Done => Duty::Nothing,
        Raising => Duty::RaiseKraftVersion,
        Reading => Duty::RecordControllers,
        Rolling => Duty::Roll,
        Unmarking => Duty::RemoveAnnotation,
    }
}

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whether the annotation is there and `true`.
    pub asked: bool,
    /// What is recorded of the quorum.
    pub record: QuorumRecord,
    /// The finalized level of `kraft.version`. `None` if Kafka could not be asked.
    pub kraft_version: Option<i16>,
    /// The finalized level of `metadata.version`. `None` if Kafka could not be asked.
    pub metadata_level: Option<i16>,
    /// The oldest Kafka that a controller runs. `None` if it is not known of one.
    pub oldest_kafka: Option<KafkaVersion>,
    /// The controllers that are desired.
    pub desired: BTreeSet<NodeId>,
    /// Those whose pods run and are ready.
    pub running: BTreeSet<NodeId>,
    /// The quorum. `None` if it could not be described.
    pub quorum: Option<QuorumView>,
    /// Where each controller is reached, host and port.
    pub endpoints: BTreeMap<NodeId, (String, u16)>,
    /// Whether every node runs with `controller.quorum.bootstrap.servers`. `None` if not known.
    pub rolled: Option<bool>,
    /// What Kafka said when it last refused to raise `kraft.version`. It need not survive a restart.
    pub refused: Option<String>,
}

impl Facts {
    fn is_raised(&self) -> bool {
        self.kraft_version.is_some_and(|level| level >= DYNAMIC_LEVEL)
    }

    fn is_static(&self) -> bool {
        self.kraft_version == Some(0) && self.record.mode != QuorumMode::Dynamic
    }

    fn is_recorded(&self) -> bool {
        self.record.mode == QuorumMode::Dynamic && !self.record.initial.is_empty()
    }
}

/// Reads the facts in the light of the phase. An unknown fact makes no rule hold, so we wait.
#[must_use]
pub fn read(phase: Phase, facts: &Facts) -> Option<Event> {
    let first = |rules: &[(bool, Event)]| rules.iter().find(|(holds, _)| *holds).map(|(_, e)| *e);
    let raised = (facts.is_raised(), Raised);
    let withdrawn = (!facts.asked && facts.is_static(), Withdrawn);
    match phase {
        Idle => {
            let found = facts.is_raised() && facts.record.initial.is_empty();
            let may_begin = facts.asked && facts.is_static() && incapable(facts).is_none();
            first(&[(found, FoundDynamic), (may_begin, Asked)])
        }
        Gathering => first(&[raised, withdrawn, (missing(facts).is_none(), Ready)]),
        // What is only unknown for a moment is no reason to go back.
        Raising => {
            let unready = matches!(missing(facts), Some(Hold::Controllers { .. }));
            first(&[raised, withdrawn, (unready, Unready)])
        }
        Reading => first(&[(facts.is_recorded(), Recorded)]),
        Rolling => first(&[(facts.rolled == Some(true), Rolled)]),
        Unmarking => first(&[(!facts.asked, Unmarked)]),
        Done => None,
    }
}

/// The phase that an event leads to; `None` for a pair that is not in the table.
#[must_use]
pub fn next(phase: Phase, event: Event) -> Option<Phase> {
    TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (phase, event)).map(|(.., to)| *to)
}

/// Whether the annotation is there and means nothing: the quorum is dynamic, and nothing is under way. Worth
/// an Event; removing it is up to the user.
#[must_use]
pub fn is_ignored(phase: Phase, facts: &Facts) -> bool {
    matches!(phase, Idle | Done) && facts.asked && facts.is_recorded()
}

/// The record of a quorum that has just become dynamic: its voters are the initial controllers, and all of
/// them were seen. `None` as long as a voter's disk or address is not known.
#[must_use]
pub fn controllers(facts: &Facts) -> Option<QuorumRecord> {
    if !facts.is_raised() {
        return None;
    }
    let one = |voter: &super::Replica| {
        let (host, port) = facts.endpoints.get(&voter.id)?.clone();
        Some(InitialController { node: voter.id, host, port, directory: voter.directory? })
    };
    let voters = facts.quorum.as_ref()?.voters.iter();
    let all: Vec<InitialController> = voters.map(one).collect::<Option<_>>()?;
    let seen = all.iter().map(|one| one.node).chain(facts.record.seen.iter().copied()).collect();
    let initial = InitialControllers::new(all).ok().filter(|list| !list.is_empty())?;
    Some(QuorumRecord { mode: QuorumMode::Dynamic, initial, seen, ..QuorumRecord::default() })
}

/// What a migration waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// A controller runs a Kafka that cannot do it.
    KafkaTooOld(KafkaVersion),
    /// The metadata version is too old.
    MetadataTooOld(Option<MetadataVersion>),
    /// Something about the cluster could not be read.
    Unknown,
    /// Controllers that are not up, do not vote, or have not caught up.
    Controllers {
        /// Those that do not run.
        down: BTreeSet<NodeId>,
        /// Those that vote and have not caught up.
        behind: BTreeSet<NodeId>,
        /// Those that are desired or vote, but not both.
        differ: BTreeSet<NodeId>,
    },
    /// Kafka has not raised `kraft.version` yet, and what it said last.
    Raise(Option<String>),
    /// The disk or the address of a voter is not known yet.
    Disks,
    /// Nodes have to be restarted.
    Roll,
    /// The annotation has to go.
    Annotation,
}

/// What the phase waits for; `None` if nothing is awaited, or the next pass goes on by itself.
#[must_use]
pub fn hold(phase: Phase, facts: &Facts) -> Option<Hold> {
    if read(phase, facts).is_some() {
        return None;
    }
    match phase {
        Idle if facts.asked && facts.is_static() => incapable(facts),
        Idle if facts.asked && !facts.is_recorded() => Some(Hold::Unknown),
        Idle | Done => None,
        Gathering => missing(facts).or(Some(Hold::Unknown)),
        Raising => Some(Hold::Raise(facts.refused.clone())),
        Reading => Some(Hold::Disks),
        Rolling => Some(Hold::Roll),
        Unmarking => Some(Hold::Annotation),
    }
}

/// What makes a migration impossible for now.
fn incapable(facts: &Facts) -> Option<Hold> {
    let (Some(kafka), Some(level)) = (facts.oldest_kafka, facts.metadata_level) else {
        return Some(Hold::Unknown);
    };
    if kafka < OLDEST_KAFKA {
        return Some(Hold::KafkaTooOld(kafka));
    }
    let metadata = MetadataVersion::of_level(level);
    let needed = MetadataVersion::DYNAMIC_QUORUM.level();
    (Some(level) < needed).then_some(Hold::MetadataTooOld(metadata))
}

/// What is missing for `kraft.version` to be raised.
fn missing(facts: &Facts) -> Option<Hold> {
    if let Some(hold) = incapable(facts) {
        return Some(hold);
    }
    let Some(view) = &facts.quorum else { return Some(Hold::Unknown) };
    let voters: BTreeSet<NodeId> = view.voters.iter().map(|voter| voter.id).collect();
    let down: BTreeSet<NodeId> = &facts.desired - &facts.running;
    let late = view.voters.iter().filter(|voter| !view.has_caught_up(voter));
    let behind: BTreeSet<NodeId> = late.map(|voter| voter.id).collect();
    let differ: BTreeSet<NodeId> = &facts.desired ^ &voters;
    if !(down.is_empty() && behind.is_empty() && differ.is_empty()) {
        return Some(Hold::Controllers { down, behind, differ });
    }
    // A leader that has just been elected knows nobody yet.
    view.high_watermark.is_none().then_some(Hold::Unknown)
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KafkaTooOld(kafka) => write!(
                f,
                "a controller runs Kafka {kafka}: the migration needs {OLDEST_KAFKA} or newer"
            ),
            Self::MetadataTooOld(version) => write!(
                f,
                "the migration needs metadata version {} or newer{}",
                MetadataVersion::DYNAMIC_QUORUM,
                version.map_or(String::new(), |version| format!(", not {version}"))
            ),
            Self::Unknown => f.write_str("the state of the quorum could not be read"),
            Self::Controllers { down, behind, differ } => {
                let part = |text: &str, ids: &BTreeSet<NodeId>| {
                    (!ids.is_empty()).then(|| format!("{text} {}", list(ids)))
                };
                let parts = [
                    part("not running:", down),
                    part("not caught up:", behind),
                    part("desired or voting, but not both:", differ),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                write!(f, "the migration waits for all controllers ({})", parts.join("; "))
            }
            Self::Raise(None) => f.write_str("kraft.version is being raised"),
            Self::Raise(Some(said)) => {
                write!(f, "kraft.version is being raised; Kafka answered: {said}")
            }
            Self::Disks => f.write_str("the directory ids of the controllers are being read"),
            Self::Roll => {
                f.write_str("the nodes are being moved to controller.quorum.bootstrap.servers")
            }
            Self::Annotation => write!(f, "the annotation {ANNOTATION} is being removed"),
        }
    }
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
