//! The functions of `control` that the operator calls. Types (facts and decisions) and their methods may be used freely.
//!
//! A controller observes, calls one decision, records and acts. Other functions are called by the decision,
//! where they have their tables. What makes a fact or a decision of something else is listed too, but for `new` and
//! `default`: it may hide a rule.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::repository::Repository;
use super::rust;

/// The sources of the operator.
const SHELL: &str = "crates/operator/src/";

/// The functions, and what they are for.
const CALLED: [(&str, &str); 74] = [
    ("cluster::begin::begin", "whether a cluster is reconciled"),
    ("cluster::begin::asking", "whether Kafka is asked"),
    ("quorum::mode::is_doubtful", "whether the leader is asked once more"),
    ("cluster::decide::decide", "the decision of a pass over a cluster"),
    ("cluster::decide::needs", "the facts that it requires"),
    ("cluster::decide::next_pass_ms", "when the next pass begins"),
    ("cluster::areas::objects::unbuilt", "how a pass goes on where objects could not be built"),
    ("cluster::areas::kafka::unreachable", "a message for `gregor plan`"),
    ("conditions::conditions", "the conditions of a status, from a decision"),
    ("rolling::config::shown", "a fact without what may be secret"),
    ("rolling::reasons::list", "the message of an Event"),
    ("scaling::pool::decide", "the finalizer of a pool"),
    ("certificates::authority::decide", "keys are generated only for a change that still holds"),
    ("certificates::leaf::decide", "the same for a certificate"),
    ("certificates::windows::opening", "a fact: whether a maintenance window is open"),
    ("life::coexist::decide", "whether a cluster is managed at all"),
    ("liveness::alive", "whether the operator makes progress"),
    ("pod_set::decide", "the decision of a pass over a pod set"),
    ("rebalance::auto::is_copied", "which fields a request takes over from its template"),
    ("rebalance::request::decide", "the decision of a pass over a KafkaRebalance"),
    ("rebalance::request::needs", "the facts that it requires"),
    ("rebalance::request::answers::before", "what is recorded before an engine is asked"),
    ("rebalance::request::answers::after", "what its answer changes"),
    ("rebalance::request::planning::check_disks", "whether a plan for disks can be made"),
    ("rebalance::request::planning::check_findings", "whether a plan for disks is acceptable"),
    ("rebalance::request::planning::problem", "the same for replicas, in words"),
    ("rebalance::execution::decide", "the decision of a pass over moves"),
    ("rebalance::load::load", "facts: the load of a cluster"),
    ("rebalance::cruise_control::address", "which Cruise Control may be contacted"),
    ("rebalance::cruise_control::check_service", "the same, for its Service"),
    ("users::plan", "the decision about one KafkaUser"),
    ("users::of_vanished", "the same, for one whose resource is gone"),
    ("topics::triage", "whether a KafkaTopic is acted on, and what Kafka is asked about its topic"),
    ("topics::plan", "the decision about one KafkaTopic"),
    ("topics::of_vanished", "the same, for one that was deleted without a finalizer"),
    ("topics::batch::records_of", "the size of a change of a topic in the metadata log"),
    ("topics::batch::cut", "requests of at most as many records as Kafka accepts"),
    ("topics::replicas::begin", "the decision about changes of the number of replicas"),
    ("topics::replicas::is_outdated", "whether such a change is cancelled"),
    ("lag::bound", "how many series a cluster may have"),
    ("lag::labels", "the labels that all series of a cluster have"),
    (
        "lag::render",
        "the series of a metric, one metric at a time: all of them take a lot of memory",
    ),
    ("takeover::step", "the next step of a takeover from Strimzi"),
    ("takeover::elsewhere", "what of it is removed in another namespace"),
    ("takeover::replaces_exporter", "whether the exporter is replaced"),
    ("quorum::majority", "a metric: how many voters may fail"),
    ("cluster::storage::jbod_log_dir", "where the data of a volume is"),
    ("rebalance::execution::is_gone", "whether a topic is gone, or could not be read"),
    // Facts and decisions, made of something else.
    ("cluster::decide::Scope::of", "the areas that an edit concerns"),
    ("cluster::decide::Scope::pass", "all areas"),
    ("cluster::fact::Fact::read", "a fact"),
    ("node::readiness::BrokerState::from_number", "a fact"),
    ("rolling::facts::Recovery::of_broker", "a fact: whether a broker recovers its logs"),
    ("rebalance::auto::Partner::of", "a fact: a KafkaRebalance that the cluster made for itself"),
    ("rebalance::auto::Setting::of_template", "a fact: whether a mode has a template"),
    ("rebalance::execution::Job::of", "the moves of a plan"),
    ("rebalance::execution::Job::of_disks", "the same, between disks"),
    ("rebalance::execution::Limits::of", "the limits of a KafkaRebalance"),
    ("rebalance::execution::Recorded::begin", "the record of moves that begin"),
    ("rebalance::request::Task::of", "a fact: a task of Cruise Control"),
    ("rebalance::request::answers::Unmade::unloaded", "what it means that the load is unknown"),
    ("rebalance::request::answers::Unmade::unusable", "what it means that a spec is not usable"),
    ("rebalance::request::planning::Scope::of", "what a plan is about"),
    ("rebalance::request::snapshot::Readiness::of", "a fact: whether a cluster is ready"),
    ("topics::Ownership::of", "which of several KafkaTopics owns a topic"),
    ("topics::Problem::no_answer", "a message"),
    ("topics::Problem::refused", "a message"),
    ("topics::Report::failed", "the report of a change that failed"),
    ("users::PasswordEntry::of", "a fact: where the password of a user is"),
    ("users::Problem::kubernetes", "a message"),
    ("users::Problem::no_answer", "a message"),
    ("users::Problem::not_issued", "a message"),
    ("users::Problem::refused", "a message"),
    ("users::Problem::secret_exists", "a message"),
];

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut called = BTreeSet::new();
    let is_tested = |path: &str| path.ends_with("_tests.rs") || path.ends_with("/tests.rs");
    let sources = repository.rust().filter(|(path, _)| path.starts_with(SHELL) && !is_tested(path));
    for (path, text) in sources {
        let code = rust::code(text);
        let code = &code[..code.find("#[cfg(test)]\nmod ").unwrap_or(code.len())];
        for (at, function) in calls(code) {
            if !CALLED.iter().any(|(allowed, _)| *allowed == function) {
                let message = format!(
                    "the operator calls `control::{function}`: decide in `control`, or list it in shell.rs"
                );
                findings.push(Finding::new(path, rust::line_of(code, at), message));
            }
            called.insert(function);
        }
    }
    let has_shell = repository.rust().any(|(path, _)| path.starts_with(SHELL));
    let stale = CALLED.iter().filter(|(allowed, _)| has_shell && !called.contains(*allowed));
    findings.extend(stale.map(|(allowed, _)| {
        let message = format!("`control::{allowed}` is listed, and the operator does not call it");
        Finding::new("crates/xtask/src/tidy/shell.rs", 0, message)
    }));
    findings
}

/// Calls of functions of `control` in a file, with their position.
fn calls(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (name, path) in imports(code) {
        for at in rust::words(code, &name).filter(|at| !is_inside_a_path(code, *at)) {
            let rest = &code[at + name.len()..];
            if let Some(rest) = rest.strip_prefix("::") {
                let (words, after) = path_at(rest);
                let is_called = words.split("::").all(is_lower) && is_lower(&name);
                if is_called || is_associated(&format!("{path}::{words}"), after) {
                    found.push((at, format!("{path}::{words}")));
                }
            } else if rest.starts_with('(') && is_lower(&name) {
                found.push((at, path.clone()));
            }
        }
    }
    for at in rust::words(code, "control").filter(|at| !is_inside_a_path(code, *at)) {
        let Some(rest) = code[at..].strip_prefix("control::") else { continue };
        let (path, after) = path_at(rest);
        let is_function = path.split("::").all(is_lower) && after.starts_with('(');
        if (is_function || is_associated(path, after)) && !is_import(code, at) {
            found.push((at, path.to_owned()));
        }
    }
    found
}

/// A path, and what follows it.
fn path_at(code: &str) -> (&str, &str) {
    let end = code.find(|c| !rust::is_word(c) && c != ':').unwrap_or(code.len());
    (code[..end].trim_end_matches(':'), &code[end..])
}

/// Whether a path leads to a function of a type that is called: one that makes a value of something else.
fn is_associated(path: &str, after: &str) -> bool {
    let Some((of, function)) = path.rsplit_once("::") else { return false };
    let of_type =
        of.rsplit("::").next().is_some_and(|of| of.starts_with(|c: char| c.is_ascii_uppercase()));
    of_type
        && is_lower(function)
        && after.starts_with('(')
        && !matches!(function, "new" | "default")
}

/// Imports of functions, modules and types of `control`: local name and path.
fn imports(code: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for at in rust::words(code, "use") {
        let Some(rest) = code[at + 3..].trim_start().strip_prefix("control::") else { continue };
        let tree = &rest[..rest.find(';').unwrap_or(rest.len())];
        for leaf in leaves(tree) {
            let (path, alias) = leaf.split_once(" as ").unwrap_or((&leaf, ""));
            let path = path.trim().trim_end_matches("::self").to_owned();
            let last = path.rsplit("::").next().unwrap_or(&path).to_owned();
            let name = if alias.is_empty() { last.clone() } else { alias.trim().to_owned() };
            if name != "_" {
                all.insert(name, path);
            }
        }
    }
    all
}

/// The paths in an import such as `a::{b, c::{self, d}}`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        return Some(tree).filter(|tree| !tree.is_empty()).map(str::to_owned).into_iter().collect();
    };
    let (prefix, inner) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut parts) = (0_usize, vec![String::new()]);
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let below = parts.iter().flat_map(|part| leaves(part));
    below.map(|leaf| format!("{prefix}{leaf}")).collect()
}

fn is_lower(word: &str) -> bool {
    !word.is_empty() && !word.contains(|c: char| c.is_ascii_uppercase())
}

/// Whether a word is not the first of its path, is a method or field, or is a definition.
fn is_inside_a_path(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    let is_member = before.ends_with('.') && !before.ends_with("..");
    is_member || before.ends_with("::") || before.ends_with(" fn")
}

fn is_import(code: &str, at: usize) -> bool {
    code[..at].trim_end().ends_with("use")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(code: &str) -> Vec<String> {
        calls(code).into_iter().map(|(_, function)| function).collect()
    }

    #[test]
    fn calls_are_found_however_the_function_was_imported() {
        let code = "use control::cluster::decide::{Scope, decide};\nfn f() { decide(&s); }\n";
        assert_eq!(called(code), ["cluster::decide::decide"]);
        let code = "use control::a::{b::{self, T}, c as d};\nfn f() { b::g(); d::h(T::new()) }\n";
        assert_eq!(called(code), ["a::b::g", "a::c::h"]);
        let code = "fn f() { control::a::b::g(1); let x: control::a::T = y; }\n";
        assert_eq!(called(code), ["a::b::g"]);
        let code = "use control::a;\nfn f() { a::b::g(); a::B::g(); a::b::<T>::C; }\n";
        assert_eq!(called(code), ["a::b::g", "a::B::g", "a::b"]);
        // Types, and methods and functions of others of the same name, do not count.
        let code =
            "use control::a::{T, decide};\nfn f() { let t: T; x.decide(); a::decide(); T::A }\n";
        assert_eq!(called(code), Vec::<String>::new());
        // What makes a value of something else does.
        let code = "use control::a::T;\nuse control::b;\nfn f() { T::of(x); b::U::of(x); control::c::V::of(x) }\n";
        assert_eq!(called(code), ["a::T::of", "b::U::of", "c::V::of"]);
        let code =
            "use control::a::T;\nfn f() { T::new(x); T::default(); x.map(T::len); T::A.name() }\n";
        assert_eq!(called(code), Vec::<String>::new());
    }

    #[test]
    fn a_function_that_is_not_listed_is_found() {
        let code = "//! Doc.\nuse control::quorum::plan;\nfn f() { plan::decide(); }\n";
        let repository = Repository::of(&[("crates/operator/src/a.rs", code)]);
        let found: Vec<_> = check(&repository).into_iter().map(|one| one.to_string()).collect();
        assert!(
            found[0].contains("the operator calls `control::quorum::plan::decide`"),
            "{found:?}"
        );
        // Listed functions are not called in this sample.
        assert_eq!(found.len(), 1 + CALLED.len());
    }
}
