//! The programs that a node runs: Java, and the jars of Kafka.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::archive::{self, ArchiveFile};

/// Prefix of the JMX exporter's jar.
const AGENT_JAR: &str = "jmx_prometheus_javaagent-";
/// Where the jar may be: in a home that Gregor assembled, or beside the other jars of a distribution.
const AGENT_DIRS: [&str; 2] = ["agents", "libs"];
/// A jar that every Kafka has.
const KAFKA_JAR: &str = "kafka_2.13-";

/// A directory with the jars of Kafka, and the Java to run them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaHome {
    libs: PathBuf,
    /// Names of the jars in `libs`, sorted.
    jars: Vec<String>,
    agent: PathBuf,
    java: PathBuf,
    archive: Option<PathBuf>,
}

/// Why a Kafka home is not usable.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// A directory that cannot be read.
    #[error("cannot read {}: set GREGOR_KAFKA_HOME to a directory with Kafka's libs", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    #[error("no {KAFKA_JAR}*.jar in {}: not a Kafka installation", .0.display())]
    NoKafka(PathBuf),
    /// A Kafka without the agent.
    #[error(
        "no {AGENT_JAR}*.jar in agents/ or libs/ of {}, which a node needs to know how \
         Kafka is", .0.display()
    )]
    NoAgent(PathBuf),
}

impl KafkaHome {
    /// Checks that a directory has what a node needs. Java is taken from `java_home`, else from `PATH`.
    ///
    /// # Errors
    /// If something is missing.
    pub fn open(root: &Path, java_home: Option<&Path>) -> Result<Self, HomeError> {
        let libs = root.join("libs");
        let names = jars(&libs).map_err(|source| HomeError::Read { path: libs.clone(), source })?;
        if !names.iter().any(|name| name.starts_with(KAFKA_JAR)) {
            return Err(HomeError::NoKafka(libs));
        }
        let agent_in = |dir: &str| {
            let names = jars(&root.join(dir)).unwrap_or_default();
            let name = names.into_iter().find(|name| name.starts_with(AGENT_JAR))?;
            Some(root.join(dir).join(name))
        };
        let agent = AGENT_DIRS.into_iter().find_map(agent_in);
        Ok(Self {
            agent: agent.ok_or_else(|| HomeError::NoAgent(root.to_owned()))?,
            java: java_home.map_or_else(|| PathBuf::from("java"), |home| home.join("bin/java")),
            libs,
            jars: names,
            archive: None,
        })
    }

    /// Where the class archive of this Kafka and this Java is stored; `None` if the Java does not state its
    /// build.
    pub(crate) fn archive_place(&self, dir: &Path) -> Option<ArchiveFile> {
        let version =
            |name: &String| Some(name.strip_prefix(KAFKA_JAR)?.strip_suffix(".jar")?.to_owned());
        let version = self.jars.iter().find_map(version)?;
        Some(ArchiveFile::new(dir, &version, &archive::java_build(&self.java)?))
    }

    /// The same home with a class archive.
    pub(crate) fn with_archive(self, archive: PathBuf) -> Self {
        Self { archive: Some(archive), ..self }
    }

    pub(crate) fn agent(&self) -> &Path {
        &self.agent
    }

    /// The `java` program.
    pub(crate) fn java(&self) -> &Path {
        &self.java
    }

    /// The command line that runs a class.
    pub(crate) fn command(
        &self,
        options: Vec<String>,
        class: &str,
        arguments: Vec<OsString>,
    ) -> Vec<OsString> {
        // Java itself would use /tmp, which is read-only in a pod.
        let mut temporary = OsString::from("-Djava.io.tmpdir=");
        temporary.push(std::env::temp_dir());
        let start = [self.java.clone().into_os_string(), temporary];
        let archive = self.archive.as_deref().map(archive::read_options).unwrap_or_default();
        let class_path = self.class_path();
        start
            .into_iter()
            .chain(archive.into_iter().chain(options).map(OsString::from))
            .chain(["-cp".into(), class_path, class.into()])
            .chain(arguments)
            .collect()
    }
}

impl KafkaHome {
    /// All jars, sorted: an archive fits one list of jars, and the JVM's own order differs from disk to disk.
    fn class_path(&self) -> OsString {
        let mut all = OsString::new();
        for jar in &self.jars {
            if !all.is_empty() {
                all.push(":");
            }
            all.push(self.libs.join(jar));
        }
        all
    }
}

fn jars(dir: &Path) -> io::Result<Vec<String>> {
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let mut names = fs::read_dir(dir)?.map(name).collect::<io::Result<Vec<_>>>()?;
    names.retain(|name| name.ends_with(".jar"));
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_needs_kafka_and_the_agent() {
        let root = tempfile::tempdir().unwrap();
        let open = || KafkaHome::open(root.path(), None);
        let touch = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        assert!(matches!(open(), Err(HomeError::Read { .. })));
        touch("libs/other.jar");
        assert!(matches!(open(), Err(HomeError::NoKafka(_))));
        touch("libs/kafka_2.13-4.3.1.jar");
        assert!(matches!(open(), Err(HomeError::NoAgent(_))));
        touch("libs/jmx_prometheus_javaagent-1.0.1.jar");
        assert!(open().unwrap().agent().ends_with("libs/jmx_prometheus_javaagent-1.0.1.jar"));
        touch("agents/jmx_prometheus_javaagent-1.0.1.jar");
        assert!(open().unwrap().agent().ends_with("agents/jmx_prometheus_javaagent-1.0.1.jar"));
    }

    #[test]
    fn a_command_has_the_options_before_the_class() {
        let home = KafkaHome {
            libs: "/k/libs".into(),
            jars: vec!["a.jar".to_owned(), "b.jar".to_owned()],
            agent: "/k/agents/a.jar".into(),
            java: "/j/bin/java".into(),
            archive: None,
        };
        let jars = "/k/libs/a.jar:/k/libs/b.jar";
        let command = home.command(vec!["-Xmx1g".to_owned()], "kafka.Kafka", vec!["f".into()]);
        let temporary = format!("-Djava.io.tmpdir={}", std::env::temp_dir().display());
        let expected = ["/j/bin/java", &temporary, "-Xmx1g", "-cp", jars, "kafka.Kafka", "f"];
        assert_eq!(command, expected);
        let command = home.with_archive("/a".into()).command(Vec::new(), "C", Vec::new());
        assert_eq!(command[2], "-XX:SharedArchiveFile=/a");
        assert_eq!(command[command.len() - 2..], [jars, "C"]);
    }
}
