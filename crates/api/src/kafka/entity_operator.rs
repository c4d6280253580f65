//! `spec.entityOperator` of a `Kafka`: whether topics and users are managed as resources, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::template::ContainerTemplate;
use crate::common::Rest;

/// Topics and users as resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityOperator {
    /// Topics; resources of topics are not acted on if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_operator: Option<TopicOperator>,
    /// Users; resources of users are not acted on if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_operator: Option<UserOperator>,
    /// What Strimzi adds to the pod that it runs for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<EntityOperatorTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How topics are managed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopicOperator {
    /// The namespace of the resources; that of the cluster if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_namespace: Option<String>,
    /// How often all topics are compared with Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub reconciliation_interval_ms: Option<i64>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How users are managed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserOperator {
    /// The namespace of the resources and of their Secrets; that of the cluster if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched_namespace: Option<String>,
    /// How often all users are compared with Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub reconciliation_interval_ms: Option<i64>,
    /// What the names of Secrets begin with, before the name of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_prefix: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What Strimzi adds to the pod that it runs for both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityOperatorTemplate {
    /// The container for topics. Its environment variables choose how topics are managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_operator_container: Option<ContainerTemplate>,
    /// The container for users. Its environment variables choose how users are managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_operator_container: Option<ContainerTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
