//! How many clusters there are, and how they are.
//!
//! Which clusters there are the watch knows; how one is, its last pass has decided.

use std::collections::BTreeMap;

use api::Kafka;
use api::names::Names;
use control::conditions::Kind;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector::{ObjectRef, Store};

use crate::metrics::Metrics;
use crate::per_cluster::PerCluster;

/// The states of a cluster, each of which has a number in every namespace.
const STATES: [&str; 4] = ["ready", "not ready", "paused", "new"];

/// How clusters are, as their last passes of this process have decided.
pub(crate) type Standings = PerCluster<Kind>;

/// Counts the clusters of one watch.
pub(super) struct Census {
    metrics: Metrics,
    /// The namespace of the watch; `None` if it is of all.
    scope: Option<String>,
    store: Store<DynamicObject>,
    standings: Standings,
    /// By namespace, also those that have none left; in the order of [`STATES`].
    counts: BTreeMap<String, [i64; STATES.len()]>,
}

impl Census {
    pub(super) fn new(
        metrics: Metrics,
        scope: Option<&str>,
        store: Store<DynamicObject>,
        standings: Standings,
    ) -> Self {
        let scope = scope.map(str::to_owned);
        Self { metrics, scope, store, standings, counts: BTreeMap::new() }
    }

    /// Counts anew.
    pub(super) fn take(&mut self) {
        let exists = |names: &Names| {
            let resource = ApiResource::erase::<Kafka>(&());
            let key = ObjectRef::new_with(&names.cluster, resource).within(&names.namespace);
            self.store.get(&key).is_some()
        };
        self.metrics.retain_clusters(self.scope.as_deref(), exists);
        self.counts.values_mut().for_each(|counts| *counts = Default::default());
        for object in self.store.state() {
            let namespace = object.namespace().unwrap_or_default();
            let kind = self.standings.get(&Names::new(&namespace, &object.name_any()));
            self.counts.entry(namespace).or_default()[state(kind)] += 1;
        }
        for (namespace, counts) in &self.counts {
            let [.., paused, _] = counts;
            self.metrics.set_resources("Kafka", namespace, counts.iter().sum(), *paused);
            for (state, count) in STATES.into_iter().zip(counts) {
                self.metrics.set_clusters(namespace, state, *count);
            }
        }
    }
}

/// Which of [`STATES`] a cluster is in; without a pass it is new.
const fn state(kind: Option<Kind>) -> usize {
    match kind {
        Some(Kind::Ready) => 0,
        Some(Kind::NotReady | Kind::Progressing | Kind::Warning) => 1,
        Some(Kind::ReconciliationPaused) => 2,
        None => 3,
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector::store;
    use kube::runtime::watcher::Event;

    use super::*;

    #[test]
    fn clusters_are_counted_by_state_and_a_namespace_without_any_has_none() {
        let resource = ApiResource::erase::<api::Kafka>(&());
        let cluster = |name: &str| DynamicObject::new(name, &resource).within("demo");
        let mut writer = store::Writer::new(resource.clone());
        let standings = Standings::default();
        let all = [
            ("a", Some(Kind::Ready)),
            ("b", Some(Kind::NotReady)),
            ("c", None),
            ("d", Some(Kind::ReconciliationPaused)),
        ];
        for (name, kind) in all {
            writer.apply_watcher_event(&Event::Apply(cluster(name)));
            // The last pass counts.
            standings.set(&Names::new("demo", name), Kind::NotReady);
            match kind {
                Some(kind) => drop(standings.set(&Names::new("demo", name), kind)),
                None => standings.forget(&Names::new("demo", name)),
            }
        }
        // One of another namespace, and one that the watch does not know.
        standings.set(&Names::new("other", "c"), Kind::Ready);
        standings.set(&Names::new("demo", "e"), Kind::Ready);
        let metrics = Metrics::new();
        let mut census = Census::new(metrics.clone(), None, writer.as_reader(), standings);
        census.take();
        let text = metrics.encode();
        for state in STATES {
            let line = format!(r#"gregor_clusters{{namespace="demo",state="{state}"}} 1"#);
            assert!(text.contains(&line), "{line} is not in:\n{text}");
        }
        assert!(text.contains(r#"strimzi_resources{kind="Kafka",namespace="demo"} 4"#), "{text}");
        for (name, _) in all {
            writer.apply_watcher_event(&Event::Delete(cluster(name)));
        }
        census.take();
        let text = metrics.encode();
        assert!(text.contains(r#"strimzi_resources{kind="Kafka",namespace="demo"} 0"#), "{text}");
    }
}
