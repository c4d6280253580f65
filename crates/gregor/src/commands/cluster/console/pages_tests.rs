//! What pages show of observations that are made up here.

use std::collections::BTreeSet;

use api::names::Names;
use control::cluster::fact::Fact;
use control::cluster::snapshot::BrokerView;
use control::rolling::account::Wait as Held;
use control::rolling::availability::PartitionFacts;
use control::rolling::memory::{BatchMemory, RollMemory};
use control::rolling::reasons::Reason;
use model::{TopicName, TopicPartition};
use operator::cluster::foresee::Observed;
use serde_json::{Value, json};

use super::super::super::Found;
use super::*;

fn id(number: i32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn kafka(conditions: &Value) -> Kafka {
    let kafka = json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "Kafka",
        "metadata": { "name": "c", "namespace": "n" },
        "spec": { "kafka": { "listeners": [] } },
        "status": {
            "conditions": conditions,
            "kafkaVersion": "4.3.1",
            "listeners": [{ "name": "plain", "bootstrapServers": "h:9092" }],
        },
    });
    serde_json::from_value(kafka).unwrap()
}

fn pod(name: &str, ready: &str) -> Pod {
    let pod = json!({
        "metadata": { "name": name, "labels": {
            "strimzi.io/pool-name": "broker", "strimzi.io/broker-role": "true", "strimzi.io/controller-role": "false",
        } },
        "spec": { "nodeName": "m1", "containers": [] },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    serde_json::from_value(pod).unwrap()
}

fn partition(topic: &str, isr: &[i32], min_isr: usize) -> PartitionFacts {
    PartitionFacts {
        partition: TopicPartition::new(TopicName::new(topic).unwrap(), 0),
        replicas: [1, 2, 3].map(id).into(),
        isr: isr.iter().copied().map(id).collect(),
        adding: Vec::new(),
        removing: Vec::new(),
        min_isr: Some(min_isr),
    }
}

fn looked(pods: Vec<Pod>, observed: Observed) -> Looked {
    let found = Found {
        names: Names::new("n", "c"),
        kafka: kafka(&json!([{ "type": "Ready", "status": "True" }])),
        pools: Vec::new(),
        sets: Vec::new(),
        pods,
        rebalances: None,
    };
    Looked { found, seen: Seen::replay(observed), unknown: vec!["why".to_owned()], edits: None }
}

#[test]
fn the_worst_condition_is_the_state() {
    #[track_caller]
    fn check(kinds: &[&str], state: State, waits_for: Option<&str>) {
        let one =
            |kind: &&str| json!({ "type": kind, "status": "True", "message": format!("m {kind}") });
        let kafka = kafka(&kinds.iter().map(one).collect());
        let row = row(&kafka, None);
        assert_eq!((row.state, row.waits_for.as_deref()), (state, waits_for), "{kinds:?}");
        assert_eq!((row.ready, row.nodes), (None, None), "unknown is not none");
    }
    check(&[], State::Unknown, None);
    check(&["Warning"], State::Unknown, None);
    check(&["Ready", "Warning"], State::Ready, None);
    check(&["Ready", "Progressing"], State::Progressing, Some("m Progressing"));
    check(&["Ready", "ReconciliationPaused"], State::Paused, None);
    check(&["Progressing", "NotReady"], State::NotReady, Some("m NotReady"));
}

#[test]
fn nodes_that_are_ready_are_counted() {
    let pods = [pod("c-broker-1", "True"), pod("c-broker-2", "False")];
    let row = row(&kafka(&json!([])), Some(&pods.iter().collect::<Vec<_>>()));
    assert_eq!((row.ready, row.nodes), (Some(1), Some(2)));
}

#[test]
fn a_node_has_what_kafka_and_kubernetes_say_of_it() {
    let mut snapshot = Snapshot::default();
    let broker = BrokerView { fenced: true, rack: None };
    snapshot.kafka.brokers = Fact::read([(id(1), broker)].into(), 5);
    // No controller confirms that the broker that said so keeps up.
    let brokers = BTreeSet::from([id(1)]);
    let facts = vec![partition("a", &[1], 2)];
    let all = SeenPartitions { facts, brokers, ..SeenPartitions::default() };
    snapshot.kafka.partitions = Fact::read(all, 5);
    let observed = Observed { snapshot: Some(snapshot), ..Observed::default() };
    let dir = |total_bytes, usable_bytes| LogDir {
        path: "/d".to_owned(),
        failure: None,
        total_bytes,
        usable_bytes,
        replicas: Vec::new(),
    };
    let beside = Beside {
        zones: [("m1".to_owned(), "z".to_owned())].into(),
        disks: [(id(1), vec![dir(Some(10), Some(4)), dir(None, Some(4))])].into(),
        ..Beside::default()
    };
    let cluster = cluster(&looked(vec![pod("c-broker-1", "True")], observed), &beside, 5);
    let [node] = cluster.nodes.as_slice() else { panic!("{:?}", cluster.nodes) };
    assert_eq!((node.id, node.ready, node.broker, node.controller), (Some(1), true, true, false));
    assert_eq!((node.fenced, node.rack.as_deref()), (Some(true), Some("z")));
    assert_eq!((node.partitions, node.leaders, node.votes), (None, None, None));
    let used: Vec<_> = node.disks.iter().map(|disk| disk.used_bytes).collect();
    assert_eq!(used, [Some(6), None]);
    assert_eq!(cluster.summary.partitions, None);
    assert_eq!(cluster.summary.listeners.len(), 1);
    assert_eq!(cluster.summary.unknown, ["why"]);
}

#[test]
fn partitions_in_trouble_are_counted() {
    let isrs: [&[i32]; 3] = [&[1], &[1, 2], &[1, 2, 3]];
    let facts: Vec<_> = isrs.iter().map(|isr| partition("a", isr, 2)).collect();
    let leader = |one: &PartitionFacts| (one.partition.clone(), None, one.isr.get(2).copied());
    let leaders = facts.iter().map(leader).collect();
    let all = SeenPartitions { facts, leaders, brokers: BTreeSet::new() };
    let expected = Partitions { all: 3, under_replicated: 2, under_min_isr: 1, leaderless: 2 };
    assert_eq!(partitions(&all), expected);
}

#[test]
fn what_could_not_be_read_is_unknown() {
    let cluster = cluster(
        &looked(vec![pod("c-broker-1", "True")], Observed::default()),
        &Beside::default(),
        5,
    );
    assert_eq!((&cluster.summary.partitions, &cluster.quorum), (&None, &None));
    assert!(!cluster.summary.certificates_known);
    let node = &cluster.nodes[0];
    assert_eq!((node.fenced, node.partitions, node.lag, node.leaders), (None, None, None, None));
}

#[test]
fn a_roll_has_its_reasons_holds_and_rules() {
    let batches = vec![BatchMemory { nodes: 1, took_ms: 60_000 }];
    let memory = RollMemory { started_ms: 1_000, restarts: 2, batches, ..RollMemory::default() };
    let account = Account {
        standing: Standing::Rolling,
        roll: Some(memory),
        under_way: vec![id(2)],
        left: vec![id(3)],
        waits: vec![Held {
            nodes: vec![id(3)],
            reasons: vec![Reason::ManualRollingUpdate],
            hold: Hold::NextBatch,
            given_up: false,
        }],
        ..Account::default()
    };
    let roll = roll(&account, 70_000);
    assert_eq!((roll.standing.as_str(), roll.restarted), ("rolling", 1));
    assert_eq!((roll.under_way.as_slice(), roll.left.as_slice()), ([2].as_slice(), [3].as_slice()));
    assert_eq!(roll.ends_ms.map(|ms| ms % FORETOLD_MS), Some(0));
    let wait = &roll.waits[0];
    assert_eq!(
        wait.reasons,
        [("ManualRollingUpdate".to_owned(), "a restart was asked for".to_owned())]
    );
    assert!(wait.rule.starts_with("one batch at a time"), "{}", wait.rule);
    assert!(!wait.under_way);
}
