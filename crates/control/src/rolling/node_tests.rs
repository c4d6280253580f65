//! The machine of one node, exhaustively.

use std::collections::BTreeSet;

use super::*;
use crate::rolling::facts::PodFacts;

const TIMEOUT: u64 = 300_000;

fn pods() -> Vec<Pod> {
    let pod = |uid: &str, ready: bool, deleting: bool| {
        Pod::There(PodFacts { ready, deleting, ..PodFacts::ready(uid, 0) })
    };
    let mut pods = vec![Pod::Unknown, Pod::Absent];
    for uid in ["old", "new"] {
        pods.extend([pod(uid, true, false), pod(uid, false, false), pod(uid, true, true)]);
    }
    pods
}

/// Calls `check` with every combination of facts that the machine can tell apart.
fn every(check: impl Fn(&Facts<'_>)) {
    let left = Recovery::Yes { logs: 1, segments: 2 };
    let recoveries = [Recovery::Unknown, Recovery::No, Recovery::Starting, Recovery::Hung, left];
    for pod in &pods() {
        for stuck in [None, Some(Stuck::CrashLoopBackOff)] {
            for recovery in recoveries {
                for healed in [None, Some(false), Some(true)] {
                    for (elects, leads) in [(false, None), (true, Some(false)), (true, Some(true))]
                    {
                        for (uid, ages) in [
                            (None, [0, 0]),
                            (Some("old"), [0, TIMEOUT]),
                            (Some("old"), [TIMEOUT * 9, 0]),
                        ] {
                            let now_ms = TIMEOUT * 10;
                            let [since, awaited] = ages.map(|age| now_ms - age);
                            check(&Facts {
                                pod,
                                stuck,
                                recovery,
                                healed,
                                elects,
                                leads,
                                uid,
                                now_ms,
                                since_ms: since,
                                awaited_ms: awaited,
                            });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn no_pair_is_listed_twice() {
    let pairs: BTreeSet<_> = TRANSITIONS.iter().map(|(from, event, _)| (*from, *event)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
}

#[test]
fn no_facts_raise_a_pair_that_is_not_listed() {
    let settings = Settings::default();
    for phase in Phase::ALL {
        every(|facts| {
            if let Some(event) = read(phase, facts, &settings) {
                assert!(next(phase, event).is_some(), "{phase:?} {event:?} {facts:?}");
            }
        });
    }
}

#[test]
fn every_pair_but_the_choices_is_raised_by_some_facts() {
    let settings = Settings::default();
    for (phase, event, _) in TRANSITIONS.iter().filter(|(_, e, _)| !matches!(e, Chosen | Unsafe)) {
        let raised = std::cell::Cell::new(false);
        every(|facts| raised.set(raised.get() || read(*phase, facts, &settings) == Some(*event)));
        assert!(raised.get(), "{phase:?} {event:?}");
    }
}

#[test]
fn a_pod_that_could_not_be_read_raises_nothing() {
    let settings = Settings::default();
    for phase in Phase::ALL {
        every(|facts| {
            if *facts.pod == Pod::Unknown {
                assert_eq!(read(phase, facts, &settings), None);
            }
        });
    }
}

#[test]
fn only_the_pod_of_the_record_is_deleted() {
    let settings = Settings::default();
    every(|facts| {
        let there = facts.pod.uid().is_some() && facts.pod.uid() == facts.uid;
        let gone = read(Restarting, facts, &settings) == Some(Gone);
        let known = *facts.pod != Pod::Unknown;
        // The pod of a record always has a uid.
        if known && facts.uid.is_some() {
            assert_eq!(gone, !there, "{facts:?}");
        }
    });
}

#[test]
fn every_phase_leads_back_to_serving() {
    let mut reaches = BTreeSet::from([Serving]);
    for _ in Phase::ALL {
        for (from, _, to) in TRANSITIONS {
            if reaches.contains(to) {
                reaches.insert(*from);
            }
        }
    }
    assert_eq!(reaches.len(), Phase::ALL.len());
}

#[test]
fn a_node_that_recovers_its_logs_is_not_restarted() {
    assert_eq!(next(Recovering, Chosen), None);
    assert_eq!(next(Awaited, Chosen), None);
}

#[test]
fn a_recovery_that_hangs_has_ended_and_one_of_an_unknown_state_has_not() {
    let unready = Pod::There(PodFacts { ready: false, ..PodFacts::ready("old", 0) });
    let event = |recovery: Recovery| {
        let facts = Facts {
            pod: &unready,
            stuck: None,
            recovery,
            healed: None,
            elects: false,
            leads: None,
            uid: Some("old"),
            since_ms: 0,
            awaited_ms: 0,
            now_ms: TIMEOUT * 10,
        };
        read(Recovering, &facts, &Settings::default())
    };
    for recovery in [Recovery::No, Recovery::Starting, Recovery::Hung] {
        assert_eq!(event(recovery), Some(Recovered), "{recovery:?}");
    }
    assert_eq!(event(Recovery::Unknown), None);
    assert_eq!(event(Recovery::Yes { logs: 1, segments: 2 }), None);
}
