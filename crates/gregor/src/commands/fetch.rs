//! `gregor fetch`: gets what Gregor runs but does not contain.

use clap::Args;

/// What to get.
#[derive(Debug, Args)]
pub(crate) struct Fetch {}

impl Fetch {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        anyhow::bail!("nothing to fetch yet")
    }
}
