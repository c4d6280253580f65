//! What a pass of the roller is told.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::availability::PartitionFacts;
use super::config::Diff;
use super::memory::Memory;
use super::quorum;
use super::reasons::Reason;
use crate::node::Roles;
use crate::node::readiness::BrokerState;

/// What a pass knows. What could not be read, or was not asked for, is unknown, never absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// All nodes of the cluster that should be, by id.
    pub nodes: Vec<NodeFacts>,
    /// The quorum, as Kafka describes it.
    pub quorum: Option<quorum::Facts>,
    /// Whether the voters are those that should be, as the quorum planner sees it: no disk was replaced
    /// under a voter, nothing is to be added or removed. Else no controller is restarted.
    pub quorum_settled: Option<bool>,
    /// The voters when they were last known. Empty only if the quorum never had any.
    pub voters: BTreeSet<NodeId>,
    /// All partitions.
    pub partitions: Option<Vec<PartitionFacts>>,
    /// What the last pass recorded.
    pub memory: Memory,
}

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its id.
    pub node: NodeId,
    /// What it is for: as its pod says, which may be older than what is desired.
    pub roles: Roles,
    /// The pool it belongs to.
    pub pool: String,
    /// The rack of its broker.
    pub rack: Option<String>,
    /// Whether its metadata log is on a volume that is deleted with its pod.
    pub ephemeral: bool,
    /// Whether its pod has data of partitions, or may have, on a volume that is deleted with it.
    pub ephemeral_data: bool,
    /// Its pod.
    pub pod: Pod,
    /// Why its pod should be restarted, as far as the pod itself tells.
    pub reasons: BTreeSet<Reason>,
    /// Whether a restart was asked for on its pod set, for all pods of the set.
    pub set_annotated: bool,
    /// What it says of itself if it is not ready.
    pub recovery: Recovery,
    /// Whether its broker is fenced, or not registered, as Kafka says; none if that is unknown.
    pub fenced: Option<bool>,
    /// Whether Kafka answers on it.
    pub contact: Contact,
    /// How the settings that it runs with differ from those that it should have.
    pub config: Option<Diff>,
    /// Whether it leads every partition that it should lead and is in sync with.
    pub leads_preferred: Option<bool>,
}

/// The pod of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pod {
    /// It could not be read.
    Unknown,
    /// There is none.
    Absent,
    /// There is one.
    There(PodFacts),
}

/// What is known of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Which pod of this name it is.
    pub uid: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When its grace period ends, if it is being deleted.
    pub deletion_ms: Option<u64>,
    /// When it was made.
    pub created_ms: u64,
    /// What the container of Kafka waits for, in the word of Kubernetes; none if it does not wait.
    pub waiting: Option<String>,
    /// Whether it is pending and cannot be scheduled.
    pub unschedulable: bool,
}

#[cfg(test)]
impl PodFacts {
    /// A pod that is ready.
    pub(crate) fn ready(uid: &str, created_ms: u64) -> Self {
        Self { uid: uid.to_owned(), ready: true, created_ms, ..Self::default() }
    }
}

impl Pod {
    /// The pod, if there is one.
    #[must_use]
    pub fn there(&self) -> Option<&PodFacts> {
        match self {
            Self::There(pod) => Some(pod),
            Self::Unknown | Self::Absent => None,
        }
    }

    /// Which pod it is.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.there().map(|pod| pod.uid.as_str())
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.there().is_some_and(|pod| pod.deleting)
    }

    /// Whether it is ready and stays: one that is being deleted is on its way out.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.there().is_some_and(|pod| pod.ready && !pod.deleting)
    }

    /// Whether it is known not to be ready. One that could not be read may be.
    #[must_use]
    pub fn is_down(&self) -> bool {
        *self != Self::Unknown && !self.is_ready()
    }
}

/// Whether a node that is not ready recovers its logs, and what it does instead, as far as it says so itself.
///
/// Only a broker reports its recovery. A node that is only a controller has one log, the metadata, and does not say that
/// it recovers it: it is one that is not ready, is waited for, and is restarted once after that. Strimzi's proposal 060
/// does not restart it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Recovery {
    /// The node could not be asked.
    #[default]
    Unknown,
    /// It does not.
    No,
    /// It does not: its broker has not begun to serve, and is fenced until it has.
    Starting,
    /// It does not: its JVM makes no progress, as its node program says. Whether it serves is certain only
    /// if Kafka has lost sight of it too.
    Hung,
    /// It does, or it loads them, and this is left.
    Yes {
        /// Logs.
        logs: u64,
        /// Segments.
        segments: u64,
    },
}

impl Recovery {
    /// What the state of a broker means, with the logs and segments that remain. `RECOVERY` says that the active
    /// controller has acknowledged the broker as caught up, which may be before or after the logs are loaded. So what
    /// remains shows whether it recovers them, not the name of the state.
    #[must_use]
    pub const fn of_broker(state: BrokerState, logs: Option<u64>, segments: Option<u64>) -> Self {
        match state {
            BrokerState::NotRunning | BrokerState::Starting | BrokerState::Recovery => {
                match (logs, segments) {
                    (Some(0), Some(0)) => Self::Starting,
                    // Strimzi's agent reports what remains in one state only.
                    (None | Some(0), None | Some(0)) => Self::Unknown,
                    (Some(logs), Some(segments)) => Self::Yes { logs, segments },
                    (Some(logs), None) => Self::Yes { logs, segments: 0 },
                    (None, Some(segments)) => Self::Yes { logs: 0, segments },
                }
            }
            // One that shuts down may still lead.
            BrokerState::Running
            | BrokerState::PendingControlledShutdown
            | BrokerState::ShuttingDown => Self::No,
            BrokerState::Unknown(_) => Self::Unknown,
        }
    }
}

/// Whether Kafka answers on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Contact {
    /// It was not asked.
    #[default]
    Unknown,
    /// It does.
    Answers,
    /// It does not, though it was asked.
    Fails,
    /// It refuses the certificate, or we refuse its: nobody can ask it anything until it is restarted.
    RefusesCertificate,
}

/// How long a pod may take to become ready, unless the operator is told otherwise: Strimzi's number.
pub const OPERATION_TIMEOUT_MS: u64 = 300_000;

/// How patient and how bold the roller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often a node is tried before it is given up. It is tried on even then, whenever it is looked
    /// at, but the roll counts as failed and does not wait for it.
    pub attempts_max: u32,
    /// How long after the first attempt the second comes; the distance then doubles.
    pub backoff_first_ms: u64,
    /// How long a pod may take to become ready.
    pub operation_timeout_ms: u64,
    /// How long replicas may take to be in sync again before the next batch is looked at, and how long a
    /// node that min-ISR holds back is waited for before it is given up.
    pub heal_timeout_ms: u64,
    /// How long a broker may take to lead what it should lead, before the next batch is looked at.
    pub elect_timeout_ms: u64,
    /// From which age on a pod whose container is being made is stuck.
    pub creating_ms_max: u64,
    /// How often a change of settings is tried on a running node before the node is restarted for it.
    pub update_attempts_max: u32,
    /// How long a changed setting may take to be seen.
    pub update_settle_ms: u64,
    /// How often to look while a restart is under way.
    pub poll_ms: u64,
    /// How many brokers may be restarted at once.
    pub parallel_max: usize,
    /// The same for the pools that have a number of their own. Their brokers share no batch with others.
    pub pool_parallel_max: BTreeMap<String, usize>,
    /// Whether brokers that take partitions offline whatever one does may share a batch.
    pub join_offline: bool,
    /// Whether controllers may be restarted that take the metadata along.
    pub accept_metadata_loss: bool,
    /// Whether brokers get their leaderships back once they are in sync.
    pub elect_preferred: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // Ten attempts, 250 ms to 64 s apart: Strimzi's numbers.
            attempts_max: 10,
            backoff_first_ms: 250,
            operation_timeout_ms: OPERATION_TIMEOUT_MS,
            // A broker with some terabytes catches up in minutes, after minutes of starting.
            heal_timeout_ms: 600_000,
            // An election takes a second or two.
            elect_timeout_ms: 30_000,
            // A volume moves from one machine to another in a minute or two, and an image of a gigabyte
            // is there by then.
            creating_ms_max: 180_000,
            update_attempts_max: 3,
            // The metadata reaches every node within a second.
            update_settle_ms: 5_000,
            poll_ms: 1_000,
            parallel_max: 1,
            pool_parallel_max: BTreeMap::new(),
            join_offline: false,
            accept_metadata_loss: false,
            elect_preferred: true,
        }
    }
}

impl Settings {
    /// How long to wait after so many attempts.
    #[must_use]
    pub fn backoff_ms(&self, attempts: u32) -> u64 {
        let doublings = attempts.clamp(1, self.attempts_max.max(2) - 1) - 1;
        self.backoff_first_ms.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_shows_whether_a_broker_recovers_its_logs() {
        let yes = |logs: u64, segments: u64| Recovery::Yes { logs, segments };
        let of = |number: i32, logs, segments| {
            Recovery::of_broker(BrokerState::from_number(number), logs, segments)
        };
        for number in [0, 1, 2] {
            let rows = [
                (Some(7), Some(9), yes(7, 9)),
                (Some(7), Some(0), yes(7, 0)),
                (Some(0), Some(9), yes(0, 9)),
                (Some(7), None, yes(7, 0)),
                (None, Some(9), yes(0, 9)),
                (Some(0), Some(0), Recovery::Starting),
                (Some(0), None, Recovery::Unknown),
                (None, Some(0), Recovery::Unknown),
                (None, None, Recovery::Unknown),
            ];
            for (logs, segments, expected) in rows {
                assert_eq!(of(number, logs, segments), expected, "{number} {logs:?} {segments:?}");
            }
        }
        // A state of a later Kafka may be anything.
        let unknown = [127, -1, 4, i32::MAX].map(|number| (number, Recovery::Unknown));
        let known = [3, 6, 7].map(|number| (number, Recovery::No));
        for (number, expected) in known.into_iter().chain(unknown) {
            assert_eq!(of(number, Some(0), Some(0)), expected, "{number}");
        }
    }
}
