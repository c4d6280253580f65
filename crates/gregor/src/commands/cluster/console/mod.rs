//! `gregor console`: the pages, fed with what `status`, `why` and `plan` print.

mod act;
mod browser;
mod files;
mod fleet;
mod live;
mod login;
mod machines;
mod pages;
mod rebalance;
mod users;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use console::Console as Server;
use console::source::Source;

use self::live::{Live, Site};
use self::login::Login;
use self::users::Users;
use crate::commands::fleet::manager::Manager;
use crate::commands::hosts::Hosts;
use crate::commands::reach::Reach;
use crate::output::{Format, Out, note};

pub(crate) const EXAMPLES: &str = "\
The console listens on 127.0.0.1. The printed address has a token in it that lets a browser in, with the rights of the
kubeconfig: do not share it. Observations are made once for all pages.

With --listen it serves users of the cluster instead: each logs in with a bearer token, and every request to Kubernetes
is made with that token. gregor install --console installs it so.

Examples:
  gregor console
  gregor console -n kafka --no-open
  gregor console --from-snapshot report.json
  gregor console login my-account -n kafka     print a token for a console in a cluster";

/// The port if it is free: an address that stays the same can be bookmarked.
const PORT: u16 = 7470;

/// What is shown, and where.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = false, subcommand_negates_reqs = true)]
pub(crate) struct Console {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    hosts: Hosts,
    /// Show what `gregor status --snapshot` wrote to this file, without Kubernetes and Kafka; may be repeated
    #[arg(long, value_name = "FILE")]
    from_snapshot: Vec<PathBuf>,
    /// The port on 127.0.0.1 [default: 7470, or any that is free]
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Serve users of the cluster at this address, each with their own token and rights
    #[arg(long, value_name = "IP:PORT", value_parser = address, conflicts_with = "from_snapshot")]
    listen: Option<SocketAddr>,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
    /// How many seconds to wait between two observations of a cluster
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Also show the fleet of the fleet manager at this address
    #[arg(long, value_name = "URL", requires = "fleet_token_file", conflicts_with = "listen")]
    fleet_manager: Option<String>,
    /// File with the token of an administrator of the fleet; it may be one that only reads
    #[arg(long, value_name = "FILE", requires = "fleet_manager")]
    fleet_token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a token to log in to a console in a cluster
    Login(Login),
}

impl Console {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(async {
            match self.command {
                Some(Command::Login(login)) => login.run(&self.reach).await,
                None => self.serve().await,
            }
        })
    }

    async fn serve(self) -> anyhow::Result<()> {
        let no_open = self.no_open || self.listen.is_some();
        let server = match self.listen {
            Some(address) => {
                let users = Users::new(self.site().await?);
                let bound = Server::listen(address, Arc::new(users)).await;
                bound.with_context(|| format!("cannot listen on {address}"))?
            }
            None => {
                let port = self.port;
                bind(port, self.source().await?).await?
            }
        };
        let url = server.url();
        Out::new(Format::Table).text(&format!("{url}\n"))?;
        // The page that leads there must stay until the browser has read it.
        let _page = match no_open {
            true => None,
            false => browser::open(&url)
                .inspect_err(|error| note(&format!("open the address in a browser: {error:#}")))
                .ok(),
        };
        let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .context("cannot wait for signals")?;
        tokio::select! {
            () = server.serve() => {}
            ended = tokio::signal::ctrl_c() => ended.context("cannot wait for Ctrl-C")?,
            _ = stop.recv() => {}
        }
        Ok(())
    }

    async fn source(self) -> anyhow::Result<Arc<dyn Source>> {
        if !self.from_snapshot.is_empty() {
            return Ok(Arc::new(files::Files::read(&self.from_snapshot).await?));
        }
        Ok(Arc::new(Live::new(self.site().await?)?))
    }

    async fn site(self) -> anyhow::Result<Site> {
        let (config, _) = self.reach.config().await?;
        let fleet = self.fleet_manager.zip(self.fleet_token_file);
        Ok(Site {
            config,
            directory: self.reach.directory(),
            namespace: self.reach.namespace().map(str::to_owned),
            hosts: self.hosts,
            interval: Duration::from_secs(self.interval),
            fleet: fleet.map(|(url, token)| Arc::new(Manager::new(url, token))),
            is_own: true,
        })
    }
}

/// An address and a port. Kubernetes writes addresses of IP version 6 without brackets.
fn address(text: &str) -> Result<SocketAddr, String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
    });
    parsed.ok_or_else(|| "it must be an IP address and a port, such as 127.0.0.1:8080".to_owned())
}

/// Listens on a port of loopback: this one, or the usual one, or any that is free.
async fn bind(port: Option<u16>, source: Arc<dyn Source>) -> anyhow::Result<Server> {
    let server = match (Server::bind(port.unwrap_or(PORT), Arc::clone(&source)).await, port) {
        (Err(error), None) if error.kind() == ErrorKind::AddrInUse => Server::bind(0, source).await,
        (bound, _) => bound,
    };
    server.with_context(|| format!("cannot listen on 127.0.0.1:{}", port.unwrap_or(PORT)))
}

/// The console of a Kubernetes that was just started, in this process.
pub(crate) async fn of_kubeconfig(kubeconfig: PathBuf) -> anyhow::Result<Server> {
    let reach = Reach::new(None, Some(kubeconfig), None);
    let (config, _) = reach.config().await?;
    let site = Site {
        config,
        directory: reach.directory(),
        namespace: None,
        hosts: Hosts::unnamed(),
        interval: Duration::from_secs(2),
        fleet: None,
        is_own: true,
    };
    bind(None, Arc::new(Live::new(site)?)).await
}

/// Opens the browser at the address of a console. The result must be kept until the browser has read it.
pub(crate) fn open(url: &str) -> anyhow::Result<tempfile::NamedTempFile> {
    browser::open(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_kubernetes_writes() {
        for (text, expected) in [
            ("10.0.0.1:8080", Some("10.0.0.1:8080")),
            ("fd00::1:8080", Some("[fd00::1]:8080")),
            ("[fd00::1]:80", Some("[fd00::1]:80")),
            ("localhost:80", None),
            ("10.0.0.1", None),
            (":80", None),
        ] {
            let found = address(text).ok().map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
