//! `KafkaUser`: a user of a Kafka cluster.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::common::{Condition, ResourceTemplate, Rest};

/// The desired user.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "kafka.strimzi.io",
    version = "v1",
    kind = "KafkaUser",
    plural = "kafkausers",
    namespaced,
    status = "KafkaUserStatus",
    shortname = "ku",
    category = "strimzi",
    derive = "PartialEq",
    doc = "A user of a Kafka cluster; the cluster is named by a label.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        description = "The cluster of the user",
        json_path = r".metadata.labels.strimzi\.io/cluster"
    ),
    printcolumn(
        name = "Authentication",
        type_ = "string",
        description = "How the user is authenticated",
        json_path = ".spec.authentication.type"
    ),
    printcolumn(
        name = "Authorization",
        type_ = "string",
        description = "How the user is authorized",
        json_path = ".spec.authorization.type"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether the user matches its spec",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    )
)]
pub struct KafkaUserSpec {
    /// How the user is authenticated. Without it, only access rules and quotas are managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<UserAuthentication>,
    /// What the user may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<UserAuthorization>,
    /// How much of the cluster the user may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotas: Option<UserQuotas>,
    /// What the user of the resource adds to generated objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<UserTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How a user is authenticated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// The rules are Strimzi's, word for word.
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type == 'tls' || (!has(self.validityDays) && !has(self.renewalDays))",
        "message": "'validityDays' and 'renewalDays' can be configured only with 'type: tls'",
    },
    {
        "rule": "self.type != 'tls' || (has(self.renewalDays) == has(self.validityDays))",
        "message": "Both 'validityDays' and 'renewalDays' must be set together, or both must be unset.",
    },
    {
        "rule": concat!(
            "self.type != 'tls' || !has(self.renewalDays) || !has(self.validityDays) ",
            "|| self.renewalDays < self.validityDays",
        ),
        "message": "'renewalDays' must be less than 'validityDays'.",
    },
]))]
pub struct UserAuthentication {
    /// The kind of authentication.
    #[serde(rename = "type")]
    pub kind: UserAuthenticationType,
    /// The password; generated if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// For how many days the certificate is valid; as the clients CA says if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub validity_days: Option<i64>,
    /// How many days before it expires the certificate is renewed; as the clients CA says if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub renewal_days: Option<i64>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A kind of authentication.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum UserAuthenticationType {
    /// A certificate that the operator issues.
    #[serde(rename = "tls")]
    Tls,
    /// A certificate that another authority issues.
    #[serde(rename = "tls-external")]
    TlsExternal,
    /// A password.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

/// Where the password of a user is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Password {
    /// The source.
    pub value_from: PasswordSource,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The source of a password.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasswordSource {
    /// An entry of a Secret in the namespace of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<SecretEntry>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An entry of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretEntry {
    /// The name of the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Not used: the Secret must exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What a user may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserAuthorization {
    /// The kind of authorization.
    #[serde(rename = "type")]
    pub kind: UserAuthorizationType,
    /// The access rules.
    pub acls: Vec<AclRule>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A kind of authorization.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum UserAuthorizationType {
    /// Kafka's own access control lists.
    Simple,
}

/// An access rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AclRule {
    /// Whether it allows or denies; it allows if unset.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<AclRuleType>,
    /// What it is about.
    pub resource: AclRuleResource,
    /// The address from which the user connects; any if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What it allows or denies.
    // `v1beta2` has a field `operation` instead, so that it may be absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub operations: Option<Vec<AclOperation>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Whether a rule allows or denies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum AclRuleType {
    /// It allows.
    Allow,
    /// It denies, whatever else allows.
    Deny,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AclRuleResource {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: AclResourceType,
    /// Its name; `*` is all of that kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the name is the name itself or how names begin; the name itself if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern_type: Option<AclPatternType>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A kind of resource in Kafka.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum AclResourceType {
    /// A topic.
    Topic,
    /// A consumer group.
    Group,
    /// The cluster itself.
    Cluster,
    /// A transactional id.
    TransactionalId,
}

/// How the name of a resource is meant.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum AclPatternType {
    /// The name itself.
    Literal,
    /// How names begin.
    Prefix,
}

/// What a rule allows or denies.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum AclOperation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Creating.
    Create,
    /// Deleting.
    Delete,
    /// Changing.
    Alter,
    /// Describing.
    Describe,
    /// Acting as a node of the cluster.
    ClusterAction,
    /// Changing the configuration.
    AlterConfigs,
    /// Describing the configuration.
    DescribeConfigs,
    /// Writing without duplicates.
    IdempotentWrite,
    /// Everything.
    All,
}

/// How much of the cluster a user may take, on each broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserQuotas {
    /// Bytes that it may produce in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub producer_byte_rate: Option<i64>,
    /// Bytes that it may consume in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub consumer_byte_rate: Option<i64>,
    /// The share of the request handlers' time, in per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub request_percentage: Option<i64>,
    /// Partitions that it may create or delete in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub controller_mutation_rate: Option<Number>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is added to generated objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserTemplate {
    /// The Secret with the credentials of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<ResourceTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What is known of a user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaUserStatus {
    /// What holds of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// The generation of the resource that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The name by which Kafka knows the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The Secret with the credentials of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
