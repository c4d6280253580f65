//! The nodes of `gregor up`, and what belongs to them: volumes, services, names.

use std::collections::BTreeMap;

use anyhow::Context as _;
use local::control_plane::ControlPlane;
use local::kubelet::Kubelet;
use local::storage::{self, NodeVolumes, Provisioner};
use tokio::task::JoinHandle;

use super::Plan;
use crate::failure::Usage;
use crate::machine::{One, image_table, start_proxy};

/// As many as the addresses of one local Kubernetes are meant for.
const NODES_MAX: u32 = 200;

/// The nodes that run in this process.
#[derive(Debug)]
pub(super) struct Nodes {
    kubelets: Vec<Kubelet>,
    /// The provisioner and the proxy. They may be dropped at any moment.
    helpers: Vec<JoinHandle<()>>,
}

/// Refuses a number of nodes that cannot be had, before anything is started.
pub(super) fn check(count: u32) -> anyhow::Result<()> {
    if count > NODES_MAX {
        return Err(Usage::error(format!("at most {NODES_MAX} nodes fit on one machine")));
    }
    Ok(())
}

/// Starts the nodes, after the control plane is ready and before anything is applied.
pub(super) async fn start(plane: &ControlPlane, plan: &Plan) -> anyhow::Result<Nodes> {
    let count = plan.nodes;
    let mut nodes = Nodes { kubelets: Vec::new(), helpers: Vec::new() };
    if count == 0 {
        return Ok(nodes);
    }
    let client = plane.client();
    let root = plane.state_dir().root();
    storage::ensure_classes(&client).await.context("cannot create the storage classes")?;
    nodes.helpers.push(start_proxy(plane));
    let own = std::env::current_exe().context("cannot find this program")?;
    let operator = plan.operator.as_ref().map(|operator| operator.images(&own)).unwrap_or_default();
    // What the user says comes last and counts.
    let table = image_table(&own, operator.iter().chain(&plan.images));
    let mut volumes = Vec::new();
    for number in 1..=u8::try_from(count).unwrap_or(u8::MAX) {
        let name = format!("node-{number}");
        let dir = root.join("nodes").join(&name);
        volumes.push(NodeVolumes::new(&name, &dir));
        let zone = format!("zone-{number}");
        let capacity = BTreeMap::new();
        let one = One { number, name: &name, dir: &dir, zone, capacity, images: &table };
        let kubelet = one.start(plane, &own).await;
        nodes.kubelets.push(kubelet.with_context(|| format!("cannot start {name}"))?);
    }
    let provisioner = Provisioner::new(client, volumes);
    nodes.helpers.push(tokio::spawn(async move {
        let Err(error) = provisioner.run().await;
        tracing::error!(%error, "volumes are no longer provisioned");
    }));
    Ok(nodes)
}

impl Nodes {
    /// Ends the nodes in order, while the control plane still runs.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        // Together: each may take as long as the slowest of its pods.
        futures::future::join_all(self.kubelets.into_iter().map(Kubelet::stop)).await;
        self.helpers.iter().for_each(JoinHandle::abort);
        Ok(())
    }
}
