//! Atomic file writes: readers see the old content or the new one, whenever the writer is killed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a completed write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// The exit of the process: nothing is synced to disk.
    Process,
    /// A crash of the machine: the file and its directory are synced.
    Machine,
}

/// Readable by this user only.
pub const PRIVATE: u32 = 0o600;

/// Readable by all users.
pub const PUBLIC: u32 = 0o644;

/// Replaces the file, or creates it, by a rename of a temporary file with this mode.
///
/// # Errors
/// If the directory cannot be written. The old content stays then, and no temporary file.
pub fn write(path: &Path, content: &[u8], mode: u32, survives: Survives) -> io::Result<()> {
    let new = temporary(path);
    let write = || {
        // A file that a killed process with our id left there may have another mode.
        ignore_absent(fs::remove_file(&new))?;
        let mut file = File::options().create_new(true).write(true).mode(mode).open(&new)?;
        file.write_all(content)?;
        if survives == Survives::Machine {
            file.sync_all()?;
        }
        fs::rename(&new, path)
    };
    write().inspect_err(|_| _ = fs::remove_file(&new))?;
    match survives {
        Survives::Machine => sync_directory(path),
        Survives::Process => Ok(()),
    }
}

/// A name beside the file that no other writer uses, neither another process nor another thread.
fn temporary(path: &Path) -> PathBuf {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{}-{write}", std::process::id()));
    PathBuf::from(name)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// A file that does not exist is not an error.
///
/// # Errors
/// Every other error.
pub fn ignore_absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_has_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (content, survives) in [("long text", Survives::Process), ("text", Survives::Machine)] {
            fs::write(&path, "before").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(PUBLIC)).unwrap();
            write(&path, content.as_bytes(), PRIVATE, survives).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_failed_write_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directory");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, b"text", PUBLIC, Survives::Process).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
