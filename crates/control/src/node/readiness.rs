//! Whether a node is ready, from what it says about itself.
//!
//! 1. A broker is ready while Kafka says that it runs: it is registered, unfenced and has caught up with
//!    the metadata. Before that it starts or recovers its logs; afterwards it is leaving.
//! 2. A controller is ready while it follows a leader and keeps up with it, as a voter or as an
//!    observer. An open port says nothing about that.
//! 3. A node with both roles is ready as a broker. It does not run before its controller has caught
//!    up, as both read one log; and when the quorum is lost later, clients must not lose the brokers too.
//! 4. What could not be read makes no node ready.
//!
//! Whether a controller keeps up cannot be told from offsets: when its leader dies, an observer of Kafka
//! 4.1 to 4.3 goes on showing that leader, and a high watermark equal to the end of its own log. What
//! stops is the beat of the metadata log, a record every `metadata.max.idle.interval.ms`. So the age of
//! the last record that was applied is the measure, by the clocks of this node and of the leader.

use std::fmt;
use std::time::Duration;

use model::NodeId;

use super::Roles;

/// The time in which Kafka's JVM has to say how it is. The agent in it answers in milliseconds; a JVM that collects
/// garbage for longer is not ready. A client of the node program has to wait for longer than this.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a broker that said that it recovers its logs is taken for one that still does. A machine that recovers logs
/// can be so busy that the agent takes longer than [`ANSWER_TIMEOUT`] every time. A restart would begin the recovery anew.
const RECOVERY_HELD: Duration = Duration::from_secs(60);
/// An applied record may be this old. The beat is half a second by default, an election takes a second or
/// two and must not be noticed, and clocks of one cluster agree to within some seconds.
const APPLIED_LAG_MS_MAX: u64 = 10_000;
/// With a slow beat, a controller is behind when it missed this many.
const BEATS_MISSED_MAX: u64 = 4;

/// What a broker says it is doing: Kafka's `BrokerState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokerState {
    /// Not even begun.
    NotRunning,
    /// Begins, and waits for its controllers.
    Starting,
    /// Reads its logs after a crash, which can take very long.
    Recovery,
    /// Serves.
    Running,
    /// Gives its leaderships away before it stops.
    PendingControlledShutdown,
    /// Stops.
    ShuttingDown,
    /// A number that Kafka has no name for, or its own "unknown" (127).
    Unknown(i32),
}

impl BrokerState {
    /// The state that Kafka has this number for.
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        match number {
            0 => Self::NotRunning,
            1 => Self::Starting,
            2 => Self::Recovery,
            3 => Self::Running,
            6 => Self::PendingControlledShutdown,
            7 => Self::ShuttingDown,
            other => Self::Unknown(other),
        }
    }

    /// The number that Kafka has for it.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::NotRunning => 0,
            Self::Starting => 1,
            Self::Recovery => 2,
            Self::Running => 3,
            Self::PendingControlledShutdown => 6,
            Self::ShuttingDown => 7,
            Self::Unknown(number) => number,
        }
    }

    /// Whether a broker in this state serves, or has served since it was started.
    #[must_use]
    pub const fn has_served(self) -> bool {
        match self {
            Self::Running | Self::PendingControlledShutdown | Self::ShuttingDown => true,
            Self::NotRunning | Self::Starting | Self::Recovery | Self::Unknown(_) => false,
        }
    }

    /// Its name in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRunning => "not-running",
            Self::Starting => "starting",
            Self::Recovery => "recovery",
            Self::Running => "running",
            Self::PendingControlledShutdown => "pending-controlled-shutdown",
            Self::ShuttingDown => "shutting-down",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Whether a broker still recovers its logs, from what it said this long ago and not since. It is the only old answer that
/// is believed, because it makes others wait. A broker that had nothing left to recover may serve by now.
#[must_use]
pub fn still_recovers(logs_left: u64, segments_left: u64, age: Duration) -> bool {
    (logs_left > 0 || segments_left > 0) && age < RECOVERY_HELD
}

/// What a member of the quorum is: the attribute `current-state` of Kafka's `raft-metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaftState {
    /// A voter, and the leader.
    Leader,
    /// A voter with a leader.
    Follower,
    /// No voter; has a leader.
    Observer,
    /// Has no leader: it looks for one, asks for votes or has given one.
    Leaderless,
}

impl RaftState {
    /// The state that Kafka has this word for. A word of a later Kafka is taken for none that leads or
    /// follows.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word {
            "leader" => Self::Leader,
            "follower" => Self::Follower,
            "observer" => Self::Observer,
            _ => Self::Leaderless,
        }
    }
}

/// What a controller says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControllerFacts {
    /// What it is in the quorum.
    pub state: Option<RaftState>,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// Up to where the log is committed, as far as it knows.
    pub high_watermark: Option<u64>,
    /// How old the last record is that it has applied.
    pub applied_lag_ms: Option<u64>,
}

/// What the decision rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What the node is for.
    pub roles: Roles,
    /// Whether the node was asked to stop.
    pub stopping: bool,
    /// What its broker does.
    pub broker: Option<BrokerState>,
    /// What its controller does.
    pub controller: ControllerFacts,
    /// How often the leader writes a record when there is nothing to write; `None` if it never does.
    pub beat_ms: Option<u64>,
}

/// Whether a node is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It is.
    Ready,
    /// It is not, and this is awaited.
    NotReady(Awaited),
}

/// What a node that is not ready waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// Kafka has not said anything yet.
    Answer,
    /// The broker is in another state.
    Running(BrokerState),
    /// The controller has no leader.
    Leader,
    /// The controller has a leader, but has not heard from it what is committed.
    HighWatermark,
    /// The controller does not keep up; its last record is so many milliseconds old.
    CatchUp(u64),
    /// The node stops.
    Nothing,
}

/// Decides whether a node is ready.
#[must_use]
pub fn decide(facts: &Facts) -> Readiness {
    let awaited = if facts.stopping {
        Some(Awaited::Nothing)
    } else if facts.roles.is_broker() {
        await_broker(facts.broker)
    } else {
        await_controller(&facts.controller, facts.beat_ms)
    };
    awaited.map_or(Readiness::Ready, Readiness::NotReady)
}

fn await_broker(state: Option<BrokerState>) -> Option<Awaited> {
    match state {
        Some(BrokerState::Running) => None,
        Some(other) => Some(Awaited::Running(other)),
        None => Some(Awaited::Answer),
    }
}

fn await_controller(facts: &ControllerFacts, beat_ms: Option<u64>) -> Option<Awaited> {
    match facts.state {
        None => return Some(Awaited::Answer),
        Some(RaftState::Leaderless) => return Some(Awaited::Leader),
        Some(RaftState::Leader | RaftState::Follower | RaftState::Observer) => {}
    }
    if facts.leader.is_none() {
        return Some(Awaited::Leader);
    }
    if facts.high_watermark.is_none() {
        return Some(Awaited::HighWatermark);
    }
    let Some(lag_ms) = facts.applied_lag_ms else { return Some(Awaited::Answer) };
    // Without a beat the last record may be of any age.
    let lag_ms_max =
        beat_ms.map(|beat| APPLIED_LAG_MS_MAX.max(beat.saturating_mul(BEATS_MISSED_MAX)));
    lag_ms_max.is_some_and(|max| lag_ms > max).then_some(Awaited::CatchUp(lag_ms))
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer => f.write_str("Kafka has not answered yet"),
            Self::Running(state) => {
                write!(f, "the broker is {} ({})", state.name(), state.number())
            }
            Self::Leader => f.write_str("the controller has no leader"),
            Self::HighWatermark => {
                f.write_str("the controller has not received the high watermark from its leader")
            }
            Self::CatchUp(lag_ms) => {
                write!(f, "the controller lags: its last record is {lag_ms} ms old")
            }
            Self::Nothing => f.write_str("the node was asked to stop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(roles: Roles, state: Option<i32>) -> Facts {
        let broker = state.map(BrokerState::from_number);
        let controller = ControllerFacts::default();
        Facts { roles, stopping: false, broker, controller, beat_ms: Some(500) }
    }

    /// As a live Kafka writes them: -1 is not known.
    fn controller(state: &str, leader: i32, high_watermark: i64, lag_ms: i64) -> Facts {
        let controller = ControllerFacts {
            state: (state != "?").then(|| RaftState::from_word(state)),
            leader: NodeId::new(leader),
            high_watermark: u64::try_from(high_watermark).ok(),
            applied_lag_ms: u64::try_from(lag_ms).ok(),
        };
        let roles = Roles::Controller;
        Facts { roles, stopping: false, broker: None, controller, beat_ms: Some(500) }
    }

    fn check(facts: &Facts, expected: Option<Awaited>) {
        let expected = expected.map_or(Readiness::Ready, Readiness::NotReady);
        assert_eq!(decide(facts), expected, "{facts:?}");
    }

    #[test]
    fn a_broker_is_ready_while_it_runs() {
        for roles in [Roles::Broker, Roles::Combined] {
            check(&broker(roles, Some(3)), None);
            check(&broker(roles, None), Some(Awaited::Answer));
            for other in [0, 1, 2, 4, 5, 6, 7, 127, -1] {
                let state = BrokerState::from_number(other);
                assert_eq!(state.number(), other);
                check(&broker(roles, Some(other)), Some(Awaited::Running(state)));
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_controller_is_ready_while_it_keeps_up() {
        let rows = [
            (controller("leader",           0,  38, 130),   None),
            (controller("follower",         0,  38, 130),   None),
            (controller("observer",         0,  39, 86),    None),
            (controller("observer",         0,  39, 10_000), None),
            // Its leader was frozen or killed a while ago, and nothing else shows it.
            (controller("observer",         0, 199, 14_530), Some(Awaited::CatchUp(14_530))),
            (controller("follower",         0, 199, 14_530), Some(Awaited::CatchUp(14_530))),
            // Just started; the age of no record is that of 1970.
            (controller("observer",         0,  -1, 1_794_722_666_659), Some(Awaited::HighWatermark)),
            (controller("observer",         0,   7, 1_794_722_666_659), Some(Awaited::CatchUp(1_794_722_666_659))),
            (controller("follower",        -1,  38, 10),    Some(Awaited::Leader)),
            (controller("unattached",      -1,  38, 10),    Some(Awaited::Leader)),
            (controller("unattached-voted", 0,  38, 10),    Some(Awaited::Leader)),
            (controller("prospective",     -1,  38, 10),    Some(Awaited::Leader)),
            (controller("prospective-voted", -1, 38, 10),   Some(Awaited::Leader)),
            (controller("candidate",       -1,  38, 10),    Some(Awaited::Leader)),
            (controller("resigned",         0,  38, 10),    Some(Awaited::Leader)),
            (controller("?",                0,  38, 10),    Some(Awaited::Answer)),
            (controller("follower",         0,  38, -1),    Some(Awaited::Answer)),
        ];
        for (facts, expected) in &rows {
            check(facts, *expected);
        }
    }

    #[test]
    fn a_slow_beat_is_given_its_time_and_no_beat_says_nothing() {
        let slow = Facts { beat_ms: Some(5_000), ..controller("observer", 0, 9, 20_000) };
        check(&slow, None);
        let late = Facts { beat_ms: Some(5_000), ..controller("observer", 0, 9, 20_001) };
        check(&late, Some(Awaited::CatchUp(20_001)));
        check(&Facts { beat_ms: None, ..controller("observer", 0, 9, 9_000_000) }, None);
    }

    #[test]
    fn who_was_asked_to_stop_is_not_ready() {
        let stopping = Facts { stopping: true, ..broker(Roles::Broker, Some(3)) };
        check(&stopping, Some(Awaited::Nothing));
        let stopping = Facts { stopping: true, ..controller("leader", 0, 1, 0) };
        check(&stopping, Some(Awaited::Nothing));
    }

    #[test]
    fn a_combined_node_is_no_less_ready_for_a_lost_quorum() {
        let lost = controller("candidate", -1, -1, 60_000).controller;
        check(&Facts { controller: lost, ..broker(Roles::Combined, Some(3)) }, None);
    }

    /// One that starts may be recovering its logs, and so may one in a state that we do not know.
    #[test]
    fn a_broker_has_served_once_it_runs() {
        let has_served = |number| BrokerState::from_number(number).has_served();
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 127].map(has_served),
            [false, false, false, true, true, true, false]
        );
    }

    #[test]
    fn only_log_recovery_is_believed_for_a_while() {
        for (logs, segments, seconds, expected) in
            [(7, 0, 0, true), (0, 3, 59, true), (7, 3, 60, false), (0, 0, 0, false)]
        {
            let age = Duration::from_secs(seconds);
            assert_eq!(still_recovers(logs, segments, age), expected, "{logs} {segments} {age:?}");
        }
    }
}
