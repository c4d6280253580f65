//! Removes the pods of Strimzi that this operator replaces: what [`control::takeover`] decides, and in this order.
//!
//! What this process has deleted is remembered, so that a Deployment that appears again is told from one that is found for
//! the first time. Why topics and users wait is kept for the conditions of their `Kafka`.
//!
//! What it must not do: remove anything that does not belong to the `Kafka`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::names::{CLUSTER_LABEL, MANAGED_BY, NAME_LABEL, Names};
use control::takeover::{
    Binding, Component, Deployment as Seen, Kind, Read, Step, Wait, elsewhere, step,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, ObjectList};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};

use crate::context::Context;
use crate::words::chain;
use crate::write::{Object, WriteError};

/// Who creates the objects of a component.
const STRIMZI: &str = "strimzi-cluster-operator";

/// Why a component is not replaced yet.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// It has to go first.
    #[error("{0}")]
    Waits(String),
    /// What there is of it cannot be listed.
    #[error("cannot list the objects of Strimzi's {0}")]
    List(String, #[source] Box<kube::Error>),
    /// It cannot be removed.
    #[error("cannot remove Strimzi's {0}")]
    Delete(String, #[source] WriteError),
}

/// What this process has removed, by cluster. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Removals {
    removed: Arc<Mutex<BTreeMap<(Names, Component), Removal>>>,
}

#[derive(Debug, Clone, Default)]
struct Removal {
    /// The uid of the Deployment.
    deployment: Option<String>,
    /// Whether nothing is left in the namespace of the cluster.
    is_whole: bool,
    /// Other namespaces in which nothing is left.
    elsewhere: BTreeSet<String>,
    /// Why topics and users wait, if a person has to act.
    trouble: Option<String>,
}

impl Removals {
    /// Why topics and users of a cluster wait, if a person has to act.
    pub(crate) fn trouble(&self, names: &Names) -> Option<String> {
        self.of(names, Component::EntityOperator).trouble
    }

    fn of(&self, names: &Names, component: Component) -> Removal {
        self.lock().get(&(names.clone(), component)).cloned().unwrap_or_default()
    }

    fn note(&self, names: &Names, component: Component, change: impl FnOnce(&mut Removal)) {
        change(self.lock().entry((names.clone(), component)).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Names, Component), Removal>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the entity operator of a cluster, which watched `namespace` for resources. It is an error as long as it may run.
pub(crate) async fn entity_operator(
    ctx: &Context,
    names: &Names,
    namespace: &str,
) -> Result<(), TakeoverError> {
    let takeover = Takeover { ctx, names, component: Component::EntityOperator };
    let removed = takeover.replace().await;
    let trouble = match &removed {
        Ok(None) => None,
        Ok(Some(wait)) => (!wait.ends()).then(|| wait.message(&names.cluster)),
        // As unknown as before.
        Err(_) => ctx.removals.trouble(names),
    };
    let message = trouble.clone().unwrap_or_default();
    if takeover.tell(trouble) {
        let (namespace, kafka) = (&names.namespace, &names.cluster);
        tracing::warn!(namespace, kafka, message, "an entity operator of Strimzi runs");
    }
    if let Some(wait) = removed? {
        return Err(TakeoverError::Waits(wait.message(&names.cluster)));
    }
    if namespace != names.namespace {
        takeover.elsewhere(namespace).await;
    }
    Ok(())
}

/// Removes the exporter of a cluster, once this operator serves the same metrics: two sources would count double. One that
/// cannot be removed harms nothing else.
pub(crate) async fn kafka_exporter(ctx: &Context, names: &Names) {
    let takeover = Takeover { ctx, names, component: Component::KafkaExporter };
    let (namespace, kafka) = (&names.namespace, &names.cluster);
    match takeover.replace().await {
        Ok(Some(Wait::CreatedAgain)) => {
            let name = Component::KafkaExporter.name(kafka);
            let message = format!(
                "the Deployment {name} was created again after it was removed: an operator of Strimzi manages the Kafka too"
            );
            if takeover.tell(Some(message)) {
                tracing::warn!(namespace, kafka, "Strimzi's Kafka exporter was created again");
            }
        }
        Ok(_) => {
            takeover.tell(None);
        }
        Err(error) => {
            let error = chain(&error);
            tracing::debug!(namespace, kafka, error, "Strimzi's Kafka exporter is not removed");
        }
    }
}

/// The removal of one component of Strimzi from a cluster.
struct Takeover<'a> {
    ctx: &'a Context,
    names: &'a Names,
    component: Component,
}

impl Takeover<'_> {
    /// Notes why topics and users wait; whether that is news.
    fn tell(&self, trouble: Option<String>) -> bool {
        let mut is_news = false;
        self.ctx.removals.note(self.names, self.component, |removal| {
            is_news = trouble.is_some() && removal.trouble != trouble;
            removal.trouble = trouble;
        });
        is_news
    }

    /// Does what is next; why it is not through, if it is not.
    async fn replace(&self) -> Result<Option<Wait>, TakeoverError> {
        let removal = self.ctx.removals.of(self.names, self.component);
        let deployment = self.deployment().await?;
        let pods = match deployment {
            Read::Found(None) | Read::Forbidden => self.pods().await?,
            // They are not asked for as long as their Deployment is there.
            Read::Found(Some(_)) | Read::Unknown => Read::Unknown,
        };
        let memory = (removal.deployment.as_deref(), removal.is_whole);
        match step(&deployment, &pods, memory) {
            Step::Delete(uid) => {
                self.ctx.removals.note(self.names, self.component, |removal| {
                    removal.deployment = Some(uid.clone());
                });
                let name = self.component.name(&self.names.cluster);
                let api = self.api::<Deployment>(&self.names.namespace);
                // The Deployment is there until its pods are gone, so that none can be started in between.
                let deleted = self.ctx.writer.delete_after_dependents(&api, &name, &uid).await;
                deleted.map_err(|error| TakeoverError::Delete(name, error))?;
                Ok(Some(Wait::Deleting))
            }
            Step::Wait(wait) => Ok(Some(wait)),
            Step::RemoveRest => {
                self.remove_rest().await?;
                self.ctx
                    .removals
                    .note(self.names, self.component, |removal| removal.is_whole = true);
                Ok(None)
            }
            Step::Done => Ok(None),
        }
    }

    async fn deployment(&self) -> Result<Read<Option<Seen>>, TakeoverError> {
        let name = self.component.name(&self.names.cluster);
        match self.find::<Deployment>(&self.names.namespace, &name).await {
            Ok(found) => Ok(Read::Found(found.map(|found| Seen {
                uid: found.uid().unwrap_or_default(),
                is_deleting: found.metadata.deletion_timestamp.is_some(),
            }))),
            Err(error) if is_forbidden(&error) => Ok(Read::Forbidden),
            Err(error) => Err(self.unlisted(error)),
        }
    }

    async fn pods(&self) -> Result<Read<Vec<String>>, TakeoverError> {
        let pods: Api<Pod> = Api::namespaced(self.ctx.client.clone(), &self.names.namespace);
        let label = format!("{NAME_LABEL}={}", self.component.name(&self.names.cluster));
        match pods.list_metadata(&ListParams::default().labels(&label)).await {
            Ok(found) => Ok(Read::Found(found.items.iter().map(|pod| pod.name_any()).collect())),
            Err(error) => Err(self.unlisted(error)),
        }
    }

    /// Whatever belongs to it besides its Deployment.
    async fn remove_rest(&self) -> Result<(), TakeoverError> {
        let namespace = self.names.namespace.as_str();
        for (kind, name) in self.component.objects(&self.names.cluster) {
            match kind {
                Kind::RoleBinding => self.remove::<RoleBinding>(namespace, &name).await?,
                Kind::ConfigMap => self.remove::<ConfigMap>(namespace, &name).await?,
                Kind::Secret => self.remove::<Secret>(namespace, &name).await?,
                Kind::Role => self.remove::<Role>(namespace, &name).await?,
                Kind::NetworkPolicy => self.remove::<NetworkPolicy>(namespace, &name).await?,
                Kind::PodDisruptionBudget => {
                    self.remove::<PodDisruptionBudget>(namespace, &name).await?;
                }
                Kind::ServiceAccount => self.remove::<ServiceAccount>(namespace, &name).await?,
            }
        }
        Ok(())
    }

    /// What it had in the namespace that it watched. What is left there grants no rights once its account is gone, so
    /// that it keeps nothing from going on.
    async fn elsewhere(&self, namespace: &str) {
        let removal = self.ctx.removals.of(self.names, self.component);
        if removal.elsewhere.contains(namespace) {
            return;
        }
        match self.remove_elsewhere(namespace).await {
            Ok(()) => self.ctx.removals.note(self.names, self.component, |removal| {
                removal.elsewhere.insert(namespace.to_owned());
            }),
            Err(error) => {
                let (kafka, error) = (&self.names.cluster, chain(&error));
                tracing::info!(namespace, kafka, error, "the role of an entity operator is left");
            }
        }
    }

    async fn remove_elsewhere(&self, namespace: &str) -> Result<(), TakeoverError> {
        let found = self.list::<RoleBinding>(namespace, None).await;
        let bindings = found.map_err(|error| self.unlisted(error))?.items;
        let (names, removes_role) = {
            let seen: Vec<_> = bindings.iter().map(binding).collect();
            elsewhere((&self.names.namespace, &self.names.cluster), &seen)
        };
        for name in &names {
            self.remove::<RoleBinding>(namespace, name).await?;
        }
        if removes_role {
            let name = self.component.name(&self.names.cluster);
            self.remove::<Role>(namespace, &name).await?;
        }
        Ok(())
    }

    async fn remove<K: Removed>(&self, namespace: &str, name: &str) -> Result<(), TakeoverError> {
        let found = self.find::<K>(namespace, name).await.map_err(|error| self.unlisted(error))?;
        let Some(found) = found else { return Ok(()) };
        let (uid, version) = (found.uid().unwrap_or_default(), found.resource_version());
        let api = self.api::<K>(namespace);
        let deleted = self.ctx.writer.delete(&api, name, (&uid, version.as_deref())).await;
        deleted.map(drop).map_err(|error| TakeoverError::Delete(self.what(), error))
    }

    /// The object of this name, if Strimzi created it for the cluster.
    async fn find<K: Removed>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<K>, kube::Error> {
        Ok(self.list::<K>(namespace, Some(name)).await?.items.into_iter().next())
    }

    /// The objects that Strimzi created for the cluster.
    async fn list<K: Removed>(
        &self,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<ObjectList<K>, kube::Error> {
        let labels = format!("{CLUSTER_LABEL}={},{MANAGED_BY}={STRIMZI}", self.names.cluster);
        let params = ListParams::default().labels(&labels);
        let params = match name {
            Some(name) => params.fields(&format!("metadata.name={name}")),
            None => params,
        };
        self.api::<K>(namespace).list(&params).await
    }

    fn unlisted(&self, error: kube::Error) -> TakeoverError {
        TakeoverError::List(self.what(), Box::new(error))
    }

    fn what(&self) -> String {
        self.component.name(&self.names.cluster)
    }

    fn api<K: Removed>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.ctx.client.clone(), namespace)
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

fn binding(binding: &RoleBinding) -> Binding {
    let namespace = binding.namespace().unwrap_or_default();
    let accounts = binding.subjects.iter().flatten().map(|subject| {
        let of = subject.namespace.clone().unwrap_or_else(|| namespace.clone());
        (of, subject.name.clone())
    });
    Binding {
        name: binding.name_any(),
        role: binding.role_ref.name.clone(),
        accounts: accounts.collect(),
    }
}

/// A kind of object that is removed.
trait Removed: Object + Resource<Scope = NamespaceResourceScope> {}

impl<K: Object + Resource<Scope = NamespaceResourceScope>> Removed for K {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_is_read_with_the_namespaces_of_its_accounts() {
        let of = |subjects| -> Binding {
            let role = json!({ "apiGroup": "x", "kind": "Role", "name": "r" });
            let metadata = json!({ "name": "b", "namespace": "here" });
            let found = json!({ "metadata": metadata, "roleRef": role, "subjects": subjects });
            binding(&serde_json::from_value(found).unwrap())
        };
        let there = json!([{ "kind": "ServiceAccount", "name": "s", "namespace": "there" }]);
        let read = of(there);
        assert_eq!((read.name.as_str(), read.role.as_str()), ("b", "r"));
        assert_eq!(read.accounts, [("there".to_owned(), "s".to_owned())]);
        let here = of(json!([{ "kind": "User", "name": "u" }]));
        assert_eq!(here.accounts, [("here".to_owned(), "u".to_owned())]);
        assert_eq!(of(json!(null)).accounts, []);
    }

    #[test]
    fn trouble_is_news_once_and_kept_until_it_is_over() {
        let (removals, names) = (Removals::default(), Names::new("ns", "c"));
        let entity_operator = Component::EntityOperator;
        let note = |component, text: Option<&str>| {
            removals.note(&names, component, |one| one.trouble = text.map(str::to_owned));
        };
        assert_eq!(removals.trouble(&names), None);
        note(Component::KafkaExporter, Some("x"));
        assert_eq!(removals.trouble(&names), None, "M15: topics and users do not wait for it");
        note(entity_operator, Some("y"));
        assert_eq!(removals.trouble(&names).as_deref(), Some("y"), "M1");
        assert_eq!(removals.trouble(&Names::new("ns", "d")), None);
        note(entity_operator, None);
        assert_eq!(removals.trouble(&names), None);
    }
}
