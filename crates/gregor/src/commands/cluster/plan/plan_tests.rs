//! What people and programs read of a plan.

use std::collections::BTreeMap;

use control::cluster::act::What;
use control::rolling::reasons::Reason as Restarted;
use model::{NodeId, TopicName, TopicPartition};
use sim::whole::{Batch, End, Estimate, Forward, Line, Removal, Step};

use super::view::{Outcome, Told};
use super::*;
use crate::output::View as _;

fn id(number: i32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn line(step: Step, expected_ms: u64) -> Line {
    let estimate = Estimate { low_ms: expected_ms / 2, expected_ms, high_ms: expected_ms * 2 };
    Line { step, begin_ms: 0, estimate }
}

fn view(lines: Vec<Line>, why: &BTreeMap<NodeId, Vec<String>>) -> PlanView {
    let mut view = PlanView::empty(&Names::new("kafka", "my-cluster"));
    view.exists = Some(true);
    let forward = Forward {
        lines,
        acts: vec![(1_000, What::Unregister { id: id(3) })],
        end: End::Settled,
        warnings: Vec::new(),
        estimate: Estimate { low_ms: 60_000, expected_ms: 80_000, high_ms: 600_000 },
        passes: 3,
    };
    view.fill(&forward, why, false);
    view
}

fn batch() -> Batch {
    let partition = TopicPartition::new(TopicName::new("t").unwrap(), 4);
    Batch {
        nodes: [(id(0), vec![Restarted::PodHasOldRevision])].into(),
        left: vec![(partition, 2, 1)],
        ..Batch::default()
    }
}

#[test]
fn a_plan_reads_as_a_list_in_order() {
    let set = Step::Set {
        key: "log.retention.hours".to_owned(),
        value: Some("24".to_owned()),
        node: None,
    };
    let refused =
        Step::Refused { nodes: [id(5)].into(), why: "it still has 7 partitions".to_owned() };
    let brokers = [id(6)].into();
    let lines = vec![
        line(Step::MakeClaims(vec!["data-0-my-cluster-broker-6".to_owned()]), 1_000),
        line(Step::Start { pool: "broker".to_owned(), nodes: [id(6)].into() }, 20_000),
        line(Step::RemoveVoter { node: id(3), why: Removal::Unwanted }, 1_000),
        line(set, 1_000),
        line(Step::Restart(batch()), 40_000),
        line(Step::Move { drains: false, brokers, partitions: 7, bytes: Some(5 << 30) }, 600_000),
        line(refused, 0),
    ];
    let why = [(id(0), vec!["Kafka 4.3.1 instead of 4.1.2".to_owned()])].into();
    let mut view = view(lines, &why);
    view.basis = vec!["a node starts in 20 s, as 3 pods of this cluster did".to_owned()];
    view.unknown = vec!["no node of Kafka answers".to_owned()];
    view.warnings = vec![Told { reason: "Odd", message: "four controllers".to_owned() }];
    view.under_way = vec![Told { reason: "Rolling", message: "1 restarted".to_owned() }];
    view.ignored = vec!["ConfigMap c".to_owned()];
    let expected = "\
Kafka my-cluster in namespace kafka

  1. create claim data-0-my-cluster-broker-6
  2. start node 6 of broker (about 20 s, 10 s to 40 s)
  3. remove controller 3 from the voters
  4. set log.retention.hours to 24 on all nodes, without a restart
  5. restart node 0: Kafka 4.3.1 instead of 4.1.2 [certificate: t-4 keeps 2 in sync, 1 required] (about 40 s, 20 s to 80 s)
  6. move about 7 partitions (5120 MiB) to the new broker 6 (about 10 min, 5 min to 20 min)
  7. refused for node 5: it still has 7 partitions

All of it takes about 80 s, 60 s to 10 min.

Durations:
  - a node starts in 20 s, as 3 pods of this cluster did

Not known:
  - no node of Kafka answers

Warnings:
  - four controllers (Odd)

Under way already:
  - 1 restarted (Rolling)

Not looked at:
  - ConfigMap c
";
    assert_eq!(view.table(None), expected);
    assert_eq!(view.outcome, Outcome::Refused);
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["outcome"], "refused");
    assert_eq!(json["steps"][1]["kind"], "start");
    assert_eq!(json["steps"][1]["nodes"], serde_json::json!([6]));
    assert_eq!(json["steps"][1]["estimate"]["expectedMs"], 20_000);
    assert_eq!(json["steps"][4]["certificate"][0]["minIsr"], 1);
    assert_eq!(json["steps"][5]["bytes"], 5_u64 << 30);
    assert_eq!(json["steps"][6]["kind"], "refused");
    assert_eq!(json["acts"][0]["what"], serde_json::json!({ "unregister": { "id": 3 } }));
    assert_eq!(json["estimate"]["highMs"], 600_000);
    assert_eq!(json["underWay"][0]["reason"], "Rolling");
}

#[test]
fn nothing_is_said_in_words() {
    let mut view = PlanView::empty(&Names::new("kafka", "my-cluster"));
    view.exists = Some(true);
    assert_eq!(view.table(None), "Kafka my-cluster in namespace kafka\n\n  nothing would change\n");
    view.exists = Some(false);
    assert!(
        view.table(None)
            .starts_with("Kafka my-cluster in namespace kafka, which does not exist yet\n")
    );
}

#[test]
fn what_is_refused_is_red_on_a_terminal() {
    let lines = vec![line(Step::Blocked("it is paused".to_owned()), 0)];
    let view = view(lines, &BTreeMap::new());
    let text = view.table(Some(80));
    assert!(text.contains("\u{1b}[31m  1. not yet: it is paused\u{1b}[0m\n"), "{text:?}");
    assert_eq!(view.outcome.exit_code(), 3);
}

/// The command line.
#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    plan: Plan,
}

fn parsed(words: &[&str]) -> Result<Plan, clap::Error> {
    use clap::Parser as _;
    Words::try_parse_from([&["plan"], words].concat()).map(|words| words.plan)
}

/// Plans on a snapshot of `my` in the namespace `here`, as an older version of Gregor wrote it.
async fn planned(documents: Value, words: &[&str]) -> anyhow::Result<PlanView> {
    let version = "kafka.strimzi.io/v1";
    let metadata = serde_json::json!({ "name": "my", "namespace": "here" });
    let listener =
        serde_json::json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false });
    let file = serde_json::json!({
        "format": 1, "gregor": "0", "takenMs": 1, "name": "my", "namespace": "here",
        "kafka": {
            "apiVersion": version, "kind": "Kafka", "metadata": metadata,
            "spec": { "kafka": { "listeners": [listener] } },
        },
        "pools": [], "podSets": [], "pods": [], "rebalances": null, "observed": {},
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snapshot.json");
    std::fs::write(&path, file.to_string()).unwrap();
    let plan = parsed(words).unwrap();
    let documents = serde_json::from_value(documents).unwrap();
    plan.look_at(&path, documents).await
}

#[tokio::test]
async fn an_edit_and_a_snapshot_are_of_the_same_cluster() {
    let kafka = |name: &str, namespace: &str| {
        let metadata = serde_json::json!({ "name": name, "namespace": namespace });
        serde_json::json!([{ "kind": "Kafka", "metadata": metadata }])
    };
    let pool = |cluster: &str| {
        let labels = serde_json::json!({ "strimzi.io/cluster": cluster });
        serde_json::json!([{ "kind": "KafkaNodePool", "metadata": { "name": "p", "labels": labels } }])
    };
    let rows = [
        (kafka("other", "here"), "the edit is for Kafka other, and "),
        (pool("other"), " is a snapshot of Kafka my"),
        (kafka("my", "there"), "the edit is for namespace there, and "),
        (serde_json::json!([]), "was written by an older Gregor"),
    ];
    for (documents, expected) in rows {
        let error = planned(documents, &["--delete-pool", "old"]).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // What the API server would refuse takes no snapshot of objects.
    let view = planned(pool("my"), &[]).await.unwrap();
    assert_eq!((view.outcome, view.steps[0].kind), (Outcome::Refused, "invalid"));
}

#[test]
fn a_name_and_a_snapshot_exclude_each_other() {
    assert!(parsed(&["-f", "-", "--from-snapshot", "a"]).is_ok());
    assert!(parsed(&["--cluster", "a", "--from-snapshot", "a"]).is_err());
}

#[test]
fn what_a_snapshot_does_not_tell_is_named() {
    let view = |secrets_readable: bool, hidden: &[String]| {
        let mut view = ClusterView::default();
        (view.secrets_readable, view.hidden) = (secrets_readable, hidden.to_vec());
        view
    };
    let present = view(true, &[]);
    let field = "Kafka: spec.kafka.config.ssl.keystore.password".to_owned();
    let edited = view(false, std::slice::from_ref(&field));
    let unknown = unknown::unknown(Some(&present), &edited, None);
    assert_eq!(unknown.len(), 2, "{unknown:?}");
    assert!(unknown[0].starts_with("Secrets are not part of a snapshot"), "{unknown:?}");
    assert!(unknown[1].ends_with(&field), "{unknown:?}");
    assert_eq!(unknown::unknown(Some(&present), &view(true, &[]), None), Vec::<String>::new());
}
