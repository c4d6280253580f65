//! `gregor fetch`: gets what Gregor runs but does not contain.

use artifacts::kafka::{self, KafkaHome, Source};
use artifacts::{Environment, KafkaVersion, kubernetes};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::output::{Format, Grid, Out, View};
use crate::progress;

/// What to get.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Get Apache Kafka, and print where it is
    ///
    /// Kafka and all it needs are resolved by Maven (`mvn`, which must be installed, and which obeys
    /// the mirrors and proxies in ~/.m2/settings.xml) and kept in the cache, one directory for each
    /// version. Each jar must have the SHA-256 that is pinned in this program; a version that is not pinned
    /// is refused without --allow-unpinned. A version that is there already is not fetched again. Several `gregor` may do this
    /// at once: one fetches and the others wait for it.
    ///
    /// Where an installed Kafka is to be used instead, set GREGOR_KAFKA_HOME to its directory.
    #[command(after_long_help = AFTER_HELP)]
    Kafka(FetchKafka),
    /// Get the programs of a Kubernetes control plane, and print where they are
    ///
    /// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl are built with Go from
    /// sources whose hashes are part of this program (Go obeys GOPROXY) and kept in the cache. That
    /// takes some minutes, once. What an interrupted run has built is kept. Several `gregor` may do
    /// this at once: one builds and the others wait for it.
    ///
    /// Where programs that are there already are to be used, set KUBEBUILDER_ASSETS to their directory.
    #[command(after_long_help = AFTER_HELP_KUBERNETES)]
    Kubernetes(FetchKubernetes),
}

const AFTER_HELP_KUBERNETES: &str = "\
Environment:
  KUBEBUILDER_ASSETS  a directory with all five programs, instead of building them
  GREGOR_CACHE_DIR    where to keep what is built [default: gregor in the user's cache directory]
  GREGOR_GO           the Go to use [default: the first go in PATH]

Examples:
  gregor fetch kubernetes           build them if they are not there
  gregor fetch kubernetes --verify  also check that no file has changed since it was built";

#[derive(Debug, Args)]
struct FetchKubernetes {
    #[arg(long, value_name = "VERSION", help = kubernetes_version_help())]
    version: Option<String>,
    /// Read every file again and compare it with its SHA-256 from when it was built
    #[arg(long)]
    verify: bool,
    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

fn kubernetes_version_help() -> String {
    let pinned = kubernetes::VERSION;
    format!("The version of Kubernetes; only {pinned} can be built [default: {pinned}]")
}

const AFTER_HELP: &str = "\
Environment:
  GREGOR_KAFKA_HOME  an installed Kafka to use, instead of fetching one
  GREGOR_CACHE_DIR   where to keep what is fetched [default: gregor in the user's cache directory]
  JAVA_HOME          the Java to use, 17 or newer [default: the first java in PATH]

Examples:
  gregor fetch kafka                  the default version
  gregor fetch kafka --version 4.1.2  another one
  gregor fetch kafka --verify         also check that no file has changed since it was fetched";

#[derive(Debug, Args)]
struct FetchKafka {
    #[arg(long, value_name = "VERSION", help = version_help())]
    version: Option<KafkaVersion>,
    /// Fetch a version whose checksums are not part of this program, trusting the Maven repository
    #[arg(long)]
    allow_unpinned: bool,
    /// Print the SHA-256 of each jar, as they are pinned in the sources of Gregor
    #[arg(long, hide = true, requires = "allow_unpinned")]
    print_sums: bool,
    /// Read every file again and compare it with its SHA-256 from when it was fetched
    #[arg(long)]
    verify: bool,
    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Written out here because no default may be set: a home that is given has its own version.
fn version_help() -> String {
    let (default, oldest) = (KafkaVersion::default_version(), KafkaVersion::oldest_supported());
    format!("The version of Kafka; tested are {oldest} to {default} [default: {default}]")
}

/// What is printed. The field names are a contract with scripts.
#[derive(Debug, Serialize)]
struct Report {
    version: String,
    path: String,
    /// `cache`, or the variable that named the directory.
    source: &'static str,
    /// Whether the files were compared with their hashes in this run.
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
