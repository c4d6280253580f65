//! The entity operator of Strimzi, which manages topics and users of a cluster as this operator does.
//!
//! 1. Two operators would undo each other's work: while a pod of it runs, topics and users are left alone.
//! 2. It is removed when this operator is in charge of the cluster, and before this one begins: first its Deployment, and
//!    when no pod is left what belongs to it.
//! 3. A Deployment that appears again was created by an operator that is in charge too. It is left alone, and so are
//!    topics and users.
//!
//! What it must not do: remove anything that does not belong to the `Kafka`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::names::{CLUSTER_LABEL, MANAGED_BY, NAME_LABEL, Names};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};

use crate::context::Context;
use crate::write::{Object, WriteError};

/// Who creates the objects of an entity operator.
const STRIMZI: &str = "strimzi-cluster-operator";

/// Why topics and users are left alone.
#[derive(Debug, thiserror::Error)]
pub enum EntityOperatorError {
    /// A pod of it runs.
    #[error("the pod {0} of Strimzi's entity operator runs")]
    Runs(String),
    /// Its Deployment was removed just now.
    #[error("Strimzi's entity operator {0} is being removed")]
    Removed(String),
    /// It was removed and is there again.
    #[error(
        "the Deployment {0} was created again after it was removed: stop the Strimzi cluster operator that manages \
         this Kafka"
    )]
    CreatedAgain(String),
    /// What there is of it cannot be listed.
    #[error("cannot list the objects of Strimzi's entity operator")]
    List(#[source] Box<kube::Error>),
    /// It cannot be removed.
    #[error("cannot remove Strimzi's entity operator")]
    Delete(#[from] WriteError),
}

/// What this process has removed, by cluster. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Removals {
    removed: Arc<Mutex<BTreeMap<Names, Removal>>>,
}

#[derive(Debug, Clone, Default)]
struct Removal {
    /// The uid of the Deployment.
    deployment: Option<String>,
    /// Whether nothing is left.
    is_whole: bool,
    /// Whether the log says that it was created again.
    is_told: bool,
}

impl Removals {
    fn of(&self, names: &Names) -> Removal {
        self.lock().get(names).cloned().unwrap_or_default()
    }

    fn note(&self, names: &Names, change: impl FnOnce(&mut Removal)) {
        change(self.lock().entry(names.clone()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Names, Removal>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the entity operator of a cluster. It is an error as long as it is there.
pub(crate) async fn replace(ctx: &Context, names: &Names) -> Result<(), EntityOperatorError> {
    let removal = ctx.removals.of(names);
    let place = Place { ctx, names, name: format!("{}-entity-operator", names.cluster) };
    match place.find::<Deployment>(&place.name).await {
        Ok(Some(found)) if removal.deployment.is_some() && removal.deployment != found.uid() => {
            let error = EntityOperatorError::CreatedAgain(place.name);
            if !removal.is_told {
                tracing::warn!(
                    namespace = names.namespace,
                    kafka = names.cluster,
                    "topics and users are not managed: {error}"
                );
                ctx.removals.note(names, |removal| removal.is_told = true);
            }
            return Err(error);
        }
        Ok(Some(found)) => {
            ctx.removals.note(names, |removal| removal.deployment = found.uid());
            place.delete(&found).await?;
            return Err(EntityOperatorError::Removed(place.name));
        }
        Ok(None) => {}
        // Installed with fewer rights: then its user removes it, and the pods tell when.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return place.no_pods().await;
        }
        Err(error) => return Err(EntityOperatorError::List(Box::new(error))),
    }
    place.no_pods().await?;
    if !removal.is_whole {
        place.remove_rest().await?;
        ctx.removals.note(names, |removal| removal.is_whole = true);
    }
    Ok(())
}

struct Place<'a> {
    ctx: &'a Context,
    names: &'a Names,
    name: String,
}

impl Place<'_> {
    async fn no_pods(&self) -> Result<(), EntityOperatorError> {
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &self.names.namespace);
        let label = format!("{NAME_LABEL}={}", self.name);
        let found = pods.list_metadata(&ListParams::default().labels(&label)).await;
        let found = found.map_err(|error| EntityOperatorError::List(Box::new(error)))?;
        match found.items.into_iter().next() {
            Some(pod) => Err(EntityOperatorError::Runs(pod.metadata.name.unwrap_or_default())),
            None => Ok(()),
        }
    }

    /// Whatever belongs to it besides its Deployment.
    async fn remove_rest(&self) -> Result<(), EntityOperatorError> {
        let (cluster, name) = (&self.names.cluster, &self.name);
        for half in ["topic", "user"] {
            self.remove::<RoleBinding>(&format!("{cluster}-entity-{half}-operator-role")).await?;
            self.remove::<ConfigMap>(&format!("{cluster}-entity-{half}-operator-config")).await?;
            self.remove::<Secret>(&format!("{cluster}-entity-{half}-operator-certs")).await?;
        }
        self.remove::<Secret>(&format!("{cluster}-entity-topic-operator-cc-api")).await?;
        self.remove::<Role>(name).await?;
        self.remove::<NetworkPolicy>(name).await?;
        self.remove::<PodDisruptionBudget>(name).await?;
        self.remove::<ServiceAccount>(name).await
    }

    async fn remove<K: Removed>(&self, name: &str) -> Result<(), EntityOperatorError> {
        match self.find::<K>(name).await {
            Ok(Some(found)) => Ok(self.delete(&found).await?),
            Ok(None) => Ok(()),
            Err(error) => Err(EntityOperatorError::List(Box::new(error))),
        }
    }

    /// The object of this name, if Strimzi created it for the cluster.
    async fn find<K: Removed>(&self, name: &str) -> Result<Option<K>, kube::Error> {
        let labels = format!("{CLUSTER_LABEL}={},{MANAGED_BY}={STRIMZI}", self.names.cluster);
        let params = ListParams::default().labels(&labels).fields(&format!("metadata.name={name}"));
        Ok(self.api::<K>().list(&params).await?.items.into_iter().next())
    }

    async fn delete<K: Removed>(&self, found: &K) -> Result<(), WriteError> {
        let (uid, version) = (found.uid().unwrap_or_default(), found.resource_version());
        let api = self.api::<K>();
        self.ctx.writer.delete(&api, &found.name_any(), (&uid, version.as_deref())).await?;
        Ok(())
    }

    fn api<K: Removed>(&self) -> Api<K> {
        Api::namespaced(self.ctx.client.clone(), &self.names.namespace)
    }
}

/// A kind of object that is removed.
trait Removed: Object + Resource<Scope = NamespaceResourceScope> {}

impl<K: Object + Resource<Scope = NamespaceResourceScope>> Removed for K {}
