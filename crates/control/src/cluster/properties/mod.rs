//! The server properties of one node.
//!
//! What Strimzi writes, for Kafka as Apache ships it: certificates are read from mounted directories and
//! other facts of the place from files and the environment, by Kafka's own config providers. These are
//! resolved by the server and by the storage tool, in every setting, `listeners` among them.
//!
//! 1. A key is there once.
//! 2. There is one kind of quorum: its voters, or where to ask for them, and never both.
//! 3. Nodes talk to each other over TLS with certificates on both sides, always.
//! 4. A setting of the user's that is ours to make is left out, and its name is given back to be told.
//! 5. A node that advertises no address would be found by nobody: an address that is not known yet is an
//!    error, not a gap.
//! 6. The same input gives the same text, so that a text that differs is a change.
//!
//! The properties are in the order in which people look for them: who the node is, where its data is, how
//! it is reached, and what the user added.

pub(crate) mod java;
mod listeners;
mod render;
mod template;
mod user;

pub(crate) use listeners::CONTROLLER_TITLE;

use std::collections::BTreeMap;

use model::NodeId;

pub use listeners::{Address, NoAddress, Reason};
pub use render::render;
pub use template::{broker_text, is_host, port as evaluate_port};
pub use user::{OWN_PROVIDERS, RESERVED_PROVIDERS, forbidden};

use crate::cluster::spec::{ClusterSpec, ListenerKind, Rack};
use crate::node::Roles;
use crate::registration::KafkaVersion;

/// The port on which controllers are reached.
pub const CONTROLLER_PORT: u16 = 9090;
/// The port on which brokers reach each other.
pub const REPLICATION_PORT: u16 = 9091;

/// Where a node finds its own certificate: `<pod>.crt`, `<pod>.key`, and for each listener with a
/// certificate of the user's `<listener>-<port>.crt`, `<listener>-<port>.key`.
pub const CERTIFICATE_DIR: &str = "/opt/kafka/certs/node";
/// Where a node finds whom to trust: [`CLUSTER_TRUST`], [`CLIENTS_TRUST`].
pub const TRUST_DIR: &str = "/opt/kafka/certs/trust";
/// The authorities of nodes, as PEM.
pub const CLUSTER_TRUST: &str = "cluster-ca.crt";
/// The authorities of clients, as PEM.
pub const CLIENTS_TRUST: &str = "clients-ca.crt";
/// Where a broker finds what is known of the machine that it runs on: [`RACK_FILE`], [`ADDRESS_FILE`].
pub const MACHINE_DIR: &str = "/opt/kafka/init";
/// The file whose text is the rack.
pub const RACK_FILE: &str = "rack.id";
/// The file with the addresses of the machine, as properties `nodeport.<type>.address`, with the type as
/// Kubernetes writes it in lower case, and `nodeport.default.address`.
pub const ADDRESS_FILE: &str = "external.address";
/// The environment variable with the address of the pod, which is where a node listens.
pub const POD_IP: &str = "POD_IP";

/// The first version that can keep new partitions away from a broker's disks.
const CORDON_SINCE: KafkaVersion = KafkaVersion::new(4, 3, 0);
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// How the controllers find each other, and the others them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuorumProperties {
    /// The voters are written down: host by id.
    Static(BTreeMap<NodeId, String>),
    /// The voters are in the metadata; these are the controllers to ask first: host by id.
    Dynamic(BTreeMap<NodeId, String>),
}

/// What all nodes of a cluster have in common.
#[derive(Debug, Clone, Copy)]
pub struct ClusterInput<'a> {
    /// What was asked for, after validation.
    pub spec: &'a ClusterSpec,
    /// The Kafka that the node runs.
    pub version: KafkaVersion,
    /// The quorum.
    pub quorum: &'a QuorumProperties,
}

/// What is different for each node.
#[derive(Debug, Clone, Copy)]
pub struct NodeInput<'a> {
    /// Its id.
    pub id: NodeId,
    /// Its pod.
    pub pod: &'a str,
    /// What it is for.
    pub roles: Roles,
    /// The name by which other nodes reach it, without the domain of the Kubernetes cluster.
    pub host: &'a str,
    /// The domain of the Kubernetes cluster.
    pub domain: &'a str,
    /// Where the metadata log is.
    pub metadata_dir: &'a str,
    /// Where partitions are.
    pub log_dirs: &'a [String],
    /// How clients reach it, by the names of the listeners that are not internal.
    pub addresses: &'a BTreeMap<String, Address>,
    /// Whether it must get no new partitions.
    pub cordoned: bool,
}

/// The server properties of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Keys and values in the order of the file.
    pub properties: Vec<(String, String)>,
    /// Settings of the user's that were left out, by name.
    pub left_out: Vec<String>,
}

/// The server properties of one node.
///
/// # Errors
/// If it is not known how clients reach one of its listeners.
pub fn server(cluster: &ClusterInput<'_>, node: &NodeInput<'_>) -> Result<Server, Vec<NoAddress>> {
    let mut properties = Properties::default();
    let mut left_out = Vec::new();
    identity(&mut properties, cluster, node);
    storage(&mut properties, cluster, node);
    listeners::write(&mut properties, cluster.spec, node, &mut left_out)?;
    authorization(&mut properties, cluster.spec);
    providers(&mut properties, cluster.spec, node.roles);
    user::write(&mut properties, cluster.spec, &mut left_out);
    Ok(Server { properties: properties.0, left_out })
}

/// Whether brokers have to know the machine that they run on: only then is there a [`MACHINE_DIR`].
#[must_use]
pub fn needs_machine(spec: &ClusterSpec) -> bool {
    let by_label = matches!(spec.rack, Some(Rack::TopologyLabel(_)));
    by_label || spec.listeners.iter().any(|one| one.kind == ListenerKind::NodePort)
}

/// Keys and values in order; a key is there once.
#[derive(Debug, Default)]
struct Properties(Vec<(String, String)>);

impl Properties {
    fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(have, _)| *have == key) {
            Some((_, have)) => *have = value,
            None => self.0.push((key, value)),
        }
    }
}

fn identity(properties: &mut Properties, cluster: &ClusterInput<'_>, node: &NodeInput<'_>) {
    properties.set("node.id", node.id.to_string());
    if node.roles.is_broker() {
        match &cluster.spec.rack {
            None => {}
            Some(Rack::TopologyLabel(_)) => {
                properties.set("broker.rack", in_dir(MACHINE_DIR, RACK_FILE));
            }
            Some(Rack::Environment(name)) => properties.set("broker.rack", in_env(name)),
        }
    }
    properties.set("process.roles", node.roles.to_string());
    properties.set("controller.listener.names", listeners::CONTROLLER_TITLE);
    let join = |entries: Vec<String>| entries.join(",");
    match cluster.quorum {
        QuorumProperties::Static(voters) => {
            let voters = voters.iter().map(|(id, host)| format!("{id}@{host}:{CONTROLLER_PORT}"));
            properties.set("controller.quorum.voters", join(voters.collect()));
        }
        QuorumProperties::Dynamic(controllers) => {
            let servers = controllers.values().map(|host| format!("{host}:{CONTROLLER_PORT}"));
            properties.set("controller.quorum.bootstrap.servers", join(servers.collect()));
        }
    }
}

fn storage(properties: &mut Properties, cluster: &ClusterInput<'_>, node: &NodeInput<'_>) {
    properties.set("metadata.log.dir", node.metadata_dir);
    if node.cordoned && cluster.version >= CORDON_SINCE {
        properties.set("cordoned.log.dirs", "*");
    }
    properties.set("log.dirs", node.log_dirs.join(","));
}

/// Components of Strimzi with certificates of their own, by their common names.
const STRIMZI_COMPONENTS: [&str; 4] =
    ["entity-topic-operator", "entity-user-operator", "kafka-exporter", "cruise-control"];

fn authorization(properties: &mut Properties, spec: &ClusterSpec) {
    let Some(authorization) = &spec.authorization else { return };
    // The subjects of the certificates of the nodes and of the operator, and of the components of Strimzi that run after an
    // adoption. Only the cluster CA issues certificates of this organization.
    let components = STRIMZI_COMPONENTS.map(|component| format!("{}-{component}", spec.name));
    let own = [format!("{}-kafka", spec.name), "cluster-operator".to_owned()];
    let own = own.into_iter().chain(components).map(|name| format!("User:CN={name},O=io.strimzi"));
    let others = authorization.super_users.iter().map(|user| format!("User:{user}"));
    let users: Vec<_> = own.chain(others).collect();
    properties.set("authorizer.class.name", AUTHORIZER);
    properties.set("super.users", users.join(";"));
}

/// Our config providers; those of the user's are added in front of them.
fn providers(properties: &mut Properties, spec: &ClusterSpec, roles: Roles) {
    let package = "org.apache.kafka.common.config.provider";
    let env = ("EnvVarConfigProvider", "allowlist.pattern", ".*".to_owned());
    let mut paths = vec![CERTIFICATE_DIR, TRUST_DIR];
    let with_machine = roles.is_broker() && needs_machine(spec);
    if with_machine {
        // A path that is not there is an error to Kafka.
        paths.push(MACHINE_DIR);
    }
    let dir = ("DirectoryConfigProvider", "allowed.paths", paths.join(","));
    let mut all = vec![(ENV, env.clone()), (DIR, dir)];
    if with_machine {
        all.push((FILE, ("FileConfigProvider", "allowed.paths", MACHINE_DIR.to_owned())));
    }
    // Settings that came from Strimzi may name its providers.
    let strimzi = "/opt/kafka".to_owned();
    let theirs = [
        ("strimzienv", env),
        ("strimzifile", ("FileConfigProvider", "allowed.paths", strimzi.clone())),
        ("strimzidir", ("DirectoryConfigProvider", "allowed.paths", strimzi)),
    ];
    for (name, provider) in theirs {
        let reference = format!("${{{name}:");
        if spec.config.values().any(|value| value.contains(&reference)) {
            all.push((name, provider));
        }
    }
    let users = user::providers(spec);
    let names: Vec<_> = users.into_iter().chain(all.iter().map(|(name, _)| *name)).collect();
    properties.set("config.providers", names.join(","));
    for (name, (class, parameter, value)) in all {
        properties.set(format!("config.providers.{name}.class"), format!("{package}.{class}"));
        properties.set(format!("config.providers.{name}.param.{parameter}"), value);
    }
}

const ENV: &str = "gregorenv";
const DIR: &str = "gregordir";
const FILE: &str = "gregorfile";

/// The value of an environment variable.
fn in_env(name: &str) -> String {
    format!("${{{ENV}:{name}}}")
}

/// The text of a file.
fn in_dir(dir: &str, file: &str) -> String {
    format!("${{{DIR}:{dir}:{file}}}")
}

/// A property in a file.
fn in_file(dir: &str, file: &str, key: &str) -> String {
    format!("${{{FILE}:{dir}/{file}:{key}}}")
}

#[cfg(test)]
mod tests;
