//! Acts on the objects that were built from the spec.

use api::StrimziPodSet;
use control::cluster::snapshot::ObjectKey;
use control::quorum::answer::Answer;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{Api, ResourceExt as _};
use objects::{Compared, Kind, Object};

use super::{Answered, DONE};
use crate::cluster::error::PassError;
use crate::cluster::pass::Work;
use crate::write;

/// Applies an object that was built in this pass.
pub(super) async fn apply(work: &Work, key: &ObjectKey) -> Result<Answered, PassError> {
    let mut changes = work.objects.changes.iter();
    let Some((object, compared)) = changes.find(|(object, _)| object.key() == *key) else {
        return Ok((Answer::NotSent, Some(format!("cannot build {}", key.name))));
    };
    let sent = (object, compared);
    match object {
        Object::ServiceAccount(_) => one::<ServiceAccount>(work.api(), work, sent).await?,
        Object::NetworkPolicy(_) => one::<NetworkPolicy>(work.api(), work, sent).await?,
        Object::PodDisruptionBudget(_) => {
            one::<PodDisruptionBudget>(work.api(), work, sent).await?;
        }
        Object::ClusterRoleBinding(_) => {
            let api = Api::all(work.ctx.client.clone());
            one::<ClusterRoleBinding>(api, work, sent).await?;
        }
        Object::Service(_) => one::<Service>(work.api(), work, sent).await?,
        Object::PersistentVolumeClaim(_) => {
            one::<PersistentVolumeClaim>(work.api(), work, sent).await?;
        }
        Object::ConfigMap(_) => one::<ConfigMap>(work.api(), work, sent).await?,
        Object::PodSet(_) => one::<StrimziPodSet>(work.api(), work, sent).await?,
    }
    Ok(DONE)
}

async fn one<K: Kind + write::Object>(
    api: Api<K>,
    work: &Work,
    (object, compared): (&Object, &Compared),
) -> Result<(), PassError> {
    let before = K::all(&work.found).get(object.name());
    work.ctx.writer.apply_compared(&api, object.name(), compared, before).await?;
    Ok(())
}

/// Removes the pods that have to go from the set of a pool that is gone.
pub(super) async fn shrink(work: &Work, name: &str) -> Result<Answered, PassError> {
    let mut orphans = work.objects.orphans.iter();
    let Some(orphan) = orphans.find(|orphan| orphan.set.name_any() == name) else {
        return Ok((Answer::NotSent, Some(format!("{name} has no pod that has to go"))));
    };
    let (set, patch) = (&orphan.set, &orphan.patch);
    work.ctx.writer.patch(&work.api::<StrimziPodSet>(), name, patch, Some(set)).await?;
    Ok(DONE)
}
