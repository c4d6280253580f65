//! What people and programs read of a plan.

use api::names::Names;
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
        Line::RemoveVoter { node: id(3), why: Removal::NotWished },
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
            .starts_with("Kafka my-cluster in namespace kafka, which is not there yet\n")
    );
}

#[test]
fn what_is_refused_is_red_on_a_terminal() {
    let lines = [Line::Blocked("it is paused".to_owned())];
    let text = view(&lines, Outcome::Refused).table(Some(80));
    assert!(text.contains("\u{1b}[31m  1. not yet: it is paused\u{1b}[0m\n"), "{text:?}");
}
