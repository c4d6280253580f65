//! Single passes. Whole rolls are lived in `sim`.

use model::{TopicName, TopicPartition};

use super::super::config::Diff;
use super::super::facts::{Contact, Pod, PodFacts, Recovery};
use super::super::quorum::FETCH_TIMEOUT_DEFAULT_MS;
use super::*;
use crate::node::Roles;

#[path = "ephemeral_tests.rs"]
mod ephemeral;
#[path = "trouble_tests.rs"]
mod trouble;

const NOW: u64 = 1_000_000;

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn node(number: i32, roles: Roles) -> NodeFacts {
    NodeFacts {
        node: id(number),
        roles,
        pool: "pool".to_owned(),
        rack: None,
        ephemeral: false,
        ephemeral_data: false,
        pod: Pod::There(PodFacts::ready(&format!("uid-{number}"), 0)),
        reasons: [Reason::ManualRollingUpdate].into(),
        set_annotated: false,
        recovery: Recovery::No,
        fenced: Some(false),
        contact: Contact::Answers,
        config: None,
        leads_preferred: Some(true),
    }
}

/// Brokers 0 to 2 and controllers 10 to 12; all are to be restarted.
fn facts() -> Facts {
    let brokers = (0..3).map(|number| node(number, Roles::Broker));
    let controllers = (10..13).map(|number| node(number, Roles::Controller));
    Facts {
        nodes: brokers.chain(controllers).collect(),
        quorum: Some(quorum::Facts {
            leader: Some(id(10)),
            leader_caught_up_ms: Some(NOW),
            voters: (10..13).map(|number| (id(number), Some(NOW))).collect(),
            fetched_ms: (10..13).map(|number| (id(number), NOW)).collect(),
            fetch_timeout_ms: FETCH_TIMEOUT_DEFAULT_MS,
        }),
        quorum_settled: Some(true),
        voters: (10..13).map(id).collect(),
        partitions: Some(vec![partition(&[0, 1, 2], &[0, 1, 2])]),
        memory: Memory::default(),
    }
}

fn brokers_only() -> Facts {
    let mut facts = facts();
    facts.nodes.truncate(3);
    facts
}

fn partition(replicas: &[i32], isr: &[i32]) -> PartitionFacts {
    let ids = |numbers: &[i32]| numbers.iter().map(|number| id(*number)).collect();
    PartitionFacts {
        partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
        replicas: ids(replicas),
        isr: ids(isr),
        adding: vec![],
        removing: vec![],
        min_isr: Some(2),
    }
}

fn restarted(decision: &Decision) -> Vec<i32> {
    let node = |action: &Action| match action {
        Action::Restart { node, .. } => Some(node.get()),
        Action::UpdateNode { .. }
        | Action::UpdateCluster { .. }
        | Action::ElectPreferred { .. }
        | Action::ClearManual { .. } => None,
    };
    decision.actions.iter().filter_map(node).collect()
}

/// Passes at these facts until a restart is chosen or the time is over; what was chosen, and when.
fn wait_for_restart(mut facts: Facts, for_ms: u64) -> (Vec<i32>, u64, Decision) {
    let settings = Settings::default();
    let mut now_ms = NOW;
    loop {
        let decision = decide(&facts, &settings, now_ms);
        let chosen = restarted(&decision);
        if !chosen.is_empty() || now_ms > NOW + for_ms {
            return (chosen, now_ms - NOW, decision);
        }
        facts.memory = decision.memory.clone();
        now_ms += decision.wait_ms.unwrap_or(1_000);
    }
}

fn hold(decision: &Decision, node: i32) -> String {
    let why = decision.why.iter().find(|why| why.node == id(node));
    why.map(|why| why.hold.to_string()).unwrap_or_default()
}

#[test]
fn nothing_is_remembered_or_asked_for_where_nothing_is_to_be_done() {
    let mut facts = facts();
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    assert_eq!(needs(&facts, &Settings::default(), NOW), Needs::default());
    facts.partitions = None;
    facts.quorum = None;
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(decision.memory, Memory::default());
    assert_eq!(decision.actions, []);
    assert_eq!(decision.standing, Standing::Settled);
    assert_eq!((decision.why.len(), decision.wait_ms), (0, None));
}

#[test]
fn what_has_to_be_known_follows_from_who_is_to_be_restarted() {
    let rows = [(vec![], false, false), (vec![0], false, true), (vec![10], true, false)];
    for (with_reasons, quorum, partitions) in rows {
        let mut facts = facts();
        let others = facts.nodes.iter_mut().filter(|n| !with_reasons.contains(&n.node.get()));
        others.for_each(|node| node.reasons.clear());
        let expected = Needs { quorum, partitions };
        assert_eq!(needs(&facts, &Settings::default(), NOW), expected, "{with_reasons:?}");
    }
}

#[test]
fn a_restart_is_recorded_with_its_pod_before_it_is_done() {
    let decision = decide(&facts(), &Settings::default(), NOW);
    assert_eq!(restarted(&decision), [11]);
    let memory = &decision.memory.nodes[&id(11)];
    assert_eq!(memory.phase, Phase::Restarting);
    assert_eq!(memory.uid.as_deref(), Some("uid-11"));
    assert_eq!(memory.reasons, [Reason::ManualRollingUpdate]);
    assert_eq!(hold(&decision, 10), "waits while node 11 restarts");
    // The pod is still there: the same again.
    let again = Facts { memory: decision.memory.clone(), ..facts() };
    assert_eq!(restarted(&decide(&again, &Settings::default(), NOW + 1)), [11]);
    // It is being deleted: nothing more to do.
    let mut deleting = again;
    if let Pod::There(pod) = &mut deleting.nodes[4].pod {
        pod.deleting = true;
    }
    assert_eq!(decide(&deleting, &Settings::default(), NOW + 1).actions, []);
}

#[test]
fn what_is_not_known_restarts_nobody() {
    let settings = Settings::default();
    let blind = |change: fn(&mut Facts)| {
        let mut facts = facts();
        change(&mut facts);
        let decision = decide(&facts, &settings, NOW);
        assert_eq!(restarted(&decision), Vec::<i32>::new());
        assert_eq!(decision.standing, Standing::Waiting);
        decision
    };
    // Q8 the quorum cannot be described.
    let decision = blind(|facts| facts.quorum = None);
    assert_eq!(hold(&decision, 10), "no controller describes the quorum");
    let decision = blind(|facts| facts.quorum_settled = None);
    assert_eq!(hold(&decision, 11), "the voters are being changed first");
    let decision = blind(|facts| facts.nodes[0].pod = Pod::Unknown);
    assert!(hold(&decision, 10).contains("while the pods of node 0 cannot be read"));
    // A9 to A11 the partitions, or their settings, cannot be described.
    let decision = blind(|facts| {
        facts.nodes.truncate(3);
        facts.partitions = None;
    });
    assert_eq!(
        hold(&decision, 0),
        "no broker that keeps up with the controllers reports the in-sync replicas"
    );
}

#[test]
fn attempts_are_made_at_growing_distances() {
    let settings = Settings::default();
    let waits: Vec<u64> = (1..10).map(|attempts| settings.backoff_ms(attempts)).collect();
    assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000]);
    assert_eq!(waits.iter().sum::<u64>(), 127_750);
    assert_eq!(settings.backoff_ms(100), 64_000);
}

#[test]
fn a_node_that_was_given_up_is_tried_on_and_nothing_is_remembered_anew() {
    let settings = Settings::default();
    let mut facts = facts();
    (facts.quorum, facts.partitions) = (None, None);
    let (chosen, _, decision) = wait_for_restart(facts.clone(), 800_000);
    assert_eq!((chosen, decision.standing), (vec![], Standing::Failed));
    facts.memory = decision.memory;
    for later_ms in [1_000_000, 1_100_000, 9_000_000] {
        let again = decide(&facts, &settings, NOW + later_ms);
        assert_eq!((&again.memory, again.actions.len()), (&facts.memory, 0), "{later_ms}");
        assert_eq!(again.wait_ms, Some(5_000));
    }
}

#[test]
fn a_broker_that_does_not_answer_is_restarted_on_the_last_attempt() {
    let mut facts = brokers_only();
    facts.nodes.iter_mut().for_each(|node| node.reasons.clear());
    facts.nodes[1].contact = Contact::Fails;
    let (chosen, after_ms, decision) = wait_for_restart(facts, 300_000);
    assert_eq!(chosen, [1]);
    assert!((127_750..140_000).contains(&after_ms), "{after_ms}");
    assert_eq!(decision.memory.nodes[&id(1)].reasons, [Reason::PodUnresponsive]);
}

#[test]
fn a_node_that_refuses_certificates_is_forced_only_where_nobody_can_be_asked_and_it_helps() {
    let refused = |with_reasons: bool| {
        let mut facts = brokers_only();
        facts.partitions = None;
        for node in &mut facts.nodes {
            node.contact = Contact::RefusesCertificate;
            node.reasons =
                with_reasons.then_some(Reason::KafkaCertificatesChanged).into_iter().collect();
        }
        facts
    };
    let (chosen, after_ms, decision) = wait_for_restart(refused(true), 300_000);
    assert_eq!((chosen.as_slice(), after_ms >= 127_750), ([0].as_slice(), true));
    let memory = &decision.memory.nodes[&id(0)];
    assert!(memory.forced && memory.reasons.contains(&Reason::PodForceRestartOnError));
    let (chosen, _, decision) = wait_for_restart(refused(false), 900_000);
    assert_eq!(chosen, Vec::<i32>::new());
    assert_eq!(decision.standing, Standing::Failed);
    // Where it is known that it would not be safe, nothing is forced.
    let mut unsafe_now = refused(true);
    unsafe_now.partitions = Some(vec![partition(&[0, 1, 2], &[0])]);
    assert_eq!(wait_for_restart(unsafe_now, 900_000).0, Vec::<i32>::new());
}

#[test]
fn min_isr_is_waited_for_before_a_node_is_given_up() {
    let mut facts = brokers_only();
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[0, 1])]);
    facts.nodes.truncate(2);
    let settings = Settings::default();
    let (mut now_ms, mut given_up_ms) = (NOW, None);
    while given_up_ms.is_none() && now_ms < NOW + 2_000_000 {
        let decision = decide(&facts, &settings, now_ms);
        assert_eq!(restarted(&decision), Vec::<i32>::new());
        let expected = "partition t-0 has 2 replicas in sync, without it 1, and needs 2";
        assert_eq!(hold(&decision, 0), expected);
        given_up_ms = (decision.standing == Standing::Failed).then_some(now_ms - NOW);
        facts.memory = decision.memory;
        now_ms += 1_000;
    }
    assert_eq!(given_up_ms, Some(settings.heal_timeout_ms));
    // Once the replica is back, it is restarted at once.
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[0, 1, 2])]);
    let decision = decide(&facts, &settings, now_ms);
    assert_eq!(restarted(&decision), [0]);
    assert_eq!(decision.memory.nodes[&id(0)].attempts, 0);
}

/// Three passes: a pod that is not ready is seen, waited for in vain, and then known to be late.
fn after_waiting_in_vain(mut facts: Facts) -> Decision {
    let settings = Settings::default();
    facts.memory = decide(&facts, &settings, NOW).memory;
    let late_ms = NOW + settings.operation_timeout_ms;
    facts.memory = decide(&facts, &settings, late_ms).memory;
    decide(&facts, &settings, late_ms + 1_000)
}

#[test]
fn a_broker_that_is_not_ready_keeps_nobody_s_min_isr() {
    let mut facts = brokers_only();
    // Kafka has not noticed yet that broker 2 is gone.
    let unready = PodFacts { ready: false, ..PodFacts::ready("uid-2", 0) };
    facts.nodes[2].pod = Pod::There(unready);
    facts.nodes[2].recovery = Recovery::Unknown;
    facts.nodes[2].reasons.clear();
    // Broker 3 has no partition with it, and waits all the same: it may be back in a moment.
    facts.nodes.push(node(3, Roles::Broker));
    let seen = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&seen), Vec::<i32>::new());
    assert!(hold(&seen, 0).starts_with("partition t-0 has 2 replicas in sync"));
    assert_eq!(hold(&seen, 3), "waits for node 2 to become ready");
    facts.nodes.truncate(3);
    let decision = after_waiting_in_vain(facts);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    assert!(hold(&decision, 0).starts_with("partition t-0 has 2 replicas in sync"));
}

/// R34 as far as it was not us: the others go on, where no partition needs it.
#[test]
fn a_broker_that_we_restarted_and_that_recovers_its_logs_counts_as_one_that_is_down() {
    let settings = Settings::default();
    for (ours, expected) in [(true, vec![]), (false, vec![3])] {
        let mut facts = brokers_only();
        facts.nodes.push(node(3, Roles::Broker));
        let unready = PodFacts { ready: false, ..PodFacts::ready("uid-2", 0) };
        facts.nodes[2].pod = Pod::There(unready);
        facts.nodes[2].recovery = Recovery::Yes { logs: 7, segments: 9 };
        facts.nodes[2].reasons.clear();
        let memory = NodeMemory {
            phase: Phase::Recovering,
            uid: Some("uid-2".to_owned()),
            ours,
            ..NodeMemory::default()
        };
        facts.memory.nodes.insert(id(2), memory);
        let decision = decide(&facts, &settings, NOW);
        assert_eq!(restarted(&decision), expected, "ours: {ours}");
        assert_eq!(hold(&decision, 2), "recovers its logs: 7 logs and 9 segments remain");
        // Broker 3 has no partition with it.
        let third = if ours { "waits while node 2 restarts" } else { "its pod is being deleted" };
        assert_eq!(hold(&decision, 3), third);
    }
}

#[test]
fn a_pod_that_is_not_made_stops_the_roll() {
    let mut facts = brokers_only();
    facts.nodes[2].pod = Pod::Absent;
    let decision = after_waiting_in_vain(facts);
    assert_eq!((restarted(&decision), decision.standing), (vec![], Standing::Stopped));
    assert_eq!(decision.progress.stopping, [id(2)]);
}

#[test]
fn controllers_wait_for_one_that_is_behind_by_the_rule_of_the_quorum() {
    let mut facts = facts();
    facts.nodes[5].reasons.clear();
    facts.quorum.as_mut().unwrap().voters[2].1 = Some(NOW - FETCH_TIMEOUT_DEFAULT_MS);
    let rule = "without it 1 voters would be up to date and 2 must be; behind: node 12";
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), hold(&decision, 11)), (vec![], rule.to_owned()));
    // Also when its probes have failed meanwhile.
    let unready = PodFacts { ready: false, ..PodFacts::ready("uid-12", 0) };
    facts.nodes[5].pod = Pod::There(unready);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), hold(&decision, 11)), (vec![], rule.to_owned()));
    // One that is level but not ready is waited for all the same.
    facts.quorum.as_mut().unwrap().voters[2].1 = Some(NOW);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), Vec::<i32>::new());
    assert_eq!(hold(&decision, 11), "waits for node 12 to become ready");
}

/// A crash loop on bad settings: nobody else is touched, and correcting the settings is all there is to do.
#[test]
fn settings_that_were_corrected_replace_a_pod_that_does_not_come_up() {
    let mut facts = brokers_only();
    facts.nodes.iter_mut().for_each(|node| node.reasons = [Reason::PodHasOldSettings].into());
    // Those that run are asked what they run with.
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!((restarted(&decision), decision.standing), (vec![], Standing::Settled));
    let stuck = |waiting: Option<&str>| {
        let waiting = waiting.map(str::to_owned);
        Pod::There(PodFacts { ready: false, waiting, ..PodFacts::ready("uid-1", 0) })
    };
    facts.nodes[1].pod = stuck(Some("CrashLoopBackOff"));
    facts.memory = decide(&facts, &Settings::default(), NOW).memory;
    let decision = decide(&facts, &Settings::default(), NOW + 1_000);
    assert_eq!(restarted(&decision), [1]);
    let why = &decision.memory.nodes[&id(1)].reasons;
    assert_eq!(why, &[Reason::PodHasOldSettings, Reason::PodStuck]);
    // With the settings that it should have it would only crash again.
    let mut current = facts.clone();
    current.nodes[1].reasons.clear();
    let decision = decide(&current, &Settings::default(), NOW + 1_000);
    assert_eq!((restarted(&decision), decision.standing), (vec![], Standing::Stopped));
    // The same for one that runs and does not become ready.
    facts.memory = Memory::default();
    facts.nodes[1].pod = stuck(None);
    let memory = NodeMemory { phase: Phase::Late, ours: true, ..NodeMemory::default() };
    facts.memory.nodes.insert(id(1), NodeMemory { uid: Some("uid-1".to_owned()), ..memory });
    assert_eq!(restarted(&decide(&facts, &Settings::default(), NOW)), [1]);
    facts.nodes[1].recovery = Recovery::Unknown;
    assert_eq!(restarted(&decide(&facts, &Settings::default(), NOW)), Vec::<i32>::new());
}

#[test]
fn pools_with_a_number_of_their_own_share_no_batch() {
    let mut facts = brokers_only();
    facts.partitions = Some(vec![]);
    facts.nodes.extend((3..9).map(|number| node(number, Roles::Broker)));
    for node in facts.nodes.iter_mut().skip(5) {
        node.pool = "large".to_owned();
    }
    let mut settings = Settings { parallel_max: 3, ..Settings::default() };
    settings.pool_parallel_max.insert("large".to_owned(), 2);
    assert_eq!(restarted(&decide(&facts, &settings, NOW)), [0, 1, 2]);
    facts.nodes.iter_mut().take(5).for_each(|node| node.reasons.clear());
    assert_eq!(restarted(&decide(&facts, &settings, NOW)), [5, 6]);
}

#[test]
fn the_certificate_shows_the_tightest_partitions_and_what_goes_offline() {
    let mut facts = brokers_only();
    let mut alone = partition(&[0], &[0]);
    alone.partition = TopicPartition::new(TopicName::new("alone").unwrap(), 7);
    facts.partitions.as_mut().unwrap().push(alone.clone());
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), [0]);
    let certificate = &decision.progress.certificate;
    let left: Vec<_> = certificate.left.iter().map(|(_, left, min)| (*left, *min)).collect();
    assert_eq!((left, &certificate.offline), (vec![(2, 2)], &vec![alone.partition]));
}

#[test]
fn leaderships_are_given_back_once_the_broker_is_in_sync_and_not_for_ever() {
    let settings = Settings::default();
    let mut facts = brokers_only();
    facts.nodes.iter_mut().skip(1).for_each(|node| node.reasons.clear());
    facts.memory = decide(&facts, &settings, NOW).memory;
    facts.nodes[0].reasons.clear();
    facts.nodes[0].leads_preferred = Some(false);
    facts.nodes[0].pod = Pod::There(PodFacts::ready("next", NOW));
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[1, 2])]);
    let pass = |facts: &mut Facts, after_ms: u64| {
        let decision = decide(facts, &settings, NOW + after_ms);
        facts.memory = decision.memory.clone();
        (decision.memory.nodes.get(&id(0)).map(|memory| memory.phase), decision.actions)
    };
    assert_eq!(pass(&mut facts, 1), (Some(Phase::Awaited), vec![]));
    assert_eq!(pass(&mut facts, 2), (Some(Phase::Healing), vec![]));
    assert_eq!(pass(&mut facts, 3), (Some(Phase::Healing), vec![]));
    facts.partitions = Some(vec![partition(&[0, 1, 2], &[0, 1, 2])]);
    let elect = Action::ElectPreferred { brokers: vec![id(0)] };
    assert_eq!(pass(&mut facts, 4), (Some(Phase::Electing), vec![elect.clone()]));
    assert_eq!(pass(&mut facts, 5), (Some(Phase::Electing), vec![elect]));
    assert_eq!(pass(&mut facts, 4 + settings.elect_timeout_ms), (None, vec![]));
}

#[test]
fn the_wait_for_replicas_has_an_end() {
    let settings = Settings::default();
    let mut facts = brokers_only();
    facts.partitions = Some(vec![partition(&[0, 1], &[0, 1]), partition(&[2, 7, 8], &[2, 7, 8])]);
    facts.memory = decide(&facts, &settings, NOW).memory;
    facts.nodes[0].reasons.clear();
    facts.nodes[0].pod = Pod::There(PodFacts::ready("next", NOW));
    // Broker 0 never catches up; broker 2 shares nothing with it.
    facts.partitions = Some(vec![partition(&[0, 1], &[1]), partition(&[2, 7, 8], &[2, 7, 8])]);
    facts.nodes[1].reasons.clear();
    for after_ms in [1, 2, 3, settings.heal_timeout_ms - 1] {
        let decision = decide(&facts, &settings, NOW + after_ms);
        assert_eq!(restarted(&decision), Vec::<i32>::new(), "{after_ms}");
        facts.memory = decision.memory;
    }
    let decision = decide(&facts, &settings, NOW + 2 + settings.heal_timeout_ms);
    assert_eq!(restarted(&decision), [2]);
}

#[test]
fn a_change_of_settings_that_was_only_remembered_is_made() {
    let settings = Settings::default();
    let mut facts = brokers_only();
    for node in &mut facts.nodes {
        node.reasons.clear();
    }
    let change = Change::Delete("cordoned.log.dirs".to_owned());
    let diff = Diff { on_node: vec![change.clone()], ..Diff::default() };
    facts.nodes[0].config = Some(diff);
    let made = vec![Action::UpdateNode { node: facts.nodes[0].node, changes: vec![change] }];
    let mut now_ms = NOW;
    for attempt in 1..=settings.update_attempts_max {
        // Whoever remembered it may have died before it was made.
        for after_ms in [0, 1, settings.update_settle_ms - 1] {
            let decision = decide(&facts, &settings, now_ms + after_ms);
            assert_eq!(decision.actions, made, "attempt {attempt}, {after_ms} ms");
            facts.memory = decision.memory;
        }
        now_ms += settings.update_settle_ms;
    }
    // It does not help: the node is restarted for it.
    let decision = decide(&facts, &settings, now_ms);
    assert_eq!(restarted(&decision), [facts.nodes[0].node.get()]);
}

#[test]
fn what_is_remembered_is_short_and_reads_back() {
    let decision = decide(&facts(), &Settings::default(), NOW);
    let text = serde_json::to_string(&decision.memory).unwrap();
    let expected = concat!(
        r#"{"nodes":{"11":{"phase":"Restarting","sinceMs":1000000,"uid":"uid-11","ours":true,"#,
        r#""reasons":["ManualRollingUpdate"],"restartedMs":1000000}},"#,
        r#""roll":{"startedMs":1000000,"restarts":1,"batchStartedMs":1000000,"batchNodes":1}}"#
    );
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), decision.memory);
}

#[test]
fn every_hold_is_told_in_one_line() {
    let why = |hold: Hold, given_up: bool| {
        let reasons = vec![Reason::PodHasOldRevision];
        let (attempts, backoff_until_ms) = (10, None);
        Why { node: id(3), reasons, hold, attempts, backoff_until_ms, given_up }.to_string()
    };
    let nodes = (0..9).map(id).collect::<Vec<_>>();
    let behind = quorum::Hold::Majority { caught_up: 1, needed: 2, behind: vec![id(4)] };
    let holds = vec![
        Hold::UnderWay { phase: Phase::Healing },
        Hold::LogRecovery { logs: 10, segments: 100 },
        Hold::Quorum(behind),
        Hold::ActiveControllerLast { others: nodes.clone() },
        Hold::ControllersFirst { nodes },
        Hold::SettingsNotTaken { keys: vec!["a".into(), "b".into()] },
    ];
    let texts: Vec<String> = holds.into_iter().map(|hold| why(hold, false)).collect();
    let expected = "\
node 3 (its pod has an old revision): its replicas are catching up
node 3 (its pod has an old revision): recovers its logs: 10 logs and 100 segments remain
node 3 (its pod has an old revision): without it 1 voters would be up to date and 2 must be; behind: node 4
node 3 (its pod has an old revision): it is the active controller and comes after node 0, node 1, node 2, node 3, node 4 and 4 more
node 3 (its pod has an old revision): controllers come first; to be restarted: node 0, node 1, node 2, node 3, node 4 and 4 more
node 3 (its pod has an old revision): it was restarted for a, b and still runs with other values: correct them";
    assert_eq!(texts.join("\n"), expected);
    let given_up = why(Hold::QuorumUnknown, true);
    assert!(
        given_up.ends_with("describes the quorum; given up after 10 attempts, tried on"),
        "{given_up}"
    );
}

#[test]
fn while_voters_change_controllers_wait_and_hold_no_broker_back() {
    let mut facts = facts();
    facts.quorum_settled = Some(false);
    let decision = decide(&facts, &Settings::default(), NOW);
    assert_eq!(restarted(&decision), [0]);
    assert_eq!(hold(&decision, 11), "the voters are being changed first");
    // Where that is unknown, nobody is restarted before the controllers.
    facts.quorum_settled = None;
    assert_eq!(restarted(&decide(&facts, &Settings::default(), NOW)), Vec::<i32>::new());
}
