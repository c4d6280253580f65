//! `gregor fleet`: the fleet manager, and what a policy would cost.

mod demo;
mod local;
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
    /// Watch a small fleet on this machine grow and shrink, with real Kafkas, in some minutes
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// Let a fleet live through months of demand, by one policy or several
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::Simulate),
}

impl Fleet {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Demo(demo) => demo.run(),
            Command::Simulate(simulate) => simulate.run(),
        }
    }
}

/// What is logged unless somebody says otherwise. The Kubernetes client reports every request that fails, also
/// those that are tried again: what matters of that we say ourselves.
pub(super) const LOG: &str = "info,kube_client=off,kube_runtime=error";

/// Log lines to stderr, as the environment says, or else these.
pub(super) fn log(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GREGOR_LOG");
    crate::log::to_stderr(filter.unwrap_or_else(|_| default.into()));
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
