//! Data planes from Cluster API, as objects in a management cluster.
//!
//! A data plane is a `Cluster` of a class that the administrator has made. Its nodes are the replicas of
//! its `MachineDeployment` or `MachinePool`, which the topology leaves alone because it does not set them.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::{
    AgentAccess, Answer, Cause, ID_LABEL, NodeCounts, NotThisPlane, PlaneRef, Progress, Provider,
    cluster_name,
};
use crate::agent::install::{self, AgentInstallation};

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
    /// The image of the agent; without one only the manifests are applied.
    pub agent_image: Option<String>,
    /// More objects for the new cluster; `{cluster-id}` is replaced.
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
    #[error("the number of replicas is unknown")]
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

    /// What is created for a data plane.
    fn cluster(&self, plane: &PlaneRef) -> Value {
        let CapiOptions { namespace, class, worker_class, version, .. } = &self.options;
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "metadata": {
                "name": cluster_name(&plane.id), "namespace": namespace,
                "labels": { ID_LABEL: plane.id },
            },
            "spec": { "topology": {
                "class": class,
                "version": version,
                "controlPlane": { "replicas": if plane.multi_az { 3 } else { 1 } },
                "workers": { "machineDeployments": [{ "class": worker_class, "name": "kafka" }] },
            } },
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

    /// A client of the data plane, as whoever its kubeconfig says.
    async fn client_of(&self, plane: &PlaneRef) -> Result<Client, Cause> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.options.namespace);
        let secret = secrets.get(&format!("{}-kubeconfig", plane.known_as())).await?;
        let value = secret.data.unwrap_or_default().remove("value");
        let text = String::from_utf8(value.ok_or(CapiError::KubeconfigMissing)?.0)?;
        let kubeconfig = Kubeconfig::from_yaml(&text)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// What is applied in the new cluster.
    fn agent_objects(&self, plane: &PlaneRef, access: &AgentAccess) -> Result<Vec<Value>, Cause> {
        let mut objects = match &self.options.agent_image {
            Some(image) => install::objects(&AgentInstallation::new(image, &plane.id, access)),
            None => Vec::new(),
        };
        for manifest in &self.options.agent_manifests {
            let text = manifest.to_string().replace("{cluster-id}", &plane.id);
            objects.push(serde_json::from_str(&text)?);
        }
        Ok(objects)
    }
}

/// Numbers of nodes are small; one that is not is no number of nodes.
fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Machines that are not ready are not there yet; while some are to go, those that are still there count.
fn count<'a>(all: impl Iterator<Item = &'a DynamicObject>) -> Result<NodeCounts, Cause> {
    let (mut desired, mut actual, mut failed) = (0u64, 0u64, None);
    for workers in all {
        let wanted = workers.data["spec"]["replicas"].as_u64().ok_or(CapiError::Replicas)?;
        let status = &workers.data["status"];
        // What its controller has not looked at yet says nothing.
        let seen = status["observedGeneration"].as_i64() >= workers.metadata.generation;
        let there = status["replicas"].as_u64().filter(|_| seen).ok_or(CapiError::Replicas)?;
        let ready = status["readyReplicas"].as_u64().unwrap_or(0);
        desired += wanted;
        actual += if there > wanted { there } else { ready.min(there) };
        if status["phase"] == "Failed" {
            let why = status["failureMessage"].as_str().unwrap_or("no reason given");
            failed = Some(why.to_owned());
        }
    }
    Ok(NodeCounts { desired: number(desired), actual: number(actual), failed })
}

impl Provider for Capi {
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, String> {
        Box::pin(async {
            let name = cluster_name(&plane.id);
            let (clusters, _) = self.api("Cluster");
            let cluster = serde_json::from_value(self.cluster(plane))?;
            match clusters.create(&PostParams::default(), &cluster).await {
                Ok(_) => Ok(name),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let there = clusters.get(&name).await?;
                    match there.labels().get(ID_LABEL) == Some(&plane.id) {
                        true => Ok(name),
                        false => Err(NotThisPlane::new(plane).into()),
                    }
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    fn progress<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, Progress> {
        Box::pin(async {
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
        })
    }

    fn install_agent<'a>(&'a self, plane: &'a PlaneRef, access: &'a AgentAccess) -> Answer<'a, ()> {
        Box::pin(async {
            let objects = self.agent_objects(plane, access)?;
            install::apply(&self.client_of(plane).await?, &objects).await
        })
    }

    fn nodes<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, NodeCounts> {
        Box::pin(async {
            let counts = self.workers(plane).await?;
            count(counts.iter().map(|(workers, _)| workers))
        })
    }

    fn set_nodes<'a>(&'a self, plane: &'a PlaneRef, nodes: u32) -> Answer<'a, ()> {
        Box::pin(async move {
            let workers = self.workers(plane).await?;
            let (first, kind) = workers.first().ok_or(CapiError::Workers)?;
            let replicas = |(one, _): &(DynamicObject, _)| one.data["spec"]["replicas"].as_u64();
            let others: u64 = workers[1..].iter().filter_map(replicas).sum();
            let replicas = u64::from(nodes).saturating_sub(others);
            let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
            let name = first.metadata.name.as_deref().unwrap_or_default();
            self.api(kind).0.patch(name, &PatchParams::default(), &patch).await?;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, bool> {
        Box::pin(async {
            let name = match &plane.provider_id {
                Some(name) => name.clone(),
                // Whether it was ever made is not recorded.
                None => {
                    let name = cluster_name(&plane.id);
                    match self.api("Cluster").0.get_opt(&name).await? {
                        Some(there) if there.labels().get(ID_LABEL) == Some(&plane.id) => name,
                        _ => return Ok(true),
                    }
                }
            };
            match self.api("Cluster").0.delete(&name, &DeleteParams::foreground()).await {
                Ok(_) => Ok(false),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
                Err(error) => Err(error.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `spec.replicas`, `status.replicas`, `status.readyReplicas`.
    fn workers(wanted: u64, there: u64, ready: Option<u64>, more: &Value) -> DynamicObject {
        let mut status =
            json!({ "observedGeneration": 2, "replicas": there, "readyReplicas": ready });
        status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
            "metadata": { "name": "w", "generation": 2 },
            "spec": { "replicas": wanted }, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn machines_that_are_not_ready_are_not_there_yet() {
        let rows = [
            ((3, 3, Some(3)), (3, 3)),
            // Three more boot; Cluster API counts them as replicas at once.
            ((6, 6, Some(3)), (6, 3)),
            ((6, 6, Some(5)), (6, 5)),
            ((6, 6, Some(6)), (6, 6)),
            ((3, 3, None), (3, 0)),
            // Some go, ready or not.
            ((3, 6, Some(6)), (3, 6)),
            ((3, 4, Some(3)), (3, 4)),
            // What is said of replicas that are not counted any more.
            ((3, 3, Some(6)), (3, 3)),
        ];
        for ((wanted, there, ready), (desired, actual)) in rows {
            let one = workers(wanted, there, ready, &json!({}));
            let counts = count(std::iter::once(&one)).unwrap();
            assert_eq!(counts, NodeCounts::new(desired, actual), "{wanted} {there} {ready:?}");
        }
        let both = [workers(6, 6, Some(5), &json!({})), workers(3, 3, Some(3), &json!({}))];
        assert_eq!(count(both.iter()).unwrap(), NodeCounts::new(9, 8));
        let failed =
            workers(6, 6, Some(3), &json!({ "phase": "Failed", "failureMessage": "quota" }));
        assert_eq!(count(std::iter::once(&failed)).unwrap().failed.as_deref(), Some("quota"));
        let stale = workers(6, 6, Some(6), &json!({ "observedGeneration": 1 }));
        assert!(count(std::iter::once(&stale)).is_err(), "what was said before the change");
    }
}
