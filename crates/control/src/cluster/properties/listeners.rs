//! The listeners of a node: where it listens, what it advertises, whom it lets in.

use std::fmt;

use super::template::{self, InvalidPort};
use super::{
    CERTIFICATE_DIR, CLIENTS_TRUST, CLUSTER_TRUST, CONTROLLER_PORT, NodeInput, POD_IP, Properties,
    REPLICATION_PORT, TRUST_DIR, in_dir, in_env, in_file,
};
use crate::cluster::properties::{ADDRESS_FILE, MACHINE_DIR};
use crate::cluster::spec::{Authentication, ClusterSpec, Listener, ListenerKind};

/// The listener of controllers in Kafka's lists.
pub(crate) const CONTROLLER_TITLE: &str = "CONTROLPLANE-9090";
const CONTROLLER_KEY: &str = "controlplane-9090";
const REPLICATION_TITLE: &str = "REPLICATION-9091";
const REPLICATION_KEY: &str = "replication-9091";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required ;";
/// Settings of custom authentication that would replace what the node shows of itself.
const KEYSTORE: &str = "ssl.keystore.";

/// Where clients of a listener reach a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name or an address; `None` for the machine that the broker happens to run on.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
}

/// A listener of which it is not known how clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAddress {
    /// The name of the listener.
    pub listener: String,
    /// Why.
    pub reason: Reason,
}

/// Why an address is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Its Service has none yet.
    Service,
    /// The user's template gives no port for this node.
    Port(InvalidPort),
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listener = &self.listener;
        match &self.reason {
            Reason::Service => write!(f, "the Service of listener {listener} has no address yet"),
            Reason::Port(invalid) => write!(f, "listener {listener}: {invalid}"),
        }
    }
}

/// One line in each of Kafka's lists.
struct Entry {
    title: String,
    protocol: &'static str,
    /// Where the node listens; `None` if it does not and only has to know the protocol.
    port: Option<u16>,
    advertised: (String, u16),
}

/// Writes everything about the listeners of a node.
pub(super) fn write(
    properties: &mut Properties,
    spec: &ClusterSpec,
    node: &NodeInput<'_>,
    left_out: &mut Vec<String>,
) -> Result<(), Vec<NoAddress>> {
    let own = |title: &str, port, listens: bool| Entry {
        title: title.to_owned(),
        protocol: "SSL",
        port: listens.then_some(port),
        advertised: (node.host.to_owned(), port),
    };
    let mut entries = vec![own(CONTROLLER_TITLE, CONTROLLER_PORT, node.roles.is_controller())];
    internal(properties, CONTROLLER_KEY, node.pod);
    if node.roles.is_broker() {
        internal(properties, REPLICATION_KEY, node.pod);
        entries.push(own(REPLICATION_TITLE, REPLICATION_PORT, true));
        entries.extend(of_user(spec, node)?);
        for listener in &spec.listeners {
            client(properties, listener, node.pod, left_out);
        }
    }
    lists(properties, &entries, node);
    Ok(())
}

/// The listeners of the user's.
fn of_user(spec: &ClusterSpec, node: &NodeInput<'_>) -> Result<Vec<Entry>, Vec<NoAddress>> {
    let (mut entries, mut missing) = (Vec::new(), Vec::new());
    for listener in &spec.listeners {
        match advertised(listener, node) {
            Ok(advertised) => entries.push(Entry {
                title: listener.title(),
                protocol: protocol(listener),
                port: Some(listener.port),
                advertised,
            }),
            Err(reason) => missing.push(NoAddress { listener: listener.name.clone(), reason }),
        }
    }
    if missing.is_empty() { Ok(entries) } else { Err(missing) }
}

fn protocol(listener: &Listener) -> &'static str {
    let sasl = match &listener.authentication {
        Authentication::None | Authentication::Tls => false,
        Authentication::ScramSha512 => true,
        Authentication::Custom { sasl, .. } => *sasl,
    };
    match (sasl, listener.tls) {
        (false, false) => "PLAINTEXT",
        (false, true) => "SSL",
        (true, false) => "SASL_PLAINTEXT",
        (true, true) => "SASL_SSL",
    }
}

/// What the node tells clients of this listener to connect to. The user's word on a broker goes before
/// the user's template, and that before what we know.
fn advertised(listener: &Listener, node: &NodeInput<'_>) -> Result<(String, u16), Reason> {
    let settings = listener.brokers.get(&node.id);
    let host = match (settings.and_then(|w| w.advertised_host.as_ref()), &listener.advertised_host)
    {
        (Some(host), _) => Some(host.clone()),
        (None, Some(text)) => Some(template::broker_text(text, node.id, node.pod)),
        (None, None) => None,
    };
    let port = match (settings.and_then(|w| w.advertised_port), &listener.advertised_port) {
        (Some(port), _) => Some(port),
        (None, Some(text)) => Some(template::port(text, node.id).map_err(Reason::Port)?),
        (None, None) => None,
    };
    if let (Some(host), Some(port)) = (&host, port) {
        return Ok((host.clone(), port));
    }
    let (own_host, own_port) = own_address(listener, node).ok_or(Reason::Service)?;
    Ok((host.unwrap_or(own_host), port.unwrap_or(own_port)))
}

fn own_address(listener: &Listener, node: &NodeInput<'_>) -> Option<(String, u16)> {
    let domain = match listener.with_dns_domain {
        true => format!(".{}", node.domain),
        false => String::new(),
    };
    match listener.kind {
        ListenerKind::Internal => Some((format!("{}{domain}", node.host), listener.port)),
        ListenerKind::ClusterIp => {
            let address = node.addresses.get(&listener.name)?;
            Some((format!("{}{domain}", address.host.as_ref()?), address.port))
        }
        ListenerKind::NodePort | ListenerKind::LoadBalancer => {
            let address = node.addresses.get(&listener.name)?;
            let host = address.host.clone().unwrap_or_else(|| of_machine(listener));
            Some((host, address.port))
        }
    }
}

/// The address of the machine that the broker happens to run on.
fn of_machine(listener: &Listener) -> String {
    let kind = listener.node_address.map_or("default", |kind| kind.name()).to_lowercase();
    in_file(MACHINE_DIR, ADDRESS_FILE, &format!("nodeport.{kind}.address"))
}

/// A listener on which nodes talk to each other: certificates on both sides.
fn internal(properties: &mut Properties, key: &str, pod: &str) {
    let prefix = format!("listener.name.{key}");
    trust(properties, &prefix, CLUSTER_TRUST);
    certificate(properties, &prefix, pod);
    properties.set(format!("{prefix}.ssl.client.auth"), "required");
}

fn trust(properties: &mut Properties, prefix: &str, file: &str) {
    properties.set(format!("{prefix}.ssl.truststore.certificates"), in_dir(TRUST_DIR, file));
    properties.set(format!("{prefix}.ssl.truststore.type"), "PEM");
}

fn certificate(properties: &mut Properties, prefix: &str, name: &str) {
    let file = |end: &str| in_dir(CERTIFICATE_DIR, &format!("{name}.{end}"));
    properties.set(format!("{prefix}.ssl.keystore.certificate.chain"), file("crt"));
    properties.set(format!("{prefix}.ssl.keystore.key"), file("key"));
    properties.set(format!("{prefix}.ssl.keystore.type"), "PEM");
}

/// A listener for clients.
fn client(properties: &mut Properties, listener: &Listener, pod: &str, left_out: &mut Vec<String>) {
    let prefix = format!("listener.name.{}", listener.key());
    match &listener.authentication {
        Authentication::None => {}
        Authentication::Tls => {
            properties.set(format!("{prefix}.ssl.client.auth"), "required");
            trust(properties, &prefix, CLIENTS_TRUST);
        }
        Authentication::ScramSha512 => {
            properties.set(format!("{prefix}.scram-sha-512.sasl.jaas.config"), SCRAM);
            properties.set(format!("{prefix}.sasl.enabled.mechanisms"), "SCRAM-SHA-512");
        }
        Authentication::Custom { config, .. } => {
            for (key, value) in config {
                match key.to_lowercase().starts_with(KEYSTORE) {
                    true => left_out.push(format!("{prefix}.{key}")),
                    false => properties.set(format!("{prefix}.{key}"), value),
                }
            }
        }
    }
    let limits = [
        ("max.connections", listener.connections_max),
        ("max.connection.creation.rate", listener.connection_creation_rate_max),
    ];
    for (key, limit) in limits {
        if let Some(limit) = limit {
            properties.set(format!("{prefix}.{key}"), limit.to_string());
        }
    }
    if listener.tls {
        let of_user = listener.certificate.as_ref().map(|_| listener.key());
        certificate(properties, &prefix, of_user.as_deref().unwrap_or(pod));
    }
}

/// Kafka's lists of listeners. A broker names the protocol of the controllers' listener, though it does not
/// listen there.
fn lists(properties: &mut Properties, entries: &[Entry], node: &NodeInput<'_>) {
    let join = |lines: Vec<String>| lines.join(",");
    let protocols = entries.iter().map(|one| format!("{}:{}", one.title, one.protocol));
    properties.set("listener.security.protocol.map", join(protocols.collect()));
    // In brackets, which Kafka takes around any address and needs around one of IPv6.
    let bind = in_env(POD_IP);
    let listened = entries.iter().filter_map(|one| Some((one, one.port?)));
    let listening = listened.clone().map(|(one, port)| format!("{}://[{bind}]:{port}", one.title));
    properties.set("listeners", join(listening.collect()));
    if node.roles.is_broker() {
        properties.set("inter.broker.listener.name", REPLICATION_TITLE);
    }
    let advertised = listened.map(|(one, _)| {
        let (host, port) = &one.advertised;
        match host.contains(':') && !host.starts_with(['[', '$']) {
            true => format!("{}://[{host}]:{port}", one.title),
            false => format!("{}://{host}:{port}", one.title),
        }
    });
    properties.set("advertised.listeners", join(advertised.collect()));
    // Empty, so that no mechanism is on for a listener that does not name its own.
    properties.set("sasl.enabled.mechanisms", "");
    properties.set("ssl.endpoint.identification.algorithm", "HTTPS");
}
