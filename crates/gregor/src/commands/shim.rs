//! `gregor shim`: what a kubelet starts between itself and a container. Not for people.

use std::path::PathBuf;

use clap::Args;
use local::kubelet::shim::{self, AttemptDir};

/// Action for a container.
#[derive(Debug, Args)]
pub(crate) struct Shim {
    /// Spec of the container
    #[arg(value_name = "SPEC", required_unless_present_any = ["inner", "enter"])]
    spec: Option<PathBuf>,
    /// Become the container whose files are in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "spec")]
    inner: Option<PathBuf>,
    /// Run a command in the container whose files are in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["spec", "inner"])]
    enter: Option<PathBuf>,
    /// Command to run in the container
    #[arg(last = true, value_name = "COMMAND", requires = "enter")]
    command: Vec<String>,
}

impl Shim {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(dir) = self.inner {
            return Err(shim::inner(&AttemptDir::new(dir)).into());
        }
        if let Some(dir) = self.enter {
            return match shim::enter(&AttemptDir::new(dir), &self.command) {
                Ok(never) => match never {},
                Err(error) => Err(error.into()),
            };
        }
        Ok(shim::run(&self.spec.unwrap_or_default())?)
    }
}
