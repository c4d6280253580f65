//! What is left to do when a cluster or one of its pools goes: what the garbage collector does not do.
//!
//! Objects of a cluster are owned by it and go with it. Two things are not: a binding that belongs to no
//! namespace, and the finalizers that hold pools back.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::{CLUSTER_LABEL, MANAGED_BY, MANAGER, Names};
use api::{KafkaNodePool, KafkaRebalance};
use control::liveness::Loop;
use control::scaling::pool::Cluster;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use objects::access;

use super::act::rebalance::release as release_rebalance;
use super::error::PassError;
use super::steps::pools::release as release_pool;
use crate::client::watching;
use crate::context::Context;
use crate::users;
use crate::words::chain;

/// How long after a failure it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Lets go of everything of a cluster that is being deleted or is gone, as `cluster` says.
pub(crate) async fn release(
    ctx: &Context,
    names: &Names,
    cluster: Cluster,
) -> Result<(), PassError> {
    let get = |error| PassError::Get(Box::new(error));
    ctx.admins.forget(names);
    ctx.samples.forget(names);
    ctx.marks.forget(names);
    ctx.written.forget(names);
    ctx.writer.metrics().forget(names);
    if cluster == Cluster::Missing {
        ctx.standings.forget(names);
        ctx.managed.forget(names);
    }
    let api: Api<ClusterRoleBinding> = Api::all(ctx.client.clone());
    if let Some(binding) = api.get_opt(&names.init_binding()).await.map_err(get)?
        && let Some(uid) = binding.uid()
        && binding.labels().get(CLUSTER_LABEL) == Some(&names.cluster)
    {
        let version = binding.resource_version();
        ctx.writer.delete(&api, &names.init_binding(), (&uid, version.as_deref())).await?;
    }
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", names.cluster));
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), &names.namespace);
    let secrets = api.list(&of_cluster).await.map_err(get)?;
    let secrets: Vec<_> =
        secrets.iter().filter(|secret| users::is_user(secret, &names.cluster)).collect();
    users::release(&ctx.writer, &api, &secrets)
        .await
        .map_err(|error| PassError::Users(Box::new(error)))?;
    let api: Api<KafkaNodePool> = Api::namespaced(ctx.client.clone(), &names.namespace);
    for pool in api.list(&of_cluster).await.map_err(get)? {
        release_pool(ctx, &pool, cluster).await?;
    }
    let api: Api<KafkaRebalance> = Api::namespaced(ctx.client.clone(), &names.namespace);
    for rebalance in api.list(&of_cluster).await.map_err(get)? {
        release_rebalance(ctx, &rebalance).await?;
    }
    Ok(())
}

/// Watches clusters go, and lets go of what they leave. What went while the operator was down is found at the
/// beginning, and what could not be done is tried again.
pub(crate) async fn watch(ctx: Context, api: Api<DynamicObject>) {
    let mut events = std::pin::pin!(watcher(api, watching()).default_backoff());
    let mut again = tokio::time::interval(TRY_AGAIN);
    let (mut living, mut gone) = (BTreeSet::new(), BTreeSet::new());
    let mut must_sweep = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = again.tick() => {
                gone = release_all(&ctx, gone).await;
                must_sweep = must_sweep && !told(sweep(&ctx, &living).await);
                continue;
            }
        };
        match event {
            None => return,
            Some(Ok(watcher::Event::Init)) => living.clear(),
            Some(Ok(watcher::Event::InitApply(kafka) | watcher::Event::Apply(kafka))) => {
                gone.remove(&names_of(&kafka));
                living.insert(names_of(&kafka));
            }
            Some(Ok(watcher::Event::InitDone)) => must_sweep = !told(sweep(&ctx, &living).await),
            Some(Ok(watcher::Event::Delete(kafka))) => {
                living.remove(&names_of(&kafka));
                gone.insert(names_of(&kafka));
                gone = release_all(&ctx, gone).await;
            }
            Some(Err(error)) => tracing::debug!("watching clusters: {error}"),
        }
    }
}

/// Lets go of all of these, and returns those where it did not work.
async fn release_all(ctx: &Context, gone: BTreeSet<Names>) -> BTreeSet<Names> {
    let mut left = BTreeSet::new();
    for names in gone {
        let of = (names.namespace.as_str(), names.cluster.as_str());
        if !told(
            ctx.beats.watch_pass(Loop::Kafka, of, release(ctx, &names, Cluster::Missing)).await,
        ) {
            left.insert(names);
        }
    }
    left
}

/// Whether it worked. A failure is logged, unless it was only a write conflict.
fn told(done: Result<(), PassError>) -> bool {
    match &done {
        Ok(()) => {}
        Err(error) if error.is_conflict() => tracing::debug!("{}", chain(error)),
        Err(error) => tracing::warn!("cannot delete the objects of a cluster: {}", chain(error)),
    }
    done.is_ok()
}

fn names_of(kafka: &DynamicObject) -> Names {
    Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any())
}

/// Lets go of what clusters left that went while the operator was down.
async fn sweep(ctx: &Context, living: &BTreeSet<Names>) -> Result<(), PassError> {
    let get = |error| PassError::Get(Box::new(error));
    let ours = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGER}"));
    let api: Api<ClusterRoleBinding> = Api::all(ctx.client.clone());
    for binding in api.list(&ours).await.map_err(get)? {
        let cluster = binding.labels().get(CLUSTER_LABEL);
        let namespace = binding.annotations().get(access::NAMESPACE);
        if let (Some(cluster), Some(namespace)) = (cluster, namespace)
            && is_watched(ctx, namespace)
            && !living.contains(&Names::new(namespace, cluster))
        {
            release(ctx, &Names::new(namespace, cluster), Cluster::Missing).await?;
        }
    }
    let namespaces: Vec<Api<KafkaNodePool>> = match ctx.settings.namespaces.as_slice() {
        [] => vec![Api::all(ctx.client.clone())],
        some => some.iter().map(|name| Api::namespaced(ctx.client.clone(), name)).collect(),
    };
    for api in namespaces {
        for pool in api.list(&ListParams::default()).await.map_err(get)? {
            let cluster = pool.labels().get(CLUSTER_LABEL).cloned().unwrap_or_default();
            let names = Names::new(&pool.namespace().unwrap_or_default(), &cluster);
            if !living.contains(&names) {
                release_pool(ctx, &pool, Cluster::Missing).await?;
            }
        }
    }
    let namespaces: Vec<Api<KafkaRebalance>> = match ctx.settings.namespaces.as_slice() {
        [] => vec![Api::all(ctx.client.clone())],
        some => some.iter().map(|name| Api::namespaced(ctx.client.clone(), name)).collect(),
    };
    for api in namespaces {
        for rebalance in api.list(&ListParams::default()).await.map_err(get)? {
            let cluster = rebalance.labels().get(CLUSTER_LABEL).cloned().unwrap_or_default();
            let names = Names::new(&rebalance.namespace().unwrap_or_default(), &cluster);
            if !living.contains(&names) {
                release_rebalance(ctx, &rebalance).await?;
            }
        }
    }
    Ok(())
}

/// Whether clusters of a namespace are ours to look after.
fn is_watched(ctx: &Context, namespace: &str) -> bool {
    let watched = &ctx.settings.namespaces;
    watched.is_empty() || watched.iter().any(|name| name == namespace)
}
