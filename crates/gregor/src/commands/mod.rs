//! One module per command.

mod fetch;
mod kafka;
mod shim;

use clap::Subcommand;

/// What `gregor` can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Get the programs that Gregor runs (Apache Kafka), into the cache
    Fetch(fetch::Fetch),
    /// Look at a Kafka cluster and change what can be changed by hand
    Kafka(Box<kafka::Kafka>),
    /// The parent of a container; started by `gregor kubelet`
    #[command(hide = true)]
    Shim(shim::Shim),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Fetch(fetch) => fetch.run(),
            Command::Kafka(kafka) => kafka.run(),
            Command::Shim(shim) => shim.run(),
        }
    }
}
