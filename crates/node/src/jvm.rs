//! Kafka's JVM as the child of the first process.
//!
//! 1. The first process of a container inherits every orphan. All of them are collected.
//! 2. A signal goes to the JVM or to nobody: never to a process that got its number later.
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

/// The class that is a server.
pub(crate) const SERVER: &str = "kafka.Kafka";

/// What Kafka's own scripts choose for a server.
pub(crate) const COLLECTOR: [&str; 4] = [
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
];
/// For every node: one that is out of memory must end rather than linger.
const ALWAYS: [&str; 2] = ["-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"];

/// Why there is no JVM.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JvmError {
    /// Java could not be started.
    #[error("cannot start Java")]
    Start(#[source] io::Error),
    /// The kernel does not tell about the process.
    #[error("cannot look after Java's process")]
    Watch(#[source] io::Error),
}

/// The command line of a node's server. Each of `agents` is the value of a `-javaagent`.
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
    // Beside other temporary files: the directory that Java would use is read-only in a pod.
    let report = std::env::temp_dir().join("hs_err_pid%p.log");
    options.push(format!("-XX:ErrorFile={}", report.display()));
    // The last of two that contradict each other wins, so those that were given come last.
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
    /// Starts it. Nothing else may be started or collected in this process from here on.
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

    /// What the kernel shows of it. The node program ends with the JVM, before another process has its number.
    pub(crate) fn process(&self) -> Process {
        Process::of(self.pid)
    }

    /// Sends it a signal; one that has ended gets none.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Waits for its end: the exit code, or 128 and the number of the signal that killed it.
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

/// Collects whatever ends until this process does.
fn collect_until(pid: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => return Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
