//! `KafkaNodePool`: nodes of a cluster that are alike.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, JvmOptions, Resources, Rest};
use crate::kafka::template::NodePoolTemplate;

/// The nodes of a pool as their user wants them.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "kafka.strimzi.io",
    version = "v1",
    kind = "KafkaNodePool",
    plural = "kafkanodepools",
    namespaced,
    status = "KafkaNodePoolStatus",
    shortname = "knp",
    category = "strimzi",
    derive = "PartialEq",
    doc = "Nodes of a Kafka cluster that are alike; the cluster is named by a label.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(
        name = "Desired replicas",
        type_ = "integer",
        description = "How many nodes are wanted",
        json_path = ".spec.replicas"
    ),
    printcolumn(
        name = "Roles",
        type_ = "string",
        description = "What the nodes do",
        json_path = ".status.roles"
    ),
    printcolumn(
        name = "NodeIds",
        type_ = "string",
        description = "The ids of the nodes",
        json_path = ".status.nodeIds"
    )
)]
pub struct KafkaNodePoolSpec {
    /// How many nodes.
    #[schemars(range(min = 0))]
    pub replicas: i64,
    /// Where they keep their data.
    pub storage: Storage,
    /// What they do.
    pub roles: Vec<Role>,
    /// What a node asks for and may have at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// How the Java virtual machines are started; replaces what the cluster says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jvm_options: Option<JvmOptions>,
    /// What is added to generated objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<NodePoolTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a node does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Takes part in the metadata quorum.
    Controller,
    /// Keeps partitions and serves clients.
    Broker,
}

/// Where nodes keep their data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// The kind of storage.
    #[serde(rename = "type")]
    pub kind: StorageType,
    /// The volumes, for `jbod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Volume>>,
    /// What holds of the one volume, for the other kinds.
    #[serde(flatten)]
    pub disk: Disk,
}

/// A kind of storage.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StorageType {
    /// Gone with the pod.
    Ephemeral,
    /// A claim for a volume.
    PersistentClaim,
    /// Several volumes.
    Jbod,
}

/// One of several volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// The kind of volume.
    #[serde(rename = "type")]
    pub kind: VolumeType,
    /// What holds of it.
    #[serde(flatten)]
    pub disk: Disk,
}

/// A kind of volume.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeType {
    /// Gone with the pod.
    Ephemeral,
    /// A claim for a volume.
    PersistentClaim,
}

/// What can be said of a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Its number, for `jbod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub id: Option<i64>,
    /// The size of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The most that an ephemeral volume may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"))]
    pub size_limit: Option<String>,
    /// The storage class of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The volume attributes class of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class: Option<String>,
    /// Labels of the volume to claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// Whether the claim goes with the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_claim: Option<bool>,
    /// Whether the metadata log is here; it is on the volume with the lowest number if unset on all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kraft_metadata: Option<KraftMetadata>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

impl Disk {
    /// Whether the claim goes with the node: no if unset, for data is dearer than disks.
    pub fn deletes_claim(&self) -> bool {
        self.delete_claim.unwrap_or(false)
    }
}

/// How the metadata log uses a volume.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum KraftMetadata {
    /// Beside partitions.
    Shared,
}

/// What is known of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaNodePoolStatus {
    /// What holds of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the resource that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The ids of its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ids: Option<Vec<i64>>,
    /// The id of the cluster in Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// What its nodes do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<Role>>,
    /// How many nodes there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// The labels of its pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
