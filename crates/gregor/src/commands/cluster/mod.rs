//! `gregor plan`, `gregor status`, `gregor why` and `gregor roll`: a cluster that the operator looks after, for
//! people.
//!
//! They need the Kubernetes API and, for what only Kafka knows, Kafka. No server of ours is asked: what the
//! operator knows and decides it writes down, and what it would decide is found out with its own steps.

mod console;
mod plan;
mod report;
mod roll;
mod snapshot;
pub(crate) mod stage;
mod status;
mod why;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::names::{CLUSTER_LABEL, Names};
use api::{Kafka, KafkaNodePool, KafkaRebalance, StrimziPodSet};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use model::TopicPartition;
use operator::cluster::foresee::{Saved, View as Seen};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::hosts::Hosts;
use super::reach::Reach;
use crate::output::{Format, Out};
use stage::Staged;

pub(crate) use self::console::{
    Console, EXAMPLES as CONSOLE_EXAMPLES, of_kubeconfig as console_of, open as open_browser,
};
pub(crate) use plan::{PLAN_HELP, Plan};
pub(crate) use report::{HELP as REPORT_HELP, Report};
pub(crate) use roll::Roll;
pub(crate) use status::Status;
pub(crate) use why::Why;

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  gregor status my-cluster -n kafka
  gregor status my-cluster --watch
  gregor status my-cluster --snapshot report.json
  gregor status my-cluster -o json

Exit codes:
  0  success
  1  error, see stderr
  4  Kafka is unreachable: only the state in Kubernetes is shown";
pub(crate) const WHY_EXAMPLES: &str = "\
Examples:
  gregor why my-cluster -n kafka
  gregor why --from-snapshot report.json

Exit codes:
  0  success
  1  error, see stderr
  4  Kafka is unreachable: only the state in Kubernetes is shown";
pub(crate) const ROLL_EXAMPLES: &str = "Examples:\n  gregor roll my-cluster --pool broker\n  \
     gregor roll my-cluster --node 3\n  gregor roll my-cluster --dry-run";

/// A cluster, and the output format.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Name of the Kafka resource
    #[arg(value_name = "KAFKA")]
    cluster: String,
    #[command(flatten)]
    at: At,
}

/// A cluster, or a file with a snapshot of it.
#[derive(Debug, Args)]
pub(crate) struct Viewed {
    /// Name of the Kafka resource
    #[arg(value_name = "KAFKA", required_unless_present = "from_snapshot")]
    cluster: Option<String>,
    #[command(flatten)]
    at: At,
    /// Use the snapshot in this file, from `gregor status --snapshot` or `gregor report`, instead of Kubernetes and
    /// Kafka
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    from_snapshot: Option<PathBuf>,
    /// Whether a snapshot for a file is taken, with everything that planning of edits needs.
    #[arg(skip)]
    for_file: bool,
}

/// How to reach a cluster, and the output format.
#[derive(Debug, Args)]
pub(crate) struct At {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    hosts: Hosts,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// A cluster in Kubernetes.
struct Found {
    names: Names,
    kafka: Kafka,
    pools: Vec<KafkaNodePool>,
    sets: Vec<StrimziPodSet>,
    pods: Vec<Pod>,
    /// `None` if they must not be read.
    rebalances: Option<Vec<KafkaRebalance>>,
}

/// A cluster in Kubernetes, and the operator's decision about it.
struct Looked {
    found: Found,
    seen: Seen,
    /// Facts that are unknown.
    unknown: Vec<String>,
    /// Base for planning edits, if requested.
    edits: Option<Edits>,
}

/// Base for planning edits, besides the snapshot.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edits {
    objects: Saved,
    /// Assumptions about the operator.
    assumed: Option<String>,
    /// The sizes of partitions.
    #[serde(default)]
    sizes: Vec<(TopicPartition, u64)>,
}

impl Viewed {
    fn output(&self) -> Format {
        self.at.output
    }

    /// Observes the cluster, and calls `then` with the result and the time.
    fn look<F>(&self, then: impl Fn(Looked, u64) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        self.look_every(None, then)
    }

    /// The same, repeatedly.
    fn look_every<F>(
        &self,
        pause: Option<Duration>,
        then: impl Fn(Looked, u64) -> F,
    ) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        runtime()?.block_on(async {
            loop {
                let (looked, now_ms) = match (&self.from_snapshot, &self.cluster) {
                    (Some(file), _) => snapshot::read(file)?,
                    (None, Some(cluster)) => {
                        let now_ms = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
                        let looked = self.at.looked(cluster, self.for_file).await?;
                        (looked, u64::try_from(now_ms).unwrap_or_default())
                    }
                    (None, None) => bail!("name a Kafka resource"),
                };
                then(looked, now_ms).await?;
                let Some(pause) = pause else { return Ok(()) };
                tokio::time::sleep(pause).await;
            }
        })
    }
}

impl Target {
    /// Calls `then` with the cluster.
    fn run<F>(&self, then: impl FnOnce(Client, Found, Out) -> F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        runtime()?.block_on(async {
            let (client, found) = self.at.find(&self.cluster).await?;
            then(client, found, Out::new(self.at.output)).await
        })
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}

/// Facts that are unknown.
fn unknown(found: &Found, seen: &Seen) -> Vec<String> {
    let mut unknown = Vec::new();
    match (seen.secrets_readable, &seen.unreachable) {
        (false, _) => unknown.push(
            "no permission to read the Secrets of the cluster, which hold the key to its Kafka"
                .to_owned(),
        ),
        (true, Some(why)) => unknown.push(format!(
            "{why}: facts that only Kafka has are missing, such as the voters and the partitions"
        )),
        (true, None) => {}
    }
    if found.rebalances.is_none() {
        unknown.push("the KafkaRebalances could not be listed".to_owned());
    }
    if found.kafka.status.is_none() {
        unknown.push("the operator has not reconciled the cluster yet: is it running?".to_owned());
    }
    unknown
}

impl At {
    async fn looked(&self, cluster: &str, for_file: bool) -> anyhow::Result<Looked> {
        let (_, found) = self.find(cluster).await?;
        let at = (&self.reach, &self.hosts);
        let Staged { stage, names, assumed, .. } = stage::stage(at, cluster, None, None).await?;
        let stage = if for_file { stage.in_full() } else { stage };
        let seen = stage.present(&names).await?;
        let seen = seen.context("the Kafka was deleted just now")?;
        let unknown = unknown(&found, &seen);
        let objects = for_file.then(|| stage.saved(&seen)).flatten();
        let sizes = match for_file {
            true => plan::sizes(&seen.log_dirs().await).into_iter().collect(),
            false => Vec::new(),
        };
        let edits = objects.map(|objects| Edits { objects, assumed, sizes });
        Ok(Looked { found, seen, unknown, edits })
    }

    async fn find(&self, cluster: &str) -> anyhow::Result<(Client, Found)> {
        let (config, namespace) = self.reach.config().await?;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).context("cannot create a Kubernetes client")?;
        let at = (&client, server.as_str());
        let Some(found) = find_in(at, &namespace, cluster).await? else {
            bail!("there is no Kafka {cluster} in namespace {namespace}");
        };
        Ok((client, found))
    }
}

/// A cluster as Kubernetes shows it; `None` if there is none.
async fn find_in(
    (client, server): (&Client, &str),
    namespace: &str,
    cluster: &str,
) -> anyhow::Result<Option<Found>> {
    let api: Api<Kafka> = Api::namespaced(client.clone(), namespace);
    let kafka = api.get_opt(cluster).await;
    let kafka = kafka
        .with_context(|| format!("cannot read the Kafka {cluster} from Kubernetes at {server}"))?;
    let Some(kafka) = kafka else { return Ok(None) };
    let labels = format!("{CLUSTER_LABEL}={cluster}");
    let of_cluster = ListParams::default().labels(&labels);
    let api: Api<KafkaNodePool> = Api::namespaced(client.clone(), namespace);
    let pools = api.list(&of_cluster).await.context("cannot list the node pools")?.items;
    let api: Api<StrimziPodSet> = Api::namespaced(client.clone(), namespace);
    let sets = api.list(&of_cluster).await.context("cannot list the pod sets")?.items;
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let labels = format!("{labels},{}=Kafka", api::names::KIND_LABEL);
    let of_nodes = ListParams::default().labels(&labels);
    let pods = api.list(&of_nodes).await.context("cannot list the pods")?.items;
    let api: Api<KafkaRebalance> = Api::namespaced(client.clone(), namespace);
    let rebalances = api.list(&of_cluster).await.ok().map(|list| list.items);
    let names = Names::new(namespace, cluster);
    Ok(Some(Found { names, kafka, pools, sets, pods, rebalances }))
}
