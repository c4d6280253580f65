//! Events of watches, and what the cache knows after them.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::*;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A pod of a cluster in this version.
fn pod(cluster: &str, name: &str, version: u64) -> DynamicObject {
    object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "n", "name": name, "resourceVersion": version.to_string(),
            "labels": { CLUSTER_LABEL: cluster }, "managedFields": [{ "manager": "kubelet" }],
        },
        "spec": { "containers": [{ "name": "kafka" }] },
    }))
}

fn names(cluster: &str) -> Names {
    Names::new("n", cluster)
}

/// The names of the cached pods of a cluster; `None` if they are unknown.
fn pods(cache: &Cache, cluster: &str) -> Option<Vec<String>> {
    let pods: Vec<Pod> = cache.list(&names(cluster), What::Pods)?;
    assert!(pods.iter().all(|pod| pod.metadata.managed_fields.is_none()));
    Some(pods.iter().map(kube::ResourceExt::name_any).collect())
}

fn enter(cache: &Cache, events: impl IntoIterator<Item = Event<DynamicObject>>) -> Vec<Names> {
    events.into_iter().flat_map(|event| cache.event(What::Pods, None, event)).collect()
}

fn listed(cache: &Cache, all: impl IntoIterator<Item = DynamicObject>) -> Vec<Names> {
    let all = all.into_iter().map(Event::InitApply);
    enter(cache, [Event::Init].into_iter().chain(all).chain([Event::InitDone]))
}

#[test]
fn objects_are_unknown_until_all_were_listed_and_after_an_interruption() {
    let cache = Cache::default();
    assert_eq!(pods(&cache, "c"), None);
    enter(&cache, [Event::Init, Event::InitApply(pod("c", "a", 2))]);
    assert_eq!(pods(&cache, "c"), None);
    enter(&cache, [Event::InitDone]);
    assert_eq!(pods(&cache, "c").unwrap(), ["a"]);
    assert_eq!(pods(&cache, "d").unwrap(), Vec::<String>::new());
    // Other kinds are not known because of that.
    assert!(cache.list::<ConfigMap>(&names("c"), What::ConfigMaps).is_none());
    cache.interrupted(What::Pods, None);
    assert_eq!(pods(&cache, "c"), None);
    // An event of the watch that goes on does not tell what was missed.
    enter(&cache, [Event::Apply(pod("c", "b", 3))]);
    assert_eq!(pods(&cache, "c"), None);
    // A pod that has gone meanwhile begins a pass, and one that is the same does not.
    assert_eq!(listed(&cache, [pod("c", "b", 3)]), [names("c")]);
    assert_eq!(pods(&cache, "c").unwrap(), ["b"]);
    assert!(listed(&cache, [pod("c", "b", 3)]).is_empty());
    enter(&cache, [Event::Init]);
    assert_eq!(pods(&cache, "c"), None);
}

#[test]
fn a_namespace_that_is_watched_by_itself_says_nothing_of_others() {
    let cache = Cache::default();
    for event in [Event::Init, Event::InitDone] {
        cache.event(What::Pods, Some("n"), event);
    }
    assert_eq!(pods(&cache, "c").unwrap(), Vec::<String>::new());
    assert!(cache.list::<Pod>(&Names::new("m", "c"), What::Pods).is_none());
}

#[test]
fn every_change_of_an_object_of_a_cluster_begins_a_pass() {
    let cache = Cache::default();
    listed(&cache, []);
    assert_eq!(enter(&cache, [Event::Apply(pod("c", "a", 2))]), [names("c")]);
    assert_eq!(enter(&cache, [Event::Apply(pod("c", "a", 3))]), [names("c")]);
    assert_eq!(enter(&cache, [Event::Apply(pod("d", "a", 4))]), [names("d")]);
    assert_eq!((pods(&cache, "c").unwrap().len(), pods(&cache, "d").unwrap().len()), (0, 1));
    assert_eq!(enter(&cache, [Event::Delete(pod("d", "a", 5))]), [names("d")]);
    assert_eq!(pods(&cache, "d").unwrap(), Vec::<String>::new());
}

#[test]
fn what_the_operator_records_begins_no_pass() {
    let check = |metadata: Value, expected: bool| {
        let found = Packed::of(object(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        })));
        assert_eq!(found.begins_pass, expected, "{metadata}");
    };
    let labels = json!({ CLUSTER_LABEL: "c" });
    check(json!({ "name": "a", "namespace": "n", "labels": labels }), true);
    check(json!({ "name": "a", "namespace": "n" }), false);
    check(json!({ "name": names("c").record(), "namespace": "n", "labels": labels }), false);
    let kept = json!({ CLUSTER_LABEL: "c", KIND_LABEL: store::KIND });
    check(json!({ "name": "a", "namespace": "n", "labels": kept }), false);
    let owners = json!([{ "apiVersion": "v1", "kind": users::KIND, "name": "u", "uid": "1" }]);
    let of_user =
        json!({ "name": "a", "namespace": "n", "labels": labels, "ownerReferences": owners });
    check(of_user, false);
}

#[test]
fn a_kind_that_is_read_by_namespace_has_all_objects_of_it() {
    let cache = Cache::default();
    let resource = ApiResource::erase::<api::KafkaRebalance>(&());
    let template = DynamicObject::new("template", &resource).within("n");
    let other = DynamicObject::new("other", &resource).within("m");
    let events =
        [Event::Init, Event::InitApply(template), Event::InitApply(other), Event::InitDone];
    let begun = events.into_iter().flat_map(|event| cache.event(What::Rebalances, None, event));
    assert_eq!(begun.count(), 0);
    let found: Vec<DynamicObject> = cache.list(&names("c"), What::Rebalances).unwrap();
    assert_eq!(found.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), ["template"]);
}
