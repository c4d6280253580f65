//! Nodes whose volumes are deleted with their pods: nothing that no other node may have is deleted without a user.

use super::*;

/// These controllers, all of which vote and are to be restarted, and no broker.
fn ephemeral(controllers: &[i32]) -> Facts {
    let mut facts = facts();
    facts.nodes.retain(|node| controllers.contains(&node.node.get()));
    facts.nodes.iter_mut().for_each(|node| node.ephemeral = true);
    facts.voters = controllers.iter().map(|number| id(*number)).collect();
    let quorum = facts.quorum.as_mut().unwrap();
    quorum.voters.retain(|(voter, _)| controllers.contains(&voter.get()));
    facts
}

#[test]
#[rustfmt::skip]
fn a_controller_that_takes_the_metadata_along_is_restarted_only_if_that_is_accepted() {
    type Row = (&'static str, fn() -> Facts, bool, &'static [i32]);
    let rows: [Row; 8] = [
        ("the only voter",                    || ephemeral(&[10]), false, &[]),
        ("it is accepted",                    || ephemeral(&[10]), true, &[10]),
        ("one of two",                        || ephemeral(&[10, 11]), false, &[]),
        ("one of two, and it is accepted",    || ephemeral(&[10, 11]), true, &[11]),
        ("three bear the loss of one",        || ephemeral(&[10, 11, 12]), false, &[11]),
        ("its disk outlives its pod",         || { let mut f = ephemeral(&[10]); f.nodes[0].ephemeral = false; f }, false, &[10]),
        ("another one votes",                 || { let mut f = ephemeral(&[10]); f.voters = [id(11)].into(); f }, false, &[10]),
        ("there never was a quorum",          || { let mut f = ephemeral(&[10]); f.voters.clear(); f }, false, &[10]),
    ];
    for (name, facts, accept_metadata_loss, expected) in rows {
        let settings = Settings { accept_metadata_loss, ..Settings::default() };
        let decision = decide(&facts(), &settings, NOW);
        assert_eq!(restarted(&decision), expected, "{name}");
        let is_told = decision.why.iter().any(|why| why.hold == Hold::MetadataLoss);
        assert_eq!(is_told, expected.is_empty(), "{name}");
    }
}

/// The volumes of a pod that cannot run are there as long as the pod is.
#[test]
fn a_controller_that_takes_the_metadata_along_is_not_replaced_because_it_cannot_run() {
    let mut facts = ephemeral(&[10]);
    facts.nodes[0].reasons = [Reason::PodHasOldRevision].into();
    let waiting = Some("CrashLoopBackOff".to_owned());
    let stuck = PodFacts { ready: false, waiting, ..PodFacts::ready("uid-10", 0) };
    facts.nodes[0].pod = Pod::There(stuck);
    facts.quorum = None;
    let accepted = Settings { accept_metadata_loss: true, ..Settings::default() };
    facts.memory = decide(&facts, &Settings::default(), NOW).memory;
    let decision = decide(&facts, &Settings::default(), NOW + 1_000);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    assert!(hold(&decision, 10).contains("gregor.io/accept-metadata-loss"), "{:?}", decision.why);
    let decision = decide(&facts, &accepted, NOW + 1_000);
    assert_eq!(restarted(&decision), [10]);
    // A restart that is recorded is canceled with the acceptance.
    facts.memory = decision.memory;
    assert_eq!(restarted(&decide(&facts, &accepted, NOW + 2_000)), [10]);
    let decision = decide(&facts, &Settings::default(), NOW + 2_000);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    // It is not waited for without an end: the roll fails, and brokers go on.
    let (chosen, _, decision) = wait_for_restart(ephemeral(&[10]), 300_000);
    assert_eq!((chosen, decision.standing), (vec![], Standing::Failed));
}

/// A node whose pod crash-loops and is out of date, or does not become ready and says this of itself.
fn in_trouble(facts: &mut Facts, node: i32, recovery: Option<Recovery>) {
    let seen = facts.nodes.iter_mut().find(|one| one.node == id(node)).unwrap();
    let uid = format!("uid-{node}");
    let waiting = recovery.is_none().then(|| "CrashLoopBackOff".to_owned());
    seen.pod = Pod::There(PodFacts { ready: false, waiting, ..PodFacts::ready(&uid, 0) });
    seen.recovery = recovery.unwrap_or(Recovery::Unknown);
    seen.fenced = Some(true);
    if recovery.is_none() {
        seen.reasons.insert(Reason::PodHasOldRevision);
    }
    let phase = if recovery.is_none() { Phase::Stuck } else { Phase::Late };
    let memory = NodeMemory { phase, uid: Some(uid), ..NodeMemory::default() };
    facts.memory.nodes.insert(id(node), memory);
}

/// Brokers 0 to 2, of which nothing is asked for, and these partitions.
fn brokers(partitions: Option<&[PartitionFacts]>) -> Facts {
    let mut facts = brokers_only();
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    facts.partitions = partitions.map(<[PartitionFacts]>::to_vec);
    facts
}

const STARTS: Option<Recovery> = Some(Recovery::Starting);
const HANGS: Option<Recovery> = Some(Recovery::Hung);
const STUCK: Option<Recovery> = None;

#[test]
#[rustfmt::skip]
fn a_broker_that_is_not_ready_keeps_its_pod_while_it_may_have_the_last_copy() {
    let (both, none) = (partition(&[0, 1, 2], &[0, 2]), partition(&[0, 1, 2], &[]));
    let (last, only) = (partition(&[0, 1, 2], &[1]), partition(&[1], &[1]));
    let elsewhere = partition(&[0, 2], &[0, 2]);
    // What the partitions are, whether its pod is deleted if its volumes outlive it, and if they do not.
    let rows: [(&str, Option<&[PartitionFacts]>, bool, bool); 6] = [
        ("others have all of it",        Some(std::slice::from_ref(&both)), true, true),
        ("it has nothing",               Some(&[elsewhere]), true, true),
        ("no other is in sync",          Some(&[both.clone(), last]), true, false),
        ("none is in sync",              Some(&[both.clone(), none]), true, false),
        ("it has the only replica",      Some(&[both.clone(), only]), true, false),
        ("the partitions are unknown",   None, true, false),
    ];
    for (name, partitions, if_persistent, if_ephemeral) in rows {
        for trouble in [STARTS, HANGS, STUCK] {
            for (ephemeral_data, expected) in [(false, if_persistent), (true, if_ephemeral)] {
                let mut facts = brokers(partitions);
                in_trouble(&mut facts, 1, trouble);
                facts.nodes[1].ephemeral_data = ephemeral_data;
                let decision = decide(&facts, &Settings::default(), NOW);
                let expected = if expected { vec![1] } else { vec![] };
                assert_eq!(restarted(&decision), expected, "{name}, {trouble:?}, {ephemeral_data}: {:?}", decision.why);
                // What was recorded and not done is judged by the same rules.
                facts.memory = decision.memory;
                let again = decide(&facts, &Settings::default(), NOW + 1);
                assert_eq!(restarted(&again), expected, "{name}, {trouble:?}, again");
            }
        }
    }
}

/// A single replica is lost with any restart, and a user who asks for one has chosen that.
#[test]
fn a_broker_that_is_ready_keeps_its_pod_while_another_replica_can_catch_up() {
    let asked = |facts: &mut Facts| {
        facts.nodes[1].reasons.insert(Reason::ManualRollingUpdate);
    };
    let fails = |facts: &mut Facts| facts.nodes[1].contact = Contact::Fails;
    let (both, only) = (partition(&[1, 2], &[1, 2]), partition(&[1], &[1]));
    let last = partition(&[1, 2], &[1]);
    type Row<'a> = (&'a str, PartitionFacts, fn(&mut Facts), bool, bool);
    let rows: [Row<'_>; 6] = [
        ("two replicas in sync", both.clone(), asked, true, true),
        ("two replicas in sync, and it does not answer", both, fails, true, true),
        ("the last replica in sync", last.clone(), asked, true, false),
        ("the last replica in sync, and it does not answer", last, fails, true, false),
        ("the only replica", only.clone(), asked, true, true),
        ("the only replica, and it does not answer", only, fails, true, false),
    ];
    for (name, partition, change, if_persistent, if_ephemeral) in rows {
        for (ephemeral_data, expected) in [(false, if_persistent), (true, if_ephemeral)] {
            let mut facts = brokers(Some(std::slice::from_ref(&partition)));
            change(&mut facts);
            facts.nodes[1].ephemeral_data = ephemeral_data;
            let (chosen, _, decision) = wait_for_restart(facts.clone(), 300_000);
            let expected = if expected { vec![1] } else { vec![] };
            assert_eq!(chosen, expected, "{name}, {ephemeral_data}");
            // What was recorded and not done is judged by the same rules.
            facts.memory = decision.memory;
            let again = restarted(&decide(&facts, &Settings::default(), NOW + 900_000));
            assert_eq!(again, expected, "{name}, {ephemeral_data}, again");
        }
    }
}

#[test]
fn a_restart_that_is_recorded_is_not_done_once_the_node_has_the_last_copy() {
    let mut facts = brokers(Some(&[partition(&[1, 2], &[1, 2])]));
    facts.nodes[1].reasons.insert(Reason::ManualRollingUpdate);
    facts.nodes[1].ephemeral_data = true;
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), [1]);
    facts.memory = decision.memory;
    facts.partitions = Some(vec![partition(&[1, 2], &[1])]);
    let decision = decide(&facts, &Settings::default(), NOW + 1);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    assert_eq!(decision.memory.nodes.get(&id(1)).map(|memory| memory.phase), None);
}

/// The other replica of a partition that goes offline in any case has the data while the first is restarted.
#[test]
fn brokers_that_delete_their_data_share_no_batch_because_partitions_go_offline_in_any_case() {
    let batch = |ephemeral_data: bool| {
        let mut facts = brokers_only();
        facts.nodes.truncate(2);
        facts.partitions = Some(vec![partition(&[0, 1], &[0, 1])]);
        facts.nodes.iter_mut().for_each(|node| node.ephemeral_data = ephemeral_data);
        let settings = Settings { parallel_max: 5, join_offline: true, ..Settings::default() };
        restarted(&decide(&facts, &settings, NOW))
    };
    assert_eq!((batch(false), batch(true)), (vec![0, 1], vec![0]));
}

#[test]
fn a_last_copy_is_reported_and_does_not_hold_the_others_back_for_ever() {
    let mut facts = brokers(Some(&[partition(&[1], &[1])]));
    in_trouble(&mut facts, 1, STUCK);
    facts.nodes[1].ephemeral_data = true;
    // The new pod of a broker that we restarted.
    facts.memory.nodes.get_mut(&id(1)).unwrap().ours = true;
    facts.nodes[0].reasons.insert(Reason::ManualRollingUpdate);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    assert!(hold(&decision, 1).starts_with("partition t-0 is in sync on no other node"));
    let (chosen, after_ms, decision) = wait_for_restart(facts, 3_600_000);
    assert_eq!((chosen.as_slice(), decision.standing), ([0].as_slice(), Standing::Failed));
    assert!(after_ms >= Settings::default().heal_timeout_ms, "{after_ms}");
}

/// Those whose volumes outlive them go together: none of them may start before the others.
#[test]
fn pods_that_cannot_start_go_one_by_one_if_something_is_lost_with_them() {
    let stuck = |partitions: Option<&[PartitionFacts]>, ephemeral_data: bool| {
        let mut facts = brokers(partitions);
        for node in [1, 2] {
            in_trouble(&mut facts, node, STUCK);
        }
        facts.nodes.iter_mut().for_each(|node| node.ephemeral_data = ephemeral_data);
        restarted(&decide(&facts, &Settings::default(), NOW))
    };
    let known = partition(&[0, 1, 2], &[0]);
    assert_eq!(stuck(Some(std::slice::from_ref(&known)), false), [1, 2]);
    assert_eq!(stuck(Some(&[known]), true), [1]);
    assert_eq!(stuck(None, false), [1, 2]);
    assert_eq!(stuck(None, true), Vec::<i32>::new());
    // Not while another is on its way, or cannot be seen.
    let mut facts = brokers(Some(&[partition(&[0, 1, 2], &[0])]));
    in_trouble(&mut facts, 1, STUCK);
    facts.nodes[1].ephemeral_data = true;
    let mut unseen = facts.clone();
    unseen.nodes[2].pod = Pod::Unknown;
    let mut healing = facts.clone();
    let memory =
        NodeMemory { phase: Phase::Healing, ours: true, since_ms: NOW, ..NodeMemory::default() };
    healing.memory.nodes.insert(id(2), memory);
    for (facts, expected) in [(facts, vec![1]), (unseen, vec![]), (healing, vec![])] {
        assert_eq!(restarted(&decide(&facts, &Settings::default(), NOW)), expected);
    }
}

/// Controllers 10 to 12, of which nothing is asked for; these are in trouble, and these have not fetched for long.
fn voters(trouble: &[(i32, Option<Recovery>)], behind: &[i32]) -> Facts {
    let mut facts = ephemeral(&[10, 11, 12]);
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    for (node, recovery) in trouble {
        in_trouble(&mut facts, *node, *recovery);
    }
    let quorum = facts.quorum.as_mut().unwrap();
    for (voter, at_ms) in &mut quorum.voters {
        if behind.contains(&voter.get()) {
            *at_ms = Some(1);
            quorum.fetched_ms.insert(*voter, 1);
        }
    }
    facts
}

fn unknown(mut facts: Facts) -> Facts {
    (facts.quorum, facts.quorum_settled) = (None, None);
    facts
}

#[test]
#[rustfmt::skip]
fn a_voter_that_is_not_ready_keeps_its_pod_while_its_vote_may_be_needed() {
    let all = [(10, STUCK), (11, STUCK), (12, STUCK)];
    let mut unsettled = voters(&[(12, STUCK)], &[12]);
    unsettled.quorum_settled = Some(false);
    // Who is restarted if the disks outlive the pods, if they do not, and if a user accepts the loss.
    type Row<'a> = (&'a str, Facts, &'a [i32], &'a [i32], &'a [i32]);
    let rows: [Row<'_>; 7] = [
        ("one cannot start",                    voters(&[(12, STUCK)], &[12]), &[12], &[12], &[12]),
        ("and the voters wait for it",          unsettled, &[12], &[12], &[12]),
        ("two cannot start",                    voters(&all[1..], &[11, 12]), &[11, 12], &[], &[11, 12]),
        ("none can start",                      unknown(voters(&all, &[])), &[10, 11, 12], &[], &[10, 11, 12]),
        ("one hangs",                           voters(&[(12, HANGS)], &[12]), &[12], &[12], &[12]),
        ("one hangs, and another is behind",    voters(&[(12, HANGS)], &[11, 12]), &[12], &[], &[12]),
        ("one hangs, and there is no leader",   unknown(voters(&[(12, HANGS)], &[])), &[12], &[], &[12]),
    ];
    for (name, facts, if_persistent, if_ephemeral, if_accepted) in rows {
        let check = |facts: &Facts, accept_metadata_loss: bool, expected: &[i32]| {
            let settings = Settings { accept_metadata_loss, ..Settings::default() };
            let decision = decide(facts, &settings, NOW);
            assert_eq!(restarted(&decision), expected, "{name}: {:?}", decision.why);
            let again = Facts { memory: decision.memory, ..facts.clone() };
            assert_eq!(restarted(&decide(&again, &settings, NOW + 1)), expected, "{name}, again");
        };
        let mut persistent = facts.clone();
        persistent.nodes.iter_mut().for_each(|node| node.ephemeral = false);
        check(&persistent, false, if_persistent);
        check(&facts, false, if_ephemeral);
        check(&facts, true, if_accepted);
    }
}

#[test]
fn a_user_can_accept_that_voters_are_lost_that_cannot_start() {
    let facts = unknown(voters(&[(10, STUCK), (11, STUCK), (12, STUCK)], &[]));
    let decision = decide(&facts, &Settings::default(), NOW);
    for node in [10, 11, 12] {
        let message = hold(&decision, node);
        assert!(message.contains("gregor.io/accept-metadata-loss"), "{message}");
    }
}

/// The only node, with metadata and data on volumes that are deleted with its pod; nobody tells anything.
fn only_node() -> Facts {
    let mut facts = unknown(ephemeral(&[10]));
    facts.nodes[0].roles = Roles::Combined;
    facts.nodes[0].ephemeral_data = true;
    facts.partitions = None;
    facts
}

/// Without the metadata the data belongs to no topic.
#[test]
fn a_user_who_accepts_that_the_metadata_is_lost_accepts_that_for_the_data_of_the_same_node() {
    let mut stuck = only_node();
    in_trouble(&mut stuck, 10, STUCK);
    let mut refuses = only_node();
    refuses.nodes[0].contact = Contact::RefusesCertificate;
    let memory = NodeMemory { attempts: 9, ..NodeMemory::default() };
    refuses.memory.nodes.insert(id(10), memory);
    let mut starts = only_node();
    in_trouble(&mut starts, 10, STARTS);
    let other_votes = |mut facts: Facts| {
        facts.voters = [id(11)].into();
        facts
    };
    let (stuck_broker, voters_left) = (other_votes(stuck.clone()), {
        let mut facts = stuck.clone();
        facts.voters = [10, 11, 12].map(id).into();
        facts
    });
    let rows = [
        ("it cannot start", &stuck, true, vec![10]),
        ("it cannot start, and nothing is accepted", &stuck, false, vec![]),
        ("it refuses certificates", &refuses, true, vec![10]),
        ("it refuses certificates, and nothing is accepted", &refuses, false, vec![]),
        ("it starts", &starts, true, vec![]),
        ("it does not vote", &stuck_broker, true, vec![]),
        ("others have the metadata", &voters_left, true, vec![]),
    ];
    for (name, facts, accept_metadata_loss, expected) in rows {
        let settings = Settings { accept_metadata_loss, ..Settings::default() };
        let decision = decide(facts, &settings, NOW);
        assert_eq!(restarted(&decision), expected, "{name}: {:?}", decision.why);
        let again = Facts { memory: decision.memory.clone(), ..facts.clone() };
        let again = restarted(&decide(&again, &settings, NOW + 1));
        assert_eq!(again, expected, "{name}, again");
    }
    let accepted = Settings { accept_metadata_loss: true, ..Settings::default() };
    let message = hold(&decide(&stuck_broker, &accepted, NOW), 10);
    assert!(message.ends_with("delete the pod to accept that its data is lost"), "{message}");
}

#[test]
fn a_node_that_refuses_certificates_is_not_forced_to_lose_what_it_has() {
    let refused = |ephemeral_data: bool| {
        let mut facts = brokers(None);
        for node in &mut facts.nodes {
            node.contact = Contact::RefusesCertificate;
            node.reasons.insert(Reason::KafkaCertificatesChanged);
            node.ephemeral_data = ephemeral_data;
        }
        wait_for_restart(facts, 900_000).0
    };
    assert_eq!(refused(false), [0]);
    assert_eq!(refused(true), Vec::<i32>::new());
}
