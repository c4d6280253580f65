//! A small cluster, and what is known of it.

use placement::{Change, Goal, Goals, plan};

use super::*;

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

const MB: u64 = 1 << 20;

/// Two brokers. `a` has two partitions led by 1 and followed by 2; `b` has one on 2 alone.
fn sample(at_ms: u64, ends: [u64; 3]) -> Sample {
    let seen = |number: u32, replicas: &[i32], end: u64| PartitionSeen {
        id: number,
        replicas: replicas.iter().map(|one| id(*one)).collect(),
        leader: Some(id(replicas[0])),
        offsets: Some((0, end)),
    };
    let name = |of: &str, number: i32| TopicPartition::new(topic(of), number);
    let dir = |replicas: Vec<(TopicPartition, u64)>| DirSeen {
        path: "/d".to_owned(),
        total_bytes: Some(1_000 * MB),
        replicas,
    };
    let broker = |replicas, rack: &str| BrokerSeen {
        rack: Some(rack.to_owned()),
        dirs: Some(vec![dir(replicas)]),
        ..BrokerSeen::default()
    };
    let one = vec![(name("a", 0), 20 * MB), (name("a", 1), 10 * MB)];
    // A follower is a little behind.
    let two = vec![(name("a", 0), 19 * MB), (name("a", 1), 10 * MB), (name("b", 0), 0)];
    Sample {
        at_ms,
        brokers: BTreeMap::from([(id(1), broker(one, "x")), (id(2), broker(two, "y"))]),
        topics: BTreeMap::from([
            (topic("a"), vec![seen(0, &[1, 2], ends[0]), seen(1, &[1, 2], ends[1])]),
            (topic("b"), vec![seen(0, &[2], ends[2])]),
        ]),
    }
}

fn counters(at_ms: u64, cpu_seconds: f64, out: &[(&str, f64)]) -> Option<Counters> {
    let bytes_out = out.iter().map(|(name, bytes)| (topic(name), *bytes)).collect();
    Some(Counters { at_ms, cpu_seconds, bytes_out })
}

fn given() -> Given {
    let some = Some(10_000.0);
    Given { cpu_cores: Some(4.0), network_in_kb: some, network_out_kb: some, disk_mb: None }
}

fn options() -> LoadOptions<'static> {
    let capacities = BTreeMap::from([(id(1), given()), (id(2), given())]);
    LoadOptions { capacities, ..LoadOptions::default() }
}

/// What each broker has, as the optimizer counts it: MB, KB in, KB out, percent of a core.
fn shares(loaded: &Loaded) -> Vec<[f64; 4]> {
    let goals = Goals::new(vec![Goal::ReplicaCapacity], true).unwrap();
    let (_, report) = plan(&loaded.view, &goals);
    let share = |share: &placement::BrokerShare| {
        [share.disk_mb, share.network_in_kb, share.network_out_kb, share.cpu_percent]
    };
    report.brokers_before.iter().map(share).collect()
}

fn assert_near(found: &[[f64; 4]], expected: &[[f64; 4]]) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
    let same = found.len() == expected.len()
        && found.iter().flatten().zip(expected.iter().flatten()).all(near);
    assert!(same, "{found:?} is not {expected:?}");
}

#[test]
fn rates_are_what_the_model_says() {
    let mut before = sample(10_000, [10_240, 10_240, 0]);
    let mut now = sample(20_000, [20_480, 10_240, 0]);
    for (one, two, seen) in [(1.0, 5.0, &mut before), (5.0, 5.0, &mut now)] {
        let at_ms = seen.at_ms;
        let out = if at_ms == 10_000 { 0.0 } else { 10.0 * 1_024.0 * 300.0 };
        seen.brokers.get_mut(&id(1)).unwrap().counters = counters(at_ms, one, &[("a", out)]);
        seen.brokers.get_mut(&id(2)).unwrap().counters = counters(at_ms, two, &[]);
    }
    let loaded = load(&now, Some(&before.mark()), &options()).unwrap();
    assert_eq!(loaded.unknown, []);
    // 10240 records of 1 KB in ten seconds; consumers got 300 KB a second, a follower what came in. Forty
    // percent of a core by traffic: 0.7 × 1024 + 0.15 × 1324 for the leader, who is alone.
    let cpu = 40.0;
    let traffic = 0.7 * 1_024.0 + 0.15 * 1_324.0;
    let follower = cpu * 0.15 * 1_024.0 / traffic;
    assert_near(&shares(&loaded), &[[30.0, 1_024.0, 1_324.0, cpu], [30.0, 1_024.0, 0.0, follower]]);
}

#[test]
fn what_is_not_known_is_said_and_no_goal_rests_on_it() {
    let now = sample(20_000, [20_480, 10_240, 5]);
    let only_in = [Rate::Outbound, Rate::Cpu];
    let all = [Rate::Inbound, Rate::Outbound, Rate::Cpu];
    let check = |earlier: Option<Sample>,
                 options: &LoadOptions<'_>,
                 unknown: &[Unknown],
                 rates: &[Rate]| {
        let mark = earlier.map(|earlier| earlier.mark());
        let loaded = load(&now, mark.as_ref(), options).unwrap();
        assert_eq!(loaded.unknown, unknown);
        assert_eq!(loaded.unknown_rates(), rates);
        assert!(!unknown.iter().any(|one| one.to_string().is_empty()));
    };
    let early = || Some(sample(10_000, [10_240, 10_240, 0]));
    check(None, &options(), &[Unknown::TooEarly], &all);
    // The same moment again is no second sample.
    check(Some(now.clone()), &options(), &[Unknown::TooEarly], &all);
    let metrics = Unknown::Metrics { brokers: vec![id(1), id(2)] };
    check(early(), &options(), std::slice::from_ref(&metrics), &only_in);
    let mut without_b = sample(10_000, [10_240, 10_240, 0]);
    without_b.topics.remove(&topic("b"));
    let offsets = Unknown::Offsets { partitions: 1, of: 3 };
    check(Some(without_b), &options(), &[offsets, metrics.clone()], &all);
    let mut poor = options();
    poor.capacities.insert(id(2), Given { network_in_kb: None, ..given() });
    let capacity = Unknown::Capacity { rate: Rate::Inbound, brokers: vec![id(2)] };
    check(early(), &poor, &[metrics.clone(), capacity], &all);
    // One that leaves needs none.
    poor.removed.insert(id(2));
    check(early(), &poor, &[metrics], &only_in);
    assert_eq!(Unknown::Offsets { partitions: 5, of: 1_000 }.rates(), []);
}

#[test]
fn a_broker_that_restarted_and_a_topic_made_anew_begin_at_nothing() {
    let mut before = sample(10_000, [90_000, 10_240, 0]);
    let mut now = sample(20_000, [20_480, 10_240, 0]);
    let seen = |cpu, sample: &mut Sample| {
        for broker in [1, 2] {
            let at_ms = sample.at_ms;
            let counters = counters(at_ms, cpu, &[("a", cpu * 10_240.0)]);
            sample.brokers.get_mut(&id(broker)).unwrap().counters = counters;
        }
    };
    seen(9.0, &mut before);
    seen(1.0, &mut now);
    let loaded = load(&now, Some(&before.mark()), &options()).unwrap();
    let shares = shares(&loaded);
    // All 20480 records of the new topic, and all that the new process has sent and computed.
    assert!((shares[0][1] - 2_048.0).abs() < 1e-6, "{shares:?}");
    assert!((shares[0][2] - 2_049.0).abs() < 1e-6, "{shares:?}");
    assert!((shares[0][3] - 10.0).abs() < 1e-6, "{shares:?}");
}

#[test]
fn a_broker_is_emptied_without_any_rate_and_nothing_goes_to_one_that_is_down() {
    let mut now = sample(20_000, [20_480, 10_240, 5]);
    let third = BrokerSeen { rack: Some("z".to_owned()), ..now.brokers[&id(2)].clone() };
    let fenced = BrokerSeen { fenced: true, dirs: None, ..BrokerSeen::default() };
    now.brokers.insert(id(3), BrokerSeen { dirs: Some(vec![DirSeen::default()]), ..third });
    now.brokers.insert(id(4), fenced);
    let options = LoadOptions { removed: BTreeSet::from([id(2)]), ..LoadOptions::default() };
    let loaded = load(&now, None, &options).unwrap();
    assert_eq!(loaded.fenced, BTreeSet::from([id(4)]));
    let goals = Goals::default().without(&loaded.unknown_rates());
    let (plan, report) = plan(&loaded.view, &goals);
    assert!(report.after.is_acceptable());
    let to = |change: &Change| change.after.clone();
    assert!(plan.changes.iter().map(to).all(|after| !after.contains(&id(2))), "{plan:?}");
    assert!(plan.changes.iter().map(to).all(|after| !after.contains(&id(4))), "{plan:?}");
    assert_eq!(plan.changes.len(), 3);
}

#[test]
fn a_broker_that_kafka_has_forgotten_is_gone_and_partitions_keep_their_preferred_leader() {
    let mut now = sample(20_000, [20_480, 10_240, 5]);
    let a = now.topics.get_mut(&topic("a")).unwrap();
    a[0].replicas = vec![id(1), id(9)];
    a[1].leader = Some(id(2));
    let third = BrokerSeen { rack: Some("z".to_owned()), ..now.brokers[&id(2)].clone() };
    now.brokers.insert(id(3), third);
    let loaded = load(&now, None, &LoadOptions::default()).unwrap();
    let wanted = vec![Goal::RackAware, Goal::PreferredLeaderElection];
    let goals = Goals::new(wanted, true).unwrap();
    let (plan, _) = plan(&loaded.view, &goals);
    let changed = |number: u32| {
        let of = |change: &&Change| change.topic == topic("a") && change.partition == number;
        plan.changes.iter().find(of).map(|change| change.after.clone())
    };
    assert!(changed(0).is_some_and(|after| !after.contains(&id(9))), "{plan:?}");
    assert_eq!(changed(1), Some(vec![id(1), id(2)]));
}

#[test]
fn disks_that_are_to_be_emptied_are_marked() {
    let mut now = sample(20_000, [20_480, 10_240, 5]);
    let second =
        DirSeen { path: "/e".to_owned(), total_bytes: Some(500 * MB), replicas: Vec::new() };
    now.brokers.get_mut(&id(1)).unwrap().dirs.as_mut().unwrap().push(second);
    let removed_disks = BTreeSet::from([(id(1), "/d".to_owned())]);
    let loaded =
        load(&now, None, &LoadOptions { removed_disks, ..LoadOptions::default() }).unwrap();
    let (changes, found) = placement::plan_disks(&loaded.disks[0], placement::DiskGoals::Empty);
    assert_eq!(found, []);
    let to: Vec<(&str, &str)> =
        changes.iter().map(|change| (change.from.as_str(), change.to.as_str())).collect();
    assert_eq!(to, [("/d", "/e"), ("/d", "/e")]);
}
