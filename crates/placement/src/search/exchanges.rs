//! The last resort: swaps two replicas, or two leaderships.
//!
//! If ranges are narrow compared to the size of a replica, no single move helps, but the difference of two
//! does. All pairs would be too many, so a sample of both sides is tried: replicas sorted by size, at even
//! distances, with another offset in each round.

use super::passes::TOPIC_PRICE;
use super::state::{GAIN_MIN, Load8, State};

/// Sample size per side.
const SAMPLE: usize = 48;

/// Offsets before a broker is given up.
const OFFSETS: usize = 4;

/// Partners of an unbalanced broker: those with the most free capacity.
const PARTNERS: usize = 12;

impl State<'_> {
    /// Swaps replicas and leaderships of unbalanced brokers. Returns whether anything changed.
    pub(super) fn exchange(&mut self, price: f64) -> bool {
        let mut changed = self.exchange_topics(price * TOPIC_PRICE);
        for broker in self.unbalanced_first() {
            for offset in 0..OFFSETS {
                while self.cost[broker] > 0.0
                    && (self.exchange_leaders(broker, offset)
                        || self.exchange_replicas(broker, offset, price))
                {
                    changed = true;
                }
            }
        }
        changed
    }

    /// Swaps replicas of concentrated topics. Returns whether anything changed.
    fn exchange_topics(&mut self, price: f64) -> bool {
        let crowded = self.crowded_topics();
        let mut changed = false;
        for partition in 0..self.view.partitions() {
            if !crowded[self.view.topic_of[partition] as usize] {
                continue;
            }
            for replica in self.slots(partition) {
                let broker = usize::from(self.broker_of[replica]);
                if self.is_topic_crowded(partition, broker) && self.may_move(replica) {
                    let first = partition % OFFSETS;
                    // When MB do not count any more, few are left, and for them the whole sample is tried.
                    let offsets = if price > 0.0 { 1 } else { OFFSETS };
                    changed |= (first..first + offsets)
                        .any(|offset| self.exchange_one(replica, offset % OFFSETS, price));
                }
            }
        }
        changed
    }

    /// Swaps one replica with the best of a sample elsewhere, if that is an improvement.
    fn exchange_one(&mut self, gives: usize, offset: usize, price: f64) -> bool {
        let broker = usize::from(self.broker_of[gives]);
        let load = self.load(gives);
        let mut best = (-GAIN_MIN, None);
        let partners = if price > 0.0 { PARTNERS } else { self.live.len() };
        for partner in self.partners(broker, partners) {
            if !self.fits(gives, partner) || self.topic_change(gives, partner) >= 0.0 {
                continue;
            }
            for takes in self.sample(partner, offset, |state, replica| state.may_move(replica)) {
                let difference = difference(&load, &self.load(takes));
                let change = self.cost_change(broker, &difference, 1.0)
                    + self.cost_change(partner, &difference, -1.0);
                let topics = self.topic_change(gives, partner) + self.topic_change(takes, broker);
                let mb = self.move_mb(gives, partner) + self.move_mb(takes, broker);
                let all = change + topics + price * mb * self.scale[0];
                if all < best.0 && self.may_swap(gives, takes) {
                    best = (all, Some((takes, partner)));
                }
            }
        }
        let Some((takes, partner)) = best.1 else { return false };
        self.move_replica(gives, partner);
        self.move_replica(takes, broker);
        true
    }

    fn exchange_replicas(&mut self, broker: usize, offset: usize, price: f64) -> bool {
        let own = self.sample(broker, offset, |state, replica| state.may_move(replica));
        let mut best = (-GAIN_MIN, None);
        for partner in self.partners(broker, PARTNERS) {
            let theirs = self.sample(partner, offset, |state, replica| state.may_move(replica));
            for &gives in &own {
                let load = self.load(gives);
                for &takes in &theirs {
                    let change = self.swap_change(broker, partner, &load, &self.load(takes));
                    if change >= best.0 || !self.may_swap(gives, takes) {
                        continue;
                    }
                    let mb = self.move_mb(gives, partner) + self.move_mb(takes, broker);
                    let topics =
                        self.topic_change(gives, partner) + self.topic_change(takes, broker);
                    let all = change + topics + price * mb * self.scale[0];
                    if all < best.0 {
                        best = (all, Some((gives, takes, partner)));
                    }
                }
            }
        }
        let Some((gives, takes, partner)) = best.1 else { return false };
        self.move_replica(gives, partner);
        self.move_replica(takes, broker);
        true
    }

    /// Swaps leaderships of two partitions between two brokers.
    fn exchange_leaders(&mut self, broker: usize, offset: usize) -> bool {
        let leads = |state: &Self, replica: usize| {
            replica == state.leader_slot(state.partition_of[replica] as usize)
        };
        let led = self.sample(broker, offset, leads);
        let followed = self.sample(broker, offset, |state, replica| !leads(state, replica));
        let mut best = (-GAIN_MIN, None);
        for &gives in &led {
            let given = self.partition_of[gives] as usize;
            let load = self.leadership(given);
            for slot in self.slots(given).filter(|slot| *slot != gives) {
                let partner = usize::from(self.broker_of[slot]);
                if !self.may_lead(partner) || self.needs_leader(given, broker) {
                    continue;
                }
                for &takes in &followed {
                    let taken = self.partition_of[takes] as usize;
                    let leader = usize::from(self.broker_of[self.leader_slot(taken)]);
                    let keeps = !self.may_lead(broker) || self.needs_leader(taken, leader);
                    if leader != partner || taken == given || keeps {
                        continue;
                    }
                    let other = self.leadership(taken);
                    let change = self.swap_change(broker, partner, &load, &other);
                    if change < best.0 {
                        best = (change, Some((given, slot, taken, takes)));
                    }
                }
            }
        }
        let Some((given, slot, taken, takes)) = best.1 else { return false };
        self.lead(given, slot);
        self.lead(taken, takes);
        true
    }

    /// Change of cost if a broker gives one load to a partner and receives another.
    fn swap_change(&self, broker: usize, partner: usize, gives: &Load8, takes: &Load8) -> f64 {
        let difference = difference(gives, takes);
        let here = self.cost_change(broker, &difference, 1.0);
        if here >= 0.0 {
            return here;
        }
        here + self.cost_change(partner, &difference, -1.0)
    }

    /// Whether the replicas fit in each other's place. Replicas of the same partition are not swapped.
    fn may_swap(&self, one: usize, other: usize) -> bool {
        let (here, there) = (self.broker_of[one], self.broker_of[other]);
        self.partition_of[one] != self.partition_of[other]
            && self.fits(one, usize::from(there))
            && self.fits(other, usize::from(here))
    }

    /// Partners of a broker: the least utilized first.
    fn partners(&self, broker: usize, count: usize) -> Vec<usize> {
        let others = self.live.iter().copied().filter(|other| *other != broker);
        let mut others: Vec<(f64, usize)> =
            others.map(|other| (self.fullness(other), other)).collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // A broker below its range is helped by the most utilized one.
        if self.is_short(broker) {
            others.reverse();
        }
        others.into_iter().take(count).map(|(_, other)| other).collect()
    }

    /// A sample of a broker's replicas: by size, at even distances.
    fn sample(
        &self,
        broker: usize,
        offset: usize,
        wanted: impl Fn(&Self, usize) -> bool,
    ) -> Vec<usize> {
        let size = |replica: &usize| {
            let load = self.load(*replica);
            (0..4).map(|k| load[k] * self.scale[k]).sum::<f64>()
        };
        let of_broker = self.on_broker[broker].iter().map(|replica| *replica as usize);
        let mut replicas: Vec<(f64, usize)> =
            of_broker.filter(|r| wanted(self, *r)).map(|r| (size(&r), r)).collect();
        replicas.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let step = replicas.len().div_ceil(SAMPLE).max(1);
        let start = offset * step / OFFSETS;
        replicas.into_iter().skip(start).step_by(step).map(|(_, replica)| replica).collect()
    }
}

/// Net load of a broker that gives one load and receives another.
fn difference(gives: &Load8, takes: &Load8) -> Load8 {
    let mut difference = *takes;
    difference.iter_mut().zip(gives).for_each(|(takes, gives)| *takes -= gives);
    difference
}
