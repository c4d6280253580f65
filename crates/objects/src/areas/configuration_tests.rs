//! Configuration of nodes, and changes that require a restart.

use std::collections::BTreeSet;

use control::scaling::guard::Phase;
use control::scaling::leaving::{Kind, Leaving};
use serde_json::{Value, json};

use super::*;
use crate::Object;
use crate::samples::{blueprint, id, seen};

/// Everything that the configuration is built from.
struct Scene {
    kafka: Value,
    pool: Value,
    record: Record,
    images: BTreeMap<String, String>,
    addresses: Option<Addresses>,
    metrics: Option<&'static str>,
    logging: Option<&'static str>,
    assumed: Option<Note>,
}

/// A cluster with a dynamic quorum, one listener and rules for metrics.
fn scene() -> Scene {
    let mut record = Record { cluster_id: Some("id".to_owned()), ..Record::default() };
    record.quorum.mode = QuorumMode::Dynamic;
    let listener = json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false });
    let source = json!({ "configMapKeyRef": { "name": "rules", "key": "r" } });
    Scene {
        kafka: json!({
            "listeners": [listener],
            "config": {},
            "metricsConfig": { "type": "jmxPrometheusExporter", "valueFrom": source },
        }),
        pool: json!({}),
        record,
        images: [("4.3.1".to_owned(), "image".to_owned())].into(),
        addresses: Some(Addresses::default()),
        metrics: Some("all"),
        logging: None,
        assumed: None,
    }
}

fn built(scene: &Scene) -> Built<Configuration> {
    let blueprint = blueprint(scene.kafka.clone(), scene.pool.clone());
    let input = Input {
        blueprint: &blueprint,
        record: &scene.record,
        images: &scene.images,
        addresses: scene.addresses.as_ref(),
    };
    let of_user = OfUser { metrics: scene.metrics, logging: scene.logging };
    let built = build(&input, (of_user, scene.assumed.clone())).unwrap();
    seen(&built.warnings, &built.flow);
    built
}

fn external(scene: &mut Scene) {
    let listener = json!({ "name": "out", "port": 9095, "type": "loadbalancer", "tls": false });
    scene.kafka["listeners"] = json!([listener]);
}

/// Broker 0 has an address, broker 1 has none.
fn half_addressed(scene: &mut Scene) {
    external(scene);
    let mut addresses = Addresses::default();
    addresses.brokers.insert((id(0), "out".to_owned()), (Some("zero".to_owned()), 9095));
    scene.addresses = Some(addresses);
}

fn leave(scene: &mut Scene) {
    let leaving = Leaving { phase: Phase::Cordoned, kind: Kind::Node, pool: "broker".to_owned() };
    scene.record.leaving.insert(id(0), leaving);
}

fn inline(scene: &mut Scene) {
    let loggers = json!({ "rootLogger.level": "DEBUG" });
    scene.kafka["logging"] = json!({ "type": "inline", "loggers": loggers });
}

/// External logging with this text.
fn log_to(scene: &mut Scene, text: Option<&'static str>) {
    let source = json!({ "configMapKeyRef": { "name": "loggers", "key": "l" } });
    scene.kafka["logging"] = json!({ "type": "external", "valueFrom": source });
    scene.logging = text;
}

fn assume(scene: &mut Scene) {
    scene.assumed = Some(Note::new(Reason::KubernetesUnreadable, "assumed"));
}

/// The rows with the reasons of the area.
pub(in crate::areas) fn rows() {
    nodes_are_configured_up_to_the_first_that_cannot_be();
    options_of_the_jvm_that_are_ignored_are_named();
}

type Change = fn(&mut Scene);

#[test]
#[rustfmt::skip]
fn the_hash_changes_only_with_what_needs_a_restart_and_kafka_does_not_show() {
    let advertised = |s: &mut Scene| {
        let brokers = json!([{ "broker": 0, "advertisedHost": "zero.example" }]);
        s.kafka["listeners"][0]["configuration"] = json!({ "brokers": brokers });
    };
    // What changes, of which node, how, whether its hash changes.
    let rows: [(&str, i32, Change, bool); 15] = [
        ("nothing",                               0, |_| {}, false),
        ("a setting that Kafka shows",            0, |s| s.kafka["config"]["num.io.threads"] = json!(3), false),
        ("a setting that can be updated",         0, |s| s.kafka["config"]["log.retention.ms"] = json!(3), false),
        ("a setting of a plug-in",                0, |s| s.kafka["config"]["my.plugin"] = json!("x"), true),
        ("a setting of a plug-in",                2, |s| s.kafka["config"]["my.plugin"] = json!("x"), true),
        ("a value by reference",                  0, |s| s.kafka["config"]["num.io.threads"] = json!("${mine:n}"), true),
        ("the address that is advertised",        0, advertised, true),
        ("the address of another broker",         1, advertised, false),
        ("an option of the JVM",                  0, |s| s.pool["jvmOptions"] = json!({ "-Xmx": "1g" }), true),
        ("the rules for metrics",                 0, |s| s.metrics = Some("some"), true),
        ("a level of a logger",                   0, inline, false),
        ("another configuration of log4j2",       0, |s| log_to(s, Some("rootLogger.level=INFO")), false),
        ("the mode of the quorum",                0, |s| s.record.quorum.mode = QuorumMode::Static, false),
        ("the id of the cluster",                 0, |s| s.record.cluster_id = None, false),
        ("a cordon",                              0, leave, false),
    ];
    let hash = |scene: &Scene, node| built(scene).outputs.marks[&id(node)][CONFIG_HASH].clone();
    for (what, node, change, changes) in rows {
        let mut changed = scene();
        change(&mut changed);
        assert_eq!(hash(&changed, node) != hash(&scene(), node), changes, "{what} of node {node}");
    }
}

#[test]
fn the_fingerprint_is_of_all_settings() {
    let mut changed = scene();
    changed.kafka["config"]["num.io.threads"] = json!(3);
    let (before, after) = (built(&scene()).outputs, built(&changed).outputs);
    assert_ne!(before.fingerprint(id(0)), after.fingerprint(id(0)));
    assert_eq!(before.fingerprint(id(0)), built(&scene()).outputs.fingerprint(id(0)));
    assert_eq!(before.fingerprint(id(9)), None);
}

#[test]
fn marks_tell_the_version_and_the_mode_of_the_quorum() {
    for (mode, expected) in [
        (QuorumMode::Dynamic, "dynamic"),
        (QuorumMode::Static, "static"),
        (QuorumMode::Unknown, "static"),
    ] {
        let mut scene = scene();
        scene.record.quorum.mode = mode;
        let configuration = built(&scene).outputs;
        let marks = &configuration.marks[&id(2)];
        assert_eq!((marks[QUORUM].as_str(), marks[KAFKA_VERSION].as_str()), (expected, "4.3.1"));
        assert_eq!(configuration.is_dynamic, mode == QuorumMode::Dynamic);
        assert_eq!(configuration.image, "image");
    }
}

/// The objects and the flow, in one line.
fn line(built: &Built<Configuration>) -> (String, String) {
    let names: Vec<_> = built.objects.iter().map(Object::name).collect();
    let marked: Vec<_> = built.outputs.marks.keys().map(ToString::to_string).collect();
    let flow = match &built.flow {
        Flow::Go => "go".to_owned(),
        Flow::Stop(note) => format!("stop {}", note.reason.name()),
        Flow::Hold(note) => format!("hold {}", note.reason.name()),
        Flow::Wait(note) | Flow::Fault(note) => note.message.clone(),
    };
    (format!("{} [{}]", names.join(" "), marked.join(" ")), flow)
}

#[test]
#[rustfmt::skip]
fn nodes_are_configured_up_to_the_first_that_cannot_be() {
    let all = "my-broker-0 my-broker-1 my-controller-2 [0 1 2]";
    // What differs, the ConfigMaps and the nodes that are marked, how the pass goes on.
    let rows: [(&str, Change, &str, &str); 13] = [
        ("nothing",                         |_| {}, all, "go"),
        ("no addresses",                    external, " []", "stop AwaitingAddresses"),
        ("no address of broker 1",          half_addressed, "my-broker-0 [0]", "stop AwaitingAddresses"),
        ("no image",                        |s| s.images.clear(), " []", "hold UnsupportedKafkaVersion"),
        ("no image of the version",         |s| s.kafka["version"] = json!("4.1.2"), " []", "hold UnsupportedKafkaVersion"),
        ("no rules for metrics",            |s| s.metrics = None, " []", "hold MetricsConfigMissing"),
        ("no configuration of log4j2",      |s| log_to(s, None), " []", "hold LoggingConfigMissing"),
        ("a configuration of log4j2",       |s| log_to(s, Some("rootLogger.level=INFO")), all, "go"),
        ("one without a root logger",       |s| log_to(s, Some("a=b")), " []", "hold InvalidLogging"),
        ("levels of loggers",               inline, all, "go"),
        ("rules that are assumed",          assume, all, "assumed"),
        ("and no addresses",                |s| { assume(s); external(s); }, " []", "stop AwaitingAddresses"),
        ("no metrics",                      |s| { s.metrics = None; s.kafka["metricsConfig"] = json!(null); }, all, "go"),
    ];
    for (what, change, objects, flow) in rows {
        let mut scene = scene();
        change(&mut scene);
        assert_eq!(line(&built(&scene)), (objects.to_owned(), flow.to_owned()), "{what}");
    }
}

#[test]
fn config_maps_of_the_user_are_read_only_if_there_is_an_image() {
    let needed = |scene: &Scene| {
        let blueprint = blueprint(scene.kafka.clone(), scene.pool.clone());
        let input = Input {
            blueprint: &blueprint,
            record: &scene.record,
            images: &scene.images,
            addresses: None,
        };
        let needed = needs(&input);
        let named = [needed.metrics, needed.logging].into_iter().flatten();
        named.map(|entry| entry.config_map.clone()).collect::<Vec<_>>()
    };
    let mut changed = scene();
    assert_eq!(needed(&changed), ["rules"]);
    log_to(&mut changed, None);
    assert_eq!(needed(&changed), ["rules", "loggers"]);
    changed.images.clear();
    assert!(needed(&changed).is_empty());
}

#[test]
fn a_node_reads_these_files() {
    let files = |scene: &Scene| -> BTreeSet<String> {
        let built = built(scene);
        let Object::ConfigMap(map) = &built.objects[2] else { panic!("not a ConfigMap") };
        map.data.iter().flat_map(BTreeMap::keys).cloned().collect()
    };
    let names = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    };
    let always = [
        "server.config",
        "cluster.id",
        "metadata.version",
        "quorum.mode",
        "jvm.options",
        "log4j2.properties",
    ];
    let dynamic = ["initial.controllers", "controller.seen", "metrics-config.json"];
    assert_eq!(files(&scene()), names(&[&always[..], &dynamic[..]].concat()));
    let mut rebuilt = scene();
    rebuilt.record.quorum.rebuilt = true;
    assert!(!files(&rebuilt).contains("controller.seen"));
    let mut fixed = scene();
    fixed.record.quorum.mode = QuorumMode::Static;
    // An earlier operator may have seen it.
    assert_eq!(files(&fixed), names(&[&always[..], &dynamic[2..]].concat()));
    fixed.record.quorum.static_seen = true;
    assert_eq!(files(&fixed), names(&[&always[..], &dynamic[1..]].concat()));
}

#[test]
fn the_pod_that_may_format_an_empty_disk_is_named() {
    let mut scene = scene();
    scene.record.quorum.mode = QuorumMode::Static;
    scene.record.quorum.replaced.insert(id(2), "uid-2".to_owned());
    let permissions: Vec<_> = built(&scene)
        .objects
        .iter()
        .map(|object| match object {
            Object::ConfigMap(map) => map.data.as_ref()?.get("controller.replaced").cloned(),
            other => panic!("{} is not a ConfigMap", other.name()),
        })
        .collect();
    assert_eq!(permissions, [None, None, Some("uid-2".to_owned())]);
}

#[test]
fn options_of_the_jvm_that_are_ignored_are_named() {
    let mut scene = scene();
    scene.pool["jvmOptions"] = json!({ "-XX": { "Not a flag": "1" } });
    let warnings = built(&scene).warnings;
    let expected = ["broker", "broker", "controller"]
        .map(|pool| Note::new(Reason::InvalidJvmOptions, format!("pool {pool}: -XX:Not a flag")));
    assert_eq!(warnings, expected);
}
