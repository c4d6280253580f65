//! The metrics that the user asks for, with the user's own rules, by the exporter that people know.
//!
//! 1. Nothing that the user writes stops the node. A configuration is tried on a JVM of its own before
//!    Kafka's JVM sees it, because the exporter ends the JVM that it does not like it in.
//! 2. What the node needs to know of Kafka does not depend on the user's rules: it comes from an
//!    exporter of its own ([`relocate`]).
//! 3. The exporter reads a copy of ours. It reads a file again when that changes, and even then there
//!    are words that make it end the JVM.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::home::KafkaHome;
use crate::relocate::{RelocateError, relocate};

/// The trial is no more than the start of a JVM.
const TRIAL_JVM_OPTIONS: [&str; 3] = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
/// It takes half a second.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);
/// How much of what the exporter says is told: the line after these can be the user's text.
const LINES_MAX: usize = 2;
/// How often to look for later changes; the kubelet takes longer to bring them.
pub(crate) const FOLLOW_INTERVAL: Duration = Duration::from_secs(5);
/// With these the exporter ends the JVM, also when it reads them later on.
const LETHAL: [&str; 2] = ["jmxUrl", "hostPort"];

/// Why the user gets no metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricsError {
    /// The user's configuration.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A directory of ours.
    #[error("cannot write to a temporary directory")]
    Write(#[source] io::Error),
    /// A second exporter.
    #[error("cannot have two exporters")]
    Relocate(#[from] RelocateError),
    /// Java could not be started.
    #[error("cannot start Java to try the configuration")]
    Start(#[source] io::Error),
    /// The exporter does not come to an end.
    #[error("the exporter does not say whether it likes the configuration")]
    Timeout,
    /// The exporter does not take the configuration.
    #[error("the exporter does not take {}: {said}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What it says.
        said: String,
    },
}

/// An exporter with the user's rules, tried and found good.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// The value of `-javaagent` for it.
    pub(crate) agent: String,
    /// The jar for the exporter of our own.
    pub(crate) own_jar: PathBuf,
    source: PathBuf,
    copy: PathBuf,
}

impl Exporter {
    /// Makes everything ready for an exporter with the rules in `source` that listens on `address`.
    /// Files go to `dir`, and must stay there while Kafka runs.
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

    /// Brings later changes of the user's rules to the exporter, as long as the program runs. One that it
    /// does not take it counts (`jmx_config_reload_failure_total`) and goes on with the rules it has.
    pub(crate) async fn follow(self, interval: Duration) {
        let mut known = fs::read_to_string(&self.copy).unwrap_or_default();
        loop {
            sleep(interval).await;
            let text = match read(&self.source) {
                Ok(text) if text != known => text,
                // Gone, or not there for a moment: the rules stay.
                Ok(_) | Err(_) => continue,
            };
            known.clone_from(&text);
            match self.replace(&text) {
                Ok(()) => tracing::info!("the rules for metrics have changed"),
                Err(error) => tracing::error!("the rules for metrics stay as they were: {error}"),
            }
        }
    }

    fn replace(&self, text: &str) -> Result<(), MetricsError> {
        if let Some(word) = LETHAL.iter().find(|word| text.contains(**word)) {
            let said = format!("{word} is for exporters outside of the JVM");
            return Err(MetricsError::Refused { path: self.source.clone(), said });
        }
        let new = self.copy.with_extension("new");
        fs::write(&new, text).map_err(MetricsError::Write)?;
        fs::rename(&new, &self.copy).map_err(MetricsError::Write)
    }
}

fn read(path: &Path) -> Result<String, MetricsError> {
    fs::read_to_string(path).map_err(|source| MetricsError::Read { path: path.to_owned(), source })
}

/// Starts a JVM that does nothing but load the exporter.
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

/// The lines that tell why the exporter failed.
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
