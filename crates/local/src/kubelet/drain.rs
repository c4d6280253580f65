//! Drains a node: cordons it and evicts its pods.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use super::Error;
use super::node::LEASES;
use super::pod::status::is_terminal;

/// Poll interval for remaining pods.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Cordons a node and evicts its pods, respecting disruption budgets, until none is left that would be
/// rescheduled elsewhere.
pub(crate) async fn drain(client: &Client, node: &str, limit: Duration) -> Result<(), Error> {
    let nodes = Api::<Node>::all(client.clone());
    nodes.cordon(node).await.map_err(Error::Cordon)?;
    let until = Instant::now() + limit;
    loop {
        let left = evictable(client, node).await.map_err(Error::Drain)?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            let names = left.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
            return Err(Error::NotDrained(names));
        }
        for pod in left.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            match pods.evict(name, &EvictParams::default()).await {
                Ok(_) => {}
                // Deleted already, or a disruption budget is exhausted.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429) => {}
                Err(error) => return Err(Error::Drain(error)),
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

async fn evictable(client: &Client, node: &str) -> kube::Result<Vec<Pod>> {
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<Pod>::all(client.clone()).list(&params).await?;
    Ok(pods.items.into_iter().filter(is_evictable).collect())
}

/// Pods of a DaemonSet would come back to the same node, and finished ones need not move.
fn is_evictable(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let of_daemon_set = owners.into_iter().any(|owner| owner.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !of_daemon_set && !is_terminal(phase)
}

/// Removes the Node and its Lease.
pub(crate) async fn remove(client: &Client, node: &str) -> Result<(), Error> {
    let nodes = Api::<Node>::all(client.clone());
    let leases = Api::<Lease>::namespaced(client.clone(), LEASES);
    let params = DeleteParams::default();
    gone(leases.delete(node, &params).await.map(drop))?;
    gone(nodes.delete(node, &params).await.map(drop))
}

fn gone(result: kube::Result<()>) -> Result<(), Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map_err(Error::Remove),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_come_back_here_is_not_evicted() {
        let pod = |owner: &str, phase: &str| -> bool {
            let owner = json!({ "kind": owner, "name": "o", "uid": "u", "apiVersion": "v1" });
            let value =
                json!({ "metadata": { "ownerReferences": [owner] }, "status": { "phase": phase } });
            is_evictable(&serde_json::from_value(value).unwrap())
        };
        assert!(pod("ReplicaSet", "Running"));
        assert!(!pod("DaemonSet", "Running"));
        assert!(!pod("Job", "Succeeded"));
    }
}
