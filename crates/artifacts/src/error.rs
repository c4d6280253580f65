//! What can go wrong while getting a program: one sentence each, which says what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::version::{InvalidVersion, KafkaVersion};

/// Why there is no Kafka home, or no Java to run it.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Neither `JAVA_HOME` nor `PATH` has a `java`.
    #[error(
        "Java was not found: install a JDK 17 or newer (Debian: apt-get install \
         openjdk-17-jre-headless) or set JAVA_HOME"
    )]
    JavaMissing,
    /// `JAVA_HOME` is set, but there is no `bin/java` in it.
    #[error(
        "JAVA_HOME is {0:?}, which has no bin/java: point it at a JDK 17 or newer, or unset it"
    )]
    JavaHomeWrong(PathBuf),
    /// A Java that Kafka does not run on.
    #[error(
        "{program:?} is Java {major}, and Kafka needs 17 or newer: install a newer JDK (Debian: \
         apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )]
    JavaTooOld {
        /// The program that was asked.
        program: PathBuf,
        /// Its major version.
        major: u32,
    },
    /// `java -version` failed or said nothing that looks like a version.
    #[error(
        "{program:?} -version did not name a version (\"{answer}\"): repair that Java or set \
         JAVA_HOME to another"
    )]
    JavaBroken {
        /// The program that was asked.
        program: PathBuf,
        /// The first line of the answer.
        answer: String,
    },
    /// No `mvn` in `PATH`.
    #[error(
        "Maven was not found, and Kafka is fetched with it: install it (Debian: apt-get install \
         maven), or set GREGOR_KAFKA_HOME to an unpacked Kafka"
    )]
    MavenMissing,
    /// Maven could not reach a repository.
    #[error(
        "Maven could not get Kafka {version}; check the network and the mirrors in \
         ~/.m2/settings.xml, then run again (Maven said: {line})"
    )]
    Unreachable {
        /// The version asked for.
        version: KafkaVersion,
        /// Maven's own words.
        line: String,
    },
    /// The repository answered that there is no such release.
    #[error(
        "there is no Kafka {version} in the Maven repository; ask for a released version, such as \
         {} (Maven said: {line})",
        KafkaVersion::DEFAULT_TEXT
    )]
    UnknownVersion {
        /// The version asked for.
        version: KafkaVersion,
        /// Maven's own words.
        line: String,
    },
    /// Maven failed in some other way, or was interrupted.
    #[error(
        "Maven ended with {status}; run again, or run it by hand to see more (Maven said: {line})"
    )]
    MavenFailed {
        /// Its exit status in words.
        status: String,
        /// The most telling line of its output.
        line: String,
    },
    /// Not `x.y.z`, or before the floor.
    #[error(transparent)]
    InvalidVersion(#[from] InvalidVersion),
    /// `GREGOR_KAFKA_HOME` points at something else.
    #[error(
        "GREGOR_KAFKA_HOME is {root:?}, which is not a Kafka home ({reason}): point it at an \
         unpacked Kafka, or unset it to have one fetched"
    )]
    NotAKafkaHome {
        /// The directory.
        root: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `GREGOR_KAFKA_HOME` has another version than the one asked for.
    #[error(
        "Kafka {wanted} was asked for, but GREGOR_KAFKA_HOME ({root:?}) is Kafka {found}: unset it \
         to have {wanted} fetched"
    )]
    VersionDiffers {
        /// The version asked for.
        wanted: KafkaVersion,
        /// The version in the home.
        found: KafkaVersion,
        /// The home.
        root: PathBuf,
    },
    /// A file of a home is missing, cut short or not the one that was fetched.
    #[error("the Kafka home {root:?} is damaged ({reason}): delete it and fetch it again")]
    Damaged {
        /// The home.
        root: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No home directory, so no cache directory.
    #[error("there is no cache directory for this user: set GREGOR_CACHE_DIR to one")]
    NoCacheDir,
    /// The file system or the kernel said no.
    #[error("could not {verb} {path:?}; check the free space and the permissions there")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl FetchError {
    /// For `map_err`: the operation and the file that the error is about.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }
}
