//! Plans: a cluster is created in the simulation, and an edit of it is planned from what can be observed then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod large;

use std::collections::BTreeSet;

use control::cluster::act::What;
use model::NodeId;
use serde_json::json;
use sim::whole::{
    Edit, End, Event, Forward, Removal, Script, Shape, Start, Step, after, forward, start_of,
};

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
    change_pool(start, pool, |pool| pool["spec"]["replicas"] = json!(replicas));
}

/// What is observed after these edits of its user.
fn edited(shape: Shape, edits: &[Edit]) -> Start {
    let mut events = vec![(60_000, Event::Edit(Edit::Topic(6, 3, 2)))];
    for edit in edits {
        events.push((events.len() as u64 * 240_000, Event::Edit(*edit)));
    }
    start_of(&Script { seed: 1, shape, events }).unwrap()
}

/// Plans to the end. What is planned after that is nothing.
#[track_caller]
fn planned(start: Start) -> Forward {
    let (plan, next) = after(start);
    assert_eq!(plan.end, End::Settled, "{:#?}", steps(&plan));
    let then = forward(next.unwrap());
    assert_eq!((steps(&then), &then.end, then.acts.len()), (Vec::new(), &End::Settled, 0));
    plan
}

/// These parts of lines come in this order.
#[track_caller]
fn in_order(plan: &Forward, parts: &[&str]) {
    let text = steps(plan).join("\n");
    let mut from = 0;
    for part in parts {
        let at = text[from..].find(part);
        from += at.unwrap_or_else(|| panic!("\"{part}\" is not in, or too early in:\n{text}"));
    }
}

/// The acts of a kind, in order.
fn acts(plan: &Forward, kind: fn(&What) -> Option<NodeId>) -> Vec<NodeId> {
    plan.acts.iter().filter_map(|(_, what)| kind(what)).collect()
}

const fn added(what: &What) -> Option<NodeId> {
    match what {
        What::AddVoter { id, .. } => Some(*id),
        _ => None,
    }
}

const fn removed(what: &What) -> Option<NodeId> {
    match what {
        What::RemoveVoter { id, .. } => Some(*id),
        _ => None,
    }
}

const fn restarted(what: &What) -> Option<NodeId> {
    match what {
        What::RestartPod { id, .. } => Some(*id),
        _ => None,
    }
}

fn pool_of(start: &Start, name: &str) -> usize {
    let pools = &start.found.pools;
    pools.iter().position(|one| one.written["metadata"]["name"] == name).unwrap()
}

fn change_pool(start: &mut Start, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let at = pool_of(start, name);
    let one = &mut start.found.pools[at];
    change(&mut one.written);
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

#[test]
fn brokers_from_three_to_six_are_started_at_once_and_filled() {
    let mut start = settled(Shape { rebalances: true, ..shape() });
    let names = start.snapshot.kafka.partitions.known().unwrap().facts.clone();
    start.sizes = names.into_iter().map(|one| (one.partition, 1 << 30)).collect();
    scale(&mut start, "broker", 6);
    let plan = planned(start);
    in_order(&plan, &["create claims", "start nodes 6, 7 and 8 of broker", "to the new brokers"]);
    let moves = plan.lines.iter().find_map(|line| match &line.step {
        Step::Move { drains: false, partitions, bytes, .. } => Some((*partitions, *bytes)),
        _ => None,
    });
    let (partitions, bytes) = moves.unwrap();
    assert_eq!(bytes, Some(partitions as u64 * (1 << 30)), "{:?}", steps(&plan));
    assert!(acts(&plan, restarted).is_empty());
}

#[test]
fn controllers_from_three_to_five_become_voters_one_at_a_time() {
    let mut start = settled(shape());
    scale(&mut start, "controller", 5);
    let plan = planned(start);
    assert_eq!(acts(&plan, added).len(), 2);
    assert!(acts(&plan, removed).is_empty());
    in_order(&plan, &["start nodes 6 and 7 of controller", "add controller", "add controller"]);
}

#[test]
fn combined_nodes_become_brokers_when_dedicated_controllers_vote() {
    let shape = Shape { controllers: 0, brokers: 0, combined: 3, ..shape() };
    let mut start = settled(shape);
    let mut controllers = start.found.pools[pool_of(&start, "mixed")].clone();
    controllers.written["metadata"]["name"] = json!("controller");
    controllers.written["metadata"]["uid"] = json!("pool-controller");
    controllers.written["spec"]["roles"] = json!(["controller"]);
    controllers.pool = serde_json::from_value(controllers.written.clone()).unwrap();
    start.found.pools.insert(0, controllers);
    change_pool(&mut start, "mixed", |pool| pool["spec"]["roles"] = json!(["broker"]));
    let plan = planned(start);
    assert_eq!(acts(&plan, added).into_iter().collect::<BTreeSet<_>>(), ids(&[3, 4, 5]));
    assert_eq!(acts(&plan, removed).into_iter().collect::<BTreeSet<_>>(), ids(&[0, 1, 2]));
    // The new controllers vote before any of the others leaves.
    let last = plan.acts.iter().rposition(|(_, what)| added(what).is_some()).unwrap();
    let first = plan.acts.iter().position(|(_, what)| removed(what).is_some()).unwrap();
    assert!(last < first, "{:#?}", steps(&plan));
    let roles = plan.lines.iter().filter_map(|line| match &line.step {
        Step::Restart(batch) => Some(batch.roles.keys().copied()),
        _ => None,
    });
    assert_eq!(roles.flatten().collect::<BTreeSet<_>>(), ids(&[0, 1, 2]));
}

#[test]
fn a_newer_kafka_restarts_every_node_once_and_raises_the_metadata_version_last() {
    let mut start = settled(Shape { version: 0, ..shape() });
    start.kafka["spec"]["kafka"]["version"] = json!("4.3.1");
    let plan = planned(start);
    let mut all = acts(&plan, restarted);
    // Controllers are first.
    assert_eq!(all[..3].iter().copied().collect::<BTreeSet<_>>(), ids(&[3, 4, 5]));
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5].map(id));
    let last = plan.acts.iter().rposition(|(_, what)| restarted(what).is_some()).unwrap();
    let raised = |what: &What| matches!(what, What::ChangeMetadataVersion { .. });
    let raised = plan.acts.iter().position(|(_, what)| raised(what)).unwrap();
    assert!(last < raised, "{:#?}", steps(&plan));
}

#[test]
fn a_pool_that_is_deleted_is_drained_first() {
    let shape = Shape { rebalances: true, ..shape() };
    let mut start = edited(shape, &[Edit::TogglePool(2), Edit::Topic(4, 3, 2)]);
    change_pool(&mut start, "mixed", |pool| {
        pool["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
    });
    let plan = planned(start);
    in_order(
        &plan,
        &[
            "cordon broker 6",
            "from broker 6 to others",
            "stop node 6",
            "unregister broker 6",
            "delete claim",
        ],
    );
}

#[test]
fn a_controller_whose_disk_is_gone_is_removed_and_added_as_another_voter() {
    let mut start = settled(shape());
    let pod = "c-controller-3";
    let claim = start.found.claims.keys().find(|name| name.ends_with(pod)).unwrap().clone();
    start.found.claims.remove(&claim).unwrap();
    start.found.pods.remove(pod).unwrap();
    start.snapshot.claims.remove(&claim);
    start.snapshot.pods.remove(pod);
    let voters = &start.snapshot.kafka.quorum.known().unwrap().voters;
    let before = voters.iter().find(|one| one.id == id(3)).unwrap().directory.unwrap();
    let plan = planned(start);
    let stale = plan.lines.iter().any(|line| {
        matches!(line.step, Step::RemoveVoter { node, why } if node == id(3) && why != Removal::Unwanted)
    });
    assert!(stale, "{:#?}", steps(&plan));
    let removed = plan.acts.iter().find_map(|(_, what)| match what {
        What::RemoveVoter { id, directory } => Some((*id, *directory)),
        _ => None,
    });
    assert_eq!(removed, Some((id(3), before)));
    assert_eq!(acts(&plan, added), [id(3)]);
    in_order(&plan, &["create claim", "add controller 3"]);
}

#[test]
fn a_broker_that_was_to_be_removed_and_stays_is_said_to_stay() {
    let mut start = settled(shape());
    scale(&mut start, "broker", 2);
    let (_, held) = after(start);
    let mut start = held.unwrap();
    scale(&mut start, "broker", 3);
    let plan = planned(start);
    assert_eq!(plan.lines.first().map(|line| &line.step), Some(&Step::Keep(id(2))));
}

#[test]
fn a_paused_cluster_shows_what_it_would_do_and_that_it_does_not() {
    let mut start = settled(shape());
    start.kafka["metadata"]["annotations"]["strimzi.io/pause-reconciliation"] = json!("true");
    assert_eq!(forward(start.clone()).lines, []);
    scale(&mut start, "controller", 5);
    let plan = forward(start);
    assert_eq!(plan.end, End::Paused);
    in_order(&plan, &["add controller", "not yet: nothing is done while"]);
}

#[test]
fn claims_that_are_not_deleted_are_said_to_stay() {
    let mut start = settled(Shape { brokers: 4, rebalances: true, ..shape() });
    change_pool(&mut start, "broker", |pool| {
        pool["spec"]["storage"]["deleteClaim"] = json!(false);
    });
    let (_, kept) = after(start);
    let mut start = kept.unwrap();
    scale(&mut start, "broker", 3);
    in_order(&planned(start), &["stop node", "keep claim"]);
}

#[test]
fn a_plan_for_a_large_cluster_moves_an_equal_share_to_new_brokers() {
    // `cargo bench -p sim --bench plan` says how long it takes with a thousand brokers and a million partitions.
    let (brokers, partitions) = (50, 10_000);
    let mut start = large::large(brokers, partitions);
    large::scale(&mut start, "broker", brokers + 2);
    let plan = forward(start);
    assert_eq!(plan.end, End::Settled, "{:#?}", steps(&plan));
    let moved = plan.lines.iter().find_map(|line| match &line.step {
        Step::Move { drains: false, brokers, partitions, bytes } => {
            Some((brokers.len(), *partitions, *bytes))
        }
        _ => None,
    });
    let (to, moved, bytes) = moved.unwrap();
    // Three replicas of each, on two of 52 brokers.
    assert_eq!(to, 2);
    assert!(moved.abs_diff(3 * partitions * 2 / 52) < 10, "{moved}");
    assert_eq!(bytes, Some((moved as u64) << 28));
    assert!(acts(&plan, restarted).is_empty());
}
