//! What the process environment says about where things are, as a value.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{FetchError, sums};

/// Where to look for programs and where to keep files.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `PATH`: where `java`, `mvn` and `go` are looked for.
    pub path: Option<OsString>,
    /// `JAVA_HOME`: wins over `PATH`.
    pub java_home: Option<PathBuf>,
    /// `GREGOR_KAFKA_HOME`: a Kafka that somebody else installed.
    pub kafka_home: Option<PathBuf>,
    /// `KUBEBUILDER_ASSETS`: a directory with the programs of a Kubernetes control plane.
    pub kubernetes_assets: Option<PathBuf>,
    /// `GREGOR_GO`: the program `go`; wins over `PATH`.
    pub go: Option<PathBuf>,
    /// `GREGOR_CACHE_DIR`, or the user's cache directory for Gregor.
    pub cache_dir: Option<PathBuf>,
    /// The pinned SHA-256 sums of Kafka's jars, by version, in the format of `sha256sum`.
    pub pinned_jars: Vec<(String, String)>,
    /// Whether a version of Kafka without pinned sums may be fetched, on the word of the repository alone.
    pub allow_unpinned: bool,
}

impl Environment {
    /// The environment that this process was started with. An empty variable counts as not set.
    #[must_use]
    pub fn from_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let user_cache = || {
            directories::ProjectDirs::from("", "", "gregor").map(|dirs| dirs.cache_dir().to_owned())
        };
        Self {
            path: variable("PATH"),
            java_home: variable("JAVA_HOME").map(PathBuf::from),
            kafka_home: variable("GREGOR_KAFKA_HOME").map(PathBuf::from),
            kubernetes_assets: variable("KUBEBUILDER_ASSETS").map(PathBuf::from),
            go: variable("GREGOR_GO").map(PathBuf::from),
            cache_dir: variable("GREGOR_CACHE_DIR").map(PathBuf::from).or_else(user_cache),
            pinned_jars: sums::KAFKA.map(|(version, text)| (version.into(), text.into())).into(),
            allow_unpinned: false,
        }
    }

    /// The directory that holds one directory per version of a program, as an absolute path: the
    /// tools that fill it are run from elsewhere.
    pub(crate) fn cache(&self, program: &str) -> Result<PathBuf, FetchError> {
        let base = self.cache_dir.as_deref().ok_or(FetchError::NoCacheDir)?;
        let absolute = std::path::absolute(base).map_err(FetchError::io("find", base))?;
        Ok(absolute.join(program))
    }

    /// The first file called `name` in `PATH`.
    pub(crate) fn find_program(&self, name: &str) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        std::env::split_paths(path).map(|dir| dir.join(name)).find(|file| is_program(file))
    }
}

/// Whether this is a file that may be run.
pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
