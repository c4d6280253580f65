//! Metrics by name, and the page that describes them.
//!
//! `GREGOR_UPDATE=1 cargo test -p operator metrics` writes `docs/generated/metrics.md` anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use control::certificates::authority::{self, Certificate, Certificates, Facts, Keys};
use control::certificates::{Entry as Found, KeyId, Stored, Timing, Validity, leaf};
use control::cluster::area::Area;
use control::cluster::decide::Decision;
use control::cluster::draft::Flow;
use control::cluster::fact::Fact;
use control::cluster::record::Record;
use control::cluster::snapshot::{
    AuthoritiesView, AuthorityView, CertificateView, CertificatesView, NodeView, Snapshot,
};
use control::conditions::{Note, Reason};
use control::node::Roles;
use control::quorum::{QuorumView, Replica};
use control::rebalance::execution::{self, Subject, Values};
use control::rolling::account::{Account, Wait};
use control::rolling::memory::{BatchMemory, NodeMemory, RollMemory};
use control::rolling::pass::Standing;
use control::rolling::why::Hold;
use control::scaling::guard;
use control::scaling::leaving::{self, Leaving};
use model::NodeId;

use super::catalog::{ENTRIES, Entry, Topic, Type};
use super::*;

const NOW: u64 = 1_800_000_000_000;

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn names(cluster: &str) -> Names {
    Names::new("demo", cluster)
}

fn voter(id: NodeId, behind_ms: u64) -> Replica {
    Replica {
        id,
        directory: None,
        log_end: Some(1_000 - behind_ms / 100),
        last_fetch_ms: Some(NOW),
        last_caught_up_ms: Some(NOW - behind_ms),
    }
}

/// A quorum of voters with these lags; the first leads.
fn quorum(behind_ms: &[u64]) -> QuorumView {
    let voters = behind_ms.iter().zip(10..).map(|(behind_ms, at)| voter(id(at), *behind_ms));
    QuorumView {
        leader: id(10),
        epoch: 7,
        high_watermark: Some(990),
        voters: voters.collect(),
        observers: Vec::new(),
        fetch_timeout_ms: 2_000,
    }
}

const DAY: i64 = 86_400;

fn timing() -> Timing {
    Timing { now: 0, renewal_days: 30, window_open: true }
}

fn authority(kind: authority::Kind, days: i64) -> AuthorityView {
    let validity = Validity { not_before: 0, not_after: days * DAY };
    let key = KeyId("k".to_owned());
    AuthorityView {
        settings: authority::Settings {
            kind,
            source: authority::Source::Generated,
            expiry: authority::Expiry::RenewCertificate,
        },
        facts: Facts {
            keys: Stored::<Keys>::Absent,
            certificates: Stored::Present(Certificates {
                current: Found::Read(Certificate { key, validity }),
                next: Found::Missing,
                old: Vec::new(),
                generation: 0,
                force_renew: false,
            }),
            in_use: None,
            trusted_by_all: None,
            used_by_all: None,
            timing: timing(),
        },
        trusted: true,
    }
}

fn certificate(days: i64) -> CertificateView {
    let subject = leaf::Subject { common_name: "x".to_owned(), organization: None };
    CertificateView {
        entry: "x".to_owned(),
        found: Found::Read(leaf::Found {
            subject: subject.clone(),
            names: BTreeSet::new(),
            validity: Validity { not_before: 0, not_after: days * DAY },
            has_its_key: true,
            signed_by_current: true,
            chain_is_current: true,
        }),
        wanted: leaf::Wanted { subject, names: BTreeSet::new() },
        timing: timing(),
        unannounced: false,
        unmarked: false,
        incomplete: false,
    }
}

fn snapshot() -> Snapshot {
    let node = |roles| NodeView {
        pool: "p".to_owned(),
        pod: "c-p-0".to_owned(),
        host: "h".to_owned(),
        recorded: Some(roles),
        desired: Some(roles),
        current: Some(roles),
        revision: None,
        settings: None,
    };
    let mut snapshot = Snapshot { now_ms: NOW, objects_ms: NOW - 50, ..Snapshot::default() };
    snapshot.nodes = [(id(10), node(Roles::Controller)), (id(0), node(Roles::Broker))].into();
    snapshot.refused = [id(11)].into();
    snapshot.kafka.quorum = Fact::read(quorum(&[0, 500, 60_000]), NOW - 40);
    snapshot.kafka.brokers = Fact::read(BTreeMap::new(), NOW - 30);
    snapshot.authorities = Fact::read(
        AuthoritiesView {
            cluster: authority(authority::Kind::Cluster, 300),
            clients: authority(authority::Kind::Clients, 400),
            published: true,
            operator: certificate(200),
        },
        NOW,
    );
    let nodes = [(id(0), certificate(90)), (id(10), certificate(80))].into();
    snapshot.certificates = Fact::read(CertificatesView { nodes, missing: None }, NOW);
    snapshot
}

/// A roll of ten brokers, two of which are restarted by now.
fn rolling() -> Record {
    let roll = RollMemory {
        started_ms: NOW - 100_000,
        restarts: 2,
        batches: vec![BatchMemory { nodes: 1, took_ms: 40_000 }],
        batch_started_ms: Some(NOW - 10_000),
        batch_nodes: 1,
    };
    let wait = |hold, nodes: &[i32]| Wait {
        nodes: nodes.iter().map(|node| id(*node)).collect(),
        reasons: Vec::new(),
        hold,
        given_up: false,
    };
    let restarting =
        NodeMemory { ours: true, restarted_ms: Some(NOW - 30_000), ..NodeMemory::default() };
    let mut record = Record::default();
    record.roll.nodes = [(id(1), restarting)].into();
    record.roll.roll = Some(roll.clone());
    record.roll_account = Some(Account {
        standing: Standing::Rolling,
        roll: Some(roll),
        under_way: vec![id(1)],
        left: (2..10).map(id).collect(),
        waits: vec![
            wait(Hold::NextBatch, &[2, 3, 4]),
            wait(Hold::LogRecovery { logs: 1, segments: 2 }, &[5]),
            wait(Hold::NextBatch, &[6]),
        ],
        ..Account::default()
    });
    let leaving = |phase| Leaving { phase, kind: leaving::Kind::Node, pool: "p".to_owned() };
    record.leaving =
        [(id(8), leaving(guard::Phase::Draining)), (id(9), leaving(guard::Phase::Stopping))].into();
    record
}

fn deciding() -> Decision {
    let waits = |reason| Flow::Wait(Note::new(reason, "because"));
    let mut decision = Decision {
        record: rolling(),
        flows: vec![
            (Area::Roll, waits(Reason::Rolling)),
            (Area::ScaleIn, waits(Reason::ScalingDown)),
        ],
        ..Decision::default()
    };
    decision.outputs.leaving = Some(leaving::Pass {
        holds: [
            (id(8), guard::Hold::Partitions { partitions: 30, moving: true }),
            (id(9), guard::Hold::Process),
        ]
        .into(),
        ..leaving::Pass::default()
    });
    decision
}

/// Everything that can be measured has happened once to a cluster.
fn busy(metrics: &Metrics, cluster: &str) {
    let names = names(cluster);
    let (snapshot, decision) = (snapshot(), deciding());
    let before = Record::default();
    let begun = Decided { snapshot: &snapshot, before: &before, decision: &decision, pools: 2 };
    metrics.decided(&names, &begun);
    let note = Note::new(Reason::Rolling, "because");
    metrics.passed(&names, &Outcome::Progressing(note));
    let ended = Decision { record: Record::default(), ..Decision::default() };
    let end = Decided { before: &decision.record, decision: &ended, ..begun };
    metrics.decided(&names, &end);
    metrics.decided(&names, &begun);
    metrics.acted(&names, &What::Cordon { id: id(8) }, Some(Answer::Done));
    metrics.acted(&names, &What::PublishTrust, None);
    metrics.record_saved(&names, Saved::Yes);
    let mut recorded = execution::Recorded {
        began_ms: 5_000,
        rate_bytes: Some(50_000_000),
        ..execution::Recorded::default()
    };
    recorded.former = [(Subject::Broker(id(1)), Values::default())].into();
    let progress = Progress {
        bytes_total: 1_000,
        bytes_done: 250,
        moves_total: 10,
        moves_done: 2,
        moves_in_flight: 3,
        moves_waiting: 1,
        left_ms: Some(30_000),
    };
    metrics.per_cluster.moved(&names, &recorded, &progress, 15_000);
    let ended = execution::Recorded {
        phase: execution::Phase::Ended,
        since_ms: 55_000,
        ..recorded.clone()
    };
    metrics.per_cluster.moved(&names, &ended, &progress, 60_000);
    metrics.per_cluster.moved(&names, &recorded, &progress, 15_000);
    let rebalance = Rebalance {
        cluster: cluster.to_owned(),
        phase: "ProposalReady",
        balancedness: (Some(71.5), Some(98.0)),
    };
    metrics.rebalance("demo", &format!("{cluster}-r"), rebalance);
}

fn all() -> Metrics {
    let metrics = Metrics::new();
    drop((metrics.running("Kafka"), metrics.waiting()));
    metrics.pass_begun("Kafka", "demo", true);
    metrics.pass_ended("Kafka", "demo", Duration::from_millis(30), true);
    metrics.set_resources("Kafka", "demo", 2, 1);
    metrics.set_clusters("demo", "ready", 1);
    metrics.write("ConfigMap", "apply", WriteOutcome::Skipped);
    metrics.api_call("get", "pods");
    metrics.kafka_call("describe quorum", KafkaEffect::Read);
    metrics.lag_collected("demo", "c", true);
    busy(&metrics, "c");
    metrics
}

/// A family as it is served.
#[derive(Debug, Default, PartialEq)]
struct Served {
    kind: String,
    help: String,
    /// The labels of its series.
    labels: BTreeSet<String>,
    series: usize,
}

/// The families of an answer to a scrape, by the names of [`ENTRIES`].
fn served(text: &str) -> BTreeMap<String, Served> {
    let mut all: BTreeMap<String, Served> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            name.clone_into(&mut current);
            help.trim_end_matches('.')
                .clone_into(&mut all.entry(name.to_owned()).or_default().help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (_, kind) = rest.split_once(' ').unwrap();
            kind.clone_into(&mut all.get_mut(&current).unwrap().kind);
        } else {
            let family = all.get_mut(&current).unwrap();
            let (name, labels) = line.split_once('{').unwrap_or((line, ""));
            assert!(name.starts_with(&current), "{line} is in {current}");
            let labels = labels.split_once('}').map_or("", |(labels, _)| labels);
            let keys =
                labels.split(',').filter_map(|label| label.split_once('=')).map(|(key, _)| key);
            family.labels.extend(keys.filter(|key| *key != "le").map(str::to_owned));
            family.series += 1;
        }
    }
    let name = |(name, family): (String, Served)| match family.kind.as_str() {
        "counter" => (format!("{name}_total"), family),
        _ => (name, family),
    };
    all.into_iter().map(name).collect()
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_is_served() {
    let served = served(&all().encode());
    let described: BTreeMap<String, Served> = ENTRIES
        .iter()
        .map(|entry| {
            let family = Served {
                kind: entry.kind.name().to_owned(),
                help: entry.help().to_owned(),
                labels: entry.labels.iter().map(|label| (*label).to_owned()).collect(),
                series: 0,
            };
            (entry.name.to_owned(), family)
        })
        .collect();
    assert_eq!(described.len(), ENTRIES.len(), "a metric is described twice");
    let served: BTreeMap<_, _> =
        served.into_iter().map(|(name, one)| (name, Served { series: 0, ..one })).collect();
    for (name, family) in &described {
        assert_eq!(served.get(name), Some(family), "{name}");
    }
    let undocumented: Vec<_> =
        served.keys().filter(|name| !described.contains_key(*name)).collect();
    assert!(undocumented.is_empty(), "{undocumented:?}");
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for entry in ENTRIES {
        let Entry { name, kind, unit, .. } = *entry;
        assert_eq!(name.ends_with("_total"), kind == Type::Counter, "{name}");
        let is_strimzi = name.starts_with("strimzi_");
        assert!(is_strimzi || name.starts_with("gregor_"), "{name}");
        let suffix = match unit {
            "" | "records" => continue,
            "seconds" | "seconds since 1970" => "_seconds",
            "bytes" => "_bytes",
            "bytes per second" => "_bytes_per_second",
            _ if is_strimzi => continue,
            unit => panic!("{name}: {unit}"),
        };
        assert!(name.ends_with(suffix) || is_strimzi, "{name}: {unit}");
    }
}

/// The lines of a scrape that are about a cluster.
fn series_of(text: &str, cluster: &str) -> Vec<String> {
    let label = format!("cluster=\"{cluster}\"");
    text.lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
}

#[test]
fn a_cluster_has_at_most_some_hundred_series() {
    let metrics = all();
    // Everything that closed lists allow for an operator that has lived for long.
    for reason in Reason::OWN {
        metrics.passed(&names("c"), &Outcome::Held(Note::new(*reason, "because")));
        metrics.passed(&names("c"), &Outcome::Progressing(Note::new(*reason, "because")));
    }
    let count = series_of(&metrics.encode(), "c").len();
    assert!(count < 300, "{count}");
    // The usual number, with three voters.
    let count = series_of(&all().encode(), "c").len();
    assert!(count < 100, "{count}");
}

fn line(metrics: &Metrics, line: &str) {
    let text = metrics.encode();
    assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
}

#[test]
fn numbers_have_the_names_that_dashboards_ask_for() {
    let metrics = all();
    for expected in [
        r#"strimzi_reconciliations_total{kind="Kafka",namespace="demo"} 1"#,
        r#"strimzi_reconciliations_periodical_total{kind="Kafka",namespace="demo"} 1"#,
        r#"strimzi_reconciliations_successful_total{kind="Kafka",namespace="demo"} 1"#,
        r#"strimzi_reconciliations_failed_total{kind="Kafka",namespace="demo"} 0"#,
        r#"strimzi_reconciliations_locked_total{kind="Kafka",namespace="demo"} 0"#,
        r#"strimzi_reconciliations_duration_seconds_count{kind="Kafka",namespace="demo"} 1"#,
        r#"strimzi_reconciliations_duration_seconds_max{kind="Kafka",namespace="demo"} 0.03"#,
        r#"strimzi_resources{kind="Kafka",namespace="demo"} 2"#,
        r#"strimzi_resources{kind="KafkaNodePool",namespace="demo"} 2"#,
        r#"strimzi_resources_paused{kind="Kafka",namespace="demo"} 1"#,
        r#"gregor_writes_total{kind="ConfigMap",verb="apply",outcome="Skipped"} 1"#,
        r#"gregor_api_calls_total{verb="get",resource="pods"} 1"#,
        r#"gregor_kafka_calls_total{call="describe quorum",effect="Read"} 1"#,
        r#"gregor_passes_running{kind="Kafka"} 0"#,
        "gregor_passes_waiting 0",
        "gregor_leader 0",
    ] {
        line(&metrics, expected);
    }
    let expiration = "strimzi_certificate_expiration_timestamp_ms{namespace=\"demo\",cluster=\"c\",\
                      type=\"client-ca\",kind=\"Kafka\",resource_namespace=\"demo\"} 34560000000.0";
    line(&metrics, expiration);
}

#[test]
fn the_series_of_a_cluster_are_those_of_its_decision() {
    let metrics = all();
    let of = |name: &str, labels: &str, value: &str| {
        let labels = if labels.is_empty() { String::new() } else { format!(",{labels}") };
        line(&metrics, &format!("{name}{{namespace=\"demo\",cluster=\"c\"{labels}}} {value}"));
    };
    #[rustfmt::skip]
    let rows = [
        ("gregor_cluster_outcome", r#"outcome="progressing",reason="Rolling""#, "1.0"),
        ("gregor_cluster_waiting", r#"area="scale-in",reason="ScalingDown""#, "1.0"),
        ("gregor_decisions_total", r#"outcome="progressing",reason="Rolling""#, "1"),
        ("gregor_acts_total", r#"act="cordon",answer="done""#, "1"),
        ("gregor_acts_total", r#"act="publishTrust",answer="error""#, "1"),
        ("gregor_record_saves_total", r#"outcome="saved""#, "1"),
        ("gregor_record_saves_total", r#"outcome="failed""#, "0"),
        ("gregor_facts_timestamp_seconds", r#"source="quorum""#, "1799999999.96"),
        ("gregor_certificate_expiration_timestamp_seconds", r#"type="nodes""#, "6912000.0"),
        ("gregor_roll_state", r#"state="Rolling""#, "1.0"),
        ("gregor_roll_state", r#"state="Stopped""#, "0.0"),
        ("gregor_roll_nodes", r#"state="left""#, "8.0"),
        ("gregor_roll_held_nodes", r#"hold="nextBatch""#, "4.0"),
        ("gregor_roll_held_nodes", r#"hold="logRecovery""#, "1.0"),
        ("gregor_roll_batch_nodes", "", "1.0"),
        // The batch under way ends in 30 seconds, and 8 batches of 40 seconds follow.
        ("gregor_roll_estimated_end_timestamp_seconds", "", "1800000350.0"),
        ("gregor_roll_restart_duration_seconds_sum", "", "30.0"),
        ("gregor_quorum_voters", r#"state="caught_up""#, "2.0"),
        ("gregor_quorum_voters", r#"state="behind""#, "1.0"),
        ("gregor_quorum_failures_tolerated", "", "0.0"),
        ("gregor_quorum_controllers_desired", "", "2.0"),
        ("gregor_quorum_voter_lag_records", r#"node="12""#, "600.0"),
        ("gregor_drain_brokers", r#"phase="draining""#, "1.0"),
        ("gregor_drain_brokers", r#"phase="stopping""#, "1.0"),
        ("gregor_drain_replicas", "", "30.0"),
        ("gregor_moves_partitions", r#"state="open""#, "4.0"),
        ("gregor_moves_throttled_objects", "", "1.0"),
        ("gregor_rebalance_balancedness", r#"rebalance="c-r",when="before""#, "71.5"),
        // From the first estimate after 10 of 40 seconds.
        ("gregor_operation_planned_duration_seconds", r#"operation="moves""#, "40.0"),
        ("gregor_operation_duration_seconds", r#"operation="moves""#, "50.0"),
        ("gregor_operation_planned_duration_seconds", r#"operation="roll""#, "450.0"),
        ("gregor_operation_duration_seconds", r#"operation="roll""#, "100.0"),
    ];
    for (name, labels, value) in rows {
        of(name, labels, value);
    }
}

#[test]
fn what_is_unknown_has_no_series() {
    let metrics = Metrics::new();
    let (snapshot, record) = (Snapshot::default(), rolling());
    let mut decision = Decision { record, ..Decision::default() };
    decision.record.roll_account = None;
    let before = decision.record.clone();
    let decided = Decided { snapshot: &snapshot, before: &before, decision: &decision, pools: 1 };
    metrics.decided(&names("c"), &decided);
    let text = metrics.encode();
    line(&metrics, r#"gregor_quorum_known{namespace="demo",cluster="c"} 0.0"#);
    line(&metrics, r#"gregor_roll_state{namespace="demo",cluster="c",state="Settled"} 1.0"#);
    for absent in [
        "gregor_quorum_voters{",
        "gregor_quorum_failures_tolerated{",
        // Brokers leave, and nobody has asked what they hold.
        "gregor_drain_replicas{",
        "gregor_facts_timestamp_seconds{",
        "gregor_moves_bytes{",
        "gregor_operation_duration_seconds{",
        "gregor_certificate_expiration_timestamp_seconds{",
    ] {
        assert!(!text.contains(absent), "{absent}:\n{text}");
    }
}

#[test]
fn facts_and_certificates_that_were_not_read_keep_their_last_value() {
    let metrics = all();
    let (snapshot, decision) = (Snapshot { now_ms: NOW, ..Snapshot::default() }, deciding());
    let before = decision.record.clone();
    let decided = Decided { snapshot: &snapshot, before: &before, decision: &decision, pools: 1 };
    metrics.decided(&names("c"), &decided);
    let source = r#"gregor_facts_timestamp_seconds{namespace="demo",cluster="c",source="quorum"}"#;
    line(&metrics, &format!("{source} 1799999999.96"));
    let text = metrics.encode();
    assert!(text.contains("gregor_certificate_expiration_timestamp_seconds{"), "{text}");
    assert!(!text.contains("gregor_quorum_voters{"), "{text}");
}

#[test]
fn a_throttle_that_cannot_be_reverted_is_seen() {
    let metrics = all();
    let recorded = execution::Recorded {
        phase: execution::Phase::Restoring,
        former: [(Subject::Broker(id(1)), Values::default())].into(),
        ..execution::Recorded::default()
    };
    metrics.moves_failed(&names("c"), &recorded);
    let of = r#"namespace="demo",cluster="c""#;
    line(&metrics, &format!(r#"gregor_moves_phase{{{of},phase="Restoring"}} 1.0"#));
    line(&metrics, &format!("gregor_moves_throttled_objects{{{of}}} 1.0"));
    line(&metrics, &format!("gregor_moves_copied_bytes{{{of}}} 250.0"));
    assert!(!metrics.encode().contains(r#"phase="Moving""#));
}

#[test]
fn a_cluster_that_is_gone_has_no_series() {
    let metrics = all();
    busy(&metrics, "d");
    metrics.retain_rebalances(None, |_, name| name == "c-r");
    metrics.forget(&names("d"));
    let text = metrics.encode();
    assert_eq!(series_of(&text, "d"), Vec::<String>::new());
    assert!(!series_of(&text, "c").is_empty());
    metrics.retain_clusters(Some("other"), |_| false);
    assert!(!series_of(&metrics.encode(), "c").is_empty(), "another watch has it");
    metrics.retain_clusters(None, |_| false);
    metrics.retain_rebalances(None, |_, _| false);
    metrics.lag_forgotten("demo", "c");
    assert_eq!(series_of(&metrics.encode(), "c"), Vec::<String>::new());
    line(&metrics, r#"strimzi_resources{kind="KafkaNodePool",namespace="demo"} 0"#);
}

const UPDATE: &str = "GREGOR_UPDATE";
const PAGE: &str = "docs/generated/metrics.md";

fn page() -> String {
    let mut text = format!(
        "# Metrics of the operator\n\nWritten from [the list in the code](../../crates/operator/src/metrics/catalog.rs) \
         by `{UPDATE}=1 cargo test -p operator metrics`. The operator serves them on port 8080 at `/metrics`; \
         [metrics.md](../metrics.md) says how to scrape them, and which metrics of topics and consumer groups there are.\n"
    );
    for topic in Topic::ALL {
        let _ = write!(
            text,
            "\n## {}\n\n| name | type | unit | labels | meaning | example |\n|---|---|---|---|---|---|\n",
            topic.title()
        );
        for entry in ENTRIES.iter().filter(|entry| entry.topic == topic) {
            let labels: Vec<_> = entry.labels.iter().map(|label| format!("`{label}`")).collect();
            let query = entry.query.replace('|', "\\|");
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} | `{query}` |",
                entry.name,
                entry.kind.name(),
                entry.unit,
                labels.join(", "),
                entry.meaning,
            );
        }
    }
    text
}

#[test]
fn the_page_of_metrics_is_fresh() {
    let expected = page();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{PAGE} is stale: {UPDATE}=1 cargo test -p operator metrics");
}

#[test]
fn example_queries_use_the_metric_that_they_explain() {
    for entry in ENTRIES {
        assert!(entry.query.contains(entry.name), "{}: {}", entry.name, entry.query);
    }
}
