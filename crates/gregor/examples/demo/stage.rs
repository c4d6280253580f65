//! The environment of the demonstration: `gregor up` in its own directory, and commands to run in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use artifacts::{Environment, Silent, kafka, kubernetes};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// Time limit for each wait.
const PATIENCE: Duration = Duration::from_secs(600);

const POLL: Duration = Duration::from_millis(500);

/// A local Kubernetes with one cluster.
pub(crate) struct Stage {
    gregor: PathBuf,
    /// A temporary directory, which is removed at the end.
    folder: PathBuf,
    cluster: &'static str,
    pub(crate) begun: Instant,
}

impl Stage {
    pub(crate) fn new(cluster: &'static str) -> anyhow::Result<Self> {
        let gregor = gregor()?;
        let folder = tempfile::TempDir::with_prefix("gregor-demo-")
            .context("cannot create a temporary directory")?;
        Ok(Self { gregor, folder: folder.keep(), cluster, begun: Instant::now() })
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Host names of the local Kubernetes, as a hosts file for Java.
    pub(crate) fn hosts(&self) -> PathBuf {
        self.state().join("hosts")
    }

    /// Polls until a condition holds, and shows progress: one updating line on a terminal, else a line for every
    /// change.
    pub(crate) async fn wait(
        &self,
        what: &str,
        mut look: impl FnMut() -> anyhow::Result<(bool, String)>,
    ) -> anyhow::Result<()> {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed:>4}  {msg}");
        bar.set_style(style.context("the template of the progress line")?);
        bar.enable_steady_tick(Duration::from_millis(200));
        let begun = Instant::now();
        let mut last = String::new();
        loop {
            let (done, said) = look()?;
            bar.set_message(said.clone());
            if bar.is_hidden() && said != last {
                println!("{:>4} s  {said}", begun.elapsed().as_secs());
            }
            last = said;
            if done {
                bar.finish();
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "timed out waiting for {what}: {last}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the cluster is ready and matches its spec.
    pub(crate) async fn ready(&self) -> anyhow::Result<()> {
        self.wait("ready", || {
            let kafka = self.cluster()?;
            let seen = kafka["status"]["observedGeneration"] == kafka["metadata"]["generation"];
            let conditions = kafka["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().find(|one| one["type"] == "Ready");
            let is = ready.is_some_and(|one| one["status"] == "True");
            let why = ready.and_then(|one| one["message"].as_str()).unwrap_or("ready");
            Ok((seen && is, why.to_owned()))
        })
        .await
    }

    /// Waits until the cluster is ready and the operator has no operation in progress.
    pub(crate) async fn settled(&self) -> anyhow::Result<()> {
        self.ready().await?;
        self.wait("the cluster to settle", || {
            let status = self.status()?;
            let lines = |field: &str| status[field].as_array().map_or(0, Vec::len);
            let unready = status["nodes"]
                .as_array()
                .map_or(0, |nodes| nodes.iter().filter(|node| node["ready"] != true).count());
            let (operations, unknown) = (lines("doing"), lines("unknown"));
            let said = match (operations, unknown + unready) {
                (0, 0) => "settled".to_owned(),
                (0, _) => format!("{unready} nodes not ready, {unknown} facts unknown"),
                (_, _) => format!("{operations} operations in progress"),
            };
            Ok((operations + unknown + unready == 0, said))
        })
        .await
    }

    /// The output of `gregor status`.
    fn status(&self) -> anyhow::Result<Value> {
        let output = self
            .gregor_command(&["status", self.cluster, "-o", "json"])
            .output()
            .context("cannot run gregor status")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("gregor status printed no JSON: {errors}"))
    }

    /// The Kafka resource.
    pub(crate) fn cluster(&self) -> anyhow::Result<Value> {
        self.json(&["get", "kafka", self.cluster])
    }

    /// All rebalances, each with its progress in percent.
    pub(crate) fn rebalances(&self) -> anyhow::Result<Vec<Value>> {
        let list = self.json(&["get", "kafkarebalances"])?;
        let mut list = list["items"].as_array().cloned().unwrap_or_default();
        // Templates are not rebalances.
        list.retain(|one| {
            one["metadata"]["annotations"]["strimzi.io/rebalance-template"] != "true"
        });
        for one in &mut list {
            let name = one["status"]["progress"]["rebalanceProgressConfigMap"].as_str();
            let Some(name) = name else { continue };
            // It may have just been removed with its rebalance.
            let Ok(map) = self.json(&["get", "configmap", name]) else { continue };
            let percent = map["data"]["completedByteMovementPercentage"].as_str();
            one["percent"] = percent.and_then(|text| text.parse::<u64>().ok()).into();
        }
        Ok(list)
    }

    /// Name and uid of the cluster's pods; a restart changes the uid.
    pub(crate) fn pods(&self) -> anyhow::Result<Vec<(String, String)>> {
        let label = format!("strimzi.io/cluster={}", self.cluster);
        let list = self.json(&["get", "pods", "-l", &label])?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let of = |pod: &Value| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]));
        Ok(pods.iter().map(of).collect())
    }

    pub(crate) fn bootstrap(&self, listener: &str) -> anyhow::Result<String> {
        let kafka = self.cluster()?;
        let listeners = kafka["status"]["listeners"].as_array().cloned().unwrap_or_default();
        let found = listeners.iter().find(|one| one["name"] == listener);
        let servers = found.and_then(|one| one["bootstrapServers"].as_str());
        servers.map(str::to_owned).context("the cluster has no bootstrap address in its status")
    }

    /// Runs one of Kafka's own tools, with the host names of the local Kubernetes.
    pub(crate) fn tool(&self, class: &str, words: &[&str]) -> anyhow::Result<String> {
        let home = kafka::ensure(&Environment::from_process(), None, &Silent)?;
        let mut hosts = OsString::from("-Djdk.net.hosts.file=");
        hosts.push(self.hosts());
        let output = Command::new("java")
            .arg(hosts)
            .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(home.root.join("libs/*"))
            .arg(class)
            .args(words)
            .output()
            .context("cannot run java")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{class} failed: {said}{errors}");
        Ok(said)
    }

    pub(crate) fn gregor(&self, words: &[&str]) -> anyhow::Result<()> {
        println!("\n$ gregor {}", words.join(" "));
        succeed(&mut self.gregor_command(words))
    }

    fn gregor_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.gregor);
        command.args(words).env("GREGOR_STATE_DIR", self.state());
        command.env("KUBECONFIG", self.state().join("kubeconfig"));
        command
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> anyhow::Result<()> {
        println!("\n$ kubectl {}", words.join(" "));
        succeed(&mut self.kubectl_command(words))
    }

    fn json(&self, words: &[&str]) -> anyhow::Result<Value> {
        let words = [words, &["-o", "json"]].concat();
        let output = self.kubectl_command(&words).output().context("cannot run kubectl")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {} failed: {errors}", words.join(" "));
        serde_json::from_slice(&output.stdout).context("kubectl printed no JSON")
    }

    fn kubectl_command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.kubectl_program());
        command.args(words).env("KUBECONFIG", self.state().join("kubeconfig"));
        command
    }

    /// The kubectl that was built with Kubernetes.
    fn kubectl_program(&self) -> PathBuf {
        let found = kubernetes::ensure(&Environment::from_process(), None, &Silent);
        found.map_or_else(|_| "kubectl".into(), |found| found.program(kubernetes::Program::Kubectl))
    }

    pub(crate) fn suggest_commands(&self) {
        title("The cluster keeps running; try:");
        println!("  export GREGOR_STATE_DIR={}", self.state().display());
        println!("  export KUBECONFIG={}", self.state().join("kubeconfig").display());
        println!("  kubectl scale kafkanodepool broker --replicas=5   # add a broker");
        println!("  gregor why {}   # what the cluster waits for", self.cluster);
        println!(
            "  gregor user add alice --cluster {} --tls   # a client certificate",
            self.cluster
        );
        println!("  gregor down --purge   # stop everything and delete its data");
    }

    pub(crate) fn clean_up(&self) -> anyhow::Result<()> {
        title("Stop everything and delete its data");
        println!(
            "To run a cluster yourself: gregor up -f examples/kafka-persistent.yaml (Ctrl-C stops it)"
        );
        self.gregor(&["down", "--purge"])?;
        std::fs::remove_dir_all(&self.folder)
            .context("cannot delete the directory of the demonstration")
    }
}
fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

pub(crate) fn title(text: &str) {
    println!("\n== {text}\n");
}

/// The `gregor` that was built beside this program.
fn gregor() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let folder =
        own.parent().and_then(Path::parent).context("cannot find the path of this program")?;
    let gregor = folder.join("gregor");
    ensure!(gregor.is_file(), "{} is missing: cargo build -p gregor", gregor.display());
    Ok(gregor)
}
