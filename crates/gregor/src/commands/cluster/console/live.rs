//! What is observed of the clusters of a Kubernetes cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::Kafka;
use api::names::{CLUSTER_LABEL, KIND_LABEL, Names};
use console::page::{Cluster, ClusterRow, Overview};
use console::source::{ClusterId, Observing, Source, Trouble};
use k8s_openapi::api::core::v1::{Node as Machine, Pod};
use kafka_admin::LogDir;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use model::NodeId;
use operator::cluster::foresee::{Edit, Stage};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::super::{At, Looked, find_in, plan, stage, unknown};
use super::pages::{self, Beside};

/// The zone of a machine.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Disks fill slowly, and to list what is on them costs a broker more than anything else that is asked.
const DISKS_EVERY: Duration = Duration::from_secs(30);

/// An observation that takes longer has failed: the page must not show old facts as if they were new.
const OBSERVED_WITHIN: Duration = Duration::from_secs(30);

/// The clusters of a Kubernetes cluster.
pub(super) struct Live {
    at: At,
    client: Client,
    server: String,
    /// The namespace that the user has named; all if none.
    namespace: Option<String>,
    interval: Duration,
    kept: Mutex<BTreeMap<ClusterId, Arc<Mutex<Kept>>>>,
}

/// What is kept of a cluster from one observation to the next.
#[derive(Default)]
struct Kept {
    /// With it, its connections to Kafka.
    stage: Option<Stage>,
    disks: Option<(Instant, BTreeMap<NodeId, Vec<LogDir>>)>,
}

impl Live {
    pub(super) async fn new(at: At, interval: Duration) -> anyhow::Result<Self> {
        let (config, _) = at.reach.config().await?;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).context("cannot create a Kubernetes client")?;
        let namespace = at.reach.namespace().map(str::to_owned);
        Ok(Self { at, client, server, namespace, interval, kept: Mutex::default() })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    async fn rows(&self) -> anyhow::Result<Overview> {
        let kafkas = self.api::<Kafka>().list(&ListParams::default()).await;
        let kafkas = kafkas.with_context(|| self.unlisted())?;
        let nodes = ListParams::default().labels(&format!("{KIND_LABEL}=Kafka"));
        let pods = self.api::<Pod>().list(&nodes).await.ok().map(|list| list.items);
        let unknown = match pods {
            Some(_) => Vec::new(),
            None => vec!["the pods could not be listed".to_owned()],
        };
        let row = |kafka: &Kafka| -> ClusterRow {
            let is_of = |pod: &&Pod| {
                pod.namespace() == kafka.namespace()
                    && pod.labels().get(CLUSTER_LABEL) == Some(&kafka.name_any())
            };
            let pods = pods.as_ref().map(|pods| pods.iter().filter(is_of).collect::<Vec<_>>());
            pages::row(kafka, pods.as_deref())
        };
        let mut clusters: Vec<_> = kafkas.items.iter().map(row).collect();
        clusters.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Ok(Overview { clusters, unknown })
    }

    fn unlisted(&self) -> String {
        let which = match &self.namespace {
            Some(namespace) => format!("of namespace {namespace}"),
            None => "of all namespaces (name one with -n)".to_owned(),
        };
        format!("cannot list the Kafkas {which} at {}", self.server)
    }

    async fn look(&self, id: &ClusterId) -> anyhow::Result<Option<Cluster>> {
        let kept = Arc::clone(self.kept.lock().await.entry(id.clone()).or_default());
        let mut kept = kept.lock().await;
        let kept = &mut *kept;
        let at = (&self.client, self.server.as_str());
        let Some(found) = find_in(at, &id.namespace, &id.name).await? else { return Ok(None) };
        let names = Names::new(&id.namespace, &id.name);
        let stage = match &mut kept.stage {
            Some(stage) => stage,
            none @ None => {
                let at = (&self.at.reach, &self.at.hosts);
                let staged = stage::stage(at, &id.name, Some(&id.namespace), None).await?;
                none.insert(staged.stage)
            }
        };
        let Some(seen) = stage.present(&names).await? else { return Ok(None) };
        let disks = match kept.disks.take().filter(|(at, _)| at.elapsed() < DISKS_EVERY) {
            Some(disks) => disks,
            None => (Instant::now(), seen.log_dirs().await),
        };
        // An edit that changes nothing: what is left of those before it.
        let edited = stage.edited(&names, &Edit::default(), Some(&seen)).await;
        let plan = match edited {
            Ok(edited) => {
                plan::left((stage, &names), (&seen, &edited), plan::sizes(&disks.1)).await
            }
            Err(error) => Err(error.into()),
        };
        let plan = plan.unwrap_or_default();
        let disks = kept.disks.insert(disks).1.clone();
        let beside = Beside { zones: self.zones().await, disks, plan, taken_ms: None };
        let unknown = unknown(&found, &seen);
        let looked = Looked { found, seen, unknown, edits: None };
        Ok(Some(pages::cluster(&looked, &beside, host::clock::now_ms())))
    }

    /// The zones of the machines. They belong to no namespace, and not everybody may read them.
    async fn zones(&self) -> BTreeMap<String, String> {
        let api: Api<Machine> = Api::all(self.client.clone());
        let Ok(machines) = api.list_metadata(&ListParams::default()).await else {
            return BTreeMap::new();
        };
        let zone = |labels: &BTreeMap<String, String>| labels.get(ZONE).cloned();
        let all = machines.items.iter();
        all.filter_map(|machine| Some((machine.name_any(), zone(machine.labels())?))).collect()
    }
}

async fn in_time<T>(observed: impl Future<Output = anyhow::Result<T>>) -> Result<T, Trouble> {
    match timeout(OBSERVED_WITHIN, observed).await {
        Ok(seen) => seen.map_err(|error| Trouble(format!("{error:#}"))),
        Err(_) => Err(Trouble(format!("no answer within {} s", OBSERVED_WITHIN.as_secs()))),
    }
}

impl Source for Live {
    fn overview(&self) -> Observing<'_, Overview> {
        Box::pin(in_time(self.rows()))
    }

    fn cluster<'a>(&'a self, id: &'a ClusterId) -> Observing<'a, Option<Cluster>> {
        Box::pin(in_time(self.look(id)))
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn origin(&self) -> String {
        self.server.clone()
    }
}
