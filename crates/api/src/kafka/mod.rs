//! `Kafka`: a cluster, its listeners, its security and its rebalancing.

pub mod cruise_control;
pub mod entity_operator;
pub mod exporter;
pub mod listener;
pub mod status;
pub mod template;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{JvmOptions, Rest, Verbatim};
use cruise_control::CruiseControl;
use entity_operator::EntityOperator;
use exporter::KafkaExporter;
use listener::Listener;
pub use status::KafkaStatus;
use template::KafkaTemplate;

/// A Kafka cluster as its user wants it.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "kafka.strimzi.io",
    version = "v1",
    kind = "Kafka",
    plural = "kafkas",
    namespaced,
    status = "KafkaStatus",
    shortname = "k",
    category = "strimzi",
    derive = "PartialEq",
    doc = "A Kafka cluster; its nodes are in KafkaNodePools.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        description = "Whether the cluster matches its spec",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Warnings",
        type_ = "string",
        description = "Whether there are warnings",
        json_path = r#".status.conditions[?(@.type=="Warning")].status"#
    ),
    printcolumn(
        name = "Kafka version",
        type_ = "string",
        description = "The version of Kafka that the cluster runs",
        json_path = ".status.kafkaVersion"
    ),
    printcolumn(
        name = "Metadata version",
        type_ = "string",
        description = "The metadata version that the cluster is on",
        json_path = ".status.kafkaMetadataVersion"
    )
)]
pub struct KafkaSpec {
    /// The Kafka cluster itself.
    pub kafka: KafkaCluster,
    /// Topics and users as resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_operator: Option<EntityOperator>,
    /// The authority that signs the certificates of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ca: Option<CertificateAuthority>,
    /// The authority that signs the certificates of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_ca: Option<CertificateAuthority>,
    /// Rebalancing; there is none if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cruise_control: Option<CruiseControl>,
    /// Metrics of topics and consumer lag, which the operator serves; there are none if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka_exporter: Option<KafkaExporter>,
    /// When certificates may be renewed, as cron expressions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance_time_windows: Option<Vec<String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What all nodes of a cluster share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaCluster {
    /// The version of Kafka; the newest that is supported if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The metadata version, such as `4.3-IV0`; that of the Kafka version if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_version: Option<String>,
    /// The image of the nodes; that of the Kafka version if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The ways in for clients.
    #[schemars(length(min = 1))]
    pub listeners: Vec<Listener>,
    /// Settings of Kafka, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Verbatim>,
    /// Who may do what; everybody everything if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<Authorization>,
    /// Where a broker learns which rack it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<Rack>,
    /// How the Java virtual machines are started; a pool may say otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jvm_options: Option<JvmOptions>,
    /// Times of the liveness probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// Times of the readiness probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Metrics of the nodes; there are none if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_config: Option<MetricsConfig>,
    /// What Kafka logs; at level INFO if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// What is added to generated objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<KafkaTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// The kind of rules.
    #[serde(rename = "type")]
    pub kind: AuthorizationType,
    /// Who may do everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub super_users: Option<Vec<String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A kind of rules about who may do what.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AuthorizationType {
    /// Kafka's own access control lists.
    Simple,
    /// A class of the user's.
    Custom,
    /// The Open Policy Agent; only in `v1beta2`.
    #[schemars(skip)]
    Opa,
    /// Keycloak; only in `v1beta2`.
    #[schemars(skip)]
    Keycloak,
}

/// Where a broker learns which rack it is in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// The rules are Strimzi's, word for word: they reject what it rejects and nothing else.
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": r#"(has(self.type) && self.type != "topology-label") || self.topologyKey != """#,
        "message": "topologyKey property is required",
    },
    {
        "rule": concat!(
            r#"has(self.type) == false || self.type != "environment-variable" "#,
            r#"|| self.envVarName != """#,
        ),
        "message": "envVarName property is required",
    },
]))]
pub struct Rack {
    /// Where from; `topology-label` if unset.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<RackType>,
    /// The label of Kubernetes nodes that names the rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_key: Option<String>,
    /// The environment variable that names the rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_var_name: Option<String>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where a broker learns which rack it is in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RackType {
    /// From a label of the Kubernetes node that it runs on.
    #[default]
    TopologyLabel,
    /// From an environment variable.
    EnvironmentVariable,
}

/// Times of a probe. A probe that is set replaces the default one as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Seconds before the first probe; 15 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub initial_delay_seconds: Option<i32>,
    /// Seconds until a probe times out; 5 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
    /// Seconds between probes; 10 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub period_seconds: Option<i32>,
    /// Successes after which the container counts as ready; 1 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub success_threshold: Option<i32>,
    /// Failures after which the container counts as failed; 3 if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub failure_threshold: Option<i32>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What Kafka logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logging {
    /// Where the configuration of log4j2 is.
    #[serde(rename = "type")]
    pub kind: LoggingType,
    /// Keys of log4j2, for `inline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loggers: Option<BTreeMap<String, String>>,
    /// The whole configuration, for `external`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EntrySource>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where the configuration of log4j2 is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum LoggingType {
    /// In the resource: keys that replace those of the default configuration, or are added.
    Inline,
    /// In a ConfigMap.
    External,
}

/// Metrics of the nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Strimzi's rule, word for word.
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type != 'jmxPrometheusExporter' || has(self.valueFrom)",
    "message": "valueFrom property is required",
}]))]
pub struct MetricsConfig {
    /// What makes the metrics.
    #[serde(rename = "type")]
    pub kind: MetricsType,
    /// The configuration of the exporter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EntrySource>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What makes metrics.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum MetricsType {
    /// The Prometheus exporter for JMX.
    JmxPrometheusExporter,
    /// Strimzi's own reporter.
    StrimziMetricsReporter,
}

/// Where a configuration is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntrySource {
    /// An entry of a ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyReference>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An entry of a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyReference {
    /// The name of the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether it may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// An authority that signs certificates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateAuthority {
    /// Whether we make it; if not, its Secrets are the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_certificate_authority: Option<bool>,
    /// Whether its Secrets go with the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_secret_owner_reference: Option<bool>,
    /// For how many days its certificates hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub validity_days: Option<i64>,
    /// How many days before they expire its certificates are renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub renewal_days: Option<i64>,
    /// What happens when its certificate expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_expiration_policy: Option<ExpirationPolicy>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

impl CertificateAuthority {
    /// Whether we make the authority: yes if unset.
    pub fn is_generated(&self) -> bool {
        self.generate_certificate_authority.unwrap_or(true)
    }

    /// Whether the Secrets go with the cluster: yes if unset.
    pub fn is_owned(&self) -> bool {
        self.generate_secret_owner_reference.unwrap_or(true)
    }

    /// For how many days certificates hold: a year if unset.
    pub fn validity_days(&self) -> i64 {
        self.validity_days.unwrap_or(365)
    }

    /// How many days before they expire certificates are renewed: a month if unset.
    pub fn renewal_days(&self) -> i64 {
        self.renewal_days.unwrap_or(30)
    }
}

/// What happens when the certificate of an authority expires.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExpirationPolicy {
    /// A new certificate for the same key.
    #[default]
    RenewCertificate,
    /// A new key.
    ReplaceKey,
}
