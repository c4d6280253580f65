//! The repeated passes: leadership, topics, giving, taking, and moving back.

use super::state::{GAIN_MIN, Load8, State, TOPIC_COST};

/// Candidates of a broker that are tried before new ones are collected.
const GIVE_TRIES: usize = 48;
const TAKE_TRIES: usize = 64;

/// At least this part of a broker's replicas is tried.
const GIVE_PART: usize = 16;

/// With more brokers than this, some are tried as destinations before all are.
const DESTINATIONS: usize = 64;

/// How often candidates are collected, per broker and pass.
const GIVE_LOOKS: usize = 6;
const TAKE_LOOKS: usize = 40;

/// Most utilized brokers from which an underutilized one may take.
const GIVERS: usize = 6;

/// Bounds the ratio of gain to MB for replicas without data.
const FREE: f64 = 1e-4;

/// Factor of the price when a topic is spread: its cost is small in comparison.
pub(super) const TOPIC_PRICE: f64 = 1e-3;

impl State<'_> {
    /// Transfers leadership to and from unbalanced brokers. Returns whether anything changed.
    pub(super) fn move_leaders(&mut self) -> bool {
        let mut changed = false;
        for broker in self.unbalanced() {
            let mut at = 0;
            while at < self.on_broker[broker].len() && self.cost[broker] > 0.0 {
                let replica = self.on_broker[broker][at] as usize;
                let partition = self.partition_of[replica] as usize;
                let slot = if replica == self.leader_slot(partition) {
                    self.better_leader(partition, broker)
                } else {
                    self.leads_better(partition, broker).then_some(replica)
                };
                if let Some(slot) = slot {
                    self.lead(partition, slot);
                    changed = true;
                }
                at += 1;
            }
        }
        changed
    }

    /// The slot of a replica that is a better leader than this broker.
    fn better_leader(&self, partition: usize, broker: usize) -> Option<usize> {
        let load = self.leadership(partition);
        let relief = self.cost_change(broker, &load, -1.0);
        if relief >= 0.0 || self.needs_leader(partition, broker) {
            return None;
        }
        let head = self.leader_slot(partition);
        let mut best = (-GAIN_MIN, None);
        for slot in self.slots(partition).filter(|slot| *slot != head) {
            let other = usize::from(self.broker_of[slot]);
            if !self.may_lead(other) {
                continue;
            }
            let change = relief + self.cost_change(other, &load, 1.0);
            if change < best.0 {
                best = (change, Some(slot));
            }
        }
        best.1
    }

    /// Whether this broker is a better leader than the current one.
    fn leads_better(&self, partition: usize, broker: usize) -> bool {
        let load = self.leadership(partition);
        let gain = self.cost_change(broker, &load, 1.0);
        let leader = usize::from(self.broker_of[self.leader_slot(partition)]);
        let may = self.may_lead(broker) && !self.needs_leader(partition, leader);
        may && gain < 0.0 && gain + self.cost_change(leader, &load, -1.0) < -GAIN_MIN
    }

    /// Moves replicas of topics that are concentrated on a broker, smallest first.
    pub(super) fn spread_topics(&mut self, price: f64) -> bool {
        let crowded = self.crowded_topics();
        if !crowded.contains(&true) {
            return false;
        }
        let mut replicas: Vec<(u32, f64, u32)> = Vec::new();
        for partition in 0..self.view.partitions() {
            let topic = self.view.topic_of[partition];
            if crowded[topic as usize] {
                let disk = self.view.load[partition].disk;
                replicas.extend(self.slots(partition).map(|slot| (topic, disk, slot as u32)));
            }
        }
        replicas.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut changed = false;
        for (_, _, replica) in replicas {
            let replica = replica as usize;
            let partition = self.partition_of[replica] as usize;
            let from = usize::from(self.broker_of[replica]);
            if !self.is_topic_crowded(partition, from) || !self.may_move(replica) {
                continue;
            }
            let best = self.best_destination(replica, price * TOPIC_PRICE);
            if let Some((change, to)) = best
                && change < -GAIN_MIN
                && self.topic_change(replica, to) < -TOPIC_COST / 2.0
            {
                self.move_replica(replica, to);
                changed = true;
            }
        }
        changed
    }

    /// Moves replicas away from overloaded brokers.
    pub(super) fn relieve(&mut self, price: f64) -> bool {
        let mut changed = false;
        for broker in self.unbalanced_first() {
            for _ in 0..GIVE_LOOKS {
                if self.is_spent() {
                    return changed;
                }
                let tries = GIVE_TRIES.max(self.on_broker[broker].len() / GIVE_PART);
                let candidates = self.relieving(broker, tries, price);
                let mut gave = false;
                for replica in candidates {
                    if self.cost[broker] <= 0.0 {
                        break;
                    }
                    if let Some((change, to)) = self.best_destination(replica, price)
                        && change < -GAIN_MIN
                    {
                        self.move_replica(replica, to);
                        gave = true;
                    }
                }
                changed |= gave;
                if !gave || self.cost[broker] <= 0.0 {
                    break;
                }
            }
        }
        changed
    }

    /// Replicas of a broker with the best ratio of relief to MB, if those have a price.
    pub(super) fn relieving(&self, broker: usize, count: usize, price: f64) -> Vec<usize> {
        let is_free = price <= 0.0;
        let mut candidates = Vec::new();
        self.spend(self.on_broker[broker].len());
        for &replica in &self.on_broker[broker] {
            let load = self.load(replica as usize);
            let relief = -self.cost_change(broker, &load, -1.0);
            if relief <= 0.0 || !self.may_move(replica as usize) {
                continue;
            }
            let free = is_free || self.is_displaced(replica as usize);
            let mb = if free { 0.0 } else { load[0] * self.scale[0] };
            candidates.push((relief / (mb + FREE), replica));
        }
        best_first(candidates, count)
    }

    /// Moves replicas to underutilized brokers.
    pub(super) fn fill(&mut self, price: f64) -> bool {
        let mut changed = false;
        for broker in self.unbalanced_first() {
            for _ in 0..TAKE_LOOKS {
                if !self.is_short(broker) || self.is_spent() {
                    break;
                }
                let mut took = false;
                for replica in self.filling(broker) {
                    if self.take(replica, broker, price) {
                        took = true;
                    }
                    if !self.is_short(broker) {
                        break;
                    }
                }
                changed |= took;
                if !took {
                    break;
                }
            }
        }
        changed
    }

    fn take(&mut self, replica: usize, to: usize, price: f64) -> bool {
        if !self.fits(replica, to) {
            return false;
        }
        let load = self.load(replica);
        let change = self.change(replica, to, &load, price);
        if change < -GAIN_MIN {
            self.move_replica(replica, to);
            return true;
        }
        false
    }

    /// Replicas elsewhere that match the broker's gaps best.
    fn filling(&self, broker: usize) -> Vec<usize> {
        let others = self.live.iter().filter(|other| **other != broker);
        let mut givers: Vec<(f64, usize)> =
            others.map(|other| (self.surplus_for(broker, *other), *other)).collect();
        givers.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut candidates = Vec::new();
        for (_, giver) in givers.into_iter().take(GIVERS) {
            self.spend(self.on_broker[giver].len());
            for &replica in &self.on_broker[giver] {
                let load = self.load(replica as usize);
                let gain = -self.cost_change(broker, &load, 1.0)
                    - self.cost_change(giver, &load, -1.0)
                    - self.topic_change(replica as usize, broker);
                let fits = gain > 0.0 && self.fits(replica as usize, broker);
                if !fits || !self.may_move(replica as usize) {
                    continue;
                }
                let mb = (self.move_mb(replica as usize, broker) * self.scale[0]).max(0.0);
                let worth = (gain / (gain + mb)).sqrt();
                candidates.push((self.alignment(broker, &load) * worth, replica));
            }
        }
        best_first(candidates, TAKE_TRIES)
    }

    /// How well the direction of a load matches the broker's gaps.
    fn alignment(&self, broker: usize, load: &Load8) -> f64 {
        let squares: f64 = (0..6).map(|k| (load[k] * self.scale[k]).powi(2)).sum();
        -self.distance_change(broker, load) / (squares.sqrt() + FREE)
    }

    /// Moves replicas back to their original brokers where that is harmless. Largest first.
    pub(super) fn send_home(&mut self) {
        let mut away: Vec<(f64, u32)> = Vec::new();
        for partition in 0..self.view.partitions() {
            let displaced = self.slots(partition).filter(|slot| self.is_displaced(*slot));
            let disk = self.view.load[partition].disk;
            away.extend(displaced.map(|slot| (disk, slot as u32)));
        }
        away.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, replica) in away {
            let replica = replica as usize;
            let partition = self.partition_of[replica] as usize;
            let load = self.load(replica);
            let harmless = |home: &usize| {
                self.view.is_live(*home)
                    && self.fits(replica, *home)
                    && self.change(replica, *home, &load, 0.0) <= 0.0
            };
            let home = self.home(partition).iter().map(|home| usize::from(*home)).find(harmless);
            if let Some(home) = home {
                self.move_replica(replica, home);
            }
        }
    }

    /// The best destination of a replica, with the change of cost. If there are many brokers and one of some is
    /// an improvement, the others are not tried.
    pub(super) fn best_destination(&self, replica: usize, price: f64) -> Option<(f64, usize)> {
        if self.live.len() > 2 * DESTINATIONS {
            let best = self.best_of(replica, price, self.some_live(replica, DESTINATIONS));
            if best.is_some_and(|(change, _)| change < -GAIN_MIN) || self.is_spent() {
                return best;
            }
        }
        self.best_of(replica, price, self.live.iter().copied())
    }

    /// Some brokers, another choice for each replica.
    pub(super) fn some_live(
        &self,
        replica: usize,
        count: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let brokers = self.live.len();
        let begin = replica.wrapping_mul(0x9e37_79b9) >> 7;
        // Neighbours in the list may share a rack or an age.
        let stride = (brokers / count).max(1);
        (0..count).map(move |step| self.live[(begin + step * stride) % brokers])
    }

    fn best_of(
        &self,
        replica: usize,
        price: f64,
        brokers: impl Iterator<Item = usize>,
    ) -> Option<(f64, usize)> {
        /// Tie-breaker: the less utilized broker.
        const TIE: f64 = 1e-6;
        let load = self.load(replica);
        let relief = self.cost_change(usize::from(self.broker_of[replica]), &load, -1.0);
        let mut best: Option<(f64, f64, usize)> = None;
        let mut tried = 0;
        for broker in brokers {
            tried += 1;
            if !self.fits(replica, broker) {
                continue;
            }
            let mb = price * self.move_mb(replica, broker) * self.scale[0];
            let change = relief
                + self.cost_change(broker, &load, 1.0)
                + self.topic_change(replica, broker)
                + mb;
            if best.is_some_and(|(least, ..)| change > least + TIE * 100.0) {
                continue;
            }
            let rank = change + TIE * self.distance_change(broker, &load);
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, change, broker));
            }
        }
        self.spend(tried);
        best.map(|(_, change, broker)| (change, broker))
    }

    /// Change of cost of a move: both brokers, topics, and MB at their price.
    pub(super) fn change(&self, replica: usize, to: usize, load: &Load8, price: f64) -> f64 {
        let from = usize::from(self.broker_of[replica]);
        let mb = price * self.move_mb(replica, to) * self.scale[0];
        self.cost_change(from, load, -1.0)
            + self.cost_change(to, load, 1.0)
            + self.topic_change(replica, to)
            + mb
    }

    fn unbalanced(&self) -> Vec<usize> {
        self.live.iter().copied().filter(|broker| self.cost[*broker] > 0.0).collect()
    }

    pub(super) fn unbalanced_first(&self) -> Vec<usize> {
        let mut brokers = self.unbalanced();
        brokers.sort_by(|a, b| self.cost[*b].total_cmp(&self.cost[*a]).then(a.cmp(b)));
        brokers
    }
}

/// The best `count` of some candidates, best first.
fn best_first(mut candidates: Vec<(f64, u32)>, count: usize) -> Vec<usize> {
    let order = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if candidates.len() > count {
        candidates.select_nth_unstable_by(count - 1, order);
        candidates.truncate(count);
    }
    candidates.sort_by(order);
    candidates.into_iter().map(|(_, replica)| replica as usize).collect()
}
