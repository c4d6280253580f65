//! Every metric of the operator: name, type, unit, labels, meaning and an example query.
//!
//! `docs/generated/metrics.md` is written from this list, and the help texts of the endpoint come from it. A test compares
//! it with what the endpoint serves, in both directions.
//!
//! Names of metrics and labels follow the conventions of Prometheus; the `strimzi_` names are those that dashboards and
//! alerts for Strimzi use. No metric has a label whose values grow with the partitions or topics of a cluster.

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// It only grows, except for restarts of the operator.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Observations in buckets, with their sum and number.
    Histogram,
}

impl Type {
    /// The word of Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a metric is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Reconciliation passes, by Strimzi's names.
    Passes,
    /// The operator process.
    Operator,
    /// The state of a cluster, and decisions about it.
    Cluster,
    /// Rolling restarts.
    Roll,
    /// The controller quorum.
    Quorum,
    /// Drains, moves of replicas, and rebalances.
    Moves,
}

impl Topic {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 6] =
        [Self::Passes, Self::Operator, Self::Cluster, Self::Roll, Self::Quorum, Self::Moves];

    /// The title on the page.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Passes => "Reconciliation passes",
            Self::Operator => "The operator",
            Self::Cluster => "Clusters",
            Self::Roll => "Rolling restarts",
            Self::Quorum => "Controller quorum",
            Self::Moves => "Drains, moves and rebalances",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What it is about.
    pub topic: Topic,
    /// Its name, as it is served; without `_bucket`, `_sum` and `_count` for a histogram.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// Its unit; empty for plain numbers.
    pub unit: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it means. The first sentence is the help text of the endpoint.
    pub meaning: &'static str,
    /// A query that uses it.
    pub query: &'static str,
}

impl Entry {
    /// The name as the library that serves it wants it: it adds the suffix of counters itself.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match self.kind {
            Type::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Type::Gauge | Type::Histogram => self.name,
        }
    }

    /// The help text, without the full stop that the library adds.
    #[must_use]
    pub fn help(&self) -> &'static str {
        let end = self.meaning.find(". ").unwrap_or(self.meaning.len());
        self.meaning[..end].trim_end_matches('.')
    }
}

/// The metric with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

const KIND: &[&str] = &["kind", "namespace"];
const OF_CLUSTER: &[&str] = &["namespace", "cluster"];

use Topic::{Cluster, Moves, Operator, Passes, Quorum, Roll};
use Type::{Counter, Gauge, Histogram};

/// All metrics of the operator on `/metrics`.
#[rustfmt::skip]
pub const ENTRIES: &[Entry] = &[
    Entry {
        topic: Passes, name: "strimzi_reconciliations_total", kind: Counter, unit: "", labels: KIND,
        meaning: "Reconciliation passes.",
        query: "sum by (kind) (rate(strimzi_reconciliations_total[5m]))",
    },
    Entry {
        topic: Passes, name: "strimzi_reconciliations_periodical_total", kind: Counter, unit: "", labels: KIND,
        meaning: "Reconciliation passes that only the interval caused.",
        query: "sum by (kind) (increase(strimzi_reconciliations_periodical_total[1h]))",
    },
    Entry {
        topic: Passes, name: "strimzi_reconciliations_successful_total", kind: Counter, unit: "", labels: KIND,
        meaning: "Reconciliation passes that succeeded.",
        query: "sum by (kind) (increase(strimzi_reconciliations_successful_total[1h]))",
    },
    Entry {
        topic: Passes, name: "strimzi_reconciliations_failed_total", kind: Counter, unit: "", labels: KIND,
        meaning: "Reconciliation passes that failed, or after which a user has to act.",
        query: "sum by (kind, namespace) (increase(strimzi_reconciliations_failed_total[1h]))",
    },
    Entry {
        topic: Passes, name: "strimzi_reconciliations_locked_total", kind: Counter, unit: "", labels: KIND,
        meaning: "Reconciliation passes that could not get a lock. Always 0: passes of one resource follow each other and take \
                  no lock. It exists for dashboards of Strimzi.",
        query: "sum by (kind) (increase(strimzi_reconciliations_locked_total[1h]))",
    },
    Entry {
        topic: Passes, name: "strimzi_reconciliations_duration_seconds", kind: Histogram, unit: "seconds", labels: KIND,
        meaning: "Duration of reconciliation passes.",
        query: "histogram_quantile(0.95, sum by (le, kind) (rate(strimzi_reconciliations_duration_seconds_bucket[5m])))",
    },
    Entry {
        topic: Passes, name: "strimzi_reconciliations_duration_seconds_max", kind: Gauge, unit: "seconds", labels: KIND,
        meaning: "Duration of the longest reconciliation pass that ended within the last two minutes. 0 if none did.",
        query: "max by (kind) (strimzi_reconciliations_duration_seconds_max)",
    },
    Entry {
        topic: Passes, name: "strimzi_resources", kind: Gauge, unit: "", labels: KIND,
        meaning: "Custom resources. Kinds: `Kafka`, `KafkaNodePool`, `KafkaRebalance`, `KafkaTopic`, `KafkaUser`, \
                  `StrimziPodSet`. Resources that Gregor does not manage, such as `KafkaConnect`, are not counted.",
        query: "sum by (kind) (strimzi_resources)",
    },
    Entry {
        topic: Passes, name: "strimzi_resources_paused", kind: Gauge, unit: "", labels: KIND,
        meaning: "Custom resources whose reconciliation is paused.",
        query: "sum by (kind) (strimzi_resources_paused) > 0",
    },
    Entry {
        topic: Passes, name: "strimzi_certificate_expiration_timestamp_ms", kind: Gauge, unit: "milliseconds since 1970",
        labels: &["kind", "namespace", "cluster", "type", "resource_namespace"],
        meaning: "Time at which the certificate of an authority expires. `type` is `cluster-ca` or `client-ca`.",
        query: "(min by (cluster, type, resource_namespace) (strimzi_certificate_expiration_timestamp_ms) / 1000 - time()) / 86400",
    },
    Entry {
        topic: Operator, name: "gregor_build_info", kind: Gauge, unit: "", labels: &["version"],
        meaning: "Always 1, with the version of the operator.",
        query: "count by (version) (gregor_build_info)",
    },
    Entry {
        topic: Operator, name: "gregor_leader", kind: Gauge, unit: "", labels: &[],
        meaning: "1 if this process is the leader. Exactly one replica of an operator has 1.",
        query: "sum(gregor_leader) != 1",
    },
    Entry {
        topic: Operator, name: "gregor_clusters", kind: Gauge, unit: "", labels: &["namespace", "state"],
        meaning: "Clusters by state: `ready`, `not ready`, `paused`, `new`.",
        query: "sum by (state) (gregor_clusters)",
    },
    Entry {
        topic: Operator, name: "gregor_passes_running", kind: Gauge, unit: "", labels: &["kind"],
        meaning: "Reconciliation passes that are running.",
        query: "sum by (kind) (gregor_passes_running)",
    },
    Entry {
        topic: Operator, name: "gregor_passes_waiting", kind: Gauge, unit: "", labels: &[],
        meaning: "Passes over clusters that wait for their turn to read from the API server. At most 16 read at a time; this is \
                  the length of the queue.",
        query: "max_over_time(gregor_passes_waiting[10m])",
    },
    Entry {
        topic: Operator, name: "gregor_api_calls_total", kind: Counter, unit: "", labels: &["verb", "resource"],
        meaning: "Requests to the Kubernetes API server.",
        query: "sum by (verb) (rate(gregor_api_calls_total[5m]))",
    },
    Entry {
        topic: Operator, name: "gregor_writes_total", kind: Counter, unit: "", labels: &["kind", "verb", "outcome"],
        meaning: "Writes to Kubernetes by outcome: `Skipped` (nothing to change, nothing sent), `Unchanged`, `Changed`, `Failed`.",
        query: "sum by (kind) (increase(gregor_writes_total{outcome=\"Failed\"}[1h]))",
    },
    Entry {
        topic: Operator, name: "gregor_kafka_calls_total", kind: Counter, unit: "", labels: &["call", "effect"],
        meaning: "Kafka requests by kind and effect (`Read`, `Change`).",
        query: "sum by (effect) (rate(gregor_kafka_calls_total[5m]))",
    },
    Entry {
        topic: Operator, name: "gregor_kafka_metrics_collections_total", kind: Counter, unit: "",
        labels: &["namespace", "cluster", "outcome"],
        meaning: "Collections of metrics of topics and groups (`spec.kafkaExporter`), by outcome (`Done`, `Failed`).",
        query: "rate(gregor_kafka_metrics_collections_total{outcome=\"Failed\"}[10m]) > 0",
    },
    Entry {
        topic: Cluster, name: "gregor_cluster_outcome", kind: Gauge, unit: "", labels: &["namespace", "cluster", "outcome", "reason"],
        meaning: "Always 1, with the outcome of the last pass: `done`, `progressing`, `held` (a user has to act) or `paused`. \
                  `reason` is that of the condition, or `none`.",
        query: "gregor_cluster_outcome{outcome=\"held\"}",
    },
    Entry {
        topic: Cluster, name: "gregor_cluster_waiting", kind: Gauge, unit: "", labels: &["namespace", "cluster", "area", "reason"],
        meaning: "Always 1, for each area of the last decision that waits for something or needs a user, with its reason.",
        query: "count by (area, reason) (gregor_cluster_waiting)",
    },
    Entry {
        topic: Cluster, name: "gregor_decisions_total", kind: Counter, unit: "", labels: &["namespace", "cluster", "outcome", "reason"],
        meaning: "Passes over a cluster by outcome and reason, as in `gregor_cluster_outcome`.",
        query: "sum by (reason) (increase(gregor_decisions_total{outcome!=\"done\"}[1h]))",
    },
    Entry {
        topic: Cluster, name: "gregor_acts_total", kind: Counter, unit: "", labels: &["namespace", "cluster", "act", "answer"],
        meaning: "Changes that passes over a cluster sent to Kubernetes and Kafka, by kind and answer. Changes of voters are \
                  `addVoter` and `removeVoter`, restarts are `restartPod`. The answer `error` means that the pass failed.",
        query: "sum by (act, answer) (increase(gregor_acts_total{act=~\"addVoter|removeVoter\"}[1d]))",
    },
    Entry {
        topic: Cluster, name: "gregor_facts_timestamp_seconds", kind: Gauge, unit: "seconds since 1970",
        labels: &["namespace", "cluster", "source"],
        meaning: "Time at which a source of facts about a cluster was last read: `kubernetes`, `quorum`, `brokers`, `features`, \
                  `partitions`, `authorities`, `certificates`, `rebalances`. Some are read only when a decision needs them.",
        query: "time() - gregor_facts_timestamp_seconds{source=\"quorum\"}",
    },
    Entry {
        topic: Cluster, name: "gregor_record_saves_total", kind: Counter, unit: "", labels: &["namespace", "cluster", "outcome"],
        meaning: "Attempts to save the record of a cluster (ConfigMap `CLUSTER-gregor`): `saved`, `conflict` (another writer was \
                  first; the next pass repeats it), `failed`. Nothing is changed before the record is saved.",
        query: "increase(gregor_record_saves_total{outcome=\"failed\"}[10m]) > 0",
    },
    Entry {
        topic: Cluster, name: "gregor_certificate_expiration_timestamp_seconds", kind: Gauge, unit: "seconds since 1970",
        labels: &["namespace", "cluster", "type"],
        meaning: "Time at which a certificate expires: `cluster-ca`, `client-ca`, `operator`, and `nodes` for the node certificate \
                  that expires first.",
        query: "(gregor_certificate_expiration_timestamp_seconds - time()) / 86400",
    },
    Entry {
        topic: Roll, name: "gregor_roll_state", kind: Gauge, unit: "", labels: &["namespace", "cluster", "state"],
        meaning: "1 for the state of rolling restarts, 0 for the others: `Settled` (nothing to restart), `Rolling`, `Waiting` \
                  (nodes are to be restarted, but not now), `Failed` (nodes were given up), `Stopped` (a node that does not start \
                  stops the roll).",
        query: "gregor_roll_state{state=~\"Failed|Stopped\"} == 1",
    },
    Entry {
        topic: Roll, name: "gregor_roll_nodes", kind: Gauge, unit: "", labels: &["namespace", "cluster", "state"],
        meaning: "Nodes of a roll: `left` (still to be restarted), `under_way`, `given_up`, `stopping` (they stop the roll).",
        query: "sum by (namespace, cluster) (gregor_roll_nodes{state=~\"left|under_way\"})",
    },
    Entry {
        topic: Roll, name: "gregor_roll_batch_nodes", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Nodes in the batch under way.",
        query: "max by (cluster) (gregor_roll_batch_nodes)",
    },
    Entry {
        topic: Roll, name: "gregor_roll_held_nodes", kind: Gauge, unit: "", labels: &["namespace", "cluster", "hold"],
        meaning: "Nodes that are not restarted now, by what they wait for, such as `minIsr`, `quorum`, `nextBatch` or `logRecovery`. \
                  `gregor why` explains each.",
        query: "sum by (hold) (gregor_roll_held_nodes)",
    },
    Entry {
        topic: Roll, name: "gregor_roll_started_timestamp_seconds", kind: Gauge, unit: "seconds since 1970", labels: OF_CLUSTER,
        meaning: "Time at which the roll in progress began. Missing if there is none.",
        query: "time() - gregor_roll_started_timestamp_seconds",
    },
    Entry {
        topic: Roll, name: "gregor_roll_estimated_end_timestamp_seconds", kind: Gauge, unit: "seconds since 1970", labels: OF_CLUSTER,
        meaning: "Time at which the roll in progress is estimated to end. Missing before its first batch has ended.",
        query: "gregor_roll_estimated_end_timestamp_seconds - time()",
    },
    Entry {
        topic: Roll, name: "gregor_roll_restart_duration_seconds", kind: Histogram, unit: "seconds", labels: OF_CLUSTER,
        meaning: "Duration of restarts of nodes, from the deletion of the pod until replicas are in sync and leaders are back.",
        query: "sum by (cluster) (rate(gregor_roll_restart_duration_seconds_sum[1h])) / sum by (cluster) \
                (rate(gregor_roll_restart_duration_seconds_count[1h]))",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_known", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "1 if the last pass could describe the quorum, else 0. The other metrics of the quorum are missing then.",
        query: "gregor_quorum_known == 0",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_voters", kind: Gauge, unit: "", labels: &["namespace", "cluster", "state"],
        meaning: "Voters of the quorum: `caught_up` or `behind`.",
        query: "sum by (cluster) (gregor_quorum_voters)",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_failures_tolerated", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Number of caught-up voters that may fail before the quorum has no majority. Negative if it has none.",
        query: "gregor_quorum_failures_tolerated < 1",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_controllers_desired", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Controllers that the spec asks for.",
        query: "gregor_quorum_controllers_desired != on (namespace, cluster) sum by (namespace, cluster) (gregor_quorum_voters)",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_voter_lag_records", kind: Gauge, unit: "records", labels: &["namespace", "cluster", "node"],
        meaning: "Records of the metadata log that a voter is behind the leader. Missing for a voter whose log end is unknown.",
        query: "max by (cluster, node) (gregor_quorum_voter_lag_records)",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_leader_node", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Node id of the active controller.",
        query: "changes(gregor_quorum_leader_node[1h])",
    },
    Entry {
        topic: Quorum, name: "gregor_quorum_leader_epoch", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Epoch of the quorum: elections of the active controller so far.",
        query: "delta(gregor_quorum_leader_epoch[1h])",
    },
    Entry {
        topic: Moves, name: "gregor_drain_brokers", kind: Gauge, unit: "", labels: &["namespace", "cluster", "phase"],
        meaning: "Brokers that are being removed, by phase, such as `draining`, `cordoned`, `stopping` or `unregistering`. \
                  `draining` is always there, with 0 if no broker drains.",
        query: "sum by (cluster, phase) (gregor_drain_brokers)",
    },
    Entry {
        topic: Moves, name: "gregor_drain_replicas", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Replicas on brokers that are being removed. Missing if unknown.",
        query: "gregor_drain_replicas > 0",
    },
    Entry {
        topic: Moves, name: "gregor_moves_phase", kind: Gauge, unit: "", labels: &["namespace", "cluster", "phase"],
        meaning: "Always 1, with the phase of the last execution of moves: `Moving`, `Shifting` (between disks), `Electing`, \
                  `Stopping`, `Restoring` (the throttle is reverted), `Ended`.",
        query: "gregor_moves_phase{phase!=\"Ended\"}",
    },
    Entry {
        topic: Moves, name: "gregor_moves_bytes", kind: Gauge, unit: "bytes", labels: OF_CLUSTER,
        meaning: "Bytes that the execution of moves copies in all. Changes of the number of replicas of a KafkaTopic count as 0.",
        query: "gregor_moves_bytes - gregor_moves_copied_bytes",
    },
    Entry {
        topic: Moves, name: "gregor_moves_copied_bytes", kind: Gauge, unit: "bytes", labels: OF_CLUSTER,
        meaning: "Bytes that the execution of moves has copied. It starts at 0 for each execution.",
        query: "deriv(gregor_moves_copied_bytes[5m])",
    },
    Entry {
        topic: Moves, name: "gregor_moves_partitions", kind: Gauge, unit: "", labels: &["namespace", "cluster", "state"],
        meaning: "Partitions of the execution of moves: `done`, `in_flight`, `waiting`, `open` (the rest).",
        query: "sum by (cluster, state) (gregor_moves_partitions)",
    },
    Entry {
        topic: Moves, name: "gregor_moves_throttle_bytes_per_second", kind: Gauge, unit: "bytes per second", labels: OF_CLUSTER,
        meaning: "Rate that each broker may move. Missing if there is no limit.",
        query: "gregor_moves_throttle_bytes_per_second",
    },
    Entry {
        topic: Moves, name: "gregor_moves_throttled_objects", kind: Gauge, unit: "", labels: OF_CLUSTER,
        meaning: "Brokers and topics on which Gregor has set a replication throttle and has not reverted it.",
        query: "gregor_moves_throttled_objects > 0",
    },
    Entry {
        topic: Moves, name: "gregor_rebalance_phase", kind: Gauge, unit: "", labels: &["namespace", "cluster", "rebalance", "phase"],
        meaning: "Always 1, with the state of a `KafkaRebalance`.",
        query: "count by (phase) (gregor_rebalance_phase)",
    },
    Entry {
        topic: Moves, name: "gregor_rebalance_balancedness", kind: Gauge, unit: "",
        labels: &["namespace", "cluster", "rebalance", "when"],
        meaning: "Balancedness score (0 to 100) of the plan of a `KafkaRebalance`: `before` and `after` its moves.",
        query: "gregor_rebalance_balancedness{when=\"after\"} - ignoring (when) gregor_rebalance_balancedness{when=\"before\"}",
    },
    Entry {
        topic: Moves, name: "gregor_operation_planned_duration_seconds", kind: Gauge, unit: "seconds",
        labels: &["namespace", "cluster", "operation"],
        meaning: "Duration that was first estimated for the last `roll` or `moves` that ended. A roll is estimated after its first \
                  batch, moves after the first bytes. Missing if there was no estimate.",
        query: "gregor_operation_planned_duration_seconds / gregor_operation_duration_seconds",
    },
    Entry {
        topic: Moves, name: "gregor_operation_duration_seconds", kind: Gauge, unit: "seconds",
        labels: &["namespace", "cluster", "operation"],
        meaning: "Duration of the last `roll` or `moves` that ended since the operator started.",
        query: "gregor_operation_duration_seconds{operation=\"roll\"}",
    },
];
