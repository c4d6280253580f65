//! A class archive (AppCDS), which halves the start time of a node.
//!
//! The JVM can write the classes of a run to a file and map them into the next run, instead of parsing and
//! verifying the jars again. Such a file fits one build of Java and one list of jars, so it is stored in the
//! Kafka home, named after the build. The first cluster that finds none creates it, and only in a home in our
//! cache: other homes are read-only for us.
//!
//! An archive is an optimization, never a precondition: if it cannot be created, a note is stored, creation
//! is not retried, and nodes start without it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use artifacts::java::Java;
use artifacts::kafka::{KafkaHome, Source};

use crate::cluster::Cluster;
use crate::config::Security;

/// How the nodes of a cluster use a class archive.
#[derive(Debug, Clone)]
pub(crate) enum ClassArchive {
    /// Not at all.
    None,
    /// They start from it.
    Read(PathBuf),
    /// They write it when they stop.
    Write(PathBuf),
}

impl ClassArchive {
    /// JVM options for programs that may use the archive. An archive that does not fit is ignored without a
    /// message: some tests treat warnings in a log as failures.
    pub(crate) fn read_options(&self) -> Vec<String> {
        let Self::Read(file) = self else { return Vec::new() };
        let quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"];
        let mut options = vec![format!("-XX:SharedArchiveFile={}", file.display())];
        options.extend(["-Xshare:auto"].into_iter().chain(quiet).map(str::to_owned));
        options
    }

    /// The JVM option for the node that creates the archive.
    pub(crate) fn write_option(&self) -> Option<String> {
        let Self::Write(file) = self else { return None };
        Some(format!("-XX:ArchiveClassesAtExit={}", file.display()))
    }
}

/// The archive for this Kafka and this Java; creates it if necessary.
pub(crate) async fn find_or_make(kafka: &KafkaHome, java: &Java) -> anyhow::Result<ClassArchive> {
    if kafka.source != Source::Cache {
        return Ok(ClassArchive::None);
    }
    let dir = kafka.root.join("cds");
    let files = Files { dir: dir.clone(), build: java.build.clone() };
    if let Some(known) = files.known() {
        return Ok(known);
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {dir:?}"))?;
    // One process creates it; the others wait here and find it.
    let lock = File::create(files.path("lock")).context("cannot open a lock file")?;
    let locked = move || lock.lock().map(|()| lock);
    let _lock = tokio::task::spawn_blocking(locked).await?.context("cannot lock a file")?;
    if let Some(known) = files.known() {
        return Ok(known);
    }
    match make(kafka, java, &files).await {
        Ok(()) => Ok(files.known().unwrap_or(ClassArchive::None)),
        Err(error) => {
            tracing::warn!("nodes start without a class archive: {error:#}");
            let note = files.path("none");
            fs::write(&note, format!("{error:#}\n"))
                .with_context(|| format!("cannot write {note:?}"))?;
            Ok(ClassArchive::None)
        }
    }
}

/// The files of one build of Java.
struct Files {
    dir: PathBuf,
    build: String,
}

impl Files {
    fn path(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.build))
    }

    /// The archive, or the decision to do without; `None` if neither exists.
    fn known(&self) -> Option<ClassArchive> {
        let archive = self.path("jsa");
        let size = fs::read_to_string(self.path("size")).ok();
        let size: Option<u64> = size.and_then(|text| text.trim().parse().ok());
        // A JVM crashes on a truncated archive: the one kind of damage that it does not detect.
        if size.is_some() && size == size_of(&archive) {
            return Some(ClassArchive::Read(archive));
        }
        self.path("none").exists().then_some(ClassArchive::None)
    }
}

fn size_of(file: &Path) -> Option<u64> {
    file.metadata().ok().map(|meta| meta.len())
}

/// Runs one node that loads as many classes as possible, and keeps the archive that it writes.
async fn make(kafka: &KafkaHome, java: &Java, files: &Files) -> anyhow::Result<()> {
    let new = files.path("new");
    let _ = fs::remove_file(&new);
    let cluster = Cluster::builder()
        .combined(1)
        .security(Security::Tls)
        .sasl_listeners(true)
        .authorizer(true)
        .prepare_with(kafka.clone(), java.clone(), ClassArchive::Write(new.clone()))
        .await?;
    for node in cluster.nodes() {
        node.start().await?;
        node.wait_ready().await?;
        node.stop().await?;
    }
    let size = size_of(&new).context("the node left no archive")?;
    ensure!(size > 0, "the node left an empty archive");
    let sync = File::open(&new).and_then(|file| file.sync_all());
    sync.with_context(|| format!("cannot sync {new:?}"))?;
    fs::rename(&new, files.path("jsa")).context("cannot rename the archive")?;
    fs::write(files.path("size"), format!("{size}\n")).context("cannot write a size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_counts_only_at_its_full_size() {
        let temp = tempfile::tempdir().unwrap();
        let files = Files { dir: temp.path().to_owned(), build: "17.0.15+6".to_owned() };
        assert!(files.known().is_none());
        fs::write(files.path("jsa"), "classes").unwrap();
        assert!(files.known().is_none());
        fs::write(files.path("size"), "7\n").unwrap();
        assert!(matches!(files.known(), Some(ClassArchive::Read(_))));
        fs::write(files.path("jsa"), "class").unwrap();
        assert!(files.known().is_none());
        fs::write(files.path("none"), "why").unwrap();
        assert!(matches!(files.known(), Some(ClassArchive::None)));
    }
}
