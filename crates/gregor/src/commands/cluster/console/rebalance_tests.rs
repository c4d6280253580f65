//! Rebalances that are made up here.

use control::rebalance::execution::Limits;
use model::TopicName;
use serde_json::json;

use super::*;

fn id(number: i32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new("t").unwrap(), number)
}

fn facts(number: i32, replicas: &[i32], adding: &[i32], removing: &[i32]) -> PartitionFacts {
    let ids = |all: &[i32]| all.iter().copied().map(id).collect::<Vec<_>>();
    PartitionFacts {
        partition: partition(number),
        replicas: ids(replicas),
        isr: ids(replicas).into_iter().collect(),
        adding: ids(adding),
        removing: ids(removing),
        min_isr: Some(1),
    }
}

fn task(number: i32, target: &[i32], bytes: u64) -> Task {
    Task { partition: partition(number), target: target.iter().copied().map(id).collect(), bytes }
}

fn kr(annotations: &Value, state: &str) -> KafkaRebalance {
    let kr = json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaRebalance",
        "metadata": { "name": "r", "annotations": annotations },
        "spec": { "mode": "add-brokers", "brokers": [4], "replicationThrottle": 1000 },
        "status": {
            "conditions": [
                { "type": "Warning", "status": "True", "message": "careful" },
                { "type": state, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ],
            "optimizationResult": {
                "numReplicaMovements": 7, "dataToMoveMB": 3, "intraBrokerDataToMoveMB": 1,
                "onDemandBalancednessScoreAfter": 99.5, "provisionRecommendation": "",
            },
        },
    });
    serde_json::from_value(kr).unwrap()
}

#[test]
fn a_request_shows_its_state_its_proposal_and_its_progress() {
    let data = [
        ("brokerLoad.json", r#"{"10":{"leaders":{"before":1,"after":2,"diff":1}},"2":{"x":{}}}"#),
        ("completedByteMovementPercentage", "40"),
        ("estimatedTimeToCompletionInMinutes", "?"),
    ];
    let data = data.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let map = ConfigMap { data: Some(data.into()), ..ConfigMap::default() };
    let shown = request(&kr(&json!({}), "ProposalReady"), &[("r".to_owned(), map)].into());
    assert_eq!(shown.state.as_deref(), Some("ProposalReady"));
    assert_eq!((shown.mode.as_str(), shown.brokers.as_slice()), ("add-brokers", [4].as_slice()));
    assert_eq!(shown.commands, ["approve", "refresh"]);
    assert_eq!(shown.throttle_bytes, Some(1_000));
    assert_eq!((shown.percent, shown.minutes_left), (Some(40), None));
    assert_eq!(shown.warnings, ["careful"]);
    let proposal = shown.proposal.unwrap();
    assert_eq!((proposal.replicas, proposal.bytes), (Some(7), Some(4 << 20)));
    assert_eq!((proposal.score_before, proposal.score_after), (None, Some(99.5)));
    assert_eq!(proposal.recommendation, None);
    let brokers: Vec<_> = shown.loads.iter().map(|load| load.broker).collect();
    assert_eq!(brokers, [2, 10]);
    assert_eq!(shown.loads[1].resources["leaders"], (1.0, 2.0));
    assert!(shown.loads[0].resources.is_empty(), "a load without numbers is not zero");
}

#[test]
fn commands_are_those_that_the_operator_accepts() {
    let of = |annotations: Value, state: &str| commands(&kr(&annotations, state));
    assert_eq!(of(json!({}), "Rebalancing"), ["stop", "refresh"]);
    assert_eq!(of(json!({}), "Ready"), ["refresh"]);
    assert_eq!(of(json!({}), "New"), [""; 0]);
    assert_eq!(of(json!({}), "SomethingElse"), [""; 0]);
    let template = json!({ "strimzi.io/rebalance-template": "true" });
    assert_eq!(of(template, "ProposalReady"), [""; 0]);
    let pending =
        request(&kr(&json!({ "strimzi.io/rebalance": "stop" }), "Ready"), &BTreeMap::new());
    assert_eq!(pending.pending.as_deref(), Some("stop"));
}

#[test]
fn requests_that_could_not_be_listed_are_unknown() {
    let page = rebalance(None, &Read::default(), None, 0);
    assert_eq!((page.requests, page.moves), (None, None));
}

#[test]
fn no_broker_has_more_moves_in_a_wave_than_at_once() {
    let limits = Limits { moves_per_broker_max: 2, ..Limits::default() };
    let tasks = vec![
        task(0, &[1, 2], 10),
        task(1, &[1, 3], 20),
        task(2, &[1, 4], 40),
        task(3, &[3, 4], 80),
    ];
    let job = Job { limits, tasks, ..Job::default() };
    let now = [
        facts(0, &[1, 2], &[], &[]),
        facts(1, &[1, 3, 5], &[3], &[5]),
        facts(2, &[5, 4], &[], &[]),
    ];
    let known = now.iter().map(|one| (&one.partition, one)).collect();
    let shown = waves(&job, &known);
    // Partition 3 is gone: nothing is left to do about it.
    let first = Wave { moves: 3, done: 2, in_flight: 1, bytes: 110 };
    assert_eq!(shown, [first, Wave { moves: 1, done: 0, in_flight: 0, bytes: 40 }]);
}

#[test]
fn moves_have_their_bytes_and_their_end() {
    let tasks = vec![task(0, &[1, 2], 30), task(1, &[1, 3], 70)];
    let job = Job { tasks, ..Job::default() };
    let recorded = Recorded { began_ms: 1_000, rate_bytes: Some(5), ..Recorded::default() };
    let executing = Executing { by: "r".to_owned(), key: "k".to_owned(), recorded };
    let now = [facts(0, &[1, 2], &[], &[]), facts(1, &[1, 3, 5], &[3], &[5])];
    let moves = moves_of(&executing, Some(&job), Some(&now), 31_000);
    assert_eq!((moves.bytes_total, moves.bytes_done), (Some(100), Some(30)));
    // 30 bytes took 30 s, so 70 take 70 s.
    assert_eq!(moves.ends_ms, Some(105_000));
    let moving = Move { partition: "t-1".to_owned(), from: vec![5], to: vec![3], bytes: Some(70) };
    assert_eq!((moves.in_flight, moves.in_flight_count), (vec![moving], 1));
    // Without the job and the partitions nothing is made up.
    let moves = moves_of(&executing, None, None, 31_000);
    assert_eq!((moves.bytes_total, moves.ends_ms, moves.waves.len()), (None, None, 0));
}
