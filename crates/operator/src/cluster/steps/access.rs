//! Accounts, rights, who may reach the nodes, and how many may be evicted.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use objects::areas::access;

use crate::cluster::apply;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let built = access::build(&work.blueprint)?;
    let ((), step) = apply::built(work, built).await?;
    let Some(name) = access::needs(&work.blueprint) else { return Ok(step) };
    let api: Api<ClusterRoleBinding> = Api::all(work.ctx.client.clone());
    let existing = api.get_opt(&name).await.map_err(|e| PassError::Get(Box::new(e)))?;
    let mut built = access::binding(&work.blueprint, existing)?;
    if let Some(uid) = &built.outputs.outdated {
        work.ctx.writer.delete(&api, &name, uid, None).await?;
    }
    work.found.bindings.extend(built.outputs.existing.take().map(|existing| (name, existing)));
    let (_, step) = apply::built(work, built).await?;
    Ok(step)
}
