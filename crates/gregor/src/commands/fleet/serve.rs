//! `gregor fleet serve`: the fleet manager.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use fleet::config::Config;
use fleet::provider::Providers;
use tokio::net::TcpListener;

use crate::output::note;

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor fleet serve --config fleet.yaml
  gregor fleet serve --config fleet.yaml --database postgres://fleet@db/fleet --listen 0.0.0.0:8000";

/// What the fleet manager is started with.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Providers, sizes, limits and whose tokens are good, in YAML
    #[arg(long, value_name = "FILE", env = "GREGOR_FLEET_CONFIG")]
    config: PathBuf,
    /// Where everything is stored: sqlite:FILE, or postgres://… for several replicas
    #[arg(
        long,
        value_name = "URL",
        env = "GREGOR_FLEET_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:fleet.db"
    )]
    database: String,
    /// Where to listen; TLS is for a proxy in front
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        super::log();
        let text = fs::read_to_string(&self.config);
        let text = text.with_context(|| format!("cannot read {:?}", self.config))?;
        let config: Config = serde_saphyr::from_str(&text)
            .with_context(|| format!("{:?} is no configuration of a fleet", self.config))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start")?.block_on(async {
            let listener = TcpListener::bind(self.listen).await;
            let listener = listener.with_context(|| format!("cannot listen on {}", self.listen))?;
            note(&format!("the fleet manager listens on {}", listener.local_addr()?));
            let stop = super::told_to_stop();
            fleet::service::run(config, &self.database, listener, Providers::new(), stop).await?;
            Ok(())
        })
    }
}
