//! A class archive (AppCDS), which reduces the start time of a node by a third.
//!
//! The JVM can write the classes of a run to a file and map them into later runs, instead of parsing and
//! verifying the jars again. Such a file fits one build of Java and one list of jars; the JVM compares both
//! and ignores an archive that does not fit.
//!
//! 1. An archive is an optimization, never a precondition. Whatever is wrong with it, the node starts.
//! 2. It appears atomically: one process at a time writes it under another name and renames it.
//! 3. A JVM crashes on a truncated archive, so the size is recorded, and an archive of another size is not
//!    used. An archive on which a JVM crashed is not used again.

mod make;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use make::{ArchiveError, ArchiveOptions, make_class_archive};

/// Prefixes of options with which a user configures archives.
const OTHER_PLANS: [&str; 5] = [
    "-Xshare",
    "-XX:SharedArchiveFile",
    "-XX:ArchiveClassesAtExit",
    "-XX:+AutoCreateSharedArchive",
    "-XX:AOT",
];

/// Exit codes of a crashed JVM: ABRT, BUS or SEGV.
const CRASHED: [u8; 3] = [128 + 6, 128 + 7, 128 + 11];

/// Where the archive of one Kafka and one Java is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveFile {
    dir: PathBuf,
    name: String,
    /// Where a note is left if `dir` is read-only, as in an image. In a pod it is emptied with the pod.
    notes: PathBuf,
}

impl ArchiveFile {
    /// `kafka` and `java` are versions.
    pub(crate) fn new(dir: &Path, kafka: &str, java: &str) -> Self {
        let fit = |c: char| if c.is_ascii_alphanumeric() || "+-.".contains(c) { c } else { '_' };
        let name = format!("node-{kafka}-{java}").chars().map(fit).collect();
        Self { dir: dir.to_owned(), name, notes: std::env::temp_dir() }
    }

    /// A file of this archive.
    pub(crate) fn path(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.name))
    }

    /// The note that a JVM crashed on the archive.
    fn note(&self) -> PathBuf {
        self.notes.join(format!("{}.crashed", self.name))
    }

    /// The archive, if it exists and is usable.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        if self.note().exists() {
            return None;
        }
        let archive = self.path("jsa");
        let expected = fs::read_to_string(self.path("size")).ok()?;
        let size = archive.metadata().ok()?.len();
        (expected.trim().parse() == Ok(size)).then_some(archive)
    }

    /// Installs a file that a JVM wrote as the archive.
    pub(crate) fn take(&self, new: &Path) -> io::Result<PathBuf> {
        let file = File::open(new)?;
        let size = file.metadata()?.len();
        if size == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        file.sync_all()?;
        // Without its size the old archive is not used any more, and the new one not yet.
        self.forget()?;
        fs::rename(new, self.path("jsa"))?;
        fs::write(self.path("size"), format!("{size}\n"))?;
        Ok(self.path("jsa"))
    }

    /// Stops using the archive.
    pub(crate) fn forget(&self) -> io::Result<()> {
        match fs::remove_file(self.path("size")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until no other process creates the archive. Others wait until the file is closed.
    pub(crate) fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.dir)?;
        let lock = File::create(self.path("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Checks the exit code of a JVM that used the archive.
    pub(crate) fn judge(&self, code: u8) {
        if !CRASHED.contains(&code) {
            return;
        }
        let disabled = self.forget().or_else(|_| fs::write(self.note(), ""));
        match disabled {
            Ok(()) => tracing::warn!("Kafka's JVM crashed; its class archive is not used again"),
            Err(error) => {
                tracing::warn!(%error, "Kafka's JVM crashed, and its class archive cannot be disabled")
            }
        }
    }
}

/// Whether the user's options configure archives.
pub(crate) fn has_other_plans(options: &[String]) -> bool {
    options.iter().any(|option| OTHER_PLANS.iter().any(|plan| option.starts_with(plan)))
}

/// JVM options to use an archive. The JVM does not report one that does not fit.
pub(crate) fn read_options(archive: &Path) -> Vec<String> {
    let quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"];
    let mut options = vec![format!("-XX:SharedArchiveFile={}", archive.display())];
    options.extend(["-Xshare:auto"].into_iter().chain(quiet).map(str::to_owned));
    options
}

/// The build of a Java installation, from its `release` file. `None` if there is none.
pub(crate) fn java_build(java: &Path) -> Option<String> {
    let program = match java.components().count() {
        1 => search_path(java)?,
        _ => java.to_owned(),
    };
    // The program in the path is usually a link.
    let program = program.canonicalize().ok()?;
    let release = fs::read_to_string(program.parent()?.parent()?.join("release")).ok()?;
    let value = |key: &str| {
        let mut lines = release.lines();
        lines
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .map(|v| v.trim_matches('"'))
    };
    let build = value("JAVA_RUNTIME_VERSION").or_else(|| value("JAVA_VERSION"))?;
    Some(format!("{build}-{}", value("OS_ARCH").unwrap_or("any")))
}

fn search_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &Path) -> ArchiveFile {
        ArchiveFile::new(dir, "4.3.1", "17.0.15+6/x")
    }

    #[test]
    fn an_archive_counts_only_at_its_full_size() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let archive = dir.path().join("node-4.3.1-17.0.15+6_x.jsa");
        assert_eq!(place.find(), None);
        fs::write(&archive, "classes").unwrap();
        assert_eq!(place.find(), None);
        fs::write(place.path("new"), "classes!").unwrap();
        assert_eq!(place.take(&place.path("new")).unwrap(), archive);
        assert_eq!(place.find(), Some(archive.clone()));
        fs::write(&archive, "class").unwrap();
        assert_eq!(place.find(), None);
    }

    #[test]
    fn an_empty_file_is_no_archive() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        fs::write(place.path("new"), "").unwrap();
        assert!(place.take(&place.path("new")).is_err());
        assert!(place.take(&place.path("none")).is_err());
        assert_eq!(place.find(), None);
    }

    #[test]
    fn an_archive_on_which_a_jvm_crashed_is_not_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        fs::write(place.path("new"), "classes").unwrap();
        place.take(&place.path("new")).unwrap();
        for code in [0, 1, 3, 137, 143] {
            place.judge(code);
            assert!(place.find().is_some(), "{code}");
        }
        place.judge(134);
        assert_eq!(place.find(), None);
        place.judge(139);
    }

    #[test]
    fn an_archive_of_an_image_on_which_a_jvm_crashed_is_not_used_again_either() {
        let (dir, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = ArchiveFile { notes: notes.path().to_owned(), ..place(dir.path()) };
        fs::write(place.path("jsa"), "classes").unwrap();
        // What cannot be removed, even by root, stands for a file of a read-only file system.
        fs::write(place.path("size"), "7").unwrap();
        assert!(place.find().is_some());
        place.judge(143);
        assert!(place.find().is_some());
        fs::remove_file(place.path("size")).unwrap();
        fs::create_dir(place.path("size")).unwrap();
        place.judge(134);
        fs::remove_dir(place.path("size")).unwrap();
        fs::write(place.path("size"), "7").unwrap();
        assert_eq!(place.find(), None);
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir.path().join("new"));
        let first = place.lock().unwrap();
        let second = File::open(place.path("lock")).unwrap();
        assert!(second.try_lock().is_err());
        drop(first);
        assert!(second.try_lock().is_ok());
    }

    #[test]
    fn a_java_is_known_by_the_file_that_it_brings() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("java");
        fs::create_dir_all(home.join("bin")).unwrap();
        let program = home.join("bin/java");
        assert_eq!(java_build(&program), None);
        fs::write(&program, "").unwrap();
        assert_eq!(java_build(&program), None);
        fs::write(home.join("release"), "JAVA_VERSION=\"21\"\n").unwrap();
        assert_eq!(java_build(&program).as_deref(), Some("21-any"));
        let text = "JAVA_RUNTIME_VERSION=\"21+35\"\nJAVA_VERSION=\"21\"\nOS_ARCH=\"aarch64\"\n";
        fs::write(home.join("release"), text).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&program, &link).unwrap();
        assert_eq!(java_build(&link).as_deref(), Some("21+35-aarch64"));
    }

    #[test]
    fn options_of_the_users_own_are_seen() {
        let owned = |options: &[&str]| options.iter().map(|&o| o.to_owned()).collect::<Vec<_>>();
        assert!(has_other_plans(&owned(&["-Xmx1g", "-Xshare:off"])));
        assert!(has_other_plans(&owned(&["-XX:ArchiveClassesAtExit=x"])));
        assert!(!has_other_plans(&owned(&["-Xmx1g", "-Dx=-Xshare:off"])));
    }
}
