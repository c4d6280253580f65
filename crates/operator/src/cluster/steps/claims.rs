//! Claims for the volumes of all nodes. A claim only ever grows.

use control::cluster::quantity;
use control::cluster::spec::{Claim, Disk};
use control::cluster::storage::{ClaimFacts, Resize, layout, resize};
use control::conditions::Reason;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, ResourceExt as _};

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::{Node, claims};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let api: Api<PersistentVolumeClaim> = work.api();
    let cluster_id = work.record.cluster_id.clone().unwrap_or_default();
    for node in work.blueprint.nodes.clone() {
        let pools = &work.blueprint.spec.pools;
        let Some(pool) = pools.iter().find(|pool| pool.name == node.pool) else { continue };
        for place in layout(&pool.storage, node.id).places {
            let Disk::Claim(wish) = &place.volume.disk else { continue };
            let size = size(work, &node, &place.name, wish).await?;
            let of = (size.as_str(), cluster_id.as_str());
            let claim = claims::claim(&work.blueprint, &node, (&place.name, wish), of)?;
            let name = claim.name_any();
            let before = work.found.claims.get(&name);
            let after = work.ctx.writer.apply(&api, &name, &claim, before).await?;
            work.found.claims.insert(name, after);
        }
    }
    Ok(Step::Done)
}

/// What a claim shall ask for.
async fn size(
    work: &mut Work,
    node: &Node,
    volume: &str,
    wish: &Claim,
) -> Result<String, PassError> {
    let name = work.blueprint.names.claim(volume, &node.pool, node.id);
    let Some(claim) = work.found.claims.get(&name).cloned() else {
        return Ok(wish.size.to_string());
    };
    let Some((asked, facts)) = facts(work, &claim, wish).await? else {
        return Ok(wish.size.to_string());
    };
    let decision = resize(&wish.size, &facts);
    if let Some(warning) = decision.warning(&name) {
        work.warn(Reason::PvcResizingWarning, warning);
    }
    Ok(match decision {
        Resize::Grow(_) => wish.size.to_string(),
        Resize::Keep
        | Resize::WaitForVolume
        | Resize::WaitForResize
        | Resize::RestartPod
        | Resize::CannotShrink
        | Resize::CannotGrow
        | Resize::Unknown => asked,
    })
}

/// What a claim asks for, as text, and what else is known of it.
async fn facts(
    work: &Work,
    claim: &PersistentVolumeClaim,
    wish: &Claim,
) -> Result<Option<(String, ClaimFacts)>, PassError> {
    let spec = claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let Some(asked) = requests.and_then(|requests| requests.get("storage")) else {
        return Ok(None);
    };
    let requested_bytes = quantity::bytes(&asked.0).unwrap_or(u64::MAX);
    let status = claim.status.as_ref();
    let is = |kind: &str| {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|one| one.type_ == kind && one.status == "True")
    };
    // The class is read only where it matters.
    let expandable = match spec.and_then(|spec| spec.storage_class_name.as_ref()) {
        Some(class) if requested_bytes < wish.size.bytes() => {
            let api: Api<StorageClass> = Api::all(work.ctx.client.clone());
            let found = api.get_opt(class).await.map_err(|e| PassError::Get(Box::new(e)))?;
            Some(found.and_then(|class| class.allow_volume_expansion).unwrap_or(false))
        }
        Some(_) | None => Some(false),
    };
    let facts = ClaimFacts {
        requested_bytes,
        bound: status.and_then(|status| status.phase.as_deref()) == Some("Bound"),
        resizing: is("Resizing"),
        file_system_pending: is("FileSystemResizePending"),
        expandable,
    };
    Ok(Some((asked.0.clone(), facts)))
}
