//! OpenShift Cluster Manager, as far as the provider asks it: it makes clusters and counts how often. It can be slow, fail,
//! make other numbers of nodes than were asked for, and be changed by a person.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Debug, Default)]
pub(crate) struct Clusters {
    /// By id.
    pub(crate) there: BTreeMap<String, Value>,
    /// How often a cluster was made for each data plane.
    pub(crate) created: BTreeMap<String, u32>,
    /// How often each id was asked to go.
    pub(crate) deleted: BTreeMap<String, u32>,
    /// By id: the parameters of its agent.
    pub(crate) addons: BTreeMap<String, Value>,
    /// Every number of nodes that was asked for.
    pub(crate) scaled: Vec<(String, u64)>,
    /// New nodes do not come, until [`FakeOcm::arrive`] says so.
    pub(crate) frozen: bool,
    /// Scaling is answered with an error.
    pub(crate) refuses: bool,
    /// So many nodes more than were asked for are made.
    pub(crate) extra: u64,
    /// New clusters end in this error.
    pub(crate) error: Option<String>,
    /// New clusters are being installed, until [`FakeOcm::install`] says that they are there.
    pub(crate) installing: bool,
    /// Changes are made at once, and answered so much later.
    pub(crate) late: Duration,
}

#[derive(Clone)]
pub(crate) struct FakeOcm {
    pub(crate) url: String,
    pub(crate) clusters: Arc<Mutex<Clusters>>,
}

type Shared = State<Arc<Mutex<Clusters>>>;

impl FakeOcm {
    pub(crate) async fn start() -> Self {
        let clusters = Arc::<Mutex<Clusters>>::default();
        let base = "/api/clusters_mgmt/v1/clusters";
        let router = Router::new()
            .route(base, get(search).post(create))
            .route(&format!("{base}/{{id}}"), get(find).patch(scale).delete(delete))
            .route(&format!("{base}/{{id}}/status"), get(status))
            .route(&format!("{base}/{{id}}/addons"), post(addon))
            .with_state(Arc::clone(&clusters));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, clusters }
    }

    /// So many nodes of a data plane are there.
    pub(crate) fn arrive(&self, plane: &str, nodes: u64) {
        self.change(plane, |cluster| cluster["status"]["current_compute"] = json!(nodes));
    }

    /// The cluster of a data plane is installed.
    pub(crate) fn install(&self, plane: &str) {
        self.change(plane, |cluster| {
            cluster["status"] =
                json!({ "state": "ready", "current_compute": cluster["nodes"]["compute"] });
        });
    }

    /// A person scales the cluster of a data plane.
    pub(crate) fn scale_as_person(&self, plane: &str, nodes: u64) {
        self.change(plane, |cluster| {
            cluster["nodes"]["compute"] = json!(nodes);
            cluster["status"]["current_compute"] = json!(nodes);
        });
    }

    /// Every number of nodes that the manager asked for.
    pub(crate) fn scaled(&self) -> Vec<u64> {
        self.clusters.lock().unwrap().scaled.iter().map(|(_, nodes)| *nodes).collect()
    }

    fn change(&self, plane: &str, change: impl FnOnce(&mut Value)) {
        let id = self.cluster(plane).unwrap()["id"].as_str().unwrap().to_owned();
        change(self.clusters.lock().unwrap().there.get_mut(&id).unwrap());
    }

    /// The cluster of a data plane.
    pub(crate) fn cluster(&self, plane: &str) -> Option<Value> {
        let clusters = self.clusters.lock().unwrap();
        let of = |one: &&Value| one["properties"]["gregor.io/data-plane"] == plane;
        clusters.there.values().find(of).cloned()
    }
}

async fn search(
    State(clusters): Shared,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let clusters = clusters.lock().unwrap();
    let search = query.get("search").cloned().unwrap_or_default();
    let matches = |one: &&Value| search == format!("name = '{}'", one["name"].as_str().unwrap());
    let items: Vec<_> = clusters.there.values().filter(matches).cloned().collect();
    Json(json!({ "items": items }))
}

async fn create(State(clusters): Shared, Json(body): Json<Value>) -> (StatusCode, Json<Value>) {
    let answer = created(&clusters, body);
    be_late(&clusters).await;
    answer
}

async fn be_late(clusters: &Mutex<Clusters>) {
    let late = clusters.lock().unwrap().late;
    tokio::time::sleep(late).await;
}

fn created(clusters: &Mutex<Clusters>, mut body: Value) -> (StatusCode, Json<Value>) {
    let mut clusters = clusters.lock().unwrap();
    let plane = body["properties"]["gregor.io/data-plane"].as_str().unwrap().to_owned();
    // As the real one, which lets names of clusters be used once.
    if clusters.there.values().any(|one| one["name"] == body["name"]) {
        return (StatusCode::CONFLICT, Json(json!({ "reason": "the name is used" })));
    }
    *clusters.created.entry(plane).or_default() += 1;
    let id = format!("ocm-{}", clusters.there.len() + clusters.deleted.len());
    body["id"] = json!(id);
    body["status"] = match &clusters.error {
        None if clusters.installing => json!({ "state": "installing" }),
        None => json!({ "state": "ready", "current_compute": body["nodes"]["compute"] }),
        Some(why) => json!({ "state": "error", "provision_error_message": why }),
    };
    clusters.there.insert(id, body.clone());
    (StatusCode::CREATED, Json(body))
}

fn found(value: Option<&Value>) -> Result<Json<Value>, StatusCode> {
    value.cloned().map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn find(State(clusters): Shared, Path(id): Path<String>) -> Result<Json<Value>, StatusCode> {
    found(clusters.lock().unwrap().there.get(&id))
}

async fn status(
    State(clusters): Shared,
    Path(id): Path<String>,
) -> Result<Json<Value>, StatusCode> {
    found(clusters.lock().unwrap().there.get(&id).map(|one| &one["status"]))
}

async fn addon(
    State(clusters): Shared,
    Path(id): Path<String>,
    Json(body): Json<Value>,
) -> StatusCode {
    let mut clusters = clusters.lock().unwrap();
    if !clusters.there.contains_key(&id) {
        return StatusCode::NOT_FOUND;
    }
    match clusters.addons.insert(id, body) {
        Some(_) => StatusCode::CONFLICT,
        None => StatusCode::CREATED,
    }
}

async fn scale(
    State(clusters): Shared,
    Path(id): Path<String>,
    Json(body): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let answer = scaled(&clusters, id, &body);
    be_late(&clusters).await;
    answer
}

fn scaled(clusters: &Mutex<Clusters>, id: String, body: &Value) -> Result<Json<Value>, StatusCode> {
    let mut clusters = clusters.lock().unwrap();
    let asked = body["nodes"]["compute"].as_u64().unwrap();
    if clusters.refuses {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let (frozen, nodes) = (clusters.frozen, asked + clusters.extra);
    let cluster = clusters.there.get_mut(&id).ok_or(StatusCode::NOT_FOUND)?;
    cluster["nodes"]["compute"] = json!(nodes);
    if !frozen {
        cluster["status"]["current_compute"] = json!(nodes);
    }
    let answer = Json(cluster.clone());
    clusters.scaled.push((id, asked));
    Ok(answer)
}

async fn delete(State(clusters): Shared, Path(id): Path<String>) -> StatusCode {
    let removed = {
        let mut clusters = clusters.lock().unwrap();
        *clusters.deleted.entry(id.clone()).or_default() += 1;
        clusters.there.remove(&id)
    };
    if removed.is_none() {
        return StatusCode::NOT_FOUND;
    }
    be_late(&clusters).await;
    StatusCode::NO_CONTENT
}
