//! What is observed of the clusters of a Kubernetes cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use api::Kafka;
use api::names::{CLUSTER_LABEL, KIND_LABEL, Names};
use console::page::{Cluster, ClusterRow, Fleet, Overview, Rights};
use console::source::{
    Acting, ClusterId, Edit as Request, Observing, Reason, Refusal, Resources, Source, Trouble,
};
use control::rebalance::execution::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node as Machine, Pod};
use kafka_admin::LogDir;
use kube::api::ListParams;
use kube::{Api, Client, Config, ResourceExt as _};
use model::NodeId;
use operator::cluster::foresee::Edit;
use operator::install;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::super::stage::Staged;
use super::super::{Found, Looked, find_in, plan, stage, unknown};
use super::pages::{self, Beside};
use super::{act, fleet, rebalance};
use crate::commands::fleet::manager::Manager;
use crate::commands::hosts::Hosts;

/// The zone of a machine.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Disks fill slowly, and to list what is on them costs a broker more than anything else that is asked.
const DISKS_EVERY: Duration = Duration::from_secs(30);

/// An observation that takes longer has failed: the page must not show old facts as if they were new.
const OBSERVED_WITHIN: Duration = Duration::from_secs(30);

/// A plan asks more of Kafka and computes more.
const PLANNED_WITHIN: Duration = Duration::from_secs(120);

/// Rights change seldom, and a request that is refused later is reported.
const RIGHTS_EVERY: Duration = Duration::from_secs(60);

/// A cluster without an open page is observed that often, for its history.
const BACKGROUND: Duration = Duration::from_secs(60);

/// A leader renews its Lease much more often, and another replica takes over sooner.
const SILENT: Duration = Duration::from_secs(25);

/// Where and how to observe.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) config: Config,
    /// Names of hosts that are in no DNS.
    pub(super) hosts: Hosts,
    pub(super) directory: Option<PathBuf>,
    /// The namespace that the user has named; all if none.
    pub(super) namespace: Option<String>,
    pub(super) interval: Duration,
    pub(super) fleet: Option<Arc<Manager>>,
    /// Whether it is the console of one user. One that serves users observes for those who look only.
    pub(super) is_own: bool,
}

/// The clusters of a Kubernetes cluster.
pub(super) struct Live {
    site: Site,
    client: Client,
    server: String,
    kept: Mutex<BTreeMap<ClusterId, Arc<Mutex<Kept>>>>,
}

/// What is kept of a cluster from one observation to the next.
#[derive(Default)]
struct Kept {
    /// With it, its connections to Kafka.
    staged: Option<Staged>,
    disks: Option<(Instant, BTreeMap<NodeId, Vec<LogDir>>)>,
    rights: Option<(Instant, Rights)>,
    job: Option<(String, Job)>,
}

impl Live {
    pub(super) fn new(site: Site) -> anyhow::Result<Self> {
        let server = site.config.cluster_url.to_string();
        let client = Client::try_from(site.config.clone());
        let client = client.context("cannot create a Kubernetes client")?;
        Ok(Self { site, client, server, kept: Mutex::default() })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match &self.site.namespace {
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
        let which = match &self.site.namespace {
            Some(namespace) => format!("of namespace {namespace}"),
            None => "of all namespaces (name one with -n)".to_owned(),
        };
        format!("cannot list the Kafkas {which} at {}", self.server)
    }

    async fn kept(&self, id: &ClusterId) -> Arc<Mutex<Kept>> {
        Arc::clone(self.kept.lock().await.entry(id.clone()).or_default())
    }

    /// What is needed to observe a cluster, and to plan for it.
    async fn staged(&self, id: &ClusterId, version: Option<&str>) -> anyhow::Result<Staged> {
        let names = Names::new(&id.namespace, &id.name);
        let resolve = self.site.hosts.names(self.site.directory.as_deref())?;
        stage::of_config(self.site.config.clone(), resolve, names, version).await
    }

    async fn look(&self, id: &ClusterId) -> anyhow::Result<Option<Cluster>> {
        let kept = self.kept(id).await;
        let mut kept = kept.lock().await;
        if !self.site.is_own {
            let right = ("get", "kafkas", Some(id.name.as_str()));
            let may = act::may(&self.client, &id.namespace, right).await;
            ensure!(may != Some(false), "you may not get the Kafka {}", id.name);
        }
        let at = (&self.client, self.server.as_str());
        let Some(found) = find_in(at, &id.namespace, &id.name).await? else { return Ok(None) };
        let Kept { staged, disks, rights, job } = &mut *kept;
        let Staged { stage, names, .. } = match staged {
            Some(staged) => staged,
            none @ None => none.insert(self.staged(id, None).await?),
        };
        let Some(seen) = stage.present(names).await? else { return Ok(None) };
        if disks.as_ref().is_none_or(|(at, _)| at.elapsed() >= DISKS_EVERY) {
            *disks = Some((Instant::now(), seen.log_dirs().await));
        }
        let dirs = disks.as_ref().map(|(_, disks)| disks.clone()).unwrap_or_default();
        // An edit that changes nothing: what is left of those before it.
        let edited = stage.edited(names, &Edit::default(), Some(&seen)).await;
        let plan = match edited {
            Ok(edited) => plan::left((stage, names), (&seen, &edited), plan::sizes(&dirs)).await,
            Err(error) => Err(error.into()),
        };
        if rights.is_none_or(|(at, _)| at.elapsed() >= RIGHTS_EVERY) {
            *rights = Some((Instant::now(), act::rights(&self.client, &id.namespace).await));
        }
        let beside = Beside {
            zones: self.zones().await,
            disks: dirs,
            plan: plan.unwrap_or_default(),
            taken_ms: None,
            rebalances: self.rebalances(&found, job).await,
            rights: rights.map(|(_, rights)| rights).unwrap_or_default(),
            operator_silent_since_ms: self.operator_silent_since_ms().await,
        };
        let unknown = unknown(&found, &seen);
        let looked = Looked { found, seen, unknown, edits: None };
        Ok(Some(pages::cluster(&looked, &beside, host::clock::now_ms())))
    }

    /// What ConfigMaps say of rebalances. Who may not read them sees what the resources say.
    async fn rebalances(&self, found: &Found, kept: &mut Option<(String, Job)>) -> rebalance::Read {
        let namespace = &found.names.namespace;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let labels = format!("{CLUSTER_LABEL}={},{KIND_LABEL}=KafkaRebalance", found.names.cluster);
        let Ok(list) = api.list(&ListParams::default().labels(&labels)).await else {
            return rebalance::Read::default();
        };
        let maps: BTreeMap<_, _> =
            list.items.into_iter().map(|map| (map.name_any(), map)).collect();
        let executing = maps.get(&found.names.moves()).and_then(operator::rebalance::executing);
        let Some(executing) = executing else {
            *kept = None;
            return rebalance::Read { maps, executing: None };
        };
        // A job does not change, and may be large.
        if kept.as_ref().is_none_or(|(key, _)| *key != executing.key) {
            let job = operator::rebalance::job(&self.client, &found.kafka, &executing.key).await;
            *kept = job.map(|job| (executing.key.clone(), job));
        }
        let job = kept.as_ref().map(|(_, job)| job.clone());
        rebalance::Read { maps, executing: Some((executing, job)) }
    }

    /// The effects of an edit.
    async fn foretell(&self, id: &ClusterId, edit: &Request) -> anyhow::Result<Value> {
        let documents = act::documents(edit).map_err(|refusal| anyhow!(refusal.message))?;
        let version = documents.iter().find(|one| one["kind"] == "Kafka");
        let version = version.and_then(|one| one["spec"]["kafka"]["version"].as_str());
        let Staged { stage, names, assumed, .. } = self.staged(id, version).await?;
        let stage = stage.in_full();
        let present = stage.present(&names).await?;
        plan::of_documents((&stage, &names), present.as_ref(), documents, assumed.as_ref()).await
    }

    /// Since when the operator has not renewed its Lease, if that is too long. `None` also without the right to read Leases.
    async fn operator_silent_since_ms(&self) -> Option<u64> {
        let named = ListParams::default().fields(&format!("metadata.name={}", install::NAME));
        let everywhere: Api<Lease> = Api::all(self.client.clone());
        let here: Api<Lease> = Api::namespaced(self.client.clone(), install::NAMESPACE);
        let found = match everywhere.list(&named).await {
            Ok(found) => found,
            Err(_) => here.list(&named).await.ok()?,
        };
        let times = found.items.into_iter().filter_map(|lease| Some(lease.spec?.renew_time?.0));
        let renewed_ms = u64::try_from(times.max()?.as_millisecond()).ok()?;
        let now_ms = host::clock::now_ms();
        let is_silent = Duration::from_millis(now_ms.saturating_sub(renewed_ms)) > SILENT;
        is_silent.then_some(renewed_ms)
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
        Some(self.site.interval)
    }

    fn background(&self) -> Option<Duration> {
        self.site.is_own.then_some(BACKGROUND)
    }

    fn fleet(&self) -> Observing<'_, Option<Fleet>> {
        Box::pin(in_time(async {
            match &self.site.fleet {
                Some(manager) => Ok(Some(fleet::fleet(&manager.connect()?).await?)),
                None => Ok(None),
            }
        }))
    }

    fn has_fleet(&self) -> bool {
        self.site.fleet.is_some()
    }

    fn origin(&self) -> String {
        self.server.clone()
    }

    fn resources<'a>(&'a self, id: &'a ClusterId) -> Acting<'a, Resources> {
        Box::pin(async {
            match timeout(OBSERVED_WITHIN, act::resources(&self.client, id)).await {
                Ok(read) => read.map_err(|error| act::refused(&error)),
                Err(_) => Err(late(OBSERVED_WITHIN)),
            }
        })
    }

    fn plan<'a>(&'a self, id: &'a ClusterId, edit: &'a Request) -> Acting<'a, Value> {
        Box::pin(async {
            // What is not YAML is the user's mistake, and not Kafka's silence.
            act::documents(edit)?;
            match timeout(PLANNED_WITHIN, self.foretell(id, edit)).await {
                Ok(plan) => plan.map_err(|error| act::refused(&error)),
                Err(_) => Err(late(PLANNED_WITHIN)),
            }
        })
    }

    fn apply<'a>(&'a self, id: &'a ClusterId, edit: &'a Request) -> Acting<'a, Vec<String>> {
        Box::pin(async {
            match timeout(OBSERVED_WITHIN, act::apply(&self.client, id, edit)).await {
                Ok(applied) => applied,
                Err(_) => Err(unclear()),
            }
        })
    }

    fn command<'a>(
        &'a self,
        id: &'a ClusterId,
        rebalance: &'a str,
        command: &'a str,
    ) -> Acting<'a, ()> {
        Box::pin(async move {
            let asked = act::command(&self.client, id, (rebalance, command));
            match timeout(OBSERVED_WITHIN, asked).await {
                Ok(asked) => asked,
                Err(_) => Err(unclear()),
            }
        })
    }
}

fn late(limit: Duration) -> Refusal {
    act::refusal(Reason::Failed, format!("no answer within {} s", limit.as_secs()))
}

/// A time-out is not a failure.
fn unclear() -> Refusal {
    let message = format!(
        "no answer within {} s: it is unknown whether the change was made",
        OBSERVED_WITHIN.as_secs()
    );
    act::refusal(Reason::Failed, message)
}
