//! What was observed of a cluster, as data that can be written to a file and decided on again.
//!
//! Nothing in it is secret: keys and passwords are reduced to fingerprints, generations and dates.

use std::collections::BTreeMap;

use control::cluster::area::Area;
use control::cluster::decide::{Decision, decide};
use control::cluster::draft::Flow;
use control::cluster::record::Record;
use control::cluster::snapshot::Snapshot;
use control::conditions::Note;
use control::scaling::leaving::Member;
use model::NodeId;
use serde::{Deserialize, Serialize};

use super::{Extent, View};

/// What was observed of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// Whether its user has paused reconciliation.
    pub paused: bool,
    /// Why its spec is not acted on.
    pub refused: Option<Note>,
    /// What its user should know of the spec.
    pub warnings: Vec<Note>,
    /// What could not be built or read.
    pub problems: Vec<(Area, Note)>,
    /// Whether the Secrets could be read.
    pub secrets_readable: bool,
    /// Why Kafka did not tell everything.
    pub unreachable: Option<String>,
    /// The record as the operator stored it.
    pub stored: Record,
    /// The record that a decision is based on: with the nodes that the spec asks for.
    pub record: Record,
    /// The facts; `None` if the spec is refused.
    pub snapshot: Option<Snapshot>,
}

impl View {
    /// The cluster as it was observed.
    #[must_use]
    pub fn replay(observed: Observed) -> Self {
        Self::of(observed, Extent::Present).0
    }

    /// What would be decided on what was observed.
    pub(super) fn of(observed: Observed, extent: Extent) -> (Self, Decision) {
        let scope = extent.scope(observed.secrets_readable);
        let decision = match &observed.snapshot {
            Some(snapshot) => decide(snapshot, &observed.record, &scope),
            None => Decision { record: observed.record.clone(), ..Decision::default() },
        };
        let mut view = Self {
            refused: observed.refused.clone(),
            paused: observed.paused,
            held: !observed.problems.is_empty(),
            notes: observed.problems.clone(),
            warnings: observed.warnings.iter().chain(&decision.warnings).cloned().collect(),
            recorded: members(&observed.stored),
            leaving: observed.stored.leaving.clone(),
            roll_account: observed.stored.roll_account.clone(),
            mode: observed.record.quorum.mode,
            unreachable: observed.unreachable.clone(),
            secrets_readable: observed.secrets_readable,
            quorum_facts: decision.outputs.quorum.clone(),
            roll: decision.outputs.roll.clone(),
            scale_in: decision.outputs.leaving.clone(),
            ..Self::default()
        };
        for (area, flow) in &decision.flows {
            match flow {
                Flow::Go => {}
                Flow::Wait(note) | Flow::Stop(note) => view.notes.push((*area, note.clone())),
                Flow::Hold(note) | Flow::Fault(note) => {
                    view.notes.push((*area, note.clone()));
                    view.held = true;
                }
            }
        }
        if let Some(snapshot) = &observed.snapshot {
            view.quorum = snapshot.kafka.quorum.known().cloned();
            view.metadata_level = snapshot.kafka.metadata_level();
            let partitions = snapshot.partitions();
            view.partitions = partitions.map(|partitions| partitions.facts.clone());
        }
        if !observed.secrets_readable {
            // Without the keys every pod looks as if it had old ones.
            view.notes.retain(|(area, _)| *area != Area::Roll);
            view.roll = view.roll.filter(|_| extent == Extent::Edited);
        }
        view.observed = observed;
        (view, decision)
    }
}

fn members(record: &Record) -> BTreeMap<NodeId, Member> {
    let nodes = record.nodes().into_iter();
    nodes.map(|node| (node.id, Member { pool: node.pool, roles: node.roles })).collect()
}

#[cfg(test)]
mod tests {
    use control::cluster::fact::{Fact, Why};
    use control::conditions::Reason;

    use super::*;

    #[test]
    fn a_file_gives_the_same_view() {
        let mut snapshot = Snapshot { now_ms: 5, ..Snapshot::default() };
        snapshot.kafka.quorum = Fact::Unknown(Why::NoAnswer);
        let observed = Observed {
            warnings: vec![Note::new(Reason::InvalidAnnotation, "no number")],
            secrets_readable: true,
            snapshot: Some(snapshot),
            ..Observed::default()
        };
        let live = View::replay(observed.clone());
        let text = serde_json::to_string(&observed).unwrap();
        let replayed = View::replay(serde_json::from_str(&text).unwrap());
        assert_eq!(replayed.observed, observed);
        assert!(!live.notes.is_empty());
        assert_eq!((&replayed.notes, replayed.held), (&live.notes, live.held));
        assert_eq!(replayed.warnings, live.warnings);
    }

    #[test]
    fn a_spec_that_is_refused_and_objects_that_cannot_be_built_are_told() {
        let note = Note::new(Reason::InvalidResource, "no");
        let refused = Observed { refused: Some(note.clone()), ..Observed::default() };
        assert_eq!(View::replay(refused).refused, Some(note.clone()));
        let problems = vec![(Area::Workload, note)];
        let view = View::replay(Observed { problems: problems.clone(), ..Observed::default() });
        assert_eq!((view.notes, view.held), (problems, true));
    }
}
