//! Doing what was decided, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use control::rebalance::execution::{Act, Disk, Door, Facts, Job, Subject, Values};
use kafka_admin::{
    AlterConfigsError, CallError, Election, ElectionOutcome, Refusal, ReplicaMove, ThrottleValues,
};
use model::{NodeId, TopicName, TopicPartition};

use super::{ExecuteError, Reach, Refused};
use crate::time::now_ms;
use crate::write::KafkaWriteError;

/// How many moves are begun in one request. Kafka takes thousands; this keeps it quick.
const MOVES_MAX: usize = 500;

/// What came of acts.
#[derive(Debug, Default)]
pub struct Done {
    /// How many requests were sent.
    pub acts: usize,
    /// What Kafka would not do.
    pub refused: Vec<Refused>,
    /// Brokers that are away, whose former throttle Kafka has acknowledged.
    pub settled: Vec<NodeId>,
    /// Why it ended early: the rest is left for the next pass.
    pub error: Option<ExecuteError>,
}

/// Acts of one kind that one request can do.
#[derive(Debug, PartialEq, Eq)]
enum Batch<'a> {
    Broker(NodeId, &'a Values),
    Topics(BTreeMap<TopicName, ThrottleValues>),
    Reassign(BTreeMap<TopicPartition, Option<Vec<NodeId>>>),
    Cancel(BTreeMap<TopicPartition, Option<Vec<NodeId>>>),
    Shift(NodeId, Vec<ReplicaMove>),
    Elect(Vec<TopicPartition>),
}

/// Does these acts, those of a kind that follow each other together. When one fails, or the facts are too old for one
/// that is not the first of its pass, the rest is left.
pub async fn act(reach: &Reach<'_>, job: &Job, acts: &[Act], facts: &Facts) -> Done {
    let mut done = Done::default();
    let mut has_moved = false;
    for (first, batch) in batches(acts) {
        if has_moved && first.is_stale(facts, now_ms()) {
            break;
        }
        has_moved |= first.can_hurt();
        done.acts += 1;
        if let Err(error) = send((reach, job), (first, batch), facts, &mut done).await {
            done.error = Some(error);
            break;
        }
    }
    done
}

/// Puts acts together that can be one request, and keeps their order. Each request has its first act beside it.
fn batches(acts: &[Act]) -> Vec<(&Act, Batch<'_>)> {
    let mut batches: Vec<(&Act, Batch<'_>)> = Vec::new();
    for act in acts {
        match (act, batches.last_mut().map(|(_, batch)| batch)) {
            (Act::Configure(Subject::Topic(topic), values), Some(Batch::Topics(all))) => {
                all.insert(topic.clone(), throttle(values));
            }
            (Act::Reassign(which, target), Some(Batch::Reassign(all))) if all.len() < MOVES_MAX => {
                all.insert(which.clone(), Some(target.clone()));
            }
            (Act::Cancel(which), Some(Batch::Cancel(all))) if all.len() < MOVES_MAX => {
                all.insert(which.clone(), None);
            }
            (Act::Shift(Disk { partition, broker }, path), Some(Batch::Shift(on, all)))
                if on == broker =>
            {
                all.push(ReplicaMove { partition: partition.clone(), path: path.clone() });
            }
            (act, _) => batches.push((act, alone(act))),
        }
    }
    batches
}

fn alone(act: &Act) -> Batch<'_> {
    match act {
        Act::Configure(Subject::Broker(broker), values) => Batch::Broker(*broker, values),
        Act::Configure(Subject::Topic(topic), values) => {
            Batch::Topics(BTreeMap::from([(topic.clone(), throttle(values))]))
        }
        Act::Reassign(which, target) => {
            Batch::Reassign(BTreeMap::from([(which.clone(), Some(target.clone()))]))
        }
        Act::Cancel(which) => Batch::Cancel(BTreeMap::from([(which.clone(), None)])),
        Act::Shift(Disk { partition, broker }, path) => {
            let one = ReplicaMove { partition: partition.clone(), path: path.clone() };
            Batch::Shift(*broker, vec![one])
        }
        Act::Elect(all) => Batch::Elect(all.iter().cloned().collect()),
    }
}

fn throttle(values: &Values) -> ThrottleValues {
    ThrottleValues { leader: values.leader.clone(), follower: values.follower.clone() }
}

async fn send(
    (reach, job): (&Reach<'_>, &Job),
    (act, batch): (&Act, Batch<'_>),
    facts: &Facts,
    done: &mut Done,
) -> Result<(), ExecuteError> {
    let Reach { brokers: admin, writer, .. } = reach;
    match batch {
        Batch::Broker(broker, values) => {
            configure_broker(reach, act, (broker, values), (facts, done)).await
        }
        Batch::Topics(all) => {
            let what = format!("set the throttle of {}", list(all.keys()));
            let call = admin.set_topic_throttles(&all);
            let results = writer.kafka("set throttle", &what, call, CallError::outcome).await;
            let results = results.map_err(|error| failed(&what, error))?;
            take(done, ("set the throttle of", act), results);
            Ok(())
        }
        Batch::Reassign(all) => {
            let what = format!("move {}", list(all.keys()));
            let call = admin.alter_reassignments(&all, !job.changes_count);
            let results = writer.kafka("move partitions", &what, call, |it| it.outcome()).await;
            let results = results.map_err(|error| failed(&what, error))?;
            take(done, ("move", act), results);
            Ok(())
        }
        Batch::Cancel(all) => {
            let what = format!("cancel the move of {}", list(all.keys()));
            let call = admin.cancel_reassignments(all.into_keys());
            let results = writer.kafka("cancel moves", &what, call, |it| it.outcome()).await;
            let results = results.map_err(|error| failed(&what, error))?;
            take(done, ("cancel the move of", act), results);
            Ok(())
        }
        Batch::Shift(broker, moves) => {
            let all: BTreeSet<&TopicPartition> = moves.iter().map(|it| &it.partition).collect();
            let what = format!("move {} to another disk of broker {broker}", list(all));
            let call = admin.move_replicas(broker, &moves);
            let results = writer.kafka("move between disks", &what, call, |it| it.outcome()).await;
            let results = results.map_err(|error| failed(&what, error))?;
            take(done, ("move between disks", act), results);
            Ok(())
        }
        Batch::Elect(all) => {
            let what = format!("elect the first replica of {}", list(&all));
            let call = admin.elect_leaders(Election::Preferred, Some(&all));
            let results = writer.kafka("elect leaders", &what, call, |it| it.outcome()).await;
            let results = results.map_err(|error| failed(&what, error))?;
            let results = results.into_iter().map(|(which, outcome)| (which, elected(outcome)));
            take(done, ("elect the first replica of", act), results);
            Ok(())
        }
    }
}

/// Sets the throttle of a broker.
async fn configure_broker(
    reach: &Reach<'_>,
    act: &Act,
    (broker, values): (NodeId, &Values),
    (facts, done): (&Facts, &mut Done),
) -> Result<(), ExecuteError> {
    let admin = match act.door(facts) {
        Door::Brokers => reach.brokers,
        Door::Controllers => reach.controllers,
    };
    let what = format!("set the throttle of broker {broker}");
    let values = throttle(values);
    let call = admin.set_broker_throttle(broker, &values);
    let result = reach.writer.kafka("set throttle", &what, call, AlterConfigsError::outcome).await;
    let refused = match &result {
        Err(KafkaWriteError::Kafka {
            source: AlterConfigsError::Refused { refusal, .. }, ..
        }) => Some(refusal.code.0),
        _ => None,
    };
    match result {
        Err(error) if !refused.is_some_and(|code| act.is_done_by(code)) => {
            return Err(failed(&what, error));
        }
        Ok(()) | Err(_) => {}
    }
    if act.settles_former(facts, refused) {
        done.settled.push(broker);
    }
    Ok(())
}

fn failed<E: Error + Send + Sync + 'static>(what: &str, error: KafkaWriteError<E>) -> ExecuteError {
    ExecuteError::Act { what: what.to_owned(), source: Box::new(error) }
}

fn elected(outcome: ElectionOutcome) -> Result<(), Refusal> {
    match outcome {
        // One that is not in sync is tried again in the next pass, or left to Kafka.
        ElectionOutcome::Elected
        | ElectionOutcome::NotNeeded
        | ElectionOutcome::NoEligibleLeader { .. } => Ok(()),
        ElectionOutcome::Refused(refusal) => Err(refusal),
    }
}

/// Notes what was refused, but for what is as good as done. `act` is the first of those that were sent together.
fn take<K: std::fmt::Display>(
    done: &mut Done,
    (what, act): (&str, &Act),
    results: impl IntoIterator<Item = (K, Result<(), Refusal>)>,
) {
    for (key, result) in results {
        if let Err(refusal) = result
            && !act.is_done_by(refusal.code.0)
        {
            done.refused.push(Refused { what: format!("{what} {key}"), refusal });
        }
    }
}

/// Some names of many, for people.
fn list<T: std::fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 3;
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    let shown = all[..all.len().min(SHOWN)].join(", ");
    match all.len() {
        0..=SHOWN => shown,
        count => format!("{shown} and {} more", count - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new("t").unwrap(), number)
    }

    fn broker(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    #[test]
    fn acts_of_a_kind_are_one_request_and_the_order_stays() {
        let values = Values::default();
        let topic = |name: &str| Subject::Topic(TopicName::new(name).unwrap());
        let shift = |number: i32, on: i32| {
            Act::Shift(Disk { partition: partition(number), broker: broker(on) }, "/b".to_owned())
        };
        let acts = [
            Act::Cancel(partition(7)),
            Act::Configure(Subject::Broker(broker(1)), values.clone()),
            Act::Configure(topic("a"), values.clone()),
            Act::Configure(topic("b"), values),
            Act::Reassign(partition(0), vec![broker(1)]),
            Act::Reassign(partition(1), vec![broker(2)]),
            shift(0, 1),
            shift(1, 1),
            shift(2, 2),
        ];
        let kinds: Vec<(&str, usize)> = batches(&acts)
            .iter()
            .map(|(_, batch)| match batch {
                Batch::Broker(..) => ("broker", 1),
                Batch::Topics(all) => ("topics", all.len()),
                Batch::Reassign(all) => ("reassign", all.len()),
                Batch::Cancel(all) => ("cancel", all.len()),
                Batch::Shift(_, all) => ("shift", all.len()),
                Batch::Elect(all) => ("elect", all.len()),
            })
            .collect();
        let expected = [
            ("cancel", 1),
            ("broker", 1),
            ("topics", 2),
            ("reassign", 2),
            ("shift", 2),
            ("shift", 1),
        ];
        assert_eq!(kinds, expected);
        let many: Vec<Act> =
            (0..1_200).map(|number| Act::Reassign(partition(number), Vec::new())).collect();
        assert_eq!(batches(&many).len(), 3);
    }

    #[test]
    fn a_long_list_is_shortened() {
        assert_eq!(list([1, 2, 3]), "1, 2, 3");
        assert_eq!(list([1, 2, 3, 4, 5]), "1, 2, 3 and 2 more");
    }
}
