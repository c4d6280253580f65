//! The table of verdicts is whole, and what is generated from it is fresh.
//!
//! `GREGOR_UPDATE=1 cargo test -p api` writes the generated files anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{document, rules, strimzi};

const UPDATE: &str = "GREGOR_UPDATE";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file of the repository with what it should hold, or writes it.
#[track_caller]
fn fresh(path: &str, expected: &str) {
    let file = repository().join(path);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{path} is stale: {UPDATE}=1 cargo test -p api");
}

#[test]
fn the_table_of_fields_is_what_the_rules_say() {
    fresh("crates/api/compat/fields.tsv", &rules::table());
}

#[test]
fn the_document_is_fresh() {
    fresh("docs/generated/strimzi-compatibility.md", &document::render());
}

#[test]
fn every_field_of_strimzi_has_exactly_one_verdict() {
    let table = rules::table();
    let mut judged: Vec<_> = table.lines().skip(1).map(key).collect();
    let mut known: Vec<_> = strimzi::rows().into_iter().map(|row| (row.kind, row.path)).collect();
    judged.sort();
    known.sort();
    assert_eq!(known.len(), 2649);
    assert_eq!(judged, known);
}

/// The ten kinds of Strimzi: those that are installed, and the rest with a verdict on the kind.
#[test]
fn every_kind_of_strimzi_has_a_verdict() {
    let absent = strimzi::absent_kinds();
    let judged: BTreeSet<_> = absent.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(judged, strimzi::kinds_of_absent_fields());
    let installed: BTreeSet<_> =
        api::crds::crds().iter().map(|crd| crd.spec.names.kind.clone()).collect();
    assert_eq!(installed.len() + absent.len(), 10);
    for kind in &absent {
        assert_eq!(kind.verdict, "absent", "{}", kind.name);
        assert!(!installed.contains(&kind.name) && !kind.reason.is_empty(), "{}", kind.name);
    }
}

fn key(line: &str) -> (String, String) {
    let cells: Vec<&str> = line.split('\t').collect();
    assert_eq!(cells.len(), 4, "{line}");
    assert!(!cells[3].is_empty(), "{line} has no reason");
    (cells[0].to_owned(), cells[1].to_owned())
}

#[test]
fn no_rule_is_stray() {
    let rows = strimzi::rows();
    for rule in rules::rules() {
        let exists = rows.iter().any(|row| row.kind == rule.kind && row.path == rule.path);
        assert!(exists, "{} {} is no field of Strimzi", rule.kind, rule.path);
        let twice = rules::rules().iter().filter(|other| *other == rule).count() > 1;
        assert!(!twice, "{} {} is there twice", rule.kind, rule.path);
        let above = rules::above(rule);
        let says_more = above
            .is_none_or(|above| (&above.verdict, &above.reason) != (&rule.verdict, &rule.reason));
        assert!(says_more, "{} {} says what the rule above it says", rule.kind, rule.path);
    }
}

fn thousands(count: usize) -> String {
    format!("{},{:03}", count / 1000, count % 1000)
}

#[test]
fn the_readme_states_the_share_that_is_honoured() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let all = api::compat::fields().count();
    let honoured = api::compat::fields()
        .filter(|field| field.verdict == api::compat::Verdict::Honoured)
        .count();
    let absent: usize = strimzi::absent_kinds().iter().map(|kind| kind.fields).sum();
    let share = |of: usize| (honoured * 100 + of / 2) / of;
    let words = [
        format!("1.2.0, {honoured} are honoured: {} %", share(all)),
        format!(
            "{} % of the {} fields of all ten kinds",
            share(all + absent),
            thousands(all + absent)
        ),
    ];
    for words in words {
        assert!(readme.contains(&words), "the README should say \"{words}\"");
    }
}
