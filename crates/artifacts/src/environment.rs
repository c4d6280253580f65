//! Environment variables that say where programs and files are, as a value.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{FetchError, sums};

/// Where to look for programs and where to keep files.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `PATH`, to find `java`, `mvn` and `go`.
    pub path: Option<OsString>,
    /// `JAVA_HOME`; takes precedence over `PATH`.
    pub java_home: Option<PathBuf>,
    /// `GREGOR_KAFKA_HOME`: an existing Kafka installation.
    pub kafka_home: Option<PathBuf>,
    /// `KUBEBUILDER_ASSETS`: a directory with the programs of a Kubernetes control plane.
    pub kubernetes_assets: Option<PathBuf>,
    /// `GREGOR_GO`: the `go` program; takes precedence over `PATH`.
    pub go: Option<PathBuf>,
    /// `GREGOR_CACHE_DIR`, or Gregor's directory in the user's cache directory.
    pub cache_dir: Option<PathBuf>,
    /// Pinned SHA-256 checksums of Kafka's jars, by version, in `sha256sum` format.
    pub pinned_jars: Vec<(String, String)>,
    /// Whether Kafka versions without pinned checksums may be downloaded.
    pub allow_unpinned: bool,
}

impl Environment {
    /// The environment of this process. An empty variable counts as unset.
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

    /// The directory with one directory per version of a program, as an absolute path: the tools that fill it
    /// run in another working directory.
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

/// Whether this is an executable file.
pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
