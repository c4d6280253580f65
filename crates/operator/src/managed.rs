//! Which clusters this operator manages, as [`control::life::coexist`] decides.
//!
//! 1. A pass over a cluster begins with this decision. The other controllers do nothing for a cluster that exists and has
//!    not been found to be managed.
//! 2. A cluster that is not managed is not written to, not even to its status: two operators would overwrite each other's.
//!    Its user is told by an Event and in the log.

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

/// Decides whether a cluster is managed, keeps that for the other controllers, and tells its user why not.
pub(crate) async fn decide(
    ctx: &Context,
    kafka: &DynamicObject,
    resource: &ApiResource,
) -> Decision {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let decision = judge(ctx, kafka, &names).await;
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

/// Whether a cluster was found to be managed, and this resource says so too.
pub(crate) async fn is_still_managed(ctx: &Context, kafka: &DynamicObject) -> bool {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    ctx.managed.get(&names) == Some(true) && judge(ctx, kafka, &names).await.is_managed()
}

async fn judge(ctx: &Context, kafka: &DynamicObject, names: &Names) -> Decision {
    let strimzi = strimzi::running(ctx).await;
    coexist::decide(coexist::Facts {
        own: &ctx.settings.selector,
        namespace: &names.namespace,
        labels: kafka.labels(),
        is_confirmed: kafka.annotations().get(CONFIRMED).is_some_and(|value| value == "true"),
        strimzi: strimzi.as_deref(),
    })
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
