//! What the watches have shown: the clusters that manage topics, and all resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::Names;
use api::read::{self, Topics};
use api::{Kafka, KafkaTopic};
use control::topics::{Ownership, Resource};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

use super::pass::{Done, Task, Work};
use super::schedule::{End, Schedule, Scope};
use crate::metrics::Metrics;
use crate::words::chain;

/// A resource, as it is stored and as decisions see it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) topic: KafkaTopic,
    pub(super) resource: Resource,
}

/// A cluster that manages topics as resources.
#[derive(Debug)]
struct Cluster {
    topics: Topics,
    /// Whether it is being deleted, or is gone: its resources are let go of.
    is_leaving: bool,
    is_gone: bool,
    schedule: Schedule,
    /// Whether moves of replicas of its topics run.
    is_moving: bool,
    /// Resources without a finalizer that are gone, and whose topics may have to be deleted.
    vanished: Vec<Arc<Entry>>,
}

/// All that the watches have shown.
#[derive(Debug, Default)]
pub(super) struct Cache {
    clusters: BTreeMap<Names, Cluster>,
    /// Clusters with a pass that runs, also if they do not manage topics any more.
    running: BTreeSet<Names>,
    /// By namespace and name.
    topics: BTreeMap<(String, String), Arc<Entry>>,
    /// By namespace and topic, the names of the resources that ask for it or manage it.
    claimants: BTreeMap<(String, String), BTreeSet<String>>,
    kafka_lists: Lists<Names>,
    topic_lists: Lists<(String, String)>,
    /// Namespaces whose resources were counted, so that one without any has a zero.
    counted: BTreeSet<String>,
    /// Whether a cluster may manage resources in another namespace.
    watches_other_namespaces: bool,
    /// Clusters that want to and may not.
    refused: BTreeSet<Names>,
}

/// What watches list when they begin, by the place that is watched.
#[derive(Debug)]
struct Lists<T> {
    listed: BTreeMap<Option<String>, BTreeSet<T>>,
    whole: BTreeSet<Option<String>>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { listed: BTreeMap::new(), whole: BTreeSet::new() }
    }
}

impl Cache {
    /// Nothing is known yet.
    pub(super) fn new(watches_other_namespaces: bool) -> Self {
        Self { watches_other_namespaces, ..Self::default() }
    }

    /// Takes an event of a `Kafka`.
    pub(super) fn kafka_event(
        &mut self,
        place: Option<&str>,
        event: Result<Event<DynamicObject>, watcher::Error>,
        now: Instant,
    ) {
        let place = place.map(str::to_owned);
        match event {
            Ok(Event::Init) => drop(self.kafka_lists.listed.insert(place, BTreeSet::new())),
            Ok(Event::InitApply(object)) => {
                let names = names_of(&object);
                self.kafka_lists.listed.entry(place).or_default().insert(names);
                self.kafka(object, now);
            }
            Ok(Event::Apply(object)) => self.kafka(object, now),
            Ok(Event::Delete(object)) => self.kafka_gone(&names_of(&object), now),
            Ok(Event::InitDone) => {
                let listed = self.kafka_lists.listed.remove(&place).unwrap_or_default();
                let is_missing = |names: &&Names| {
                    is_in(place.as_deref(), &names.namespace) && !listed.contains(names)
                };
                let missing: Vec<_> = self.clusters.keys().filter(is_missing).cloned().collect();
                missing.iter().for_each(|names| self.kafka_gone(names, now));
            }
            Err(error) => tracing::debug!("watching Kafka: {}", chain(&error)),
        }
    }

    fn kafka(&mut self, object: DynamicObject, now: Instant) {
        let names = names_of(&object);
        let is_leaving = object.metadata.deletion_timestamp.is_some();
        let kafka = serde_json::to_value(object).and_then(serde_json::from_value::<Kafka>);
        // One that cannot be read is treated as before: the pass over the cluster says what is wrong.
        let Ok(kafka) = kafka else { return };
        let topics = read::topics(&kafka).filter(|topics| self.may_manage(&names, topics));
        let Some(topics) = topics else {
            // Its resources stay as they are, with their finalizers.
            self.clusters.remove(&names);
            return;
        };
        match self.clusters.get_mut(&names) {
            Some(cluster) => {
                if cluster.topics != topics || cluster.is_leaving != is_leaving {
                    cluster.schedule.touch_all(now);
                }
                cluster.topics = topics;
                (cluster.is_leaving, cluster.is_gone) = (is_leaving, false);
            }
            None => {
                let (schedule, vanished) = (Schedule::new(now), Vec::new());
                let (is_gone, is_moving) = (false, false);
                let cluster =
                    Cluster { topics, is_leaving, is_gone, schedule, is_moving, vanished };
                self.clusters.insert(names, cluster);
            }
        }
    }

    fn may_manage(&mut self, names: &Names, topics: &Topics) -> bool {
        if self.watches_other_namespaces || topics.namespace == names.namespace {
            self.refused.remove(names);
            return true;
        }
        if self.refused.insert(names.clone()) {
            let (of, cluster, there) = (&names.namespace, &names.cluster, &topics.namespace);
            tracing::warn!(
                "Kafka {of}/{cluster}: KafkaTopics in namespace {there} are not managed: start the operator with \
                 --watched-namespace-enabled=true to allow it"
            );
        }
        false
    }

    fn kafka_gone(&mut self, names: &Names, now: Instant) {
        self.refused.remove(names);
        if let Some(cluster) = self.clusters.get_mut(names) {
            (cluster.is_leaving, cluster.is_gone) = (true, true);
            cluster.schedule.touch_all(now);
        }
    }

    /// Takes an event of a `KafkaTopic`.
    pub(super) fn topic_event(
        &mut self,
        place: Option<&str>,
        event: Result<Event<DynamicObject>, watcher::Error>,
        now: Instant,
    ) {
        let place = place.map(str::to_owned);
        match event {
            Ok(Event::Init) => drop(self.topic_lists.listed.insert(place, BTreeSet::new())),
            Ok(Event::InitApply(object)) => {
                self.topic_lists.listed.entry(place).or_default().insert(key_of(&object));
                self.topic(object, now);
            }
            Ok(Event::Apply(object)) => self.topic(object, now),
            Ok(Event::Delete(object)) => self.topic_gone(&key_of(&object), now),
            Ok(Event::InitDone) => {
                let listed = self.topic_lists.listed.remove(&place).unwrap_or_default();
                let is_missing = |key: &&(String, String)| {
                    is_in(place.as_deref(), &key.0) && !listed.contains(*key)
                };
                let missing: Vec<_> = self.topics.keys().filter(is_missing).cloned().collect();
                missing.iter().for_each(|key| self.topic_gone(key, now));
                self.topic_lists.whole.insert(place);
            }
            Err(error) => tracing::debug!("watching KafkaTopic: {}", chain(&error)),
        }
    }

    fn topic(&mut self, object: DynamicObject, now: Instant) {
        let key = key_of(&object);
        let entry = Arc::new(entry(object));
        let before = self.topics.insert(key.clone(), entry.clone());
        before.iter().for_each(|old| self.unclaim(old));
        for claim in claims(&entry.resource) {
            self.claimants.entry(claim).or_default().insert(key.1.clone());
        }
        let differs = before.as_ref().is_none_or(|old| entry.resource.differs_from(&old.resource));
        if !differs {
            return;
        }
        self.touch(&entry, &key.1, now);
        // Others that claim the same topic may own it now, or no longer.
        if self.is_whole(&key.0) {
            self.touch_claimants(&entry, now);
            before.iter().for_each(|old| self.touch_claimants(old, now));
        }
    }

    fn topic_gone(&mut self, key: &(String, String), now: Instant) {
        let Some(entry) = self.topics.remove(key) else { return };
        self.unclaim(&entry);
        self.touch_claimants(&entry, now);
        if entry.resource.has_finalizer {
            return;
        }
        if let Some(cluster) = self.cluster_of(&entry.resource)
            && !cluster.topics.settings.uses_finalizers
        {
            cluster.vanished.push(entry);
            cluster.schedule.touch(&key.1, now);
        }
    }

    fn touch(&mut self, entry: &Entry, name: &str, now: Instant) {
        if let Some(cluster) = self.cluster_of(&entry.resource) {
            cluster.schedule.touch(name, now);
        }
    }

    fn touch_claimants(&mut self, entry: &Entry, now: Instant) {
        let resource = &entry.resource;
        let namespace = &resource.namespace;
        let topic = (namespace.clone(), resource.claimed_topic().to_owned());
        let is_of_cluster = |name: &&String| {
            let one = self.topics.get(&(namespace.clone(), (*name).clone()));
            one.is_some_and(|one| one.resource.cluster == resource.cluster)
        };
        let claimants = self.claimants.get(&topic).into_iter().flatten();
        let others: Vec<_> = claimants.filter(is_of_cluster).cloned().collect();
        if let Some(cluster) = self.cluster_of(resource) {
            others.iter().for_each(|name| cluster.schedule.touch(name, now));
        }
    }

    fn unclaim(&mut self, entry: &Entry) {
        for claim in claims(&entry.resource) {
            if let Some(names) = self.claimants.get_mut(&claim) {
                names.remove(&entry.resource.name);
                if names.is_empty() {
                    self.claimants.remove(&claim);
                }
            }
        }
    }

    /// The cluster that a resource belongs to. One in the namespace of the resource comes before all others.
    fn cluster_of(&mut self, resource: &Resource) -> Option<&mut Cluster> {
        let names = self.names_of_cluster(&resource.namespace, resource.cluster.as_deref()?)?;
        self.clusters.get_mut(&names)
    }

    fn names_of_cluster(&self, namespace: &str, cluster: &str) -> Option<Names> {
        let here = Names::new(namespace, cluster);
        let manages = |of: &Cluster| of.topics.namespace == namespace;
        if self.clusters.get(&here).is_some_and(manages) {
            return Some(here);
        }
        let mut all = self.clusters.iter();
        let found = all.find(|(names, of)| names.cluster == cluster && manages(of));
        found.map(|(names, _)| names.clone())
    }

    fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let from = (namespace.to_owned(), String::new());
        let here = self.topics.range(from..).take_while(move |((of, _), _)| of == namespace);
        here.map(|(_, entry)| entry)
    }

    /// Whether all resources of a namespace are known.
    fn is_whole(&self, namespace: &str) -> bool {
        let whole = &self.topic_lists.whole;
        whole.contains(&None) || whole.contains(&Some(namespace.to_owned()))
    }

    /// When the next pass is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting().filter_map(|(_, cluster)| cluster.schedule.next()).min()
    }

    /// The clusters without a pass whose resources are known.
    fn waiting(&self) -> impl Iterator<Item = (&Names, &Cluster)> {
        let idle = self.clusters.iter().filter(|(names, _)| !self.running.contains(*names));
        idle.filter(|(_, of)| self.is_whole(&of.topics.namespace))
    }

    /// The passes that are due. They have begun.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(Names, Work)> {
        let is_due = |of: &Cluster| of.schedule.next().is_some_and(|next| next <= now);
        let due = self.waiting().filter(|(_, of)| is_due(of));
        let due: Vec<_> = due.map(|(names, _)| names.clone()).collect();
        due.into_iter()
            .filter_map(|names| Some((names.clone(), self.begin(&names, now)?)))
            .collect()
    }

    fn begin(&mut self, names: &Names, now: Instant) -> Option<Work> {
        let cluster = self.clusters.get_mut(names)?;
        let scope = cluster.schedule.begin(now)?;
        self.running.insert(names.clone());
        let vanished = std::mem::take(&mut cluster.vanished);
        let is_moving = cluster.is_moving;
        let task = match cluster.is_leaving {
            true => Task::Release,
            false => Task::Reconcile { settings: cluster.topics.settings.clone() },
        };
        let namespace = cluster.topics.namespace.clone();
        let all: Vec<_> = match self.names_of_cluster(&namespace, &names.cluster) {
            Some(owner) if owner == *names => self
                .in_namespace(&namespace)
                .filter(|one| one.resource.cluster.as_ref() == Some(&names.cluster))
                .cloned()
                .collect(),
            // Another cluster of the same name manages these resources.
            Some(_) | None => Vec::new(),
        };
        let ownership = Ownership::of(all.iter().map(|one| &one.resource));
        let is_all = scope == Scope::All;
        let entries = match scope {
            Scope::All => all.clone(),
            Scope::These(these) => {
                all.iter().filter(|one| these.contains(&one.resource.name)).cloned().collect()
            }
        };
        Some(Work { task, namespace, is_all, entries, vanished, ownership, all, is_moving })
    }

    /// A pass has ended.
    pub(super) fn ended(&mut self, names: &Names, done: Done, now: Instant) {
        self.running.remove(names);
        let Some(cluster) = self.clusters.get_mut(names) else { return };
        let is_through = matches!(&done.end, End::Through(retry) if retry.is_empty());
        let left = done.vanished.iter().map(|entry| entry.resource.name.clone());
        let left: BTreeSet<String> = left.collect();
        cluster.vanished.extend(done.vanished);
        let end = match done.end {
            End::Through(retry) => End::Through(&retry | &left),
            End::NotBegun => End::NotBegun,
        };
        let interval = Duration::from_millis(cluster.topics.settings.interval_ms);
        cluster.schedule.end(now, end, interval);
        cluster.is_moving = done.is_moving.unwrap_or(cluster.is_moving);
        if cluster.is_moving {
            cluster.schedule.touch_moves(now);
        }
        if cluster.is_gone && is_through {
            self.clusters.remove(names);
        }
    }

    /// Counts the resources by namespace.
    pub(super) fn count(&mut self, metrics: &Metrics) {
        let mut counts: BTreeMap<&str, (i64, i64)> =
            self.counted.iter().map(|namespace| (namespace.as_str(), (0, 0))).collect();
        for ((namespace, _), entry) in &self.topics {
            let (all, paused) = counts.entry(namespace).or_default();
            *all += 1;
            *paused += i64::from(entry.resource.is_paused);
        }
        for (namespace, (all, paused)) in &counts {
            metrics.set_resources("KafkaTopic", namespace, *all, *paused);
        }
        self.counted = counts.into_keys().map(str::to_owned).collect();
    }
}

/// The topics that a resource asks for and manages, with its namespace.
fn claims(resource: &Resource) -> BTreeSet<(String, String)> {
    let topics = [resource.topic(), resource.claimed_topic()];
    topics.map(|topic| (resource.namespace.clone(), topic.to_owned())).into()
}

/// A resource as the watch shows it. One that cannot be read has no spec, and so is left unchanged.
fn entry(mut object: DynamicObject) -> Entry {
    object.metadata.managed_fields = None;
    let has_spec = object.data.get("spec").is_some_and(Value::is_object);
    if !has_spec && let Some(fields) = object.data.as_object_mut() {
        fields.insert("spec".to_owned(), json!({}));
    }
    let metadata = object.metadata.clone();
    let read = serde_json::to_value(object).and_then(serde_json::from_value::<KafkaTopic>);
    let (topic, has_spec) = match read {
        Ok(topic) => (topic, has_spec),
        Err(error) => {
            let name = metadata.name.clone().unwrap_or_default();
            tracing::warn!("KafkaTopic {name} cannot be read: {error}");
            let mut topic = KafkaTopic::new(&name, api::KafkaTopicSpec::default());
            topic.metadata = metadata;
            (topic, false)
        }
    };
    Entry { resource: read::topic(&topic, has_spec), topic }
}

fn is_in(place: Option<&str>, namespace: &str) -> bool {
    place.is_none_or(|place| place == namespace)
}

fn names_of(object: &DynamicObject) -> Names {
    Names::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

fn key_of(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
