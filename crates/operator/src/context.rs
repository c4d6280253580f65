//! What every pass is given: the way to Kubernetes and to Kafka, and how the operator was set up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::annotations::Annotation;
use control::life::coexist::Selector;
use control::quorum::Mark;
use control::rolling::facts::OPERATION_TIMEOUT_MS;
use kafka_admin::Resolve;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::events::{Recorder, Reporter};
use kube::{Api, Client};
use tokio::sync::Semaphore;

use crate::cluster::admins::Admins;
use crate::cluster::cache::Cache;
use crate::cluster::census::Standings;
use crate::lag::Pictures;
use crate::liveness::Beats;
use crate::per_cluster::PerCluster;
use crate::rebalance::load::Samples;
use crate::strimzi::Observed;
use crate::takeover::Removals;
use crate::write::Writer;

/// How many passes read at a time. A read takes milliseconds, so a pass does not wait for long.
const READERS: usize = 16;

/// How long a pod may take to become ready, unless the operator is told otherwise.
pub const OPERATION_TIMEOUT: Duration = Duration::from_millis(OPERATION_TIMEOUT_MS);

/// How the operator was set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The namespaces in which it works; all if empty.
    pub namespaces: Vec<String>,
    /// The image of a Kafka node, by the version of Kafka.
    pub kafka_images: BTreeMap<String, String>,
    /// The DNS domain of the Kubernetes cluster.
    pub cluster_domain: String,
    /// How often a cluster is looked at when nothing happens.
    pub interval: Duration,
    /// How long a pod may take to become ready.
    pub operation_timeout: Duration,
    /// Whether a cluster may manage resources of topics and users in another namespace. Whoever may edit a `Kafka` would
    /// have the operator write to resources and Secrets there.
    pub watches_other_namespaces: bool,
    /// The labels that a `Kafka` must have to be managed; all if empty.
    pub selector: Selector,
}

impl Settings {
    /// The watched namespaces: each one, or all of them at once (`None`).
    pub(crate) fn scopes(&self) -> Vec<Option<String>> {
        match self.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        }
    }
}

/// The annotation with which a user wants a resource left alone.
pub(crate) const PAUSE: &str = Annotation::PauseReconciliation.name();

/// Objects of a kind that is known by its name only, in one namespace or in all ([`Settings::scopes`]).
pub(crate) fn dynamic(
    client: &Client,
    scope: Option<&str>,
    resource: &ApiResource,
) -> Api<DynamicObject> {
    match scope {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// What every pass is given. Clones share everything.
#[derive(Clone)]
pub struct Context {
    /// For reads.
    pub client: Client,
    /// For everything else.
    pub writer: Writer,
    /// How the operator was set up.
    pub settings: Arc<Settings>,
    /// For Events.
    pub recorder: Recorder,
    /// The clients of the clusters' Kafkas, kept between passes.
    pub(crate) admins: Admins,
    /// Lets some passes at a time read from the API server, so that many clusters at once do not flood it.
    pub(crate) readers: Arc<Semaphore>,
    /// Where the leaders of quorums were when they were last described. Without a mark a decision waits for one pass more.
    pub(crate) marks: PerCluster<Mark>,
    /// The objects of the clusters, as watches have shown them.
    pub(crate) cache: Cache,
    /// When a pass last found something to write, in milliseconds since 1970.
    pub(crate) written: PerCluster<u64>,
    /// How the clusters are, for metrics.
    pub(crate) standings: Standings,
    /// What the clusters carried when that was last looked at, for rates.
    pub(crate) samples: Samples,
    /// Metrics of topics and groups.
    pub(crate) pictures: Pictures,
    /// The entity operators that were removed.
    pub(crate) removals: Removals,
    /// Which clusters are managed.
    pub(crate) managed: PerCluster<bool>,
    /// Cluster operators of Strimzi.
    pub(crate) strimzi: Observed,
    /// The progress of passes, for the liveness probe.
    pub(crate) beats: Beats,
}

impl Context {
    /// The context of an operator whose pod has this name.
    #[must_use]
    pub fn new(writer: Writer, settings: Settings, identity: &str) -> Self {
        let client = writer.client().clone();
        let reporter =
            Reporter { controller: "gregor.io/operator".into(), instance: Some(identity.into()) };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            writer,
            settings: Arc::new(settings),
            admins: Admins::default(),
            marks: PerCluster::default(),
            cache: Cache::default(),
            written: PerCluster::default(),
            standings: Standings::default(),
            samples: Samples::default(),
            removals: Removals::default(),
            managed: PerCluster::default(),
            strimzi: Observed::default(),
            beats: Beats::default(),
            pictures: Pictures::default(),
            readers: Arc::new(Semaphore::new(READERS)),
        }
    }

    /// The same, with progress recorded there.
    #[must_use]
    pub(crate) fn with_beats(self, beats: Beats) -> Self {
        Self { beats, ..self }
    }

    /// The same, with metrics of topics and groups kept there.
    #[must_use]
    pub(crate) fn with_pictures(self, pictures: Pictures) -> Self {
        Self { pictures, ..self }
    }

    /// The same, for a pass that only looks ([`Writer::looking`]).
    pub(crate) fn looking(&self) -> Self {
        Self { writer: self.writer.looking(), ..self.clone() }
    }

    /// The same, with nodes found by these names.
    pub(crate) fn with_names(self, names: Arc<dyn Resolve>) -> Self {
        Self { admins: Admins::new(names), ..self }
    }
}
