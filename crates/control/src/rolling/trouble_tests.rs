//! Nodes in trouble: which of them are restarted without anybody asking for it.

use super::*;
use crate::rolling::memory::Ailment;

/// Nodes that are not ready for longer than they may, and say this of themselves.
fn late(facts: &mut Facts, nodes: &[i32], recovery: Recovery) {
    for node in facts.nodes.iter_mut().filter(|node| nodes.contains(&node.node.get())) {
        let uid = format!("uid-{}", node.node);
        node.pod = Pod::There(PodFacts { ready: false, ..PodFacts::ready(&uid, 0) });
        node.recovery = recovery;
        node.fenced = Some(matches!(recovery, Recovery::Hung | Recovery::Starting));
        node.contact = Contact::Unknown;
        node.leads_preferred = None;
        let memory = NodeMemory {
            phase: Phase::Late,
            uid: Some(uid),
            awaited_ms: Some(NOW - 300_000),
            ..NodeMemory::default()
        };
        facts.memory.nodes.insert(node.node, memory);
    }
}

/// Brokers 0 to 2 and controllers 10 to 12, of which nothing is asked for.
fn quiet() -> Facts {
    let mut facts = facts();
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    facts
}

/// Combined nodes 10 to 12, which have the partition.
fn combined() -> Facts {
    let mut facts = quiet();
    facts.nodes.drain(..3);
    facts.nodes.iter_mut().for_each(|node| node.roles = Roles::Combined);
    facts.partitions = Some(vec![partition(&[10, 11, 12], &[10, 11, 12])]);
    facts
}

/// What there is, what is wrong with it, and who is restarted in one pass, without anybody having asked for it.
type Trouble = (&'static str, fn() -> Facts, fn(&mut Facts), &'static [i32]);

#[rustfmt::skip]
fn brokers_in_trouble() -> Vec<Trouble> {
    vec![
        ("a hung broker that is out of sync", quiet, |f| {
            late(f, &[1], Recovery::Hung);
            f.partitions = Some(vec![partition(&[0, 1, 2], &[0, 2])]);
        }, &[1]),
        ("a hung broker that Kafka counts as the last in sync", quiet, |f| {
            late(f, &[1], Recovery::Hung);
            f.partitions = Some(vec![partition(&[0, 1, 2], &[1])]);
        }, &[1]),
        ("a broker that says that it hangs, and that Kafka counts on", quiet, |f| {
            late(f, &[1], Recovery::Hung);
            f.nodes[1].fenced = Some(false);
            f.partitions = Some(vec![partition(&[0, 1, 2], &[0, 1])]);
        }, &[]),
        ("a broker that says that it hangs, and of which nothing else is known", quiet, |f| {
            late(f, &[1], Recovery::Hung);
            f.nodes[1].fenced = None;
            f.partitions = None;
        }, &[]),
        ("two of three brokers stuck in Starting, writes refused", quiet, |f| {
            late(f, &[1, 2], Recovery::Starting);
            f.partitions = Some(vec![partition(&[0, 1, 2], &[0])]);
        }, &[1]),
        ("two of three brokers not ready and out of sync, writes refused", quiet, |f| {
            late(f, &[1, 2], Recovery::No);
            f.partitions = Some(vec![partition(&[0, 1, 2], &[0])]);
        }, &[1]),
        ("a broker that is not ready, and in sync where it is needed", quiet, |f| {
            late(f, &[1], Recovery::No);
            f.partitions = Some(vec![partition(&[0, 1, 2], &[0, 1])]);
        }, &[]),
        ("a broker that recovers its logs", quiet, |f| {
            late(f, &[1], Recovery::Yes { logs: 1, segments: 1 });
        }, &[]),
        ("a broker that cannot be asked, at the first attempt", quiet, |f| {
            late(f, &[1], Recovery::Unknown);
        }, &[]),
        ("no broker answers, and one has not begun to serve", quiet, |f| {
            late(f, &[0, 1, 2], Recovery::Starting);
            f.partitions = None;
        }, &[0]),
        ("no broker answers, and one that is fenced hangs", quiet, |f| {
            late(f, &[0, 1], Recovery::No);
            late(f, &[2], Recovery::Hung);
            f.partitions = None;
        }, &[2]),
        ("no broker answers, and each may be the last that serves", quiet, |f| {
            late(f, &[0, 1, 2], Recovery::No);
            f.partitions = None;
        }, &[]),
        ("no broker can begin to serve, since the quorum has no leader", quiet, |f| {
            late(f, &[0, 1, 2], Recovery::Starting);
            f.partitions = None;
            f.quorum.as_mut().unwrap().leader = None;
        }, &[]),
        ("no leader is known", quiet, |f| {
            late(f, &[0, 1, 2], Recovery::Starting);
            (f.partitions, f.quorum) = (None, None);
        }, &[]),
        ("no leader is known, and one is to be restarted for another reason", quiet, |f| {
            late(f, &[0, 1, 2], Recovery::Starting);
            (f.partitions, f.quorum) = (None, None);
            f.nodes[1].reasons.insert(Reason::PodHasOldRevision);
        }, &[1]),
    ]
}

#[rustfmt::skip]
fn controllers_in_trouble() -> Vec<Trouble> {
    vec![
        ("a hung controller, and another is behind", quiet, |f| {
            late(f, &[12], Recovery::Hung);
            let quorum = f.quorum.as_mut().unwrap();
            (quorum.voters[1].1, quorum.voters[2].1) = (Some(1), Some(1));
            quorum.fetched_ms = [(id(11), NOW), (id(12), 1)].into();
        }, &[12]),
        ("a controller that says that it hangs, and that the leader hears of", quiet, |f| {
            late(f, &[12], Recovery::Hung);
            f.quorum.as_mut().unwrap().voters[1].1 = Some(1);
        }, &[]),
        ("a hung controller, and the quorum has no leader", quiet, |f| {
            late(f, &[12], Recovery::Hung);
            f.quorum.as_mut().unwrap().leader = None;
        }, &[12]),
        ("two hung controllers of three, and nobody tells how the quorum is", quiet, |f| {
            late(f, &[11, 12], Recovery::Hung);
            (f.quorum, f.quorum_settled) = (None, None);
        }, &[11]),
        ("an unready combined node that is behind, as another is", combined, |f| {
            late(f, &[11, 12], Recovery::No);
            f.partitions = Some(vec![partition(&[10, 11, 12], &[10])]);
            let quorum = f.quorum.as_mut().unwrap();
            (quorum.voters[1].1, quorum.voters[2].1) = (Some(1), Some(1));
            quorum.fetched_ms = [(id(11), 1), (id(12), 1)].into();
        }, &[11]),
        ("an unready combined node that is behind and fetches, as another is", combined, |f| {
            late(f, &[11, 12], Recovery::No);
            f.partitions = Some(vec![partition(&[10, 11, 12], &[10])]);
            let quorum = f.quorum.as_mut().unwrap();
            (quorum.voters[1].1, quorum.voters[2].1) = (Some(1), Some(1));
        }, &[]),
        ("an unready combined node whose vote is needed", combined, |f| {
            late(f, &[11], Recovery::Starting);
            f.partitions = Some(vec![partition(&[10, 11, 12], &[10, 12])]);
            f.quorum.as_mut().unwrap().voters[2].1 = Some(1);
        }, &[]),
        ("an unready controller that is to become a voter", quiet, |f| {
            late(f, &[12], Recovery::No);
            f.quorum.as_mut().unwrap().voters.pop();
            f.quorum_settled = Some(false);
        }, &[12]),
        ("an unready controller that votes, and another is to become a voter", quiet, |f| {
            late(f, &[12], Recovery::No);
            f.quorum_settled = Some(false);
        }, &[]),
        ("a combined node that starts, and nobody tells how the quorum is", combined, |f| {
            late(f, &[11], Recovery::Starting);
            (f.quorum, f.quorum_settled) = (None, None);
        }, &[]),
    ]
}

#[test]
fn a_node_in_trouble_is_restarted_if_that_takes_nothing_from_others() {
    let rows = brokers_in_trouble().into_iter().chain(controllers_in_trouble());
    for (name, facts, change, expected) in rows {
        let mut facts = facts();
        change(&mut facts);
        let decision = decide(&facts, &Settings::default(), NOW);
        assert_eq!(restarted(&decision), expected, "{name}: {:?}", decision.why);
        // What was recorded and not done is done again, as the facts are the same.
        let again = Facts { memory: decision.memory.clone(), ..facts.clone() };
        let again = decide(&again, &Settings::default(), NOW + 1);
        assert_eq!(restarted(&again), expected, "{name}, again: {:?}", again.why);
    }
}

/// A person's request changes nothing for a node that may be the last that serves.
#[test]
fn a_node_that_cannot_be_asked_is_restarted_on_the_last_attempt_if_others_do_not_need_it() {
    let silent = |isr: Option<&[i32]>, asked: bool| {
        let mut facts = quiet();
        late(&mut facts, &[1], Recovery::Unknown);
        facts.partitions = isr.map(|isr| vec![partition(&[0, 1, 2], isr)]);
        if asked {
            facts.nodes[1].reasons.insert(Reason::ManualRollingUpdate);
        }
        wait_for_restart(facts, 900_000)
    };
    for asked in [false, true] {
        let (chosen, after_ms, _) = silent(Some(&[0, 2]), asked);
        assert_eq!((chosen.as_slice(), after_ms >= 127_750), ([1].as_slice(), true), "{asked}");
        assert_eq!(silent(Some(&[0, 1]), asked).0, Vec::<i32>::new(), "{asked}");
        assert_eq!(silent(None, asked).0, Vec::<i32>::new(), "{asked}");
    }
}

#[test]
fn a_node_that_does_not_come_up_stops_those_that_serve_and_no_others() {
    let mut facts = quiet();
    late(&mut facts, &[0, 1], Recovery::Starting);
    // Broker 0 was well, and is not since it was restarted.
    facts.memory.nodes.get_mut(&id(0)).unwrap().ours = true;
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[2])]);
    facts.nodes[2].reasons.insert(Reason::ManualRollingUpdate);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), decision.standing), (vec![1], Standing::Stopped));
    assert_eq!(hold(&decision, 2), "nothing is restarted while node 0 does not become ready");
    // While it is on its way, nobody else goes.
    facts.nodes.push(node(3, Roles::Broker));
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    late(&mut facts, &[3], Recovery::Starting);
    facts.memory.nodes.extend(decision.memory.nodes);
    let decision = decide(&facts, &Settings::default(), NOW + 1);
    assert_eq!(restarted(&decision), [1]);
}

/// It was ill before it was restarted, so the others are not held back by it.
#[test]
fn a_node_that_a_restart_did_not_cure_is_given_up_and_the_others_go_on() {
    let mut facts = quiet();
    late(&mut facts, &[0], Recovery::Unknown);
    let memory = facts.memory.nodes.get_mut(&id(0)).unwrap();
    (memory.ours, memory.tried) = (true, Some(Ailment::Unready));
    facts.partitions = Some(vec![partition(&[1, 2], &[1, 2])]);
    facts.partitions.iter_mut().flatten().for_each(|one| one.min_isr = Some(1));
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), decision.standing), (vec![], Standing::Failed));
    facts.nodes[2].reasons.insert(Reason::CaCertHasOldGeneration);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), decision.standing), (vec![2], Standing::Failed));
    assert_eq!(decision.progress.given_up, [id(0)]);
    assert_eq!(decision.progress.stopping, []);
    assert!(hold(&decision, 0).starts_with("it was restarted and has not become ready since"));
    // It is restarted again if there is another reason.
    facts.nodes[2].reasons.clear();
    facts.nodes[0].recovery = Recovery::No;
    facts.nodes[0].reasons.insert(Reason::PodHasOldRevision);
    assert_eq!(restarted(&decide(&facts, &Settings::default(), NOW)), [0]);
}

/// Also where many may be restarted at once.
#[test]
fn brokers_that_are_not_ready_are_restarted_one_at_a_time() {
    let mut facts = quiet();
    late(&mut facts, &[1, 2], Recovery::Starting);
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[0])]);
    let settings = Settings { parallel_max: 5, ..Settings::default() };
    assert_eq!(restarted(&decide(&facts, &settings, NOW)), [1]);
}

#[test]
fn brokers_that_waited_for_a_leader_have_time_to_start() {
    let settings = Settings::default();
    let mut facts = quiet();
    late(&mut facts, &[0, 1, 2], Recovery::Starting);
    facts.memory.nodes.values_mut().for_each(|memory| memory.phase = Phase::Awaited);
    facts.partitions = None;
    let leader = facts.quorum.as_mut().unwrap().leader.take();
    let (chosen, after_ms, decision) = wait_for_restart(facts.clone(), 3_600_000);
    assert_eq!((chosen, decision.standing), (vec![], Standing::Settled));
    facts.quorum.as_mut().unwrap().leader = leader;
    facts.memory = decision.memory;
    let passes = [(0, vec![]), (settings.operation_timeout_ms / 2 - 1_000, vec![])];
    let restarts = [(settings.operation_timeout_ms, vec![0])];
    for (later_ms, expected) in passes.into_iter().chain(restarts) {
        let decision = decide(&facts, &settings, NOW + after_ms + later_ms);
        assert_eq!(restarted(&decision), expected, "{later_ms}");
    }
}

/// One question that no answer does not renew the time of a broker that has had it.
#[test]
fn a_broker_that_is_late_stays_so_while_no_leader_is_known() {
    let mut facts = quiet();
    late(&mut facts, &[1], Recovery::Starting);
    facts.partitions = None;
    let quorum = facts.quorum.take();
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    assert_eq!(hold(&decision, 1), "waits for its pod to become ready");
    assert!(decision.wait_ms.is_some_and(|ms| ms <= 5_000), "{:?}", decision.wait_ms);
    let facts = Facts { quorum, memory: decision.memory, ..facts };
    assert_eq!(restarted(&decide(&facts, &Settings::default(), NOW + 1)), [1]);
}

/// How often it was held back before, for whatever reason, says nothing of what is the matter with it now.
#[test]
fn a_node_that_becomes_late_is_asked_as_often_as_any_other() {
    let mut facts = quiet();
    late(&mut facts, &[1], Recovery::Unknown);
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[0, 2])]);
    let memory = facts.memory.nodes.get_mut(&id(1)).unwrap();
    (memory.phase, memory.attempts, memory.given_up) = (Phase::Awaited, 9, true);
    let (chosen, after_ms, _) = wait_for_restart(facts, 900_000);
    assert_eq!((chosen.as_slice(), after_ms >= 127_750), ([1].as_slice(), true), "{after_ms}");
}

#[test]
fn a_restart_that_is_recorded_is_not_done_once_the_node_recovers_its_logs() {
    let mut facts = quiet();
    late(&mut facts, &[1], Recovery::Starting);
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[0, 2])]);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), [1]);
    facts.memory = decision.memory;
    facts.nodes[1].recovery = Recovery::Yes { logs: 3, segments: 4 };
    for later_ms in [1, 2, 3, 600_000, 900_000] {
        let decision = decide(&facts, &Settings::default(), NOW + later_ms);
        assert_eq!(restarted(&decision), Vec::<i32>::new(), "{later_ms}");
        facts.memory = decision.memory;
    }
    assert_eq!(facts.memory.nodes[&id(1)].phase, Phase::Recovering);
}

/// Deletes the pod of a node on a machine that is gone: it stays.
fn lingering(facts: &mut Facts, node: i32, for_ms: u64) {
    let seen = facts.nodes.iter_mut().find(|one| one.node == id(node)).unwrap();
    if let Pod::There(pod) = &mut seen.pod {
        (pod.ready, pod.deleting) = (false, true);
    }
    let memory = facts.memory.nodes.entry(id(node)).or_default();
    memory.deleting_ms = Some(NOW - for_ms);
}

#[test]
fn a_pod_that_does_not_go_holds_the_others_back_only_for_a_while() {
    let mut facts = quiet();
    facts.nodes.push(node(3, Roles::Broker));
    let decision = |for_ms: u64| {
        let mut facts = facts.clone();
        let memory = NodeMemory {
            phase: Phase::Restarting,
            uid: Some("uid-1".to_owned()),
            ours: true,
            ..NodeMemory::default()
        };
        facts.memory.nodes.insert(id(1), memory);
        lingering(&mut facts, 1, for_ms);
        decide(&facts, &Settings::default(), NOW)
    };
    let early = decision(299_999);
    assert_eq!((restarted(&early), early.standing), (vec![], Standing::Rolling));
    assert_eq!(hold(&early, 3), "waits while node 1 restarts");
    let late = decision(300_000);
    assert_eq!((restarted(&late), late.standing), (vec![3], Standing::Failed));
    assert!(hold(&late, 1).starts_with("its pod was deleted but still exists"), "{:?}", late.why);
    assert_eq!((&late.progress.given_up, &late.progress.stopping), (&vec![id(1)], &vec![]));
}

/// What Kubernetes names as the time of the deletion is the end of the grace period.
#[test]
fn a_pod_has_its_grace_period_to_shut_down() {
    let phase_of = |phase: Phase, grace_ends_ms: u64| {
        let mut facts = quiet();
        late(&mut facts, &[1], Recovery::No);
        let memory = facts.memory.nodes.get_mut(&id(1)).unwrap();
        (memory.phase, memory.ours) = (phase, phase == Phase::Restarting);
        lingering(&mut facts, 1, 480_000);
        if let Pod::There(pod) = &mut facts.nodes[1].pod {
            pod.deletion_ms = Some(grace_ends_ms);
        }
        facts.nodes[0].reasons.insert(Reason::ManualRollingUpdate);
        let decision = decide(&facts, &Settings::default(), NOW);
        (decision.memory.nodes[&id(1)].phase, restarted(&decision))
    };
    for phase in [Phase::Restarting, Phase::Awaited] {
        assert_eq!(phase_of(phase, NOW + 420_000), (phase, vec![]));
        assert_eq!(phase_of(phase, NOW - 299_999), (phase, vec![]));
        assert_eq!(phase_of(phase, NOW - 300_000).0, Phase::Late, "{phase:?}");
        // The clock of the API server is behind: the time since the deletion was seen counts.
        assert_eq!(phase_of(phase, 0).0, Phase::Late, "{phase:?}");
    }
}

#[test]
fn a_recovery_of_which_nothing_is_heard_any_more_ends() {
    let silent = |recovery_at: fn(u64) -> Recovery| {
        let mut facts = quiet();
        late(&mut facts, &[1], Recovery::Unknown);
        facts.memory.nodes.get_mut(&id(1)).unwrap().phase = Phase::Recovering;
        facts.partitions = Some(vec![partition(&[0, 1, 2], &[0, 2])]);
        for at_ms in (0..3_600_000).step_by(10_000) {
            facts.nodes[1].recovery = recovery_at(at_ms);
            let decision = decide(&facts, &Settings::default(), NOW + at_ms);
            if restarted(&decision) == [1] {
                return Some(at_ms);
            }
            facts.memory = decision.memory;
        }
        None
    };
    // As long as a pod may take, twice, and the attempts.
    assert!(silent(|_| Recovery::Unknown).is_some_and(|ms| ms >= 600_000));
    // Something is heard from time to time.
    assert_eq!(
        silent(|at_ms| match at_ms % 250_000 {
            0 => Recovery::Yes { logs: 1, segments: 1 },
            _ => Recovery::Unknown,
        }),
        None
    );
}

/// The operator was away between record and act, and nothing is known since.
#[test]
fn a_restart_that_is_recorded_is_canceled_if_it_stays_unknown_whether_it_is_safe() {
    let mut facts = quiet();
    facts.nodes[1].reasons.insert(Reason::ManualRollingUpdate);
    facts.memory = decide(&facts, &Settings::default(), NOW).memory;
    assert_eq!(facts.memory.nodes[&id(1)].phase, Phase::Restarting);
    facts.partitions = None;
    for (later_ms, expected) in [(299_999, Some(Phase::Restarting)), (300_000, None)] {
        let decision = decide(&facts, &Settings::default(), NOW + later_ms);
        assert_eq!(restarted(&decision), Vec::<i32>::new());
        let memory = decision.memory.nodes.get(&id(1));
        let phase = memory.map(|memory| memory.phase).filter(|phase| *phase != Phase::Serving);
        assert_eq!(phase, expected, "{later_ms}");
    }
}

/// Whatever it did when its machine went.
#[test]
fn a_pod_that_does_not_go_is_late_and_nothing_else() {
    let changes: [fn(&mut Facts, &mut PodFacts); 4] = [
        |_, _| {},
        |_, pod| pod.waiting = Some("CrashLoopBackOff".to_owned()),
        |facts, _| facts.nodes[1].recovery = Recovery::Yes { logs: 1, segments: 1 },
        |facts, _| {
            facts.nodes[1].recovery = Recovery::Starting;
            facts.quorum = None;
        },
    ];
    for change in changes {
        for (phase, ours) in [(Phase::Restarting, true), (Phase::Awaited, false)] {
            let mut facts = quiet();
            facts.nodes.truncate(3);
            late(&mut facts, &[1], Recovery::Unknown);
            let memory = facts.memory.nodes.get_mut(&id(1)).unwrap();
            (memory.phase, memory.ours) = (phase, ours);
            lingering(&mut facts, 1, 300_000);
            let mut pod = facts.nodes[1].pod.there().cloned().unwrap();
            change(&mut facts, &mut pod);
            facts.nodes[1].pod = Pod::There(pod);
            facts.partitions = Some(vec![]);
            for later_ms in [0, 1, 2] {
                let decision = decide(&facts, &Settings::default(), NOW + later_ms);
                assert_eq!(decision.memory.nodes[&id(1)].phase, Phase::Late, "{phase:?}");
                assert_eq!(decision.standing, Standing::Failed, "{phase:?}");
                facts.memory = decision.memory;
            }
            facts.nodes[0].reasons.insert(Reason::ManualRollingUpdate);
            let decision = decide(&facts, &Settings::default(), NOW + 3);
            assert_eq!(restarted(&decision), [0], "{phase:?}: {:?}", decision.why);
        }
    }
}

/// A broker that we restarted waits for a leader, and a controller that hangs is what the quorum lacks.
#[test]
fn a_broker_that_waits_for_a_leader_does_not_hold_back_what_the_quorum_lacks() {
    let mut facts = quiet();
    late(&mut facts, &[1], Recovery::Starting);
    let memory = facts.memory.nodes.get_mut(&id(1)).unwrap();
    (memory.phase, memory.ours) = (Phase::Awaited, true);
    late(&mut facts, &[11, 12], Recovery::Hung);
    (facts.quorum, facts.quorum_settled, facts.partitions) = (None, None, None);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), [11], "{:?}", decision.why);
}

/// Also if it was Kubernetes that deleted it, and also if it is a controller.
#[test]
fn a_pod_that_is_being_deleted_is_not_deleted_again() {
    for (gone, for_ms) in [(1, 0), (1, 300_000), (12, 0), (12, 300_000)] {
        let mut facts = quiet();
        late(&mut facts, &[gone], Recovery::Hung);
        lingering(&mut facts, gone, for_ms);
        // As of a pod that crash-looped when its machine went.
        let seen = facts.nodes.iter_mut().find(|one| one.node == id(gone)).unwrap();
        seen.reasons.insert(Reason::PodHasOldRevision);
        if let Pod::There(pod) = &mut seen.pod {
            pod.waiting = Some("CrashLoopBackOff".to_owned());
        }
        facts.partitions = Some(vec![]);
        facts.nodes[0].reasons.insert(Reason::ManualRollingUpdate);
        let decision = decide(&facts, &Settings::default(), NOW);
        assert_eq!(restarted(&decision), [0], "{gone}: {:?}", decision.why);
    }
}
