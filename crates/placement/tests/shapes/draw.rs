//! Shapes of clusters, drawn by seed.
//!
//! Every shape has an assignment that satisfies all hard goals: capacities are chosen after racks, replication
//! factors and loads are known. Soft goals may contradict each other.

use std::fmt;
use std::ops::RangeInclusive;

use super::random::Random;

/// How replicas are placed before the plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Start {
    /// Round robin over racks; this share of the partitions then got another replica, on some brokers more
    /// often than on others.
    Near(f64),
    /// Without regard to racks, weighted by broker; some topics are only on a few brokers.
    Far,
    /// With regard to racks, weighted by broker: as a cluster that grew.
    Grown,
}

/// Parameters of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) replicas: usize,
    pub(crate) brokers: usize,
    pub(crate) racks: usize,
    /// Standard deviation of the logarithm of the size of racks.
    pub(crate) rack_spread: f64,
    /// The sizes of brokers.
    pub(crate) broker_sizes: &'static [f64],
    /// The usual replication factor, and the share of topics with another one.
    pub(crate) factor: usize,
    pub(crate) other_factors: f64,
    pub(crate) partitions_max: usize,
    pub(crate) partitions_power: f64,
    /// Powers of the tails: sizes and rates of topics.
    pub(crate) size_power: f64,
    pub(crate) rate_power: f64,
    /// Spread of the partitions of a topic.
    pub(crate) spread: f64,
    /// Whether sizes follow rates.
    pub(crate) is_size_of_rate: bool,
    /// The share of topics without traffic.
    pub(crate) idle: f64,
    /// The largest partition, as a share of the load of the smallest broker.
    pub(crate) partition_max: f64,
    /// Load as a share of what may be used: disk, inbound, outbound, CPU.
    pub(crate) used: [f64; 4],
    pub(crate) start: Start,
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

impl Shape {
    /// Draws a shape of so many replicas, more or less.
    pub(crate) fn draw(seed: u64, replicas: RangeInclusive<usize>) -> Self {
        let mut random = Random::new(seed);
        let replicas = random.magnitude(*replicas.start(), *replicas.end());
        // A broker has few replicas, or many.
        let fewest = random.pick(&[10, 50, 100, 200]);
        let least = 3.max(replicas / 6_000);
        let brokers = random.magnitude(least, (replicas / fewest).clamp(least, 1_000));
        let racks = if random.chance(0.1) { 1 } else { random.magnitude(2, brokers.min(30)) };
        let factor = random.pick(&[1, 2, 3, 3, 3, 3, 4, 5]).min(brokers);
        let (added, removed) = Self::draw_change(&mut random, brokers);
        Self {
            seed,
            replicas,
            brokers,
            racks,
            rack_spread: random.pick(&[0.0, 0.0, 0.3, 0.7]),
            broker_sizes: random.pick(&[&[1.0][..], &[1.0], &[1.0, 2.0], &[1.0, 1.5, 2.0, 4.0]]),
            factor,
            other_factors: random.pick(&[0.0, 0.1, 0.4]),
            partitions_max: random.pick(&[1, 50, 500, 10_000]),
            partitions_power: random.pick(&[0.6, 1.0, 1.6]),
            size_power: random.pick(&[1.05, 1.3, 2.0, 5.0]),
            rate_power: random.pick(&[1.05, 1.3, 2.0, 5.0]),
            spread: random.pick(&[0.0, 0.35, 1.0]),
            is_size_of_rate: random.chance(0.5),
            idle: random.pick(&[0.0, 0.0, 0.3, 0.8]),
            partition_max: random.pick(&[0.01, 0.03, 0.1]),
            used: Self::draw_use(&mut random),
            start: random.pick(&[
                Start::Near(0.02),
                Start::Near(0.25),
                Start::Far,
                Start::Far,
                Start::Grown,
            ]),
            added,
            removed,
        }
    }

    /// How many brokers are new, and how many leave.
    fn draw_change(random: &mut Random, brokers: usize) -> (usize, usize) {
        let some = |random: &mut Random| random.magnitude(1, (brokers / 5).max(1));
        match random.below(10) {
            0..4 => (0, 0),
            4..6 => (some(random), 0),
            6..8 if brokers > 5 => (0, some(random)),
            8 if brokers > 5 => (some(random), some(random)),
            _ => (1, 0),
        }
    }

    fn draw_use(random: &mut Random) -> [f64; 4] {
        let mut used = [(); 4].map(|()| random.between(0.3, 0.75));
        match random.below(6) {
            // Disks are almost full.
            0 => used[0] = random.between(0.9, 0.95),
            // One resource dominates.
            1 => {
                used = [0.05; 4];
                used[random.below(4)] = random.between(0.8, 0.9);
            }
            _ => {}
        }
        used
    }

    /// Brokers that are there at the end.
    pub(crate) fn live(&self) -> usize {
        self.brokers + self.added - self.removed
    }

    /// A large cluster in ten racks, with a heavy tail.
    #[allow(dead_code, reason = "only the benchmark has large shapes")]
    pub(crate) fn ten_racks(seed: u64, replicas: usize, brokers: usize, start: Start) -> Self {
        Self {
            seed,
            replicas,
            brokers,
            racks: 10,
            rack_spread: 0.0,
            broker_sizes: &[1.0],
            factor: 3,
            other_factors: 0.08,
            partitions_max: 512,
            partitions_power: 0.7,
            size_power: 1.1,
            rate_power: 1.1,
            spread: 0.35,
            is_size_of_rate: true,
            idle: 0.0,
            partition_max: 0.015,
            used: [0.55, 0.55, 0.3, 0.55],
            start,
            added: 0,
            removed: 0,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = match self.start {
            Start::Near(share) => format!("near {share}"),
            Start::Far => "far".to_owned(),
            Start::Grown => "grown".to_owned(),
        };
        write!(
            f,
            "seed {}: {} replicas, {} brokers +{} -{}, {} racks, RF {}, {start}",
            self.seed,
            self.replicas,
            self.brokers,
            self.added,
            self.removed,
            self.racks,
            self.factor
        )
    }
}
