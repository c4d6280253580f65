//! The claims for the nodes' volumes.
//!
//! A claim belongs to the cluster only if its user wants it deleted with it. It carries the ids of the
//! cluster and of the node, so that the record can be made again from the claims if it is lost.

use control::annotations::Annotation;
use control::cluster::spec::Claim;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::{Blueprint, Node, object};

/// The annotation that says whether a claim goes with its node.
pub const DELETE_CLAIM: &str = Annotation::DeleteClaim.name();
/// The annotation with the id of the cluster in Kafka.
pub const CLUSTER_ID: &str = Annotation::ClusterId.name();
/// The annotation with what the node was for when the claim was made.
pub const ROLES: &str = Annotation::Roles.name();

/// The claim of a node's volume. `size` is what it shall have now: never less than it has.
pub fn claim(
    blueprint: &Blueprint,
    node: &Node,
    (volume, wish): (&str, &Claim),
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
    metadata["annotations"][DELETE_CLAIM] = json!(wish.delete.to_string());
    metadata["annotations"][CLUSTER_ID] = json!(cluster_id);
    metadata["annotations"][ROLES] = json!(node.roles.to_string());
    if !wish.delete
        && let Some(metadata) = metadata.as_object_mut()
    {
        metadata.remove("ownerReferences");
    }
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "resources": { "requests": { "storage": size } },
    });
    if let Some(class) = &wish.class {
        spec["storageClassName"] = json!(class);
    }
    if let Some(class) = &wish.attributes_class {
        spec["volumeAttributesClassName"] = json!(class);
    }
    if !wish.selector.is_empty() {
        spec["selector"] = json!({ "matchLabels": wish.selector });
    }
    object(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }))
}
