//! `gregor fetch`: gets what Gregor runs but does not contain.

use artifacts::kafka::{self, KafkaHome, Source};
use artifacts::{Environment, KafkaVersion, kubernetes};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::output::{Format, Grid, Out, View};
use crate::progress;

/// Program to download or build.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Download Apache Kafka, and print its directory
    ///
    /// Maven (`mvn`, which must be installed and uses the mirrors and proxies in ~/.m2/settings.xml)
    /// downloads Kafka
    /// and its dependencies into the cache, one directory per version. Each jar must match its pinned
    /// SHA-256; a
    /// version without pins requires --allow-unpinned. An existing version is not downloaded again. Of
    /// several
    /// concurrent processes one downloads and the others wait.
    ///
    /// To use an installed Kafka instead, set GREGOR_KAFKA_HOME to its directory.
    #[command(after_long_help = AFTER_HELP)]
    Kafka(FetchKafka),
    /// Build the programs of a Kubernetes control plane, and print their directory
    ///
    /// Go builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl from sources whose
    /// hashes are
    /// pinned (GOPROXY is used) into the cache, once. This takes several minutes; an interrupted run keeps
    /// what it has
    /// built. Of several concurrent processes one builds and the others wait.
    ///
    /// To use existing programs instead, set KUBEBUILDER_ASSETS to their directory.
    #[command(after_long_help = AFTER_HELP_KUBERNETES)]
    Kubernetes(FetchKubernetes),
}

const AFTER_HELP_KUBERNETES: &str = "\
Environment:
  KUBEBUILDER_ASSETS  directory with all five programs, instead of building them
  GREGOR_CACHE_DIR    cache directory [default: gregor in the user's cache directory]
  GREGOR_GO           the Go to use [default: the first go in PATH]

Examples:
  gregor fetch kubernetes           build them unless they exist
  gregor fetch kubernetes --verify  also verify that no file has changed since it was built";

#[derive(Debug, Args)]
struct FetchKubernetes {
    #[arg(long, value_name = "VERSION", help = kubernetes_version_help())]
    version: Option<String>,
    /// Verify the SHA-256 of every file
    #[arg(long)]
    verify: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

fn kubernetes_version_help() -> String {
    let pinned = kubernetes::VERSION;
    format!("The version of Kubernetes; only {pinned} can be built [default: {pinned}]")
}

const AFTER_HELP: &str = "\
Environment:
  GREGOR_KAFKA_HOME  installed Kafka to use, instead of downloading one
  GREGOR_CACHE_DIR   cache directory [default: gregor in the user's cache directory]
  JAVA_HOME          the Java to use, 17 or newer [default: the first java in PATH]

Examples:
  gregor fetch kafka                  the default version
  gregor fetch kafka --version 4.1.2  another version
  gregor fetch kafka --verify         also verify that no file has changed since it was downloaded";

#[derive(Debug, Args)]
struct FetchKafka {
    #[arg(long, value_name = "VERSION", help = version_help())]
    version: Option<KafkaVersion>,
    /// Download a version without pinned checksums, trusting the Maven repository
    #[arg(long)]
    allow_unpinned: bool,
    /// Print the SHA-256 of each jar, in the format of the pins
    #[arg(long, hide = true, requires = "allow_unpinned")]
    print_sums: bool,
    /// Verify the SHA-256 of every file
    #[arg(long)]
    verify: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// No clap default: an existing home has its own version.
fn version_help() -> String {
    let (default, oldest) = (KafkaVersion::default_version(), KafkaVersion::oldest_supported());
    format!("The version of Kafka; tested are {oldest} to {default} [default: {default}]")
}

/// The result, as printed. Scripts depend on the field names.
#[derive(Debug, Serialize)]
struct Report {
    version: String,
    path: String,
    /// `cache`, or the environment variable with the directory.
    source: &'static str,
    /// Whether this run has verified the files.
    verified: bool,
}

impl Fetch {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Kafka(fetch) => fetch.run(),
            What::Kubernetes(fetch) => fetch.run(),
        }
    }
}

impl FetchKafka {
    fn run(self) -> anyhow::Result<()> {
        let progress = progress::for_stderr();
        let mut environment =
            Environment { allow_unpinned: self.allow_unpinned, ..Environment::from_process() };
        if self.print_sums {
            // New pins are not made from old ones.
            environment.pinned_jars.clear();
        }
        let home = kafka::ensure(&environment, self.version, &*progress)?;
        if self.verify {
            home.verify(&*progress)?;
        }
        progress.finish();
        if self.print_sums {
            return Out::new(self.output).text(&home.sums()?);
        }
        Out::new(self.output).view(&Report::new(&home, self.verify))
    }
}

impl FetchKubernetes {
    fn run(self) -> anyhow::Result<()> {
        let progress = progress::for_stderr();
        let environment = Environment::from_process();
        let binaries = kubernetes::ensure(&environment, self.version.as_deref(), &*progress)?;
        if self.verify {
            binaries.verify(&*progress)?;
        }
        progress.finish();
        let report = Report {
            version: binaries.version,
            path: binaries.dir.display().to_string(),
            source: match binaries.source {
                Source::Cache => "cache",
                Source::Given => "KUBEBUILDER_ASSETS",
            },
            verified: self.verify,
        };
        Out::new(self.output).view(&report)
    }
}

impl Report {
    fn new(home: &KafkaHome, verified: bool) -> Self {
        Self {
            version: home.version.to_string(),
            path: home.root.display().to_string(),
            source: match home.source {
                Source::Cache => "cache",
                Source::Given => "GREGOR_KAFKA_HOME",
            },
            verified,
        }
    }
}

impl View for Report {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["VERSION", "SOURCE", "VERIFIED", "PATH"]);
        let verified = if self.verified { "yes" } else { "" };
        let (version, path) = (self.version.clone(), self.path.clone());
        grid.row([version, self.source.to_owned(), verified.to_owned(), path]);
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let path = format!("/srv/cache/{}/4.3.1", "a-long-way/".repeat(20));
        Report { version: "4.3.1".to_owned(), path, source: "cache", verified: true }
    }

    #[test]
    fn a_table_has_one_line_for_the_home_however_long_its_path() {
        let text = report().table(Some(80));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[0]), ["VERSION", "SOURCE", "VERIFIED", "PATH"]);
        assert_eq!(words(lines[1]), ["4.3.1", "cache", "yes", &report().path]);
    }

    #[test]
    fn json_has_the_same_fields() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["version"], "4.3.1");
        assert_eq!(json["path"], report().path);
        assert_eq!(json["source"], "cache");
        assert_eq!(json["verified"], true);
    }
}
