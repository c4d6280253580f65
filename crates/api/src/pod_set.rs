//! `StrimziPodSet`: the pods of a pool, whole.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, Rest, Verbatim};

/// The pods that there shall be.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "core.strimzi.io",
    version = "v1",
    kind = "StrimziPodSet",
    plural = "strimzipodsets",
    namespaced,
    status = "StrimziPodSetStatus",
    shortname = "sps",
    category = "strimzi",
    derive = "PartialEq",
    doc = "Pods that each have a definition of their own.",
    printcolumn(
        name = "Pods",
        type_ = "integer",
        description = "How many pods there are",
        json_path = ".status.pods"
    ),
    printcolumn(
        name = "Ready Pods",
        type_ = "integer",
        description = "How many of them are ready",
        json_path = ".status.readyPods"
    ),
    printcolumn(
        name = "Current Pods",
        type_ = "integer",
        description = "How many of them are as they shall be",
        json_path = ".status.currentPods"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        description = "Since when it exists",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct StrimziPodSetSpec {
    /// The labels of its pods.
    pub selector: PodSelector,
    /// The pods, whole.
    pub pods: Vec<Verbatim>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The labels of pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSelector {
    /// Labels that a pod must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is known of a pod set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StrimziPodSetStatus {
    /// What holds of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the resource that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// How many of them are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<i64>,
    /// How many of them are as they shall be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_pods: Option<i64>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
