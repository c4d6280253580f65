//! Plans: a cluster is created in the simulation, and an edit of it is planned from what can be observed then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;

use control::cluster::act::What;
use model::NodeId;
use serde_json::json;
use sim::whole::{Edit, End, Event, Forward, Script, Shape, Start, Step, forward, start_of};

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn ids(all: &[i32]) -> BTreeSet<NodeId> {
    all.iter().map(|one| id(*one)).collect()
}

/// A cluster of three controllers and three brokers with a topic.
fn shape() -> Shape {
    Shape { controllers: 3, brokers: 3, combined: 0, version: 2, rebalances: false, machines: 6 }
}

/// What is observed of a cluster that has settled.
fn settled(shape: Shape) -> Start {
    let topic = Event::Edit(Edit::Topic(6, 3, 2));
    start_of(&Script { seed: 1, shape, events: vec![(60_000, topic)] }).unwrap()
}

fn scale(start: &mut Start, pool: &str, replicas: u32) {
    let pools = &mut start.found.pools;
    let one = pools.iter_mut().find(|one| one.written["metadata"]["name"] == pool).unwrap();
    one.written["spec"]["replicas"] = json!(replicas);
    one.pool = serde_json::from_value(one.written.clone()).unwrap();
}

fn steps(plan: &Forward) -> Vec<String> {
    plan.lines.iter().map(|line| line.step.to_string()).collect()
}

#[test]
fn nothing_is_planned_for_a_cluster_that_is_as_it_should_be() {
    let plan = forward(settled(shape()));
    assert_eq!((steps(&plan), &plan.end), (Vec::new(), &End::Settled));
    assert_eq!(plan.acts, []);
}

#[test]
fn brokers_that_come_are_started_and_filled() {
    let mut start = settled(Shape { rebalances: true, ..shape() });
    scale(&mut start, "broker", 4);
    let plan = forward(start);
    assert_eq!(plan.end, End::Settled, "{:?}", steps(&plan));
    let text = steps(&plan).join("\n");
    let places = ["create claim", "start node", "to the new broker"].map(|one| text.find(one));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
}

#[test]
fn voters_are_added_one_at_a_time() {
    let mut start = settled(shape());
    scale(&mut start, "controller", 5);
    let plan = forward(start);
    assert_eq!(plan.end, End::Settled, "{:?}", steps(&plan));
    let added = plan.lines.iter().filter(|line| matches!(line.step, Step::AddVoter(_)));
    let added: Vec<u64> = added.map(|line| line.begin_ms).collect();
    assert!(added.len() == 2 && added[0] < added[1], "{:?}", plan.lines);
}

#[test]
fn a_setting_that_needs_a_restart_restarts_each_node_once_with_a_certificate() {
    let mut start = settled(shape());
    start.kafka["spec"]["kafka"]["jvmOptions"] = json!({ "-Xmx": "256m" });
    let plan = forward(start);
    assert_eq!(plan.end, End::Settled, "{:?}", steps(&plan));
    let mut restarted = BTreeSet::new();
    for line in &plan.lines {
        let Step::Restart(batch) = &line.step else { continue };
        assert!(batch.nodes.keys().all(|node| restarted.insert(*node)), "{:?}", steps(&plan));
        assert!(line.estimate.expected_ms > 0, "{line:?}");
        let is_broker = batch.nodes.keys().any(|node| ids(&[0, 1, 2]).contains(node));
        assert_eq!(is_broker, !batch.left.is_empty(), "{line:?}");
    }
    assert_eq!(restarted.len(), 6);
}

#[test]
fn a_broker_that_holds_replicas_is_refused_and_stays() {
    let mut start = settled(shape());
    scale(&mut start, "broker", 2);
    let plan = forward(start);
    let refused = plan.lines.last().map(|line| &line.step);
    let is_told = matches!(refused, Some(Step::Refused { nodes, .. }) if *nodes == ids(&[2]));
    // The cluster has settled with a warning.
    assert!(is_told && plan.end == End::Settled, "{:?} {:?}", steps(&plan), plan.end);
    assert!(!plan.acts.iter().any(|(_, what)| matches!(what, What::Unregister { .. })));
}

#[test]
fn a_broker_that_leaves_is_drained_stopped_and_unregistered() {
    let mut start = settled(Shape { brokers: 4, rebalances: true, ..shape() });
    scale(&mut start, "broker", 3);
    let plan = forward(start);
    assert_eq!(plan.end, End::Settled, "{:?}", steps(&plan));
    let text = steps(&plan).join("\n");
    let order = ["to others", "stop node", "unregister broker", "delete claim"];
    let places = order.map(|one| text.find(one));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
}

#[test]
fn a_spec_that_is_refused_plans_nothing_else() {
    let mut start = settled(shape());
    start.kafka["spec"]["kafka"]["version"] = json!("3.9.0");
    let plan = forward(start);
    assert!(matches!(plan.end, End::Refused(_)), "{:?}", plan.end);
    assert!(matches!(plan.lines.as_slice(), [line] if matches!(line.step, Step::Invalid(_))));
    assert_eq!(plan.acts, []);
}

#[test]
fn what_kafka_does_not_say_is_waited_for() {
    let mut start = settled(shape());
    scale(&mut start, "broker", 2);
    start.snapshot.kafka.quorum =
        control::cluster::fact::Fact::Unknown(control::cluster::fact::Why::NoAnswer);
    let plan = forward(start);
    assert!(matches!(plan.end, End::Waits(_)), "{:?}", plan.end);
    let last = plan.lines.last().unwrap();
    assert!(matches!(last.step, Step::Blocked(_)), "{:?}", steps(&plan));
}

#[test]
fn the_same_start_gives_the_same_plan() {
    let mut start = settled(shape());
    scale(&mut start, "controller", 5);
    start.kafka["spec"]["kafka"]["jvmOptions"] = json!({ "-Xmx": "256m" });
    assert_eq!(forward(start.clone()), forward(start));
}
