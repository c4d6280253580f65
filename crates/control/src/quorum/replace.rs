//! Whether the empty disk of a controller of a static quorum may be formatted.
//!
//! A static quorum knows a voter by its node id alone. A controller that starts on an empty disk votes again at
//! once, and has forgotten what it acknowledged: with a voter that lags it can elect a leader that lacks
//! committed records, and a majority of such controllers elects one with an empty log.
//!
//! 1. A disk is lost if a user says so (`gregor.io/disk-replaced` on the pod), or if it is deleted
//!    with the pod and the node waits with an empty one. Lost disks are replaced one at a time.
//! 2. While one is, so many other voters have caught up and have all committed records that every
//!    majority has one of them, which votes for no leader that lacks any.
//! 3. Unknown facts never permit it: where the quorum cannot be described, permission is withdrawn,
//!    except by rule 5.
//! 4. Permission is for one pod, and ends when its controller has caught up.
//! 5. A quorum that cannot be described since a majority waits with empty disks gets no leader back
//!    by itself. If the user accepts that metadata is lost (`gregor.io/accept-metadata-loss`), only
//!    so many lost disks are formatted that there is a majority again. As long as one controller
//!    has its disk, every majority needs the vote of one that has, so what these remember is not
//!    lost.

use std::collections::BTreeSet;
use std::fmt;

use model::NodeId;

use super::format::QuorumMode;
use super::view::{QuorumView, Replica, majority};
use crate::annotations::Annotation;
use crate::conditions::{Note, Reason};
use crate::words::list;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts<'a> {
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// All controllers.
    pub controllers: BTreeSet<NodeId>,
    /// The controllers that wait with an empty disk.
    pub waiting: BTreeSet<NodeId>,
    /// The controllers of which a user says that their disk was replaced.
    pub marked: BTreeSet<NodeId>,
    /// The controllers whose disk is deleted with their pod.
    pub ephemeral: BTreeSet<NodeId>,
    /// The controllers whose pod already has permission.
    pub permitted: BTreeSet<NodeId>,
    /// Whether the user accepts that metadata is lost.
    pub accepts_loss: bool,
    /// The quorum; `None` if it could not be described.
    pub quorum: Option<&'a QuorumView>,
}

/// What may be formatted, and what is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The controllers whose empty disks may be formatted.
    pub format: BTreeSet<NodeId>,
    /// What people should know.
    pub warnings: Vec<Warning>,
}

/// Something people should know about a controller of a static quorum with an empty disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A user has to say whether it is lost.
    Unmarked(NodeId),
    /// It is lost, and the quorum cannot be described.
    NotDescribed(NodeId),
    /// It is formatted without a leader, as the user accepts.
    Accepted(NodeId),
    /// It is lost, and too few others have everything.
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
    let lost = facts.lost();
    let unmarked = facts.waiting.difference(&lost);
    decision.warnings.extend(unmarked.copied().map(Warning::Unmarked));
    let Some(view) = facts.quorum else {
        without_leader(facts, &lost, &mut decision);
        return decision;
    };
    let lost = lost.iter().filter_map(|id| view.voter(*id));
    let lost = lost.filter(|voter| !view.has_caught_up(voter));
    // One that has permission keeps it until it has caught up.
    let lost = lost.min_by_key(|voter| (!facts.permitted.contains(&voter.id), voter.id));
    let Some(lost) = lost else { return decision };
    let others = view.voters.iter().filter(|voter| voter.id != lost.id);
    let (complete, behind): (Vec<_>, Vec<_>) = others.partition(|voter| is_complete(view, voter));
    // Every majority of n voters has one of n - n/2 of them.
    let needed = view.voters.len() - view.voters.len() / 2;
    if complete.len() < needed {
        let behind = behind.into_iter().map(|voter| voter.id).collect();
        decision.warnings.push(Warning::TooFew { id: lost.id, behind, needed });
    } else {
        decision.format.insert(lost.id);
    }
    decision
}

impl Facts<'_> {
    /// The controllers whose disk is lost (1). One that may format it does not wait while it does so.
    fn lost(&self) -> BTreeSet<NodeId> {
        let is_gone = |id: &&NodeId| self.waiting.contains(id) || self.permitted.contains(id);
        let gone = self.ephemeral.iter().filter(is_gone);
        self.marked.iter().chain(gone).copied().collect()
    }
}

/// Permits so many formats that a quorum without a leader has a majority again (5).
fn without_leader(facts: &Facts<'_>, lost: &BTreeSet<NodeId>, decision: &mut Decision) {
    let is_empty = |id: &NodeId| facts.waiting.contains(id) || facts.permitted.contains(id);
    let mut empty: Vec<NodeId> = lost.iter().copied().filter(is_empty).collect();
    // Those that have permission may have used it, so they come first.
    empty.sort_by_key(|id| (!facts.permitted.contains(id), *id));
    let voters = facts.controllers.len();
    let with_disk = facts.controllers.iter().filter(|id| !empty.contains(id)).count();
    let missing = match facts.accepts_loss {
        true => majority(voters).saturating_sub(with_disk),
        false => 0,
    };
    for (number, id) in empty.into_iter().enumerate() {
        if number < missing {
            decision.format.insert(id);
            decision.warnings.push(Warning::Accepted(id));
        } else {
            decision.warnings.push(Warning::NotDescribed(id));
        }
    }
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
                 does not start: restore its disk, or, if it is lost, annotate its pod with {}=true",
                Annotation::DiskReplaced.name()
            ),
            Self::NotDescribed(id) => write!(
                f,
                "the empty disk of controller {id} is not formatted while the quorum has no leader: restore \
                 the disks of a majority of the controllers, or accept that metadata is lost with {}=true on \
                 the Kafka resource",
                Annotation::AcceptMetadataLoss.name()
            ),
            Self::Accepted(id) => write!(
                f,
                "the empty disk of controller {id} is formatted although the quorum has no leader, because of \
                 {}=true: metadata may be lost",
                Annotation::AcceptMetadataLoss.name()
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

    #[test]
    fn a_warning_names_the_controller_and_what_to_do() {
        let too_few = Warning::TooFew { id: id(3), behind: [id(2)].into(), needed: 2 };
        let rows = [
            (Warning::Unmarked(id(3)), "restore its disk"),
            (Warning::NotDescribed(id(3)), "is not formatted while the quorum has no leader"),
            (Warning::Accepted(id(3)), "metadata may be lost"),
            (too_few, "at least 2 other controllers"),
        ];
        for (warning, expected) in rows {
            let note = warning.note();
            assert_eq!(note.reason, Reason::ControllerDiskLost);
            let (names, says) =
                (note.message.contains("controller 3"), note.message.contains(expected));
            assert!(names && says, "{}", note.message);
        }
    }

    fn show(decision: &Decision) -> String {
        let warning = |warning: &Warning| match warning {
            Warning::Unmarked(id) => format!("unmarked {id}"),
            Warning::NotDescribed(id) => format!("no leader {id}"),
            Warning::Accepted(id) => format!("accepted {id}"),
            Warning::TooFew { id, needed, .. } => format!("few {id} of {needed}"),
        };
        let format = decision.format.iter().map(|id| format!("format {id}"));
        let all: Vec<_> = format.chain(decision.warnings.iter().map(warning)).collect();
        all.join(", ")
    }

    fn set(ids: &[i32]) -> BTreeSet<NodeId> {
        ids.iter().map(|n| id(*n)).collect()
    }

    /// A static quorum of which nobody waits.
    fn facts<'a>(voters: &str, quorum: Option<&'a QuorumView>) -> Facts<'a> {
        let count = i32::try_from(voters.split_whitespace().count()).unwrap();
        Facts {
            mode: QuorumMode::Static,
            controllers: (1..=count).map(id).collect(),
            waiting: BTreeSet::new(),
            marked: BTreeSet::new(),
            ephemeral: BTreeSet::new(),
            permitted: BTreeSet::new(),
            accepts_loss: false,
            quorum,
        }
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
            let facts = Facts { waiting: set(waiting), marked: set(marked), ..facts(voters, view.as_ref()) };
            assert_eq!(show(&decide(&facts)), expected, "{name}");
            // A dynamic quorum needs none of it.
            for mode in [QuorumMode::Dynamic, QuorumMode::Unknown] {
                assert_eq!(decide(&Facts { mode, ..facts.clone() }), Decision::default(), "{name}");
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_disk_that_is_deleted_with_its_pod_needs_no_word() {
        // The voters, who waits with an empty disk, who has permission.
        let rows: [(&str, &str, &[i32], &[i32], &str); 8] = [
            ("restarted",                "up up old",   &[3],    &[],  "format 3"),
            ("it formats its disk",      "up up old",   &[],     &[3], "format 3"),
            ("it has caught up",         "up up up",    &[],     &[3], ""),
            ("it runs, and lags",        "up up old",   &[],     &[],  ""),
            ("another is behind",        "up old old",  &[3],    &[3], "few 3 of 2"),
            ("two of five",              "up up up - -", &[4, 5], &[],  "format 4"),
            ("the other was first",      "up up up - -", &[4, 5], &[5], "format 5"),
            ("there is no leader",       "old old old", &[3],    &[],  "no leader 3"),
        ];
        for (name, voters, waiting, permitted, expected) in rows {
            let view = view(voters);
            let facts = Facts {
                ephemeral: set(&[1, 2, 3, 4, 5]),
                waiting: set(waiting),
                permitted: set(permitted),
                ..facts(voters, view.as_ref())
            };
            assert_eq!(show(&decide(&facts)), expected, "{name}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_user_who_accepts_the_loss_of_metadata_gets_a_majority_back() {
        // The number of controllers, who waits with an empty disk, who has permission, who is marked.
        let rows: [(&str, &str, &[i32], &[i32], &[i32], &str); 11] = [
            ("the only one",                  "-",         &[1],       &[],  &[1],       "format 1, accepted 1"),
            ("both of two",                   "- -",       &[1, 2],    &[],  &[1, 2],    "format 1, format 2, accepted 1, accepted 2"),
            ("one of two",                    "- -",       &[2],       &[],  &[2],       "format 2, accepted 2"),
            ("one of three is no majority",   "- - -",     &[3],       &[],  &[3],       "no leader 3"),
            ("two of three",                  "- - -",     &[2, 3],    &[],  &[2, 3],    "format 2, accepted 2, no leader 3"),
            ("the other was first",           "- - -",     &[2],       &[3], &[2, 3],    "format 3, accepted 3, no leader 2"),
            ("one of these is not marked",    "- - -",     &[2, 3],    &[],  &[3],       "unmarked 2, no leader 3"),
            ("all of three",                  "- - -",     &[1, 2, 3], &[],  &[1, 2, 3], "format 1, format 2, accepted 1, accepted 2, no leader 3"),
            ("three of five",                 "- - - - -", &[3, 4, 5], &[],  &[3, 4, 5], "format 3, accepted 3, no leader 4, no leader 5"),
            ("marked, and it does not wait",  "- - -",     &[2],       &[],  &[2, 3],    "no leader 2"),
            ("nobody",                        "- - -",     &[],        &[],  &[],        ""),
        ];
        for (name, voters, waiting, permitted, marked, expected) in rows {
            let facts = Facts {
                waiting: set(waiting),
                permitted: set(permitted),
                marked: set(marked),
                accepts_loss: true,
                ..facts(voters, None)
            };
            assert_eq!(show(&decide(&facts)), expected, "{name}");
            let refused = decide(&Facts { accepts_loss: false, ..facts });
            assert_eq!(refused.format, BTreeSet::new(), "{name}");
        }
        // With a leader it makes no difference.
        let view = view("up old old");
        let facts = Facts { waiting: set(&[2, 3]), marked: set(&[2, 3]), ..facts("up old old", view.as_ref()) };
        assert_eq!(decide(&Facts { accepts_loss: true, ..facts.clone() }), decide(&facts));
    }

    /// Whatever is lost in whatever order, and whoever uses its permission when.
    #[test]
    fn accepted_formats_are_no_majority_while_a_disk_is_left() {
        for count in 2..=5_i32 {
            let all: BTreeSet<NodeId> = (1..=count).map(id).collect();
            let voters = "- ".repeat(usize::try_from(count).unwrap());
            for lost in 1..(1_u32 << count) - 1 {
                let empty = |id: &NodeId| lost >> (id.get() - 1) & 1 == 1;
                let mut waiting: BTreeSet<NodeId> = all.iter().copied().filter(empty).collect();
                let mut permitted = BTreeSet::new();
                let mut formatted = BTreeSet::new();
                // Each round one of the permitted formats its disk, and does not wait any more.
                for _ in 0..count {
                    let facts = Facts {
                        waiting: waiting.clone(),
                        ephemeral: all.clone(),
                        permitted: permitted.clone(),
                        accepts_loss: true,
                        ..facts(&voters, None)
                    };
                    permitted = decide(&facts).format;
                    let Some(next) = permitted.intersection(&waiting).next().copied() else {
                        break;
                    };
                    waiting.remove(&next);
                    formatted.insert(next);
                }
                assert!(formatted.len() < majority(all.len()), "{count} {lost:b}: {formatted:?}");
                let running = all.len() - waiting.len();
                assert!(running >= majority(all.len()), "{count} {lost:b}: {waiting:?}");
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
                    waiting: all.clone(),
                    marked: all,
                    ..facts(&words.join(" "), Some(&view))
                };
                let format = decide(&facts).format;
                assert!(format.len() < 2, "{words:?}");
                let Some(empty) = format.first().copied() else { continue };
                formatted += 1;
                let knows = |voter: &&Replica| voter.id != empty && voter.log_end == Some(100);
                let ignorant = view.voters.len() - view.voters.iter().filter(knows).count();
                assert!(ignorant < majority(view.voters.len()), "{words:?}");
            }
        }
        assert!(formatted > 100, "{formatted}");
    }
}
