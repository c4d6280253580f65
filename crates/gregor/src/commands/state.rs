//! Which state directory a command is about.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

/// State directory.
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// State directory of a local Kubernetes; several can run side by side [default: gregor/local in the
    /// user's state directory]
    #[arg(long, value_name = "DIR", env = "GREGOR_STATE_DIR")]
    state: Option<PathBuf>,
}

impl StateArgs {
    /// The specified directory, else the user's default.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.state {
            return std::path::absolute(path).with_context(|| format!("cannot find {path:?}"));
        }
        let user = directories::ProjectDirs::from("", "", "gregor")
            .context("this user has no home directory: name a state directory with --state")?;
        // Not every system has a place for state.
        let base = user.state_dir().unwrap_or_else(|| user.data_local_dir());
        Ok(base.join("local"))
    }
}
