//! What the scenarios share: one control plane, nodes as processes, a namespace for each scenario.

pub(crate) mod crash;
pub(crate) mod life;
pub(crate) mod machine;
pub(crate) mod probes;
pub(crate) mod volumes;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use artifacts::Environment;
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use local::control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

/// Long enough for the slowest machine; nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node, as a process of its own that can be killed.
pub(crate) struct Node {
    child: Option<Child>,
    arguments: Vec<String>,
    log: PathBuf,
}

impl Node {
    fn new(plane: &ControlPlane, root: &Path, number: u8) -> Self {
        let name = format!("node-{number}");
        let identity = plane.node_identity(&name, &[]).unwrap();
        let dir = root.join(&name);
        let text = |path: &Path| path.display().to_string();
        let arguments = [
            "kubelet".to_owned(),
            format!("--kubeconfig={}", text(&identity.kubeconfig)),
            format!("--name={name}"),
            format!("--zone=zone-{number}"),
            format!("--dir={}", text(&dir)),
            format!("--pod-range=127.101.{number}.0/24"),
            "--backoff=1000".to_owned(),
            "--capacity=cpu=16,memory=16Gi".to_owned(),
            "--image=sleeper=sleep 1000".to_owned(),
            concat!("--image=kafka-node=", env!("CARGO_BIN_EXE_gregor"), " node").to_owned(),
        ];
        let log = root.join(format!("{name}.log"));
        let mut node = Self { child: None, arguments: arguments.to_vec(), log };
        node.start();
        node
    }

    pub(crate) fn start(&mut self) {
        let log = std::fs::File::options().append(true).create(true).open(&self.log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_gregor"))
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// As by `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// As by Ctrl-C; waits until it has ended.
    pub(crate) fn interrupt(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert!(child.wait().unwrap().success());
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Ends the containers too, so that a failed test leaves nothing.
        self.interrupt();
    }
}

/// A control plane with nodes; ended when it is dropped, the nodes first.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) plane: ControlPlane,
    root: tempfile::TempDir,
}

impl Cluster {
    pub(crate) async fn start(nodes: u8) -> Self {
        let environment = Environment::from_process();
        let binaries =
            artifacts::kubernetes::ensure(&environment, None, &artifacts::Silent).unwrap();
        let root = tempfile::tempdir().unwrap();
        let options = Options::for_test(root.path().join("state"), binaries);
        let plane = ControlPlane::start(options, |_| {}).await.unwrap();
        let nodes = (1..=nodes).map(|number| Node::new(&plane, root.path(), number)).collect();
        Self { nodes, plane, root }
    }

    /// A node in this process.
    pub(crate) async fn inner_node(&self, number: u8) -> local::kubelet::Kubelet {
        let name = format!("node-{number}");
        let address = std::net::Ipv4Addr::LOCALHOST;
        let identity = self.plane.node_identity(&name, &[address.into()]).unwrap();
        let kubeconfig = Kubeconfig::read_from(&identity.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let api_server = (address, self.plane.api_port()).into();
        let client = Client::try_from(config).unwrap();
        let dir = self.root.path().join(&name);
        let mut options = local::kubelet::Options::new(client, api_server, &name, dir);
        options.shim = vec![env!("CARGO_BIN_EXE_gregor").into(), "shim".into()];
        options.serving = Some(local::kubelet::server::ServerTls {
            certificate: identity.serving.certificate,
            key: identity.serving.key,
            client_authority: identity.client_ca,
            client_name: "kube-apiserver-kubelet-client".to_owned(),
        });
        local::kubelet::Kubelet::start(options).await.unwrap()
    }

    /// What the real kubectl prints.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let environment = Environment::from_process();
        let binaries =
            artifacts::kubernetes::ensure(&environment, None, &artifacts::Silent).unwrap();
        let output = Command::new(binaries.program(artifacts::kubernetes::Program::Kubectl))
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig_path())
            .arg("--cache-dir")
            .arg(self.root.path().join("kubectl"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A world of its own for a scenario: a namespace on a node.
    pub(crate) async fn world(&self, name: &str, node: u8) -> World {
        let client = self.plane.client();
        let namespace = Namespace {
            metadata: serde_json::from_value(json!({ "name": name })).unwrap(),
            ..Namespace::default()
        };
        let api = Api::<Namespace>::all(client.clone());
        api.create(&PostParams::default(), &namespace).await.unwrap();
        // Pods are refused before it is there.
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), name);
        let begun = Instant::now();
        while accounts.get_opt("default").await.unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "no service account in {name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let dir = self.root.path().join(format!("node-{node}"));
        let scratch = self.root.path().join(format!("scratch-{name}"));
        std::fs::create_dir_all(&scratch).unwrap();
        let api_url = format!("https://127.0.0.1:{}", self.plane.api_port());
        let ca = self.plane.ca_pem().unwrap();
        let api_server = Arc::new((api_url, ca));
        World { client, namespace: name.to_owned(), node, dir, scratch, api_server }
    }
}

/// Where a scenario takes place.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    node: u8,
    /// The directory of the node.
    pub(crate) dir: PathBuf,
    /// A directory of the host for this scenario alone.
    pub(crate) scratch: PathBuf,
    /// The URL and the authority of the API server.
    pub(crate) api_server: Arc<(String, String)>,
}

impl World {
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object of any kind that k8s-openapi knows.
    pub(crate) async fn create<K>(&self, value: Value) -> anyhow::Result<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + serde::Serialize,
        K::DynamicType: Default,
    {
        let api = Api::<K>::namespaced(self.client.clone(), &self.namespace);
        Ok(api.create(&PostParams::default(), &serde_json::from_value(value)?).await?)
    }

    /// Creates a pod on the world's node; `spec` is added to what every pod has.
    pub(crate) async fn pod(&self, name: &str, spec: Value) -> anyhow::Result<Pod> {
        let mut all = json!({
            "nodeSelector": { "kubernetes.io/hostname": format!("node-{}", self.node) },
            "terminationGracePeriodSeconds": 5,
        });
        merge(&mut all, spec);
        self.create(json!({ "metadata": { "name": name }, "spec": all })).await
    }

    /// A pod with one container that runs a script.
    pub(crate) async fn script(
        &self,
        name: &str,
        script: &str,
        more: Value,
    ) -> anyhow::Result<Pod> {
        self.pod(name, json!({ "containers": [container(script, more)] })).await
    }

    /// Waits until a pod is as described; shows what it was if it takes too long.
    pub(crate) async fn wait(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Pod) -> bool,
    ) -> anyhow::Result<Pod> {
        let begun = Instant::now();
        loop {
            let pod = self.pods().get_opt(name).await?;
            if let Some(pod) = pod.as_ref().filter(|pod| holds(pod)) {
                return Ok(pod.clone());
            }
            if begun.elapsed() > PATIENCE {
                let status = serde_json::to_string_pretty(&pod.and_then(|pod| pod.status))?;
                let events = self.events(name).await?.join("\n");
                bail!("{name} was not {what} in time: {status}\n{events}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn wait_ready(&self, name: &str) -> anyhow::Result<Pod> {
        self.wait(name, "ready", is_ready).await
    }

    pub(crate) async fn wait_phase(&self, name: &str, phase: &str) -> anyhow::Result<Pod> {
        self.wait(name, phase, |pod| phase_of(pod) == phase).await
    }

    pub(crate) async fn wait_reason(&self, name: &str, reason: &str) -> anyhow::Result<Pod> {
        self.wait(name, reason, |pod| waiting_reason(pod) == reason).await
    }

    pub(crate) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.pods().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn wait_gone(&self, name: &str) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        while self.pods().get_opt(name).await?.is_some() {
            if begun.elapsed() > PATIENCE {
                bail!("{name} is not gone");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(begun.elapsed())
    }

    /// `reason: message` of all events about a pod.
    pub(crate) async fn events(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let api = Api::<Event>::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let text = |event: Event| {
            let (reason, message) = (event.reason, event.message);
            format!("{}: {}", reason.unwrap_or_default(), message.unwrap_or_default())
        };
        Ok(api.list(&params).await?.items.into_iter().map(text).collect())
    }

    /// Waits for an event that begins so.
    pub(crate) async fn wait_event(&self, name: &str, begin: &str) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let events = self.events(name).await?;
            if events.iter().any(|event| event.starts_with(begin)) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("no event {begin:?} of {name} in {events:#?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What a container has written, without times and streams.
    pub(crate) fn log(&self, pod: &Pod, container: &str, attempt: u32) -> anyhow::Result<String> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let pod_dir = self.dir.join("logs").join(format!("{}_{name}_{uid}", self.namespace));
        let path = pod_dir.join(container).join(format!("{attempt}.log"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let lines = text.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Waits until a file of the host has content.
    pub(crate) async fn wait_file(&self, name: &str) -> anyhow::Result<String> {
        let (path, begun) = (self.scratch.join(name), Instant::now());
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text.ends_with('\n') {
                return Ok(text.trim().to_owned());
            }
            if begun.elapsed() > PATIENCE {
                bail!("{} was not written", path.display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A container that runs a script, with more of its spec.
pub(crate) fn container(script: &str, more: Value) -> Value {
    // A pair would be taken for one, as in every command of a container.
    let script = script.replace("$$", "$$$$");
    let mut container = json!({ "name": "c", "image": "busybox", "command": ["sh", "-c", script] });
    merge(&mut container, more);
    container
}

/// The scenario's directory of the host as a volume.
pub(crate) fn scratch_volume(world: &World) -> Value {
    json!({ "name": "scratch", "hostPath": { "path": world.scratch, "type": "Directory" } })
}

fn merge(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more);
    }
}

pub(crate) fn phase_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// The status of the first container.
pub(crate) fn first(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

pub(crate) fn restarts(pod: &Pod) -> i32 {
    first(pod).map_or(0, |status| status.restart_count)
}

pub(crate) fn waiting_reason(pod: &Pod) -> &str {
    let state = first(pod).and_then(|status| status.state.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or("")
}

/// Exit code, reason and message of the first container, now or before.
pub(crate) fn ended(pod: &Pod) -> Option<(i32, String, String)> {
    let status = first(pod)?;
    let now = status.state.as_ref().and_then(|state| state.terminated.clone());
    let last = || status.last_state.as_ref().and_then(|state| state.terminated.clone());
    let end = now.or_else(last)?;
    Some((end.exit_code, end.reason.unwrap_or_default(), end.message.unwrap_or_default()))
}

/// Whether a process with this number is there.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim().starts_with('Z'))
}
