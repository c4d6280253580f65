//! The migration by rows, over all facts, and interrupted anywhere.

use super::super::view::Replica;
use super::*;
use model::DirectoryId;

const PHASES: [Phase; 7] = [Idle, Gathering, Raising, Reading, Rolling, Unmarking, Done];

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn ids(ids: &[i32]) -> BTreeSet<NodeId> {
    ids.iter().map(|n| id(*n)).collect()
}

/// The quorum of controllers 1, 2 and 3, without their disks as Kafka shows them at level 0.
fn view(dynamic: bool) -> QuorumView {
    let replica = |n: u8| Replica {
        id: id(i32::from(n)),
        directory: DirectoryId::from_bytes([n; 16]).filter(|_| dynamic),
        log_end: Some(100),
        last_fetch_ms: Some(9_000),
        last_caught_up_ms: Some(9_000),
    };
    QuorumView {
        leader: id(1),
        epoch: 3,
        high_watermark: Some(100),
        voters: (1..=3).map(replica).collect(),
        observers: vec![],
        fetch_timeout_ms: 2000,
    }
}

/// A healthy static quorum whose user asks for the migration.
fn asked() -> Facts {
    Facts {
        asked: true,
        record: QuorumRecord { mode: QuorumMode::Static, ..QuorumRecord::default() },
        kraft_version: Some(0),
        metadata_level: Some(27),
        oldest_kafka: Some(KafkaVersion::new(4, 1, 2)),
        desired: ids(&[1, 2, 3]),
        running: ids(&[1, 2, 3]),
        quorum: Some(view(false)),
        endpoints: (1..=3).map(|n| (id(n), (format!("c{n}"), 9090))).collect(),
        rolled: Some(false),
        refused: None,
    }
}

/// The same after `kraft.version` was raised.
fn raised() -> Facts {
    Facts { kraft_version: Some(1), quorum: Some(view(true)), ..asked() }
}

/// And after the controllers were recorded.
fn recorded() -> Facts {
    let record = controllers(&raised()).unwrap();
    Facts { record, ..raised() }
}

fn with(mut facts: Facts, change: fn(&mut Facts)) -> Facts {
    change(&mut facts);
    facts
}

#[test]
#[rustfmt::skip]
fn the_rows_hold() {
    let rows: Vec<(&str, Phase, Facts, Option<Event>)> = vec![
        ("nobody asks",                       Idle, with(asked(), |f| f.asked = false),                      None),
        ("the user asks",                     Idle, asked(),                                                 Some(Asked)),
        ("Kafka is too old",                  Idle, with(asked(), |f| f.oldest_kafka = Some(KafkaVersion::new(4, 0, 1))), None),
        ("one of them is not known",          Idle, with(asked(), |f| f.oldest_kafka = None),                None),
        ("the metadata version is too old",   Idle, with(asked(), |f| f.metadata_level = Some(20)),          None),
        ("it is just new enough",             Idle, with(asked(), |f| f.metadata_level = Some(21)),          Some(Asked)),
        ("kraft.version is not known",        Idle, with(asked(), |f| f.kraft_version = None),               None),
        ("P16: raised outside of Gregor",      Idle, with(raised(), |f| f.asked = false),                     Some(FoundDynamic)),
        ("adopted, and dynamic already",      Idle, with(raised(), |f| f.record = QuorumRecord::default()),  Some(FoundDynamic)),
        ("dynamic: the annotation is ignored", Idle, recorded(),                                             None),
        ("all are up",                        Gathering, asked(),                                            Some(Ready)),
        ("one does not run",                  Gathering, with(asked(), |f| f.running = ids(&[1, 2])),        None),
        ("one has not caught up",             Gathering, with(asked(), |f| f.quorum.as_mut().unwrap().voters[2].last_caught_up_ms = Some(1)), None),
        ("one is desired and does not vote", Gathering, with(asked(), |f| f.desired = ids(&[1, 2, 3, 4])), None),
        ("one votes and is not desired",   Gathering, with(asked(), |f| f.desired = ids(&[1, 2])),         None),
        ("the leader is new",                 Gathering, with(asked(), |f| f.quorum.as_mut().unwrap().high_watermark = None), None),
        ("the quorum is not known",           Gathering, with(asked(), |f| f.quorum = None),                 None),
        ("taken back",                        Gathering, with(asked(), |f| f.asked = false),                 Some(Withdrawn)),
        ("raised meanwhile",                  Gathering, raised(),                                           Some(Raised)),
        ("being raised",                      Raising, asked(),                                              None),
        ("a controller goes down meanwhile",  Raising, with(asked(), |f| f.running = ids(&[1, 2])),          Some(Unready)),
        ("nothing is known for a moment",     Raising, with(asked(), |f| f.quorum = None),                   None),
        ("taken back just in time",           Raising, with(asked(), |f| f.asked = false),                   Some(Withdrawn)),
        ("taken back, and not known whether in time", Raising, with(asked(), |f| { f.asked = false; f.kraft_version = None; }), None),
        ("raised",                            Raising, raised(),                                             Some(Raised)),
        ("taken back too late",               Raising, with(raised(), |f| f.asked = false),                  Some(Raised)),
        ("being read",                        Reading, raised(),                                             None),
        ("read and recorded",                 Reading, recorded(),                                           Some(Recorded)),
        ("being rolled",                      Rolling, recorded(),                                           None),
        ("whether all are is not known",      Rolling, with(recorded(), |f| f.rolled = None),                None),
        ("rolled",                            Rolling, with(recorded(), |f| f.rolled = Some(true)),          Some(Rolled)),
        ("the annotation is there",           Unmarking, recorded(),                                         None),
        ("the annotation is gone",            Unmarking, with(recorded(), |f| f.asked = false),              Some(Unmarked)),
        ("the end",                           Done, recorded(),                                              None),
    ];
    for (name, phase, facts, expected) in rows {
        assert_eq!(read(phase, &facts), expected, "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn what_is_in_the_way_is_told_to_a_user_who_asks() {
    let old = |f: &mut Facts| f.oldest_kafka = Some(KafkaVersion::new(4, 0, 1));
    let just = |f: &mut Facts| f.oldest_kafka = Some(OLDEST_KAFKA);
    let rows: Vec<(&str, Facts, Option<Hold>)> = vec![
        ("Kafka is too old",                  with(asked(), old), Some(Hold::KafkaTooOld(KafkaVersion::new(4, 0, 1)))),
        ("and nobody asks",                   with(with(asked(), old), |f| f.asked = false), None),
        ("it is dynamic already",             with(recorded(), old), None),
        ("the level is not known",            with(asked(), |f| f.kraft_version = None), Some(Hold::Unknown)),
        ("Kafka is just new enough, the metadata version is not", with(with(asked(), just), |f| f.metadata_level = Some(20)),
                                              Some(Hold::MetadataTooOld(MetadataVersion::of_level(20)))),
        ("nothing",                           asked(), None),
    ];
    for (name, facts, expected) in rows {
        assert_eq!(hold(Idle, &facts), expected, "{name}");
    }
}

#[test]
fn the_table_is_whole() {
    let pairs: BTreeSet<_> = TRANSITIONS.iter().map(|(from, on, _)| (*from, *on)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len(), "a pair is listed twice");
    for phase in PHASES {
        let leaves = TRANSITIONS.iter().any(|(from, ..)| *from == phase);
        assert_eq!(leaves, !FINAL.contains(&phase), "{phase:?}");
        let mut reached = BTreeSet::from([phase]);
        while let Some(to) = TRANSITIONS
            .iter()
            .find(|(from, _, to)| reached.contains(from) && !reached.contains(to))
            .map(|(.., to)| *to)
        {
            reached.insert(to);
        }
        assert!(reached.contains(&Done), "{phase:?}");
    }
}

fn all_facts() -> Vec<Facts> {
    let mut all = Vec::new();
    let levels = [None, Some(0), Some(1)];
    let kafkas = [None, Some(KafkaVersion::new(4, 0, 0)), Some(KafkaVersion::new(4, 3, 1))];
    let list = controllers(&raised()).unwrap();
    let records = [
        QuorumRecord::default(),
        QuorumRecord { mode: QuorumMode::Static, ..QuorumRecord::default() },
        QuorumRecord { mode: QuorumMode::Dynamic, ..QuorumRecord::default() },
        list,
    ];
    for asked_for in [false, true] {
        for kraft_version in levels {
            for oldest_kafka in kafkas {
                for record in &records {
                    for quorum in [None, Some(view(false)), Some(view(true))] {
                        for running in [ids(&[1, 2]), ids(&[1, 2, 3])] {
                            for rolled in [None, Some(false), Some(true)] {
                                all.push(Facts {
                                    asked: asked_for,
                                    record: record.clone(),
                                    kraft_version,
                                    oldest_kafka,
                                    quorum: quorum.clone(),
                                    running: running.clone(),
                                    rolled,
                                    ..asked()
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn no_facts_raise_a_pair_that_is_not_in_the_table_and_every_pair_is_raised() {
    let mut seen = BTreeSet::new();
    for phase in PHASES {
        for facts in all_facts() {
            if let Some(event) = read(phase, &facts) {
                assert!(next(phase, event).is_some(), "{phase:?} {event:?} {facts:?}");
                seen.insert((phase, event));
            }
        }
    }
    assert_eq!(seen.len(), TRANSITIONS.len());
}

#[test]
fn no_facts_raise_the_version_of_a_quorum_that_is_not_whole() {
    for facts in all_facts() {
        let to = read(Gathering, &facts).and_then(|event| next(Gathering, event));
        if to == Some(Raising) {
            assert_eq!(facts.running, facts.desired, "{facts:?}");
            assert!(facts.oldest_kafka.unwrap() >= OLDEST_KAFKA && facts.quorum.is_some());
        }
    }
}

#[test]
fn the_controllers_are_read_when_kafka_shows_their_disks() {
    assert_eq!(controllers(&asked()), None);
    // Raised, and still zeros.
    let zeros = with(raised(), |f| f.quorum = Some(view(false)));
    assert_eq!(controllers(&zeros), None);
    let unreached = with(raised(), |f| {
        f.endpoints.remove(&id(2));
    });
    assert_eq!(controllers(&unreached), None);
    let record = controllers(&raised()).unwrap();
    assert_eq!(record.mode, QuorumMode::Dynamic);
    assert_eq!(record.seen, ids(&[1, 2, 3]));
    let directory = DirectoryId::from_bytes([2; 16]).unwrap();
    assert!(record.initial.to_string().contains(&format!("2@c2:9090:{directory}")));
}

/// P1: what is lost during the roll must not come back as a voter.
#[test]
fn nobody_gets_its_identity_again_after_a_migration() {
    let record = controllers(&raised()).unwrap();
    assert_eq!([1, 2, 3].map(|n| record.seen(id(n))), [Some(true); 3]);
}

#[test]
fn the_annotation_on_a_dynamic_quorum_is_ignored_and_that_is_told() {
    assert!(is_ignored(Idle, &recorded()));
    assert!(is_ignored(Done, &recorded()));
    assert!(!is_ignored(Rolling, &recorded()));
    assert!(!is_ignored(Idle, &asked()));
    assert!(!is_ignored(Idle, &with(recorded(), |f| f.asked = false)));
}

/// A world that obeys the duties. After `lives` acts the operator dies: a phase that was not recorded is
/// forgotten, and so is everything that is not in the world.
#[test]
fn it_can_be_interrupted_anywhere() {
    // Which of the acts is not carried out, because the operator died when it had recorded the phase.
    for lost in 0..12 {
        let mut phase = Idle;
        let mut facts = asked();
        let mut acts = 0;
        for pass in 0..40 {
            phase = read(phase, &facts).and_then(|event| next(phase, event)).unwrap_or(phase);
            acts += 1;
            if acts == lost {
                continue;
            }
            match duty(phase) {
                Duty::Nothing => {}
                Duty::RaiseKraftVersion => {
                    facts.kraft_version = Some(1);
                    facts.quorum = Some(view(true));
                }
                Duty::RecordControllers => {
                    if let Some(record) = controllers(&facts) {
                        facts.record = record;
                    }
                }
                Duty::Roll => facts.rolled = Some(true),
                Duty::RemoveAnnotation => facts.asked = false,
            }
            if phase == Done {
                break;
            }
            assert!(pass < 30, "{lost}: {phase:?}");
        }
        assert_eq!(phase, Done, "{lost}");
        assert!(facts.is_recorded() && !facts.asked);
    }
}

/// The phase is lost with the record; what Kafka says is enough to go on.
#[test]
fn a_lost_phase_is_found_again() {
    for facts in [raised(), with(raised(), |f| f.asked = false)] {
        assert_eq!(read(Idle, &facts), Some(FoundDynamic));
    }
    assert_eq!(read(Idle, &asked()), Some(Asked));
}

#[test]
fn a_phase_that_waits_says_for_what() {
    for phase in PHASES {
        for facts in all_facts() {
            let waits = read(phase, &facts).is_none() && !matches!(phase, Idle | Done);
            assert!(!waits || hold(phase, &facts).is_some(), "{phase:?} {facts:?}");
        }
    }
    let sentence = |phase, facts: Facts| hold(phase, &facts).unwrap().to_string();
    assert_eq!(
        sentence(Gathering, with(asked(), |f| f.running = ids(&[1]))),
        "the migration waits for all controllers (not running: 2 and 3)"
    );
    assert_eq!(
        sentence(Idle, with(asked(), |f| f.oldest_kafka = Some(KafkaVersion::new(4, 0, 0)))),
        "a controller runs Kafka 4.0.0: the migration needs 4.1.0 or newer"
    );
    assert_eq!(
        sentence(Raising, with(asked(), |f| f.refused = Some("no".to_owned()))),
        "kraft.version is being raised; Kafka answered: no"
    );
}
