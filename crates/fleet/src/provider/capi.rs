//! Data planes from Cluster API, as objects in a management cluster.
//!
//! A data plane is a `Cluster` of a class that the administrator has made. Its nodes are the replicas of
//! its `MachineDeployment` or `MachinePool`, which the topology leaves alone because it does not set them.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Cause, NodeCounts, PlaneRef, Progress, Provider, ProviderError};

/// Who writes the objects.
const MANAGER: &str = "gregor-fleet";

/// The label of everything that belongs to a cluster.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// What Cluster API is to make.
#[derive(Debug, Clone)]
pub struct CapiOptions {
    /// The namespace of the objects in the management cluster.
    pub namespace: String,
    /// The class of the clusters.
    pub class: String,
    /// The class of the workers.
    pub worker_class: String,
    /// The version of Kubernetes.
    pub version: String,
    /// The objects that are the agent, applied in the new cluster; `{cluster-id}` is replaced.
    pub agent_manifests: Vec<Value>,
}

/// Cluster API in a management cluster.
#[derive(Clone)]
pub struct Capi {
    options: CapiOptions,
    client: Client,
}

impl std::fmt::Debug for Capi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capi").field("options", &self.options).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
enum CapiError {
    #[error("the cluster has neither MachineDeployment nor MachinePool")]
    Workers,
    #[error("the number of replicas is not known")]
    Replicas,
    #[error("there is no kubeconfig of the cluster yet")]
    KubeconfigMissing,
}

impl Capi {
    /// With these options, in the management cluster of the client.
    #[must_use]
    pub fn new(options: CapiOptions, client: Client) -> Self {
        Self { options, client }
    }

    fn api(&self, kind: &str) -> (Api<DynamicObject>, ApiResource) {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", kind));
        let api = Api::namespaced_with(self.client.clone(), &self.options.namespace, &resource);
        (api, resource)
    }

    async fn make(&self, plane: &PlaneRef) -> Result<String, Cause> {
        let CapiOptions { namespace, class, worker_class, version, .. } = &self.options;
        let name = name(plane);
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "metadata": {
                "name": name, "namespace": namespace, "labels": { "gregor.io/data-plane": plane.id },
            },
            "spec": { "topology": {
                "class": class,
                "version": version,
                "controlPlane": { "replicas": if plane.multi_az { 3 } else { 1 } },
                "workers": { "machineDeployments": [{ "class": worker_class, "name": "kafka" }] },
            } },
        });
        let params = PatchParams::apply(MANAGER).force();
        self.api("Cluster").0.patch(&name, &params, &Patch::Apply(cluster)).await?;
        Ok(name)
    }

    async fn state(&self, plane: &PlaneRef) -> Result<Progress, Cause> {
        let cluster = self.api("Cluster").0.get(plane.known_as()).await?;
        let status = &cluster.data["status"];
        Ok(match status["phase"].as_str() {
            Some("Provisioned") => Progress::There,
            Some("Failed") => {
                let why = status["failureMessage"].as_str().unwrap_or("no reason given");
                Progress::Failed(why.to_owned())
            }
            _ => Progress::Coming,
        })
    }

    /// The objects that have the cluster's workers.
    async fn workers(&self, plane: &PlaneRef) -> Result<Vec<(DynamicObject, &'static str)>, Cause> {
        let params = ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", plane.known_as()));
        let mut found = Vec::new();
        for kind in ["MachineDeployment", "MachinePool"] {
            match self.api(kind).0.list(&params).await {
                Ok(list) => found.extend(list.items.into_iter().map(|one| (one, kind))),
                // Pools are an experiment that not every management cluster has.
                Err(kube::Error::Api(status)) if status.code == 404 && kind == "MachinePool" => {}
                Err(error) => return Err(error.into()),
            }
        }
        if found.is_empty() { Err(CapiError::Workers.into()) } else { Ok(found) }
    }

    async fn count(&self, plane: &PlaneRef) -> Result<NodeCounts, Cause> {
        let (mut desired, mut actual) = (0u64, 0u64);
        for (workers, _) in self.workers(plane).await? {
            desired += workers.data["spec"]["replicas"].as_u64().ok_or(CapiError::Replicas)?;
            let status = &workers.data["status"];
            // What its controller has not looked at yet says nothing.
            let seen = status["observedGeneration"].as_i64() >= workers.metadata.generation;
            let replicas = status["replicas"].as_u64().filter(|_| seen);
            let ready = status["readyReplicas"].as_u64().unwrap_or(0);
            // Those that are still going count as there.
            actual += replicas.ok_or(CapiError::Replicas)?.max(ready);
        }
        let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(NodeCounts { desired: number(desired), actual: number(actual) })
    }

    async fn scale(&self, plane: &PlaneRef, nodes: u32) -> Result<(), Cause> {
        let workers = self.workers(plane).await?;
        let (first, kind) = workers.first().ok_or(CapiError::Workers)?;
        let others: u64 =
            workers[1..].iter().filter_map(|(one, _)| one.data["spec"]["replicas"].as_u64()).sum();
        let replicas = u64::from(nodes).saturating_sub(others);
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let name = first.metadata.name.as_deref().unwrap_or_default();
        self.api(kind).0.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn remove(&self, plane: &PlaneRef) -> Result<bool, Cause> {
        let name = plane.provider_id.clone().unwrap_or_else(|| name(plane));
        match self.api("Cluster").0.delete(&name, &DeleteParams::foreground()).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies the agent's objects in the new cluster, as whoever its kubeconfig says.
    async fn add_agent(&self, plane: &PlaneRef) -> Result<(), Cause> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.options.namespace);
        let secret = secrets.get(&format!("{}-kubeconfig", plane.known_as())).await?;
        let value = secret.data.unwrap_or_default().remove("value");
        let text = String::from_utf8(value.ok_or(CapiError::KubeconfigMissing)?.0)?;
        let kubeconfig = Kubeconfig::from_yaml(&text)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        for manifest in &self.options.agent_manifests {
            let text = manifest.to_string().replace("{cluster-id}", &plane.id);
            let object: DynamicObject = serde_json::from_str(&text)?;
            let types = object.types.clone().unwrap_or_default();
            let gvk = GroupVersionKind::try_from(&types)?;
            let resource = ApiResource::from_gvk(&gvk);
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let name = object.metadata.name.clone().unwrap_or_default();
            api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await?;
        }
        Ok(())
    }
}

/// A name that is one for Kubernetes, too.
fn name(plane: &PlaneRef) -> String {
    let id = plane.id.to_ascii_lowercase().replace(['_', '.'], "-");
    format!("mk-{}", id.trim_matches('-'))
}

impl Provider for Capi {
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> BoxFuture<'a, Result<String, ProviderError>> {
        Box::pin(async { self.make(plane).await.map_err(ProviderError::Create) })
    }

    fn progress<'a>(
        &'a self,
        plane: &'a PlaneRef,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        Box::pin(async { self.state(plane).await.map_err(ProviderError::Progress) })
    }

    fn install_agent<'a>(
        &'a self,
        plane: &'a PlaneRef,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async { self.add_agent(plane).await.map_err(ProviderError::InstallAgent) })
    }

    fn nodes<'a>(
        &'a self,
        plane: &'a PlaneRef,
    ) -> BoxFuture<'a, Result<NodeCounts, ProviderError>> {
        Box::pin(async { self.count(plane).await.map_err(ProviderError::Nodes) })
    }

    fn set_nodes<'a>(
        &'a self,
        plane: &'a PlaneRef,
        nodes: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move { self.scale(plane, nodes).await.map_err(ProviderError::SetNodes) })
    }

    fn delete<'a>(&'a self, plane: &'a PlaneRef) -> BoxFuture<'a, Result<bool, ProviderError>> {
        Box::pin(async { self.remove(plane).await.map_err(ProviderError::Delete) })
    }
}
