//! Migration from a static to a dynamic quorum, when the user asks for it or somebody else has made it so.
//!
//! The machine is [`migrate`], one phase in a pass: whatever is interrupted continues from what is recorded.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::journal::{Entered, Permit};
use crate::cluster::properties::CONTROLLER_PORT;
use crate::cluster::record::Record;
use crate::cluster::snapshot::Snapshot;
use crate::conditions::{Note, Reason};
use crate::quorum::format::QuorumMode;
use crate::quorum::migrate::{self, ANNOTATION, Duty, Facts, Hold, Phase};
use crate::quorum::mode::DYNAMIC_LEVEL;
use crate::registration::KafkaVersion;

/// Decides the next phase of the migration, and does what it asks for.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let before = draft.record.quorum_migration;
    let facts = facts(snapshot, &draft.record);
    if migrate::is_ignored(before, &facts) {
        let message = format!(
            "the quorum is dynamic already: the annotation {ANNOTATION} has no effect; remove it"
        );
        draft.warn(Reason::QuorumMigrationIgnored, message);
    }
    let next = migrate::read(before, &facts).and_then(|event| migrate::next(before, event));
    let now = next.unwrap_or(before);
    draft.record.quorum_migration = now;
    if now != Phase::Raising {
        draft.record.journal.clear(Entered::RaiseKraftVersion);
    }
    let flow = match migrate::duty(now) {
        Duty::Nothing | Duty::Roll => waiting(draft, now, &facts),
        Duty::RaiseKraftVersion => raise(snapshot, draft),
        Duty::RecordControllers => {
            if let Some(quorum) = migrate::controllers(&facts) {
                draft.record.quorum = quorum;
            }
            // No node is restarted before the controllers are recorded.
            Flow::Stop(note(&Hold::Disks))
        }
        Duty::RemoveAnnotation => {
            if snapshot.desired.migration_annotated {
                draft.act(What::RemoveMigrationAnnotation, Rule::MigrationIsDone);
            }
            Flow::Wait(note(&Hold::Annotation))
        }
    };
    // The configuration of nodes was built otherwise earlier in this pass. None is restarted before it follows.
    let is_dynamic = draft.record.quorum.mode == QuorumMode::Dynamic;
    match flow {
        Flow::Go | Flow::Wait(_) if is_dynamic != snapshot.desired.configured_dynamic => {
            let message =
                "the configuration of the nodes follows the mode of the quorum in the next pass";
            Flow::Stop(Note::new(Reason::QuorumMigration, message))
        }
        flow @ (Flow::Go | Flow::Wait(_) | Flow::Stop(_) | Flow::Hold(_) | Flow::Fault(_)) => flow,
    }
}

fn note(hold: &Hold) -> Note {
    Note::new(Reason::QuorumMigration, hold.to_string())
}

fn facts(snapshot: &Snapshot, record: &Record) -> Facts {
    // Only Kafka knows the address of a voter that is not in the record.
    let mut endpoints: BTreeMap<NodeId, (String, u16)> = snapshot.kafka.endpoints.clone();
    let (mut desired, mut running) = (BTreeSet::new(), BTreeSet::new());
    let mut versions: Vec<Option<KafkaVersion>> = Vec::new();
    // The controllers that there are. More, or fewer, can be had when the migration is done.
    for (id, node) in snapshot.controllers() {
        endpoints.insert(id, (node.host.clone(), CONTROLLER_PORT));
        desired.insert(id);
        if snapshot.runs_as_controller(node) {
            running.insert(id);
        }
        versions.push(snapshot.pod(node).and_then(|pod| pod.kafka_version));
    }
    let versions: Option<Vec<KafkaVersion>> = versions.into_iter().collect();
    let mut nodes = snapshot.nodes.values().filter(|node| node.current.is_some());
    let is_moved = |pod: &crate::cluster::snapshot::PodView| pod.ready && pod.dynamic_quorum;
    let entry = record.journal.get(Entered::RaiseKraftVersion);
    Facts {
        asked: snapshot.desired.migration,
        record: record.quorum.clone(),
        kraft_version: snapshot.kafka.kraft_version(),
        metadata_level: snapshot.kafka.metadata_level(),
        oldest_kafka: versions.and_then(|all| all.into_iter().min()),
        desired,
        running,
        quorum: snapshot.kafka.quorum.known().cloned(),
        endpoints,
        rolled: Some(nodes.all(|node| snapshot.pod(node).is_some_and(is_moved))),
        refused: entry.and_then(|entry| entry.message.clone()),
    }
}

/// What is awaited in a phase without an act of its own.
fn waiting(draft: &mut Draft, phase: Phase, facts: &Facts) -> Flow {
    match (phase, migrate::hold(phase, facts)) {
        (Phase::Gathering, None) => {
            Flow::Wait(Note::new(Reason::QuorumMigration, "the quorum is about to be made dynamic"))
        }
        // The roller reports nodes that have to be restarted.
        (_, None) | (Phase::Rolling, Some(_)) => Flow::Go,
        (_, Some(hold @ (Hold::KafkaTooOld(_) | Hold::MetadataTooOld(_)))) => {
            draft.warn(Reason::QuorumMigrationRefused, hold.to_string());
            Flow::Go
        }
        (_, Some(hold)) => Flow::Wait(note(&hold)),
    }
}

fn raise(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    if snapshot.kafka.quorum.is_unread() {
        return Flow::Wait(note(&Hold::Unknown));
    }
    let (act, subject) = (Entered::RaiseKraftVersion, DYNAMIC_LEVEL.to_string());
    let journal = &mut draft.record.journal;
    let said = journal.get(act).and_then(|entry| entry.message.clone());
    if journal.permit(act, &subject, snapshot.now_ms) != Permit::Now {
        // The quorum may be another one by now.
        return Flow::Stop(note(&Hold::Raise(said)));
    }
    journal.begin(act, &subject, snapshot.now_ms);
    let what = What::RaiseKraftVersion { level: DYNAMIC_LEVEL };
    draft.act(what, Rule::ControllersAreReady);
    Flow::Wait(note(&Hold::Raise(said)))
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::act::settle;
    use crate::cluster::areas::samples::{NOW, brief, id, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::cluster::snapshot::FeaturesView;
    use crate::quorum::answer::Answer;

    /// A static quorum whose user asks for a migration.
    fn asked() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        record.quorum.mode = QuorumMode::Static;
        let features = FeaturesView { kraft_version: Some(0), metadata_version: Some(30) };
        snapshot.kafka.features = Fact::read(features, NOW);
        snapshot.desired.migration = true;
        snapshot.desired.migration_annotated = true;
        (snapshot, record)
    }

    type Change = fn(&mut Snapshot, &mut Record);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const RAISE: &str = "raise kraft.version to 1";
        const UNMARK: &str = "remove the annotation strimzi.io/kraft-quorum-migration";
        fn dynamic(s: &mut Snapshot, r: &mut Record) {
            r.quorum.mode = QuorumMode::Dynamic;
            s.desired.configured_dynamic = true;
            let features = FeaturesView { kraft_version: Some(1), metadata_version: Some(30) };
            s.kafka.features = Fact::read(features, NOW);
        }
        fn reading(s: &mut Snapshot, r: &mut Record) {
            dynamic(s, r);
            r.quorum_migration = Phase::Reading;
        }
        fn rolling(s: &mut Snapshot, r: &mut Record, rolled: bool) {
            reading(s, r);
            let (mut snapshot, mut record) = (s.clone(), r.clone());
            let (_, _, draft) = brief(decide, &snapshot, &record);
            record = draft.record;
            record.quorum_migration = Phase::Rolling;
            snapshot.pods.values_mut().for_each(|pod| pod.dynamic_quorum = rolled);
            (*s, *r) = (snapshot, record);
        }
        // What differs, the acts, the next phase, how the pass goes on.
        let rows: [(&str, Change, &str, Phase, &str); 13] = [
            ("nobody asks",                 |s, _| { s.desired.migration = false; s.desired.migration_annotated = false; }, "", Phase::Idle, "go"),
            ("asked for",                   |_, _| {}, "", Phase::Gathering, "wait QuorumMigration"),
            ("the metadata is out of date",     |s, _| s.kafka.features = Fact::read(FeaturesView { kraft_version: Some(0), metadata_version: Some(20) }, NOW), "", Phase::Idle, "go"),
            ("the features are unknown",    |s, _| s.kafka.features = Fact::Unknown(Why::NoAnswer), "", Phase::Idle, "wait QuorumMigration"),
            ("all controllers are ready",   |_, r| r.quorum_migration = Phase::Gathering, RAISE, Phase::Raising, "wait QuorumMigration"),
            ("one is not ready",            |s, r| { r.quorum_migration = Phase::Gathering; s.pods.get_mut("c-controller-1").unwrap().ready = false; }, "", Phase::Gathering, "wait QuorumMigration"),
            ("refused a second ago",        |_, r| { r.quorum_migration = Phase::Raising; r.journal.begin(Entered::RaiseKraftVersion, "1", NOW - 1_000); }, "", Phase::Raising, "stop QuorumMigration"),
            ("withdrawn",                   |s, r| { r.quorum_migration = Phase::Raising; s.desired.migration = false; }, "", Phase::Idle, "go"),
            ("raised",                      |s, r| { dynamic(s, r); r.quorum_migration = Phase::Raising; }, "", Phase::Reading, "stop QuorumMigration"),
            ("recorded, to be configured",  |s, r| { rolling(s, r, false); s.desired.configured_dynamic = false; }, "", Phase::Rolling, "stop QuorumMigration"),
            ("nodes have to be restarted",  |s, r| rolling(s, r, false), "", Phase::Rolling, "go"),
            ("all were restarted",          |s, r| rolling(s, r, true), UNMARK, Phase::Unmarking, "wait QuorumMigration"),
            ("the annotation is gone",      |s, r| { rolling(s, r, true); r.quorum_migration = Phase::Unmarking; s.desired.migration = false; s.desired.migration_annotated = false; }, "", Phase::Done, "go"),
        ];
        for (name, change, acts, phase, flow) in rows {
            let (mut snapshot, mut record) = asked();
            change(&mut snapshot, &mut record);
            let (found, went, draft) = brief(decide, &snapshot, &record);
            let now = draft.record.quorum_migration;
            assert_eq!((found.as_str(), now, went.as_str()), (acts, phase, flow), "{name}");
            assert_eq!(draft.record.journal.is_empty(), phase != Phase::Raising, "{name}");
            // Only the Kafka that cannot do it is a reason to refuse.
            let refused = draft.warnings.iter().any(|n| n.reason == Reason::QuorumMigrationRefused);
            assert_eq!(refused, name == "the metadata is out of date", "{name}");
        }
    }

    #[test]
    fn controllers_are_recorded_with_their_directories_before_any_node_is_restarted() {
        let (mut snapshot, mut record) = asked();
        record.quorum.mode = QuorumMode::Dynamic;
        record.quorum_migration = Phase::Reading;
        let features = FeaturesView { kraft_version: Some(1), metadata_version: Some(30) };
        snapshot.kafka.features = Fact::read(features, NOW);
        let (_, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!(flow, "stop QuorumMigration");
        assert_eq!(draft.record.quorum.initial.iter().count(), 3);
        assert!(draft.record.quorum.seen.contains(&id(2)));
    }

    #[test]
    fn what_kafka_said_is_reported_also_after_a_restart() {
        let (mut snapshot, mut record) = asked();
        record.quorum_migration = Phase::Raising;
        let (_, _, draft) = brief(decide, &snapshot, &record);
        let mut record = draft.record;
        let ends =
            settle(&mut record, &draft.acts[0], (Answer::Refused, Some("not yet".to_owned())), NOW);
        assert!(!ends, "a restart may be what it takes");
        let text = serde_json::to_string(&record).unwrap();
        let record: Record = serde_json::from_str(&text).unwrap();
        snapshot.now_ms += 5_000;
        let mut draft = Draft::new(record);
        let Flow::Wait(note) = decide(&snapshot, &mut draft) else { panic!("it is awaited") };
        assert!(note.message.contains("not yet"), "{note:?}");
        assert_eq!(draft.acts.len(), 1, "it is asked for again");
    }

    #[test]
    fn on_a_quorum_that_is_recorded_as_dynamic_the_annotation_is_reported() {
        let (mut snapshot, mut record) = settled();
        record.quorum.initial = "0@h:1:AQEBAQEBAQEBAQEBAQEBAQ".parse().unwrap();
        snapshot.desired.migration = true;
        snapshot.desired.configured_dynamic = true;
        let (_, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!(flow, "go");
        assert_eq!(draft.warnings[0].reason, Reason::QuorumMigrationIgnored);
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        on_a_quorum_that_is_recorded_as_dynamic_the_annotation_is_reported();
    }
}
