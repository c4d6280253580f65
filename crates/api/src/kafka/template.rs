//! Templates: what the user adds to the objects that are generated.
//!
//! Parts that Kubernetes defines are passed on verbatim: a copy of its types would lose the fields
//! that it does not know yet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{
    AdditionalVolume, ObjectTemplate, Reference, ResourceTemplate, Rest, Verbatim,
};
use crate::kafka::listener::{IpFamily, IpFamilyPolicy};

/// What the user adds to the objects of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaTemplate {
    /// The pods of Kafka nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodTemplate>,
    /// The container of a Kafka node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka_container: Option<ContainerTemplate>,
    /// The init container, which reads facts of the Kubernetes Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_container: Option<ContainerTemplate>,
    /// The Service where clients inside the cluster begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_service: Option<ServiceTemplate>,
    /// The headless Service of all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brokers_service: Option<ServiceTemplate>,
    /// The Services where clients outside the cluster begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_bootstrap_service: Option<ResourceTemplate>,
    /// The Service of each broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_pod_service: Option<ResourceTemplate>,
    /// The claims for storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ResourceTemplate>,
    /// The PodDisruptionBudget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetTemplate>,
    /// The pod sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_set: Option<ResourceTemplate>,
    /// The ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ResourceTemplate>,
    /// The Secret with the certificates of the cluster's authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ca_cert: Option<ResourceTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the user adds to the objects of a pool; a part that is set here replaces that of the
/// cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolTemplate {
    /// The pods of Kafka nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodTemplate>,
    /// The container of a Kafka node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka_container: Option<ContainerTemplate>,
    /// The init container, which reads facts of the Kubernetes Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_container: Option<ContainerTemplate>,
    /// The Service of each broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_pod_service: Option<ResourceTemplate>,
    /// The claims for storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ResourceTemplate>,
    /// The pod set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_set: Option<ResourceTemplate>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the user adds to a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectTemplate>,
    /// Secrets for the registries of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secrets: Option<Vec<Reference>>,
    /// The security context of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Verbatim>,
    /// How long the processes have to end; 30 s if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Where the pod would like or has to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Verbatim>,
    /// The taints that it bears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Verbatim>>,
    /// How pods are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<Verbatim>>,
    /// The name of its priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The scheduler that places it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Entries of its hosts file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_aliases: Option<Vec<Verbatim>>,
    /// How it resolves names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<DnsPolicy>,
    /// Details of how it resolves names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<Verbatim>,
    /// Whether Services are announced in its environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_service_links: Option<bool>,
    /// The size of its folder for temporary files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"))]
    pub tmp_dir_size_limit: Option<String>,
    /// Volumes besides its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<AdditionalVolume>>,
    /// Volumes whose names have the placeholders `{nodeId}` and `{nodePodName}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templated_volumes: Option<Vec<AdditionalVolume>>,
    /// Whether its users are those of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How a pod resolves names.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum DnsPolicy {
    /// By the cluster, then by the machine.
    ClusterFirst,
    /// The same for pods in the network of the machine.
    ClusterFirstWithHostNet,
    /// By the machine.
    Default,
    /// As its DNS settings say.
    None,
}

/// What the user adds to a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerTemplate {
    /// Environment variables besides its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<Verbatim>>,
    /// The security context of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Verbatim>,
    /// Mounts of the pod's additional volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<Verbatim>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the user adds to a Service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplate {
    /// Labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectTemplate>,
    /// How many IP families it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_family_policy: Option<IpFamilyPolicy>,
    /// Which IP families it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_families: Option<Vec<IpFamily>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What the user says of the PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudgetTemplate {
    /// Labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectTemplate>,
    /// How many pods may be evicted at a time; one if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_unavailable: Option<i64>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}
