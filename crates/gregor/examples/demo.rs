//! The demonstration that `make demo` runs: a real Kubernetes and a real Kafka cluster on this machine, from
//! the same YAML and through the same operator as anywhere.
//!
//! `--keep` leaves everything running at the end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use artifacts::{Environment, Silent, kafka, kubernetes};

const EXAMPLE: &str = "examples/kafka-persistent.yaml";
const CLUSTER: &str = "my-cluster";
const TOPIC: &str = "orders";
const RECORDS: u32 = 10_000;

fn main() -> anyhow::Result<()> {
    let keep = std::env::args().any(|argument| argument == "--keep");
    let demo = Demo::new()?;
    let told = demo.tell();
    match (&told, keep) {
        (Ok(()), true) => demo.say_what_to_try(),
        (Ok(()) | Err(_), _) => demo.clean_up()?,
    }
    told
}

struct Demo {
    gregor: PathBuf,
    /// A folder of its own, which goes with what is in it.
    folder: PathBuf,
    begun: Instant,
}

impl Demo {
    fn new() -> anyhow::Result<Self> {
        let gregor = gregor()?;
        let folder =
            tempfile::TempDir::with_prefix("gregor-demo-").context("no place for files")?;
        Ok(Self { gregor, folder: folder.keep(), begun: Instant::now() })
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn tell(&self) -> anyhow::Result<()> {
        title("Kubernetes on this machine, the operator in it, and a cluster from examples/");
        self.gregor(&["up", "--detach", "--nodes", "3", "-f", EXAMPLE])?;
        println!("\nready {:.0} s after the first line", self.begun.elapsed().as_secs_f32());
        title("Three controllers and three brokers");
        self.kubectl(&["get", "kafka,kafkanodepools"])?;
        self.kubectl(&["get", "pods", "-o", "wide"])?;
        title("Ten thousand records with acks=all, written and read by Kafka's own tools");
        let bootstrap = self.bootstrap("plain")?;
        println!("bootstrap: {bootstrap}");
        self.produce(&bootstrap)?;
        self.consume(&bootstrap)?;
        title(
            "A setting that Kafka takes while it runs, and one for which it is restarted, node by node",
        );
        self.edit(r#"{"spec":{"kafka":{"config":{"message.max.bytes":2000000}}}}"#)?;
        self.kubectl(&["get", "pods"])?;
        self.edit(r#"{"spec":{"kafka":{"config":{"auto.create.topics.enable":"false"}}}}"#)?;
        self.kubectl(&["get", "events", "--field-selector", "involvedObject.kind=Kafka"])?;
        title("The records are still there");
        self.consume(&bootstrap)?;
        println!("\n{:.0} s in all", self.begun.elapsed().as_secs_f32());
        Ok(())
    }

    /// Changes the Kafka resource and waits until the cluster is as it says.
    fn edit(&self, patch: &str) -> anyhow::Result<()> {
        self.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", patch])?;
        let generation = self.field(".metadata.generation")?;
        let wait = format!("jsonpath={{.status.observedGeneration}}={generation}");
        self.kubectl(&["wait", "kafka", CLUSTER, "--for", &wait, "--timeout", "300s"])
    }

    fn field(&self, path: &str) -> anyhow::Result<String> {
        let path = format!("jsonpath={{{path}}}");
        let words = ["get", "kafka", CLUSTER, "-o", &path];
        let output = self.kubectl_command(&words).output().context("cannot run kubectl")?;
        ensure!(output.status.success(), "kubectl {} failed", words.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn bootstrap(&self, listener: &str) -> anyhow::Result<String> {
        self.field(&format!(".status.listeners[?(@.name==\"{listener}\")].bootstrapServers"))
    }

    fn produce(&self, bootstrap: &str) -> anyhow::Result<()> {
        let count = RECORDS.to_string();
        let said = self.tool(
            "org.apache.kafka.tools.ProducerPerformance",
            &[
                ["--topic", TOPIC],
                ["--num-records", &count],
                ["--record-size", "100"],
                ["--throughput", "-1"],
                ["--bootstrap-server", bootstrap],
                ["--command-property", "acks=all"],
            ],
        )?;
        let line = said.lines().rfind(|line| line.contains("records sent")).unwrap_or_default();
        ensure!(line.starts_with(&count), "not all records were acknowledged: {said}");
        println!("written: {line}");
        Ok(())
    }

    fn consume(&self, bootstrap: &str) -> anyhow::Result<()> {
        let count = RECORDS.to_string();
        let said = self.tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            &[
                ["--topic", TOPIC],
                ["--num-records", &count],
                ["--timeout", "60000"],
                ["--bootstrap-server", bootstrap],
            ],
        )?;
        let line = said.lines().rfind(|line| line.contains(", ")).unwrap_or_default();
        let read: u32 = line.split(", ").nth(4).and_then(|n| n.parse().ok()).unwrap_or_default();
        ensure!(read >= RECORDS, "not all records came back: {said}");
        println!("read:    {read} records");
        Ok(())
    }

    /// Runs one of Kafka's own tools, with the names of the local Kubernetes.
    fn tool(&self, class: &str, words: &[[&str; 2]]) -> anyhow::Result<String> {
        let home = kafka::ensure(&Environment::from_process(), None, &Silent)?;
        let mut hosts = OsString::from("-Djdk.net.hosts.file=");
        hosts.push(self.state().join("hosts"));
        let output = Command::new("java")
            .arg(hosts)
            .args(["-Xmx256m", "-cp"])
            .arg(home.root.join("libs/*"))
            .arg(class)
            .args(words.as_flattened())
            .output()
            .context("cannot run java")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{class} failed: {said}{errors}");
        Ok(said)
    }

    fn gregor(&self, words: &[&str]) -> anyhow::Result<()> {
        println!("$ gregor {}", words.join(" "));
        let mut command = Command::new(&self.gregor);
        command.args(words).env("GREGOR_STATE_DIR", self.state());
        succeed(&mut command)
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

    fn kubectl(&self, words: &[&str]) -> anyhow::Result<()> {
        println!("\n$ kubectl {}", words.join(" "));
        succeed(&mut self.kubectl_command(words))
    }

    fn say_what_to_try(&self) {
        title("It goes on running");
        println!("  export GREGOR_STATE_DIR={}", self.state().display());
        println!("  export KUBECONFIG={}", self.state().join("kubeconfig").display());
        println!("  kubectl scale kafkanodepool broker --replicas=4   # a broker more");
        println!("  kubectl scale kafkanodepool controller --replicas=5   # two voters more");
        println!("  gregor user add alice --cluster {CLUSTER} --tls   # a client certificate");
        println!("  gregor down --purge   # stops everything and deletes it");
    }

    fn clean_up(&self) -> anyhow::Result<()> {
        title("Everything is stopped and deleted");
        println!("To try by hand: gregor up -f {EXAMPLE}, then kubectl, and Ctrl-C to stop");
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

fn title(text: &str) {
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
