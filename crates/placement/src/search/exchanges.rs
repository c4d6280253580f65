//! The last resort: swaps two replicas, or two leaderships.
//!
//! If ranges are narrow compared to the size of a replica, no single move helps, but the difference of two
//! does. A broker that is too far up by some amount looks for a replica elsewhere that is smaller than one of
//! its own by that amount: replicas of a sample are sorted by the quantity in question, so that candidates are
//! next to each other.

use super::passes::TOPIC_PRICE;
use super::state::{GAIN_MIN, Load8, OF_LEADERS, State};

/// Sample size of the broker's own replicas, and of a partner's.
const OWN: usize = 64;
const THEIRS: usize = 256;

/// Candidates around the wanted size.
const AROUND: usize = 8;

/// Other samples and other partners, before a broker is given up.
const OFFSETS: usize = 6;

/// Partners of an unbalanced broker per offset.
const PARTNERS: usize = 8;

/// Partitions that a partner leads and may hand over, for each that it would get.
const LED: usize = 16;

/// A swap: what a broker gives, and what it takes.
#[derive(Debug, Clone, Copy)]
struct Swap {
    gives: usize,
    takes: usize,
}

/// What a broker has too much of (`out` is positive) or too little, and the price of MB.
#[derive(Debug, Clone, Copy)]
struct Need {
    broker: usize,
    kind: usize,
    out: f64,
    price: f64,
}

impl State<'_> {
    /// Swaps replicas and leaderships of unbalanced brokers. Returns whether anything changed.
    pub(super) fn exchange(&mut self, price: f64) -> bool {
        let mut changed = self.exchange_topics(price * TOPIC_PRICE);
        for broker in self.unbalanced_first() {
            let mut offset = 0;
            while self.cost[broker] > 0.0 && offset < OFFSETS && !self.is_spent() {
                if self.exchange_leaders(broker)
                    || self.exchange_replicas(broker, offset, price)
                    || self.push_on(broker, offset, price)
                {
                    changed = true;
                } else {
                    offset += 1;
                }
            }
        }
        changed
    }

    /// Keeps brokers within hard limits, with any replica that is not pinned. A drain otherwise moves only
    /// replicas of removed brokers.
    pub(super) fn keep_hard_limits(&mut self) {
        let only_displaced = std::mem::replace(&mut self.only_displaced, false);
        self.allow(u64::MAX, 1);
        for broker in self.unbalanced_first() {
            let mut offset = 0;
            while self.breaks_hard(broker) && offset < OFFSETS {
                let gives = self.relieving(broker, THEIRS, 0.0).into_iter().find_map(|replica| {
                    let (change, to) = self.best_destination(replica, 0.0)?;
                    (change < -GAIN_MIN).then_some((replica, to))
                });
                if let Some((replica, to)) = gives {
                    self.move_replica(replica, to);
                } else if !(self.exchange_leaders(broker)
                    || self.exchange_replicas(broker, offset, 0.0)
                    || self.push_on(broker, offset, 0.0))
                {
                    offset += 1;
                }
            }
        }
        self.only_displaced = only_displaced;
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
                if !self.is_spent()
                    && self.is_topic_crowded(partition, broker)
                    && self.may_move(replica)
                {
                    changed |= self.exchange_one(replica, broker, price);
                }
            }
        }
        changed
    }

    /// Swaps one replica with the best of a sample elsewhere, if that is an improvement.
    fn exchange_one(&mut self, gives: usize, broker: usize, price: f64) -> bool {
        let mut best = (-GAIN_MIN, None);
        let need = Need { broker, kind: 0, out: 0.0, price };
        let count = self.live.len();
        for step in 0..count.min(PARTNERS * OFFSETS) {
            let partner = self.live[(gives + step) % count];
            if partner == broker
                || !self.fits(gives, partner)
                || self.topic_change(gives, partner) >= 0.0
            {
                continue;
            }
            let theirs = self.sample(partner, gives % THEIRS, THEIRS / 4, 0);
            self.best_swap(need, (gives, partner), &theirs, &mut best);
            if best.1.is_some() && step >= PARTNERS {
                break;
            }
        }
        self.swap(broker, best.1)
    }

    fn exchange_replicas(&mut self, broker: usize, offset: usize, price: f64) -> bool {
        let (kind, out) = self.worst(broker);
        let need = Need { broker, kind, out, price };
        let own = self.sample(broker, offset, OWN, kind);
        let mut best = (-GAIN_MIN, None);
        for partner in self.partners(need, offset * PARTNERS) {
            let theirs = self.sample(partner, offset, THEIRS, kind);
            for &(_, gives) in &own {
                self.best_swap(need, (gives, partner), &theirs, &mut best);
            }
        }
        self.swap(broker, best.1)
    }

    /// The best replica of a partner's sorted sample to take for one that is given, among those of the wanted
    /// size.
    fn best_swap(
        &self,
        need: Need,
        (gives, partner): (usize, usize),
        theirs: &[(f64, usize)],
        best: &mut (f64, Option<(Swap, usize)>),
    ) {
        let load = self.load(gives);
        let wanted = load[need.kind] - need.out;
        let at = theirs.partition_point(|(size, _)| *size < wanted);
        let begin = at.saturating_sub(AROUND / 2).min(theirs.len().saturating_sub(AROUND));
        let end = (begin + AROUND).min(theirs.len());
        self.spend(end - begin);
        for &(_, takes) in &theirs[begin..end] {
            let difference = difference(&load, &self.load(takes));
            let change = self.swap_change(need.broker, partner, &difference);
            if change >= best.0 + SMALL || !self.may_swap(gives, takes) {
                continue;
            }
            let topics = self.topic_change(gives, partner) + self.topic_change(takes, need.broker);
            let mb = self.move_mb(gives, partner) + self.move_mb(takes, need.broker);
            let all = change + topics + need.price * mb * self.scale[0];
            if all < best.0 {
                *best = (all, Some((Swap { gives, takes }, partner)));
            }
        }
    }

    fn swap(&mut self, broker: usize, swap: Option<(Swap, usize)>) -> bool {
        let Some((Swap { gives, takes }, partner)) = swap else { return false };
        self.move_replica(gives, partner);
        self.move_replica(takes, broker);
        true
    }

    /// Moves a replica to a broker that passes another one on. Returns whether that was an improvement.
    fn push_on(&mut self, broker: usize, offset: usize, price: f64) -> bool {
        let (kind, out) = self.worst(broker);
        if out <= 0.0 {
            return false;
        }
        let own = self.sample(broker, offset, OWN / 2, kind);
        let partners = self.partners(Need { broker, kind, out, price }, offset * PARTNERS);
        let mut firsts: Vec<(f64, usize, usize)> = Vec::new();
        for (_, replica) in own {
            let load = self.load(replica);
            let relief = self.cost_change(broker, &load, -1.0);
            if relief >= 0.0 {
                continue;
            }
            self.spend(partners.len());
            for &to in &partners {
                if self.fits(replica, to) {
                    firsts.push((self.change(replica, to, &load, price), replica, to));
                }
            }
        }
        firsts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        for (first, replica, to) in firsts.into_iter().take(PARTNERS) {
            self.move_replica(replica, to);
            let mut best = (-first - GAIN_MIN, None);
            for next in self.relieving(to, PARTNERS, price) {
                if next != replica
                    && let Some((change, on)) = self.best_destination(next, price)
                    && change < best.0
                {
                    best = (change, Some((next, on)));
                }
            }
            if let Some((next, on)) = best.1 {
                self.move_replica(next, on);
                return true;
            }
            self.move_replica(replica, broker);
        }
        false
    }

    /// Swaps leaderships of two partitions between two brokers.
    fn exchange_leaders(&mut self, broker: usize) -> bool {
        if !OF_LEADERS.iter().chain(&[7]).any(|k| self.is_outside(broker, *k)) {
            return false;
        }
        let mut led: Vec<usize> = Vec::new();
        // Those that the broker could lead, by their leader.
        let mut followed: Vec<(u16, u32)> = Vec::new();
        for &replica in &self.on_broker[broker] {
            let head = self.leader_slot(self.partition_of[replica as usize] as usize);
            if head == replica as usize {
                led.push(head);
            } else {
                followed.push((self.broker_of[head], replica));
            }
        }
        followed.sort_unstable();
        let mut best = (-GAIN_MIN, None);
        for gives in led {
            let given = self.partition_of[gives] as usize;
            if self.needs_leader(given, broker) {
                continue;
            }
            let load = self.leadership(given);
            for slot in self.slots(given).filter(|slot| *slot != gives) {
                let partner = self.broker_of[slot];
                if !self.may_lead(usize::from(partner)) {
                    continue;
                }
                let begin = followed.partition_point(|(leader, _)| *leader < partner);
                let end = followed.partition_point(|(leader, _)| *leader <= partner);
                let step = (end - begin).div_ceil(LED).max(1);
                self.spend((end - begin).min(LED));
                for &(_, takes) in followed[begin..end].iter().step_by(step) {
                    let taken = self.partition_of[takes as usize] as usize;
                    let difference = difference(&load, &self.leadership(taken));
                    let change = self.swap_change(broker, usize::from(partner), &difference);
                    let keeps = !self.may_lead(broker)
                        || self.needs_leader(taken, usize::from(partner))
                        || taken == given;
                    if change < best.0 && !keeps {
                        best = (change, Some((given, slot, taken, takes as usize)));
                    }
                }
            }
        }
        let Some((given, slot, taken, takes)) = best.1 else { return false };
        self.lead(given, slot);
        self.lead(taken, takes);
        true
    }

    /// Change of cost if a broker gets this load, and a partner gives it.
    fn swap_change(&self, broker: usize, partner: usize, difference: &Load8) -> f64 {
        let here = self.cost_change(broker, difference, 1.0);
        if here >= 0.0 {
            return here;
        }
        here + self.cost_change(partner, difference, -1.0)
    }

    /// Whether the replicas fit in each other's place. Replicas of the same partition are not swapped.
    pub(super) fn may_swap(&self, one: usize, other: usize) -> bool {
        let (here, there) = (self.broker_of[one], self.broker_of[other]);
        self.partition_of[one] != self.partition_of[other]
            && self.fits(one, usize::from(there))
            && self.fits(other, usize::from(here))
    }

    /// Partners of a broker: those that can take most of what it has too much of, or give what it lacks.
    fn partners(&self, Need { broker, kind, out, .. }: Need, skip: usize) -> Vec<usize> {
        let others = self.live.iter().copied().filter(|other| *other != broker);
        let able = |other| if out > 0.0 { self.room(other, kind) } else { self.spare(other, kind) };
        let mut others: Vec<(f64, usize)> = others.map(|other| (able(other), other)).collect();
        others.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let skip = if others.len() > skip { skip } else { 0 };
        others.into_iter().skip(skip).take(PARTNERS).map(|(_, other)| other).collect()
    }

    /// A sample of a broker's replicas that may move, sorted by one quantity.
    fn sample(&self, broker: usize, offset: usize, count: usize, k: usize) -> Vec<(f64, usize)> {
        let all = &self.on_broker[broker];
        let step = all.len().div_ceil(count).max(1);
        let of_broker = all.iter().skip(offset % step).step_by(step);
        let mut sample: Vec<(f64, usize)> = of_broker
            .map(|replica| *replica as usize)
            .filter(|replica| self.may_move(*replica))
            .map(|replica| (self.load(replica)[k], replica))
            .collect();
        self.spend(sample.len());
        sample.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        sample
    }
}

/// Slack for a topic that a swap improves.
const SMALL: f64 = 0.01;

/// Net load of a broker that gives one load and receives another.
fn difference(gives: &Load8, takes: &Load8) -> Load8 {
    let mut difference = *takes;
    difference.iter_mut().zip(gives).for_each(|(takes, gives)| *takes -= gives);
    difference
}
