//! What the operator's own identity may do, asked of a real API server with its token: as installed for all
//! namespaces, and for some.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use artifacts::kubernetes::{self, Program};
use artifacts::{Environment, Silent};
use local::control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

/// The binding that the operator makes for the Kafka nodes of a cluster.
const BINDING: &str = "strimzi-team-a-my-cluster-kafka-init";

/// An API server with the operator's rights installed, and the operator's token.
struct Installed {
    plane: ControlPlane,
    temp: tempfile::TempDir,
    kubectl: PathBuf,
    token: String,
}

impl Installed {
    /// Installs with these words for `gregor install`.
    async fn start(words: &[&str]) -> Self {
        let binaries = kubernetes::ensure(&Environment::from_process(), None, &Silent).unwrap();
        let temp = tempfile::tempdir().unwrap();
        let kubectl = binaries.program(Program::Kubectl);
        let options = Options::for_test(temp.path().join("state"), binaries);
        let plane = ControlPlane::start(options, |_| {}).await.unwrap();
        let mut installed = Self { plane, temp, kubectl, token: String::new() };
        for namespace in ["team-a", "team-b"] {
            installed.admin(&["create", "namespace", namespace]);
        }
        let mut gregor = Command::new(env!("CARGO_BIN_EXE_gregor"));
        let manifest = stdout(gregor.arg("install").args(words).output().unwrap());
        let manifest = installed.file("install.yaml", &manifest);
        installed.admin(&["apply", "--server-side", "-f", &manifest]);
        installed.token = installed
            .admin(&["-n", "gregor", "create", "token", "gregor-operator"])
            .trim()
            .to_owned();
        installed
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.temp.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--cache-dir").arg(self.temp.path().join("kubectl"));
        command
    }

    /// kubectl with all rights.
    #[track_caller]
    fn admin(&self, words: &[&str]) -> String {
        let mut command = self.kubectl();
        command.arg("--kubeconfig").arg(self.plane.kubeconfig_path()).args(words);
        stdout(command.output().unwrap())
    }

    /// kubectl with the operator's token, and nothing else.
    fn operator(&self, words: &[&str]) -> Output {
        let authority = self.file("ca.pem", &self.plane.ca_pem().unwrap());
        let mut command = self.kubectl();
        command.args(["--kubeconfig", "/dev/null", "--certificate-authority", &authority]);
        command.arg(format!("--server=https://127.0.0.1:{}", self.plane.api_port()));
        command.arg(format!("--token={}", self.token)).args(words).output().unwrap()
    }

    fn create(&self, binding: &Value) -> Output {
        let file = self.file("object.json", &binding.to_string());
        self.operator(&["create", "-f", &file])
    }

    fn patch(&self, name: &str, patch: &Value) -> Output {
        let patch = patch.to_string();
        self.operator(&["patch", "clusterrolebinding", name, "--type=merge", "-p", &patch])
    }

    fn delete(&self, name: &str) -> Output {
        self.operator(&["delete", "clusterrolebinding", name])
    }

    /// A new policy holds as soon as the API server has compiled it.
    fn wait_for_policy(&self) {
        let probe = binding("probe", "gregor-operator-global", account("probe-kafka"));
        let file = self.file("probe.json", &probe.to_string());
        until("the policy holds", || {
            !self.operator(&["create", "--dry-run=server", "-f", &file]).status.success()
        });
    }
}

#[track_caller]
fn stdout(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The API server refuses it, for this reason.
#[track_caller]
fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was allowed");
    assert!(said.contains(why), "\"{why}\" is not in: {said}");
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn account(name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": name, "namespace": "team-a" })
}

fn binding(name: &str, role: &str, subject: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

const GROUP: &str = "rbac.authorization.k8s.io";
const HELD: &str = "attempting to grant RBAC permissions not currently held";
const ONE_ROLE: &str = "the operator may bind only the ClusterRole gregor-kafka-node";
const NODES_ONLY: &str = "the operator may bind gregor-kafka-node only to accounts of Kafka nodes";
const OWN_ONLY: &str = "the operator may change and delete only the bindings of Kafka nodes";

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_binds_one_role_to_kafka_nodes_and_touches_no_other_binding() {
    let installed = Installed::start(&[]).await;
    installed.wait_for_policy();
    // What it is for.
    let own = binding(BINDING, "gregor-kafka-node", account("my-cluster-kafka"));
    stdout(installed.create(&own));
    // A role that it does not hold, and some that it holds.
    let any = binding("x", "cluster-admin", account("x-kafka"));
    refused(&installed.create(&any), HELD);
    for role in ["gregor-operator", "gregor-operator-global", "system:basic-user"] {
        refused(&installed.create(&binding("x", role, account("x-kafka"))), ONE_ROLE);
    }
    // The one role, for others than Kafka nodes.
    let user = json!({ "kind": "User", "name": "mallory", "apiGroup": GROUP });
    for subject in [account("default"), user.clone()] {
        refused(&installed.create(&binding("x", "gregor-kafka-node", subject)), NODES_ONLY);
    }
    // Its own binding, for another subject or another role.
    refused(&installed.patch(BINDING, &json!({ "subjects": [user] })), NODES_ONLY);
    let role = |name: &str| json!({ "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": name } });
    refused(&installed.patch(BINDING, &role("cluster-admin")), HELD);
    refused(&installed.patch(BINDING, &role("gregor-operator")), "cannot change roleRef");
    // The bindings of others.
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    refused(&installed.patch("cluster-admin", &label), HELD);
    refused(&installed.patch("gregor-operator", &label), ONE_ROLE);
    refused(&installed.delete("cluster-admin"), OWN_ONLY);
    refused(&installed.delete("gregor-operator"), OWN_ONLY);
    stdout(installed.delete(BINDING));
    // Roles it may not write at all.
    refused(&installed.operator(&["delete", "clusterrole", "gregor-kafka-node"]), "forbidden");
}

/// Why there is a policy: RBAC refuses to grant what the operator does not hold, and grants what it holds.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_policy_the_operator_could_give_its_own_rights_away() {
    let installed = Installed::start(&[]).await;
    installed.admin(&["delete", "validatingadmissionpolicybinding", "gregor-operator-bindings"]);
    let own = binding("x", "gregor-operator", account("x-kafka"));
    until("its own role can be bound", || installed.create(&own).status.success());
    let any = binding("y", "cluster-admin", account("x-kafka"));
    refused(&installed.create(&any), HELD);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_some_namespaces_reads_no_secret_elsewhere() {
    let installed = Installed::start(&["--watch-namespaces=team-a"]).await;
    for namespace in ["team-a", "team-b"] {
        let secret = ["-n", namespace, "create", "secret", "generic", "key", "--from-literal=a=b"];
        installed.admin(&secret);
    }
    let found = installed.operator(&["-n", "team-a", "get", "secret", "key"]);
    assert!(stdout(found).contains("key"));
    for words in [
        ["get", "secrets", "-A"].as_slice(),
        &["-n", "team-b", "get", "secret", "key"],
        &["-n", "team-b", "get", "secrets"],
        &["-n", "gregor", "get", "secrets"],
        &["-n", "kube-system", "get", "secrets"],
        &["-n", "team-b", "get", "pods"],
        &["-n", "team-b", "delete", "pod", "any"],
        &["get", "kafkas", "-A"],
    ] {
        refused(&installed.operator(words), "forbidden");
    }
}

/// A right that no request shows: with it alone an object may block the deletion of its Kafka.
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_block_the_deletion_of_a_kafka_need_the_right_to_its_finalizers() {
    let installed = Installed::start(&[]).await;
    let map = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "team-a", "ownerReferences": [{
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "name": "my-cluster",
                "uid": "0", "blockOwnerDeletion": true, "controller": false,
            }] },
        })
    };
    stdout(installed.create(&map("allowed")));
    let role = installed.admin(&["get", "clusterrole", "gregor-operator", "-o", "json"]);
    let mut role: Value = serde_json::from_str(&role).unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["kafkas/finalizers"]));
    let file = installed.file("role.json", &role.to_string());
    installed.admin(&["replace", "-f", &file]);
    until("the right is gone", || {
        let file = installed.file("map.json", &map("refused").to_string());
        !installed.operator(&["create", "--dry-run=server", "-f", &file]).status.success()
    });
    let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
               finalizers on";
    refused(&installed.create(&map("refused")), why);
}
