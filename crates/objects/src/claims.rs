//! PersistentVolumeClaims of the nodes.
//!
//! A claim is owned by the cluster only if its user wants it deleted with it. It has the ids of the cluster
//! and of the node, and the quorum mode, as annotations, so that a lost record can be rebuilt from claims.

use control::annotations::Annotation;
use control::cluster::record::Record;
use control::cluster::spec::Claim;
use control::quorum::format::QuorumMode;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::{Blueprint, Node, object};

/// Annotation: whether a claim is deleted with its node.
pub const DELETE_CLAIM: &str = Annotation::DeleteClaim.name();
/// Annotation: Kafka's id of the cluster.
pub const CLUSTER_ID: &str = Annotation::ClusterId.name();
/// Annotation: the roles of the node when the claim was created.
pub const ROLES: &str = Annotation::Roles.name();
/// Annotation: whether the quorum of the cluster is static or dynamic.
pub const QUORUM_MODE: &str = Annotation::QuorumMode.name();

/// The quorum mode as an annotation; `None` if it is unknown.
#[must_use]
pub const fn mode_text(mode: QuorumMode) -> Option<&'static str> {
    match mode {
        QuorumMode::Static => Some("static"),
        QuorumMode::Dynamic => Some("dynamic"),
        QuorumMode::Unknown => None,
    }
}

/// The reverse of [`mode_text`].
#[must_use]
pub fn mode_from(text: &str) -> QuorumMode {
    let all = [QuorumMode::Static, QuorumMode::Dynamic];
    all.into_iter().find(|mode| mode_text(*mode) == Some(text)).unwrap_or_default()
}

/// The cluster in Kafka that claims belong to.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Its id.
    pub cluster_id: &'a str,
    /// The mode of its quorum.
    pub mode: QuorumMode,
}

impl<'a> Origin<'a> {
    /// That of a record.
    #[must_use]
    pub fn of(record: &'a Record) -> Self {
        let cluster_id = record.cluster_id.as_deref().unwrap_or_default();
        Self { cluster_id, mode: record.quorum.mode }
    }
}

/// The claim of a node's volume. `size` is its desired size: never less than its current size.
pub fn claim(
    blueprint: &Blueprint,
    node: &Node,
    (volume, desired): (&str, &Claim),
    (size, origin): (&str, Origin<'_>),
) -> Result<PersistentVolumeClaim, serde_json::Error> {
    let cluster = blueprint.kafka.spec.kafka.template.as_ref();
    let pool = blueprint.pool(&node.pool).and_then(|pool| pool.spec.template.as_ref());
    let template = pool
        .and_then(|template| template.persistent_volume_claim.as_ref())
        .or_else(|| cluster.and_then(|template| template.persistent_volume_claim.as_ref()));
    let mut metadata = blueprint.metadata(
        &blueprint.names.claim(volume, &node.pool, node.id),
        blueprint.pool_labels(&node.pool),
        template.and_then(|template| template.metadata.as_ref()),
    );
    metadata["annotations"][DELETE_CLAIM] = json!(desired.delete.to_string());
    metadata["annotations"][CLUSTER_ID] = json!(origin.cluster_id);
    metadata["annotations"][ROLES] = json!(node.roles.to_string());
    if let Some(mode) = mode_text(origin.mode) {
        metadata["annotations"][QUORUM_MODE] = json!(mode);
    }
    if !desired.delete
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("ownerReferences");
    }
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": { "requests": { "storage": size } },
    });
    if let Some(class) = &desired.class {
        spec["storageClassName"] = json!(class);
    }
    if let Some(class) = &desired.attributes_class {
        spec["volumeAttributesClassName"] = json!(class);
    }
    if !desired.selector.is_empty() {
        spec["selector"] = json!({ "matchLabels": desired.selector });
    }
    object(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_were_written() {
        for mode in [QuorumMode::Static, QuorumMode::Dynamic] {
            assert_eq!(mode_from(mode_text(mode).unwrap_or_default()), mode);
        }
        assert_eq!(mode_text(QuorumMode::Unknown), None);
        assert_eq!(mode_from("other"), QuorumMode::Unknown);
    }
}
