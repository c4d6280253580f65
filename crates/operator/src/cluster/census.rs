//! How many clusters there are, and how they are, as the watch knows them.

use std::collections::BTreeMap;

use api::Kafka;
use api::names::Names;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector::{ObjectRef, Store};

use crate::context::PAUSE;
use crate::metrics::Metrics;

/// The states of a cluster, each of which has a number in every namespace.
const STATES: [&str; 4] = ["ready", "not ready", "paused", "new"];

/// Counts the clusters of one watch.
pub(super) struct Census {
    metrics: Metrics,
    /// The namespace of the watch; `None` if it is of all.
    place: Option<String>,
    store: Store<DynamicObject>,
    /// By namespace, also those that have none left; in the order of [`STATES`].
    counts: BTreeMap<String, [i64; STATES.len()]>,
}

impl Census {
    pub(super) fn new(metrics: Metrics, place: Option<&str>, store: Store<DynamicObject>) -> Self {
        Self { metrics, place: place.map(str::to_owned), store, counts: BTreeMap::new() }
    }

    /// Counts anew.
    pub(super) fn take(&mut self) {
        let exists = |names: &Names| {
            let resource = ApiResource::erase::<Kafka>(&());
            let key = ObjectRef::new_with(&names.cluster, resource).within(&names.namespace);
            self.store.get(&key).is_some()
        };
        self.metrics.retain_clusters(self.place.as_deref(), exists);
        self.counts.values_mut().for_each(|counts| *counts = Default::default());
        for object in self.store.state() {
            let counts = self.counts.entry(object.namespace().unwrap_or_default()).or_default();
            counts[state(&object)] += 1;
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

/// Which of [`STATES`] a cluster is in.
fn state(object: &DynamicObject) -> usize {
    if object.annotations().get(PAUSE).is_some_and(|value| value == "true") {
        return 2;
    }
    let conditions = object.data["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    match ready {
        Some(ready) if ready["status"] == "True" => 0,
        Some(_) => 1,
        None if conditions.is_some() => 1,
        None => 3,
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector::store;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, ready: Option<&str>) -> DynamicObject {
        let resource = ApiResource::erase::<api::Kafka>(&());
        let mut object = DynamicObject::new(name, &resource).within("demo");
        if let Some(status) = ready {
            let condition = json!({ "type": "Ready", "status": status });
            object.data = json!({ "status": { "conditions": [condition] } });
        }
        object
    }

    #[test]
    fn clusters_are_counted_by_state_and_a_namespace_without_any_has_none() {
        let mut writer = store::Writer::new(ApiResource::erase::<api::Kafka>(&()));
        let mut paused = cluster("d", Some("True"));
        paused.annotations_mut().insert(PAUSE.to_owned(), "true".to_owned());
        let all = [cluster("a", Some("True")), cluster("b", Some("False")), cluster("c", None)];
        for object in all.into_iter().chain([paused]) {
            writer.apply_watcher_event(&Event::Apply(object));
        }
        let metrics = Metrics::new();
        let mut census = Census::new(metrics.clone(), None, writer.as_reader());
        census.take();
        let text = metrics.encode();
        for state in STATES {
            let line = format!(r#"gregor_clusters{{namespace="demo",state="{state}"}} 1"#);
            assert!(text.contains(&line), "{line} is not in:\n{text}");
        }
        assert!(text.contains(r#"strimzi_resources{kind="Kafka",namespace="demo"} 4"#), "{text}");
        for name in ["a", "b", "c", "d"] {
            writer.apply_watcher_event(&Event::Delete(cluster(name, None)));
        }
        census.take();
        let text = metrics.encode();
        assert!(text.contains(r#"strimzi_resources{kind="Kafka",namespace="demo"} 0"#), "{text}");
    }
}
