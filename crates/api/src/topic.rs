//! `KafkaTopic`: a topic of a Kafka cluster.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, Rest, Verbatim};

/// The desired topic.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "kafka.strimzi.io",
    version = "v1",
    kind = "KafkaTopic",
    plural = "kafkatopics",
    namespaced,
    status = "KafkaTopicStatus",
    shortname = "kt",
    category = "strimzi",
    derive = "PartialEq",
    doc = "A topic of a Kafka cluster; the cluster is named by a label.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        description = "The cluster of the topic",
        json_path = r".metadata.labels.strimzi\.io/cluster"
    ),
    printcolumn(
        name = "Partitions",
        type_ = "integer",
        description = "The desired number of partitions",
        json_path = ".spec.partitions"
    ),
    printcolumn(
        name = "Replication factor",
        type_ = "integer",
        description = "The desired number of replicas of each partition",
        json_path = ".spec.replicas"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether the topic matches its spec",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    )
)]
pub struct KafkaTopicSpec {
    /// The name of the topic; that of the resource if unset. It cannot be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<String>,
    /// The number of partitions; the default of the brokers if unset. It cannot be decreased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub partitions: Option<i64>,
    /// The number of replicas of each partition; the default of the brokers if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32767))]
    pub replicas: Option<i64>,
    /// The configuration of the topic, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Verbatim>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is known of a topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaTopicStatus {
    /// What holds of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the resource that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The name of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_name: Option<String>,
    /// The id of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<String>,
    /// A change of the number of replicas; there is none if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_change: Option<ReplicasChange>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A change of the number of replicas.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicasChange {
    /// The number of replicas that is being reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_replicas: Option<i64>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ReplicasChangeState>,
    /// What people should know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The session of the engine that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How far a change of the number of replicas is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReplicasChangeState {
    /// Not begun.
    Pending,
    /// In progress.
    Ongoing,
}
