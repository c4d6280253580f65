//! Whether the empty disk of a controller of a static quorum may be formatted.
//!
//! A static quorum knows a voter by its node id alone. A controller that starts on an empty disk votes again at
//! once, and has forgotten what it acknowledged: with a voter that lags it can elect a leader that lacks
//! committed records, and a majority of such controllers elects one with an empty log.
//!
//! 1. A disk is replaced only on a user's word (`gregor.io/disk-replaced` on the pod), one at a time.
//! 2. While it is, so many other voters have caught up and have all committed records that every majority has
//!    one of them, which votes for no leader that lacks any.
//! 3. Unknown facts never permit it: where the quorum cannot be described, permission is withdrawn.
//! 4. Permission ends when the controller has caught up.
//!
//! A quorum that has lost its leader gets none back here: the disks of a majority have to come back.

use std::collections::BTreeSet;
use std::fmt;

use model::NodeId;

use super::format::QuorumMode;
use super::view::{QuorumView, Replica};
use crate::annotations::Annotation;
use crate::conditions::{Note, Reason};
use crate::words::list;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts<'a> {
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// The controllers that wait with an empty disk.
    pub waiting: BTreeSet<NodeId>,
    /// The controllers of which a user says that their disk was replaced.
    pub marked: BTreeSet<NodeId>,
    /// The quorum; `None` if it could not be described.
    pub quorum: Option<&'a QuorumView>,
}

/// What may be formatted, and what is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The controller whose empty disk may be formatted.
    pub format: Option<NodeId>,
    /// What people should know.
    pub warnings: Vec<Warning>,
}

/// Something people should know about a controller of a static quorum with an empty disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A user has to say whether it is lost.
    Unmarked(NodeId),
    /// Its user says so, and the quorum cannot be described.
    NotDescribed(NodeId),
    /// Its user says so, and too few others have everything.
    TooFew {
        /// Which.
        id: NodeId,
        /// Voters that have not caught up, besides.
        behind: BTreeSet<NodeId>,
        /// How many others are needed.
        needed: usize,
    },
}

/// Decides whose empty disk may be formatted.
#[must_use]
pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = Decision::default();
    if facts.mode != QuorumMode::Static {
        return decision;
    }
    let unmarked = facts.waiting.difference(&facts.marked);
    decision.warnings.extend(unmarked.copied().map(Warning::Unmarked));
    let Some(view) = facts.quorum else {
        let marked = facts.marked.intersection(&facts.waiting);
        decision.warnings.extend(marked.copied().map(Warning::NotDescribed));
        return decision;
    };
    let mut marked = facts.marked.iter().filter_map(|id| view.voter(*id));
    let Some(lost) = marked.find(|voter| !view.has_caught_up(voter)) else { return decision };
    let others = view.voters.iter().filter(|voter| voter.id != lost.id);
    let (complete, behind): (Vec<_>, Vec<_>) = others.partition(|voter| is_complete(view, voter));
    // Every majority of n voters has one of n - n/2 of them.
    let needed = view.voters.len() - view.voters.len() / 2;
    if complete.len() < needed {
        let behind = behind.into_iter().map(|voter| voter.id).collect();
        decision.warnings.push(Warning::TooFew { id: lost.id, behind, needed });
    } else {
        decision.format = Some(lost.id);
    }
    decision
}

/// Whether a voter has caught up and has every record that is committed.
fn is_complete(view: &QuorumView, voter: &Replica) -> bool {
    let has_all = match (voter.log_end, view.high_watermark) {
        (Some(end), Some(committed)) => end >= committed,
        (None, _) | (_, None) => false,
    };
    has_all && view.has_caught_up(voter)
}

impl Warning {
    /// What to tell about it.
    #[must_use]
    pub fn note(&self) -> Note {
        Note::new(Reason::ControllerDiskLost, self.to_string())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmarked(id) => write!(
                f,
                "controller {id} has an empty disk and would vote in the static quorum with an empty log, so it \
                 does not start: bring its disk back, or, if it is lost, annotate its pod with {}=true",
                Annotation::DiskReplaced.name()
            ),
            Self::NotDescribed(id) => write!(
                f,
                "the empty disk of controller {id} is not formatted while the quorum has no leader: bring back \
                 the disks of a majority of the controllers"
            ),
            Self::TooFew { id, behind, needed } => write!(
                f,
                "the empty disk of controller {id} is formatted when at least {needed} other controllers have \
                 caught up; behind: {}",
                list(behind)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quorum::majority;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    /// Voters 1, 2, … in a word each: `up` has everything, `late` lacks a committed record, `old` has not caught up for
    /// long, `-` was never there. The first that is up leads.
    fn view(words: &str) -> Option<QuorumView> {
        let words: Vec<_> = words.split_whitespace().collect();
        let replica = |(index, word): (usize, &&str)| {
            let (log_end, caught_up) = match *word {
                "up" => (Some(100), Some(10_000)),
                "late" => (Some(90), Some(9_500)),
                "old" => (Some(50), Some(1_000)),
                "-" => (None, None),
                other => panic!("no voter is {other}"),
            };
            Replica {
                id: id(i32::try_from(index).unwrap() + 1),
                directory: None,
                log_end,
                last_fetch_ms: caught_up,
                last_caught_up_ms: caught_up,
            }
        };
        let leader = words.iter().position(|word| *word == "up")?;
        Some(QuorumView {
            leader: id(i32::try_from(leader).unwrap() + 1),
            epoch: 1,
            high_watermark: Some(100),
            voters: words.iter().enumerate().map(replica).collect(),
            observers: Vec::new(),
            fetch_timeout_ms: 2_000,
        })
    }

    fn show(decision: &Decision) -> String {
        let warning = |warning: &Warning| match warning {
            Warning::Unmarked(id) => format!("unmarked {id}"),
            Warning::NotDescribed(id) => format!("no leader {id}"),
            Warning::TooFew { id, needed, .. } => format!("few {id} of {needed}"),
        };
        let format = decision.format.map(|id| format!("format {id}"));
        let all: Vec<_> = format.into_iter().chain(decision.warnings.iter().map(warning)).collect();
        all.join(", ")
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // The voters, who waits with an empty disk, who is marked.
        let rows: [(&str, &str, &[i32], &[i32], &str); 17] = [
            ("nobody",                          "up up up",     &[],     &[],     ""),
            ("lost, and nobody says so",        "up up old",    &[3],    &[],     "unmarked 3"),
            ("lost",                            "up up old",    &[3],    &[3],    "format 3"),
            ("before it waits",                 "up up old",    &[],     &[3],    "format 3"),
            ("it fetches",                      "up up -",      &[],     &[3],    "format 3"),
            ("it has caught up",                "up up up",     &[],     &[3],    ""),
            ("another is behind",               "up old old",   &[3],    &[3],    "few 3 of 2"),
            ("another lacks committed records", "up late old",  &[3],    &[3],    "few 3 of 2"),
            ("two are lost, one is marked",     "up old old",   &[2, 3], &[2],    "unmarked 3, few 2 of 2"),
            ("two are lost, both are marked",   "up old old",   &[2, 3], &[2, 3], "few 2 of 2"),
            ("there is no leader",              "old old old",  &[2, 3], &[2, 3], "no leader 2, no leader 3"),
            ("no leader, and nobody says so",   "old old old",  &[3],    &[],     "unmarked 3"),
            ("two of five, one after another",  "up up up - -", &[4, 5], &[4, 5], "format 4"),
            ("the second",                      "up up up up -", &[5],   &[4, 5], "format 5"),
            ("three of five",                   "up up - - -",  &[3, 4], &[3, 4], "few 3 of 3"),
            ("one of two",                      "up -",         &[2],    &[2],    "format 2"),
            ("not a voter",                     "up up up",     &[7],    &[7],    ""),
        ];
        for (name, voters, waiting, marked, expected) in rows {
            let view = view(voters);
            let set = |ids: &[i32]| ids.iter().map(|n| id(*n)).collect();
            let mode = QuorumMode::Static;
            let facts = Facts { mode, waiting: set(waiting), marked: set(marked), quorum: view.as_ref() };
            assert_eq!(show(&decide(&facts)), expected, "{name}");
            // A dynamic quorum needs none of it.
            for mode in [QuorumMode::Dynamic, QuorumMode::Unknown] {
                assert_eq!(decide(&Facts { mode, ..facts.clone() }), Decision::default(), "{name}");
            }
        }
    }

    /// Every quorum of up to five voters: whatever majority is elected by, one of them has all committed records.
    #[test]
    fn no_majority_has_forgotten_what_is_committed() {
        const WORDS: [&str; 4] = ["up", "late", "old", "-"];
        let mut formatted = 0;
        for count in 1..=5_u32 {
            for number in 0..4_usize.pow(count) {
                let word = |at: u32| WORDS[number / 4_usize.pow(at) % 4];
                let words: Vec<_> = (0..count).map(word).collect();
                let Some(view) = view(&words.join(" ")) else { continue };
                let all: BTreeSet<NodeId> = view.voters.iter().map(|voter| voter.id).collect();
                let facts = Facts {
                    mode: QuorumMode::Static,
                    waiting: all.clone(),
                    marked: all,
                    quorum: Some(&view),
                };
                let Some(empty) = decide(&facts).format else { continue };
                formatted += 1;
                let knows = |voter: &&Replica| voter.id != empty && voter.log_end == Some(100);
                let ignorant = view.voters.len() - view.voters.iter().filter(knows).count();
                assert!(ignorant < majority(view.voters.len()), "{words:?}");
            }
        }
        assert!(formatted > 100, "{formatted}");
    }
}
