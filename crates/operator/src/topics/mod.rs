//! The controller of `KafkaTopic` resources.
//!
//! Resources are cached from one watch. Every cluster that manages topics as resources has passes of its own: over all
//! its topics at an interval, and over those that changed soon after the change. A pass reads the topics of many
//! resources from Kafka at once, lets [`control::topics`] decide for each resource, sends the changes in batches, and
//! writes the statuses that change.
//!
//! 1. There is at most one pass over the topics of a cluster at a time, and the trouble of a cluster delays no other.
//! 2. A resource is written only if something changes. None is read by itself but for a deletion.
//! 3. No pass over topics delays or fails a pass over the cluster.
//! 4. Nothing is done while an entity operator of Strimzi runs for the cluster.
//!
//! What it must not do: decide.

mod act;
mod cache;
mod error;
mod foresee;
mod moves;
mod pass;
pub(crate) mod schedule;
mod status;
mod view;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use api::names::Names;
use api::{Kafka, KafkaTopic};
use control::liveness::Loop;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};
use tracing::Instrument as _;

use crate::client::watching;
use crate::context::{Context, dynamic};
use crate::trace;
use cache::Cache;
pub use error::TopicsError;
pub use foresee::Foreseen;
pub(crate) use foresee::replicas as foresee_replicas;
use pass::{Done, Work};

/// An event of a watch, with the place that is watched.
type Watched = (Option<String>, Result<watcher::Event<DynamicObject>, watcher::Error>);

/// Runs the controller until `shutdown`, and then until the passes in hand have ended.
pub(crate) async fn run(
    ctx: Arc<Context>,
    shutdown: impl Future<Output = ()> + Clone + Send + Unpin + 'static,
) {
    let mut kafkas = watch(&ctx, &ApiResource::erase::<Kafka>(&()));
    let mut topics = watch(&ctx, &ApiResource::erase::<KafkaTopic>(&()));
    let mut cache = Cache::new(ctx.settings.watches_other_namespaces);
    let mut running: FuturesUnordered<BoxFuture<'static, (Names, Done)>> = FuturesUnordered::new();
    let mut shutdown = shutdown.fuse();
    loop {
        for (names, work) in cache.due(Instant::now()) {
            running.push(one(ctx.clone(), names, work).boxed());
        }
        let next = cache.next_due();
        tokio::select! {
            () = &mut shutdown => break,
            Some((scope, event)) = kafkas.next() => {
                cache.kafka_event(scope.as_deref(), event, Instant::now());
            }
            Some((scope, event)) = topics.next() => {
                cache.topic_event(scope.as_deref(), event, Instant::now());
            }
            Some((names, done)) = running.next() => {
                cache.ended(&names, done, Instant::now());
                cache.count(ctx.writer.metrics());
            }
            () = until(next) => {}
        }
    }
    while running.next().await.is_some() {}
}

/// One pass over topics of a cluster.
async fn one(ctx: Arc<Context>, names: Names, work: Work) -> (Names, Done) {
    let of = (names.namespace.clone(), names.cluster.clone());
    let _running = ctx.writer.metrics().running("KafkaTopic");
    let span = trace::pass("KafkaTopic", (&of.0, &of.1), &of.1);
    let pass = Box::pin(pass::run(&ctx, &names, work)).instrument(span);
    let done = ctx.beats.watch_pass(Loop::KafkaTopic, (&of.0, &of.1), pass).await;
    (names, done)
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Watches a kind in every place.
fn watch(ctx: &Context, resource: &ApiResource) -> BoxStream<'static, Watched> {
    let scopes: BTreeSet<_> = ctx.settings.scopes().into_iter().collect();
    let watches = scopes.into_iter().map(|scope| {
        let api = dynamic(&ctx.client, scope.as_deref(), resource);
        watcher(api, watching()).default_backoff().map(move |event| (scope.clone(), event)).boxed()
    });
    stream::select_all(watches).boxed()
}
