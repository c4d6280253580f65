//! `KafkaRebalance`: a request to move replicas, or a template for such requests.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, Rest, Verbatim};

/// What is to be moved, and how.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "kafka.strimzi.io",
    version = "v1",
    kind = "KafkaRebalance",
    plural = "kafkarebalances",
    namespaced,
    status = "KafkaRebalanceStatus",
    shortname = "kr",
    category = "strimzi",
    derive = "PartialEq",
    doc = "A request to rebalance a Kafka cluster; the cluster is named by a label.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        description = "The cluster that is rebalanced",
        json_path = r".metadata.labels.strimzi\.io/cluster"
    ),
    printcolumn(
        name = "Template",
        type_ = "string",
        description = "Whether this is a template",
        json_path = r".metadata.annotations.strimzi\.io/rebalance-template"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        description = "How far it is",
        json_path = ".status.conditions[*].type"
    )
)]
pub struct KafkaRebalanceSpec {
    /// Which brokers are rebalanced; all if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<RebalanceMode>,
    /// The node ids of the brokers that are added or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brokers: Option<Vec<i64>>,
    /// The goals, most important first; the usual ones if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goals: Option<Vec<String>>,
    /// Whether hard goals may be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_hard_goal_check: Option<bool>,
    /// Whether replicas are moved between the disks of a broker, and not between brokers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance_disk: Option<bool>,
    /// Topics that are left unchanged, as a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded_topics: Option<String>,
    /// How many partitions a broker moves at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub concurrent_partition_movements_per_broker: Option<i64>,
    /// How many partitions are moved at a time between the disks of a broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub concurrent_intra_broker_partition_movements: Option<i64>,
    /// How many partitions change their leader at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub concurrent_leader_movements: Option<i64>,
    /// The most bytes per second that a broker uses for moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replication_throttle: Option<i64>,
    /// In which order replicas are moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_movement_strategies: Option<Vec<String>>,
    /// Volumes to empty, for `remove-disks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub move_replicas_off_volumes: Option<Vec<BrokerVolumes>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

impl KafkaRebalanceSpec {
    /// Which brokers are rebalanced: all if unset.
    pub fn mode(&self) -> RebalanceMode {
        self.mode.unwrap_or_default()
    }
}

/// Which brokers are rebalanced.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RebalanceMode {
    /// All.
    #[default]
    Full,
    /// Those that are named get replicas of the others.
    AddBrokers,
    /// Those that are named give their replicas to the others.
    RemoveBrokers,
    /// Volumes of a broker are emptied to its others.
    RemoveDisks,
}

/// Volumes of a broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrokerVolumes {
    /// The node id of the broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_id: Option<i64>,
    /// The numbers of its volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub volume_ids: Option<Vec<i64>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is known of a rebalance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaRebalanceStatus {
    /// What holds of it; the type of one of them is its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the resource that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The session of the engine that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Where its progress is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RebalanceProgress>,
    /// What the proposal would do, by Cruise Control's names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimization_result: Option<Verbatim>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where the progress of a rebalance is found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceProgress {
    /// The name of the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance_progress_config_map: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
