//! Topics as resources on a real cluster: created, changed and deleted as their resources say; bad ones are told and
//! harm no other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod monitoring_support;
mod prometheus;
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use kafka::{Ground, Place, wait_for, wait_for_mut};
use kafka_admin::{ClientOptions, ConfigSource, NewTopic};
use model::{TopicName, TopicPartition};
use prometheus::{Discovery, Prometheus, scrape_configs};
use serde_json::{Value, json};
use testkit::{Load, LoadOptions};
use tokio::runtime::Runtime;

const CLUSTER: &str = "my-cluster";
const FINALIZER: &str = "strimzi.io/topic-operator";
const LOADED: &str = "loaded";
/// A topic without a resource.
const FOREIGN: &str = "foreign";
const EXPORTER: &str = "my-cluster-kafka-exporter";

/// The queries of the dashboard and of the alerts that Strimzi ships for its exporter; of alerts, what they compare.
const OF_THE_EXPORTER: [&str; 15] = [
    "kafka_broker_info{SELECTOR}",
    "sum(rate(kafka_topic_partition_current_offset{SELECTOR,topic=~\".+\"}[1m])) by (topic)",
    "sum(delta(kafka_topic_partition_current_offset{SELECTOR}[5m])/5) by (topic)",
    "sum(kafka_consumergroup_lag{SELECTOR,consumergroup=~\".+\"}) by (consumergroup, topic)",
    "sum(delta(kafka_consumergroup_current_offset{SELECTOR}[5m])/5) by (consumergroup, topic)",
    "sum by (topic) (kafka_topic_partitions{SELECTOR})",
    "kafka_topic_partition_current_offset{SELECTOR}",
    "kafka_topic_partition_oldest_offset{SELECTOR}",
    "kafka_topic_partition_leader{SELECTOR}",
    "kafka_topic_partition_leader_is_preferred{SELECTOR}",
    "kafka_topic_partition_replicas{SELECTOR}",
    "kafka_topic_partition_in_sync_replica{SELECTOR}",
    "kafka_topic_partition_under_replicated_partition{SELECTOR}",
    "kafka_consumergroup_lag{SELECTOR}",
    "changes(kafka_topic_partition_current_offset{SELECTOR}[10m])",
];

const BROKERS: &str = "
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: broker
  labels:
    strimzi.io/cluster: my-cluster
spec:
  replicas: 3
  roles:
    - broker
  storage:
    type: ephemeral
";

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

    /// Waits until the change of replicas has ended, in Kafka and in the status.
    fn has_replicas(&self, name: &str, count: usize) {
        let admin = self.admin();
        let topic = TopicName::new(name).unwrap();
        wait_for(|| {
            let page = self.runtime.block_on(admin.describe_topics(std::slice::from_ref(&topic)));
            let page = page.map_err(|error| format!("{error:?}"))?;
            let counts: Vec<_> =
                page.topics[0].partitions.iter().map(|one| one.replicas.len()).collect();
            let found = self.place.get("kafkatopic", name);
            let status = &found["status"];
            let is_observed = status["observedGeneration"] == found["metadata"]["generation"];
            let is_over = status["replicasChange"].is_null() && is_observed;
            match is_over && counts.iter().all(|one| *one == count) {
                true => Ok(()),
                false => Err(format!("{counts:?} {status}")),
            }
        });
    }

    /// The metrics of topics and groups that the operator serves.
    fn metrics(&self) -> String {
        let pods = self.place.ground.place("gregor").list("pods");
        let address = pods[0]["status"]["podIP"].as_str().unwrap_or_default().to_owned();
        let Ok(mut stream) = TcpStream::connect((address.as_str(), 8080)) else {
            return String::new();
        };
        stream.write_all(b"GET /metrics/kafka HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
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
    let ground = Ground::mortal(&["--nodes", "1"]);
    let place = ground.namespace("topics");
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-single-node.yaml");
    // Three more brokers, so that replicas have somewhere to go.
    let cluster = fs::read_to_string(example).unwrap() + BROKERS;
    // Resources that are there before their cluster wait for it.
    place.apply(&cluster);
    let scene = Scene { place, runtime: Runtime::new().unwrap() };
    let early = topic("early", json!({ "partitions": 2, "config": { "retention.ms": 3_600_000 } }));
    scene.apply_all(&[early]);
    let kafka = scene.place.ready(CLUSTER);
    let warned = kafka["status"]["conditions"].to_string();
    assert!(!warned.contains("topicOperator"), "{warned}");
    scene.create(FOREIGN, ("flush.ms", "8000"));
    a_topic_is_created_changed_and_deleted(&scene);
    bad_resources_are_told_and_harm_no_other(&scene);
    users_are_told_what_the_cluster_lacks(&scene);
    a_conflict_never_deletes_the_topic(&scene);
    an_existing_topic_keeps_its_overrides(&scene);
    people_list_describe_and_create_topics(&scene);
    replicas_change_under_load(&scene);
    metrics_have_the_names_of_the_exporter(&scene);
    a_change_of_replicas_is_lived_one_act_per_life(&scene);
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
        (json!({ "partitions": 2, "topicName": "x" }), "Changing spec.topicName is not supported"),
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

/// The cluster of these tests has neither authorization nor a listener with passwords.
fn users_are_told_what_the_cluster_lacks(scene: &Scene<'_>) {
    let user = |name: &str, spec: Value| {
        let mut user = topic(name, spec);
        user["kind"] = "KafkaUser".into();
        user
    };
    let rule = json!({ "resource": { "type": "topic", "name": "good" }, "operations": ["Read"] });
    scene.apply_all(&[
        user("with-rules", json!({ "authorization": { "type": "simple", "acls": [rule] } })),
        user("with-password", json!({ "authentication": { "type": "scram-sha-512" } })),
    ]);
    for (name, kind, words) in [
        ("with-rules", "NotReady", "set spec.kafka.authorization"),
        ("with-password", "Ready", "No listener of the Kafka cluster has authentication"),
    ] {
        wait_for(|| {
            let conditions = scene.place.get("kafkauser", name)["status"]["conditions"].clone();
            let is_so = conditions[0]["type"] == kind && conditions.to_string().contains(words);
            if is_so { Ok(()) } else { Err(conditions.to_string()) }
        });
    }
    // What is wrong is told once, whatever many passes look at it again.
    let told = || {
        let events = scene.place.list("events");
        let is_it = |one: &&Value| {
            one["involvedObject"]["name"] == "with-rules" && one["reason"] == "InvalidResource"
        };
        // An Event that is told again is counted in the first one.
        let times = |one: &Value| one["series"]["count"].as_u64().unwrap_or(1);
        events.iter().filter(is_it).map(times).sum::<u64>()
    };
    wait_for(|| if told() > 0 { Ok(()) } else { Err("no Event".to_owned()) });
    let annotate = json!({ "metadata": { "labels": { "looked-at": "again" } } }).to_string();
    scene.place.kubectl(&["patch", "kafkauser", "with-rules", "--type=merge", "-p", &annotate]);
    scene.place.kubectl(&["delete", "kafkauser", "with-password", "--timeout=60s"]);
    wait_for(|| {
        let secrets = scene.place.names("secrets");
        if secrets.iter().any(|one| one == "with-password") {
            Err(format!("{secrets:?}"))
        } else {
            Ok(())
        }
    });
    assert_eq!(told(), 1);
    scene.place.kubectl(&["delete", "kafkauser", "with-rules", "--timeout=60s"]);
}

/// The exporter of Strimzi, without replicas, since there is nothing to run.
fn exporter_of_strimzi() -> [Value; 2] {
    let labels = json!({
        "strimzi.io/cluster": CLUSTER, "strimzi.io/name": EXPORTER,
        "app.kubernetes.io/managed-by": "strimzi-cluster-operator",
    });
    let metadata = json!({ "name": EXPORTER, "labels": labels });
    let selector = json!({ "matchLabels": { "strimzi.io/name": EXPORTER } });
    let pod = json!({
        "metadata": { "labels": { "strimzi.io/name": EXPORTER } },
        "spec": { "containers": [{ "name": EXPORTER, "image": "x" }] },
    });
    let spec = json!({ "replicas": 0, "selector": selector, "template": pod });
    [
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
    ]
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

fn replicas_change_under_load(scene: &Scene<'_>) {
    let config = json!({ "min.insync.replicas": 2 });
    scene.apply_all(&[topic(LOADED, json!({ "partitions": 4, "replicas": 3, "config": config }))]);
    scene.ready(LOADED);
    let ground = scene.place.ground;
    let bootstrap = scene.place.bootstrap(CLUSTER, "plain");
    let options = LoadOptions::new(ground.home.clone(), &bootstrap, LOADED);
    let load = scene.runtime.block_on(Load::start(options.hosts(ground.hosts()).rate(50))).unwrap();
    for replicas in [2, 4, 3] {
        scene.patch(LOADED, &json!({ "spec": { "replicas": replicas } }));
        scene.has_replicas(LOADED, replicas);
        scene.runtime.block_on(load.wait_acknowledged(20)).unwrap();
    }
    // Fewer than the topic needs in sync: it waits, and says what to do.
    scene.patch(LOADED, &json!({ "spec": { "replicas": 1 } }));
    wait_for(|| {
        let change = &scene.place.get("kafkatopic", LOADED)["status"]["replicasChange"];
        let message = change["message"].as_str().unwrap_or_default();
        let is_so = change["state"] == "pending" && message.contains("Lower min.insync.replicas");
        if is_so { Ok(()) } else { Err(change.to_string()) }
    });
    let plan = |replicas: &str| {
        let words = ["topic", "plan", LOADED, "--replicas", replicas, "--cluster", CLUSTER];
        scene.place.gregor(&[&words[..], &["-o", "json"]].concat()).ok().out
    };
    let four: Value = serde_json::from_str(&plan("4")).unwrap();
    assert_eq!(four["partitions"].as_array().unwrap().len(), 4, "{four}");
    assert_eq!(four["partitions"][0]["after"].as_array().unwrap().len(), 4, "{four}");
    assert!(plan("9").contains("9 replicas need 9 brokers"));
    let report = scene.runtime.block_on(load.stop()).unwrap();
    report.check().unwrap();
}

fn metrics_have_the_names_of_the_exporter(scene: &Scene<'_>) {
    let first = TopicPartition::new(TopicName::new(LOADED).unwrap(), 0);
    let commit = BTreeMap::from([(first, 1)]);
    let done = scene.runtime.block_on(scene.admin().commit_offsets("billing", &commit)).unwrap();
    assert!(done.values().all(Result::is_ok), "{done:?}");
    let exporter = |spec: Value| {
        let patch = json!({ "spec": { "kafkaExporter": spec } }).to_string();
        scene.place.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", &patch]);
    };
    scene.apply_all(&exporter_of_strimzi());
    exporter(json!({}));
    let common = "namespace=\"topics\",strimzi_io_cluster=\"my-cluster\",strimzi_io_kind=\"Kafka\",\
                  strimzi_io_name=\"my-cluster-kafka-exporter\"";
    let of_partition = |name: &str, number: usize, value: &str| {
        format!(
            "{name}{{consumergroup=\"billing\",topic=\"{LOADED}\",partition=\"{number}\",{common}}} {value}"
        )
    };
    let lines = [
        format!("kafka_brokers{{{common}}} 4"),
        format!("kafka_topic_partitions{{topic=\"{LOADED}\",{common}}} 4"),
        format!("kafka_topic_partition_replicas{{topic=\"{LOADED}\",partition=\"3\",{common}}} 3"),
        format!("kafka_consumergroup_members{{consumergroup=\"billing\",{common}}} 0"),
        of_partition("kafka_consumergroup_current_offset", 0, "1"),
        of_partition("kafka_consumergroup_current_offset", 1, "-1"),
        of_partition("kafka_consumergroup_lag", 1, "-1"),
        "# TYPE kafka_consumergroup_lag_sum gauge".to_owned(),
    ];
    wait_for(|| {
        let text = scene.metrics();
        let missing = lines.iter().find(|line| !text.lines().any(|one| one == *line));
        missing.map_or(Ok(()), |line| Err(format!("{line} is not in:\n{text}")))
    });
    the_dashboard_of_the_exporter_has_data(scene);
    // Two sources of the same series would count double. It is removed when metrics are scraped regularly.
    wait_for(|| {
        assert!(scene.metrics().contains("kafka_brokers"));
        let left =
            [scene.place.names("deployments"), scene.place.names("serviceaccounts")].concat();
        if left.iter().any(|one| one == EXPORTER) { Err(format!("{left:?}")) } else { Ok(()) }
    });
    let other = "kafka_topic_partitions{topic=\"by-hand\"";
    assert!(scene.metrics().contains(other));
    exporter(json!({ "topicRegex": "^loaded$", "groupExcludeRegex": "ill" }));
    wait_for(|| {
        let text = scene.metrics();
        let is_so = text.contains(&lines[1]) && !text.contains(other) && !text.contains("billing");
        if is_so { Ok(()) } else { Err(text) }
    });
    exporter(json!({ "groupRegex": "(" }));
    wait_for(|| {
        let warning = scene.place.warning(CLUSTER, "InvalidExporterRegex");
        let is_served = scene.metrics().contains("kafka_brokers");
        if warning.is_some() && !is_served { Ok(()) } else { Err(format!("{warning:?}")) }
    });
    exporter(Value::Null);
}

/// A real Prometheus scrapes the operator as the PodMonitors say that are shipped.
fn the_dashboard_of_the_exporter_has_data(scene: &Scene<'_>) {
    let temp = tempfile::tempdir().unwrap();
    let targets = temp.path().join("targets.json");
    let kubeconfig = scene.place.ground.world.state().join("kubeconfig");
    let _discovery = Discovery::start(kubeconfig, targets.clone());
    let no_rules = json!({ "groups": [] });
    let prometheus = Prometheus::start(temp.path(), &scrape_configs(&targets), &no_rules);
    let selector = "namespace=\"topics\",strimzi_io_cluster=\"my-cluster\"";
    wait_for(|| {
        let queries = OF_THE_EXPORTER.iter().map(|query| query.replace("SELECTOR", selector));
        let without: Vec<_> = queries.filter(|query| !prometheus.has_had_data(query)).collect();
        if without.is_empty() { Ok(()) } else { Err(format!("no data: {without:#?}")) }
    });
}

/// Also with a topic that Kafka refuses, which must not use up every life.
fn a_change_of_replicas_is_lived_one_act_per_life(scene: &Scene<'_>) {
    scene.place.ground.begin_one_act_per_life();
    scene.patch(LOADED, &json!({ "spec": { "replicas": 2 } }));
    scene.apply_all(&[
        topic("again-bad", json!({ "config": { "no.such": 1 } })),
        topic("again-good", json!({ "partitions": 2, "replicas": 2 })),
    ]);
    scene.ready("again-good");
    scene.said("again-bad", "KafkaError");
    scene.has_replicas(LOADED, 2);
    scene.place.ground.end_one_act_per_life();
    let throttled = scene.shown(LOADED).unwrap().overrides;
    assert_eq!(throttled, ["min.insync.replicas=2"], "no throttle is left");
    let events = scene.place.kubectl(&["get", "events", "-o", "json"]);
    assert!(events.contains("ReplicasChangeStarted") && events.contains("KafkaError"), "{events}");
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
    let kept = scene.shown(FOREIGN).unwrap();
    assert_eq!((kept.partitions, kept.overrides), (1, vec!["flush.ms=8000".to_owned()]), "T7.17");
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
