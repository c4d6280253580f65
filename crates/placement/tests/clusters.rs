//! Clusters made on purpose: small ones with a known answer, and generated ones for what must hold of
//! every plan.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use model::{NodeId, TopicName};
use placement::{
    BrokerSpec, BrokerState, Capacity, Finding, Goal, Goals, InvalidView, LeaderLoad, View,
    ViewBuilder, check, plan,
};
use proptest::prelude::*;

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn broker(id: i32, rack: &str, state: BrokerState) -> BrokerSpec {
    let capacity = Capacity {
        cpu_percent: 800.0,
        network_in_kb: 10_000.0,
        network_out_kb: 30_000.0,
        disk_mb: 100_000.0,
    };
    BrokerSpec { id: node(id), rack: Some(rack.to_owned()), capacity, state }
}

fn load(mb: f64) -> LeaderLoad {
    LeaderLoad { cpu_percent: 1.0, network_in_kb: 10.0, network_out_kb: 30.0, disk_mb: mb }
}

/// A topic per list; a partition per entry, all of this size.
fn cluster(brokers: Vec<BrokerSpec>, topics: &[&[&[i32]]], mb: f64) -> View {
    let mut builder = ViewBuilder::default();
    brokers.into_iter().for_each(|broker| builder.broker(broker).unwrap());
    for (topic, partitions) in topics.iter().enumerate() {
        let name = TopicName::new(format!("t{topic}")).unwrap();
        for (number, replicas) in (0..).zip(*partitions) {
            let replicas: Vec<_> = replicas.iter().map(|id| node(*id)).collect();
            builder.partition(&name, number, &replicas, load(mb)).unwrap();
        }
    }
    builder.build().unwrap()
}

fn three() -> Vec<BrokerSpec> {
    (0..3).map(|id| broker(id, &format!("r{id}"), BrokerState::Alive)).collect()
}

#[test]
fn a_cluster_that_is_balanced_is_left_alone() {
    let view = cluster(three(), &[&[&[0, 1], &[1, 2], &[2, 0]]], 100.0);
    let (plan, report) = plan(&view, &Goals::default());
    assert_eq!((plan.changes.len(), plan.mb), (0, 0.0));
    assert_eq!((report.before.balancedness, report.after.balancedness), (100.0, 100.0));
}

#[test]
fn replicas_that_share_a_rack_are_parted_with_no_more_than_that_moved() {
    let mut brokers = three();
    brokers.push(broker(3, "r0", BrokerState::Alive));
    // 0 and 3 share a rack.
    let view = cluster(brokers, &[&[&[0, 3], &[1, 2], &[2, 1], &[3, 1]]], 100.0);
    let goals = Goals::new(vec![Goal::RackAware], true).unwrap();
    let (plan, report) = plan(&view, &goals);
    assert_eq!(report.before.violated(), [Goal::RackAware]);
    assert!(report.after.violated().is_empty());
    assert_eq!((plan.changes.len(), plan.mb), (1, 100.0));
}

#[test]
fn a_broker_that_goes_is_emptied_and_nothing_else_moves() {
    let mut brokers = three();
    brokers.push(broker(3, "r3", BrokerState::Removed));
    let view = cluster(brokers, &[&[&[3, 1], &[1, 2], &[2, 3], &[0, 1]]], 100.0);
    let (plan, report) = plan(&view, &Goals::default());
    assert!(report.before.structure.len() == 2 && report.after.structure.is_empty());
    assert_eq!(plan.mb, 200.0, "the two replicas that were on it");
    let moved = plan.changes.iter().filter(|change| !change.is_leadership());
    assert!(moved.clone().all(|change| change.before.contains(&node(3))));
    assert_eq!(moved.count(), 2);
}

#[test]
fn a_new_broker_is_filled() {
    let mut brokers = three();
    brokers.push(broker(3, "r3", BrokerState::New));
    let partitions: Vec<Vec<i32>> = (0..60).map(|p| vec![p % 3, (p + 1) % 3]).collect();
    let partitions: Vec<&[i32]> = partitions.iter().map(Vec::as_slice).collect();
    let view = cluster(brokers, &[&partitions], 100.0);
    let (plan, report) = plan(&view, &Goals::default());
    assert!(report.after.violated().is_empty(), "{:?}", report.after);
    let new = report.brokers_after[3];
    // A fair share is thirty; the band is 27 to 33.
    assert!((27..=33).contains(&new.replicas), "{new:?}");
    assert!(plan.mb <= 3300.0, "no more is moved than the band has room for: {}", plan.mb);
}

#[test]
fn leadership_is_spread_without_moving_a_byte() {
    let partitions: Vec<&[i32]> = vec![&[0, 1, 2]; 30];
    let view = cluster(three(), &[&partitions], 100.0);
    let (plan, report) = plan(&view, &Goals::default());
    assert!(report.before.violated().contains(&Goal::LeaderReplicaDistribution));
    assert!(report.after.violated().is_empty(), "{:?}", report.after);
    assert_eq!(plan.mb, 0.0);
    assert!(plan.changes.iter().all(placement::Change::is_leadership));
}

#[test]
fn a_topic_that_is_pinned_stays() {
    let mut builder = ViewBuilder::default();
    three().into_iter().for_each(|broker| builder.broker(broker).unwrap());
    let (pinned, free) = (TopicName::new("pinned").unwrap(), TopicName::new("free").unwrap());
    for topic in [&pinned, &free] {
        for number in 0..30 {
            builder.partition(topic, number, &[node(0), node(1)], load(100.0)).unwrap();
        }
    }
    builder.pin(&pinned);
    let view = builder.build().unwrap();
    let (plan, _) = plan(&view, &Goals::default());
    let moved = plan.changes.iter().filter(|change| !change.is_leadership());
    assert!(moved.clone().all(|change| change.topic == free) && moved.count() > 0);
}

#[test]
fn what_cannot_be_met_is_said() {
    let brokers = vec![broker(0, "a", BrokerState::Alive), broker(1, "a", BrokerState::Alive)];
    let view = cluster(brokers, &[&[&[0, 1]]], 100.0);
    let (plan, report) = plan(&view, &Goals::default());
    assert!(!report.after.is_acceptable());
    let state = &report.after.goals[0];
    assert_eq!((state.goal, state.findings), (Goal::RackAware, 1));
    assert!(matches!(state.example, Some(Finding::SharedRack { .. })));
    assert_eq!(plan.mb, 0.0, "nothing moves in vain");
}

#[test]
fn clusters_that_cannot_be_are_refused() {
    let mut builder = ViewBuilder::default();
    builder.broker(broker(1, "a", BrokerState::Alive)).unwrap();
    let twice = builder.broker(broker(1, "b", BrokerState::Alive));
    assert_eq!(twice, Err(InvalidView::BrokerTwice(node(1))));
    let topic = TopicName::new("t").unwrap();
    let unknown = builder.partition(&topic, 0, &[node(9)], load(1.0));
    assert!(matches!(unknown, Err(InvalidView::UnknownBroker { .. })));
    let mut builder = ViewBuilder::default();
    let negative = Capacity { disk_mb: -1.0, ..broker(0, "a", BrokerState::Alive).capacity };
    let spec = BrokerSpec { capacity: negative, ..broker(0, "a", BrokerState::Alive) };
    assert!(matches!(builder.broker(spec), Err(InvalidView::Number { .. })));
    builder.broker(broker(0, "a", BrokerState::Removed)).unwrap();
    assert_eq!(builder.build().err(), Some(InvalidView::NoBroker));
}

prop_compose! {
    /// Some brokers in some racks, one of which may go, and partitions wherever they happen to be.
    fn any_cluster()(
        brokers in 3_usize..9,
        racks in 1_usize..5,
        removed in prop::option::of(0_usize..9),
    )(
        partitions in prop::collection::vec(
            (
                prop::sample::subsequence((0..brokers).collect::<Vec<_>>(), 1..=3.min(brokers)),
                0_usize..4, 1.0_f64..500.0, 0.0_f64..50.0,
            ),
            1..120,
        ),
        brokers in Just(brokers), racks in Just(racks), removed in Just(removed),
    ) -> View {
        let mut builder = ViewBuilder::default();
        for id in 0..brokers {
            let state = if removed == Some(id) { BrokerState::Removed } else { BrokerState::Alive };
            let spec = broker(i32::try_from(id).unwrap(), &format!("r{}", id % racks), state);
            builder.broker(spec).unwrap();
        }
        for topic in 0..4 {
            let name = TopicName::new(format!("t{topic}")).unwrap();
            let of_topic = partitions.iter().filter(|partition| partition.1 == topic);
            for (number, (replicas, _, mb, rate)) in (0..).zip(of_topic) {
                let replicas: Vec<_> =
                    replicas.iter().map(|id| node(i32::try_from(*id).unwrap())).collect();
                let load = LeaderLoad {
                    cpu_percent: rate / 10.0,
                    network_in_kb: *rate,
                    network_out_kb: rate * 2.0,
                    disk_mb: *mb,
                };
                builder.partition(&name, number, &replicas, load).unwrap();
            }
        }
        builder.build().unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_plan_is_sound(view in any_cluster()) {
        let goals = Goals::default();
        let (first, report) = plan(&view, &goals);
        // The same again, to the letter.
        let (second, _) = plan(&view, &goals);
        prop_assert_eq!(&first, &second);

        // What the report says is what an independent look says.
        prop_assert_eq!(&report.after, &check(&view, &goals, &first.assignment));
        let sum: f64 = first.changes.iter().map(|change| change.mb).sum();
        prop_assert!((sum - first.mb).abs() < 1e-6 && (sum - view.moved_mb(&first.assignment)).abs() < 1e-6);

        for change in &first.changes {
            prop_assert_eq!(change.before.len(), change.after.len());
        }
        // Everything that can be moved off a broker that goes is moved off.
        let live = view.brokers().iter().filter(|b| b.state != BrokerState::Removed);
        let racks: std::collections::BTreeSet<_> = live.map(|b| b.rack.clone()).collect();
        if racks.len() >= 3 {
            prop_assert!(report.after.structure.is_empty());
            let rack = report.after.goals.iter().find(|state| state.goal == Goal::RackAware);
            prop_assert_eq!(rack.map(|state| state.findings), Some(0));
        }
    }
}
