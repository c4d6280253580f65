//! The throttle of an execution: what it is, how it adapts, and that it is taken back.
//!
//! A throttle is two values for each broker, the rates at which it may send and receive, and two for each
//! topic, the replicas that these rates hold for. All four are texts in Kafka.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::{NodeId, TopicName};
use serde::{Deserialize, Serialize};

use super::job::{Facts, Job, Limits, Task};
use super::progress::Progress;
use super::{Act, Collected, Phase, Recorded};

/// A throttle is never lower than this: below it, moves do not keep up with what is written.
const RATE_BYTES_MIN: u64 = 1 << 20;

/// How often the rate is looked at: long enough to see what the last one did.
const MEASURE_MS: u64 = 30_000;

/// All replicas of a topic.
const ALL: &str = "*";

/// What a throttle is set on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Subject {
    /// A broker: rates.
    Broker(NodeId),
    /// A topic: replicas.
    Topic(TopicName),
}

/// A text that names no subject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is neither a broker nor a topic")]
pub struct InvalidSubject(String);

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker(broker) => write!(f, "broker/{broker}"),
            Self::Topic(topic) => write!(f, "topic/{topic}"),
        }
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.to_string()
    }
}

impl TryFrom<String> for Subject {
    type Error = InvalidSubject;
    fn try_from(text: String) -> Result<Self, InvalidSubject> {
        let subject = match text.split_once('/') {
            Some(("broker", id)) => id.parse().ok().map(Self::Broker),
            Some(("topic", name)) => name.parse().ok().map(Self::Topic),
            _ => None,
        };
        subject.ok_or(InvalidSubject(text))
    }
}

/// The two values of a subject, for what is sent and for what is received.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Values {
    /// `leader.replication.throttled.rate` or `.replicas`.
    pub leader: Option<String>,
    /// `follower.replication.throttled.rate` or `.replicas`.
    pub follower: Option<String>,
}

/// Lets the rate follow what is seen: half of it when others fall behind, twice when nothing moves any
/// more, and slowly up to what is allowed when all is well.
pub(super) fn adapt(new: &mut Recorded, limits: &Limits, facts: &Facts, progress: &Progress) {
    let (at_ms, bytes) = *new.measured.get_or_insert((facts.now_ms, progress.bytes_done));
    let elapsed_ms = facts.now_ms.saturating_sub(at_ms);
    if !is_due(new, facts.now_ms) || new.phase != Phase::Moving || facts.partitions.is_none() {
        return;
    }
    new.measured = Some((facts.now_ms, progress.bytes_done));
    let moved = progress.bytes_done.saturating_sub(bytes);
    let floor = limits.rate_bytes_max.unwrap_or(u64::MAX).min(RATE_BYTES_MIN);
    let rate = match (facts.distress, new.rate_bytes) {
        (Some(true), Some(rate)) => Some(rate / 2),
        // Half of what it was, in bytes a second.
        (Some(true), None) => Some(
            u64::try_from(u128::from(moved) * 500 / u128::from(elapsed_ms)).unwrap_or(u64::MAX),
        ),
        (Some(false), Some(rate)) if moved == 0 && progress.moves_in_flight > 0 => {
            Some(rate.saturating_mul(2))
        }
        (Some(false), Some(rate)) => Some(rate.saturating_add(rate / 4)),
        (Some(false), None) => None,
        (None, rate) => rate,
    };
    new.rate_bytes =
        rate.map(|rate| rate.max(floor).min(limits.rate_bytes_max.unwrap_or(u64::MAX)));
}

/// Whether it is time to look at the rate again.
pub(super) fn is_due(recorded: &Recorded, now_ms: u64) -> bool {
    recorded.measured.is_some_and(|(at_ms, _)| now_ms.saturating_sub(at_ms) >= MEASURE_MS)
}

/// Sets the throttle for what is in flight and for the wave. Whether the wave may begin after it.
pub(super) fn set(
    job: &Job,
    new: &mut Recorded,
    facts: &Facts,
    wave: &[&Task],
    (acts, reads): Collected<'_>,
) -> bool {
    let wanted = match new.rate_bytes {
        Some(rate) => scope(job, new, facts, wave, rate),
        None => BTreeMap::new(),
    };
    let mut ready = true;
    for (subject, values) in &wanted {
        // What was read says what it was before, and next time whether it is so now.
        reads.insert(subject.clone());
        let Some(now) = facts.settings.get(subject) else {
            ready = false;
            continue;
        };
        let former = new.former.entry(subject.clone()).or_insert_with(|| now.clone());
        let values = merge(subject, former, values);
        if *now != values {
            acts.push(Act::Configure(subject.clone(), values));
        }
    }
    // One that is away cannot be told now, and must not hold up the others.
    let over = |subject: &&Subject| !wanted.contains_key(subject) && is_there(facts, subject);
    let over: Vec<Subject> = new.former.keys().filter(over).cloned().collect();
    restore(new, facts, over, (acts, reads));
    ready
}

/// Takes all of it back; from brokers that are away last, since that may fail.
pub(super) fn restore_all(new: &mut Recorded, facts: &Facts, collected: Collected<'_>) {
    let mut all: Vec<Subject> = new.former.keys().cloned().collect();
    all.sort_by_key(|subject| !is_there(facts, subject));
    restore(new, facts, all, collected);
}

/// Whether it can be told something: a broker that runs, or a topic.
fn is_there(facts: &Facts, subject: &Subject) -> bool {
    match subject {
        Subject::Broker(broker) => facts.live.as_ref().is_some_and(|live| live.contains(broker)),
        Subject::Topic(_) => true,
    }
}

/// Takes a throttle back, and forgets what was before only when it is so again.
fn restore(
    new: &mut Recorded,
    facts: &Facts,
    subjects: Vec<Subject>,
    (acts, reads): Collected<'_>,
) {
    for subject in subjects {
        let Some(former) = new.former.get(&subject) else { continue };
        if facts.settings.get(&subject) == Some(former) {
            new.former.remove(&subject);
        } else {
            acts.push(Act::Configure(subject.clone(), former.clone()));
            reads.insert(subject);
        }
    }
}

/// The throttle that what is in flight and the wave need: who sends and who receives.
fn scope(
    job: &Job,
    new: &Recorded,
    facts: &Facts,
    wave: &[&Task],
    rate: u64,
) -> BTreeMap<Subject, Values> {
    let Some(all) = &facts.partitions else { return BTreeMap::new() };
    let begun = job.tasks.iter().filter(|task| new.in_flight.contains(&task.partition));
    let mut topics: BTreeMap<TopicName, [BTreeSet<String>; 2]> = BTreeMap::new();
    let mut brokers: BTreeSet<NodeId> = BTreeSet::new();
    for task in begun.chain(wave.iter().copied()) {
        let Some(now) = all.get(&task.partition) else { continue };
        let is_new =
            |broker: &&NodeId| !now.replicas.contains(broker) || now.adding.contains(broker);
        let (receive, _): (Vec<&NodeId>, Vec<&NodeId>) = task.target.iter().partition(is_new);
        if receive.is_empty() {
            continue;
        }
        // Whoever holds it now may come to lead it, and to send it.
        let send = now.replicas.iter().filter(|broker| !now.adding.contains(broker));
        let name = |broker: &NodeId| format!("{}:{broker}", task.partition.partition);
        let lists = topics.entry(task.partition.topic.clone()).or_default();
        for broker in send {
            lists[0].insert(name(broker));
            brokers.insert(*broker);
        }
        for broker in receive {
            lists[1].insert(name(broker));
            brokers.insert(*broker);
        }
    }
    let text = rate.to_string();
    let rates = Values { leader: Some(text.clone()), follower: Some(text) };
    let join = |list: BTreeSet<String>| Some(list.into_iter().collect::<Vec<_>>().join(","));
    // One that is away neither sends nor receives.
    let brokers = brokers.into_iter().map(Subject::Broker).filter(|it| is_there(facts, it));
    let brokers = brokers.map(|broker| (broker, rates.clone()));
    let topics = topics.into_iter().map(|(topic, [leader, follower])| {
        (Subject::Topic(topic), Values { leader: join(leader), follower: join(follower) })
    });
    brokers.chain(topics).collect()
}

/// What to set where something was set before: a rate that was lower stays, and replicas that were
/// throttled stay so.
fn merge(subject: &Subject, former: &Values, ours: &Values) -> Values {
    let both = |former: &Option<String>, ours: &Option<String>| {
        let (Some(old), Some(new)) = (former, ours) else { return ours.clone() };
        Some(match subject {
            Subject::Broker(_) => {
                let lower = old
                    .parse::<u64>()
                    .is_ok_and(|old| new.parse::<u64>().is_ok_and(|new| old < new));
                if lower { old.clone() } else { new.clone() }
            }
            Subject::Topic(_) if old == ALL => old.clone(),
            Subject::Topic(_) => {
                let all: BTreeSet<&str> =
                    old.split(',').chain(new.split(',')).filter(|part| !part.is_empty()).collect();
                all.into_iter().collect::<Vec<_>>().join(",")
            }
        })
    };
    Values {
        leader: both(&former.leader, &ours.leader),
        follower: both(&former.follower, &ours.follower),
    }
}
