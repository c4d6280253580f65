//! The shim: the parent process of one run of a container.
//!
//! A small process between the kubelet and the container, so that the kubelet can exit and restart without
//! losing the container's output and exit status. It reads a [`Spec`] from one file and writes a [`State`] to
//! another.
//!
//! 1. It holds the lock of its directory as long as it runs. Whoever acquires the lock knows that it has
//!    exited.
//! 2. It starts nothing in a directory that was abandoned or has a state already.
//! 3. When the container's first process exits, all its processes are killed, and only then the exit is
//!    recorded.
//! 4. When the shim itself is killed, the kernel kills the container's first process, and the kubelet kills
//!    the others by their mark.
//!
//! The shim makes no decisions: neither whether to restart nor how long to wait.

mod enter;
mod log;
mod parent;
mod view;

use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::process::ProcessIdentity;

pub use enter::enter;
pub use parent::run;
pub(crate) use parent::{give_up, is_held};
pub use view::inner;

/// The signal with which the shim terminates the container.
pub(crate) const ASK: rustix::process::Signal = rustix::process::Signal::TERM;
/// The signal with which the shim kills the container.
pub(crate) const KILL: rustix::process::Signal = rustix::process::Signal::USR1;

/// One run of a container: the complete input of the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Unique among all runs of all containers.
    pub id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Working directory; default: `/`.
    pub working_dir: Option<String>,
    /// The hostname inside of the container.
    pub hostname: String,
    pub mounts: Vec<Mount>,
    /// The log.
    pub log: LogSpec,
    /// The termination message file, as a path on the host.
    pub message_file: PathBuf,
    /// Whether the log's tail is the message if the container failed without one.
    pub message_from_log: bool,
    /// Early exits in a row before this run. The shim does not use it.
    pub streak: u32,
}

/// A file or directory of the host, mounted in the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Path on the host, which exists.
    pub source: PathBuf,
    /// Path in the container, which need not exist.
    pub destination: PathBuf,
    pub read_only: bool,
}

/// Log file and its limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpec {
    /// The file; when it is full it is renamed with the suffix `.1`.
    pub path: PathBuf,
    /// Size at which the file is rotated.
    pub bytes_max: u64,
}

/// State of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The shim itself.
    pub shim: ProcessIdentity,
    /// The container's first process, once it runs.
    pub process: Option<ProcessIdentity>,
    /// Its start time.
    pub started_at: Option<Timestamp>,
    pub exit: Option<Exit>,
}

/// Exit of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code; 128 plus the signal number if it was killed.
    pub code: i32,
    pub kind: ExitKind,
    /// Message of the container or the shim.
    pub message: Option<String>,
    /// Time of the exit.
    pub at: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitKind {
    /// The program exited.
    Ended,
    /// The program could not be started.
    NotStarted,
    /// The shim was killed, or the machine crashed, and the exit was not observed.
    Lost,
}

/// The files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDir(PathBuf);

impl AttemptDir {
    /// The files in this directory.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The [`Spec`].
    #[must_use]
    pub fn spec(&self) -> PathBuf {
        self.0.join("spec.json")
    }

    /// The [`State`].
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Locked as long as the shim runs.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Exists if the run must not start any more: its kubelet died before it knew the shim.
    #[must_use]
    pub fn given_up(&self) -> PathBuf {
        self.0.join("given-up")
    }

    /// Exists if the run was stopped because the node stopped, and will be resumed.
    #[must_use]
    pub fn paused(&self) -> PathBuf {
        self.0.join("paused")
    }

    /// Mount point for assembling the container's file system. Empty outside of the container.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// The termination message file.
    #[must_use]
    pub fn message(&self) -> PathBuf {
        self.0.join("termination-log")
    }
}

/// Why the shim failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read or write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    #[error("there is no {}: a shim is started by a kubelet, with a file that says what to run", .0.display())]
    NoSpec(PathBuf),
    #[error("another shim runs in {}", .0.display())]
    Locked(PathBuf),
    #[error("the run in {} has started before or was abandoned", .0.display())]
    Used(PathBuf),
    /// A system call that fails only if resources are exhausted.
    #[error("cannot {action}")]
    System {
        /// The action.
        action: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    #[error("cannot mount {}", at.display())]
    Mount {
        /// Where the container would have seen it.
        at: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The program of the container.
    #[error("exec {program:?}")]
    Command {
        /// Its name as it was given.
        program: String,
        /// Why it could not be started.
        #[source]
        source: std::io::Error,
    },
    #[error("the container in {} is not running", .0.display())]
    NotRunning(PathBuf),
}

impl Error {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    fn system<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { action, source: source.into() }
    }
}
