//! Executes probes: one task per probe of a running container.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::{Action, Kind, Machine, Plan};
use crate::kubelet::shim::AttemptDir;

/// Limit of a command's output in an Event, as in the kubelet.
const OUTPUT_BYTES_MAX: u64 = 10 * 1024;

/// How to run a command in a container.
#[derive(Debug, Clone)]
pub(crate) struct Entrance {
    /// The shim's command line, such as `gregor shim`.
    pub(crate) shim: Vec<OsString>,
    pub(crate) dir: AttemptDir,
}

impl Entrance {
    /// A command that runs `command` in the container. It is killed on drop.
    pub(crate) fn command(&self, command: &[String]) -> Command {
        let mut words = self.shim.iter();
        let mut entering = Command::new(words.next().cloned().unwrap_or_default());
        entering
            .args(words)
            .arg("--enter")
            .arg(self.dir.path())
            .arg("--")
            .args(command)
            .kill_on_drop(true);
        entering
    }
}

/// A probe report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// A failure, which need not change the result.
    Failed(String),
    /// The result has changed.
    Verdict(bool),
}

/// Probes until the task is aborted, which happens when the container terminates; a startup probe only until
/// its result.
pub(crate) async fn keep_asking<F>(kind: Kind, plan: Plan, entrance: Entrance, report: F)
where
    F: AsyncFn(Report),
{
    let mut machine = Machine::new(kind, &plan);
    sleep(plan.initial_delay).await;
    loop {
        let answer = ask(&plan.action, plan.timeout, &entrance).await;
        let verdict = machine.observe(answer.is_ok());
        if let Err(problem) = answer {
            report(Report::Failed(problem)).await;
        }
        if let Some(verdict) = verdict {
            report(Report::Verdict(verdict)).await;
            if kind == Kind::Startup {
                return;
            }
        }
        sleep(plan.period).await;
    }
}

/// Executes a probe or hook; the error says why it failed.
pub(crate) async fn ask(
    action: &Action,
    limit: Duration,
    entrance: &Entrance,
) -> Result<(), String> {
    let asking = async {
        match action {
            Action::Exec(command) => exec(command, entrance).await,
            Action::Http(get) => get.ask().await,
            Action::Tcp { host, port } => TcpStream::connect((host.as_str(), *port))
                .await
                .map(drop)
                .map_err(|error| format!("dial tcp {host}:{port}: {error}")),
            Action::Sleep(time) => {
                sleep(*time).await;
                Ok(())
            }
            Action::Unsupported(problem) => Err(problem.clone()),
        }
    };
    let late = || match action {
        Action::Exec(command) => {
            format!("command timed out: {command:?} timed out after {limit:?}")
        }
        Action::Http(get) => format!("Get \"{}\": context deadline exceeded", get.url()),
        Action::Tcp { host, port } => format!("dial tcp {host}:{port}: i/o timeout"),
        Action::Sleep(_) | Action::Unsupported(_) => "timed out".to_owned(),
    };
    timeout(limit, asking).await.unwrap_or_else(|_| Err(late()))
}

async fn exec(command: &[String], entrance: &Entrance) -> Result<(), String> {
    let mut process = entrance.command(command);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = process.spawn().map_err(|error| format!("cannot start: {error}"))?;
    let mut group = Group::of(&child);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read_out = async {
        if let Some(stdout) = stdout {
            let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut out).await;
        }
    };
    let read_err = async {
        if let Some(stderr) = stderr {
            let _ = stderr.take(OUTPUT_BYTES_MAX).read_to_end(&mut err).await;
        }
    };
    let ((), (), status) = tokio::join!(read_out, read_err, child.wait());
    let status = status.map_err(|error| format!("cannot wait: {error}"))?;
    group.0 = None;
    if status.success() {
        return Ok(());
    }
    out.append(&mut err);
    let text = String::from_utf8_lossy(&out).trim().to_owned();
    Err(if text.is_empty() { format!("command failed: {status}") } else { text })
}

/// The process group of a command, killed on drop unless the command has finished.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Not reaped yet, so the id is still its own.
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
