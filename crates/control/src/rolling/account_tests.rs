//! What is told of a roll, and when it changes.

use model::TopicName;

use super::super::availability;
use super::super::memory::{BatchMemory, Memory};
use super::super::node::Phase;
use super::super::pass::Progress;
use super::*;

fn ids(numbers: &[i32]) -> Vec<NodeId> {
    numbers.iter().map(|number| NodeId::new(*number).unwrap()).collect()
}

fn why(number: i32, hold: Hold) -> Why {
    Why {
        node: NodeId::new(number).unwrap(),
        reasons: vec![Reason::ManualRollingUpdate],
        hold,
        attempts: 0,
        backoff_until_ms: None,
        given_up: false,
    }
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new("t").unwrap(), number)
}

/// Node 1 is being restarted, node 2 has too few replicas beside it, three wait for their turn.
fn rolling() -> Decision {
    let hold =
        availability::Hold { partition: partition(4), in_sync: 2, left: 1, min_isr: Some(2) };
    let batches = vec![BatchMemory { nodes: 1, took_ms: 100 }];
    let roll = RollMemory { started_ms: 1_000, restarts: 3, batches, ..RollMemory::default() };
    Decision {
        memory: Memory { roll: Some(roll), ..Memory::default() },
        actions: vec![],
        standing: Standing::Rolling,
        progress: Progress {
            under_way: ids(&[1]),
            left: ids(&[2, 3, 4, 5]),
            certificate: Certificate { left: vec![(partition(0), 2, 2)], offline: vec![] },
            ..Progress::default()
        },
        why: vec![
            why(1, Hold::UnderWay { phase: Phase::Restarting }),
            why(2, Hold::MinIsr { partition: hold, count: 3 }),
            why(3, Hold::NextBatch),
            why(4, Hold::NextBatch),
            why(5, Hold::NextBatch),
        ],
        wait_ms: None,
    }
}

#[test]
fn those_who_wait_for_the_same_are_told_together() {
    let account = Account::of(&rolling(), None).unwrap();
    let text = account.to_string();
    assert_eq!(
        text,
        "2 restarted, 1 under way, 4 to come; \
         node 1 (a restart was asked for): its pod is being deleted; \
         node 2 (a restart was asked for): partition t-4 has 2 replicas in sync, without it 1, and \
         needs 2 (and 2 more); \
         node 3, node 4, node 5 (a restart was asked for): it is in one of the next batches"
    );
}

#[test]
fn it_is_read_back_as_it_was_stored() {
    let account = Account::of(&rolling(), None).unwrap();
    let text = serde_json::to_string(&account).unwrap();
    assert_eq!(serde_json::from_str::<Account>(&text).unwrap(), account);
    // What other programs may rely on.
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["standing"], "Rolling");
    assert_eq!(json["waits"][1]["hold"]["minIsr"]["partition"]["minIsr"], 2);
    assert_eq!(json["waits"][2]["nodes"], serde_json::json!([3, 4, 5]));
    assert_eq!(json["waits"][2]["hold"], "nextBatch");
    assert_eq!(json["margin"]["tightest"][0]["inSync"], 2);
    assert_eq!(json["roll"]["startedMs"], 1_000);
}

#[test]
fn the_certificate_of_a_batch_is_told_until_the_batch_has_ended() {
    let begun = Account::of(&rolling(), None).unwrap();
    let mut later = rolling();
    later.progress.certificate = Certificate::default();
    let told = Account::of(&later, Some(&begun)).unwrap();
    assert_eq!(told, begun, "nothing else is to be told, so nothing is written");
    later.progress.under_way.clear();
    assert_eq!(Account::of(&later, Some(&begun)).unwrap().margin, None);
}

#[test]
fn where_there_is_nothing_to_tell_nothing_is_told() {
    let mut settled = rolling();
    settled.standing = Standing::Settled;
    settled.why.clear();
    assert_eq!(Account::of(&settled, None), None);
    // A node that does not take its settings is worth a word though nothing is to be done.
    settled.why.push(why(7, Hold::SettingsNotTaken { keys: vec!["a".to_owned()] }));
    assert!(Account::of(&settled, None).is_some());
}

#[test]
fn the_end_is_foretold_when_it_is_read() {
    let account = Account::of(&rolling(), None).unwrap();
    assert_eq!(account.estimate(5_000), Some(Estimate { end_ms: 5_400, batches_left: 4 }));
    assert_eq!(Account { roll: None, ..account }.estimate(5_000), None);
}

#[test]
fn a_condition_names_the_first_and_counts_the_rest() {
    let mut decision = rolling();
    decision.why = (0..20)
        .map(|number| why(number, Hold::StoppedBy { node: NodeId::new(number + 1).unwrap() }))
        .collect();
    let text = Account::of(&decision, None).unwrap().to_string();
    assert!(text.ends_with("; and 12 more, which gregor why lists"), "{text}");
}
