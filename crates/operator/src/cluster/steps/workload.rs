//! The pods of all nodes, through their pod sets. Existing pods are not touched: restarting is for the
//! roller.

use api::StrimziPodSet;
use kube::ResourceExt as _;
use objects::areas::workload;

use crate::cluster::apply;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let known = (&work.known.configuration, &work.known.certificate_marks);
    let built = workload::build(&work.blueprint, &work.found, known)?;
    let (orphans, step) = apply::built(work, built).await?;
    let api = work.api::<StrimziPodSet>();
    for orphan in orphans {
        let (set, patch) = (&orphan.set, &orphan.patch);
        work.ctx.writer.patch(&api, &set.name_any(), patch, Some(set)).await?;
    }
    Ok(step)
}
