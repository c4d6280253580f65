//! What is known of each cluster for scrapes: taken from the decision and the report of its passes, without further calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use api::names::Names;
use control::cluster::act::What;
use control::cluster::decide::Decision;
use control::cluster::record::Record;
use control::cluster::snapshot::Snapshot;
use control::conditions::Outcome;
use control::quorum::answer::Answer;
use control::rebalance::execution::{self, Progress, Recorded};
use control::rolling::memory::Memory;
use model::NodeId;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::catalog::{self, Entry, Type};
use super::sample::{self, Labels, Sample};
use crate::words::word;

/// Restarts of a node take from seconds to the recovery of its logs.
const RESTART_SECONDS: [f64; 9] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1800.0];

/// The outcomes of attempts to save a record, each of which has a series.
const SAVES: [&str; 3] = ["saved", "conflict", "failed"];

type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// The clusters. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Clusters {
    pictures: Arc<Mutex<BTreeMap<Names, Picture>>>,
    restarts: Family<Labels, Histogram, fn() -> Histogram>,
    /// The namespaces that have, or had, clusters.
    namespaces: Arc<Mutex<BTreeSet<String>>>,
}

impl Default for Clusters {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(RESTART_SECONDS);
        let restarts = Family::new_with_constructor(histogram);
        Self { pictures: Arc::default(), restarts, namespaces: Arc::default() }
    }
}

/// What is known of a cluster.
#[derive(Debug)]
struct Picture {
    /// The pools of its last pass.
    pools: i64,
    outcome: Option<Sample>,
    decided: Vec<Sample>,
    moves: Vec<Sample>,
    progress: Vec<Sample>,
    /// Seconds since 1970.
    certificates: BTreeMap<&'static str, i64>,
    /// Milliseconds since 1970.
    facts: BTreeMap<&'static str, u64>,
    counts: BTreeMap<(&'static str, Labels), u64>,
    /// When operations in progress began, and how long they were estimated to take, by operation.
    planned: BTreeMap<&'static str, (u64, u64)>,
    /// The estimated and the real duration of operations that ended.
    ended: BTreeMap<&'static str, (Option<u64>, u64)>,
}

impl Default for Picture {
    fn default() -> Self {
        // A counter that appears with its first event shows no increase for it.
        let saves = SAVES.map(|outcome| {
            (("gregor_record_saves_total", vec![("outcome", outcome.to_owned())]), 0)
        });
        Self {
            pools: 0,
            outcome: None,
            decided: Vec::new(),
            moves: Vec::new(),
            progress: Vec::new(),
            certificates: BTreeMap::new(),
            facts: BTreeMap::new(),
            counts: saves.into(),
            planned: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }
}

/// A recorded decision of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided<'a> {
    /// The facts.
    pub(crate) snapshot: &'a Snapshot,
    /// The record that it was decided on.
    pub(crate) before: &'a Record,
    /// The decision.
    pub(crate) decision: &'a Decision,
    /// The number of pools of the cluster.
    pub(crate) pools: usize,
}

impl Clusters {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Names, Picture>> {
        super::lock(&self.pictures)
    }

    fn with(&self, names: &Names, change: impl FnOnce(&mut Picture)) {
        super::lock(&self.namespaces).insert(names.namespace.clone());
        change(self.lock().entry(names.clone()).or_default());
    }

    /// A decision was recorded.
    pub(super) fn decided(&self, names: &Names, decided: &Decided<'_>) {
        let Decided { snapshot, before, decision, pools } = *decided;
        let restarts = self.restarts.get_or_create_owned(&of(names, &[]));
        for seconds in restarted(&before.roll, &decision.record.roll, snapshot.now_ms) {
            restarts.observe(seconds);
        }
        self.with(names, |picture| {
            picture.pools = i64::try_from(pools).unwrap_or(i64::MAX);
            picture.decided = sample::of_decision(snapshot, decision);
            picture.certificates.extend(sample::certificates(snapshot));
            picture.facts.extend(sample::fact_times(snapshot));
            picture.time_roll(&before.roll, &decision.record, snapshot.now_ms);
        });
    }

    /// A pass ended so.
    pub(super) fn passed(&self, names: &Names, outcome: &Outcome) {
        let (word, reason) = match outcome {
            Outcome::Done => ("done", "none"),
            Outcome::Progressing(note) => ("progressing", note.reason.name()),
            Outcome::Held(note) => ("held", note.reason.name()),
            Outcome::Paused => ("paused", "none"),
        };
        let labels = vec![("outcome", word.to_owned()), ("reason", reason.to_owned())];
        self.with(names, |picture| {
            picture.count("gregor_decisions_total", labels.clone());
            picture.outcome = Some(Sample { name: "gregor_cluster_outcome", labels, value: 1.0 });
        });
    }

    /// An act was sent; no answer if the pass failed with it.
    pub(super) fn acted(&self, names: &Names, what: &What, answer: Option<Answer>) {
        let answer = answer.map_or_else(|| "error".to_owned(), |answer| word(&answer));
        let labels = vec![("act", word(what)), ("answer", answer)];
        self.with(names, |picture| picture.count("gregor_acts_total", labels));
    }

    /// The record was to be saved.
    pub(super) fn saved(&self, names: &Names, outcome: &'static str) {
        let labels = vec![("outcome", outcome.to_owned())];
        self.with(names, |picture| picture.count("gregor_record_saves_total", labels));
    }

    /// A pass was made over moves.
    pub(super) fn moved(
        &self,
        names: &Names,
        recorded: &Recorded,
        progress: &Progress,
        now_ms: u64,
    ) {
        self.with(names, |picture| {
            picture.moves = sample::moves(recorded);
            picture.progress = sample::progress(progress);
            let began_ms = recorded.began_ms;
            if recorded.phase == execution::Phase::Ended {
                picture.end("moves", began_ms, recorded.since_ms);
            } else if let Some(left_ms) = progress.left_ms {
                let planned_ms = now_ms.saturating_sub(began_ms) + left_ms;
                picture.plan("moves", began_ms, planned_ms);
            }
        });
    }

    /// A pass over moves failed after this was recorded. How far they are is as unknown as before.
    pub(super) fn moves_failed(&self, names: &Names, recorded: &Recorded) {
        self.with(names, |picture| picture.moves = sample::moves(recorded));
    }

    /// A cluster is gone.
    pub(super) fn forget(&self, names: &Names) {
        self.lock().remove(names);
        self.restarts.remove(&of(names, &[]));
    }

    /// Forgets the clusters that do not exist, of this namespace or of all.
    pub(super) fn retain(&self, scope: Option<&str>, exists: impl Fn(&Names) -> bool) {
        let is_gone =
            |names: &&Names| scope.is_none_or(|scope| scope == names.namespace) && !exists(names);
        let gone: Vec<Names> = self.lock().keys().filter(is_gone).cloned().collect();
        gone.iter().for_each(|names| self.forget(names));
    }

    /// The pools of all clusters, by namespace; 0 for a namespace that has none any more.
    pub(super) fn pools(&self) -> BTreeMap<String, i64> {
        let namespaces = super::lock(&self.namespaces);
        let mut all: BTreeMap<_, _> = namespaces.iter().map(|one| (one.clone(), 0)).collect();
        for (names, picture) in self.lock().iter() {
            *all.entry(names.namespace.clone()).or_default() += picture.pools;
        }
        all
    }

    /// Adds all series to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let mut gauges: BTreeMap<&'static str, Gauges> = BTreeMap::new();
        let mut counters: BTreeMap<&'static str, Counters> = BTreeMap::new();
        for (names, picture) in self.lock().iter() {
            for Sample { name, labels, value } in picture.samples(names) {
                gauges.entry(name).or_default().get_or_create(&of(names, &labels)).set(value);
            }
            for ((name, labels), count) in &picture.counts {
                let family = counters.entry(*name).or_default();
                family.get_or_create(&of(names, labels)).inc_by(*count);
            }
        }
        let is_of_cluster = |entry: &&Entry| entry.labels.starts_with(&["namespace", "cluster"]);
        for entry in catalog::ENTRIES.iter().filter(is_of_cluster) {
            let (family, help) = (entry.family(), entry.help());
            match entry.kind {
                Type::Gauge => {
                    if let Some(gauges) = gauges.remove(entry.name) {
                        registry.register(family, help, gauges);
                    }
                }
                Type::Counter => {
                    if let Some(counters) = counters.remove(entry.name) {
                        registry.register(family, help, counters);
                    }
                }
                Type::Histogram => registry.register(family, help, self.restarts.clone()),
            }
        }
        if let Some(gauges) = gauges.remove(EXPIRATION) {
            super::register(registry, EXPIRATION, gauges);
        }
        debug_assert!(gauges.is_empty() && counters.is_empty(), "{gauges:?} {counters:?}");
    }
}

/// The metric of Strimzi for the end of an authority's certificate.
const EXPIRATION: &str = "strimzi_certificate_expiration_timestamp_ms";

/// The labels of a series of a cluster.
fn of(names: &Names, labels: &[(&'static str, String)]) -> Labels {
    let mut all = vec![("namespace", names.namespace.clone()), ("cluster", names.cluster.clone())];
    all.extend(labels.iter().cloned());
    all
}

/// The seconds that restarts took that ended between two records.
fn restarted(before: &Memory, after: &Memory, now_ms: u64) -> Vec<f64> {
    let is_over = |node: &NodeId| !after.nodes.get(node).is_some_and(|memory| memory.ours);
    let ours = before.nodes.iter().filter(|(node, memory)| memory.ours && is_over(node));
    let began = ours.filter_map(|(_, memory)| memory.restarted_ms);
    began.map(|ms| now_ms.saturating_sub(ms) as f64 / 1000.0).collect()
}

impl Picture {
    fn count(&mut self, name: &'static str, labels: Labels) {
        *self.counts.entry((name, labels)).or_default() += 1;
    }

    /// The first estimate of an operation holds.
    fn plan(&mut self, operation: &'static str, began_ms: u64, planned_ms: u64) {
        let known = self.planned.get(operation).is_some_and(|(began, _)| *began == began_ms);
        if !known {
            self.planned.insert(operation, (began_ms, planned_ms));
        }
    }

    fn end(&mut self, operation: &'static str, began_ms: u64, ended_ms: u64) {
        let planned = self.planned.remove(operation).filter(|(began, _)| *began == began_ms);
        let took_ms = ended_ms.saturating_sub(began_ms);
        let planned = planned.map(|(_, planned_ms)| planned_ms);
        // An end that is reported again keeps the estimate.
        let before = self.ended.get(operation);
        let is_repeated = planned.is_none() && before.is_some_and(|(_, ms)| *ms == took_ms);
        if !is_repeated {
            self.ended.insert(operation, (planned, took_ms));
        }
    }

    fn time_roll(&mut self, before: &Memory, after: &Record, now_ms: u64) {
        if let (Some(roll), None) = (&before.roll, &after.roll.roll) {
            self.end("roll", roll.started_ms, now_ms);
        }
        let account = after.roll_account.as_ref();
        let estimate = account.and_then(|account| account.estimate(now_ms));
        if let (Some(roll), Some(estimate)) = (&after.roll.roll, estimate) {
            let planned_ms = estimate.end_ms.saturating_sub(roll.started_ms);
            self.plan("roll", roll.started_ms, planned_ms);
            self.decided.push(sample::estimated_end(estimate.end_ms));
        }
    }

    fn samples(&self, names: &Names) -> Vec<Sample> {
        let mut all: Vec<Sample> = self.outcome.clone().into_iter().collect();
        all.extend(self.decided.iter().chain(&self.moves).chain(&self.progress).cloned());
        all.extend(self.facts.iter().map(|(source, ms)| sample::read_at(source, *ms)));
        for (kind, end) in &self.certificates {
            all.extend(expiration(names, kind, *end));
        }
        for (operation, (planned, took)) in &self.ended {
            let sample = |name, ms: u64| Sample {
                name,
                labels: vec![("operation", (*operation).to_owned())],
                value: ms as f64 / 1000.0,
            };
            let planned = planned.map(|ms| sample("gregor_operation_planned_duration_seconds", ms));
            all.extend(planned);
            all.push(sample("gregor_operation_duration_seconds", *took));
        }
        all
    }
}

/// The end of a certificate, by our name and, for authorities, by Strimzi's.
fn expiration(names: &Names, kind: &str, end: i64) -> Vec<Sample> {
    let own = Sample {
        name: "gregor_certificate_expiration_timestamp_seconds",
        labels: vec![("type", kind.to_owned())],
        value: end as f64,
    };
    if !kind.ends_with("-ca") {
        return vec![own];
    }
    let labels = vec![
        ("type", kind.to_owned()),
        ("kind", "Kafka".to_owned()),
        ("resource_namespace", names.namespace.clone()),
    ];
    vec![own, Sample { name: EXPIRATION, labels, value: end as f64 * 1000.0 }]
}
