//! The nodes of a local Kubernetes: where the node agent is plugged in.

use local::control_plane::ControlPlane;

use crate::failure::Usage;

/// The nodes that run in this process.
#[derive(Debug)]
pub(super) struct Nodes;

/// Refuses a number of nodes that cannot be had, before anything is started.
pub(super) fn check(count: u32) -> anyhow::Result<()> {
    if count > 0 {
        return Err(Usage::error("this gregor cannot run nodes yet: leave --nodes away"));
    }
    Ok(())
}

/// Starts the nodes, after the control plane is ready and before anything is applied.
pub(super) async fn start(_plane: &ControlPlane, _count: u32) -> anyhow::Result<Nodes> {
    Ok(Nodes)
}

impl Nodes {
    /// Ends the nodes in order, while the control plane still runs.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        Ok(())
    }
}
