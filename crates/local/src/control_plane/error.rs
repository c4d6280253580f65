//! Errors of the control plane. Each message says what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::components::Component;

/// Why the control plane does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No loopback addresses are available.
    #[error(transparent)]
    Network(crate::network::NetworkError),
    /// A directory with other content.
    #[error(
        "{0:?} is not empty and is no state directory of Gregor: specify a new or empty directory, \
         or one that gregor up created"
    )]
    NotAStateDir(PathBuf),
    #[error("there is no state directory {0:?}: create one with gregor up")]
    NoStateDir(PathBuf),
    /// A directory of a newer Gregor.
    #[error(
        "the state directory {path:?} has version {found}, and this gregor supports versions up to \
         {known}: use the newer gregor that made it, or name another directory"
    )]
    NewerStateDir {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
    /// Another process holds the directory.
    #[error(
        "the control plane in {path:?} is already run by {holder}: use it, or stop it with gregor \
         down, or name another directory with --state"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Description of the other process.
        holder: String,
    },
    #[error("{0:?} is missing or not executable: run gregor fetch kubernetes")]
    ProgramMissing(PathBuf),
    #[error("no free port on 127.0.0.1: stop some of the programs that listen there")]
    NoFreePort,
    #[error("cannot create the certificate {name}")]
    Certificate {
        /// Its name.
        name: String,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// An invalid node name.
    #[error("{0:?} is not a node name: use lower-case letters, digits, dots and dashes")]
    NodeName(String),
    /// A file in the state directory cannot be parsed.
    #[error("{path:?} is damaged: delete it and start again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A component exits repeatedly after its start.
    #[error(
        "{component} exits right after it is started; the last line of its log {log:?}: {last}"
    )]
    Dies {
        /// Which.
        component: Component,
        /// Its log.
        log: PathBuf,
        /// The last line of the log.
        last: String,
    },
    /// A component runs but does not become ready.
    #[error(
        "{component} was not ready after {seconds} s; the last line of its log {log:?}: {last}"
    )]
    NotReady {
        /// Which.
        component: Component,
        /// How long it was waited for.
        seconds: u64,
        /// Its log.
        log: PathBuf,
        /// The last line of the log.
        last: String,
    },
    /// A process does not terminate.
    #[error(
        "{component} (process {pid}) does not terminate, not even by SIGKILL: inspect it with ps"
    )]
    DoesNotEnd {
        /// Which.
        component: Component,
        /// Its id.
        pid: u32,
    },
    #[error("cannot create a client for the control plane")]
    Client(#[source] Box<kube::Error>),
    #[error("cannot parse a kubeconfig of the control plane")]
    Kubeconfig(#[source] kube::config::KubeconfigError),
    #[error("the disk is full, {0:?} was not written: free some space and start again")]
    DiskFull(PathBuf),
    #[error("cannot {verb} {path:?}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: the operation and its file.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path),
            _ => Self::Io { verb, path, source },
        }
    }

    pub(super) fn client(error: kube::Error) -> Self {
        Self::Client(Box::new(error))
    }
}
