//! Whether brokers may be down without a partition losing its min-ISR.
//!
//! For each partition, with R replicas, the in-sync ones I, and the least M that must be in sync:
//! 1. R ≤ M: it cannot survive any restart of its brokers, so it blocks none; but it is named, since it
//!    is taken offline for writers.
//! 2. I below M: none of its brokers that are ready is restarted. One in sync is needed; one that is not may be the next
//!    to catch up.
//! 3. Otherwise at least M must stay in sync without the brokers that go down.
//! 4. A move in flight counts both ways: what is in sync now, and what will be when it ends. A replica
//!    that is about to be taken away keeps nobody's min-ISR.
//! 5. M that is not known (a topic that has vanished meanwhile) makes no rule hold: nothing is known to
//!    be safe, so it blocks.
//! 6. A broker that is not ready is held back only by partitions that Kafka counts it in sync for. Outside of I it
//!    cannot lower I, also where I is below M.
//! 7. A broker whose data is deleted with its pod is also held back by partitions, R ≤ M or not, of which no other broker
//!    that is ready is in sync: it may have the last copy. R = 1 holds it back only if it is not ready, or if no user
//!    has asked for its restart.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, TopicPartition};
use serde::{Deserialize, Serialize};

/// What is known of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionFacts {
    /// Which.
    pub partition: TopicPartition,
    /// The brokers that have it or are to have it.
    pub replicas: Vec<NodeId>,
    /// Those in sync.
    pub isr: Vec<NodeId>,
    /// Those that a move in flight adds.
    pub adding: Vec<NodeId>,
    /// Those that a move in flight takes away.
    pub removing: Vec<NodeId>,
    /// How many must be in sync; none if it could not be read.
    pub min_isr: Option<usize>,
}

/// What a partition allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// None of its brokers may be down: too few are in sync already, or nothing is known.
    None,
    /// So many of those in sync may be down at once.
    Some(usize),
    /// It cannot be kept available at all while one of its brokers is down.
    Hopeless,
}

/// Why a broker is not restarted now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The partition that would suffer.
    pub partition: TopicPartition,
    /// How many of it are in sync now.
    pub in_sync: usize,
    /// How many would be.
    pub left: usize,
    /// How many must be; none if that is not known.
    pub min_isr: Option<usize>,
}

impl PartitionFacts {
    /// How many replicas it has when the moves in flight have ended.
    fn replica_count(&self) -> usize {
        self.replicas.iter().filter(|broker| !self.removing.contains(broker)).count()
    }

    /// How many stay in sync without these brokers: now, or when the move in flight has ended, whichever
    /// is less. Kafka ends a move when all that it adds are in sync, so those count then.
    pub(super) fn left_without(&self, down: &BTreeSet<NodeId>) -> usize {
        let now = self.isr.iter().filter(|broker| !down.contains(broker)).count();
        if self.adding.is_empty() && self.removing.is_empty() {
            return now;
        }
        let stays = |broker: &&NodeId| !self.removing.contains(broker) && !down.contains(broker);
        let later: BTreeSet<_> = self.isr.iter().chain(&self.adding).filter(stays).collect();
        now.min(later.len())
    }

    /// What it allows.
    #[must_use]
    pub fn room(&self) -> Room {
        let Some(min_isr) = self.min_isr else { return Room::None };
        if self.replica_count() <= min_isr {
            return Room::Hopeless;
        }
        match self.left_without(&BTreeSet::new()).checked_sub(min_isr) {
            Some(room) => Room::Some(room),
            None => Room::None,
        }
    }

    /// Whether it may stay as it is while these brokers are down.
    pub(super) fn bears(&self, down: &BTreeSet<NodeId>) -> bool {
        let touched = self.replicas.iter().chain(&self.adding).any(|broker| down.contains(broker));
        match self.room() {
            _ if !touched => true,
            Room::Hopeless => true,
            Room::None => false,
            Room::Some(_) => self.min_isr.is_some_and(|min| self.left_without(down) >= min),
        }
    }

    fn hold(&self, down: &BTreeSet<NodeId>) -> Hold {
        Hold {
            partition: self.partition.clone(),
            in_sync: self.isr.len(),
            left: self.left_without(down),
            min_isr: self.min_isr,
        }
    }
}

/// The partitions that would suffer if these brokers were down; none if they may be.
#[must_use]
pub fn holds(partitions: &[PartitionFacts], down: &BTreeSet<NodeId>) -> Vec<Hold> {
    partitions.iter().filter(|facts| !facts.bears(down)).map(|facts| facts.hold(down)).collect()
}

/// The partitions of each broker, to ask about brokers of a large cluster.
#[derive(Debug)]
pub struct ByBroker<'a> {
    pub(super) partitions: &'a [PartitionFacts],
    /// What each partition allows; none if a move is in flight, where it depends on who is down.
    pub(super) rooms: Vec<Option<Room>>,
    touched: BTreeMap<NodeId, Vec<Touch>>,
}

/// That a broker has a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touch {
    /// Which, by its place in the list.
    pub(super) partition: usize,
    /// Whether it is in sync.
    pub(super) in_sync: bool,
}

impl<'a> ByBroker<'a> {
    /// Sorts the partitions by broker.
    #[must_use]
    pub fn new(partitions: &'a [PartitionFacts]) -> Self {
        let mut touched: BTreeMap<NodeId, Vec<Touch>> = BTreeMap::new();
        for (partition, facts) in partitions.iter().enumerate() {
            for broker in facts.replicas.iter().chain(&facts.adding) {
                let list = touched.entry(*broker).or_default();
                // One that is being added is among the replicas too.
                if list.last().is_none_or(|last| last.partition != partition) {
                    list.push(Touch { partition, in_sync: facts.isr.contains(broker) });
                }
            }
        }
        let room = |facts: &PartitionFacts| {
            let moving = !facts.adding.is_empty() || !facts.removing.is_empty();
            (!moving).then(|| facts.room())
        };
        Self { partitions, rooms: partitions.iter().map(room).collect(), touched }
    }

    /// Where a broker is.
    pub(super) fn touches(&self, broker: NodeId) -> &[Touch] {
        self.touched.get(&broker).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a partition goes offline whatever one does.
    pub(super) fn is_hopeless(&self, partition: usize) -> bool {
        let room = self.rooms[partition].unwrap_or_else(|| self.partitions[partition].room());
        room == Room::Hopeless
    }

    /// The partitions of a broker.
    pub fn of(&self, broker: NodeId) -> impl Iterator<Item = &'a PartitionFacts> {
        self.touches(broker).iter().map(|touch| &self.partitions[touch.partition])
    }

    /// The partitions that would suffer if these brokers were down; each once.
    #[must_use]
    pub fn holds(&self, down: &BTreeSet<NodeId>) -> Vec<Hold> {
        let suffering = self.touched_by(down).into_iter().filter(|facts| !facts.bears(down));
        suffering.map(|facts| facts.hold(down)).collect()
    }

    /// The partitions that would suffer if this broker alone were down.
    #[must_use]
    pub fn holds_alone(&self, broker: NodeId) -> Vec<Hold> {
        self.holds_among(broker, |_| true)
    }

    /// The partitions that would suffer if this broker, which is not ready, were restarted. These are the partitions
    /// without all brokers that are down; `told` are the same as Kafka describes them, in the same order.
    #[must_use]
    pub fn holds_unready(&self, broker: NodeId, told: &[PartitionFacts]) -> Vec<Hold> {
        let counts_it =
            |partition: usize| told.get(partition).is_none_or(|facts| facts.isr.contains(&broker));
        self.holds_among(broker, counts_it)
    }

    /// The partitions of a broker that no other broker has in sync.
    pub fn only_on(&self, broker: NodeId) -> impl Iterator<Item = &'a PartitionFacts> {
        self.of(broker).filter(move |facts| facts.isr.iter().all(|one| *one == broker))
    }

    fn holds_among(&self, broker: NodeId, is_asked: impl Fn(usize) -> bool) -> Vec<Hold> {
        let down = BTreeSet::from([broker]);
        let suffers = |touch: &&Touch| match self.rooms[touch.partition] {
            Some(Room::Hopeless) => false,
            Some(Room::None) => true,
            Some(Room::Some(room)) => room == 0 && touch.in_sync,
            None => !self.partitions[touch.partition].bears(&down),
        };
        let asked = self.touches(broker).iter().filter(|touch| is_asked(touch.partition));
        let suffering = asked.filter(suffers);
        suffering.map(|touch| self.partitions[touch.partition].hold(&down)).collect()
    }

    /// The partitions that these brokers touch; each once.
    pub(super) fn touched_by(&self, brokers: &BTreeSet<NodeId>) -> Vec<&'a PartitionFacts> {
        let mut touched = vec![false; self.partitions.len()];
        for touch in brokers.iter().flat_map(|broker| self.touches(*broker)) {
            touched[touch.partition] = true;
        }
        self.partitions.iter().zip(touched).filter(|(_, is)| *is).map(|(facts, _)| facts).collect()
    }

    /// Whether a broker is in sync wherever it should be. What a move in flight adds to it or takes away
    /// from it does not count.
    #[must_use]
    pub fn is_in_sync(&self, broker: NodeId) -> bool {
        let moving = |facts: &PartitionFacts| {
            facts.adding.contains(&broker) || facts.removing.contains(&broker)
        };
        let lacks = |touch: &&Touch| !touch.in_sync && !moving(&self.partitions[touch.partition]);
        self.touches(broker).iter().find(lacks).is_none()
    }
}

/// The partitions as if these brokers were out of sync everywhere. A broker that is known to be down may
/// count as in sync for a while yet; it keeps nobody's min-ISR.
#[must_use]
pub fn without(partitions: &[PartitionFacts], down: &BTreeSet<NodeId>) -> Vec<PartitionFacts> {
    let mut partitions = partitions.to_vec();
    for facts in &mut partitions {
        facts.isr.retain(|broker| !down.contains(broker));
    }
    partitions
}

#[cfg(test)]
mod tests {
    use model::TopicName;

    use super::*;

    fn ids(ids: &[i32]) -> Vec<NodeId> {
        ids.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    fn facts(min_isr: usize, replicas: &[i32], isr: &[i32]) -> PartitionFacts {
        PartitionFacts {
            partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
            replicas: ids(replicas),
            isr: ids(isr),
            adding: vec![],
            removing: vec![],
            min_isr: Some(min_isr),
        }
    }

    /// The brokers of `asked` that may be restarted alone.
    fn restartable(partitions: &[PartitionFacts], asked: &[i32]) -> Vec<i32> {
        let alone = |id: &&i32| holds(partitions, &ids(&[**id]).into_iter().collect()).is_empty();
        asked.iter().filter(alone).copied().collect()
    }

    #[test]
    fn the_rows_hold() {
        type Row = (&'static str, Vec<PartitionFacts>, &'static [i32], &'static [i32]);
        let rows: Vec<Row> = vec![
            (
                "A1 below min-ISR: none of its replicas, in sync or not",
                vec![facts(2, &[0, 1, 3], &[0, 1]), facts(2, &[0, 1, 3], &[1])],
                &[0, 1, 3, 4],
                &[4],
            ),
            (
                "A2 as many replicas as must be in sync",
                vec![facts(2, &[0, 1], &[0, 1]), facts(2, &[0, 1], &[0, 1])],
                &[0, 1, 2],
                &[0, 1, 2],
            ),
            ("A3 above min-ISR", vec![facts(1, &[0, 1, 2], &[0, 1, 2])], &[0, 1, 2], &[0, 1, 2]),
            (
                "A4 all must be in sync",
                vec![facts(3, &[0, 1, 2], &[0, 1, 2])],
                &[0, 1, 2],
                &[0, 1, 2],
            ),
            ("A5 and one is not", vec![facts(3, &[0, 1, 2], &[0, 1])], &[0, 1, 2], &[0, 1, 2]),
            ("A6 fewer replicas than must be", vec![facts(2, &[0], &[0])], &[0], &[0]),
            (
                "A7 no leader: the last in sync must stay",
                vec![facts(1, &[0, 1, 2], &[1, 2]), facts(1, &[0, 1, 2], &[0])],
                &[0, 1, 2, 3],
                &[1, 2, 3],
            ),
            (
                "at min-ISR: only one that is out of sync",
                vec![facts(2, &[0, 1, 2], &[0, 1])],
                &[0, 1, 2],
                &[2],
            ),
        ];
        for (name, partitions, asked, expected) in rows {
            assert_eq!(restartable(&partitions, asked), expected, "{name}");
        }
    }

    /// The brokers that may be restarted, of those that are not ready.
    fn restartable_unready(told: &[PartitionFacts], unready: &[i32]) -> Vec<i32> {
        let reliable = without(told, &ids(unready).into_iter().collect());
        let index = ByBroker::new(&reliable);
        let may = |id: &&i32| index.holds_unready(NodeId::new(**id).unwrap(), told).is_empty();
        unready.iter().filter(may).copied().collect()
    }

    #[test]
    fn unready_brokers_are_held_only_by_partitions_that_count_them_in_sync() {
        type Row = (&'static str, Vec<PartitionFacts>, &'static [i32], &'static [i32]);
        let unknown = |isr: &[i32]| PartitionFacts { min_isr: None, ..facts(0, &[0, 1, 2], isr) };
        let rows: Vec<Row> = vec![
            (
                "two of three are stuck, and writes are refused",
                vec![facts(2, &[0, 1, 2], &[0])],
                &[1, 2],
                &[1, 2],
            ),
            (
                "one of them is in sync for another partition, which others keep",
                vec![facts(2, &[0, 1, 2], &[0]), facts(2, &[1, 3, 4], &[1, 3, 4])],
                &[1, 2],
                &[1, 2],
            ),
            (
                "one of them may be the last that serves another partition",
                vec![facts(2, &[0, 1, 2], &[0]), facts(1, &[1, 3, 4], &[1])],
                &[1, 2],
                &[2],
            ),
            (
                "Kafka has not noticed yet that it is down, and needs it",
                vec![facts(2, &[0, 1, 2], &[0, 1])],
                &[1],
                &[],
            ),
            (
                "the others that count as in sync are down too",
                vec![facts(2, &[0, 1, 2], &[0, 1, 2])],
                &[0, 1],
                &[],
            ),
            (
                "it is in sync, and enough others are",
                vec![facts(2, &[0, 1, 2], &[0, 1, 2])],
                &[1],
                &[1],
            ),
            ("min-ISR is unknown, and it is in sync", vec![unknown(&[0, 1])], &[1], &[]),
            ("min-ISR is unknown, and it is not", vec![unknown(&[0])], &[1], &[1]),
        ];
        for (name, partitions, unready, expected) in rows {
            assert_eq!(restartable_unready(&partitions, unready), expected, "{name}");
        }
    }

    #[test]
    fn an_unready_broker_that_a_move_adds_is_not_in_sync_yet() {
        let mut moving = facts(2, &[1, 2, 3, 4], &[1, 2]);
        moving.adding = ids(&[4]);
        moving.removing = ids(&[3]);
        assert_eq!(restartable_unready(&[moving], &[4]), [4]);
    }

    /// Where no min-ISR is set Kafka's own default is in force and is read with the rest; so "not known"
    /// is a failure to read, and blocks.
    #[test]
    fn what_is_not_known_is_not_safe() {
        let unknown = PartitionFacts { min_isr: None, ..facts(0, &[0, 1, 2], &[0, 1, 2]) };
        assert_eq!(restartable(&[unknown], &[0, 1, 2, 3]), [3]);
    }

    #[test]
    fn a_replica_that_is_being_taken_away_keeps_nobody_s_min_isr() {
        // [1,2,3] becomes [1,4]: when 4 is in sync, 2 and 3 go.
        let mut moving = facts(2, &[1, 2, 3, 4], &[1, 2, 3]);
        moving.adding = ids(&[4]);
        moving.removing = ids(&[2, 3]);
        // With two replicas and a min-ISR of two it is hopeless in the end, so it blocks nobody.
        assert_eq!(moving.room(), Room::Hopeless);
        // [1,2,3,5] becomes [1,4,5] instead: without 1, 4 and 5 are left.
        let mut moving = facts(2, &[1, 2, 3, 4, 5], &[1, 2, 3]);
        moving.adding = ids(&[4]);
        moving.removing = ids(&[2, 3]);
        // 5 is not in sync: without 1 only 4 would be left when the move ends.
        assert_eq!(restartable(std::slice::from_ref(&moving), &[1, 2, 3]), [2, 3]);
    }

    #[test]
    fn a_move_to_other_brokers_does_not_block_those_that_are_left() {
        let mut moving = facts(2, &[1, 2, 3, 4, 5, 6], &[1, 2, 3]);
        moving.adding = ids(&[4, 5, 6]);
        moving.removing = ids(&[1, 2, 3]);
        assert_eq!(restartable(&[moving], &[1, 4]), [1, 4]);
    }
}
