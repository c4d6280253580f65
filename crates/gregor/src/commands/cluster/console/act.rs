//! What users of the console change: the resources of a cluster, and the commands to its rebalances.
//!
//! 1. Everything is written with the identity of the user. A refusal of Kubernetes is shown with its own message.
//! 2. A resource whose spec has changed since it was read for the editor is not overwritten.
//! 3. All documents are tried before the first one is written.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::names::CLUSTER_LABEL;
use api::{Kafka, KafkaNodePool, KafkaRebalance};
use console::page::Rights;
use console::source::{ClusterId, Edit, Reason, Refusal, Resources};
use control::annotations::Annotation;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::super::plan::file;
use super::rebalance::{commands, state};
use crate::commands::crds;

/// What kubectl keeps for itself.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A refusal that is no answer of Kubernetes.
pub(super) fn refusal(reason: Reason, message: impl Into<String>) -> Refusal {
    Refusal { reason, message: message.into() }
}

/// An error as a refusal: with the reason that Kubernetes has given, if it did.
pub(super) fn refused(error: &anyhow::Error) -> Refusal {
    let status = error.chain().find_map(|cause| match cause.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        Some(_) | None => None,
    });
    let reason = match status {
        Some(401 | 403) => Reason::Forbidden,
        Some(409) => Reason::Conflict,
        Some(400 | 422) => Reason::Invalid,
        Some(_) | None => Reason::Failed,
    };
    refusal(reason, format!("{error:#}"))
}

fn invalid(error: &anyhow::Error) -> Refusal {
    refusal(Reason::Invalid, format!("{error:#}"))
}

/// The documents of an edit.
pub(super) fn documents(edit: &Edit) -> Result<Vec<Value>, Refusal> {
    file::documents(&edit.yaml).map_err(|error| {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        refusal(Reason::Invalid, format!("this is not YAML: {first}"))
    })
}

/// The resources of a cluster for an editor.
pub(super) async fn resources(client: &Client, id: &ClusterId) -> anyhow::Result<Resources> {
    let api = kafkas(client, id);
    let kafka = api.get(&id.name).await;
    let kafka = kafka.with_context(|| format!("cannot read the Kafka {}", id.name))?;
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", id.name));
    let pools = pools(client, id).list(&of_cluster).await.context("cannot list the node pools")?;
    let mut versions = BTreeMap::new();
    let mut all = Vec::new();
    let found = pools.items.into_iter().map(|pool| ("KafkaNodePool", pool));
    for (kind, object) in [("Kafka", kafka)].into_iter().chain(found) {
        versions.insert(format!("{kind}/{}", object.name_any()), version(&object));
        all.push(plain(kind, &object));
    }
    Ok(Resources { yaml: crds::yaml(&all)?, versions })
}

/// Changes with the spec, and not with the status.
fn version(object: &DynamicObject) -> String {
    object.metadata.generation.unwrap_or_default().to_string()
}

/// A resource without what the API server and the operator write.
fn plain(kind: &str, object: &DynamicObject) -> Value {
    let mut metadata = json!({ "name": object.name_any() });
    if let Some(namespace) = object.namespace() {
        metadata["namespace"] = namespace.into();
    }
    let annotations = object.annotations().iter().filter(|(name, _)| *name != LAST_APPLIED);
    for (field, all) in [
        ("labels", object.labels().clone()),
        ("annotations", annotations.map(|(name, value)| (name.clone(), value.clone())).collect()),
    ] {
        if !all.is_empty() {
            metadata[field] = json!(all);
        }
    }
    json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": object.data["spec"],
    })
}

/// What is written of a document: the resource as it would be, and whether it exists.
struct Written {
    api: Api<DynamicObject>,
    name: String,
    title: String,
    object: DynamicObject,
    exists: bool,
}

impl Written {
    async fn write(&self, dry_run: bool) -> anyhow::Result<()> {
        let how = PostParams { dry_run, ..PostParams::default() };
        let done = match self.exists {
            true => self.api.replace(&self.name, &how, &self.object).await,
            false => self.api.create(&how, &self.object).await,
        };
        done.map(|_| ()).with_context(|| format!("cannot apply {}", self.title))
    }
}

/// Applies an edit, and returns the resources that were changed.
pub(super) async fn apply(
    client: &Client,
    id: &ClusterId,
    edit: &Edit,
) -> Result<Vec<String>, Refusal> {
    let asked = file::asked(documents(edit)?, Some(&id.name), &[]).map_err(|e| invalid(&e))?;
    if let Some(problem) = asked.problems.first() {
        return Err(refusal(Reason::Invalid, problem.clone()));
    }
    if asked.namespace.as_ref().is_some_and(|named| *named != id.namespace) {
        let message = format!("the documents are not for namespace {}", id.namespace);
        return Err(refusal(Reason::Invalid, message));
    }
    let mut all = Vec::new();
    // Pools first: a Kafka may need those that come with it.
    for (name, document) in asked.edit.pools {
        let api = pools(client, id);
        all.extend(written(api, ("KafkaNodePool", &name), &document, &edit.versions).await?);
    }
    if let Some(document) = asked.edit.kafka {
        let at = ("Kafka", id.name.as_str());
        all.extend(written(kafkas(client, id), at, &document, &edit.versions).await?);
    }
    for dry_run in [true, false] {
        for one in &all {
            one.write(dry_run).await.map_err(|error| refused(&error))?;
        }
    }
    Ok(all.into_iter().map(|one| one.title).collect())
}

/// What a document changes; `None` if that is nothing.
async fn written(
    api: Api<DynamicObject>,
    (kind, name): (&str, &str),
    document: &Value,
    versions: &BTreeMap<String, String>,
) -> Result<Option<Written>, Refusal> {
    let title = format!("{kind} {name}");
    let found = api.get_opt(name).await.with_context(|| format!("cannot read {title}"));
    let found = found.map_err(|error| refused(&error))?;
    let based_on = versions.get(&format!("{kind}/{name}"));
    let is_stale = match &found {
        Some(found) => based_on.is_some_and(|read| *read != version(found)),
        None => based_on.is_some(),
    };
    if is_stale {
        let message =
            format!("{title} has changed since it was read for the editor: load it again");
        return Err(refusal(Reason::Conflict, message));
    }
    let object = edited(found.as_ref(), document).map_err(|error| invalid(&error))?;
    if found.as_ref().is_some_and(|found| is_same(found, &object)) {
        return Ok(None);
    }
    Ok(Some(Written { api, name: name.to_owned(), title, object, exists: found.is_some() }))
}

/// A resource with the spec, the labels and the annotations of a document.
fn edited(found: Option<&DynamicObject>, document: &Value) -> anyhow::Result<DynamicObject> {
    let read: DynamicObject = serde_json::from_value(document.clone()).context("not a resource")?;
    let Some(found) = found else { return Ok(read) };
    let mut object = found.clone();
    object.data["spec"] = read.data["spec"].clone();
    object.metadata.labels = read.metadata.labels;
    let kept = found.annotations().get(LAST_APPLIED).cloned();
    let mut annotations = read.metadata.annotations.unwrap_or_default();
    annotations.extend(kept.map(|text| (LAST_APPLIED.to_owned(), text)));
    object.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
    object.metadata.managed_fields = None;
    Ok(object)
}

fn is_same(found: &DynamicObject, object: &DynamicObject) -> bool {
    found.data["spec"] == object.data["spec"]
        && found.labels() == object.labels()
        && found.annotations() == object.annotations()
}

fn kafkas(client: &Client, id: &ClusterId) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Kafka>(&());
    Api::namespaced_with(client.clone(), &id.namespace, &resource)
}

fn pools(client: &Client, id: &ClusterId) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<KafkaNodePool>(&());
    Api::namespaced_with(client.clone(), &id.namespace, &resource)
}

/// Asks the operator to approve, stop or refresh a rebalance.
pub(super) async fn command(
    client: &Client,
    id: &ClusterId,
    (rebalance, command): (&str, &str),
) -> Result<(), Refusal> {
    let api: Api<KafkaRebalance> = Api::namespaced(client.clone(), &id.namespace);
    let what = || format!("cannot {command} the KafkaRebalance {rebalance}");
    let found = api.get(rebalance).await.with_context(what).map_err(|error| refused(&error))?;
    if found.labels().get(CLUSTER_LABEL) != Some(&id.name) {
        let message = format!("the KafkaRebalance {rebalance} is not one of Kafka {}", id.name);
        return Err(refusal(Reason::Invalid, message));
    }
    let permitted = commands(&found);
    if !permitted.contains(&command) {
        let phase = state(&found).and_then(|one| one.kind.as_deref()).unwrap_or("New");
        let accepted = match permitted.as_slice() {
            [] => "no command".to_owned(),
            all => all.join(" and "),
        };
        let message = format!("{}: in state {phase} it accepts {accepted}", what());
        return Err(refusal(Reason::Conflict, message));
    }
    let patch = json!({ "metadata": {
        // The state that the user has seen.
        "resourceVersion": found.resource_version(),
        "annotations": { (Annotation::Rebalance.name()): command },
    } });
    let done = api.patch(rebalance, &PatchParams::default(), &Patch::Merge(patch)).await;
    done.map(|_| ()).with_context(what).map_err(|error| refused(&error))
}

/// What the user may change; unknown if Kubernetes does not answer.
pub(super) async fn rights(client: &Client, namespace: &str) -> Rights {
    let rebalance = may(client, namespace, ("patch", "kafkarebalances", None)).await;
    let kafka = may(client, namespace, ("update", "kafkas", None)).await;
    let pools = may(client, namespace, ("update", "kafkanodepools", None)).await;
    Rights { rebalance, apply: kafka.zip(pools).map(|(kafka, pools)| kafka && pools) }
}

/// Whether the user has a right on a resource of Strimzi's group; `None` if Kubernetes does not answer.
pub(super) async fn may(
    client: &Client,
    namespace: &str,
    (verb, resource, name): (&str, &str, Option<&str>),
) -> Option<bool> {
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        verb: Some(verb.to_owned()),
        group: Some("kafka.strimzi.io".to_owned()),
        resource: Some(resource.to_owned()),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.ok()?;
    Some(answer.status?.allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn found() -> DynamicObject {
        object(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
            "metadata": {
                "name": "c", "namespace": "n", "resourceVersion": "7", "generation": 3, "uid": "u",
                "labels": { "a": "1" },
                "annotations": { LAST_APPLIED: "{}", "b": "2" },
            },
            "spec": { "kafka": { "config": { "x": 1 } } },
            "status": { "observedGeneration": 3 },
        }))
    }

    #[test]
    fn the_editor_gets_what_a_user_writes() {
        let shown = plain("Kafka", &found());
        let expected = json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
            "metadata": {
                "name": "c", "namespace": "n", "labels": { "a": "1" }, "annotations": { "b": "2" },
            },
            "spec": { "kafka": { "config": { "x": 1 } } },
        });
        assert_eq!(shown, expected);
        assert_eq!(version(&found()), "3");
        // Nothing would be written if it came back as it is.
        assert!(is_same(&found(), &edited(Some(&found()), &shown).unwrap()));
    }

    #[test]
    fn an_edit_replaces_the_spec_and_keeps_what_is_not_the_users() {
        let document = json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
            "metadata": { "name": "c" }, "spec": { "kafka": { "config": {} } },
        });
        let edited = edited(Some(&found()), &document).unwrap();
        assert_eq!(edited.data["spec"], json!({ "kafka": { "config": {} } }));
        assert_eq!(edited.data["status"], json!({ "observedGeneration": 3 }));
        assert_eq!(edited.resource_version().as_deref(), Some("7"), "a lost update is refused");
        assert!(edited.labels().is_empty());
        assert_eq!(edited.annotations().keys().collect::<Vec<_>>(), [LAST_APPLIED]);
        assert!(!is_same(&found(), &edited));
    }

    #[test]
    fn what_kubernetes_refuses_is_told_with_its_reason() {
        let api = |code| {
            let status =
                kube::core::Status { code, message: "no".to_owned(), ..Default::default() };
            anyhow::Error::new(kube::Error::Api(Box::new(status))).context("cannot apply Kafka c")
        };
        let rows = [
            (403, Reason::Forbidden),
            (401, Reason::Forbidden),
            (409, Reason::Conflict),
            (422, Reason::Invalid),
            (500, Reason::Failed),
        ];
        for (code, reason) in rows {
            let told = refused(&api(code));
            assert_eq!(told.reason, reason, "{code}");
            assert!(told.message.starts_with("cannot apply Kafka c: "), "{}", told.message);
        }
        assert_eq!(refused(&anyhow::anyhow!("no route")).reason, Reason::Failed);
        let edit = Edit { yaml: "a: [".to_owned(), ..Edit::default() };
        let told = documents(&edit).unwrap_err();
        assert_eq!(told.reason, Reason::Invalid);
        assert!(told.message.starts_with("this is not YAML: "), "{}", told.message);
    }
}
