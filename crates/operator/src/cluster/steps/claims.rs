//! Claims for the volumes of all nodes. A claim only ever grows.

use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use objects::areas::claims::{self, Classes};

use crate::cluster::apply;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let api: Api<StorageClass> = Api::all(work.ctx.client.clone());
    let mut classes = Classes::new();
    for name in claims::needs(&work.blueprint, &work.found) {
        let class = api.get_opt(&name).await.map_err(|e| PassError::Get(Box::new(e)))?;
        classes.insert(name, class);
    }
    let cluster_id = work.record.cluster_id.as_deref().unwrap_or_default();
    let built = claims::build(&work.blueprint, &work.found, cluster_id, &classes)?;
    let ((), step) = apply::built(work, built).await?;
    Ok(step)
}
