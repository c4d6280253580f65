//! What all nodes of a cluster share: programs, directories, addresses.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use artifacts::java::Java;
use artifacts::kafka::KafkaHome;

use crate::Reaper;
use crate::address::Network;
use crate::archive::ClassArchive;
use crate::config::Settings;
use crate::tls::Authority;

/// Small and quick to start: tests write few records, and several JVMs share the machine.
const JVM_OPTIONS: [&str; 5] = [
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
];

/// The programs, directories and addresses of a cluster.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) dir: PathBuf,
    pub(crate) kafka: KafkaHome,
    pub(crate) java: Java,
    pub(crate) class_archive: ClassArchive,
    pub(crate) cluster_id: String,
    pub(crate) settings: Settings,
    pub(crate) log_dirs: usize,
    pub(crate) network: Network,
    pub(crate) reaper: Arc<Reaper>,
    pub(crate) authority: Option<Authority>,
}

impl Ground {
    /// The command line of a node.
    pub(crate) fn node_command(&self, properties: &Path) -> Vec<OsString> {
        let mut options = self.class_archive.read_options();
        options.extend(self.class_archive.write_option());
        self.java_command(options, "kafka.Kafka", [properties.into()])
    }

    fn java_command(
        &self,
        options: Vec<String>,
        class: &str,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Vec<OsString> {
        let log4j = format!("-Dlog4j2.configurationFile={}", self.kafka.log4j_config().display());
        let class_path = ["-cp".to_owned(), self.kafka.class_path(), class.to_owned()];
        let java = self.java.program.clone().into_os_string();
        std::iter::once(java)
            .chain(JVM_OPTIONS.map(OsString::from))
            .chain(options.into_iter().chain([log4j]).chain(class_path).map(OsString::from))
            .chain(arguments)
            .collect()
    }

    /// Runs a Kafka tool and returns its output.
    pub(crate) async fn run_tool(
        &self,
        class: &str,
        arguments: &[String],
    ) -> anyhow::Result<String> {
        let mut options = self.class_archive.read_options();
        // The output of a tool is its result; log lines would be mixed in.
        options.push("-Dgregor.log.level=WARN".to_owned());
        let command = self.java_command(options, class, arguments.iter().map(OsString::from));
        let output = tokio::process::Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("cannot run {class}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{class} {arguments:?} ended with {}:\n{text}{errors}",
            output.status
        );
        Ok(text.into_owned())
    }
}
