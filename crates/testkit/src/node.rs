//! One node of a cluster, and operations on it.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::config::{BROKER_PORT, CONTROLLER_PORT, NodeSpec, Role};
use crate::ground::Ground;
use crate::process::Process;
use crate::storage;

/// Logged when a node is ready: a broker is then registered and unfenced, a controller has caught up with the
/// metadata log.
const READY_LINE: &[u8] = b"Kafka Server started";
/// A busy machine with two cores starts six nodes in a sixth of this.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// After this a stopping node is killed. A broker without controllers waits for them for minutes.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// A frozen process halts within a millisecond, unless the machine is very busy.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);
/// Poll interval for processes and logs.
const POLL: Duration = Duration::from_millis(25);
/// Log lines in an error: from the first error on, and at the end.
const ERROR_LINES: usize = 10;
const TAIL_LINES: usize = 40;

/// A node of a [`Cluster`](crate::Cluster). A handle: clones are the same node.
#[derive(Debug, Clone)]
pub struct Node(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ground: Arc<Ground>,
    spec: NodeSpec,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    /// Where this process's output starts in a log file shared with earlier processes.
    log_from: u64,
}

impl Node {
    pub(crate) fn new(ground: Arc<Ground>, spec: NodeSpec) -> Self {
        Self(Arc::new(Inner { ground, spec, state: Mutex::default() }))
    }

    #[must_use]
    pub fn id(&self) -> i32 {
        self.0.spec.id
    }

    #[must_use]
    pub fn role(&self) -> Role {
        self.0.spec.role
    }

    /// Its address, unique to this node.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.0.spec.host
    }

    /// The broker port, or the controller port of a dedicated controller.
    #[must_use]
    pub fn port(&self) -> u16 {
        if self.role().is_broker() { BROKER_PORT } else { CONTROLLER_PORT }
    }

    /// The directory with all of its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.spec.dir
    }

    /// The log directories; the first one has the metadata log.
    #[must_use]
    pub fn log_dirs(&self) -> &[PathBuf] {
        &self.0.spec.log_dirs
    }

    /// The id of the directory with the metadata log.
    pub fn directory_id(&self) -> anyhow::Result<String> {
        storage::directory_id(self.log_dirs().first().context("a node has a log directory")?)
    }

    /// The ids of all log directories, in order.
    pub fn directory_ids(&self) -> anyhow::Result<Vec<String>> {
        self.log_dirs().iter().map(|dir| storage::directory_id(dir)).collect()
    }

    /// Starts the process. Empty log directories are formatted first (as a node that is not a voter: a wiped
    /// controller returns as an observer). Does not wait until the node is ready.
    pub async fn start(&self) -> anyhow::Result<()> {
        ensure!(!self.is_running(), "node {} runs already", self.id());
        if !storage::is_formatted(&self.0.spec) {
            storage::format_late(&self.0.ground, &self.0.spec).await?;
        }
        let log = File::options().create(true).append(true).open(self.log_file());
        let log = log.with_context(|| format!("cannot open the log of node {}", self.id()))?;
        let log_from = log.metadata().context("cannot look at a log file")?.len();
        let command = self.0.ground.node_command(&self.0.spec.properties_file());
        let process = Process::spawn(&self.0.ground.reaper, &command, log)
            .with_context(|| format!("cannot start node {}", self.id()))?;
        *self.state() = State { process: Some(process), log_from };
        Ok(())
    }

    /// Waits until the node is ready. If its process exits, fails at once with the end of its log.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        let until = Instant::now() + READY_TIMEOUT;
        let mut read_to = self.state().log_from;
        let mut text = Vec::new();
        loop {
            let running = self.is_running();
            self.read_log(read_to, &mut text)?;
            if text.windows(READY_LINE.len()).any(|window| window == READY_LINE) {
                return Ok(());
            }
            // The line may be incomplete: its beginning is read again next time.
            let done = text.len().saturating_sub(READY_LINE.len());
            read_to += done as u64;
            let problem = match running {
                false => "is not running",
                true if Instant::now() > until => "did not become ready in time",
                true => {
                    sleep(POLL).await;
                    continue;
                }
            };
            bail!("node {} {problem}; {}", self.id(), self.explain());
        }
    }

    /// Sends SIGTERM and waits; kills the process after half a minute.
    pub async fn stop(&self) -> anyhow::Result<()> {
        // A frozen process receives the signal only after it is thawed.
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        let until = Instant::now() + STOP_TIMEOUT;
        while self.is_running() {
            if Instant::now() > until {
                return self.kill().await;
            }
            sleep(POLL).await;
        }
        self.state().process = None;
        Ok(())
    }

    /// Kills the process, as `kill -9` does.
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        while self.is_running() {
            sleep(POLL).await;
        }
        self.state().process = None;
        Ok(())
    }

    /// Suspends the process: its connections stay open and nothing responds. Returns when it has halted, a
    /// moment after the signal.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        let process = self.process_id().with_context(|| format!("node {} is gone", self.id()))?;
        let until = Instant::now() + FREEZE_TIMEOUT;
        while !is_frozen(process) {
            ensure!(Instant::now() < until, "node {} does not stand still", self.id());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Resumes a frozen process.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// [`stop`](Self::stop), [`start`](Self::start) and [`wait_ready`](Self::wait_ready).
    pub async fn restart(&self) -> anyhow::Result<()> {
        if self.is_running() {
            self.stop().await?;
        }
        self.start().await?;
        self.wait_ready().await
    }

    /// Deletes all log directories, as if the disks had been replaced. Only for a stopped node.
    pub fn wipe(&self) -> anyhow::Result<()> {
        (0..self.log_dirs().len()).try_for_each(|index| self.wipe_log_dir(index))
    }

    /// Deletes one log directory, by its index in [`log_dirs`](Self::log_dirs).
    pub fn wipe_log_dir(&self, index: usize) -> anyhow::Result<()> {
        ensure!(!self.is_running(), "node {} runs: stop it before its disks are wiped", self.id());
        let dir = self.log_dirs().get(index).context("there is no such log directory")?;
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {dir:?}"))
    }

    /// Whether there is a process, frozen or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let mut state = self.state();
        let Some(process) = state.process.as_mut() else { return false };
        matches!(process.exit_status(), Ok(None))
    }

    /// The process id, if there is a process.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.is_running().then(|| self.state().process.as_ref().map(Process::id)).flatten()
    }

    /// The log file, with the output of this and earlier processes.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.dir().join("node.log")
    }

    /// The last lines of the log; empty if there is none.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(self.log_file()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Whether it was started and not stopped since; also true if it exited by itself.
    pub(crate) fn is_started(&self) -> bool {
        self.state().process.is_some()
    }

    /// Kills without waiting, so that all nodes of a cluster are killed at once.
    pub(crate) fn send_kill(&self) {
        let _ = self.signal(Signal::KILL);
    }

    /// Waits for the exit of a killed process.
    pub(crate) fn collect(&self) {
        drop(self.state().process.take());
    }

    /// The failure in this process's log. The cause is often followed by a hundred lines of orderly shutdown,
    /// so the first error is included besides the end.
    fn explain(&self) -> String {
        let mut text = Vec::new();
        let from = self.state().log_from;
        if let Err(error) = self.read_log(from, &mut text) {
            return format!("{error:#}");
        }
        explain_log(&String::from_utf8_lossy(&text))
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        let state = self.state();
        let process = state.process.as_ref().context("the process is gone")?;
        process.signal(signal).with_context(|| format!("node {}", self.id()))
    }

    /// Replaces `text` with the log from this byte on.
    fn read_log(&self, from: u64, text: &mut Vec<u8>) -> anyhow::Result<()> {
        text.clear();
        let mut read = || {
            let mut file = File::open(self.log_file())?;
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(text)
        };
        read().with_context(|| format!("cannot read the log of node {}", self.id()))?;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn explain_log(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let is_error = |line: &&str| line.contains("] ERROR ") || line.contains("Exception");
    let tail_from = lines.len().saturating_sub(TAIL_LINES);
    let first = lines.iter().position(is_error).filter(|at| *at < tail_from);
    let errors = first.map_or(String::new(), |at| {
        let until = (at + ERROR_LINES).min(tail_from);
        format!("its first error is:\n{}\n…\n", lines[at..until].join("\n"))
    });
    format!("{errors}its log ends with:\n{}", lines[tail_from..].join("\n"))
}

/// Whether the kernel reports the process as stopped.
fn is_frozen(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it is in parentheses and may contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_has_the_first_error_and_the_end() {
        let quiet = |n: usize| (0..n).map(|i| format!("[t] INFO {i}\n")).collect::<String>();
        let text = format!("{}[t] ERROR no port\nbecause\n{}", quiet(5), quiet(100));
        let explanation = explain_log(&text);
        assert!(explanation.starts_with("its first error is:\n[t] ERROR no port\nbecause\n"));
        assert!(explanation.ends_with("\n[t] INFO 99"));
        assert!(explanation.lines().count() < 60);
        assert_eq!(explain_log("[t] ERROR x"), "its log ends with:\n[t] ERROR x");
        assert_eq!(explain_log(""), "its log ends with:\n");
    }
}
