//! Runs the Prometheus JMX exporter with the user's own rules.
//!
//! 1. A faulty user configuration never stops the node. It is tried in a separate JVM first, because the
//!    exporter exits the JVM if it rejects its configuration.
//! 2. The node's own view of Kafka does not depend on the user's rules: it has an exporter of its own
//!    ([`relocate`]).
//! 3. The exporter reads a copy of the file. It reloads a file that changes, and some keys would make it exit
//!    the JVM even then.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use host::file::{self, Survives};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::home::KafkaHome;
use crate::relocate::{RelocateError, relocate};

/// The trial only starts a JVM.
const TRIAL_JVM_OPTIONS: [&str; 3] = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
/// A trial takes half a second.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of the exporter's output that are logged: later lines can contain the user's text.
const LINES_MAX: usize = 2;
/// How often to check for changes; the kubelet takes longer to propagate them.
pub(crate) const FOLLOW_INTERVAL: Duration = Duration::from_secs(5);
/// Keys with which the exporter exits the JVM, also on reload.
const LETHAL: [&str; 2] = ["jmxUrl", "hostPort"];

/// Why there are no user metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricsError {
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    #[error("cannot write to the temporary directory")]
    Write(#[source] io::Error),
    #[error("cannot run a second exporter")]
    Relocate(#[from] RelocateError),
    #[error("cannot start Java to try the configuration")]
    Start(#[source] io::Error),
    #[error("the exporter did not finish checking the configuration")]
    Timeout,
    #[error("the exporter rejects {}: {said}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Its output.
        said: String,
    },
}

/// An exporter with the user's rules, after a successful trial.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// The value of `-javaagent`.
    pub(crate) agent: String,
    /// The jar for the node's own exporter.
    pub(crate) own_jar: PathBuf,
    source: PathBuf,
    copy: PathBuf,
}

impl Exporter {
    /// Prepares an exporter with the rules in `source` that listens on `address`. Files go to `dir` and must
    /// stay there while Kafka runs.
    pub(crate) async fn prepare(
        home: &KafkaHome,
        source: &Path,
        address: SocketAddr,
        dir: &Path,
    ) -> Result<Self, MetricsError> {
        let text = read(source)?;
        let copy = dir.join("metrics-config.json");
        fs::write(&copy, text).map_err(MetricsError::Write)?;
        let agent = format!("{}={address}:{}", home.agent().display(), copy.display());
        let own_jar = dir.join("agent.jar");
        let (from, to) = (home.agent().to_owned(), own_jar.clone());
        let packing = tokio::task::spawn_blocking(move || relocate(&from, &to));
        let (tried, packed) = tokio::join!(trial(home, &agent, source), packing);
        tried?;
        packed.map_err(|error| MetricsError::Write(io::Error::other(error)))??;
        Ok(Self { agent, own_jar, source: source.to_owned(), copy })
    }

    /// Copies later changes of the user's rules to the exporter, until the program ends. The exporter counts
    /// a change that it rejects (`jmx_config_reload_failure_total`) and keeps the previous rules.
    pub(crate) async fn follow(self, interval: Duration) {
        let mut known = fs::read_to_string(&self.copy).unwrap_or_default();
        loop {
            sleep(interval).await;
            let text = match read(&self.source) {
                Ok(text) if text != known => text,
                // Removed or being replaced: the rules stay.
                Ok(_) | Err(_) => continue,
            };
            known.clone_from(&text);
            match self.replace(&text) {
                Ok(()) => tracing::info!("reloaded the metrics rules"),
                Err(error) => tracing::error!(
                    "cannot reload the metrics rules, the previous ones stay in use: {error}"
                ),
            }
        }
    }

    fn replace(&self, text: &str) -> Result<(), MetricsError> {
        if let Some(word) = LETHAL.iter().find(|word| text.contains(**word)) {
            let said = format!("{word} is only for exporters outside of the JVM");
            return Err(MetricsError::Refused { path: self.source.clone(), said });
        }
        file::write(&self.copy, text.as_bytes(), file::PUBLIC, Survives::Process)
            .map_err(MetricsError::Write)
    }
}

fn read(path: &Path) -> Result<String, MetricsError> {
    fs::read_to_string(path).map_err(|source| MetricsError::Read { path: path.to_owned(), source })
}

/// Starts a JVM that only loads the exporter.
async fn trial(home: &KafkaHome, agent: &str, source: &Path) -> Result<(), MetricsError> {
    let run = Command::new(home.java())
        .args(TRIAL_JVM_OPTIONS)
        .arg(format!("-javaagent:{agent}"))
        .arg("-version")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(TRIAL_TIMEOUT, run).await.map_err(|_| MetricsError::Timeout)?;
    let output = output.map_err(MetricsError::Start)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let all = [output.stdout, output.stderr].concat();
            let said = cause(&String::from_utf8_lossy(&all));
            Err(MetricsError::Refused { path: source.to_owned(), said })
        }
    }
}

/// The lines that explain why the exporter failed.
fn cause(text: &str) -> String {
    let tells = |line: &&str| {
        !line.is_empty()
            && !line.starts_with("at ")
            && !line.contains("Prometheus JMX Exporter")
            && !line.contains("logger.Logger log")
    };
    let lines = text.lines().map(str::trim).filter(tells);
    lines.take(LINES_MAX).collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporter(dir: &Path) -> Exporter {
        Exporter {
            agent: String::new(),
            own_jar: PathBuf::new(),
            source: dir.join("source"),
            copy: dir.join("copy.json"),
        }
    }

    #[test]
    fn what_the_exporter_says_is_told_without_its_stack() {
        let text = "Failed to start Prometheus JMX Exporter\n\n\
                    java.util.regex.PatternSyntaxException: Unclosed group near index 16\nx(\n\
                    \tat java.base/x\nPrometheus JMX Exporter exiting\n";
        assert_eq!(
            cause(text),
            "java.util.regex.PatternSyntaxException: Unclosed group near index 16 / x("
        );
        assert_eq!(cause(""), "");
    }

    #[test]
    fn words_that_end_the_jvm_are_kept_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let exporter = exporter(dir.path());
        exporter.replace("{\"rules\":[]}").unwrap();
        for word in LETHAL {
            let error = exporter.replace(&format!("{{\"{word}\":\"x\"}}")).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("copy.json")).unwrap(), "{\"rules\":[]}");
    }

    #[tokio::test]
    async fn later_changes_are_brought_and_a_file_that_is_gone_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (source, copy) = (dir.path().join("source"), dir.path().join("copy.json"));
        fs::write(&source, "a").unwrap();
        fs::write(&copy, "a").unwrap();
        tokio::spawn(exporter(dir.path()).follow(Duration::from_millis(10)));
        let mut seen = std::collections::BTreeSet::new();
        let mut wait = async |expected: &str| {
            while !seen.contains(expected) {
                seen.insert(fs::read_to_string(&copy).unwrap());
                sleep(Duration::from_millis(1)).await;
            }
        };
        fs::write(&source, "b").unwrap();
        wait("b").await;
        fs::remove_file(&source).unwrap();
        sleep(Duration::from_millis(100)).await;
        fs::write(&source, "hostPort: x").unwrap();
        sleep(Duration::from_millis(100)).await;
        fs::write(&source, "c").unwrap();
        wait("c").await;
        assert_eq!(seen.into_iter().collect::<Vec<_>>().concat().replace('a', ""), "bc");
    }
}
