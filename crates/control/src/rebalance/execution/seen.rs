//! What the answers of Kafka mean for moves: which of them are others', whether the cluster is in distress, and what
//! is gone.
//!
//! 1. A topic that does not exist is gone, and so is its throttle. Any other refusal of a read leaves its fact unknown.
//! 2. The cluster is in distress if a replica of a partition that nobody moves is not in sync although its broker
//!    runs: the moves take what it needs to catch up. One of a broker that is down is no sign of that.
//! 3. Without the list of brokers that run, nothing is known of distress.

use std::collections::BTreeSet;

use model::{NodeId, TopicPartition};

use super::{Facts, Job, Recorded, Subject, Values};

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

/// Whether the refusal of a read says that the topic does not exist. `code` is Kafka's.
#[must_use]
pub const fn is_gone(code: i16) -> bool {
    code == UNKNOWN_TOPIC_OR_PARTITION
}

/// A move that is in flight, as the controller lists it.
#[derive(Debug, Clone, Copy)]
pub struct MoveSeen<'a> {
    /// All replicas, with those that are being added.
    pub replicas: &'a [NodeId],
    /// Of these, those that are being added.
    pub adding: &'a [NodeId],
}

/// A partition of the cluster, whether or not the job is about it.
#[derive(Debug, Clone, Copy)]
pub struct PartitionSeen<'a> {
    /// Its replicas.
    pub replicas: &'a [NodeId],
    /// Those in sync.
    pub isr: &'a [NodeId],
    /// Whether it is being moved.
    pub is_moving: bool,
}

impl Facts {
    /// Keeps how many moves each broker takes part in that are not the job's. `moves` are all that are in flight.
    pub fn see_moves<'a>(
        &mut self,
        job: &Job,
        moves: impl IntoIterator<Item = (&'a TopicPartition, MoveSeen<'a>)>,
    ) {
        let own: BTreeSet<_> = job.tasks.iter().map(|task| &task.partition).collect();
        self.others.clear();
        for (_, moving) in moves.into_iter().filter(|(partition, _)| !own.contains(partition)) {
            // Who sends is not listed; the first of those that have it is the most likely one.
            let sender = moving.replicas.iter().find(|broker| !moving.adding.contains(broker));
            for broker in moving.adding.iter().chain(sender) {
                *self.others.entry(*broker).or_default() += 1;
            }
        }
    }

    /// Keeps whether the cluster is in distress (2). `partitions` are all that there are.
    pub fn see_partitions<'a>(&mut self, partitions: impl IntoIterator<Item = PartitionSeen<'a>>) {
        self.distress = self.live.as_ref().map(|live| {
            partitions.into_iter().any(|partition| {
                let behind =
                    |broker: &NodeId| live.contains(broker) && !partition.isr.contains(broker);
                !partition.is_moving && partition.replicas.iter().any(behind)
            })
        });
    }

    /// Keeps what the refusal to describe the throttle of a topic says of it: one that is gone has what it had before
    /// the throttle, so that nothing has to be brought back. Returns whether it says anything.
    pub fn see_refused(&mut self, recorded: &Recorded, subject: &Subject, code: i16) -> bool {
        if is_gone(code) {
            let former: Values = recorded.former.get(subject).cloned().unwrap_or_default();
            self.settings.insert(subject.clone(), former);
        }
        is_gone(code)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::TopicName;

    use super::super::Task;
    use super::*;

    fn ids(ids: &[i32]) -> Vec<NodeId> {
        ids.iter().map(|id| NodeId::new(*id).unwrap()).collect()
    }

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new("t").unwrap(), number)
    }

    #[test]
    fn moves_of_others_take_part_of_who_receives_and_of_one_who_sends() {
        let own = Task { partition: partition(0), target: ids(&[1]), bytes: 0 };
        let job = Job { tasks: vec![own], ..Job::default() };
        // The partition, its replicas, those that are added, the brokers that are counted.
        type Row<'a> = (i32, &'a [i32], &'a [i32], &'a [(i32, usize)]);
        let rows: [Row<'_>; 5] = [
            (0, &[1, 2, 3], &[3], &[]),
            (1, &[1, 2, 3], &[3], &[(1, 1), (3, 1)]),
            (1, &[3, 1, 2], &[3], &[(1, 1), (3, 1)]),
            (1, &[1, 2], &[], &[(1, 1)]),
            (1, &[3, 4], &[3, 4], &[(3, 1), (4, 1)]),
        ];
        for (number, replicas, adding, expected) in rows {
            let (all, added, which) = (ids(replicas), ids(adding), partition(number));
            let moves = [(&which, MoveSeen { replicas: &all, adding: &added })];
            let mut facts = Facts::default();
            facts.see_moves(&job, moves);
            let expected: BTreeMap<_, _> =
                expected.iter().map(|(id, count)| (NodeId::new(*id).unwrap(), *count)).collect();
            assert_eq!(facts.others, expected, "{number} {replicas:?} {adding:?}");
            // What is seen again takes the place of what was seen before.
            facts.see_moves(&job, []);
            assert!(facts.others.is_empty());
        }
    }

    #[test]
    fn a_replica_of_a_broker_that_runs_and_does_not_keep_up_is_distress() {
        let (two, three) = (&[1, 2][..], &[1, 2, 3][..]);
        // The brokers that run, those in sync, whether the partition is moved, whether there is distress.
        let rows: [(Option<&[i32]>, &[i32], bool, Option<bool>); 6] = [
            (Some(three), three, false, Some(false)),
            (Some(three), two, false, Some(true)),
            (Some(three), two, true, Some(false)),
            (Some(two), two, false, Some(false)),
            (None, two, false, None),
            (Some(&[]), two, false, Some(false)),
        ];
        for (live, isr, is_moving, expected) in rows {
            let (replicas, in_sync) = (ids(three), ids(isr));
            let mut facts = Facts {
                live: live.map(|live| ids(live).into_iter().collect()),
                ..Facts::default()
            };
            let healthy = PartitionSeen { replicas: &replicas, isr: &replicas, is_moving: false };
            facts.see_partitions([
                healthy,
                PartitionSeen { replicas: &replicas, isr: &in_sync, is_moving },
            ]);
            assert_eq!(facts.distress, expected, "{live:?} {isr:?} {is_moving}");
        }
    }

    #[test]
    fn only_a_topic_that_does_not_exist_has_its_former_throttle() {
        let subject = Subject::Topic(TopicName::new("t").unwrap());
        let former = Values { leader: Some("0:1".to_owned()), follower: None };
        let recorded =
            Recorded { former: [(subject.clone(), former.clone())].into(), ..Recorded::default() };
        // Not authorized, no answer in time, another controller.
        for code in [29, 7, 41] {
            let mut facts = Facts::default();
            assert!(!facts.see_refused(&recorded, &subject, code), "{code}");
            assert!(facts.settings.is_empty(), "{code}");
        }
        let mut facts = Facts::default();
        assert!(facts.see_refused(&recorded, &subject, UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!(facts.settings.get(&subject), Some(&former));
        // One that had no throttle has none.
        let mut facts = Facts::default();
        assert!(facts.see_refused(&Recorded::default(), &subject, UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!(facts.settings.get(&subject), Some(&Values::default()));
    }
}
