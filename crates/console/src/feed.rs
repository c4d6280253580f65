//! Feeds: what is observed of one thing, for all pages that show it.
//!
//! 1. At most one task observes a thing, however many pages show it. It ends when the last page is closed.
//! 2. A part that has not changed stays the same `Arc`, which is how a stream knows that there is nothing to send.
//! 3. An observation that fails leaves what was observed before, and says so in a part of its own.
//! 4. A cluster whose pages are closed is observed seldom, for its history, if the source permits that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::clock::now_ms;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::history::{History, Parts};
use crate::page::{Cluster, Fleet, Machine, Quorum};
use crate::source::{ClusterId, Source};

/// How many changes of the lag and of states are kept: an hour of a quorum in which it changes at every observation.
const SAMPLES_MAX: usize = 1_800;

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// All clusters.
    Overview,
    /// The fleet.
    Fleet,
    /// One cluster.
    Cluster(ClusterId),
}

/// A part or a sample: its name, and its JSON.
pub(crate) type Sample = (&'static str, Arc<str>);

/// What is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// The parts, as JSON.
    pub(crate) parts: Parts,
    /// Changes over time, the oldest first.
    pub(crate) samples: VecDeque<Sample>,
    /// How many changes there were, with those that are not kept any more.
    pub(crate) sampled: u64,
    last_lag: Option<Lag>,
    last_capacity: Option<Capacity>,
    /// The state of each subject of each machine.
    states: BTreeMap<(&'static str, String), String>,
    history: History,
    failing_since_ms: Option<u64>,
}

/// The lag of all replicas at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lag {
    leader: i32,
    epoch: i32,
    lag: BTreeMap<i32, Option<u64>>,
}

/// What the data planes of a fleet can still take, by region.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Capacity {
    regions: BTreeMap<String, [u64; 3]>,
}

/// Something at one time.
#[derive(Debug, Serialize)]
struct At<'a, T> {
    t: u64,
    #[serde(flatten)]
    what: &'a T,
}

/// A transition of a state machine, as it was observed.
#[derive(Debug, Serialize)]
struct Step<'a> {
    machine: &'static str,
    subject: &'a str,
    /// `None` if the subject is new.
    from: Option<&'a str>,
    /// `None` if the subject is gone.
    to: Option<&'a str>,
}

/// Why the page shows what was observed before.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failing<'a> {
    message: &'a str,
    since_ms: u64,
}

/// The feeds.
pub(crate) struct Feeds {
    source: Arc<dyn Source>,
    all: Mutex<BTreeMap<Topic, Feed>>,
}

struct Feed {
    content: watch::Sender<Arc<Content>>,
    /// Whether a task observes it.
    running: bool,
    /// Ends a pause: a page was opened, or the user has changed something.
    wake: Arc<Notify>,
}

impl Feeds {
    pub(crate) fn new(source: Arc<dyn Source>) -> Arc<Self> {
        Arc::new(Self { source, all: Mutex::default() })
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// What is known of something, now and from now on.
    pub(crate) fn open(self: &Arc<Self>, topic: &Topic) -> watch::Receiver<Arc<Content>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let feed = all.entry(topic.clone()).or_insert_with(|| Feed {
            content: watch::Sender::default(),
            running: false,
            wake: Arc::default(),
        });
        let receiver = feed.content.subscribe();
        if feed.running {
            // A cluster that is observed for its history only is observed at once.
            if feed.content.receiver_count() == 1 {
                feed.wake.notify_one();
            }
        } else {
            feed.running = true;
            let (content, wake) = (feed.content.clone(), Arc::clone(&feed.wake));
            tokio::spawn(Arc::clone(self).observe(topic.clone(), content, wake));
        }
        receiver
    }

    /// Observes a cluster at once, if it is observed: its user has changed something.
    pub(crate) fn poke(&self, topic: &Topic) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = all.get(topic) {
            feed.wake.notify_one();
        }
    }

    /// The times of the history of a cluster.
    pub(crate) fn times(&self, topic: &Topic) -> Vec<u64> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(topic).map(|feed| feed.content.borrow().history.times()).unwrap_or_default()
    }

    /// What the pages of a cluster showed at a time, and since when.
    pub(crate) fn at(&self, topic: &Topic, ms: u64) -> Option<(u64, Parts)> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let content = Arc::clone(&all.get(topic)?.content.borrow());
        content.history.at(ms).map(|(at, parts)| (at, parts.clone()))
    }

    /// Observes as long as there is a page, and seldom after that.
    async fn observe(
        self: Arc<Self>,
        topic: Topic,
        content: watch::Sender<Arc<Content>>,
        wake: Arc<Notify>,
    ) {
        loop {
            let mut next = Content::clone(&content.borrow());
            self.observe_once(&topic, &mut next).await;
            content.send_if_modified(|current| {
                let changed = !next.is_same(current);
                if changed {
                    *current = Arc::new(next);
                }
                changed
            });
            // A file is read once; its pages stay open for as long as they like.
            let pause = self.source.interval().unwrap_or(Duration::MAX);
            tokio::select! {
                _ = tokio::time::timeout(pause, content.closed()) => {}
                () = wake.notified() => {}
            }
            if self.end(&topic, &content) {
                return;
            }
            if let Some(pause) = self.source.background().filter(|_| content.receiver_count() == 0)
            {
                let _ = tokio::time::timeout(pause, wake.notified()).await;
            }
        }
    }

    /// Ends the observation if there is no page and no history to keep. With the lock held: a page that comes now begins
    /// another one.
    fn end(&self, topic: &Topic, content: &watch::Sender<Arc<Content>>) -> bool {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if content.receiver_count() > 0 {
            return false;
        }
        let known = content.borrow().last_lag.is_some();
        if known && self.source.background().is_some() {
            return false;
        }
        // The history of the lag is worth keeping, a name that belongs to no cluster is not.
        if content.borrow().samples.is_empty() {
            all.remove(topic);
        } else if let Some(feed) = all.get_mut(topic) {
            feed.running = false;
        }
        true
    }

    async fn observe_once(&self, topic: &Topic, content: &mut Content) {
        let now_ms = now_ms();
        let outcome = match topic {
            Topic::Overview => self.source.overview().await.map(|seen| {
                content.set("overview", &seen);
            }),
            Topic::Fleet => self.source.fleet().await.map(|seen| content.set_fleet(&seen, now_ms)),
            Topic::Cluster(id) => self.source.cluster(id).await.map(|seen| match seen {
                Some(cluster) => content.set_cluster(&cluster, now_ms),
                None => content.set("summary", &()),
            }),
        };
        match outcome {
            Ok(()) => {
                content.failing_since_ms = None;
                content.set("failing", &());
            }
            Err(trouble) => {
                let since_ms = *content.failing_since_ms.get_or_insert(now_ms);
                content.set("failing", &Failing { message: &trouble.0, since_ms });
            }
        }
    }
}

impl Content {
    fn set(&mut self, name: &'static str, part: &impl Serialize) {
        match serde_json::to_string(part) {
            Ok(text) => {
                if self.parts.get(name).is_none_or(|before| **before != *text) {
                    self.parts.insert(name, text.into());
                }
            }
            // Plain data with text keys: it cannot fail, and if it did, the page would show what it had.
            Err(error) => tracing::error!(part = name, %error, "cannot serialize a part of a page"),
        }
    }

    fn set_cluster(&mut self, cluster: &Cluster, now_ms: u64) {
        let Cluster { summary, nodes, quorum, roll, why, rebalance, machines, rights } = cluster;
        self.set("summary", summary);
        self.set("nodes", nodes);
        self.set("quorum", quorum);
        self.set("roll", roll);
        self.set("why", why);
        self.set("rebalance", rebalance);
        self.set("machines", machines);
        self.set("rights", rights);
        if let Some(quorum) = quorum {
            let lag = Lag::of(quorum);
            if self.last_lag.as_ref() != Some(&lag) {
                self.sample("lag", now_ms, &lag);
                self.last_lag = Some(lag);
            }
        }
        self.set_states(machines, now_ms);
        let mut parts = self.parts.clone();
        parts.remove("failing");
        self.history.add(now_ms, &parts);
    }

    /// Adds the transitions since the last observation. What is there at the first one has made none.
    fn set_states(&mut self, machines: &[Machine], now_ms: u64) {
        let subjects = machines.iter().flat_map(|machine| {
            machine.subjects.iter().map(|one| ((machine.name, one.name.clone()), one.state.clone()))
        });
        let now: BTreeMap<_, _> = subjects.collect();
        let before = std::mem::replace(&mut self.states, now.clone());
        if self.history.times().is_empty() {
            return;
        }
        let all: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
        for key @ (machine, subject) in all {
            let (from, to) =
                (before.get(key).map(String::as_str), now.get(key).map(String::as_str));
            if from != to {
                self.sample("step", now_ms, &Step { machine, subject, from, to });
            }
        }
    }

    fn set_fleet(&mut self, fleet: &Option<Fleet>, now_ms: u64) {
        self.set("fleet", fleet);
        let Some(fleet) = fleet else { return };
        let capacity = Capacity::of(fleet);
        if self.last_capacity.as_ref() != Some(&capacity) {
            self.sample("capacity", now_ms, &capacity);
            self.last_capacity = Some(capacity);
        }
    }

    fn sample(&mut self, name: &'static str, now_ms: u64, what: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(&At { t: now_ms, what }) {
            self.samples.push_back((name, text.into()));
            self.sampled += 1;
        }
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.sampled == other.sampled
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1))
    }
}

impl Capacity {
    /// By region: free connections, free partitions, and Kafka clusters that wait.
    fn of(fleet: &Fleet) -> Self {
        let region = |region: &crate::page::Region| {
            let planes = || fleet.planes.iter().filter(|plane| plane.region == region.name);
            let connections = planes().filter_map(|plane| plane.free_connections).sum();
            let partitions = planes().filter_map(|plane| plane.free_partitions).sum();
            (region.name.clone(), [connections, partitions, region.waiting])
        };
        Self { regions: fleet.regions.iter().map(region).collect() }
    }
}

impl Lag {
    fn of(quorum: &Quorum) -> Self {
        let all = quorum.voters.iter().chain(&quorum.observers);
        Self {
            leader: quorum.leader,
            epoch: quorum.epoch,
            lag: all.map(|replica| (replica.id, replica.lag)).collect(),
        }
    }
}

/// What a stream has sent.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    parts: Parts,
    sampled: u64,
}

impl Sent {
    /// The events that bring a page up to date: their names and what is in them.
    pub(crate) fn update(&mut self, content: &Content) -> Vec<Sample> {
        let mut events = Vec::new();
        for (name, part) in &content.parts {
            if self.parts.get(name).is_none_or(|sent| !Arc::ptr_eq(sent, part)) {
                self.parts.insert(name, Arc::clone(part));
                events.push((*name, Arc::clone(part)));
            }
        }
        let kept = u64::try_from(content.samples.len()).unwrap_or(u64::MAX);
        let oldest = content.sampled.saturating_sub(kept);
        let skip = usize::try_from(self.sampled.saturating_sub(oldest)).unwrap_or(usize::MAX);
        events.extend(content.samples.iter().skip(skip).cloned());
        self.sampled = content.sampled;
        events
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
