//! Configuration of a cluster, and the server properties of its nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Port for clients and for replication.
pub const BROKER_PORT: u16 = 9092;
/// Port of the controllers.
pub const CONTROLLER_PORT: u16 = 9093;
/// Port of the SASL listener, if the cluster has one.
pub const SASL_PORT: u16 = 9094;

/// Predefined users of the SASL listener, with their passwords.
pub const PLAIN_USERS: [(&str, &str); 2] = [("admin", "admin-secret"), ("alice", "alice-secret")];

/// The client certificate name that is a super user of the authorizer.
pub const TLS_SUPER_USER: &str = "admin";

/// Common name in the certificates of all nodes.
pub(crate) const TLS_NODE: &str = "gregor-node";

/// Mode of the controller quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quorum {
    /// `controller.quorum.bootstrap.servers`: voters are stored in the metadata log and can change.
    #[default]
    Dynamic,
    /// `controller.quorum.voters`: the voters are fixed.
    Static,
}

/// Security protocol of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// No encryption; every client is `User:ANONYMOUS`.
    #[default]
    Plaintext,
    /// Mutual TLS on every listener, with a certificate authority of the cluster.
    Tls,
}

/// Process roles of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Only a controller.
    Controller,
    /// Only a broker.
    Broker,
    /// Both in one process.
    Combined,
}

impl Role {
    #[must_use]
    pub const fn is_controller(self) -> bool {
        matches!(self, Self::Controller | Self::Combined)
    }

    #[must_use]
    pub const fn is_broker(self) -> bool {
        matches!(self, Self::Broker | Self::Combined)
    }

    /// The id of the first node of this role.
    pub(crate) const fn first_id(self) -> i32 {
        match self {
            Self::Controller => 0,
            Self::Broker => 100,
            Self::Combined => 200,
        }
    }

    /// Maximum number of nodes of a role: the last octet of an address is the id (plus one for controllers,
    /// because an address that ends in 0 looks like a network).
    pub(crate) const fn count_max(self) -> usize {
        match self {
            Self::Controller => 99,
            Self::Broker => 100,
            Self::Combined => 50,
        }
    }

    /// The last octet of a node's address.
    pub(crate) fn octet(self, id: i32) -> u8 {
        let octet = if self == Self::Controller { id + 1 } else { id };
        u8::try_from(octet).expect("node ids are within count_max of their role")
    }

    const fn process_roles(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Broker => "broker",
            Self::Combined => "broker,controller",
        }
    }
}

/// The configuration of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) quorum: Quorum,
    pub(crate) security: Security,
    pub(crate) sasl_listeners: bool,
    pub(crate) authorizer: bool,
    pub(crate) broker: Vec<(String, String)>,
    pub(crate) controller: Vec<(String, String)>,
    pub(crate) node: BTreeMap<i32, Vec<(String, String)>>,
}

/// Id, role, address and directories of a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeSpec {
    pub(crate) id: i32,
    pub(crate) role: Role,
    pub(crate) host: String,
    /// The directory with all files of the node.
    pub(crate) dir: PathBuf,
    /// The first one has the metadata log.
    pub(crate) log_dirs: Vec<PathBuf>,
}

impl NodeSpec {
    /// The server properties file.
    pub(crate) fn properties_file(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    /// The node's key and certificate.
    pub(crate) fn key_store(&self) -> PathBuf {
        self.dir.join("node.pem")
    }

    /// The certificate of the authority.
    pub(crate) fn trust_store(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// `host:port` of the controller listener.
    pub(crate) fn controller_address(&self) -> String {
        format!("{}:{CONTROLLER_PORT}", self.host)
    }
}

/// The `server.properties` of a node. `quorum` are the initial controllers, in order.
pub(crate) fn server_properties(
    settings: &Settings,
    spec: &NodeSpec,
    quorum: &[NodeSpec],
    brokers: usize,
) -> String {
    let mut properties = Properties::default();
    common(&mut properties, settings, spec, quorum);
    if spec.role.is_broker() {
        broker(&mut properties, settings, brokers);
    }
    if settings.security == Security::Tls {
        tls(&mut properties, spec);
    }
    if settings.authorizer {
        properties.set(
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        );
        // Without TLS the nodes themselves are anonymous; the principal of a certificate is its whole
        // subject.
        let plain = PLAIN_USERS[0].0;
        properties.set(
            "super.users",
            format!("User:ANONYMOUS;User:{plain};User:CN={TLS_NODE};User:CN={TLS_SUPER_USER}"),
        );
    }
    let none = Vec::new();
    let of_broker = if spec.role.is_broker() { &settings.broker } else { &none };
    let of_controller = if spec.role.is_controller() { &settings.controller } else { &none };
    let of_node = settings.node.get(&spec.id).unwrap_or(&none);
    for (key, value) in of_broker.iter().chain(of_controller).chain(of_node) {
        properties.set(key, value);
    }
    properties.to_text()
}

fn common(properties: &mut Properties, settings: &Settings, spec: &NodeSpec, quorum: &[NodeSpec]) {
    let mut listeners = Vec::new();
    if spec.role.is_broker() {
        listeners.push(format!("BROKER://{}:{BROKER_PORT}", spec.host));
        if settings.sasl_listeners {
            listeners.push(format!("SASL://{}:{SASL_PORT}", spec.host));
        }
    }
    if spec.role.is_controller() {
        listeners.push(format!("CONTROLLER://{}", spec.controller_address()));
    }
    let protocol = match settings.security {
        Security::Plaintext => "PLAINTEXT",
        Security::Tls => "SSL",
    };
    let log_dirs: Vec<_> = spec.log_dirs.iter().map(|dir| dir.display().to_string()).collect();
    properties.set("process.roles", spec.role.process_roles());
    properties.set("node.id", spec.id.to_string());
    properties.set("listeners", listeners.join(","));
    properties.set("advertised.listeners", listeners.join(","));
    properties.set("controller.listener.names", "CONTROLLER");
    properties.set(
        "listener.security.protocol.map",
        format!("BROKER:{protocol},CONTROLLER:{protocol},SASL:SASL_PLAINTEXT"),
    );
    properties.set("log.dirs", log_dirs.join(","));
    let (key, servers): (_, Vec<_>) = match settings.quorum {
        Quorum::Dynamic => (
            "controller.quorum.bootstrap.servers",
            quorum.iter().map(NodeSpec::controller_address).collect(),
        ),
        Quorum::Static => (
            "controller.quorum.voters",
            quorum.iter().map(|one| format!("{}@{}", one.id, one.controller_address())).collect(),
        ),
    };
    properties.set(key, servers.join(","));
}

/// Small values where the defaults are for a large installation, and no delays.
fn broker(properties: &mut Properties, settings: &Settings, brokers: usize) {
    let replicas = brokers.clamp(1, 3).to_string();
    let in_sync = if brokers >= 3 { "2" } else { "1" };
    properties.set("inter.broker.listener.name", "BROKER");
    properties.set("auto.create.topics.enable", "false");
    properties.set("controlled.shutdown.enable", "true");
    properties.set("offsets.topic.replication.factor", &replicas);
    properties.set("offsets.topic.num.partitions", "3");
    properties.set("transaction.state.log.replication.factor", &replicas);
    properties.set("transaction.state.log.min.isr", in_sync);
    properties.set("transaction.state.log.num.partitions", "3");
    properties.set("share.coordinator.state.topic.replication.factor", &replicas);
    properties.set("share.coordinator.state.topic.min.isr", in_sync);
    properties.set("share.coordinator.state.topic.num.partitions", "3");
    properties.set("group.initial.rebalance.delay.ms", "0");
    // The log cleaner's buffer defaults to 128 MiB, half of a node's heap.
    properties.set("log.cleaner.dedupe.buffer.size", "2097152");
    if settings.sasl_listeners {
        let users: String = PLAIN_USERS
            .iter()
            .map(|(name, password)| format!(" user_{name}=\"{password}\""))
            .collect();
        properties.set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512");
        properties.set(
            "listener.name.sasl.plain.sasl.jaas.config",
            format!("org.apache.kafka.common.security.plain.PlainLoginModule required{users};"),
        );
        properties.set(
            "listener.name.sasl.scram-sha-512.sasl.jaas.config",
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        );
    }
}

fn tls(properties: &mut Properties, spec: &NodeSpec) {
    properties.set("ssl.keystore.type", "PEM");
    properties.set("ssl.keystore.location", spec.key_store().display().to_string());
    properties.set("ssl.truststore.type", "PEM");
    properties.set("ssl.truststore.location", spec.trust_store().display().to_string());
    properties.set("ssl.client.auth", "required");
}

/// Properties in which the last value of a key wins.
#[derive(Debug, Default)]
struct Properties(BTreeMap<String, String>);

impl Properties {
    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), value.into());
    }

    fn to_text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (key, value)| {
            // The backslash is the only special character in a value.
            let _ = writeln!(text, "{key}={}", value.replace('\\', "\\\\"));
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: i32, role: Role) -> NodeSpec {
        let dir = PathBuf::from(format!("/t/{id}"));
        let log_dirs = vec![dir.join("data-0"), dir.join("data-1")];
        NodeSpec { id, role, host: format!("127.80.0.{}", role.octet(id)), dir, log_dirs }
    }

    fn check(settings: &Settings, spec: &NodeSpec, present: &[&str], absent: &[&str]) {
        let quorum = [self::spec(0, Role::Controller), self::spec(1, Role::Controller)];
        let text = server_properties(settings, spec, &quorum, 2);
        for line in present {
            assert!(text.lines().any(|one| one == *line), "no {line} in:\n{text}");
        }
        for word in absent {
            assert!(!text.contains(word), "{word} in:\n{text}");
        }
    }

    #[test]
    fn a_broker_listens_for_brokers_and_knows_the_controllers() {
        check(
            &Settings::default(),
            &spec(100, Role::Broker),
            &[
                "process.roles=broker",
                "listeners=BROKER://127.80.0.100:9092",
                "controller.quorum.bootstrap.servers=127.80.0.1:9093,127.80.0.2:9093",
                "log.dirs=/t/100/data-0,/t/100/data-1",
                "offsets.topic.replication.factor=2",
            ],
            &["ssl", "quorum.voters", "SASL:/", "authorizer"],
        );
    }

    #[test]
    fn a_controller_of_a_static_quorum_names_the_voters() {
        let settings = Settings { quorum: Quorum::Static, ..Settings::default() };
        check(
            &settings,
            &spec(1, Role::Controller),
            &[
                "listeners=CONTROLLER://127.80.0.2:9093",
                "controller.quorum.voters=0@127.80.0.1:9093,1@127.80.0.2:9093",
            ],
            &["bootstrap.servers", "offsets", "inter.broker"],
        );
    }

    #[test]
    fn the_narrower_setting_wins() {
        let pair = |value: &str| vec![("num.partitions".to_owned(), value.to_owned())];
        let settings = Settings {
            broker: pair("2"),
            controller: pair("3"),
            node: BTreeMap::from([(101, pair("4"))]),
            ..Settings::default()
        };
        check(&settings, &spec(0, Role::Controller), &["num.partitions=3"], &[]);
        check(&settings, &spec(100, Role::Broker), &["num.partitions=2"], &[]);
        check(&settings, &spec(101, Role::Broker), &["num.partitions=4"], &[]);
    }

    #[test]
    fn tls_is_on_every_listener_and_wants_a_certificate() {
        let settings =
            Settings { security: Security::Tls, authorizer: true, ..Settings::default() };
        check(
            &settings,
            &spec(200, Role::Combined),
            &[
                "listeners=BROKER://127.80.0.200:9092,CONTROLLER://127.80.0.200:9093",
                "listener.security.protocol.map=BROKER:SSL,CONTROLLER:SSL,SASL:SASL_PLAINTEXT",
                "ssl.client.auth=required",
                "super.users=User:ANONYMOUS;User:admin;User:CN=gregor-node;User:CN=admin",
            ],
            &["PLAINTEXT://"],
        );
    }
}
