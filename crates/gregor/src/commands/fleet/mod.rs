//! `gregor fleet`: the fleet manager, and what a policy would cost.

mod serve;
mod simulate;

use clap::{Args, Subcommand};

/// What is asked of the fleet.
#[derive(Debug, Args)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the fleet manager
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Let a fleet live through months of demand, by one policy or several
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::Simulate),
}

impl Fleet {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Simulate(simulate) => simulate.run(),
        }
    }
}

/// Log lines to stderr, as the environment says.
pub(super) fn log() {
    use std::io::IsTerminal as _;
    let filter = tracing_subscriber::EnvFilter::try_from_env("GREGOR_LOG");
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
}

/// Ends with Ctrl-C or SIGTERM.
pub(super) async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without signals we run until we are killed.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
