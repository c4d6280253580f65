//! Pods and settings before and after an edit, and what is said of the difference.

use control::rolling::config::Difference;
use control::rolling::facts::{Contact, Facts, Pod, PodFacts, Recovery, Settings};
use control::rolling::pass;
use control::scaling::leaving::Member;
use serde_json::json;

use super::*;

fn id(number: i32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn pod(revision: &str, image: &str, marks: &[(&str, &str)]) -> Value {
    let mut pod = json!({
        "metadata": { "annotations": { REVISION: revision } },
        "spec": { "containers": [{ "name": "kafka", "image": image }] },
    });
    for (name, value) in marks {
        pod["metadata"]["annotations"][name] = json!(value);
    }
    pod
}

/// A cluster of one broker with this pod, these settings, and what Kafka says of them.
fn view(pod: Value, properties: &[(&str, &str)], config: Option<Diff>) -> View {
    let mut view = View::default();
    let member = Member { pool: "b".to_owned(), roles: Roles::Broker };
    view.recorded.insert(id(1), member.clone());
    view.desired.insert(id(1), member);
    view.pods.insert(id(1), pod);
    let all = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    view.properties.insert(id(1), all.collect());
    let node = NodeFacts {
        node: id(1),
        roles: Roles::Broker,
        pool: "b".to_owned(),
        rack: None,
        ephemeral: false,
        ephemeral_data: false,
        pod: Pod::There(PodFacts { uid: "u".to_owned(), ready: true, ..PodFacts::default() }),
        reasons: BTreeSet::new(),
        set_annotated: false,
        recovery: Recovery::No,
        fenced: Some(false),
        contact: Contact::Answers,
        config,
        leads_preferred: None,
    };
    let facts = Facts { nodes: vec![node], ..Facts::default() };
    let decision = pass::decide(&facts, &Settings::default(), 0);
    view.roll = Some(std::sync::Arc::new((facts, decision)));
    view
}

fn known() -> Option<Diff> {
    Some(Diff::default())
}

#[track_caller]
fn check(before: &View, after: &View, expected: &[&str]) {
    let upkeep = compare(before, after);
    let lines: Vec<_> = upkeep.restarts.iter().flat_map(|one| one.why.clone()).collect();
    assert_eq!(lines, expected);
}

#[test]
fn the_same_revision_restarts_nobody() {
    let one = view(pod("a", "i", &[]), &[("x.y", "1")], known());
    let other = view(pod("a", "i", &[]), &[("x.y", "1")], known());
    assert_eq!(compare(&one, &other), Upkeep::default());
}

#[test]
fn another_revision_says_why() {
    let before = view(pod("a", "i:1", &[(KAFKA_VERSION, "4.1.2")]), &[("my.own", "1")], known());
    let after = |revision: &str, image: &str, marks: &[(&str, &str)], value: &str| {
        view(pod(revision, image, marks), &[("my.own", value)], known())
    };
    let same = [(KAFKA_VERSION, "4.1.2")];
    check(
        &before,
        &after("b", "i:2", &[(KAFKA_VERSION, "4.3.1")], "1"),
        &["Kafka 4.3.1 instead of 4.1.2", "its pod differs in spec.containers.kafka.image"],
    );
    let marked = [same[0], (CONFIG_HASH, "2")];
    check(
        &before,
        &after("b", "i:1", &marked, "2"),
        &["settings that are read at the start: my.own"],
    );
    check(
        &before,
        &after("b", "i:1", &marked, "1"),
        &["other options of Java, or rules for metrics"],
    );
    let certified = [same[0], ("strimzi.io/server-cert-hash", "2")];
    check(&before, &after("b", "i:1", &certified, "1"), &["another certificate"]);
    check(&before, &after("b", "i:1", &same, "1"), &["its pod has other labels or annotations"]);
}

#[test]
fn what_is_pending_anyway_is_not_the_doing_of_the_edit() {
    let key = |key: &str| Difference { key: key.to_owned(), running: None, desired: None };
    let set = |key: &str| Change::Set(key.to_owned(), "1".to_owned());
    let pending = Diff { restart: vec![key("a")], on_cluster: vec![set("b")], ..Diff::default() };
    let then = Diff {
        restart: vec![key("a"), key("c")],
        on_cluster: vec![set("b"), set("d")],
        on_node: vec![Change::Delete("e".to_owned())],
        ..Diff::default()
    };
    let before = view(pod("a", "i", &[]), &[], Some(pending));
    let upkeep = compare(&before, &view(pod("a", "i", &[]), &[], Some(then)));
    assert_eq!(upkeep.restarts[0].why, ["settings that need a restart: c"]);
    let changes: Vec<_> = upkeep.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "set d to 1 on all nodes, without a restart",
            "reset e to its default on node 1, without a restart",
        ]
    );
}

#[test]
fn without_kafka_nobody_knows_whether_a_setting_needs_a_restart() {
    let before = view(pod("a", "i", &[]), &[("log.retention.hours", "1")], None);
    let after = view(pod("a", "i", &[]), &[("log.retention.hours", "2")], None);
    let upkeep = compare(&before, &after);
    assert_eq!(upkeep.unclear, ["log.retention.hours"]);
    assert!(upkeep.restarts.is_empty() && upkeep.changes.is_empty());
}
