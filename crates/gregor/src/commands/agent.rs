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
use crate::machine::images::agent_image;
use crate::output::{Format, Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor agent --manager https://fleet.example.com --cluster-id 01a1d… --token-file /var/run/token
  gregor agent --manager https://fleet.example.com --cluster-id 01a1d… --token-file token \\
      --manifests | kubectl apply --server-side -f -

The image is built from deploy/docker.";

/// Time limit of requests to the manager.
const DEADLINE: Duration = Duration::from_secs(15);

/// Options of the agent.
#[derive(Debug, Args)]
pub(crate) struct Command {
    /// URL of the fleet manager
    #[arg(long, value_name = "URL", env = "GREGOR_FLEET_MANAGER")]
    manager: String,
    /// Id of this data plane
    #[arg(long, value_name = "ID", env = "GREGOR_FLEET_CLUSTER_ID")]
    cluster_id: String,
    /// File with the agent's token, which may be renewed at any time
    #[arg(
        long,
        value_name = "FILE",
        env = "GREGOR_FLEET_TOKEN_FILE",
        conflicts_with = "token_url"
    )]
    token_file: Option<PathBuf>,
    /// OAuth token endpoint, to use client credentials instead of a token file
    #[arg(long, value_name = "URL", requires = "client_id", requires = "client_secret_file")]
    token_url: Option<String>,
    /// OAuth client id
    #[arg(long, value_name = "NAME", requires = "token_url")]
    client_id: Option<String>,
    /// File with the OAuth client secret
    #[arg(long, value_name = "FILE", requires = "token_url")]
    client_secret_file: Option<PathBuf>,
    /// Kubeconfig of the data plane [default: that of the pod, or of the user]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Label selector of the nodes for Kafka [default: all except control plane nodes]
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    node_selector: String,
    /// Kafka version to request [default: the operator's default]
    #[arg(long, value_name = "VERSION")]
    kafka_version: Option<String>,
    /// Seconds between reports when nothing changes
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    interval: u64,
    /// Print the manifests of the agent for the data plane, with the token or secret from the file, and exit;
    /// without a file, a Secret gregor-agent with the entry token must exist
    #[arg(long)]
    manifests: bool,
    /// Image of the agent [default: gregor-agent in this version]
    #[arg(long, value_name = "IMAGE", requires = "manifests")]
    image: Option<String>,
    /// Namespace of the agent
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
