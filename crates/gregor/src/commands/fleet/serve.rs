//! `gregor fleet serve`: the fleet manager.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use fleet::client::is_confidential;
use fleet::config::{Config, TlsFiles};
use fleet::provider::{Provider, Providers};
use tokio::net::TcpListener;

use crate::machine::planes::{self, Local, Programs};
use crate::output::note;
use crate::progress;

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor fleet serve --config fleet.yaml
  gregor fleet serve --config fleet.yaml --database postgres://fleet@db/fleet --listen 0.0.0.0:8000";

/// Options of the fleet manager.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration file in YAML: providers, sizes, limits, token issuers
    #[arg(long, value_name = "FILE", env = "GREGOR_FLEET_CONFIG")]
    config: PathBuf,
    /// Database: sqlite:FILE, or postgres://… for several replicas
    #[arg(
        long,
        value_name = "URL",
        env = "GREGOR_FLEET_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:fleet.db"
    )]
    database: String,
    /// Listen address; without --tls-cert TLS needs a proxy in front
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Certificate to serve TLS with, in PEM, with its chain; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        super::log(super::LOG);
        let text = fs::read_to_string(&self.config);
        let text = text.with_context(|| format!("cannot read {:?}", self.config))?;
        let config: Config = serde_saphyr::from_str(&text)
            .with_context(|| format!("{:?} is not a configuration of a fleet", self.config))?;
        let programs = match &config.local {
            Some(_) => {
                let progress = progress::for_stderr();
                let programs = Programs::prepare(&*progress)?;
                progress.finish();
                Some(programs)
            }
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start")?.block_on(self.serve(config, programs))
    }

    async fn serve(self, mut config: Config, programs: Option<Programs>) -> anyhow::Result<()> {
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            config.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
        }
        let listener = TcpListener::bind(self.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", self.listen))?;
        let address = listener.local_addr()?;
        if config.public_url.is_empty() {
            let scheme = if config.tls.is_some() { "https" } else { "http" };
            let url = format!("{scheme}://{address}");
            // Agents send their tokens to no other.
            if is_confidential(&url) {
                config.public_url = url;
            }
        }
        let mut providers = Providers::new();
        let access = config.local.clone();
        let local = match (&access, programs) {
            (Some(access), Some(programs)) => {
                let local = Arc::new(Local::open(access, programs, &mut config)?);
                let provider = Arc::clone(&local) as Arc<dyn Provider>;
                providers.insert(planes::NAME.to_owned(), provider);
                Some(local)
            }
            _ => None,
        };
        note(&format!("the fleet manager listens on {address}"));
        let stop = super::told_to_stop();
        let served = fleet::service::run(config, &self.database, listener, providers, stop).await;
        if let Some(local) = local {
            note("stopping the data planes on this machine; the next start resumes them");
            local.stop().await;
        }
        Ok(served?)
    }
}
