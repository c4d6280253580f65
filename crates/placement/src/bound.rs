//! A lower bound of the data that a plan moves.
//!
//! Whatever the assignment, a replica on a removed broker moves, one of two in a rack moves, a broker with too
//! much of something gives the difference, and one with too little takes it. Where a quantity is not MB, the
//! replicas with the fewest MB per unit would go, and the last one only in part, so that no plan needs less.
//! Only goals that the plan satisfies count: the others could ask for anything.
//!
//! Shares no code with the search.

use crate::check::Judgement;
use crate::goals::{
    BAND, DISK_SHARE, Goal, NETWORK_SHARE, REPLICAS_MAX, TOPIC_BAND, TOPIC_GAP_MAX, TOPIC_GAP_MIN,
};
use crate::view::View;

/// The quantities that only moves of replicas change: disk, inbound, replicas, potential outbound.
const KINDS: usize = 4;
type Amounts = [f64; KINDS];

/// MB that any assignment moves which satisfies the goals that are satisfied here.
pub(crate) fn least_mb(view: &View, after: &Judgement) -> f64 {
    let holds =
        |goal: Goal| after.goals.iter().any(|state| state.goal == goal && state.findings == 0);
    let sums = sums(view);
    let (low, high) = limits(view, &sums, &holds);
    let topics = if holds(Goal::TopicReplicaDistribution) { crowded(view) } else { Vec::new() };
    let leaving = leaving(view, &sums, &high, &topics);
    leaving.max(forced(view, &holds)).max(entering(view, &sums, &low))
}

fn amounts(view: &View, partition: usize) -> Amounts {
    let load = &view.load[partition];
    [load.disk, load.inbound, 1.0, load.outbound]
}

fn sums(view: &View) -> Vec<Amounts> {
    let mut sums = vec![[0.0; KINDS]; view.brokers.len()];
    for partition in 0..view.partitions() {
        let amounts = amounts(view, partition);
        for broker in &view.replicas[view.slots(partition)] {
            let sum = &mut sums[usize::from(*broker)];
            sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
    }
    sums
}

/// What brokers must have at least and at most.
fn limits(
    view: &View,
    sums: &[Amounts],
    holds: &dyn Fn(Goal) -> bool,
) -> (Vec<Amounts>, Vec<Amounts>) {
    let live: Vec<usize> = view.live().collect();
    let capacity = |broker: usize| {
        let capacity = &view.brokers[broker].capacity;
        [capacity.disk_mb, capacity.network_in_kb, 1.0, capacity.network_out_kb]
    };
    let (mut total, mut all) = ([0.0; KINDS], [0.0; KINDS]);
    for k in 0..KINDS {
        total[k] = sums.iter().map(|sum| sum[k]).sum();
        all[k] = live.iter().map(|broker| capacity(*broker)[k]).sum();
    }
    let goals = [
        (Goal::DiskUsageDistribution, Goal::DiskCapacity, DISK_SHARE),
        (Goal::NetworkInboundUsageDistribution, Goal::NetworkInboundCapacity, NETWORK_SHARE),
        (Goal::ReplicaDistribution, Goal::ReplicaCapacity, REPLICAS_MAX),
    ];
    let mut low = vec![[0.0; KINDS]; sums.len()];
    let mut high = vec![[f64::INFINITY; KINDS]; sums.len()];
    for &broker in &live {
        let own = capacity(broker);
        for (k, (even, limited, share)) in goals.into_iter().enumerate() {
            if holds(even) && all[k] > 0.0 {
                let fair = total[k] / all[k] * own[k];
                let counts = k == 2;
                let (least, most) = (fair * (1.0 - BAND), fair * (1.0 + BAND));
                low[broker][k] = if counts { least.floor() } else { least };
                high[broker][k] = if counts { most.ceil() } else { most };
            }
            if holds(limited) {
                high[broker][k] = high[broker][k].min(own[k] * share);
            }
        }
        if holds(Goal::PotentialNwOut) {
            high[broker][3] = own[3] * NETWORK_SHARE;
        }
        if view.closed[broker] {
            low[broker] = [0.0; KINDS];
        }
    }
    (low, high)
}

/// Replicas that cannot stay: on removed brokers, or too many in a rack.
fn forced(view: &View, holds: &dyn Fn(Goal) -> bool) -> f64 {
    let racks = view.racks().len().max(1);
    let mut mb = 0.0;
    for partition in 0..view.partitions() {
        let brokers = &view.replicas[view.slots(partition)];
        let most = if holds(Goal::RackAware) {
            1
        } else if holds(Goal::RackAwareDistribution) {
            brokers.len().div_ceil(racks)
        } else {
            brokers.len()
        };
        let rack = |at: usize| view.rack[usize::from(brokers[at])];
        let is_live = |at: usize| view.is_live(usize::from(brokers[at]));
        let must_go = |at: &usize| {
            let before = (0..*at).filter(|other| is_live(*other) && rack(*other) == rack(*at));
            !is_live(*at) || before.count() >= most
        };
        let count = (0..brokers.len()).filter(must_go).count();
        mb += view.load[partition].disk * count as f64;
    }
    mb
}

/// MB that must leave brokers, each with what it has too much of.
fn leaving(view: &View, sums: &[Amounts], high: &[Amounts], topics: &[f64]) -> f64 {
    let excess = |broker: usize, k: usize| sums[broker][k] - high[broker][k];
    let mut of_broker: Vec<Vec<u32>> = vec![Vec::new(); sums.len()];
    let picks = |broker: usize| view.is_live(broker) && (1..KINDS).any(|k| excess(broker, k) > 0.0);
    let picked: Vec<bool> = (0..sums.len()).map(picks).collect();
    if picked.contains(&true) {
        for partition in 0..view.partitions() {
            for broker in &view.replicas[view.slots(partition)] {
                if picked[usize::from(*broker)] {
                    of_broker[usize::from(*broker)].push(partition as u32);
                }
            }
        }
    }
    let mut mb = 0.0;
    for broker in 0..sums.len() {
        if !view.is_live(broker) {
            mb += sums[broker][0];
            continue;
        }
        let mut most = excess(broker, 0).max(0.0).max(topics.get(broker).copied().unwrap_or(0.0));
        for k in 1..KINDS {
            if excess(broker, k) > 0.0 {
                let cheapest = Cheapest::of(view, of_broker[broker].iter().copied(), k);
                most = most.max(cheapest.mb(excess(broker, k)));
            }
        }
        mb += most;
    }
    mb
}

/// MB that must enter brokers, each with what it lacks.
fn entering(view: &View, sums: &[Amounts], low: &[Amounts]) -> f64 {
    let lack = |broker: usize, k: usize| low[broker][k] - sums[broker][k];
    let live: Vec<usize> = view.live().collect();
    let mut most: Vec<f64> = live.iter().map(|broker| lack(*broker, 0).max(0.0)).collect();
    for k in 1..KINDS {
        if live.iter().all(|broker| lack(*broker, k) <= 0.0) {
            continue;
        }
        // A broker takes at most one replica of each partition.
        let cheapest = Cheapest::of(view, 0..view.partitions() as u32, k);
        for (most, broker) in most.iter_mut().zip(&live) {
            *most = most.max(cheapest.mb(lack(*broker, k)));
        }
    }
    most.into_iter().sum()
}

/// Partitions by their MB per unit of a quantity: sums of both, the cheapest first.
struct Cheapest(Vec<(f64, f64)>);

impl Cheapest {
    fn of(view: &View, partitions: impl Iterator<Item = u32>, k: usize) -> Self {
        let both = |partition: u32| {
            let amounts = amounts(view, partition as usize);
            (amounts[k], amounts[0])
        };
        let mut all: Vec<(f64, f64)> =
            partitions.map(both).filter(|(amount, _)| *amount > 0.0).collect();
        all.sort_unstable_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
        let mut sum = (0.0, 0.0);
        for each in &mut all {
            sum = (sum.0 + each.0, sum.1 + each.1);
            *each = sum;
        }
        Self(all)
    }

    /// The fewest MB with so much of the quantity.
    fn mb(&self, amount: f64) -> f64 {
        if amount <= 0.0 {
            return 0.0;
        }
        let at = self.0.partition_point(|(sum, _)| *sum < amount);
        let before = if at > 0 { self.0[at - 1] } else { (0.0, 0.0) };
        let Some(next) = self.0.get(at) else { return before.1 };
        let part = (amount - before.0) / (next.0 - before.0);
        before.1 + part * (next.1 - before.1)
    }
}

/// For each broker, the MB of the smallest replicas by which topics exceed their limit there.
fn crowded(view: &View) -> Vec<f64> {
    let live = view.live().count() as f64;
    let mut mb = vec![0.0; view.brokers.len()];
    let mut of_broker: Vec<Vec<f64>> = vec![Vec::new(); view.brokers.len()];
    let mut first = 0;
    while first < view.partitions() {
        let topic = view.topic_of[first];
        let mut end = first;
        while view.topic_of.get(end) == Some(&topic) {
            end += 1;
        }
        let slots = view.slots(first).start..view.slots(end - 1).end;
        let mean = slots.len() as f64 / live;
        let (least, most) = (mean.ceil() + TOPIC_GAP_MIN, mean.ceil() + TOPIC_GAP_MAX);
        let high = (mean * (1.0 + TOPIC_BAND)).ceil().clamp(least, most) as usize;
        if end - first > high {
            for partition in first..end {
                for broker in &view.replicas[view.slots(partition)] {
                    of_broker[usize::from(*broker)].push(view.load[partition].disk);
                }
            }
            for (broker, sizes) in of_broker.iter_mut().enumerate() {
                if sizes.len() > high && view.is_live(broker) {
                    sizes.sort_unstable_by(f64::total_cmp);
                    mb[broker] += sizes[..sizes.len() - high].iter().sum::<f64>();
                }
                sizes.clear();
            }
        }
        first = end;
    }
    mb
}
