//! What people are told of a cluster, and of an edit before it is applied, with a real cluster: `gregor plan`,
//! `gregor why` and `gregor status`, also as a plugin of kubectl.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use kafka::{Ground, Place, wait_for};
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
    jvmOptions: {"-Xmx": "256m", "-XX": {"UseSerialGC": "true", "TieredStopAtLevel": "1"}}
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
    as_a_plugin(&scene);
    somebody_who_may_less(&scene);
    assert_eq!(everything(&scene), before, "something was written");
    scale_down_is_held(&scene);
    ground.assert_operator_is_content();
    what_is_planned_is_done(&scene);
    without_kafka(&scene);
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
            "Kafka my-cluster in namespace plan, which does not exist yet",
            "start nodes 0 and 1 of both",
            "start nodes 2 and 3 of more",
            "create claims data-my-cluster-both-0, data-my-cluster-both-1",
            "All of it takes about",
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
    says(&fixed, 2, &["restart node 1: settings need a restart: num.partitions"]);
    // The active controller is the last of the controllers, and controllers are first.
    let places = ["restart node 0", "restart node 1"].map(|text| fixed.out.find(text).unwrap());
    assert!(places[0] < places[1], "{}", fixed.out);
    let java = scene.plan("256m", "300m");
    says(&java, 2, &["restart node 0: other options of Java, or rules for metrics"]);
}

fn nodes_that_come(scene: &Scene<'_>) {
    let brokers = scene.plan("replicas: 1\n  roles: [broker]", "replicas: 2\n  roles: [broker]");
    says(&brokers, 2, &["create claim data-my-cluster-more-2", "start node 2 of more"]);
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
    let steps = json["steps"].as_array().unwrap();
    let refused = steps.iter().find(|step| step["kind"] == "refused").unwrap();
    assert_eq!(refused["nodes"], serde_json::json!([1]));
    assert!(!json["acts"].to_string().contains("unregister"), "{json}");
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
    scene.gregor(&["plan", "-n", PLACE]).failed("name a file with -f");
    // No Kubernetes is there.
    let nowhere = scene.place.ground.world.file("nowhere", NOWHERE);
    for command in ["why", "status"] {
        let run = scene.gregor(&[command, CLUSTER, "--kubeconfig", &nowhere]);
        run.failed("cannot read the Kafka my-cluster from Kubernetes at http://127.0.0.1:1/");
    }
    let file = scene.place.ground.world.file("edit.yaml", MANIFEST);
    let run = scene.gregor(&["plan", "-f", &file, "--kubeconfig", &nowhere]);
    run.failed("Kubernetes at http://127.0.0.1:1/: cannot read the resources of the cluster");
    let unknown = scene.gregor(&["plan", "--nonsense"]);
    assert_eq!(unknown.code, 1, "{}", unknown.err);
}

const NOWHERE: &str = r#"apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: a, user: u}}]
current-context: c
"#;

fn status_and_why(scene: &Scene<'_>) {
    let status = scene.gregor(&["status", CLUSTER, "-n", PLACE]);
    says(
        &status,
        0,
        &["my-cluster-both-0", "broker, controller", "leads", "no operation in progress"],
    );
    let status = scene.gregor(&["status", CLUSTER, "-n", PLACE, "-o", "json"]);
    let json: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(json["quorum"]["leader"], 0);
    assert_eq!(json["quorum"]["dynamic"], true);
    assert_eq!(json["nodes"][0]["lag"], 0);
    assert_eq!(json["nodes"][1]["votes"], Value::Null);
    assert_eq!(json["nodes"][1]["partitions"], 2, "{json}");
    let why = scene.gregor(&["why", CLUSTER, "-n", PLACE]);
    says(&why, 0, &["nothing is pending"]);
    // Names of local mode are in no DNS.
    let hosts = scene.place.ground.world.state().join("hosts");
    let words = ["kafka", "describe", "--hosts", hosts.to_str().unwrap(), "--bootstrap"];
    let bootstrap = scene.place.bootstrap(CLUSTER, "plain");
    says(&scene.gregor(&[&words[..], &[&bootstrap]].concat()), 0, &["my-cluster-more-1"]);
}

/// As kubectl finds its plugins: by their names, on the path.
fn as_a_plugin(scene: &Scene<'_>) {
    let dir = scene.place.ground.world.temp().join("plugins");
    std::fs::create_dir_all(&dir).unwrap();
    symlink(env!("CARGO_BIN_EXE_gregor"), dir.join("kubectl-gregor")).unwrap();
    let known = scene.place.ground.world.kubectl_command(&scene.place.ground.up, &[]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [dir].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(all).unwrap();
    // No flag may come before the name of a plugin.
    let kubectl = || {
        let mut command = Command::new(known.get_program());
        command.env("PATH", &path).env("KUBECONFIG", &scene.kubeconfig).stdin(Stdio::null());
        command
    };
    let status = kubectl().args(["gregor", "status", CLUSTER, "-n", PLACE]).output().unwrap();
    let out = String::from_utf8(status.stdout).unwrap();
    let err = String::from_utf8(status.stderr).unwrap();
    assert!(status.status.success() && out.contains("my-cluster-both-0"), "{out}{err}");
    let help = kubectl().args(["gregor", "plan", "--help"]).output().unwrap();
    let out = String::from_utf8(help.stdout).unwrap();
    assert!(out.contains("Usage: kubectl gregor plan"), "{out}");
}

/// Who may read what is running, but no Secret, is told what he cannot be told.
fn somebody_who_may_less(scene: &Scene<'_>) {
    let ground = scene.place.ground;
    let rights = ground.world.file("rights.yaml", RIGHTS);
    scene.place.kubectl(&["apply", "-f", &rights]);
    let token = scene.place.kubectl(&["create", "token", "reader"]);
    let theirs = ground.world.file("theirs", &std::fs::read_to_string(&scene.kubeconfig).unwrap());
    let token = format!("--token={}", token.trim());
    ground.kubectl(&["--kubeconfig", &theirs, "config", "set-credentials", "reader", &token]);
    let context = ["--kubeconfig", &theirs, "config", "set-context", "less"];
    let cluster = ground.kubectl(&[
        "--kubeconfig",
        &theirs,
        "config",
        "view",
        "-o",
        "jsonpath={.contexts[0].context.cluster}",
    ]);
    let cluster = format!("--cluster={cluster}");
    ground.kubectl(&[&context[..], &["--user=reader", &cluster]].concat());
    let file = ground.world.file("edit.yaml", &MANIFEST.replace("replicas: 1", "replicas: 2"));
    let words = ["plan", "-f", &file, "-n", PLACE, "--kubeconfig", &theirs, "--context", "less"];
    let plan = scene.gregor(&words);
    says(
        &plan,
        3,
        &["not yet: ", "Not known:", "no permission to read the Secrets of the cluster"],
    );
    // Without keys nobody knows whether certificates are old, and nobody says so.
    let told = plan.out.contains("restart node") || plan.out.contains("Under way already");
    assert!(!told, "{}", plan.out);
}

const RIGHTS: &str = r#"apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [kafka.strimzi.io, core.strimzi.io, networking.k8s.io, policy], resources: ["*"], verbs: [get, list]}
- apiGroups: [""]
  resources: [pods, services, configmaps, persistentvolumeclaims, serviceaccounts]
  verbs: [get, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: plan}]
"#;

fn scale_down_is_held(scene: &Scene<'_>) {
    scene.place.kubectl(&["scale", "kafkanodepool", "more", "--replicas=0"]);
    wait_for(|| {
        let why = scene.gregor(&["why", CLUSTER, "-n", PLACE]);
        match why.out.contains("broker 1") && why.out.contains("held-0") {
            true => Ok(()),
            false => Err(why.out),
        }
    });
    let why = scene.gregor(&["why", CLUSTER, "-n", PLACE]);
    says(&why, 0, &["it still has 2 partitions", "held-0, held-1", "Rule:"]);
    a_file_tells_the_same(scene);
    // The edit that takes it back says so.
    let back = scene.plan("replicas: 1", "replicas: 1");
    says(&back, 2, &["keep broker 1"]);
    scene.place.kubectl(&["scale", "kafkanodepool", "more", "--replicas=1"]);
    scene.place.ready(CLUSTER);
}

/// What was observed of a cluster in trouble is decided on again from a file, without Kubernetes and Kafka.
fn a_file_tells_the_same(scene: &Scene<'_>) {
    let file = scene.place.ground.world.temp().join("snapshot.json");
    let file = file.to_str().unwrap();
    let nowhere = scene.place.ground.world.file("nowhere", NOWHERE);
    wait_for(|| {
        // The cluster goes on meanwhile: what is compared was observed at the same time.
        let status = scene.gregor(&["status", CLUSTER, "-n", PLACE, "--snapshot", file]);
        assert!(status.err.contains("wrote "), "{}", status.err);
        let live = scene.gregor(&["why", CLUSTER, "-n", PLACE]);
        let words = ["--from-snapshot", file, "--kubeconfig", &nowhere];
        let told = scene.gregor(&[&["why"][..], &words].concat());
        says(&told, 0, &["broker 1", "it still has 2 partitions"]);
        let again = scene.gregor(&[&["status"][..], &words].concat());
        match (told.out == live.out, again.out == status.out) {
            (true, true) => Ok(()),
            _ => Err(format!("{}{}{}{}", told.out, live.out, again.out, status.out)),
        }
    });
    an_edit_is_planned_on_a_file(scene, file, &nowhere);
    // Nothing in it is secret.
    let text = std::fs::read_to_string(file).unwrap();
    for secret in scene.place.list("secrets") {
        for (name, value) in secret["data"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap();
            // Certificates are no secret, and very short values are anywhere.
            if !name.ends_with(".crt") && value.len() > 8 {
                assert!(!text.contains(value), "{}: {name}", secret["metadata"]["name"]);
            }
        }
    }
    assert!(!text.contains("PRIVATE KEY"));
    let both = scene.gregor(&["why", CLUSTER, "--from-snapshot", file]);
    assert_eq!(both.code, 2, "{}", both.err);
}

/// The plan of an edit is the same on a file as on the cluster, and needs no Kubernetes and no Kafka.
fn an_edit_is_planned_on_a_file(scene: &Scene<'_>, snapshot: &str, nowhere: &str) {
    const EDITS: [(&str, &str); 6] = [
        ("replicas: 1", "replicas: 1"),
        ("replicas: 1", "replicas: 2"),
        ("replicas: 1\n  roles: [broker]", "replicas: 0\n  roles: [broker]"),
        ("log.retention.ms: 86400000", "log.retention.ms: 96400000\n      num.partitions: 3"),
        ("256m", "300m"),
        ("size: 1Gi", "size: 2Gi"),
    ];
    const CERTIFICATES: &str = "Secrets are not part of a snapshot: certificates that listeners bring along are assumed to be unchanged";
    let plan = |edit: &str, words: &[&str]| {
        let words = [&["plan", "-f", edit, "-o", "json"][..], words].concat();
        let run = scene.gregor(&words);
        let json = serde_json::from_str::<Value>(&run.out);
        (run.code, json.unwrap_or_else(|error| panic!("{error}: {}", run.err)))
    };
    for (from, to) in EDITS {
        let edit = scene.place.ground.world.file("edit.yaml", &MANIFEST.replace(from, to));
        wait_for(|| {
            // The cluster goes on meanwhile: what is compared was observed at the same time.
            scene.gregor(&["status", CLUSTER, "-n", PLACE, "--snapshot", snapshot]);
            let live = plan(&edit, &["-n", PLACE]);
            let words = ["--from-snapshot", snapshot, "--kubeconfig", nowhere];
            let (code, mut told) = plan(&edit, &words);
            // The only difference: the file has its age and no Secrets, and the plan says so.
            let unknown = told["unknown"].as_array_mut().unwrap();
            let count = unknown.len();
            let is_age =
                |one: &Value| one.as_str().unwrap().starts_with("the snapshot was taken at ");
            unknown.retain(|one| one != CERTIFICATES && !is_age(one));
            assert_eq!(count - unknown.len(), 2, "{told}");
            let told = (code, told);
            if told == live { Ok(()) } else { Err(format!("{to}: {live:?}\n{told:?}")) }
        });
    }
    let other = MANIFEST.replace("my-cluster", "other");
    let other = scene.place.ground.world.file("edit.yaml", &other);
    let run = scene.gregor(&["plan", "-f", &other, "--from-snapshot", snapshot]);
    run.failed("the edit is for Kafka other, and ");
    let elsewhere = ["plan", "-f", &other, "-n", "elsewhere", "--from-snapshot", snapshot];
    scene.gregor(&elsewhere).failed("-n says elsewhere, and ");
    let both = ["plan", "-f", &other, "--cluster", CLUSTER, "--from-snapshot", snapshot];
    assert_eq!(scene.gregor(&both).code, 1);
}

/// A plan is applied, and the operator sends the acts of the plan: the same ones, in the same order for each node, the voters and
/// each object.
fn what_is_planned_is_done(scene: &Scene<'_>) {
    let ground = scene.place.ground;
    let log = "GREGOR_LOG=info,operator::cluster::act=debug";
    ground.kubectl(&["-n", "gregor", "set", "env", "deployment/gregor-operator", log]);
    let words = ["-n", "gregor", "rollout", "status", "deployment/gregor-operator"];
    ground.kubectl(&[&words[..], &["--timeout=120s"]].concat());
    let bootstrap = scene.place.bootstrap(CLUSTER, "plain");
    let words = ["--bootstrap-server", &bootstrap, "--delete", "--topic", "held"];
    scene.place.ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
    let more = "replicas: 1\n  roles: [broker]";
    let larger = MANIFEST.replace(more, "replicas: 2\n  roles: [broker]").replace("256m", "300m");
    let edit = ground.world.file("larger.yaml", &larger);
    let refused = MANIFEST.replace("roles: [controller, broker]", "roles: [broker]");
    let refused = ground.world.file("refused.yaml", &refused);
    let run = scene.gregor(&["plan", "-f", &refused, "-n", PLACE, "--apply"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("nothing was applied: part of the edit is refused"), "{}", run.err);
    applied(scene, &["-f", &edit]);
    scene.place.ready(CLUSTER);
}

/// Plans and applies an edit, and compares the acts of the plan with those of the operator.
fn applied(scene: &Scene<'_>, edit: &[&str]) {
    let ground = scene.place.ground;
    let before = acts_of_operator(&ground.operator_log()).len();
    let words = [&["plan", "-n", PLACE, "-o", "json", "--apply"][..], edit].concat();
    let run = scene.gregor(&words);
    assert_eq!(run.code, 0, "{}", run.err);
    let mut all = serde_json::Deserializer::from_str(&run.out).into_iter::<Value>();
    let plan = all.next().unwrap().unwrap();
    let planned = plan["acts"].as_array().unwrap().iter().map(|act| act["what"].clone());
    let steps = plan["steps"].as_array().unwrap();
    let done = all.map(|one| one.unwrap()["done"].as_u64().unwrap());
    let done: std::collections::BTreeSet<u64> = done.collect();
    assert_eq!(done.len(), steps.len(), "{}", run.out);
    let sent = acts_of_operator(&ground.operator_log()).split_off(before);
    let (planned, sent) = (by_subject(planned), by_subject(sent.into_iter()));
    for subject in planned.keys().chain(sent.keys()) {
        assert_eq!(planned.get(subject), sent.get(subject), "{subject} of {edit:?}");
    }
    assert!(!planned.is_empty());
}

/// The acts in the operator's log.
fn acts_of_operator(log: &str) -> Vec<Value> {
    let texts = log.lines().filter_map(|line| Some(line.split_once(" act={")?.1));
    let act = |text: &str| {
        let text = format!("{{{text}");
        serde_json::Deserializer::from_str(&text).into_iter::<Value>().next().unwrap().unwrap()
    };
    texts.map(act).collect()
}

/// Acts in order, by what they are about. Uids and directory ids of what does not exist yet are left out, and the values of
/// settings.
fn by_subject(acts: impl Iterator<Item = Value>) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mut act in acts {
        let kind = match act.as_object() {
            Some(act) => act.keys().next().unwrap().clone(),
            None => act.as_str().unwrap().to_owned(),
        };
        if let Some(fields) = act.get_mut(&kind).and_then(Value::as_object_mut) {
            for field in ["uid", "directory", "listeners"] {
                fields.remove(field);
            }
            for change in
                fields.get_mut("changes").and_then(Value::as_array_mut).into_iter().flatten()
            {
                let set = change["set"][0].as_str().or(change["delete"].as_str());
                if let Some(key) = set.map(str::to_owned) {
                    *change = Value::String(key);
                }
            }
        }
        let id = act[&kind]["id"].as_i64().map(|id| format!("node {id}"));
        let name = || act[&kind]["name"].as_str().map(str::to_owned);
        let subject = match kind.as_str() {
            "addVoter" | "removeVoter" | "raiseKraftVersion" => Some("the voters".to_owned()),
            _ => id.or_else(name),
        };
        all.entry(subject.unwrap_or_else(|| kind.clone())).or_default().push(act.to_string());
    }
    all
}

/// The operator is sent home, and the nodes are stopped: what Kubernetes knows is told, and what is not known.
fn without_kafka(scene: &Scene<'_>) {
    let ground = scene.place.ground;
    ground.kubectl(&["-n", "gregor", "scale", "deployment/gregor-operator", "--replicas=0"]);
    ground.kubectl(&[
        "-n",
        "gregor",
        "wait",
        "--for=delete",
        "pod",
        "-l",
        OPERATOR,
        "--timeout=120s",
    ]);
    scene.place.kubectl(&["delete", "pods", "--all", "--grace-period=1"]);
    let plan = scene.plan("log.retention.ms: 86400000", "log.retention.ms: 96400000");
    says(&plan, 3, &["not yet: ", "Not known:", "no node of Kafka is ready"]);
    let more = scene.plan("replicas: 1\n  roles: [broker]", "replicas: 0\n  roles: [broker]");
    says(&more, 3, &["not yet: ", "no node of Kafka is ready"]);
    assert!(!more.out.contains("stop node 1"), "{}", more.out);
    let status = scene.gregor(&["status", CLUSTER, "-n", PLACE]);
    says(&status, 4, &["my-cluster-more-1", "no node of Kafka is ready"]);
}

const OPERATOR: &str = "app.kubernetes.io/name=gregor-operator";
