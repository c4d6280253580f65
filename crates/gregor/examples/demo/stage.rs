//! Where the story plays: `gregor up` in a folder of its own, and the tools that are used on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use artifacts::{Environment, Silent, kafka, kubernetes};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// How long the story waits for anything before it says that it does not come.
const PATIENCE: Duration = Duration::from_secs(600);

const POLL: Duration = Duration::from_millis(500);

/// A local Kubernetes with one cluster.
pub(crate) struct Stage {
    gregor: PathBuf,
    /// A folder of its own, which goes with what is in it.
    folder: PathBuf,
    cluster: &'static str,
    pub(crate) begun: Instant,
}

impl Stage {
    pub(crate) fn new(cluster: &'static str) -> anyhow::Result<Self> {
        let gregor = gregor()?;
        let folder =
            tempfile::TempDir::with_prefix("gregor-demo-").context("no place for files")?;
        Ok(Self { gregor, folder: folder.keep(), cluster, begun: Instant::now() })
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The names of the local Kubernetes, as a file for Java.
    pub(crate) fn hosts(&self) -> PathBuf {
        self.state().join("hosts")
    }

    /// Looks until something is there, and shows how far it is: a line that changes on a terminal, a line
    /// for every change elsewhere.
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
            ensure!(begun.elapsed() < PATIENCE, "{what}: it does not come to an end: {last}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the cluster is as its resources say.
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

    /// The Kafka resource.
    pub(crate) fn cluster(&self) -> anyhow::Result<Value> {
        self.json(&["get", "kafka", self.cluster])
    }

    /// The rebalances that there are, with how far each is.
    pub(crate) fn rebalances(&self) -> anyhow::Result<Vec<Value>> {
        let list = self.json(&["get", "kafkarebalances"])?;
        let mut list = list["items"].as_array().cloned().unwrap_or_default();
        // A template is no rebalance.
        list.retain(|one| {
            one["metadata"]["annotations"]["strimzi.io/rebalance-template"] != "true"
        });
        for one in &mut list {
            let name = one["status"]["progress"]["rebalanceProgressConfigMap"].as_str();
            let Some(name) = name else { continue };
            // It may just have gone, with its rebalance.
            let Ok(map) = self.json(&["get", "configmap", name]) else { continue };
            let percent = map["data"]["completedByteMovementPercentage"].as_str();
            one["percent"] = percent.and_then(|text| text.parse::<u64>().ok()).into();
        }
        Ok(list)
    }

    /// The pods of the cluster's nodes: each name with its identity, which a restart changes.
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
        servers.map(str::to_owned).context("the cluster tells no addresses")
    }

    /// Runs one of Kafka's own tools, with the names of the local Kubernetes.
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
        let mut command = Command::new(&self.gregor);
        command.args(words).env("GREGOR_STATE_DIR", self.state());
        succeed(command.env("KUBECONFIG", self.state().join("kubeconfig")))
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

    /// The kubectl that was built with the rest of Kubernetes.
    fn kubectl_program(&self) -> PathBuf {
        let found = kubernetes::ensure(&Environment::from_process(), None, &Silent);
        found.map_or_else(|_| "kubectl".into(), |found| found.program(kubernetes::Program::Kubectl))
    }

    pub(crate) fn say_what_to_try(&self) {
        title("It goes on running");
        println!("  export GREGOR_STATE_DIR={}", self.state().display());
        println!("  export KUBECONFIG={}", self.state().join("kubeconfig").display());
        println!("  kubectl scale kafkanodepool broker --replicas=5   # two brokers more");
        println!("  gregor why {}   # what it waits for", self.cluster);
        println!(
            "  gregor user add alice --cluster {} --tls   # a client certificate",
            self.cluster
        );
        println!("  gregor down --purge   # stops everything and deletes it");
    }

    pub(crate) fn clean_up(&self) -> anyhow::Result<()> {
        title("Everything is stopped and deleted");
        println!("To try by hand: gregor up -f examples/kafka-persistent.yaml, and Ctrl-C to stop");
        self.gregor(&["down", "--purge"])?;
        std::fs::remove_dir_all(&self.folder)
            .context("cannot delete the folder of the demonstration")
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

/// The program that was built beside this one.
fn gregor() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where is this program?")?;
    let folder = own.parent().and_then(Path::parent).context("where is this program?")?;
    let gregor = folder.join("gregor");
    ensure!(gregor.is_file(), "{} is missing: cargo build -p gregor", gregor.display());
    Ok(gregor)
}
