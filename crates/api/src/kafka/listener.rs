//! Listeners: the ways in for clients.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Rest, Verbatim};

/// A way in for clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name, unique among the listeners.
    #[schemars(regex(pattern = r"^[a-z0-9]{1,11}$"))]
    pub name: String,
    /// The port of the brokers, unique among the listeners.
    #[schemars(range(min = 9092))]
    pub port: i64,
    /// How clients reach it.
    #[serde(rename = "type")]
    pub kind: ListenerType,
    /// Whether it is encrypted.
    pub tls: bool,
    /// How clients prove who they are; not at all if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<ListenerAuthentication>,
    /// Details that depend on the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ListenerConfiguration>,
    /// Who may connect, as the peers of a NetworkPolicy; everybody if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy_peers: Option<Vec<Verbatim>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How a listener is reached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ListenerType {
    /// From inside the Kubernetes cluster, at the addresses of the pods.
    Internal,
    /// Through OpenShift routes.
    Route,
    /// Through TLS routes of a Gateway.
    #[serde(rename = "tlsroute")]
    TlsRoute,
    /// Through one load balancer per broker.
    #[serde(rename = "loadbalancer")]
    LoadBalancer,
    /// Through ports of the Kubernetes nodes.
    #[serde(rename = "nodeport")]
    NodePort,
    /// Through an Ingress controller that passes TLS on.
    Ingress,
    /// From inside the Kubernetes cluster, through one Service per broker.
    ClusterIp,
}

/// How clients prove who they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerAuthentication {
    /// The mechanism.
    #[serde(rename = "type")]
    pub kind: AuthenticationType,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A mechanism by which clients prove who they are.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationType {
    /// A client certificate.
    Tls,
    /// A password, by SCRAM.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
    /// Whatever the listener's own settings say.
    Custom,
    /// OAuth; only in `v1beta2`.
    #[schemars(skip)]
    Oauth,
}

/// Details of a listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerConfiguration {
    /// A certificate to show instead of the one that is made for each broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_cert_chain_and_key: Option<CertificateAndKey>,
    /// The class of load balancer or Ingress controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Whether traffic may be passed on between Kubernetes nodes; `Cluster` if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
    /// From where load balancers may be reached, as CIDR ranges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_source_ranges: Option<Vec<String>>,
    /// The address where clients begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapConfiguration>,
    /// Single brokers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brokers: Option<Vec<BrokerConfiguration>>,
    /// How many IP families the Services use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_family_policy: Option<IpFamilyPolicy>,
    /// Which IP families the Services use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_families: Option<Vec<IpFamily>>,
    /// Whether there is a bootstrap Service; there is if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_bootstrap_service: Option<bool>,
    /// Finalizers of the load balancer Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
    /// Whether internal addresses carry the DNS domain of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_service_dns_domain: Option<bool>,
    /// The most connections to a broker at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<i64>,
    /// The most new connections to a broker in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connection_creation_rate: Option<i64>,
    /// Which address of a Kubernetes node is advertised first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_node_port_address_type: Option<NodeAddressType>,
    /// Whether Services also lead to pods that are not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_not_ready_addresses: Option<bool>,
    /// Annotations of each broker's Service, with placeholders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_broker_annotations_template: Option<BTreeMap<String, String>>,
    /// Labels of each broker's Service, with placeholders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_broker_labels_template: Option<BTreeMap<String, String>>,
    /// The host that each broker advertises, with placeholders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised_host_template: Option<String>,
    /// The port that each broker advertises, with placeholders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised_port_template: Option<String>,
    /// Whether load balancer Services have node ports too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_load_balancer_node_ports: Option<bool>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A certificate and its key in a Secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateAndKey {
    /// The name of the Secret.
    pub secret_name: String,
    /// The entry with the certificate chain.
    pub certificate: String,
    /// The entry with the key.
    pub key: String,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// The address where clients begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapConfiguration {
    /// Names that the certificates cover besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative_names: Option<Vec<String>>,
    /// The node port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i64>,
    /// The address that the load balancer is asked to have.
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<String>,
    /// Annotations of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// External addresses of the Service.
    #[serde(rename = "externalIPs", skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<Vec<String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How one broker is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrokerConfiguration {
    /// The node id of the broker.
    pub broker: i64,
    /// The host that it advertises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised_host: Option<String>,
    /// The port that it advertises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised_port: Option<i64>,
    /// The node port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i64>,
    /// The address that the load balancer is asked to have.
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<String>,
    /// Annotations of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// External addresses of the Service.
    #[serde(rename = "externalIPs", skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<Vec<String>>,
    /// What this type does not know.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Whether traffic may be passed on between Kubernetes nodes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ExternalTrafficPolicy {
    /// It stays on the node where it arrived.
    Local,
    /// It may be passed on.
    Cluster,
}

/// How many IP families a Service uses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum IpFamilyPolicy {
    /// One.
    SingleStack,
    /// Two if the cluster has them.
    PreferDualStack,
    /// Two.
    RequireDualStack,
}

/// A family of IP addresses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum IpFamily {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

/// A kind of address of a Kubernetes node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum NodeAddressType {
    /// An address that is reached from outside.
    #[serde(rename = "ExternalIP")]
    ExternalIp,
    /// A name that is reached from outside.
    #[serde(rename = "ExternalDNS")]
    ExternalDns,
    /// An address that is reached from inside.
    #[serde(rename = "InternalIP")]
    InternalIp,
    /// A name that is reached from inside.
    #[serde(rename = "InternalDNS")]
    InternalDns,
    /// The name of the machine.
    Hostname,
}
