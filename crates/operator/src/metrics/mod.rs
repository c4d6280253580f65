//! The metrics of the operator. [`catalog`] describes each; names that dashboards for Strimzi use are kept.
//!
//! Counting must never change what is done: nothing here fails or waits, and no metric costs a request.

pub mod catalog;
mod clusters;
mod longest;
mod sample;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::names::Names;
use control::cluster::act::What;
use control::conditions::Outcome;
use control::quorum::answer::Answer;
use control::rebalance::execution::{Progress, Recorded};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use clusters::Clusters;
pub(crate) use clusters::Decided;
use longest::Longest;
use sample::Labels;

use crate::time::now_ms;

/// All that is counted. Clones share the numbers.
#[derive(Debug, Clone)]
pub struct Metrics {
    api_calls: Family<CallLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    kafka_calls: Family<KafkaLabels, Counter>,
    passes: Family<PassLabels, Counter>,
    passes_periodical: Family<PassLabels, Counter>,
    passes_successful: Family<PassLabels, Counter>,
    passes_failed: Family<PassLabels, Counter>,
    passes_locked: Family<PassLabels, Counter>,
    longest: Arc<Mutex<BTreeMap<PassLabels, Longest>>>,
    running: Family<KindLabels, Gauge>,
    waiting: Gauge,
    per_cluster: Clusters,
    rebalances: Arc<Mutex<BTreeMap<(String, String), Rebalance>>>,
    /// From which the times of observations are counted.
    start: Instant,
    pass_seconds: Family<PassLabels, Histogram, Seconds>,
    resources: Family<PassLabels, Gauge>,
    paused: Family<PassLabels, Gauge>,
    clusters: Family<StateLabels, Gauge>,
    collections: Family<CollectionLabels, Counter>,
    leader: Gauge,
}

/// A request to the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: String,
    resource: String,
}

/// A write, and its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: String,
    verb: String,
    outcome: WriteOutcome,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum WriteOutcome {
    /// Nothing would have changed, so that nothing was sent.
    Skipped,
    /// Sent, and nothing changed.
    Unchanged,
    /// Sent, and something changed.
    Changed,
    /// Not done, or not known to be done.
    Failed,
}

/// A call to Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KafkaLabels {
    call: String,
    effect: KafkaEffect,
}

/// A collection of metrics of topics and groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CollectionLabels {
    namespace: String,
    cluster: String,
    outcome: CollectionOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum CollectionOutcome {
    Done,
    Failed,
}

impl CollectionLabels {
    fn new(namespace: &str, cluster: &str, done: bool) -> Self {
        let outcome = if done { CollectionOutcome::Done } else { CollectionOutcome::Failed };
        Self { namespace: namespace.to_owned(), cluster: cluster.to_owned(), outcome }
    }
}

/// Whether a call to Kafka changes something there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum KafkaEffect {
    /// It only asks.
    Read,
    /// It changes something.
    Change,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct PassLabels {
    kind: String,
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

/// The state of a `KafkaRebalance`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rebalance {
    /// Its cluster.
    pub(crate) cluster: String,
    /// Its state, in the words of its status.
    pub(crate) phase: &'static str,
    /// The balancedness before and after the moves of its plan, if it has one.
    pub(crate) balancedness: (Option<f64>, Option<f64>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    namespace: String,
    state: String,
}

/// Passes take from milliseconds, when nothing changed, to a minute, when Kafka does not answer. The bounds that Strimzi
/// has are among them.
#[derive(Debug, Clone, Copy)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0])
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            api_calls: Family::default(),
            writes: Family::default(),
            kafka_calls: Family::default(),
            passes: Family::default(),
            passes_periodical: Family::default(),
            passes_successful: Family::default(),
            passes_failed: Family::default(),
            passes_locked: Family::default(),
            longest: Arc::default(),
            running: Family::default(),
            waiting: Gauge::default(),
            per_cluster: Clusters::default(),
            rebalances: Arc::default(),
            start: Instant::now(),
            pass_seconds: Family::new_with_constructor(Seconds),
            resources: Family::default(),
            paused: Family::default(),
            clusters: Family::default(),
            collections: Family::default(),
            leader: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Everything at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A request to the API server was sent.
    pub fn api_call(&self, verb: &str, resource: &str) {
        let labels = CallLabels { verb: verb.to_owned(), resource: resource.to_owned() };
        self.api_calls.get_or_create(&labels).inc();
    }

    /// A write was asked for.
    pub fn write(&self, kind: &str, verb: &str, outcome: WriteOutcome) {
        let labels = WriteLabels { kind: kind.to_owned(), verb: verb.to_owned(), outcome };
        self.writes.get_or_create(&labels).inc();
    }

    /// A call to Kafka was made. `call` is the kind of call, without names or ids.
    pub fn kafka_call(&self, call: &str, effect: KafkaEffect) {
        self.kafka_calls.get_or_create(&KafkaLabels { call: call.to_owned(), effect }).inc();
    }

    /// A pass over a resource began; `periodical` if nothing but time was the cause.
    pub fn pass_begun(&self, kind: &str, namespace: &str, periodical: bool) {
        let labels = PassLabels { kind: kind.to_owned(), namespace: namespace.to_owned() };
        self.passes.get_or_create(&labels).inc();
        self.passes_periodical.get_or_create(&labels).inc_by(u64::from(periodical));
        // A counter that appears with its first event shows no increase for it.
        for family in [&self.passes_successful, &self.passes_failed, &self.passes_locked] {
            drop(family.get_or_create(&labels));
        }
    }

    /// A pass ended.
    pub fn pass_ended(&self, kind: &str, namespace: &str, took: Duration, successful: bool) {
        let labels = PassLabels { kind: kind.to_owned(), namespace: namespace.to_owned() };
        let family = if successful { &self.passes_successful } else { &self.passes_failed };
        family.get_or_create(&labels).inc();
        self.pass_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let now = self.start.elapsed();
        lock(&self.longest).entry(labels).or_default().observe(now, took.as_secs_f64());
    }

    /// A pass runs, until the guard is dropped.
    pub(crate) fn running(&self, kind: &str) -> Counted {
        Counted::new(self.running.get_or_create_owned(&KindLabels { kind: kind.to_owned() }))
    }

    /// A pass waits for its turn to read, until the guard is dropped.
    pub(crate) fn waiting(&self) -> Counted {
        Counted::new(self.waiting.clone())
    }

    /// A decision about a cluster was recorded.
    pub(crate) fn decided(&self, names: &Names, decided: &Decided<'_>) {
        self.per_cluster.decided(names, decided);
    }

    /// A pass over a cluster ended.
    pub(crate) fn passed(&self, names: &Names, outcome: &Outcome) {
        self.per_cluster.passed(names, outcome);
    }

    /// An act was sent; no answer if the pass failed with it.
    pub(crate) fn acted(&self, names: &Names, what: &What, answer: Option<Answer>) {
        self.per_cluster.acted(names, what, answer);
    }

    /// The record of a cluster was to be saved.
    pub(crate) fn record_saved(&self, names: &Names, outcome: Saved) {
        self.per_cluster.saved(names, outcome.name());
    }

    /// A pass was made over the moves of a cluster.
    pub(crate) fn moved(&self, names: &Names, recorded: &Recorded, progress: &Progress) {
        self.per_cluster.moved(names, recorded, progress, now_ms());
    }

    /// A pass over the moves of a cluster failed after this was recorded.
    pub(crate) fn moves_failed(&self, names: &Names, recorded: &Recorded) {
        self.per_cluster.moves_failed(names, recorded);
    }

    /// Forgets the clusters that do not exist, of this namespace or of all.
    pub(crate) fn retain_clusters(&self, scope: Option<&str>, exists: impl Fn(&Names) -> bool) {
        self.per_cluster.retain(scope, exists);
    }

    /// A cluster is gone.
    pub(crate) fn forget(&self, names: &Names) {
        self.per_cluster.forget(names);
    }

    /// A pass was made over a `KafkaRebalance`.
    pub(crate) fn rebalance(&self, namespace: &str, name: &str, rebalance: Rebalance) {
        lock(&self.rebalances).insert((namespace.to_owned(), name.to_owned()), rebalance);
    }

    /// Forgets the `KafkaRebalance` resources that do not exist, of this namespace or of all.
    pub(crate) fn retain_rebalances(
        &self,
        scope: Option<&str>,
        exists: impl Fn(&str, &str) -> bool,
    ) {
        lock(&self.rebalances).retain(|(namespace, name), _| {
            scope.is_some_and(|scope| scope != namespace) || exists(namespace, name)
        });
    }

    /// How many resources of a kind there are in a namespace, and how many of them are paused.
    pub fn set_resources(&self, kind: &str, namespace: &str, all: i64, paused: i64) {
        let labels = PassLabels { kind: kind.to_owned(), namespace: namespace.to_owned() };
        self.resources.get_or_create(&labels).set(all);
        self.paused.get_or_create(&labels).set(paused);
    }

    /// How many clusters of a namespace are in a state.
    pub fn set_clusters(&self, namespace: &str, state: &str, count: i64) {
        let labels = StateLabels { namespace: namespace.to_owned(), state: state.to_owned() };
        self.clusters.get_or_create(&labels).set(count);
    }

    /// Metrics of topics and groups of a cluster were collected, or could not be.
    pub(crate) fn lag_collected(&self, namespace: &str, cluster: &str, done: bool) {
        self.collections.get_or_create(&CollectionLabels::new(namespace, cluster, done)).inc();
    }

    /// A cluster has no such metrics any more.
    pub(crate) fn lag_forgotten(&self, namespace: &str, cluster: &str) {
        for done in [true, false] {
            self.collections.remove(&CollectionLabels::new(namespace, cluster, done));
        }
    }

    /// Whether this process is the leader.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// All numbers in the text form of OpenMetrics.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry());
        text
    }

    fn registry(&self) -> Registry {
        let mut all = Registry::default();
        let passes = [
            ("strimzi_reconciliations_total", &self.passes),
            ("strimzi_reconciliations_periodical_total", &self.passes_periodical),
            ("strimzi_reconciliations_successful_total", &self.passes_successful),
            ("strimzi_reconciliations_failed_total", &self.passes_failed),
            ("strimzi_reconciliations_locked_total", &self.passes_locked),
        ];
        for (name, family) in passes {
            register(&mut all, name, family.clone());
        }
        register(&mut all, "strimzi_reconciliations_duration_seconds", self.pass_seconds.clone());
        register(&mut all, "strimzi_reconciliations_duration_seconds_max", self.longest());
        for (namespace, count) in self.per_cluster.pools() {
            self.set_resources("KafkaNodePool", &namespace, count, 0);
        }
        register(&mut all, "strimzi_resources", self.resources.clone());
        register(&mut all, "strimzi_resources_paused", self.paused.clone());
        register(&mut all, "gregor_build_info", build_info());
        register(&mut all, "gregor_leader", self.leader.clone());
        register(&mut all, "gregor_clusters", self.clusters.clone());
        register(&mut all, "gregor_passes_running", self.running.clone());
        register(&mut all, "gregor_passes_waiting", self.waiting.clone());
        register(&mut all, "gregor_api_calls_total", self.api_calls.clone());
        register(&mut all, "gregor_writes_total", self.writes.clone());
        register(&mut all, "gregor_kafka_calls_total", self.kafka_calls.clone());
        let collections = self.collections.clone();
        register(&mut all, "gregor_kafka_metrics_collections_total", collections);
        self.per_cluster.register(&mut all);
        let (phases, scores) = self.rebalance_gauges();
        register(&mut all, "gregor_rebalance_phase", phases);
        register(&mut all, "gregor_rebalance_balancedness", scores);
        all
    }

    fn longest(&self) -> Family<PassLabels, FloatGauge> {
        let (family, now) = (Family::<PassLabels, FloatGauge>::default(), self.start.elapsed());
        for (labels, longest) in lock(&self.longest).iter() {
            family.get_or_create(labels).set(longest.max(now));
        }
        family
    }

    fn rebalance_gauges(&self) -> (Family<Labels, FloatGauge>, Family<Labels, FloatGauge>) {
        let phases = Family::<Labels, FloatGauge>::default();
        let scores = Family::<Labels, FloatGauge>::default();
        for ((namespace, name), rebalance) in lock(&self.rebalances).iter() {
            let labels = |label: &'static str, value: &str| {
                let cluster = rebalance.cluster.clone();
                let of = [("namespace", namespace.clone()), ("cluster", cluster)];
                let which = [("rebalance", name.clone()), (label, value.to_owned())];
                of.into_iter().chain(which).collect::<Labels>()
            };
            phases.get_or_create(&labels("phase", rebalance.phase)).set(1.0);
            let (before, after) = rebalance.balancedness;
            for (when, score) in [("before", before), ("after", after)] {
                if let Some(score) = score {
                    scores.get_or_create(&labels("when", when)).set(score);
                }
            }
        }
        (phases, scores)
    }
}

type FloatGauge = Gauge<f64, AtomicU64>;

/// The result of an attempt to save a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    /// It is saved.
    Yes,
    /// Another writer came first.
    Conflict,
    /// It is not, or may not be.
    No,
}

impl Saved {
    const fn name(self) -> &'static str {
        match self {
            Self::Yes => "saved",
            Self::Conflict => "conflict",
            Self::No => "failed",
        }
    }
}

/// Something that a gauge counts.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn build_info() -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    family.get_or_create(&vec![("version", env!("CARGO_PKG_VERSION").to_owned())]).set(1);
    family
}

/// Registers a metric with its help text from the [`catalog`].
fn register(registry: &mut Registry, name: &str, metric: impl Metric) {
    let entry = catalog::find(name);
    debug_assert!(entry.is_some(), "{name} is not in the catalog");
    if let Some(entry) = entry {
        registry.register(entry.family(), entry.help(), metric);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single operation, so a panic elsewhere leaves the value whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
