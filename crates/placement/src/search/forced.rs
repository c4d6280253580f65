//! Places replicas that must move.

use super::state::State;

impl State<'_> {
    /// Places replicas of removed brokers, and all but one of those that share a rack. Largest first: small
    /// ones fill the remaining gaps.
    pub(super) fn place_forced(&mut self) {
        let mut forced: Vec<(f64, u32)> = Vec::new();
        for partition in 0..self.view.partitions() {
            for replica in self.forced_in(partition) {
                let load = self.load(replica);
                let size: f64 = (0..3).map(|k| load[k] * self.scale[k]).sum();
                forced.push((size, replica as u32));
            }
        }
        forced.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, replica) in forced {
            let mut replica = replica as usize;
            let mut place = self.best_place(replica);
            if place.is_none()
                && let Some(follower) = self.hand_over(replica)
            {
                replica = follower;
                place = self.best_place(replica);
            }
            if let Some(to) = place {
                self.move_replica(replica, to);
            }
        }
    }

    /// Transfers the leadership of a replica that has no place as a leader. Returns its slot as a follower,
    /// if that worked.
    fn hand_over(&mut self, replica: usize) -> Option<usize> {
        let partition = self.partition_of[replica] as usize;
        let takes = |slot: &usize| self.view.takes_leaders(usize::from(self.broker_of[*slot]));
        let mut others = self.slots(partition).filter(|slot| *slot != replica);
        let other = others.find(takes).filter(|_| replica == self.leader_slot(partition))?;
        self.lead(partition, other);
        Some(other)
    }

    /// Replicas of a partition that cannot stay.
    fn forced_in(&self, partition: usize) -> Vec<usize> {
        let slots = self.slots(partition);
        let mut forced =
            if self.is_pinned(partition) { Vec::new() } else { self.uneven_in(partition) };
        let mut stay: Vec<usize> = Vec::with_capacity(slots.len());
        for replica in slots {
            let broker = usize::from(self.broker_of[replica]);
            if !self.view.is_live(broker) {
                forced.push(replica);
                continue;
            }
            let shares = |other: &usize| {
                self.is_rack_shared(broker, usize::from(self.broker_of[*other]))
                    && !self.is_pinned(partition)
            };
            match stay.iter().position(shares) {
                None => stay.push(replica),
                // Of two in one rack, the one on the more utilized broker moves.
                Some(at) => {
                    let other = usize::from(self.broker_of[stay[at]]);
                    if self.fullness(broker) > self.fullness(other) {
                        forced.push(replica);
                    } else {
                        forced.push(std::mem::replace(&mut stay[at], replica));
                    }
                }
            }
        }
        forced
    }

    /// The broker that gets closest to the middle of its ranges with the replica.
    fn best_place(&self, replica: usize) -> Option<usize> {
        /// With more brokers, some are tried before all are.
        const PLACES: usize = 96;
        if self.live.len() > 2 * PLACES {
            let place = self.best_place_of(replica, self.some_live(replica, PLACES));
            if place.is_some() {
                return place;
            }
        }
        self.best_place_of(replica, self.live.iter().copied())
    }

    fn best_place_of(&self, replica: usize, brokers: impl Iterator<Item = usize>) -> Option<usize> {
        /// A broker that had the partition before needs no data, which is a slight preference.
        const HOME: f64 = 1e-3;
        let load = self.load(replica);
        let mut best: Option<(f64, usize)> = None;
        for broker in brokers {
            if !self.fits(replica, broker) {
                continue;
            }
            let mut worth =
                self.distance_change(broker, &load) + self.topic_change(replica, broker);
            if self.move_mb(replica, broker) > 0.0 {
                worth += HOME * load[0] * self.scale[0];
            }
            if best.is_none_or(|(least, _)| worth < least) {
                best = Some((worth, broker));
            }
        }
        best.map(|(_, broker)| broker)
    }
}
