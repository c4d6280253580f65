//! `gregor node`: the first process of a Kafka container.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use node::{Addresses, ArchiveOptions, MachineOptions, Options, TlsFiles};

/// Where the agent in Kafka's JVM listens.
const AGENT_PORT: u16 = 9405;

/// What a node is started with.
#[derive(Debug, Args)]
pub(crate) struct Node {
    /// The directory with the node's configuration, one file for each key
    #[arg(
        long,
        value_name = "DIR",
        env = "GREGOR_NODE_CONFIG",
        default_value = "/opt/kafka/custom-config"
    )]
    config: PathBuf,
    /// The directory with Kafka's libs
    #[arg(long, value_name = "DIR", env = "GREGOR_KAFKA_HOME", default_value = "/opt/kafka")]
    kafka_home: PathBuf,
    /// The directory with the Java to use [default: the first java in PATH]
    #[arg(long, value_name = "DIR", env = "JAVA_HOME")]
    java_home: Option<PathBuf>,
    /// How much memory the node may use; half of it, up to 5 GiB, becomes the heap
    #[arg(long, value_name = "BYTES", env = "GREGOR_MEMORY_BYTES")]
    memory: Option<u64>,
    /// Where to tell how the node is; with --https only whether it is live and ready
    #[arg(long, value_name = "ADDRESS", env = "GREGOR_NODE_HTTP", default_value = "0.0.0.0:8080")]
    http: SocketAddr,
    /// Where to tell everything, to clients with a certificate
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "GREGOR_NODE_HTTPS",
        requires_all = ["tls_cert", "tls_key", "tls_client_ca"]
    )]
    https: Option<SocketAddr>,
    /// The certificate for --https, in PEM
    #[arg(long, value_name = "FILE", env = "GREGOR_NODE_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The key for --https, in PEM
    #[arg(long, value_name = "FILE", env = "GREGOR_NODE_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// The authorities whose clients --https lets in, in PEM
    #[arg(long, value_name = "FILE", env = "GREGOR_NODE_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,
    /// Where the metrics agent in Kafka's JVM listens, for this program only [default: port 9405 of
    /// the address of --http if that is loopback, else of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", env = "GREGOR_NODE_AGENT")]
    agent: Option<SocketAddr>,
    /// Where to serve the metrics that metrics-config.json asks for
    #[arg(long, value_name = "ADDRESS", env = "GREGOR_NODE_METRICS")]
    metrics: Option<SocketAddr>,
    /// The uid of the pod that the node runs in
    #[arg(long, value_name = "UID", env = "GREGOR_POD_UID")]
    pod_uid: Option<String>,
    /// The directory with class archives, from which Java starts quicker
    #[arg(long, value_name = "DIR", env = "GREGOR_NODE_CLASS_ARCHIVE")]
    class_archive: Option<PathBuf>,
    /// Only make a class archive for this Kafka and this Java, unless there is one
    #[arg(long, requires = "class_archive", conflicts_with = "describe_machine")]
    make_class_archive: bool,
    /// Only write down what is known of the machine, for the node that is started afterwards
    #[arg(long, requires = "node_name")]
    describe_machine: bool,
    /// The Kubernetes Node that --describe-machine reads
    #[arg(long, value_name = "NAME", env = "NODE_NAME", value_parser = NonEmptyStringValueParser::new())]
    node_name: Option<String>,
    /// The label of that Node that says in which rack it is
    #[arg(long, value_name = "LABEL", env = "RACK_TOPOLOGY_KEY")]
    rack_label: Option<String>,
    /// Where --describe-machine writes
    #[arg(long, value_name = "DIR", env = "GREGOR_MACHINE_DIR", default_value = "/opt/kafka/init")]
    machine_dir: PathBuf,
    /// A file that is told why the node did not start, if it exists
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log", hide = true)]
    termination_log: PathBuf,
}

impl Node {
    /// Runs the node. Ends the process with the node's exit code unless that is 0.
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

    /// What to describe, if that is all that is asked for.
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

/// What is asked for.
enum Task {
    Run(Box<Options>),
    DescribeMachine(MachineOptions),
    MakeClassArchive(ArchiveOptions),
}

impl Task {
    /// The exit code, or one with the reason.
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

/// Nodes that share a machine have loopback addresses of their own.
fn default_agent(http: IpAddr) -> SocketAddr {
    let ip = if http.is_loopback() { http } else { Ipv4Addr::LOCALHOST.into() };
    SocketAddr::new(ip, AGENT_PORT)
}

/// Kubernetes shows what is in this file in the status of the pod.
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
