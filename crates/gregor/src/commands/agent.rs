//! `gregor agent`: the agent of a data plane.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use fleet::agent::{Agent, AgentOptions};
use fleet::client::Client;

use super::fleet::{log, told_to_stop};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor agent --manager https://fleet.example.com --cluster-id 01a1d… --token-file /var/run/token";

/// No request to the manager takes longer.
const DEADLINE: Duration = Duration::from_secs(15);

/// What the agent is started with.
#[derive(Debug, Args)]
pub(crate) struct Command {
    /// Where the fleet manager is
    #[arg(long, value_name = "URL", env = "GREGOR_FLEET_MANAGER")]
    manager: String,
    /// The id of this data plane
    #[arg(long, value_name = "ID", env = "GREGOR_FLEET_CLUSTER_ID")]
    cluster_id: String,
    /// A file with the agent's token, which may be renewed at any time
    #[arg(long, value_name = "FILE", env = "GREGOR_FLEET_TOKEN_FILE")]
    token_file: PathBuf,
    /// The kubeconfig of the data plane [default: that of the pod, or of the user]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which nodes are for Kafkas, as a label selector [default: all but those of the control plane]
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    node_selector: String,
    /// The version of Kafka to ask for [default: what the operator chooses]
    #[arg(long, value_name = "VERSION")]
    kafka_version: Option<String>,
    /// How often to report when nothing changes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    interval: u64,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        log();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start")?;
        let options = AgentOptions {
            manager: self.manager,
            plane: self.cluster_id,
            token_file: self.token_file,
            interval: Duration::from_secs(self.interval.max(1)),
            node_selector: self.node_selector,
            kafka_version: self.kafka_version,
        };
        let kubeconfig = self.kubeconfig;
        runtime.block_on(async {
            let client = Client::new(DEADLINE)?;
            let kubernetes = fleet::service::client(kubeconfig.as_deref()).await;
            let kubernetes = kubernetes.map_err(|error| anyhow::anyhow!(error))?;
            Agent::new(options, client, kubernetes).run(told_to_stop()).await;
            Ok(())
        })
    }
}
