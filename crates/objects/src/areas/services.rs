//! Services, and the addresses of brokers.

use std::collections::BTreeMap;

use control::cluster::draft::Flow;
use control::cluster::spec::{Listener, ListenerKind};
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::Service;
use model::NodeId;

use super::Built;
use crate::found::{ByName, Found};
use crate::{Blueprint, Object, services};

/// A host and a port.
pub type Address = (String, u16);

/// Addresses from the Services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Bootstrap addresses by listener. Not for node ports, which are on Kubernetes Nodes.
    pub bootstrap: BTreeMap<String, Vec<Address>>,
    /// Bootstrap node ports by listener.
    pub bootstrap_node_port: BTreeMap<String, u16>,
    /// External address of a broker by node and listener: the host is `None` for node ports, where the
    /// Kubernetes Node is known only when the pod runs.
    pub brokers: BTreeMap<(NodeId, String), (Option<String>, u16)>,
}

/// Builds the Services.
pub fn build(blueprint: &Blueprint) -> Result<Built, serde_json::Error> {
    let objects = services::all(blueprint)?.into_iter().map(Object::from).collect();
    Ok(Built { objects, ..Built::new(()) })
}

/// Addresses of the existing Services, and whether any is missing. Kubernetes and load balancers assign them
/// after the Services were applied.
#[must_use]
pub fn addresses(blueprint: &Blueprint, found: &Found) -> (Addresses, Flow) {
    let (known, missing) = known(blueprint, &found.services);
    let flow = match missing.as_slice() {
        [] => Flow::Go,
        // A broker cannot advertise an address that does not exist yet.
        [first, ..] => Flow::Stop(Note::new(
            Reason::AwaitingAddresses,
            format!(
                "{} of the cluster's Services have no address yet, {first} among them; \
                 the load balancer or Kubernetes gives it",
                missing.len()
            ),
        )),
    };
    (known, flow)
}

/// Known addresses, and Services without one.
fn known(blueprint: &Blueprint, found: &ByName<Service>) -> (Addresses, Vec<String>) {
    let (mut known, mut missing) = (Addresses::default(), Vec::new());
    for listener in &blueprint.spec.listeners {
        bootstrap(blueprint, listener, found, (&mut known, &mut missing));
        if listener.kind == ListenerKind::Internal {
            continue;
        }
        for node in blueprint.brokers() {
            let name = services::broker_service_name(blueprint, listener, node);
            match broker(blueprint, listener, &name, found.get(&name)) {
                Some(address) => {
                    known.brokers.insert((node.id, listener.name.clone()), address);
                }
                None => missing.push(name),
            }
        }
    }
    (known, missing)
}

fn bootstrap(
    blueprint: &Blueprint,
    listener: &Listener,
    found: &ByName<Service>,
    (known, missing): (&mut Addresses, &mut Vec<String>),
) {
    let names = &blueprint.names;
    let inside = |service: &str| format!("{service}.{}.svc", names.namespace);
    let service = names.listener_bootstrap_service(&listener.name);
    let addresses = match listener.kind {
        ListenerKind::Internal => Some(vec![(inside(&names.bootstrap_service()), listener.port)]),
        ListenerKind::ClusterIp => Some(vec![(inside(&service), listener.port)]),
        ListenerKind::NodePort => {
            match found.get(&service).and_then(node_port) {
                Some(port) => {
                    known.bootstrap_node_port.insert(listener.name.clone(), port);
                }
                None => missing.push(service),
            }
            return;
        }
        ListenerKind::LoadBalancer if !services::has_bootstrap(listener) => Some(Vec::new()),
        ListenerKind::LoadBalancer => {
            found.get(&service).and_then(ingress).map(|host| vec![(host, listener.port)])
        }
    };
    match addresses {
        Some(addresses) => {
            known.bootstrap.insert(listener.name.clone(), addresses);
        }
        None => missing.push(service),
    }
}

fn broker(
    blueprint: &Blueprint,
    listener: &Listener,
    name: &str,
    service: Option<&Service>,
) -> Option<(Option<String>, u16)> {
    match listener.kind {
        ListenerKind::Internal | ListenerKind::ClusterIp => {
            let host = format!("{name}.{}.svc", blueprint.names.namespace);
            Some((Some(host), listener.port))
        }
        ListenerKind::NodePort => Some((None, node_port(service?)?)),
        ListenerKind::LoadBalancer => Some((Some(ingress(service?)?), listener.port)),
    }
}

/// The assigned name or address of a load balancer.
fn ingress(service: &Service) -> Option<String> {
    let first = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
    first.hostname.clone().or_else(|| first.ip.clone())
}

fn node_port(service: &Service) -> Option<u16> {
    let port = service.spec.as_ref()?.ports.as_ref()?.first()?.node_port?;
    u16::try_from(port).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use kube::ResourceExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::object;
    use crate::samples::{blueprint, seen};

    /// The Services of a cluster with one listener, as they exist after `change`.
    fn existing(blueprint: &Blueprint, change: fn(&str, &mut Value)) -> Found {
        let mut found = Found::default();
        for service in services::all(blueprint).unwrap() {
            let (name, mut value) = (service.name_any(), json!(service));
            change(&name, &mut value);
            found.services.insert(name, object(value).unwrap());
        }
        found
    }

    /// The addresses in one line: where clients begin, the brokers.
    fn line(addresses: &Addresses) -> String {
        let begin =
            addresses.bootstrap.values().flatten().map(|(host, port)| format!("{host}:{port}"));
        let ports = addresses.bootstrap_node_port.values().map(|port| format!("*:{port}"));
        let brokers = addresses.brokers.iter().map(|((id, _), (host, port))| {
            format!("{id}={}:{port}", host.as_deref().unwrap_or("*"))
        });
        begin.chain(ports).chain(brokers).collect::<Vec<_>>().join(" ")
    }

    fn assign_ports(name: &str, service: &mut Value) {
        let port = if name.ends_with("-bootstrap") { 30000 } else { 30001 };
        service["spec"]["ports"][0]["nodePort"] = json!(port);
    }

    fn assign_hosts(name: &str, service: &mut Value) {
        let ingress = json!([{ "hostname": format!("{name}.example"), "ip": "192.0.2.1" }]);
        service["status"] = json!({ "loadBalancer": { "ingress": ingress } });
    }

    fn assign_ips(_: &str, service: &mut Value) {
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    }

    fn all_but_broker_1(name: &str, service: &mut Value) {
        if !name.ends_with("-1") {
            assign_ports(name, service);
            assign_hosts(name, service);
        }
    }

    #[test]
    #[rustfmt::skip]
    pub(in crate::areas) fn each_kind_of_listener_has_the_addresses_of_its_services() {
        let without = json!({ "createBootstrapService": false });
        // The type of the listener, its configuration, what Kubernetes assigned, the addresses, the Services without.
        let rows: [(&str, Value, fn(&str, &mut Value), &str, &str); 10] = [
            ("internal",     json!({}), |_, _| {},        "my-kafka-bootstrap.here.svc:9095", ""),
            ("cluster-ip",   json!({}), |_, _| {},        "my-kafka-out-bootstrap.here.svc:9095 \
                                                           0=my-broker-out-0.here.svc:9095 1=my-broker-out-1.here.svc:9095", ""),
            ("nodeport",     json!({}), assign_ports,     "*:30000 0=*:30001 1=*:30001", ""),
            ("nodeport",     json!({}), |_, _| {},        "", "3 my-kafka-out-bootstrap"),
            ("nodeport",     json!({}), all_but_broker_1, "*:30000 0=*:30001", "1 my-broker-out-1"),
            ("loadbalancer", json!({}), assign_hosts,     "my-kafka-out-bootstrap.example:9095 \
                                                           0=my-broker-out-0.example:9095 1=my-broker-out-1.example:9095", ""),
            ("loadbalancer", json!({}), assign_ips,       "192.0.2.1:9095 0=192.0.2.1:9095 1=192.0.2.1:9095", ""),
            ("loadbalancer", json!({}), |_, _| {},        "", "3 my-kafka-out-bootstrap"),
            ("loadbalancer", json!({}), all_but_broker_1, "my-kafka-out-bootstrap.example:9095 \
                                                           0=my-broker-out-0.example:9095", "1 my-broker-out-1"),
            ("loadbalancer", without,   assign_hosts,     "0=my-broker-out-0.example:9095 1=my-broker-out-1.example:9095", ""),
        ];
        for (kind, configuration, assign, expected, missing) in rows {
            let listener = json!([{ "name": "out", "port": 9095, "type": kind, "tls": false,
                                    "configuration": configuration }]);
            let blueprint = blueprint(json!({ "listeners": listener }), json!({}));
            let (known, flow) = addresses(&blueprint, &existing(&blueprint, assign));
            seen(&[], &flow);
            assert_eq!(line(&known), expected, "{kind} {configuration}");
            let awaited = match flow {
                Flow::Stop(note) => {
                    assert_eq!(note.reason, Reason::AwaitingAddresses);
                    note.message
                }
                flow => {
                    assert_eq!(flow, Flow::Go);
                    String::new()
                }
            };
            let expected = match missing.split_once(' ') {
                Some((count, first)) => format!(
                    "{count} of the cluster's Services have no address yet, {first} among them; the load \
                     balancer or Kubernetes gives it"
                ),
                None => String::new(),
            };
            assert_eq!(awaited, expected, "{kind} {configuration}");
        }
    }

    #[test]
    fn a_service_that_does_not_exist_has_no_address() {
        let listener = json!([{ "name": "out", "port": 9095, "type": "nodeport", "tls": false }]);
        let blueprint = blueprint(json!({ "listeners": listener }), json!({}));
        let (known, flow) = addresses(&blueprint, &Found::default());
        assert_eq!(known, Addresses::default());
        assert!(matches!(flow, Flow::Stop(note) if note.message.starts_with("3 of")));
    }

    #[test]
    fn every_service_is_built() {
        let listener = json!([{ "name": "out", "port": 9095, "type": "nodeport", "tls": false }]);
        let blueprint = blueprint(json!({ "listeners": listener }), json!({}));
        let built = build(&blueprint).unwrap();
        let names: Vec<_> = built.objects.iter().map(Object::name).collect();
        let expected = [
            "my-kafka-brokers",
            "my-kafka-bootstrap",
            "my-kafka-out-bootstrap",
            "my-broker-out-0",
            "my-broker-out-1",
        ];
        assert_eq!(names, expected);
    }
}
