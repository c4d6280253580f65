//! The controller of `Kafka` resources: one pass after another for each cluster.
//!
//! 1. There is at most one pass over a cluster at a time, and a cluster's trouble delays no other.
//! 2. A pass is begun by any change to what belongs to the cluster, and by time.
//! 3. Every pass reads everything anew: what begins a pass only says that it is time for one.

mod act;
pub(crate) mod admins;
mod build;
pub(crate) mod census;
mod error;
mod facts;
pub mod foresee;
mod found;
mod gone;
mod keys;
mod machines;
pub(crate) mod marks;
pub(crate) mod nodes;
mod observe;
mod others;
mod partitions;
mod pass;
mod rebalances;
pub(crate) mod record;
mod status;
mod steps;
mod witnesses;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::{CLUSTER_LABEL, KIND_LABEL, Names};
use api::{Kafka, KafkaNodePool, KafkaRebalance, StrimziPodSet};
use control::liveness::Loop;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::client::{WatchPause, watching};
use crate::context::{Context, dynamic};
use crate::rebalance::store;
use crate::words::{chain, tell_of_watch};
use crate::{managed, trace, users};
use census::Census;
use error::PassError;

/// Several events that belong together begin one pass.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The pause after a pass that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the controller until `shutdown`, and then until the passes in hand have ended.
pub async fn run(
    ctx: Arc<Context>,
    shutdown: impl Future<Output = ()> + Clone + Send + Unpin + 'static,
) {
    let runs = ctx.settings.scopes().into_iter().map(|scope| {
        let resource = ApiResource::erase::<Kafka>(&());
        let gone = gone::watch((*ctx).clone(), dynamic(&ctx.client, scope.as_deref(), &resource));
        let (tell, told) = oneshot::channel();
        let clusters = clusters(ctx.clone(), scope, told);
        let shutdown = shutdown.clone();
        let gone = async move {
            tokio::select! {
                () = gone => {}
                () = shutdown => {}
            }
            // The other end is there as long as this future is.
            let _ = tell.send(());
        };
        futures::future::join(clusters, gone)
    });
    futures::future::join_all(runs).await;
}

/// The clusters of one namespace, or of all.
async fn clusters(ctx: Arc<Context>, scope: Option<String>, shutdown: oneshot::Receiver<()>) {
    let scope = scope.as_deref();
    let resource = ApiResource::erase::<Kafka>(&());
    let kafkas = dynamic(&ctx.client, scope, &resource);
    let pools = ApiResource::erase::<KafkaNodePool>(&());
    let mapper = of_cluster::<DynamicObject>(resource.clone());
    let controller = Controller::new_with(kafkas, watching(), resource.clone())
        // As many passes at a time as there are clusters: one whose Kafka does not answer waits alone.
        .with_config(Config::default().debounce(DEBOUNCE))
        .watches_with(dynamic(&ctx.client, scope, &pools), pools, labelled(), mapper);
    let rebalances = ApiResource::erase::<KafkaRebalance>(&());
    let (api, mapper) =
        (dynamic(&ctx.client, scope, &rebalances), of_cluster::<DynamicObject>(resource.clone()));
    let controller = controller.watches_with(api, rebalances, labelled(), mapper);
    let controller = watch::<StrimziPodSet>(controller, &ctx, scope, &resource);
    let controller = watch::<Pod>(controller, &ctx, scope, &resource);
    let controller = watch::<Service>(controller, &ctx, scope, &resource);
    let controller = watch::<ConfigMap>(controller, &ctx, scope, &resource);
    let controller = watch::<Secret>(controller, &ctx, scope, &resource);
    let controller = watch::<PersistentVolumeClaim>(controller, &ctx, scope, &resource);
    let mut census = {
        let metrics = ctx.writer.metrics().clone();
        Census::new(metrics, scope, controller.store(), ctx.standings.clone())
    };
    controller
        .trigger_backoff(WatchPause)
        .graceful_shutdown_on(shutdown.map(|_| ()))
        .run(pass, on_error, ctx)
        .for_each(|done| {
            tell_of_watch(&done);
            census.take();
            std::future::ready(())
        })
        .await;
}

/// Objects that belong to some cluster.
fn labelled() -> watcher::Config {
    watching().labels(CLUSTER_LABEL)
}

fn watch<K>(
    controller: Controller<DynamicObject>,
    ctx: &Context,
    scope: Option<&str>,
    resource: &ApiResource,
) -> Controller<DynamicObject>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api: Api<K> = match scope {
        Some(namespace) => Api::namespaced(ctx.client.clone(), namespace),
        None => Api::all(ctx.client.clone()),
    };
    controller.watches(api, labelled(), of_cluster(resource.clone()))
}

/// The cluster that an object belongs to.
fn of_cluster<K: Resource>(
    resource: ApiResource,
) -> impl Fn(K) -> Option<ObjectRef<DynamicObject>> + Send + Sync + 'static {
    move |object: K| {
        let cluster = object.meta().labels.as_ref()?.get(CLUSTER_LABEL)?;
        let namespace = object.meta().namespace.as_deref()?;
        let names = Names::new(namespace, cluster);
        // What a pass remembers is no reason for another one, and what is remembered of a rebalance neither: the
        // resource itself tells when it gets on.
        let labels = object.meta().labels.as_ref();
        if labels.and_then(|labels| labels.get(KIND_LABEL)).is_some_and(|kind| kind == store::KIND)
        {
            return None;
        }
        if object.meta().name == Some(names.record()) {
            return None;
        }
        // Users that are resources have passes of their own.
        let owners = object.meta().owner_references.iter().flatten();
        if owners.into_iter().any(|owner| owner.kind == users::KIND) {
            return None;
        }
        Some(ObjectRef::new_with(cluster, resource.clone()).within(namespace))
    }
}

/// One pass over one cluster.
async fn pass(object: Arc<DynamicObject>, ctx: Arc<Context>) -> Result<Action, PassError> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let span = trace::pass("Kafka", (&namespace, &name), &name);
    // Boxed: futures of passes are large, and wrappers keep them on the stack.
    Box::pin(counted(&ctx, &object, (namespace, name))).instrument(span).await
}

async fn counted(
    ctx: &Context,
    object: &DynamicObject,
    (namespace, name): (String, String),
) -> Result<Action, PassError> {
    let metrics = ctx.writer.metrics();
    let _running = metrics.running("Kafka");
    metrics.pass_begun("Kafka", &namespace, false);
    let begun = Instant::now();
    let one = Box::pin(one_pass(ctx, object));
    let done = ctx.beats.watch_pass(Loop::Kafka, (&namespace, &name), one).await;
    metrics.pass_ended("Kafka", &namespace, begun.elapsed(), is_successful(&done));
    match done {
        Ok(next) => Ok(Action::requeue(next.after)),
        Err(error) if error.is_conflict() => {
            tracing::debug!("{namespace}/{name}: {}", chain(&error));
            Ok(Action::requeue(DEBOUNCE))
        }
        Err(error) => {
            tracing::warn!("{namespace}/{name}: {}", chain(&error));
            Err(error)
        }
    }
}

/// Whether a pass is counted as successful: it ended without an error, and leaves nothing that only a person can change,
/// such as a roll that a node stops.
fn is_successful(done: &Result<pass::Next, PassError>) -> bool {
    done.as_ref().is_ok_and(|next| !next.is_held)
}

async fn one_pass(ctx: &Context, object: &DynamicObject) -> Result<pass::Next, PassError> {
    // The store of the watch may be older than what we wrote ourselves a moment ago.
    let resource = ApiResource::erase::<Kafka>(&());
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client.clone(), &namespace, &resource);
    let current = api.get_opt(&object.name_any()).await;
    let Some(current) = current.map_err(|error| PassError::Get(Box::new(error)))? else {
        return Ok(pass::Next::after(ctx.settings.interval));
    };
    let decision = managed::decide(ctx, &current, &resource).await;
    if !decision.is_managed() {
        return Ok(pass::Next { after: ctx.settings.interval, is_held: decision.is_held() });
    }
    let written = serde_json::to_value(&current)?;
    let kafka = serde_json::from_value(written.clone()).map_err(PassError::Unreadable)?;
    Box::pin(pass::run(ctx, kafka, &written)).await
}

fn on_error(_: Arc<DynamicObject>, _: &PassError, _: Arc<Context>) -> Action {
    Action::requeue(RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_leaves_something_to_a_person_is_counted_as_failed() {
        let next = |is_held| pass::Next { after: RETRY, is_held };
        let rows = [
            (Ok(next(false)), true),
            (Ok(next(true)), false),
            (Ok(pass::Next::after(RETRY)), true),
            (Err(PassError::NotInSnapshot("a ConfigMap".to_owned())), false),
        ];
        for (done, expected) in rows {
            assert_eq!(is_successful(&done), expected, "{done:?}");
        }
    }
}
