//! What the operator counts, by the names that dashboards for Strimzi know where there are such.
//!
//! Counting must never change what is done: nothing here fails or waits.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

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

/// A write that was asked for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: String,
    verb: String,
    outcome: WriteOutcome,
}

/// What came of a write.
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    kind: String,
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    namespace: String,
    state: String,
}

/// Passes take from milliseconds, when nothing changed, to a minute, when Kafka does not answer.
#[derive(Debug, Clone, Copy)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
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
        if periodical {
            self.passes_periodical.get_or_create(&labels).inc();
        }
    }

    /// A pass ended.
    pub fn pass_ended(&self, kind: &str, namespace: &str, took: Duration, successful: bool) {
        let labels = PassLabels { kind: kind.to_owned(), namespace: namespace.to_owned() };
        let family = if successful { &self.passes_successful } else { &self.passes_failed };
        family.get_or_create(&labels).inc();
        self.pass_seconds.get_or_create(&labels).observe(took.as_secs_f64());
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

    /// Whether this process leads.
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

    #[rustfmt::skip]
    fn registry(&self) -> Registry {
        let mut all = Registry::default();
        all.register("strimzi_reconciliations", "Passes", self.passes.clone());
        all.register("strimzi_reconciliations_periodical", "Passes that only time has caused", self.passes_periodical.clone());
        all.register("strimzi_reconciliations_successful", "Passes that succeeded", self.passes_successful.clone());
        all.register("strimzi_reconciliations_failed", "Passes that failed, or after which a person has to act", self.passes_failed.clone());
        all.register_with_unit("strimzi_reconciliations_duration", "How long passes take", Unit::Seconds, self.pass_seconds.clone());
        all.register("strimzi_resources", "Custom resources", self.resources.clone());
        all.register("strimzi_resources_paused", "Custom resources whose reconciliation is paused", self.paused.clone());
        all.register("gregor_clusters", "Clusters by state", self.clusters.clone());
        all.register("gregor_api_calls", "Requests to the API server", self.api_calls.clone());
        all.register("gregor_writes", "Writes that were asked for, and what came of them", self.writes.clone());
        all.register("gregor_kafka_calls", "Calls to Kafka", self.kafka_calls.clone());
        all.register("gregor_kafka_metrics_collections", "Collections of metrics of topics and groups", self.collections.clone());
        all.register("gregor_leader", "Whether this process leads", self.leader.clone());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_that_dashboards_ask_for() {
        let metrics = Metrics::new();
        metrics.pass_begun("Kafka", "demo", true);
        metrics.pass_ended("Kafka", "demo", Duration::from_millis(30), true);
        metrics.set_resources("Kafka", "demo", 2, 1);
        metrics.write("ConfigMap", "apply", WriteOutcome::Skipped);
        metrics.api_call("get", "pods");
        metrics.kafka_call("describe quorum", KafkaEffect::Read);
        let text = metrics.encode();
        for line in [
            r#"strimzi_reconciliations_total{kind="Kafka",namespace="demo"} 1"#,
            r#"strimzi_reconciliations_periodical_total{kind="Kafka",namespace="demo"} 1"#,
            r#"strimzi_reconciliations_successful_total{kind="Kafka",namespace="demo"} 1"#,
            r#"strimzi_reconciliations_duration_seconds_count{kind="Kafka",namespace="demo"} 1"#,
            r#"strimzi_resources{kind="Kafka",namespace="demo"} 2"#,
            r#"strimzi_resources_paused{kind="Kafka",namespace="demo"} 1"#,
            r#"gregor_writes_total{kind="ConfigMap",verb="apply",outcome="Skipped"} 1"#,
            r#"gregor_api_calls_total{verb="get",resource="pods"} 1"#,
            r#"gregor_kafka_calls_total{call="describe quorum",effect="Read"} 1"#,
            "gregor_leader 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
    }
}
