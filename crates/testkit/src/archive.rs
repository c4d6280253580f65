//! A class archive, which halves the time that a node needs to start.
//!
//! The JVM can write the classes of a run to a file and map them into the next run, instead of
//! parsing and verifying the jars again. Such a file fits one build of Java and one directory of
//! jars, so it is kept in the Kafka home, named after the build. It is made by the first cluster
//! that finds none, and only in a home of our cache: others are not ours to write in.
//!
//! An archive is an improvement and never a condition: when one cannot be made, a note says so, it
//! is not tried again, and nodes start without.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use artifacts::java::Java;
use artifacts::kafka::{KafkaHome, Source};

use crate::cluster::Cluster;
use crate::config::Security;

/// What the nodes of a cluster have to do with an archive.
#[derive(Debug, Clone)]
pub(crate) enum ClassArchive {
    /// Nothing.
    None,
    /// They start from it.
    Read(PathBuf),
    /// They write it when they stop.
    Write(PathBuf),
}

impl ClassArchive {
    /// JVM options for programs that may use the archive. An archive that does not fit is ignored,
    /// and nothing is said about it: some tests take a warning in a log for a failure.
    pub(crate) fn read_options(&self) -> Vec<String> {
        let Self::Read(file) = self else { return Vec::new() };
        let quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off"];
        let mut options = vec![format!("-XX:SharedArchiveFile={}", file.display())];
        options.extend(["-Xshare:auto"].into_iter().chain(quiet).map(str::to_owned));
        options
    }

    /// The JVM option for the node that makes the archive.
    pub(crate) fn write_option(&self) -> Option<String> {
        let Self::Write(file) = self else { return None };
        Some(format!("-XX:ArchiveClassesAtExit={}", file.display()))
    }
}

/// The archive for that Kafka and that Java; makes it if there is none.
pub(crate) async fn find_or_make(kafka: &KafkaHome, java: &Java) -> anyhow::Result<ClassArchive> {
    if kafka.source != Source::Cache {
        return Ok(ClassArchive::None);
    }
    let dir = kafka.root.join("cds");
    let files = Files { dir: dir.clone(), build: java.build.clone() };
    if let Some(known) = files.known() {
        return Ok(known);
    }
    fs::create_dir_all(&dir).with_context(|| format!("could not create {dir:?}"))?;
    // One process makes it; the others wait here and find it.
    let lock = File::create(files.path("lock")).context("could not open a lock file")?;
    let locked = move || lock.lock().map(|()| lock);
    let _lock = tokio::task::spawn_blocking(locked).await?.context("could not lock a file")?;
    if let Some(known) = files.known() {
        return Ok(known);
    }
    match make(kafka, java, &files).await {
        Ok(()) => Ok(files.known().unwrap_or(ClassArchive::None)),
        Err(error) => {
            tracing::warn!("nodes start without a class archive: {error:#}");
            let note = files.path("none");
            fs::write(&note, format!("{error:#}\n"))
                .with_context(|| format!("could not write {note:?}"))?;
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

    /// The archive, or the decision to do without; `None` if neither was made.
    fn known(&self) -> Option<ClassArchive> {
        let archive = self.path("jsa");
        let size = fs::read_to_string(self.path("size")).ok();
        let size: Option<u64> = size.and_then(|text| text.trim().parse().ok());
        // A JVM crashes on an archive that was cut short: the one kind of damage it does not see.
        if size.is_some() && size == size_of(&archive) {
            return Some(ClassArchive::Read(archive));
        }
        self.path("none").exists().then_some(ClassArchive::None)
    }
}

fn size_of(file: &Path) -> Option<u64> {
    file.metadata().ok().map(|meta| meta.len())
}

/// Runs one node that loads as many of the classes as a node can, and keeps what it wrote.
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
    sync.with_context(|| format!("could not sync {new:?}"))?;
    fs::rename(&new, files.path("jsa")).context("could not rename the archive")?;
    fs::write(files.path("size"), format!("{size}\n")).context("could not write a size")
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
