//! Makes the cluster of a shape.

use model::{NodeId, TopicName};
use placement::{BrokerSpec, BrokerState, Capacity, Goal, Goals, LeaderLoad, View, ViewBuilder};

use super::draw::{Shape, Start};
use super::random::Random;

/// Limits of utilization: disk, inbound, outbound, CPU.
const SHARES: [f64; 4] = [0.8, 0.8, 0.8, 0.7];

const FACTOR_MAX: usize = 5;

struct Broker {
    rack: usize,
    size: f64,
    state: BrokerState,
}

struct Partition {
    topic: usize,
    factor: usize,
    /// Disk, inbound, outbound, CPU of the leader.
    load: [f64; 4],
}

/// The cluster of a shape, and the goals that it can be planned for.
pub(crate) fn build(shape: &Shape) -> (View, Goals) {
    let mut random = Random::new(shape.seed ^ 0x5eed);
    let brokers = brokers(shape, &mut random);
    let mut partitions = partitions(shape, &mut random);
    let capacity = fit(shape, &brokers, &mut partitions);
    let racks = shape.racks;
    let factor = partitions.iter().map(|partition| partition.factor).max().unwrap_or(1);
    let mut builder = ViewBuilder::default();
    for (id, broker) in brokers.iter().enumerate() {
        let [disk_mb, network_in_kb, network_out_kb, cpu_percent] =
            capacity.map(|capacity| capacity * broker.size);
        let spec = BrokerSpec {
            id: node(id),
            rack: Some(format!("r{}", broker.rack)),
            capacity: Capacity { cpu_percent, network_in_kb, network_out_kb, disk_mb },
            state: broker.state,
        };
        builder.broker(spec).unwrap();
    }
    let places = places(shape, &brokers, &partitions, &mut random);
    let (mut topic, mut number) = (usize::MAX, 0);
    let mut places = places.into_iter().map(usize::from);
    for partition in &partitions {
        number = if partition.topic == topic { number + 1 } else { 0 };
        topic = partition.topic;
        let [disk_mb, network_in_kb, network_out_kb, cpu_percent] = partition.load;
        let load = LeaderLoad { cpu_percent, network_in_kb, network_out_kb, disk_mb };
        let name = TopicName::new(format!("t{topic:06}")).unwrap();
        let replicas: Vec<NodeId> = places.by_ref().take(partition.factor).map(node).collect();
        builder.partition(&name, number, &replicas, load).unwrap();
    }
    (builder.build().unwrap(), goals(racks < factor))
}

/// The default goals; with fewer racks than replicas, replicas are only spread evenly over the racks.
fn goals(is_short_of_racks: bool) -> Goals {
    let rack = |goal: &Goal| match goal {
        Goal::RackAware if is_short_of_racks => Goal::RackAwareDistribution,
        other => *other,
    };
    Goals::new(Goals::default().list().iter().map(rack).collect(), true).unwrap()
}

fn node(id: usize) -> NodeId {
    NodeId::new(i32::try_from(id).unwrap()).unwrap()
}

/// Every rack has as many live brokers as a partition may need there.
fn brokers(shape: &Shape, random: &mut Random) -> Vec<Broker> {
    let live = shape.live();
    let racks = shape.racks.min(live);
    let least = FACTOR_MAX.div_ceil(racks).min(live / racks);
    let weights: Vec<f64> = (0..racks).map(|_| random.around_one(shape.rack_spread)).collect();
    let mut rack_of: Vec<usize> = Vec::new();
    for rack in 0..racks {
        rack_of.extend(std::iter::repeat_n(rack, least));
    }
    let mut counts = vec![rack_of.len() / racks; racks];
    while rack_of.len() < live + shape.removed {
        // The rack that is furthest behind its weight.
        let behind = |rack: &usize| counts[*rack] as f64 / weights[*rack];
        let rack = (0..racks).min_by(|a, b| behind(a).total_cmp(&behind(b))).unwrap();
        counts[rack] += 1;
        rack_of.push(rack);
    }
    let state = |at: usize| match at {
        // The first of each rack stay.
        at if at >= live => BrokerState::Removed,
        at if at >= live - shape.added && at >= racks * least => BrokerState::New,
        _ => BrokerState::Alive,
    };
    let factor = if shape.other_factors > 0.0 { FACTOR_MAX } else { shape.factor };
    // Where a rack has several replicas of a partition, a small broker has as many as a large one.
    let sizes: Vec<f64> = (0..racks).map(|_| random.pick(shape.broker_sizes)).collect();
    let size = |rack: usize, random: &mut Random| {
        if racks < factor { sizes[rack] } else { random.pick(shape.broker_sizes) }
    };
    let mut brokers: Vec<Broker> = rack_of
        .into_iter()
        .enumerate()
        .map(|(at, rack)| Broker { rack, size: size(rack, random), state: state(at) })
        .collect();
    random.shuffle(&mut brokers);
    brokers
}

fn partitions(shape: &Shape, random: &mut Random) -> Vec<Partition> {
    let mut partitions = Vec::new();
    let (mut left, mut topic) = (shape.replicas, 0);
    // Replicas are first placed on brokers that are not new.
    let factor_max = shape.live().min(shape.brokers).min(FACTOR_MAX);
    while left > 0 {
        let other = random.chance(shape.other_factors);
        let factor =
            if other { 1 + random.below(FACTOR_MAX) } else { shape.factor }.min(factor_max);
        let count = random.power_law(shape.partitions_power) as usize;
        let count = count.clamp(1, shape.partitions_max).min(left.div_ceil(factor));
        let rate = random.power_law(shape.rate_power);
        let kept = random.around_one(0.9);
        let size =
            if shape.is_size_of_rate { rate * kept } else { random.power_law(shape.size_power) };
        let rate = if random.chance(shape.idle) { 0.0 } else { rate };
        let fan_out = random.pick(&[0.0, 0.5, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0]);
        let cpu = random.around_one(0.25);
        for _ in 0..count {
            let own = random.around_one(shape.spread);
            let inbound = rate * own;
            let outbound = inbound * ((factor - 1) as f64 + fan_out);
            let disk = size * own * random.around_one(shape.spread / 2.0);
            let cpu = (0.7 * inbound + 0.15 * outbound) * cpu;
            partitions.push(Partition { topic, factor, load: [disk, inbound, outbound, cpu] });
        }
        left = left.saturating_sub(count * factor);
        topic += 1;
    }
    partitions
}

/// Cuts partitions that are too large, and returns the capacity of a broker of size one.
fn fit(shape: &Shape, brokers: &[Broker], partitions: &mut [Partition]) -> [f64; 4] {
    let live: Vec<&Broker> =
        brokers.iter().filter(|broker| broker.state != BrokerState::Removed).collect();
    let size: f64 = live.iter().map(|broker| broker.size).sum();
    let crowding = crowding(shape.racks, &live, partitions);
    let mut capacity = [0.0; 4];
    for k in 0..4 {
        // A leader counts everywhere; what its followers carry besides depends on the resource.
        let copies = |partition: &Partition| if k < 2 { partition.factor as f64 } else { 1.0 };
        let mut total = 0.0;
        for _ in 0..4 {
            total = partitions.iter().map(|p| p.load[k] * copies(p)).sum::<f64>();
            let most = (total / size * shape.partition_max).max(total / size / 1e3);
            partitions.iter_mut().for_each(|p| p.load[k] = p.load[k].min(most.max(1e-9)));
        }
        // Followers use CPU too: at most as much as inbound traffic is a part of their leader's.
        let total = if k == 3 { total + followers(partitions) } else { total };
        capacity[k] = total * crowding / size / (shape.used[k] * SHARES[k]);
    }
    capacity.map(|capacity| capacity.max(1.0))
}

fn followers(partitions: &[Partition]) -> f64 {
    let of = |partition: &Partition| {
        let [_, inbound, outbound, cpu] = partition.load;
        let all = 0.7 * inbound + 0.15 * outbound;
        let share = if all > 0.0 { 0.15 * inbound / all } else { 0.0 };
        cpu * share * (partition.factor - 1) as f64
    };
    partitions.iter().map(of).sum()
}

/// How much fuller than the mean the fullest rack must be, because replicas of a partition are in different
/// racks, or spread evenly over them.
fn crowding(racks: usize, live: &[&Broker], partitions: &[Partition]) -> f64 {
    let size: f64 = live.iter().map(|broker| broker.size).sum();
    let mut shares = vec![0.0; racks];
    live.iter().for_each(|broker| shares[broker.rack] += broker.size / size);
    shares.retain(|share| *share > 0.0);
    let racks = shares.len();
    let mut factors: Vec<usize> = partitions.iter().map(|partition| partition.factor).collect();
    factors.sort_unstable();
    factors.dedup();
    let strict = factors.last().is_some_and(|most| *most <= racks);
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for factor in factors {
        let floor = if strict { 0 } else { factor / racks };
        low = low.max(floor as f64 / factor as f64);
        high = high.min(factor.div_ceil(racks) as f64 / factor as f64);
    }
    let filled = |level: f64| shares.iter().map(|s| (level * s).clamp(low, high)).sum::<f64>();
    let (mut below, mut above) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(below, above);
        if filled(middle) < 1.0 { below = middle } else { above = middle }
    }
    shares.iter().map(|share| (above * share).clamp(low, high) / share).fold(1.0, f64::max)
}

/// Where the replicas of all partitions are before the plan.
fn places(
    shape: &Shape,
    brokers: &[Broker],
    partitions: &[Partition],
    random: &mut Random,
) -> Vec<u16> {
    let old: Vec<usize> =
        (0..brokers.len()).filter(|at| brokers[*at].state != BrokerState::New).collect();
    let weights: Vec<f64> = match shape.start {
        Start::Near(_) => vec![1.0; old.len()],
        Start::Far | Start::Grown => {
            old.iter().map(|_| random.around_one(0.45).clamp(0.35, 2.0)).collect()
        }
    };
    let drift: Vec<f64> = old.iter().map(|_| random.around_one(0.6)).collect();
    let ring = ring(&old, brokers);
    let mut places = Vec::new();
    let (mut topic, mut start, mut shift) = (usize::MAX, 0, 0);
    let mut pool = Pool::of(&old, &weights);
    let drifting = Pool::of(&old, &drift);
    for (at, partition) in partitions.iter().enumerate() {
        if partition.topic != topic {
            (topic, start, shift) = (partition.topic, at, random.below(old.len()));
            if shape.start == Start::Far {
                pool = some_brokers(&old, &weights, random);
            }
        }
        let racks = |broker: usize| brokers[broker].rack;
        let replicas = match shape.start {
            Start::Near(disturbed) => {
                let mut replicas = in_turn(&ring, at - start + shift, partition.factor, &racks);
                if random.chance(disturbed) {
                    let moved = random.below(replicas.len());
                    let to = drifting.draw(random);
                    let others = || replicas.iter().enumerate().filter(|(at, _)| *at != moved);
                    if others().all(|(_, other)| racks(*other) != racks(to)) {
                        replicas[moved] = to;
                    }
                } else if random.chance(0.05) {
                    let last = replicas.len() - 1;
                    replicas.swap(0, last);
                }
                replicas
            }
            Start::Far => pool.draw_many(partition.factor, random, |_, _| true),
            Start::Grown => {
                pool.draw_many(partition.factor, random, |one, two| racks(one) != racks(two))
            }
        };
        places.extend(replicas.into_iter().map(|broker| broker as u16));
    }
    places
}

/// Brokers, racks in turn.
fn ring(old: &[usize], brokers: &[Broker]) -> Vec<usize> {
    let mut seen = vec![0; brokers.len()];
    let mut ring: Vec<(usize, usize, usize)> = Vec::new();
    for &broker in old {
        let rack = brokers[broker].rack;
        ring.push((seen[rack], rack, broker));
        seen[rack] += 1;
    }
    ring.sort_unstable();
    ring.into_iter().map(|(.., broker)| broker).collect()
}

/// The next brokers of the ring, in different racks if there are enough.
fn in_turn(
    ring: &[usize],
    start: usize,
    factor: usize,
    rack: &dyn Fn(usize) -> usize,
) -> Vec<usize> {
    let mut replicas: Vec<usize> = Vec::with_capacity(factor);
    // Further partitions of a topic have other neighbours.
    let skip = start / ring.len() % ring.len();
    for strict in [true, false] {
        for step in 0..ring.len() {
            let next = if replicas.is_empty() { start } else { start + skip + step };
            let broker = ring[next % ring.len()];
            let clashes =
                |other: &usize| *other == broker || strict && rack(*other) == rack(broker);
            if replicas.len() < factor && !replicas.iter().any(clashes) {
                replicas.push(broker);
            }
        }
    }
    replicas
}

fn some_brokers(old: &[usize], weights: &[f64], random: &mut Random) -> Pool {
    if random.chance(0.7) {
        return Pool::of(old, weights);
    }
    let share = random.between(0.15, 0.5);
    let count = ((old.len() as f64 * share) as usize).max(5).min(old.len());
    let mut chosen: Vec<usize> = (0..old.len()).collect();
    random.shuffle(&mut chosen);
    chosen.truncate(count);
    let brokers: Vec<usize> = chosen.iter().map(|at| old[*at]).collect();
    let weights: Vec<f64> = chosen.iter().map(|at| weights[*at]).collect();
    Pool::of(&brokers, &weights)
}

/// Brokers that are drawn by weight.
struct Pool {
    brokers: Vec<usize>,
    sums: Vec<f64>,
}

impl Pool {
    fn of(brokers: &[usize], weights: &[f64]) -> Self {
        let mut sum = 0.0;
        let sums = weights.iter().map(|weight| {
            sum += weight;
            sum
        });
        Self { sums: sums.collect(), brokers: brokers.to_vec() }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let drawn = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        let at = self.sums.partition_point(|sum| *sum <= drawn);
        self.brokers[at.min(self.brokers.len() - 1)]
    }

    /// Different brokers; pairs are as wanted if that does not take too long.
    fn draw_many(
        &self,
        count: usize,
        random: &mut Random,
        wanted: impl Fn(usize, usize) -> bool,
    ) -> Vec<usize> {
        const TRIES: usize = 30;
        let mut drawn: Vec<usize> = Vec::with_capacity(count);
        let mut tries = 0;
        while drawn.len() < count {
            tries += 1;
            let broker = self.draw(random);
            let strict = tries < TRIES;
            let clashes = |other: &usize| *other == broker || strict && !wanted(*other, broker);
            if !drawn.iter().any(clashes) {
                drawn.push(broker);
            }
        }
        drawn
    }
}
