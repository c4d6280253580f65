//! Files that are there as a whole or not at all.
//!
//! What is written here has to survive the death of a process, not of the machine: with the machine
//! all containers end too. So nothing is synchronized to the disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// For what only we read. Values of Secrets are among it.
const PRIVATE: u32 = 0o600;

/// Writes a file beside its place and moves it there.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let _ = fs::remove_file(&beside);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&beside)?;
    file.write_all(bytes)?;
    fs::rename(&beside, path)
}

/// Writes a value as JSON, as a whole or not at all.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    write_atomic(path, &serde_json::to_vec_pretty(value)?)
}

/// Reads a value; `None` if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value.json");
        assert_eq!(read_json::<Vec<u8>>(&path).unwrap(), None);
        for value in [vec![1u8, 2], vec![3]] {
            write_json(&path, &value).unwrap();
            assert_eq!(read_json::<Vec<u8>>(&path).unwrap(), Some(value));
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_makes_no_sense_is_an_error_and_not_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value.json");
        fs::write(&path, "{").unwrap();
        assert!(read_json::<Vec<u8>>(&path).is_err());
    }
}
