//! Rack constraints: unique, or evenly spread.

use super::state::State;

/// Rack constraint of the goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Racks {
    /// None.
    Free,
    /// At most one replica of a partition per rack.
    Apart,
    /// Replicas of a partition are spread evenly over this many racks.
    Even(usize),
}

impl State<'_> {
    /// Whether two brokers share a rack, if that matters.
    pub(super) fn is_rack_shared(&self, one: usize, other: usize) -> bool {
        self.racks == Racks::Apart && self.view.rack[one] == self.view.rack[other]
    }

    /// Whether a replica on this broker would keep its partition evenly spread.
    pub(super) fn is_even_with(&self, replica: usize, broker: usize) -> bool {
        let Racks::Even(racks) = self.racks else { return true };
        let slots = self.slots(self.partition_of[replica] as usize);
        let replicas = slots.len();
        let others = slots.filter(|slot| *slot != replica);
        let counts = self.rack_counts(others);
        has_room(&counts, self.view.rack[broker], replicas, racks)
    }

    /// Replicas of a partition that must move for an even spread, on more utilized brokers first.
    pub(super) fn uneven_in(&self, partition: usize) -> Vec<usize> {
        let Racks::Even(racks) = self.racks else { return Vec::new() };
        let slots = self.slots(partition);
        let replicas = slots.len();
        let lives = |slot: &usize| self.view.is_live(usize::from(self.broker_of[*slot]));
        let fullness = |slot: &usize| self.fullness(usize::from(self.broker_of[*slot]));
        let mut live: Vec<usize> = slots.filter(lives).collect();
        live.sort_by(|a, b| fullness(a).total_cmp(&fullness(b)).then(a.cmp(b)));
        let (mut stay, mut forced) = (Vec::new(), Vec::new());
        for slot in live {
            let counts = self.rack_counts(stay.iter().copied());
            let rack = self.view.rack[usize::from(self.broker_of[slot])];
            if has_room(&counts, rack, replicas, racks) {
                stay.push(slot);
            } else {
                forced.push(slot);
            }
        }
        forced
    }

    fn rack_counts(&self, slots: impl Iterator<Item = usize>) -> Vec<(u16, usize)> {
        let mut counts: Vec<(u16, usize)> = Vec::new();
        for slot in slots {
            let broker = usize::from(self.broker_of[slot]);
            if !self.view.is_live(broker) {
                continue;
            }
            let rack = self.view.rack[broker];
            match counts.iter_mut().find(|(of, _)| *of == rack) {
                Some((_, count)) => *count += 1,
                None => counts.push((rack, 1)),
            }
        }
        counts
    }
}

/// Whether a rack may have one more replica: each has its share, and the remainder is distributed.
fn has_room(counts: &[(u16, usize)], rack: u16, replicas: usize, racks: usize) -> bool {
    let (share, rest) = (replicas / racks.max(1), replicas % racks.max(1));
    let here = counts.iter().find(|(of, _)| *of == rack).map_or(0, |(_, count)| *count);
    let above = counts.iter().filter(|(_, count)| *count > share).count();
    here < share || here == share && above < rest
}
