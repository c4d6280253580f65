//! The endpoints of a service: pods and ports. Pure.
//!
//! The control plane runs without endpoint controllers, because their objects reject the loopback addresses
//! that pods have here. These functions implement the rules of those controllers.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Pod, PodStatus, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;

/// A pod of a service, with its address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    /// The pod.
    pub(crate) pod: &'a Pod,
    /// Its address.
    pub(crate) address: IpAddr,
}

/// The pods that receive connections: ready ones; if there are none, terminating pods that are still ready,
/// so that the last pod can be replaced without a gap.
pub(crate) fn serving<'a>(
    service: &Service,
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<Member<'a>> {
    let (mut ready, mut ending) = (Vec::new(), Vec::new());
    let unready_too = publishes_unready(service);
    for member in members(service, pods) {
        let is_ready = unready_too || is_ready(member.pod);
        let ends = member.pod.metadata.deletion_timestamp.is_some() && !unready_too;
        match (is_ready, ends) {
            (true, false) => ready.push(member),
            (true, true) => ending.push(member),
            (false, _) => {}
        }
    }
    if ready.is_empty() { ending } else { ready }
}

/// The pods behind the DNS names of a headless service: never a terminating one, unless requested.
pub(crate) fn named<'a>(service: &Service, pods: impl Iterator<Item = &'a Pod>) -> Vec<Member<'a>> {
    let unready_too = publishes_unready(service);
    members(service, pods)
        .filter(|member| {
            unready_too
                || (is_ready(member.pod) && member.pod.metadata.deletion_timestamp.is_none())
        })
        .collect()
}

fn publishes_unready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false)
}

/// All pods that match the selector, have an address and have not terminated.
fn members<'a>(
    service: &Service,
    pods: impl Iterator<Item = &'a Pod>,
) -> impl Iterator<Item = Member<'a>> {
    let namespace = service.namespace();
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
    pods.filter_map(move |pod| {
        let status = pod.status.as_ref()?;
        let picked = !selector.is_empty()
            && pod.namespace() == namespace
            && selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
        let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let address = status.pod_ip.as_deref()?.parse().ok()?;
        (picked && !over).then_some(Member { pod, address })
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = |status: &PodStatus| {
        status
            .conditions
            .as_deref()
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    pod.status.as_ref().is_some_and(conditions)
}

/// The address of a service port on one of its pods; `None` if the pod has no port with that name.
pub(crate) fn target(port: &ServicePort, member: &Member<'_>) -> Option<SocketAddr> {
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => container_port(member.pod, name)?,
    };
    Some(SocketAddr::new(member.address, u16::try_from(number).ok()?))
}

fn container_port(pod: &Pod, name: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .find(|port| {
            port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == "TCP"
        })
        .map(|port| port.container_port)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, changes: &str) -> Pod {
        let has = |word: &str| changes.split(' ').any(|one| one == word);
        serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "namespace": if has("elsewhere") { "other" } else { "ns" },
                "labels": {"app": if has("unlabelled") { "x" } else { "kafka" }, "more": "y"},
                "deletionTimestamp": has("ending").then_some("2026-11-15T00:00:00Z"),
            },
            "spec": {
                "containers": [
                    {"name": "a", "ports": [{"name": "tcp-a", "containerPort": 9092},
                                            {"name": "udp-a", "containerPort": 53, "protocol": "UDP"}]},
                    {"name": "b", "ports": [{"name": "tcp-b", "containerPort": 9093}]},
                ],
            },
            "status": {
                "phase": if has("failed") { "Failed" } else { "Running" },
                "podIP": (!has("homeless")).then_some("127.1.0.10"),
                "conditions": [{"type": "Ready",
                                "status": if has("unready") { "False" } else { "True" }}],
            },
        }))
        .unwrap()
    }

    fn service(publish: bool) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "kafka", "namespace": "ns"},
            "spec": {"selector": {"app": "kafka"}, "publishNotReadyAddresses": publish},
        }))
        .unwrap()
    }

    /// Pods, publishNotReadyAddresses; pods that receive connections, pods with a name.
    type Row<'a> = (&'a [&'a str], bool, &'a [usize], &'a [usize]);

    #[test]
    fn connections_go_to_ready_pods_and_names_to_published_ones() {
        #[rustfmt::skip]
        let rows: &[Row<'_>] = &[
            (&["", ""],                        false, &[0, 1], &[0, 1]),
            (&["", "unready"],                 false, &[0],    &[0]),
            (&["", "unready"],                 true,  &[0, 1], &[0, 1]),
            (&["", "ending"],                  false, &[0],    &[0]),
            (&["unready", "ending"],           false, &[1],    &[]),
            (&["unready", "ending unready"],   false, &[],     &[]),
            (&["", "ending"],                  true,  &[0, 1], &[0, 1]),
            (&["failed", "homeless"],          true,  &[],     &[]),
            (&["elsewhere", "unlabelled", ""], false, &[2],    &[2]),
        ];
        for (changes, publish, connected, named_expected) in rows {
            let pods: Vec<Pod> = changes
                .iter()
                .enumerate()
                .map(|(index, changes)| pod(&index.to_string(), changes))
                .collect();
            let names = |members: Vec<Member<'_>>| -> Vec<usize> {
                members.iter().map(|member| member.pod.name_any().parse().unwrap()).collect()
            };
            let service = service(*publish);
            assert_eq!(names(serving(&service, pods.iter())), *connected, "{changes:?}");
            assert_eq!(names(named(&service, pods.iter())), *named_expected, "{changes:?}");
        }
    }

    #[test]
    fn a_service_without_a_selector_leads_nowhere() {
        let mut service = service(true);
        service.spec.as_mut().unwrap().selector = None;
        let pods = [pod("0", "")];
        assert!(serving(&service, pods.iter()).is_empty());
    }

    #[test]
    fn target_ports_are_numbers_or_names_of_container_ports() {
        let rows = [
            (json!({"port": 80}), Some(80)),
            (json!({"port": 80, "targetPort": 8080}), Some(8080)),
            (json!({"port": 80, "targetPort": "tcp-a"}), Some(9092)),
            (json!({"port": 80, "targetPort": "tcp-b"}), Some(9093)),
            (json!({"port": 80, "targetPort": "udp-a"}), None),
            (json!({"port": 80, "targetPort": "missing"}), None),
        ];
        let pod = pod("0", "");
        let member = Member { pod: &pod, address: "127.1.0.10".parse().unwrap() };
        for (port, expected) in rows {
            let parsed: ServicePort = serde_json::from_value(port.clone()).unwrap();
            assert_eq!(target(&parsed, &member).map(|found| found.port()), expected, "{port}");
        }
    }
}
