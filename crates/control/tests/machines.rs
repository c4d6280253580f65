//! The state machines, drawn. `GREGOR_UPDATE=1 cargo test -p control --test machines` draws them anew.
//!
//! A machine is one row in [`MACHINES`]; its drawing is `docs/generated/machines/NAME.md`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::disallowed_methods, reason = "drawings are files of the repository")]

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::path::{Path, PathBuf};

use control::quorum::migrate;
use control::rebalance::{auto, request};
use control::rolling::node;
use control::scaling::guard;

const UPDATE: &str = "GREGOR_UPDATE";

/// Name of the file, title, where the machine is, and its edges.
type Machine = (&'static str, &'static str, &'static str, fn() -> Vec<[String; 3]>);

#[rustfmt::skip]
const MACHINES: &[Machine] = &[
    ("auto-rebalance",   "A cluster that rebalances itself",        "rebalance/auto/mod.rs",    || edges(auto::TRANSITIONS)),
    ("kraft-migration",  "From a static quorum to a dynamic one",   "quorum/migrate.rs",        || edges(migrate::TRANSITIONS)),
    ("leaving-broker",   "A broker that is to go",                  "scaling/guard.rs",         || edges(guard::TRANSITIONS)),
    ("node-restart",     "A node that is restarted",                "rolling/node.rs",          || edges(node::TRANSITIONS)),
    ("rebalance",        "One KafkaRebalance",                      "rebalance/request/machine.rs", || edges(request::TRANSITIONS)),
];

fn edges<P: Debug, E: Debug>(transitions: &[(P, E, P)]) -> Vec<[String; 3]> {
    let edge =
        |(from, on, to): &(P, E, P)| [format!("{from:?}"), format!("{on:?}"), format!("{to:?}")];
    transitions.iter().map(edge).collect()
}

/// The drawing of a machine: a diagram for people, a table for those who search.
fn draw(title: &str, place: &str, edges: &[[String; 3]]) -> String {
    let mut text = format!(
        "# {title}\n\nDrawn from [`TRANSITIONS`](../../../crates/control/src/{place}) by \
         `{UPDATE}=1 cargo test -p control --test machines`.\n\n```mermaid\nstateDiagram-v2\n"
    );
    let froms: BTreeSet<&String> = edges.iter().map(|[from, ..]| from).collect();
    let _ = writeln!(text, "    [*] --> {}", edges[0][0]);
    for [from, on, to] in edges {
        let _ = writeln!(text, "    {from} --> {to}: {on}");
    }
    let ends: BTreeSet<&String> =
        edges.iter().map(|[.., to]| to).filter(|to| !froms.contains(to)).collect();
    for end in ends {
        let _ = writeln!(text, "    {end} --> [*]");
    }
    text.push_str("```\n\n| from | when | to |\n|---|---|---|\n");
    for [from, on, to] in edges {
        let _ = writeln!(text, "| {from} | {on} | {to} |");
    }
    text
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/generated/machines")
}

#[test]
fn the_drawings_are_fresh() {
    for (name, title, place, edges) in MACHINES {
        let expected = draw(title, place, &edges());
        let file = folder().join(format!("{name}.md"));
        if std::env::var_os(UPDATE).is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&file, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            found == expected,
            "docs/generated/machines/{name}.md is stale: {UPDATE}=1 cargo test -p control --test machines"
        );
    }
}

#[test]
fn no_drawing_is_left_of_a_machine_that_is_gone() {
    let names: BTreeSet<String> = MACHINES.iter().map(|(name, ..)| format!("{name}.md")).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "{name} is drawn from no machine");
    }
}
