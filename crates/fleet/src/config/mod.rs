//! The configuration of a fleet manager.

mod auth;
mod quotas;

use control::cluster::quantity;
use fleet_control::{Capacity, Mode, NodeBounds};
use serde::{Deserialize, Serialize};

pub use auth::{Auth, KeySources, Realm};
pub use quotas::{Audit, Most, Quotas};

use crate::client::is_confidential;

/// Everything that is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where data planes may be.
    pub cloud_providers: Vec<CloudProvider>,
    /// What Kafkas there are to choose from.
    pub instance_types: Vec<InstanceType>,
    /// What one Kafka of Model T takes: the room that a data plane must have to be ready.
    pub model_t: Size,
    /// Whether reports decide about nodes, or a person.
    pub scaling: Scaling,
    /// Whose tokens are good.
    pub auth: Auth,
    /// How much one caller may ask.
    pub limits: Limits,
    /// How much organisations and users may have, unless an administrator has set something else for them.
    pub quotas: Quotas,
    /// What is kept of who asked for what.
    pub audit: Audit,
    /// How often and for how long.
    pub times: Times,
    /// What agents are told about their nodes.
    pub agent: AgentNodes,
    /// Where agents find this fleet manager.
    pub public_url: String,
    /// TLS of its own; without it a proxy in front has to speak TLS.
    pub tls: Option<TlsFiles>,
    /// OpenShift Cluster Manager, for regions whose provider is `ocm`.
    pub ocm: Option<OcmAccess>,
    /// Cluster API, for regions whose provider is `capi`.
    pub capi: Option<CapiAccess>,
    /// Data planes as processes of this machine, for regions whose provider is `local`.
    pub local: Option<LocalAccess>,
    /// Keycloak, where data planes have identities.
    pub keycloak: Option<KeycloakAccess>,
}

/// A certificate and its key, in PEM. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate, with what leads to its authority.
    pub certificate: std::path::PathBuf,
    /// Its key.
    pub key: std::path::PathBuf,
}

/// How OpenShift Cluster Manager is reached, and what it makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OcmAccess {
    /// Where it is.
    pub url: String,
    /// A file with a token for it.
    #[serde(default)]
    pub token_file: Option<std::path::PathBuf>,
    /// The type of the machines.
    pub machine_type: String,
}

/// How the management cluster of Cluster API is reached, and what it makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapiAccess {
    /// Its kubeconfig; that of the pod or of the user if none is named.
    #[serde(default)]
    pub kubeconfig: Option<std::path::PathBuf>,
    /// The namespace of the objects.
    pub namespace: String,
    /// The class of the clusters.
    pub class: String,
    /// The class of the workers.
    pub worker_class: String,
    /// The version of Kubernetes.
    pub version: String,
    /// The image of the agent, which is installed with its rights and its secret; none if only
    /// `agent_manifests` are to be applied.
    #[serde(default)]
    pub agent_image: Option<String>,
    /// More objects for the new cluster, as JSON; `{cluster-id}` is replaced.
    #[serde(default)]
    pub agent_manifests: Vec<serde_json::Value>,
}

/// Data planes as processes of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalAccess {
    /// Where they are kept. One fleet manager at a time has it.
    pub dir: std::path::PathBuf,
    /// What one node offers to pods, such as `cpu=2,memory=4Gi`; all that the machine has if empty.
    #[serde(default)]
    pub node_capacity: String,
    /// How often agents report when nothing changes, in seconds.
    #[serde(default = "minute")]
    pub report_seconds: u64,
}

/// How Keycloak is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeycloakAccess {
    /// `https://HOST/admin/realms/NAME`.
    pub realm_url: String,
    /// A file with a token that may manage clients.
    pub token_file: std::path::PathBuf,
    /// Where people are sent after they logged in to a data plane; `{cluster-id}` is replaced.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
}

/// A cloud provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudProvider {
    /// Its id.
    pub id: String,
    /// Its name for people.
    #[serde(default)]
    pub display_name: String,
    /// Its regions.
    pub regions: Vec<Region>,
}

/// A region of a cloud provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Its id.
    pub id: String,
    /// Its name for people.
    #[serde(default)]
    pub display_name: String,
    /// Who makes data planes here: `local`, `ocm`, `capi`; `standalone` ones are made by hand.
    pub provider: String,
    /// Whether data planes are in several zones.
    #[serde(default = "yes")]
    pub multi_az: bool,
    /// The nodes that a data plane begins with.
    #[serde(default = "three")]
    pub nodes: u32,
    /// The most data planes that are made by themselves. A person may ask for more.
    #[serde(default = "ten")]
    pub planes_max: u64,
}

/// A type of Kafkas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceType {
    /// Its id.
    pub id: String,
    /// Its name for people.
    #[serde(default)]
    pub display_name: String,
    /// Its sizes.
    pub sizes: Vec<Size>,
}

/// A size of Kafkas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Its id.
    pub id: String,
    /// Whether its brokers are in several zones.
    #[serde(default)]
    pub multi_az: bool,
    /// How many brokers it has.
    pub brokers: u32,
    /// Client connections.
    pub connections: u64,
    /// Partitions.
    pub partitions: u64,
    /// Bytes a second, in and out, such as `150Mi`.
    pub throughput: String,
    /// Bytes that are kept, such as `1000Gi`.
    pub retention: String,
    /// The memory of one broker, such as `2Gi`.
    #[serde(default = "memory")]
    pub memory: String,
    /// Thousandths of a processor of one broker.
    #[serde(default = "cpu")]
    pub cpu_milli: u64,
}

/// Who decides about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// The reports do.
    Auto,
    /// A person does.
    Manual,
}

/// How much one caller may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Requests a second, in the long run.
    pub requests_per_second: u32,
    /// Requests at once.
    pub burst: u32,
    /// The largest body.
    pub body_bytes: usize,
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address. A proxy in front has one.
    pub connections_per_address: usize,
    /// How long the headers of a request may take, and a handshake.
    pub header_ms: u64,
}

/// How often and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// Between two rounds of a worker.
    pub round_ms: u64,
    /// How long a worker's right holds without being renewed.
    pub lease_ms: u64,
    /// After that an agent is silent.
    pub silence_ms: u64,
    /// After that a Kafka without a place has failed.
    pub patience_ms: u64,
    /// How long a provider may take to answer.
    pub provider_ms: u64,
    /// After that a step of nodes that is not complete has failed.
    pub step_ms: u64,
    /// How long after a step up no nodes go: Kafkas that are being created have no clients yet.
    pub cool_down_ms: u64,
}

/// What agents are told about their nodes. A report that asks for more is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentNodes {
    /// The least number of nodes.
    pub nodes_min: u32,
    /// The most nodes.
    pub nodes_max: u32,
    /// The nodes of one step.
    pub node_delta: u32,
    /// Connections that one node gives room for.
    pub connections: u64,
    /// Partitions that one node gives room for.
    pub partitions: u64,
    /// Bytes a second that one node gives room for.
    pub throughput: String,
    /// Bytes that one node gives room for.
    pub retention: String,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An amount that cannot be read.
    #[error("{0} is not an amount of bytes")]
    Quantity(String),
    /// Tokens could not be checked.
    #[error(
        "auth needs issuers, and jwks_file or jwks_url for each of them; or local_tokens_only: true"
    )]
    Auth,
    /// A key of one issuer would be good for the tokens of another.
    #[error("auth.jwks_file and auth.jwks_url are for one issuer; give each realm its own")]
    SharedKeys,
    /// Anybody on the way could read what is sent, or change what is answered.
    #[error("{0} must begin with https://, unless it is a loopback address")]
    Insecure(String),
    /// A lease that ends before the provider must have answered.
    #[error("lease_ms must be more than provider_ms and more than twice round_ms")]
    Lease,
    /// Bounds that permit nothing.
    #[error("agent.nodes_min must not be above agent.nodes_max")]
    Nodes,
    /// A limit of nothing.
    #[error("{0} must not be 0")]
    Zero(&'static str),
}

fn yes() -> bool {
    true
}
fn three() -> u32 {
    3
}
fn ten() -> u64 {
    10
}
fn minute() -> u64 {
    60
}
fn memory() -> String {
    "1Gi".to_owned()
}
fn cpu() -> u64 {
    500
}

impl Size {
    /// What such a Kafka takes. An amount that cannot be read is none; [`Config::check`] has refused it.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        Capacity {
            connections: self.connections,
            partitions: self.partitions,
            throughput_bytes: quantity::bytes(&self.throughput).unwrap_or(0),
            retention_bytes: quantity::bytes(&self.retention).unwrap_or(0),
        }
    }
}

impl Config {
    /// What does not make sense, before anything is started.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let sizes = self.instance_types.iter().flat_map(|kind| &kind.sizes);
        for size in sizes.chain([&self.model_t]) {
            for text in [&size.throughput, &size.retention, &size.memory] {
                quantity::bytes(text).map_err(|_| ConfigError::Quantity(text.clone()))?;
            }
        }
        for text in [&self.agent.throughput, &self.agent.retention] {
            quantity::bytes(text).map_err(|_| ConfigError::Quantity(text.clone()))?;
        }
        let realms = [&self.auth.agent, &self.auth.public, &self.auth.admin];
        let is_incomplete = |realm: &&Realm| realm.issuer.is_empty() || realm.audience.is_empty();
        if !self.auth.local_tokens_only && realms.iter().any(is_incomplete) {
            return Err(ConfigError::Auth);
        }
        let keys = self.auth.sources()?.into_values().flat_map(|of| of.urls);
        let others = [
            (!self.public_url.is_empty()).then(|| self.public_url.clone()),
            self.ocm.as_ref().map(|ocm| ocm.url.clone()),
            self.keycloak.as_ref().map(|keycloak| keycloak.realm_url.clone()),
        ];
        for url in keys.chain(others.into_iter().flatten()) {
            if !is_confidential(&url) {
                return Err(ConfigError::Insecure(url));
            }
        }
        let Times { round_ms, lease_ms, provider_ms, .. } = self.times;
        if lease_ms <= provider_ms || lease_ms <= 2 * round_ms {
            return Err(ConfigError::Lease);
        }
        if self.agent.nodes_min > self.agent.nodes_max {
            return Err(ConfigError::Nodes);
        }
        if self.agent.node_delta == 0 {
            return Err(ConfigError::Zero("agent.node_delta"));
        }
        match self.limits {
            Limits { requests_per_second: 0, .. } => Err(ConfigError::Zero("requests_per_second")),
            Limits { burst: 0, .. } => Err(ConfigError::Zero("burst")),
            _ => Ok(()),
        }
    }

    /// Who decides about nodes, as `control` has it.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.scaling {
            Scaling::Auto => Mode::Auto,
            Scaling::Manual => Mode::Manual,
        }
    }

    /// What reports may ask for at most, as `fleet-control` has it.
    #[must_use]
    pub fn bounds(&self) -> NodeBounds {
        NodeBounds {
            nodes_min: self.agent.nodes_min,
            nodes_max: self.agent.nodes_max,
            node_delta_max: self.agent.node_delta,
        }
    }

    /// A region of a provider.
    #[must_use]
    pub fn region(&self, provider: &str, region: &str) -> Option<&Region> {
        let provider = self.cloud_providers.iter().find(|one| one.id == provider)?;
        provider.regions.iter().find(|one| one.id == region)
    }

    /// A size by its type and id.
    #[must_use]
    pub fn size(&self, kind: &str, size: &str) -> Option<&Size> {
        let kind = self.instance_types.iter().find(|one| one.id == kind)?;
        kind.sizes.iter().find(|one| one.id == size)
    }
}

impl Default for Config {
    fn default() -> Self {
        let size = |id: &str, multi_az: bool, numbers: (u32, u64, u64), bytes: (&str, &str)| Size {
            id: id.to_owned(),
            multi_az,
            brokers: numbers.0,
            connections: numbers.1,
            partitions: numbers.2,
            throughput: bytes.0.to_owned(),
            retention: bytes.1.to_owned(),
            memory: memory(),
            cpu_milli: cpu(),
        };
        let standard = vec![
            size("x1", true, (3, 9000, 1500), ("150Mi", "1000Gi")),
            size("x2", true, (6, 18000, 3000), ("300Mi", "2000Gi")),
        ];
        let developer = vec![size("x1", false, (1, 100, 100), ("2Mi", "10Gi"))];
        let kind = |id: &str, display: &str, sizes| InstanceType {
            id: id.to_owned(),
            display_name: display.to_owned(),
            sizes,
        };
        Self {
            cloud_providers: Vec::new(),
            instance_types: vec![
                kind("standard", "Standard", standard),
                kind("developer", "Trial", developer),
            ],
            model_t: size("model-t", false, (3, 100, 100), ("2Mi", "60Gi")),
            scaling: Scaling::Auto,
            auth: Auth::default(),
            limits: Limits::default(),
            quotas: Quotas::default(),
            audit: Audit::default(),
            times: Times::default(),
            agent: AgentNodes::default(),
            public_url: String::new(),
            tls: None,
            ocm: None,
            capi: None,
            local: None,
            keycloak: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        // An agent asks four times a minute, and a person seldom more than ten times a second.
        Self {
            requests_per_second: 50,
            burst: 200,
            body_bytes: 1 << 20,
            connections: 20_000,
            connections_per_address: 2_000,
            header_ms: 10_000,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            round_ms: 5_000,
            lease_ms: 60_000,
            // Three reports are missing.
            silence_ms: 180_000,
            patience_ms: 3_600_000,
            provider_ms: 30_000,
            // Machines of a cloud boot within ten minutes.
            step_ms: 1_800_000,
            cool_down_ms: fleet_control::COOL_DOWN_MS,
        }
    }
}

impl Default for AgentNodes {
    fn default() -> Self {
        // A Kafka of standard.x1 takes three nodes.
        Self {
            nodes_min: 3,
            nodes_max: 18,
            node_delta: 3,
            connections: 3000,
            partitions: 500,
            throughput: "50Mi".to_owned(),
            retention: "340Gi".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn realm(issuer: &str, url: Option<&str>) -> Realm {
        let jwks_url = url.map(str::to_owned);
        Realm { issuer: issuer.to_owned(), jwks_url, ..Realm::default() }
    }

    #[test]
    fn everything_has_a_limit_by_default() {
        let region = serde_json::json!({ "id": "r", "provider": "ocm" });
        let region: Region = serde_json::from_value(region).unwrap();
        assert_eq!(region.planes_max, 10);
        let Config { quotas, agent, .. } = Config::default();
        for most in [quotas.organisation, quotas.user] {
            assert!(most.kafkas <= 10 && most.connections <= 90_000 && most.partitions <= 15_000);
        }
        assert_eq!((agent.nodes_max, agent.node_delta), (18, 3));
    }

    #[test]
    fn secrets_are_not_sent_in_the_clear() {
        let with = |public_url: &str, jwks_url: &str| {
            let of = || realm("i", Some(jwks_url));
            Config {
                public_url: public_url.to_owned(),
                auth: Auth { agent: of(), public: of(), admin: of(), ..Auth::default() },
                ..Config::default()
            }
            .check()
        };
        assert!(with("https://fleet", "https://keys").is_ok());
        assert!(with("http://127.0.0.1:1", "http://[::1]/keys").is_ok());
        assert!(matches!(with("http://fleet", "https://keys"), Err(ConfigError::Insecure(_))));
        assert!(matches!(with("", "http://keys"), Err(ConfigError::Insecure(_))));
    }
}
