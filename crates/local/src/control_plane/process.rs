//! One process of a component: started, or found running and taken over.
//!
//! A process waits for a word from us before it becomes the program it is to run, and gets it after it
//! was recorded: so there is no moment at which our death leaves a process that the next start does
//! not know of. It is the leader of a process group of its own, so that neither Ctrl-C nor our end
//! reaches it.

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
use super::identity::ProcessIdentity;
use super::reaper::Reaper;
use super::state::{StateDir, private_dir};

/// Runs the rest of its arguments once a line came; at the end of the input it just ends.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// A log that is longer than this when its component is started is put aside.
const LOG_BYTES_MAX: u64 = 10 << 20;

/// How many logs that were put aside are kept.
const LOGS_KEPT: u32 = 3;

/// After SIGKILL; the kernel may have a lot to write for the process.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// A program with its flags, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommandLine {
    pub(super) program: PathBuf,
    pub(super) flags: Vec<String>,
    /// Size and time of change of the file: another build at the same path is another program.
    file: (u64, i64),
    /// Of what the program reads once, at its start.
    input_hash: u64,
}

impl CommandLine {
    /// `input` is what the program reads once, at its start: with another one it must be restarted.
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

/// What is known of a process, in the state directory.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    process: ProcessIdentity,
    command_line: CommandLine,
}

/// A process that runs, or has ended and was not collected yet.
#[derive(Debug)]
pub(super) struct Process {
    component: Component,
    identity: ProcessIdentity,
    /// Stays with the process, whoever gets its number later.
    handle: OwnedFd,
    /// `None` for one that was taken over: it is not our child.
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
            // Without a word the process ends by itself.
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

    /// The process of a component that an earlier run has left, if it still runs, and whether it is
    /// exactly what we would start now.
    pub(super) fn find(
        state: &StateDir,
        component: Component,
        command_line: Option<&CommandLine>,
    ) -> Option<(Self, bool)> {
        // A record that cannot be read is as good as none: it was written whole.
        let record: Record = state.read_json(&StateDir::run_record(component)).ok()??;
        let handle = record.process.open().ok()?;
        let same = command_line.is_some_and(|wanted| *wanted == record.command_line);
        let identity = record.process;
        if !identity.is_alive() {
            // Killed a moment ago: what is started next needs its ports.
            wait(&handle, Some(&Timespec { tv_sec: 10, tv_nsec: 0 }));
            return None;
        }
        Some((Self { component, identity, handle, child: None, reaper: None }, same))
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.identity.pid
    }

    /// Completes when the process has ended. It does not borrow the process, so that others may end it
    /// meanwhile.
    ///
    /// A thread of its own waits, as the runtime cannot wait for such a handle without unsafe code. It
    /// is not one of the runtime's, whose end would have to wait for it.
    pub(super) fn exited(&self) -> io::Result<oneshot::Receiver<()>> {
        let handle = self.handle.try_clone()?;
        let (sender, receiver) = oneshot::channel();
        std::thread::Builder::new().name(format!("wait-{}", self.component)).spawn(move || {
            wait(&handle, None);
            // Nobody waits any more after a detach.
            let _ = sender.send(());
        })?;
        Ok(receiver)
    }

    /// Whether it runs. Collects it if it is a child of ours that has ended.
    ///
    /// By the handle, and not by the state that the kernel shows: that is the state of the first thread,
    /// and others may still hold ports and files for a moment.
    pub(super) fn is_alive(&mut self) -> bool {
        let ended = wait(&self.handle, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if ended && let Some(child) = &mut self.child {
            // It has ended, so this does not wait; a second time it is no error either.
            let _ = child.wait();
        }
        !ended
    }

    pub(super) fn signal(&self, signal: Signal) {
        // One that has ended already gets none.
        let _ = pidfd_send_signal(self.handle.as_fd(), signal);
    }

    /// Ends the process now and waits until it is gone.
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

    /// Ends the process in order: it is told, is given some time, and is then killed.
    pub(super) async fn end(&mut self, patience: Duration) -> Result<(), Error> {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while self.is_alive() && begun.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.kill()
    }

    /// The reaper need not look after it any more.
    pub(super) fn forget(&self) {
        if let Some(reaper) = &self.reaper {
            reaper.remove(self.id());
        }
    }
}

/// Waits until a process and all its threads have ended, and tells whether they have.
fn wait(handle: &OwnedFd, limit: Option<&Timespec>) -> bool {
    let mut handles = [PollFd::new(handle, PollFlags::IN)];
    loop {
        match poll(&mut handles, limit) {
            Err(rustix::io::Errno::INTR) => {}
            result => return matches!(result, Ok(1..)),
        }
    }
}

/// Opens a log at its end, after putting one aside that has grown long.
fn open_log(path: &Path) -> Result<File, Error> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    if path.metadata().is_ok_and(|meta| meta.len() > LOG_BYTES_MAX) {
        let aside = |number: u32| path.with_extension(format!("log.{number}"));
        for number in (1..LOGS_KEPT).rev() {
            // The first times there is none.
            let _ = std::fs::rename(aside(number), aside(number + 1));
        }
        std::fs::rename(path, aside(1)).map_err(Error::io("rename", path))?;
    }
    let open = File::options().create(true).append(true).mode(0o600).open(path);
    open.map_err(Error::io("open", path))
}

/// The last line of a log that says something, shortened, for an error message.
pub(super) fn last_words(log: &Path) -> String {
    const LENGTH_MAX: usize = 400;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = || text.lines().rev().take(50).map(str::trim).filter(|line| !line.is_empty());
    // Some end with pages of usage or a stack after the error.
    let cause = |words: &[&str]| lines().find(|line| words.iter().any(|word| line.contains(word)));
    let line = cause(&["no space left on device", "address already in use"])
        .or_else(|| cause(&["rror:", "panic:", "\"fatal\""]))
        .or_else(|| lines().next())
        .unwrap_or("(it is empty)");
    line.chars().take(LENGTH_MAX).collect()
}
