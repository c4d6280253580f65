//! The machine of one node, exhaustively.

use std::collections::BTreeSet;

use super::*;
use crate::rolling::facts::PodFacts;

const TIMEOUT: u64 = 300_000;
const NOW: u64 = TIMEOUT * 10;

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
                        for leaderless in [false, true] {
                            let seen = facts(pod);
                            let seen = Facts { stuck, recovery, healed, elects, leads, ..seen };
                            every_age(&Facts { leaderless, ..seen }, &check);
                        }
                    }
                }
            }
        }
    }
}

/// The same with every recorded pod, and every age of what is waited for.
fn every_age<'a>(seen: &Facts<'a>, check: impl Fn(&Facts<'a>)) {
    let rows = [
        (None, 0, 0),
        (Some("old"), 0, TIMEOUT),
        (Some("old"), TIMEOUT * 9, 0),
        (Some("old"), 0, 0),
    ];
    for (uid, since, awaited) in rows {
        for deleting in [0, TIMEOUT] {
            let age = |ms: u64| NOW - ms;
            let deleting_ms = seen.pod.is_deleting().then(|| age(deleting));
            let (since_ms, awaited_ms) = (age(since), age(awaited));
            check(&Facts { uid, since_ms, awaited_ms, deleting_ms, ..*seen });
        }
    }
}

/// A pod that was recorded long ago, and nothing else.
fn facts(pod: &Pod) -> Facts<'_> {
    Facts {
        pod,
        stuck: None,
        recovery: Recovery::No,
        leaderless: false,
        healed: None,
        elects: false,
        leads: None,
        uid: Some("old"),
        since_ms: 0,
        awaited_ms: 0,
        deleting_ms: None,
        silent_ms: None,
        now_ms: NOW,
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
        read(Recovering, &Facts { recovery, ..facts(&unready) }, &Settings::default())
    };
    for recovery in [Recovery::No, Recovery::Starting, Recovery::Hung] {
        assert_eq!(event(recovery), Some(Recovered), "{recovery:?}");
    }
    assert_eq!(event(Recovery::Unknown), None);
    assert_eq!(event(Recovery::Yes { logs: 1, segments: 2 }), None);
}

#[test]
fn a_node_that_cannot_be_asked_for_long_is_not_taken_to_recover_any_more() {
    let unready = Pod::There(PodFacts { ready: false, ..PodFacts::ready("old", 0) });
    for (for_ms, expected) in [(TIMEOUT - 1, None), (TIMEOUT, Some(Recovered))] {
        let silent_ms = Some(NOW - for_ms);
        let seen = Facts { recovery: Recovery::Unknown, silent_ms, ..facts(&unready) };
        assert_eq!(read(Recovering, &seen, &Settings::default()), expected, "{for_ms}");
    }
}

#[test]
fn a_pod_that_is_being_deleted_is_waited_for_as_long_as_one_that_starts() {
    let deleting = |recovery: Recovery, phase: Phase, for_ms: u64| {
        let pod = PodFacts { ready: false, deleting: true, ..PodFacts::ready("old", 0) };
        let pod = Pod::There(pod);
        let deleting_ms = Some(NOW - for_ms);
        let seen = Facts { recovery, deleting_ms, awaited_ms: NOW - for_ms, ..facts(&pod) };
        read(phase, &seen, &Settings::default())
    };
    for recovery in [Recovery::Unknown, Recovery::No, Recovery::Yes { logs: 1, segments: 2 }] {
        for phase in [Restarting, Awaited] {
            assert_eq!(deleting(recovery, phase, TIMEOUT - 1), None, "{phase:?} {recovery:?}");
            assert_eq!(deleting(recovery, phase, TIMEOUT), Some(TookTooLong), "{phase:?}");
        }
        // Whatever it recovers ends with the pod.
        assert_eq!(deleting(recovery, Recovering, 0), Some(Recovered), "{recovery:?}");
        assert_eq!(deleting(recovery, Late, TIMEOUT), None, "{recovery:?}");
    }
    // A pod that is not being deleted yet is, however long ago that was recorded.
    let untouched = Pod::There(PodFacts::ready("old", 0));
    assert_eq!(read(Restarting, &facts(&untouched), &Settings::default()), None);
}

#[test]
fn the_time_of_a_broker_begins_anew_while_there_is_no_leader() {
    let unready = Pod::There(PodFacts { ready: false, ..PodFacts::ready("old", 0) });
    let event = |phase: Phase, leaderless: bool, for_ms: u64| {
        let seen = Facts { leaderless, awaited_ms: NOW - for_ms, ..facts(&unready) };
        read(phase, &seen, &Settings::default())
    };
    let half = TIMEOUT / 2;
    let rows = [
        (Awaited, true, half - 1, None),
        (Awaited, true, half, Some(NoLeader)),
        (Awaited, true, TIMEOUT, Some(NoLeader)),
        (Awaited, false, half, None),
        (Awaited, false, TIMEOUT, Some(TookTooLong)),
        (Late, true, TIMEOUT, None),
        (Late, false, TIMEOUT, None),
    ];
    for (phase, leaderless, for_ms, expected) in rows {
        assert_eq!(event(phase, leaderless, for_ms), expected, "{phase:?} {leaderless} {for_ms}");
    }
}
