//! Whether the operator is removed, and in which order.
//!
//! 1. Finalizers are removed when no operator runs: a running one would set them again, or take their removal for the end of
//!    a drain.
//! 2. A pool that is being drained keeps its finalizer: without it, its brokers and their data would be deleted at once.
//! 3. Moves of partitions are completed by the operator, which then removes their throttles.
//! 4. A user is told which clusters nobody will manage any more, and accepts it.
//! 5. Definitions of custom resources are not deleted: Kubernetes would delete all clusters with them.

use std::fmt;

use crate::{scaling, topics};

/// A resource with a finalizer of Gregor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A `KafkaNodePool`: its deletion drains its brokers.
    Pool,
    /// A `KafkaTopic`: its deletion deletes the topic.
    Topic,
    /// A `KafkaRebalance` that the operator created.
    Rebalance,
    /// The Secret of a user: its deletion deletes the user in Kafka.
    User,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pool, Self::Topic, Self::Rebalance, Self::User];

    /// The finalizer of the operator.
    #[must_use]
    pub const fn finalizer(self) -> &'static str {
        match self {
            Self::Pool => scaling::pool::FINALIZER,
            Self::Topic => topics::FINALIZER,
            Self::Rebalance => "strimzi.io/auto-rebalancing",
            Self::User => "gregor.io/scram-user",
        }
    }

    /// Its name in Kubernetes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "KafkaNodePool",
            Self::Topic => "KafkaTopic",
            Self::Rebalance => "KafkaRebalance",
            Self::User => "Secret",
        }
    }
}

/// A resource with a finalizer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether its cluster is being deleted or does not exist: then there is nothing left to protect.
    pub is_abandoned: bool,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// Its namespace and name.
    pub name: String,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether partitions are being moved. `None` if that is unknown.
    pub is_moving: Option<bool>,
}

/// Facts about an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// Resources with finalizers.
    pub held: Vec<Held>,
    /// Whether only finalizers are removed.
    pub finalizers_only: bool,
    /// Whether an operator runs. `None` if that is unknown.
    pub operator_runs: Option<bool>,
    /// Whether the user accepts that nobody manages the clusters.
    pub leaves_clusters: bool,
    /// Whether the user accepts what is lost with unfinished operations.
    pub is_forced: bool,
}

/// Why nothing is removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// A cluster would lose its operator.
    Cluster(String),
    /// Partitions are being moved.
    Moving(String),
    /// It is unknown whether partitions are being moved.
    MovingUnknown(String),
    /// A pool is being drained.
    Draining(String),
    /// A topic is being deleted.
    Topic(String),
    /// A user is being deleted.
    User(String),
    /// The operator runs, and would set finalizers again.
    OperatorRuns,
    /// It is unknown whether the operator runs.
    OperatorUnknown,
}

/// Reasons to remove nothing; none if the removal may begin.
#[must_use]
pub fn blockers(facts: &Facts) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if facts.finalizers_only {
        match facts.operator_runs {
            Some(false) => {}
            Some(true) => blockers.push(Blocker::OperatorRuns),
            None => blockers.push(Blocker::OperatorUnknown),
        }
    }
    let present = || facts.clusters.iter().filter(|cluster| !cluster.is_deleting);
    if !facts.leaves_clusters {
        blockers.extend(present().map(|cluster| Blocker::Cluster(cluster.name.clone())));
    }
    if facts.is_forced {
        return blockers;
    }
    blockers.extend(present().filter_map(|cluster| match cluster.is_moving {
        Some(true) => Some(Blocker::Moving(cluster.name.clone())),
        None => Some(Blocker::MovingUnknown(cluster.name.clone())),
        Some(false) => None,
    }));
    let unfinished = facts.held.iter().filter(|held| held.is_deleting && !held.is_abandoned);
    blockers.extend(unfinished.filter_map(|held| {
        let name = format!("{}/{}", held.namespace, held.name);
        match held.kind {
            Kind::Pool => Some(Blocker::Draining(name)),
            Kind::Topic => Some(Blocker::Topic(name)),
            Kind::User => Some(Blocker::User(name)),
            // Nothing in Kafka depends on the resource: its moves are counted with the cluster.
            Kind::Rebalance => None,
        }
    }));
    blockers
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => write!(
                f,
                "Kafka {name} would run without an operator: nothing restarts its pods, renews its certificates or manages \
                 its topics and users. Delete it first, or accept that with --leave-clusters"
            ),
            Self::Moving(name) => write!(
                f,
                "partitions of Kafka {name} are being moved: wait until the moves are complete and their throttles are \
                 removed, or accept the throttles with --force"
            ),
            Self::MovingUnknown(name) => write!(
                f,
                "it is unknown whether partitions of Kafka {name} are being moved: accept that with --force"
            ),
            Self::Draining(name) => write!(
                f,
                "KafkaNodePool {name} is being deleted and its brokers are drained: wait until they are, or lose what only \
                 they have with --force"
            ),
            Self::Topic(name) => write!(
                f,
                "KafkaTopic {name} is being deleted: wait until its topic is, or keep the topic with --force"
            ),
            Self::User(name) => write!(
                f,
                "the user of Secret {name} is being deleted: wait until it is, or let the user log in further with --force"
            ),
            Self::OperatorRuns => f.write_str(
                "the operator runs and would set the finalizers again: stop it first, or uninstall it without \
                 --finalizers-only",
            ),
            Self::OperatorUnknown => {
                f.write_str("it is unknown whether the operator runs: its Lease cannot be read")
            }
        }
    }
}

/// A step of the removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Delete the Deployment, and wait until no operator holds the Lease.
    StopOperator,
    /// Remove finalizers.
    RemoveFinalizers,
    /// Delete the other objects of the installation. Definitions, the namespace and all clusters stay.
    DeleteObjects,
}

/// The steps, in order. A step begins when the previous one is complete.
#[must_use]
pub const fn steps(finalizers_only: bool) -> &'static [Step] {
    match finalizers_only {
        true => &[Step::RemoveFinalizers],
        false => &[Step::StopOperator, Step::RemoveFinalizers, Step::DeleteObjects],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(kind: Kind, is_deleting: bool, is_abandoned: bool) -> Held {
        let (namespace, name) = ("n".to_owned(), "x".to_owned());
        Held { kind, namespace, name, is_deleting, is_abandoned }
    }

    fn cluster(is_deleting: bool, is_moving: Option<bool>) -> Cluster {
        Cluster { name: "n/c".to_owned(), is_deleting, is_moving }
    }

    #[test]
    fn clusters_and_unfinished_operations_block_the_removal() {
        use Blocker::{Cluster as Managed, Draining, Moving, MovingUnknown, Topic, User};
        let (c, x) = (|| "n/c".to_owned(), || "n/x".to_owned());
        // The clusters, the held resources, and what blocks the removal without any flag, with --leave-clusters, and with
        // --force besides.
        let quiet = || vec![cluster(false, Some(false))];
        let rows: Vec<(Vec<Cluster>, Vec<Held>, Vec<Blocker>, Vec<Blocker>)> = vec![
            (vec![], vec![], vec![], vec![]),
            (quiet(), vec![], vec![Managed(c())], vec![]),
            (vec![cluster(true, None)], vec![held(Kind::Pool, true, true)], vec![], vec![]),
            (
                vec![cluster(false, Some(true))],
                vec![],
                vec![Managed(c()), Moving(c())],
                vec![Moving(c())],
            ),
            (
                vec![cluster(false, None)],
                vec![],
                vec![Managed(c()), MovingUnknown(c())],
                vec![MovingUnknown(c())],
            ),
            (
                quiet(),
                vec![held(Kind::Pool, true, false)],
                vec![Managed(c()), Draining(x())],
                vec![Draining(x())],
            ),
            (quiet(), vec![held(Kind::Pool, false, false)], vec![Managed(c())], vec![]),
            (
                quiet(),
                vec![held(Kind::Topic, true, false), held(Kind::User, true, false)],
                vec![Managed(c()), Topic(x()), User(x())],
                vec![Topic(x()), User(x())],
            ),
            (quiet(), vec![held(Kind::Rebalance, true, false)], vec![Managed(c())], vec![]),
            (vec![], vec![held(Kind::Pool, true, true)], vec![], vec![]),
        ];
        for (clusters, held, plain, leaving) in rows {
            let facts = Facts { clusters, held, ..Facts::default() };
            assert_eq!(blockers(&facts), plain, "{facts:?}");
            let facts = Facts { leaves_clusters: true, ..facts };
            assert_eq!(blockers(&facts), leaving, "{facts:?}");
            assert_eq!(blockers(&Facts { is_forced: true, ..facts }), vec![]);
        }
    }

    #[test]
    fn finalizers_alone_are_removed_only_while_no_operator_runs() {
        let rows = [
            (Some(false), vec![]),
            (Some(true), vec![Blocker::OperatorRuns]),
            (None, vec![Blocker::OperatorUnknown]),
        ];
        for (operator_runs, expected) in rows {
            let facts = Facts { finalizers_only: true, operator_runs, ..Facts::default() };
            assert_eq!(blockers(&facts), expected);
            // No flag lets two of them write at the same time.
            let facts = Facts { is_forced: true, leaves_clusters: true, ..facts };
            assert_eq!(blockers(&facts), expected);
            // A full removal stops it first.
            assert_eq!(blockers(&Facts { finalizers_only: false, ..facts }), vec![]);
        }
    }

    #[test]
    fn the_operator_is_stopped_before_finalizers_are_removed() {
        let at = |step: Step| steps(false).iter().position(|one| *one == step).unwrap();
        assert!(at(Step::StopOperator) < at(Step::RemoveFinalizers));
        assert!(at(Step::RemoveFinalizers) < at(Step::DeleteObjects));
        assert_eq!(steps(true), [Step::RemoveFinalizers]);
    }
}
