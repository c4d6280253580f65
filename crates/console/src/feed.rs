//! Feeds: what is observed of one thing, for all pages that show it.
//!
//! 1. At most one task observes a thing, however many pages show it. It ends when the last page is closed.
//! 2. A part that has not changed stays the same `Arc`, which is how a stream knows that there is nothing to send.
//! 3. An observation that fails leaves what was observed before, and says so in a part of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::clock::now_ms;
use serde::Serialize;
use tokio::sync::watch;

use crate::page::{Cluster, Quorum};
use crate::source::{ClusterId, Source};

/// How many changes of the lag are kept: an hour of a quorum in which it changes at every observation.
const SAMPLES_MAX: usize = 1_800;

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// All clusters.
    Overview,
    /// One cluster.
    Cluster(ClusterId),
}

/// What is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// The parts, as JSON.
    pub(crate) parts: BTreeMap<&'static str, Arc<str>>,
    /// Changes of the lag, as JSON, the oldest first.
    pub(crate) samples: VecDeque<Arc<str>>,
    /// How many changes there were, with those that are not kept any more.
    pub(crate) sampled: u64,
    last_lag: Option<Lag>,
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

/// The same, with its time.
#[derive(Debug, Serialize)]
struct Sample<'a> {
    t: u64,
    #[serde(flatten)]
    lag: &'a Lag,
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
        let feed = all
            .entry(topic.clone())
            .or_insert_with(|| Feed { content: watch::Sender::default(), running: false });
        let receiver = feed.content.subscribe();
        if !feed.running {
            feed.running = true;
            tokio::spawn(Arc::clone(self).observe(topic.clone(), feed.content.clone()));
        }
        receiver
    }

    /// Observes as long as there is a page.
    async fn observe(self: Arc<Self>, topic: Topic, content: watch::Sender<Arc<Content>>) {
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
            let _ = tokio::time::timeout(pause, content.closed()).await;
            if self.end(&topic, &content) {
                return;
            }
        }
    }

    /// Ends the observation if there is no page. With the lock held: a page that comes now begins another one.
    fn end(&self, topic: &Topic, content: &watch::Sender<Arc<Content>>) -> bool {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if content.receiver_count() > 0 {
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
        let Cluster { summary, nodes, quorum, roll, why } = cluster;
        self.set("summary", summary);
        self.set("nodes", nodes);
        self.set("quorum", quorum);
        self.set("roll", roll);
        self.set("why", why);
        if let Some(quorum) = quorum {
            self.sample(Lag::of(quorum), now_ms);
        }
    }

    fn sample(&mut self, lag: Lag, now_ms: u64) {
        if self.last_lag.as_ref() == Some(&lag) {
            return;
        }
        if let Ok(text) = serde_json::to_string(&Sample { t: now_ms, lag: &lag }) {
            self.samples.push_back(text.into());
            self.sampled += 1;
        }
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.last_lag = Some(lag);
    }

    fn is_same(&self, other: &Self) -> bool {
        self.sampled == other.sampled
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1))
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
    parts: BTreeMap<&'static str, Arc<str>>,
    sampled: u64,
}

impl Sent {
    /// The events that bring a page up to date: their names and what is in them.
    pub(crate) fn update(&mut self, content: &Content) -> Vec<(&'static str, Arc<str>)> {
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
        events.extend(content.samples.iter().skip(skip).map(|text| ("lag", Arc::clone(text))));
        self.sampled = content.sampled;
        events
    }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
