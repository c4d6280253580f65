//! Existing objects of a cluster, by name. The operator reads them at the start of every pass.

use std::collections::BTreeMap;

use api::{KafkaNodePool, StrimziPodSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::Value;

/// Objects by name.
pub type ByName<K> = BTreeMap<String, K>;

/// An existing pool: typed, and as written.
#[derive(Debug, Clone)]
pub struct FoundPool {
    /// The pool.
    pub pool: KafkaNodePool,
    /// With all fields that its user wrote.
    pub written: Value,
}

/// The existing objects of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// When they were read, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its pools.
    pub pools: Vec<FoundPool>,
    /// Pools that cannot be parsed, with the reason.
    pub unreadable_pools: Vec<(String, String)>,
    /// Its pod sets.
    pub pod_sets: ByName<StrimziPodSet>,
    /// The pods of its Kafka nodes.
    pub pods: ByName<Pod>,
    /// Its Services.
    pub services: ByName<Service>,
    /// Its ConfigMaps.
    pub config_maps: ByName<ConfigMap>,
    /// Its Secrets.
    pub secrets: ByName<Secret>,
    /// Its PersistentVolumeClaims.
    pub claims: ByName<PersistentVolumeClaim>,
    /// Its ServiceAccounts.
    pub accounts: ByName<ServiceAccount>,
    /// Its NetworkPolicies.
    pub policies: ByName<NetworkPolicy>,
    /// Its PodDisruptionBudgets.
    pub budgets: ByName<PodDisruptionBudget>,
    /// Its ClusterRoleBindings. They are cluster-scoped: only the area that needs one reads it.
    pub bindings: ByName<ClusterRoleBinding>,
}
