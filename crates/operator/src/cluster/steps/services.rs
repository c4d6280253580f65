//! Services, and the addresses at which clients find the brokers.

use std::collections::BTreeMap;

use control::cluster::spec::{Listener, ListenerKind};
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use model::NodeId;

use crate::cluster::error::PassError;
use crate::cluster::found::ByName;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::{Blueprint, services};

/// A host and a port.
pub(crate) type Address = (String, u16);

/// What the Services say about where brokers are found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// Where clients of a listener begin, by its name. Not for node ports: those are on machines.
    pub(crate) bootstrap: BTreeMap<String, Vec<Address>>,
    /// The node port at which clients of a listener begin, by its name.
    pub(crate) bootstrap_node_port: BTreeMap<String, u16>,
    /// How a broker is reached from outside its pod, by node and listener: the host is `None` for
    /// node ports, where the machine is known only once the pod runs.
    pub(crate) brokers: BTreeMap<(NodeId, String), (Option<String>, u16)>,
}

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let mut current: ByName<Service> = ByName::new();
    for service in services::all(&work.blueprint)? {
        let name = service.name_any();
        let before = work.found.services.get(&name);
        let after = work.ctx.writer.apply(&work.api(), &name, &service, before).await?;
        current.insert(name, after);
    }
    let (addresses, missing) = addresses(&work.blueprint, &current);
    work.known.addresses = Some(addresses);
    work.found.services.extend(current);
    match missing.as_slice() {
        [] => Ok(Step::Done),
        // A broker cannot tell clients an address that does not exist yet.
        [first, ..] => Ok(Step::Stop(Note::new(
            Reason::AwaitingAddresses,
            format!(
                "{} of the cluster's Services have no address yet, {first} among them; \
                 the load balancer or Kubernetes gives it",
                missing.len()
            ),
        ))),
    }
}

/// What is known, and the Services that have no address yet.
fn addresses(blueprint: &Blueprint, found: &ByName<Service>) -> (Addresses, Vec<String>) {
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

/// The name or address that a load balancer has got.
fn ingress(service: &Service) -> Option<String> {
    let first = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
    first.hostname.clone().or_else(|| first.ip.clone())
}

fn node_port(service: &Service) -> Option<u16> {
    let port = service.spec.as_ref()?.ports.as_ref()?.first()?.node_port?;
    u16::try_from(port).ok()
}
