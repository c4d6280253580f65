//! The controller of `KafkaRebalance` resources: one pass after another for each request.
//!
//! How far a request is, what is done next and what is reported, [`control::rebalance::request`] decides. A pass reads
//! everything anew, records what was decided, takes the annotation away, and asks the engine; then it reports.
//!
//! What it must not do: decide, or act on a command that is not recorded.

mod observe;
mod pass;
mod progress;
mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::KafkaRebalance;
use api::names::{CLUSTER_LABEL, Names};
use control::annotations::Annotation;
use control::liveness::Loop;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::{Action, Config, Controller};
use kube::{Api, ResourceExt as _};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::RebalanceError;
use crate::client::{WatchPause, watching};
use crate::context::{Context, dynamic};
use crate::tally::Tally;
use crate::words::{chain, tell_of_watch};
use crate::{managed, trace};

pub(crate) use observe::{annotations, log_dirs, spec};
pub(crate) use pass::Work;

/// The annotation with what a user asks of a request.
pub(crate) const COMMAND: &str = Annotation::Rebalance.name();
/// The annotation that makes a template.
pub(crate) const TEMPLATE: &str = Annotation::RebalanceTemplate.name();
/// The annotation with which a plan is approved beforehand.
pub(crate) const AUTO_APPROVAL: &str = Annotation::RebalanceAutoApproval.name();

/// Several events that belong together begin one pass.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The pause after a pass that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the controller until `shutdown`, and then until the passes in hand have ended.
pub(crate) async fn run(
    ctx: Arc<Context>,
    shutdown: impl Future<Output = ()> + Clone + Send + Unpin + 'static,
) {
    let runs = ctx.settings.scopes().into_iter().map(|scope| {
        let resource = ApiResource::erase::<KafkaRebalance>(&());
        let api = dynamic(&ctx.client, scope.as_deref(), &resource);
        let (tell, told) = oneshot::channel();
        let controller = Controller::new_with(api, watching(), resource);
        let mut tally = Tally::new("KafkaRebalance", ctx.writer.metrics(), controller.store());
        let metrics = ctx.writer.metrics().clone();
        let requests = controller
            .with_config(Config::default().debounce(DEBOUNCE))
            .trigger_backoff(WatchPause)
            .graceful_shutdown_on(told.map(|_: Result<(), _>| ()))
            .run(pass_over, on_error, ctx.clone())
            .for_each(move |done| {
                tell_of_watch(&done);
                let found = tally.take();
                metrics.retain_rebalances(scope.as_deref(), |namespace, name| {
                    found.contains(&(namespace.to_owned(), name.to_owned()))
                });
                std::future::ready(())
            });
        let shutdown = shutdown.clone();
        let told = async move {
            shutdown.await;
            // The other end is there as long as the controller is.
            let _ = tell.send(());
        };
        futures::future::join(requests, told)
    });
    futures::future::join_all(runs).await;
}

async fn pass_over(
    object: Arc<DynamicObject>,
    ctx: Arc<Context>,
) -> Result<Action, RebalanceError> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let cluster = object.labels().get(CLUSTER_LABEL).cloned().unwrap_or_default();
    let span = trace::pass("KafkaRebalance", (&namespace, &name), &cluster);
    Box::pin(counted(&ctx, (namespace, name))).instrument(span).await
}

async fn counted(
    ctx: &Context,
    (namespace, name): (String, String),
) -> Result<Action, RebalanceError> {
    let metrics = ctx.writer.metrics();
    let _running = metrics.running("KafkaRebalance");
    metrics.pass_begun("KafkaRebalance", &namespace, false);
    let begun = Instant::now();
    let one = Box::pin(one_pass(ctx, &namespace, &name));
    let done = ctx.beats.watch_pass(Loop::KafkaRebalance, (&namespace, &name), one).await;
    metrics.pass_ended("KafkaRebalance", &namespace, begun.elapsed(), done.is_ok());
    match done {
        Ok(after) => Ok(Action::requeue(after)),
        Err(error) if error.is_conflict() => {
            tracing::debug!("{namespace}/{name}: {}", chain(&error));
            Ok(Action::requeue(DEBOUNCE))
        }
        Err(error) => {
            tracing::warn!("KafkaRebalance {namespace}/{name}: {}", chain(&error));
            Err(error)
        }
    }
}

async fn one_pass(ctx: &Context, namespace: &str, name: &str) -> Result<Duration, RebalanceError> {
    // The store of the watch may be older than what we wrote ourselves a moment ago.
    let resource = ApiResource::erase::<KafkaRebalance>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client.clone(), namespace, &resource);
    let current = api.get_opt(name).await;
    let current = current.map_err(|error| RebalanceError::Read(Box::new(error)))?;
    let Some(current) = current else { return Ok(ctx.settings.interval) };
    if let Some(cluster) = current.labels().get(CLUSTER_LABEL) {
        let left = managed::is_left_alone(ctx, &Names::new(namespace, cluster)).await;
        if left.map_err(|error| RebalanceError::Read(Box::new(error)))? {
            return Ok(RETRY);
        }
    }
    let written = serde_json::to_value(&current).map_err(RebalanceError::Unreadable)?;
    let kr = serde_json::from_value(written.clone()).map_err(RebalanceError::Unreadable)?;
    Box::pin(pass::run(ctx, kr, &written)).await
}

fn on_error(_: Arc<DynamicObject>, _: &RebalanceError, _: Arc<Context>) -> Action {
    Action::requeue(RETRY)
}
