//! Registrations of brokers that are gone, then the metadata version: a stale registration holds that back.
//!
//! What Kafka answered to an unregistration is recorded: one that failed is reported, and sent again.

use std::collections::BTreeSet;

use model::NodeId;

use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow, LOOK_AGAIN_MS};
use crate::cluster::journal::{Permit, Unregistration};
use crate::cluster::record::Record;
use crate::cluster::snapshot::{Needs, Partitions, PodView, Snapshot};
use crate::conditions::{Note, Reason};
use crate::node::Roles;
use crate::registration::metadata_version::{self, Decision};
use crate::registration::{MetadataVersion, unregister};
use crate::scaling::leaving;

/// The facts that the area requires. Registered controllers are read only where one may be stale: where one was
/// removed, and where the metadata version was refused or is to change.
#[must_use]
pub fn needs(snapshot: &Snapshot, draft: &Draft) -> Needs {
    let record = &draft.record;
    if snapshot.kafka.quorum.is_unread() {
        return Needs::default();
    }
    let is_to_change = metadata_facts(snapshot, record)
        .is_some_and(|facts| metadata_version::is_to_change(&facts));
    let concerns_controllers = is_to_change
        || !record.former_controllers.is_empty()
        || record.refused_metadata_version.is_some();
    let has_candidates = !unregister::candidates(&stale_facts(snapshot, record)).is_empty();
    Needs {
        controllers: concerns_controllers && snapshot.kafka.controllers.is_unread(),
        partitions: has_candidates && snapshot.kafka.partitions.is_unread(),
        ..Needs::default()
    }
}

/// Decides which registrations are removed, and the metadata version.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let level = snapshot.kafka.metadata_level();
    draft.outputs.metadata_version = level.and_then(MetadataVersion::of_level);
    if snapshot.kafka.quorum.is_unread() {
        return Flow::Go;
    }
    let stale = unregister::decide(&stale_facts(snapshot, &draft.record));
    draft.record.stale_registrations.clone_from(&stale.suspects);
    draft.warnings.extend(stale.warnings());
    if !stale.pending().is_empty() {
        draft.look_again(LOOK_AGAIN_MS);
    }
    draft.outputs.stale_brokers = snapshot.kafka.brokers.known().map(|_| stale.stale());
    forget(snapshot, draft, &stale);
    match (metadata(snapshot, draft, &stale), stale.progress()) {
        (Flow::Go, Some(note)) => Flow::Wait(note),
        (flow, _) => flow,
    }
}

/// Asks Kafka to forget stale registrations, and reports those that it did not forget.
fn forget(snapshot: &Snapshot, draft: &mut Draft, stale: &unregister::Decision) {
    let journal = draft.record.unregistrations.clone();
    for id in &stale.unregister {
        let (what, act) = (What::Unregister { id: *id }, Unregistration(*id));
        let entry = journal.get(act);
        if let Some(said) = entry.and_then(|entry| entry.message.as_ref()) {
            let message = format!("{what}: Kafka answered: {said}; the operator asks again");
            draft.warn(Reason::UnregistrationFailed, message);
        }
        // An entry without an answer may not have been sent yet.
        let is_new = entry.is_some_and(|entry| entry.attempts == 0);
        if is_new || journal.permit(act, "", snapshot.now_ms) == Permit::Now {
            draft.record.unregistrations.begin(act, "", snapshot.now_ms);
            draft.act(what, Rule::RegistrationIsStale);
        }
    }
    // What is unknown clears nothing.
    let Some(stale) = &draft.outputs.stale_brokers else { return };
    let over = journal.iter().map(|entry| entry.act).filter(|act| !stale.contains(&act.0));
    over.for_each(|act| draft.record.unregistrations.clear(act));
}

fn stale_facts(snapshot: &Snapshot, record: &Record) -> unregister::Facts {
    let brokers = snapshot.kafka.brokers.known();
    let pods = || snapshot.pods.values();
    let is_broker = |pod: &&PodView| pod.roles.is_none_or(Roles::is_broker);
    let controllers = snapshot.controllers().map(|(id, _)| id);
    let voters = snapshot.kafka.quorum.known().into_iter().flat_map(|view| &view.voters);
    // Those that leave stay registered until the guard of their removal decides otherwise.
    let staying = leaving::stay_registered(&record.leaving);
    let desired =
        snapshot.nodes.iter().filter(|(_, node)| node.desired.is_some_and(Roles::is_broker));
    unregister::Facts {
        registered: brokers.map(|all| all.iter().map(|(id, one)| (*id, one.fenced)).collect()),
        desired: desired.map(|(id, _)| *id).chain(staying).collect(),
        known_controllers: controllers
            .chain(pods().filter_map(|pod| pod.node))
            .chain(voters.map(|voter| voter.id))
            .collect(),
        running: Some(pods().filter(is_broker).filter_map(|pod| pod.node).collect()),
        assigned: snapshot.partitions().map(Partitions::assigned),
        skip_check: snapshot.desired.skip_partition_check,
        suspects: record.stale_registrations.clone(),
        controllers: snapshot.kafka.controllers.known().cloned(),
    }
}

/// What is known of the metadata version, except for registrations that are about to be removed.
fn metadata_facts(snapshot: &Snapshot, record: &Record) -> Option<metadata_version::Facts> {
    let nodes = snapshot.nodes.iter().filter(|(_, node)| node.current.is_some());
    let nodes = nodes.map(|(id, node)| {
        // A pod that is not ready may never run its version.
        let pod = snapshot.pod(node).filter(|pod| pod.ready);
        (*id, pod.and_then(|pod| pod.kafka_version))
    });
    Some(metadata_version::Facts {
        desired: snapshot.desired.metadata_version.clone(),
        kafka: snapshot.desired.kafka_version?,
        nodes: nodes.collect(),
        level: snapshot.kafka.metadata_level(),
        mode: record.quorum.mode,
        unregistering: BTreeSet::<NodeId>::new(),
        refused: record.refused_metadata_version.clone(),
    })
}

fn metadata(snapshot: &Snapshot, draft: &mut Draft, stale: &unregister::Decision) -> Flow {
    let Some(facts) = metadata_facts(snapshot, &draft.record) else { return Flow::Go };
    let mut facts = metadata_version::Facts { unregistering: stale.pending(), ..facts };
    let flow = match metadata_version::decide(&facts) {
        Decision::Keep => {
            facts.refused = None;
            Flow::Go
        }
        Decision::Wait(waiting) => Flow::Wait(waiting.note()),
        Decision::Refuse(reason) => {
            draft.warnings.push(reason.note());
            Flow::Go
        }
        Decision::Change { to, level, up } => {
            draft.act(What::ChangeMetadataVersion { to, level, up }, Rule::AllSupport);
            match &facts.refused {
                // A warning says that Kafka refused it. It is asked again in every pass, and nothing waits for it.
                Some(refused) if refused.version == to => Flow::Go,
                Some(_) | None => {
                    facts.refused = None;
                    let message = format!("the metadata version changes to {to}");
                    Flow::Wait(Note::new(Reason::MetadataVersionWaiting, message))
                }
            }
        }
    };
    draft.warnings.extend(metadata_version::refusal(&facts, &stale.stale(), &stale.ghosts));
    draft.record.refused_metadata_version = facts.refused;
    flow
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use model::{TopicName, TopicPartition};

    use super::*;
    use crate::cluster::act::{Act, settle};
    use crate::cluster::areas::samples::{NOW, asked, brief, empty, id, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::cluster::snapshot::{BrokerView, FeaturesView};
    use crate::quorum::answer::Answer;
    use crate::rolling::availability::PartitionFacts;

    /// Broker 9 is registered and fenced, and nothing else is known of it; a pass has seen it before.
    fn stale() -> (Snapshot, Record) {
        let (mut snapshot, mut record) = settled();
        if let Fact::Read { value, .. } = &mut snapshot.kafka.brokers {
            value.insert(id(9), BrokerView { fenced: true, rack: None });
        }
        record.stale_registrations.insert(id(9));
        empty(&mut snapshot);
        (snapshot, record)
    }

    /// The metadata version is one behind.
    fn behind() -> (Snapshot, Record) {
        let (mut snapshot, record) = settled();
        let features = FeaturesView { kraft_version: Some(1), metadata_version: Some(29) };
        snapshot.kafka.features = Fact::read(features, NOW);
        snapshot.kafka.controllers = Fact::read((0..3).map(id).collect(), NOW);
        (snapshot, record)
    }

    const UNREGISTERED: Unregistration = Unregistration(match NodeId::new(9) {
        Some(id) => id,
        None => panic!(),
    });

    /// A partition is assigned to a broker. Kafka does that with a fenced one too.
    fn assign(snapshot: &mut Snapshot, broker: i32) {
        let partition = PartitionFacts {
            partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
            replicas: vec![id(3), id(broker)],
            isr: vec![id(3)],
            adding: vec![],
            removing: vec![],
            min_isr: Some(1),
        };
        let partitions =
            Partitions { facts: vec![partition], brokers: [id(3)].into(), ..Partitions::default() };
        snapshot.kafka.partitions = Fact::read(partitions, NOW);
    }

    /// Kafka refused to forget broker 9.
    fn refused(record: &mut Record, ms_ago: u64) {
        record.unregistrations.begin(UNREGISTERED, "", NOW - ms_ago);
        let answered = (Answer::Refused, Some("no".to_owned()));
        record.unregistrations.end(UNREGISTERED, answered.0, answered.1, NOW - ms_ago);
    }

    type Sample = fn() -> (Snapshot, Record);
    type Change = fn(&mut Snapshot, &mut Record);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const UNREGISTER: &str = "unregister broker 9";
        const RAISE: &str = "change the metadata version to 4.3-IV0";
        // What is known, what differs, the acts, how the pass goes on.
        let rows: [(&str, Sample, Change, &str, &str); 17] = [
            ("settled",                       settled, |_, _| {}, "", "go"),
            ("no node answers",          stale,   |s, _| s.kafka.quorum = Fact::default(), "", "go"),
            ("stale, seen twice",             stale,   |_, _| {}, UNREGISTER, "wait Unregistering"),
            ("stale, seen once",              stale,   |_, r| r.stale_registrations.clear(), "", "wait Unregistering"),
            ("it may not have been sent",     stale,   |_, r| r.unregistrations.begin(UNREGISTERED, "", NOW - 1_000), UNREGISTER, "wait Unregistering"),
            ("Kafka refused a second ago",    stale,   |_, r| refused(r, 1_000), "", "wait Unregistering"),
            ("Kafka refused three seconds ago", stale, |_, r| refused(r, 3_000), UNREGISTER, "wait Unregistering"),
            ("it is not fenced",              stale,   |s, _| { if let Fact::Read { value, .. } = &mut s.kafka.brokers { value.insert(id(9), BrokerView { fenced: false, rack: None }); } }, "", "go"),
            ("the partitions are unknown",    stale,   |s, _| s.kafka.partitions = Fact::Unknown(Why::NoAnswer), "", "go"),
            ("a replica was placed on it",    stale,   |s, _| assign(s, 9), "", "go"),
            ("that check is waived",          stale,   |s, _| { s.kafka.partitions = Fact::Unknown(Why::NoAnswer); s.desired.skip_partition_check = true; }, UNREGISTER, "wait Unregistering"),
            ("the brokers are unknown",       stale,   |s, _| s.kafka.brokers = Fact::Unknown(Why::NoAnswer), "", "go"),
            ("a controller is gone",          settled, |s, r| { r.former_controllers.insert(id(7)); s.kafka.controllers = Fact::read([0, 1, 2, 7].map(id).into(), NOW); }, "", "go"),
            ("the version is behind",         behind,  |_, _| {}, RAISE, "wait MetadataVersionWaiting"),
            ("a node runs another Kafka",     behind,  |s, _| s.pods.get_mut("c-broker-3").unwrap().ready = false, "", "wait MetadataVersionWaiting"),
            ("the level is unknown",          behind,  |s, _| s.kafka.features = Fact::Unknown(Why::NoAnswer), "", "wait MetadataVersionWaiting"),
            ("another one is asked for",      behind,  |s, _| s.desired.metadata_version = Some("9.9".to_owned()), "", "go"),
        ];
        for (name, sample, change, acts, flow) in rows {
            let (mut snapshot, mut record) = sample();
            change(&mut snapshot, &mut record);
            let (found, went, _) = brief(decide, &snapshot, &record);
            assert_eq!((found.as_str(), went.as_str()), (acts, flow), "{name}");
        }
    }

    #[test]
    fn a_registration_that_looks_stale_is_recorded_first() {
        let (snapshot, mut record) = stale();
        record.stale_registrations.clear();
        let (_, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!(draft.record.stale_registrations, [id(9)].into());
        let (acts, _, _) = brief(decide, &snapshot, &draft.record);
        assert_eq!(acts, "unregister broker 9");
    }

    #[test]
    fn an_unregistration_that_fails_is_reported_until_kafka_has_forgotten_the_broker() {
        let reported = |draft: &Draft| {
            let mut notes = draft.warnings.iter();
            let note = notes.find(|note| note.reason == Reason::UnregistrationFailed);
            note.map(|note| note.message.clone()).unwrap_or_default()
        };
        let (mut snapshot, record) = stale();
        let (_, _, draft) = brief(decide, &snapshot, &record);
        assert_eq!((draft.acts.len(), reported(&draft)), (1, String::new()));
        // The words of a call without an answer differ each time.
        for (answer, said) in [(Answer::Refused, "no"), (Answer::Unknown, "no answer in time")] {
            let mut record = draft.record.clone();
            let answered = (answer, Some("no".to_owned()));
            assert!(!settle(&mut record, &draft.acts[0], answered, NOW));
            assert!(record.journal.is_empty(), "an older operator could not read it");
            // The operator is restarted: only the record is left.
            record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
            let (_, _, again) = brief(decide, &snapshot, &record);
            let expected =
                format!("unregister broker 9: Kafka answered: {said}; the operator asks again");
            assert_eq!(reported(&again), expected, "{answer:?}");
        }
        let mut done = draft.record.clone();
        settle(&mut done, &draft.acts[0], (Answer::Done, None), NOW);
        assert!(done.unregistrations.is_empty());
        // Kafka may have forgotten it without an answer.
        let mut record = draft.record;
        refused(&mut record, 0);
        snapshot.kafka.brokers = Fact::Unknown(Why::NoAnswer);
        let (_, _, draft) = brief(decide, &snapshot, &record);
        assert!(draft.record.unregistrations.get(UNREGISTERED).is_some());
        snapshot.kafka.brokers = settled().0.kafka.brokers;
        let (_, _, draft) = brief(decide, &snapshot, &record);
        let is_over = draft.record.unregistrations.is_empty();
        assert_eq!((is_over, reported(&draft)), (true, String::new()));
    }

    #[test]
    fn brokers_that_kafka_has_not_forgotten_are_told() {
        let (mut snapshot, record) = stale();
        let told = |snapshot: &Snapshot| brief(decide, snapshot, &record).2.outputs.stale_brokers;
        assert_eq!(told(&snapshot), Some([id(9)].into()));
        snapshot.kafka.brokers = Fact::Unknown(Why::NoAnswer);
        assert_eq!(told(&snapshot), None);
        assert_eq!(told(&settled().0), Some([].into()));
    }

    #[test]
    fn a_version_that_kafka_refused_is_reported_and_nothing_waits_for_it() {
        let (snapshot, record) = behind();
        let (_, _, draft) = brief(decide, &snapshot, &record);
        let (mut record, act): (Record, Act) = (draft.record, draft.acts[0].clone());
        let mut unknown = record.clone();
        settle(&mut unknown, &act, (Answer::Unknown, None), NOW);
        assert_eq!(unknown.refused_metadata_version, None);
        settle(
            &mut record,
            &act,
            (Answer::Refused, Some("broker 7 does not support it".to_owned())),
            NOW,
        );
        let (acts, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!(
            (acts.as_str(), flow.as_str()),
            ("change the metadata version to 4.3-IV0", "go")
        );
        let told = draft.warnings.iter().find(|note| note.reason == Reason::MetadataUpdateFailed);
        assert!(told.unwrap().message.contains("broker 7 does not support it"), "{told:?}");
        settle(&mut record, &act, (Answer::Done, None), NOW);
        assert_eq!(record.refused_metadata_version, None);
    }

    #[test]
    fn facts_are_asked_for_only_where_the_decision_needs_them() {
        let (snapshot, mut record) = settled();
        assert!(asked(needs, &snapshot, &record).is_empty());
        record.former_controllers.insert(id(7));
        assert!(asked(needs, &snapshot, &record).controllers);
        let (mut snapshot, record) = stale();
        snapshot.kafka.partitions = Fact::default();
        assert!(asked(needs, &snapshot, &record).partitions);
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        an_unregistration_that_fails_is_reported_until_kafka_has_forgotten_the_broker();
        a_version_that_kafka_refused_is_reported_and_nothing_waits_for_it();
    }
}
