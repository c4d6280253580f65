//! Topics as resources on a real cluster: created, changed and deleted as their resources say; bad ones are told and
//! harm no other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use kafka::{Ground, Place, wait_for, wait_for_mut};
use kafka_admin::{ClientOptions, ConfigSource, NewTopic};
use model::TopicName;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const CLUSTER: &str = "my-cluster";
const FINALIZER: &str = "strimzi.io/topic-operator";

struct Scene<'a> {
    place: Place<'a>,
    runtime: Runtime,
}

/// A topic, as Kafka shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    id: String,
    partitions: usize,
    overrides: Vec<String>,
}

impl Scene<'_> {
    fn admin(&self) -> kafka_admin::Admin {
        let call_timeout = Duration::from_secs(60);
        self.place.admin(CLUSTER, ClientOptions { call_timeout, ..ClientOptions::default() })
    }

    fn apply_all(&self, topics: &[Value]) {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": topics });
        let file = self.place.ground.world.file("topics.json", &list.to_string());
        self.place.kubectl(&["apply", "-f", &file]);
    }

    fn patch(&self, name: &str, patch: &Value) {
        let patch = patch.to_string();
        self.place.kubectl(&["patch", "kafkatopic", name, "--type", "merge", "-p", &patch]);
    }

    fn delete(&self, name: &str) {
        self.place.kubectl(&["delete", "kafkatopic", name, "--wait=false"]);
    }

    /// Waits until the resource is ready in its present generation, with an id.
    fn ready(&self, name: &str) -> Value {
        let mut found = Value::Null;
        wait_for_mut(|| {
            found = self.place.get("kafkatopic", name);
            let status = &found["status"];
            let done = status["observedGeneration"] == found["metadata"]["generation"];
            let ready = &status["conditions"][0];
            let is_ready = ready["type"] == "Ready" && ready["status"] == "True";
            match done && is_ready && status["topicId"].is_string() {
                true => Ok(()),
                false => Err(format!("{name}: {status}")),
            }
        });
        found
    }

    /// Waits until a condition of the resource has this reason, and returns its message.
    fn said(&self, name: &str, reason: &str) -> String {
        let mut message = String::new();
        wait_for_mut(|| {
            let status = &self.place.get("kafkatopic", name)["status"];
            let all = status["conditions"].as_array().cloned().unwrap_or_default();
            let found = all.iter().find(|one| one["reason"] == reason);
            message = found.map(|one| one["message"].to_string()).ok_or(status.to_string())?;
            Ok(())
        });
        message
    }

    fn gone(&self, name: &str) {
        wait_for(|| {
            let names = self.place.names("kafkatopics");
            if names.iter().any(|one| one == name) { Err(format!("{names:?}")) } else { Ok(()) }
        });
    }

    /// What Kafka has; `None` if it does not have it.
    fn shown(&self, topic: &str) -> Option<Shown> {
        let admin = self.admin();
        let name = TopicName::new(topic).unwrap();
        self.runtime.block_on(async {
            let page = admin.describe_topics(std::slice::from_ref(&name)).await.unwrap();
            let found = page.topics.into_iter().next()?;
            let values = admin.describe_topic_values(&BTreeSet::from([name.clone()])).await;
            let values = values.unwrap().remove(&name).unwrap().ok()?.into_iter();
            let set = values.filter(|entry| entry.source == ConfigSource::Topic);
            let overrides =
                set.map(|entry| format!("{}={}", entry.name, entry.value.unwrap_or_default()));
            Some(Shown {
                id: found.id.to_string(),
                partitions: found.partitions.len(),
                overrides: overrides.collect(),
            })
        })
    }

    fn becomes(&self, topic: &str, partitions: usize, overrides: &[&str]) {
        wait_for(|| {
            let shown = self.shown(topic);
            let is_so = |one: &Shown| one.partitions == partitions && one.overrides == overrides;
            if shown.as_ref().is_some_and(is_so) { Ok(()) } else { Err(format!("{shown:?}")) }
        });
    }

    /// Creates a topic behind the back of the resources.
    fn create(&self, topic: &str, config: (&str, &str)) {
        let new =
            NewTopic::new(TopicName::new(topic).unwrap(), 1, 1).with_config(config.0, config.1);
        let made = self.runtime.block_on(self.admin().create_topics(&[new], false)).unwrap();
        assert!(made.values().all(Result::is_ok), "{made:?}");
        wait_for(|| self.shown(topic).map(|_| ()).ok_or("not shown".to_owned()));
    }
}

fn topic(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic",
        "metadata": { "name": name, "labels": { "strimzi.io/cluster": CLUSTER } },
        "spec": spec,
    })
}

#[test]
fn topics_follow_their_resources() {
    let ground = Ground::start(&["--nodes", "1"]);
    let place = ground.namespace("topics");
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-single-node.yaml");
    let cluster = fs::read_to_string(example).unwrap();
    // Resources that are there before their cluster wait for it.
    place.apply(&cluster);
    let scene = Scene { place, runtime: Runtime::new().unwrap() };
    let early = topic("early", json!({ "partitions": 2, "config": { "retention.ms": 3_600_000 } }));
    scene.apply_all(&[early]);
    let kafka = scene.place.ready(CLUSTER);
    let warned = kafka["status"]["conditions"].to_string();
    assert!(!warned.contains("topicOperator"), "{warned}");
    a_topic_is_created_changed_and_deleted(&scene);
    bad_resources_are_told_and_harm_no_other(&scene);
    a_conflict_never_deletes_the_topic(&scene);
    an_existing_topic_keeps_its_overrides(&scene);
    people_list_describe_and_create_topics(&scene);
    unmanaged_and_other_resources_are_left_alone(&scene);
    a_cluster_that_is_deleted_lets_go(&scene);
    ground.assert_operator_is_content();
}

fn a_topic_is_created_changed_and_deleted(scene: &Scene<'_>) {
    let early = scene.ready("early");
    assert_eq!(early["status"]["topicName"], "early");
    assert_eq!(early["metadata"]["finalizers"], json!([FINALIZER]));
    let shown = scene.shown("early").unwrap();
    assert_eq!(early["status"]["topicId"], shown.id.as_str());
    scene.becomes("early", 2, &["retention.ms=3600000"]);
    let config = json!({ "retention.ms": null, "cleanup.policy": ["compact", "delete"] });
    scene.patch("early", &json!({ "spec": { "partitions": 3, "config": config } }));
    scene.ready("early");
    scene.becomes("early", 3, &["cleanup.policy=compact,delete"]);
    assert_eq!(scene.shown("early").unwrap().id, shown.id);
    scene.delete("early");
    scene.gone("early");
    wait_for(|| scene.shown("early").map_or(Ok(()), |shown| Err(format!("{shown:?}"))));
}

fn bad_resources_are_told_and_harm_no_other(scene: &Scene<'_>) {
    let named = json!({ "topicName": "not a name" });
    scene.apply_all(&[
        topic("bad-name", named),
        topic("bad-key", json!({ "config": { "no.such": 1 } })),
        topic("bad-value", json!({ "config": { "retention.ms": { "a": 1 } } })),
        topic("bad-replicas", json!({ "replicas": 9 })),
        topic("good", json!({ "partitions": 2, "replicas": 1, "config": { "flush.ms": 7000 } })),
    ]);
    scene.ready("good");
    let errors = "org.apache.kafka.common.errors.";
    let rows = [
        ("bad-name", "KafkaError", format!("{errors}InvalidTopicException: Topic name is invalid")),
        ("bad-key", "KafkaError", format!("{errors}InvalidConfigurationException: ")),
        ("bad-value", "InternalError", "Invalid value for topic config 'retention.ms'".to_owned()),
        ("bad-replicas", "KafkaError", format!("{errors}InvalidReplicationFactorException: ")),
    ];
    for (name, reason, words) in rows {
        let said = scene.said(name, reason);
        assert!(said.contains(&words), "{name}: {said}");
        scene.delete(name);
        scene.gone(name);
    }
    for (patch, words) in [
        (json!({ "partitions": 1 }), "Decreasing partitions not supported"),
        (json!({ "partitions": 2, "replicas": 2 }), "required for partitions [0, 1]"),
        (json!({ "replicas": 1, "topicName": "x" }), "Changing spec.topicName is not supported"),
    ] {
        scene.patch("good", &json!({ "spec": patch }));
        wait_for(|| {
            let said = scene.said("good", "NotSupported");
            if said.contains(words) { Ok(()) } else { Err(said) }
        });
    }
    scene.patch("good", &json!({ "spec": { "topicName": null } }));
    scene.ready("good");
    scene.becomes("good", 2, &["flush.ms=7000"]);
}

fn a_conflict_never_deletes_the_topic(scene: &Scene<'_>) {
    let id = scene.shown("good").unwrap().id;
    scene.apply_all(&[topic("second", json!({ "topicName": "good" }))]);
    let said = scene.said("second", "ResourceConflict");
    assert!(said.contains("Managed by Ref{namespace='topics', name='good'}"), "{said}");
    scene.delete("second");
    scene.gone("second");
    assert_eq!(scene.shown("good").unwrap().id, id, "deleted by the one that lost");
    // The owner goes, and the other has the topic with all that is in it.
    scene.apply_all(&[topic("third", json!({ "topicName": "good" }))]);
    scene.said("third", "ResourceConflict");
    scene.delete("good");
    scene.gone("good");
    let third = scene.ready("third");
    assert_eq!(third["status"]["topicId"], id.as_str());
    assert_eq!(scene.shown("good").unwrap().id, id);
}

fn an_existing_topic_keeps_its_overrides(scene: &Scene<'_>) {
    scene.create("old", ("retention.ms", "7777"));
    scene.apply_all(&[topic("old", json!({}))]);
    scene.ready("old");
    let said = scene.said("old", "ConfigKept");
    assert!(said.contains("retention.ms"), "{said}");
    // In later passes too, when the id is known.
    scene.patch("old", &json!({ "spec": { "partitions": 2 } }));
    scene.ready("old");
    scene.becomes("old", 2, &["retention.ms=7777"]);
    let replace = json!({ "metadata": { "annotations": { "gregor.io/topic-config": "replace" } } });
    scene.patch("old", &replace);
    scene.becomes("old", 2, &[]);
}

fn people_list_describe_and_create_topics(scene: &Scene<'_>) {
    let run = |words: &[&str]| {
        let words = [&["topic"], words, &["--cluster", CLUSTER]].concat();
        scene.place.gregor(&words).ok().out
    };
    let create = ["create", "by-hand", "--partitions", "2", "--config", "flush.ms=7000"];
    assert!(run(&create).contains("by-hand"));
    scene.ready("by-hand");
    scene.becomes("by-hand", 2, &["flush.ms=7000"]);
    assert!(run(&["list"]).contains("by-hand"));
    let described: Value =
        serde_json::from_str(&run(&["describe", "by-hand", "-o", "json"])).unwrap();
    assert_eq!(described["ready"], true);
    assert_eq!(described["config"], json!({ "flush.ms": "7000" }));
}

fn unmanaged_and_other_resources_are_left_alone(scene: &Scene<'_>) {
    let annotate =
        |value| json!({ "metadata": { "annotations": { "strimzi.io/managed": value } } });
    scene.patch("old", &annotate(json!("false")));
    wait_for(|| {
        let status = &scene.place.get("kafkatopic", "old")["status"];
        let is_so = status["conditions"][0]["type"] == "Unmanaged" && status["topicName"].is_null();
        if is_so { Ok(()) } else { Err(status.to_string()) }
    });
    let id = scene.shown("old").unwrap().id;
    scene.delete("old");
    scene.gone("old");
    assert_eq!(scene.shown("old").unwrap().id, id);
    let mut other = topic("other", json!({}));
    other["metadata"]["labels"]["strimzi.io/cluster"] = "another".into();
    scene.apply_all(&[other, topic("last", json!({}))]);
    scene.ready("last");
    assert_eq!(scene.place.get("kafkatopic", "other")["status"], Value::Null);
    assert_eq!(scene.shown("other"), None);
}

fn a_cluster_that_is_deleted_lets_go(scene: &Scene<'_>) {
    scene.place.kubectl(&["delete", "kafka", CLUSTER, "--wait=false"]);
    wait_for(|| {
        let held = scene.place.list("kafkatopics");
        let held: Vec<_> =
            held.iter().filter(|one| one["metadata"]["finalizers"].is_array()).collect();
        if held.is_empty() { Ok(()) } else { Err(format!("{held:?}")) }
    });
    scene.place.kubectl(&["delete", "kafkatopics", "--all", "--timeout=60s"]);
}
