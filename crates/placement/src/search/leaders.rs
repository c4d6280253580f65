//! Explicit leadership requirements: topics with leaders on every broker, brokers excluded from leadership,
//! preferred leaders.

use super::state::State;

/// Leaders per broker of topics that need leaders on every broker.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Offset of each topic's counts, or `usize::MAX`. Empty if there are no such topics.
    begins: Vec<usize>,
    counts: Vec<u32>,
}

impl State<'_> {
    /// Counts leaders of watched topics.
    pub(super) fn watch_leaders(&mut self) {
        let brokers = self.view.brokers.len();
        let least = &self.view.leaders_min;
        if least.iter().all(|least| *least == 0) {
            return;
        }
        let mut next = 0;
        for least in least {
            self.watched.begins.push(if *least > 0 { next } else { usize::MAX });
            next += if *least > 0 { brokers } else { 0 };
        }
        self.watched.counts = vec![0; next];
        for partition in 0..self.view.partitions() {
            let leader = usize::from(self.broker_of[self.leader_slot(partition)]);
            self.count_leader(partition, leader, 1);
        }
    }

    /// Counts a leader that is added (`1`) or removed (`-1`).
    pub(super) fn count_leader(&mut self, partition: usize, broker: usize, more: i32) {
        if let Some(at) = self.watched_at(partition, broker) {
            self.watched.counts[at] = self.watched.counts[at].saturating_add_signed(more);
        }
    }

    fn watched_at(&self, partition: usize, broker: usize) -> Option<usize> {
        let begins = *self.watched.begins.get(self.view.topic_of[partition] as usize)?;
        (begins != usize::MAX).then(|| begins + broker)
    }

    fn leaders_min(&self, partition: usize) -> u32 {
        self.view.leaders_min[self.view.topic_of[partition] as usize]
    }

    /// Whether the broker needs its leadership of this partition.
    pub(super) fn needs_leader(&self, partition: usize, broker: usize) -> bool {
        let at = self.watched_at(partition, broker).filter(|_| self.view.takes_leaders(broker));
        at.is_some_and(|at| self.watched.counts[at] <= self.leaders_min(partition))
    }

    /// Whether a broker may receive a leadership.
    pub(super) fn may_lead(&self, broker: usize) -> bool {
        !self.view.unled[broker]
    }

    /// Gives brokers the leaders that they need of watched topics: for free if they have a follower, else a
    /// replica moves.
    pub(super) fn spread_leaders(&mut self) {
        if self.watched.begins.is_empty() {
            return;
        }
        let takes = |broker: &usize| self.view.takes_leaders(*broker);
        let brokers: Vec<usize> = (0..self.view.brokers.len()).filter(takes).collect();
        for partition in self.first_of_watched() {
            for &broker in &brokers {
                while self.lacks_leader(partition, broker) && self.find_leader(partition, broker) {}
            }
        }
    }

    /// The first partition of every watched topic.
    fn first_of_watched(&self) -> Vec<usize> {
        let topics = &self.view.topic_of;
        let first = |at: &usize| *at == 0 || topics[at - 1] != topics[*at];
        let watched = |at: &usize| self.leaders_min(*at) > 0;
        (0..topics.len()).filter(first).filter(watched).collect()
    }

    fn lacks_leader(&self, partition: usize, broker: usize) -> bool {
        let at = self.watched_at(partition, broker);
        at.is_some_and(|at| self.watched.counts[at] < self.leaders_min(partition))
    }

    /// Finds one more partition of a topic for the broker to lead, taken from the broker with the most.
    /// Returns whether there was one.
    fn find_leader(&mut self, first: usize, broker: usize) -> bool {
        let topic = self.view.topic_of[first];
        let mut best: Option<(bool, u32, usize, usize)> = None;
        let mut partition = first;
        while self.view.topic_of.get(partition) == Some(&topic) {
            let head = self.leader_slot(partition);
            let leader = usize::from(self.broker_of[head]);
            let own = self.slots(partition).find(|s| usize::from(self.broker_of[*s]) == broker);
            let movable = self.may_move(head) && self.fits(head, broker);
            if leader != broker
                && !self.needs_leader(partition, leader)
                && (own.is_some() || movable)
            {
                let count =
                    self.watched_at(partition, leader).map_or(0, |at| self.watched.counts[at]);
                let slot = own.unwrap_or(head);
                let better =
                    best.is_none_or(|(free, most, ..)| (own.is_some(), count) > (free, most));
                if better {
                    best = Some((own.is_some(), count, partition, slot));
                }
            }
            partition += 1;
        }
        match best {
            Some((true, _, partition, slot)) => self.lead(partition, slot),
            Some((false, _, _, head)) => self.move_replica(head, broker),
            None => return false,
        }
        true
    }

    /// Transfers leadership to preferred leaders; with `harmless` only if no goal gets worse.
    pub(super) fn prefer_leaders(&mut self, harmless: bool) {
        for (&partition, &preferred) in &self.view.preferred {
            let partition = partition as usize;
            let head = self.leader_slot(partition);
            let slot = self.slots(partition).find(|slot| self.broker_of[*slot] == preferred);
            let Some(slot) = slot.filter(|slot| *slot != head) else { continue };
            let (from, to) = (usize::from(self.broker_of[head]), usize::from(preferred));
            if !self.view.is_live(to) || !self.may_lead(to) || self.needs_leader(partition, from) {
                continue;
            }
            let load = self.leadership(partition);
            let change = self.cost_change(from, &load, -1.0) + self.cost_change(to, &load, 1.0);
            if !harmless || change <= 0.0 {
                self.lead(partition, slot);
            }
        }
    }
}
