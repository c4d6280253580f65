//! How a pass begins: whether the cluster is reconciled at all, and whether Kafka is asked.
//!
//! 1. Nothing is done to a cluster that is paused. One that is being deleted is released also then: its user asked for
//!    that after the pause.
//! 2. Where a node is ready, Kafka is asked, and no answer is reported. Where none is, a controller may answer all the
//!    same, such as that of a combined node whose broker is not ready; there, no answer is what is expected, and counts
//!    as not having asked.
//! 3. A cluster that has never been ready and has no ready node is not asked: it is being created.

/// What a pass does with a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// It releases what the cluster leaves behind.
    Release,
    /// Nothing.
    Pause,
    /// It observes, decides and acts.
    Reconcile,
}

/// Decides what a pass does with a cluster.
#[must_use]
pub const fn begin(is_deleting: bool, is_paused: bool) -> Begin {
    match (is_deleting, is_paused) {
        (true, _) => Begin::Release,
        (false, true) => Begin::Pause,
        (false, false) => Begin::Reconcile,
    }
}

/// What is known of the nodes before Kafka is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// Whether one is ready.
    pub any_ready: bool,
    /// Whether the pod of a controller runs.
    pub controller_runs: bool,
    /// Whether the cluster has ever been ready.
    pub was_ready: bool,
}

/// Whether Kafka is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// It is not.
    No,
    /// It is, and no answer counts as not having asked.
    Hoping,
    /// It is.
    Yes,
}

/// Decides whether Kafka is asked.
#[must_use]
pub const fn asking(nodes: Nodes) -> Asking {
    match nodes {
        Nodes { any_ready: true, .. } => Asking::Yes,
        Nodes { any_ready: false, controller_runs: true, was_ready: true } => Asking::Hoping,
        Nodes { any_ready: false, .. } => Asking::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_cluster_is_left_alone_until_it_is_deleted() {
        let rows = [
            (false, false, Begin::Reconcile),
            (false, true, Begin::Pause),
            (true, false, Begin::Release),
            (true, true, Begin::Release),
        ];
        for (is_deleting, is_paused, expected) in rows {
            assert_eq!(begin(is_deleting, is_paused), expected, "{is_deleting} {is_paused}");
        }
    }

    #[test]
    fn kafka_is_asked_where_it_may_answer() {
        // Whether a node is ready, whether a controller runs, whether the cluster was ready.
        let rows = [
            (true, true, true, Asking::Yes),
            (true, true, false, Asking::Yes),
            (true, false, true, Asking::Yes),
            (true, false, false, Asking::Yes),
            (false, true, true, Asking::Hoping),
            (false, true, false, Asking::No),
            (false, false, true, Asking::No),
            (false, false, false, Asking::No),
        ];
        for (any_ready, controller_runs, was_ready, expected) in rows {
            let nodes = Nodes { any_ready, controller_runs, was_ready };
            assert_eq!(asking(nodes), expected, "{nodes:?}");
        }
    }
}
