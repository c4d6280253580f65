//! Edits of a running cluster: good ones are carried out with as little as they need, bad ones are told and
//! change nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::fs;
use std::path::Path;

use kafka::{Ground, Place, wait_for};
use serde_json::json;

const CLUSTER: &str = "my-cluster";

struct Edited<'a> {
    place: Place<'a>,
}

impl Edited<'_> {
    fn patch(&self, kind: &str, name: &str, patch: &serde_json::Value) {
        let patch = patch.to_string();
        self.place.kubectl(&["patch", kind, name, "--type", "merge", "-p", &patch]);
    }

    fn patch_kafka(&self, patch: &serde_json::Value) {
        self.patch("kafka", CLUSTER, &json!({ "spec": { "kafka": patch } }));
    }

    /// Runs one of Kafka's own tools against the cluster.
    fn tool(&self, class: &str, words: &[&str]) -> String {
        let bootstrap = self.place.bootstrap(CLUSTER, "plain");
        let words = [&["--bootstrap-server", &bootstrap], words].concat();
        self.place.ground.tool(class, &words).unwrap()
    }

    /// A bad edit: it is said why, and nothing that runs is touched. Then it is taken back.
    fn is_refused(&self, bad: impl Fn(), reason: &str, words: &str, good: impl Fn()) {
        let before = self.place.pods();
        bad();
        let (found, message) = self.place.held(CLUSTER);
        assert_eq!(found, reason, "{message}");
        assert!(message.contains(words), "{message}");
        assert_eq!(self.place.pods(), before);
        good();
        self.place.ready(CLUSTER);
        assert_eq!(self.place.pods(), before);
    }

    /// A field that is not honoured: a warning says so, and everything stays as it was.
    fn is_warned_of(&self, bad: impl Fn(), reason: &str, words: &str, good: impl Fn()) {
        let before = self.place.pods();
        bad();
        wait_for(|| {
            let kafka = self.place.get("kafka", CLUSTER);
            let all = kafka["status"]["conditions"].as_array().unwrap();
            let told = all.iter().any(|one| {
                one["reason"] == reason && one["message"].as_str().unwrap().contains(words)
            });
            if told { Ok(()) } else { Err(kafka["status"]["conditions"].to_string()) }
        });
        self.place.ready(CLUSTER);
        assert_eq!(self.place.pods(), before);
        good();
        self.place.ready(CLUSTER);
    }
}

#[test]
fn edits_do_what_they_say_and_bad_ones_touch_nothing() {
    let ground = Ground::start(&["--nodes", "3"]);
    let place = ground.namespace("edits");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-dual-role.yaml");
    place.apply(&fs::read_to_string(example).unwrap());
    let born = place.ready(CLUSTER);
    let edited = Edited { place };
    a_setting_that_kafka_takes_while_it_runs_restarts_nobody(&edited);
    a_level_of_a_logger_changes_without_a_restart(&edited);
    bad_edits_are_refused(&edited);
    a_listener_more_is_rolled_out(&edited);
    a_pool_more_adds_its_nodes(&edited);
    nothing_happens_while_paused(&edited);
    a_lost_record_is_made_again(&edited);
    a_pool_that_is_deleted_is_scaled_down(&edited);
    let now = edited.place.ready(CLUSTER);
    for field in ["clusterId", "initialControllers"] {
        assert_eq!(now["status"][field], born["status"][field]);
    }
    ground.assert_operator_is_content();
}

fn a_setting_that_kafka_takes_while_it_runs_restarts_nobody(edited: &Edited<'_>) {
    let before = edited.place.pods();
    edited.patch_kafka(&json!({ "config": { "message.max.bytes": 2_000_000 } }));
    edited.place.ready(CLUSTER);
    assert_eq!(edited.place.pods(), before);
    let words = ["--describe", "--all", "--entity-type", "brokers", "--entity-name", "0"];
    let described = edited.tool("kafka.admin.ConfigCommand", &words);
    let line = described.lines().find(|line| line.trim().starts_with("message.max.bytes="));
    assert!(line.unwrap().contains("message.max.bytes=2000000"), "{line:?}");
}

fn a_level_of_a_logger_changes_without_a_restart(edited: &Edited<'_>) {
    const LOGGER: &str = "org.apache.kafka.controller";
    let before = edited.place.pods();
    let logs_at = |level: &str| {
        wait_for(|| {
            let words = ["--describe", "--entity-type", "broker-loggers", "--entity-name", "0"];
            let described = edited.tool("kafka.admin.ConfigCommand", &words);
            let line =
                described.lines().find(|line| line.trim().starts_with(&format!("{LOGGER}=")));
            let line = line.unwrap_or_default().to_owned();
            if line.contains(&format!("{LOGGER}={level}")) { Ok(()) } else { Err(line) }
        });
    };
    logs_at("INFO");
    let loggers = json!({ "logger.controller.level": "DEBUG", "monitorInterval": "1" });
    edited.patch_kafka(&json!({ "logging": { "type": "inline", "loggers": loggers } }));
    logs_at("DEBUG");
    let text = format!(
        "appender.c.type=Console\nappender.c.name=C\nrootLogger.level=INFO\n\
         rootLogger.appenderRef.c.ref=C\nlogger.c.name={LOGGER}\nlogger.c.level=WARN\n"
    );
    edited.place.apply(&format!(
        "{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: loggers }}, data: {} }}",
        json!({ "log4j2.properties": text })
    ));
    let external = |key: &str| {
        let source = json!({ "configMapKeyRef": { "name": "loggers", "key": key } });
        let logging = json!({ "type": "external", "loggers": null, "valueFrom": source });
        edited.patch_kafka(&json!({ "logging": logging }));
    };
    external("log4j2.properties");
    logs_at("WARN");
    edited.is_refused(
        || external("other"),
        "LoggingConfigMissing",
        "ConfigMap loggers has no entry other",
        || edited.patch_kafka(&json!({ "logging": null })),
    );
    logs_at("INFO");
    assert_eq!(edited.place.pods(), before);
}

fn bad_edits_are_refused(edited: &Edited<'_>) {
    let listeners = edited.place.get("kafka", CLUSTER)["spec"]["kafka"]["listeners"].clone();
    let said = edited.place.ground.kubectl_refused(&[
        "-n",
        &edited.place.namespace,
        "patch",
        "knp",
        "dual-role",
        "--type",
        "merge",
        "-p",
        r#"{"spec":{"replicas":-1}}"#,
    ]);
    assert!(said.contains("spec.replicas"), "{said}");
    edited.is_refused(
        || edited.patch_kafka(&json!({ "version": "9.9.9" })),
        "UnsupportedKafkaVersion",
        "9.9.9",
        || edited.patch_kafka(&json!({ "version": "4.3.1" })),
    );
    let mut twice = listeners.as_array().unwrap().clone();
    twice.push(json!({ "name": "again", "port": 9092, "type": "internal", "tls": false }));
    edited.is_refused(
        || edited.patch_kafka(&json!({ "listeners": twice })),
        "DuplicateListenerPort",
        "9092",
        || edited.patch_kafka(&json!({ "listeners": listeners })),
    );
    edited.is_refused(
        || edited.patch("knp", "dual-role", &json!({ "spec": { "roles": ["broker"] } })),
        "NoController",
        "controller",
        || {
            edited.patch(
                "knp",
                "dual-role",
                &json!({ "spec": { "roles": ["controller", "broker"] } }),
            )
        },
    );
    let storage = |size: &str| {
        let volume = json!({
            "id": 0, "type": "persistent-claim", "size": size, "deleteClaim": false, "kraftMetadata": "shared",
        });
        json!({ "spec": { "storage": { "type": "jbod", "volumes": [volume] } } })
    };
    edited.is_warned_of(
        || edited.patch("knp", "dual-role", &storage("1Gi")),
        "KafkaStorage",
        "dual-role",
        || edited.patch("knp", "dual-role", &storage("100Gi")),
    );
}

fn a_listener_more_is_rolled_out(edited: &Edited<'_>) {
    let before = edited.place.pods();
    let mut listeners = edited.place.get("kafka", CLUSTER)["spec"]["kafka"]["listeners"].clone();
    let more = json!({ "name": "more", "port": 9097, "type": "internal", "tls": false });
    listeners.as_array_mut().unwrap().push(more);
    edited.patch_kafka(&json!({ "listeners": listeners }));
    edited.place.ready(CLUSTER);
    let after = edited.place.pods();
    let kept = before.iter().filter(|pod| after.contains(pod)).count();
    assert_eq!(kept, 0, "{before:?} {after:?}");
    let bootstrap = edited.place.bootstrap(CLUSTER, "more");
    assert!(bootstrap.ends_with(":9097"), "{bootstrap}");
    edited.place.produce_and_consume(&bootstrap, "more", "", 1000);
}

fn a_pool_more_adds_its_nodes(edited: &Edited<'_>) {
    edited.place.apply(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaNodePool\nmetadata:\n  name: extra\n  labels:\n    \
         strimzi.io/cluster: my-cluster\n  annotations:\n    strimzi.io/next-node-ids: \"[7]\"\nspec:\n  \
         replicas: 1\n  roles: [broker]\n  jvmOptions: {\"-Xmx\": \"256m\"}\n  storage: {type: ephemeral}\n",
    );
    wait_for(|| {
        let names = edited.place.names("pods");
        let there = names.iter().any(|name| name == "my-cluster-extra-7");
        if there { Ok(()) } else { Err(format!("{names:?}")) }
    });
    edited.place.ready(CLUSTER);
    let pool = edited.place.get("knp", "extra");
    assert_eq!(pool["status"]["nodeIds"], json!([7]));
}

/// Its node holds nothing, so that it is unregistered and goes, and then the pool and its set.
fn a_pool_that_is_deleted_is_scaled_down(edited: &Edited<'_>) {
    edited.place.kubectl(&["delete", "knp", "extra", "--wait=false"]);
    wait_for(|| {
        let left = edited.place.names("kafkanodepools,strimzipodsets,pods");
        let is_extra = |name: &String| name == "extra" || name.contains("-extra");
        if left.iter().any(is_extra) { Err(format!("{left:?}")) } else { Ok(()) }
    });
    edited.place.ready(CLUSTER);
}

fn nothing_happens_while_paused(edited: &Edited<'_>) {
    let annotation = "strimzi.io/pause-reconciliation=true";
    edited.place.kubectl(&["annotate", "kafka", CLUSTER, annotation]);
    wait_for(|| {
        let paused = edited.place.condition(CLUSTER, "ReconciliationPaused");
        paused.map(|_| ()).ok_or("not paused".to_owned())
    });
    edited.place.kubectl(&["delete", "service", "my-cluster-kafka-bootstrap"]);
    edited.place.kubectl(&["annotate", "kafka", CLUSTER, "strimzi.io/pause-reconciliation-"]);
    edited.place.ready(CLUSTER);
    let services = edited.place.names("services");
    assert!(services.contains(&"my-cluster-kafka-bootstrap".to_owned()), "{services:?}");
}

fn a_lost_record_is_made_again(edited: &Edited<'_>) {
    let before = edited.place.pods();
    edited.place.kubectl(&["delete", "configmap", "my-cluster-gregor"]);
    edited.place.kubectl(&["annotate", "kafka", CLUSTER, "looked-at=again"]);
    wait_for(|| {
        let maps = edited.place.names("configmaps");
        let there = maps.iter().any(|name| name == "my-cluster-gregor");
        if there { Ok(()) } else { Err(format!("{maps:?}")) }
    });
    edited.place.ready(CLUSTER);
    assert_eq!(edited.place.pods(), before);
}
