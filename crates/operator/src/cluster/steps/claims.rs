//! Claims for the volumes of all nodes. A claim only ever grows.

use control::cluster::quantity;
use control::cluster::spec::{Claim, Disk};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, ResourceExt as _};

use super::workload::volume_name;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::{Node, claims};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let api: Api<PersistentVolumeClaim> = work.api();
    let cluster_id = work.record.cluster_id.clone().unwrap_or_default();
    for node in work.blueprint.nodes.clone() {
        let pools = &work.blueprint.spec.pools;
        let Some(pool) = pools.iter().find(|pool| pool.name == node.pool) else { continue };
        let storage = pool.storage.clone();
        for volume in storage.volumes() {
            let Disk::Claim(wish) = &volume.disk else { continue };
            let volume = volume_name(&storage, volume.id);
            let size = size(work, &node, &volume, wish).await?;
            let of = (size.as_str(), cluster_id.as_str());
            let claim = claims::claim(&work.blueprint, &node, (&volume, wish), of)?;
            let name = claim.name_any();
            let before = work.found.claims.get(&name);
            let after = work.ctx.writer.apply(&api, &name, &claim, before).await?;
            work.found.claims.insert(name, after);
        }
    }
    Ok(Step::Done)
}

/// What a claim shall ask for: what is wished for, unless it has more already, or its class cannot grow.
async fn size(
    work: &mut Work,
    node: &Node,
    volume: &str,
    wish: &Claim,
) -> Result<String, PassError> {
    let name = work.blueprint.names.claim(volume, &node.pool, node.id);
    let Some(claim) = work.found.claims.get(&name) else { return Ok(wish.size.to_string()) };
    let spec = claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let Some(asked) = requests.and_then(|requests| requests.get("storage")) else {
        return Ok(wish.size.to_string());
    };
    let asked = asked.0.clone();
    let has = quantity::bytes(&asked).unwrap_or(u64::MAX);
    if has >= wish.size.bytes() {
        return Ok(asked);
    }
    let class = spec.and_then(|spec| spec.storage_class_name.clone());
    let grows = match &class {
        Some(class) => {
            let api: Api<StorageClass> = Api::all(work.ctx.client.clone());
            let found = api.get_opt(class).await.map_err(|e| PassError::Get(Box::new(e)))?;
            found.and_then(|class| class.allow_volume_expansion).unwrap_or(false)
        }
        None => false,
    };
    if grows {
        return Ok(wish.size.to_string());
    }
    let class = class.unwrap_or_else(|| "none".to_owned());
    work.warn(
        "PvcResizingWarning",
        format!(
            "claim {name} stays at {asked} instead of {}: its storage class {class} does not \
             allow volumes to grow",
            wish.size
        ),
    );
    Ok(asked)
}
