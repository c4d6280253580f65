//! The directory of a volume: `<volumes>/<volume>/data`, and beside it `volume.json`, which identifies the
//! claim that owns the data.
//!
//! 1. `volume.json` is on disk before `data` is.
//! 2. Data is removed only if `volume.json` names the expected claim. `volume.json` is removed after the
//!    data, so that an interrupted removal can be repeated.
//! 3. Nothing without a `volume.json` is removed, except an empty directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::StorageError;

const MARK: &str = "volume.json";
const DATA: &str = "data";

/// Pods run as the user of the node agent, so no other user needs to write. Others may read, as in a volume
/// that a container runtime mounts.
const MODE: u32 = 0o755;

/// The owner of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The namespace of the claim.
    pub(crate) namespace: String,
    /// The name of the claim.
    pub(crate) claim: String,
    /// The uid of the claim: the only field that is compared.
    pub(crate) uid: String,
    /// The requested size when the directory was created; informational, not enforced.
    pub(crate) size: String,
}

/// The path in a volume object.
pub(crate) fn data(volumes: &Path, volume: &str) -> PathBuf {
    volumes.join(volume).join(DATA)
}

/// Creates the directory, or completes one that was started for the same claim.
pub(crate) fn make(volumes: &Path, volume: &str, mark: &Mark) -> Result<(), StorageError> {
    let home = volumes.join(volume);
    match read_mark(&home)? {
        Some(found) if found.uid != mark.uid => {
            return Err(StorageError::ForeignDirectory { path: home });
        }
        Some(_) => {}
        None if data(volumes, volume).exists() => {
            return Err(StorageError::ForeignDirectory { path: home });
        }
        None => begin(volumes, &home, mark).map_err(|source| made(&home, source))?,
    }
    complete(&home).map_err(|source| made(&home, source))
}

fn made(path: &Path, source: io::Error) -> StorageError {
    StorageError::MakeDirectory { path: path.to_owned(), source }
}

fn begin(volumes: &Path, home: &Path, mark: &Mark) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(MODE).create(home)?;
    let (draft, path) = (home.join(".volume.json.new"), home.join(MARK));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&draft)?;
    file.write_all(&serde_json::to_vec_pretty(mark)?)?;
    file.sync_all()?;
    fs::rename(&draft, &path)?;
    sync(home)?;
    sync(volumes)
}

fn complete(home: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(home.join(DATA)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync(home)
}

/// Entries of a directory are durable only when the directory itself is synced.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes the data of a claim and then its mark. A missing directory is no error.
pub(crate) fn remove(volumes: &Path, volume: &str, uid: &str) -> Result<(), StorageError> {
    let home = volumes.join(volume);
    let failed = |source| StorageError::RemoveData { path: home.clone(), source };
    match read_mark(&home)? {
        Some(mark) if mark.uid == uid => {
            gone(fs::remove_dir_all(home.join(DATA))).map_err(failed)?;
            sync(&home).map_err(failed)?;
            gone(fs::remove_file(home.join(MARK))).map_err(failed)?;
        }
        Some(_) => return Err(StorageError::ForeignDirectory { path: home }),
        None => {}
    }
    remove_empty(volumes, &home)
}

/// Removes a directory that was created for a claim and never used. Never removes data.
pub(crate) fn remove_unused(volumes: &Path, volume: &str) -> Result<(), StorageError> {
    let home = volumes.join(volume);
    let failed = |source| StorageError::RemoveData { path: home.clone(), source };
    match gone(fs::remove_dir(home.join(DATA))) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => return Ok(()),
        other => other.map_err(failed)?,
    }
    gone(fs::remove_file(home.join(MARK))).map_err(failed)?;
    remove_empty(volumes, &home)
}

fn remove_empty(volumes: &Path, home: &Path) -> Result<(), StorageError> {
    let failed = |source| StorageError::RemoveData { path: home.to_owned(), source };
    // An incomplete draft of a mark has no information and may be removed.
    gone(fs::remove_file(home.join(".volume.json.new"))).map_err(failed)?;
    match fs::remove_dir(home) {
        Ok(()) => sync(volumes).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            Err(StorageError::ForeignDirectory { path: home.to_owned() })
        }
        Err(error) => Err(failed(error)),
    }
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(())
        }
        other => other,
    }
}

/// All marked directories: volume name and owner.
pub(crate) fn list(volumes: &Path) -> Result<Vec<(String, Mark)>, StorageError> {
    let failed = |source| StorageError::ReadDirectory { path: volumes.to_owned(), source };
    let entries = match fs::read_dir(volumes) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Some(mark) = read_mark(&entry.path())? {
            found.push((entry.file_name().to_string_lossy().into_owned(), mark));
        }
    }
    Ok(found)
}

/// `None` if the directory does not exist or has no valid mark.
fn read_mark(home: &Path) -> Result<Option<Mark>, StorageError> {
    match fs::read(home.join(MARK)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(StorageError::ReadDirectory { path: home.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(uid: &str) -> Mark {
        Mark { namespace: "ns".into(), claim: "data-0".into(), uid: uid.into(), size: "1Gi".into() }
    }

    #[test]
    fn a_directory_is_made_once_and_kept_when_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = dir.path().join("volumes");
        make(&volumes, "pvc-1", &mark("1")).unwrap();
        fs::write(data(&volumes, "pvc-1").join("log"), "kept").unwrap();
        make(&volumes, "pvc-1", &mark("1")).unwrap();
        assert_eq!(fs::read_to_string(data(&volumes, "pvc-1").join("log")).unwrap(), "kept");
        assert_eq!(list(&volumes).unwrap(), [("pvc-1".to_owned(), mark("1"))]);
    }

    #[test]
    fn a_directory_of_another_claim_is_neither_taken_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "pvc-1", &mark("1")).unwrap();
        let taken = make(dir.path(), "pvc-1", &mark("2"));
        assert!(matches!(taken, Err(StorageError::ForeignDirectory { .. })), "{taken:?}");
        let removed = remove(dir.path(), "pvc-1", "2");
        assert!(matches!(removed, Err(StorageError::ForeignDirectory { .. })), "{removed:?}");
        assert!(data(dir.path(), "pvc-1").exists());
    }

    #[test]
    fn a_directory_without_a_mark_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(data(dir.path(), "pvc-1")).unwrap();
        fs::write(data(dir.path(), "pvc-1").join("precious"), "x").unwrap();
        assert!(remove(dir.path(), "pvc-1", "1").is_err());
        assert!(make(dir.path(), "pvc-1", &mark("1")).is_err());
        assert!(data(dir.path(), "pvc-1").join("precious").exists());
    }

    #[test]
    fn a_removal_that_was_interrupted_anywhere_is_completed() {
        let cuts: [fn(&Path); 4] = [
            |_| {},
            |home| fs::remove_dir_all(home.join(DATA)).unwrap(),
            |home| {
                fs::remove_dir_all(home.join(DATA)).unwrap();
                fs::remove_file(home.join(MARK)).unwrap();
            },
            |home| fs::remove_dir_all(home).unwrap(),
        ];
        for cut in cuts {
            let dir = tempfile::tempdir().unwrap();
            make(dir.path(), "pvc-1", &mark("1")).unwrap();
            fs::write(data(dir.path(), "pvc-1").join("log"), "x").unwrap();
            cut(&dir.path().join("pvc-1"));
            remove(dir.path(), "pvc-1", "1").unwrap();
            assert!(!dir.path().join("pvc-1").exists());
        }
    }

    #[test]
    fn an_unused_directory_goes_and_one_with_data_stays() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "unused", &mark("1")).unwrap();
        make(dir.path(), "used", &mark("2")).unwrap();
        fs::write(data(dir.path(), "used").join("log"), "x").unwrap();
        remove_unused(dir.path(), "unused").unwrap();
        remove_unused(dir.path(), "used").unwrap();
        assert!(!dir.path().join("unused").exists());
        assert!(
            data(dir.path(), "used").join("log").exists()
                && dir.path().join("used").join(MARK).exists()
        );
    }
}
