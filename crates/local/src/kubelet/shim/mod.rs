//! The parent of one run of one container.
//!
//! A small process of our own between the kubelet and the container, so that the kubelet can end and
//! come back without losing what the container writes and how it ends. It reads what to do from one
//! file, [`Spec`], and says what happened in another, [`State`].
//!
//! 1. It holds the lock of its directory as long as it lives. Who gets the lock knows that it is gone.
//! 2. Nothing is started for a directory that was given up or that has a state already.
//! 3. When the container's first process ends, all its processes end, and only then is the end written.
//! 4. When the shim itself is killed, the kernel kills the container's first process, and the kubelet
//!    ends the others by their mark.
//!
//! It must not decide anything: neither whether to start again nor how long to wait.

mod enter;
mod log;
mod parent;
mod view;

use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::process::Identity;

pub use enter::enter;
pub use parent::run;
pub(crate) use parent::{give_up, is_held};
pub use view::inner;

/// The signal at which the shim passes a request to end on to the container.
pub(crate) const ASK: rustix::process::Signal = rustix::process::Signal::TERM;
/// The signal at which the shim kills the container.
pub(crate) const KILL: rustix::process::Signal = rustix::process::Signal::USR1;

/// One run of a container: everything the shim has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Unique among all runs of all containers.
    pub id: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Where the program is started; `/` if it is not said.
    pub working_dir: Option<String>,
    /// The name of the machine that the program sees.
    pub hostname: String,
    /// What is seen where.
    pub mounts: Vec<Mount>,
    /// Where the output goes.
    pub log: LogSpec,
    /// The file in which the container can say why it ends, as the host sees it.
    pub message_file: PathBuf,
    /// Whether the end of the log is the message if the container failed without one.
    pub message_from_log: bool,
    /// How many runs before this one ended too soon to be forgiven. The shim has no use for it.
    pub streak: u32,
}

/// A file or directory of the host and where the container sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// On the host. It exists.
    pub source: PathBuf,
    /// In the container. It need not exist.
    pub destination: PathBuf,
    /// Whether the container cannot write to it.
    pub read_only: bool,
}

/// Where the output goes, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpec {
    /// The file; when it is full it is moved to the same name with `.1` at the end.
    pub path: PathBuf,
    /// When the file is full.
    pub bytes_max: u64,
}

/// What has become of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The shim itself.
    pub shim: Identity,
    /// The container's first process, once it runs.
    pub process: Option<Identity>,
    /// When that was.
    pub started_at: Option<Timestamp>,
    /// How it ended.
    pub exit: Option<Exit>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code; 128 and the number of the signal for one that was killed.
    pub code: i32,
    /// Whether it ran at all.
    pub kind: ExitKind,
    /// What the container or the shim has to say about it.
    pub message: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// The ways in which a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitKind {
    /// The program ended.
    Ended,
    /// The program could not be started.
    NotStarted,
    /// The shim was killed, or the machine went down, and nobody saw the end.
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

    /// What to do: a [`Spec`].
    #[must_use]
    pub fn spec(&self) -> PathBuf {
        self.0.join("spec.json")
    }

    /// What happened: a [`State`].
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Locked as long as the shim lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// There if the run must not begin any more: its kubelet died before it knew of the shim.
    #[must_use]
    pub fn given_up(&self) -> PathBuf {
        self.0.join("given-up")
    }

    /// There if the run was ended because the node stops, and is to be continued by another.
    #[must_use]
    pub fn paused(&self) -> PathBuf {
        self.0.join("paused")
    }

    /// Where the container's file system is put together. Stays empty for everybody else.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// The file in which the container can say why it ends.
    #[must_use]
    pub fn message(&self) -> PathBuf {
        self.0.join("termination-log")
    }
}

/// Why the shim could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the run.
    #[error("could not read or write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// There is no spec.
    #[error("there is no {}: a shim is started by a kubelet, with a file that says what to run", .0.display())]
    NoSpec(PathBuf),
    /// Somebody else has the lock.
    #[error("another shim runs in {}", .0.display())]
    Locked(PathBuf),
    /// The run is over, or was never to begin.
    #[error("{} was used or given up already", .0.display())]
    Used(PathBuf),
    /// Something that only fails if the system is out of everything.
    #[error("the system refused to {action}")]
    System {
        /// What was asked for.
        action: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A step of the container's file system.
    #[error("could not mount {}", at.display())]
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
    /// The container is not there to be entered.
    #[error("the container in {} does not run", .0.display())]
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
