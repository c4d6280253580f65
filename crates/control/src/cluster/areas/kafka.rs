//! The state of Kafka: whether its quorum is static or dynamic, and whether it answers.

use crate::cluster::draft::{Draft, Flow};
use crate::cluster::fact::{Fact, Why};
use crate::cluster::snapshot::Snapshot;
use crate::conditions::{Note, Reason};
use crate::quorum::format::QuorumMode;
use crate::quorum::{migrate, mode};

/// Records what must not be forgotten of the quorum, and its mode.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    if snapshot.kafka.quorum.is_unread() {
        return Flow::Go;
    }
    let record = &mut draft.record;
    record.quorum = record.quorum.after(snapshot.kafka.quorum.known());
    let recorded = record.quorum.mode;
    let facts = mode::Facts {
        recorded,
        has_initial: !record.quorum.initial.is_empty(),
        existed: record.cluster_id.is_some(),
        kraft_version: snapshot.kafka.kraft_version(),
    };
    match mode::decide(&facts) {
        // The id of a cluster is recorded before any of its nodes is created.
        mode::Decision::Begin => {}
        mode::Decision::Is { mode, note } => {
            record.quorum.mode = mode;
            // During a migration it was raised by the operator.
            if let (Some(note), migrate::Phase::Idle) = (note, record.quorum_migration) {
                draft.warn(Reason::QuorumModeChanged, note.to_string());
            }
        }
        mode::Decision::Hold(reason) => {
            return Flow::Hold(Note::new(Reason::QuorumModeUnknown, reason.to_string()));
        }
    }
    // While it was unknown, the configuration of nodes was built without it. Nobody is restarted for that.
    if recorded == QuorumMode::Unknown && draft.record.quorum.mode != QuorumMode::Unknown {
        let message =
            "the quorum mode is known now; the configuration of the nodes follows in the next pass";
        return Flow::Stop(Note::new(Reason::QuorumModeFound, message));
    }
    match unreachable(snapshot) {
        Some(message) => Flow::Wait(Note::new(Reason::KafkaUnreachable, message)),
        None => Flow::Go,
    }
}

/// Who does not answer, if anybody: a sentence for people. Which node was asked, and for how long, differs every time,
/// and would be a new status every time.
#[must_use]
pub fn unreachable(snapshot: &Snapshot) -> Option<String> {
    silent(snapshot).map(|who| format!("the {who} of Kafka do not answer; waiting for them"))
}

/// The nodes that were asked and did not answer.
const fn silent(snapshot: &Snapshot) -> Option<&'static str> {
    const fn is_silent<T>(fact: &Fact<T>) -> bool {
        matches!(fact, Fact::Unknown(Why::NoAnswer))
    }
    let kafka = &snapshot.kafka;
    if is_silent(&kafka.quorum) || is_silent(&kafka.features) {
        Some("controllers")
    } else if is_silent(&kafka.brokers) {
        Some("brokers")
    } else {
        None
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::areas::samples::{NOW, brief, id, settled};
    use crate::cluster::record::Record;
    use crate::cluster::snapshot::FeaturesView;

    fn level(snapshot: &mut Snapshot, kraft_version: Option<i16>) {
        let features = FeaturesView { kraft_version, metadata_version: Some(30) };
        snapshot.kafka.features = Fact::read(features, NOW);
    }

    /// An operator that did not record who was seen has left a static quorum, and a controller has
    /// lost its disk since.
    #[test]
    fn after_an_upgrade_all_voters_of_a_static_quorum_are_recorded_as_seen() {
        let (mut snapshot, mut record) = settled();
        level(&mut snapshot, Some(0));
        let Fact::Read { value: view, .. } = &mut snapshot.kafka.quorum else { panic!("no view") };
        view.voters.iter_mut().for_each(|voter| voter.directory = None);
        (view.voters[2].log_end, view.voters[2].last_fetch_ms) = (None, None);
        let earlier = r#"{"mode": "static"}"#;
        for was_ready in [true, false] {
            record.quorum = serde_json::from_str(earlier).unwrap();
            record.was_ready = was_ready;
            let (_, flow, draft) = brief(decide, &snapshot, &record);
            assert_eq!((flow.as_str(), draft.record.quorum.seen.len()), ("go", 3));
            // Until Kafka answers, who was seen is unknown, and nothing is formatted.
            let mut silent = snapshot.clone();
            silent.kafka.quorum = Fact::Unknown(Why::NoAnswer);
            let (_, _, draft) = brief(decide, &silent, &record);
            let seen = (0..3).map(|node| draft.record.quorum.seen(id(node)));
            assert_eq!(seen.collect::<Vec<_>>(), [None; 3]);
        }
    }

    type Change = fn(&mut Snapshot, &mut Record);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        use QuorumMode::{Dynamic, Static, Unknown};
        // What differs from a settled cluster, the mode that is recorded, how the pass goes on.
        let rows: [(&str, Change, QuorumMode, &str); 9] = [
            ("settled",                   |_, _| {}, Dynamic, "go"),
            ("no node answers",      |s, _| s.kafka.quorum = Fact::default(), Dynamic, "go"),
            ("static",                    |s, r| { r.quorum.mode = Static; level(s, Some(0)); }, Static, "go"),
            ("raised outside of Gregor",   |_, r| r.quorum.mode = Static, Dynamic, "go"),
            ("adopted",                   |_, r| r.quorum.mode = Unknown, Dynamic, "stop QuorumModeFound"),
            ("adopted, and silent",       |s, r| { r.quorum.mode = Unknown; level(s, None); }, Unknown, "hold QuorumModeUnknown"),
            ("another cluster answers",   |s, _| level(s, Some(0)), Dynamic, "hold QuorumModeUnknown"),
            ("controllers do not answer", |s, _| s.kafka.quorum = Fact::Unknown(Why::NoAnswer), Dynamic, "wait KafkaUnreachable"),
            ("brokers do not answer",     |s, _| s.kafka.brokers = Fact::Unknown(Why::NoAnswer), Dynamic, "wait KafkaUnreachable"),
        ];
        for (name, change, mode, flow) in rows {
            let (mut snapshot, mut record) = settled();
            change(&mut snapshot, &mut record);
            let (acts, went, draft) = brief(decide, &snapshot, &record);
            assert_eq!(acts, "", "{name}");
            assert_eq!((draft.record.quorum.mode, went.as_str()), (mode, flow), "{name}");
            let told = draft.warnings.iter().any(|note| note.reason == Reason::QuorumModeChanged);
            assert_eq!(told, name == "raised outside of Gregor", "{name}");
        }
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
    }
}
