//! Whether Kafka's JVM makes progress, or its container must be restarted.
//!
//! 1. A sign of life is any answer of the agent in the JVM. Its threads answer while Kafka starts, recovers its logs and
//!    shuts down, so none of these is a hang, however long it takes.
//! 2. Questions are counted, not seconds: a container that is paused as a whole asks nothing, and has not missed an
//!    answer when it wakes up.
//! 3. From a request to stop on nothing is a hang: a controlled shutdown has the grace period of the pod.

use std::time::Duration;

/// How often the JVM is asked for a sign of life; as often as the kubelet probes.
pub const ASK_INTERVAL: Duration = Duration::from_secs(5);
/// A JVM that left so many questions in a row unanswered hangs. A minute: above the longest pause that ends by itself (a full
/// collection takes a second per GB of a heap of up to 32 GB), and above the session timeout of a broker (9 s) and the time after
/// which a replica is out of sync (30 s), so that others have taken over by then.
pub const UNANSWERED_MAX: u32 = 12;
/// The same for a JVM that has never answered: the five minutes that a pod has to become ready. The agent is the
/// first thing that the JVM starts, but a machine on which many start at once is slow.
pub const UNANSWERED_START_MAX: u32 = 60;

/// What is known of a JVM that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// Whether it has ever answered.
    pub has_answered: bool,
    /// The number of questions since its last answer.
    pub unanswered: u32,
    /// Whether the node was asked to stop.
    pub stopping: bool,
}

/// Whether the JVM makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It does, or may yet.
    Live,
    /// It left so many questions in a row unanswered.
    Hung {
        /// How many.
        unanswered: u32,
    },
}

/// Decides whether the JVM makes progress.
#[must_use]
pub const fn decide(facts: &Facts) -> Liveness {
    let max = if facts.has_answered { UNANSWERED_MAX } else { UNANSWERED_START_MAX };
    if facts.stopping || facts.unanswered < max {
        return Liveness::Live;
    }
    Liveness::Hung { unanswered: facts.unanswered }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_hold() {
        // Whether it has answered, the questions since, whether it is asked to stop, whether it hangs.
        let rows = [
            ("it was started a moment ago", false, 0, false, false),
            ("it answers, also during log recovery", true, 0, false, false),
            ("a long collection", true, 11, false, false),
            ("stopped for good", true, 12, false, true),
            ("and much later", true, 1_000, false, true),
            ("a slow start", false, 12, false, false),
            ("a start on a busy machine", false, 59, false, false),
            ("a start that never ends", false, 60, false, true),
            ("a controlled shutdown", true, 1_000, true, false),
            ("a stop during the start", false, 1_000, true, false),
        ];
        for (name, has_answered, unanswered, stopping, hangs) in rows {
            let facts = Facts { has_answered, unanswered, stopping };
            let expected = if hangs { Liveness::Hung { unanswered } } else { Liveness::Live };
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }

    /// By then leaders have moved, and the replicas are out of sync.
    #[test]
    fn others_have_taken_over_before_a_jvm_hangs() {
        const SESSION_TIMEOUT: Duration = Duration::from_secs(9);
        const REPLICA_LAG_MAX: Duration = Duration::from_secs(30);
        assert!(ASK_INTERVAL * UNANSWERED_MAX > SESSION_TIMEOUT.max(REPLICA_LAG_MAX));
    }
}
