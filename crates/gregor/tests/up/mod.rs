//! A local Kubernetes as the program makes it, for the tests that look at it from outside.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

pub(crate) mod audit;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use local::control_plane::{Component, ProcessIdentity};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Ends a control plane when its input does, which is when the test does, however it does.
const UNDERTAKER: &str = r#"trap '' INT TERM; read -r line; "$0" down --purge --state "$1""#;

/// A state directory, and what is in it ends with the test.
pub(crate) struct World {
    temp: tempfile::TempDir,
    undertaker: Child,
    program: PathBuf,
    with_operator: bool,
}

/// What a run of the program left.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    /// Only Kubernetes: quick, and nothing happens in it that the test has not asked for.
    pub(crate) fn new() -> Self {
        Self::start(env!("CARGO_BIN_EXE_gregor").into(), false)
    }

    /// With the operator, as users have it.
    pub(crate) fn with_operator() -> Self {
        Self::with_operator_of(env!("CARGO_BIN_EXE_gregor").into())
    }

    /// The same, run by the `gregor` binary of another build.
    pub(crate) fn with_operator_of(program: PathBuf) -> Self {
        Self::start(program, true)
    }

    fn start(program: PathBuf, with_operator: bool) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let undertaker = Command::new("sh")
            .args(["-c", UNDERTAKER])
            .args([&program, &temp.path().join("state")])
            // Whoever ends the test with all of its group, as runners do after a while, leaves this one alone.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { temp, undertaker, program, with_operator }
    }

    /// Where a test may put files, beside the state.
    pub(crate) fn temp(&self) -> &Path {
        self.temp.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.temp().join("state")
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.temp().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("GREGOR_STATE_DIR", self.state()).stdin(Stdio::null());
        command.env(audit::VARIABLE, self.temp().join("audit"));
        command.env("GREGOR_NO_OPERATOR", (!self.with_operator).to_string());
        // The nodes live for minutes: what the optimizing compiler costs them they never get back.
        command.env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1");
        command
    }

    pub(crate) fn gregor(&self, words: &[&str]) -> Run {
        let output = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        let run = Run { code, out: text(output.stdout), err: text(output.stderr) };
        println!("$ gregor {}\n{}{}[{code}]\n", words.join(" "), run.out, run.err);
        run
    }

    /// kubectl, with the program and the kubeconfig that `up` has named.
    pub(crate) fn kubectl_command(&self, up: &Run, words: &[&str]) -> Command {
        let named = |what: &str| {
            up.out.lines().find_map(|line| line.trim().strip_prefix(what)).unwrap().trim()
        };
        let mut command = Command::new(named("kubectl "));
        // First, as what follows `--` is not for kubectl.
        command.arg("--cache-dir").arg(self.temp().join("cache")).args(words);
        command.env("KUBECONFIG", named("kubeconfig ")).stdin(Stdio::null());
        command
    }

    /// What kubectl prints.
    pub(crate) fn kubectl(&self, up: &Run, words: &[&str]) -> String {
        let output = self.kubectl_command(up, words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A client with the rights of the user.
    pub(crate) async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.state().join("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    pub(crate) fn uid(&self, up: &Run) -> String {
        self.kubectl(up, &["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"])
    }

    /// The processes of the components, as recorded.
    pub(crate) fn pids(&self) -> BTreeMap<&'static str, u32> {
        let pid = |component: Component| {
            let record = self.state().join(format!("run/{component}.json"));
            let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
            (component.name(), u32::try_from(record["process"]["pid"].as_u64().unwrap()).unwrap())
        };
        Component::ALL.map(pid).into()
    }

    pub(crate) fn supervisor(&self) -> u32 {
        let record = fs::read(self.state().join("supervisor.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        u32::try_from(record["pid"].as_u64().unwrap()).unwrap()
    }

    /// The processes that have the state directory in their command line or environment: all that
    /// belongs to it, without the one that ends it with the test.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.processes_with(self.state().to_str().unwrap())
    }

    /// The processes that have this text in their command line or environment, without the one that ends them with the
    /// test.
    pub(crate) fn processes_with(&self, text: &str) -> Vec<Process> {
        let own = [std::process::id(), self.undertaker.id()];
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let others = pids.filter(|pid| !own.contains(pid));
        others.filter_map(|pid| Process::of(pid, text)).collect()
    }
}

/// One process of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) words: Vec<String>,
}

impl Process {
    /// If it has this text in its command line or environment.
    fn of(pid: u32, text: &str) -> Option<Self> {
        let read = |name: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let line = read("cmdline");
        if !line.contains(text) && !read("environ").contains(text) {
            return None;
        }
        let stat = read("stat");
        let (_, rest) = stat.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        let words = line.split('\0').map(str::to_owned).collect();
        Some(Self { pid, parent, words })
    }

    /// Whether it was started with this word somewhere in its command line.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }

    /// Whether it runs this program.
    pub(crate) fn is(&self, program: &str) -> bool {
        self.words.first().is_some_and(|first| first.rsplit('/').next() == Some(program))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            audit::collect(&self.temp().join("audit"));
        }
        drop(self.undertaker.stdin.take());
        let _ = self.undertaker.wait();
    }
}

impl Run {
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// One sentence, and nothing was printed as a result.
    pub(crate) fn failed(self, words: &str) {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{}", self.err);
        assert!(self.err.contains(words), "\"{words}\" is not in: {}", self.err);
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Lets a process that was stopped go on. One that was stopped for long may have been replaced.
pub(crate) fn resume(pid: u32) {
    match kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::CONT) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("cannot resume process {pid}: {error}"),
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    ProcessIdentity::of(pid).is_ok_and(|process| process.is_alive())
}

pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}
