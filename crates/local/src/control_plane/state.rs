//! The state directory of a control plane: its files, its format version, and its lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use host::file::{self, Survives};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::components::Component;
use super::error::Error;
use crate::process::ProcessIdentity;

/// Increased when an older Gregor could not work with the directory.
const VERSION: u32 = 1;

/// Precedes the version in its file; a file that starts differently is not ours.
const MARK: &str = "gregor state directory, version ";

/// Many times what a process needs to execute another program.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Many times what a process needs to exit after it was killed, and less than a person notices.
const DYING_PATIENCE: Duration = Duration::from_millis(400);

/// A state directory, locked or not.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

/// A locked state directory: the right to change it and to run its processes. Released on drop, and by the
/// kernel when the process exits.
#[derive(Debug)]
pub struct Held {
    /// The directory.
    pub dir: StateDir,
    /// Whether this start created the directory.
    pub(super) new: bool,
    _lock: File,
}

impl StateDir {
    /// An existing directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let root = std::path::absolute(path).map_err(Error::io("find", path))?;
        let dir = Self { root };
        match dir.read_version()? {
            Some(_) => Ok(dir),
            None if is_empty(&dir.root)? => Err(Error::NoStateDir(dir.root)),
            None => Err(Error::NotAStateDir(dir.root)),
        }
    }

    /// Locks a directory, which is created if necessary.
    pub fn hold_or_create(path: &Path) -> Result<Held, Error> {
        let root = std::path::absolute(path).map_err(Error::io("find", path))?;
        let dir = Self { root };
        let new = match dir.read_version()? {
            Some(_) => false,
            None if is_empty(&dir.root)? => {
                private_dir(&dir.root)?;
                dir.write("version", format!("{MARK}{VERSION}\n").as_bytes())?;
                true
            }
            None => return Err(Error::NotAStateDir(dir.root)),
        };
        let mut held = dir.hold()?;
        held.new = new;
        Ok(held)
    }

    /// Locks an existing directory.
    pub fn hold(&self) -> Result<Held, Error> {
        let path = self.root.join("lock");
        let open = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = open.map_err(Error::io("open", &path))?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    // A process that was killed while it started another one keeps the lock in that child for
                    // a moment; and one that was just killed may not have exited yet.
                    let patience = match self.holder() {
                        None => LOCK_PATIENCE,
                        Some(_) => DYING_PATIENCE,
                    };
                    if begun.elapsed() >= patience {
                        return Err(self.in_use());
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
        }
        // The previous holder may have deleted it.
        if !self.root.join("version").exists() {
            return Err(Error::NoStateDir(self.root.clone()));
        }
        let own = ProcessIdentity::own().map_err(Error::io("read", Path::new("/proc")))?;
        self.write_json("supervisor.json", &own)?;
        Ok(Held { dir: self.clone(), new: false, _lock: lock })
    }

    /// The process that holds the directory, if any.
    #[must_use]
    pub fn holder(&self) -> Option<ProcessIdentity> {
        let identity: ProcessIdentity = self.read_json("supervisor.json").ok()??;
        let file = File::options().write(true).open(self.root.join("lock")).ok()?;
        // A dead process holds no lock, even if its id was reused.
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if identity.is_alive() => Some(identity),
            _ => None,
        }
    }

    fn in_use(&self) -> Error {
        let holder = match self.holder() {
            Some(identity) => format!("process {}", identity.pid),
            None => "another process".to_owned(),
        };
        Error::InUse { path: self.root.clone(), holder }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The user's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// The log of a component.
    #[must_use]
    pub fn log(&self, component: Component) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// The directory of all logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The data of etcd.
    #[must_use]
    pub(super) fn etcd_data(&self) -> PathBuf {
        self.root.join("etcd")
    }

    pub(super) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    pub(super) fn component_kubeconfig(&self, component: Component) -> PathBuf {
        self.root.join("kubeconfigs").join(component.name())
    }

    pub(super) fn authentication_config(&self) -> PathBuf {
        self.root.join("config/authentication.json")
    }

    /// The audit policy of the API server.
    pub(super) fn audit_policy(&self) -> PathBuf {
        self.root.join("config/audit.json")
    }

    /// The record of a component's process, relative to the directory.
    pub(super) fn run_record(component: Component) -> String {
        format!("run/{component}.json")
    }

    /// Deletes the directory and its content. Consumes the lock, because the directory must not be used any
    /// more.
    pub fn purge(held: Held) -> Result<(), Error> {
        let root = &held.dir.root;
        // Last, so that an interrupted removal can be repeated.
        for entry in fs::read_dir(root).map_err(Error::io("read", root))? {
            let path = entry.map_err(Error::io("read", root))?.path();
            if path.file_name().is_some_and(|name| name == "version" || name == "lock") {
                continue;
            }
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(Error::io("remove", &path))?;
        }
        fs::remove_dir_all(root).map_err(Error::io("remove", root))
    }

    fn read_version(&self) -> Result<Option<u32>, Error> {
        let path = self.root.join("version");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        let number = text.strip_prefix(MARK).and_then(|rest| rest.trim_end().parse().ok());
        match number {
            Some(found) if found > VERSION => {
                Err(Error::NewerStateDir { path: self.root.clone(), found, known: VERSION })
            }
            Some(found) => Ok(Some(found)),
            None => Err(Error::NotAStateDir(self.root.clone())),
        }
    }

    /// Atomically writes a file that only this user can read.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        write_private(&self.root.join(name), content)
    }

    pub(super) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let path = self.root.join(name);
        let text = serde_json::to_vec_pretty(value)
            .map_err(|source| Error::Damaged { path: path.clone(), source })?;
        write_private(&path, &text)
    }

    /// Parses a file; `None` if it does not exist.
    pub(super) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.root.join(name);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|source| Error::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }
}

impl Held {
    /// After a failure, removes a directory that this start created and that has no data.
    pub(super) fn discard_if_new(self) {
        if self.new {
            // The first failure is reported.
            let _ = StateDir::purge(self);
        }
    }
}

/// Whether there is no data. Files of a start that was interrupted right away do not count.
fn is_empty(dir: &Path) -> Result<bool, Error> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(Error::io("read", dir)(error)),
    };
    for entry in entries {
        let name = entry.map_err(Error::io("read", dir))?.file_name();
        if name != "lock" && !name.to_string_lossy().starts_with("version") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates a directory and its parents, accessible to this user only.
pub(crate) fn private_dir(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(Error::io("create", path))
}

/// Atomically writes a file that only this user can read.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    if let Some(dir) = path.parent() {
        private_dir(dir)?;
    }
    file::write(path, content, file::PRIVATE, Survives::Machine).map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_outlives_its_process_for_a_moment_is_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let held = StateDir::hold_or_create(&temp.path().join("state")).unwrap();
        let dir = held.dir.clone();
        assert!(matches!(dir.hold(), Err(Error::InUse { .. })), "it is held, by us");
        drop(held);
        // As in a child that was forked and has not executed another program yet.
        let inherited = File::options().write(true).open(dir.root().join("lock")).unwrap();
        inherited.lock().unwrap();
        fs::remove_file(dir.root().join("supervisor.json")).unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(inherited);
        });
        dir.hold().unwrap();
        ends.join().unwrap();
    }
}
