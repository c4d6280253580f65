//! Real clients of Kubernetes against `gregor up`: kubectl, a controller of kube-rs, and the client for
//! Python. None of them may notice that there are no containers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod up;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _};
use rustix::process::Signal;
use serde_json::json;
use up::{Run, World, eventually, signal};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: main
        image: busybox
        command: [sh, -c, "trap 'exit 0' TERM; i=0; while :; do echo line $i; i=$((i+1)); sleep 0.2; done"]
"#;

/// A child that is killed when the test ends.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A kubectl that goes on, and the file with what it has printed.
fn watch(world: &World, up: &Run, words: &[&str], name: &str) -> (Background, PathBuf) {
    let path = world.temp().join(name);
    let mut command = world.kubectl_command(up, words);
    let child = command.stdout(File::create(&path).unwrap()).spawn().unwrap();
    (Background(child), path)
}

fn says(path: &Path, words: &str) -> bool {
    fs::read_to_string(path).unwrap().lines().any(|line| {
        let line: Vec<_> = line.split_whitespace().collect();
        line.join(" ").contains(words)
    })
}

#[test]
fn kubectl_applies_watches_describes_scales_waits_and_deletes() {
    let world = World::new();
    let up = world.gregor(&["up", "--detach"]).ok();
    let kubectl = |words: &[&str]| world.kubectl(&up, words);
    let file = world.file("web.yaml", DEPLOYMENT);
    let (_pods, seen) = watch(&world, &up, &["get", "pods", "-w"], "watched");

    assert_eq!(kubectl(&["apply", "-f", &file]), "deployment.apps/web created\n");
    assert_eq!(kubectl(&["apply", "-f", &file]), "deployment.apps/web unchanged\n");
    kubectl(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]);
    for phase in ["0/1 Pending", "1/1 Running"] {
        eventually(phase, || says(&seen, phase));
    }
    let pod =
        kubectl(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"]);
    let wide = kubectl(&["get", "pods", "-o", "wide"]);
    assert!(wide.contains("node-1") && wide.contains(" 127."), "{wide}");

    let told = kubectl(&["describe", "pod", &pod]);
    for words in
        ["Node:", "node-1/127.", "Image:", "busybox", "State:", "Running", "Ready:", "True"]
    {
        assert!(told.contains(words), "{words} is not in:\n{told}");
    }
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(told.contains(reason), "no event {reason} in:\n{told}");
    }
    let told = kubectl(&["describe", "node", "node-1"]);
    assert!(told.contains(&pod) && told.contains("topology.kubernetes.io/zone=zone-1"), "{told}");

    let (_logs, lines) = watch(&world, &up, &["logs", "-f", "deployment/web"], "followed");
    eventually("the log goes on", || says(&lines, "line 0") && says(&lines, "line 12"));
    let last = kubectl(&["logs", &pod, "--tail=1", "--timestamps"]);
    assert!(last.lines().count() == 1 && last.contains("Z line "), "{last}");

    assert_eq!(
        kubectl(&["scale", "deployment/web", "--replicas=3"]),
        "deployment.apps/web scaled\n"
    );
    kubectl(&[
        "wait",
        "--for=jsonpath={.status.readyReplicas}=3",
        "deployment/web",
        "--timeout=60s",
    ]);
    kubectl(&["rollout", "restart", "deployment/web"]);
    kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    kubectl(&["wait", "--for=delete", &format!("pod/{pod}"), "--timeout=60s"]);
    eventually("the end was watched", || says(&seen, &format!("{pod} 1/1 Terminating")));

    kubectl(&["delete", "-f", &file, "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(kubectl(&["get", "pods,deployments,replicasets", "-o", "name"]), "");
    logs_of_a_crash(&world, &up);
    world.gregor(&["down", "--purge"]).ok();
}

/// A container that fails: what the run before has written can still be read.
fn logs_of_a_crash(world: &World, up: &Run) {
    let run = ["run", "fails", "--image=busybox", "--command", "--", "sh", "-c"];
    world.kubectl(up, &[&run[..], &["echo said before the end; sleep 1; exit 3"]].concat());
    let restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1";
    world.kubectl(up, &["wait", restarted, "pod/fails", "--timeout=60s"]);
    let before = world.kubectl(up, &["logs", "fails", "--previous"]);
    assert_eq!(before, "said before the end\n");
    let told = world.kubectl(up, &["describe", "pod", "fails"]);
    assert!(told.contains("Exit Code:") && told.contains("Error"), "{told}");
    world.kubectl(up, &["delete", "pod", "fails", "--grace-period=1", "--timeout=60s"]);
}

/// Keeps a ConfigMap beside each Deployment that says how many pods it is to have.
async fn reconcile(
    deployment: Arc<Deployment>,
    client: Arc<Client>,
) -> Result<Action, kube::Error> {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
    let owner = deployment.controller_owner_ref(&()).unwrap();
    let name = deployment.metadata.name.as_deref().unwrap();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("{name}-size"), "ownerReferences": [owner] },
        "data": { "replicas": replicas.to_string() },
    });
    let maps = Api::<ConfigMap>::default_namespaced(Client::clone(&client));
    let params = PatchParams::apply("size-controller").force();
    maps.patch(&format!("{name}-size"), &params, &Patch::Apply(map)).await?;
    Ok(Action::await_change())
}

fn run_controller(client: &Client) -> tokio::task::JoinHandle<()> {
    let again = |_: Arc<Deployment>, _: &kube::Error, _: Arc<Client>| {
        Action::requeue(Duration::from_millis(200))
    };
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let controller = Controller::new(deployments, watcher::Config::default())
        .owns(maps, watcher::Config::default())
        .run(reconcile, again, Arc::new(client.clone()));
    tokio::spawn(controller.for_each(|_| async {}))
}

async fn wait_size(client: &Client, expected: Option<&str>) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let begun = Instant::now();
    loop {
        // The API server may be down for a moment.
        let map = maps.get_opt("web-size").await;
        let size = map.as_ref().ok().map(|map| map.as_ref().and_then(size_of));
        if size.as_ref().is_some_and(|size| size.as_deref() == expected) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{size:?} is not {expected:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn size_of(map: &ConfigMap) -> Option<String> {
    map.data.as_ref().and_then(|data: &BTreeMap<_, _>| data.get("replicas").cloned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_kube_rs_follows_what_happens() {
    let world = World::new();
    let up = world.gregor(&["up", "--detach"]).ok();
    let client = world.client().await;
    let controller = run_controller(&client);
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let scale = async |replicas: u32| {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
    };

    let file = world.file("web.yaml", DEPLOYMENT);
    world.kubectl(&up, &["apply", "-f", &file]);
    wait_size(&client, Some("1")).await;
    scale(2).await;
    wait_size(&client, Some("2")).await;

    // Somebody deletes what the controller has made.
    maps.delete("web-size", &DeleteParams::default()).await.unwrap();
    wait_size(&client, Some("2")).await;

    // Its watches survive the end of the API server.
    signal(world.pids()["kube-apiserver"], Signal::KILL);
    let again = || world.kubectl_command(&up, &["get", "--raw", "/readyz"]).output().unwrap();
    eventually("the API server is back", || again().status.success());
    scale(3).await;
    wait_size(&client, Some("3")).await;

    // What is owned goes with its owner.
    let last = DeleteParams::foreground();
    deployments.delete("web", &last).await.unwrap();
    wait_size(&client, None).await;
    assert!(!controller.is_finished());
    controller.abort();
    let mut left = ConfigMap::default();
    left.metadata.name = Some("unowned".to_owned());
    maps.create(&PostParams::default(), &left).await.unwrap();
    world.gregor(&["down", "--purge"]).ok();
}

#[test]
fn the_client_for_python_creates_watches_runs_commands_and_deletes() {
    let python = testkit::tool("kubernetes").join("bin/python3");
    let world = World::new();
    world.gregor(&["up", "--detach"]).ok();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/client.py");
    let output = Command::new(python)
        .arg(script)
        .env("KUBECONFIG", world.state().join("kubeconfig"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out.lines().last(), Some("all is well"), "{out}{err}");
    world.gregor(&["down", "--purge"]).ok();
}
