//! Witnesses: brokers whose answers on partitions and on other brokers count.
//!
//! A broker answers from its own copy of the metadata, and one that is cut off from the controllers
//! does not know that its copy is stale. The active controller knows which brokers fetch.
//!
//! 1. Only a broker that keeps up is asked, by a description of the quorum that was read before.
//!    Its answer is then at least as new as that description, also if it was frozen or cut off in
//!    between.
//! 2. Its answer counts only if it still keeps up by a description that was read after the answer.
//!    If that description cannot be read, everything that brokers answered is unknown, and so is
//!    the quorum.
//! 3. To fetch is not to apply: a broker may have the records and not use them yet. Two brokers are
//!    asked if there are two, and a partition that they describe differently is unknown: it has
//!    every replica that either of them names, in sync where either of them says so, and an unknown
//!    min-ISR, so that it holds all of these replicas back. (The intersection of the ISRs alone
//!    would release an unready broker that is in the ISR of one answer only.)

use std::collections::BTreeMap;

use model::{NodeId, TopicPartition};

use super::fact::{Fact, Why};
use super::snapshot::{KafkaView, Partitions, Snapshot};
use crate::quorum::QuorumView;
use crate::rolling::availability::PartitionFacts;

/// How many brokers are asked for partitions, if there are so many.
pub const PARTITION_WITNESSES: usize = 2;

/// A broker that might be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: NodeId,
    /// Whether its pod is ready.
    pub ready: bool,
    /// Whether Kafka is known to have fenced it, or not to have registered it.
    pub fenced: bool,
}

impl QuorumView {
    /// The brokers that keep up, in the order in which they are asked: those that are ready and not
    /// fenced come first.
    #[must_use]
    pub fn witnesses(&self, candidates: impl IntoIterator<Item = Candidate>) -> Vec<NodeId> {
        let candidates = candidates.into_iter().filter(|one| self.knows_metadata(one.id));
        let mut ranked: Vec<_> =
            candidates.map(|Candidate { id, ready, fenced }| (!ready, fenced, id)).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., id)| id).collect()
    }
}

impl Snapshot {
    /// The brokers that may be asked for partitions, in the order in which they are asked (1).
    #[must_use]
    pub fn witnesses(&self) -> Vec<NodeId> {
        let Some(quorum) = self.kafka.quorum.known() else { return Vec::new() };
        let registered = self.kafka.brokers.known();
        let is_fenced = |id: &NodeId| {
            registered.is_some_and(|all| all.get(id).is_none_or(|broker| broker.fenced))
        };
        let brokers = self.nodes.iter().filter(|(_, node)| self.may_run_as_broker(node));
        quorum.witnesses(brokers.map(|(id, node)| Candidate {
            id: *id,
            ready: self.pod(node).is_some_and(|pod| pod.ready),
            fenced: is_fenced(id),
        }))
    }

    /// All partitions, if all brokers that described them keep up with the controllers. Other
    /// answers are unknown.
    #[must_use]
    pub fn partitions(&self) -> Option<&Partitions> {
        let all = self.kafka.partitions.known()?;
        let witnesses = self.witnesses();
        let counts = all.brokers.iter().all(|broker| witnesses.contains(broker));
        (counts && !all.brokers.is_empty()).then_some(all)
    }
}

impl KafkaView {
    /// Takes over the answers of brokers on partitions, one per broker, and the quorum as it was
    /// described after them (2).
    pub fn accept_answers(
        &mut self,
        answers: Vec<Partitions>,
        at_ms: u64,
        quorum: Fact<QuorumView>,
    ) {
        let view = quorum.known();
        let agreed = view.and_then(|view| agree(answers, view));
        self.partitions = agreed.map_or(Fact::Unknown(Why::NoAnswer), |all| Fact::read(all, at_ms));
        let keeps_up = |broker: NodeId| view.is_some_and(|view| view.knows_metadata(broker));
        if self.brokers.known().is_some() && !self.brokers_from.is_some_and(keeps_up) {
            self.brokers = Fact::Unknown(Why::NoAnswer);
        }
        self.quorum = quorum;
    }
}

/// The combined answers of the brokers that still keep up (3); `None` if none does.
fn agree(answers: Vec<Partitions>, quorum: &QuorumView) -> Option<Partitions> {
    let keeps_up = |one: &Partitions| {
        !one.brokers.is_empty() && one.brokers.iter().all(|id| quorum.knows_metadata(*id))
    };
    answers.into_iter().filter(keeps_up).reduce(combine)
}

fn combine(mut one: Partitions, other: Partitions) -> Partitions {
    let mut rest: BTreeMap<TopicPartition, PartitionFacts> =
        other.facts.into_iter().map(|facts| (facts.partition.clone(), facts)).collect();
    for facts in &mut one.facts {
        match rest.remove(&facts.partition) {
            Some(same) if same == *facts => {}
            Some(other) => dispute(facts, &other),
            None => facts.min_isr = None,
        }
    }
    // One of the brokers does not know yet that these were created, or that they were deleted.
    let leaders = other.leaders.into_iter().filter(|(name, ..)| rest.contains_key(name));
    one.leaders.extend(leaders);
    one.facts.extend(rest.into_values().map(|facts| PartitionFacts { min_isr: None, ..facts }));
    one.brokers.extend(other.brokers);
    one
}

/// What is left of a partition that two brokers describe differently.
fn dispute(facts: &mut PartitionFacts, other: &PartitionFacts) {
    let pairs = [
        (&mut facts.replicas, &other.replicas),
        (&mut facts.isr, &other.isr),
        (&mut facts.adding, &other.adding),
        (&mut facts.removing, &other.removing),
    ];
    for (ours, theirs) in pairs {
        let missing: Vec<_> = theirs.iter().filter(|id| !ours.contains(id)).copied().collect();
        ours.extend(missing);
    }
    facts.min_isr = None;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::TopicName;

    use super::*;
    use crate::cluster::areas::samples::{NOW, id, settled};
    use crate::cluster::snapshot::BrokerView;
    use crate::rolling::availability::{ByBroker, holds};

    fn view(snapshot: &mut Snapshot) -> &mut QuorumView {
        let Fact::Read { value, .. } = &mut snapshot.kafka.quorum else { panic!("not described") };
        value
    }

    /// The quorum, in which these brokers have not fetched for long.
    fn cut_off(brokers: &[i32]) -> QuorumView {
        let (mut snapshot, _) = settled();
        let view = view(&mut snapshot);
        for observer in &mut view.observers {
            if brokers.contains(&observer.id.get()) {
                observer.last_caught_up_ms = Some(NOW - 60_000);
            }
        }
        view.clone()
    }

    fn ids(ids: &[i32]) -> Vec<NodeId> {
        ids.iter().map(|number| id(*number)).collect()
    }

    /// A partition of brokers 3, 4 and 5 with these in sync, of which two must be.
    fn partition(number: i32, isr: &[i32]) -> PartitionFacts {
        let topic = TopicName::new("t").unwrap();
        PartitionFacts {
            partition: TopicPartition::new(topic, number),
            replicas: ids(&[3, 4, 5]),
            isr: ids(isr),
            adding: vec![],
            removing: vec![],
            min_isr: Some(2),
        }
    }

    fn answer(broker: i32, facts: &[PartitionFacts]) -> Partitions {
        let leader = |facts: &PartitionFacts| {
            (facts.partition.clone(), facts.replicas.first().copied(), Some(id(broker)))
        };
        Partitions {
            leaders: facts.iter().map(leader).collect(),
            facts: facts.to_vec(),
            brokers: [id(broker)].into(),
        }
    }

    #[test]
    #[rustfmt::skip]
    fn those_that_are_ready_and_not_fenced_are_asked_first_and_those_that_lag_never() {
        type Change = fn(&mut Snapshot);
        fn pod(s: &mut Snapshot, node: i32) -> &mut crate::cluster::snapshot::PodView {
            s.pods.get_mut(&format!("c-broker-{node}")).unwrap()
        }
        fn brokers(s: &mut Snapshot) -> &mut BTreeMap<NodeId, BrokerView> {
            let Fact::Read { value, .. } = &mut s.kafka.brokers else { panic!("not read") };
            value
        }
        let rows: [(&str, Change, &[i32]); 9] = [
            ("all are well",             |_| {}, &[3, 4, 5]),
            ("one is not ready",         |s| pod(s, 3).ready = false, &[4, 5, 3]),
            ("one is fenced",            |s| brokers(s).get_mut(&id(3)).unwrap().fenced = true, &[4, 5, 3]),
            ("one is not registered",    |s| { brokers(s).remove(&id(4)); }, &[3, 5, 4]),
            ("fenced before unready",    |s| { pod(s, 3).ready = false; brokers(s).remove(&id(4)); }, &[5, 4, 3]),
            ("who is fenced is unknown", |s| s.kafka.brokers = Fact::Unknown(Why::NoAnswer), &[3, 4, 5]),
            ("one lags",                 |s| s.kafka.quorum = Fact::read(cut_off(&[3]), NOW), &[4, 5]),
            ("one has no pod",           |s| { s.pods.remove("c-broker-4"); }, &[3, 5]),
            ("the quorum is unknown",    |s| s.kafka.quorum = Fact::Unknown(Why::NoAnswer), &[]),
        ];
        for (name, change, expected) in rows {
            let (mut snapshot, _) = settled();
            change(&mut snapshot);
            assert_eq!(snapshot.witnesses(), ids(expected), "{name}");
        }
    }

    /// Who answered, who lags by the description after that, whose answer counts.
    #[test]
    #[rustfmt::skip]
    fn only_the_answer_of_a_broker_that_keeps_up_afterwards_counts() {
        let rows: [(&str, &[i32], Option<&[i32]>, &[i32]); 7] = [
            ("both keep up",               &[3, 4], Some(&[]),        &[3, 4]),
            ("one was cut off",            &[3, 4], Some(&[3]),       &[4]),
            ("both were",                  &[3, 4], Some(&[3, 4]),    &[]),
            ("one answered",               &[4],    Some(&[5]),       &[4]),
            ("none answered",              &[],     Some(&[]),        &[]),
            ("the quorum does not answer", &[3, 4], None,             &[]),
            ("the broker is unknown",      &[0],    Some(&[3, 4, 5]), &[]),
        ];
        for (name, answered, lagging, expected) in rows {
            let (mut snapshot, _) = settled();
            let answers = answered.iter().map(|broker| match *broker {
                0 => Partitions::default(),
                broker => answer(broker, &[partition(0, &[3, 4, 5])]),
            });
            let later = lagging.map_or(Fact::Unknown(Why::NoAnswer), |lagging| Fact::read(cut_off(lagging), NOW + 5));
            snapshot.kafka.accept_answers(answers.collect(), NOW, later.clone());
            assert_eq!(snapshot.kafka.quorum, later, "{name}");
            let counts = snapshot.partitions().map(|all| all.brokers.iter().copied().collect());
            assert_eq!(counts, Some(ids(expected)).filter(|ids: &Vec<_>| !ids.is_empty()), "{name}");
        }
    }

    #[test]
    fn the_brokers_are_unknown_if_the_one_that_described_them_lags() {
        let rows = [
            ("it keeps up", Some(id(4)), Fact::read(cut_off(&[3]), NOW), true),
            ("it was cut off", Some(id(3)), Fact::read(cut_off(&[3]), NOW), false),
            ("the broker is unknown", None, Fact::read(cut_off(&[]), NOW), false),
            ("the quorum is unknown", Some(id(4)), Fact::Unknown(Why::NoAnswer), false),
        ];
        for (name, from, later, expected) in rows {
            let (mut snapshot, _) = settled();
            snapshot.kafka.brokers_from = from;
            snapshot.kafka.accept_answers(Vec::new(), NOW, later);
            assert_eq!(snapshot.kafka.brokers.known().is_some(), expected, "{name}");
        }
    }

    #[test]
    fn partitions_that_a_lagging_broker_described_are_unknown() {
        let (mut snapshot, _) = settled();
        let all = answer(3, &[partition(0, &[3, 4, 5])]);
        snapshot.kafka.partitions = Fact::read(all, NOW);
        assert!(snapshot.partitions().is_some());
        snapshot.kafka.quorum = Fact::read(cut_off(&[3]), NOW);
        assert_eq!(snapshot.partitions(), None);
    }

    /// What each of two brokers says of a partition, and whom it holds back.
    #[test]
    #[rustfmt::skip]
    fn a_partition_that_two_brokers_describe_differently_holds_all_of_its_brokers_back() {
        let all = partition(0, &[3, 4, 5]);
        let moved = PartitionFacts { replicas: ids(&[3, 4, 6]), ..all.clone() };
        let strict = PartitionFacts { min_isr: Some(3), ..all.clone() };
        let rows: [(&str, Vec<PartitionFacts>, Vec<PartitionFacts>, &[i32], &[i32]); 7] = [
            ("they agree",                  vec![all.clone()], vec![all.clone()], &[], &[]),
            ("they agree that one lags",    vec![partition(0, &[3, 4])], vec![partition(0, &[3, 4])], &[3, 4], &[3, 4]),
            ("one has not heard of it",     vec![all.clone()], vec![partition(0, &[3, 4])], &[3, 4, 5], &[3, 4, 5]),
            ("or the other has not",        vec![partition(0, &[3])], vec![partition(0, &[4])], &[3, 4, 5], &[3, 4]),
            ("a move",                      vec![all.clone()], vec![moved], &[3, 4, 5, 6], &[3, 4, 5]),
            ("another min.insync.replicas", vec![all.clone()], vec![strict], &[3, 4, 5], &[3, 4, 5]),
            ("only one knows the topic",    vec![], vec![all], &[3, 4, 5], &[3, 4, 5]),
        ];
        for (name, one, other, ready, unready) in rows {
            for (first, second) in [(&one, &other), (&other, &one)] {
                let agreed = agree(vec![answer(3, first), answer(4, second)], &cut_off(&[])).unwrap();
                assert_eq!((agreed.facts.len(), agreed.leaders.len()), (1, 1), "{name}");
                assert_eq!(agreed.brokers, BTreeSet::from([id(3), id(4)]), "{name}");
                let index = ByBroker::new(&agreed.facts);
                let held = |is: &dyn Fn(NodeId) -> bool| ids(&[3, 4, 5, 6]).into_iter().filter(|id| is(*id)).collect::<Vec<_>>();
                assert_eq!(held(&|id| !holds(&agreed.facts, &[id].into()).is_empty()), ids(ready), "{name}");
                let of_unready = held(&|id| !index.holds_unready(id, &agreed.facts).is_empty());
                assert_eq!(of_unready, ids(unready), "{name}: unready");
            }
        }
    }
}
