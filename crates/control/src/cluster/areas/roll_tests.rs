//! What the area makes of a snapshot. The rules of restarts have their own tests in [`crate::rolling`].

use super::*;
use crate::cluster::areas::samples::{NOW, asked, brief, directory, id, settled};
use crate::cluster::fact::{Fact, Why};
use crate::cluster::snapshot::{BrokerView, SettingsView};
use crate::rolling::availability::PartitionFacts;
use crate::rolling::config::{Change, Described, Source};
use model::TopicName;

type Edit = fn(&mut Snapshot, &mut Record);

fn pod(snapshot: &mut Snapshot, node: i32) -> &mut PodView {
    let name = snapshot.nodes[&id(node)].pod.clone();
    snapshot.pods.get_mut(&name).unwrap()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// One partition on all brokers, which broker 4 leads though 3 is preferred.
fn partitions(isr: &[i32]) -> Fact<Partitions> {
    let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
    let facts = PartitionFacts {
        partition: partition.clone(),
        replicas: (3..6).map(id).collect(),
        isr: isr.iter().map(|node| id(*node)).collect(),
        adding: vec![],
        removing: vec![],
        min_isr: Some(2),
    };
    let leaders = vec![(partition, Some(id(3)), Some(id(4)))];
    Fact::read(Partitions { facts: vec![facts], leaders, brokers: [id(5)].into() }, NOW)
}

/// A settled cluster whose quorum is settled and whose partitions are in sync.
fn decided(change: Edit) -> (String, String, Draft) {
    let (mut snapshot, mut record) = settled();
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    change(&mut snapshot, &mut record);
    brief(decide_settled, &snapshot, &record)
}

/// Decides while the quorum is settled.
fn decide_settled(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    draft.outputs.quorum_settled = Some(true);
    decide(snapshot, draft)
}

#[test]
#[rustfmt::skip]
fn every_difference_restarts_a_node_for_its_reason() {
    // What differs from a settled cluster, the acts.
    let rows: [(&str, Edit, &str); 12] = [
        ("nothing",                    |_, _| {}, ""),
        ("an annotation on the pod",   |s, _| pod(s, 3).restart = true, "restart pod c-broker-3: a restart was asked for"),
        ("an annotation on the set",   |s, _| { s.desired.restart_pools.insert("controller".to_owned()); }, "restart pod c-controller-1: a restart was asked for"),
        ("another pod",                |s, _| pod(s, 3).revision.pod = text("old"), "restart pod c-broker-3: its pod has an old revision"),
        ("a pod without a revision",   |s, _| pod(s, 3).revision.pod = None, "restart pod c-broker-3: its pod has an old revision"),
        ("other settings, which a node that runs is asked for", |s, _| pod(s, 3).revision.settings = text("old"), ""),
        ("another cluster CA",         |s, _| pod(s, 3).revision.cluster_ca = text("1"), "restart pod c-broker-3: it trusts an older generation of a CA"),
        ("another clients CA",         |s, _| pod(s, 3).revision.clients_ca = text("1"), "restart pod c-broker-3: it trusts an older generation of a CA"),
        ("another key of the CA",      |s, _| pod(s, 3).revision.cluster_ca_key = text("1"), "restart pod c-broker-3: the cluster CA has a new key"),
        ("another certificate",        |s, _| pod(s, 3).revision.certificate = text("old"), "restart pod c-broker-3: its certificate has changed"),
        ("a volume that has grown",    |s, _| s.claims.get_mut("data-c-broker-3").unwrap().resize_pending = true, "restart pod c-broker-3: a volume has grown"),
        ("no revision is desired",     |s, _| { pod(s, 3).revision.pod = text("old"); s.nodes.get_mut(&id(3)).unwrap().revision = None; }, ""),
    ];
    for (name, change, expected) in rows {
        let (acts, flow, draft) = decided(change);
        assert_eq!(acts, expected, "{name}");
        assert_eq!(flow, if acts.is_empty() { "go" } else { "wait Rolling" }, "{name}");
        assert_eq!(draft.record.roll_account.is_some(), !acts.is_empty(), "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn nothing_is_restarted_on_facts_that_are_unknown_or_forbid_it() {
    fn observer(snapshot: &mut Snapshot, node: i32) -> &mut crate::quorum::Replica {
        let Fact::Read { value, .. } = &mut snapshot.kafka.quorum else { panic!("not described") };
        value.observers.iter_mut().find(|one| one.id == id(node)).unwrap()
    }
    fn said_by(snapshot: &mut Snapshot, node: Option<i32>) {
        let Fact::Read { value, .. } = &mut snapshot.kafka.partitions else { panic!("not read") };
        value.brokers = node.map(id).into_iter().collect();
    }
    let rows: [(&str, Edit, &str); 13] = [
        ("the broker that answers is cut off", |s, _| observer(s, 5).last_caught_up_ms = Some(NOW - 3_000), "wait Rolling"),
        ("the leader has not heard of it",  |s, _| observer(s, 5).last_caught_up_ms = None, "wait Rolling"),
        ("it is no node of the cluster",    |s, _| said_by(s, Some(9)), "wait Rolling"),
        ("a controller answers",            |s, _| said_by(s, Some(0)), "wait Rolling"),
        ("nobody knows who answers",        |s, _| said_by(s, None), "wait Rolling"),
        ("the quorum is not described",     |s, _| s.kafka.quorum = Fact::Unknown(Why::NoAnswer), "wait Rolling"),
        ("it would leave one replica in sync", |s, _| s.kafka.partitions = partitions(&[3, 4]), "wait Rolling"),
        ("the partitions are unknown",      |s, _| s.kafka.partitions = Fact::Unknown(Why::NoAnswer), "wait Rolling"),
        ("another broker is not ready",     |s, _| pod(s, 4).ready = false, "wait Rolling"),
        ("another broker has no pod",       |s, _| { s.pods.remove("c-broker-4"); }, "wait Rolling"),
        ("another broker cannot start",     |s, _| { pod(s, 4).ready = false; pod(s, 4).waiting = text("CrashLoopBackOff"); }, "fault RollStopped"),
        ("another broker finds no machine", |s, _| { pod(s, 4).ready = false; pod(s, 4).unschedulable = true; }, "fault RollStopped"),
        ("another broker is being deleted", |s, _| { pod(s, 4).ready = false; pod(s, 4).deleting = true; }, "wait Rolling"),
    ];
    for (name, change, expected) in rows {
        let (mut snapshot, mut record) = settled();
        snapshot.kafka.partitions = partitions(&[3, 4, 5]);
        pod(&mut snapshot, 3).restart = true;
        change(&mut snapshot, &mut record);
        // What is wrong with a pod is seen in one pass, and judged in the next.
        for last in [false, false, true] {
            let (acts, flow, draft) = brief(decide, &snapshot, &record);
            assert_eq!(acts, "", "{name}");
            assert!(!last || flow == expected, "{name}: {flow}");
            record = draft.record;
        }
    }
}

#[test]
fn a_roll_that_gave_up_a_node_is_a_fault_until_the_node_can_be_restarted() {
    use crate::rolling::memory::NodeMemory;
    let (mut snapshot, mut record) = settled();
    pod(&mut snapshot, 3).restart = true;
    snapshot.kafka.partitions = partitions(&[3, 4]);
    let memory =
        NodeMemory { attempts: 10, held_ms: Some(0), given_up: true, ..NodeMemory::default() };
    record.roll.nodes.insert(id(3), memory);
    let (acts, flow, draft) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("", "fault RollFailed"));
    assert_eq!(draft.record.roll_account.unwrap().given_up, [id(3)]);
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    let (acts, flow, _) = brief(decide, &snapshot, &record);
    let restart = "restart pod c-broker-3: a restart was asked for";
    assert_eq!((acts.as_str(), flow.as_str()), (restart, "wait Rolling"));
}

#[test]
fn a_controller_is_restarted_only_if_the_quorum_is_settled_and_known() {
    let (mut snapshot, record) = settled();
    pod(&mut snapshot, 1).restart = true;
    let restart = |snapshot: &Snapshot, is_settled: Option<bool>| {
        let decide = |snapshot: &Snapshot, draft: &mut Draft| {
            draft.outputs.quorum_settled = is_settled;
            super::decide(snapshot, draft)
        };
        brief(decide, snapshot, &record).0
    };
    let expected = "restart pod c-controller-1: a restart was asked for";
    assert_eq!(restart(&snapshot, Some(true)), expected);
    assert_eq!(restart(&snapshot, Some(false)), "");
    assert_eq!(restart(&snapshot, None), "");
    snapshot.kafka.quorum = Fact::Unknown(Why::NoAnswer);
    assert_eq!(restart(&snapshot, Some(true)), "");
}

#[test]
#[rustfmt::skip]
fn the_only_controller_with_an_ephemeral_disk_is_restarted_only_if_the_user_accepts_the_loss() {
    fn alone(snapshot: &mut Snapshot) {
        snapshot.nodes.retain(|node, _| !(1..3).map(id).any(|other| *node == other));
        if let Fact::Read { value, .. } = &mut snapshot.kafka.quorum {
            value.voters.truncate(1);
        }
        snapshot.desired.ephemeral_pools.insert("controller".to_owned());
    }
    fn stuck(snapshot: &mut Snapshot) {
        alone(snapshot);
        snapshot.kafka.quorum = Fact::default();
        let pod = pod(snapshot, 0);
        (pod.ready, pod.waiting, pod.revision.pod) = (false, text("CrashLoopBackOff"), text("old"));
    }
    // What differs from a settled cluster with a request to restart controller 0, whether it is restarted.
    let rows: [(&str, Edit, bool); 9] = [
        ("one of three",                  |s, _| { s.desired.ephemeral_pools.insert("controller".to_owned()); }, true),
        ("the only one",                  |s, _| alone(s), false),
        ("the loss is accepted",          |s, _| { alone(s); s.desired.accept_metadata_loss = true; }, true),
        ("its disk outlives its pod",     |s, _| { alone(s); s.desired.ephemeral_pools.clear(); }, true),
        ("another pool is ephemeral",     |s, _| { alone(s); s.desired.ephemeral_pools = ["broker".to_owned()].into(); }, true),
        ("it cannot run, and nobody tells who votes", |s, _| stuck(s), false),
        ("it is the recorded voter",      |s, r| { stuck(s); r.voters = [(id(0), directory(0))].into(); r.was_ready = false; }, false),
        ("there are other recorded voters, and the quorum is unknown", |s, r| { stuck(s); r.voters = (0..3).map(|node| (id(node), directory(node))).collect(); }, false),
        ("the cluster never was ready",   |s, r| { stuck(s); r.was_ready = false; }, true),
    ];
    for (name, change, restarts) in rows {
        let (mut snapshot, mut record) = settled();
        pod(&mut snapshot, 0).restart = true;
        change(&mut snapshot, &mut record);
        // That a pod cannot run is seen in one pass, and judged in the next.
        let (first, _, draft) = brief(decide_settled, &snapshot, &record);
        let (second, _, _) = brief(decide_settled, &snapshot, &draft.record);
        let restarted = [first, second].iter().any(|acts| acts.starts_with("restart pod c-controller-0"));
        assert_eq!(restarted, restarts, "{name}");
    }
}

#[test]
fn a_node_that_knows_no_controller_that_stays_is_restarted() {
    let (mut snapshot, record) = settled();
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    let decide = |snapshot: &Snapshot, draft: &mut Draft| {
        draft.outputs.outdated_bootstrap = [id(3)].into();
        super::decide(snapshot, draft)
    };
    let (acts, ..) = brief(decide, &snapshot, &record);
    let expected = "settings need a restart: controller.quorum.bootstrap.servers";
    assert_eq!(acts, format!("restart pod c-broker-3: {expected}"));
}

/// Broker 3 runs with `log.retention.ms=1` and should run with 2.
fn with_old_settings(read_only: bool) -> (Snapshot, Record) {
    let (mut snapshot, mut record) = settled();
    record.confirmed_settings.remove(&id(3));
    let described = Described {
        value: text("1"),
        source: Source::File,
        read_only,
        sensitive: false,
        synonyms: vec![(Source::File, text("1"))],
    };
    let view = SettingsView {
        desired: [("log.retention.ms".to_owned(), "2".to_owned())].into(),
        running: [("log.retention.ms".to_owned(), described)].into(),
    };
    snapshot.kafka.settings.insert(id(3), Fact::read(view, NOW));
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    (snapshot, record)
}

#[test]
fn settings_are_changed_without_a_restart_where_kafka_can() {
    let (snapshot, record) = with_old_settings(false);
    let (acts, flow, draft) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("change log.retention.ms of all brokers", "go"));
    let changes = vec![Change::Set("log.retention.ms".to_owned(), "2".to_owned())];
    assert_eq!(draft.acts[0].what, What::AlterCluster { changes });
    assert!(!draft.record.confirmed_settings.contains_key(&id(3)));
    let (snapshot, record) = with_old_settings(true);
    let (acts, ..) = brief(decide, &snapshot, &record);
    assert_eq!(acts, "restart pod c-broker-3: settings need a restart: log.retention.ms");
}

#[test]
fn a_setting_of_one_node_is_removed_where_that_of_all_is_right() {
    let (mut snapshot, record) = with_old_settings(false);
    if let Some(Fact::Read { value, .. }) = snapshot.kafka.settings.get_mut(&id(3)) {
        let described = value.running.get_mut("log.retention.ms").unwrap();
        described.source = Source::DynamicNode;
        described.synonyms = vec![(Source::DynamicNode, text("1")), (Source::File, text("2"))];
    }
    let (acts, flow, draft) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("change log.retention.ms of node 3", "go"));
    let changes = vec![Change::Delete("log.retention.ms".to_owned())];
    assert_eq!(draft.acts[0].what, What::AlterNode { id: id(3), changes });
}

#[test]
fn settings_that_a_restart_did_not_change_are_reported_and_not_tried_again() {
    use crate::rolling::memory::NodeMemory;
    let (snapshot, mut record) = with_old_settings(true);
    let (acts, _, draft) = brief(decide, &snapshot, &record);
    assert_eq!(acts, "restart pod c-broker-3: settings need a restart: log.retention.ms");
    // It was restarted for them, and runs well.
    let tried = draft.record.roll.nodes[&id(3)].config_tried;
    let memory = NodeMemory { config_tried: tried, ..NodeMemory::default() };
    record.roll.nodes.insert(id(3), memory);
    let (acts, _, draft) = brief(decide, &snapshot, &record);
    let told: Vec<_> = draft.warnings.iter().map(|note| note.reason).collect();
    assert_eq!((acts.as_str(), told), ("", vec![Reason::SettingsNotTaken]));
}

#[test]
fn settings_that_were_seen_are_confirmed_and_not_asked_for_again() {
    let (mut snapshot, record) = with_old_settings(false);
    if let Some(Fact::Read { value, .. }) = snapshot.kafka.settings.get_mut(&id(3)) {
        value.desired.insert("log.retention.ms".to_owned(), "1".to_owned());
    }
    let (acts, flow, draft) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("", "go"));
    assert_eq!(draft.record.confirmed_settings.get(&id(3)).map(String::as_str), Some("s"));
    snapshot.kafka.settings.clear();
    assert!(needs(&snapshot, &draft).is_empty());
    // Settings that are unknown are not confirmed.
    snapshot.kafka.settings.insert(id(3), Fact::Unknown(Why::NoAnswer));
    let (acts, flow, draft) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("", "go"));
    assert!(!draft.record.confirmed_settings.contains_key(&id(3)));
}

#[test]
fn a_request_to_restart_a_pool_is_removed_when_all_its_pods_are_new() {
    let (mut snapshot, mut record) = settled();
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    snapshot.desired.restart_pools.insert("broker".to_owned());
    let before = (3..6).map(|node| (id(node), format!("earlier-{node}")));
    record.roll.asked.insert("broker".to_owned(), before.collect());
    let (acts, flow, _) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("remove the request to restart pool broker", "go"));
}

#[test]
fn a_broker_that_was_restarted_leads_again_what_it_is_preferred_for() {
    use crate::rolling::memory::NodeMemory;
    use crate::rolling::node::Phase;
    let (mut snapshot, mut record) = settled();
    let memory = NodeMemory {
        phase: Phase::Electing,
        since_ms: NOW,
        uid: text("pod-3"),
        ours: true,
        ..NodeMemory::default()
    };
    record.roll.nodes.insert(id(3), memory);
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    let (acts, flow, draft) = brief(decide, &snapshot, &record);
    assert_eq!(acts, "elect the preferred leaders of 1 partitions");
    assert_eq!((flow.as_str(), draft.look_again_ms.is_some()), ("wait Rolling", true));
    // Without the partitions, what it should lead is unknown.
    snapshot.kafka.partitions = Fact::Unknown(Why::NoAnswer);
    assert_eq!(brief(decide, &snapshot, &record).0, "");
    // Once it leads, the roll has ended.
    snapshot.kafka.partitions = partitions(&[3, 4, 5]);
    if let Fact::Read { value, .. } = &mut snapshot.kafka.partitions {
        value.leaders[0].2 = Some(id(3));
    }
    let (acts, flow, _) = brief(decide, &snapshot, &record);
    assert_eq!((acts.as_str(), flow.as_str()), ("", "go"));
}

#[test]
fn annotations_that_make_no_sense_are_reported() {
    for (value, warns) in [("2", false), (" 3 ", false), ("0", true), ("-1", true), ("", true)] {
        let (mut snapshot, record) = settled();
        snapshot.desired.max_parallel = text(value);
        snapshot.desired.pool_max_parallel.insert("broker".to_owned(), value.to_owned());
        let (_, flow, draft) = brief(decide, &snapshot, &record);
        assert_eq!((flow.as_str(), draft.warnings.len()), ("go", if warns { 2 } else { 0 }));
        assert!(draft.warnings.iter().all(|note| note.reason == Reason::InvalidAnnotation));
    }
    let (mut snapshot, _) = settled();
    snapshot.desired.max_parallel = text("4");
    snapshot.desired.pool_max_parallel.insert("broker".to_owned(), "2".to_owned());
    snapshot.desired.join_offline = true;
    let (settings, _) = settings(&snapshot);
    assert_eq!((settings.parallel_max, settings.join_offline), (4, true));
    assert_eq!(settings.pool_parallel_max, [("broker".to_owned(), 2)].into());
}

#[test]
fn a_node_is_late_after_the_time_that_the_operator_was_set_up_with() {
    // The time that was set, how long the pod of broker 4 has not been ready, whether it is restarted for that.
    let rows = [
        (None, 299_999, false),
        (None, 300_000, true),
        (Some(60_000), 59_999, false),
        (Some(60_000), 60_000, true),
        (Some(600_000), 300_000, false),
    ];
    for (timeout_ms, after_ms, restarts) in rows {
        let (mut snapshot, record) = settled();
        snapshot.kafka.partitions = partitions(&[3, 4, 5]);
        snapshot.kafka.recoveries.insert(id(4), Fact::read(Recovery::No, NOW));
        snapshot.desired.operation_timeout_ms = timeout_ms;
        pod(&mut snapshot, 4).ready = false;
        let (_, _, seen) = brief(decide, &snapshot, &record);
        snapshot.now_ms += after_ms;
        let (acts, ..) = brief(decide, &snapshot, &seen.record);
        let restart = "restart pod c-broker-4: it has not become ready in time";
        assert_eq!(acts, if restarts { restart } else { "" }, "{timeout_ms:?} {after_ms}");
    }
}

#[test]
fn a_healthy_cluster_is_asked_nothing_and_others_only_what_is_missing() {
    let (snapshot, record) = settled();
    assert!(asked(needs, &snapshot, &record).is_empty());
    let needed = |change: fn(&mut Snapshot, &mut Record)| {
        let (mut snapshot, mut record) = settled();
        change(&mut snapshot, &mut record);
        asked(needs, &snapshot, &record)
    };
    let of = |node: i32| BTreeSet::from([id(node)]);
    // A broker that is fenced, and a controller that is no voter, are asked themselves.
    let fenced = needed(|s, _| {
        let Fact::Read { value, .. } = &mut s.kafka.brokers else { return };
        value.insert(id(3), BrokerView { fenced: true, rack: None });
    });
    assert_eq!(fenced, Needs { contacts: of(3), ..Needs::default() });
    let observer = needed(|s, _| {
        let Fact::Read { value, .. } = &mut s.kafka.quorum else { return };
        value.voters.retain(|voter| voter.id != id(2));
    });
    assert_eq!(observer, Needs { contacts: of(2), ..Needs::default() });
    // Where the brokers are unknown, only a node that is to be restarted is asked.
    let silent = needed(|s, _| s.kafka.brokers = Fact::Unknown(Why::NoAnswer));
    assert!(silent.is_empty(), "{silent:?}");
    let silent = needed(|s, _| {
        s.kafka.brokers = Fact::Unknown(Why::NoAnswer);
        pod(s, 4).restart = true;
    });
    assert_eq!(silent, Needs { contacts: of(4), ..Needs::default() });
    // A node that is not ready is asked what it does instead.
    let starting = needed(|s, _| {
        pod(s, 3).ready = false;
        pod(s, 0).ready = false;
    });
    let recoveries = [0, 3].map(id).into();
    assert_eq!(starting, Needs { recoveries, ..Needs::default() });
    let changed = needed(|_, r| {
        r.confirmed_settings.insert(id(5), "old".to_owned());
    });
    assert_eq!(changed, Needs { settings: of(5), ..Needs::default() });
    // Partitions are read where a broker is to be restarted, and not for a controller.
    let broker = needed(|s, _| pod(s, 3).restart = true);
    assert_eq!(broker, Needs { partitions: true, ..Needs::default() });
    assert!(needed(|s, _| pod(s, 0).restart = true).is_empty());
}

#[test]
fn no_client_connects_to_kafka_on_a_pod_that_cannot_start() {
    for state in ["CrashLoopBackOff", "ImagePullBackOff", "ContainerCreating", "unschedulable"] {
        for node in [0, 3] {
            let (mut snapshot, mut record) = settled();
            let pod = pod(&mut snapshot, node);
            (pod.ready, pod.restart, pod.revision.pod) = (false, true, text("old"));
            match state {
                "unschedulable" => pod.unschedulable = true,
                waiting => pod.waiting = text(waiting),
            }
            // Nothing else reports it well, and its settings have changed.
            snapshot.kafka.brokers = Fact::read(BTreeMap::new(), NOW);
            record.confirmed_settings.clear();
            let needs = asked(needs, &snapshot, &record);
            assert!(!needs.contacts.contains(&id(node)), "{state}: {needs:?}");
            assert!(!needs.settings.contains(&id(node)), "{state}: {needs:?}");
            assert!(needs.contacts.contains(&id(4)), "one that is ready is asked: {needs:?}");
            // It is replaced without an answer, as its pod is outdated.
            // That it cannot start is seen in one pass, and judged in the next.
            let (_, _, draft) = brief(decide_settled, &snapshot, &record);
            let (acts, _, _) = brief(decide_settled, &snapshot, &draft.record);
            assert!(acts.starts_with("restart pod c-"), "{state}: {acts}");
        }
    }
}

#[test]
fn what_a_node_says_of_itself_counts_while_it_is_not_ready() {
    let facts_of = |node: i32, is_ready: bool, said: Option<Recovery>| {
        let (mut snapshot, record) = settled();
        pod(&mut snapshot, node).ready = is_ready;
        if let Some(said) = said {
            snapshot.kafka.recoveries.insert(id(node), Fact::read(said, NOW));
        }
        let facts = facts(&snapshot, &Draft::new(record));
        facts.nodes.iter().find(|one| one.node == id(node)).unwrap().recovery
    };
    let rows = [
        (3, false, Some(Recovery::Hung), Recovery::Hung),
        (3, false, Some(Recovery::Starting), Recovery::Starting),
        (3, false, None, Recovery::Unknown),
        (3, true, Some(Recovery::Hung), Recovery::No),
        (0, false, Some(Recovery::Hung), Recovery::Hung),
        (0, false, Some(Recovery::No), Recovery::No),
        (0, false, None, Recovery::Unknown),
    ];
    for (node, is_ready, said, expected) in rows {
        assert_eq!(facts_of(node, is_ready, said), expected, "node {node}, {said:?}");
    }
}

fn facts_of(node: i32, change: impl Fn(&mut Snapshot, &mut Record)) -> NodeFacts {
    let (mut snapshot, mut record) = settled();
    change(&mut snapshot, &mut record);
    let facts = facts(&snapshot, &Draft::new(record));
    facts.nodes.into_iter().find(|one| one.node == id(node)).unwrap()
}

#[test]
#[rustfmt::skip]
fn data_goes_with_a_pod_that_may_have_some_on_a_volume_of_its_own() {
    fn ephemeral(snapshot: &mut Snapshot) {
        snapshot.desired.ephemeral_data_pools.insert("broker".to_owned());
    }
    let rows: [(&str, Edit, bool); 9] = [
        ("its volumes outlive it",             |_, _| {}, false),
        ("another pool is ephemeral",          |s, _| { s.desired.ephemeral_data_pools.insert("controller".to_owned()); }, false),
        ("its metadata is ephemeral",          |s, _| { s.desired.ephemeral_pools.insert("broker".to_owned()); }, false),
        ("it runs",                            |s, _| ephemeral(s), true),
        ("it ran, and crash-loops",            |s, _| { ephemeral(s); (pod(s, 3).waiting, pod(s, 3).exit_code) = (text("CrashLoopBackOff"), Some(1)); }, true),
        ("it ran, and its image is gone",      |s, _| { ephemeral(s); (pod(s, 3).waiting, pod(s, 3).exit_code) = (text("ErrImagePull"), Some(0)); }, true),
        ("its image never was there",          |s, _| { ephemeral(s); pod(s, 3).waiting = text("ErrImagePull"); }, false),
        ("it never found a machine",           |s, _| { ephemeral(s); pod(s, 3).unschedulable = true; }, false),
        ("the cluster never was ready",        |s, r| { ephemeral(s); r.was_ready = false; }, true),
    ];
    for (name, change, expected) in rows {
        assert_eq!(facts_of(3, change).ephemeral_data, expected, "{name}");
    }
}

#[test]
fn a_broker_counts_as_fenced_if_kafka_says_so_or_does_not_know_it() {
    let edit = |snapshot: &mut Snapshot, view: Option<BrokerView>| {
        let Fact::Read { value, .. } = &mut snapshot.kafka.brokers else { panic!("not read") };
        value.remove(&id(3));
        value.extend(view.map(|view| (id(3), view)));
    };
    let view = |fenced: bool| BrokerView { fenced, rack: None };
    assert_eq!(facts_of(3, |_, _| {}).fenced, Some(false));
    assert_eq!(facts_of(3, |s, _| edit(s, Some(view(true)))).fenced, Some(true));
    assert_eq!(facts_of(3, |s, _| edit(s, None)).fenced, Some(true));
    let unknown = facts_of(3, |s, _| s.kafka.brokers = Fact::Unknown(Why::NoAnswer));
    assert_eq!(unknown.fenced, None);
}

#[test]
fn whether_a_node_answers_is_known_only_if_it_was_asked_or_the_others_report_it_well() {
    let fence = |snapshot: &mut Snapshot| {
        let Fact::Read { value, .. } = &mut snapshot.kafka.brokers else { return };
        value.insert(id(3), BrokerView { fenced: true, rack: None });
    };
    let facts_of = |contact: Option<Contact>| {
        let (mut snapshot, record) = settled();
        fence(&mut snapshot);
        if let Some(contact) = contact {
            snapshot.kafka.contacts.insert(id(3), Fact::read(contact, NOW));
        }
        let facts = facts(&snapshot, &Draft::new(record));
        facts.nodes.iter().find(|node| node.node == id(3)).unwrap().contact
    };
    assert_eq!(facts_of(None), Contact::Unknown);
    assert_eq!(facts_of(Some(Contact::Fails)), Contact::Fails);
    assert_eq!(facts_of(Some(Contact::Answers)), Contact::Answers);
    // What the others say is enough where it is good.
    let (mut snapshot, record) = settled();
    snapshot.kafka.contacts.insert(id(3), Fact::read(Contact::Fails, NOW));
    let facts = facts(&snapshot, &Draft::new(record));
    assert!(facts.nodes.iter().all(|node| node.contact == Contact::Answers));
}

/// The rows with the acts and the reasons of the area.
pub(in crate::cluster) fn rows() {
    every_difference_restarts_a_node_for_its_reason();
    nothing_is_restarted_on_facts_that_are_unknown_or_forbid_it();
    a_roll_that_gave_up_a_node_is_a_fault_until_the_node_can_be_restarted();
    settings_are_changed_without_a_restart_where_kafka_can();
    a_request_to_restart_a_pool_is_removed_when_all_its_pods_are_new();
    a_broker_that_was_restarted_leads_again_what_it_is_preferred_for();
    annotations_that_make_no_sense_are_reported();
    a_setting_of_one_node_is_removed_where_that_of_all_is_right();
    settings_that_a_restart_did_not_change_are_reported_and_not_tried_again();
}
