//! What is known of a cluster, for people and for tools that read it.
//!
//! A readable copy: what the operator has to remember is recorded elsewhere, because a server with
//! other definitions installed would prune our own fields here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Condition, Reference, Rest};
use crate::kafka::cruise_control::AutoRebalanceMode;

/// What is known of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaStatus {
    /// What holds of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the resource that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The listeners with their addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listeners: Option<Vec<ListenerStatus>>,
    /// The pools that belong to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka_node_pools: Option<Vec<Reference>>,
    /// The id of the cluster in Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// The version of the operator that last brought it to what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_last_successful_version: Option<String>,
    /// The version of Kafka that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka_version: Option<String>,
    /// The metadata version that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka_metadata_version: Option<String>,
    /// The rebalancing that happens by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_rebalance: Option<AutoRebalanceStatus>,
    /// The controllers that a dynamic quorum began with, as `id@host:port:directory` separated by
    /// commas; unset for a static quorum. Never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_controllers: Option<String>,
    /// The controllers that have a vote now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<Vec<ControllerStatus>>,
    /// The ids of all its nodes, for information only; one that leaves is among them until Kafka has forgotten it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ids: Option<Vec<i64>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A listener with its addresses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The addresses where clients can begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<ListenerAddress>>,
    /// The same addresses as clients want them, as `host:port` separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_servers: Option<String>,
    /// The certificates to trust, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Vec<String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An address where clients can begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerAddress {
    /// A name or an IP address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The rebalancing that happens by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoRebalanceStatus {
    /// What it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<AutoRebalanceState>,
    /// Since when, as `yyyy-MM-ddTHH:mm:ssZ`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// The brokers that are being rebalanced or are queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<AutoRebalanceBrokers>>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the rebalancing that happens by itself is doing.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum AutoRebalanceState {
    /// Nothing.
    Idle,
    /// Moves replicas off brokers that are to go.
    RebalanceOnScaleDown,
    /// Moves replicas to brokers that came.
    RebalanceOnScaleUp,
}

/// The brokers of one mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoRebalanceBrokers {
    /// The mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AutoRebalanceMode>,
    /// The node ids of the brokers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brokers: Option<Vec<i64>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A controller that has a vote: a node with a certain disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its node id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// The id of its metadata log directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory_id: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
