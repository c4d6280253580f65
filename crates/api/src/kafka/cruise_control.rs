//! Rebalancing, under the name that users have for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Reference, Rest, Verbatim};

/// How a cluster is rebalanced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CruiseControl {
    /// What the brokers can take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_capacity: Option<BrokerCapacity>,
    /// Goals and thresholds, by Cruise Control's names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Verbatim>,
    /// What happens when brokers come or are about to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub auto_rebalance: Option<Vec<AutoRebalance>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the brokers can take.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrokerCapacity {
    /// Processor time, such as `1.5` or `1500m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([.][0-9]{0,3}|[m]?)$"))]
    pub cpu: Option<String>,
    /// Inbound bytes per second, such as `10000KiB/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMG]i?)?B/s$"))]
    pub inbound_network: Option<String>,
    /// Outbound bytes per second, such as `10000KiB/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMG]i?)?B/s$"))]
    pub outbound_network: Option<String>,
    /// Brokers that can take more or less than the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Vec<CapacityOverride>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What some brokers can take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityOverride {
    /// The node ids of the brokers.
    pub brokers: Vec<i64>,
    /// Processor time, such as `1.5` or `1500m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([.][0-9]{0,3}|[m]?)$"))]
    pub cpu: Option<String>,
    /// Inbound bytes per second, such as `10000KiB/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMG]i?)?B/s$"))]
    pub inbound_network: Option<String>,
    /// Outbound bytes per second, such as `10000KiB/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+([KMG]i?)?B/s$"))]
    pub outbound_network: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A rebalance that happens by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoRebalance {
    /// When it happens.
    pub mode: AutoRebalanceMode,
    /// The KafkaRebalance that says how; as Cruise Control would by default if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Reference>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// When a rebalance happens by itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AutoRebalanceMode {
    /// After brokers were added.
    AddBrokers,
    /// Before brokers are removed.
    RemoveBrokers,
}
