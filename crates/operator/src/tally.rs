//! Counts the resources of one kind, as their watch knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use kube::Resource;
use kube::runtime::reflector::{Lookup, Store};

use crate::context::PAUSE;
use crate::metrics::Metrics;

/// Counts the resources of one watch.
pub(crate) struct Tally<K>
where
    K: Lookup + 'static,
    K::DynamicType: Hash + Eq,
{
    kind: &'static str,
    metrics: Metrics,
    store: Store<K>,
    /// All and paused ones by namespace, also of those that have none left.
    counts: BTreeMap<String, (i64, i64)>,
}

impl<K> Tally<K>
where
    K: Resource + Clone + 'static,
    <K as Lookup>::DynamicType: Hash + Eq + Clone,
{
    pub(crate) fn new(kind: &'static str, metrics: &Metrics, store: Store<K>) -> Self {
        Self { kind, metrics: metrics.clone(), store, counts: BTreeMap::new() }
    }

    /// Counts anew. Returns the namespaces and names of those that exist.
    pub(crate) fn take(&mut self) -> BTreeSet<(String, String)> {
        self.counts.values_mut().for_each(|counts| *counts = (0, 0));
        let mut found = BTreeSet::new();
        for object in self.store.state() {
            let meta = object.meta();
            let namespace = meta.namespace.clone().unwrap_or_default();
            let annotations = meta.annotations.as_ref();
            let pause = annotations.and_then(|annotations| annotations.get(PAUSE));
            let (all, paused) = self.counts.entry(namespace.clone()).or_default();
            *all += 1;
            *paused += i64::from(pause.is_some_and(|value| value == "true"));
            found.insert((namespace, meta.name.clone().unwrap_or_default()));
        }
        for (namespace, (all, paused)) in &self.counts {
            self.metrics.set_resources(self.kind, namespace, *all, *paused);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;
    use kube::runtime::reflector::store;
    use kube::runtime::watcher::Event;

    use super::*;

    fn object(name: &str, is_paused: bool) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.namespace = Some("demo".to_owned());
        if is_paused {
            object.annotations_mut().insert(PAUSE.to_owned(), "true".to_owned());
        }
        object
    }

    #[test]
    fn resources_are_counted_and_a_namespace_without_any_has_none() {
        let mut writer = store::Writer::<ConfigMap>::default();
        let metrics = Metrics::new();
        let mut tally = Tally::new("Thing", &metrics, writer.as_reader());
        for one in [object("a", false), object("b", true)] {
            writer.apply_watcher_event(&Event::Apply(one));
        }
        let found: Vec<_> = tally.take().into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["a", "b"]);
        let has = |line: &str| {
            let text = metrics.encode();
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        };
        has(r#"strimzi_resources{kind="Thing",namespace="demo"} 2"#);
        has(r#"strimzi_resources_paused{kind="Thing",namespace="demo"} 1"#);
        for one in [object("a", false), object("b", true)] {
            writer.apply_watcher_event(&Event::Delete(one));
        }
        assert!(tally.take().is_empty());
        has(r#"strimzi_resources{kind="Thing",namespace="demo"} 0"#);
    }
}
