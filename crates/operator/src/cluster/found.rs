//! What there is of a cluster in Kubernetes: read from the API server for every pass that writes, or as watches have shown it.
//!
//! Reads only. If any of them fails the pass ends: nothing is done on a part of the view.

use std::fmt::{self, Debug};

use api::KafkaNodePool;
use api::names::{CLUSTER_LABEL, NAME_LABEL, Names};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, Resource};
use kube::{Api, Client, ResourceExt as _};
use objects::found::{ByName, Found, FoundPool};
use serde::de::DeserializeOwned;

use super::cache::Cache;
use crate::time::now_ms;

/// A read that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the {what} of the cluster")]
pub(crate) struct ReadError {
    what: What,
    /// `None` if no watch knows them.
    #[source]
    source: Option<Box<kube::Error>>,
}

impl ReadError {
    /// Whether it is the Secrets, and they may not be read.
    pub(crate) fn is_secrets_forbidden(&self) -> bool {
        let status = match self.source.as_deref() {
            Some(kube::Error::Api(status)) => Some(status.code),
            Some(_) | None => None,
        };
        self.what == What::Secrets && matches!(status, Some(401 | 403))
    }
}

/// What of a cluster is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Pools,
    PodSets,
    Pods,
    Services,
    ConfigMaps,
    Secrets,
    Claims,
    ServiceAccounts,
    NetworkPolicies,
    PodDisruptionBudgets,
    /// All of the namespace. They are read only when an area asks for them, and cached with the others.
    Rebalances,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pools => "pools",
            Self::PodSets => "pod sets",
            Self::Pods => "pods",
            Self::Services => "Services",
            Self::ConfigMaps => "ConfigMaps",
            Self::Secrets => "Secrets",
            Self::Claims => "claims",
            Self::ServiceAccounts => "ServiceAccounts",
            Self::NetworkPolicies => "NetworkPolicies",
            Self::PodDisruptionBudgets => "PodDisruptionBudgets",
            Self::Rebalances => "rebalances",
        })
    }
}

/// Reads everything of the cluster.
pub(crate) async fn read(client: &Client, names: &Names) -> Result<Found, ReadError> {
    let source = Source::Server(client);
    let secrets = list(source, names, What::Secrets);
    read_with(source, names, secrets).await
}

/// Everything of the cluster as watches have shown it; `None` if one of them has not, or was interrupted.
pub(super) async fn cached(cache: &Cache, names: &Names) -> Option<Found> {
    let source = Source::Cache(cache);
    let secrets = list(source, names, What::Secrets);
    read_with(source, names, secrets).await.ok()
}

/// Where objects are read from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Server(&'a Client),
    Cache(&'a Cache),
}

/// Reads everything but the Secrets, for one who may not.
pub(crate) async fn read_without_secrets(
    client: &Client,
    names: &Names,
) -> Result<Found, ReadError> {
    read_with(Source::Server(client), names, async { Ok(ByName::new()) }).await
}

async fn read_with(
    source: Source<'_>,
    names: &Names,
    secrets: impl Future<Output = Result<ByName<Secret>, ReadError>>,
) -> Result<Found, ReadError> {
    let at_ms = now_ms();
    let (
        pools,
        pod_sets,
        pods,
        services,
        config_maps,
        secrets,
        claims,
        accounts,
        policies,
        budgets,
    ) = tokio::try_join!(
        pools(source, names),
        list(source, names, What::PodSets),
        list(source, names, What::Pods),
        list(source, names, What::Services),
        list(source, names, What::ConfigMaps),
        secrets,
        list(source, names, What::Claims),
        list(source, names, What::ServiceAccounts),
        list(source, names, What::NetworkPolicies),
        list(source, names, What::PodDisruptionBudgets),
    )?;
    let (pools, unreadable_pools) = pools;
    let mut pods: ByName<Pod> = pods;
    // Others carry the label of the cluster too, such as Strimzi's entity operator.
    let component = names.component();
    pods.retain(|_, pod| pod.labels().get(NAME_LABEL) == Some(&component));
    Ok(Found {
        at_ms,
        pools,
        unreadable_pools,
        pod_sets,
        pods,
        services,
        config_maps,
        secrets,
        claims,
        accounts,
        policies,
        budgets,
        bindings: ByName::new(),
    })
}

fn of_cluster(names: &Names) -> ListParams {
    ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", names.cluster))
}

async fn list<K>(source: Source<'_>, names: &Names, what: What) -> Result<ByName<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api = |client: &Client| Api::namespaced(client.clone(), &names.namespace);
    let found: Vec<K> = all(source, names, (what, api)).await?;
    Ok(found.into_iter().map(|one| (one.name_any(), one)).collect())
}

/// The objects of a kind that belong to the cluster.
async fn all<K>(
    source: Source<'_>,
    names: &Names,
    (what, api): (What, impl FnOnce(&Client) -> Api<K>),
) -> Result<Vec<K>, ReadError>
where
    K: Clone + DeserializeOwned + Debug,
{
    match source {
        Source::Server(client) => {
            let found = api(client).list(&of_cluster(names)).await;
            let found =
                found.map_err(|source| ReadError { what, source: Some(Box::new(source)) })?;
            Ok(found.items)
        }
        Source::Cache(cache) => cache.list(names, what).ok_or(ReadError { what, source: None }),
    }
}

/// The pools one by one: a pool that cannot be read must not hide the others.
async fn pools(
    source: Source<'_>,
    names: &Names,
) -> Result<(Vec<FoundPool>, Vec<(String, String)>), ReadError> {
    let resource = ApiResource::erase::<KafkaNodePool>(&());
    let api = |client: &Client| Api::namespaced_with(client.clone(), &names.namespace, &resource);
    let found: Vec<DynamicObject> = all(source, names, (What::Pools, api)).await?;
    let (mut pools, mut unreadable) = (Vec::new(), Vec::new());
    for object in found {
        let name = object.name_any();
        let read = serde_json::to_value(&object)
            .and_then(|written| Ok((serde_json::from_value(written.clone())?, written)));
        match read {
            Ok((pool, written)) => pools.push(FoundPool { pool, written }),
            Err(error) => unreadable.push((name, error.to_string())),
        }
    }
    Ok((pools, unreadable))
}
