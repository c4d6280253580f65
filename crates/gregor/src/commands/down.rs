//! `gregor down`: ends what `gregor up` has started.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use local::control_plane::{self, ProcessIdentity, StateDir};

use super::state::StateArgs;
use super::up::words;
use crate::machine::end_leftovers;
use crate::output::note;

/// Longer than the supervising process needs for all components.
const PATIENCE: Duration = Duration::from_secs(90);

/// Options of `gregor down`.
#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Also delete the state directory with all its data
    #[arg(long)]
    purge: bool,
    #[command(flatten)]
    state: StateArgs,
}

impl Down {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let dir = StateDir::open(&self.state.path()?)?;
        if let Some(holder) = dir.holder() {
            end(&dir, &holder)?;
        }
        let held = dir.hold()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        // Those whose supervising process was killed; pods before what they talk to.
        let report = |event| note(&words::sentence(&event));
        runtime.block_on(async {
            end_leftovers(dir.root()).await?;
            Ok::<_, anyhow::Error>(control_plane::end_leftovers(&held, report).await?)
        })?;
        if self.purge {
            StateDir::purge(held)?;
            note(&format!("deleted {}", shown(dir.root())));
        }
        Ok(())
    }
}

/// Tells the supervising process to stop everything, and waits for it.
fn end(dir: &StateDir, holder: &ProcessIdentity) -> anyhow::Result<()> {
    let pid = holder.pid;
    note(&format!("process {pid} stops everything in {}", shown(dir.root())));
    holder.terminate().with_context(|| format!("cannot send a signal to process {pid}"))?;
    let begun = Instant::now();
    while holder.is_alive() {
        if begun.elapsed() > PATIENCE {
            anyhow::bail!(
                "process {pid} has not exited after {} s: inspect it, kill it, and run gregor \
                 down again",
                PATIENCE.as_secs()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}
