//! `gregor kubeconfig`: where the kubeconfig is.

use clap::Args;
use local::control_plane::StateDir;

use super::state::StateArgs;
use crate::output::{Format, Out};

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Kubeconfig {
    #[command(flatten)]
    state: StateArgs,
}

impl Kubeconfig {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let dir = StateDir::open(&self.state.path()?)?;
        let path = dir.kubeconfig();
        if !path.exists() {
            anyhow::bail!("{path:?} was not written yet: gregor up writes it");
        }
        Out::new(Format::Table).text(&format!("{}\n", path.display()))
    }
}
