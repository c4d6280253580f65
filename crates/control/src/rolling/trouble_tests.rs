//! Nodes in trouble: which of them are restarted without anybody asking for it.

use super::*;
use crate::rolling::memory::Ailment;

/// Nodes that are not ready for longer than they may, and say this of themselves.
fn late(facts: &mut Facts, nodes: &[i32], recovery: Recovery) {
    for node in facts.nodes.iter_mut().filter(|node| nodes.contains(&node.node.get())) {
        let uid = format!("uid-{}", node.node);
        node.pod = Pod::There(PodFacts { ready: false, ..PodFacts::ready(&uid, 0) });
        node.recovery = recovery;
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
        ("no broker answers, and one of them hangs", quiet, |f| {
            late(f, &[0, 1], Recovery::No);
            late(f, &[2], Recovery::Hung);
            f.partitions = None;
        }, &[2]),
        ("no broker answers, and each may be the last that serves", quiet, |f| {
            late(f, &[0, 1, 2], Recovery::No);
            f.partitions = None;
        }, &[]),
    ]
}

#[rustfmt::skip]
fn controllers_in_trouble() -> Vec<Trouble> {
    vec![
        ("a hung controller, and another is behind", quiet, |f| {
            late(f, &[12], Recovery::Hung);
            f.quorum.as_mut().unwrap().voters[1].1 = Some(1);
        }, &[12]),
        ("two hung controllers of three, and nobody tells how the quorum is", quiet, |f| {
            late(f, &[11, 12], Recovery::Hung);
            (f.quorum, f.quorum_settled) = (None, None);
        }, &[11]),
        ("an unready combined node that is behind, as another is", combined, |f| {
            late(f, &[11, 12], Recovery::No);
            f.partitions = Some(vec![partition(&[10, 11, 12], &[10])]);
            let voters = &mut f.quorum.as_mut().unwrap().voters;
            (voters[1].1, voters[2].1) = (Some(1), Some(1));
        }, &[11]),
        ("an unready combined node whose vote is needed", combined, |f| {
            late(f, &[11], Recovery::Starting);
            f.partitions = Some(vec![partition(&[10, 11, 12], &[10, 12])]);
            f.quorum.as_mut().unwrap().voters[2].1 = Some(1);
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

/// A person's wish changes nothing for a node that may be the last that serves.
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
    // Broker 0 was restarted, and that did not help.
    let memory = facts.memory.nodes.get_mut(&id(0)).unwrap();
    (memory.ours, memory.tried) = (true, Some(Ailment::Unready));
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[2])]);
    facts.nodes[2].reasons.insert(Reason::ManualRollingUpdate);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), decision.standing), (vec![1], Standing::Stopped));
    assert_eq!(hold(&decision, 2), "nothing is restarted while node 0 does not come up");
    // While it is on its way, nobody else goes.
    facts.nodes.push(node(3, Roles::Broker));
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    late(&mut facts, &[3], Recovery::Starting);
    facts.memory.nodes.extend(decision.memory.nodes);
    let decision = decide(&facts, &Settings::default(), NOW + 1);
    assert_eq!(restarted(&decision), [1]);
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
