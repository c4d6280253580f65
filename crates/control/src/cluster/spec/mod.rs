//! What somebody asked for, as plain types: a cluster, its listeners and its pools of nodes.
//!
//! Made by `api::read` from the custom resources. What these types can hold makes sense by itself; whether
//! it makes sense together is for `validate`. Nothing here knows how Kubernetes writes it.

mod listener;
mod storage;
mod template;

use std::collections::BTreeMap;

pub use listener::{
    Authentication, BrokerSettings, Certificate, Listener, ListenerKind, NodeAddress,
    ServiceSettings, Services,
};
pub use storage::{Claim, Disk, Size, Storage, Volume};
pub use template::{PodTemplate, Written};

use crate::lag::Patterns;
use crate::node::Roles;
use crate::rolling::quorum::FETCH_TIMEOUT_DEFAULT_MS;

/// A cluster as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSpec {
    /// The name of the `Kafka`.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// The version of Kafka; the newest that is known if `None`.
    pub kafka_version: Option<String>,
    /// The metadata version; that of the Kafka version if `None`.
    pub metadata_version: Option<String>,
    /// The image of the nodes; that of the Kafka version if `None`.
    pub image: Option<String>,
    /// The ways in for clients, in the order in which they were written.
    pub listeners: Vec<Listener>,
    /// Settings of Kafka, as Kafka writes their values. Unfiltered.
    pub config: BTreeMap<String, String>,
    /// Who may do what; everybody everything if `None`.
    pub authorization: Option<Authorization>,
    /// Where a broker learns which rack it is in; brokers have none if `None`.
    pub rack: Option<Rack>,
    /// The rules of the exporter of metrics, if metrics were asked for.
    pub metrics: Option<ConfigMapEntry>,
    /// What Kafka logs.
    pub logging: Logging,
    /// Which metrics of topics and groups there are, if they were asked for.
    pub exporter: Option<Patterns>,
    /// The namespace of the resources of topics, if topics are managed as resources.
    pub topics_namespace: Option<String>,
    /// The namespace of the resources of users, if users are managed as resources.
    pub users_namespace: Option<String>,
    /// The authority that signs the certificates of nodes.
    pub cluster_ca: Authority,
    /// The authority that signs the certificates of clients.
    pub clients_ca: Authority,
    /// How many pods may be evicted at a time.
    pub max_unavailable: u32,
    /// The pools, by name.
    pub pools: Vec<PoolSpec>,
    /// Labels and annotations that templates add to generated objects.
    pub template_keys: Vec<TemplateKey>,
    /// What templates pass on to pods.
    pub pod_templates: Vec<PodTemplate>,
}

impl ClusterSpec {
    /// How many brokers were asked for, in all pools.
    #[must_use]
    pub fn brokers(&self) -> u64 {
        self.count(Roles::is_broker)
    }

    /// How many controllers were asked for, in all pools.
    #[must_use]
    pub fn controllers(&self) -> u64 {
        self.count(Roles::is_controller)
    }

    /// How long a controller may lag behind before it counts as out of date.
    #[must_use]
    pub fn fetch_timeout_ms(&self) -> u64 {
        let set = self.config.get("controller.quorum.fetch.timeout.ms");
        set.and_then(|ms| ms.trim().parse().ok()).unwrap_or(FETCH_TIMEOUT_DEFAULT_MS)
    }

    fn count(&self, counts: impl Fn(Roles) -> bool) -> u64 {
        let pools = self.pools.iter().filter(|pool| counts(pool.roles));
        pools.map(|pool| u64::from(pool.replicas)).sum()
    }
}

/// Who may do what. Only Kafka's own access control lists are supported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authorization {
    /// Who may do everything, besides ourselves: principals without `User:`.
    pub super_users: Vec<String>,
}

/// Where a broker learns which rack it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rack {
    /// From this label of the Kubernetes node that it runs on.
    TopologyLabel(String),
    /// From this environment variable.
    Environment(String),
}

/// What Kafka logs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Logging {
    /// The default configuration.
    #[default]
    Default,
    /// The default configuration with these keys of log4j2, which replace its own or are added.
    Inline(BTreeMap<String, String>),
    /// The text of an entry of a ConfigMap.
    External(ConfigMapEntry),
}

/// An entry of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapEntry {
    /// The ConfigMap.
    pub config_map: String,
    /// The entry.
    pub key: String,
}

/// How an authority signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority {
    /// Whether its Secrets go with the cluster.
    pub owned: bool,
    /// For how many days its certificates hold.
    pub validity_days: u32,
    /// How many days before their end they are renewed.
    pub renewal_days: u32,
}

impl Default for Authority {
    /// As Strimzi has it.
    fn default() -> Self {
        Self { owned: true, validity_days: 365, renewal_days: 30 }
    }
}

/// A label or an annotation that somebody adds to a generated object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateKey {
    /// Where it was written, such as `spec.kafka.template.pod.metadata.labels`.
    pub place: String,
    /// Its name.
    pub key: String,
}

/// Nodes that are alike, as they were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// The name of the `KafkaNodePool`.
    pub name: String,
    /// What its nodes are for.
    pub roles: Roles,
    /// How many.
    pub replicas: u32,
    /// Where they keep their data.
    pub storage: Storage,
    /// How their JVMs are started; those of the cluster unless the pool has its own.
    pub jvm: JvmSettings,
    /// The memory that a node may use: its limit, or what it asks for.
    pub memory_bytes: Option<u64>,
}

/// How a JVM is started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JvmSettings {
    /// The value of `-Xmx`.
    pub heap_max: Option<String>,
    /// The value of `-Xms`.
    pub heap_initial: Option<String>,
    /// Options that begin with `-XX:`, by name.
    pub xx: BTreeMap<String, String>,
    /// Whether the garbage collector says what it does.
    pub gc_logging: bool,
    /// System properties, in the order in which they were written.
    pub system_properties: Vec<(String, String)>,
}
