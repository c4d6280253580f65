//! The guard by rows, and over all facts.

use std::collections::BTreeSet;

use super::*;

const PHASES: [Phase; 11] = [
    Requested,
    Draining,
    Cordoning,
    Cordoned,
    Stopping,
    Stopped,
    Unregistering,
    Cleaning,
    Done,
    Returning,
    Kept,
];

/// A broker that runs, is empty and is to go.
const EMPTY: Facts = Facts {
    desired: false,
    partitions: Some(0),
    skip_check: false,
    held: Some(false),
    cordon: Some(Cordon::Open),
    quorum: Ok(()),
    runs: Some(true),
    registration: Some(Registration::Live),
    claims_left: Some(true),
    others_stay: true,
};

const CLOSED: Facts = Facts { cordon: Some(Cordon::Closed), ..EMPTY };
/// It has been stopped, and Kafka has noticed. Whether it is closed can no longer be asked.
const STOPPED: Facts =
    Facts { cordon: None, runs: Some(false), registration: Some(Registration::Fenced), ..EMPTY };
const GONE: Facts = Facts { registration: Some(Registration::Gone), ..STOPPED };
/// Its process is there and does not answer. Kafka has fenced it.
const FROZEN: Facts = Facts { runs: Some(true), ..STOPPED };
/// Its pod is there and has never started.
const UNBORN: Facts = Facts { runs: Some(true), ..GONE };
const BUSY: Option<usize> = Some(17);

/// All facts there are.
fn all_facts() -> Vec<Facts> {
    let mut all = Vec::new();
    let tri = [None, Some(false), Some(true)];
    let cordons = [None, Some(Cordon::Unsupported), Some(Cordon::Open), Some(Cordon::Closed)];
    let registrations =
        [None, Some(Registration::Live), Some(Registration::Fenced), Some(Registration::Gone)];
    for desired in [false, true] {
        for partitions in [None, Some(0), Some(3)] {
            for skip_check in [false, true] {
                for held in tri {
                    for cordon in cordons {
                        for quorum in [Ok(()), Err(plan::Hold::Votes)] {
                            for runs in tri {
                                for registration in registrations {
                                    for claims_left in tri {
                                        for others_stay in [false, true] {
                                            all.push(Facts {
                                                desired,
                                                partitions,
                                                skip_check,
                                                held,
                                                cordon,
                                                quorum,
                                                runs,
                                                registration,
                                                claims_left,
                                                others_stay,
                                            });
                                        }
                                    }
                                }
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
#[rustfmt::skip]
fn the_rows_hold() {
    let rows: &[(&str, Phase, Facts, Option<Event>)] = &[
        ("an empty broker",                    Requested, EMPTY,                                        Some(Emptied)),
        ("a busy one",                         Requested, Facts { partitions: BUSY, ..EMPTY },          Some(Busy)),
        ("unknown is not empty",               Requested, Facts { partitions: None, ..EMPTY },          None),
        ("taken back before anything was done", Requested, Facts { desired: true, ..EMPTY },             Some(TakenBack)),
        ("the check is waived",                Requested, Facts { partitions: BUSY, skip_check: true, ..EMPTY }, Some(Emptied)),
        ("also where nothing is known",        Requested, Facts { partitions: None, skip_check: true, ..EMPTY }, Some(Emptied)),
        ("a rebalance holds it",               Requested, Facts { held: Some(true), ..EMPTY },          None),
        ("whether one does is not known",      Requested, Facts { held: None, ..EMPTY },                None),
        ("not even waived",                    Requested, Facts { held: Some(true), skip_check: true, ..EMPTY }, None),
        ("the last broker",                    Requested, Facts { others_stay: false, ..EMPTY },        None),
        ("still busy",                         Draining,  Facts { partitions: BUSY, ..EMPTY },          None),
        ("drained, but the rebalance runs",    Draining,  Facts { held: Some(true), ..EMPTY },          None),
        ("drained",                            Draining,  EMPTY,                                        Some(Emptied)),
        ("taken back while draining",          Draining,  Facts { desired: true, ..EMPTY },              Some(TakenBack)),
        ("not closed yet",                     Cordoning, EMPTY,                                        None),
        ("closed",                             Cordoning, CLOSED,                                       Some(Closed)),
        ("an older Kafka",                     Cordoning, Facts { cordon: Some(Cordon::Unsupported), ..EMPTY }, Some(Closed)),
        ("not known",                          Cordoning, Facts { cordon: None, ..EMPTY },              None),
        ("a broker that is down is not asked", Cordoning, STOPPED,                                      Some(Closed)),
        ("nor is one that hangs",              Cordoning, FROZEN,                                       Some(Closed)),
        ("nor one that never started",         Cordoning, UNBORN,                                       Some(Closed)),
        ("fenced, and it answers: open",       Cordoning, Facts { cordon: Some(Cordon::Open), ..FROZEN }, None),
        ("not fenced yet, and silent",         Cordoning, Facts { registration: Some(Registration::Live), ..FROZEN }, None),
        ("silent, and Kafka cannot be asked",  Cordoning, Facts { registration: None, ..FROZEN },       None),
        ("fenced, with a replica",             Cordoning, Facts { partitions: BUSY, ..FROZEN },         Some(Refilled)),
        ("fenced, and empty still",            Cordoned,  FROZEN,                                       Some(StillEmpty)),
        ("fenced, its partitions unknown",     Cordoned,  Facts { partitions: None, ..FROZEN },         None),
        ("it answers again, and is open",      Cordoned,  Facts { cordon: Some(Cordon::Open), registration: Some(Registration::Live), ..FROZEN }, None),
        ("fenced, and its pod still ends",     Stopping,  FROZEN,                                       None),
        ("a replica came first",               Cordoning, Facts { partitions: BUSY, ..CLOSED },         Some(Refilled)),
        ("looked at again",                    Cordoned,  CLOSED,                                       Some(StillEmpty)),
        ("a replica came just before",         Cordoned,  Facts { partitions: BUSY, ..CLOSED },         Some(Refilled)),
        ("not known any more",                 Cordoned,  Facts { partitions: None, ..CLOSED },         None),
        ("opened by somebody",                 Cordoned,  EMPTY,                                        None),
        ("it votes",                           Cordoned,  Facts { quorum: Err(plan::Hold::Votes), ..CLOSED }, None),
        ("a rebalance began",                  Cordoned,  Facts { held: Some(true), ..CLOSED },         None),
        ("taken back when closed",             Cordoned,  Facts { desired: true, ..CLOSED },             Some(TakenBack)),
        ("its pod still ends",                 Stopping,  CLOSED,                                       None),
        ("its pod is gone",                    Stopping,  STOPPED,                                      Some(Ended)),
        ("a replica came while it ended",      Stopping,  Facts { partitions: BUSY, ..CLOSED },         Some(Refilled)),
        ("taken back while it ends",           Stopping,  Facts { desired: true, ..CLOSED },             Some(TakenBack)),
        ("Kafka has not noticed",              Stopped,   Facts { registration: Some(Registration::Live), ..STOPPED }, None),
        ("empty after the stop",               Stopped,   STOPPED,                                      Some(StillEmpty)),
        ("a replica landed after all",         Stopped,   Facts { partitions: BUSY, ..STOPPED },        Some(Refilled)),
        ("not known after the stop",           Stopped,   Facts { partitions: None, ..STOPPED },        None),
        ("taken back after the stop",          Stopped,   Facts { desired: true, ..STOPPED },            Some(TakenBack)),
        ("Kafka knows it",                     Unregistering, STOPPED,                                  None),
        ("Kafka knows it, and gives it a replica", Unregistering, Facts { partitions: BUSY, ..STOPPED }, Some(Refilled)),
        ("Kafka has forgotten it",             Unregistering, GONE,                                     Some(Forgotten)),
        ("but not its replica",                Unregistering, Facts { partitions: BUSY, ..GONE },       Some(Refilled)),
        ("taken back before its claims go",    Unregistering, Facts { desired: true, ..GONE },           Some(TakenBack)),
        ("its claims are there",               Cleaning,  GONE,                                         None),
        ("its claims are gone",                Cleaning,  Facts { claims_left: Some(false), ..GONE },   Some(Cleaned)),
        ("too late to take back",              Cleaning,  Facts { desired: true, ..GONE },               None),
        ("it comes back",                      Returning, Facts { desired: true, ..STOPPED },            None),
        ("it is still closed",                 Returning, Facts { desired: true, ..CLOSED },             None),
        ("it is back",                         Returning, Facts { desired: true, ..EMPTY },              Some(Back)),
        ("it is to go after all",              Returning, EMPTY,                                        Some(AskedAgain)),
        ("the end",                            Done,      GONE,                                         None),
        ("the other end",                      Kept,      EMPTY,                                        None),
    ];
    for (name, phase, facts, expected) in rows {
        assert_eq!(read(*phase, facts), *expected, "{name}");
    }
}

#[test]
fn the_table_is_whole() {
    let pairs: BTreeSet<_> = TRANSITIONS.iter().map(|(from, on, _)| (*from, *on)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len(), "a pair is listed twice");
    for phase in PHASES {
        let leaves = TRANSITIONS.iter().any(|(from, ..)| *from == phase);
        assert_eq!(leaves, !FINAL.contains(&phase), "{phase:?}");
        let comes = TRANSITIONS.iter().any(|(.., to)| *to == phase);
        assert_eq!(comes, phase != Requested || leaves, "{phase:?}");
    }
    // Every phase leads to both ends, except where it is too late.
    for phase in PHASES {
        let mut reached = BTreeSet::from([phase]);
        while let Some(to) = TRANSITIONS
            .iter()
            .find(|(from, _, to)| reached.contains(from) && !reached.contains(to))
            .map(|(.., to)| *to)
        {
            reached.insert(to);
        }
        assert_eq!(reached.contains(&Done), phase != Kept, "{phase:?}");
        let too_late = matches!(phase, Cleaning | Done);
        assert_eq!(reached.contains(&Kept), !too_late, "{phase:?}");
    }
}

#[test]
fn no_facts_raise_a_pair_that_is_not_in_the_table_and_every_pair_is_raised() {
    let mut raised = BTreeSet::new();
    for phase in PHASES {
        for facts in all_facts() {
            if let Some(event) = read(phase, &facts) {
                assert!(next(phase, event).is_some(), "{phase:?} {event:?} {facts:?}");
                raised.insert((phase, event));
            }
        }
    }
    assert_eq!(raised.len(), TRANSITIONS.len());
}

#[test]
fn no_facts_stop_forget_or_delete_what_they_must_not() {
    for facts in all_facts() {
        let empty = facts.partitions == Some(0) || facts.skip_check;
        let to = |phase| read(phase, &facts).and_then(|event| next(phase, event));
        if to(Cordoned) == Some(Stopping) {
            // A broker that takes part, or answers, is closed if it can be.
            let takes_part = matches!(facts.registration, None | Some(Registration::Live));
            let is_open = facts.cordon == Some(Cordon::Open);
            let may_be_open = is_open || (takes_part && facts.cordon.is_none());
            assert!(!may_be_open || facts.skip_check, "{facts:?}");
            assert!(empty && !facts.desired && facts.others_stay, "{facts:?}");
            assert!(facts.held == Some(false) && facts.quorum.is_ok(), "{facts:?}");
        }
        if to(Stopped) == Some(Unregistering) {
            assert!(empty && !facts.desired && facts.runs == Some(false), "{facts:?}");
            let fenced =
                matches!(facts.registration, Some(Registration::Fenced | Registration::Gone));
            assert!(fenced, "{facts:?}");
        }
        if to(Unregistering) == Some(Cleaning) {
            assert!(empty && !facts.desired && facts.runs == Some(false), "{facts:?}");
            assert_eq!(facts.registration, Some(Registration::Gone), "{facts:?}");
        }
        for phase in PHASES.into_iter().filter(|phase| !matches!(phase, Cleaning | Done | Kept)) {
            if facts.desired {
                assert!(to(phase).is_none_or(|to| matches!(to, Returning | Kept)), "{facts:?}");
            }
        }
    }
}

#[test]
fn a_phase_that_waits_says_for_what() {
    for phase in PHASES {
        for facts in all_facts() {
            let waits = read(phase, &facts).is_none() && !FINAL.contains(&phase);
            assert_eq!(hold(phase, &facts).is_some(), waits, "{phase:?} {facts:?}");
        }
    }
}

#[test]
fn duties_follow_the_phase() {
    for phase in PHASES {
        let duty = duty(phase);
        assert!(!(duty.runs && (duty.unregister || duty.delete_claims)), "{phase:?}");
        assert!(!(duty.unregister && duty.delete_claims), "{phase:?}");
        let at_work =
            matches!(phase, Requested | Draining | Cordoning | Cordoned | Returning | Kept);
        assert_eq!(duty.runs, at_work, "{phase:?}");
    }
    assert!(duty(Draining).cordoned, "nothing new lands on a broker that is being drained");
    assert!(!duty(Returning).cordoned && !duty(Requested).cordoned);
}

#[test]
fn sentences_say_what_is_awaited() {
    let sentence = |facts: Facts| hold(Draining, &facts).unwrap().to_string();
    let busy = Facts { partitions: BUSY, ..EMPTY };
    assert_eq!(
        sentence(busy),
        "it still has 17 partitions: move them to other brokers, or cancel the scale-down"
    );
    assert_eq!(
        sentence(Facts { partitions: Some(1), held: Some(true), ..busy }),
        "a rebalance moves its 1 partition to other brokers"
    );
    let votes = Facts { quorum: Err(plan::Hold::Votes), ..CLOSED };
    assert_eq!(hold(Cordoned, &votes).unwrap().to_string(), "as a controller: it is still a voter");
}

#[test]
fn a_cordon_counts_only_where_kafka_heeds_it() {
    let (old, new) = (Some(KafkaVersion::new(4, 2, 1)), Some(KafkaVersion::new(4, 3, 0)));
    let rows = [
        (old, None, None, Some(Cordon::Unsupported)),
        (new, Some(29), None, Some(Cordon::Unsupported)),
        (new, Some(30), Some(true), Some(Cordon::Closed)),
        (new, Some(31), Some(false), Some(Cordon::Open)),
        (new, Some(30), None, None),
        (new, None, Some(true), None),
        (None, Some(30), Some(true), None),
    ];
    for (kafka, level, closed, expected) in rows {
        assert_eq!(Cordon::of(kafka, level, closed), expected, "{kafka:?} {level:?} {closed:?}");
    }
}
