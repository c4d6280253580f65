//! The ConfigMap of a node: one entry per file that `gregor node` reads.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::{Blueprint, Node, object};

/// The ConfigMap of a node.
pub fn config_map(
    blueprint: &Blueprint,
    node: &Node,
    files: &BTreeMap<&'static str, String>,
) -> Result<ConfigMap, serde_json::Error> {
    let metadata = blueprint.metadata(&blueprint.pod(node), blueprint.node_labels(node), None);
    object(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files }))
}
