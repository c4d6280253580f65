//! Which registrations Kafka should forget.
//!
//! Kafka unregisters a running broker without a word, even one that holds the only replica of a
//! partition, and that broker does not come back by itself. So this rule is ours alone:
//!
//! 1. Nothing is forgotten that is desired, that runs or may run as a broker, or that Kafka does not
//!    call fenced.
//! 2. Nothing is forgotten that partitions are assigned to, unless the user gave up the check.
//! 3. What is not known makes no rule hold.
//! 4. Everything is looked at twice, in two passes: the first one records the suspects, and only who is a
//!    suspect already and is found so again is forgotten.
//! 5. No registration of a controller can be forgotten (before Kafka 4.4). Those of controllers that are
//!    gone are told to people, since they block upgrades of the metadata version.
//!
//! Seed 004 reads who once was from `status.nodeIds`. Kafka itself knows (KIP-1073), so the field is
//! written and not read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::NodeId;

use crate::conditions::{Note, Reason};
use crate::words::{count, list};

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// All registered brokers, and whether each is fenced. `None` if Kafka could not be asked.
    pub registered: Option<BTreeMap<NodeId, bool>>,
    /// The nodes that are to be brokers, with those whose removal is held back.
    pub desired: BTreeSet<NodeId>,
    /// The nodes that run or may run as brokers: those with a pod in any phase, unless it is known to
    /// have been started without that role. `None` if the pods could not be listed.
    pub running: Option<BTreeSet<NodeId>>,
    /// To how many partitions each node is assigned; a node that is missing has none. `None` if it was
    /// not read. It needs to be read only if there are [`candidates`].
    pub assigned: Option<BTreeMap<NodeId, usize>>,
    /// Whether the user gave up the check for partitions (`strimzi.io/skip-broker-scaledown-check`).
    pub skip_check: bool,
    /// The suspects of the last pass, from the record.
    pub suspects: BTreeSet<NodeId>,
    /// All registered controllers. `None` if they could not be listed.
    pub controllers: Option<BTreeSet<NodeId>>,
    /// The nodes that are to be controllers, or still vote, or have a pod.
    pub known_controllers: BTreeSet<NodeId>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Unregister these, in this order.
    pub unregister: BTreeSet<NodeId>,
    /// Record these before anything is done; they are looked at again in the next pass.
    pub suspects: BTreeSet<NodeId>,
    /// Those that are stale but stay, and why.
    pub kept: BTreeMap<NodeId, Kept>,
    /// Controllers that are gone and that Kafka still knows.
    pub ghosts: BTreeSet<NodeId>,
}

/// Why a stale registration stays for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It was found for the first time; the next pass looks again.
    LookAgain,
    /// It is not fenced: something runs under this id, or did a moment ago.
    NotFenced,
    /// So many partitions are assigned to it.
    HasPartitions(usize),
    /// To how many partitions it is assigned could not be read.
    PartitionsUnknown,
}

/// The registrations that may be stale: neither desired nor running. Empty if that is not known.
#[must_use]
pub fn candidates(facts: &Facts) -> BTreeMap<NodeId, bool> {
    let (Some(registered), Some(running)) = (&facts.registered, &facts.running) else {
        return BTreeMap::new();
    };
    let stale = |id: &NodeId| !facts.desired.contains(id) && !running.contains(id);
    registered.iter().filter(|(id, _)| stale(id)).map(|(id, fenced)| (*id, *fenced)).collect()
}

/// Decides which registrations Kafka should forget.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let mut decision = Decision { ghosts: ghosts(facts), ..Decision::default() };
    for (id, fenced) in candidates(facts) {
        if let Some(kept) = kept(facts, id, fenced) {
            decision.kept.insert(id, kept);
            continue;
        }
        decision.suspects.insert(id);
        if facts.suspects.contains(&id) {
            decision.unregister.insert(id);
        } else {
            decision.kept.insert(id, Kept::LookAgain);
        }
    }
    // A pass that could not look does not clear anybody.
    if facts.registered.is_none() || facts.running.is_none() {
        decision.suspects.clone_from(&facts.suspects);
    }
    decision
}

fn kept(facts: &Facts, id: NodeId, fenced: bool) -> Option<Kept> {
    if !fenced {
        return Some(Kept::NotFenced);
    }
    if facts.skip_check {
        return None;
    }
    match &facts.assigned {
        None => Some(Kept::PartitionsUnknown),
        Some(assigned) => match assigned.get(&id) {
            None | Some(0) => None,
            Some(partitions) => Some(Kept::HasPartitions(*partitions)),
        },
    }
}

fn ghosts(facts: &Facts) -> BTreeSet<NodeId> {
    let controllers = facts.controllers.iter().flatten();
    controllers.filter(|id| !facts.known_controllers.contains(id)).copied().collect()
}

impl Decision {
    /// The stale registrations of brokers, whatever becomes of them now.
    #[must_use]
    pub fn stale(&self) -> BTreeSet<NodeId> {
        self.unregister.iter().chain(self.kept.keys()).copied().collect()
    }

    /// The stale registrations that will be gone soon by themselves: what a metadata version waits for
    /// ([`super::metadata_version::Facts::unregistering`]). Those that stay for a reason are not waited
    /// for; Kafka says whether they are in the way.
    #[must_use]
    pub fn pending(&self) -> BTreeSet<NodeId> {
        let soon = |kept: &Kept| match kept {
            Kept::LookAgain => true,
            Kept::NotFenced | Kept::HasPartitions(_) | Kept::PartitionsUnknown => false,
        };
        let kept = self.kept.iter().filter(|(_, kept)| soon(kept)).map(|(id, _)| *id);
        self.unregister.iter().copied().chain(kept).collect()
    }

    /// What is waited for: the next pass looks again, soon.
    #[must_use]
    pub fn progress(&self) -> Option<Note> {
        let pending = self.pending();
        let message = || format!("Unregistering brokers that no longer exist: {}", list(&pending));
        (!pending.is_empty()).then(|| Note::new(Reason::Unregistering, message()))
    }

    /// What people should know.
    #[must_use]
    pub fn warnings(&self) -> Vec<Note> {
        let worth_telling = |(id, kept): (&NodeId, &Kept)| match kept {
            // That passes by itself in the next pass.
            Kept::LookAgain => None,
            Kept::NotFenced | Kept::HasPartitions(_) | Kept::PartitionsUnknown => Some(Note::new(
                Reason::StaleBrokerRegistration,
                format!("broker {id} has no pod and is not requested, but {kept}"),
            )),
        };
        let mut notes: Vec<Note> = self.kept.iter().filter_map(worth_telling).collect();
        if !self.ghosts.is_empty() {
            notes
                .push(Note::new(Reason::StaleControllerRegistration, ghost_sentence(&self.ghosts)));
        }
        notes
    }
}

fn ghost_sentence(ghosts: &BTreeSet<NodeId>) -> String {
    format!(
        "Kafka still knows {} {}, which {} gone. Kafka cannot unregister a controller before \
         4.4, and refuses metadata versions that these did not support; a controller with the \
         same id that runs the new Kafka renews the registration",
        if ghosts.len() == 1 { "controller" } else { "controllers" },
        list(ghosts),
        if ghosts.len() == 1 { "is" } else { "are" },
    )
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LookAgain => f.write_str("it is checked again before it is unregistered"),
            Self::NotFenced => f.write_str(
                "Kafka still receives its heartbeats: a process that the operator does not \
                 manage runs with this id; stop it, so that it can be unregistered",
            ),
            Self::HasPartitions(partitions) => write!(
                f,
                "{} still assigned to it: move them to other brokers, or bring the broker back",
                match partitions {
                    1 => "1 partition is".to_owned(),
                    _ => format!("{} are", count(*partitions, "partition")),
                }
            ),
            Self::PartitionsUnknown => {
                f.write_str("it is unknown whether partitions are assigned to it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> BTreeSet<NodeId> {
        ids.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    /// Brokers 3, 4 and 5 are desired and run; 6 and 7 are gone, stopped and empty.
    fn facts() -> Facts {
        let fenced = |id: NodeId| (id, id.get() >= 6);
        Facts {
            registered: Some(ids(&[3, 4, 5, 6, 7]).into_iter().map(fenced).collect()),
            desired: ids(&[3, 4, 5]),
            running: Some(ids(&[3, 4, 5])),
            assigned: Some(BTreeMap::new()),
            skip_check: false,
            suspects: ids(&[6, 7]),
            controllers: Some(ids(&[0, 1, 2])),
            known_controllers: ids(&[0, 1, 2]),
        }
    }

    /// A change to the facts, who is unregistered and who is suspected then.
    type Row = (&'static str, fn(&mut Facts), &'static [i32], &'static [i32]);

    #[rustfmt::skip]
    const ROWS: &[Row] = &[
        ("U5 both that were found before",       |_| {},                                             &[6, 7], &[6, 7]),
        ("found for the first time",             |f| f.suspects = ids(&[]),                          &[],     &[6, 7]),
        ("one of them for the first time",       |f| f.suspects = ids(&[6]),                         &[6],    &[6, 7]),
        ("U4 nothing is stale",                  |f| f.desired = ids(&[3, 4, 5, 6, 7]),               &[],     &[]),
        ("one is desired again",              |f| { f.desired.extend(ids(&[6])); },                &[7],    &[7]),
        ("one has a pod again",                  |f| f.running = Some(ids(&[3, 4, 5, 7])),           &[6],    &[6]),
        ("a desired one that is down",            |f| f.running = Some(ids(&[3])),                    &[6, 7], &[6, 7]),
        ("one is not fenced",                    |f| { f.registered.as_mut().unwrap().insert(NodeId::new(6).unwrap(), false); }, &[7], &[7]),
        ("one has partitions",                   |f| f.assigned = Some([(NodeId::new(7).unwrap(), 1)].into()), &[6], &[6]),
        ("one has none, and it says so",         |f| f.assigned = Some([(NodeId::new(7).unwrap(), 0)].into()), &[6, 7], &[6, 7]),
        ("the user gave up that check",          |f| { f.assigned = Some([(NodeId::new(7).unwrap(), 9)].into()); f.skip_check = true; }, &[6, 7], &[6, 7]),
        ("but not the others",                   |f| { f.skip_check = true; f.running = Some(ids(&[6, 7])); }, &[], &[]),
        ("partitions are not known",             |f| f.assigned = None,                              &[],     &[]),
        ("Kafka does not answer: suspects stay", |f| f.registered = None,                            &[],     &[6, 7]),
        ("the pods are not known",               |f| f.running = None,                               &[],     &[6, 7]),
        ("a suspect that Kafka has forgotten",   |f| f.suspects = ids(&[6, 7, 8]),                   &[6, 7], &[6, 7]),
    ];

    #[test]
    fn the_rows_hold() {
        for (name, change, unregister, suspects) in ROWS {
            let mut facts = facts();
            change(&mut facts);
            let decision = decide(&facts);
            assert_eq!(decision.unregister, ids(unregister), "{name}");
            assert_eq!(decision.suspects, ids(suspects), "{name}");
        }
    }

    /// The combined node that became a controller has a pod, but not one that is a broker.
    #[test]
    fn a_node_that_gave_up_the_broker_role_is_forgotten_as_a_broker() {
        let mut facts = facts();
        facts.desired = ids(&[3, 4, 5]);
        facts.running = Some(ids(&[3, 4, 5, 7]));
        assert_eq!(decide(&facts).unregister, ids(&[6]));
        facts.running = Some(ids(&[3, 4, 5]));
        assert_eq!(decide(&facts).unregister, ids(&[6, 7]));
    }

    #[test]
    fn it_takes_two_passes_and_the_second_looks_as_hard_as_the_first() {
        let mut facts = Facts { suspects: ids(&[]), ..facts() };
        let first = decide(&facts);
        assert!(first.unregister.is_empty());
        facts.suspects = first.suspects;
        facts.registered.as_mut().unwrap().insert(NodeId::new(6).unwrap(), false);
        let second = decide(&facts);
        assert_eq!(second.unregister, ids(&[7]));
        // Who was cleared once begins anew.
        facts.registered.as_mut().unwrap().insert(NodeId::new(6).unwrap(), true);
        facts.suspects = second.suspects;
        assert_eq!(decide(&facts).unregister, ids(&[7]));
    }

    #[test]
    fn no_facts_unregister_what_is_desired_or_runs_or_is_not_fenced() {
        // One broker, every combination of what is known of it.
        let id = NodeId::new(9).unwrap();
        let tri = [None, Some(false), Some(true)];
        for registered in tri {
            for running in tri {
                for desired in [false, true] {
                    for assigned in [None, Some(0), Some(3)] {
                        for skip_check in [false, true] {
                            let facts = Facts {
                                registered: registered.map(|fenced| [(id, fenced)].into()),
                                running: running
                                    .map(|runs| if runs { ids(&[9]) } else { ids(&[]) }),
                                desired: if desired { ids(&[9]) } else { ids(&[]) },
                                assigned: assigned.map(|n| [(id, n)].into()),
                                skip_check,
                                suspects: ids(&[9]),
                                controllers: None,
                                known_controllers: ids(&[]),
                            };
                            let empty = skip_check || assigned == Some(0);
                            let gone = registered == Some(true) && running == Some(false);
                            let expected = gone && !desired && empty;
                            assert_eq!(
                                !decide(&facts).unregister.is_empty(),
                                expected,
                                "{facts:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_stays_is_told_with_its_reason() {
        let mut facts = facts();
        facts.assigned = Some([(NodeId::new(7).unwrap(), 2)].into());
        facts.controllers = Some(ids(&[0, 1, 2, 8, 9]));
        let notes = decide(&facts).warnings();
        let reasons: Vec<_> = notes.iter().map(|note| note.reason).collect();
        let expected = [Reason::StaleBrokerRegistration, Reason::StaleControllerRegistration];
        assert_eq!(reasons, expected);
        assert_eq!(
            notes[0].message,
            "broker 7 has no pod and is not requested, but 2 partitions are still assigned to it: move them to other \
             brokers, or bring the broker back"
        );
        assert!(notes[1].message.contains("controllers 8 and 9, which are gone"));
        assert_eq!(decide(&facts).stale(), ids(&[6, 7]));
        assert_eq!(decide(&facts).pending(), ids(&[6]));
        facts.suspects = ids(&[]);
        assert_eq!(decide(&facts).pending(), ids(&[6]), "it is looked at again, and then it goes");
        assert!(decide(&facts).progress().unwrap().message.contains('6'));
    }

    /// A broker that the operator does not manage: Kafka would unregister it without a word.
    #[test]
    fn a_broker_that_runs_somewhere_else_is_named_and_left_alone() {
        let mut facts = facts();
        facts.registered = Some([(NodeId::new(6).unwrap(), false)].into());
        facts.skip_check = true;
        let decision = decide(&facts);
        assert_eq!((decision.unregister.clone(), decision.suspects.clone()), (ids(&[]), ids(&[])));
        // It is unknown when it ends, so nothing waits for it; Kafka says whether it is in the way.
        assert_eq!((decision.stale(), decision.pending()), (ids(&[6]), ids(&[])));
        assert_eq!(decision.progress(), None);
        let notes = decision.warnings();
        assert_eq!(notes[0].reason, Reason::StaleBrokerRegistration);
        assert!(
            notes[0].message.starts_with("broker 6 has no pod and is not requested, but Kafka")
        );
    }

    /// P12: controllers that are gone block upgrades until they can be forgotten.
    #[test]
    fn only_controllers_that_are_known_to_be_gone_are_ghosts() {
        let mut facts = facts();
        facts.controllers = None;
        assert!(decide(&facts).ghosts.is_empty());
        facts.controllers = Some(ids(&[0, 1, 2, 3]));
        assert_eq!(decide(&facts).ghosts, ids(&[3]));
    }
}
