//! What people are told of a cluster, and of an edit before it is applied, with a real cluster: `gregor plan`,
//! `gregor why` and `gregor status`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::process::{Command, Stdio};

use kafka::{Ground, Place};
use serde_json::Value;
use up::Run;

const CLUSTER: &str = "my-cluster";
const PLACE: &str = "plan";

/// One node that is all, and one that is only a broker.
const MANIFEST: &str = r#"apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: both
  labels: {strimzi.io/cluster: my-cluster}
spec:
  replicas: 1
  roles: [controller, broker]
  storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: more
  labels: {strimzi.io/cluster: my-cluster}
spec:
  replicas: 1
  roles: [broker]
  storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: my-cluster
spec:
  kafka:
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
    jvmOptions: {"-Xmx": "256m", "-XX": {"UseSerialGC": "true"}}
    template: {pod: {terminationGracePeriodSeconds: 10}}
    config:
      offsets.topic.replication.factor: 1
      transaction.state.log.replication.factor: 1
      transaction.state.log.min.isr: 1
      default.replication.factor: 1
      min.insync.replicas: 1
      log.retention.ms: 86400000
      broker.session.timeout.ms: 60000
      controller.quorum.fetch.timeout.ms: 20000
"#;

struct Scene<'a> {
    place: Place<'a>,
    kubeconfig: String,
}

impl Scene<'_> {
    /// The program as its user runs it, with the kubeconfig as for kubectl.
    fn gregor(&self, words: &[&str]) -> Run {
        self.run(Command::new(env!("CARGO_BIN_EXE_gregor")), words)
    }

    fn run(&self, mut command: Command, words: &[&str]) -> Run {
        command.args(words).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        let run = Run { code, out: text(output.stdout), err: text(output.stderr) };
        println!("$ gregor {}\n{}{}[{code}]\n", words.join(" "), run.out, run.err);
        run
    }

    /// The plan for the manifest with something in it replaced.
    fn plan(&self, from: &str, to: &str) -> Run {
        assert!(MANIFEST.contains(from), "{from}");
        let file = self.place.ground.world.file("edit.yaml", &MANIFEST.replace(from, to));
        self.gregor(&["plan", "-f", &file, "-n", PLACE])
    }
}

#[track_caller]
fn says(run: &Run, code: i32, lines: &[&str]) {
    assert_eq!(run.code, code, "{}{}", run.out, run.err);
    for line in lines {
        assert!(run.out.contains(line), "\"{line}\" is not in:\n{}", run.out);
    }
}

#[test]
fn people_are_told_what_is_and_what_would_be() {
    let ground = Ground::start(&["--nodes", "1"]);
    let place = ground.namespace(PLACE);
    let kubeconfig = ground.world.state().join("kubeconfig").to_str().unwrap().to_owned();
    let scene = Scene { place, kubeconfig };
    a_cluster_that_is_not_there(&scene);
    let file = ground.world.file("cluster.yaml", MANIFEST);
    scene.place.kubectl(&["apply", "-f", &file]);
    scene.place.ready(CLUSTER);
    let before = everything(&scene);
    nothing_and_settings(&scene);
    nodes_that_come(&scene);
    a_broker_with_data_stays(&scene);
    invalid_edits(&scene);
    status_and_why(&scene);
    assert_eq!(everything(&scene), before, "something was written");
    ground.assert_operator_is_content();
}

/// The versions of all that plans could have touched.
fn everything(scene: &Scene<'_>) -> Vec<(String, String)> {
    let kinds = "kafkas,kafkanodepools,strimzipodsets,pods,services,configmaps,secrets,pvc";
    let list = scene.place.list(kinds);
    let text = |one: &Value, field: &str| one["metadata"][field].as_str().unwrap().to_owned();
    list.iter().map(|one| (text(one, "name"), text(one, "uid"))).collect()
}

fn a_cluster_that_is_not_there(scene: &Scene<'_>) {
    let plan = scene.plan("replicas: 1", "replicas: 2");
    says(
        &plan,
        2,
        &[
            "Kafka my-cluster in namespace plan, which is not there yet",
            "start nodes 0 and 1 of both",
            "start nodes 2 and 3 of more",
            "make claims data-my-cluster-both-0, data-my-cluster-both-1",
        ],
    );
    let why = scene.gregor(&["why", CLUSTER, "-n", PLACE]);
    why.failed("there is no Kafka my-cluster in namespace plan");
}

fn nothing_and_settings(scene: &Scene<'_>) {
    says(&scene.plan("replicas: 1", "replicas: 1"), 0, &["nothing would change"]);
    let dynamic = scene.plan("log.retention.ms: 86400000", "log.retention.ms: 96400000");
    says(&dynamic, 2, &["set log.retention.ms to 96400000 on all nodes, without a restart"]);
    assert!(!dynamic.out.contains("restart node"), "{}", dynamic.out);
    let fixed = scene
        .plan("log.retention.ms: 86400000", "log.retention.ms: 86400000\n      num.partitions: 3");
    says(&fixed, 2, &["restart node 1: settings that need a restart: num.partitions"]);
    // The active controller is the last of the controllers, and controllers are first.
    let places = ["restart node 0", "restart node 1"].map(|text| fixed.out.find(text).unwrap());
    assert!(places[0] < places[1], "{}", fixed.out);
    let java = scene.plan("256m", "300m");
    says(&java, 2, &["restart node 0: other options of Java, or rules for metrics"]);
}

fn nodes_that_come(scene: &Scene<'_>) {
    let brokers = scene.plan("replicas: 1\n  roles: [broker]", "replicas: 2\n  roles: [broker]");
    says(&brokers, 2, &["make claim data-my-cluster-more-2", "start node 2 of more"]);
    let both = "replicas: 1\n  roles: [controller, broker]";
    let controllers = scene.plan(both, "replicas: 3\n  roles: [controller, broker]");
    says(
        &controllers,
        2,
        &[
            "start nodes 2 and 3 of both",
            "add controller 2 to the voters",
            "add controller 3 to the voters",
        ],
    );
    let out = &controllers.out;
    assert!(out.find("start nodes 2").unwrap() < out.find("add controller 2").unwrap(), "{out}");
}

fn a_broker_with_data_stays(scene: &Scene<'_>) {
    let more = "replicas: 1\n  roles: [broker]";
    let empty = scene.plan(more, "replicas: 0\n  roles: [broker]");
    says(
        &empty,
        2,
        &[
            "stop node 1",
            "unregister broker 1",
            "delete claim data-my-cluster-more-1 and the data on it",
        ],
    );
    let bootstrap = scene.place.bootstrap(CLUSTER, "plain");
    let words = ["--bootstrap-server", &bootstrap, "--create", "--topic", "held"];
    let words = [&words[..], &["--replica-assignment", "1,1"]].concat();
    scene.place.ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
    let busy = scene.plan(more, "replicas: 0\n  roles: [broker]");
    says(&busy, 3, &["refused for node 1: it still has 2 partitions"]);
    assert!(!busy.out.contains("stop node 1"), "{}", busy.out);
    let words = ["plan", "--cluster", CLUSTER, "--delete-pool", "more", "-n", PLACE, "-o", "json"];
    let deleted = scene.gregor(&words);
    assert_eq!(deleted.code, 3, "{}", deleted.err);
    let json: Value = serde_json::from_str(&deleted.out).unwrap();
    assert_eq!(json["outcome"], "refused");
    assert_eq!(json["steps"][0]["kind"], "refused");
    assert_eq!(json["steps"][0]["nodes"], serde_json::json!([1]));
    // Nobody would be left to vote.
    let last = scene.plan("roles: [controller, broker]", "roles: [broker]");
    assert_eq!(last.code, 3, "{}", last.out);
}

fn invalid_edits(scene: &Scene<'_>) {
    let typed = scene.plan("replicas: 1\n  roles: [broker]", "replicas: many\n  roles: [broker]");
    says(
        &typed,
        3,
        &["KafkaNodePool more: spec.replicas is \"many\": it has to be a whole number"],
    );
    let version = scene.plan("    listeners:", "    version: 3.9.0\n    listeners:");
    says(&version, 3, &["3.9.0"]);
    scene.plan("metadata:\n  name: my-cluster", "metadata: [").failed("is not YAML");
    scene.gregor(&["plan", "-n", PLACE]).failed("Name a file with -f");
    let unknown = scene.gregor(&["plan", "--nonsense"]);
    assert_eq!(unknown.code, 1, "{}", unknown.err);
}

fn status_and_why(scene: &Scene<'_>) {
    let status = scene.gregor(&["status", CLUSTER, "-n", PLACE]);
    says(
        &status,
        0,
        &["my-cluster-both-0", "broker, controller", "leads", "nothing is being done"],
    );
    let status = scene.gregor(&["status", CLUSTER, "-n", PLACE, "-o", "json"]);
    let json: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(json["quorum"]["leader"], 0);
    assert_eq!(json["quorum"]["dynamic"], true);
    assert_eq!(json["nodes"][0]["lag"], 0);
    assert_eq!(json["nodes"][1]["votes"], Value::Null);
    assert_eq!(json["nodes"][1]["partitions"], 2, "{json}");
    let why = scene.gregor(&["why", CLUSTER, "-n", PLACE]);
    says(&why, 0, &["nothing is awaited"]);
}
