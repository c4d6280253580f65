//! Whether Kafka's JVM makes progress, or its container must be restarted.
//!
//! 1. A sign of life is any answer of the agent in the JVM. Its threads answer while Kafka serves, recovers its logs and
//!    shuts down, so none of these is a hang, however long it takes.
//! 2. Intervals without an answer are counted, not seconds: a container that is paused as a whole counts nothing, and
//!    has not missed an answer when it wakes up. An interval in which a thread of the JVM waits for storage does not count:
//!    a thread in a page fault keeps the others from a safepoint until the storage answers, on every node that uses the
//!    storage, and a signal does not end such a wait. Neither does one in which the JVM has no file descriptors left: the
//!    agent serves no connection then, but Kafka serves those that it has.
//! 3. From a request to stop on nothing is a hang: a controlled shutdown has the grace period of the pod.
//! 4. A JVM that has never answered is not hung: a slow start is not told from one that never ends.
//! 5. A broker that has not served since its JVM was started is not hung: it may be recovering its logs, and a restart
//!    would begin that anew.
//! 6. Each earlier hang in the pod doubles the limit: where a restart cures nothing, restarts become rare. After
//!    [`CURED_AFTER`] the earlier hangs do not count any more.
//!
//! What is not a hang by rules 4 to 6 is not lost: the pod is not ready, and the operator decides whether to restart it.

use std::time::Duration;

use super::Roles;

/// How often the JVM is asked for a sign of life; as often as the kubelet probes.
pub const ASK_INTERVAL: Duration = Duration::from_secs(5);
/// A JVM that gave no sign of life for so many intervals in a row hangs, the first time in a pod. A minute: above the
/// longest pause that ends by itself (a full collection takes a second per GB of a heap of up to 32 GB), and above the
/// session timeout of a broker (9 s) and the time after which a replica is out of sync (30 s), so that others have
/// taken over by then.
pub const UNANSWERED_MAX: u32 = 12;
/// A JVM that has answered in so many intervals since it was started or hung is cured. An hour: one that a restart does not
/// cure hangs again sooner.
pub const CURED_AFTER: u32 = 720;

/// What was heard of the JVM in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// A sign of life.
    Answered,
    /// Nothing, and a thread of it waits for storage, or it has no file descriptors left, or both are unknown.
    Blocked,
    /// Nothing, and neither holds.
    Silent,
}

/// The number of intervals without an answer, after one more interval.
#[must_use]
pub const fn unanswered(before: u32, interval: Interval) -> u32 {
    match interval {
        Interval::Answered => 0,
        Interval::Blocked => before,
        Interval::Silent => before.saturating_add(1),
    }
}

/// Whether the hangs of a JVM that has answered in so many intervals since the last of them do not count any more.
#[must_use]
pub const fn is_cured(answered: u32) -> bool {
    answered >= CURED_AFTER
}

/// What is known of a JVM that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What the node is for.
    pub roles: Roles,
    /// Whether it has ever answered.
    pub has_answered: bool,
    /// Whether its broker has ever said that it serves.
    pub has_served: bool,
    /// The number of intervals without an answer since its last one, as [`unanswered`] counts them.
    pub unanswered: u32,
    /// How often a JVM has hung in this pod before.
    pub hangs_before: u32,
    /// Whether the node was asked to stop.
    pub stopping: bool,
}

/// Whether the JVM makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It does, or may yet.
    Live,
    /// It gave no sign of life for so many intervals in a row.
    Hung {
        /// How many.
        unanswered: u32,
    },
}

/// Decides whether the JVM makes progress.
#[must_use]
pub const fn decide(facts: &Facts) -> Liveness {
    let has_started = facts.has_answered && (facts.has_served || !facts.roles.is_broker());
    if facts.stopping || !has_started || facts.unanswered < limit(facts.hangs_before) {
        return Liveness::Live;
    }
    Liveness::Hung { unanswered: facts.unanswered }
}

/// How many intervals without an answer are a hang.
const fn limit(hangs_before: u32) -> u32 {
    UNANSWERED_MAX.saturating_mul(2_u32.saturating_pow(hangs_before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is decided of a JVM of a ready broker, or of what became of it.
    fn check(name: &str, change: fn(&mut Facts), hangs: bool) {
        let mut facts = Facts {
            roles: Roles::Broker,
            has_answered: true,
            has_served: true,
            unanswered: 12,
            hangs_before: 0,
            stopping: false,
        };
        change(&mut facts);
        let hung = Liveness::Hung { unanswered: facts.unanswered };
        assert_eq!(decide(&facts), if hangs { hung } else { Liveness::Live }, "{name}");
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        check("stopped for good",           |_| {}, true);
        check("and much later",             |f| f.unanswered = 1_000, true);
        check("a long collection",          |f| f.unanswered = 11, false);
        check("it answers",                 |f| f.unanswered = 0, false);
        check("a controlled shutdown",      |f| (f.unanswered, f.stopping) = (1_000, true), false);
        check("a combined node",            |f| f.roles = Roles::Combined, true);
        check("a controller",               |f| (f.roles, f.has_served) = (Roles::Controller, false), true);
    }

    #[test]
    #[rustfmt::skip]
    fn a_start_is_never_a_hang() {
        check("a start that never ends",    |f| (f.has_answered, f.has_served, f.unanswered) = (false, false, 1_000), false);
        check("the same of a controller",   |f| (f.roles, f.has_answered, f.unanswered) = (Roles::Controller, false, 1_000), false);
        check("log recovery on a slow disk", |f| (f.has_served, f.unanswered) = (false, 1_000), false);
        check("the same of a combined node", |f| (f.roles, f.has_served, f.unanswered) = (Roles::Combined, false, 1_000), false);
    }

    #[test]
    #[rustfmt::skip]
    fn each_hang_doubles_the_limit() {
        check("once before",                |f| (f.hangs_before, f.unanswered) = (1, 23), false);
        check("once before, and for longer", |f| (f.hangs_before, f.unanswered) = (1, 24), true);
        check("five times before",          |f| (f.hangs_before, f.unanswered) = (5, 383), false);
        check("for longer still",           |f| (f.hangs_before, f.unanswered) = (5, 384), true);
        check("unknown how often",          |f| (f.hangs_before, f.unanswered) = (u32::MAX, u32::MAX - 1), false);
    }

    #[test]
    fn an_interval_in_which_the_jvm_is_blocked_does_not_count() {
        use Interval::{Answered, Blocked, Silent};
        let count = |intervals: &[Interval]| intervals.iter().fold(0, |n, i| unanswered(n, *i));
        for (intervals, expected) in [
            (&[Silent, Silent, Silent][..], 3),
            (&[Blocked, Blocked, Blocked], 0),
            (&[Silent, Blocked, Blocked, Silent], 2),
            (&[Silent, Blocked, Answered], 0),
            (&[Silent, Answered, Silent], 1),
        ] {
            assert_eq!(count(intervals), expected, "{intervals:?}");
        }
        assert_eq!(unanswered(u32::MAX, Silent), u32::MAX);
    }

    #[test]
    fn a_jvm_is_cured_after_an_hour_of_answers() {
        assert_eq!(ASK_INTERVAL * CURED_AFTER, Duration::from_secs(3_600));
        assert!(!is_cured(CURED_AFTER - 1));
        assert!(is_cured(CURED_AFTER));
    }
}
