//! `spec.kafkaExporter` of a `Kafka`: metrics of topics and of consumer groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Rest;

/// Metrics of topics and consumer lag, which the operator serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaExporter {
    /// Topics that match have metrics; all if unset. The expression matches anywhere in a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_regex: Option<String>,
    /// Topics that match have no metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_exclude_regex: Option<String>,
    /// Groups that match have metrics; all if unset. The expression matches anywhere in an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_regex: Option<String>,
    /// Groups that match have no metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_exclude_regex: Option<String>,
    /// Whether groups have metrics for partitions that none of their members reads now; they have if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_all_offsets: Option<bool>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
