//! Real nodes that are started through `gregor node`, each on an address of its own.

#![allow(dead_code, reason = "a part of it is for tests that `make soak` runs")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use artifacts::kafka::{self, KafkaHome};
use artifacts::{Environment, KafkaVersion, Silent};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Network, Process, Reaper};

const GREGOR: &str = env!("CARGO_BIN_EXE_gregor");
const CLUSTER: &str = "q3KxBhPXQ9-Jc0Ckhc1d-g";
/// What a node is told of its pod.
const POD_UID: &str = "6c1ad5f6-7d0e-4a39-8a4e-0b8f6f1d2c3e";
/// A busy machine with two cores starts four nodes in a fifth of this.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Where metrics with the user's rules are.
const METRICS_PORT: u16 = 9404;
const POLL: Duration = Duration::from_millis(100);

/// How the controllers know each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    Static,
    Dynamic,
    Unknown,
}

/// What a node's configuration directory says.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    id: i32,
    roles: &'static str,
    mode: Mode,
    voters: Vec<(i32, &'static str)>,
    quorum: i32,
    seen: Option<bool>,
    replaced: bool,
    cluster: &'static str,
    metadata_version: Option<&'static str>,
    properties: Vec<(&'static str, &'static str)>,
    metrics: Option<&'static str>,
    class_archive: Option<PathBuf>,
    server: Option<String>,
    controller_port: u16,
}

impl Plan {
    /// A node that nobody has seen, of a quorum of one.
    pub(crate) fn new(id: i32, roles: &'static str, mode: Mode) -> Self {
        Self {
            id,
            roles,
            mode,
            voters: Vec::new(),
            quorum: 1,
            seen: Some(false),
            replaced: false,
            cluster: CLUSTER,
            metadata_version: None,
            properties: Vec::new(),
            metrics: None,
            class_archive: None,
            server: None,
            controller_port: 9093,
        }
    }

    /// The whole of the server properties, with the port of the controllers in them.
    pub(crate) fn server(mut self, text: String, controller_port: u16) -> Self {
        (self.server, self.controller_port) = (Some(text), controller_port);
        self
    }

    pub(crate) fn voters(mut self, voters: &[(i32, &'static str)]) -> Self {
        self.voters = voters.to_vec();
        self
    }

    pub(crate) fn quorum_of(mut self, count: i32) -> Self {
        self.quorum = count;
        self
    }

    pub(crate) fn seen(mut self, seen: Option<bool>) -> Self {
        self.seen = seen;
        self
    }

    /// The empty disk of a controller of a static quorum may vote.
    pub(crate) fn replaced(mut self) -> Self {
        self.replaced = true;
        self
    }

    pub(crate) fn cluster(mut self, cluster: &'static str) -> Self {
        self.cluster = cluster;
        self
    }

    pub(crate) fn metadata_version(mut self, version: &'static str) -> Self {
        self.metadata_version = Some(version);
        self
    }

    pub(crate) fn property(mut self, key: &'static str, value: &'static str) -> Self {
        self.properties.push((key, value));
        self
    }

    /// Where class archives are.
    pub(crate) fn class_archive(mut self, dir: &Path) -> Self {
        self.class_archive = Some(dir.to_owned());
        self
    }

    /// The user's rules for metrics.
    pub(crate) fn metrics(mut self, rules: &'static str) -> Self {
        self.metrics = Some(rules);
        self
    }
}

/// What the nodes of a test stand on.
pub(crate) struct Ground {
    kafka: KafkaHome,
    network: Network,
    reaper: Arc<Reaper>,
    dir: Option<TempDir>,
}

impl Ground {
    pub(crate) async fn new(version: Option<KafkaVersion>) -> Self {
        let get = move || kafka::ensure(&Environment::from_process(), version, &Silent);
        let kafka = tokio::task::spawn_blocking(get).await.unwrap().unwrap();
        let network = Network::take().unwrap();
        let reaper = Arc::new(Reaper::start(Some(network.share_lock().unwrap())).unwrap());
        let dir = Some(TempDir::with_prefix("gregor-node-test-").unwrap());
        Self { kafka, network, reaper, dir }
    }

    /// Where everything of a node is.
    pub(crate) fn node_dir(&self, id: i32) -> PathBuf {
        self.dir.as_ref().unwrap().path().join(format!("node-{id}"))
    }

    /// Controllers are 0, 1, …, and an address that ends in 0 looks like a network.
    pub(crate) fn host(&self, id: i32) -> String {
        self.network.host(u8::try_from(id + 1).unwrap())
    }

    /// Makes a class archive.
    pub(crate) fn make_class_archive(&self, dir: &Path) {
        let output = Command::new(GREGOR)
            .args(["node", "--make-class-archive", "--class-archive"])
            .arg(dir)
            .arg("--kafka-home")
            .arg(&self.kafka.root)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A client of these controllers.
    pub(crate) fn admin(&self, ids: &[i32]) -> Admin {
        let endpoints = ids.iter().map(|id| Endpoint::new(self.host(*id), 9093)).collect();
        Admin::new(Bootstrap::Controllers(endpoints), ClientOptions::default()).unwrap()
    }

    /// Writes the configuration of a node and starts it.
    pub(crate) fn start(&self, plan: &Plan) -> NodeProcess {
        let (host, dir) = (self.host(plan.id), self.node_dir(plan.id));
        self.write_config(plan);
        let log = File::create(dir.join("log")).unwrap();
        let command = self.command(plan);
        let process = Process::spawn(&self.reaper, &command, log).unwrap();
        NodeProcess { process, host, dir }
    }

    /// Starts a node that ends by itself with this code, and gives what it said.
    pub(crate) fn refused(&self, plan: &Plan, code: i32) -> String {
        self.write_config(plan);
        let command = self.command(plan);
        let output = Command::new(&command[0]).args(&command[1..]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }

    fn command(&self, plan: &Plan) -> Vec<String> {
        let config = self.node_dir(plan.id).join("config").display().to_string();
        let http = format!("{}:8080", self.host(plan.id));
        let home = self.kafka.root.display().to_string();
        let metrics = format!("{}:{METRICS_PORT}", self.host(plan.id));
        // As a pod of the operator's is told its address.
        let address = format!("POD_IP={}", self.host(plan.id));
        let program = ["env", &address, GREGOR, "node"];
        let words = ["--config", &config, "--kafka-home", &home, "--http", &http];
        let words = program.into_iter().chain(words);
        let words = words.chain(["--metrics", &metrics, "--pod-uid", POD_UID]).map(str::to_owned);
        let archive = plan.class_archive.as_ref();
        words.chain(archive.map(|dir| format!("--class-archive={}", dir.display()))).collect()
    }

    fn write_config(&self, plan: &Plan) {
        let dir = self.node_dir(plan.id).join("config");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        let voters: Vec<_> = plan
            .voters
            .iter()
            .map(|(id, directory)| {
                format!("{id}@{}:{}:{directory}", self.host(*id), plan.controller_port)
            })
            .collect();
        let server = plan.server.clone().unwrap_or_else(|| self.server_config(plan));
        write("server.config", &server);
        write("cluster.id", &format!("{}\n", plan.cluster));
        write("metadata.version", plan.metadata_version.unwrap_or(self.release()));
        write("initial.controllers", &voters.join(","));
        // Small and quick to start: several JVMs share the machine.
        let options = "-Xmx256m\n-XX:+UseSerialGC\n-XX:TieredStopAtLevel=1\n-XX:ErrorFile=";
        write("jvm.options", &format!("{options}{}\n", dir.join("crash").display()));
        if let Some(rules) = plan.metrics {
            write("metrics-config.json", rules);
        }
        if let Some(seen) = plan.seen {
            write("controller.seen", &seen.to_string());
        }
        if plan.replaced {
            write("controller.replaced", POD_UID);
        }
        match plan.mode {
            Mode::Static => write("quorum.mode", "static"),
            Mode::Dynamic => write("quorum.mode", "dynamic"),
            Mode::Unknown => {}
        }
    }

    /// The metadata version of the oldest and of the newest Kafka.
    fn release(&self) -> &'static str {
        match self.kafka.version == KafkaVersion::oldest_supported() {
            true => "4.1-IV1",
            false => "4.3-IV0",
        }
    }

    fn server_config(&self, plan: &Plan) -> String {
        let host = self.host(plan.id);
        let controllers = (0..plan.quorum).map(|id| (id, format!("{}:9093", self.host(id))));
        let (key, quorum): (_, Vec<_>) = match plan.mode {
            Mode::Static => (
                "controller.quorum.voters",
                controllers.map(|(id, address)| format!("{id}@{address}")).collect(),
            ),
            Mode::Dynamic | Mode::Unknown => (
                "controller.quorum.bootstrap.servers",
                controllers.map(|(_, address)| address).collect(),
            ),
        };
        let mut listeners = Vec::new();
        let mut text = String::new();
        if plan.roles.contains("broker") {
            listeners.push(format!("BROKER://{host}:9092"));
            text += "inter.broker.listener.name=BROKER\noffsets.topic.replication.factor=1\n\
                     log.cleaner.dedupe.buffer.size=2097152\n";
        }
        if plan.roles.contains("controller") {
            listeners.push(format!("CONTROLLER://{host}:9093"));
        }
        let (id, roles) = (plan.id, plan.roles);
        let (quorum, listeners) = (quorum.join(","), listeners.join(","));
        let data = self.node_dir(id).join("data-0").display().to_string();
        text += &format!(
            "node.id={id}\nprocess.roles={roles}\nlisteners={listeners}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             {key}={quorum}\nlog.dirs={data}\n"
        );
        for (key, value) in &plan.properties {
            text += &format!("{key}={value}\n");
        }
        text
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.reaper.close();
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            eprintln!("the nodes' files and logs are kept in {:?}", dir.keep());
        }
    }
}

/// A node that was started. It dies with this value.
pub(crate) struct NodeProcess {
    process: Process,
    host: String,
    dir: PathBuf,
}

impl NodeProcess {
    /// Waits until it says that it is ready.
    pub(crate) async fn wait_ready(&mut self) {
        let until = Instant::now() + TIMEOUT;
        while self.try_get("/ready").is_none_or(|(status, _)| status != 200) {
            let ended = self.process.exit_status().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "{ended:?}\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until it says that it is not ready, for this reason.
    pub(crate) async fn wait_not_ready(&self, reason: &str) {
        let until = Instant::now() + TIMEOUT;
        loop {
            let (status, body) = self.get("/ready");
            if status == 503 && body.contains(reason) {
                return;
            }
            assert!(Instant::now() < until, "{body}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// What it says while it is ready.
    pub(crate) fn ready(&self) -> Value {
        let (status, body) = self.get("/ready");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Asks it something.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.try_get(path).unwrap()
    }

    fn try_get(&self, path: &str) -> Option<(u16, String)> {
        self.try_get_from(8080, path)
    }

    /// The page of the exporter with the user's rules, if there is one.
    pub(crate) fn users_metrics(&self) -> Option<String> {
        let (status, page) = self.try_get_from(METRICS_PORT, "/metrics")?;
        assert_eq!(status, 200, "{page}");
        Some(page)
    }

    /// Waits until that page has a line that begins so.
    pub(crate) async fn wait_users_metric(&self, begin: &str) {
        let until = Instant::now() + TIMEOUT;
        let has = |page: String| page.lines().any(|line| line.starts_with(begin));
        while !self.users_metrics().is_some_and(has) {
            assert!(Instant::now() < until, "no {begin}\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Changes the user's rules for metrics.
    pub(crate) fn change_metrics(&self, rules: &str) {
        fs::write(self.dir.join("config/metrics-config.json"), rules).unwrap();
    }

    fn try_get_from(&self, port: u16, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect((self.host.as_str(), port)).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }

    /// Asks the first process to stop, and only it.
    pub(crate) fn ask_to_stop(&self) {
        kill("-TERM", self.process.id());
    }

    /// Kills Kafka, but not the first process.
    pub(crate) fn kill_jvm(&self) {
        kill("-KILL", self.jvm());
    }

    /// Lets Kafka's JVM crash, but not the first process.
    pub(crate) fn crash_jvm(&self) {
        kill("-SEGV", self.jvm());
    }

    /// The files that Kafka's JVM has mapped.
    pub(crate) fn mapped(&self) -> String {
        fs::read_to_string(format!("/proc/{}/maps", self.jvm())).unwrap()
    }

    /// The process of Kafka's JVM.
    fn jvm(&self) -> u32 {
        let parent = self.process.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap();
        let jvm: Vec<u32> = children.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(jvm.len(), 1, "{children}");
        jvm[0]
    }

    /// Waits for its end and gives its exit code.
    pub(crate) async fn wait_end(&mut self) -> i32 {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.process.exit_status().unwrap() {
                return status.code().unwrap();
            }
            assert!(Instant::now() < until, "{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the node has said something.
    pub(crate) async fn wait_log(&self, text: &str) {
        let until = Instant::now() + TIMEOUT;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Everything that the node and its Kafka said.
    pub(crate) fn log(&self) -> String {
        self.read("log")
    }

    /// The text of one of its files.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap()
    }

    /// The id that its disk has.
    pub(crate) fn directory_id(&self) -> String {
        let text = self.read("data-0/meta.properties");
        let id = text.lines().find_map(|line| line.strip_prefix("directory.id="));
        id.unwrap().to_owned()
    }

    /// Takes its disk away.
    pub(crate) fn wipe(&self) {
        let data: &Path = &self.dir.join("data-0");
        fs::remove_dir_all(data).unwrap();
    }
}

fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}
