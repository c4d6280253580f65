//! The process of a component: started, or adopted from an earlier run.
//!
//! A child waits for a line on its standard input before it executes its program, and gets it after it was
//! recorded: there is no moment at which our death leaves a process that the next start does not know. It
//! leads its own process group, so that neither Ctrl-C nor our exit affects it.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::components::Component;
use super::error::Error;
use super::state::{StateDir, private_dir};
use crate::process::ProcessIdentity;
use host::reaper::Reaper;

/// Executes the remaining arguments once a line arrives; exits at end of file.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// A log that is longer when its component starts is rotated.
const LOG_BYTES_MAX: u64 = 10 << 20;

/// Rotated logs to keep.
const LOGS_KEPT: u32 = 3;

/// Time limit after SIGKILL; the kernel may have much to write for the process.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// The exact command line of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommandLine {
    pub(super) program: PathBuf,
    pub(super) flags: Vec<String>,
    /// Size and mtime of the program: another build at the same path is another program.
    file: (u64, i64),
    /// Hash of the input that the program reads only at its start.
    input_hash: u64,
}

impl CommandLine {
    /// `input` is what the program reads only at its start: if it changes, the program must be restarted.
    pub(super) fn new(program: PathBuf, flags: Vec<String>, input: &[u8]) -> Result<Self, Error> {
        let meta =
            program.metadata().ok().filter(|meta| meta.is_file() && meta.mode() & 0o111 != 0);
        let meta = meta.ok_or_else(|| Error::ProgramMissing(program.clone()))?;
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        let file = (meta.size(), meta.mtime());
        Ok(Self { program, flags, file, input_hash: hasher.finish() })
    }
}

/// A process, as recorded in the state directory.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    process: ProcessIdentity,
    command_line: CommandLine,
}

/// A process that runs, or has exited and was not reaped yet.
#[derive(Debug)]
pub(super) struct Process {
    component: Component,
    identity: ProcessIdentity,
    /// A pidfd, immune to reuse of the id.
    handle: OwnedFd,
    /// `None` for an adopted process, which is not our child.
    child: Option<Child>,
    reaper: Option<Arc<Reaper>>,
}

impl Process {
    /// Starts a component. It outlives us, unless there is a reaper.
    pub(super) fn start(
        state: &StateDir,
        component: Component,
        command_line: &CommandLine,
        reaper: Option<&Arc<Reaper>>,
    ) -> Result<Self, Error> {
        let log = open_log(&state.log(component))?;
        let errors = log.try_clone().map_err(Error::io("open", &state.log(component)))?;
        let mut child = Command::new("sh")
            .args(["-c", GATE, "gregor-gate"])
            .arg(&command_line.program)
            .args(&command_line.flags)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(errors)
            .current_dir(state.root())
            .process_group(0)
            .spawn()
            .map_err(Error::io("run", Path::new("sh")))?;
        let gate = child.stdin.take();
        match Self::register(state, component, command_line, child, reaper) {
            Ok(process) => {
                let word = gate.map_or(Ok(()), |mut gate| gate.write_all(b"go\n"));
                word.map_err(Error::io("run", &command_line.program))?;
                Ok(process)
            }
            // Without the line the child exits by itself.
            Err(error) => Err(error),
        }
    }

    fn register(
        state: &StateDir,
        component: Component,
        command_line: &CommandLine,
        child: Child,
        reaper: Option<&Arc<Reaper>>,
    ) -> Result<Self, Error> {
        let proc = Path::new("/proc");
        let identity = ProcessIdentity::of(child.id()).map_err(Error::io("read", proc))?;
        let handle = identity.open().map_err(Error::io("read", proc))?;
        if let Some(reaper) = reaper {
            reaper.add(identity.pid).map_err(Error::io("run", Path::new("sh")))?;
        }
        let record = Record { process: identity.clone(), command_line: command_line.clone() };
        state.write_json(&StateDir::run_record(component), &record)?;
        let reaper = reaper.cloned();
        Ok(Self { component, identity, handle, child: Some(child), reaper })
    }

    /// The process of a component from an earlier run, if it still runs, and whether it is exactly what we
    /// would start now.
    pub(super) fn find(
        state: &StateDir,
        component: Component,
        command_line: Option<&CommandLine>,
    ) -> Option<(Self, bool)> {
        // A record that cannot be parsed counts as absent: records are written atomically.
        let record: Record = state.read_json(&StateDir::run_record(component)).ok()??;
        let handle = record.process.open().ok()?;
        let same = command_line.is_some_and(|wanted| *wanted == record.command_line);
        let identity = record.process;
        if !identity.is_alive() {
            // Killed a moment ago: the next process needs its ports.
            wait(&handle, Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
            return None;
        }
        Some((Self { component, identity, handle, child: None, reaper: None }, same))
    }

    /// Process id.
    pub(super) fn id(&self) -> u32 {
        self.identity.pid
    }

    /// Completes when the process has exited. Does not borrow the process, so that it can be stopped
    /// meanwhile.
    ///
    /// A dedicated thread waits, because the runtime cannot wait for a pidfd without unsafe code. It is not
    /// one of the runtime's threads, whose shutdown would wait for it.
    pub(super) fn exited(&self) -> io::Result<oneshot::Receiver<()>> {
        let handle = self.handle.try_clone()?;
        let (sender, receiver) = oneshot::channel();
        std::thread::Builder::new().name(format!("wait-{}", self.component)).spawn(move || {
            wait(&handle, None);
            // After a detach no one receives this.
            let _ = sender.send(());
        })?;
        Ok(receiver)
    }

    /// Whether it runs. Reaps it if it is an exited child.
    ///
    /// Uses the pidfd, not the state in /proc: that is the state of the first thread, and others may still
    /// hold ports and files for a moment.
    pub(super) fn is_alive(&mut self) -> bool {
        let ended = wait(&self.handle, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if ended && let Some(child) = &mut self.child {
            // It has exited, so this does not block; calling it again is no error either.
            let _ = child.wait();
        }
        !ended
    }

    pub(super) fn signal(&self, signal: Signal) {
        // A process that has exited gets no signal.
        let _ = pidfd_send_signal(self.handle.as_fd(), signal);
    }

    /// Kills the process and waits for its exit.
    pub(super) fn kill(&mut self) -> Result<(), Error> {
        self.signal(Signal::KILL);
        let begun = Instant::now();
        while self.is_alive() {
            if begun.elapsed() > KILL_PATIENCE {
                return Err(Error::DoesNotEnd { component: self.component, pid: self.id() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.forget();
        Ok(())
    }

    /// Terminates the process gracefully; kills it after `patience`.
    pub(super) async fn end(&mut self, patience: Duration) -> Result<(), Error> {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while self.is_alive() && begun.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.kill()
    }

    /// Removes the process from the reaper.
    pub(super) fn forget(&self) {
        if let Some(reaper) = &self.reaper {
            reaper.remove(self.id());
        }
    }
}

/// Waits until a process and all its threads have exited; returns whether they have.
fn wait(handle: &OwnedFd, limit: Option<&Timespec>) -> bool {
    let mut handles = [PollFd::new(handle, PollFlags::IN)];
    loop {
        match poll(&mut handles, limit) {
            Err(rustix::io::Errno::INTR) => {}
            result => return matches!(result, Ok(1..)),
        }
    }
}

/// Opens a log for appending; rotates a long one first.
fn open_log(path: &Path) -> Result<File, Error> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    if path.metadata().is_ok_and(|meta| meta.len() > LOG_BYTES_MAX) {
        let aside = |number: u32| path.with_extension(format!("log.{number}"));
        for number in (1..LOGS_KEPT).rev() {
            // Missing until there are enough rotated logs.
            let _ = std::fs::rename(aside(number), aside(number + 1));
        }
        std::fs::rename(path, aside(1)).map_err(Error::io("rename", path))?;
    }
    let open = File::options().create(true).append(true).mode(0o600).open(path);
    open.map_err(Error::io("open", path))
}

/// The last relevant line of a log, shortened, for an error message.
pub(super) fn last_words(log: &Path) -> String {
    const LENGTH_MAX: usize = 400;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = || text.lines().rev().take(50).map(str::trim).filter(|line| !line.is_empty());
    // Some logs end with pages of usage or a stack trace after the error.
    let cause = |words: &[&str]| lines().find(|line| words.iter().any(|word| line.contains(word)));
    let line = cause(&["no space left on device", "address already in use"])
        .or_else(|| cause(&["rror:", "panic:", "\"fatal\""]))
        .or_else(|| lines().next())
        .unwrap_or("(it is empty)");
    line.chars().take(LENGTH_MAX).collect()
}
