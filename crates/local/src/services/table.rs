//! The listen addresses of the proxy and their routes. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Service, ServicePort};
use kube::{Resource as _, ResourceExt as _};

use super::endpoints;

/// Kubernetes' default duration of client affinity.
const AFFINITY_SECONDS: i32 = 10_800;

/// All listen addresses.
pub(crate) type Table = BTreeMap<SocketAddr, Route>;

/// Where connections to one address are forwarded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Route {
    /// The service with this address, for Events.
    pub(crate) service: ObjectReference,
    /// The backends; empty if no pod is ready.
    pub(crate) backends: Vec<SocketAddr>,
    /// Duration of client affinity, if enabled.
    pub(crate) affinity: Option<Duration>,
}

/// The objects in the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World<'a, S, P, N> {
    /// All services.
    pub(crate) services: &'a [S],
    /// All pods.
    pub(crate) pods: &'a [P],
    /// All nodes.
    pub(crate) nodes: &'a [N],
}

/// The table for these objects. `api_server` is the route of `default/kubernetes`.
pub(crate) fn table<S, P, N>(world: World<'_, S, P, N>, api_server: SocketAddr) -> Table
where
    S: AsRef<Service>,
    P: AsRef<Pod>,
    N: AsRef<Node>,
{
    let node_addresses: Vec<IpAddr> =
        world.nodes.iter().flat_map(|node| loopback_addresses(node.as_ref())).collect();
    let mut table = Table::new();
    for service in world.services {
        let service = service.as_ref();
        let cluster_addresses = cluster_addresses(service);
        if cluster_addresses.is_empty() {
            continue;
        }
        let members = endpoints::serving(service, world.pods.iter().map(AsRef::as_ref));
        for port in tcp_ports(service) {
            let backends = if is_api_server(service) {
                vec![api_server]
            } else {
                members.iter().filter_map(|member| endpoints::target(port, member)).collect()
            };
            let route =
                Route { service: service.object_ref(&()), backends, affinity: affinity(service) };
            for address in listened_on(port, &cluster_addresses, &node_addresses) {
                table.insert(address, route.clone());
            }
        }
    }
    table
}

fn tcp_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    ports.iter().filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
}

fn is_api_server(service: &Service) -> bool {
    service.namespace().as_deref() == Some("default") && service.name_any() == "kubernetes"
}

/// The addresses of a service; none if it is headless, external or being deleted.
pub(crate) fn cluster_addresses(service: &Service) -> Vec<IpAddr> {
    let Some(spec) = &service.spec else { return Vec::new() };
    if spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    match &spec.cluster_ips {
        Some(addresses) => addresses.iter().filter_map(|text| text.parse().ok()).collect(),
        None => spec.cluster_ip.iter().filter_map(|text| text.parse().ok()).collect(),
    }
}

/// Addresses of nodes on this machine. Nodes with other addresses have their own proxy.
fn loopback_addresses(node: &Node) -> Vec<IpAddr> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_deref());
    addresses
        .unwrap_or_default()
        .iter()
        .filter(|address| address.type_ == "InternalIP")
        .filter_map(|address| address.address.parse().ok())
        .filter(IpAddr::is_loopback)
        .collect()
}

fn listened_on(port: &ServicePort, cluster: &[IpAddr], nodes: &[IpAddr]) -> Vec<SocketAddr> {
    let on = |addresses: &[IpAddr], port: i32| -> Vec<SocketAddr> {
        let port = u16::try_from(port).ok().filter(|port| *port != 0);
        port.map(|port| addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect())
            .unwrap_or_default()
    };
    let mut addresses = on(cluster, port.port);
    addresses.extend(on(nodes, port.node_port.unwrap_or(0)));
    addresses
}

fn affinity(service: &Service) -> Option<Duration> {
    let spec = service.spec.as_ref()?;
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let seconds = spec
        .session_affinity_config
        .as_ref()
        .and_then(|config| config.client_ip.as_ref()?.timeout_seconds)
        .unwrap_or(AFFINITY_SECONDS);
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// The addresses for the status of a load balancer; `None` if nothing changes.
///
/// They are the cluster IPs: all are reachable from this machine, and unlike a node's address each belongs to
/// one service only, so that many load balancers can use the same port.
pub(crate) fn missing_ingress(service: &Service) -> Option<Vec<IpAddr>> {
    let spec = service.spec.as_ref()?;
    let ours =
        matches!(spec.load_balancer_class.as_deref(), None | Some(super::LOAD_BALANCER_CLASS));
    if spec.type_.as_deref() != Some("LoadBalancer")
        || !ours
        || service.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    let wanted = cluster_addresses(service);
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let found: Vec<IpAddr> = status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default()
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
        .collect();
    (found != wanted).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, spec: &Value) -> Arc<Service> {
        let namespace = if name == "kubernetes" { "default" } else { "ns" };
        let object = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn pod(name: &str, address: &str) -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "ns", "labels": {"app": "kafka"}},
                "spec": {"containers": []},
                "status": {"phase": "Running", "podIP": address,
                           "conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap(),
        )
    }

    fn node(address: &str) -> Arc<Node> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "n"},
                "status": {"addresses": [{"type": "Hostname", "address": "n"},
                                         {"type": "InternalIP", "address": address}]},
            }))
            .unwrap(),
        )
    }

    /// The table as text: `listened -> backends`.
    fn shown(services: &[Arc<Service>]) -> Vec<String> {
        let pods = [pod("a", "127.1.0.1"), pod("b", "127.1.0.2")];
        let nodes = [node("127.0.1.1"), node("127.0.1.2"), node("10.0.0.1")];
        let world = World { services, pods: &pods, nodes: &nodes };
        table(world, "127.0.0.1:6443".parse().unwrap())
            .iter()
            .map(|(address, route)| {
                let backends: Vec<String> =
                    route.backends.iter().map(ToString::to_string).collect();
                format!("{address} -> {}", backends.join(" "))
            })
            .collect()
    }

    #[test]
    fn each_kind_of_service_is_listened_for_where_it_should_be() {
        let selector = json!({"app": "kafka"});
        let check = |name: &str, spec: &Value, expected: &[&str]| {
            assert_eq!(shown(&[service(name, spec)]), expected, "{spec}");
        };
        check(
            "kafka",
            &json!({"clusterIP": "127.96.0.2", "selector": selector,
                    "ports": [{"port": 9092, "targetPort": 1}, {"port": 53, "protocol": "UDP"}]}),
            &["127.96.0.2:9092 -> 127.1.0.1:1 127.1.0.2:1"],
        );
        check(
            "kafka",
            &json!({"type": "NodePort", "clusterIP": "127.96.0.2", "selector": selector,
                    "ports": [{"port": 9092, "nodePort": 30001}]}),
            &[
                "127.0.1.1:30001 -> 127.1.0.1:9092 127.1.0.2:9092",
                "127.0.1.2:30001 -> 127.1.0.1:9092 127.1.0.2:9092",
                "127.96.0.2:9092 -> 127.1.0.1:9092 127.1.0.2:9092",
            ],
        );
        check(
            "kafka",
            &json!({"clusterIP": "None", "clusterIPs": ["None"],
                               "selector": selector, "ports": [{"port": 1}]}),
            &[],
        );
        check("kafka", &json!({"type": "ExternalName", "externalName": "x.org"}), &[]);
        check(
            "kafka",
            &json!({"clusterIP": "127.96.0.2", "selector": {"app": "none"},
                               "ports": [{"port": 1}]}),
            &["127.96.0.2:1 -> "],
        );
        check(
            "kubernetes",
            &json!({"clusterIP": "127.96.0.1",
                                    "ports": [{"port": 443, "targetPort": 6443}]}),
            &["127.96.0.1:443 -> 127.0.0.1:6443"],
        );
    }

    #[test]
    fn two_services_share_a_port_number() {
        let one = |ip: &str| {
            json!({"clusterIP": ip, "selector": {"app": "kafka"},
                                    "ports": [{"port": 80}]})
        };
        let services = [service("a", &one("127.96.0.2")), service("b", &one("127.96.0.3"))];
        assert_eq!(shown(&services).len(), 2);
    }

    #[test]
    fn a_load_balancer_gets_its_own_address_once() {
        let spec = json!({"type": "LoadBalancer", "clusterIP": "127.96.0.2"});
        let mut balancer = Arc::unwrap_or_clone(service("lb", &spec));
        assert_eq!(missing_ingress(&balancer), Some(vec!["127.96.0.2".parse().unwrap()]));
        balancer.status =
            serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": "127.96.0.2"}]}}))
                .unwrap();
        assert_eq!(missing_ingress(&balancer), None);
        let other = json!({"type": "LoadBalancer", "clusterIP": "127.96.0.2",
                           "loadBalancerClass": "someone.else/lb"});
        assert_eq!(missing_ingress(&service("lb", &other)), None);
        assert_eq!(missing_ingress(&service("x", &json!({"clusterIP": "127.96.0.2"}))), None);
    }

    #[test]
    fn affinity_has_kubernetes_default() {
        let spec = |more: Value| {
            let mut spec = json!({"clusterIP": "127.96.0.2"});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            affinity(&service("s", &spec)).map(|time| time.as_secs())
        };
        assert_eq!(spec(json!({})), None);
        assert_eq!(spec(json!({"sessionAffinity": "ClientIP"})), Some(10_800));
        let config = json!({"clientIP": {"timeoutSeconds": 5}});
        assert_eq!(
            spec(json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": config})),
            Some(5)
        );
    }
}
