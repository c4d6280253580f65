//! State and cost of the search.

#![allow(
    clippy::needless_range_loop,
    reason = "the same place in several arrays is one kind of number; an index says so best"
)]

use std::cell::Cell;
use std::ops::Range;

use crate::goals::{
    BALANCE, BAND, CPU_SHARE, DISK_SHARE, Goal, Goals, NETWORK_SHARE, REPLICAS_MAX,
};
use crate::view::{Assignment, View};

use super::leaders::Watched;
use super::racks::Racks;
use super::topics::Topics;

/// The quantities of a broker or replica: disk, inbound, outbound, CPU, replicas, leaders, potential
/// outbound, leader inbound.
pub(super) type Load8 = [f64; NUMBERS];

const NUMBERS: usize = 8;
/// Number of quantities with a lower limit.
const WITH_LOW: usize = 6;

/// Quantities that increase with leadership.
pub(super) const OF_LEADERS: [usize; 3] = [2, 3, 5];

/// Limits are tightened by this ratio, because sums in another order differ in their last digits.
const DRAWN_IN: f64 = 1e-7;

/// Cost of one excess replica of a topic. Small compared with an unbalanced broker, but not zero.
pub(super) const TOPIC_COST: f64 = 0.002;

/// Minimum gain of a change, larger than rounding errors.
pub(super) const GAIN_MIN: f64 = 1e-9;

/// Evaluated moves after which the search ends, besides those per replica.
const WORK_MIN: u64 = 50_000;

/// An excess over a hard limit costs this much more than the same excess over a soft one.
const HARD_COST: f64 = 20.0;

#[derive(Debug)]
pub(super) struct State<'a> {
    pub(super) view: &'a View,
    pub(super) racks: Racks,
    /// Leaders of topics that need leaders on every broker.
    pub(super) watched: Watched,
    /// The broker of every replica, leaders first within their partition.
    pub(super) broker_of: Assignment,
    pub(super) partition_of: Vec<u32>,
    /// Replicas of every broker, unordered, and their positions.
    pub(super) on_broker: Vec<Vec<u32>>,
    place_in: Vec<u32>,
    pub(super) numbers: Vec<Load8>,
    low: Vec<Load8>,
    high: Vec<Load8>,
    hard: Vec<Load8>,
    middle: Vec<Load8>,
    /// Reciprocal of the mean broker's quantities, to add up different kinds.
    pub(super) scale: Load8,
    /// The same, times the importance of the quantity.
    weight: Load8,
    /// Cost of one excess replica of a topic.
    topic_cost: f64,
    /// Cost of each broker's quantities.
    pub(super) cost: Vec<f64>,
    pub(super) live: Vec<usize>,
    pub(super) topics: Topics,
    /// Evaluated moves, as a measure of time that is the same on every machine.
    pub(super) work: Cell<u64>,
    allowed: u64,
    /// How many there may be for each replica.
    pub(super) work_max: u64,
    /// Only replicas that were displaced already may move.
    pub(super) only_displaced: bool,
}

impl<'a> State<'a> {
    pub(super) fn new(view: &'a View, goals: &Goals, broker_of: Assignment) -> Self {
        let (brokers, replicas) = (view.brokers.len(), view.replicas.len());
        let mut state = Self {
            view,
            racks: if goals.has(Goal::RackAware) {
                Racks::Apart
            } else if goals.has(Goal::RackAwareDistribution) {
                Racks::Even(view.racks().len())
            } else {
                Racks::Free
            },
            watched: Watched::default(),
            partition_of: Vec::with_capacity(replicas),
            on_broker: vec![Vec::new(); brokers],
            place_in: vec![0; replicas],
            numbers: vec![[0.0; NUMBERS]; brokers],
            low: vec![[f64::NEG_INFINITY; NUMBERS]; brokers],
            high: vec![[f64::INFINITY; NUMBERS]; brokers],
            hard: vec![[f64::INFINITY; NUMBERS]; brokers],
            middle: vec![[0.0; NUMBERS]; brokers],
            scale: [0.0; NUMBERS],
            weight: [0.0; NUMBERS],
            topic_cost: TOPIC_COST,
            cost: vec![0.0; brokers],
            live: view.live().collect(),
            topics: Topics::new(view, &broker_of, goals.has(Goal::TopicReplicaDistribution)),
            broker_of,
            work: Cell::new(0),
            allowed: u64::MAX,
            work_max: 0,
            only_displaced: false,
        };
        state.count();
        if goals.has(Goal::MinTopicLeadersPerBroker) {
            state.watch_leaders();
        }
        state.limit_brokers(goals);
        state.weight = state.scale;
        state.weigh_impossible();
        state.count_costs();
        state
    }

    fn count_costs(&mut self) {
        for broker in self.live.clone() {
            self.cost[broker] = self.cost_with(broker, &[0.0; NUMBERS], 0.0);
        }
    }

    /// Gives quantities little importance whose ranges do not fit the cluster or a rack, wherever replicas are.
    fn weigh_impossible(&mut self) {
        const LITTLE: f64 = 0.05;
        let racks = self.view.rack.iter().max().map_or(0, |most| usize::from(*most) + 1);
        let (mut least, mut most) = (vec![[0.0; NUMBERS]; racks], vec![[0.0; NUMBERS]; racks]);
        let mut total = [0.0; NUMBERS];
        for &broker in &self.live {
            let rack = usize::from(self.view.rack[broker]);
            add(&mut least[rack], &self.low[broker], 1.0);
            add(&mut most[rack], &self.high[broker], 1.0);
        }
        self.numbers.iter().for_each(|numbers| add(&mut total, numbers, 1.0));
        let (fewest, all) = self.shares_of_racks();
        for k in 0..NUMBERS {
            let sum = |of: &[Load8]| of.iter().map(|of| of[k]).sum::<f64>();
            let mut fits = sum(&least) <= total[k] && total[k] <= sum(&most);
            // Leaders may be anywhere; replicas may not.
            if [0, 1, 4, 6].contains(&k) {
                let lives =
                    |rack: &usize| self.live.iter().any(|b| self.view.rack[*b] == *rack as u16);
                fits &= (0..racks)
                    .filter(lives)
                    .all(|rack| fewest[k] <= most[rack][k] && least[rack][k] <= all[k]);
            }
            if !fits {
                // Nothing else asks for an even potential.
                self.weight[k] *= if k == 6 { 0.0 } else { LITTLE };
            }
        }
    }

    /// What each rack has at least and at most, if replicas of a partition are in different racks or evenly
    /// spread.
    fn shares_of_racks(&self) -> (Load8, Load8) {
        let racks = self.view.racks().len().max(1);
        let (mut fewest, mut all) = ([0.0; NUMBERS], [0.0; NUMBERS]);
        for partition in 0..self.view.partitions() {
            let slots = self.slots(partition);
            let factor = slots.len();
            let (low, high) = match self.racks {
                Racks::Free => (0, factor),
                Racks::Apart => ((factor + 1).saturating_sub(racks).min(1), 1),
                Racks::Even(_) => (factor / racks, factor.div_ceil(racks)),
            };
            let load = self.load(slots.end - 1);
            add(&mut fewest, &load, low as f64);
            add(&mut all, &load, high as f64);
        }
        (fewest, all)
    }

    /// Gives quantities that most brokers cannot keep within their ranges less importance, and all others more.
    pub(super) fn weigh(&mut self) {
        const MORE: f64 = 3.0;
        const LESS: f64 = 0.2;
        let few = (self.live.len() / 5).max(2);
        for k in 0..NUMBERS {
            let out = self.live.iter().filter(|broker| self.is_outside(**broker, k)).count();
            self.weight[k] *= if out > few { LESS } else { MORE };
        }
        self.topic_cost = TOPIC_COST * MORE;
        self.count_costs();
    }

    fn count(&mut self) {
        for partition in 0..self.view.partitions() {
            for replica in self.view.slots(partition) {
                self.partition_of.push(partition as u32);
                let broker = usize::from(self.broker_of[replica]);
                self.place_in[replica] = self.on_broker[broker].len() as u32;
                self.on_broker[broker].push(replica as u32);
                let load = self.load(replica);
                add(&mut self.numbers[broker], &load, 1.0);
            }
        }
    }

    fn limit_brokers(&mut self, goals: &Goals) {
        let mut total = [0.0; NUMBERS];
        self.numbers.iter().for_each(|numbers| add(&mut total, numbers, 1.0));
        let brokers = self.live.len() as f64;
        let capacities: Vec<[f64; 4]> =
            (0..self.view.brokers.len()).map(|b| self.capacity(b)).collect();
        let mut capacity = [0.0; 4];
        for broker in &self.live {
            (0..4).for_each(|k| capacity[k] += capacities[*broker][k]);
        }
        for k in 0..NUMBERS {
            self.scale[k] = if total[k] > 0.0 { brokers / total[k] } else { 0.0 };
        }
        for broker in self.live.clone() {
            let own = &capacities[broker];
            let mut fair = [0.0; NUMBERS];
            for k in 0..4 {
                fair[k] = if capacity[k] > 0.0 { total[k] / capacity[k] * own[k] } else { 0.0 };
            }
            fair[4] = total[4] / brokers;
            fair[5] = total[5] / brokers;
            fair[6] = if capacity[2] > 0.0 { total[6] / capacity[2] * own[2] } else { 0.0 };
            fair[7] = total[7] / brokers;
            let (mut low, high, hard) = limits(goals, own, &fair);
            // Brokers that accept nothing have no lower limit.
            if self.view.closed[broker] {
                low = [f64::NEG_INFINITY; NUMBERS];
            } else if self.view.unled[broker] {
                OF_LEADERS.into_iter().for_each(|k| low[k] = f64::NEG_INFINITY);
            }
            (self.low[broker], self.high[broker]) = (low, high);
            (self.hard[broker], self.middle[broker]) = (hard, fair);
        }
    }

    fn capacity(&self, broker: usize) -> [f64; 4] {
        let capacity = &self.view.brokers[broker].capacity;
        [capacity.disk_mb, capacity.network_in_kb, capacity.network_out_kb, capacity.cpu_percent]
    }

    /// Load of a replica.
    pub(super) fn load(&self, replica: usize) -> Load8 {
        let partition = self.partition_of[replica] as usize;
        let load = &self.view.load[partition];
        if replica == self.leader_slot(partition) {
            let cpu = load.cpu_leader;
            [load.disk, load.inbound, load.outbound, cpu, 1.0, 1.0, load.outbound, load.inbound]
        } else {
            [load.disk, load.inbound, 0.0, load.cpu_follower, 1.0, 0.0, load.outbound, 0.0]
        }
    }

    /// Additional load of a leader.
    pub(super) fn leadership(&self, partition: usize) -> Load8 {
        let load = &self.view.load[partition];
        let cpu = load.cpu_leader - load.cpu_follower;
        [0.0, 0.0, load.outbound, cpu, 0.0, 1.0, 0.0, load.inbound]
    }

    pub(super) fn leader_slot(&self, partition: usize) -> usize {
        self.view.offsets[partition] as usize
    }

    pub(super) fn slots(&self, partition: usize) -> Range<usize> {
        self.view.slots(partition)
    }

    /// The original brokers of a partition.
    pub(super) fn home(&self, partition: usize) -> &[u16] {
        &self.view.replicas[self.view.slots(partition)]
    }

    pub(super) fn is_displaced(&self, replica: usize) -> bool {
        let partition = self.partition_of[replica] as usize;
        !self.home(partition).contains(&self.broker_of[replica])
    }

    /// Whether a replica may move in this phase.
    pub(super) fn may_move(&self, replica: usize) -> bool {
        let pinned = self.is_pinned(self.partition_of[replica] as usize) || self.only_displaced;
        !pinned || self.is_displaced(replica)
    }

    pub(super) fn is_pinned(&self, partition: usize) -> bool {
        self.view.pinned[self.view.topic_of[partition] as usize]
    }

    /// Whether a broker can host the replica: no other one of the partition is there, or in its rack.
    pub(super) fn fits(&self, replica: usize, broker: usize) -> bool {
        let clashes = |other: usize| {
            let holder = usize::from(self.broker_of[other]);
            holder == broker || self.is_rack_shared(holder, broker)
        };
        let partition = self.partition_of[replica] as usize;
        let mut others = self.slots(partition).filter(|other| *other != replica);
        let from = usize::from(self.broker_of[replica]);
        let leads = replica == self.leader_slot(partition);
        from != broker
            && !others.any(clashes)
            && self.is_even_with(replica, broker)
            && (!self.view.closed[broker] || self.home(partition).contains(&(broker as u16)))
            && !(leads && (self.view.unled[broker] || self.needs_leader(partition, from)))
    }

    /// MB that a move adds to the plan; negative if a replica moves back.
    pub(super) fn move_mb(&self, replica: usize, to: usize) -> f64 {
        let partition = self.partition_of[replica] as usize;
        let home = self.home(partition);
        let is_home = |broker: u16| f64::from(u8::from(home.contains(&broker)));
        let leaves = is_home(self.broker_of[replica]);
        self.view.load[partition].disk * (leaves - is_home(to as u16))
    }

    /// Cost of a broker with `share` times this load in addition.
    pub(super) fn cost_with(&self, broker: usize, load: &Load8, share: f64) -> f64 {
        let (low, high, hard) = (&self.low[broker], &self.high[broker], &self.hard[broker]);
        let numbers = &self.numbers[broker];
        let mut costs = [0.0; NUMBERS];
        for k in 0..NUMBERS {
            let number = numbers[k] + share * load[k];
            let out = above(low[k] - number) + above(number - high[k]);
            costs[k] = out * self.weight[k] + HARD_COST * above(number - hard[k]) * self.scale[k];
        }
        // Pairs, so that the sum takes few steps.
        let pairs = [0, 1, 2, 3].map(|k| costs[k] + costs[k + 4]);
        (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
    }

    /// Change of a broker's cost with this load added (`1.0`) or removed (`-1.0`).
    pub(super) fn cost_change(&self, broker: usize, load: &Load8, share: f64) -> f64 {
        self.cost_with(broker, load, share) - self.cost[broker]
    }

    /// Change of the squared distance of a broker from the middle of its ranges with this load.
    pub(super) fn distance_change(&self, broker: usize, load: &Load8) -> f64 {
        let (middle, numbers) = (&self.middle[broker], &self.numbers[broker]);
        let mut change = 0.0;
        for k in 0..NUMBERS {
            let step = load[k] * self.scale[k];
            change += (2.0 * (numbers[k] - middle[k]) * self.scale[k] + step) * step;
        }
        change
    }

    /// Change of the cost of concentrated topics with a move.
    pub(super) fn topic_change(&self, replica: usize, to: usize) -> f64 {
        let topic = self.topic_of(replica);
        if self.topics.is_free(topic) {
            return 0.0;
        }
        let from = usize::from(self.broker_of[replica]);
        let change = self.topics.change(&self.broker_of, topic, from, to);
        self.topic_cost * f64::from(change)
    }

    pub(super) fn topic_of(&self, replica: usize) -> usize {
        self.view.topic_of[self.partition_of[replica] as usize] as usize
    }

    /// Whether a broker exceeds its limit of the replica's topic.
    pub(super) fn is_topic_crowded(&self, partition: usize, broker: usize) -> bool {
        self.topics.is_crowded(&self.broker_of, self.view.topic_of[partition] as usize, broker)
    }

    /// Topics that exceed the limit of some broker.
    pub(super) fn crowded_topics(&self) -> Vec<bool> {
        self.topics.crowded(&self.broker_of, &self.live)
    }

    /// The quantity that is furthest outside of its range, and its distance: positive if there is too much.
    pub(super) fn worst(&self, broker: usize) -> (usize, f64) {
        let (low, high) = (&self.low[broker], &self.high[broker]);
        let mut worst = (0, 0.0_f64);
        let mut most = 0.0;
        for k in 0..NUMBERS {
            let number = self.numbers[broker][k];
            let out = above(number - high[k]) - above(low[k] - number);
            if out.abs() * self.weight[k] > most {
                most = out.abs() * self.weight[k];
                worst = (k, out);
            }
        }
        worst
    }

    /// How much more of a quantity a broker could take, or give, within its range.
    pub(super) fn room(&self, broker: usize, k: usize) -> f64 {
        self.high[broker][k] - self.numbers[broker][k]
    }

    /// How much of a quantity a broker could give within its range.
    pub(super) fn spare(&self, broker: usize, k: usize) -> f64 {
        self.numbers[broker][k] - self.low[broker][k].max(0.0)
    }

    /// Whether a broker exceeds a hard limit.
    pub(super) fn breaks_hard(&self, broker: usize) -> bool {
        (0..NUMBERS).any(|k| self.numbers[broker][k] > self.hard[broker][k])
    }

    /// Whether a quantity of a broker is outside of its range.
    pub(super) fn is_outside(&self, broker: usize, k: usize) -> bool {
        let number = self.numbers[broker][k];
        number < self.low[broker][k] || number > self.high[broker][k]
    }

    /// Whether the search has taken as long as it may.
    pub(super) fn is_spent(&self) -> bool {
        self.work.get() > self.allowed
    }

    /// Allows this part of all work.
    pub(super) fn allow(&mut self, part: u64, of: u64) {
        let all = WORK_MIN + self.work_max * self.view.replicas() as u64;
        self.allowed = all.saturating_mul(part) / of;
    }

    /// Counts evaluated moves.
    pub(super) fn spend(&self, work: usize) {
        self.work.set(self.work.get() + work as u64);
    }

    /// Whether a quantity of the broker is below its range.
    pub(super) fn is_short(&self, broker: usize) -> bool {
        (0..WITH_LOW).any(|k| self.numbers[broker][k] < self.low[broker][k])
    }

    /// How much a broker could give another of what it lacks.
    pub(super) fn surplus_for(&self, short: usize, giver: usize) -> f64 {
        let lack = |k: usize| (self.low[short][k] - self.numbers[short][k]).max(0.0);
        let spare = |k: usize| self.numbers[giver][k] - self.low[giver][k];
        (0..WITH_LOW).map(|k| lack(k) * spare(k) * self.scale[k] * self.scale[k]).sum()
    }

    /// Utilization of a broker; excess counts most.
    pub(super) fn fullness(&self, broker: usize) -> f64 {
        const TOO_MUCH: f64 = 100.0;
        let numbers = &self.numbers[broker];
        let over = |k: usize| (numbers[k] - self.high[broker][k]).max(0.0) * self.scale[k];
        let has = |k: usize| numbers[k] * self.scale[k];
        (0..NUMBERS).map(over).sum::<f64>() * TOO_MUCH + (0..=4).map(has).sum::<f64>()
    }

    /// Whether all brokers and topics are within their ranges.
    pub(super) fn is_done(&self) -> bool {
        let balanced = self.live.iter().all(|broker| self.cost[*broker] <= 0.0);
        balanced && self.topics.is_done(&self.broker_of, &self.live)
    }

    /// Moves a replica.
    pub(super) fn move_replica(&mut self, replica: usize, to: usize) {
        let from = usize::from(self.broker_of[replica]);
        let partition = self.partition_of[replica] as usize;
        let load = self.load(replica);
        add(&mut self.numbers[from], &load, -1.0);
        add(&mut self.numbers[to], &load, 1.0);
        if replica == self.leader_slot(partition) {
            self.count_leader(partition, from, -1);
            self.count_leader(partition, to, 1);
        }
        let place = self.place_in[replica] as usize;
        self.on_broker[from].swap_remove(place);
        if let Some(other) = self.on_broker[from].get(place) {
            self.place_in[*other as usize] = place as u32;
        }
        self.place_in[replica] = self.on_broker[to].len() as u32;
        self.on_broker[to].push(replica as u32);
        self.broker_of[replica] = to as u16;
        self.topics.moved(self.view.topic_of[partition] as usize, from, to);
        self.count_cost(from);
        self.count_cost(to);
    }

    /// Makes the replica in this slot the leader. The two swap slots, because the leader is first.
    pub(super) fn lead(&mut self, partition: usize, slot: usize) {
        let head = self.leader_slot(partition);
        let (from, to) = (usize::from(self.broker_of[head]), usize::from(self.broker_of[slot]));
        let load = self.leadership(partition);
        add(&mut self.numbers[from], &load, -1.0);
        add(&mut self.numbers[to], &load, 1.0);
        self.count_leader(partition, from, -1);
        self.count_leader(partition, to, 1);
        self.broker_of.swap(head, slot);
        self.place_in.swap(head, slot);
        self.on_broker[from][self.place_in[slot] as usize] = slot as u32;
        self.on_broker[to][self.place_in[head] as usize] = head as u32;
        self.count_cost(from);
        self.count_cost(to);
    }

    pub(super) fn into_assignment(self) -> Assignment {
        self.broker_of
    }

    fn count_cost(&mut self, broker: usize) {
        if self.view.is_live(broker) {
            self.cost[broker] = self.cost_with(broker, &[0.0; NUMBERS], 0.0);
        }
    }
}

/// The ranges of a broker and its hard limits, given its capacity and its fair share of each quantity.
fn limits(goals: &Goals, capacity: &[f64; 4], fair: &Load8) -> (Load8, Load8, Load8) {
    let mut low = [f64::NEG_INFINITY; NUMBERS];
    let mut high = [f64::INFINITY; NUMBERS];
    let mut hard_limits = [f64::INFINITY; NUMBERS];
    let usage = [
        (Goal::DiskUsageDistribution, Goal::DiskCapacity, DISK_SHARE),
        (Goal::NetworkInboundUsageDistribution, Goal::NetworkInboundCapacity, NETWORK_SHARE),
        (Goal::NetworkOutboundUsageDistribution, Goal::NetworkOutboundCapacity, NETWORK_SHARE),
        (Goal::CpuUsageDistribution, Goal::CpuCapacity, CPU_SHARE),
    ];
    for (k, (distribution, hard, share)) in usage.into_iter().enumerate() {
        if goals.has(distribution) {
            low[k] = fair[k] * (1.0 - BAND) * (1.0 + DRAWN_IN);
            high[k] = fair[k] * (1.0 + BAND) * (1.0 - DRAWN_IN);
        }
        if goals.has(hard) {
            hard_limits[k] = capacity[k] * share * (1.0 - DRAWN_IN);
            high[k] = high[k].min(hard_limits[k]);
            low[k] = low[k].min(high[k]);
        }
    }
    for (k, goal) in [(4, Goal::ReplicaDistribution), (5, Goal::LeaderReplicaDistribution)] {
        if goals.has(goal) {
            low[k] = (fair[k] * (1.0 - BAND)).floor();
            high[k] = (fair[k] * (1.0 + BAND)).ceil();
        }
    }
    if goals.has(Goal::ReplicaCapacity) {
        hard_limits[4] = REPLICAS_MAX;
        high[4] = high[4].min(REPLICAS_MAX);
    }
    if goals.has(Goal::PotentialNwOut) {
        high[6] = capacity[2] * NETWORK_SHARE * (1.0 - DRAWN_IN);
    }
    if goals.has(Goal::LeaderBytesInDistribution) {
        high[7] = fair[7] * BALANCE * (1.0 - DRAWN_IN);
    }
    (low, high, hard_limits)
}

/// The part above zero.
fn above(number: f64) -> f64 {
    if number > 0.0 { number } else { 0.0 }
}

fn add(numbers: &mut Load8, load: &Load8, share: f64) {
    for k in 0..NUMBERS {
        numbers[k] += share * load[k];
    }
}
