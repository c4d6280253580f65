//! What `deploy/monitoring` ships, with a real Prometheus and a real cluster: each query of a dashboard gives data, alerts
//! fire in the state that they are about and are resolved after it, and the traces of a roll arrive at a collector.
//!
//! In the rules, a minute is a second here: see the module `prometheus`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod monitoring_support;
mod prometheus;
mod up;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use kafka::{Ground, wait_for};
use monitoring_support::{dashboards, program, queries, repository, rules};
use prometheus::collector::Collector;
use prometheus::{in_seconds, with_quick_ranges};
use serde_json::Value;
use watched::{CLUSTER, NAMESPACE, Watched};

#[test]
fn alerts_fire_when_they_should_and_not_when_all_is_well() {
    let temp = tempfile::tempdir().unwrap();
    let tests = "alerts-test.yaml";
    fs::write(temp.path().join("alerts.json"), rules().to_string()).unwrap();
    fs::copy(repository().join("deploy/monitoring").join(tests), temp.path().join(tests)).unwrap();
    for words in [["check", "rules", "alerts.json"], ["test", "rules", tests]] {
        let mut promtool = Command::new(program("promtool"));
        let output = promtool.args(words).current_dir(temp.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success() && said.contains("SUCCESS"), "{words:?}: {said}");
    }
}

#[test]
fn a_minute_of_a_rule_becomes_a_second_and_nothing_else_changes() {
    assert_eq!(["2m", "15m", "1h"].map(in_seconds), ["2s", "15s", "60s"]);
    let query = r#"a{b="30m"} - time() < 14 * 86400 unless changes(c[30m]) > 0 or increase(d[1h])"#;
    let quick =
        r#"a{b="30m"} - time() < 14 * 86400 unless changes(c[30s]) > 0 or increase(d[60s])"#;
    assert_eq!(with_quick_ranges(query), quick);
}

/// Queries that have data only after something that this program does as a part of `make soak`, by their panel.
const ONLY_IN_SOAK: [(&str, &str); 1] =
    [("Changes of voters per day", "one controller becomes three")];

/// The queries of Strimzi's dashboard for operators, and of its alerts, by the kinds that Gregor manages. Those of
/// `jvm_*` are not served: see docs/metrics.md.
const OF_STRIMZI: &[&str] = &[
    r#"sum(strimzi_resources{kind="Kafka"})"#,
    r#"sum(strimzi_resources{kind="KafkaNodePool"})"#,
    r#"sum(strimzi_resources{kind="KafkaRebalance"})"#,
    r#"sum(strimzi_resources{kind="KafkaTopic"})"#,
    r#"sum(strimzi_resources{kind="KafkaUser"})"#,
    r#"sum(strimzi_resources{kind="StrimziPodSet"})"#,
    "sum by (kind) (strimzi_resources_paused)",
    "sum(increase(strimzi_reconciliations_successful_total[1h])) by (kind)",
    "sum(increase(strimzi_reconciliations_failed_total[1h])) by (kind)",
    "sum(increase(strimzi_reconciliations_locked_total[1h])) by (kind)",
    "sum(increase(strimzi_reconciliations_total[1h])) by (kind)",
    "sum(increase(strimzi_reconciliations_periodical_total[1h])) by (kind)",
    "max(strimzi_reconciliations_duration_seconds_max) by (kind)",
    "sum by (le) (rate(strimzi_reconciliations_duration_seconds_bucket[5m]))",
    "min by (cluster,type,resource_namespace) (strimzi_certificate_expiration_timestamp_ms)",
    "strimzi_certificate_expiration_timestamp_ms/1000 - time() < 30*24*60*60",
    // The other PodMonitors: topics and groups, and Kafka's own metrics by the labels of Strimzi's dashboards.
    r#"sum(kafka_topic_partitions{namespace="watched",strimzi_io_cluster="my-cluster"})"#,
    r#"sum(kafka_server_replicamanager_leadercount{namespace="watched",kubernetes_pod_name=~"my-cluster-broker-.*",strimzi_io_cluster="my-cluster",strimzi_io_name="my-cluster-kafka",strimzi_io_kind="Kafka"})"#,
];

/// More series of one cluster are not useful to anyone, and expensive for operators with many clusters.
const SERIES_MAX: f64 = 300.0;

#[test]
fn what_is_shipped_watches_a_real_cluster() {
    let collector = Collector::start();
    let ground = Ground::start(&["--nodes", "2"]);
    let watched = Watched::start(&ground, &collector);
    watched.resolved_after_a_renewal_of_certificates();
    traces_of_a_roll_arrive(&collector);
    watched.a_new_broker_is_filled();
    #[cfg(feature = "soak")]
    {
        watched.a_drain_that_cannot_proceed_is_seen();
        watched.a_throttle_that_comes_back_is_seen();
        watched.a_stuck_roll_is_seen();
        watched.a_quorum_at_risk_is_seen();
    }
    series_are_few(&watched);
    every_log_line_says_what_it_is_about(&ground);
    watched.no_leader_is_seen();
    every_query_gives_data(&watched);
}

/// Each act has its pass as parent, and each node was restarted by one.
fn traces_of_a_roll_arrive(collector: &Collector) {
    wait_for(|| {
        let spans = collector.spans();
        let is = |span: &&Value, name: &str| span["name"] == name;
        let passes: BTreeSet<_> = spans
            .iter()
            .filter(|span| is(span, "pass Kafka"))
            .map(|span| (span["traceId"].to_string(), span["spanId"].to_string()))
            .collect();
        let restarts: Vec<_> = spans.iter().filter(|span| is(span, "act restartPod")).collect();
        let with_pass = restarts.iter().filter(|span| {
            passes.contains(&(span["traceId"].to_string(), span["parentSpanId"].to_string()))
        });
        // A pass is sent after its acts.
        let (with_pass, all) = (with_pass.count(), restarts.len());
        if all >= 4 && with_pass == all { Ok(()) } else { Err(format!("{with_pass} of {all}")) }
    });
    let spans = collector.spans();
    let pass = spans.iter().rfind(|span| span["name"] == "pass Kafka").unwrap();
    let cluster =
        serde_json::json!({ "key": "gregor.cluster", "value": { "stringValue": CLUSTER } });
    assert!(pass["attributes"].as_array().unwrap().contains(&cluster), "{pass}");
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for span in &spans {
        *names.entry(span["name"].as_str().unwrap().to_owned()).or_default() += 1;
        let time = |field: &str| span[field].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("endTimeUnixNano") >= time("startTimeUnixNano"), "{span}");
    }
    println!("spans: {names:?}");
}

fn series_are_few(watched: &Watched<'_>) {
    let of_cluster = format!(
        r#"count({{job="monitoring/gregor-operator",namespace="{NAMESPACE}",cluster="{CLUSTER}"}})"#
    );
    let cluster = watched.prometheus.now(&of_cluster)[0];
    let all = watched.prometheus.now(r#"count({job="monitoring/gregor-operator"})"#)[0];
    println!("series: {cluster} of the cluster, {all} of the operator");
    assert!(cluster < SERIES_MAX, "{cluster} series");
    let by = r#"count by (topic, partition) ({job="monitoring/gregor-operator",partition!=""})"#;
    assert_eq!(watched.prometheus.now(by), Vec::<f64>::new(), "no series of a partition");
}

fn every_log_line_says_what_it_is_about(ground: &Ground) {
    let log = ground.operator_log();
    let mut acts = 0;
    for line in log.lines() {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "message", "cluster", "pass", "act"] {
            assert!(line.get(field).is_some(), "no {field}: {line}");
        }
        acts += usize::from(line["act"].is_string());
        assert!(!line["act"].is_string() || line["cluster"] == CLUSTER, "{line}");
        assert_ne!(line["level"], "ERROR", "{line}");
    }
    println!("{} log lines, {acts} of them in an act", log.lines().count());
}

fn every_query_gives_data(watched: &Watched<'_>) {
    let mut without = Vec::new();
    let mut count = 0;
    // The fleet manager is no part of this cluster: `real_fleet`.
    for (name, dashboard) in dashboards().iter().filter(|(name, _)| name != "gregor-fleet") {
        for (title, query) in queries(dashboard) {
            count += 1;
            let query = query.replace("$namespace", NAMESPACE).replace("$cluster", CLUSTER);
            if !watched.prometheus.has_had_data(&query) {
                without.push((title.clone(), format!("{name}: {title}: {query}")));
            }
        }
    }
    for query in OF_STRIMZI {
        count += 1;
        if !watched.prometheus.has_had_data(query) {
            without.push((String::new(), (*query).to_owned()));
        }
    }
    println!("{count} queries, {} without data: {without:#?}", without.len());
    let is_soak = cfg!(feature = "soak");
    let expected = |title: &str| !is_soak && ONLY_IN_SOAK.iter().any(|(panel, _)| *panel == title);
    let missing: Vec<_> = without.iter().filter(|(title, _)| !expected(title)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let seen: BTreeSet<_> = without.iter().map(|(title, _)| title.as_str()).collect();
    let wrong = ONLY_IN_SOAK.iter().find(|(panel, _)| !is_soak && !seen.contains(panel));
    assert_eq!(wrong, None, "it has data here, too: remove it from the list");
}
