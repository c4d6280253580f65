//! Where the machines are that brokers run on, for listeners that are reached through their ports.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::spec::{Listener, ListenerKind, NodeAddress};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use super::error::PassError;
use super::pass::Work;

/// The kinds of addresses in the order in which they are told, unless the user prefers one.
const ORDER: [NodeAddress; 5] = [
    NodeAddress::ExternalDns,
    NodeAddress::ExternalIp,
    NodeAddress::InternalDns,
    NodeAddress::InternalIp,
    NodeAddress::Hostname,
];

/// Where clients of each listener with node ports begin: any machine with a broker.
pub(crate) async fn read(work: &Work) -> Result<BTreeMap<String, Vec<(String, u16)>>, PassError> {
    let listeners = &work.blueprint.spec.listeners;
    let mut all = BTreeMap::new();
    if !listeners.iter().any(|listener| listener.kind == ListenerKind::NodePort) {
        return Ok(all);
    }
    let pods = work.blueprint.brokers().map(|node| work.blueprint.pod(node));
    let names = pods.filter_map(|pod| work.found.pods.get(&pod)?.spec.as_ref()?.node_name.clone());
    let api: Api<Node> = Api::all(work.ctx.client.clone());
    let mut machines = Vec::new();
    for name in names.collect::<BTreeSet<_>>() {
        machines.extend(api.get_opt(&name).await.map_err(|e| PassError::Get(Box::new(e)))?);
    }
    let known = work.known.addresses.as_ref();
    for listener in listeners.iter().filter(|listener| listener.kind == ListenerKind::NodePort) {
        let port = known.and_then(|known| known.bootstrap_node_port.get(&listener.name));
        let Some(port) = port else { continue };
        let addresses = machines.iter().filter_map(|machine| address(machine, listener));
        all.insert(listener.name.clone(), addresses.map(|host| (host, *port)).collect());
    }
    Ok(all)
}

/// The address of a machine that clients of the listener are told.
fn address(machine: &Node, listener: &Listener) -> Option<String> {
    let known = machine.status.as_ref()?.addresses.as_ref()?;
    let mut order = listener.node_address.into_iter().chain(ORDER);
    order.find_map(|kind| {
        let found = known.iter().find(|address| address.type_ == kind.name())?;
        Some(found.address.clone())
    })
}
