//! The controller of `Kafka` resources: one pass after another for each cluster.
//!
//! 1. There is at most one pass over a cluster at a time, and a cluster's trouble delays no other.
//! 2. A pass is begun by any change to what belongs to the cluster, and by time.
//! 3. Every pass that writes reads everything anew: what begins a pass only says that it is time for one. A pass that has
//!    nothing to write finds that out from what watches have shown ([`cache`]).

mod act;
pub(crate) mod admins;
mod build;
pub(crate) mod cache;
pub(crate) mod census;
mod error;
mod facts;
pub mod foresee;
mod found;
mod gone;
mod keys;
mod machines;
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

use api::names::{CLUSTER_LABEL, Names};
use api::{Kafka, KafkaNodePool, KafkaRebalance, StrimziPodSet};
use control::liveness::Loop;
use futures::StreamExt as _;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::{Action, Config, ReconcileRequest, applier, trigger_self};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::client::{WatchPause, watching};
use crate::context::{Context, dynamic};
use crate::words::{chain, tell_of_watch};
use crate::{managed, trace};
use census::Census;
use error::PassError;
use found::What;

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
    let resource = ApiResource::erase::<Kafka>(&());
    let writer = reflector::store::Writer::new(resource.clone());
    let store = writer.as_reader();
    let kafkas = watcher(dynamic(&ctx.client, scope.as_deref(), &resource), watching());
    let kafkas = kafkas
        .backoff(WatchPause)
        .modify(|kafka| kafka.metadata.managed_fields = None)
        .reflect(writer)
        .applied_objects();
    let (begin, begun) = mpsc::unbounded();
    // They end with this function.
    let mut watches = JoinSet::new();
    follow_all(&ctx, scope.as_deref(), &begin, &mut watches);
    let begun = begun.map(|names: Names| {
        let resource = ApiResource::erase::<Kafka>(&());
        let kafka = ObjectRef::new_with(&names.cluster, resource).within(&names.namespace);
        Ok(ReconcileRequest::from(kafka))
    });
    let queue = futures::stream::select(trigger_self(kafkas, resource).boxed(), begun.boxed());
    let mut census = {
        let metrics = ctx.writer.metrics().clone();
        Census::new(metrics, scope.as_deref(), store.clone(), ctx.standings.clone())
    };
    let passes = applier(
        |object, ctx| Box::pin(spawned(object, ctx)),
        on_error,
        ctx,
        store,
        queue.take_until(shutdown),
        // As many passes at a time as there are clusters: one whose Kafka does not answer waits alone.
        Config::default().debounce(DEBOUNCE),
    );
    passes
        .for_each(|done| {
            tell_of_watch(&done);
            census.take();
            std::future::ready(())
        })
        .await;
}

/// Follows everything that belongs to clusters. A change of it begins a pass.
fn follow_all(
    ctx: &Context,
    scope: Option<&str>,
    begin: &mpsc::UnboundedSender<Names>,
    watches: &mut JoinSet<()>,
) {
    let labelled = watching().labels(CLUSTER_LABEL);
    let resources = [
        (What::Pools, ApiResource::erase::<KafkaNodePool>(&())),
        (What::PodSets, ApiResource::erase::<StrimziPodSet>(&())),
        (What::Pods, ApiResource::erase::<Pod>(&())),
        (What::Services, ApiResource::erase::<Service>(&())),
        (What::ConfigMaps, ApiResource::erase::<ConfigMap>(&())),
        (What::Secrets, ApiResource::erase::<Secret>(&())),
        (What::Claims, ApiResource::erase::<PersistentVolumeClaim>(&())),
        (What::ServiceAccounts, ApiResource::erase::<ServiceAccount>(&())),
        (What::NetworkPolicies, ApiResource::erase::<NetworkPolicy>(&())),
        (What::PodDisruptionBudgets, ApiResource::erase::<PodDisruptionBudget>(&())),
        // Templates need not belong to a cluster.
        (What::Rebalances, ApiResource::erase::<KafkaRebalance>(&())),
    ];
    for (what, resource) in resources {
        let api = dynamic(&ctx.client, scope, &resource);
        let config = if what == What::Rebalances { watching() } else { labelled.clone() };
        let begin = begin.clone();
        let begin = move |names| {
            // The other end is there as long as passes are made.
            let _ = begin.unbounded_send(names);
        };
        let of = (what, scope.map(str::to_owned));
        watches.spawn(ctx.cache.clone().follow(of, (api, config), begin));
    }
}

/// A pass in a task of its own, so that passes use all cores.
async fn spawned(object: Arc<DynamicObject>, ctx: Arc<Context>) -> Result<Action, PassError> {
    let mut task = JoinSet::new();
    task.spawn(pass(object, ctx).in_current_span());
    match task.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(Action::requeue(RETRY)),
        },
        None => Ok(Action::requeue(RETRY)),
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
    if let Some(next) = look(ctx, object).await {
        return Ok(next);
    }
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

/// A pass over what watches have shown. `None` if that is not known, or a pass may have something to write.
async fn look(ctx: &Context, object: &DynamicObject) -> Option<pass::Next> {
    if !managed::is_still_managed(ctx, object).await {
        return None;
    }
    let written = serde_json::to_value(object).ok()?;
    let kafka = serde_json::from_value(written.clone()).ok()?;
    Box::pin(pass::look(ctx, kafka, &written)).await
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
