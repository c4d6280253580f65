//! Cluster API, as far as the provider asks it: an API server with clusters and machine deployments, and controllers that
//! count every machine at once and call it ready when [`FakeCapi::boot`] says so.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fleet::provider::ID_LABEL;
use fleet::provider::capi::{Capi, CapiOptions};
use serde_json::{Value, json};

const GROUP: &str = "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// A kubeconfig that is valid and leads nowhere.
const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c, \
    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: c, user: {}}], \
    contexts: [{name: c, context: {cluster: c, user: c}}]}";

#[derive(Debug, Default)]
struct Objects {
    clusters: BTreeMap<String, Value>,
    /// By the name of their cluster.
    workers: BTreeMap<String, Value>,
    /// Every number of machines that was asked for.
    scaled: Vec<u64>,
    /// Machines neither come nor go, until [`FakeCapi::boot`] says so.
    frozen: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct FakeCapi(Arc<Mutex<Objects>>);

type Shared = State<FakeCapi>;
type Answer = (StatusCode, Json<Value>);

impl FakeCapi {
    /// The provider that asks it.
    pub(crate) fn provider(&self) -> Capi {
        let router = Router::new()
            .route(&format!("{GROUP}/clusters"), post(create))
            .route(&format!("{GROUP}/clusters/{{name}}"), get(find).delete(delete))
            .route(&format!("{GROUP}/machinedeployments"), get(workers))
            .route(&format!("{GROUP}/machinedeployments/{{name}}"), patch(scale))
            .route("/api/v1/namespaces/fleet/secrets/{name}", get(kubeconfig))
            .fallback(|| async { not_found() })
            .with_state(self.clone());
        let options = CapiOptions {
            namespace: "fleet".to_owned(),
            class: "metal".to_owned(),
            worker_class: "large".to_owned(),
            version: "v1.34.0".to_owned(),
            agent_image: None,
            agent_manifests: Vec::new(),
        };
        Capi::new(options, kube::Client::new(router, "fleet"))
    }

    /// From now on machines come and go by [`FakeCapi::boot`] only.
    pub(crate) fn freeze(&self) {
        self.0.lock().unwrap().frozen = true;
    }

    /// So many of the machines of a data plane are ready; those that were too many are gone.
    pub(crate) fn boot(&self, plane: &str, ready: u64) {
        let mut objects = self.0.lock().unwrap();
        let workers = objects.workers.get_mut(&fleet::provider::cluster_name(plane)).unwrap();
        workers["status"]["replicas"] = workers["spec"]["replicas"].clone();
        workers["status"]["readyReplicas"] = json!(ready);
    }

    /// Every number of machines that the manager asked for.
    pub(crate) fn scaled(&self) -> Vec<u64> {
        self.0.lock().unwrap().scaled.clone()
    }

    /// How many clusters there are.
    pub(crate) fn clusters(&self) -> usize {
        self.0.lock().unwrap().clusters.len()
    }
}

fn refusal(code: StatusCode, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": reason, "code": code.as_u16(),
    });
    (code, Json(status))
}

fn not_found() -> Answer {
    refusal(StatusCode::NOT_FOUND, "NotFound")
}

fn found(object: Option<&Value>) -> Answer {
    object.map_or_else(not_found, |object| (StatusCode::OK, Json(object.clone())))
}

async fn create(State(fake): Shared, Json(mut cluster): Json<Value>) -> Answer {
    let mut objects = fake.0.lock().unwrap();
    let name = cluster["metadata"]["name"].as_str().unwrap().to_owned();
    if objects.clusters.contains_key(&name) {
        return refusal(StatusCode::CONFLICT, "AlreadyExists");
    }
    assert!(!cluster["metadata"]["labels"][ID_LABEL].is_null());
    cluster["status"] = json!({ "phase": "Provisioned" });
    // The class of the clusters begins with one machine.
    let workers = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
        "metadata": {
            "name": format!("{name}-kafka"), "namespace": "fleet", "generation": 1,
            "labels": { CLUSTER_LABEL: name },
        },
        "spec": { "replicas": 1 },
        "status": { "observedGeneration": 1, "replicas": 1, "readyReplicas": 1 },
    });
    objects.workers.insert(name.clone(), workers);
    objects.clusters.insert(name, cluster.clone());
    (StatusCode::CREATED, Json(cluster))
}

async fn find(State(fake): Shared, Path(name): Path<String>) -> Answer {
    found(fake.0.lock().unwrap().clusters.get(&name))
}

async fn delete(State(fake): Shared, Path(name): Path<String>) -> Answer {
    let mut objects = fake.0.lock().unwrap();
    objects.workers.remove(&name);
    found(objects.clusters.remove(&name).as_ref())
}

async fn workers(
    State(fake): Shared,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let name = query["labelSelector"].strip_prefix(&format!("{CLUSTER_LABEL}=")).unwrap();
    let items: Vec<_> = fake.0.lock().unwrap().workers.get(name).cloned().into_iter().collect();
    Json(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeploymentList", "metadata": {},
        "items": items,
    }))
}

async fn scale(State(fake): Shared, Path(name): Path<String>, Json(change): Json<Value>) -> Answer {
    let mut objects = fake.0.lock().unwrap();
    let asked = change["spec"]["replicas"].as_u64().unwrap();
    objects.scaled.push(asked);
    let frozen = objects.frozen;
    let Some(workers) = objects.workers.get_mut(name.strip_suffix("-kafka").unwrap()) else {
        return not_found();
    };
    workers["spec"]["replicas"] = json!(asked);
    let generation = workers["metadata"]["generation"].as_u64().unwrap() + 1;
    workers["metadata"]["generation"] = json!(generation);
    workers["status"]["observedGeneration"] = json!(generation);
    let there = workers["status"]["replicas"].as_u64().unwrap();
    // New machines are replicas at once, ready or not; old ones are until they are gone.
    workers["status"]["replicas"] = json!(if frozen { there.max(asked) } else { asked });
    if !frozen {
        workers["status"]["readyReplicas"] = json!(asked);
    }
    found(Some(workers))
}

async fn kubeconfig(State(fake): Shared, Path(name): Path<String>) -> Answer {
    let cluster = name.strip_suffix("-kubeconfig").unwrap();
    if !fake.0.lock().unwrap().clusters.contains_key(cluster) {
        return not_found();
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "fleet" },
        "data": { "value": BASE64_STANDARD.encode(KUBECONFIG) },
    });
    found(Some(&secret))
}
