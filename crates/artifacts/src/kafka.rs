//! Kafka homes: directories with the jars of one Kafka version and a log configuration.
//!
//! A home in the cache appears by one rename, whole, and is never changed afterwards (only its log
//! configuration follows the program's). Whatever is not whole is a staging directory, which belongs
//! to the holder of the version's lock file and is removed by the next one.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::manifest::{self, Manifest};
use crate::{Environment, Event, FetchError, KafkaVersion, Progress, java, maven};

/// Logs to stdout; see the file for the system properties that set its levels.
const LOG4J_CONFIG: &str = include_str!("../kafka/log4j2.properties");

/// Where it is in a home that we assembled.
const LOG4J_FILE: &str = "config/log4j2.properties";

/// Jars without which a home is none, as beginnings of their names; those of Kafka are followed by
/// its version.
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
    /// Whether we assembled it, or the user pointed at it.
    pub source: Source,
    log4j_config: PathBuf,
}

/// Where a home comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Assembled by us, in the cache.
    Cache,
    /// `GREGOR_KAFKA_HOME`.
    Given,
}

impl KafkaHome {
    /// The value of `-cp`: every jar. The JVM itself resolves the `*`.
    #[must_use]
    pub fn class_path(&self) -> String {
        format!("{}/*", self.root.join("libs").display())
    }

    /// The value of `-Dlog4j2.configurationFile`: a configuration of ours that logs to stdout, at
    /// the level that `-Dgregor.log.level` names.
    #[must_use]
    pub fn log4j_config(&self) -> &Path {
        &self.log4j_config
    }

    /// The Prometheus agent's jar. A home that we did not assemble may have none.
    #[must_use]
    pub fn jmx_agent(&self) -> Option<PathBuf> {
        let names = manifest::jar_names(&self.root).ok()?;
        names.iter().find(|name| name.starts_with(AGENT_JAR)).map(|name| self.root.join(name))
    }

    /// Reads every jar and compares it with what was fetched. A home that we did not assemble has
    /// no manifest; its jars are then only checked to be whole.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), FetchError> {
        progress.report(Event::Verifying { jars: manifest::jar_names(&self.root)?.len() });
        let now = Manifest::of_home(&self.root)?;
        let difference = match self.source {
            Source::Given => None,
            Source::Cache => read_manifest(&self.root)
                .ok_or_else(|| "its manifest cannot be read".to_owned())
                .map_or_else(Some, |known| known.find_difference(&now)),
        };
        match difference {
            None => Ok(()),
            Some(reason) => Err(FetchError::Damaged { root: self.root.clone(), reason }),
        }
    }
}

/// Gives a home of that version (`None`: of the given home, else the default version), which is
/// assembled in the cache if there is none.
///
/// Blocks for as long as that takes. Two processes may call it at once: one assembles, the other
/// waits and then finds it done.
pub fn ensure(
    environment: &Environment,
    version: Option<KafkaVersion>,
    progress: &dyn Progress,
) -> Result<KafkaHome, FetchError> {
    match &environment.kafka_home {
        Some(root) => given_home(environment, root, version),
        None => {
            let version = version.unwrap_or(KafkaVersion::default_version());
            Cache { environment, version, dir: environment.kafka_cache()?, progress }.ensure()
        }
    }
}

/// Checks the home that the user pointed at.
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
    let names = manifest::jar_names(&root)?;
    let version_after = |prefix: &str| {
        names.iter().find_map(|name| name.strip_prefix(prefix)?.strip_suffix(".jar"))
    };
    let found = version_after("libs/kafka_2.13-")
        .ok_or_else(|| refuse("there is no libs/kafka_2.13-*.jar in it"))?;
    if version_after("libs/kafka-clients-") != Some(found) {
        return Err(refuse(&format!("there is no libs/kafka-clients-{found}.jar in it")));
    }
    let found: KafkaVersion = found.parse()?;
    match wanted {
        Some(wanted) if wanted != found => Err(FetchError::VersionDiffers { wanted, found, root }),
        _ => {
            // Ours is kept beside the homes: that directory is not for us to write in.
            let log4j_config = environment.kafka_cache()?.join("log4j2.properties");
            refresh_log4j_config(&log4j_config)?;
            Ok(KafkaHome { version: found, root, source: Source::Given, log4j_config })
        }
    }
}

/// One version in the cache.
struct Cache<'a> {
    environment: &'a Environment,
    version: KafkaVersion,
    /// The directory of all homes.
    dir: PathBuf,
    progress: &'a dyn Progress,
}

impl Cache<'_> {
    fn ensure(&self) -> Result<KafkaHome, FetchError> {
        // Without the lock: homes appear whole, and this is the way that is taken nearly always.
        if self.find_damage().is_some() {
            fs::create_dir_all(&self.dir).map_err(FetchError::io("create", &self.dir))?;
            let _lock = self.lock()?;
            self.ensure_locked()?;
        }
        let log4j_config = self.root().join(LOG4J_FILE);
        refresh_log4j_config(&log4j_config)?;
        let root = self.root();
        Ok(KafkaHome { version: self.version, root, source: Source::Cache, log4j_config })
    }

    fn root(&self) -> PathBuf {
        self.dir.join(self.version.to_string())
    }

    /// What is wrong with the home, in words.
    fn find_damage(&self) -> Option<String> {
        match read_manifest(&self.root()) {
            Some(manifest) => manifest.find_missing(&self.root()),
            None => Some("it has no manifest of this layout".to_owned()),
        }
    }

    /// Held until the file is dropped, and by the kernel taken from a process that dies.
    fn lock(&self) -> Result<File, FetchError> {
        let path = self.dir.join(format!("{}.lock", self.version));
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(FetchError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                self.progress.report(Event::Waiting { version: &self.version });
                file.lock().map_err(FetchError::io("lock", &path))?;
                Ok(file)
            }
            Err(TryLockError::Error(error)) => Err(FetchError::io("lock", &path)(error)),
        }
    }

    fn ensure_locked(&self) -> Result<(), FetchError> {
        self.remove_leftovers()?;
        let root = self.root();
        match self.find_damage() {
            // Whoever held the lock before us has done it.
            None => return Ok(()),
            Some(reason) if root.exists() => {
                self.progress.report(Event::Damaged { root: &root, reason: &reason });
            }
            Some(_) => {}
        }
        let java = java::find(self.environment)?;
        let staging = self.dir.join(format!("{}{}", self.staging_prefix(), std::process::id()));
        fs::create_dir(&staging).map_err(FetchError::io("create", &staging))?;
        let result = self.assemble(&java, &staging);
        if result.is_err() {
            // The error that is told is the first one; the next run tries the removal again.
            let _ = fs::remove_dir_all(&staging);
        }
        result
    }

    fn assemble(&self, java: &java::Java, staging: &Path) -> Result<(), FetchError> {
        maven::copy_dependencies(self.environment, java, &self.version, staging, self.progress)?;
        move_agents(staging)?;
        refresh_log4j_config(&staging.join(LOG4J_FILE))?;
        let jars = manifest::jar_names(staging)?;
        if let Some(missing) = find_missing_jar(&self.version, &jars) {
            let reason = format!("Maven copied no {missing}");
            return Err(FetchError::Damaged { root: staging.to_owned(), reason });
        }
        self.progress.report(Event::Verifying { jars: jars.len() });
        let manifest = Manifest::of_home(staging)?;
        tracing::debug!(jars = manifest.len(), version = %self.version, "assembled a Kafka home");
        write_synced(&staging.join(manifest::FILE), &manifest.to_text())?;
        let root = self.root();
        if root.exists() {
            let aside =
                self.dir.join(format!("{}aside-{}", self.staging_prefix(), std::process::id()));
            fs::rename(&root, &aside).map_err(FetchError::io("replace", &root))?;
            fs::remove_dir_all(&aside).map_err(FetchError::io("remove", &aside))?;
        }
        fs::rename(staging, &root).map_err(FetchError::io("create", &root))
    }

    /// Ends in the process's id: a Maven that outlived a killed process must not write into ours.
    fn staging_prefix(&self) -> String {
        format!(".staging-{}-", self.version)
    }

    /// Removes what interrupted runs have left; the lock says that none of them still runs. But the
    /// Maven of one may, so that a directory cannot be emptied now: the next run will.
    fn remove_leftovers(&self) -> Result<(), FetchError> {
        let prefix = self.staging_prefix();
        for entry in fs::read_dir(&self.dir).map_err(FetchError::io("read", &self.dir))? {
            let entry = entry.map_err(FetchError::io("read", &self.dir))?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let path = entry.path();
                if let Err(error) = fs::remove_dir_all(&path) {
                    tracing::warn!(?path, %error, "could not remove what an earlier run left");
                }
            }
        }
        Ok(())
    }
}

fn read_manifest(root: &Path) -> Option<Manifest> {
    Manifest::from_text(&fs::read_to_string(root.join(manifest::FILE)).ok()?)
}

/// Maven copies everything into one directory; an agent does not belong on the class path.
fn move_agents(staging: &Path) -> Result<(), FetchError> {
    let dir = staging.join("agents");
    fs::create_dir(&dir).map_err(FetchError::io("create", &dir))?;
    for name in manifest::jar_names(staging)? {
        if let Some(file) = name.strip_prefix("libs/").filter(|f| f.starts_with("jmx_prometheus")) {
            let from = staging.join(&name);
            fs::rename(&from, dir.join(file)).map_err(FetchError::io("move", &from))?;
        }
    }
    Ok(())
}

/// The first of the main jars that is not among `jars`.
fn find_missing_jar(version: &KafkaVersion, jars: &[String]) -> Option<String> {
    let kafka = KAFKA_JARS.iter().map(|prefix| format!("{prefix}{version}.jar"));
    let mut others =
        OTHER_JARS.iter().filter(|prefix| !jars.iter().any(|j| j.starts_with(**prefix)));
    kafka
        .into_iter()
        .find(|name| !jars.contains(name))
        .or_else(|| others.next().map(|p| format!("{p}*.jar")))
}

/// Writes our log configuration there, unless it is there already. By a rename, as a JVM may be
/// reading the file now.
fn refresh_log4j_config(path: &Path) -> Result<(), FetchError> {
    if fs::read_to_string(path).is_ok_and(|text| text == LOG4J_CONFIG) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(FetchError::io("create", dir))?;
    }
    // A name of its own for each writer, also for two threads of one process.
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("new-{}-{writer}", std::process::id()));
    write_synced(&new, LOG4J_CONFIG)?;
    fs::rename(&new, path).map_err(FetchError::io("write", path))
}

fn write_synced(path: &Path, text: &str) -> Result<(), FetchError> {
    use std::io::Write as _;
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(FetchError::io("write", path))
}
