//! Voters, as [`control::cluster::areas::quorum`] decides.

use control::cluster::areas;

use crate::cluster::act;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let step = act::run(work, areas::QUORUM).await;
    let view = work.known.outputs.quorum.as_ref().and_then(|facts| facts.quorum.as_ref());
    if let Some(view) = view {
        work.ctx.marks.set(&work.blueprint.names, view.mark());
    }
    step
}
