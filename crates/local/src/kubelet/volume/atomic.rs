//! Atomically replaces all files of a volume.
//!
//! As in the kubelet: the files are in a directory whose name starts with two dots, `..data` is a link to it
//! that is replaced atomically, and each visible name is a link through `..data`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;

use super::payload::File;

const DATA: &str = "..data";

/// Makes the volume contain exactly these files. Returns whether anything changed.
pub(crate) fn write(dir: &Path, files: &[File]) -> io::Result<bool> {
    fs::create_dir_all(dir)?;
    let current = fs::read_link(dir.join(DATA)).ok();
    if current.as_ref().is_some_and(|name| holds(&dir.join(name), files)) {
        link_names(dir, files)?;
        return Ok(false);
    }
    let name = format!("..{}", Timestamp::now().as_nanosecond());
    let fresh = dir.join(&name);
    for file in files {
        let path = fresh.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
    }
    fs::create_dir_all(&fresh)?;
    let link = dir.join("..data_tmp");
    let _ = fs::remove_file(&link);
    symlink(&name, &link)?;
    fs::rename(&link, dir.join(DATA))?;
    link_names(dir, files)?;
    remove_others(dir, &name)?;
    Ok(true)
}

/// Whether a directory contains exactly these files.
fn holds(dir: &Path, files: &[File]) -> bool {
    let same = |file: &File| {
        let path = dir.join(&file.path);
        let mode = fs::metadata(&path).map(|metadata| metadata.permissions().mode() & 0o777);
        mode.is_ok_and(|mode| mode == file.mode) && fs::read(&path).ok() == Some(file.bytes.clone())
    };
    let wanted: BTreeSet<PathBuf> = files.iter().map(|file| dir.join(&file.path)).collect();
    files.iter().all(same) && all_files(dir).into_iter().all(|path| wanted.contains(&path))
}

fn all_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
}

/// Creates a link for each first path component; removes stale links.
fn link_names(dir: &Path, files: &[File]) -> io::Result<()> {
    let first = |file: &File| file.path.split('/').next().map(OsString::from);
    let wanted: BTreeSet<OsString> = files.iter().filter_map(first).collect();
    for name in &wanted {
        let target = Path::new(DATA).join(name);
        let at = dir.join(name);
        if fs::read_link(&at).ok().as_ref() != Some(&target) {
            let _ = fs::remove_file(&at);
            symlink(target, at)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let own = name.to_string_lossy().starts_with("..");
        if !own && !wanted.contains(&name) && entry.file_type()?.is_symlink() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes leftovers of earlier writes, including interrupted ones.
fn remove_others(dir: &Path, current: &str) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("..") && name != current && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Vec<File> {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
            mode: 0o640,
        };
        pairs.iter().map(file).collect()
    }

    #[test]
    fn files_are_seen_under_their_names_and_follow_changes() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        assert!(write(dir.path(), &files(&[("a", "1"), ("sub/b", "2")])).unwrap());
        assert_eq!((read("a").as_deref(), read("sub/b").as_deref()), (Some("1"), Some("2")));
        let mode = fs::metadata(dir.path().join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);

        assert!(!write(dir.path(), &files(&[("a", "1"), ("sub/b", "2")])).unwrap(), "no change");
        assert!(write(dir.path(), &files(&[("a", "3"), ("c", "4")])).unwrap());
        assert_eq!((read("a").as_deref(), read("c").as_deref()), (Some("3"), Some("4")));
        assert_eq!(read("sub/b"), None);
        let hidden = fs::read_dir(dir.path()).unwrap().flatten();
        let hidden = hidden.filter(|entry| entry.file_name().to_string_lossy().starts_with(".."));
        assert_eq!(hidden.count(), 2, "the link and one directory");
    }

    #[test]
    fn an_empty_volume_is_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        assert!(write(&path, &[]).unwrap());
        assert!(!write(&path, &[]).unwrap());
        assert!(path.join(DATA).is_dir());
    }

    #[test]
    fn what_an_interrupted_write_left_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        symlink("..gone", dir.path().join("..data_tmp")).unwrap();
        fs::create_dir(dir.path().join("..123")).unwrap();
        symlink("..gone", dir.path().join(DATA)).unwrap();
        assert!(write(dir.path(), &files(&[("a", "1")])).unwrap());
        assert!(!dir.path().join("..123").exists());
    }
}
