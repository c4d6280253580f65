//! `gregor agent`: the agent of a data plane, and what has to be there for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use fleet::agent::install::{self, AgentInstallation};
use fleet::agent::{Agent, AgentOptions, TokenSource};
use fleet::client::Client;
use fleet::identity::Credentials;
use fleet::provider::AgentAccess;

use super::crds;
use super::fleet::{LOG, log, told_to_stop};
use crate::failure::Usage;
use crate::output::{Format, Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor agent --manager https://fleet.example.com --cluster-id 01a1d… --token-file /var/run/token
  gregor agent --manager https://fleet.example.com --cluster-id 01a1d… --token-file token \\
      --manifests | kubectl apply --server-side -f -

The image is built from deploy/docker.";

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
    #[arg(
        long,
        value_name = "FILE",
        env = "GREGOR_FLEET_TOKEN_FILE",
        conflicts_with = "token_url"
    )]
    token_file: Option<PathBuf>,
    /// Where tokens are to be had for a name and a secret, in place of a file with a token
    #[arg(long, value_name = "URL", requires = "client_id", requires = "client_secret_file")]
    token_url: Option<String>,
    /// The name for tokens
    #[arg(long, value_name = "NAME", requires = "token_url")]
    client_id: Option<String>,
    /// A file with the secret for tokens
    #[arg(long, value_name = "FILE", requires = "token_url")]
    client_secret_file: Option<PathBuf>,
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
    /// Print what has to be in the data plane for the agent to run there, with the token or the secret in
    /// the file, and do nothing; without a file, a Secret gregor-agent with the entry token is awaited
    #[arg(long)]
    manifests: bool,
    /// The agent's image [default: gregor-agent in this version]
    #[arg(long, value_name = "IMAGE", requires = "manifests")]
    image: Option<String>,
    /// The namespace of the agent
    #[arg(long, value_name = "NAMESPACE", requires = "manifests", default_value = install::NAMESPACE)]
    namespace: String,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.manifests {
            let objects = install::objects(&self.installation()?);
            return Out::new(Format::Table).text(&crds::yaml(&objects)?);
        }
        let token = self.token_source()?;
        log(LOG);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start")?;
        let options = AgentOptions {
            manager: self.manager,
            plane: self.cluster_id,
            token,
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

    fn token_source(&self) -> anyhow::Result<TokenSource> {
        match (&self.token_file, &self.token_url, &self.client_id, &self.client_secret_file) {
            (Some(file), ..) => Ok(TokenSource::File(file.clone())),
            (None, Some(url), Some(id), Some(file)) => Ok(TokenSource::Client {
                url: url.clone(),
                id: id.clone(),
                secret_file: file.clone(),
            }),
            _ => Err(Usage::error("give --token-file, or --token-url with a name and a secret")),
        }
    }

    fn installation(&self) -> anyhow::Result<AgentInstallation> {
        let credentials = match self.token_source() {
            Ok(TokenSource::File(file)) => Credentials::Token(read(&file)?),
            Ok(TokenSource::Client { url, id, secret_file }) => {
                Credentials::Client { token_url: url, id, secret: read(&secret_file)? }
            }
            Err(_) => Credentials::Elsewhere,
        };
        let access = AgentAccess { manager: self.manager.clone(), credentials };
        let image = self.image.clone().unwrap_or_else(agent_image);
        let mut installation = AgentInstallation::new(&image, &self.cluster_id, &access);
        installation.namespace.clone_from(&self.namespace);
        installation.arguments.push(format!("--interval={}", self.interval));
        if !self.node_selector.is_empty() {
            installation.arguments.push(format!("--node-selector={}", self.node_selector));
        }
        let version = self.kafka_version.iter().map(|version| format!("--kafka-version={version}"));
        installation.arguments.extend(version);
        Ok(installation)
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file:?}"))?;
    Ok(text.trim().to_owned())
}

/// The agent's image in this version.
pub(crate) fn agent_image() -> String {
    format!("gregor-agent:{}", env!("CARGO_PKG_VERSION"))
}
