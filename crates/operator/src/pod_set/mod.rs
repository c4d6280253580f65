//! The controller of `StrimziPodSet` resources: pods that are listed exist, others do not.
//!
//! What to do is decided in [`control::pod_set`]. A pass looks at what the watches have brought. Only if
//! that gives it something to do it reads everything again, and decides again by what it read: a pod is
//! never made from an old definition, nor ended because of one.
//!
//! It goes on while a cluster is paused, and never restarts a pod because its definition has changed.

mod pod;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::{CLUSTER_LABEL, KIND_LABEL, Names, POD_SET_LABEL};
use api::{Condition, StrimziPodSet, StrimziPodSetStatus};
use control::liveness::Loop;
use control::pod_set::{Action, Decision, Problem, decide};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::controller::{Action as Next, applier, trigger_self, trigger_with};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Config, WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tracing::Instrument as _;

use crate::client::watching;
use crate::context::Context;
use crate::tally::Tally;
use crate::write::{WriteError, Writer};
use crate::{liveness, managed, trace};
use pod::WholePod;

const KIND: &str = "StrimziPodSet";

/// How soon a pass that failed is tried again. What it waits for is mostly the API server.
const RETRY: Duration = Duration::from_secs(2);

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum PodSetError {
    /// The pods could not be listed, or the set not be read.
    #[error("cannot read the pods of {set}")]
    Observe {
        /// Which set.
        set: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// Its cluster is not managed, or not known to be yet.
    #[error("the cluster of {set} is not managed")]
    LeftAlone {
        /// Which set.
        set: String,
    },
    /// The definition of a pod is none.
    #[error("the definition of the pod {pod} cannot be used")]
    Definition {
        /// Which pod.
        pod: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Something was not written.
    #[error("the pods of {set} cannot be reconciled")]
    Write {
        /// Which set.
        set: String,
        /// What, and why not.
        #[source]
        source: WriteError,
    },
}

/// Looks after the pod sets until it is told to stop; then finishes what is in hand.
pub async fn run(context: Arc<Context>, shutdown: impl Future<Output = ()> + Send + 'static) {
    let shutdown = shutdown.shared();
    let client = &context.client;
    let scopes: Vec<_> = match context.settings.namespaces.as_slice() {
        [] => vec![(Api::all(client.clone()), Api::all(client.clone()))],
        namespaces => namespaces
            .iter()
            .map(|namespace| {
                let namespaced = Api::namespaced(client.clone(), namespace);
                (namespaced, Api::namespaced(client.clone(), namespace))
            })
            .collect(),
    };
    let runs = scopes
        .into_iter()
        .map(|(sets, pods)| run_in(context.clone(), sets, pods, shutdown.clone()));
    futures::future::join_all(runs).await;
}

/// What a pass looks at.
struct Scope {
    context: Arc<Context>,
    pods: Store<Pod>,
}

async fn run_in(
    context: Arc<Context>,
    sets: Api<StrimziPodSet>,
    pods: Api<Pod>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let (set_store, set_writer) = reflector::store::<StrimziPodSet>();
    let mut tally = Tally::new(KIND, context.writer.metrics(), set_store.clone());
    let (pod_store, pod_writer) = reflector::store();
    let set_events = watcher(sets, watching()).default_backoff();
    let set_events = set_events
        .map_ok(|event| event.modify(pod::forget_definitions))
        .reflect(set_writer)
        .applied_objects();
    let config = watching().labels(KIND_LABEL);
    let pod_events = watcher(pods, config)
        .default_backoff()
        .map_ok(|event| event.modify(pod::forget_the_rest))
        .reflect(pod_writer)
        .touched_objects();
    let queue = futures::stream::select(
        trigger_self(set_events, ()).boxed(),
        trigger_with(pod_events, |pod| sets_of(&pod)).boxed(),
    );
    let scope = Arc::new(Scope { context, pods: pod_store });
    let passes = applier(
        |set, scope| Box::pin(pass(set, scope)),
        |_, _, _| Next::requeue(RETRY),
        scope,
        set_store,
        queue
            .inspect_err(|error| tracing::warn!("a watch of pods was interrupted: {error}"))
            .take_until(shutdown),
        Config::default(),
    );
    // Errors were logged where they were met; a pod whose set is gone is for the garbage collector.
    passes
        .for_each(|_| {
            tally.take();
            std::future::ready(())
        })
        .await;
}

/// The sets that a pod may matter to.
fn sets_of(pod: &Pod) -> Vec<ObjectRef<StrimziPodSet>> {
    let Some(namespace) = pod.namespace() else { return Vec::new() };
    let owners = pod.owner_references().iter().filter(|owner| owner.kind == KIND);
    let mut names: Vec<_> = owners.map(|owner| owner.name.clone()).collect();
    names.extend(pod.labels().get(POD_SET_LABEL).cloned());
    names.dedup();
    names.iter().map(|name| ObjectRef::new(name).within(&namespace)).collect()
}

async fn pass(set: Arc<StrimziPodSet>, scope: Arc<Scope>) -> Result<Next, PodSetError> {
    let namespace = set.namespace().unwrap_or_default();
    // Not before the pods are known: none would be taken for all missing.
    if scope.pods.wait_until_ready().await.is_err() {
        return Ok(Next::requeue(RETRY));
    }
    let begun = Instant::now();
    let metrics = scope.context.writer.metrics();
    let _running = metrics.running(KIND);
    metrics.pass_begun(KIND, &namespace, false);
    let cluster = set.labels().get(CLUSTER_LABEL).cloned().unwrap_or_default();
    let span = trace::pass(KIND, (&namespace, &set.name_any()), &cluster);
    let one = Box::pin(reconcile(&set, &scope, &namespace)).instrument(span);
    let beats = &scope.context.beats;
    let result = beats.watch_pass(Loop::StrimziPodSet, (&namespace, &set.name_any()), one).await;
    // A set that is left unchanged is no failure.
    let is_successful = matches!(result, Ok(()) | Err(PodSetError::LeftAlone { .. }));
    metrics.pass_ended(KIND, &namespace, begun.elapsed(), is_successful);
    match &result {
        Ok(()) => {}
        // Another writer was faster; the watch delivers its change, and the pass repeats.
        Err(PodSetError::Write { source: WriteError::Conflict { .. }, .. }) => {}
        // The pass over the cluster says why.
        Err(PodSetError::LeftAlone { .. }) => {}
        // Its pods are deleted, and the set will be.
        Err(PodSetError::Write { source, .. }) if source.is_of_ending_namespace() => {}
        Err(error) => tracing::warn!("{}", crate::words::chain(error)),
    }
    // Everything that matters is watched; this is for a watch that missed something.
    result.map(|()| Next::requeue(scope.context.settings.interval))
}

async fn reconcile(set: &StrimziPodSet, scope: &Scope, namespace: &str) -> Result<(), PodSetError> {
    if let Some(cluster) = set.labels().get(CLUSTER_LABEL) {
        let failed =
            |source| PodSetError::Observe { set: set.name_any(), source: Box::new(source) };
        let names = Names::new(namespace, cluster);
        if managed::is_left_alone(&scope.context, &names).await.map_err(failed)? {
            return Err(PodSetError::LeftAlone { set: set.name_any() });
        }
    }
    let pods = scope.pods.state_filter(|pod| pod.namespace().as_deref() == Some(namespace));
    let decision = decide(&pod::snapshot(set, pods.iter().map(AsRef::as_ref)));
    if decision.actions.is_empty() {
        return write_status(set, &decision, &scope.context.writer).await;
    }
    let Some((set, pods)) = observe(set, &scope.context.client, namespace).await? else {
        return Ok(());
    };
    let decision = decide(&pod::snapshot(&set, &pods));
    write_status(&set, &decision, &scope.context.writer).await?;
    act(&set, &pods, &decision, &scope.context.writer).await
}

/// The set and its pods as they are now; `None` if the set is gone or is another one.
async fn observe(
    set: &StrimziPodSet,
    client: &kube::Client,
    namespace: &str,
) -> Result<Option<(StrimziPodSet, Vec<Pod>)>, PodSetError> {
    let failed = |source| PodSetError::Observe { set: set.name_any(), source: Box::new(source) };
    let sets = Api::<StrimziPodSet>::namespaced(client.clone(), namespace);
    let now = sets.get_opt(&set.name_any()).await.map_err(failed)?;
    let is_same = |now: &StrimziPodSet| now.metadata.uid == set.metadata.uid;
    let Some(now) = now.filter(is_same) else { return Ok(None) };
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut pods = match pod::selector(&now) {
        Some(labels) => {
            let labels: Vec<_> =
                labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            api.list(&ListParams::default().labels(&labels.join(","))).await.map_err(failed)?.items
        }
        None => Vec::new(),
    };
    for name in pod::listed(&now).into_keys() {
        liveness::progress();
        // A pod by this name may exist without the labels.
        if !pods.iter().any(|pod| pod.name_any() == name) {
            pods.extend(api.get_opt(&name).await.map_err(failed)?);
        }
    }
    Ok(Some((now, pods)))
}

async fn act(
    set: &StrimziPodSet,
    pods: &[Pod],
    decision: &Decision,
    writer: &Writer,
) -> Result<(), PodSetError> {
    let namespace = set.namespace().unwrap_or_default();
    let api = Api::<Pod>::namespaced(writer.client().clone(), &namespace);
    let failed = |source| PodSetError::Write { set: set.name_any(), source };
    let find = |name: &str| pods.iter().find(|pod| pod.name_any() == name);
    for action in &decision.actions {
        match action {
            Action::Adopt(name) => {
                let Some(pod) = find(name) else { continue };
                let patch = json!({ "metadata": {
                    "resourceVersion": pod.metadata.resource_version,
                    "uid": pod.metadata.uid,
                    "ownerReferences": pod::owners_with(pod, set),
                } });
                tracing::info!("pod {namespace}/{name} has no controller and is adopted");
                writer.patch(&api, name, &patch, Some(pod)).await.map_err(failed)?;
            }
            Action::Replace(name) | Action::Remove(name) => {
                let Some(pod) = find(name) else { continue };
                let Some(uid) = pod.uid() else { continue };
                let version = pod.resource_version();
                writer.delete(&api, name, (&uid, version.as_deref())).await.map_err(failed)?;
            }
            Action::Create(name) => create(set, name, writer).await?,
        }
    }
    Ok(())
}

async fn create(set: &StrimziPodSet, name: &str, writer: &Writer) -> Result<(), PodSetError> {
    let namespace = set.namespace().unwrap_or_default();
    let Some(definition) = pod::listed(set).remove(name) else { return Ok(()) };
    let pod = pod::build(definition, set)
        .map_err(|source| PodSetError::Definition { pod: name.to_owned(), source })?;
    let api = Api::<WholePod>::namespaced(writer.client().clone(), &namespace);
    match writer.create(&api, &pod).await {
        Ok(_) => {
            tracing::info!("create Pod {namespace}/{name}");
            Ok(())
        }
        // Made in the moment since we looked; its watch event brings the next pass.
        Err(WriteError::Exists { .. }) => Ok(()),
        Err(source) => Err(PodSetError::Write { set: set.name_any(), source }),
    }
}

async fn write_status(
    set: &StrimziPodSet,
    decision: &Decision,
    writer: &Writer,
) -> Result<(), PodSetError> {
    let Some(report) = &decision.report else { return Ok(()) };
    let count = |count: usize| i64::try_from(count).ok();
    let status = StrimziPodSetStatus {
        conditions: report.problem.as_ref().map(|problem| vec![condition(problem)]),
        observed_generation: set.metadata.generation,
        pods: count(report.pods),
        ready_pods: count(report.ready),
        current_pods: count(report.current),
        ..Default::default()
    };
    let failed = |source| PodSetError::Write { set: set.name_any(), source };
    let what = || format!("status of {KIND} {}", set.name_any());
    let status = serde_json::to_value(status)
        .map_err(|source| failed(WriteError::Encode { what: what(), source }))?;
    let namespace = set.namespace().unwrap_or_default();
    let api = Api::<StrimziPodSet>::namespaced(writer.client().clone(), &namespace);
    match writer.patch_status(&api, &set.name_any(), &status, Some(set)).await {
        Ok(_) | Err(WriteError::Missing { .. }) => Ok(()),
        Err(source) => Err(failed(source)),
    }
}

fn condition(problem: &Problem) -> Condition {
    Condition {
        kind: Some(Problem::CONDITION.to_owned()),
        status: Some("True".to_owned()),
        reason: Some(problem.reason().to_owned()),
        message: Some(problem.to_string()),
        ..Default::default()
    }
}
