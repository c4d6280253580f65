//! What can go wrong with a control plane: one sentence each, which says what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::components::Component;

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are no loopback addresses for it.
    #[error(transparent)]
    Network(crate::network::NetworkError),
    /// A directory with something else in it.
    #[error(
        "{0:?} is not empty and is no state directory of Gregor: name a directory that is new, \
         empty, or was made by gregor up"
    )]
    NotAStateDir(PathBuf),
    /// No such directory, or nothing in it.
    #[error("there is no state directory {0:?}: gregor up makes one")]
    NoStateDir(PathBuf),
    /// A directory of a later Gregor.
    #[error(
        "the state directory {path:?} has version {found}, and this gregor knows versions up to \
         {known}: use the newer gregor that made it, or name another directory"
    )]
    NewerStateDir {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that we know.
        known: u32,
    },
    /// Another process holds the directory.
    #[error(
        "the control plane in {path:?} is already run by {holder}: use it, or end it with gregor \
         down, or name another directory with --state"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other process, in words.
        holder: String,
    },
    /// A program is not where it should be.
    #[error("{0:?} is missing or cannot be run: gregor fetch kubernetes gets it")]
    ProgramMissing(PathBuf),
    /// No free port in the range that is searched.
    #[error("no free port was found on 127.0.0.1: end some of the programs that listen there")]
    NoFreePort,
    /// A certificate or key could not be made.
    #[error("could not make the certificate {name}")]
    Certificate {
        /// Its name.
        name: String,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// A name that is no name of a node.
    #[error("{0:?} is no name for a node: use lower-case letters, digits, dots and dashes")]
    NodeName(String),
    /// A file of the state directory that we wrote cannot be understood.
    #[error("{path:?} is damaged: delete it and start again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A component ends whenever it is started.
    #[error("{component} ends as soon as it is started; its log {log:?} ends with: {last}")]
    Dies {
        /// Which.
        component: Component,
        /// Its log.
        log: PathBuf,
        /// The last line of the log.
        last: String,
    },
    /// A component runs but does not become ready.
    #[error("{component} was not ready after {seconds} s; its log {log:?} ends with: {last}")]
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
    /// A process that was told to end is still there.
    #[error("{component} (process {pid}) does not end, not even by SIGKILL: look at it with ps")]
    DoesNotEnd {
        /// Which.
        component: Component,
        /// Its id.
        pid: u32,
    },
    /// A client for a component could not be made.
    #[error("could not make a client for the control plane")]
    Client(#[source] Box<kube::Error>),
    /// A kubeconfig that we wrote was not understood.
    #[error("could not read a kubeconfig of the control plane")]
    Kubeconfig(#[source] kube::config::KubeconfigError),
    /// No room on the disk.
    #[error("the disk is full, {0:?} could not be written: free some space and start again")]
    DiskFull(PathBuf),
    /// The file system or the kernel said no.
    #[error("could not {verb} {path:?}")]
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
    /// For `map_err`: the operation and the file that the error is about.
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
