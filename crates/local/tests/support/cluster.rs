//! A real control plane with nodes and pods that are only objects: no process runs for them.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt::Debug;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource, ResourceExt as _};
use local::control_plane::{ControlPlane, Options};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support;

/// What a loaded machine may need for anything that is bound to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A control plane that ends with the test.
pub(crate) struct Cluster {
    pub(crate) plane: ControlPlane,
    pub(crate) client: Client,
    temp: TempDir,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let filter = tracing_subscriber::EnvFilter::new("info");
        let _already =
            tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let temp = tempfile::tempdir().unwrap();
        let options = Options::for_test(temp.path().join("state"), support::binaries());
        let plane = ControlPlane::start(options, |_| {}).await.unwrap();
        Self { client: plane.client(), plane, temp }
    }

    /// A client that may do what these rules say and no more.
    pub(crate) async fn limited(&self, user: &str, rules: Vec<PolicyRule>) -> Client {
        let params = PostParams::default();
        let metadata = ObjectMeta { name: Some(user.to_owned()), ..ObjectMeta::default() };
        let role =
            ClusterRole { metadata: metadata.clone(), rules: Some(rules), aggregation_rule: None };
        Api::all(self.client.clone()).create(&params, &role).await.unwrap();
        let binding: ClusterRoleBinding = from(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }));
        Api::all(self.client.clone()).create(&params, &binding).await.unwrap();
        let mut config = self.config().await;
        config.auth_info.impersonate = Some(user.to_owned());
        Client::try_from(config).unwrap()
    }

    /// How clients with all rights connect.
    pub(crate) async fn config(&self) -> kube::Config {
        let file = Kubeconfig::read_from(self.plane.kubeconfig_path()).unwrap();
        let options = KubeConfigOptions::default();
        kube::Config::from_custom_kubeconfig(file, &options).await.unwrap()
    }

    /// A directory for the test.
    pub(crate) fn dir(&self) -> &Path {
        self.temp.path()
    }

    /// The directory of a node.
    pub(crate) fn node_dir(&self, name: &str) -> PathBuf {
        self.dir().join("nodes").join(name)
    }

    /// A namespace in which pods can be made.
    pub(crate) async fn namespace(&self, name: &str) {
        let object = from(json!({"metadata": {"name": name}}));
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &object).await.unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), name);
        eventually("a service account", || async { accounts.get_opt("default").await.unwrap() })
            .await;
    }

    /// A node that takes pods. `status` is added to its status.
    pub(crate) async fn node(&self, name: &str, address: IpAddr, status: Value) {
        let api: Api<Node> = Api::all(self.client.clone());
        let labels = json!({"kubernetes.io/hostname": name});
        let object = from(json!({"metadata": {"name": name, "labels": labels}}));
        api.create(&PostParams::default(), &object).await.unwrap();
        let amounts = json!({"cpu": "8", "memory": "8Gi", "pods": "100"});
        let mut whole = json!({
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                            "lastHeartbeatTime": "2100-01-01T00:00:00Z"}],
        });
        whole.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        let patch = Patch::Merge(json!({"status": whole}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        // The controller that knows of readiness takes the mark of a new node away.
        eventually("an untainted node", || async {
            let node = api.get(name).await.unwrap();
            node.spec.unwrap_or_default().taints.unwrap_or_default().is_empty().then_some(())
        })
        .await;
    }

    /// Everything of one kind in a namespace.
    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Makes an object.
    pub(crate) async fn create<K>(&self, namespace: &str, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.api::<K>(namespace).create(&PostParams::default(), &from(object)).await.unwrap()
    }

    /// Deletes a pod as a kubelet does when its processes are gone.
    pub(crate) async fn end_pod(&self, namespace: &str, name: &str) {
        let pods = self.api::<Pod>(namespace);
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
        eventually("a pod that is gone", || async {
            pods.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    /// Changes the status of a pod.
    pub(crate) async fn patch_pod(&self, namespace: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let pods = self.api::<Pod>(namespace);
        pods.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits for an event about an object, and returns what it says.
    pub(crate) async fn event(&self, namespace: &str, about: &str, reason: &str) -> String {
        let events = self.api::<Event>(namespace);
        eventually(reason, || async {
            let list = events.list(&ListParams::default()).await.unwrap();
            list.items
                .into_iter()
                .find(|event| {
                    event.reason.as_deref() == Some(reason)
                        && event.involved_object.name.as_deref() == Some(about)
                })
                .and_then(|event| event.message)
        })
        .await
    }
}

/// An object from its JSON.
pub(crate) fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Waits until there is a result.
pub(crate) async fn eventually<T, F>(what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let begun = std::time::Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "there was not {what} in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A name for messages.
pub(crate) fn named<K: Resource>(object: &K) -> String {
    object.name_any()
}
