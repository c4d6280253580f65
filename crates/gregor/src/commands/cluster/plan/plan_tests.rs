//! What people and programs read of a plan.

use control::quorum::plan::Removal;
use control::scaling::explain::{Restart, Setting};

use super::*;

fn id(number: i32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn view(lines: &[Line], outcome: Outcome) -> PlanView {
    let mut view = PlanView::empty(&Names::new("kafka", "my-cluster"));
    view.exists = Some(true);
    view.add(lines, outcome);
    view
}

#[test]
fn a_plan_reads_as_a_list_in_order() {
    let lines = [
        Line::MakeClaims(vec!["data-0-my-cluster-broker-6".to_owned()]),
        Line::Start { pool: "broker".to_owned(), nodes: [id(6)].into() },
        Line::RemoveVoter { node: id(3), why: Removal::NotDesired },
        Line::Change(Setting {
            key: "log.retention.hours".to_owned(),
            value: Some("24".to_owned()),
            node: None,
        }),
        Line::Restart(Restart {
            node: id(0),
            why: vec!["Kafka 4.3.1 instead of 4.1.2".to_owned()],
        }),
        Line::Refused { nodes: [id(5)].into(), why: "it still has 7 partitions".to_owned() },
    ];
    let mut view = view(&lines, Outcome::Refused);
    view.unknown = vec!["no node of Kafka answers".to_owned()];
    view.warnings = vec![Told { reason: "Odd", message: "four controllers".to_owned() }];
    view.under_way = vec![Told { reason: "Rolling", message: "1 restarted".to_owned() }];
    view.ignored = vec!["ConfigMap c".to_owned()];
    let expected = "\
Kafka my-cluster in namespace kafka

  1. make claim data-0-my-cluster-broker-6
  2. start node 6 of broker
  3. remove controller 3 from the voters
  4. set log.retention.hours to 24 on all nodes, without a restart
  5. restart node 0: Kafka 4.3.1 instead of 4.1.2
  6. refused for node 5: it still has 7 partitions

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
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["outcome"], "refused");
    assert_eq!(json["steps"][1]["kind"], "start");
    assert_eq!(json["steps"][1]["nodes"], serde_json::json!([6]));
    assert_eq!(json["steps"][5]["kind"], "refused");
    assert_eq!(json["underWay"][0]["reason"], "Rolling");
}

#[test]
fn nothing_is_said_in_words() {
    let mut view = view(&[], Outcome::Nothing);
    assert_eq!(view.table(None), "Kafka my-cluster in namespace kafka\n\n  nothing would change\n");
    view.exists = Some(false);
    assert!(
        view.table(None)
            .starts_with("Kafka my-cluster in namespace kafka, which does not exist yet\n")
    );
}

#[test]
fn what_is_refused_is_red_on_a_terminal() {
    let lines = [Line::Blocked("it is paused".to_owned())];
    let text = view(&lines, Outcome::Refused).table(Some(80));
    assert!(text.contains("\u{1b}[31m  1. not yet: it is paused\u{1b}[0m\n"), "{text:?}");
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
    let unknown = facts::unknown(Some(&present), &edited, None);
    assert_eq!(unknown.len(), 2, "{unknown:?}");
    assert!(unknown[0].starts_with("Secrets are not part of a snapshot"), "{unknown:?}");
    assert!(unknown[1].ends_with(&field), "{unknown:?}");
    assert_eq!(facts::unknown(Some(&present), &view(true, &[]), None), Vec::<String>::new());
}
