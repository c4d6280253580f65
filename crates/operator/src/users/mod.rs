//! The controller of `KafkaUser` resources, and what is left of users that are only Secrets (`secrets`).
//!
//! Resources and their Secrets are cached from one watch each; of a Secret only facts are kept, no password and no key.
//! Every cluster that manages users as resources has passes of its own: over all its users at an interval, and over those
//! that changed soon after the change. A pass reads the access rules, quotas and credentials of all users from Kafka,
//! lets [`control::users`] decide for each user, records which users it manages, sends the changes in batches, and writes
//! the Secrets and the statuses that change.
//!
//! 1. There is at most one pass over the users of a cluster at a time, and the trouble of a cluster delays no other.
//! 2. Only users of the record are deleted in Kafka, and only when their resource is certainly gone.
//! 3. Nothing is done while an entity operator of Strimzi runs for the cluster.
//! 4. No password and no key is in a log, an Event, a status or the record.
//!
//! What it must not do: decide.

mod act;
mod cache;
mod error;
mod kafka;
mod material;
mod pass;
mod record;
mod secrets;
mod status;
mod stored;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use api::names::{KIND_LABEL, Names};
use api::{Kafka, KafkaUser};
use control::liveness::Loop;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};
use tracing::Instrument as _;

use crate::client::watching;
use crate::context::{Context, dynamic};
use crate::trace;
use cache::Cache;
use pass::{Done, Work};
pub(crate) use secrets::outcome;
pub use secrets::{
    FINALIZER, JAAS_CONFIG, KIND, MARK, PASSWORD, UsersError, delete, is_given, is_user, known,
    release, released, remember, set, user,
};

/// An event of a watch, with the place that is watched.
type Watched = (Option<String>, Result<watcher::Event<DynamicObject>, watcher::Error>);

/// Runs the controller until `shutdown`, and then until the passes in hand have ended.
pub(crate) async fn run(
    ctx: Arc<Context>,
    shutdown: impl Future<Output = ()> + Clone + Send + Unpin + 'static,
) {
    let all = watching();
    let secrets = watching().labels(&format!("{KIND_LABEL}={KIND}"));
    let mut kafkas = watch(&ctx, &ApiResource::erase::<Kafka>(&()), &all);
    let mut users = watch(&ctx, &ApiResource::erase::<KafkaUser>(&()), &all);
    let mut secrets = watch(&ctx, &ApiResource::erase::<Secret>(&()), &secrets);
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
            Some((scope, event)) = users.next() => {
                cache.user_event(scope.as_deref(), event, Instant::now());
            }
            Some((scope, event)) = secrets.next() => {
                cache.secret_event(scope.as_deref(), event, Instant::now());
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

/// One pass over users of a cluster.
async fn one(ctx: Arc<Context>, names: Names, work: Work) -> (Names, Done) {
    let of = (names.namespace.clone(), names.cluster.clone());
    let _running = ctx.writer.metrics().running("KafkaUser");
    let span = trace::pass("KafkaUser", (&of.0, &of.1), &of.1);
    let pass = Box::pin(pass::run(&ctx, &names, work)).instrument(span);
    let done = ctx.beats.watch_pass(Loop::KafkaUser, (&of.0, &of.1), pass).await;
    (names, done)
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Watches a kind in every place.
fn watch(
    ctx: &Context,
    resource: &ApiResource,
    config: &watcher::Config,
) -> BoxStream<'static, Watched> {
    let scopes: BTreeSet<_> = ctx.settings.scopes().into_iter().collect();
    let watches = scopes.into_iter().map(|scope| {
        let api = dynamic(&ctx.client, scope.as_deref(), resource);
        let watch = watcher(api, config.clone()).default_backoff();
        watch.map(move |event| (scope.clone(), event)).boxed()
    });
    stream::select_all(watches).boxed()
}
