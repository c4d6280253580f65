//! Atomic file writes: readers see the old content or the new one, whenever the writer is killed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What a completed write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survives {
    /// The exit of the process: nothing is synced to disk.
    Process,
    /// A crash of the machine.
    Machine,
}

/// Readable by this user only.
pub(crate) const PRIVATE: u32 = 0o600;

/// Readable by all users.
pub(crate) const PUBLIC: u32 = 0o644;

/// Writes a temporary file with this mode and renames it.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32, survives: Survives) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".new-{}", std::process::id()));
    let new = PathBuf::from(new);
    let write = || {
        let mut options = File::options();
        let mut file = options.create(true).truncate(true).write(true).mode(mode).open(&new)?;
        file.write_all(content)?;
        if survives == Survives::Machine {
            file.sync_all()?;
        }
        fs::rename(&new, path)
    };
    write().inspect_err(|_| _ = fs::remove_file(&new))
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
