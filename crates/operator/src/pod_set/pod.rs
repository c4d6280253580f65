//! A pod as a set lists it, and what is known of one that exists.

use std::collections::BTreeMap;

use api::{StrimziPodSet, Verbatim};
use control::annotations::Annotation;
use control::pod_set::{Listed, Owner, PodFacts, Snapshot};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The annotation that tells two definitions of a pod apart.
pub(super) const REVISION: &str = Annotation::Revision.name();

/// A pod with all that was written in its definition, also what our version of the API does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WholePod {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl Resource for WholePod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The pod that a definition describes, controlled by its set.
pub(super) fn build(definition: &Verbatim, set: &StrimziPodSet) -> serde_json::Result<WholePod> {
    let mut pod: WholePod = serde_json::from_value(serde_json::to_value(definition)?)?;
    pod.rest.insert("apiVersion".to_owned(), "v1".into());
    pod.rest.insert("kind".to_owned(), "Pod".into());
    pod.rest.remove("status");
    pod.metadata.namespace.clone_from(&set.metadata.namespace);
    pod.metadata.resource_version = None;
    pod.metadata.uid = None;
    pod.metadata.owner_references = set.controller_owner_ref(&()).map(|owner| vec![owner]);
    Ok(pod)
}

/// The owners of a pod after its set has taken control of it.
pub(super) fn owners_with(pod: &Pod, set: &StrimziPodSet) -> Vec<OwnerReference> {
    let mut owners = pod.metadata.owner_references.clone().unwrap_or_default();
    // One that owned it without controlling it.
    owners.retain(|owner| Some(&owner.uid) != set.metadata.uid.as_ref());
    owners.extend(set.controller_owner_ref(&()));
    owners
}

/// The pods that a set lists. One without a name cannot be one.
pub(super) fn listed(set: &StrimziPodSet) -> BTreeMap<String, &Verbatim> {
    let name = |pod: &Verbatim| Some(pod.0.get("metadata")?.get("name")?.as_str()?.to_owned());
    set.spec.pods.iter().filter_map(|pod| Some((name(pod)?, pod))).collect()
}

/// What to decide by. `pods` are all that there are.
pub(super) fn snapshot<'a>(
    set: &StrimziPodSet,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Snapshot {
    Snapshot {
        is_ending: set.metadata.deletion_timestamp.is_some(),
        listed: listed_facts(set),
        pods: pods.into_iter().map(|pod| facts(pod, set)).collect(),
    }
}

/// What to decide by: what is listed.
fn listed_facts(set: &StrimziPodSet) -> Vec<Listed> {
    let revision = |pod: &Verbatim| {
        let annotations = pod.0.get("metadata")?.get("annotations")?;
        annotations.get(REVISION)?.as_str().map(str::to_owned)
    };
    listed(set).into_iter().map(|(name, pod)| Listed { name, revision: revision(pod) }).collect()
}

/// What to decide by: a pod that exists.
fn facts(pod: &Pod, set: &StrimziPodSet) -> PodFacts {
    let owners = pod.metadata.owner_references.iter().flatten();
    let owner = match owners.into_iter().find(|owner| owner.controller == Some(true)) {
        None => Owner::Unowned,
        Some(owner) if Some(&owner.uid) == set.metadata.uid.as_ref() => Owner::ThisSet,
        Some(_) => Owner::Other,
    };
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let annotations = pod.metadata.annotations.as_ref();
    PodFacts {
        name: pod.metadata.name.clone().unwrap_or_default(),
        owner,
        has_labels: has_labels(pod, set),
        is_ending: pod.metadata.deletion_timestamp.is_some(),
        is_over: matches!(phase, Some("Failed" | "Succeeded")),
        is_ready,
        revision: annotations.and_then(|annotations| annotations.get(REVISION)).cloned(),
    }
}

/// A selector that names no label selects nothing: it would be a mistake with grave consequences.
pub(super) fn selector(set: &StrimziPodSet) -> Option<&BTreeMap<String, String>> {
    set.spec.selector.match_labels.as_ref().filter(|labels| !labels.is_empty())
}

fn has_labels(pod: &Pod, set: &StrimziPodSet) -> bool {
    let labels = pod.metadata.labels.as_ref();
    selector(set).is_some_and(|wanted| {
        wanted.iter().all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
    })
}

/// Leaves of a pod only what [`facts`] looks at: the operator remembers thousands of them.
pub(super) fn forget_the_rest(pod: &mut Pod) {
    pod.spec = None;
    pod.metadata.managed_fields = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|name, _| name == REVISION);
    }
    if let Some(status) = pod.status.take() {
        let mut conditions = status.conditions.unwrap_or_default();
        conditions.retain(|condition| condition.type_ == "Ready");
        pod.status = Some(k8s_openapi::api::core::v1::PodStatus {
            phase: status.phase,
            conditions: Some(conditions),
            ..Default::default()
        });
    }
}

/// Leaves of the definitions only what [`listed_facts`] looks at. They are the greatest part of a set, and are
/// read again before a pod is made.
pub(super) fn forget_definitions(set: &mut StrimziPodSet) {
    set.metadata.managed_fields = None;
    for pod in &mut set.spec.pods {
        let metadata = pod.0.remove("metadata").unwrap_or_default();
        let annotations = json!({ REVISION: metadata["annotations"][REVISION] });
        let metadata = json!({ "name": metadata["name"], "annotations": annotations });
        pod.0 = BTreeMap::from([("metadata".to_owned(), metadata)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> StrimziPodSet {
        serde_json::from_value(json!({
            "apiVersion": "core.strimzi.io/v1",
            "kind": "StrimziPodSet",
            "metadata": { "name": "set", "namespace": "demo", "uid": "set-uid" },
            "spec": {
                "selector": { "matchLabels": { "a": "b" } },
                "pods": [{
                    "metadata": { "name": "pod-0", "annotations": { REVISION: "7" } },
                    "spec": { "containers": [], "fieldOfTheFuture": { "x": 1 } },
                }, { "metadata": {} }],
            },
        }))
        .unwrap()
    }

    fn pod(change: Value) -> Pod {
        let mut object = json!({
            "metadata": { "name": "pod-0", "labels": { "a": "b", "c": "d" } },
            "status": { "phase": "Running" },
        });
        for (path, value) in change.as_object().unwrap() {
            object.as_object_mut().unwrap().insert(path.clone(), value.clone());
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pod_is_made_whole_and_controlled_by_its_set() {
        let set = set();
        let pod = build(listed(&set)["pod-0"], &set).unwrap();
        let sent = serde_json::to_value(&pod).unwrap();
        assert_eq!(sent["spec"]["fieldOfTheFuture"]["x"], 1);
        assert_eq!(sent["kind"], "Pod");
        assert_eq!(sent["metadata"]["namespace"], "demo");
        let owner = &sent["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["uid"], &owner["controller"]), (&json!("set-uid"), &json!(true)));
    }

    #[test]
    fn what_a_set_lists_without_a_name_is_not_there() {
        let facts = listed_facts(&set());
        assert_eq!(facts, [Listed { name: "pod-0".to_owned(), revision: Some("7".to_owned()) }]);
    }

    #[test]
    fn what_is_being_deleted_is_ending() {
        let at = "2026-01-01T00:00:00Z";
        let metadata = json!({ "name": "pod-0", "deletionTimestamp": at });
        let (stays, ends) = (pod(json!({})), pod(json!({ "metadata": metadata })));
        let found = snapshot(&set(), [&stays, &ends]);
        assert!(!found.is_ending);
        assert_eq!(found.pods.iter().map(|pod| pod.is_ending).collect::<Vec<_>>(), [false, true]);
        let mut set = set();
        set.metadata.deletion_timestamp.clone_from(&ends.metadata.deletion_timestamp);
        let found = snapshot(&set, [&stays]);
        assert_eq!((found.is_ending, found.pods[0].is_ending), (true, false));
    }

    #[test]
    fn what_is_forgotten_of_a_set_is_not_what_is_decided_by() {
        let mut forgetful = set();
        forget_definitions(&mut forgetful);
        assert_eq!(listed_facts(&forgetful), listed_facts(&set()));
        assert!(!serde_json::to_string(&forgetful).unwrap().contains("fieldOfTheFuture"));
    }

    #[test]
    fn a_pod_is_read_as_it_is_also_after_the_rest_was_forgotten() {
        let owner = |uid: &str, controller: bool| {
            json!({ "name": "pod-0", "labels": { "a": "b" }, "ownerReferences": [{
                "apiVersion": "x/v1", "kind": "X", "name": "x", "uid": uid, "controller": controller,
            }] })
        };
        let check = |change: Value, expected: &dyn Fn(&PodFacts) -> bool| {
            let mut pod = pod(change);
            assert!(expected(&facts(&pod, &set())), "{pod:?}");
            forget_the_rest(&mut pod);
            assert!(expected(&facts(&pod, &set())), "{pod:?}");
        };
        check(json!({}), &|pod| pod.owner == Owner::Unowned && pod.has_labels && !pod.is_over);
        check(json!({ "metadata": owner("set-uid", true) }), &|pod| pod.owner == Owner::ThisSet);
        check(json!({ "metadata": owner("set-uid", false) }), &|pod| pod.owner == Owner::Unowned);
        check(json!({ "metadata": owner("other", true) }), &|pod| pod.owner == Owner::Other);
        check(json!({ "metadata": { "name": "x", "labels": { "a": "c" } } }), &|pod| {
            !pod.has_labels
        });
        check(json!({ "status": { "phase": "Failed" } }), &|pod| pod.is_over);
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        check(json!({ "status": { "conditions": ready } }), &|pod| pod.is_ready);
        let annotations = json!({ REVISION: "9" });
        let metadata = json!({ "name": "x", "annotations": annotations });
        check(json!({ "metadata": metadata }), &|pod| pod.revision.as_deref() == Some("9"));
    }

    #[test]
    fn taking_control_keeps_the_other_owners() {
        let reference = |uid: &str| json!({ "apiVersion": "x/v1", "kind": "X", "name": "x", "uid": uid, "controller": false });
        let metadata =
            json!({ "name": "x", "ownerReferences": [reference("1"), reference("set-uid")] });
        let owners = owners_with(&pod(json!({ "metadata": metadata })), &set());
        let owners: Vec<_> =
            owners.iter().map(|owner| (owner.uid.as_str(), owner.controller)).collect();
        assert_eq!(owners, [("1", Some(false)), ("set-uid", Some(true))]);
    }

    #[test]
    fn a_set_without_labels_has_no_extra_pods() {
        let mut set = set();
        set.spec.selector.match_labels = Some(BTreeMap::new());
        assert!(!facts(&pod(json!({})), &set).has_labels);
    }
}
