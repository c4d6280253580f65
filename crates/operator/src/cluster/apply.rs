//! Applies the objects that an area has built, and keeps what the API server returned.

use api::StrimziPodSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use objects::areas::Built;
use objects::{Kind, Object, compare};

use super::error::PassError;
use super::pass::{Step, Work};
use crate::write;

/// Applies what an area has built and keeps its warnings. Returns its outputs and how the pass goes on.
pub(crate) async fn built<T>(work: &mut Work, built: Built<T>) -> Result<(T, Step), PassError> {
    work.warnings.extend(built.warnings);
    all(work, &built.objects).await?;
    Ok((built.outputs, built.flow.into()))
}

/// Applies objects one after the other. Nothing is sent for one that would not change.
async fn all(work: &mut Work, objects: &[Object]) -> Result<(), PassError> {
    for object in objects {
        match object {
            Object::ServiceAccount(_) => one::<ServiceAccount>(work.api(), work, object).await?,
            Object::NetworkPolicy(_) => one::<NetworkPolicy>(work.api(), work, object).await?,
            Object::PodDisruptionBudget(_) => {
                one::<PodDisruptionBudget>(work.api(), work, object).await?;
            }
            Object::ClusterRoleBinding(_) => {
                let api = Api::all(work.ctx.client.clone());
                one::<ClusterRoleBinding>(api, work, object).await?;
            }
            Object::Service(_) => one::<Service>(work.api(), work, object).await?,
            Object::PersistentVolumeClaim(_) => {
                one::<PersistentVolumeClaim>(work.api(), work, object).await?;
            }
            Object::ConfigMap(_) => one::<ConfigMap>(work.api(), work, object).await?,
            Object::PodSet(_) => one::<StrimziPodSet>(work.api(), work, object).await?,
        }
    }
    Ok(())
}

async fn one<K: Kind + write::Object>(
    api: Api<K>,
    work: &mut Work,
    object: &Object,
) -> Result<(), PassError> {
    let compared = compare(object, &work.found)?;
    let before = K::all(&work.found).get(object.name());
    let after = work.ctx.writer.apply_compared(&api, object.name(), &compared, before).await?;
    K::all_mut(&mut work.found).insert(object.name().to_owned(), after);
    Ok(())
}
