//! Writes the status of a pod when it has changed.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::kubelet::shared::Shared;

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// The pod was deleted, or another one has its name.
    Gone,
    /// Retry.
    Failed,
}

/// Writes the status of a pod.
pub(super) async fn patch(shared: &Shared, pod: &Pod, status: &Value) -> Written {
    let patch = json!({ "metadata": { "uid": pod.metadata.uid }, "status": status });
    let (api, name) = api(shared, pod);
    let params = PatchParams::default();
    match api.patch_status(&name, &params, &Patch::Strategic(patch)).await {
        Ok(_) => Written::Done,
        Err(kube::Error::Api(status)) if status.code == 404 => Written::Gone,
        Err(kube::Error::Api(status)) if status.code == 422 => {
            // The same status would be rejected again.
            tracing::warn!(
                pod = name,
                error = status.message,
                "the API server rejected a pod status"
            );
            Written::Done
        }
        Err(error) => failure(&error, &name),
    }
}

/// Removes a pod whose containers have terminated.
pub(super) async fn remove(shared: &Shared, pod: &Pod) -> Written {
    let (api, name) = api(shared, pod);
    let uid = pod.metadata.uid.clone();
    let params = DeleteParams::default()
        .grace_period(0)
        .preconditions(Preconditions { uid, resource_version: None });
    match api.delete(&name, &params).await {
        Ok(_) => Written::Done,
        // 409 is the response to a uid that does not match.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Written::Gone,
        Err(error) => failure(&error, &name),
    }
}

fn api(shared: &Shared, pod: &Pod) -> (Api<Pod>, String) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.clone().unwrap_or_default();
    (Api::namespaced(shared.client.clone(), namespace), name)
}

fn failure(error: &kube::Error, name: &str) -> Written {
    tracing::debug!(pod = name, %error, "cannot write a pod, will retry");
    Written::Failed
}

/// Whether `theirs` contains everything in `ours`. Lists must be equal, except conditions, to which others
/// may add.
pub(super) fn is_part_of(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().all(|(key, value)| {
            let there = theirs.get(key).unwrap_or(&Value::Null);
            match (key.as_str(), value, there) {
                ("conditions", Value::Array(ours), Value::Array(theirs)) => {
                    ours.iter().all(|one| theirs.iter().any(|other| is_part_of(one, other)))
                }
                // Empty values may be absent.
                (_, Value::Object(empty), Value::Null) if empty.is_empty() => true,
                _ => is_part_of(value, there),
            }
        }),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| is_part_of(a, b))
        }
        _ => ours == theirs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_says_the_same_is_not_written() {
        let ready = json!({ "type": "Ready", "status": "True" });
        let other = json!({ "type": "PodScheduled", "status": "True", "lastProbeTime": null });
        let theirs =
            json!({ "phase": "Running", "conditions": [other, ready], "qosClass": "Burstable" });
        #[rustfmt::skip]
        let table = [
            (json!({}), true), (json!({ "phase": "Running" }), true), (json!({ "phase": "Failed" }), false),
            (json!({ "conditions": [ready] }), true), (json!({ "podIP": "1" }), false), (json!({ "lastState": {} }), true),
            (json!({ "conditions": [{ "type": "Ready", "status": "False" }] }), false),
        ];
        for (ours, expected) in table {
            assert_eq!(is_part_of(&ours, &theirs), expected, "{ours}");
        }
        assert!(!is_part_of(&json!([1]), &json!([1, 2])));
    }
}
