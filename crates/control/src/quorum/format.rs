//! How the disks of a node are formatted, if at all.
//!
//! Formatting gives a disk its identity, and an identity is a vote: a majority of controllers that come
//! back empty under their old identities elects a leader with an empty log, and the metadata is lost.
//!
//! 1. A metadata log directory that is formatted is never formatted again.
//! 2. A controller that has been seen with its generated directory id never gets that id again: its
//!    next empty disk is an observer's, and joins by being added.
//!    A static quorum knows a voter by its node id alone, and has no observers among its controllers: the
//!    empty disk of one that has been seen is formatted only if the operator says so, which it does for one
//!    controller at a time, on a user's word, while enough others have everything ([`super::replace`]).
//! 3. What is not known is not guessed: an unknown quorum mode or an unknown "seen" formats nothing.
//! 4. A disk of another cluster or of another node is left unchanged, and so is one with files of which
//!    nobody says whose they are.
//! 5. Nothing is ever deleted. No decision has a word for it, least of all for `quorum-state`, where a
//!    controller remembers whom it voted for.
//!
//! "Seen" is what the operator has recorded: that the quorum has shown this controller with the
//! directory id of the list of initial controllers, as voter or as observer, or that this controller
//! was removed from the quorum; in a static quorum, that it was a voter that fetched or led. It is set once
//! and for all.

use std::fmt;

use model::{ClusterId, DirectoryId, NodeId};
use serde::{Deserialize, Serialize};

use super::InitialControllers;
use crate::annotations::Annotation;
use crate::node::Roles;

/// The exit code of a node whose empty disk waits until the operator knows more.
pub const WAIT_EXIT_CODE: u8 = 75;

/// How the controllers know each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QuorumMode {
    /// The voters are in the configuration (`kraft.version` 0).
    Static,
    /// The voters are in the metadata log (`kraft.version` 1).
    Dynamic,
    /// Nobody has been able to tell yet.
    #[default]
    Unknown,
}

/// What a formatted directory says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// The node it belongs to.
    pub node: NodeId,
    /// Its own id. Disks that a Kafka before 3.7 formatted have none until they are started.
    pub directory: Option<DirectoryId>,
}

/// What was found in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// Nothing, or not even the directory.
    Empty,
    /// The beginning of a format that was interrupted before the directory got its identity.
    Unfinished {
        /// Whether the list of initial controllers has been written already.
        has_voters: bool,
    },
    /// A format that was finished.
    Formatted {
        /// Its identity.
        stamp: Stamp,
        /// Whether a node has run on it since.
        used: bool,
    },
    /// Files, but no identity.
    Foreign {
        /// One of them.
        example: String,
    },
    /// The directory cannot be read.
    Unreadable {
        /// Why not.
        why: String,
    },
}

/// One of the node's log directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    /// Where it is.
    pub path: String,
    /// What is in it.
    pub disk: Disk,
}

/// What the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// What the node is for.
    pub roles: Roles,
    /// The cluster that the disks are to belong to.
    pub cluster: ClusterId,
    /// The node that the disks are to belong to.
    pub node: NodeId,
    /// The controllers that the cluster began with.
    pub initial: InitialControllers,
    /// Whether this controller has been seen with the directory id it has in `initial`, or in a static quorum
    /// at all.
    pub seen: Option<bool>,
    /// Whether an empty metadata disk of this controller of a static quorum is a replacement that may vote
    /// ([`super::replace`]).
    pub replaced: bool,
    /// The directory of the metadata log.
    pub metadata: LogDir,
    /// The other log directories.
    pub others: Vec<LogDir>,
}

/// What to do with the disks, and what to tell about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub act: Act,
    /// What a person should know besides.
    pub notes: Vec<Note>,
}

/// What to do with the disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// They are formatted.
    Leave,
    /// Run the storage tool.
    Format(Format),
    /// The node must not start.
    Refuse(Reason),
}

/// How to run the storage tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// What the disks learn about the voters.
    pub voters: Voters,
    /// Whether some directories are formatted already and are to be passed over. Without it the tool
    /// fails on them, which holds a mistake of ours.
    pub ignore_formatted: bool,
}

/// What the storage tool is told about the voters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voters {
    /// Nothing: the configuration has them.
    Static,
    /// `--no-initial-controllers`: the node learns them from the others.
    NoInitialControllers,
    /// `--initial-controllers`: the node is one of these.
    InitialControllers(InitialControllers),
}

/// Why a node must not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A disk that belongs to another cluster.
    OtherCluster {
        /// The directory.
        path: String,
        /// Whose it is.
        found: ClusterId,
        /// Whose it should be.
        wanted: ClusterId,
    },
    /// A disk that belongs to another node.
    OtherNode {
        /// The directory.
        path: String,
        /// Whose it is.
        found: NodeId,
        /// Whose it should be.
        wanted: NodeId,
    },
    /// Files of which nobody says whose they are.
    Foreign {
        /// The directory.
        path: String,
        /// One of the files.
        example: String,
    },
    /// The metadata log directory cannot be read.
    Unreadable {
        /// The directory.
        path: String,
        /// Why not.
        why: String,
    },
    /// A list of voters from a format that was interrupted, on a disk that must not have one now.
    StaleVoters {
        /// The directory.
        path: String,
    },
    /// An empty disk, and nobody knows whether the quorum is static or dynamic.
    ModeUnknown,
    /// An empty disk of an initial controller, and nobody knows whether it has been seen.
    SeenUnknown,
    /// An empty disk of a controller that has been seen in a static quorum: it would vote with an empty log.
    MetadataLost {
        /// The directory.
        path: String,
    },
}

impl Reason {
    /// Whether waiting can help: the operator will know more later, if only after a person told it. Everything
    /// else needs a person here.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::ModeUnknown | Self::SeenUnknown | Self::MetadataLost { .. } => true,
            Self::OtherCluster { .. }
            | Self::OtherNode { .. }
            | Self::Foreign { .. }
            | Self::Unreadable { .. }
            | Self::StaleVoters { .. } => false,
        }
    }
}

/// Something a person should know that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The disk with the metadata log was lost while others of the node were kept.
    MetadataLost {
        /// The directory that is empty now.
        path: String,
    },
    /// An initial controller comes back empty and is an observer until it is added.
    ComesBackAsObserver {
        /// The directory id that the quorum may still know it by.
        former: DirectoryId,
    },
    /// A directory that Kafka will start without.
    DiskUnreadable {
        /// The directory.
        path: String,
        /// Why it cannot be read.
        why: String,
    },
}

/// Decides what to do with the disks of a node.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let mut notes = unreadable_notes(&facts.others);
    // What a format would lose is only worth a note if it is done.
    let mut of_format = Vec::new();
    let act = match refusal(facts) {
        Some(reason) => Act::Refuse(reason),
        None if !facts.dirs().any(LogDir::needs_format) => Act::Leave,
        None => match voters(facts, &mut of_format) {
            Ok(voters) => {
                notes.append(&mut of_format);
                let ignore_formatted = facts.dirs().any(|dir| dir.stamp().is_some());
                Act::Format(Format { voters, ignore_formatted })
            }
            Err(reason) => Act::Refuse(reason),
        },
    };
    Decision { act, notes }
}

impl Facts {
    fn dirs(&self) -> impl Iterator<Item = &LogDir> {
        std::iter::once(&self.metadata).chain(&self.others)
    }
}

impl LogDir {
    const fn needs_format(&self) -> bool {
        matches!(self.disk, Disk::Empty | Disk::Unfinished { .. })
    }

    const fn stamp(&self) -> Option<&Stamp> {
        match &self.disk {
            Disk::Formatted { stamp, .. } => Some(stamp),
            Disk::Empty
            | Disk::Unfinished { .. }
            | Disk::Foreign { .. }
            | Disk::Unreadable { .. } => None,
        }
    }
}

/// What no quorum mode makes right.
fn refusal(facts: &Facts) -> Option<Reason> {
    let wrong = |dir: &LogDir| {
        let path = dir.path.clone();
        match &dir.disk {
            Disk::Formatted { stamp, .. } if stamp.cluster != facts.cluster => {
                let (found, wanted) = (stamp.cluster.clone(), facts.cluster.clone());
                Some(Reason::OtherCluster { path, found, wanted })
            }
            Disk::Formatted { stamp, .. } if stamp.node != facts.node => {
                Some(Reason::OtherNode { path, found: stamp.node, wanted: facts.node })
            }
            Disk::Foreign { example } => Some(Reason::Foreign { path, example: example.clone() }),
            Disk::Formatted { .. }
            | Disk::Empty
            | Disk::Unfinished { .. }
            | Disk::Unreadable { .. } => None,
        }
    };
    let metadata = match &facts.metadata.disk {
        Disk::Unreadable { why } => {
            Some(Reason::Unreadable { path: facts.metadata.path.clone(), why: why.clone() })
        }
        Disk::Formatted { .. } | Disk::Empty | Disk::Unfinished { .. } | Disk::Foreign { .. } => {
            None
        }
    };
    facts.dirs().find_map(wrong).or(metadata)
}

/// What the empty directories are told about the voters.
fn voters(facts: &Facts, notes: &mut Vec<Note>) -> Result<Voters, Reason> {
    // Another disk that a node has run on says that this one is not new but lost, whoever was seen.
    let lived =
        facts.others.iter().any(|dir| matches!(dir.disk, Disk::Formatted { used: true, .. }));
    if lived && facts.metadata.needs_format() {
        notes.push(Note::MetadataLost { path: facts.metadata.path.clone() });
    }
    let voters = match facts.mode {
        QuorumMode::Unknown => return Err(Reason::ModeUnknown),
        QuorumMode::Static => static_voters(facts, lived)?,
        QuorumMode::Dynamic if facts.metadata.needs_format() => first_voters(facts, lived, notes)?,
        QuorumMode::Dynamic => Voters::NoInitialControllers,
    };
    let stale = matches!(facts.metadata.disk, Disk::Unfinished { has_voters: true });
    match voters {
        // The tool would leave the old list where it is, under the new identity.
        Voters::Static | Voters::NoInitialControllers if stale => {
            Err(Reason::StaleVoters { path: facts.metadata.path.clone() })
        }
        Voters::Static | Voters::NoInitialControllers | Voters::InitialControllers(_) => Ok(voters),
    }
}

/// What the empty directories of a static quorum are told about the voters: nothing. Once it is formatted, a
/// controller votes by its configuration, whatever it has forgotten.
fn static_voters(facts: &Facts, lived: bool) -> Result<Voters, Reason> {
    let votes = facts.roles.is_controller() && facts.metadata.needs_format();
    match (votes && !facts.replaced, lived, facts.seen) {
        (false, _, _) | (true, false, Some(false)) => Ok(Voters::Static),
        (true, true, _) | (true, false, Some(true)) => {
            Err(Reason::MetadataLost { path: facts.metadata.path.clone() })
        }
        (true, false, None) => Err(Reason::SeenUnknown),
    }
}

/// What an empty metadata log directory of a dynamic quorum is told about the voters.
fn first_voters(facts: &Facts, lived: bool, notes: &mut Vec<Note>) -> Result<Voters, Reason> {
    let own = facts.initial.get(facts.node).filter(|_| facts.roles.is_controller());
    match (own, lived, facts.seen) {
        (Some(_), false, Some(false)) => Ok(Voters::InitialControllers(facts.initial.clone())),
        (Some(_), false, None) => Err(Reason::SeenUnknown),
        (Some(own), true, _) | (Some(own), false, Some(true)) => {
            notes.push(Note::ComesBackAsObserver { former: own.directory });
            Ok(Voters::NoInitialControllers)
        }
        (None, _, _) => Ok(Voters::NoInitialControllers),
    }
}

/// Kafka starts without a directory that it cannot read, as long as it is not the metadata's.
fn unreadable_notes(others: &[LogDir]) -> Vec<Note> {
    let note = |dir: &LogDir| match &dir.disk {
        Disk::Unreadable { why } => {
            Some(Note::DiskUnreadable { path: dir.path.clone(), why: why.clone() })
        }
        Disk::Formatted { .. } | Disk::Empty | Disk::Unfinished { .. } | Disk::Foreign { .. } => {
            None
        }
    };
    others.iter().filter_map(note).collect()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster { path, found, wanted } => write!(
                f,
                "{path} belongs to the cluster {found} and not to {wanted}: give the node the disk \
                 of its own cluster, or an empty one"
            ),
            Self::OtherNode { path, found, wanted } => write!(
                f,
                "{path} belongs to node {found} and not to node {wanted}: give the node its own \
                 disk, or an empty one"
            ),
            Self::Foreign { path, example } => write!(
                f,
                "{path} has files (such as {example}) but no meta.properties, which names their \
                 node: restore it, or empty the directory"
            ),
            Self::Unreadable { path, why } => write!(
                f,
                "{path}, where the metadata log is, cannot be read ({why}): repair or replace the disk"
            ),
            Self::StaleVoters { path } => write!(
                f,
                "{path} has the initial voters of an unfinished format, which this controller \
                 must not have: empty the directory"
            ),
            Self::ModeUnknown => f.write_str(
                "the disks are empty, and it is not known yet whether the quorum is static or \
                 dynamic: waiting for the operator",
            ),
            Self::SeenUnknown => f.write_str(
                "the disks are empty, and it is not known yet whether this controller was a \
                 voter before: waiting for the operator",
            ),
            Self::MetadataLost { path } => write!(
                f,
                "{path}, where the metadata log was, is empty, and this controller would vote in a static \
                 quorum with an empty log: restore the disk, or annotate the pod with {}=true",
                Annotation::DiskReplaced.name()
            ),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MetadataLost { path } => write!(
                f,
                "{path}, where the metadata log was, is empty while other disks of the node are not: \
                 the metadata is fetched again"
            ),
            Self::ComesBackAsObserver { former } => write!(
                f,
                "this controller starts with an empty disk and a new directory id; it is an observer \
                 until it is added to the quorum, and the voter with directory id {former} is gone"
            ),
            Self::DiskUnreadable { path, why } => {
                write!(f, "{path} cannot be read ({why}): Kafka starts without it")
            }
        }
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
