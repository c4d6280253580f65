//! What people read of a cluster that waits.

use control::quorum::format::QuorumMode;
use control::rolling::availability::PartitionFacts;
use control::scaling::guard::Phase;
use control::scaling::leaving::{Kind, Leaving, Pass};
use model::{TopicName, TopicPartition};
use serde_json::json;

use super::*;

fn id(number: i32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn partition(number: i32, replicas: &[i32], isr: &[i32]) -> PartitionFacts {
    let ids = |ids: &[i32]| ids.iter().map(|one| id(*one)).collect();
    PartitionFacts {
        partition: TopicPartition::new(TopicName::new("t").unwrap(), number),
        replicas: ids(replicas),
        isr: ids(isr),
        adding: vec![],
        removing: vec![],
        min_isr: Some(2),
    }
}

#[test]
fn what_holds_a_cluster_up_comes_before_what_it_warns_of() {
    let kafka: Kafka = serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "Kafka",
        "metadata": { "name": "a" },
        "spec": { "kafka": { "listeners": [] } },
        "status": { "conditions": [
            { "type": "Warning", "status": "True", "reason": "UnknownFields" },
            { "type": "Ready", "status": "True" },
            { "type": "Progressing", "status": "True", "reason": "Rolling", "message": "node 3",
              "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ] },
    }))
    .unwrap();
    let lines = conditions(&kafka);
    let kinds: Vec<_> = lines.iter().map(|line| line.kind.as_str()).collect();
    assert_eq!(kinds, ["Progressing", "Ready", "Warning"]);
    let expected = "Progressing (Rolling), since 2026-01-01T00:00:00Z: node 3";
    assert_eq!(lines[0].sentence(), expected);
}

#[test]
fn a_broker_that_stays_is_told_with_its_partitions_and_the_rule() {
    let mut seen = Seen::default();
    let mut pass = Pass::default();
    pass.holds.insert(id(5), guard::Hold::Partitions { partitions: 12, moving: false });
    seen.scale_in = Some(pass);
    seen.partitions = Some((0..12).map(|number| partition(number, &[5, 6], &[5, 6])).collect());
    let mut view = WhyView::new(&seen, None, 0);
    (view.cluster, view.namespace) = ("c".to_owned(), "n".to_owned());
    let expected = "\
Kafka c in namespace n

broker 5: it still has 12 partitions: move them to other brokers, or cancel the scale-down
  Partitions: t-0, t-1, t-2, t-3, t-4, t-5, t-6, t-7, t-8, t-9 and 2 more
  Rule: a broker is stopped only when it is known to have no partitions
";
    assert_eq!(view.table(None), expected);
    assert_eq!(serde_json::to_value(&view).unwrap()["awaited"][0]["partitions"][11], "t-11");
}

#[test]
fn a_node_that_is_not_restarted_is_told_with_every_partition_that_needs_it() {
    let account = json!({
        "standing": "Waiting",
        "roll": { "startedMs": 0, "restarts": 4, "batches": [{ "nodes": 1, "tookMs": 30000 }] },
        "left": [7, 8, 9, 10],
        "waits": [{ "nodes": [7], "reasons": ["ManualRollingUpdate"], "hold": { "minIsr": {
            "partition": { "partition": "t-0", "inSync": 2, "left": 1, "minIsr": 2 }, "count": 2 } } }],
    });
    // The form in which it is stored is not ours to fix: what is not read is not told.
    let parsed: Result<Account, _> = serde_json::from_value(account.clone());
    let mut seen = Seen::default();
    let stored = Account {
        waits: vec![Wait {
            nodes: vec![id(7)],
            reasons: vec![control::rolling::reasons::Reason::ManualRollingUpdate],
            hold: Hold::MinIsr {
                partition: availability::Hold {
                    partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
                    in_sync: 2,
                    left: 1,
                    min_isr: Some(2),
                },
                count: 2,
            },
            given_up: false,
        }],
        ..parsed.unwrap_or_default()
    };
    seen.roll_account = Some(stored);
    seen.partitions = Some(vec![
        partition(0, &[7, 8, 9], &[7, 8]),
        partition(1, &[7, 8, 9], &[7, 9]),
        partition(2, &[7, 8, 9], &[7, 8, 9]),
    ]);
    let text = WhyView::new(&seen, None, 0).table(None);
    let expected = "\
node 7 (a restart was asked for): partition t-0 has 2 replicas in sync, without it 1, and needs 2 (and 1 more)
  Partitions: t-0, t-1
  Rule: a broker is restarted only if every partition that is available keeps min.insync.replicas in sync \
without it
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_restart_that_loses_the_metadata_is_told_with_the_annotation_that_accepts_it() {
    let wait = Wait {
        nodes: vec![id(0)],
        reasons: vec![control::rolling::reasons::Reason::ManualRollingUpdate],
        hold: Hold::MetadataLoss,
        given_up: false,
    };
    let mut seen = Seen::default();
    seen.roll_account = Some(Account { waits: vec![wait], ..Account::default() });
    let text = WhyView::new(&seen, None, 0).table(None);
    assert!(text.contains("gregor.io/accept-metadata-loss: \"true\""), "{text}");
    assert!(text.contains("Rule: a controller whose restart loses the metadata"), "{text}");
}

/// The sentences about both contain a colon of their own.
#[test]
fn what_waits_and_what_it_waits_for_are_told_apart() {
    let keys = || vec!["num.io.threads".to_owned()];
    let reason = control::rolling::reasons::Reason::ConfigChangeRequiresRestart { keys: keys() };
    let wait = Wait {
        nodes: vec![id(3)],
        reasons: vec![reason.clone()],
        hold: Hold::SettingsNotTaken { keys: keys() },
        given_up: true,
    };
    let mut seen = Seen::default();
    seen.roll_account = Some(Account { waits: vec![wait.clone()], ..Account::default() });
    let [awaited] = restarts(&seen).try_into().unwrap();
    assert_eq!(awaited.about, format!("node 3 ({reason})"));
    assert_eq!(awaited.what, format!("{}; given up, tried on", wait.hold));
    assert_eq!(wait.to_string(), format!("{}: {}", awaited.about, awaited.what));
}

#[test]
fn progress_is_told_in_one_sentence() {
    let progress = |ends_in_ms| Progress { restarted: 4, under_way: 1, left: 4, ends_in_ms };
    assert_eq!(
        progress(Some(118_000)).sentence(),
        "4 of 9 restarted, 1 under way, about 2 min left, from the restarts seen so far"
    );
    assert_eq!(progress(None).sentence(), "4 of 9 restarted, 1 under way, duration not known yet");
    assert_eq!([0, 89_000, 7_200_000].map(duration), ["1 s", "89 s", "2 h"]);
}

#[test]
fn where_kafka_is_silent_nothing_is_made_up() {
    let mut seen = Seen::default();
    let leaving = Leaving { phase: Phase::Draining, kind: Kind::Node, pool: "b".to_owned() };
    seen.leaving.insert(id(5), leaving);
    assert_eq!(seen.mode, QuorumMode::default());
    let mut view = WhyView::new(&seen, None, 0);
    view.unknown = vec!["no node of Kafka answers".to_owned()];
    let text = view.table(None);
    assert!(
        text.contains("broker 5: it is leaving (Draining); the reason why it waits is unknown"),
        "{text}"
    );
    assert!(text.contains("Not known:\n  - no node of Kafka answers"), "{text}");
}

#[test]
fn a_cluster_as_it_was_asked_for_waits_for_nothing() {
    let text = WhyView::new(&Seen::default(), None, 0).table(None);
    assert!(text.ends_with("\nthe cluster matches its spec; nothing is pending\n"), "{text}");
}
