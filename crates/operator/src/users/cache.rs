//! What the watches have shown: the clusters that manage users, all resources, and facts of their Secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::Names;
use api::read::{self, Users};
use api::{Kafka, KafkaUser};
use control::users::Resource;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

use super::pass::{Done, Work};
use super::stored::{self, Found};
use crate::metrics::Metrics;
use crate::seen::Seen;
use crate::topics::schedule::{Schedule, Scope};

/// A resource, as it is stored and as decisions see it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) user: KafkaUser,
    pub(super) resource: Resource,
}

/// A `Kafka`, as far as it can be read.
#[derive(Debug)]
struct Cluster {
    kafka: Arc<Kafka>,
    users: Option<Users>,
}

/// All that the watches have shown.
#[derive(Debug)]
pub(super) struct Cache {
    kafkas: Seen<Option<Cluster>>,
    users: Seen<Entry>,
    secrets: Seen<Found>,
    /// The clusters that manage users.
    schedules: BTreeMap<Names, Schedule>,
    /// Clusters with a pass that runs, also if they do not manage users any more.
    running: BTreeSet<Names>,
    /// Namespaces whose resources were counted, so that one without any has a zero.
    counted: BTreeSet<String>,
    /// Whether a cluster may manage resources in another namespace.
    watches_other_namespaces: bool,
    /// Clusters that want to and may not.
    refused: BTreeSet<Names>,
}

type Watched = Result<Event<DynamicObject>, watcher::Error>;

impl Cache {
    /// Nothing is known yet.
    pub(super) fn new(watches_other_namespaces: bool) -> Self {
        Self {
            kafkas: Seen::new("Kafka"),
            users: Seen::new("KafkaUser"),
            secrets: Seen::new("Secret"),
            schedules: BTreeMap::new(),
            running: BTreeSet::new(),
            counted: BTreeSet::new(),
            watches_other_namespaces,
            refused: BTreeSet::new(),
        }
    }

    /// Takes an event of a `Kafka`.
    pub(super) fn kafka_event(&mut self, place: Option<&str>, event: Watched, now: Instant) {
        for change in self.kafkas.event(place, event, cluster) {
            let names = Names::new(&change.key.0, &change.key.1);
            let after = change.after.as_deref().map(Option::as_ref);
            let users = match after {
                // One that cannot be read is treated as before: the pass over the cluster says what is wrong.
                Some(None) => continue,
                Some(Some(cluster)) => cluster.users.as_ref(),
                None => None,
            };
            let Some(users) = users.filter(|users| self.may_manage(&names, users)) else {
                self.schedules.remove(&names);
                self.refused.retain(|refused| after.is_some() || *refused != names);
                continue;
            };
            let before = change.before.as_deref().and_then(Option::as_ref);
            let is_same = before.is_some_and(|before| before.users.as_ref() == Some(users));
            match self.schedules.get_mut(&names) {
                Some(_) if is_same => {}
                Some(schedule) => schedule.touch_all(now),
                None => drop(self.schedules.insert(names, Schedule::new(now))),
            }
        }
    }

    fn may_manage(&mut self, names: &Names, users: &Users) -> bool {
        if self.watches_other_namespaces || users.namespace == names.namespace {
            self.refused.remove(names);
            return true;
        }
        if self.refused.insert(names.clone()) {
            tracing::warn!(
                namespace = names.namespace,
                kafka = names.cluster,
                watched = users.namespace,
                "KafkaUsers in another namespace are not managed: start the operator with \
                 --watched-namespace-enabled=true to allow it"
            );
        }
        false
    }

    /// Takes an event of a `KafkaUser`.
    pub(super) fn user_event(&mut self, place: Option<&str>, event: Watched, now: Instant) {
        for change in self.users.event(place, event, entry) {
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            let is_same = match (before, after) {
                (Some(before), Some(after)) => !after.resource.differs_from(&before.resource),
                (None, _) | (_, None) => false,
            };
            if is_same {
                continue;
            }
            // It may have gone from one cluster to another.
            let clusters: BTreeSet<_> = [before, after]
                .into_iter()
                .flatten()
                .filter_map(|entry| entry.resource.cluster.clone())
                .collect();
            for cluster in clusters {
                self.touch(&change.key.0, &cluster, &change.key.1, now);
            }
        }
    }

    /// Takes an event of a Secret.
    pub(super) fn secret_event(&mut self, place: Option<&str>, event: Watched, now: Instant) {
        for change in self.secrets.event(place, event, stored::found) {
            let of = |found: &Option<Arc<Found>>| {
                found.as_ref().and_then(|found| found.stored.cluster.clone())
            };
            let facts =
                |found: &Option<Arc<Found>>| found.as_ref().map(|found| found.stored.clone());
            if facts(&change.before) == facts(&change.after) {
                continue;
            }
            let (namespace, secret) = change.key;
            let clusters: BTreeSet<_> =
                [of(&change.before), of(&change.after)].into_iter().flatten().collect();
            for cluster in clusters {
                let Some(names) = self.names_of_cluster(&namespace, &cluster) else { continue };
                let Some((_, users)) = self.managed(&names) else { continue };
                let prefix = users.settings.secret_prefix.clone();
                if let Some(user) = secret.strip_prefix(&prefix) {
                    self.touch(&namespace, &cluster, user, now);
                }
            }
        }
    }

    fn touch(&mut self, namespace: &str, cluster: &str, user: &str, now: Instant) {
        if let Some(names) = self.names_of_cluster(namespace, cluster)
            && let Some(schedule) = self.schedules.get_mut(&names)
        {
            schedule.touch(user, now);
        }
    }

    fn managed(&self, names: &Names) -> Option<(&Arc<Kafka>, &Users)> {
        let cluster = self.kafkas.get(&names.namespace, &names.cluster)?;
        let cluster = (**cluster).as_ref()?;
        Some((&cluster.kafka, cluster.users.as_ref()?))
    }

    /// The cluster of this name that manages the users of a namespace. One in the namespace itself comes before others.
    fn names_of_cluster(&self, namespace: &str, cluster: &str) -> Option<Names> {
        let here = Names::new(namespace, cluster);
        let manages = |names: &Names| {
            self.schedules.contains_key(names)
                && self.managed(names).is_some_and(|(_, users)| users.namespace == namespace)
        };
        if manages(&here) {
            return Some(here);
        }
        let mut all = self.schedules.keys();
        all.find(|names| names.cluster == cluster && manages(names)).cloned()
    }

    /// Whether all resources and Secrets of the users of a cluster are known.
    fn is_known(&self, names: &Names) -> bool {
        self.managed(names).is_some_and(|(_, users)| {
            self.users.is_whole(&users.namespace) && self.secrets.is_whole(&users.namespace)
        })
    }

    /// When the next pass is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting().filter_map(|(_, schedule)| schedule.next()).min()
    }

    /// The clusters without a pass whose resources are known.
    fn waiting(&self) -> impl Iterator<Item = (&Names, &Schedule)> {
        let idle = self.schedules.iter().filter(|(names, _)| !self.running.contains(*names));
        idle.filter(|(names, _)| self.is_known(names))
    }

    /// The passes that are due. They have begun.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(Names, Work)> {
        let is_due = |schedule: &Schedule| schedule.next().is_some_and(|next| next <= now);
        let due = self.waiting().filter(|(_, schedule)| is_due(schedule));
        let due: Vec<_> = due.map(|(names, _)| names.clone()).collect();
        let begun = due.into_iter();
        let begun: Vec<_> =
            begun.filter_map(|names| Some((names.clone(), self.begin(&names, now)?))).collect();
        self.running.extend(begun.iter().map(|(names, _)| names.clone()));
        begun
    }

    fn begin(&mut self, names: &Names, now: Instant) -> Option<Work> {
        let scope = self.schedules.get_mut(names)?.begin(now)?;
        let (kafka, users) = self.managed(names)?;
        let namespace = users.namespace.as_str();
        // Another cluster of the same name may manage these resources.
        let is_ours = self.names_of_cluster(namespace, &names.cluster).as_ref() == Some(names);
        let of_cluster =
            |entry: &Arc<Entry>| entry.resource.cluster.as_ref() == Some(&names.cluster);
        let all: Vec<_> = self
            .users
            .of_namespace(namespace)
            .map(|(_, entry)| entry.clone())
            .filter(|entry| is_ours && of_cluster(entry))
            .collect();
        let live = all.iter().filter(|one| !one.resource.is_deleting);
        let live = live.map(|one| one.resource.name.clone()).collect();
        let entries: Vec<_> = match &scope {
            Scope::All => all,
            Scope::These(these) => {
                all.into_iter().filter(|one| these.contains(&one.resource.name)).collect()
            }
        };
        let prefix = &users.settings.secret_prefix;
        let secret = |entry: &Arc<Entry>| {
            let name = &entry.resource.name;
            let found = self.secrets.get(namespace, &format!("{prefix}{name}"))?;
            Some((name.clone(), found.clone()))
        };
        Some(Work {
            secrets: entries.iter().filter_map(secret).collect(),
            kafka: kafka.clone(),
            users: users.clone(),
            is_ours,
            scope,
            live,
            entries,
        })
    }

    /// A pass has ended.
    pub(super) fn ended(&mut self, names: &Names, done: Done, now: Instant) {
        self.running.remove(names);
        let interval = self.managed(names).map(|(_, users)| users.settings.interval_ms);
        if let Some(schedule) = self.schedules.get_mut(names) {
            let interval = Duration::from_millis(interval.unwrap_or_default().max(1));
            schedule.end(now, done.end, interval);
        }
    }

    /// Counts the resources by namespace.
    pub(super) fn count(&mut self, metrics: &Metrics) {
        let mut counts: BTreeMap<&str, (i64, i64)> =
            self.counted.iter().map(|namespace| (namespace.as_str(), (0, 0))).collect();
        for ((namespace, _), entry) in self.users.all() {
            let (all, paused) = counts.entry(namespace).or_default();
            *all += 1;
            *paused += i64::from(entry.resource.is_paused);
        }
        for (namespace, (all, paused)) in &counts {
            metrics.set_resources("KafkaUser", namespace, *all, *paused);
        }
        self.counted = counts.into_keys().map(str::to_owned).collect();
    }
}

/// A cluster as the watch shows it. One that is being deleted manages no users: nothing of it is needed any more.
fn cluster(object: DynamicObject) -> Option<Cluster> {
    let is_leaving = object.metadata.deletion_timestamp.is_some();
    let kafka = serde_json::to_value(object).and_then(serde_json::from_value::<Kafka>).ok()?;
    let users = read::users(&kafka).filter(|_| !is_leaving);
    Some(Cluster { kafka: Arc::new(kafka), users })
}

/// A resource as the watch shows it. One that cannot be read has no spec, and so is left unchanged.
fn entry(mut object: DynamicObject) -> Entry {
    object.metadata.managed_fields = None;
    let has_spec = object.data.get("spec").is_some_and(Value::is_object);
    if !has_spec && let Some(fields) = object.data.as_object_mut() {
        fields.insert("spec".to_owned(), json!({}));
    }
    let metadata = object.metadata.clone();
    let read = serde_json::to_value(object).and_then(serde_json::from_value::<KafkaUser>);
    let (user, has_spec) = match read {
        Ok(user) => (user, has_spec),
        Err(error) => {
            let name = metadata.name.clone().unwrap_or_default();
            tracing::warn!(name, "a KafkaUser cannot be read: {error}");
            let mut user = KafkaUser::new(&name, api::KafkaUserSpec::default());
            user.metadata = metadata;
            (user, false)
        }
    };
    Entry { resource: read::user(&user, has_spec), user }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
