//! A slow search to compare with: simulated annealing over single moves, swaps and leaders.
//!
//! It shares no code with the optimizer and no idea: it changes something at random and keeps what is better,
//! and at first also what is a little worse.

use placement::{Assignment, BrokerState, Goal, Goals, View};

use super::random::Random;

/// Steps: at least, for each replica, and at most.
const STEPS_MIN: usize = 40_000;
const STEPS_PER_REPLICA: usize = 120;
const STEPS_MAX: usize = 900_000;

/// Costs beside an excess over a soft limit as large as the mean broker: over a hard limit, of one replica of a
/// topic too many, of MB as much as the mean broker has.
const HARD: f64 = 20.0;
const TOPIC: f64 = 0.003;
const MB: f64 = 0.01;

/// The first and the last temperature, in replicas of mean size.
const HOT: f64 = 0.3;
const COLD: f64 = 1e-3;

/// Disk, inbound, outbound, CPU, replicas, leaders, potential outbound, leader inbound.
type Amounts = [f64; 8];

#[derive(Clone, Copy)]
struct Limits {
    low: Amounts,
    high: Amounts,
    hard: Amounts,
}

struct Search<'a> {
    view: &'a View,
    random: Random,
    at: Assignment,
    partition_of: Vec<usize>,
    topic_of: Vec<usize>,
    live: Vec<usize>,
    racks: Vec<usize>,
    /// Replicas of a partition in a rack at most: one, or as even as possible.
    per_rack: Option<usize>,
    sums: Vec<Amounts>,
    limits: Vec<Limits>,
    scale: Amounts,
    counts: Vec<u16>,
    topic_limits: Vec<(u16, u16)>,
    /// Replicas that may move.
    movable: Vec<usize>,
}

/// The best assignment that a long search finds.
pub(crate) fn search(view: &View, goals: &Goals, seed: u64) -> Assignment {
    let mut search = Search::new(view, goals, seed);
    search.place_forced();
    search.movable = search.movable();
    if search.movable.is_empty() {
        return search.at;
    }
    let steps = (view.replicas() * STEPS_PER_REPLICA).clamp(STEPS_MIN, STEPS_MAX);
    let unit = search.live.len() as f64 / view.replicas() as f64;
    for step in 0..steps {
        let done = step as f64 / steps as f64;
        let temperature = unit * HOT * (COLD / HOT).powf(done);
        search.step(temperature);
    }
    search.send_home();
    search.at
}

impl<'a> Search<'a> {
    fn new(view: &'a View, goals: &Goals, seed: u64) -> Self {
        let brokers = view.brokers();
        let live: Vec<usize> =
            (0..brokers.len()).filter(|b| brokers[*b].state != BrokerState::Removed).collect();
        let mut names: Vec<Option<&String>> = brokers.iter().map(|b| b.rack.as_ref()).collect();
        let racks = names.clone();
        names.sort_unstable();
        names.dedup();
        let rack = |name: &Option<&String>| names.binary_search(name).unwrap();
        let racks: Vec<usize> = racks.iter().map(rack).collect();
        let mut live_racks: Vec<usize> = live.iter().map(|broker| racks[*broker]).collect();
        live_racks.sort_unstable();
        live_racks.dedup();
        let apart = goals.list().contains(&Goal::RackAware);
        let (mut partition_of, mut topic_of) = (Vec::new(), Vec::new());
        let mut topics = 0;
        for partition in 0..view.partitions() {
            partition_of.extend(view.slots(partition).map(|_| partition));
            let is_new = partition == 0
                || view.partition_name(partition).0 != view.partition_name(partition - 1).0;
            topics += usize::from(is_new);
            topic_of.push(topics - 1);
        }
        let mut search = Self {
            view,
            random: Random::new(seed),
            at: view.assignment().clone(),
            partition_of,
            topic_of,
            racks,
            per_rack: if apart { None } else { Some(live_racks.len()) },
            sums: vec![[0.0; 8]; brokers.len()],
            limits: Vec::new(),
            scale: [0.0; 8],
            counts: vec![0; topics * brokers.len()],
            topic_limits: Vec::new(),
            movable: Vec::new(),
            live,
        };
        search.count();
        search.limit();
        search
    }

    fn count(&mut self) {
        for slot in 0..self.at.len() {
            let (broker, load) = (usize::from(self.at[slot]), self.load(slot));
            (0..8).for_each(|k| self.sums[broker][k] += load[k]);
            let cell = self.cell(slot, broker);
            self.counts[cell] += 1;
        }
    }

    fn limit(&mut self) {
        let live = self.live.len() as f64;
        let mut total = [0.0; 8];
        self.sums.iter().for_each(|sums| (0..8).for_each(|k| total[k] += sums[k]));
        let capacity = |broker: usize| {
            let c = self.view.brokers()[broker].capacity;
            [c.disk_mb, c.network_in_kb, c.network_out_kb, c.cpu_percent]
        };
        let all =
            [0, 1, 2, 3].map(|k: usize| self.live.iter().map(|b| capacity(*b)[k]).sum::<f64>());
        let near = |limit: f64| limit * (1.0 - 1e-7);
        let limits = |broker: usize| {
            let own = capacity(broker);
            let (mut low, mut high, mut hard) =
                ([f64::NEG_INFINITY; 8], [f64::INFINITY; 8], [f64::INFINITY; 8]);
            for k in 0..4 {
                let fair = total[k] / all[k] * own[k];
                hard[k] = near(own[k] * if k == 3 { 0.7 } else { 0.8 });
                (low[k], high[k]) = (fair * 0.91 * (1.0 + 1e-7), near(fair * 1.09));
            }
            hard[4] = 10_000.0;
            for k in 4..6 {
                let mean = total[k] / live;
                (low[k], high[k]) = ((mean * 0.91).floor(), (mean * 1.09).ceil());
            }
            high[6] = near(own[2] * 0.8);
            high[7] = near(total[7] / live * 1.1);
            Limits { low, high, hard }
        };
        self.limits = (0..self.sums.len()).map(limits).collect();
        self.scale = total.map(|total| if total > 0.0 { live / total } else { 0.0 });
        let topics = self.topic_of.last().map_or(0, |last| last + 1);
        let mut replicas = vec![0_u32; topics];
        self.partition_of.iter().for_each(|partition| replicas[self.topic_of[*partition]] += 1);
        let topic_limits = replicas.into_iter().map(|replicas| {
            let mean = f64::from(replicas) / live;
            let high = (mean * 2.8).ceil().clamp(mean.ceil() + 2.0, mean.ceil() + 40.0);
            ((mean.floor() - 40.0).max(0.0) as u16, high as u16)
        });
        self.topic_limits = topic_limits.collect();
    }

    fn load(&self, slot: usize) -> Amounts {
        let partition = self.partition_of[slot];
        let load = self.view.leader_load(partition);
        let (inbound, outbound) = (load.network_in_kb, load.network_out_kb);
        if slot == self.view.slots(partition).start {
            [load.disk_mb, inbound, outbound, load.cpu_percent, 1.0, 1.0, outbound, inbound]
        } else {
            let cpu = load.cpu_percent - self.leader_extra(partition)[3];
            [load.disk_mb, inbound, 0.0, cpu, 1.0, 0.0, outbound, 0.0]
        }
    }

    fn leader_extra(&self, partition: usize) -> Amounts {
        let load = self.view.leader_load(partition);
        let all = 0.7 * load.network_in_kb + 0.15 * load.network_out_kb;
        let follower = if all > 0.0 { 0.15 * load.network_in_kb / all } else { 0.0 };
        let cpu = load.cpu_percent * (1.0 - follower);
        [0.0, 0.0, load.network_out_kb, cpu, 0.0, 1.0, 0.0, load.network_in_kb]
    }

    fn cell(&self, slot: usize, broker: usize) -> usize {
        self.topic_of[self.partition_of[slot]] * self.sums.len() + broker
    }

    fn cost(&self, broker: usize, more: &Amounts, sign: f64) -> f64 {
        let Limits { low, high, hard } = &self.limits[broker];
        let mut cost = 0.0;
        for k in 0..8 {
            let amount = self.sums[broker][k] + sign * more[k];
            let soft = (low[k] - amount).max(0.0) + (amount - high[k]).max(0.0);
            cost += (soft + HARD * (amount - hard[k]).max(0.0)) * self.scale[k];
        }
        cost
    }

    /// Change of the cost of a broker that gets a load, or gives it.
    fn change(&self, broker: usize, more: &Amounts, sign: f64) -> f64 {
        self.cost(broker, more, sign) - self.cost(broker, more, 0.0)
    }

    fn topic_change(&self, slot: usize, from: usize, to: usize) -> f64 {
        let (low, high) = self.topic_limits[self.topic_of[self.partition_of[slot]]];
        let excess =
            |count: i32| (count - i32::from(high)).max(0) + (i32::from(low) - count).max(0);
        let count = |broker: usize| i32::from(self.counts[self.cell(slot, broker)]);
        let change = |count: i32, more: i32| excess(count + more) - excess(count);
        TOPIC * f64::from(change(count(from), -1) + change(count(to), 1))
    }

    fn is_home(&self, slot: usize, broker: usize) -> bool {
        let slots = self.view.slots(self.partition_of[slot]);
        self.view.assignment()[slots].contains(&(broker as u16))
    }

    fn mb_change(&self, slot: usize, to: usize) -> f64 {
        let home = |broker: usize| f64::from(u8::from(self.is_home(slot, broker)));
        let mb = self.view.partition_mb(self.partition_of[slot]);
        MB * mb * self.scale[0] * (home(usize::from(self.at[slot])) - home(to))
    }

    /// Whether a broker can take a replica: another broker of its partition is not there, and racks allow it.
    fn fits(&self, slot: usize, to: usize) -> bool {
        let slots = self.view.slots(self.partition_of[slot]);
        let factor = slots.len();
        let others = slots.filter(|other| *other != slot).map(|other| usize::from(self.at[other]));
        let Some(racks) = self.per_rack else {
            let mut others = others;
            return others.all(|other| self.racks[other] != self.racks[to]);
        };
        let mut counts = [0_usize; 64];
        for other in others {
            if other == to {
                return false;
            }
            // A replica on a removed broker will go.
            counts[self.racks[other]] += usize::from(self.is_live(other));
        }
        counts[self.racks[to]] += 1;
        let most = counts.iter().max().copied().unwrap_or(0);
        let above = counts.iter().filter(|count| **count > factor / racks).count();
        most <= factor.div_ceil(racks) && above <= factor % racks
    }

    fn is_live(&self, broker: usize) -> bool {
        self.view.brokers()[broker].state != BrokerState::Removed
    }

    fn move_to(&mut self, slot: usize, to: usize) {
        let (from, load) = (usize::from(self.at[slot]), self.load(slot));
        (0..8).for_each(|k| {
            self.sums[from][k] -= load[k];
            self.sums[to][k] += load[k];
        });
        let (left, entered) = (self.cell(slot, from), self.cell(slot, to));
        self.counts[left] -= 1;
        self.counts[entered] += 1;
        self.at[slot] = to as u16;
    }

    fn lead(&mut self, slot: usize) {
        let partition = self.partition_of[slot];
        let head = self.view.slots(partition).start;
        let (from, to) = (usize::from(self.at[head]), usize::from(self.at[slot]));
        let load = self.leader_extra(partition);
        (0..8).for_each(|k| {
            self.sums[from][k] -= load[k];
            self.sums[to][k] += load[k];
        });
        self.at.swap(head, slot);
    }

    /// Moves replicas off removed brokers and out of shared racks.
    fn place_forced(&mut self) {
        let mut slots: Vec<usize> = (0..self.at.len()).collect();
        self.random.shuffle(&mut slots);
        for slot in slots {
            let from = usize::from(self.at[slot]);
            if self.is_live(from) && self.fits(slot, from) {
                continue;
            }
            let load = self.load(slot);
            let mut best = (f64::INFINITY, None);
            for &to in &self.live {
                if to == from || !self.fits(slot, to) {
                    continue;
                }
                let fullness = (0..5).map(|k| self.sums[to][k] * self.scale[k]).sum::<f64>();
                let all = self.change(to, &load, 1.0) * 100.0 + fullness;
                if all < best.0 {
                    best = (all, Some(to));
                }
            }
            if let Some(to) = best.1 {
                self.move_to(slot, to);
            }
        }
    }

    /// All replicas; when brokers are removed, those of partitions that had to change.
    fn movable(&self) -> Vec<usize> {
        let changed = |slot: usize| {
            let mut slots = self.view.slots(self.partition_of[slot]);
            slots.any(|slot| !self.is_home(slot, usize::from(self.at[slot])))
        };
        (0..self.at.len()).filter(|slot| !self.drains() || changed(*slot)).collect()
    }

    fn drains(&self) -> bool {
        self.live.len() < self.sums.len()
    }

    /// Whether a replica stays, because only those that had to move may move.
    fn is_kept(&self, slot: usize) -> bool {
        self.drains() && self.is_home(slot, usize::from(self.at[slot]))
    }

    fn step(&mut self, temperature: f64) {
        let slot = self.movable[self.random.below(self.movable.len())];
        if self.is_kept(slot) {
            return;
        }
        match self.random.below(10) {
            0..4 => self.try_move(slot, temperature),
            4..8 => self.try_swap(slot, temperature),
            _ => {
                let any = self.random.below(self.at.len());
                self.try_lead(any, temperature);
            }
        }
    }

    fn accepts(&mut self, change: f64, temperature: f64) -> bool {
        change < 0.0 || self.random.unit() < (-change / temperature).exp()
    }

    fn try_move(&mut self, slot: usize, temperature: f64) {
        let homes = self.view.slots(self.partition_of[slot]);
        let to = if self.random.chance(0.2) {
            usize::from(self.view.assignment()[homes.start + self.random.below(homes.len())])
        } else {
            self.live[self.random.below(self.live.len())]
        };
        let from = usize::from(self.at[slot]);
        if from == to || !self.is_live(to) || !self.fits(slot, to) {
            return;
        }
        let load = self.load(slot);
        let change = self.change(from, &load, -1.0)
            + self.change(to, &load, 1.0)
            + self.topic_change(slot, from, to)
            + self.mb_change(slot, to);
        if self.accepts(change, temperature) {
            self.move_to(slot, to);
        }
    }

    fn try_swap(&mut self, one: usize, temperature: f64) {
        let two = self.movable[self.random.below(self.movable.len())];
        let (here, there) = (usize::from(self.at[one]), usize::from(self.at[two]));
        let same =
            self.is_kept(two) || here == there || self.partition_of[one] == self.partition_of[two];
        if same || !self.fits(one, there) || !self.fits(two, here) {
            return;
        }
        let (given, taken) = (self.load(one), self.load(two));
        let mut difference = [0.0; 8];
        (0..8).for_each(|k| difference[k] = taken[k] - given[k]);
        let mut change =
            self.change(here, &difference, 1.0) + self.change(there, &difference, -1.0);
        if self.topic_of[self.partition_of[one]] != self.topic_of[self.partition_of[two]] {
            change += self.topic_change(one, here, there) + self.topic_change(two, there, here);
        }
        change += self.mb_change(one, there) + self.mb_change(two, here);
        if self.accepts(change, temperature) {
            self.move_to(one, there);
            self.move_to(two, here);
        }
    }

    fn try_lead(&mut self, slot: usize, temperature: f64) {
        let partition = self.partition_of[slot];
        let (from, to) =
            (usize::from(self.at[self.view.slots(partition).start]), usize::from(self.at[slot]));
        if from == to {
            return;
        }
        let load = self.leader_extra(partition);
        let change = self.change(from, &load, -1.0) + self.change(to, &load, 1.0);
        if self.accepts(change, temperature) {
            self.lead(slot);
        }
    }

    /// Moves replicas back where that violates nothing more.
    fn send_home(&mut self) {
        for _ in 0..2 {
            for slot in 0..self.at.len() {
                let from = usize::from(self.at[slot]);
                if self.is_home(slot, from) {
                    continue;
                }
                let load = self.load(slot);
                let homes =
                    self.view.assignment()[self.view.slots(self.partition_of[slot])].to_vec();
                for home in homes.into_iter().map(usize::from) {
                    if home == from || !self.is_live(home) || !self.fits(slot, home) {
                        continue;
                    }
                    let change = self.change(from, &load, -1.0)
                        + self.change(home, &load, 1.0)
                        + self.topic_change(slot, from, home);
                    if change <= 0.0 {
                        self.move_to(slot, home);
                        break;
                    }
                }
            }
        }
    }
}
