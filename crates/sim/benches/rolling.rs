//! A roll of 1,000 brokers with 100,000 partitions, replication factor 3 and min-ISR 2: in how many
//! batches, against how many there must be at least, and how long a decision takes.
//!
//! "not told" is in racks of which the operator does not know.
//!
//! `cargo bench -p sim --bench rolling`. A number of batches above the bar fails it.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark reads the clock and prints"
)]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use control::node::Roles;
use control::rolling::facts::Settings;
use control::rolling::memory::Memory;
use control::rolling::pass::{Action, decide};
use control::rolling::reasons::Reason;
use model::NodeId;
use sim::rolling::{Cluster, Node, Partition};

const BROKERS: i32 = 1_000;
const PARTITIONS: usize = 100_000;
const RACKS: i32 = 3;
/// How many times as many batches as there must be at least, where replicas are spread over racks.
const BAR: f64 = 1.2;

/// The same numbers every time: a linear congruential generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: i32) -> i32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i32::try_from((self.0 >> 33) % u64::from(end.unsigned_abs())).unwrap_or(0)
    }
}

/// Three brokers in three racks.
fn in_racks(numbers: &mut Numbers) -> Vec<i32> {
    let in_rack = |rack: i32, numbers: &mut Numbers| {
        let size = (BROKERS - rack + RACKS - 1) / RACKS;
        rack + RACKS * numbers.below(size)
    };
    (0..RACKS).map(|rack| in_rack(rack, numbers)).collect()
}

/// Three brokers anywhere.
fn anywhere(numbers: &mut Numbers) -> Vec<i32> {
    let mut brokers = BTreeSet::new();
    while brokers.len() < 3 {
        brokers.insert(numbers.below(BROKERS));
    }
    brokers.into_iter().collect()
}

/// Three brokers next to each other, as a simple round robin has them.
fn in_a_row(numbers: &mut Numbers) -> Vec<i32> {
    let first = numbers.below(BROKERS);
    (0..3).map(|next| (first + next) % BROKERS).collect()
}

fn cluster(place: impl Fn(&mut Numbers) -> Vec<i32>, told: bool) -> Cluster {
    let node = |id: i32| {
        let rack = told.then(|| format!("rack-{}", id % RACKS));
        let node = Node { rack, ..Node::up(Roles::Broker, Some(Reason::PodHasOldRevision)) };
        NodeId::new(id).map(|id| (id, node))
    };
    let mut cluster = Cluster::new((0..BROKERS).filter_map(node));
    let mut numbers = Numbers(7);
    let partition = |_| Partition {
        replicas: place(&mut numbers).into_iter().filter_map(NodeId::new).collect(),
        min_isr: 2,
        behind: BTreeSet::new(),
        adding: Vec::new(),
        removing: Vec::new(),
    };
    cluster.partitions = (0..PARTITIONS).map(partition).collect();
    cluster
}

/// Brokers of which no two can be restarted together: there must be a batch for each. Found greedily, so
/// there may be more.
fn batches_at_least(cluster: &Cluster) -> usize {
    let size = usize::try_from(BROKERS).unwrap_or(0);
    let mut share = vec![vec![false; size]; size];
    let index = |id: &NodeId| usize::try_from(id.get()).unwrap_or(0);
    for partition in &cluster.partitions {
        for a in partition.replicas.iter().map(index) {
            for b in partition.replicas.iter().map(index).filter(|b| *b != a) {
                share[a][b] = true;
            }
        }
    }
    let degree = |at: &usize| share[*at].iter().filter(|shares| **shares).count();
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by_key(|at| std::cmp::Reverse(degree(at)));
    let from = |first: usize| {
        let mut clique = vec![first];
        for at in &order {
            if clique.iter().all(|member| share[*member][*at]) {
                clique.push(*at);
            }
        }
        clique.len()
    };
    order.iter().map(|first| from(*first)).max().unwrap_or(0)
}

/// Restarts all, each batch as soon as the one before is well; the sizes, and how long each decision took.
fn roll(cluster: &mut Cluster, parallel_max: usize) -> (Vec<usize>, Vec<Duration>) {
    let settings = Settings { parallel_max, ..Settings::default() };
    let (mut sizes, mut took) = (Vec::new(), Vec::new());
    loop {
        let facts = cluster.facts(Memory::default());
        let begin = Instant::now();
        let decision = decide(&facts, &settings, cluster.now_ms);
        let elapsed = begin.elapsed();
        let restarted: Vec<NodeId> = decision
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Restart { node, .. } => Some(*node),
                Action::UpdateNode { .. }
                | Action::UpdateCluster { .. }
                | Action::ElectPreferred { .. }
                | Action::ClearManual { .. } => None,
            })
            .collect();
        if restarted.is_empty() {
            return (sizes, took);
        }
        took.push(elapsed);
        sizes.push(restarted.len());
        // They have stopped, started and caught up.
        for node in restarted {
            if let Some(node) = cluster.nodes.get_mut(&node) {
                node.reasons.clear();
            }
        }
    }
}

type Place = fn(&mut Numbers) -> Vec<i32>;

fn main() -> ExitCode {
    println!("{BROKERS} brokers, {PARTITIONS} partitions, replication factor 3, min-ISR 2");
    println!(
        "{:<12} {:>8} {:>9} {:>6} {:>11} {:>9} {:>12} {:>12}",
        "placement",
        "batches",
        "at least",
        "ratio",
        "one by one",
        "largest",
        "median ms",
        "longest ms"
    );
    let cases: [(&str, Place, bool); 4] = [
        ("in racks", in_racks, true),
        ("not told", in_racks, false),
        ("in a row", in_a_row, true),
        ("random", anywhere, true),
    ];
    let mut code = ExitCode::SUCCESS;
    for (name, place, told) in cases {
        let mut cluster = cluster(place, told);
        let least = batches_at_least(&cluster);
        let (sizes, mut took) = roll(&mut cluster, usize::MAX);
        let restarted: usize = sizes.iter().sum();
        let ratio = sizes.len() as f64 / least as f64;
        let ms = |duration: Duration| duration.as_secs_f64() * 1_000.0;
        took.sort();
        let median = took.get(took.len() / 2).copied().map(ms).unwrap_or_default();
        let longest = took.last().copied().map(ms).unwrap_or_default();
        println!(
            "{name:<12} {:>8} {least:>9} {ratio:>6.2} {BROKERS:>11} {:>9} {median:>12.1} {longest:>12.1}",
            sizes.len(),
            sizes.iter().max().unwrap_or(&0),
        );
        let whole = i32::try_from(restarted) == Ok(BROKERS);
        if !whole || (name == "in racks" && ratio > BAR) {
            println!("{name}: {restarted} restarted, {ratio:.2} times as many batches as at least");
            code = ExitCode::FAILURE;
        }
    }
    code
}
