//! Listeners.

use std::collections::BTreeMap;

use control::cluster::spec::{
    Authentication, BrokerSettings, Certificate, Listener, ListenerKind, NodeAddress,
    ServiceSettings, Services,
};
use model::NodeId;
use serde_json::Value;

use super::{Notes, config};
use crate::common::Verbatim;
use crate::kafka::listener::{
    self as api, AuthenticationType, ExternalTrafficPolicy, IpFamily, IpFamilyPolicy,
    ListenerConfiguration, ListenerType, NodeAddressType,
};

const PORTS: &str = "a port, from 1 to 65535";

/// The listener with this index, if it can be read.
pub(super) fn listener(one: &api::Listener, index: usize, notes: &mut Notes) -> Option<Listener> {
    let path = format!("spec.kafka.listeners[{index}]");
    let port = port(one.port, &format!("{path}.port"), notes);
    let kind = kind(one.kind, &path, notes);
    let authentication = authentication(one, &path, notes);
    let empty = ListenerConfiguration::default();
    let settings = one.configuration.as_ref().unwrap_or(&empty);
    let path = format!("{path}.configuration");
    let brokers = brokers(settings, &path, notes);
    let services = services(settings, &path, notes);
    let bootstrap = settings.bootstrap.as_ref();
    let alternative_names = bootstrap.and_then(|bootstrap| bootstrap.alternative_names.clone());
    Some(Listener {
        name: one.name.clone(),
        port: port?,
        kind: kind?,
        tls: one.tls,
        authentication: authentication?,
        certificate: settings.broker_cert_chain_and_key.as_ref().map(|certificate| Certificate {
            secret: certificate.secret_name.clone(),
            certificate: certificate.certificate.clone(),
            key: certificate.key.clone(),
        }),
        connections_max: settings.max_connections,
        connection_creation_rate_max: settings.max_connection_creation_rate,
        with_dns_domain: settings.use_service_dns_domain.unwrap_or(false),
        node_address: settings.preferred_node_port_address_type.map(node_address),
        advertised_host: settings.advertised_host_template.clone(),
        advertised_port: settings.advertised_port_template.clone(),
        alternative_names: alternative_names.unwrap_or_default(),
        brokers: brokers?,
        services: services?,
    })
}

fn port(port: i64, path: &str, notes: &mut Notes) -> Option<u16> {
    notes.number(port, 1, path, PORTS)
}

fn kind(kind: ListenerType, path: &str, notes: &mut Notes) -> Option<ListenerKind> {
    let unsupported = match kind {
        ListenerType::Internal => return Some(ListenerKind::Internal),
        ListenerType::ClusterIp => return Some(ListenerKind::ClusterIp),
        ListenerType::NodePort => return Some(ListenerKind::NodePort),
        ListenerType::LoadBalancer => return Some(ListenerKind::LoadBalancer),
        ListenerType::Route => "route",
        ListenerType::TlsRoute => "tlsroute",
        ListenerType::Ingress => "ingress",
    };
    let message = format!(
        "is {unsupported}, which is not supported: use internal, cluster-ip, nodeport or \
         loadbalancer"
    );
    notes.add(format!("{path}.type"), message);
    None
}

fn authentication(one: &api::Listener, path: &str, notes: &mut Notes) -> Option<Authentication> {
    let Some(authentication) = &one.authentication else { return Some(Authentication::None) };
    let path = format!("{path}.authentication");
    match authentication.kind {
        AuthenticationType::Tls => Some(Authentication::Tls),
        AuthenticationType::ScramSha512 => Some(Authentication::ScramSha512),
        AuthenticationType::Custom => custom(&authentication.rest, &path, notes),
        AuthenticationType::Oauth => {
            let message = "is oauth, which is not supported: use tls or scram-sha-512";
            notes.add(format!("{path}.type"), message);
            None
        }
    }
}

fn custom(rest: &BTreeMap<String, Value>, path: &str, notes: &mut Notes) -> Option<Authentication> {
    let sasl = match rest.get("sasl") {
        None => Some(false),
        Some(Value::Bool(sasl)) => Some(*sasl),
        Some(_) => {
            notes.add(format!("{path}.sasl"), "is neither true nor false");
            None
        }
    };
    let path = format!("{path}.listenerConfig");
    let settings = match rest.get("listenerConfig") {
        None => Some(Verbatim::default()),
        Some(Value::Object(map)) => {
            Some(Verbatim(map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()))
        }
        Some(_) => {
            notes.add(path.clone(), "is no map of settings");
            None
        }
    };
    let config = config(settings.as_ref(), &path, notes);
    settings?;
    Some(Authentication::Custom { sasl: sasl?, config })
}

fn node_address(kind: NodeAddressType) -> NodeAddress {
    match kind {
        NodeAddressType::ExternalIp => NodeAddress::ExternalIp,
        NodeAddressType::ExternalDns => NodeAddress::ExternalDns,
        NodeAddressType::InternalIp => NodeAddress::InternalIp,
        NodeAddressType::InternalDns => NodeAddress::InternalDns,
        NodeAddressType::Hostname => NodeAddress::Hostname,
    }
}

fn brokers(
    settings: &ListenerConfiguration,
    path: &str,
    notes: &mut Notes,
) -> Option<BTreeMap<NodeId, BrokerSettings>> {
    let mut brokers = BTreeMap::new();
    let mut whole = true;
    for (index, broker) in settings.brokers.iter().flatten().enumerate() {
        let path = format!("{path}.brokers[{index}]");
        let id = notes.number(broker.broker, 0, &format!("{path}.broker"), "the id of a node");
        let id = id.and_then(NodeId::new);
        let advertised =
            optional_port(broker.advertised_port, &format!("{path}.advertisedPort"), notes);
        let node_port = optional_port(broker.node_port, &format!("{path}.nodePort"), notes);
        let (Some(id), Some(advertised_port), Some(node_port)) = (id, advertised, node_port) else {
            whole = false;
            continue;
        };
        let service = ServiceSettings {
            annotations: broker.annotations.clone().unwrap_or_default(),
            labels: broker.labels.clone().unwrap_or_default(),
            node_port,
            load_balancer_ip: broker.load_balancer_ip.clone(),
            external_ips: broker.external_ips.clone().unwrap_or_default(),
        };
        let advertised_host = broker.advertised_host.clone();
        let settings = BrokerSettings { advertised_host, advertised_port, service };
        if brokers.insert(id, settings).is_some() {
            notes.add(format!("{path}.broker"), format!("is {id}, which was configured before"));
            whole = false;
        }
    }
    whole.then_some(brokers)
}

/// `None` if it cannot be read.
fn optional_port(number: Option<i64>, path: &str, notes: &mut Notes) -> Option<Option<u16>> {
    match number {
        None => Some(None),
        Some(number) => port(number, path, notes).map(Some),
    }
}

fn services(settings: &ListenerConfiguration, path: &str, notes: &mut Notes) -> Option<Services> {
    let bootstrap = match &settings.bootstrap {
        None => ServiceSettings::default(),
        Some(one) => ServiceSettings {
            annotations: one.annotations.clone().unwrap_or_default(),
            labels: one.labels.clone().unwrap_or_default(),
            node_port: optional_port(one.node_port, &format!("{path}.bootstrap.nodePort"), notes)?,
            load_balancer_ip: one.load_balancer_ip.clone(),
            external_ips: one.external_ips.clone().unwrap_or_default(),
        },
    };
    let traffic = settings.external_traffic_policy.map(|policy| match policy {
        ExternalTrafficPolicy::Local => "Local",
        ExternalTrafficPolicy::Cluster => "Cluster",
    });
    let family_policy = settings.ip_family_policy.map(|policy| match policy {
        IpFamilyPolicy::SingleStack => "SingleStack",
        IpFamilyPolicy::PreferDualStack => "PreferDualStack",
        IpFamilyPolicy::RequireDualStack => "RequireDualStack",
    });
    let families = settings.ip_families.iter().flatten().map(|family| match family {
        IpFamily::IPv4 => "IPv4",
        IpFamily::IPv6 => "IPv6",
    });
    Some(Services {
        bootstrap,
        create_bootstrap: settings.create_bootstrap_service.unwrap_or(true),
        class: settings.class.clone(),
        external_traffic_policy: traffic.map(str::to_owned),
        source_ranges: settings.load_balancer_source_ranges.clone().unwrap_or_default(),
        ip_family_policy: family_policy.map(str::to_owned),
        ip_families: families.map(str::to_owned).collect(),
        finalizers: settings.finalizers.clone().unwrap_or_default(),
        publish_not_ready: settings.publish_not_ready_addresses,
        allocate_node_ports: settings.allocate_load_balancer_node_ports,
        broker_annotations: settings.per_broker_annotations_template.clone().unwrap_or_default(),
        broker_labels: settings.per_broker_labels_template.clone().unwrap_or_default(),
    })
}
