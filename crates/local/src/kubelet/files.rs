//! JSON files of the kubelet.
//!
//! They must survive the exit of a process, not a crash of the machine, with which all containers end too. They are
//! private, because they can contain values of Secrets.

use std::fs;
use std::io;
use std::path::Path;

use host::file::{self, Survives};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Atomically writes a value as JSON.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(value)?;
    file::write(path, &text, file::PRIVATE, Survives::Process)
}

/// Parses a value; `None` if the file does not exist.
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
    fn a_file_that_is_not_json_is_an_error_and_not_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value.json");
        fs::write(&path, "{").unwrap();
        assert!(read_json::<Vec<u8>>(&path).is_err());
    }
}
