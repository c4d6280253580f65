//! Acts on Kubernetes.

use control::quorum::migrate;
use control::rolling::reasons::{self, Reason};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource, ResourceExt as _};
use objects::found::ByName;
use serde_json::{Value, json};

use super::{Answered, DONE};
use crate::cluster::error::PassError;
use crate::cluster::observe::RESTART;
use crate::cluster::pass::Work;
use crate::write::Object;

/// Deletes an object, if it still is the one with this uid. `found` are the objects of its kind.
pub(super) async fn delete<K>(
    work: &Work,
    found: &ByName<K>,
    (name, uid): (&str, &str),
) -> Result<Answered, PassError>
where
    K: Object + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let version = found.get(name).and_then(K::resource_version);
    work.ctx.writer.delete(&work.api::<K>(), name, (uid, version.as_deref())).await?;
    Ok(DONE)
}

/// Deletes a ClusterRoleBinding, if it still is the one with this uid.
pub(super) async fn delete_binding(
    work: &Work,
    name: &str,
    uid: &str,
) -> Result<Answered, PassError> {
    let api: Api<ClusterRoleBinding> = Api::all(work.ctx.client.clone());
    let version = work.found.bindings.get(name).and_then(ClusterRoleBinding::resource_version);
    work.ctx.writer.delete(&api, name, (uid, version.as_deref())).await?;
    Ok(DONE)
}

/// Deletes a pod. Its pod set creates it again.
pub(super) async fn restart(
    work: &Work,
    (pod, uid): (&str, &str),
    reasons: &[Reason],
) -> Result<Answered, PassError> {
    let deletion = delete(work, &work.found.pods, (pod, uid));
    then_publish(deletion, || publish_restart(work, pod, reasons)).await
}

/// Publishes what was done. Whatever comes before the act makes the facts behind it older, and an API server may take
/// half a minute for an Event. An operator that dies in between does not publish it.
async fn then_publish<F: Future<Output = ()>>(
    act: impl Future<Output = Result<Answered, PassError>>,
    publish: impl FnOnce() -> F,
) -> Result<Answered, PassError> {
    let answered = act.await?;
    publish().await;
    Ok(answered)
}

/// Publishes an Event on the Kafka resource.
async fn publish_restart(work: &Work, pod: &str, reasons: &[Reason]) {
    let found = work.found.pods.get(pod);
    let event = Event {
        type_: EventType::Normal,
        reason: reasons.first().map_or("Restart", Reason::name).to_owned(),
        note: Some(format!("restarting {pod}: {}", reasons::list(reasons))),
        action: "StrimziInitiatedPodRestart".to_owned(),
        secondary: found.map(|pod| pod.object_ref(&())),
    };
    let kafka = work.blueprint.kafka.object_ref(&());
    if let Err(error) = work.ctx.recorder.publish(&event, &kafka).await {
        tracing::info!("cannot publish an Event: {error}");
    }
}

/// Removes the annotation that asked to restart the nodes of a pool.
pub(super) async fn clear_restart_request(work: &Work, pool: &str) -> Result<Answered, PassError> {
    let name = work.blueprint.names.pod_set(pool);
    let api = work.api::<api::StrimziPodSet>();
    let patch = json!({ "metadata": { "annotations": { RESTART: Value::Null } } });
    work.ctx.writer.patch(&api, &name, &patch, work.found.pod_sets.get(&name)).await?;
    Ok(DONE)
}

/// Removes the annotation that asked for a migration of the quorum.
pub(super) async fn remove_migration_annotation(work: &Work) -> Result<Answered, PassError> {
    let (api, kafka) = (work.api::<api::Kafka>(), &work.blueprint.kafka);
    let patch = json!({ "metadata": { "annotations": { migrate::ANNOTATION: Value::Null } } });
    work.ctx.writer.patch(&api, &kafka.name_any(), &patch, Some(kafka)).await?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn the_event_of_a_restart_never_delays_the_deletion_of_the_pod() {
        let failed = || PassError::NotInSnapshot("p".to_owned());
        // Whether the pod is deleted, and what happens.
        for (is_deleted, expected) in [(true, "delete publish"), (false, "delete")] {
            let order = RefCell::new(Vec::new());
            let deletion = async {
                // Others get their turn, as with every request.
                tokio::task::yield_now().await;
                order.borrow_mut().push("delete");
                if is_deleted { Ok(DONE) } else { Err(failed()) }
            };
            let publish = || async { order.borrow_mut().push("publish") };
            let answered = then_publish(deletion, publish).await;
            assert_eq!(answered.is_ok(), is_deleted);
            assert_eq!(order.into_inner().join(" "), expected);
        }
    }
}
