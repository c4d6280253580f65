//! The objects of clusters as watches have shown them, so that a pass that has nothing to write reads nothing.
//!
//! 1. Nothing is written because of them: a pass over cached objects finds nothing to write, or is made again over objects
//!    that are read from the API server ([`super::pass::look`]). So what may harm rests on facts that were just read, and an
//!    object that is older here than our own last write of it costs a read, and nothing else.
//! 2. A kind whose watch has not listed all objects, or was interrupted, is unknown until it has listed them again. No
//!    object of it counts as absent.
//! 3. An event is entered here before the pass that it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::names::{CLUSTER_LABEL, KIND_LABEL, Names};
use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::found::What;
use crate::rebalance::store;
use crate::seen::{Change, Seen};
use crate::users;
use crate::words::chain;

/// The pause after a watch was interrupted, and the longest one while it fails again: all watches fail when the API server
/// restarts, and clusters wait until it is back.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The cached objects of all clusters. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    kinds: Arc<Mutex<BTreeMap<What, OfKind>>>,
}

/// The objects of one kind.
#[derive(Debug)]
struct OfKind {
    seen: Seen<Packed>,
    /// Their names, by the cluster that they belong to.
    names: BTreeMap<Names, BTreeSet<String>>,
}

/// An object as JSON: typed, it would take several times as much memory.
struct Packed {
    /// The cluster that it belongs to.
    cluster: Option<Names>,
    /// Whether a change of it begins a pass.
    begins_pass: bool,
    json: Box<[u8]>,
}

/// Without what the object holds: it may be a Secret.
impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl Cache {
    /// Follows the objects of a kind in a scope, forever. `begin` is called with each cluster for which it is time for a pass.
    pub(super) async fn follow(
        self,
        (what, scope): (What, Option<String>),
        (api, config): (Api<DynamicObject>, watcher::Config),
        begin: impl Fn(Names),
    ) {
        let mut pause = PAUSE_MIN;
        loop {
            let mut events = pin!(watcher(api.clone(), config.clone()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        pause = PAUSE_MIN;
                        self.event(what, scope.as_deref(), event).into_iter().for_each(&begin);
                    }
                    Err(error) => {
                        tracing::warn!("a watch was interrupted and restarts: {}", chain(&error));
                        break;
                    }
                }
            }
            // What has happened since is unknown, and a watch that goes on would not tell when it has caught up.
            self.interrupted(what, scope.as_deref());
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Enters an event of a watch. Returns the clusters for which it is time for a pass.
    fn event(&self, what: What, scope: Option<&str>, event: Event<DynamicObject>) -> Vec<Names> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(what).or_insert_with(OfKind::new);
        if matches!(event, Event::Init) {
            kind.seen.doubt(scope);
        }
        let changes = kind.seen.event(scope, Ok(event), Packed::of);
        changes.into_iter().filter_map(|change| kind.enter(change)).collect()
    }

    fn interrupted(&self, what: What, scope: Option<&str>) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = kinds.get_mut(&what) {
            kind.seen.doubt(scope);
        }
    }

    /// The objects of a kind that belong to a cluster, or all of its namespace where the kind says so. `None` if they are
    /// unknown, or one of them cannot be parsed.
    pub(super) fn list<K: DeserializeOwned>(&self, names: &Names, what: What) -> Option<Vec<K>> {
        let packed = self.packed(names, what)?;
        packed.iter().map(|one| serde_json::from_slice(&one.json).ok()).collect()
    }

    fn packed(&self, names: &Names, what: What) -> Option<Vec<Arc<Packed>>> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.get(&what).filter(|kind| kind.seen.is_whole(&names.namespace))?;
        if what == What::Rebalances {
            let all = kind.seen.of_namespace(&names.namespace);
            return Some(all.map(|(_, one)| one.clone()).collect());
        }
        let of_cluster = kind.names.get(names).into_iter().flatten();
        Some(of_cluster.filter_map(|name| kind.seen.get(&names.namespace, name).cloned()).collect())
    }
}

impl OfKind {
    fn new() -> Self {
        Self { seen: Seen::new("cluster"), names: BTreeMap::new() }
    }

    /// Keeps to which cluster an object belongs. Returns the cluster for which it is time for a pass.
    fn enter(&mut self, change: Change<Packed>) -> Option<Names> {
        let Change { key: (_, name), before, after } = change;
        let cluster = |one: &Option<Arc<Packed>>| one.as_ref()?.cluster.clone();
        let (was, is) = (cluster(&before), cluster(&after));
        if was != is {
            if let Some(was) = was
                && let Some(of) = self.names.get_mut(&was)
            {
                of.remove(&name);
                if of.is_empty() {
                    self.names.remove(&was);
                }
            }
            if let Some(is) = is {
                self.names.entry(is).or_default().insert(name);
            }
        }
        if let (Some(before), Some(after)) = (&before, &after)
            && before.json == after.json
        {
            return None;
        }
        let now = after.or(before).filter(|one| one.begins_pass)?;
        now.cluster.clone()
    }
}

impl Packed {
    fn of(mut object: DynamicObject) -> Self {
        object.metadata.managed_fields = None;
        let cluster = object.labels().get(CLUSTER_LABEL);
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let cluster = cluster.map(|cluster| Names::new(namespace, cluster));
        let begins_pass = cluster.as_ref().is_some_and(|names| begins_pass(&object, names));
        // An object that was parsed can be written; one that is empty here cannot be parsed, and is unknown.
        let json = serde_json::to_vec(&object).unwrap_or_default().into_boxed_slice();
        Self { cluster, begins_pass, json }
    }
}

/// Whether a change of this object begins a pass over its cluster.
fn begins_pass(object: &DynamicObject, names: &Names) -> bool {
    // What a pass remembers is no reason for another one, and what is remembered of a rebalance neither: the resource
    // itself tells when it gets on.
    let is_record = object.metadata.name == Some(names.record());
    let is_kept = object.labels().get(KIND_LABEL).is_some_and(|kind| kind == store::KIND);
    // Users that are resources have passes of their own.
    let is_of_user = object.owner_references().iter().any(|owner| owner.kind == users::KIND);
    !(is_record || is_kept || is_of_user)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
