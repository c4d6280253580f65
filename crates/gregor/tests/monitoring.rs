//! What `deploy/monitoring` ships: queries use metrics that exist, alerts have runbooks and tests, PodMonitors select
//! the operator. What needs Prometheus is in `real_monitoring.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod monitoring_support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use monitoring_support::{
    alerts, dashboards, is_served, metrics_of, queries, read, repository, yaml,
};
use serde_json::Value;

#[track_caller]
fn uses_known_metrics(query: &str) {
    let metrics = metrics_of(query);
    assert!(!metrics.is_empty(), "no metric in {query}");
    let unknown: Vec<_> = metrics.iter().filter(|name| !is_served(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} in {query}");
}

#[test]
fn the_metrics_of_a_query_are_found_and_their_labels_are_not() {
    let query = r#"sum by (gregor) (rate(gregor_x_total{a="gregor_y"}[5m])) / strimzi_z"#;
    let found: Vec<_> = metrics_of(query).into_iter().collect();
    assert_eq!(found, ["gregor_x_total", "strimzi_z"]);
    assert!(is_served("gregor_leader") && !is_served("gregor_lead"));
    let histogram = "gregor_roll_restart_duration_seconds";
    assert!(is_served(&format!("{histogram}_sum")) && !is_served(histogram));
    assert!(is_served("gregor_fleet_region_held") && !is_served("gregor_leader_sum"));
}

#[test]
fn queries_of_dashboards_and_alerts_use_metrics_that_exist() {
    for (name, dashboard) in dashboards() {
        for (title, query) in queries(&dashboard) {
            println!("{name}: {title}");
            uses_known_metrics(&query);
        }
    }
    for alert in alerts() {
        uses_known_metrics(alert["expr"].as_str().unwrap());
    }
}

#[test]
fn dashboards_are_well_formed() {
    let found = dashboards();
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["gregor-elasticity", "gregor-fleet", "gregor-operator", "gregor-quorum"]);
    for (name, dashboard) in &found {
        assert_eq!(dashboard["uid"], **name);
        assert!(dashboard["title"].as_str().unwrap().starts_with("Gregor: "), "{name}");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let variables: BTreeSet<_> =
            variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len(), "{name}: ids are unique");
        let mut taken = BTreeSet::new();
        for panel in panels {
            panel_is_well_formed(panel, &variables, &mut taken);
        }
    }
}

fn panel_is_well_formed(
    panel: &Value,
    variables: &BTreeSet<&str>,
    taken: &mut BTreeSet<(u64, u64)>,
) {
    let title = panel["title"].as_str().unwrap();
    assert!(["stat", "table", "timeseries"].contains(&panel["type"].as_str().unwrap()), "{title}");
    assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
    let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
    let (x, y) = (place("x"), place("y"));
    assert!(x + place("w") <= 24, "{title}: a row has 24 columns");
    for column in x..x + place("w") {
        for row in y..y + place("h") {
            assert!(taken.insert((column, row)), "{title} covers another panel");
        }
    }
    let targets = panel["targets"].as_array().unwrap();
    let references: BTreeSet<_> =
        targets.iter().map(|one| one["refId"].as_str().unwrap()).collect();
    assert_eq!(references.len(), targets.len(), "{title}");
    for target in targets {
        assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        let query = target["expr"].as_str().unwrap();
        let used = query.split('$').skip(1).map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
        });
        used.for_each(|name| assert!(variables.contains(name), "{title}: ${name}"));
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let mut linked = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}");
        assert!(alert["for"].is_string(), "{name}");
        for field in ["summary", "description"] {
            assert!(alert["annotations"][field].is_string(), "{name}: {field}");
        }
        let path = alert["annotations"]["runbook_url"].as_str().unwrap();
        let runbook = read(path);
        assert!(runbook.lines().next().unwrap().contains(name), "{path}: {name}");
        assert!(runbook.contains("gregor why"), "{path}");
        assert!(runbook.contains("## What to do"), "{path}");
        linked.insert(path.rsplit('/').next().unwrap().to_owned());
    }
    let files = fs::read_dir(repository().join("docs/runbooks")).unwrap();
    let files: BTreeSet<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(linked, files);
}

#[test]
fn every_alert_is_tested_to_fire_and_to_be_quiet() {
    let tests = yaml("deploy/monitoring/alerts-test.yaml");
    let tests = tests[0]["tests"].as_array().unwrap();
    let (mut fires, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for one in tests.iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap()) {
        let name = one["alertname"].as_str().unwrap().to_owned();
        let expected = one["exp_alerts"].as_array().map_or(0, Vec::len);
        let kind = if expected > 0 { &mut fires } else { &mut quiet };
        kind.insert(name);
    }
    let all: BTreeSet<_> =
        alerts().iter().map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect();
    assert_eq!(fires, all);
    // Those with several clusters in one test name the ones that are quiet by leaving them out.
    let mixed = ["GregorDrainWithoutProgress", "GregorQuorumAtRisk", "GregorRollStuck"];
    for name in all.iter().filter(|name| !mixed.contains(&name.as_str())) {
        assert!(quiet.contains(name), "{name}");
    }
}

#[test]
fn pod_monitors_select_the_operator_and_a_port_that_it_has() {
    let output = Command::new(env!("CARGO_BIN_EXE_gregor")).arg("install").output().unwrap();
    let manifest: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let deployment = manifest.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"];
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let monitors = yaml("deploy/monitoring/pod-monitors.yaml");
    let mut paths = Vec::new();
    for monitor in &monitors {
        let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
        if wanted.contains_key("strimzi.io/kind") {
            continue;
        }
        for (label, value) in wanted {
            assert_eq!(&pod["metadata"]["labels"][label], value, "{label}");
        }
        for endpoint in monitor["spec"]["podMetricsEndpoints"].as_array().unwrap() {
            assert!(ports.iter().any(|port| port["name"] == endpoint["port"]), "{endpoint}");
            assert_eq!(endpoint["honorLabels"], true);
            paths.push(endpoint["path"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(paths, ["/metrics", "/metrics/kafka"]);
}
