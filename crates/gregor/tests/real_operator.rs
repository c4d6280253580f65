//! The operator as it ships, in a local Kubernetes: its Deployment, its account, its rights.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod up;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::{Value, json};
use up::{Run, World, eventually, is_alive, signal};

const OPERATOR: &str = "app.kubernetes.io/name=gregor-operator";

/// A local Kubernetes with the operator in it.
struct Kubernetes {
    world: World,
    up: Run,
}

impl Kubernetes {
    fn start() -> Self {
        Self::start_in(World::with_operator(), &[])
    }

    fn start_in(world: World, words: &[&str]) -> Self {
        let up = world.gregor(&[&["up", "--detach"], words].concat()).ok();
        let kubernetes = Self { world, up };
        kubernetes.kubectl(&[
            "-n",
            "gregor",
            "rollout",
            "status",
            "deployment/gregor-operator",
            "--timeout=60s",
        ]);
        kubernetes
    }

    fn kubectl(&self, words: &[&str]) -> String {
        self.world.kubectl(&self.up, words)
    }

    fn get(&self, words: &[&str]) -> Value {
        let words = [&["get", "-o", "json"], words].concat();
        serde_json::from_str(&self.kubectl(&words)).unwrap()
    }

    fn apply(&self, object: &Value) {
        let file = self.world.file("object.json", &object.to_string());
        self.kubectl(&["apply", "-f", &file]);
    }

    /// What a field of an object is, or nothing.
    fn field(&self, kind: &str, name: &str, path: &str) -> String {
        let path = format!("jsonpath={{{path}}}");
        self.kubectl(&["get", kind, name, "--ignore-not-found", "-o", &path])
    }

    fn uid(&self, pod: &str) -> String {
        self.field("pod", pod, ".metadata.uid")
    }

    fn operators(&self) -> Vec<Value> {
        let pods = self.get(&["pods", "-n", "gregor", "-l", OPERATOR]);
        pods["items"].as_array().unwrap().clone()
    }

    /// How many operators are ready.
    fn ready(&self) -> usize {
        let is_ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
        self.operators().iter().filter(|pod| is_ready(pod)).count()
    }

    fn leader(&self) -> String {
        let path = "jsonpath={.spec.holderIdentity}";
        self.kubectl(&["get", "lease", "-n", "gregor", "gregor-operator", "-o", path])
    }

    /// The process of an operator's container.
    fn process(&self, pod: &str) -> Option<u32> {
        let pods = self.operators();
        let pod = pods.iter().find(|one| one["metadata"]["name"] == pod)?;
        let uid = pod["metadata"]["uid"].as_str()?;
        let processes = self.world.processes();
        let is_shim = |process: &&up::Process| process.words.iter().any(|word| word.contains(uid));
        let shim = processes.iter().find(is_shim)?.pid;
        let children =
            std::fs::read_to_string(format!("/proc/{shim}/task/{shim}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// All that the operators have said, and nothing of it is a complaint.
    fn quiet_logs(&self) -> String {
        let logs = self.kubectl(&["logs", "-n", "gregor", "-l", OPERATOR, "--tail=-1"]);
        let bad = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
        let complaints: Vec<_> = logs.lines().filter(bad).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
        logs
    }
}

/// A set with pods that wait, by names and revisions.
fn set(name: &str, pods: &[(&str, &str)]) -> Value {
    let labels = json!({ "strimzi.io/kind": "Kafka", "strimzi.io/controller-name": name });
    let pod = |(pod, revision): &(&str, &str)| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "labels": labels,
                "annotations": { "strimzi.io/revision": revision },
            },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{ "name": "main", "image": "pause" }],
            },
        })
    };
    json!({
        "apiVersion": "core.strimzi.io/v1",
        "kind": "StrimziPodSet",
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "pods": pods.iter().map(pod).collect::<Vec<_>>(),
        },
    })
}

fn counts(kubernetes: &Kubernetes, name: &str) -> String {
    let part = |field: &str| kubernetes.field("sps", name, &format!(".status.{field}"));
    format!("{} {} {}", part("pods"), part("readyPods"), part("currentPods"))
}

#[test]
fn pods_that_a_set_lists_exist_and_no_others() {
    let kubernetes = Kubernetes::start();
    listed_pods_come_back(&kubernetes);
    a_changed_definition_restarts_nothing(&kubernetes);
    pods_of_nobody_are_adopted(&kubernetes);
    pods_of_somebody_else_are_left_alone(&kubernetes);
    pods_that_have_ended_are_replaced(&kubernetes);
    let numbers = ask(&kubernetes, "/metrics");
    for part in ["gregor_leader 1", "strimzi_reconciliations_total{kind=\"StrimziPodSet\""] {
        assert!(numbers.contains(part), "{part} is not in:\n{numbers}");
    }
    kubernetes.quiet_logs();
    // Told to end, it says goodbye and gives the Lease away.
    let process = kubernetes.process(&kubernetes.leader()).unwrap();
    kubernetes.kubectl(&["scale", "-n", "gregor", "deployment/gregor-operator", "--replicas=0"]);
    eventually("the Lease is given away", || kubernetes.leader().is_empty());
    eventually("the operator has ended", || !is_alive(process));
    kubernetes.world.gregor(&["down", "--purge"]).ok();
}

fn listed_pods_come_back(kubernetes: &Kubernetes) {
    kubernetes.apply(&set("a", &[("a-0", "1"), ("a-1", "1"), ("a-2", "1")]));
    eventually("three pods are ready", || counts(kubernetes, "a") == "3 3 3");
    let first = kubernetes.uid("a-1");
    kubernetes.kubectl(&["delete", "pod", "a-1"]);
    eventually("it is there again", || !["", &first].contains(&kubernetes.uid("a-1").as_str()));
    kubernetes.apply(&set("a", &[("a-0", "1"), ("a-1", "1")]));
    eventually("the third is gone", || kubernetes.uid("a-2").is_empty());
    eventually("two pods are ready", || counts(kubernetes, "a") == "2 2 2");
}

fn a_changed_definition_restarts_nothing(kubernetes: &Kubernetes) {
    let before = kubernetes.uid("a-0");
    kubernetes.apply(&set("a", &[("a-0", "2"), ("a-1", "1")]));
    eventually("one pod is old", || counts(kubernetes, "a") == "2 2 1");
    assert_eq!(kubernetes.uid("a-0"), before);
    // Deleted by the one who may, it comes back as it shall be now.
    kubernetes.kubectl(&["delete", "pod", "a-0"]);
    eventually("no pod is old", || counts(kubernetes, "a") == "2 2 2");
}

fn pods_of_nobody_are_adopted(kubernetes: &Kubernetes) {
    let uids = || ["a-0", "a-1"].map(|pod| kubernetes.uid(pod));
    let before = uids();
    kubernetes.kubectl(&["delete", "sps", "a", "--cascade=orphan"]);
    let owner = |pod: &str| kubernetes.field("pod", pod, ".metadata.ownerReferences[*].uid");
    eventually("they are free", || owner("a-0").is_empty() && owner("a-1").is_empty());
    kubernetes.apply(&set("a", &[("a-0", "2"), ("a-1", "1")]));
    let set = kubernetes.field("sps", "a", ".metadata.uid");
    eventually("they have a new owner", || ["a-0", "a-1"].iter().all(|pod| owner(pod) == set));
    assert_eq!(uids(), before);
    // With the set go its pods.
    kubernetes.kubectl(&["delete", "sps", "a"]);
    eventually("they are gone", || uids().iter().all(String::is_empty));
}

fn pods_of_somebody_else_are_left_alone(kubernetes: &Kubernetes) {
    kubernetes.kubectl(&["create", "configmap", "somebody"]);
    let owner = kubernetes.field("configmap", "somebody", ".metadata.uid");
    kubernetes.apply(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "b-0",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "somebody", "uid": owner,
                "controller": true,
            }],
        },
        "spec": { "terminationGracePeriodSeconds": 1, "containers": [{ "name": "c", "image": "pause" }] },
    }));
    let before = kubernetes.uid("b-0");
    kubernetes.apply(&set("b", &[("b-0", "1"), ("b-1", "1")]));
    eventually("it is said", || {
        kubernetes.field("sps", "b", ".status.conditions[0].reason") == "PodOfAnotherOwner"
    });
    eventually("the other is there", || counts(kubernetes, "b") == "2 1 1");
    kubernetes.apply(&set("b", &[("b-1", "1")]));
    eventually("nothing is wrong", || {
        kubernetes.field("sps", "b", ".status.conditions").is_empty()
    });
    assert_eq!(kubernetes.uid("b-0"), before);
    kubernetes.kubectl(&["delete", "sps/b", "configmap/somebody"]);
}

fn pods_that_have_ended_are_replaced(kubernetes: &Kubernetes) {
    let gate = kubernetes.world.temp().join("gate");
    let mut set = set("c", &[("c-0", "1")]);
    let script = format!("[ -e {} ] || exit 1; exec sleep infinity", gate.display());
    set["spec"]["pods"][0]["spec"]["restartPolicy"] = "Never".into();
    set["spec"]["pods"][0]["spec"]["containers"][0]["image"] = "busybox".into();
    set["spec"]["pods"][0]["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    kubernetes.apply(&set);
    eventually("there is one", || !kubernetes.uid("c-0").is_empty());
    let first = kubernetes.uid("c-0");
    eventually("there is another", || !["", &first].contains(&kubernetes.uid("c-0").as_str()));
    std::fs::write(&gate, "").unwrap();
    eventually("one runs", || counts(kubernetes, "c") == "1 1 1");
    kubernetes.kubectl(&["delete", "sps", "c"]);
}

/// What the leader answers over HTTP.
fn ask(kubernetes: &Kubernetes, path: &str) -> String {
    let pods = kubernetes.operators();
    let address = pods[0]["status"]["podIP"].as_str().unwrap();
    let mut stream = TcpStream::connect((address, 8080)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn another_operator_takes_over() {
    let kubernetes = Kubernetes::start();
    kubernetes.kubectl(&["scale", "-n", "gregor", "deployment/gregor-operator", "--replicas=2"]);
    let ready = || kubernetes.ready();
    eventually("one leads and one waits", || ready() == 2);
    kubernetes.apply(&set("a", &[("a-0", "1")]));
    eventually("a pod is ready", || counts(&kubernetes, "a") == "1 1 1");

    // Asked to end: another goes on.
    let first = kubernetes.leader();
    kubernetes.kubectl(&["delete", "pod", "-n", "gregor", &first, "--wait=false"]);
    eventually("another leads", || !["", &first].contains(&kubernetes.leader().as_str()));
    works(&kubernetes);
    eventually("one leads and one waits", || ready() == 2);

    // Killed: its next life in the same pod goes on at once.
    let second = kubernetes.leader();
    let process = kubernetes.process(&second).unwrap();
    signal(process, Signal::KILL);
    works(&kubernetes);
    assert_eq!(kubernetes.leader(), second);
    let reborn = || kubernetes.process(&second).filter(|now| *now != process && is_alive(*now));
    eventually("it lives again", || reborn().is_some());
    eventually("one leads and one waits", || ready() == 2);

    // Paused: somebody else leads when it wakes up, and it ends without doing anything.
    let process = reborn().unwrap();
    signal(process, Signal::STOP);
    eventually("another leads", || !["", &second].contains(&kubernetes.leader().as_str()));
    let third = kubernetes.leader();
    signal(process, Signal::CONT);
    eventually("the former leader has ended", || !is_alive(process));
    works(&kubernetes);
    assert_eq!(kubernetes.leader(), third);
    kubernetes.world.gregor(&["down", "--purge"]).ok();
}

/// One controller and one broker that keep nothing.
fn small_cluster() -> Value {
    let labels = json!({ "strimzi.io/cluster": "my-cluster" });
    let pool = |role: &str| {
        let volume = json!({ "id": 0, "type": "ephemeral", "kraftMetadata": "shared" });
        json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaNodePool",
            "metadata": { "name": role, "labels": labels },
            "spec": {
                "replicas": 1,
                "roles": [role],
                "storage": { "type": "jbod", "volumes": [volume] },
            },
        })
    };
    let listener = json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false });
    let kafka = json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "Kafka",
        "metadata": { "name": "my-cluster" },
        "spec": { "kafka": { "version": "4.3.1", "listeners": [listener], "config": {
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
        } } },
    });
    let items = [pool("controller"), pool("broker"), kafka];
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// An operator that pauses before a write that a file of its own names. It carries the name of the state directory, by
/// which its process is found.
const PAUSING: &str = "#!/bin/sh
export GREGOR_TEST_WORLD=STATE
export GREGOR_PAUSE_BEFORE=TEMP/pause-$POD_NAME
exec GREGOR operator \"$@\"
";

/// Waits until the leader has made a cluster what it should be.
fn nothing_is_left_to_do(kubernetes: &Kubernetes, brokers: &[String]) {
    let is_ready = |pod: &String| {
        let path = r#".status.conditions[?(@.type=="Ready")].status"#;
        kubernetes.field("pod", pod, path) == "True"
    };
    eventually("the brokers are ready", || brokers.iter().all(is_ready));
    eventually("the cluster is ready", || {
        let told = kubernetes.field("kafka", "my-cluster", ".status.conditions[*].type");
        let told: Vec<&str> = told.split_whitespace().collect();
        told.contains(&"Ready") && !told.contains(&"Progressing")
    });
}

/// A former leader wakes up in the moment before a write, after everything was checked.
#[test]
fn a_leader_that_was_paused_in_a_pass_undoes_nothing() {
    const SET: &str = "my-cluster-broker";
    let world = World::with_operator();
    let temp = world.temp().to_owned();
    let script = PAUSING
        .replace("STATE", world.state().to_str().unwrap())
        .replace("TEMP", temp.to_str().unwrap())
        .replace("GREGOR operator", &format!("{} operator", env!("CARGO_BIN_EXE_gregor")));
    let script = world.file("operator", &script);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let image = format!("gregor-operator:{}={script}", env!("CARGO_PKG_VERSION"));
    let kubernetes = Kubernetes::start_in(world, &["--image", &image]);
    kubernetes.kubectl(&["scale", "-n", "gregor", "deployment/gregor-operator", "--replicas=2"]);
    eventually("one leads and one waits", || kubernetes.ready() == 2);
    kubernetes.apply(&small_cluster());
    let listed = || -> Vec<String> {
        let names = kubernetes.field("sps", SET, ".spec.pods[*].metadata.name");
        names.split_whitespace().map(str::to_owned).collect()
    };
    eventually("there is a broker", || listed().iter().any(|pod| !kubernetes.uid(pod).is_empty()));
    let before = listed();

    // The leader is about to apply a set with one broker.
    let first = kubernetes.leader();
    let process = kubernetes.process(&first).unwrap();
    let pause = temp.join(format!("pause-{first}"));
    std::fs::write(&pause, format!("apply StrimziPodSet default/{SET}")).unwrap();
    let pool = |spec: Value| {
        let patch = json!({ "spec": spec }).to_string();
        kubernetes.kubectl(&["patch", "kafkanodepool", "broker", "--type=merge", "-p", &patch]);
    };
    pool(json!({ "template": { "pod": { "metadata": { "labels": { "team": "a" } } } } }));
    let is_stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.contains(") T ")
    };
    eventually("it is paused", is_stopped);
    // Its next life does not.
    std::fs::remove_file(&pause).unwrap();

    // Another one leads, and adds a broker.
    eventually("another leads", || !["", &first].contains(&kubernetes.leader().as_str()));
    pool(json!({ "replicas": 2 }));
    eventually("there is another broker", || {
        let now = listed();
        now.len() == 2 && now.iter().all(|pod| !kubernetes.uid(pod).is_empty())
    });
    let added = listed().into_iter().find(|pod| !before.contains(pod)).unwrap();
    nothing_is_left_to_do(&kubernetes, &listed());
    let uid = kubernetes.uid(&added);
    let generation = kubernetes.field("sps", SET, ".metadata.generation");

    signal(process, Signal::CONT);
    eventually("the former leader has ended", || !is_alive(process));
    // Whatever it has sent has arrived, and the new leader has acted on it.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(listed().contains(&added), "{:?}", listed());
    assert_eq!(kubernetes.uid(&added), uid);
    // The new leader would have restored what the former one had overwritten, in another generation.
    assert_eq!(kubernetes.field("sps", SET, ".metadata.generation"), generation);
    kubernetes.world.gregor(&["down", "--purge"]).ok();
}

/// A pod that is deleted comes back.
fn works(kubernetes: &Kubernetes) {
    let before = kubernetes.uid("a-0");
    kubernetes.kubectl(&["delete", "pod", "a-0", "--wait=false"]);
    eventually("it is there again", || !["", &before].contains(&kubernetes.uid("a-0").as_str()));
    eventually("it is ready", || counts(kubernetes, "a") == "1 1 1");
}
