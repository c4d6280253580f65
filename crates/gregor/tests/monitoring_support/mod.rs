//! The files of `deploy/monitoring`, and the metrics that a query uses.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use operator::metrics::catalog;
use serde_json::Value;

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program of Prometheus: from the folder that is named, or from the path.
pub(crate) fn program(name: &str) -> PathBuf {
    if let Some(named) = env::var_os("GREGOR_PROMETHEUS_BIN") {
        return Path::new(&named).join(name);
    }
    let path = env::var_os("PATH").unwrap();
    let mut all = env::split_paths(&path).map(|dir| dir.join(name));
    all.find(|program| program.exists())
        .unwrap_or_else(|| panic!("{name} is missing: run tools/prepare test"))
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// The documents of a YAML file.
pub(crate) fn yaml(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap()
}

/// The rules, as Prometheus reads them.
pub(crate) fn rules() -> Value {
    let mut documents = yaml("deploy/monitoring/alerts.yaml");
    assert_eq!(documents.len(), 1);
    documents[0]["spec"].take()
}

/// The alerts.
pub(crate) fn alerts() -> Vec<Value> {
    let rules = rules();
    let groups = rules["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The dashboards, by the names of their files.
pub(crate) fn dashboards() -> Vec<(String, Value)> {
    let folder = repository().join("deploy/monitoring/dashboards");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        (
            file.file_stem().unwrap().to_str().unwrap().to_owned(),
            serde_json::from_str(&text).unwrap(),
        )
    };
    files.iter().map(read).collect()
}

/// The queries of a dashboard, with the title of their panel.
pub(crate) fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let panels = dashboard["panels"].as_array().unwrap();
    let of = |panel: &Value| -> Vec<(String, String)> {
        let targets = panel["targets"].as_array().unwrap();
        targets.iter().map(|target| (text(&panel["title"]), text(&target["expr"]))).collect()
    };
    panels.iter().flat_map(of).collect()
}

/// The names in a query that can only be those of metrics of Gregor or Strimzi.
pub(crate) fn metrics_of(query: &str) -> BTreeSet<String> {
    let bare: String = query.split('"').step_by(2).collect();
    let words = bare.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let is_ours = |word: &&str| word.starts_with("gregor_") || word.starts_with("strimzi_");
    words.filter(is_ours).map(str::to_owned).collect()
}

/// Whether a name is that of a series that is served.
pub(crate) fn is_served(name: &str) -> bool {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|suffix| {
        let base = name.strip_suffix(suffix).and_then(catalog::find);
        base.is_some_and(|entry| entry.kind == catalog::Type::Histogram)
    });
    let is_plain = catalog::find(name).is_some_and(|entry| entry.kind != catalog::Type::Histogram);
    of_histogram || is_plain || fleet::metrics::NAMES.contains(&name)
}
