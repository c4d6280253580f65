//! Pods before and after an edit, and what is said of the difference.

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

/// A cluster of one broker with this pod and these settings.
fn view(pod: Value, properties: &[(&str, &str)]) -> View {
    let mut view = View::default();
    let member = Member { pool: "b".to_owned(), roles: Roles::Broker };
    view.desired.insert(id(1), member);
    view.pods.insert(id(1), pod);
    let all = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    view.properties.insert(id(1), all.collect());
    view
}

#[track_caller]
fn check(before: &View, after: &View, expected: &[&str]) {
    let lines: Vec<_> = reasons(before, after).into_values().flatten().collect();
    assert_eq!(lines, expected);
}

#[test]
fn pods_with_the_same_revision_do_not_differ() {
    let one = view(pod("a", "i", &[]), &[("x.y", "1")]);
    let other = view(pod("a", "i", &[]), &[("x.y", "1")]);
    check(&one, &other, &[]);
}

#[test]
fn another_revision_says_why() {
    let before = view(pod("a", "i:1", &[(KAFKA_VERSION, "4.1.2")]), &[("my.own", "1")]);
    let after = |revision: &str, image: &str, marks: &[(&str, &str)], value: &str| {
        view(pod(revision, image, marks), &[("my.own", value)])
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
