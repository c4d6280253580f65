//! Options besides the default goals: other goals, excluded brokers and topics, waves, hints and disks.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use model::{NodeId, TopicName};
use placement::{
    BrokerDisks, BrokerSpec, BrokerState, Capacity, DiskFinding, DiskGoals, DiskReplica, DiskSpec,
    Finding, Goal, Goals, LeaderLoad, Plan, View, ViewBuilder, WaveLimits, check, check_disks,
    plan, plan_disks,
};
use proptest::prelude::*;

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn topic(number: i32) -> TopicName {
    TopicName::new(format!("t{number}")).unwrap()
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

const LOAD: LeaderLoad =
    LeaderLoad { cpu_percent: 1.0, network_in_kb: 10.0, network_out_kb: 30.0, disk_mb: 100.0 };

/// Brokers in these racks, and a topic for each list of partitions.
fn builder(racks: &[&str], topics: &[Vec<Vec<i32>>]) -> ViewBuilder {
    let mut builder = ViewBuilder::default();
    for (id, rack) in (0..).zip(racks) {
        builder.broker(broker(id, rack, BrokerState::Alive)).unwrap();
    }
    for (number, partitions) in (0..).zip(topics) {
        for (partition, replicas) in (0..).zip(partitions) {
            let replicas: Vec<_> = replicas.iter().map(|id| node(*id)).collect();
            builder.partition(&topic(number), partition, &replicas, LOAD).unwrap();
        }
    }
    builder
}

fn only(goal: Goal) -> Goals {
    Goals::new(vec![goal], true).unwrap()
}

fn after(plan: &Plan, view: &View, partition: usize) -> Vec<i32> {
    let brokers = plan.assignment[view.slots(partition)].iter();
    brokers.map(|broker| view.brokers()[usize::from(*broker)].id.get()).collect()
}

#[test]
fn replicas_are_spread_evenly_where_there_are_fewer_racks_than_replicas() {
    // Three replicas and two racks: two in one, one in the other.
    let racks = ["a", "a", "a", "b", "b"];
    let goals = only(Goal::RackAwareDistribution);
    let view = builder(&racks, &[vec![vec![0, 1, 2], vec![0, 3, 1]]]).build().unwrap();
    let (first, report) = plan(&view, &goals);
    assert_eq!(report.before.goals[0].findings, 1);
    assert!(matches!(report.before.goals[0].example, Some(Finding::UnevenRacks { .. })));
    assert_eq!(report.after.goals[0].findings, 0, "{first:?}");
    assert_eq!((first.changes.len(), first.mb), (1, 100.0), "one replica is enough");
    // Four replicas in three racks: none is left out.
    let racks = ["a", "a", "b", "b", "c"];
    let view = builder(&racks, &[vec![vec![0, 1, 2, 3]]]).build().unwrap();
    let (four, report) = plan(&view, &goals);
    assert_eq!((report.before.violated().len(), report.after.violated().len()), (1, 0));
    assert!(after(&four, &view, 0).contains(&4));
    // With the strict goal the same cluster has no plan, and the hint says why.
    let (_, report) = plan(&view, &only(Goal::RackAware));
    assert_eq!(report.hints.len(), 1);
    assert_eq!((report.hints[0].racks, report.hints[0].brokers), (1, Some(1)));
    assert_eq!(
        report.hints[0].to_string(),
        "RackAwareGoal: 1 racks are missing; add brokers in 1 more racks"
    );
}

#[test]
fn every_broker_leads_some_of_a_topic_that_asks_for_it() {
    let partitions = vec![vec![0, 1]; 8];
    let mut builder = builder(&["a", "b", "c", "d"], &[partitions.clone(), partitions]);
    builder.lead_everywhere(&topic(0), Some(1));
    let view = builder.build().unwrap();
    let (first, report) = plan(&view, &only(Goal::MinTopicLeadersPerBroker));
    // Brokers 1, 2 and 3 lead nothing of it: one has a follower, two need a replica.
    assert_eq!(report.before.goals[0].findings, 3);
    assert_eq!(report.after.goals[0].findings, 0);
    assert_eq!(first.mb, 200.0);
    assert!(first.changes.iter().all(|change| change.topic == topic(0)));
    // It holds with all the other goals, too.
    let (_, report) = plan(&view, &Goals::default());
    let state = report.after.goals.iter().find(|g| g.goal == Goal::MinTopicLeadersPerBroker);
    assert_eq!(state.unwrap().findings, 0);
    assert!(report.after.is_acceptable());
}

#[test]
fn as_many_leaders_as_there_are_for_all() {
    let partitions: Vec<Vec<i32>> = (0..9).map(|p| vec![0, 1 + p % 2]).collect();
    let mut builder = builder(&["a", "b", "c"], &[partitions]);
    builder.lead_everywhere(&topic(0), None);
    let view = builder.build().unwrap();
    let (first, report) = plan(&view, &only(Goal::MinTopicLeadersPerBroker));
    assert_eq!((report.after.violated().len(), first.mb), (0, 0.0));
    let leaders: Vec<u32> = report.brokers_after.iter().map(|broker| broker.leaders).collect();
    assert_eq!(leaders, [3, 3, 3]);
}

#[test]
fn leaders_that_topics_prefer_lead() {
    let mut builder = builder(&["a", "b", "c"], &[]);
    for (number, preferred) in [(0, 1), (1, 0), (2, 2)] {
        builder.partition(&topic(0), number, &[node(0), node(1)], LOAD).unwrap();
        builder.prefer(node(preferred));
    }
    let view = builder.build().unwrap();
    let goals = only(Goal::PreferredLeaderElection);
    let (first, report) = plan(&view, &goals);
    assert_eq!((report.before.goals[0].findings, report.after.goals[0].findings), (1, 0));
    assert_eq!(after(&first, &view, 0), [1, 0]);
    assert_eq!((first.changes.len(), first.mb), (1, 0.0));
}

#[test]
fn a_closed_broker_gets_nothing_and_one_without_leadership_no_leader() {
    let partitions: Vec<Vec<i32>> = (0..60).map(|p| vec![p % 2, (p + 1) % 2]).collect();
    let racks = ["a", "b", "c", "d"];
    let mut builder = builder(&racks, &[partitions]);
    builder.close(node(3));
    builder.exclude_from_leadership(node(2));
    let view = builder.build().unwrap();
    let (_, report) = plan(&view, &Goals::default());
    let shares = &report.brokers_after;
    assert_eq!((shares[3].replicas, shares[2].leaders), (0, 0));
    assert!(shares[2].replicas > 20, "{:?}", shares[2]);
}

#[test]
fn a_leader_leaves_a_broker_that_goes_although_nobody_new_may_lead() {
    let mut builder = ViewBuilder::default();
    builder.broker(broker(0, "a", BrokerState::Removed)).unwrap();
    builder.broker(broker(1, "b", BrokerState::Alive)).unwrap();
    builder.broker(broker(2, "c", BrokerState::Alive)).unwrap();
    builder.partition(&topic(0), 0, &[node(0), node(1)], LOAD).unwrap();
    builder.exclude_from_leadership(node(2));
    let view = builder.build().unwrap();
    let (first, report) = plan(&view, &Goals::default());
    assert!(report.after.structure.is_empty());
    assert_eq!(after(&first, &view, 0), [1, 2]);
}

#[test]
fn a_plan_comes_in_waves_with_their_mb() {
    let mut builder = ViewBuilder::default();
    for id in 0..4 {
        let state = if id == 0 { BrokerState::Removed } else { BrokerState::Alive };
        builder.broker(broker(id, &format!("r{id}"), state)).unwrap();
    }
    for number in 0..12 {
        builder.partition(&topic(0), number, &[node(0), node(1)], LOAD).unwrap();
    }
    let view = builder.build().unwrap();
    let (first, _) = plan(&view, &Goals::default());
    let waves = first.waves(WaveLimits { per_broker_max: 5, ..WaveLimits::default() });
    // All of it comes from broker 0, at most five at a time, and each wave takes as long as the others.
    let sizes: Vec<usize> = waves.iter().map(|wave| wave.changes.len()).collect();
    assert_eq!(sizes, [4, 4, 4]);
    assert_eq!((waves[0].busiest_mb, first.busiest_mb()), (400.0, 1200.0));
    assert_eq!(waves.iter().map(|wave| wave.mb).sum::<f64>(), first.mb);
    assert_eq!(waves[0].mb, 400.0);
    assert_eq!(first.waves(WaveLimits { cluster_max: 4, ..WaveLimits::default() }).len(), 3);
}

#[test]
fn full_disks_are_freed_first() {
    // Of 100,000 MB, 80,000 may be used. Broker 0 has 85,000 and broker 1 the largest replica.
    let mut builder = builder(&["a", "b", "c", "d"], &[]);
    let mut number = 0;
    for (broker, count, mb) in [(0, 17, 5_000.0), (1, 1, 9_000.0), (1, 10, 6_000.0), (2, 2, 500.0)]
    {
        for _ in 0..count {
            let load = LeaderLoad { disk_mb: mb, ..LOAD };
            builder.partition(&topic(0), number, &[node(broker)], load).unwrap();
            number += 1;
        }
    }
    let view = builder.build().unwrap();
    let (first, report) = plan(&view, &only(Goal::DiskUsageDistribution));
    assert!(report.after.violated().is_empty());
    let sources: Vec<i32> =
        first.order.iter().map(|at| first.changes[*at].before[0].get()).collect();
    let freed = sources.iter().take_while(|source| **source == 0).count();
    assert!(freed > 0 && freed < sources.len(), "{sources:?}");
    assert!(!sources[freed..].contains(&0), "{sources:?}");
}

#[test]
fn the_bound_is_what_must_move() {
    // Ten of 100 MB on one of two brokers: the range ends at 545, and five are within it.
    let partitions = vec![vec![0]; 10];
    let view = builder(&["a", "b"], &[partitions]).build().unwrap();
    let (first, report) = plan(&view, &only(Goal::DiskUsageDistribution));
    assert_eq!(first.mb, 500.0);
    assert!((report.least_mb - 455.0).abs() < 1e-6, "{}", report.least_mb);
    // A removed broker gives everything.
    let mut builder = ViewBuilder::default();
    for id in 0..3 {
        let state = if id == 0 { BrokerState::Removed } else { BrokerState::Alive };
        builder.broker(broker(id, &format!("r{id}"), state)).unwrap();
    }
    builder.partition(&topic(0), 0, &[node(0), node(1)], LOAD).unwrap();
    let (first, report) = plan(&builder.build().unwrap(), &Goals::default());
    assert_eq!((first.mb, report.least_mb), (100.0, 100.0));
}

#[test]
fn what_is_missing_is_told_with_how_many_brokers_would_do() {
    // Two brokers of 100 000 MB, of which 80 000 may be used, and 250 000 MB to hold.
    let mut builder = ViewBuilder::default();
    for id in 0..2 {
        builder.broker(broker(id, &format!("r{id}"), BrokerState::Alive)).unwrap();
    }
    for number in 0..5 {
        let load = LeaderLoad { disk_mb: 50_000.0, ..LOAD };
        builder.partition(&topic(0), number, &[node(0)], load).unwrap();
    }
    let view = builder.build().unwrap();
    let (_, report) = plan(&view, &Goals::default());
    let hint = report.hints.iter().find(|hint| hint.goal == Some(Goal::DiskCapacity)).unwrap();
    assert_eq!((hint.missing, hint.brokers, hint.broker), (90_000.0, Some(2), Some(node(0))));
    assert_eq!(
        hint.to_string(),
        "DiskCapacityGoal: 90000 MB are missing, most on broker 0; add 2 brokers"
    );
    // Three replicas, and two brokers that stay.
    let mut builder = ViewBuilder::default();
    for id in 0..3 {
        let state = if id == 0 { BrokerState::Removed } else { BrokerState::Alive };
        builder.broker(broker(id, &format!("r{id}"), state)).unwrap();
    }
    builder.partition(&topic(0), 0, &[node(0), node(1), node(2)], LOAD).unwrap();
    let (_, report) = plan(&builder.build().unwrap(), &Goals::default());
    assert_eq!((report.hints[0].goal, report.hints[0].brokers), (None, Some(1)));
}

/// A broker with disks of these capacities, of which some go, and replicas of these disks and sizes.
fn disks(capacities: &[f64], removed: &[usize], replicas: &[(usize, f64)]) -> BrokerDisks {
    let disk = |(at, capacity): (usize, &f64)| DiskSpec {
        path: format!("/data-{at}"),
        capacity_mb: *capacity,
        removed: removed.contains(&at),
    };
    let replica = |(partition, (disk, mb)): (u32, &(usize, f64))| DiskReplica {
        topic: topic(0),
        partition,
        disk: *disk,
        mb: *mb,
    };
    BrokerDisks {
        broker: node(0),
        disks: capacities.iter().enumerate().map(disk).collect(),
        replicas: (0..).zip(replicas).map(replica).collect(),
    }
}

#[test]
fn a_disk_that_goes_is_emptied_and_nothing_else_moves() {
    let broker =
        disks(&[1000.0; 3], &[1], &[(0, 300.0), (1, 200.0), (1, 0.0), (1, 50.0), (2, 100.0)]);
    let (changes, findings) = plan_disks(&broker, DiskGoals::Empty);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(changes.len(), 3);
    assert!(changes.iter().all(|change| change.from == "/data-1"));
    // The largest goes to where there is most room.
    assert_eq!((changes[0].mb, changes[0].to.as_str()), (200.0, "/data-2"));
}

#[test]
fn a_disk_that_cannot_be_emptied_says_how_much_is_missing() {
    let broker = disks(&[1000.0; 2], &[1], &[(0, 700.0), (1, 300.0), (1, 50.0)]);
    let (changes, findings) = plan_disks(&broker, DiskGoals::Empty);
    // The small one fits, the large one does not.
    assert_eq!(changes.len(), 1);
    let DiskFinding::NotEmpty { replicas, missing_mb, .. } = &findings[0] else {
        panic!("{findings:?}");
    };
    assert_eq!((*replicas, *missing_mb), (1, 250.0));
    // The only disk of a broker.
    let (changes, findings) = plan_disks(&disks(&[1000.0], &[0], &[(0, 1.0)]), DiskGoals::Empty);
    assert_eq!((changes.len(), findings.len()), (0, 1));
}

#[test]
fn disks_are_filled_alike_with_few_mb() {
    // 10 of 60 MB on one disk, none on the other: the band is 273 to 327.
    let broker = disks(&[1000.0; 2], &[], &[(0, 60.0); 10]);
    let (changes, findings) = plan_disks(&broker, DiskGoals::Balance);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(changes.iter().map(|change| change.mb).sum::<f64>(), 300.0);
    // By what they can take.
    let broker = disks(&[3000.0, 1000.0], &[], &[(0, 10.0); 40]);
    let (changes, _) = plan_disks(&broker, DiskGoals::Balance);
    let moved: f64 = changes.iter().map(|change| change.mb).sum();
    assert!((90.0..=110.0).contains(&moved), "{moved}");
    // A full disk is relieved, also if nobody asked for balance.
    let broker = disks(&[1000.0; 2], &[], &[(0, 500.0), (0, 400.0)]);
    let (changes, findings) = plan_disks(&broker, DiskGoals::Empty);
    assert_eq!((changes.len(), findings.len()), (1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_plan_for_disks_makes_anything_worse(
        capacities in prop::collection::vec(500.0_f64..2_000.0, 1..5),
        removed in prop::option::of(0_usize..5),
        replicas in prop::collection::vec((0_usize..5, 0.0_f64..200.0), 0..40),
        balance: bool,
    ) {
        let count = capacities.len();
        let replicas: Vec<_> = replicas.iter().map(|(disk, mb)| (disk % count, *mb)).collect();
        let removed: Vec<usize> = removed.into_iter().collect();
        let broker = disks(&capacities, &removed, &replicas);
        let goals = if balance { DiskGoals::Balance } else { DiskGoals::Empty };
        let (changes, findings) = plan_disks(&broker, goals);
        prop_assert_eq!(plan_disks(&broker, goals), (changes.clone(), findings.clone()));
        let before: Vec<usize> = broker.replicas.iter().map(|replica| replica.disk).collect();
        let hard = |finding: &&DiskFinding| !matches!(finding, DiskFinding::Uneven { .. });
        let was = check_disks(&broker, &before, goals);
        prop_assert!(findings.iter().filter(hard).count() <= was.iter().filter(hard).count());
        for change in &changes {
            let to = broker.disks.iter().find(|disk| disk.path == change.to).unwrap();
            prop_assert!(!to.removed && change.from != change.to);
        }
    }

    #[test]
    fn closed_brokers_get_nothing_new(
        partitions in prop::collection::vec(
            prop::sample::subsequence((0..5).collect::<Vec<i32>>(), 1..=3), 1..80),
        closed in 0_i32..5, unled in 0_i32..5,
    ) {
        let mut builder = builder(&["a", "b", "c", "d", "e"], std::slice::from_ref(&partitions));
        builder.close(node(closed));
        builder.exclude_from_leadership(node(unled));
        let view = builder.build().unwrap();
        let goals = Goals::default();
        let (first, report) = plan(&view, &goals);
        prop_assert_eq!(&report.after, &check(&view, &goals, &first.assignment));
        for change in &first.changes {
            prop_assert!(change.before.contains(&node(closed)) || !change.after.contains(&node(closed)));
            prop_assert!(change.before[0] == node(unled) || change.after[0] != node(unled));
        }
    }
}
