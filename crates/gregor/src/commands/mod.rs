//! One module per command.

mod fetch;

use clap::Subcommand;

/// What `gregor` can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Get the programs that Gregor runs (Apache Kafka), into the cache
    Fetch(fetch::Fetch),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Fetch(fetch) => fetch.run(),
        }
    }
}
