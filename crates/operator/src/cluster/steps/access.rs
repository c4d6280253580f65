//! Accounts, rights, who may reach the nodes, and how many may be evicted.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{Api, ResourceExt as _};

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::{access, pods};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let (writer, found) = (&work.ctx.writer, &work.found);
    let account = access::service_account(&work.blueprint)?;
    let name = account.name_any();
    writer.apply(&work.api(), &name, &account, found.accounts.get(&name)).await?;
    let policy = access::network_policy(&work.blueprint)?;
    let name = policy.name_any();
    writer.apply(&work.api(), &name, &policy, found.policies.get(&name)).await?;
    let budget = access::disruption_budget(&work.blueprint)?;
    let name = budget.name_any();
    writer.apply(&work.api(), &name, &budget, found.budgets.get(&name)).await?;
    if pods::needs_machine(&work.blueprint) {
        let api: Api<ClusterRoleBinding> = Api::all(work.ctx.client.clone());
        let binding = access::node_reader(&work.blueprint)?;
        let name = binding.name_any();
        let mut before = api.get_opt(&name).await.map_err(|e| PassError::Get(Box::new(e)))?;
        // What a binding gives cannot be changed, and Strimzi gives a role of its own by the same name.
        if let Some(found) = before.take_if(|found| found.role_ref != binding.role_ref)
            && let Some(uid) = found.uid()
        {
            writer.delete(&api, &name, &uid, None).await?;
        }
        writer.apply(&api, &name, &binding, before.as_ref()).await?;
    }
    Ok(Step::Done)
}
