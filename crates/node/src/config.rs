//! Reads the configuration directory. The crate's documentation lists its files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use control::node::{InvalidRoles, Roles};
use control::quorum::format::QuorumMode;
use control::quorum::{InitialControllers, InvalidInitialControllers};
use model::{ClusterId, InvalidId, NodeId};

use crate::properties::Properties;

/// Kafka's default for `metadata.max.idle.interval.ms`.
const BEAT_MS_DEFAULT: u64 = 500;

/// The file with the user's metrics rules.
const METRICS: &str = "metrics-config.json";

/// What the node program needs from the configuration directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file with the server properties.
    pub server_file: PathBuf,
    pub roles: Roles,
    pub node: NodeId,
    /// Directory of the metadata log.
    pub metadata_dir: PathBuf,
    /// The other log directories.
    pub other_dirs: Vec<PathBuf>,
    /// How often the active controller writes a no-op record when it is idle.
    pub beat_ms: Option<u64>,
    pub cluster: ClusterId,
    /// Metadata version for formatting empty disks.
    pub metadata_version: String,
    pub mode: QuorumMode,
    /// The controllers that the quorum was bootstrapped with.
    pub initial: InitialControllers,
    /// Whether this node has been observed with its directory id from `initial`, or in a static quorum at
    /// all.
    pub seen: Option<bool>,
    /// Uid of the pod in which an empty metadata disk of this controller of a static quorum may be formatted.
    pub replaced: Option<String>,
    /// Kafka's log4j2 configuration.
    pub log4j_file: Option<PathBuf>,
    pub jvm_options: Vec<String>,
    /// The user's metrics rules.
    pub metrics_file: Option<PathBuf>,
}

/// Why a configuration directory is not usable.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that must be there is not, or cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file that holds one value is empty.
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    #[error("{} does not set {key}", path.display())]
    NoProperty {
        /// The file.
        path: PathBuf,
        /// The property.
        key: &'static str,
    },
    /// A property with a placeholder that only Kafka could resolve.
    #[error("{key} in {} must be a literal value, without ${{…}}", path.display())]
    Indirect {
        /// The file.
        path: PathBuf,
        /// The property.
        key: &'static str,
    },
    #[error("{} is not valid", path.display())]
    Id {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: InvalidId,
    },
    #[error("process.roles in {} is not valid", path.display())]
    Roles {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: InvalidRoles,
    },
    #[error("{} is not valid", path.display())]
    Initial {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: InvalidInitialControllers,
    },
    #[error("{} is \"{found}\"; expected {expected}", path.display())]
    Word {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What it can say.
        expected: &'static str,
    },
    #[error("{key} in {} is not a number of milliseconds", path.display())]
    Number {
        /// The file.
        path: PathBuf,
        /// The property.
        key: &'static str,
    },
}

impl Config {
    /// Reads a configuration directory.
    ///
    /// # Errors
    /// If a value is missing or invalid.
    pub fn read(dir: &Path) -> Result<Self, ConfigError> {
        let dir = Dir(dir);
        let server = Server::read(dir.0.join("server.config"))?;
        let (metadata_dir, other_dirs) = server.log_dirs()?;
        let cluster = dir.value("cluster.id")?;
        let cluster = ClusterId::new(cluster)
            .map_err(|source| ConfigError::Id { path: dir.0.join("cluster.id"), source })?;
        let roles = server.require("process.roles")?;
        let roles = Roles::from_str(roles)
            .map_err(|source| ConfigError::Roles { path: server.path.clone(), source })?;
        Ok(Self {
            roles,
            node: server.node_id()?,
            metadata_dir,
            other_dirs,
            beat_ms: server.beat_ms()?,
            cluster,
            metadata_version: dir.value("metadata.version")?,
            mode: dir.quorum_mode()?,
            initial: dir.initial_controllers()?,
            seen: dir.word("controller.seen")?,
            replaced: dir.optional("controller.replaced")?,
            log4j_file: Some(dir.0.join("log4j2.properties")).filter(|file| file.exists()),
            jvm_options: dir.jvm_options()?,
            metrics_file: dir.optional(METRICS)?.map(|_| dir.0.join(METRICS)),
            server_file: server.path,
        })
    }
}

/// A directory with one file per key.
struct Dir<'a>(&'a Path);

impl Dir<'_> {
    /// The value of a required key.
    fn value(&self, key: &str) -> Result<String, ConfigError> {
        let path = self.0.join(key);
        match read(&path)?.trim() {
            "" => Err(ConfigError::Empty(path)),
            value => Ok(value.to_owned()),
        }
    }

    /// The value of an optional key; an empty value counts as absent.
    fn optional(&self, key: &str) -> Result<Option<String>, ConfigError> {
        let path = self.0.join(key);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ConfigError::Read { path, source }),
        }
    }

    fn quorum_mode(&self) -> Result<QuorumMode, ConfigError> {
        match self.optional("quorum.mode")?.as_deref() {
            Some("static") => Ok(QuorumMode::Static),
            Some("dynamic") => Ok(QuorumMode::Dynamic),
            None | Some("unknown") => Ok(QuorumMode::Unknown),
            Some(found) => Err(ConfigError::Word {
                path: self.0.join("quorum.mode"),
                found: found.to_owned(),
                expected: "static, dynamic or unknown",
            }),
        }
    }

    /// A boolean.
    fn word(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        match self.optional(key)?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(found) => Err(ConfigError::Word {
                path: self.0.join(key),
                found: found.to_owned(),
                expected: "true or false",
            }),
        }
    }

    fn initial_controllers(&self) -> Result<InitialControllers, ConfigError> {
        let text = self.optional("initial.controllers")?.unwrap_or_default();
        text.parse().map_err(|source| ConfigError::Initial {
            path: self.0.join("initial.controllers"),
            source,
        })
    }

    fn jvm_options(&self) -> Result<Vec<String>, ConfigError> {
        let text = self.optional("jvm.options")?.unwrap_or_default();
        let lines = text.lines().map(str::trim);
        let options = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(options.map(str::to_owned).collect())
    }
}

/// The server properties that the node program reads.
struct Server {
    path: PathBuf,
    properties: Properties,
}

impl Server {
    fn read(path: PathBuf) -> Result<Self, ConfigError> {
        let properties = Properties::parse(&read(&path)?);
        Ok(Self { path, properties })
    }

    fn find(&self, key: &'static str) -> Result<Option<&str>, ConfigError> {
        match self.properties.get(key) {
            Some(value) if value.contains("${") => {
                Err(ConfigError::Indirect { path: self.path.clone(), key })
            }
            value => Ok(value),
        }
    }

    fn require(&self, key: &'static str) -> Result<&str, ConfigError> {
        let missing = || ConfigError::NoProperty { path: self.path.clone(), key };
        self.find(key)?.ok_or_else(missing)
    }

    fn node_id(&self) -> Result<NodeId, ConfigError> {
        let id = self.require("node.id")?;
        id.parse().map_err(|source| ConfigError::Id { path: self.path.clone(), source })
    }

    /// The directory of the metadata log, and the other log directories.
    fn log_dirs(&self) -> Result<(PathBuf, Vec<PathBuf>), ConfigError> {
        let dirs = match self.find("log.dirs")? {
            Some(dirs) => dirs,
            None => self.find("log.dir")?.unwrap_or_default(),
        };
        let dirs = dirs.split(',').map(str::trim).filter(|dir| !dir.is_empty());
        let mut dirs: Vec<_> = dirs.map(PathBuf::from).collect();
        let missing = || ConfigError::NoProperty { path: self.path.clone(), key: "log.dirs" };
        let metadata = match self.find("metadata.log.dir")? {
            Some(dir) => PathBuf::from(dir),
            None => dirs.first().ok_or_else(missing)?.clone(),
        };
        dirs.retain(|dir| *dir != metadata);
        Ok((metadata, dirs))
    }

    fn beat_ms(&self) -> Result<Option<u64>, ConfigError> {
        let key = "metadata.max.idle.interval.ms";
        let Some(text) = self.find(key)? else { return Ok(Some(BEAT_MS_DEFAULT)) };
        let bad = |_| ConfigError::Number { path: self.path.clone(), key };
        let beat: u64 = text.parse().map_err(bad)?;
        Ok(Some(beat).filter(|beat| *beat != 0))
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use control::cluster::jvm;
    use control::cluster::spec::JvmSettings;
    use proptest::prelude::*;

    use super::*;

    const SERVER: &str = "node.id=3\nprocess.roles=controller\nlog.dirs=/a, /b\n";

    fn write(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let all =
            [("server.config", SERVER), ("cluster.id", "ours\n"), ("metadata.version", "4.3-IV0")];
        for (name, text) in all.iter().chain(files) {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    /// The error for a directory with these files, with its causes and without the directory's path.
    fn error(files: &[(&str, &str)]) -> String {
        let dir = write(files);
        let error = Config::read(dir.path()).unwrap_err();
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        text.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn the_least_that_is_needed() {
        let dir = write(&[]);
        let config = Config::read(dir.path()).unwrap();
        assert_eq!(config.node.get(), 3);
        assert_eq!(config.roles, Roles::Controller);
        assert_eq!(config.metadata_dir, Path::new("/a"));
        assert_eq!(config.other_dirs, [Path::new("/b")]);
        assert_eq!(config.cluster.as_str(), "ours");
        assert_eq!(config.metadata_version, "4.3-IV0");
        assert_eq!((config.mode, config.seen, config.replaced), (QuorumMode::Unknown, None, None));
        assert_eq!(config.beat_ms, Some(500));
        assert!(config.initial.is_empty() && config.jvm_options.is_empty());
        assert_eq!((config.log4j_file, config.metrics_file), (None, None));
    }

    #[test]
    fn everything() {
        let list = "3@h:9090:r9VGTiw2QUCoDUadCt6q2g";
        let server = format!("{SERVER}metadata.log.dir=/b\nmetadata.max.idle.interval.ms=0\n");
        let dir = write(&[
            ("server.config", &server),
            ("quorum.mode", "dynamic\n"),
            ("initial.controllers", list),
            ("controller.seen", "false"),
            ("controller.replaced", "uid-1\n"),
            ("log4j2.properties", ""),
            ("metrics-config.json", "{}"),
            ("jvm.options", "# heap\n-Xmx1g\n\n -Da=b c \n"),
        ]);
        let config = Config::read(dir.path()).unwrap();
        assert_eq!(config.metadata_dir, Path::new("/b"));
        assert_eq!(config.other_dirs, [Path::new("/a")]);
        assert_eq!((config.mode, config.seen), (QuorumMode::Dynamic, Some(false)));
        assert_eq!(config.replaced.as_deref(), Some("uid-1"));
        assert_eq!(config.initial.to_string(), list);
        assert_eq!(config.beat_ms, None);
        assert_eq!(config.log4j_file, Some(dir.path().join("log4j2.properties")));
        assert_eq!(config.jvm_options, ["-Xmx1g", "-Da=b c"]);
    }

    #[test]
    fn errors_name_the_file_and_the_property() {
        let server = |text: &str| error(&[("server.config", text)]);
        assert_eq!(error(&[("cluster.id", " \n")]), "cluster.id is empty");
        assert_eq!(server("log.dirs=/a"), "server.config does not set process.roles");
        assert_eq!(
            server("process.roles=broker\nlog.dirs=/a"),
            "server.config does not set node.id"
        );
        assert_eq!(
            server("process.roles=broker\nnode.id=1"),
            "server.config does not set log.dirs"
        );
        assert_eq!(
            server("process.roles=boss\nnode.id=1\nlog.dirs=/a"),
            "process.roles in server.config is not valid: \"boss\" is neither broker nor controller \
             nor both"
        );
        assert_eq!(
            server("log.dirs=${env:DIRS}"),
            "log.dirs in server.config must be a literal value, without ${…}"
        );
        assert_eq!(
            error(&[("quorum.mode", "dynamo")]),
            "quorum.mode is \"dynamo\"; expected static, dynamic or unknown"
        );
        assert_eq!(
            error(&[("controller.seen", "yes")]),
            "controller.seen is \"yes\"; expected true or false"
        );
        assert_eq!(
            error(&[("initial.controllers", "3@h")]),
            "initial.controllers is not valid: \"3@h\" is not ID@HOST:PORT:DIRECTORY-ID"
        );
        let empty = tempfile::tempdir().unwrap();
        let text = Config::read(empty.path()).unwrap_err().to_string();
        assert!(text.starts_with("cannot read ") && text.ends_with("server.config"), "{text}");
    }

    /// Names and values with characters that end lines, arguments or names.
    fn hostile() -> impl Strategy<Value = String> {
        let pieces = [
            "\n",
            "\r",
            "\0",
            "\u{85}",
            "\u{2028}",
            " ",
            "\t",
            "=",
            "#",
            "\"",
            "\\",
            "-javaagent:x",
            "@file",
            "$(x)",
            "${env:A}",
            ";",
            "é",
            "A",
            "b.c",
            "1g",
            "true",
        ];
        let piece = proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned);
        let pieces = proptest::collection::vec(prop_oneof![piece, any::<String>()], 0..4);
        prop_oneof![pieces.prop_map(|pieces| pieces.concat()), "[A-Za-z0-9]{1,8}"]
    }

    proptest! {
        #[test]
        fn an_option_of_the_users_is_one_argument_or_is_named_as_left_out(
            heap in proptest::option::of(hostile()),
            xx in proptest::collection::btree_map(hostile(), hostile(), 0..4),
            properties in proptest::collection::vec((hostile(), hostile()), 0..4),
        ) {
            let settings = JvmSettings {
                heap_max: heap,
                xx,
                system_properties: properties.clone(),
                ..JvmSettings::default()
            };
            let options = jvm::options(&settings, Some(1 << 30));
            let dir = write(&[("jvm.options", &options.render())]);
            let read = Config::read(dir.path()).unwrap().jvm_options;
            prop_assert_eq!(&read, &options.lines);
            for option in &read {
                let begins = ["-Xms", "-Xmx", "-XX:", "-D"].iter().any(|one| option.starts_with(one));
                prop_assert!(begins && !option.contains(['\0', '\n', '\r']), "{:?}", option);
            }
            // As Java parses it: the name ends at the first `=`.
            let found = read.iter().filter_map(|option| option.strip_prefix("-D")?.split_once('='));
            let found: Vec<_> = found.collect();
            let left_out = |name: &str| {
                let plain: String =
                    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                options.left_out.contains(&format!("-D{plain}"))
            };
            for pair in &found {
                prop_assert!(properties.iter().any(|(name, value)| (&**name, &**value) == *pair));
            }
            for (name, value) in &properties {
                prop_assert!(found.contains(&(name, value)) || left_out(name), "{:?}", name);
            }
        }
    }
}
