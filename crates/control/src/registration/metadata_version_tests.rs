//! The metadata version, by rows.

use super::*;

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn ids(ids: &[i32]) -> BTreeSet<NodeId> {
    ids.iter().map(|n| id(*n)).collect()
}

fn version(text: &str) -> MetadataVersion {
    MetadataVersion::of_user(text).unwrap()
}

/// Three nodes that run Kafka 4.3.1, at the given level, with the given spec.
fn facts(desired: &str, level: i16) -> Facts {
    let kafka = KafkaVersion::new(4, 3, 1);
    Facts {
        desired: (!desired.is_empty()).then(|| desired.to_owned()),
        kafka,
        nodes: ids(&[0, 1, 2]).into_iter().map(|id| (id, Some(kafka))).collect(),
        level: Some(level),
        mode: QuorumMode::Dynamic,
        unregistering: BTreeSet::new(),
        refused: None,
    }
}

fn brief(decision: &Decision) -> String {
    match decision {
        Decision::Keep => "keep".to_owned(),
        Decision::Change { to, level, up: true } => format!("up {to} {level}"),
        Decision::Change { to, level, up: false } => format!("down {to} {level}"),
        Decision::Wait(Waiting::Level) => "wait level".to_owned(),
        Decision::Wait(Waiting::Nodes(nodes)) => format!("wait nodes {}", list(nodes)),
        Decision::Wait(Waiting::Unregistration(ids)) => format!("wait brokers {}", list(ids)),
        Decision::Refuse(Reason::NotAVersion(_)) => "refuse NotAVersion".to_owned(),
        Decision::Refuse(Reason::TooNew { .. }) => "refuse TooNew".to_owned(),
        Decision::Refuse(Reason::NewerThanKnown) => "refuse NewerThanKnown".to_owned(),
        Decision::Refuse(Reason::NoWayBack { over, .. }) => format!("refuse NoWayBack {over}"),
        Decision::Refuse(Reason::DynamicQuorum(_)) => "refuse DynamicQuorum".to_owned(),
    }
}

type Row = (&'static str, &'static str, i16, fn(&mut Facts), &'static str);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("M1 nothing changes",                    "4.3-IV0", 30, |_| {}, "keep"),
    ("M2 a release stands for its newest",    "4.2",     27, |_| {}, "up 4.2-IV1 29"),
    ("no version is the newest of that Kafka",   "",        27, |_| {}, "up 4.3-IV0 30"),
    ("a version between",                        "4.2-IV0", 27, |_| {}, "up 4.2-IV0 28"),
    ("M3 down, where nothing is lost",        "4.1",     29, |_| {}, "down 4.1-IV1 27"),
    ("down over a change of form",            "4.2",     30, |_| {}, "refuse NoWayBack 4.3-IV0"),
    ("down below what the quorum needs",      "3.8",     22, |_| {}, "refuse DynamicQuorum"),
    ("unless it is static",                   "3.8",     22, |f| f.mode = QuorumMode::Static, "down 3.8-IV0 20"),
    ("or may be dynamic",                     "3.8",     22, |f| f.mode = QuorumMode::Unknown, "refuse DynamicQuorum"),
    ("M5 the level is not known",             "4.3",     0,  |f| f.level = None, "wait level"),
    ("no version",                            "newest",  27, |_| {}, "refuse NotAVersion"),
    ("no version that exists",                "4.1-IV9", 27, |_| {}, "refuse NotAVersion"),
    ("newer than the requested Kafka",                  "4.3",     27, |f| f.kafka = KafkaVersion::new(4, 2, 0), "refuse TooNew"),
    ("a Kafka that we do not know",           "",        27, |f| f.kafka = KafkaVersion::new(5, 0, 0), "refuse NewerThanKnown"),
    ("a level that we do not know, no version",  "",        99, |_| {}, "keep"),
    ("a level that we do not know",           "4.1",     99, |_| {}, "refuse NewerThanKnown"),
    // A change of Kafka's version.
    ("a node still runs the old one",         "4.3",     27, |f| { f.nodes.insert(id(1), Some(KafkaVersion::new(4, 1, 2))); }, "wait nodes 1"),
    ("a node of which it is not known",       "4.3",     27, |f| { f.nodes.insert(id(1), None); }, "wait nodes 1"),
    ("another patch is another Kafka",        "",        27, |f| { f.nodes.insert(id(2), Some(KafkaVersion::new(4, 3, 0))); }, "wait nodes 2"),
    ("nothing to wait for if it stays",       "4.1",     27, |f| { f.nodes.insert(id(1), None); }, "keep"),
    ("going back to 4.1: metadata first",     "4.1",     29, |f| f.kafka = KafkaVersion::new(4, 1, 2), "down 4.1-IV1 27"),
    ("going back without a word of metadata", "",        29, |f| f.kafka = KafkaVersion::new(4, 1, 2), "keep"),
    // Seed 004's own case.
    ("stale registrations go first",          "",        27, |f| f.unregistering = ids(&[7]), "wait brokers 7"),
    ("they do not matter on the way down",    "4.1",     29, |f| f.unregistering = ids(&[7]), "down 4.1-IV1 27"),
];

#[test]
fn the_rows_hold() {
    for (name, desired, level, change, expected) in ROWS {
        let mut facts = facts(desired, *level);
        change(&mut facts);
        assert_eq!(brief(&decide(&facts)), *expected, "{name}");
    }
}

/// M4, with what Kafka 4.3.1 says.
#[test]
fn a_refusal_names_the_node_that_is_gone() {
    let sentence = "Invalid update version 30 for feature metadata.version. Broker 7 only supports \
                    versions 7-27";
    let mut facts = facts("", 27);
    facts.refused = Some(Refused { version: version("4.3"), message: sentence.to_owned() });
    let note = refusal(&facts, &ids(&[7, 8]), &ids(&[])).unwrap();
    assert_eq!(note.reason, conditions::Reason::MetadataUpdateFailed);
    assert_eq!(
        note.message,
        format!(
            "failed to update the metadata version to 4.3-IV0: {sentence} (the registration of \
             broker 7, which is gone)"
        )
    );
    // 70 is not 7, and a node that is there is not called gone.
    let note = refusal(&facts, &ids(&[70]), &ids(&[7])).unwrap();
    assert!(!note.message.contains("gone"), "{}", note.message);
    facts.refused.as_mut().unwrap().message = "Controller 9 only supports versions 7-27".to_owned();
    let note = refusal(&facts, &ids(&[9]), &ids(&[9])).unwrap();
    assert!(note.message.ends_with("(the registration of controller 9, which is gone)"));
}

#[test]
fn an_old_refusal_is_not_told() {
    let mut facts = facts("", 27);
    assert_eq!(refusal(&facts, &ids(&[]), &ids(&[])), None);
    facts.refused = Some(Refused { version: version("4.2"), message: String::new() });
    assert_eq!(refusal(&facts, &ids(&[]), &ids(&[])), None);
    facts.refused = Some(Refused { version: version("4.3"), message: String::new() });
    assert!(refusal(&facts, &ids(&[]), &ids(&[])).is_some());
    facts.level = Some(30);
    assert_eq!(refusal(&facts, &ids(&[]), &ids(&[])), None);
}
