//! `gregor console`: the pages, fed with what `status`, `why` and `plan` print.

mod browser;
mod files;
mod live;
mod pages;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use console::Console as Server;
use console::source::Source;

use super::At;
use crate::commands::hosts::Hosts;
use crate::commands::reach::Reach;
use crate::output::{Format, Out, note};

pub(crate) const EXAMPLES: &str = "\
The console only reads. It listens on 127.0.0.1; the printed address has a token in it that lets a browser in, so
share it with nobody. Observations are made while a page is open, once for all pages.

Examples:
  gregor console
  gregor console -n kafka --no-open
  gregor console --from-snapshot report.json";

/// The port if it is free: an address that stays the same can be bookmarked.
const PORT: u16 = 7470;

/// What is shown, and where.
#[derive(Debug, Args)]
pub(crate) struct Console {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    hosts: Hosts,
    /// Show what `gregor status --snapshot` wrote to this file, without Kubernetes and Kafka; may be repeated
    #[arg(long, value_name = "FILE")]
    from_snapshot: Vec<PathBuf>,
    /// The port on 127.0.0.1 [default: 7470, or any that is free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
    /// How many seconds to wait between two observations of a cluster
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

impl Console {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let (port, no_open) = (self.port, self.no_open);
        let source = self.source().await?;
        let server = match (Server::bind(port.unwrap_or(PORT), Arc::clone(&source)).await, port) {
            (Err(error), None) if error.kind() == ErrorKind::AddrInUse => {
                Server::bind(0, source).await
            }
            (bound, _) => bound,
        };
        let server = server
            .with_context(|| format!("cannot listen on 127.0.0.1:{}", port.unwrap_or(PORT)))?;
        let url = server.url();
        Out::new(Format::Table).text(&format!("{url}\n"))?;
        // The page that leads there must stay until the browser has read it.
        let _page = match no_open {
            true => None,
            false => browser::open(&url)
                .inspect_err(|error| note(&format!("open the address in a browser: {error:#}")))
                .ok(),
        };
        tokio::select! {
            () = server.serve() => {}
            ended = tokio::signal::ctrl_c() => ended.context("cannot wait for Ctrl-C")?,
        }
        Ok(())
    }

    async fn source(self) -> anyhow::Result<Arc<dyn Source>> {
        if !self.from_snapshot.is_empty() {
            return Ok(Arc::new(files::Files::read(&self.from_snapshot).await?));
        }
        let at = At { reach: self.reach, hosts: self.hosts, output: Format::Table };
        Ok(Arc::new(live::Live::new(at, Duration::from_secs(self.interval)).await?))
    }
}
