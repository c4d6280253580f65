//! Whether the quorum is static or dynamic.
//!
//! 1. Kafka's own `kraft.version` is the truth, and it never goes down.
//! 2. What was recorded stands while Kafka cannot be asked.
//! 3. A cluster that never was begins with a dynamic quorum. Whether it ever was must be known: neither
//!    the record, nor the status, nor a claim may know a cluster id.
//! 4. Everything else is unknown, and unknown means hold: nothing is formatted, no voter is changed.
//!
//! Seed 001 tells the modes apart by `status.initialControllers`. Here that list is only believed where
//! it is there, because nobody but us writes it and only for dynamic quorums. That it is missing says
//! nothing: the status is a copy that other definitions of the resource prune.

use std::fmt;

use super::format::QuorumMode;

/// The level of `kraft.version` from which a quorum is dynamic.
pub const DYNAMIC_LEVEL: i16 = 1;

/// What is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What the record says; unknown if it says nothing, or if there is none.
    pub recorded: QuorumMode,
    /// Whether a list of initial controllers is known, from the record or from the status.
    pub has_initial: bool,
    /// Whether this cluster has ever been: the record, `status.clusterId` or a claim's annotation knows
    /// its id. A pass that cannot read one of them ends before it decides anything.
    pub existed: bool,
    /// The finalized level of `kraft.version`. A feature that Kafka does not name is at 0, but only in
    /// the answer of a node that knows the version of that agreement; else it is `None`.
    pub kraft_version: Option<i16>,
}

/// What the mode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The cluster never was: choose initial controllers, record them and the mode, then start.
    Begin,
    /// It is this one. Record it if the record says something else.
    Is {
        /// The mode; never [`QuorumMode::Unknown`].
        mode: QuorumMode,
        /// What a person should know besides.
        note: Option<Note>,
    },
    /// Nobody can tell.
    Hold(Reason),
}

impl Decision {
    /// The mode that the rest of a pass works with.
    #[must_use]
    pub const fn mode(&self) -> QuorumMode {
        match self {
            Self::Begin => QuorumMode::Dynamic,
            Self::Is { mode, .. } => *mode,
            Self::Hold(_) => QuorumMode::Unknown,
        }
    }
}

/// Something a person should know that stops nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The quorum was static when we last looked, and somebody raised `kraft.version`. Kafka's own tool
    /// does so on the way when it upgrades a whole release.
    RaisedByHand,
}

/// Why the mode is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The cluster has lived, nothing is recorded, and Kafka does not answer.
    AskKafka,
    /// A dynamic quorum was recorded, and Kafka says that it is static. That cannot be: either it is
    /// another cluster, or a node answered that does not know yet.
    Contradiction,
}

/// Whether a level contradicts what is recorded, so that the leader is asked: a controller that has just come back may not
/// have heard yet that the quorum is dynamic.
#[must_use]
pub const fn is_doubtful(recorded: QuorumMode, kraft_version: Option<i16>) -> bool {
    match (recorded, kraft_version) {
        (QuorumMode::Dynamic, Some(level)) => level < DYNAMIC_LEVEL,
        (QuorumMode::Dynamic, None) | (QuorumMode::Static | QuorumMode::Unknown, _) => false,
    }
}

/// Decides what the mode is.
#[must_use]
pub const fn decide(facts: &Facts) -> Decision {
    use QuorumMode::{Dynamic, Static, Unknown};
    match (facts.kraft_version, facts.recorded) {
        (Some(DYNAMIC_LEVEL..), Static) => {
            Decision::Is { mode: Dynamic, note: Some(Note::RaisedByHand) }
        }
        (Some(DYNAMIC_LEVEL..), Dynamic | Unknown) => is(Dynamic),
        (Some(_), Dynamic) => Decision::Hold(Reason::Contradiction),
        (Some(_), Unknown) if facts.has_initial => Decision::Hold(Reason::Contradiction),
        (Some(_), Static | Unknown) => is(Static),
        (None, Dynamic) => is(Dynamic),
        (None, Static) => is(Static),
        (None, Unknown) if facts.has_initial => is(Dynamic),
        (None, Unknown) if facts.existed => Decision::Hold(Reason::AskKafka),
        (None, Unknown) => Decision::Begin,
    }
}

const fn is(mode: QuorumMode) -> Decision {
    Decision::Is { mode, note: None }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AskKafka => {
                "the quorum mode is not recorded, and no controller answers: waiting for one \
                 that does"
            }
            Self::Contradiction => {
                "the quorum is recorded as dynamic, but Kafka reports kraft.version 0: check that the \
                 disks and the addresses are those of this cluster"
            }
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RaisedByHand => f.write_str(
                "kraft.version was raised outside of Gregor: the quorum is dynamic now, and the nodes \
                 are moved to controller.quorum.bootstrap.servers",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Decision::{Begin, Hold};
    use QuorumMode::{Dynamic, Static, Unknown};

    const RAISED: Decision = Decision::Is { mode: Dynamic, note: Some(Note::RaisedByHand) };

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // recorded, has initial controllers, existed, kraft.version
        let rows = [
            ("a new cluster",                       Unknown, false, false, None,    Begin),
            ("adopted, Kafka is silent",            Unknown, false, true,  None,    Hold(Reason::AskKafka)),
            ("adopted, static",                     Unknown, false, true,  Some(0), is(Static)),
            ("adopted, dynamic",                    Unknown, false, true,  Some(1), is(Dynamic)),
            ("record lost, status kept",            Unknown, true,  true,  None,    is(Dynamic)),
            ("record and cluster id lost",          Unknown, true,  false, None,    is(Dynamic)),
            ("record lost, Kafka says otherwise",   Unknown, true,  true,  Some(0), Hold(Reason::Contradiction)),
            ("Kafka answers for one that never was", Unknown, false, false, Some(0), is(Static)),
            ("static, silent",                      Static,  false, true,  None,    is(Static)),
            ("static",                              Static,  false, true,  Some(0), is(Static)),
            ("P16: raised outside of Gregor",        Static,  false, true,  Some(1), RAISED),
            ("dynamic, silent",                     Dynamic, true,  true,  None,    is(Dynamic)),
            ("dynamic",                             Dynamic, true,  true,  Some(1), is(Dynamic)),
            ("a level that is newer than we are",   Dynamic, true,  true,  Some(2), is(Dynamic)),
            ("a level never goes down",             Dynamic, true,  true,  Some(0), Hold(Reason::Contradiction)),
        ];
        for (name, recorded, has_initial, existed, kraft_version, expected) in rows {
            let facts = Facts { recorded, has_initial, existed, kraft_version };
            assert_eq!(decide(&facts), expected, "{name}");
        }
    }

    #[test]
    fn a_pass_works_with_the_mode_that_was_decided() {
        let rows = [(Begin, Dynamic), (is(Static), Static), (Hold(Reason::AskKafka), Unknown)];
        for (decision, expected) in rows {
            assert_eq!(decision.mode(), expected, "{decision:?}");
        }
    }

    #[test]
    fn sentences_say_what_to_do() {
        let rows = [
            (Reason::AskKafka.to_string(), "waiting for one that does"),
            (Reason::Contradiction.to_string(), "check that the disks and the addresses"),
            (Note::RaisedByHand.to_string(), "the quorum is dynamic now"),
        ];
        for (text, expected) in rows {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_new_cluster_begins_only_where_nothing_is_known_of_an_old_one() {
        for recorded in [Static, Dynamic, Unknown] {
            for has_initial in [false, true] {
                for existed in [false, true] {
                    for kraft_version in [None, Some(0), Some(1)] {
                        let facts = Facts { recorded, has_initial, existed, kraft_version };
                        let blank = recorded == Unknown && !has_initial && kraft_version.is_none();
                        let expected = blank && !existed;
                        assert_eq!(decide(&facts) == Begin, expected, "{facts:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_a_level_that_is_below_that_of_a_recorded_dynamic_quorum_is_doubtful() {
        let modes = [QuorumMode::Dynamic, QuorumMode::Static, QuorumMode::Unknown];
        for mode in modes {
            for level in [None, Some(0), Some(1), Some(2)] {
                let expected = mode == QuorumMode::Dynamic && level == Some(0);
                assert_eq!(is_doubtful(mode, level), expected, "{mode:?} {level:?}");
            }
        }
    }
}
