//! What there is of a cluster in Kubernetes, read anew in every pass.
//!
//! Reads only. If any of them fails the pass ends: nothing is done on a part of the view.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api::names::{CLUSTER_LABEL, NAME_LABEL, Names};
use api::{KafkaNodePool, StrimziPodSet};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, Resource};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::time::now_ms;

/// Objects by name.
pub(crate) type ByName<K> = BTreeMap<String, K>;

/// A pool that was found: typed, and as it was written.
#[derive(Debug, Clone)]
pub(crate) struct FoundPool {
    pub(crate) pool: KafkaNodePool,
    pub(crate) written: Value,
}

/// What there is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    /// When it was read, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) pools: Vec<FoundPool>,
    /// Pools that cannot be read, with why.
    pub(crate) unreadable_pools: Vec<(String, String)>,
    pub(crate) pod_sets: ByName<StrimziPodSet>,
    pub(crate) pods: ByName<Pod>,
    pub(crate) services: ByName<Service>,
    pub(crate) config_maps: ByName<ConfigMap>,
    pub(crate) secrets: ByName<Secret>,
    pub(crate) claims: ByName<PersistentVolumeClaim>,
    pub(crate) accounts: ByName<ServiceAccount>,
    pub(crate) policies: ByName<NetworkPolicy>,
    pub(crate) budgets: ByName<PodDisruptionBudget>,
}

/// A read that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the {what} of the cluster")]
pub(crate) struct ReadError {
    what: &'static str,
    #[source]
    source: Box<kube::Error>,
}

impl ReadError {
    /// Whether it is the Secrets, and they may not be read.
    pub(crate) fn is_secrets_forbidden(&self) -> bool {
        let forbidden =
            matches!(&*self.source, kube::Error::Api(status) if matches!(status.code, 401 | 403));
        self.what == "Secrets" && forbidden
    }
}

impl Found {
    /// Reads everything of the cluster.
    pub(crate) async fn read(client: &Client, names: &Names) -> Result<Self, ReadError> {
        let secrets = list(client, names, "Secrets");
        Self::read_with(client, names, secrets).await
    }

    /// Reads everything but the Secrets, for one who may not.
    pub(crate) async fn read_without_secrets(
        client: &Client,
        names: &Names,
    ) -> Result<Self, ReadError> {
        Self::read_with(client, names, async { Ok(ByName::new()) }).await
    }

    async fn read_with(
        client: &Client,
        names: &Names,
        secrets: impl Future<Output = Result<ByName<Secret>, ReadError>>,
    ) -> Result<Self, ReadError> {
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
            list(client, names, "pod sets"),
            list(client, names, "pods"),
            list(client, names, "Services"),
            list(client, names, "ConfigMaps"),
            secrets,
            list(client, names, "claims"),
            list(client, names, "ServiceAccounts"),
            list(client, names, "NetworkPolicies"),
            list(client, names, "PodDisruptionBudgets"),
        )?;
        let (pools, unreadable_pools) = pools;
        let mut pods: ByName<Pod> = pods;
        // Others carry the label of the cluster too, such as Strimzi's entity operator.
        let component = names.component();
        pods.retain(|_, pod| pod.labels().get(NAME_LABEL) == Some(&component));
        Ok(Self {
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
        })
    }
}

fn of_cluster(names: &Names) -> ListParams {
    ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", names.cluster))
}

async fn list<K>(client: &Client, names: &Names, what: &'static str) -> Result<ByName<K>, ReadError>
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
    let found = found.map_err(|source| ReadError { what: "pools", source: Box::new(source) })?;
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
