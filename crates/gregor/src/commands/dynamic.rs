//! Objects of any kind, as the API server defines it.

use anyhow::Context as _;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::Value;

/// The API of an object and its name. `None` if the server does not have its kind.
pub(crate) async fn api(
    client: &Client,
    object: &Value,
) -> anyhow::Result<Option<(Api<DynamicObject>, String)>> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) =
        text("/apiVersion").rsplit_once('/').unwrap_or(("", text("/apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let found = match pinned_kind(client, &kind).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot find the kind {}", kind.kind));
        }
    };
    let (resource, capabilities) = found;
    let api = match (capabilities.scope, text("/metadata/namespace")) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    Ok(Some((api, text("/metadata/name").to_owned())))
}

/// An object in words, such as `Role gregor/gregor-operator-election`.
pub(crate) fn what(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    match text("/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}
