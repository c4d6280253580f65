//! `gregor fleet`: the fleet manager, and what a policy would cost.

mod demo;
pub(crate) mod manager;
mod plan;
mod serve;
mod simulate;
mod status;
mod token;
mod why;

use clap::{Args, Subcommand};

/// Commands of the fleet.
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
    /// Run a small fleet with real Kafkas on this machine that grows and shrinks within minutes
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// Show regions, data planes, and what waits
    #[command(after_help = status::EXAMPLES)]
    Status(status::Status),
    /// Explain why a data plane, a region or a Kafka is in its state
    #[command(after_help = why::EXAMPLES)]
    Why(why::Why),
    /// Show what a changed configuration would do to the fleet
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::Plan),
    /// Manage tokens where there is no identity provider
    #[command(after_help = token::EXAMPLES)]
    Token(token::Token),
    /// Simulate months of demand on a fleet, with one policy or several
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::Simulate),
}

impl Fleet {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Demo(demo) => demo.run(),
            Command::Status(status) => status.run(),
            Command::Why(why) => why.run(),
            Command::Plan(plan) => plan.run(),
            Command::Token(token) => token.run(),
            Command::Simulate(simulate) => simulate.run(),
        }
    }
}

/// Default log filter. The Kubernetes client logs every failed request, including retried ones, which we log
/// ourselves where it matters.
pub(super) const LOG: &str = "info,kube_client=off,kube_runtime=error";

/// Logs to stderr, with the filter from the environment or this default.
pub(super) fn log(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GREGOR_LOG");
    crate::log::to_stderr(filter.unwrap_or_else(|_| default.into()));
}

/// Completes on Ctrl-C or SIGTERM.
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
