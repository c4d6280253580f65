//! Fleets on this machine that end with the test, however it ends.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use artifacts::kubernetes::{self, Binaries, Program};
use artifacts::{Environment, Silent};
use fleet::client::{Client, ClientError, Method};
use fleet::config::Realm;
use fleet::http::BASE;
use fleet::tokens::Issuer;
use serde_json::{Value, json};

/// A busy machine takes its time; what takes longer does not come.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Ends all control planes below a directory when its input ends, which is when the test does.
const UNDERTAKER: &str = r#"trap '' INT TERM; read -r line; for dir in "$1"/planes/*/kubernetes; do
    [ -d "$dir" ] && "$0" down --purge --state "$dir"; done"#;

/// A directory with a fleet in it.
pub(crate) struct FleetWorld {
    temp: tempfile::TempDir,
    undertaker: Child,
    binaries: Binaries,
    address: String,
    client: Client,
}

/// A fleet manager as a process.
pub(crate) struct Manager(Child);

impl Manager {
    /// As by `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// In order.
    pub(crate) fn stop(mut self) {
        crate::up::signal(self.0.id(), rustix::process::Signal::TERM);
        assert!(self.0.wait().unwrap().success());
    }
}

fn realm() -> Realm {
    Realm { issuer: "test".to_owned(), audience: "gregor-fleet".to_owned(), ..Realm::default() }
}

impl FleetWorld {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let undertaker = Command::new("sh")
            .args(["-c", UNDERTAKER, env!("CARGO_BIN_EXE_gregor")])
            .arg(temp.path().join("fleet"))
            // As that of a single Kubernetes, it outlives a runner that ends the test with all of its group.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let binaries = kubernetes::ensure(&Environment::from_process(), None, &Silent).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let client = Client::new(Duration::from_secs(15)).unwrap();
        Self { temp, undertaker, binaries, address: format!("127.0.0.1:{port}"), client }
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("fleet")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gregor"));
        command.env(crate::up::audit::VARIABLE, self.temp.path().join("audit"));
        command
    }

    /// The demonstration, to its end: its exit code, and what it printed.
    pub(crate) fn run_demo(&self) -> (i32, String) {
        let mut child = self
            .command()
            .args(["fleet", "demo", "--end-with-stdin", "--state"])
            .arg(self.dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // As long as this is open, it goes on.
        let _stdin = child.stdin.take();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let code = child.wait().unwrap().code().unwrap();
        println!("{out}[{code}]");
        (code, out)
    }

    /// A fleet manager that answers, with the store and the data planes of the one before.
    pub(crate) async fn serve(&self) -> Manager {
        let config = json!({
            "cloud_providers": [{ "id": "local", "regions": [
                { "id": "here", "provider": "local", "multi_az": false, "nodes": 2, "planes_max": 0 },
            ] }],
            // A person decides, so that nothing happens that the test has not asked for.
            "scaling": "manual",
            "agent": { "nodes_min": 1, "nodes_max": 5, "node_delta": 1 },
        });
        self.serve_with(config).await
    }

    /// The same with a configuration; where data planes are, who signs tokens and how fast it goes is added.
    pub(crate) async fn serve_with(&self, mut config: Value) -> Manager {
        let realm = json!({ "issuer": "test" });
        config["local"]["dir"] = json!(self.dir());
        config["local"]["report_seconds"] = json!(1);
        config["auth"] = json!({ "agent": realm, "public": realm, "admin": realm });
        let times = [("round_ms", 200), ("lease_ms", 5000), ("provider_ms", 4000)];
        for (name, ms) in times {
            config["times"][name] = json!(ms);
        }
        let file = self.config_file();
        fs::write(&file, config.to_string()).unwrap();
        let mut command = self.command();
        command.args(["fleet", "serve", "--listen", &self.address, "--config"]).arg(&file);
        let database = format!("sqlite:{}", self.temp.path().join("fleet.db").display());
        let child = command.args(["--database", &database]).spawn().unwrap();
        let url = format!("http://{}/readyz", self.address);
        self.until("the manager answers", async || self.client.get_bytes(&url).await.is_ok()).await;
        Manager(child)
    }

    /// What an administrator asks; null if there is no such thing.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let token = self.issuer().admin("root", Duration::from_secs(600)).unwrap();
        let answer = self.ask(&token, method, &format!("/admin{path}"), body).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// What the only user asks; null if there is no such thing.
    pub(crate) async fn user(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, ClientError> {
        let token = self.issuer().user("ann", "org", Duration::from_secs(600)).unwrap();
        self.ask(&token, method, path, body).await
    }

    fn issuer(&self) -> Issuer {
        Issuer::open(&self.dir().join("key.der"), &realm()).unwrap()
    }

    async fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, ClientError> {
        let url = format!("http://{}{BASE}{path}", self.address);
        let method: Method = method.parse().unwrap();
        match self.client.json(method, &url, Some(token), body.as_ref()).await {
            Err(error) if error.is_not_found() => Ok(Value::Null),
            answer => answer,
        }
    }

    /// The ids of the data planes that have a directory.
    pub(crate) fn planes(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir().join("planes")).into_iter().flatten().flatten();
        let mut ids: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        ids.sort();
        ids
    }

    /// Kills, as by `kill -9`, the processes of the data planes that have these words in their command line. Returns how
    /// many it were.
    pub(crate) fn kill_processes(&self, words: &[&str]) -> usize {
        let mut killed = 0;
        for (pid, line) in lines() {
            let own = self.planes().iter().any(|id| line.contains(id.as_str()));
            if own && words.iter().all(|word| line.contains(word)) {
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                // It may have ended by itself.
                killed += usize::from(
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok(),
                );
            }
        }
        killed
    }

    /// What `gregor fleet` prints, asked with the token of an administrator, and its exit code.
    pub(crate) fn fleet(&self, words: &[&str]) -> (Option<i32>, String) {
        let token = self.temp.path().join("token");
        fs::write(&token, self.issuer().admin("root", Duration::from_secs(600)).unwrap()).unwrap();
        let manager = format!("http://{}", self.address);
        let output = self
            .command()
            .arg("fleet")
            .args(words)
            .args(["--manager", &manager, "--token-file"])
            .arg(token)
            .output()
            .unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), texts.concat())
    }

    /// The configuration that the manager was started with.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.temp.path().join("fleet.json")
    }

    pub(crate) async fn plane(&self, id: &str) -> Value {
        self.admin("GET", &format!("/data_planes/{id}"), None).await
    }

    fn place(&self, id: &str) -> PathBuf {
        self.dir().join("planes").join(id)
    }

    pub(crate) fn kubernetes(&self, id: &str) -> PathBuf {
        self.place(id).join("kubernetes")
    }

    /// Which nodes are recorded; nothing if none are.
    pub(crate) fn record(&self, id: &str) -> String {
        fs::read_to_string(self.place(id).join("nodes.json")).unwrap_or_default()
    }

    /// The desired state of a data plane.
    pub(crate) fn desired(&self, id: &str) -> String {
        let desired = fs::read_to_string(self.place(id).join("desired.json"));
        // It may be gone as fast as it was written.
        desired.unwrap_or_else(|_| "\"deleting\": true".to_owned())
    }

    pub(crate) fn kubectl(&self, id: &str, words: &[&str]) -> String {
        self.try_kubectl(id, words).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What kubectl prints, or what it says on its standard error if it fails.
    pub(crate) fn try_kubectl(&self, id: &str, words: &[&str]) -> Result<String, String> {
        let output = Command::new(self.binaries.program(Program::Kubectl))
            .args(words)
            .env("KUBECONFIG", self.kubernetes(id).join("kubeconfig"))
            .output()
            .unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8(output.stdout).unwrap())
    }

    /// The nodes of a data plane, as Kubernetes has them.
    pub(crate) fn nodes(&self, id: &str) -> Vec<String> {
        let names = self.kubectl(id, &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
        names.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        mut holds: impl FnMut() -> F,
    ) {
        let begun = Instant::now();
        while !holds().await {
            assert!(begun.elapsed() < LONG, "{what}: not in time");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// No directory of a data plane, and no process that has one in its command line.
    pub(crate) fn assert_nothing_is_left(&self) {
        let planes = self.dir().join("planes");
        let left: Vec<_> = fs::read_dir(&planes).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
        let processes = processes_with(&planes);
        assert!(processes.is_empty(), "{processes:#?}");
    }
}

fn processes_with(dir: &Path) -> Vec<String> {
    let lines = lines().into_iter().map(|(_, line)| line);
    lines.filter(|line| line.contains(dir.to_str().unwrap())).collect()
}

/// All processes with their command lines.
fn lines() -> Vec<(i32, String)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let line = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    all.filter_map(line).collect()
}

impl Drop for FleetWorld {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            crate::up::audit::collect(&self.temp.path().join("audit"));
        }
        drop(self.undertaker.stdin.take());
        let _ = self.undertaker.wait();
    }
}
