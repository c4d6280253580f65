//! Cache directories: one per version of a program.
//!
//! A directory appears by one rename, complete, and never changes afterwards. Anything incomplete is a
//! staging directory, which belongs to the holder of the version's lock file.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::manifest::{self, Layout, Manifest};
use crate::sums::{self, Sums};
use crate::{Event, FetchError, Progress};

/// Origin of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Assembled by Gregor, in the cache.
    Cache,
    /// A directory that the user named: `GREGOR_KAFKA_HOME`, `KUBEBUILDER_ASSETS`.
    Given,
}

/// One version in the cache.
pub(crate) struct Slot<'a> {
    /// The directory with all versions.
    pub(crate) dir: PathBuf,
    /// Program and version, for messages.
    pub(crate) what: &'a str,
    pub(crate) version: &'a str,
    pub(crate) layout: &'a Layout,
    /// Pinned checksums of the files, if any.
    pub(crate) sums: Option<&'a Sums>,
    pub(crate) progress: &'a dyn Progress,
}

impl Slot<'_> {
    /// Returns the directory. If it is missing or damaged, `assemble` fills a staging directory that replaces
    /// it.
    pub(crate) fn ensure(
        &self,
        assemble: impl FnOnce() -> Result<PathBuf, FetchError>,
    ) -> Result<PathBuf, FetchError> {
        let root = self.dir.join(self.version);
        // Without the lock: directories appear complete, and this path is nearly always taken.
        if self.find_damage(&root).is_none() {
            return Ok(root);
        }
        fs::create_dir_all(&self.dir).map_err(FetchError::io("create", &self.dir))?;
        let _lock = self.lock()?;
        self.remove_leftovers()?;
        match self.find_damage(&root) {
            // The previous holder of the lock has done it.
            None => return Ok(root),
            Some(reason) if root.exists() => {
                self.progress.report(Event::Damaged { root: &root, reason: &reason });
            }
            Some(_) => {}
        }
        let staging = assemble()?;
        let result = self.publish(&staging, &root);
        if result.is_err() {
            // Report the first error; the next run retries the removal.
            let _ = fs::remove_dir_all(&staging);
        }
        result.map(|()| root)
    }

    /// What is wrong with a directory, by names and sizes, and by the checksums from when it was published:
    /// an older program may have assembled it without pins.
    fn find_damage(&self, root: &Path) -> Option<String> {
        let pinned = || self.sums?.find_difference(&Manifest::stored(root, self.layout)?);
        manifest::find_damage(root, self.layout)
            .or_else(|| pinned().map(|difference| difference.to_string()))
    }

    /// Fills a new staging directory, which is removed if that fails. Its name ends in the process id: a
    /// child that outlived a killed process must not write into ours.
    pub(crate) fn fresh_staging(
        &self,
        fill: impl FnOnce(&Path) -> Result<(), FetchError>,
    ) -> Result<PathBuf, FetchError> {
        let staging = self.dir.join(format!("{}{}", self.staging_prefix(), std::process::id()));
        fs::create_dir(&staging).map_err(FetchError::io("create", &staging))?;
        match fill(&staging) {
            Ok(()) => Ok(staging),
            Err(error) => {
                let _ = fs::remove_dir_all(&staging);
                Err(error)
            }
        }
    }

    /// A directory for results that are worth keeping across interrupted runs.
    pub(crate) fn lasting_staging(&self) -> Result<PathBuf, FetchError> {
        let staging = self.dir.join(format!(".partial-{}", self.version));
        fs::create_dir_all(&staging).map_err(FetchError::io("create", &staging))?;
        Ok(staging)
    }

    /// Held until the file is dropped; the kernel releases it if the process dies.
    fn lock(&self) -> Result<File, FetchError> {
        let path = self.dir.join(format!("{}.lock", self.version));
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(FetchError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                self.progress.report(Event::Waiting { what: self.what });
                file.lock().map_err(FetchError::io("lock", &path))?;
                Ok(file)
            }
            Err(TryLockError::Error(error)) => Err(FetchError::io("lock", &path)(error)),
        }
    }

    /// Writes the manifest and renames the directory to its final name.
    fn publish(&self, staging: &Path, root: &Path) -> Result<(), FetchError> {
        let files = (self.layout.names)(staging)?.len();
        self.progress.report(Event::Verifying { files });
        let manifest = Manifest::of(staging, self.layout)?;
        if let Some(sums) = self.sums {
            sums::check(self.what, sums, &manifest)?;
        }
        tracing::debug!(files = manifest.len(), what = self.what, "assembled");
        write_synced(&staging.join(manifest::FILE), &manifest.to_text(self.layout))?;
        if root.exists() {
            let aside =
                self.dir.join(format!("{}aside-{}", self.staging_prefix(), std::process::id()));
            fs::rename(root, &aside).map_err(FetchError::io("replace", root))?;
            fs::remove_dir_all(&aside).map_err(FetchError::io("remove", &aside))?;
        }
        fs::rename(staging, root).map_err(FetchError::io("create", root))
    }

    fn staging_prefix(&self) -> String {
        format!(".staging-{}-", self.version)
    }

    /// Removes leftovers of interrupted runs; with the lock held, none of those runs is alive. A child of one
    /// may be, so that a directory cannot be removed now: the next run will.
    fn remove_leftovers(&self) -> Result<(), FetchError> {
        let prefix = self.staging_prefix();
        for entry in fs::read_dir(&self.dir).map_err(FetchError::io("read", &self.dir))? {
            let entry = entry.map_err(FetchError::io("read", &self.dir))?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let path = entry.path();
                if let Err(error) = fs::remove_dir_all(&path) {
                    tracing::warn!(?path, %error, "cannot remove the leftovers of an earlier run");
                }
            }
        }
        Ok(())
    }
}

/// Writes a file and syncs it to disk.
fn write_synced(path: &Path, text: &str) -> Result<(), FetchError> {
    use io::Write as _;
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(FetchError::io("write", path))
}
