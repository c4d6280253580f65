//! Kafka homes: directories with the jars of one Kafka version and a log configuration.
//!
//! A home in the cache appears complete and never changes afterwards, except its log configuration, which
//! follows the program.

use std::fs;
use std::path::{Path, PathBuf};

use host::file::{self, Survives};

use crate::cache::Slot;
pub use crate::cache::Source;
use crate::{
    Environment, Event, FetchError, KafkaVersion, Progress, jars, java, manifest, maven, sums,
};

/// Logs to stdout; the file documents the system properties for its levels.
const LOG4J_CONFIG: &str = include_str!("../kafka/log4j2.properties");

/// Its path in a home that we assembled.
const LOG4J_FILE: &str = "config/log4j2.properties";

/// Prefixes of the jars that every home has; those of Kafka are followed by its version.
const KAFKA_JARS: [&str; 5] = [
    "libs/kafka_2.13-",
    "libs/kafka-clients-",
    "libs/kafka-metadata-",
    "libs/kafka-raft-",
    "libs/kafka-tools-",
];
const OTHER_JARS: [&str; 5] = [
    "libs/slf4j-api-",
    "libs/log4j-core-",
    "libs/log4j-slf4j-impl-",
    "libs/scala-library-",
    AGENT_JAR,
];
const AGENT_JAR: &str = "agents/jmx_prometheus_javaagent-";

/// A directory with one version of Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaHome {
    /// The version of the jars.
    pub version: KafkaVersion,
    /// The directory.
    pub root: PathBuf,
    /// Whether Gregor assembled it or the user provided it.
    pub source: Source,
    log4j_config: PathBuf,
}

impl KafkaHome {
    /// The value of `-cp`: all jars. The JVM expands the `*`.
    #[must_use]
    pub fn class_path(&self) -> String {
        format!("{}/*", self.root.join("libs").display())
    }

    /// The value of `-Dlog4j2.configurationFile`: our configuration, which logs to stdout at the level in
    /// `-Dgregor.log.level`.
    #[must_use]
    pub fn log4j_config(&self) -> &Path {
        &self.log4j_config
    }

    /// The JMX exporter's jar. A home that we did not assemble may have none.
    #[must_use]
    pub fn jmx_agent(&self) -> Option<PathBuf> {
        let names = jars::jar_names(&self.root).ok()?;
        names.iter().find(|name| name.starts_with(AGENT_JAR)).map(|name| self.root.join(name))
    }

    /// SHA-256 checksums of all jars, in the format of the pins.
    pub fn sums(&self) -> Result<String, FetchError> {
        sums::text_of(&self.root)
    }

    /// Reads every jar and compares it with the manifest. A home that we did not assemble has none; its jars
    /// are only checked for completeness.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), FetchError> {
        progress.report(Event::Verifying { files: jars::jar_names(&self.root)?.len() });
        match self.source {
            Source::Given => manifest::Manifest::of(&self.root, &jars::LAYOUT).map(|_| ()),
            Source::Cache => manifest::verify(&self.root, &jars::LAYOUT),
        }
    }
}

/// Returns a home of this version (`None`: that of the provided home, else the default version). It is
/// assembled in the cache if necessary.
///
/// Blocks until then. Of two concurrent processes one assembles, and the other waits and uses the result.
pub fn ensure(
    environment: &Environment,
    version: Option<KafkaVersion>,
    progress: &dyn Progress,
) -> Result<KafkaHome, FetchError> {
    match &environment.kafka_home {
        Some(root) => given_home(environment, root, version),
        None => {
            let version = version.unwrap_or(KafkaVersion::default_version());
            Cached { environment, version, progress }.ensure()
        }
    }
}

/// Checks the home that the user provided.
fn given_home(
    environment: &Environment,
    root: &Path,
    wanted: Option<KafkaVersion>,
) -> Result<KafkaHome, FetchError> {
    let refuse = |reason: &str| FetchError::NotAKafkaHome {
        root: root.to_owned(),
        reason: reason.to_owned(),
    };
    let root = std::path::absolute(root).map_err(FetchError::io("find", root))?;
    let names = jars::jar_names(&root)?;
    let version_after = |prefix: &str| {
        names.iter().find_map(|name| name.strip_prefix(prefix)?.strip_suffix(".jar"))
    };
    let found = version_after("libs/kafka_2.13-")
        .ok_or_else(|| refuse("it has no libs/kafka_2.13-*.jar"))?;
    if version_after("libs/kafka-clients-") != Some(found) {
        return Err(refuse(&format!("it has no libs/kafka-clients-{found}.jar")));
    }
    let found: KafkaVersion = found.parse()?;
    match wanted {
        Some(wanted) if wanted != found => Err(FetchError::VersionDiffers { wanted, found, root }),
        _ => {
            // Ours is stored beside the homes: we do not write to the user's directory.
            let log4j_config = environment.cache("kafka")?.join("log4j2.properties");
            refresh_log4j_config(&log4j_config)?;
            Ok(KafkaHome { version: found, root, source: Source::Given, log4j_config })
        }
    }
}

/// One version in the cache.
struct Cached<'a> {
    environment: &'a Environment,
    version: KafkaVersion,
    progress: &'a dyn Progress,
}

impl Cached<'_> {
    fn ensure(&self) -> Result<KafkaHome, FetchError> {
        let version = self.version.to_string();
        let sums = sums::of_kafka(&self.environment.pinned_jars, self.version)?;
        let slot = Slot {
            dir: self.environment.cache("kafka")?,
            what: &format!("Kafka {version}"),
            version: &version,
            layout: &jars::LAYOUT,
            sums: sums.as_ref(),
            progress: self.progress,
        };
        let root = slot.ensure(|| {
            if sums.is_none() && !self.environment.allow_unpinned {
                return Err(FetchError::NotPinned { version: self.version });
            }
            let java = java::find(self.environment)?;
            slot.fresh_staging(|staging| self.assemble(&java, staging))
        })?;
        let log4j_config = root.join(LOG4J_FILE);
        refresh_log4j_config(&log4j_config)?;
        Ok(KafkaHome { version: self.version, root, source: Source::Cache, log4j_config })
    }

    fn assemble(&self, java: &java::Java, staging: &Path) -> Result<(), FetchError> {
        maven::copy_dependencies(self.environment, java, &self.version, staging, self.progress)?;
        move_agents(staging)?;
        refresh_log4j_config(&staging.join(LOG4J_FILE))?;
        let jars = jars::jar_names(staging)?;
        match find_missing_jar(&self.version, &jars) {
            Some(missing) => {
                let reason = format!("Maven copied no {missing}");
                Err(FetchError::Damaged { root: staging.to_owned(), reason })
            }
            None => Ok(()),
        }
    }
}

/// Maven copies everything into one directory; agents do not belong on the class path.
fn move_agents(staging: &Path) -> Result<(), FetchError> {
    let dir = staging.join("agents");
    fs::create_dir(&dir).map_err(FetchError::io("create", &dir))?;
    for name in jars::jar_names(staging)? {
        if let Some(file) = name.strip_prefix("libs/").filter(|f| f.starts_with("jmx_prometheus")) {
            let from = staging.join(&name);
            fs::rename(&from, dir.join(file)).map_err(FetchError::io("move", &from))?;
        }
    }
    Ok(())
}

/// The first required jar that is not in `jars`.
fn find_missing_jar(version: &KafkaVersion, jars: &[String]) -> Option<String> {
    let kafka = KAFKA_JARS.iter().map(|prefix| format!("{prefix}{version}.jar"));
    let mut others =
        OTHER_JARS.iter().filter(|prefix| !jars.iter().any(|j| j.starts_with(**prefix)));
    kafka
        .into_iter()
        .find(|name| !jars.contains(name))
        .or_else(|| others.next().map(|p| format!("{p}*.jar")))
}

/// Writes our log configuration unless it is up to date. By a rename, because a JVM may be reading the file.
fn refresh_log4j_config(path: &Path) -> Result<(), FetchError> {
    if fs::read_to_string(path).is_ok_and(|text| text == LOG4J_CONFIG) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(FetchError::io("create", dir))?;
    }
    file::write(path, LOG4J_CONFIG.as_bytes(), file::PUBLIC, Survives::Machine)
        .map_err(FetchError::io("write", path))
}
