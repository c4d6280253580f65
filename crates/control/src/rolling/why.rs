//! Why a node is not restarted now, for people and for machines.

use std::fmt;

use model::{NodeId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::facts::Recovery;
use super::node::Phase;
use super::reasons::{self, Reason};
use super::stuck::Stuck;
use super::{availability, quorum};
use crate::annotations::Annotation;

/// A node that something is to be done about, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The node.
    pub node: NodeId,
    /// Why it is to be restarted. Empty for one that is only being looked after.
    pub reasons: Vec<Reason>,
    /// What it waits for.
    pub hold: Hold,
    /// How often it was tried.
    pub attempts: u32,
    /// When the next attempt counts.
    pub backoff_until_ms: Option<u64>,
    /// Whether it was given up: the roll goes on without it, and counts as failed.
    pub given_up: bool,
}

/// What a node waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Hold {
    /// Its own restart is under way.
    UnderWay {
        /// How far it is.
        phase: Phase,
    },
    /// Its pod has to become ready first.
    NotReady,
    /// It recovers its logs, and this is left.
    LogRecovery {
        /// Logs.
        logs: u64,
        /// Segments.
        segments: u64,
    },
    /// Its pod was deleted, and has not gone in time.
    Terminating,
    /// Its pod cannot start, and would not after a restart either.
    Stuck {
        /// How it is stuck.
        state: Stuck,
    },
    /// It has no pod, and none has been made in time.
    NoPod,
    /// It was restarted and did not become well; there is no reason to try that again.
    DidNotHelp,
    /// It is not ready, and nobody knows whether it recovers its logs.
    StateUnknown,
    /// Kafka does not answer on it.
    Unreachable,
    /// The quorum could not be described.
    QuorumUnknown,
    /// The voters are not those that should be yet.
    QuorumUnsettled,
    /// The quorum would lose its majority.
    Quorum(quorum::Hold),
    /// The metadata of the cluster would be lost with its pod, or may be, and no user has accepted that.
    MetadataLoss,
    /// It is the active controller, and these come first.
    ActiveControllerLast {
        /// The other controllers.
        others: Vec<NodeId>,
    },
    /// The partitions could not be described.
    PartitionsUnknown,
    /// The partitions could not be described, and data of some may be deleted with its pod.
    CopiesUnknown,
    /// Partitions would have too few replicas in sync.
    MinIsr {
        /// One of them.
        partition: availability::Hold,
        /// How many there are.
        count: usize,
    },
    /// Data is deleted with its pod that no other node is known to have.
    LastCopy {
        /// One of the partitions.
        partition: TopicPartition,
        /// How many there are.
        count: usize,
    },
    /// Other nodes are being restarted.
    Others {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// Others have to become ready, of which there is still hope.
    OthersNotReady {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// Controllers come first.
    ControllersFirst {
        /// Those that are left.
        nodes: Vec<NodeId>,
    },
    /// Another node stops the whole roll.
    StoppedBy {
        /// Which.
        node: NodeId,
    },
    /// The pods of some nodes could not be read.
    PodsUnknown {
        /// Which.
        nodes: Vec<NodeId>,
    },
    /// It is its turn in the next batch, or in one of those after it.
    NextBatch,
    /// It was restarted for these settings, and still does not run with them.
    SettingsNotTaken {
        /// Their names.
        keys: Vec<String>,
    },
}

impl Hold {
    /// Whether it is about the node itself, so that being held is an attempt. The others are only the
    /// order of things.
    pub(super) const fn is_attempt(&self) -> bool {
        match self {
            Self::LogRecovery { .. }
            | Self::StateUnknown
            | Self::Unreachable
            | Self::QuorumUnknown
            | Self::QuorumUnsettled
            | Self::Quorum(_)
            | Self::MetadataLoss
            | Self::PartitionsUnknown
            | Self::CopiesUnknown
            | Self::MinIsr { .. }
            | Self::LastCopy { .. } => true,
            Self::UnderWay { .. }
            | Self::NotReady
            | Self::Terminating
            | Self::Stuck { .. }
            | Self::NoPod
            | Self::DidNotHelp
            | Self::ActiveControllerLast { .. }
            | Self::Others { .. }
            | Self::OthersNotReady { .. }
            | Self::ControllersFirst { .. }
            | Self::StoppedBy { .. }
            | Self::PodsUnknown { .. }
            | Self::NextBatch
            | Self::SettingsNotTaken { .. } => false,
        }
    }

    /// Log recovery, if that is what is waited for.
    pub(super) const fn recovery(recovery: Recovery) -> Option<Self> {
        match recovery {
            Recovery::Yes { logs, segments } => Some(Self::LogRecovery { logs, segments }),
            Recovery::Unknown | Recovery::No | Recovery::Starting | Recovery::Hung => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.node)?;
        if !self.reasons.is_empty() {
            write!(f, " ({})", reasons::list(&self.reasons))?;
        }
        write!(f, ": {}", self.hold)?;
        if self.given_up {
            write!(f, "; given up after {} attempts, tried on", self.attempts)?;
        }
        Ok(())
    }
}

const TERMINATING: &str = "its pod was deleted but still exists: check its machine, and delete \
                           the Node if the machine is gone; the other nodes are restarted \
                           without it";
const COPIES_UNKNOWN: &str = "no broker that keeps up with the controllers reports the in-sync replicas, and its data \
                              is deleted with its pod: wait for such a broker, or delete the pod to accept that its data \
                              is lost";

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnderWay { phase } => f.write_str(under_way(*phase)),
            Self::NotReady => f.write_str("waits for its pod to become ready"),
            Self::LogRecovery { logs, segments } => {
                write!(f, "recovers its logs: {logs} logs and {segments} segments remain")
            }
            Self::Terminating => f.write_str(TERMINATING),
            Self::Stuck { state } => write!(
                f,
                "its pod cannot start ({state}) and is not out of date, so a restart would not help: \
                 correct what keeps it from starting"
            ),
            Self::NoPod => f.write_str("it has no pod, and none has been made in time"),
            Self::DidNotHelp => f.write_str(
                "it was restarted and has not become ready since: check its log, then correct \
                 the cause or delete its pod",
            ),
            Self::StateUnknown => f.write_str(
                "it is not ready and cannot be asked whether it recovers its logs; the operator asks again before it \
                 is restarted",
            ),
            Self::Unreachable => f.write_str("Kafka does not answer on it; the operator asks again"),
            Self::QuorumUnknown => f.write_str("no controller describes the quorum"),
            Self::QuorumUnsettled => f.write_str("the voters are being changed first"),
            Self::Quorum(quorum::Hold::NoLeader) => f.write_str("the quorum has no leader"),
            Self::Quorum(quorum::Hold::Majority { caught_up, needed, behind }) => write!(
                f,
                "without it {caught_up} voters would be up to date and {needed} must be; behind: {}",
                list(behind)
            ),
            Self::MetadataLoss => write!(
                f,
                "its metadata is deleted with its pod, and the voters may have no majority without it: annotate the Kafka \
                 resource with {}: \"true\" to accept that the cluster is lost",
                Annotation::AcceptMetadataLoss.name()
            ),
            Self::ActiveControllerLast { others } => {
                write!(f, "it is the active controller and comes after {}", list(others))
            }
            Self::PartitionsUnknown => f.write_str(
                "no broker that keeps up with the controllers reports the in-sync replicas",
            ),
            Self::CopiesUnknown => f.write_str(COPIES_UNKNOWN),
            Self::MinIsr { partition, count } => min_isr(f, partition, *count),
            Self::LastCopy { partition, count } => last_copy(f, partition, *count),
            Self::Others { nodes } if nodes.len() == 1 => {
                write!(f, "waits while {} restarts", list(nodes))
            }
            Self::Others { nodes } => write!(f, "waits while {} restart", list(nodes)),
            Self::OthersNotReady { nodes } => write!(f, "waits for {} to become ready", list(nodes)),
            Self::ControllersFirst { nodes } => {
                write!(f, "controllers come first; to be restarted: {}", list(nodes))
            }
            Self::StoppedBy { node } => {
                write!(f, "nothing is restarted while node {node} does not become ready")
            }
            Self::PodsUnknown { nodes } => {
                write!(f, "nothing is restarted while the pods of {} cannot be read", list(nodes))
            }
            Self::NextBatch => f.write_str("it is in one of the next batches"),
            Self::SettingsNotTaken { keys } => write!(
                f,
                "it was restarted for {} and still runs with other values: correct them",
                keys.join(", ")
            ),
        }
    }
}

fn last_copy(f: &mut fmt::Formatter<'_>, partition: &TopicPartition, count: usize) -> fmt::Result {
    write!(f, "partition {partition}")?;
    and_more(f, count)?;
    f.write_str(
        " is in sync on no other node that is ready, and its data is deleted with the pod: wait for another replica, or \
         delete the pod to accept that",
    )
}

fn min_isr(f: &mut fmt::Formatter<'_>, hold: &availability::Hold, count: usize) -> fmt::Result {
    let availability::Hold { partition, in_sync, left, min_isr } = hold;
    match min_isr {
        Some(min) => write!(
            f,
            "partition {partition} has {in_sync} replicas in sync, without it {left}, and needs {min}"
        )?,
        None => write!(f, "min.insync.replicas of partition {partition} is unknown")?,
    }
    and_more(f, count)
}

fn and_more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count {
        0 | 1 => Ok(()),
        count => write!(f, " (and {} more)", count - 1),
    }
}

const fn under_way(phase: Phase) -> &'static str {
    match phase {
        Phase::Serving => "is about to be restarted",
        Phase::Restarting => "its pod is being deleted",
        Phase::Awaited => "its new pod is starting",
        Phase::Recovering => "its new pod recovers its logs",
        Phase::Stuck => "its new pod cannot start",
        Phase::Late => "its new pod has not become ready in time",
        Phase::Healing => "its replicas are catching up",
        Phase::Electing => "leaderships are moved back to it",
    }
}

/// Some nodes; of many only the first, since a condition is read by people.
pub(super) fn list(nodes: &[NodeId]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = nodes.iter().take(SHOWN).map(|node| format!("node {node}")).collect();
    match nodes.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}
