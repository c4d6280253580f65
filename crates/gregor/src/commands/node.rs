//! `gregor node`: the first process of a Kafka container.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use node::{Addresses, ArchiveOptions, MachineOptions, Options, TlsFiles};

/// Default port of the JMX exporter in Kafka's JVM.
const AGENT_PORT: u16 = 9405;

/// Options of a node.
#[derive(Debug, Args)]
pub(crate) struct Node {
    /// Configuration directory of the node, with one file per key
    #[arg(
        long,
        value_name = "DIR",
        env = "GREGOR_NODE_CONFIG",
        default_value = "/opt/kafka/custom-config"
    )]
    config: PathBuf,
    /// Directory of the Kafka installation
    #[arg(long, value_name = "DIR", env = "GREGOR_KAFKA_HOME", default_value = "/opt/kafka")]
    kafka_home: PathBuf,
    /// Java installation [default: the first java in PATH]
    #[arg(long, value_name = "DIR", env = "JAVA_HOME")]
    java_home: Option<PathBuf>,
    /// Memory limit of the node; half of it, up to 5 GiB, is used for the heap
    #[arg(long, value_name = "BYTES", env = "GREGOR_MEMORY_BYTES")]
    memory: Option<u64>,
    /// Address of the health endpoint; with --https only for liveness and readiness
    #[arg(long, value_name = "ADDRESS", env = "GREGOR_NODE_HTTP", default_value = "0.0.0.0:8080")]
    http: SocketAddr,
    /// Address of the complete health endpoint, for clients with a certificate
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "GREGOR_NODE_HTTPS",
        requires_all = ["tls_cert", "tls_key", "tls_client_ca"]
    )]
    https: Option<SocketAddr>,
    /// Certificate of --https, in PEM
    #[arg(long, value_name = "FILE", env = "GREGOR_NODE_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Private key of --https, in PEM
    #[arg(long, value_name = "FILE", env = "GREGOR_NODE_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Certificate authorities of the clients of --https, in PEM
    #[arg(long, value_name = "FILE", env = "GREGOR_NODE_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,
    /// Address of the JMX exporter in Kafka's JVM, for this program only [default: port 9405 on the address
    /// of --http if that is loopback, else on 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", env = "GREGOR_NODE_AGENT")]
    agent: Option<SocketAddr>,
    /// Address of the metrics of metrics-config.json
    #[arg(long, value_name = "ADDRESS", env = "GREGOR_NODE_METRICS")]
    metrics: Option<SocketAddr>,
    /// Uid of the node's pod
    #[arg(long, value_name = "UID", env = "GREGOR_POD_UID")]
    pod_uid: Option<String>,
    /// Directory with class archives, which reduce the start time of Java
    #[arg(long, value_name = "DIR", env = "GREGOR_NODE_CLASS_ARCHIVE")]
    class_archive: Option<PathBuf>,
    /// Only create the class archive for this Kafka and this Java, unless it exists
    #[arg(long, requires = "class_archive", conflicts_with = "describe_machine")]
    make_class_archive: bool,
    /// Only write facts about the Kubernetes Node to files, for the node that is started afterwards
    #[arg(long, requires = "node_name")]
    describe_machine: bool,
    /// Name of the Kubernetes Node for --describe-machine
    #[arg(long, value_name = "NAME", env = "NODE_NAME", value_parser = NonEmptyStringValueParser::new())]
    node_name: Option<String>,
    /// Label of the Kubernetes Node with the rack
    #[arg(long, value_name = "LABEL", env = "RACK_TOPOLOGY_KEY")]
    rack_label: Option<String>,
    /// Output directory of --describe-machine
    #[arg(long, value_name = "DIR", env = "GREGOR_MACHINE_DIR", default_value = "/opt/kafka/init")]
    machine_dir: PathBuf,
    /// File for the reason why the node did not start, if it exists (termination message)
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log", hide = true)]
    termination_log: PathBuf,
}

impl Node {
    /// Runs the node. Exits the process with the node's exit code unless it is 0.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let filter = tracing_subscriber::EnvFilter::try_from_env("GREGOR_LOG");
        crate::log::to_stdout(filter.unwrap_or_else(|_| "info".into()));
        let termination_log = self.termination_log.clone();
        let task = self.task();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // Probes and scrapes need no more, and the machine is Kafka's.
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start")?;
        let code = runtime.block_on(async {
            task.run().await.unwrap_or_else(|(code, error)| {
                let sentence = format!("{error:#}");
                crate::output::note(&crate::log::one_line(&sentence));
                tell(&termination_log, &sentence);
                code
            })
        });
        // Nothing waits for a disk that does not answer.
        runtime.shutdown_background();
        match code {
            node::exit::STOPPED => Ok(()),
            code => std::process::exit(i32::from(code)),
        }
    }

    fn task(self) -> Task {
        if let Some(machine) = self.machine() {
            return Task::DescribeMachine(machine);
        }
        match (&self.class_archive, self.make_class_archive) {
            (Some(dir), true) => Task::MakeClassArchive(ArchiveOptions {
                kafka_home: self.kafka_home.clone(),
                java_home: self.java_home.clone().filter(|home| !home.as_os_str().is_empty()),
                dir: dir.clone(),
            }),
            _ => Task::Run(Box::new(self.options())),
        }
    }

    /// Options of --describe-machine, if it is set.
    fn machine(&self) -> Option<MachineOptions> {
        let name = self.node_name.clone().filter(|_| self.describe_machine)?;
        Some(MachineOptions {
            name,
            rack_label: self.rack_label.clone().filter(|label| !label.is_empty()),
            dir: self.machine_dir.clone(),
        })
    }

    fn options(self) -> Options {
        let files = (self.tls_cert, self.tls_key, self.tls_client_ca);
        let https = match (self.https, files) {
            (Some(address), (Some(certificate), Some(key), Some(client_authorities))) => {
                Some((address, TlsFiles { certificate, key, client_authorities }))
            }
            _ => None,
        };
        let agent = self.agent.unwrap_or_else(|| default_agent(self.http.ip()));
        Options {
            config_dir: self.config,
            kafka_home: self.kafka_home,
            java_home: self.java_home.filter(|home| !home.as_os_str().is_empty()),
            memory_bytes: self.memory,
            pod_uid: self.pod_uid.filter(|uid| !uid.is_empty()),
            class_archive: self.class_archive.filter(|dir| !dir.as_os_str().is_empty()),
            addresses: Addresses { http: self.http, https, agent, metrics: self.metrics },
        }
    }
}

/// The selected action.
enum Task {
    Run(Box<Options>),
    DescribeMachine(MachineOptions),
    MakeClassArchive(ArchiveOptions),
}

impl Task {
    /// The exit code, with the reason of an error.
    async fn run(self) -> Result<u8, (u8, anyhow::Error)> {
        match self {
            Self::Run(options) => node::run(*options)
                .await
                .map_err(|error| (error.exit_code(), anyhow::Error::from(error))),
            Self::DescribeMachine(options) => node::describe_machine(&options)
                .await
                .map(|()| node::exit::STOPPED)
                .map_err(|error| (error.exit_code(), anyhow::Error::from(error))),
            Self::MakeClassArchive(options) => node::make_class_archive(&options)
                .await
                .map(|_| node::exit::STOPPED)
                .map_err(|error| (error.exit_code(), anyhow::Error::from(error))),
        }
    }
}

/// Nodes that share a machine have their own loopback addresses.
fn default_agent(http: IpAddr) -> SocketAddr {
    let ip = if http.is_loopback() { http } else { Ipv4Addr::LOCALHOST.into() };
    SocketAddr::new(ip, AGENT_PORT)
}

/// Kubernetes copies this file to the status of the pod.
fn tell(file: &Path, sentence: &str) {
    if file.exists() {
        let _ = fs::write(file, sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_never_reachable_from_elsewhere() {
        let rows = [
            ("0.0.0.0", "127.0.0.1:9405"),
            ("10.1.2.3", "127.0.0.1:9405"),
            ("127.80.3.7", "127.80.3.7:9405"),
            ("::", "127.0.0.1:9405"),
        ];
        for (http, agent) in rows {
            assert_eq!(default_agent(http.parse().unwrap()).to_string(), agent);
        }
    }
}
