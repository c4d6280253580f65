//! Processes that never outlive their parent.
//!
//! Each is the leader of a process group that a [`Reaper`] kills when we exit, in any way.
//!
//! A child waits for a line on its standard input before it executes its program, and gets it after the
//! reaper knows its group: there is no moment at which our death leaves it running.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use host::reaper::Reaper;
use rustix::process::{Pid, Signal, kill_process_group};

/// Executes the remaining arguments once a line arrives; exits at end of file.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// A process group that is killed on drop, or when our process ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    reaper: Arc<Reaper>,
}

impl Process {
    /// Starts `arguments`, the first of which is the program, with both output streams redirected to `log`.
    pub fn spawn<S: AsRef<OsStr>>(
        reaper: &Arc<Reaper>,
        arguments: &[S],
        log: File,
    ) -> anyhow::Result<Self> {
        let errors = log.try_clone().context("cannot share the log file")?;
        let mut child = Command::new("sh")
            .args(["-c", GATE, "testkit-gate"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let gate = child.stdin.take();
        // From here on a failure drops the process, which kills it.
        let process = Self { group: Pid::from_child(&child), child, reaper: Arc::clone(reaper) };
        reaper.add(process.id()).context("cannot register a process with the reaper")?;
        let mut gate = gate.context("a process has no stdin")?;
        gate.write_all(b"go\n").context("a process ended before it was started")?;
        Ok(process)
    }

    /// The process id, which is also the group id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the whole group, unless it has exited.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match kill_process_group(self.group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot send {signal:?}")),
        }
    }

    /// The exit status, or `None` while the process runs.
    pub fn exit_status(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for a process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.signal(Signal::KILL);
        let _ = self.child.wait();
        self.reaper.remove(self.id());
    }
}
