//! The largest set of brokers that can be restarted together.
//!
//! Invariants:
//! 1. With the whole batch down, every partition that is available now keeps its min-ISR.
//! 2. A broker whose restart takes partitions offline whatever one does is restarted alone, unless that
//!    was opted into.
//! 3. A batch is never larger than was allowed, and never empty if one broker can be restarted alone.
//!
//! The largest set is hard to find in general, so some orders are tried and the best is taken: one that
//! leaves the brokers that are left as free as possible (see `conflicts.rs`), by rack (where racks are
//! used for what they are for, a whole one fits), and by how few partitions a broker has little room in.
//! A [`Certificate`] lists the partitions with the least left, so that anyone can check them again.

use std::collections::BTreeSet;

use model::{NodeId, TopicPartition};

use super::availability::{ByBroker, PartitionFacts, Room, Touch};
use super::conflicts::Conflicts;

/// A broker that waits to be restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub broker: NodeId,
    /// Its rack.
    pub rack: Option<String>,
}

/// What may be done at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many brokers.
    pub parallel_max: usize,
    /// Whether brokers that take partitions offline whatever one does may be restarted with others.
    pub join_offline: bool,
}

/// What a batch leaves of the partitions that it touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Each with how many stay in sync and how many must, the tightest first.
    pub left: Vec<(TopicPartition, usize, usize)>,
    /// Those that go offline whatever one does.
    pub offline: Vec<TopicPartition>,
}

/// The largest batch found. Empty when none of the candidates may be restarted now.
pub(super) fn choose_brokers(
    candidates: &[Candidate],
    partitions: &ByBroker<'_>,
    limits: Limits,
) -> BTreeSet<NodeId> {
    let mut best = BTreeSet::new();
    for order in orders(partitions, candidates) {
        let batch = grow(partitions, &order, limits);
        if batch.len() > best.len() {
            best = batch;
        }
    }
    best
}

impl ByBroker<'_> {
    /// What these brokers leave of so many of the partitions that they touch, the tightest first.
    #[must_use]
    pub fn certify_tightest(&self, down: &BTreeSet<NodeId>, count: usize) -> Certificate {
        let mut touched: Vec<_> =
            self.touched_by(down).into_iter().map(|f| (spare(f, down), f)).collect();
        // Those that go offline have nothing to spare, and are all named.
        let offline = touched.iter().filter(|(spare, _)| spare.is_none()).count();
        let kept = count.saturating_add(offline);
        if touched.len() > kept && kept > 0 {
            let key = |(spare, facts): &(Option<usize>, &PartitionFacts)| {
                (*spare, facts.partition.partition)
            };
            touched.select_nth_unstable_by_key(kept - 1, key);
        }
        touched.truncate(kept);
        certificate(touched.into_iter().map(|(_, facts)| facts), down)
    }
}

/// How many more of a partition could be down; none if it goes offline whatever one does.
fn spare(facts: &PartitionFacts, down: &BTreeSet<NodeId>) -> Option<usize> {
    let min = facts.min_isr.filter(|_| facts.room() != Room::Hopeless)?;
    Some(facts.left_without(down).saturating_sub(min))
}

fn certificate<'a>(
    touched: impl Iterator<Item = &'a PartitionFacts>,
    down: &BTreeSet<NodeId>,
) -> Certificate {
    let mut certificate = Certificate::default();
    for facts in touched {
        match (facts.room(), facts.min_isr) {
            (Room::Hopeless, _) | (_, None) => certificate.offline.push(facts.partition.clone()),
            (_, Some(min)) => {
                let left = facts.left_without(down);
                certificate.left.push((facts.partition.clone(), left, min));
            }
        }
    }
    let spare = |(_, left, min): &(TopicPartition, usize, usize)| left.saturating_sub(*min);
    certificate.left.sort_by(|a, b| spare(a).cmp(&spare(b)).then_with(|| a.0.cmp(&b.0)));
    certificate.offline.sort();
    certificate
}

/// The orders in which brokers are tried. Each rack comes first once; within a rack, those that are tight
/// in the fewest partitions.
fn orders(partitions: &ByBroker<'_>, candidates: &[Candidate]) -> Vec<Vec<NodeId>> {
    let tightness = |candidate: &Candidate| {
        let tight = |touch: &&Touch| {
            matches!(partitions.rooms[touch.partition], None | Some(Room::Some(0 | 1)))
        };
        partitions.touches(candidate.broker).iter().filter(tight).count()
    };
    let mut ranked: Vec<(usize, &Candidate)> =
        candidates.iter().map(|candidate| (tightness(candidate), candidate)).collect();
    ranked.sort_by_key(|(tight, candidate)| (*tight, candidate.broker));
    let racks: BTreeSet<&Option<String>> = candidates.iter().map(|c| &c.rack).collect();
    let by_tightness: Vec<NodeId> = ranked.iter().map(|(_, c)| c.broker).collect();
    let mut orders = vec![Conflicts::new(partitions, &by_tightness).order(), by_tightness];
    for rack in racks.iter().filter(|_| racks.len() > 1) {
        let (first, rest): (Vec<_>, Vec<_>) = ranked.iter().partition(|(_, c)| c.rack == **rack);
        orders.push(first.into_iter().chain(rest).map(|(_, c)| c.broker).collect());
    }
    orders
}

/// Adds brokers in this order as long as every partition bears it.
fn grow(partitions: &ByBroker<'_>, order: &[NodeId], limits: Limits) -> BTreeSet<NodeId> {
    let mut batch = BTreeSet::new();
    let mut alone = None;
    // How many that are in sync each partition loses.
    let mut lost = vec![0_usize; partitions.partitions.len()];
    for &broker in order {
        if batch.len() >= limits.parallel_max {
            break;
        }
        let touches = partitions.touches(broker);
        batch.insert(broker);
        let bears = |touch: &Touch| match partitions.rooms[touch.partition] {
            Some(Room::Hopeless) => true,
            Some(Room::None) => false,
            Some(Room::Some(room)) => !touch.in_sync || lost[touch.partition] < room,
            None => partitions.partitions[touch.partition].bears(&batch),
        };
        let borne = touches.iter().all(bears);
        let takes_offline = touches.iter().any(|touch| partitions.is_hopeless(touch.partition));
        if borne && takes_offline && !limits.join_offline {
            alone = alone.or(Some(broker));
        }
        if !borne || (takes_offline && !limits.join_offline) {
            batch.remove(&broker);
            continue;
        }
        for touch in touches.iter().filter(|touch| touch.in_sync) {
            lost[touch.partition] += 1;
        }
    }
    match (batch.is_empty(), alone) {
        (true, Some(broker)) if limits.parallel_max > 0 => BTreeSet::from([broker]),
        _ => batch,
    }
}

#[cfg(test)]
mod tests {
    use model::TopicName;
    use proptest::prelude::*;

    use super::super::availability::holds;

    use super::*;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn partition(number: i32, replicas: &[i32], min_isr: usize) -> PartitionFacts {
        let replicas: Vec<_> = replicas.iter().map(|broker| id(*broker)).collect();
        PartitionFacts {
            partition: TopicPartition::new(TopicName::new("t").unwrap(), number),
            isr: replicas.clone(),
            replicas,
            adding: vec![],
            removing: vec![],
            min_isr: Some(min_isr),
        }
    }

    fn candidates(count: i32, racks: i32) -> Vec<Candidate> {
        let rack = |broker: i32| Some(format!("r{}", broker % racks));
        (0..count).map(|broker| Candidate { broker: id(broker), rack: rack(broker) }).collect()
    }

    /// Brokers to restart together, and what they leave of all partitions that they touch.
    struct Batch {
        brokers: BTreeSet<NodeId>,
        certificate: Certificate,
    }

    fn choose(candidates: &[Candidate], partitions: &[PartitionFacts], limits: Limits) -> Batch {
        let index = ByBroker::new(partitions);
        let brokers = choose_brokers(candidates, &index, limits);
        let certificate = index.certify_tightest(&brokers, usize::MAX);
        Batch { brokers, certificate }
    }

    /// Whether every partition bears a batch. This looks at the partitions alone, not at how the batch was found.
    fn verify(batch: &Batch, partitions: &[PartitionFacts]) -> bool {
        ByBroker::new(partitions).holds(&batch.brokers).is_empty()
            && batch.certificate.left.iter().all(|(_, left, min)| left >= min)
    }

    const MANY: Limits = Limits { parallel_max: 100, join_offline: false };

    #[test]
    fn a_whole_rack_goes_at_once_where_racks_are_used_for_what_they_are_for() {
        // Broker b is in rack b % 3; every partition has one replica in each.
        let partitions: Vec<_> =
            (0..9).map(|p| partition(p, &[p % 9, (p + 1) % 9, (p + 2) % 9], 2)).collect();
        let batch = choose(&candidates(9, 3), &partitions, MANY);
        assert_eq!(batch.brokers.len(), 3);
        assert!(verify(&batch, &partitions));
        let racks: BTreeSet<_> = batch.brokers.iter().map(|broker| broker.get() % 3).collect();
        assert_eq!(racks.len(), 1);
    }

    #[test]
    fn no_more_than_allowed() {
        let one = Limits { parallel_max: 1, join_offline: false };
        assert_eq!(choose(&candidates(9, 3), &[], one).brokers.len(), 1);
        let none = Limits { parallel_max: 0, join_offline: true };
        assert!(choose(&candidates(9, 3), &[partition(0, &[1], 1)], none).brokers.is_empty());
    }

    #[test]
    fn a_broker_with_a_single_replica_goes_alone_unless_opted_in() {
        let partitions = vec![partition(0, &[0], 1), partition(1, &[1], 1)];
        let two = candidates(2, 2);
        let batch = choose(&two, &partitions, MANY);
        assert_eq!(batch.brokers.len(), 1);
        assert_eq!(batch.certificate.offline.len(), 1);
        let opted = Limits { join_offline: true, ..MANY };
        assert_eq!(choose(&two, &partitions, opted).brokers.len(), 2);
    }

    #[test]
    fn nobody_goes_while_a_partition_is_below_its_min_isr() {
        let mut weak = partition(0, &[0, 1, 2], 2);
        weak.isr.truncate(1);
        let batch = choose(&candidates(3, 3), &[weak], MANY);
        assert!(batch.brokers.is_empty());
    }

    fn any_partition(brokers: i32) -> impl Strategy<Value = PartitionFacts> {
        let ids: Vec<i32> = (0..brokers).collect();
        let replicas = prop::sample::subsequence(ids.clone(), 1..=5.min(ids.len()));
        (replicas, any::<[bool; 5]>(), any::<[bool; 5]>(), 1_usize..4, any::<bool>()).prop_map(
            |(replicas, in_sync, moving, min_isr, reads)| {
                let mut facts = partition(0, &replicas, min_isr);
                let keep = |flags: [bool; 5]| {
                    let mut at = 0;
                    move |_: &NodeId| {
                        at += 1;
                        flags[at - 1]
                    }
                };
                facts.isr.retain(keep(in_sync));
                // Some that are not in sync are being added, some that are are being taken away.
                let is_moving: Vec<_> = facts.replicas.iter().copied().zip(moving).collect();
                for (broker, moves) in is_moving {
                    match (moves, facts.isr.contains(&broker)) {
                        (true, true) => facts.removing.push(broker),
                        (true, false) => facts.adding.push(broker),
                        (false, _) => {}
                    }
                }
                facts.min_isr = facts.min_isr.filter(|_| reads);
                facts
            },
        )
    }

    /// What a batch must never do, said in other words than the code: a partition that has its min-ISR
    /// now, and could keep it, has it with the batch down, before and after its move.
    fn survives(facts: &PartitionFacts, down: &BTreeSet<NodeId>) -> bool {
        let Some(min) = facts.min_isr else {
            return !facts.replicas.iter().any(|broker| down.contains(broker));
        };
        let target: Vec<_> =
            facts.replicas.iter().filter(|b| !facts.removing.contains(b)).collect();
        let up = |broker: &&NodeId| !down.contains(broker);
        let now = facts.isr.iter().filter(up).count();
        let ended = target
            .iter()
            .filter(|b| facts.isr.contains(b) || facts.adding.contains(b))
            .filter(|b| !down.contains(b))
            .count();
        let hopeless = target.len() <= min;
        let untouched = facts.replicas.iter().all(|broker| !down.contains(broker));
        hopeless || untouched || (now >= min && ended >= min)
    }

    /// How many stay in sync, now and when the move has ended; none if that is nobody's promise. In
    /// other words than the code.
    fn promised(facts: &PartitionFacts, down: &BTreeSet<NodeId>) -> Option<(usize, usize)> {
        let min = facts.min_isr?;
        let target: BTreeSet<_> =
            facts.replicas.iter().filter(|b| !facts.removing.contains(b)).collect();
        let mut in_sync: BTreeSet<_> = facts.isr.iter().collect();
        in_sync.retain(|broker| !down.contains(broker));
        let mut later: BTreeSet<_> = facts.isr.iter().chain(&facts.adding).collect();
        later.retain(|broker| target.contains(broker) && !down.contains(broker));
        (target.len() > min).then_some((in_sync.len().min(later.len()), min))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_batch_takes_a_partition_below_its_min_isr(
            partitions in prop::collection::vec(any_partition(9), 0..30),
            parallel_max in 0_usize..10, join_offline: bool,
        ) {
            let limits = Limits { parallel_max, join_offline };
            let mut partitions = partitions;
            for (number, facts) in (0..).zip(&mut partitions) {
                facts.partition = TopicPartition::new(TopicName::new("t").unwrap(), number);
            }
            let batch = choose(&candidates(9, 3), &partitions, limits);
            // The certificate says what is so, of every partition that is touched.
            let mut expected = Certificate::default();
            for facts in partitions.iter().filter(|f| f.replicas.iter().any(|b| batch.brokers.contains(b))) {
                match promised(facts, &batch.brokers) {
                    Some((left, min)) => expected.left.push((facts.partition.clone(), left, min)),
                    None => expected.offline.push(facts.partition.clone()),
                }
            }
            let sorted = |mut left: Vec<(TopicPartition, usize, usize)>| { left.sort(); left };
            prop_assert_eq!(sorted(batch.certificate.left.clone()), sorted(expected.left));
            prop_assert_eq!(&batch.certificate.offline, &expected.offline);
            prop_assert!(batch.brokers.len() <= parallel_max);
            prop_assert!(partitions.iter().all(|facts| survives(facts, &batch.brokers)));
            prop_assert!(verify(&batch, &partitions));
            // What is known of single brokers is what is known of sets of one.
            let index = ByBroker::new(&partitions);
            for broker in (0..9).map(id) {
                let single = BTreeSet::from([broker]);
                prop_assert_eq!(index.holds_alone(broker), holds(&partitions, &single));
                prop_assert_eq!(index.holds(&single), holds(&partitions, &single));
            }
            // What is shown is the beginning of the whole.
            let shown = index.certify_tightest(&batch.brokers, 3);
            let spare = |(_, left, min): &(TopicPartition, usize, usize)| left - min;
            let whole = batch.certificate.left.iter().map(spare).take(3).collect::<Vec<_>>();
            prop_assert_eq!(shown.left.iter().map(spare).collect::<Vec<_>>(), whole);
            prop_assert_eq!(&shown.offline, &batch.certificate.offline);
            // Never nobody if somebody may.
            let alone = |candidate: &Candidate| {
                holds(&partitions, &BTreeSet::from([candidate.broker])).is_empty()
            };
            let possible = parallel_max > 0 && candidates(9, 3).iter().any(alone);
            prop_assert_eq!(!batch.brokers.is_empty(), possible);
        }
    }
}
