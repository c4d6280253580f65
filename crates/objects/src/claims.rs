//! PersistentVolumeClaims of the nodes.
//!
//! A claim is owned by the cluster only if its user wants it deleted with it. It has the ids of the cluster
//! and of the node as annotations, so that a lost record can be rebuilt from claims.

use control::annotations::Annotation;
use control::cluster::spec::Claim;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::{Blueprint, Node, object};

/// Annotation: whether a claim is deleted with its node.
pub const DELETE_CLAIM: &str = Annotation::DeleteClaim.name();
/// Annotation: Kafka's id of the cluster.
pub const CLUSTER_ID: &str = Annotation::ClusterId.name();
/// Annotation: the roles of the node when the claim was created.
pub const ROLES: &str = Annotation::Roles.name();

/// The claim of a node's volume. `size` is its desired size: never less than its current size.
pub fn claim(
    blueprint: &Blueprint,
    node: &Node,
    (volume, desired): (&str, &Claim),
    (size, cluster_id): (&str, &str),
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
    metadata["annotations"][CLUSTER_ID] = json!(cluster_id);
    metadata["annotations"][ROLES] = json!(node.roles.to_string());
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
