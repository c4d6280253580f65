//! `gregor roll`: asks the operator to restart nodes. When and in which order is the operator's to decide.

use anyhow::{Context as _, bail};
use api::StrimziPodSet;
use api::names::{POOL_LABEL, node_of_pod};
use clap::Args;
use control::annotations::Annotation;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde_json::json;

use super::{Found, Target};
use crate::output::{Grid, View, note};

/// The annotation that requests a restart.
const MANUAL: &str = Annotation::ManualRollingUpdate.name();

/// Nodes to restart.
#[derive(Debug, Args)]
pub(crate) struct Roll {
    #[command(flatten)]
    target: Target,
    /// Only nodes of this pool; may be repeated
    #[arg(long, value_name = "POOL")]
    pool: Vec<String>,
    /// Only the node with this id; may be repeated
    #[arg(long, value_name = "ID", conflicts_with = "pool")]
    node: Vec<i32>,
    /// Only print the nodes that would be restarted
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RollRequest {
    pods: Vec<String>,
    dry_run: bool,
}

impl Roll {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.target.run(async |client, found, mut out| {
            let pods = self.chosen(&found)?;
            if !self.dry_run {
                self.ask(&client, &found, &pods).await?;
                note(&format!("gregor why {} shows its progress", found.names.cluster));
            }
            let pods = pods.iter().map(|pod| pod.name_any()).collect();
            out.view(&RollRequest { pods, dry_run: self.dry_run })
        })
    }

    /// The pods to restart, or why that is impossible.
    fn chosen<'a>(&self, found: &'a Found) -> anyhow::Result<Vec<&'a Pod>> {
        for pool in &self.pool {
            if !found.pools.iter().any(|one| one.name_any() == *pool) {
                let known: Vec<_> = found.pools.iter().map(|one| one.name_any()).collect();
                bail!("there is no pool {pool}; there are {}", known.join(", "));
            }
        }
        let id = |pod: &Pod| node_of_pod(&pod.name_any()).map(model::NodeId::get);
        for node in &self.node {
            if !found.pods.iter().any(|pod| id(pod) == Some(*node)) {
                bail!("there is no node {node}");
            }
        }
        let is_meant = |pod: &&Pod| match (self.pool.as_slice(), self.node.as_slice()) {
            ([], []) => true,
            ([], nodes) => id(pod).is_some_and(|id| nodes.contains(&id)),
            (pools, _) => pod.labels().get(POOL_LABEL).is_some_and(|pool| pools.contains(pool)),
        };
        Ok(found.pods.iter().filter(is_meant).collect())
    }

    /// Whole pools are requested through their pod sets, so that pods created meanwhile are not restarted
    /// again.
    async fn ask(&self, client: &Client, found: &Found, pods: &[&Pod]) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { MANUAL: "true" } } }));
        let params = PatchParams::default();
        let namespace = &found.names.namespace;
        if self.node.is_empty() {
            let api: Api<StrimziPodSet> = Api::namespaced(client.clone(), namespace);
            let mut pools: Vec<_> =
                pods.iter().filter_map(|pod| pod.labels().get(POOL_LABEL)).collect();
            pools.sort();
            pools.dedup();
            for pool in pools {
                let name = found.names.pod_set(pool);
                let asked = api.patch(&name, &params, &patch).await;
                asked.with_context(|| format!("cannot request a restart of pool {pool}"))?;
            }
            return Ok(());
        }
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        for pod in pods {
            let asked = api.patch(&pod.name_any(), &params, &patch).await;
            asked.with_context(|| format!("cannot request a restart of {}", pod.name_any()))?;
        }
        Ok(())
    }
}

impl View for RollRequest {
    fn table(&self, width: Option<u16>) -> String {
        let head = if self.dry_run { "WOULD BE RESTARTED" } else { "TO BE RESTARTED" };
        let mut grid = Grid::new(&[head]);
        for pod in &self.pods {
            grid.row([pod.clone()]);
        }
        grid.take(width)
    }
}
