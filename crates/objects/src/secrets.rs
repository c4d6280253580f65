//! Converts Secrets with keys and certificates.

use std::collections::BTreeMap;

use api::names::Labels;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::json;

use crate::same::APPLIED;
use crate::{Blueprint, SecretContent, object};

/// The content of a Secret.
#[must_use]
pub fn content(secret: &Secret) -> SecretContent {
    let data = secret.data.clone().unwrap_or_default();
    let mut annotations = secret.annotations().clone();
    annotations.remove(APPLIED);
    SecretContent {
        data: data.into_iter().map(|(name, ByteString(bytes))| (name, bytes)).collect(),
        annotations,
    }
}

/// A Secret with this content, owned by the cluster if `is_owned`.
pub fn secret(
    blueprint: &Blueprint,
    (name, labels): (&str, Labels),
    content: SecretContent,
    is_owned: bool,
) -> Result<Secret, serde_json::Error> {
    let mut metadata = blueprint.metadata(name, labels, None);
    if !is_owned && let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("ownerReferences");
    }
    metadata["annotations"] = json!(content.annotations);
    let mut secret: Secret = object(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
    }))?;
    let data = content.data.into_iter().map(|(name, bytes)| (name, ByteString(bytes)));
    secret.data = Some(data.collect::<BTreeMap<_, _>>());
    Ok(secret)
}
