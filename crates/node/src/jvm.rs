//! Runs Kafka's JVM as a child of the container's first process.
//!
//! 1. PID 1 of a container inherits all orphans and reaps them.
//! 2. A signal is sent to the JVM or not at all: never to a process that reused its id.
//! 3. The JVM does not outlive this value.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use control::node::heap;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, wait,
};
use tokio::sync::oneshot;

use crate::config::Config;
use crate::home::KafkaHome;
use crate::process::Process;

/// Kafka's main class.
pub(crate) const SERVER: &str = "kafka.Kafka";

/// The garbage collector options of Kafka's own scripts.
pub(crate) const COLLECTOR: [&str; 4] = [
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];
/// Options of every node: a JVM that is out of memory must exit rather than linger.
const ALWAYS: [&str; 2] = ["-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"];

/// Why the JVM does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JvmError {
    #[error("cannot start Java")]
    Start(#[source] io::Error),
    #[error("cannot wait for the Java process")]
    Watch(#[source] io::Error),
}

/// The command line of a Kafka server. Each of `agents` is the value of a `-javaagent` option.
pub(crate) fn command(
    home: &KafkaHome,
    config: &Config,
    memory_bytes: Option<u64>,
    log4j_file: &Path,
    agents: &[String],
) -> Vec<OsString> {
    let given = &config.jvm_options;
    let chosen = given.iter().any(|o| o.starts_with("-XX:+Use") && o.ends_with("GC"));
    let collector: &[&str] = if chosen { &[] } else { &COLLECTOR };
    let mut options = heap::options(given, memory_bytes);
    options.extend(collector.iter().chain(&ALWAYS).map(|&option| option.to_owned()));
    options.push(format!("-Dlog4j2.configurationFile={}", log4j_file.display()));
    // Java's default temporary directory is read-only in a pod.
    let report = std::env::temp_dir().join("hs_err_pid%p.log");
    options.push(format!("-XX:ErrorFile={}", report.display()));
    // Of contradicting options the last wins, so the user's come last.
    options.extend(given.iter().cloned());
    options.extend(agents.iter().map(|agent| format!("-javaagent:{agent}")));
    home.command(options, SERVER, vec![config.server_file.clone().into_os_string()])
}

/// A running JVM.
#[derive(Debug)]
pub(crate) struct Jvm {
    pid: Pid,
    handle: OwnedFd,
    end: oneshot::Receiver<WaitStatus>,
}

impl Jvm {
    /// Starts the JVM. From here on nothing else in this process may start or reap children.
    pub(crate) fn start(command: &[OsString]) -> Result<Self, JvmError> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| JvmError::Start(io::Error::from(io::ErrorKind::InvalidInput)))?;
        let mut command = Command::new(program);
        let child = command.args(arguments).stdin(Stdio::null()).spawn();
        let mut child = child.map_err(JvmError::Start)?;
        let pid = Pid::from_child(&child);
        let (tell, end) = oneshot::channel();
        let watch = || -> io::Result<OwnedFd> {
            let handle = pidfd_open(pid, PidfdFlags::empty())?;
            let thread = std::thread::Builder::new().name("reaper".to_owned());
            thread.spawn(move || {
                if let Some(status) = collect_until(pid) {
                    let _ = tell.send(status);
                }
            })?;
            Ok(handle)
        };
        match watch() {
            Ok(handle) => Ok(Self { pid, handle, end }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(JvmError::Watch(error))
            }
        }
    }

    /// Its process. The node program ends before another process can reuse the id.
    pub(crate) fn process(&self) -> Process {
        Process::of(self.pid)
    }

    /// Sends a signal, unless the JVM has exited.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Waits for the JVM and returns its exit code, or 128 plus the signal number if it was killed.
    pub(crate) async fn wait(&mut self) -> u8 {
        let Ok(status) = (&mut self.end).await else { return u8::MAX };
        let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reaps children until this process exits.
fn collect_until(pid: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => return Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
