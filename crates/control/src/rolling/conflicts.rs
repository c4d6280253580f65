//! Which brokers cannot be down together, and an order that makes few batches of all of them.
//!
//! Splitting brokers into batches is colouring a graph whose edges are partitions that bear only one
//! broker less. The order is that of "recursive largest first" (Leighton 1979): begin with the broker that
//! is in the way of most others, then always take the one that shares most of its conflicts with those
//! that are out already. What is left over is then as sparse as it can be, and so are the batches after.

use std::collections::BTreeMap;

use model::NodeId;

use super::availability::{ByBroker, Room};

/// Which of some brokers cannot be down together.
#[derive(Debug)]
pub(super) struct Conflicts<'a> {
    brokers: &'a [NodeId],
    /// For each, the others; by their places.
    with: Vec<Bits>,
}

impl<'a> Conflicts<'a> {
    pub(super) fn new(partitions: &ByBroker<'_>, brokers: &'a [NodeId]) -> Self {
        let places: BTreeMap<NodeId, usize> =
            brokers.iter().enumerate().map(|(place, broker)| (*broker, place)).collect();
        let mut with = vec![Bits::none(brokers.len()); brokers.len()];
        let all = partitions.partitions.iter().zip(&partitions.rooms);
        for (facts, _) in all.filter(|(_, room)| **room == Some(Room::Some(1))) {
            let here: Vec<usize> =
                facts.isr.iter().filter_map(|b| places.get(b)).copied().collect();
            for a in &here {
                here.iter().filter(|b| *b != a).for_each(|b| with[*a].insert(*b));
            }
        }
        Self { brokers, with }
    }

    /// Brokers that can be down together as far as pairs tell, then all others.
    pub(super) fn order(&self) -> Vec<NodeId> {
        let mut open = Bits::all(self.brokers.len());
        let mut out = Bits::none(self.brokers.len());
        let mut order = Vec::new();
        while let Some(next) = self.next(&open, &out) {
            order.push(self.brokers[next]);
            open.remove(next);
            for other in self.with[next].both(&open) {
                open.remove(other);
                out.insert(other);
            }
        }
        order.extend(out.places().map(|place| self.brokers[place]));
        order
    }

    /// The open one that shares most conflicts with those that are out, and fewest with the open ones.
    fn next(&self, open: &Bits, out: &Bits) -> Option<usize> {
        let first = out.is_empty();
        let score = |place: &usize| {
            let shared = self.with[*place].count_both(out);
            let free = self.with[*place].count_both(open);
            // The first one is the one with most conflicts of all.
            let second = if first { usize::MAX - free } else { free };
            (std::cmp::Reverse(shared), second, *place)
        };
        open.places().min_by_key(score)
    }
}

/// A set of places.
#[derive(Debug, Clone)]
struct Bits(Vec<u64>);

const WORD: usize = u64::BITS as usize;

impl Bits {
    fn none(places: usize) -> Self {
        Self(vec![0; places.div_ceil(WORD)])
    }

    fn all(places: usize) -> Self {
        let mut all = Self::none(places);
        (0..places).for_each(|place| all.insert(place));
        all
    }

    fn insert(&mut self, place: usize) {
        self.0[place / WORD] |= 1 << (place % WORD);
    }

    fn remove(&mut self, place: usize) {
        self.0[place / WORD] &= !(1 << (place % WORD));
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn count_both(&self, other: &Self) -> usize {
        let words = self.0.iter().zip(&other.0);
        words.map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    fn both(&self, other: &Self) -> Vec<usize> {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect()).places().collect()
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            (0..WORD).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * WORD + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{TopicName, TopicPartition};

    use super::*;
    use crate::rolling::availability::PartitionFacts;

    fn id(id: usize) -> NodeId {
        NodeId::new(i32::try_from(id).unwrap()).unwrap()
    }

    /// Brokers in a ring, each sharing a partition with the two after it.
    fn ring(size: usize) -> Vec<PartitionFacts> {
        let partition = |at: usize| {
            let replicas = vec![id(at), id((at + 1) % size), id((at + 2) % size)];
            PartitionFacts {
                partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
                isr: replicas.clone(),
                replicas,
                adding: vec![],
                removing: vec![],
                min_isr: Some(2),
            }
        };
        (0..size).map(partition).collect()
    }

    #[test]
    fn a_ring_of_threes_is_split_into_three() {
        for size in [9, 30, 129, 300] {
            let partitions = ring(size);
            let index = ByBroker::new(&partitions);
            let mut left: Vec<NodeId> = (0..size).map(id).collect();
            let mut batches = 0;
            while !left.is_empty() {
                let order = Conflicts::new(&index, &left).order();
                assert_eq!(order.len(), left.len());
                let mut batch: Vec<NodeId> = Vec::new();
                for broker in order {
                    let far = |other: &NodeId| {
                        let apart = (broker.get() - other.get()).unsigned_abs() as usize;
                        apart.min(size - apart) > 2
                    };
                    if batch.iter().all(far) {
                        batch.push(broker);
                    }
                }
                left.retain(|broker| !batch.contains(broker));
                batches += 1;
            }
            assert_eq!(batches, 3, "{size}");
        }
    }

    #[test]
    fn sets_of_places_hold_what_they_should() {
        let mut bits = Bits::none(130);
        [0, 63, 64, 129].into_iter().for_each(|place| bits.insert(place));
        bits.remove(63);
        assert_eq!(bits.places().collect::<Vec<_>>(), [0, 64, 129]);
        assert_eq!(bits.both(&Bits::all(130)), [0, 64, 129]);
        assert_eq!(bits.count_both(&Bits::all(130)), 3);
        assert!(Bits::none(130).is_empty() && !bits.is_empty());
    }
}
