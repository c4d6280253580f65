//! Listeners: the ways in for clients, as they were asked for.

use std::collections::BTreeMap;

use model::NodeId;

/// A way in for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its name.
    pub name: String,
    /// The port of the brokers.
    pub port: u16,
    /// How clients reach it.
    pub kind: ListenerKind,
    /// Whether it is encrypted.
    pub tls: bool,
    /// How clients prove who they are.
    pub authentication: Authentication,
    /// A certificate of the user's to show instead of the node's own.
    pub certificate: Option<Certificate>,
    /// The most connections to a broker at a time.
    pub connections_max: Option<i64>,
    /// The most new connections to a broker in a second.
    pub connection_creation_rate_max: Option<i64>,
    /// Whether internal addresses carry the DNS domain of the cluster.
    pub with_dns_domain: bool,
    /// Which address of a Kubernetes node is advertised, for `nodeport`.
    pub node_address: Option<NodeAddress>,
    /// The host that each broker advertises, with `{nodeId}` and `{nodePodName}`.
    pub advertised_host: Option<String>,
    /// The port that each broker advertises: a sum with `{nodeId}`.
    pub advertised_port: Option<String>,
    /// Names that the certificates cover besides.
    pub alternative_names: Vec<String>,
    /// Single brokers.
    pub brokers: BTreeMap<NodeId, BrokerSettings>,
    /// The Services of the listener.
    pub services: Services,
}

impl Listener {
    /// Its name in settings of Kafka that begin with `listener.name.`, such as `plain-9092`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}-{}", self.name, self.port)
    }

    /// Its name in Kafka's lists of listeners, such as `PLAIN-9092`.
    #[must_use]
    pub fn title(&self) -> String {
        self.key().to_uppercase()
    }
}

/// How clients reach a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenerKind {
    /// From inside the Kubernetes cluster, at the addresses of the pods.
    Internal,
    /// From inside the Kubernetes cluster, through one Service per broker.
    ClusterIp,
    /// Through ports of the Kubernetes nodes.
    NodePort,
    /// Through one load balancer per broker.
    LoadBalancer,
}

impl ListenerKind {
    /// As users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::ClusterIp => "cluster-ip",
            Self::NodePort => "nodeport",
            Self::LoadBalancer => "loadbalancer",
        }
    }
}

/// How clients prove who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Not at all.
    None,
    /// By a client certificate.
    Tls,
    /// By a password, with SCRAM.
    ScramSha512,
    /// As the listener's own settings say.
    Custom {
        /// Whether by SASL.
        sasl: bool,
        /// Settings of the listener, without `listener.name.…`.
        config: BTreeMap<String, String>,
    },
}

/// A certificate and its key in a Secret of the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The Secret.
    pub secret: String,
    /// Its entry with the chain.
    pub certificate: String,
    /// Its entry with the key.
    pub key: String,
}

/// A kind of address of a Kubernetes node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeAddress {
    /// An address that is reached from outside.
    ExternalIp,
    /// A name that is reached from outside.
    ExternalDns,
    /// An address that is reached from inside.
    InternalIp,
    /// A name that is reached from inside.
    InternalDns,
    /// The name of the machine.
    Hostname,
}

impl NodeAddress {
    /// As Kubernetes writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExternalIp => "ExternalIP",
            Self::ExternalDns => "ExternalDNS",
            Self::InternalIp => "InternalIP",
            Self::InternalDns => "InternalDNS",
            Self::Hostname => "Hostname",
        }
    }
}

/// How one broker is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerSettings {
    /// The host that it advertises.
    pub advertised_host: Option<String>,
    /// The port that it advertises.
    pub advertised_port: Option<u16>,
    /// Its Service.
    pub service: ServiceSettings,
}

/// One Service of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceSettings {
    /// Annotations besides its own.
    pub annotations: BTreeMap<String, String>,
    /// Labels besides its own.
    pub labels: BTreeMap<String, String>,
    /// The port of the Kubernetes nodes.
    pub node_port: Option<u16>,
    /// The address that the load balancer is asked to have.
    pub load_balancer_ip: Option<String>,
    /// Addresses that lead to it from outside.
    pub external_ips: Vec<String>,
}

/// The Services of a listener. Words are written as Kubernetes writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Services {
    /// Where clients begin.
    pub bootstrap: ServiceSettings,
    /// Whether there is a Service where clients begin, for `loadbalancer`.
    pub create_bootstrap: bool,
    /// The class of the load balancers.
    pub class: Option<String>,
    /// `Local` or `Cluster`.
    pub external_traffic_policy: Option<String>,
    /// From where load balancers may be reached, as CIDR ranges.
    pub source_ranges: Vec<String>,
    /// `SingleStack`, `PreferDualStack` or `RequireDualStack`.
    pub ip_family_policy: Option<String>,
    /// `IPv4`, `IPv6`.
    pub ip_families: Vec<String>,
    /// Finalizers of the load balancers.
    pub finalizers: Vec<String>,
    /// Whether they also lead to pods that are not ready.
    pub publish_not_ready: Option<bool>,
    /// Whether load balancers have node ports too.
    pub allocate_node_ports: Option<bool>,
    /// Annotations of each broker's Service, with `{nodeId}` and `{nodePodName}`.
    pub broker_annotations: BTreeMap<String, String>,
    /// Labels of each broker's Service, with `{nodeId}` and `{nodePodName}`.
    pub broker_labels: BTreeMap<String, String>,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            bootstrap: ServiceSettings::default(),
            create_bootstrap: true,
            class: None,
            external_traffic_policy: None,
            source_ranges: Vec::new(),
            ip_family_policy: None,
            ip_families: Vec::new(),
            finalizers: Vec::new(),
            publish_not_ready: None,
            allocate_node_ports: None,
            broker_annotations: BTreeMap::new(),
            broker_labels: BTreeMap::new(),
        }
    }
}
