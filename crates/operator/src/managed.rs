//! Which clusters this operator manages, as [`control::life::coexist`] decides.
//!
//! 1. A pass over a cluster begins with this decision. The other controllers do nothing for a cluster that exists and has
//!    not been found to be managed.
//! 2. A cluster that is not managed is not written to, not even to its status: two operators would overwrite each other's.
//!    Its user is told by an Event and in the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::Kafka;
use api::names::Names;
use control::annotations::Annotation;
use control::life::coexist::{self, Decision};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource as _, ResourceExt as _};

use crate::context::Context;
use crate::strimzi;

/// The annotation with which a user confirms that a cluster is Gregor's.
const CONFIRMED: &str = Annotation::IgnoreStrimzi.name();

/// Whether each cluster is managed. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ManagedClusters {
    managed: Arc<Mutex<BTreeMap<Names, bool>>>,
}

impl ManagedClusters {
    /// Keeps whether a cluster is managed. Returns what was known before.
    fn set(&self, names: &Names, is_managed: bool) -> Option<bool> {
        let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        managed.insert(names.clone(), is_managed)
    }

    fn get(&self, names: &Names) -> Option<bool> {
        let managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        managed.get(names).copied()
    }

    /// Forgets a cluster that is gone.
    pub(crate) fn forget(&self, names: &Names) {
        let mut managed = self.managed.lock().unwrap_or_else(PoisonError::into_inner);
        managed.remove(names);
    }
}

/// Decides whether a cluster is managed, keeps that for the other controllers, and tells its user why not.
pub(crate) async fn decide(
    ctx: &Context,
    kafka: &DynamicObject,
    resource: &ApiResource,
) -> Decision {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let strimzi = strimzi::running(ctx).await;
    let decision = coexist::decide(coexist::Facts {
        own: &ctx.settings.selector,
        namespace: &names.namespace,
        labels: kafka.labels(),
        is_confirmed: kafka.annotations().get(CONFIRMED).is_some_and(|value| value == "true"),
        strimzi: strimzi.as_deref(),
    });
    let before = ctx.managed.set(&names, decision.is_managed());
    if !decision.is_managed() {
        // What topics, users and metrics would use.
        ctx.admins.forget(&names);
    }
    if before != Some(decision.is_managed())
        && let Some(message) = decision.message(CONFIRMED)
    {
        tell(ctx, &kafka.object_ref(resource), &names, message).await;
    }
    decision
}

async fn tell(ctx: &Context, kafka: &ObjectReference, names: &Names, message: String) {
    let (namespace, cluster) = (&names.namespace, &names.cluster);
    tracing::warn!(namespace, kafka = cluster, "{message}");
    let event = Event {
        type_: EventType::Warning,
        reason: "StrimziRuns".to_owned(),
        note: Some(message.chars().take(1000).collect()),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    if let Err(error) = ctx.recorder.publish(&event, kafka).await {
        tracing::info!("cannot publish an Event: {error}");
    }
}

/// Whether a cluster exists and is not known to be managed. What belongs to it is left unchanged.
pub(crate) async fn is_left_alone(ctx: &Context, names: &Names) -> Result<bool, kube::Error> {
    match ctx.managed.get(names) {
        Some(is_managed) => Ok(!is_managed),
        // The first pass over it is about to decide, unless there is no such cluster.
        None => {
            let api: Api<Kafka> = Api::namespaced(ctx.client.clone(), &names.namespace);
            Ok(api.get_metadata_opt(&names.cluster).await?.is_some())
        }
    }
}

/// Whether a cluster is known not to be managed.
pub(crate) fn is_unmanaged(ctx: &Context, names: &Names) -> bool {
    ctx.managed.get(names) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_cluster_is_kept_until_it_is_gone() {
        let (managed, names) = (ManagedClusters::default(), Names::new("n", "c"));
        assert_eq!(managed.get(&names), None);
        assert_eq!(managed.set(&names, false), None);
        assert_eq!(managed.clone().get(&names), Some(false));
        assert_eq!(managed.set(&names, true), Some(false));
        managed.forget(&names);
        assert_eq!(managed.get(&names), None);
    }
}
