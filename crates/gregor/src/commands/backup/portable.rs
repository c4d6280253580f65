//! Objects without what ties them to the Kubernetes cluster in which they were read.
//!
//! 1. No owner is kept: the garbage collector deletes objects whose owner has another uid.
//! 2. No status is kept: the operator writes it anew.
//! 3. No finalizer is kept: the operator sets its own, and nothing else would remove those of others.
//! 4. A claim names its volume, and the volume its claim without a uid, so that Kubernetes binds them again.

use std::collections::BTreeSet;

use control::annotations::Annotation;
use control::life::restore::Kind;
use serde_json::Value;

/// Metadata that is restored.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Annotations about objects that exist: what was applied last, and how a claim was bound.
const OF_EXISTING: [&str; 6] = [
    Annotation::Applied.name(),
    "kubectl.kubernetes.io/last-applied-configuration",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
    "volume.beta.kubernetes.io/storage-provisioner",
];

/// An object without what ties it to its Kubernetes cluster.
pub(super) fn portable(kind: Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| METADATA.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !OF_EXISTING.contains(&name.as_str()));
        }
        metadata.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    if kind == Kind::Volume
        && let Some(of) = object.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut)
    {
        of.remove("uid");
        of.remove("resourceVersion");
    }
    object
}

/// Names of Secrets and ConfigMaps that a resource refers to in its namespace.
pub(super) fn references(resource: &Value) -> BTreeSet<(Kind, String)> {
    let mut found = BTreeSet::new();
    collect(resource, &mut found);
    found
}

fn collect(value: &Value, found: &mut BTreeSet<(Kind, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = match field.as_str() {
                    "secretName" => value.as_str().map(|name| (Kind::Secret, name)),
                    "secretKeyRef" | "secretRef" => {
                        value["name"].as_str().map(|name| (Kind::Secret, name))
                    }
                    "configMapKeyRef" | "configMapRef" => {
                        value["name"].as_str().map(|name| (Kind::ConfigMap, name))
                    }
                    _ => None,
                };
                found.extend(name.map(|(kind, name)| (kind, name.to_owned())));
                collect(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_the_former_kubernetes_cluster_stays() {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2,
                "creationTimestamp": "x", "managedFields": [], "finalizers": ["gregor.io/scram-user"],
                "ownerReferences": [{ "kind": "Kafka", "uid": "old" }],
                "labels": { "strimzi.io/cluster": "c" },
                "annotations": { "gregor.io/applied": "x", "mine": "y" },
            },
            "data": { "password": "c2VjcmV0" }, "status": { "phase": "Bound" },
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "a", "namespace": "n", "labels": { "strimzi.io/cluster": "c" },
                "annotations": { "mine": "y" },
            },
            "data": { "password": "c2VjcmV0" },
        });
        assert_eq!(portable(Kind::Secret, &object), expected);
        assert_eq!(portable(Kind::Secret, &expected), expected);
    }

    #[test]
    fn a_volume_waits_for_a_claim_by_name() {
        let of = json!({ "namespace": "n", "name": "data", "uid": "u", "resourceVersion": "7" });
        let volume = json!({
            "metadata": { "name": "pvc-1", "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" } },
            "spec": { "local": { "path": "/x" }, "claimRef": of },
        });
        let expected = json!({
            "metadata": { "name": "pvc-1" },
            "spec": { "local": { "path": "/x" }, "claimRef": { "namespace": "n", "name": "data" } },
        });
        assert_eq!(portable(Kind::Volume, &volume), expected);
    }

    #[test]
    fn what_resources_refer_to_is_found() {
        let kafka = json!({ "spec": { "kafka": {
            "listeners": [{ "configuration": { "brokerCertChainAndKey": { "secretName": "tls", "key": "k" } } }],
            "metricsConfig": { "valueFrom": { "configMapKeyRef": { "name": "metrics", "key": "m" } } },
        } } });
        let user = json!({ "spec": { "authentication": { "password": { "valueFrom": {
            "secretKeyRef": { "name": "alice-password", "key": "password" },
        } } } } });
        let expected = [(Kind::ConfigMap, "metrics".to_owned()), (Kind::Secret, "tls".to_owned())];
        assert_eq!(references(&kafka), expected.into());
        assert_eq!(references(&user), [(Kind::Secret, "alice-password".to_owned())].into());
        assert!(references(&json!({ "spec": { "secretName": 1 } })).is_empty());
    }
}
