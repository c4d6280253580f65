//! `gregor status`, `gregor why` and `gregor roll`: a cluster that the operator looks after, for people.
//!
//! They need the Kubernetes API and nothing else: what the operator knows and decides, it writes there.

mod roll;
mod status;
mod why;

use anyhow::{Context as _, bail};
use api::names::{CLUSTER_LABEL, Names};
use api::{Kafka, KafkaNodePool, StrimziPodSet};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

use super::reach::Reach;
use crate::output::{Format, Out};

pub(crate) use roll::Roll;
pub(crate) use status::Status;
pub(crate) use why::Why;

pub(crate) const STATUS_EXAMPLES: &str = "Examples:\n  gregor status my-cluster -n kafka\n  \
     gregor status my-cluster -o json";
pub(crate) const WHY_EXAMPLES: &str = "Example:\n  gregor why my-cluster -n kafka";
pub(crate) const ROLL_EXAMPLES: &str = "Examples:\n  gregor roll my-cluster --pool broker\n  \
     gregor roll my-cluster --node 3\n  gregor roll my-cluster --dry-run";

/// Which cluster, and how to print what is found.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The name of the Kafka resource
    #[arg(value_name = "KAFKA")]
    cluster: String,
    #[command(flatten)]
    reach: Reach,
    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// A cluster as Kubernetes shows it.
struct Found {
    client: Client,
    names: Names,
    kafka: Kafka,
    pools: Vec<KafkaNodePool>,
    sets: Vec<StrimziPodSet>,
    pods: Vec<Pod>,
}

impl Target {
    /// Runs something with the cluster.
    fn run<F>(&self, then: impl FnOnce(Found, Out) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        runtime.block_on(async {
            let found = self.find().await?;
            then(found, Out::new(self.output)).await
        })
    }

    async fn find(&self) -> anyhow::Result<Found> {
        let (client, namespace) = self.reach.client().await?;
        let api: Api<Kafka> = Api::namespaced(client.clone(), &namespace);
        let kafka = api.get_opt(&self.cluster).await.context("cannot read the Kafka")?;
        let Some(kafka) = kafka else {
            bail!("there is no Kafka {} in namespace {namespace}", self.cluster);
        };
        let labels = format!("{CLUSTER_LABEL}={}", self.cluster);
        let of_cluster = ListParams::default().labels(&labels);
        let api: Api<KafkaNodePool> = Api::namespaced(client.clone(), &namespace);
        let pools = api.list(&of_cluster).await.context("cannot list the node pools")?.items;
        let api: Api<StrimziPodSet> = Api::namespaced(client.clone(), &namespace);
        let sets = api.list(&of_cluster).await.context("cannot list the pod sets")?.items;
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let labels = format!("{labels},{}=Kafka", api::names::KIND_LABEL);
        let of_nodes = ListParams::default().labels(&labels);
        let pods = api.list(&of_nodes).await.context("cannot list the pods")?.items;
        let names = Names::new(&namespace, &self.cluster);
        Ok(Found { client, names, kafka, pools, sets, pods })
    }
}
