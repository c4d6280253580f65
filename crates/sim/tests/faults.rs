//! Rolls of random clusters under faults. A failure prints the cluster and the faults that led to it.
//!
//! Always: no restart takes the min-ISR from a partition that has it, or the majority from the quorum; none deletes what
//! no other node has, or interrupts the recovery of logs; a pod is deleted once. In the end: every pod that should be
//! restarted has been.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};

use control::node::Roles;
use control::rolling::facts::{Recovery, Settings};
use control::rolling::memory::Memory;
use control::rolling::pass::Standing;
use control::rolling::reasons::Reason;
use model::NodeId;
use proptest::prelude::*;
use sim::rolling::{Cluster, Crash, Node, Operator, Partition, Times};

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// Brokers 0 to 8 in three racks, controllers 20 and up.
fn cluster(controllers: i32, partitions: Vec<Partition>) -> Cluster {
    let broker = |number: i32| {
        let rack = Some(format!("r{}", number % 3));
        (id(number), Node { rack, ..Node::up(Roles::Broker, Some(Reason::PodHasOldRevision)) })
    };
    let controller = |number: i32| {
        (id(20 + number), Node::up(Roles::Controller, Some(Reason::PodHasOldRevision)))
    };
    let nodes = (0..9).map(broker).chain((0..controllers).map(controller));
    let mut cluster = Cluster::new(nodes);
    cluster.leader = Some(id(20));
    cluster.partitions = partitions;
    cluster.times = Times { stop_ms: 2_000, start_ms: 4_000, catch_up_ms: 3_000 };
    cluster
}

/// Replication factor 1 to 5, any min-ISR, some moves in flight. What is behind catches up later.
fn any_partition() -> impl Strategy<Value = Partition> {
    let replicas = prop::sample::subsequence((0..9).collect::<Vec<i32>>(), 1..=5);
    let moving = (any::<bool>(), any::<bool>());
    (replicas, 1_usize..4, prop::option::of(0_usize..5), moving).prop_map(
        |(replicas, min_isr, behind, (adds, removes))| {
            let replicas: Vec<NodeId> = replicas.into_iter().map(id).collect();
            let behind = behind.and_then(|at| replicas.get(at)).copied().into_iter().collect();
            let adding = replicas.last().filter(|_| adds && replicas.len() > 1).copied();
            let removing = replicas.first().filter(|_| removes && adding.is_some()).copied();
            let (adding, removing) = (adding.into_iter().collect(), removing.into_iter().collect());
            Partition { replicas, min_isr, behind, adding, removing }
        },
    )
}

/// What goes wrong in a pass.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    Dies(Crash),
    /// Nobody tells about partitions.
    Deaf,
    /// A pod cannot be read.
    Blind(i32),
    /// A move ends.
    MoveEnds(usize),
    /// All that are behind catch up.
    CatchUp,
    /// All records are lost.
    Amnesia,
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Dies(Crash::BeforeRecord)),
        3 => (0_usize..3).prop_map(|acts| Fault::Dies(Crash::AfterActions(acts))),
        1 => Just(Fault::Deaf),
        1 => (0..9).prop_map(Fault::Blind),
        2 => (0_usize..30).prop_map(Fault::MoveEnds),
        1 => Just(Fault::CatchUp),
        1 => Just(Fault::Amnesia),
    ]
}

/// The record as it is stored and read back.
fn stored(memory: &Memory) -> Memory {
    serde_json::from_str(&serde_json::to_string(memory).unwrap()).unwrap()
}

fn live_through(cluster: &mut Cluster, operator: &mut Operator, fault: Fault) {
    let crash = match fault {
        Fault::Dies(crash) => crash,
        Fault::None | Fault::Deaf | Fault::Blind(_) => Crash::Never,
        Fault::MoveEnds(_) | Fault::CatchUp | Fault::Amnesia => Crash::Never,
    };
    match fault {
        Fault::Deaf => cluster.partitions_readable = false,
        Fault::Blind(node) => cluster.node(node).unwrap().readable = false,
        Fault::MoveEnds(partition) => cluster.end_move(partition),
        Fault::CatchUp => cluster.partitions.iter_mut().for_each(|p| p.behind.clear()),
        Fault::Amnesia => operator.memory = Memory::default(),
        Fault::None | Fault::Dies(_) => {}
    }
    let decision = operator.pass(cluster, crash);
    assert_eq!(operator.memory, stored(&operator.memory));
    cluster.partitions_readable = true;
    cluster.nodes.values_mut().for_each(|node| node.readable = true);
    cluster.tick(decision.wait_ms.unwrap_or(1_000).clamp(1, 1_000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_roll_breaks_nothing_and_ends_whatever_happens_to_the_operator(
        partitions in prop::collection::vec(any_partition(), 0..30),
        faults in prop::collection::vec(any_fault(), 0..150),
        controllers in prop::sample::select(vec![1, 3, 5]),
        parallel_max in 1_usize..10,
        join_offline: bool,
    ) {
        let mut cluster = cluster(controllers, partitions);
        let settings = Settings { parallel_max, join_offline, ..Settings::default() };
        let mut operator = Operator { settings, ..Operator::default() };
        for fault in faults {
            live_through(&mut cluster, &mut operator, fault);
        }
        // What is behind catches up in the end, and moves end.
        cluster.partitions.iter_mut().for_each(|partition| partition.behind.clear());
        (0..cluster.partitions.len()).for_each(|at| cluster.end_move(at));
        let decision = operator.run(&mut cluster, 3_600_000);
        prop_assert_eq!(decision.standing, Standing::Settled, "{:?}", decision.why);
        prop_assert_eq!(&cluster.broken, &Vec::<String>::new());
        let once: BTreeSet<NodeId> = cluster.restarts.iter().copied().collect();
        prop_assert_eq!(once.len(), cluster.restarts.len(), "{:?}", cluster.restarts);
        prop_assert!(cluster.nodes.values().all(|node| node.reasons.is_empty()));
        prop_assert_eq!(operator.memory, Memory::default());
    }
}

/// What is the matter with a node until it has been restarted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Kafka does not run, and the node says this of itself.
    Down(Recovery),
    /// Kafka runs, the pod is not ready, and the node says this of itself.
    Unready(Recovery),
    /// Its container crash-loops, and its pod is out of date.
    CrashLoop,
    /// Its machine is gone.
    Dead,
}

fn any_trouble() -> impl Strategy<Value = Trouble> {
    let left = Recovery::Yes { logs: 1, segments: 1 };
    let down = vec![Recovery::Starting, Recovery::Hung, Recovery::Unknown, left];
    let unready = vec![Recovery::No, Recovery::Hung, Recovery::Unknown];
    prop_oneof![
        6 => Just(Trouble::None),
        3 => prop::sample::select(down).prop_map(Trouble::Down),
        3 => prop::sample::select(unready).prop_map(Trouble::Unready),
        2 => Just(Trouble::CrashLoop),
        1 => Just(Trouble::Dead),
    ]
}

impl Trouble {
    fn begins(self, node: &mut Node) {
        node.reasons.clear();
        match self {
            Self::None => {}
            Self::Down(said) => node.recovery = said,
            Self::Unready(said) => (node.recovery, node.probes_fail) = (said, true),
            Self::CrashLoop => {
                node.reasons.insert(Reason::PodHasOldRevision);
                node.waiting = Some("CrashLoopBackOff".to_owned());
            }
            Self::Dead => node.dead = true,
        }
    }
}

/// A quorum has a leader while a majority of its voters runs, and only brokers that know of one are believed.
fn lead(cluster: &mut Cluster) {
    let voters = || cluster.nodes.iter().filter(|(_, node)| node.roles.is_controller());
    let up: Vec<NodeId> = voters().filter(|(_, node)| node.runs()).map(|(id, _)| *id).collect();
    let leads = up.len() > voters().count() / 2;
    cluster.leader = cluster.leader.filter(|leader| up.contains(leader)).or(up.first().copied());
    cluster.leader = cluster.leader.filter(|_| leads);
    let is_witness = |node: &Node| node.roles.is_broker() && node.runs();
    cluster.quorum_readable = leads;
    cluster.partitions_readable = leads && cluster.nodes.values().any(is_witness);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn restarts_of_nodes_in_trouble_take_nothing_from_others(
        partitions in prop::collection::vec(any_partition(), 0..30),
        troubles in prop::collection::vec((any_trouble(), any::<bool>()), 14),
        asked in prop::collection::vec(any::<bool>(), 14),
        controllers in prop::sample::select(vec![1, 3, 5]),
        parallel_max in 1_usize..10,
    ) {
        let mut cluster = cluster(controllers, partitions);
        // A move does not end while a broker that it adds is down: whole rolls have moves.
        for partition in &mut cluster.partitions {
            (partition.adding, partition.removing) = (vec![], vec![]);
        }
        let nodes = cluster.nodes.values_mut().zip(troubles.iter().zip(asked));
        for (node, ((trouble, ephemeral), asked)) in nodes {
            trouble.begins(node);
            node.ephemeral = *ephemeral;
            node.reasons.extend(asked.then_some(Reason::ManualRollingUpdate));
        }
        let settings = Settings { parallel_max, ..Settings::default() };
        let mut operator = Operator { settings, ..Operator::default() };
        operator.run_with(&mut cluster, 1_500_000, |cluster| {
            for node in cluster.nodes.values_mut().filter(|node| node.pods > 0) {
                (node.recovery, node.probes_fail) = (Recovery::No, false);
            }
            lead(cluster);
        });
        prop_assert_eq!(&cluster.broken, &Vec::<String>::new(), "{:?}", troubles);
        let once: BTreeSet<NodeId> = cluster.restarts.iter().copied().collect();
        prop_assert_eq!(once.len(), cluster.restarts.len(), "{:?}", cluster.restarts);
    }
}

/// What another replica of the API server, or a cache, still shows of the pods.
#[test]
fn stale_facts_delete_no_pod_twice() {
    let replicas = |at: i32| [at, (at + 1) % 9, (at + 2) % 9].map(id).to_vec();
    let partition = |at| Partition {
        replicas: replicas(at),
        min_isr: 2,
        behind: BTreeSet::new(),
        adding: vec![],
        removing: vec![],
    };
    for age in [1, 3, 10, 30] {
        let mut cluster = cluster(3, (0..9).map(partition).collect());
        let mut operator = Operator::default();
        let mut seen = Vec::new();
        for pass in 0..2_000 {
            seen.push(cluster.facts(Memory::default()));
            let mut facts = cluster.facts(operator.memory.clone());
            if pass % 3 == 0 && pass >= age {
                facts.nodes = seen[pass - age].nodes.clone();
            }
            operator.pass_on(&facts, &mut cluster, Crash::Never);
            cluster.tick(1_000);
        }
        let counts = cluster.restarts.iter().fold(BTreeMap::new(), |mut counts, node| {
            *counts.entry(*node).or_insert(0) += 1;
            counts
        });
        assert_eq!(counts.len(), 12, "{age}");
        assert!(counts.values().all(|count| *count == 1), "{age}: {counts:?}");
        assert_eq!(cluster.broken, Vec::<String>::new(), "{age}");
    }
}

#[test]
fn a_node_that_never_comes_back_stops_the_roll_and_nothing_is_broken() {
    let mut cluster = cluster(3, vec![]);
    let gone = |c: &mut Cluster| {
        let node = c.node(4).unwrap();
        node.never_ready = node.pods > 0;
    };
    let mut operator = Operator::default();
    let decision = operator.run_with(&mut cluster, 3_600_000, gone);
    assert_eq!(decision.standing, Standing::Stopped);
    assert_eq!(cluster.restarts.last(), Some(&id(4)));
    assert_eq!(decision.progress.left, [5, 6, 7, 8].map(id));
    // It comes back after all, and the roll goes on by itself.
    cluster.node(4).unwrap().never_ready = false;
    assert_eq!(operator.run(&mut cluster, 3_600_000).standing, Standing::Settled);
    assert_eq!(cluster.restarts.len(), 12);
}

#[test]
fn a_restart_that_was_recorded_long_ago_is_taken_back_if_it_is_not_safe_any_more() {
    let partition = Partition {
        replicas: [0, 1, 2].map(id).to_vec(),
        min_isr: 2,
        behind: BTreeSet::new(),
        adding: vec![],
        removing: vec![],
    };
    let mut cluster = cluster(1, vec![partition]);
    cluster.nodes.values_mut().for_each(|node| node.reasons.clear());
    cluster.node(0).unwrap().reasons.insert(Reason::ManualRollingUpdate);
    let mut operator = Operator::default();
    operator.pass(&mut cluster, Crash::AfterActions(0));
    assert_eq!(operator.batches, [[id(0)]]);
    // The operator is away; meanwhile another replica falls behind.
    cluster.tick(3_600_000);
    cluster.partitions[0].behind.insert(id(2));
    operator.run(&mut cluster, 60_000);
    assert!(cluster.restarts.is_empty());
    // It catches up.
    cluster.partitions[0].behind.clear();
    assert_eq!(operator.run(&mut cluster, 600_000).standing, Standing::Settled);
    assert_eq!(cluster.restarts, [id(0)]);
}

#[test]
fn a_pool_is_restarted_once_when_its_set_is_annotated() {
    let mut cluster = cluster(1, vec![]);
    for node in cluster.nodes.values_mut() {
        node.reasons.clear();
        node.annotated = node.roles == Roles::Broker;
        node.pool = format!("{}", node.roles);
    }
    let mut operator = Operator::default();
    let decision = operator.run(&mut cluster, 3_600_000);
    assert_eq!(decision.standing, Standing::Settled);
    assert_eq!(cluster.restarts, (0..9).map(id).collect::<Vec<_>>());
    assert!(cluster.nodes.values().all(|node| !node.annotated));
    assert_eq!(operator.memory, Memory::default());
}

#[test]
fn the_next_controller_waits_for_the_voters_to_be_those_that_should_be() {
    for unsettled in [Some(false), None] {
        let mut cluster = cluster(3, vec![]);
        cluster.nodes.retain(|_, node| node.roles == Roles::Controller);
        let unsettle = |c: &mut Cluster| {
            let once = c.restarts.len() == 1;
            c.quorum_settled = if once { unsettled } else { Some(true) };
        };
        let mut operator = Operator::default();
        let decision = operator.run_with(&mut cluster, 3_600_000, unsettle);
        assert_eq!(cluster.restarts, [id(21)]);
        assert!(decision.why[0].to_string().contains("the voters are being changed first"));
        // The roll counts as failed after a while, and goes on as soon as it can.
        assert_eq!(decision.standing, Standing::Failed);
        cluster.quorum_settled = Some(true);
        assert_eq!(operator.run(&mut cluster, 3_600_000).standing, Standing::Settled);
    }
}

#[test]
fn racks_go_together_where_partitions_are_spread_over_them() {
    let partition = |at: i32| Partition {
        replicas: [at, (at + 1) % 9, (at + 2) % 9].map(id).to_vec(),
        min_isr: 2,
        behind: BTreeSet::new(),
        adding: vec![],
        removing: vec![],
    };
    let mut cluster = cluster(1, (0..9).map(partition).collect());
    let settings = Settings { parallel_max: 100, ..Settings::default() };
    let mut operator = Operator { settings, ..Operator::default() };
    let decision = operator.run(&mut cluster, 3_600_000);
    assert_eq!(decision.standing, Standing::Settled);
    let sizes: Vec<usize> = operator.batches.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 3, 3, 3]);
}
