//! What there is of a cluster in Kubernetes, read anew in every pass.
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

use crate::time::now_ms;

/// A read that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the {what} of the cluster")]
pub(crate) struct ReadError {
    what: What,
    #[source]
    source: Box<kube::Error>,
}

impl ReadError {
    /// Whether it is the Secrets, and they may not be read.
    pub(crate) fn is_secrets_forbidden(&self) -> bool {
        let forbidden =
            matches!(&*self.source, kube::Error::Api(status) if matches!(status.code, 401 | 403));
        self.what == What::Secrets && forbidden
    }
}

/// What of a cluster is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
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
        })
    }
}

/// Reads everything of the cluster.
pub(crate) async fn read(client: &Client, names: &Names) -> Result<Found, ReadError> {
    let secrets = list(client, names, What::Secrets);
    read_with(client, names, secrets).await
}

/// Reads everything but the Secrets, for one who may not.
pub(crate) async fn read_without_secrets(
    client: &Client,
    names: &Names,
) -> Result<Found, ReadError> {
    read_with(client, names, async { Ok(ByName::new()) }).await
}

async fn read_with(
    client: &Client,
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
        pools(client, names),
        list(client, names, What::PodSets),
        list(client, names, What::Pods),
        list(client, names, What::Services),
        list(client, names, What::ConfigMaps),
        secrets,
        list(client, names, What::Claims),
        list(client, names, What::ServiceAccounts),
        list(client, names, What::NetworkPolicies),
        list(client, names, What::PodDisruptionBudgets),
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

async fn list<K>(client: &Client, names: &Names, what: What) -> Result<ByName<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), &names.namespace);
    let found = api.list(&of_cluster(names)).await;
    let found = found.map_err(|source| ReadError { what, source: Box::new(source) })?;
    Ok(found.items.into_iter().map(|one| (one.name_any(), one)).collect())
}

/// The pools one by one: a pool that cannot be read must not hide the others.
async fn pools(
    client: &Client,
    names: &Names,
) -> Result<(Vec<FoundPool>, Vec<(String, String)>), ReadError> {
    let resource = ApiResource::erase::<KafkaNodePool>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &names.namespace, &resource);
    let found = api.list(&of_cluster(names)).await;
    let found =
        found.map_err(|source| ReadError { what: What::Pools, source: Box::new(source) })?;
    let (mut pools, mut unreadable) = (Vec::new(), Vec::new());
    for object in found.items {
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
