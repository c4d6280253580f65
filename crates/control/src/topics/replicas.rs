//! Another number of replicas for the partitions of a topic: which brokers get or lose one, and when.
//!
//! 1. A replica that stays is not moved. An added one goes to the rack that has the fewest of its partition, then to the
//!    broker that has the fewest replicas of all.
//! 2. Replicas that are offline are removed first, then those out of sync, then those in racks that have more than one.
//!    The leader is removed only if there is no other.
//! 3. As many in-sync replicas as `min.insync.replicas` asks for are kept, and a topic never gets fewer replicas than that.
//! 4. Moves of one kind at a time: those of a rebalance end first, and so do those that were begun for other topics.
//! 5. Whether anything is left to do follows from what Kafka says, not from what is remembered: partitions whose number of
//!    replicas differs among themselves are brought to the spec too.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, TopicName, TopicPartition};

use super::report::ReplicasChange;

/// Partitions that are begun together. A rebalance that was asked for meanwhile waits until these have moved.
const PARTITIONS_MAX: usize = 1000;

/// A partition, as the choice of its replicas sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub number: i32,
    /// The brokers that have it, or will have it when the move in flight ends; the preferred leader first.
    pub replicas: Vec<NodeId>,
    /// Those in sync.
    pub in_sync: BTreeSet<NodeId>,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// Whether a move of it is in flight.
    pub is_moving: bool,
}

/// A topic whose partitions are to have another number of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// How many.
    pub replicas: usize,
    /// How many have to be in sync for a write.
    pub min_in_sync: usize,
    /// The partitions that have another number.
    pub partitions: Vec<Partition>,
}

/// A broker that may have replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broker {
    /// Its rack.
    pub rack: Option<String>,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it may get replicas: not if it is leaving.
    pub is_open: bool,
    /// How many replicas it has.
    pub replicas: usize,
}

/// The brokers of a cluster.
pub type Brokers = BTreeMap<NodeId, Broker>;

/// What moves in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moving {
    /// Nothing of ours.
    Nothing,
    /// Replicas of topics, begun for their resources.
    Topics {
        /// By what they are known.
        session: String,
        /// The number of replicas that each topic is getting.
        targets: BTreeMap<TopicName, usize>,
    },
    /// The replicas of a rebalance of this name.
    Rebalance(String),
}

/// Moves to begin, and what the statuses of topics say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Begin {
    /// The brokers of each partition that is moved, the preferred leader first.
    pub targets: Vec<(TopicPartition, Vec<NodeId>)>,
    /// What each topic says of its change.
    pub changes: BTreeMap<TopicName, ReplicasChange>,
}

/// Why a topic waits.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wait {
    BelowMinInSync(usize),
    TooFewBrokers { wanted: usize, open: usize },
    NotInSync(i32),
    Moving(i32),
}

impl Wait {
    fn message(&self) -> String {
        match self {
            Self::BelowMinInSync(least) => format!(
                "min.insync.replicas of the topic is {least}: a topic with fewer replicas accepts no writes with acks=all. \
                 Lower min.insync.replicas first"
            ),
            Self::TooFewBrokers { wanted, open } => format!(
                "{wanted} replicas need {wanted} brokers that are up and not leaving; there are {open}"
            ),
            Self::NotInSync(number) => {
                format!("partition {number} has too few in-sync replicas to remove one")
            }
            Self::Moving(number) => format!("partition {number} is being moved"),
        }
    }
}

/// Decides what is begun for topics whose partitions have another number of replicas than their spec asks for. `session`
/// is by what moves that begin now will be known.
#[must_use]
pub fn begin(
    wanted: &BTreeMap<TopicName, Wanted>,
    brokers: &Brokers,
    moving: &Moving,
    session: &str,
) -> Begin {
    let mut begin = Begin::default();
    let mut brokers = brokers.clone();
    for (topic, one) in wanted {
        let pending = |message: String| ReplicasChange::pending(one.replicas, message);
        let change = match moving {
            Moving::Topics { session, targets } if targets.get(topic) == Some(&one.replicas) => {
                ReplicasChange::ongoing(one.replicas, session)
            }
            Moving::Topics { .. } => pending("Waits for the moves of other topics".to_owned()),
            Moving::Rebalance(name) => {
                pending(format!("Waits for the moves of the KafkaRebalance {name}"))
            }
            Moving::Nothing if begin.targets.len() >= PARTITIONS_MAX => {
                pending("Waits for the moves of other topics".to_owned())
            }
            Moving::Nothing => match choose_all(topic, one, &mut brokers) {
                Ok(targets) => {
                    begin.targets.extend(targets);
                    ReplicasChange::ongoing(one.replicas, session)
                }
                Err(wait) => pending(wait.message()),
            },
        };
        begin.changes.insert(topic.clone(), change);
    }
    begin
}

/// Whether moves that run are no longer what the resources ask for: they are cancelled. `asked` has the number of replicas
/// in the spec of each resource that manages its topic; a topic without such a resource goes on.
#[must_use]
pub fn is_outdated(moving: &Moving, asked: &BTreeMap<TopicName, Option<usize>>) -> bool {
    let Moving::Topics { targets, .. } = moving else { return false };
    targets.iter().any(|(topic, target)| asked.get(topic).is_some_and(|now| *now != Some(*target)))
}

type Targets = Vec<(TopicPartition, Vec<NodeId>)>;

/// The brokers of all partitions of a topic, or why it waits. What is chosen counts for the next choice.
fn choose_all(topic: &TopicName, wanted: &Wanted, brokers: &mut Brokers) -> Result<Targets, Wait> {
    if wanted.replicas < wanted.min_in_sync {
        return Err(Wait::BelowMinInSync(wanted.min_in_sync));
    }
    if let Some(one) = wanted.partitions.iter().find(|one| one.is_moving) {
        return Err(Wait::Moving(one.number));
    }
    let before = brokers.clone();
    let mut targets = Targets::new();
    for one in &wanted.partitions {
        match choose(one, wanted, brokers) {
            Ok(target) => {
                targets.push((TopicPartition::new(topic.clone(), one.number), target));
            }
            Err(wait) => {
                *brokers = before;
                return Err(wait);
            }
        }
    }
    Ok(targets)
}

fn choose(
    partition: &Partition,
    wanted: &Wanted,
    brokers: &mut Brokers,
) -> Result<Vec<NodeId>, Wait> {
    let mut target = partition.replicas.clone();
    while target.len() < wanted.replicas {
        let Some(next) = next_to_add(&target, brokers) else {
            let open = brokers.values().filter(|broker| broker.is_up && broker.is_open).count();
            return Err(Wait::TooFewBrokers { wanted: wanted.replicas, open });
        };
        brokers.entry(next).or_default().replicas += 1;
        target.push(next);
    }
    while target.len() > wanted.replicas {
        let Some(at) = next_to_remove(partition, &target, brokers) else { break };
        let gone = target.remove(at);
        let broker = brokers.entry(gone).or_default();
        broker.replicas = broker.replicas.saturating_sub(1);
    }
    let in_sync = target.iter().filter(|broker| partition.in_sync.contains(broker)).count();
    let is_removal = target.len() < partition.replicas.len();
    if is_removal && in_sync < wanted.min_in_sync.max(1) {
        return Err(Wait::NotInSync(partition.number));
    }
    Ok(target)
}

fn next_to_add(target: &[NodeId], brokers: &Brokers) -> Option<NodeId> {
    let open = brokers.iter().filter(|(id, one)| one.is_up && one.is_open && !target.contains(id));
    open.min_by_key(|(id, one)| (in_rack(target, one.rack.as_ref(), brokers), one.replicas, **id))
        .map(|(id, _)| *id)
}

/// The place in the list of the replica that goes. Of those that are alike it is the one on the broker with the most
/// replicas, then the last.
fn next_to_remove(partition: &Partition, target: &[NodeId], brokers: &Brokers) -> Option<usize> {
    let rank = |(at, id): &(usize, &NodeId)| {
        let broker = brokers.get(id);
        let rack = broker.and_then(|broker| broker.rack.as_ref());
        let crowd = rack.map_or(0, |rack| in_rack(target, Some(rack), brokers));
        (
            partition.leader != Some(**id),
            !broker.is_some_and(|broker| broker.is_up),
            !partition.in_sync.contains(id),
            crowd,
            broker.map_or(0, |broker| broker.replicas),
            // Kafka prefers the first to lead.
            *at,
        )
    };
    target.iter().enumerate().max_by_key(rank).map(|(at, _)| at)
}

fn in_rack(target: &[NodeId], rack: Option<&String>, brokers: &Brokers) -> usize {
    let Some(rack) = rack else { return 0 };
    let is_there = |id: &&NodeId| brokers.get(id).and_then(|one| one.rack.as_ref()) == Some(rack);
    target.iter().filter(is_there).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn nodes(ids: &[i32]) -> Vec<NodeId> {
        ids.iter().copied().map(node).collect()
    }

    fn name(text: &str) -> TopicName {
        TopicName::new(text).unwrap()
    }

    /// Brokers `0`, `1`, ... with racks and numbers of replicas; without a rack if it is empty, down with a `!`, leaving
    /// with a `-`.
    fn brokers(all: &[(&str, usize)]) -> Brokers {
        let broker = |(rack, replicas): &(&str, usize)| {
            let name = rack.trim_matches(['!', '-']);
            Broker {
                rack: (!name.is_empty()).then(|| name.to_owned()),
                is_up: !rack.contains('!'),
                is_open: !rack.contains('-'),
                replicas: *replicas,
            }
        };
        (0..).map(node).zip(all.iter().map(broker)).collect()
    }

    fn partition(replicas: &[i32], in_sync: &[i32], leader: i32) -> Partition {
        Partition {
            number: 7,
            replicas: nodes(replicas),
            in_sync: nodes(in_sync).into_iter().collect(),
            leader: Some(node(leader)),
            is_moving: false,
        }
    }

    fn chosen(
        partition: &Partition,
        replicas: usize,
        min_in_sync: usize,
        brokers: &Brokers,
    ) -> Result<Vec<i32>, Wait> {
        let wanted = Wanted { replicas, min_in_sync, partitions: vec![partition.clone()] };
        let all = choose_all(&name("t"), &wanted, &mut brokers.clone())?;
        Ok(all[0].1.iter().map(|id| id.get()).collect())
    }

    #[test]
    fn replicas_are_added_by_rack_and_then_by_load() {
        let racks = || brokers(&[("a", 5), ("a", 0), ("b", 9), ("b", 3), ("c", 9)]);
        let plain = || brokers(&[("", 5), ("", 0), ("", 3)]);
        #[rustfmt::skip]
        let rows = [
            ("another rack",           partition(&[0], &[0], 0),       2, racks(), vec![0, 3]),
            ("the last rack",          partition(&[0, 3], &[0, 3], 0), 3, racks(), vec![0, 3, 4]),
            ("every rack has one",     partition(&[0, 2, 4], &[0], 0), 4, racks(), vec![0, 2, 4, 1]),
            ("without racks by load",  partition(&[0], &[0], 0),       2, plain(), vec![0, 1]),
            ("all brokers",            partition(&[0], &[0], 0),       3, plain(), vec![0, 1, 2]),
            ("not one that is down",   partition(&[0], &[0], 0),       2, brokers(&[("", 5), ("!", 0), ("", 3)]), vec![0, 2]),
            ("not one that leaves",    partition(&[0], &[0], 0),       2, brokers(&[("", 5), ("-", 0), ("", 3)]), vec![0, 2]),
        ];
        for (row, partition, replicas, brokers, expected) in rows {
            assert_eq!(chosen(&partition, replicas, 1, &brokers), Ok(expected), "{row}");
        }
    }

    #[test]
    fn replicas_that_serve_least_are_removed_first_and_the_leader_last() {
        let up = || brokers(&[("a", 1), ("a", 1), ("b", 1), ("c", 1)]);
        let three = |in_sync: &[i32], leader| partition(&[0, 1, 2], in_sync, leader);
        #[rustfmt::skip]
        let rows = [
            ("offline",                 three(&[0, 2], 0),    2, brokers(&[("a", 1), ("b", 1), ("!c", 1)]), vec![0, 1]),
            ("out of sync",             three(&[0, 1], 0),    2, up(), vec![0, 1]),
            ("rack with two",           three(&[0, 1, 2], 0), 2, up(), vec![0, 2]),
            ("rack with two, 1 leads",  three(&[0, 1, 2], 1), 2, up(), vec![1, 2]),
            ("alike: the fullest",      three(&[0, 1, 2], 0), 2, brokers(&[("", 1), ("", 9), ("", 1)]), vec![0, 2]),
            ("alike: the last",         three(&[0, 1, 2], 0), 2, brokers(&[("", 1), ("", 1), ("", 1)]), vec![0, 1]),
            ("the leader stays",        three(&[0, 1, 2], 2), 1, up(), vec![2]),
            ("several",                 partition(&[3, 2, 1, 0], &[0, 1, 2, 3], 3), 2, up(), vec![3, 2]),
        ];
        for (row, partition, replicas, brokers, expected) in rows {
            assert_eq!(chosen(&partition, replicas, 1, &brokers), Ok(expected), "{row}");
        }
    }

    #[test]
    fn a_topic_waits_rather_than_lose_its_writes_or_its_copies() {
        let up = || brokers(&[("", 1), ("", 1), ("!", 1)]);
        let moving = Partition { is_moving: true, ..partition(&[0], &[0], 0) };
        #[rustfmt::skip]
        let rows = [
            ("T8.9 below min.insync.replicas", partition(&[0, 1], &[0, 1], 0), 1, 2, Wait::BelowMinInSync(2)),
            ("too few brokers",                partition(&[0], &[0], 0),       3, 1, Wait::TooFewBrokers { wanted: 3, open: 2 }),
            ("too few in sync to remove",      partition(&[0, 1, 2], &[0], 0), 2, 2, Wait::NotInSync(7)),
            ("none in sync",                   partition(&[0, 1, 2], &[], 0),  2, 1, Wait::NotInSync(7)),
            ("T8.6 moved by another",          moving,                         2, 1, Wait::Moving(7)),
        ];
        for (row, partition, replicas, min_in_sync, expected) in rows {
            assert_eq!(chosen(&partition, replicas, min_in_sync, &up()), Err(expected), "{row}");
        }
        // One that lacks in-sync replicas may get more.
        assert_eq!(chosen(&partition(&[0], &[], 0), 2, 1, &up()), Ok(vec![0, 1]));
    }

    fn wanted(topics: &[(&str, usize)]) -> BTreeMap<TopicName, Wanted> {
        let one = |(topic, replicas): &(&str, usize)| {
            let partitions = vec![partition(&[0], &[0], 0)];
            (name(topic), Wanted { replicas: *replicas, min_in_sync: 1, partitions })
        };
        topics.iter().map(one).collect()
    }

    fn said(begin: &Begin) -> Vec<String> {
        begin.changes.iter().map(|(topic, change)| format!("{topic} {}", change.line())).collect()
    }

    #[test]
    fn states_follow_from_what_moves() {
        let all = || wanted(&[("a", 2), ("b", 3)]);
        let up = brokers(&[("", 0), ("", 0)]);
        let of = |targets: &[(&str, usize)]| Moving::Topics {
            session: "old".to_owned(),
            targets: targets.iter().map(|(topic, count)| (name(topic), *count)).collect(),
        };
        let few = "3 replicas need 3 brokers that are up and not leaving; there are 2";
        #[rustfmt::skip]
        let rows = [
            ("T9.1, T9.2", Moving::Nothing, vec!["a ongoing 2 new".to_owned(), format!("b pending 3: {few}")], 1),
            ("T9.3",       of(&[("a", 2)]), vec!["a ongoing 2 old".to_owned(), "b pending 3: Waits for the moves of other topics".to_owned()], 0),
            ("another number meanwhile", of(&[("a", 4), ("b", 3)]),
                vec!["a pending 2: Waits for the moves of other topics".to_owned(), "b ongoing 3 old".to_owned()], 0),
            ("a rebalance first", Moving::Rebalance("r".to_owned()),
                vec!["a pending 2: Waits for the moves of the KafkaRebalance r".to_owned(), "b pending 3: Waits for the moves of the KafkaRebalance r".to_owned()], 0),
        ];
        for (row, moving, expected, moves) in rows {
            let begin = begin(&all(), &up, &moving, "new");
            assert_eq!((said(&begin), begin.targets.len()), (expected, moves), "{row}");
        }
        assert_eq!(begin(&BTreeMap::new(), &up, &Moving::Nothing, "new"), Begin::default(), "T9.4");
    }

    #[test]
    fn moves_are_begun_in_bounded_numbers_and_count_for_each_other() {
        let mut many = wanted(&[("a", 2), ("b", 2), ("c", 2)]);
        let up = brokers(&[("", 9), ("", 1), ("", 2)]);
        let begun = begin(&many, &up, &Moving::Nothing, "s");
        let added: Vec<i32> = begun.targets.iter().map(|(_, brokers)| brokers[1].get()).collect();
        assert_eq!(added, [1, 1, 2], "the next choice sees the one before");
        let partition = many[&name("a")].partitions[0].clone();
        many.get_mut(&name("a")).unwrap().partitions = vec![partition; PARTITIONS_MAX];
        let begun = begin(&many, &up, &Moving::Nothing, "s");
        assert_eq!(begun.targets.len(), PARTITIONS_MAX);
        assert!(said(&begun)[1].contains("pending"), "{:?}", said(&begun));
    }

    #[test]
    fn moves_are_cancelled_when_the_spec_asks_for_another_number() {
        let moving = Moving::Topics { session: "s".to_owned(), targets: [(name("a"), 2)].into() };
        let rows = [
            ("T9.3 as before", vec![("a", Some(2))], false),
            ("T9.8 reverted or changed", vec![("a", Some(3))], true),
            ("no longer set", vec![("a", None)], true),
            ("T9.9 resource deleted, unmanaged or paused", vec![], false),
            ("another topic", vec![("b", Some(5))], false),
        ];
        for (row, asked, expected) in rows {
            let asked = asked.into_iter().map(|(topic, count)| (name(topic), count)).collect();
            assert_eq!(is_outdated(&moving, &asked), expected, "{row}");
        }
        assert!(!is_outdated(&Moving::Nothing, &[(name("a"), None)].into()));
    }
}
