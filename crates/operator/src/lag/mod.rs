//! Metrics of topics and consumer lag: collected from every cluster that has `spec.kafkaExporter`, at an interval, and
//! served from memory.
//!
//! 1. A cluster is asked with some requests per broker, however many groups it has, and by one collection at a time.
//! 2. An answer to a scrape sends no request. It has the time of its collection, and a picture that could not be renewed for
//!    longer than [`AGE_MAX`] is not served any more.
//! 3. What a collection cannot read it does not guess: it fails as a whole and is counted.
//! 4. Only the leader collects.
//! 5. The exporter of Strimzi is removed when the same metrics are scraped here, not before.
//!
//! What it must not do: change anything else, or decide which series there are; that is for [`control::lag`].

mod collect;
mod pictures;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::Names;
use api::{Kafka, read};
use control::lag::{Filter, Patterns};
use control::liveness::Loop;
use control::takeover;
use futures::future::BoxFuture;
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};

pub(crate) use pictures::{Pictures, plain};

use crate::client::watching;
use crate::context::{Context, dynamic};
use crate::words::chain;

/// How often a cluster is asked. Prometheus scrapes as often, usually.
const INTERVAL: Duration = Duration::from_secs(30);

/// How soon a cluster is asked again that did not answer, or to which there is no connection yet.
const RETRY: Duration = Duration::from_secs(10);

/// For how long a picture is served that cannot be renewed.
const AGE_MAX: Duration = Duration::from_secs(150);

/// A cluster that wants metrics.
struct Cluster {
    patterns: Patterns,
    /// `None` if an expression is invalid: then nothing is served, since the intended filter is unknown.
    filter: Option<Arc<Filter>>,
    due: Instant,
    is_running: bool,
}

/// Runs the collections until `shutdown`.
pub(crate) async fn run(
    ctx: Arc<Context>,
    shutdown: impl Future<Output = ()> + Clone + Send + Unpin + 'static,
) {
    let scopes: BTreeSet<_> = ctx.settings.scopes().into_iter().collect();
    let watches = scopes.into_iter().map(|scope| {
        let api = dynamic(&ctx.client, scope.as_deref(), &ApiResource::erase::<Kafka>(&()));
        watcher(api, watching()).default_backoff().map(move |event| (scope.clone(), event)).boxed()
    });
    let mut kafkas = stream::select_all(watches);
    let mut clusters = Clusters::default();
    let mut running: FuturesUnordered<BoxFuture<'static, (Names, bool)>> = FuturesUnordered::new();
    let mut shutdown = shutdown.fuse();
    loop {
        for (names, filter) in clusters.begin(Instant::now()) {
            running.push(one(ctx.clone(), names, filter).boxed());
        }
        let next = clusters.next_due();
        tokio::select! {
            () = &mut shutdown => break,
            Some((scope, event)) = kafkas.next() => clusters.event(&ctx, scope.as_deref(), event),
            Some((names, is_done)) = running.next() => clusters.ended(&names, is_done),
            () = until(next) => {}
        }
    }
    ctx.pictures.clear();
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// One collection; whether it succeeded.
async fn one(ctx: Arc<Context>, names: Names, filter: Arc<Filter>) -> (Names, bool) {
    let of = (names.namespace.clone(), names.cluster.clone());
    let collection = collect::run(&ctx, &names, &filter);
    let done = ctx.beats.watch_pass(Loop::Lag, (&of.0, &of.1), collection).await;
    if let Err(error) = &done {
        let (namespace, cluster, error) = (&of.0, &of.1, chain(error));
        tracing::debug!("metrics of {namespace}/{cluster} are not collected: {error}");
    }
    ctx.writer.metrics().lag_collected(&of.0, &of.1, done.is_ok());
    if done.is_ok() && takeover::replaces_exporter(ctx.pictures.scraped_in_a_row(&names)) {
        crate::takeover::kafka_exporter(&ctx, &names).await;
    }
    (names, done.is_ok())
}

/// The clusters that want metrics.
#[derive(Default)]
struct Clusters {
    all: BTreeMap<Names, Cluster>,
    listed: BTreeMap<Option<String>, BTreeSet<Names>>,
}

impl Clusters {
    fn event(
        &mut self,
        ctx: &Context,
        scope: Option<&str>,
        event: Result<watcher::Event<DynamicObject>, watcher::Error>,
    ) {
        use watcher::Event;
        let scope = scope.map(str::to_owned);
        match event {
            Ok(Event::Init) => drop(self.listed.insert(scope, BTreeSet::new())),
            Ok(Event::InitApply(object)) => {
                self.listed.entry(scope).or_default().insert(names_of(&object));
                self.take(ctx, object);
            }
            Ok(Event::Apply(object)) => self.take(ctx, object),
            Ok(Event::Delete(object)) => self.forget(ctx, &names_of(&object)),
            Ok(Event::InitDone) => {
                let listed = self.listed.remove(&scope).unwrap_or_default();
                let is_missing = |names: &&Names| {
                    scope.as_ref().is_none_or(|scope| *scope == names.namespace)
                        && !listed.contains(names)
                };
                let missing: Vec<_> = self.all.keys().filter(is_missing).cloned().collect();
                missing.iter().for_each(|names| self.forget(ctx, names));
            }
            Err(error) => tracing::debug!("watching Kafka: {}", chain(&error)),
        }
    }

    fn take(&mut self, ctx: &Context, object: DynamicObject) {
        let names = names_of(&object);
        let is_leaving = object.metadata.deletion_timestamp.is_some();
        let kafka = serde_json::to_value(object).and_then(serde_json::from_value::<Kafka>);
        // One that cannot be read is treated as before: the pass over the cluster says what is wrong.
        let Ok(kafka) = kafka else { return };
        let Some(patterns) = read::exporter(&kafka).filter(|_| !is_leaving) else {
            return self.forget(ctx, &names);
        };
        let known = self.all.get(&names);
        if known.is_some_and(|cluster| cluster.patterns == patterns) {
            return;
        }
        let is_running = known.is_some_and(|cluster| cluster.is_running);
        let filter = Filter::new(&patterns);
        if let Err(error) = &filter {
            let (namespace, cluster) = (&names.namespace, &names.cluster);
            // The user of the cluster is told by a condition.
            tracing::info!("no metrics of topics and groups of {namespace}/{cluster}: {error}");
            ctx.pictures.forget(&names);
        }
        let filter = filter.ok().map(Arc::new);
        self.all.insert(names, Cluster { patterns, filter, due: Instant::now(), is_running });
    }

    fn forget(&mut self, ctx: &Context, names: &Names) {
        if self.all.remove(names).is_some() {
            ctx.pictures.forget(names);
            ctx.writer.metrics().lag_forgotten(&names.namespace, &names.cluster);
        }
    }

    /// The collections that are due. They have begun.
    fn begin(&mut self, now: Instant) -> Vec<(Names, Arc<Filter>)> {
        let mut begun = Vec::new();
        for (names, cluster) in &mut self.all {
            if let Some(filter) = &cluster.filter
                && !cluster.is_running
                && cluster.due <= now
            {
                cluster.is_running = true;
                begun.push((names.clone(), filter.clone()));
            }
        }
        begun
    }

    fn next_due(&self) -> Option<Instant> {
        let waiting = self.all.values().filter(|one| !one.is_running && one.filter.is_some());
        waiting.map(|one| one.due).min()
    }

    fn ended(&mut self, names: &Names, is_done: bool) {
        if let Some(cluster) = self.all.get_mut(names) {
            cluster.is_running = false;
            cluster.due = Instant::now() + if is_done { INTERVAL } else { RETRY };
        }
    }
}

fn names_of(object: &DynamicObject) -> Names {
    Names::new(&object.namespace().unwrap_or_default(), &object.name_any())
}
