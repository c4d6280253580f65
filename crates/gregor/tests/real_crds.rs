//! `gregor crds` and the examples on a real API server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

// The generator of objects that Strimzi accepts is that of the crate which has the schemas.
#[path = "../../api/tests/strimzi/random.rs"]
mod random;
#[allow(dead_code, reason = "the generator uses a part of it")]
#[path = "../../api/tests/strimzi/strimzi.rs"]
mod strimzi;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use artifacts::kubernetes::{self, Binaries, Program};
use local::control_plane::{ControlPlane, Options};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const KINDS: [&str; 4] = ["Kafka", "KafkaNodePool", "KafkaRebalance", "StrimziPodSet"];

/// How many objects of each kind are tried; each has about a third of the fields at each level.
const RANDOM_OBJECTS: u64 = 100;

/// A control plane that ends with the test.
struct World {
    plane: ControlPlane,
    binaries: Binaries,
    temp: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        let environment = artifacts::Environment::from_process();
        let binaries = kubernetes::ensure(&environment, None, &artifacts::Silent).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let options = Options::for_test(temp.path().join("state"), binaries.clone());
        let plane = ControlPlane::start(options, |_| {}).await.unwrap();
        Self { plane, binaries, temp }
    }

    /// Runs kubectl: what it printed, or why it failed.
    fn kubectl(&self, words: &[&str]) -> Result<String, String> {
        let output = Command::new(self.binaries.program(Program::Kubectl))
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig_path())
            .arg("--cache-dir")
            .arg(self.temp.path().join("kubectl-cache"))
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let warned = String::from_utf8_lossy(&output.stderr).contains("Warning:");
        match output.status.success() && !warned {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        self.kubectl(words).unwrap_or_else(|error| panic!("kubectl {words:?}: {error}"))
    }

    #[track_caller]
    fn get(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[words, &["-o", "json"]].concat())).unwrap()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.temp.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn object(&self, object: &Value) -> String {
        self.file("object.json", &object.to_string())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_takes_the_definitions_and_keeps_what_users_write() {
    let world = World::start().await;
    install(&world);
    for example in examples() {
        apply_and_read_back(&world, &example);
    }
    people_find_what_they_are_used_to(&world);
    fields_of_both_versions_are_kept(&world);
    mistakes_are_refused(&world);
    for kind in KINDS {
        whatever_strimzi_accepts_is_accepted(&world, kind);
    }
}

fn install(world: &World) {
    let gregor = Command::new(env!("CARGO_BIN_EXE_gregor")).arg("crds").output().unwrap();
    assert!(gregor.status.success());
    let file = world.file("crds.yaml", &String::from_utf8(gregor.stdout).unwrap());
    world.ok(&["apply", "--validate=strict", "-f", &file]);
    world.ok(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file]);
    for definition in world.get(&["get", "crds"])["items"].as_array().unwrap() {
        let conditions = definition["status"]["conditions"].as_array().unwrap();
        let bad = conditions.iter().find(|condition| condition["type"] == "NonStructuralSchema");
        assert_eq!(bad, None, "{}", definition["metadata"]["name"]);
    }
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    files
}

fn apply_and_read_back(world: &World, example: &Path) {
    let file = example.to_str().unwrap();
    world.ok(&["apply", "--validate=strict", "-f", file]);
    let written: Vec<Value> =
        serde_saphyr::from_multiple(&fs::read_to_string(example).unwrap()).unwrap();
    for object in written {
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let found = world.get(&["get", &kind, &name]);
        assert_eq!(found["spec"], object["spec"], "{file}");
        match kind.as_str() {
            "Kafka" => round_trip::<api::Kafka>(found),
            "KafkaNodePool" => round_trip::<api::KafkaNodePool>(found),
            "KafkaRebalance" => round_trip::<api::KafkaRebalance>(found),
            other => panic!("{file} has a {other}"),
        }
    }
    world.ok(&["delete", "-f", file]);
}

#[track_caller]
fn round_trip<T: Serialize + DeserializeOwned>(object: Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap()["spec"], object["spec"]);
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn people_find_what_they_are_used_to(world: &World) {
    let example = examples().into_iter().find(|path| path.ends_with("kafka-ephemeral.yaml"));
    let file = example.unwrap().to_str().unwrap().to_owned();
    world.ok(&["apply", "-f", &file]);
    let status = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "True" }],
        "kafkaVersion": "4.3.1",
        "kafkaMetadataVersion": "4.3-IV0",
        "controllers": [{ "id": 3, "directoryId": "r9VGTiw2QUCoDUadCt6q2g" }],
    } });
    let patch = ["patch", "kafka", "my-cluster", "--subresource=status", "--type=merge", "-p"];
    world.ok(&[&patch[..], &[&status.to_string()]].concat());
    let columns = |text: String| {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(words).collect::<Vec<_>>()
    };
    assert_eq!(
        columns(world.ok(&["get", "k"])),
        [
            vec!["NAME", "READY", "WARNINGS", "KAFKA", "VERSION", "METADATA", "VERSION"],
            vec!["my-cluster", "True", "4.3.1", "4.3-IV0"],
        ]
    );
    assert_eq!(
        columns(world.ok(&["get", "knp"]))[0],
        ["NAME", "DESIRED", "REPLICAS", "ROLES", "NODEIDS"]
    );
    world.ok(&["scale", "knp", "broker", "--replicas=5"]);
    assert_eq!(world.get(&["get", "knp", "broker"])["spec"]["replicas"], 5);
    assert!(world.ok(&["get", "strimzi"]).contains("kafka.kafka.strimzi.io/my-cluster"));
    assert!(world.ok(&["explain", "kafka.status.controllers"]).contains("directoryId"));
    world.ok(&["delete", "-f", &file]);
}

fn listener() -> Value {
    json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false })
}

fn fields_of_both_versions_are_kept(world: &World) {
    let mut listener = listener();
    listener["authentication"] = json!({ "type": "oauth", "clientId": "me" });
    let spec = json!({
        "kafka": { "listeners": [listener], "replicas": 3, "verison": "4.3.1" },
        "zookeeper": { "replicas": 3 },
    });
    let metadata = json!({ "name": "old" });
    let object = |version: &str| {
        let version = format!("kafka.strimzi.io/{version}");
        json!({ "apiVersion": version, "kind": "Kafka", "metadata": metadata, "spec": spec })
    };
    world.ok(&["create", "--validate=strict", "-f", &world.object(&object("v1beta2"))]);
    let stored = world.get(&["get", "kafkas.v1.kafka.strimzi.io", "old"]);
    assert_eq!(stored["spec"], spec);
    // The newer version does not know the mechanism, but what is there must not stop a status.
    let status = json!({ "status": { "clusterId": "r9VGTiw2QUCoDUadCt6q2g" } }).to_string();
    let kind = "kafkas.v1.kafka.strimzi.io";
    world.ok(&["patch", kind, "old", "--subresource=status", "--type=merge", "-p", &status]);
    let error = world.kubectl(&["replace", "--force", "-f", &world.object(&object("v1"))]);
    assert!(error.unwrap_err().contains("oauth"));
}

fn mistakes_are_refused(world: &World) {
    let kafka = |change: &dyn Fn(&mut Value)| {
        let mut object = json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "Kafka",
            "metadata": { "name": "wrong" },
            "spec": { "kafka": { "listeners": [listener()] } },
        });
        change(&mut object);
        object
    };
    let pool = |spec: Value| {
        json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaNodePool",
            "metadata": { "name": "wrong" },
            "spec": spec,
        })
    };
    let storage = json!({ "type": "ephemeral" });
    let kafka_path = |path: &'static str, value: Value| {
        kafka(&move |object| *object.pointer_mut("/spec/kafka").unwrap() = with(path, &value))
    };
    let cases = [
        (kafka(&|object| object["spec"] = json!({})), "spec.kafka"),
        (kafka_path("", json!([])), "spec.kafka.listeners"),
        (kafka_path("port", json!(80)), "spec.kafka.listeners[0].port"),
        (kafka_path("name", json!("Plain")), "spec.kafka.listeners[0].name"),
        (kafka_path("type", json!("external")), "spec.kafka.listeners[0].type"),
        (kafka_path("tls", json!("yes")), "spec.kafka.listeners[0].tls"),
        (kafka(&|object| object["spec"]["kafka"]["rack"] = json!({})), "spec.kafka.rack"),
        (pool(json!({ "replicas": -1, "roles": [], "storage": storage })), "spec.replicas"),
        (pool(json!({ "replicas": 1, "roles": ["boss"], "storage": storage })), "spec.roles[0]"),
        (pool(json!({ "replicas": 1, "roles": [] })), "spec.storage"),
        (pool(with_volume("hostPath", &storage)), "spec.template.pod.volumes[0]"),
        (pool(with_volume("projected", &storage)), "spec.template.pod.volumes[0]"),
        (
            kafka(&|object| {
                let volumes = json!([{ "name": "v", "emptyDir": {}, "nfs": {} }]);
                object["spec"]["kafka"]["template"] = json!({ "pod": { "volumes": volumes } });
            }),
            "spec.kafka.template.pod.volumes[0]",
        ),
    ];
    for (object, part) in cases {
        let file = world.object(&object);
        let error = world.kubectl(&["create", "--dry-run=server", "-f", &file]).unwrap_err();
        assert!(error.contains("is invalid") && error.contains(part), "{part}: {error}");
    }
}

/// A pool with a volume of this source.
fn with_volume(source: &str, storage: &Value) -> Value {
    let template = json!({ "pod": { "volumes": [{ "name": "v", source: { "path": "/" } }] } });
    json!({ "replicas": 1, "roles": [], "storage": storage, "template": template })
}

/// A cluster with one listener that has one field changed, or with other listeners.
fn with(field: &str, value: &Value) -> Value {
    if field.is_empty() {
        return json!({ "listeners": value });
    }
    let mut listener = listener();
    listener[field] = value.clone();
    json!({ "listeners": [listener] })
}

fn whatever_strimzi_accepts_is_accepted(world: &World, kind: &str) {
    let objects: Vec<Value> = (0..RANDOM_OBJECTS).map(|seed| random::object(kind, seed)).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let file = world.file("random.json", &list.to_string());
    let create = ["create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", &file];
    // One after the other, not a list.
    let answer = world.ok(&create);
    let answers = serde_json::Deserializer::from_str(&answer).into_iter::<Value>();
    let answers: Vec<Value> = answers.map(Result::unwrap).collect();
    assert_eq!(answers.len(), objects.len());
    for (sent, got) in objects.iter().zip(&answers) {
        assert_eq!(got["spec"], sent["spec"], "{kind} {}", sent["metadata"]["name"]);
    }
}
