//! Processes that never outlive their parent.
//!
//! Each is the leader of a process group. A small shell, the reaper, knows all groups and waits for end of
//! file on a pipe that only our process can write to. However our process ends, the kernel closes that pipe,
//! and the reaper kills the remaining groups.
//!
//! A child waits for a line on its standard input before it executes its program, and gets it after the
//! reaper knows its group: there is no moment at which our death leaves it running.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};

/// Executes the remaining arguments once a line arrives; exits at end of file.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// Remembers the groups that it reads; at end of file it kills them and waits until they are gone (a few
/// seconds at most: an unreaped zombie still counts as present).
const REAPER: &str = r#"
trap '' HUP INT TERM
groups=
while read -r verb group; do
    case $verb in
        add) groups="$groups $group" ;;
        remove)
            rest=
            for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
            groups=$rest ;;
    esac
done
for one in $groups; do kill -s KILL -- "-$one" 2>/dev/null; done
tries=50
for one in $groups; do
    while kill -s 0 -- "-$one" 2>/dev/null && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
done
"#;

/// The shell that kills our processes when we are gone.
#[derive(Debug)]
pub struct Reaper(Mutex<Option<(Child, ChildStdin)>>);

impl Reaper {
    /// Starts a reaper. It holds `lock` open until every group that it knew is gone.
    pub fn start(lock: Option<File>) -> anyhow::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", REAPER, "testkit-reaper"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Any stream can pass the file on; the script writes nothing.
            .stderr(lock.map_or_else(Stdio::null, Stdio::from))
            .process_group(0)
            .spawn()
            .context("cannot start a shell as the reaper")?;
        let pipe = child.stdin.take().context("the reaper has no stdin")?;
        Ok(Self(Mutex::new(Some((child, pipe)))))
    }

    /// Ends the reaper, and with it all processes that were not removed. No process can be started
    /// afterwards.
    pub fn close(&self) {
        if let Some((mut child, pipe)) = self.lock().take() {
            drop(pipe);
            let _ = child.wait();
        }
    }

    fn tell(&self, verb: &str, group: Pid) -> anyhow::Result<()> {
        let mut guard = self.lock();
        let (_, pipe) = guard.as_mut().context("the cluster is already gone")?;
        // One write: our death never truncates a line.
        pipe.write_all(format!("{verb} {}\n", group.as_raw_nonzero()).as_bytes())
            .context("the reaper is gone")
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Child, ChildStdin)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.close();
    }
}

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
        reaper.tell("add", process.group)?;
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
        let _ = self.reaper.tell("remove", self.group);
    }
}
