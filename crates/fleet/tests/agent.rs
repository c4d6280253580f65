//! The agent between a fleet manager and a Kubernetes API that has namespaces, nodes and Kafkas.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use fleet::agent::{Agent, AgentError, AgentOptions, TokenSource};
use fleet::client::Client;
use serde_json::{Value, json};
use support::{Manager, eventually};

/// The label of namespaces that the agent made.
const ID: &str = "bf2.org/id";

#[derive(Debug, Default)]
struct Objects {
    namespaces: BTreeMap<String, Value>,
    /// By namespace.
    kafkas: BTreeMap<String, Value>,
    deleted: Vec<String>,
}

/// As far as the agent asks it.
#[derive(Debug, Clone, Default)]
struct FakeKubernetes(Arc<Mutex<Objects>>);

type Shared = State<FakeKubernetes>;
type Answer = (StatusCode, Json<Value>);

fn found(object: Option<Value>) -> Answer {
    let status = || {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
            "message": "not found", "code": 404,
        })
    };
    match object {
        Some(object) => (StatusCode::OK, Json(object)),
        None => (StatusCode::NOT_FOUND, Json(status())),
    }
}

fn list(kind: &str, items: Vec<Value>) -> Json<Value> {
    Json(json!({ "apiVersion": "v1", "kind": kind, "metadata": {}, "items": items }))
}

/// Three nodes in three zones.
async fn nodes() -> Json<Value> {
    let node = |zone: u32| {
        json!({
            "metadata": {
                "name": format!("node-{zone}"),
                "labels": { "topology.kubernetes.io/zone": format!("z{zone}") },
            },
            "status": {
                "allocatable": { "cpu": "4", "memory": "16Gi" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        })
    };
    list("NodeList", (1..=3).map(node).collect())
}

async fn kafkas(State(fake): Shared) -> Json<Value> {
    list("KafkaList", fake.0.lock().unwrap().kafkas.values().cloned().collect())
}

async fn namespace(State(fake): Shared, Path(name): Path<String>) -> Answer {
    found(fake.0.lock().unwrap().namespaces.get(&name).cloned())
}

async fn apply_namespace(State(fake): Shared, Path(name): Path<String>, body: Bytes) -> Answer {
    let object: Value = serde_json::from_slice(&body).unwrap();
    fake.0.lock().unwrap().namespaces.insert(name, object.clone());
    found(Some(object))
}

async fn delete_namespace(State(fake): Shared, Path(name): Path<String>) -> Answer {
    let mut objects = fake.0.lock().unwrap();
    objects.deleted.push(name.clone());
    found(objects.namespaces.remove(&name))
}

async fn apply(
    State(fake): Shared,
    Path((namespace, plural, _)): Path<(String, String, String)>,
    body: Bytes,
) -> Answer {
    let object: Value = serde_json::from_slice(&body).unwrap();
    if plural == "kafkas" {
        fake.0.lock().unwrap().kafkas.insert(namespace, object.clone());
    }
    found(Some(object))
}

async fn delete(
    State(fake): Shared,
    Path((namespace, plural, _)): Path<(String, String, String)>,
) -> Answer {
    match plural.as_str() {
        "kafkas" => found(fake.0.lock().unwrap().kafkas.remove(&namespace)),
        _ => found(None),
    }
}

impl FakeKubernetes {
    fn client(&self) -> kube::Client {
        let router = Router::new()
            .route("/api/v1/nodes", get(nodes))
            .route(
                "/api/v1/namespaces/{name}",
                get(namespace).patch(apply_namespace).delete(delete_namespace),
            )
            .route("/apis/kafka.strimzi.io/v1/kafkas", get(kafkas))
            .route(
                "/apis/kafka.strimzi.io/v1/namespaces/{namespace}/{plural}/{name}",
                axum::routing::patch(apply).delete(delete),
            )
            .fallback(|| async { found(None) })
            .with_state(self.clone());
        kube::Client::new(router, "default")
    }

    fn add_namespace(&self, name: &str, labels: &Value) {
        let object = json!({ "metadata": { "name": name, "uid": name, "labels": labels } });
        self.0.lock().unwrap().namespaces.insert(name.to_owned(), object);
    }

    fn namespaces(&self) -> Vec<String> {
        self.0.lock().unwrap().namespaces.keys().cloned().collect()
    }
}

fn agent(manager: &str, token: PathBuf, kubernetes: &FakeKubernetes) -> Agent {
    let options = AgentOptions {
        manager: manager.to_owned(),
        plane: "p".to_owned(),
        token: TokenSource::File(token),
        interval: Duration::from_secs(60),
        node_selector: String::new(),
        kafka_version: None,
    };
    Agent::new(options, Client::new(Duration::from_secs(10)).unwrap(), kubernetes.client())
}

/// A Kafka that is placed on the data plane of the agent.
async fn placed(manager: &Manager, name: &str) -> String {
    let ann = manager.signer.user("ann", "org");
    let body = Some(json!({ "name": name, "cloud_provider": "hand" }));
    let made = manager.ask("POST", "/kafkas?async=true", &ann, body).await.expect(202);
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/admin/kafkas/{id}");
    let admin = manager.signer.admin("read");
    eventually("it has its place", async || {
        manager.ask("GET", &path, &admin, None).await.body["data_plane_id"] == "p"
    })
    .await;
    id
}

async fn status(manager: &Manager, id: &str) -> Value {
    let admin = manager.signer.admin("read");
    manager.ask("GET", &format!("/admin/kafkas/{id}"), &admin, None).await.body["status"].clone()
}

/// A data plane's id, or whatever somebody calls a namespace, gives the agent no right to delete it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_deletes_only_namespaces_that_it_made_for_that_kafka() {
    let manager = Manager::start("sqlite").await;
    manager.plane("p").await;
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, manager.signer.agent("p")).unwrap();
    let kubernetes = FakeKubernetes::default();
    let mut agent = agent(&manager.url, token, &kubernetes);
    agent.pass().await.unwrap();
    assert_eq!(manager.get_plane("p").await["status"], "ready");

    let own = placed(&manager, "own").await;
    let unlabelled = placed(&manager, "unlabelled").await;
    let of_another = placed(&manager, "of-another").await;
    let name = |id: &str| format!("kafka-{id}");
    kubernetes.add_namespace(&name(&unlabelled), &json!({ "team": "billing" }));
    kubernetes.add_namespace(&name(&of_another), &json!({ ID: own }));
    kubernetes.add_namespace("p", &json!({}));
    let before = kubernetes.namespaces();
    agent.pass().await.unwrap();
    // Its own is created; nothing is put into those of others.
    assert_eq!(kubernetes.0.lock().unwrap().namespaces[&name(&own)]["metadata"]["labels"][ID], own);
    assert_eq!(kubernetes.0.lock().unwrap().kafkas.keys().collect::<Vec<_>>(), [&name(&own)]);
    assert_eq!(status(&manager, &own).await, "provisioning");
    for id in [&unlabelled, &of_another] {
        assert_eq!(status(&manager, id).await, "failed");
    }

    let ann = manager.signer.user("ann", "org");
    for id in [&own, &unlabelled, &of_another] {
        let path = format!("/kafkas/{id}?async=true");
        manager.ask("DELETE", &path, &ann, None).await.expect(202);
    }
    for _ in 0..3 {
        agent.pass().await.unwrap();
    }
    assert_eq!(kubernetes.0.lock().unwrap().deleted, [name(&own)]);
    assert_eq!(kubernetes.namespaces(), before);
    eventually("it is forgotten", async || status(&manager, &own).await.is_null()).await;
    for id in [&unlabelled, &of_another] {
        assert_eq!(status(&manager, id).await, "deprovision", "a person has to look");
    }
}

#[tokio::test]
async fn the_agent_sends_no_token_to_a_manager_in_the_clear() {
    let kubernetes = FakeKubernetes::default();
    // The token is not even read.
    let mut agent = agent("http://fleet.example.com", PathBuf::from("/nowhere"), &kubernetes);
    let refused = agent.pass().await;
    assert!(matches!(refused, Err(AgentError::Insecure(_))), "{refused:?}");
}
