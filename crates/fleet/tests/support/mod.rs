//! A fleet manager on a real socket, with tokens, a provider that counts, and a real PostgreSQL.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

pub(crate) mod capi;
pub(crate) mod keycloak;
pub(crate) mod ocm;
pub(crate) mod postgres;
pub(crate) mod tokens;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet::auth::Authenticator;
use fleet::client::Client;
use fleet::config::{
    Auth, CloudProvider, Config, InstanceType, Limits, Most, Quotas, Realm, Region, Size, Times,
};
use fleet::http::{App, BASE, serve};
use fleet::identity::{Credentials, Identity, IdentityError};
use fleet::provider::Providers;
use fleet::provider::ocm::{Ocm, OcmOptions};
use fleet::store::Store;
use fleet::workers::Workers;
use futures::future::BoxFuture;
use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use capi::FakeCapi;
use ocm::FakeOcm;
pub(crate) use tokens::Signer;
use tokens::{AUDIENCE, ISSUER};

/// An identity provider that remembers the order in which it was asked.
#[derive(Debug, Default)]
pub(crate) struct Remembering(pub(crate) Mutex<Vec<String>>);

impl Identity for Remembering {
    fn make_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        self.0.lock().unwrap().push(format!("make client {plane}"));
        Box::pin(async { Ok(()) })
    }

    fn make_account<'a>(
        &'a self,
        plane: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, IdentityError>> {
        self.0.lock().unwrap().push(format!("make account {plane}"));
        Box::pin(async { Ok(Credentials::Elsewhere) })
    }

    fn remove_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        self.0.lock().unwrap().push(format!("client {plane}"));
        Box::pin(async { Ok(()) })
    }

    fn remove_account<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        self.0.lock().unwrap().push(format!("account {plane}"));
        Box::pin(async { Ok(()) })
    }
}

/// A small fleet: one region of OpenShift Cluster Manager and one of data planes made by hand.
pub(crate) fn config(dir: &TempDir, signer: &Signer) -> Config {
    let file: PathBuf = dir.path().join("jwks.json");
    std::fs::write(&file, json!({ "keys": [signer.jwk()] }).to_string()).unwrap();
    let realm =
        || Realm { issuer: ISSUER.to_owned(), audience: AUDIENCE.to_owned(), ..Realm::default() };
    let region = |id: &str, provider: &str| Region {
        id: id.to_owned(),
        display_name: String::new(),
        provider: provider.to_owned(),
        multi_az: true,
        nodes: 3,
        planes_max: 5,
    };
    let size = Size {
        id: "x1".to_owned(),
        multi_az: true,
        brokers: 3,
        connections: 100,
        partitions: 100,
        throughput: "1Mi".to_owned(),
        retention: "1Gi".to_owned(),
        memory: "1Gi".to_owned(),
        cpu_milli: 100,
    };
    Config {
        cloud_providers: vec![
            CloudProvider {
                id: "hand".to_owned(),
                display_name: "By hand".to_owned(),
                regions: vec![region("here", "standalone")],
            },
            CloudProvider {
                id: "aws".to_owned(),
                display_name: String::new(),
                regions: vec![region("us-east-1", "ocm")],
            },
        ],
        instance_types: vec![InstanceType {
            id: "standard".to_owned(),
            display_name: String::new(),
            sizes: vec![
                size.clone(),
                Size { id: "x5".to_owned(), connections: 500, ..size.clone() },
            ],
        }],
        model_t: size,
        auth: Auth {
            jwks_file: Some(file),
            jwks_url: None,
            jwks_more: Vec::new(),
            local_tokens_only: false,
            agent: realm(),
            public: realm(),
            admin: realm(),
        },
        quotas: {
            let most = Most { kafkas: 1000, connections: 1_000_000, partitions: 1_000_000 };
            Quotas { organisation: most, user: most }
        },
        limits: Limits { requests_per_second: 100_000, burst: 100_000, ..Limits::default() },
        times: Times {
            round_ms: 50,
            lease_ms: 3_000,
            silence_ms: 600_000,
            patience_ms: 600_000,
            provider_ms: 1_000,
            ..Times::default()
        },
        ..Config::default()
    }
}

/// A fleet manager, in this process, on a real socket.
pub(crate) struct Manager {
    pub(crate) url: String,
    pub(crate) signer: Signer,
    pub(crate) store: Store,
    pub(crate) database: String,
    pub(crate) ocm: FakeOcm,
    pub(crate) capi: FakeCapi,
    pub(crate) identity: Arc<Remembering>,
    client: Client,
    stop: watch::Sender<bool>,
    _dir: TempDir,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// The number of the error.
    #[track_caller]
    pub(crate) fn code(self, status: u16) -> String {
        self.expect(status)["id"].as_str().unwrap().to_owned()
    }
}

impl Manager {
    pub(crate) async fn start(database: &str) -> Self {
        Self::with(database, |_| {}).await
    }

    pub(crate) async fn with(database: &str, change: impl FnOnce(&mut Config)) -> Self {
        let identity = Arc::new(Remembering::default());
        let with = Arc::clone(&identity) as Arc<dyn Identity>;
        Self::with_identity(database, (identity, with), change).await
    }

    /// With an identity provider; the first of the two is what was remembered.
    pub(crate) async fn with_identity(
        database: &str,
        (identity, asked): (Arc<Remembering>, Arc<dyn Identity>),
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = match database {
            "sqlite" => format!("sqlite:{}", dir.path().join("fleet.db").display()),
            url => url.to_owned(),
        };
        let signer = Signer::ec("test");
        let mut config = config(&dir, &signer);
        change(&mut config);
        config.check().unwrap();
        let config = Arc::new(config);
        let store = Store::open(&database).await.unwrap();
        let client = Client::new(Duration::from_secs(10)).unwrap();
        let auth = Authenticator::new(&config.auth, client.clone()).await.unwrap();
        let wake = Arc::new(Notify::new());
        let app = App::new(store.clone(), auth, Arc::clone(&config), Arc::clone(&wake));
        let counters = app.counters();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = watch::channel(false);
        let mut wait = stopped.clone();
        let ended = async move {
            let _ = wait.wait_for(|stop| *stop).await;
        };
        tokio::spawn(serve(listener, app, ended));
        let ocm = FakeOcm::start().await;
        let options = OcmOptions {
            url: ocm.url.clone(),
            token_file: None,
            machine_type: "m5.xlarge".to_owned(),
        };
        let provider: Arc<dyn fleet::provider::Provider> =
            Arc::new(Ocm::new(options, client.clone()));
        let capi = FakeCapi::default();
        let of_capi: Arc<dyn fleet::provider::Provider> = Arc::new(capi.provider());
        let providers: Providers =
            [("ocm".to_owned(), provider), ("capi".to_owned(), of_capi)].into_iter().collect();
        let workers = Workers::new(store.clone(), config, providers, asked, wake);
        let workers = workers.counting(counters);
        tokio::spawn(workers.run(stopped));
        Self { url, signer, store, database, ocm, capi, identity, client, stop, _dir: dir }
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> Answer {
        let url = format!("{}{BASE}{path}", self.url);
        let method: Method = method.parse().unwrap();
        let token = (!token.is_empty()).then_some(token);
        let answer = self.client.exchange(method, &url, token, body.as_ref()).await.unwrap();
        let body = serde_json::from_slice(&answer.1).unwrap_or(Value::Null);
        Answer { status: answer.0.as_u16(), body }
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.ask(method, &format!("/admin{path}"), &self.signer.admin("full"), body).await
    }

    /// The numbers that Prometheus reads.
    pub(crate) async fn metrics(&self) -> String {
        let url = format!("{}/metrics", self.url);
        let token = self.signer.admin("read");
        let answer = self.client.exchange(Method::GET, &url, Some(&token), None).await.unwrap();
        assert_eq!(answer.0.as_u16(), 200);
        String::from_utf8(answer.1.to_vec()).unwrap()
    }

    /// The status of an answer to `GET`, without a token.
    pub(crate) async fn status_of(&self, path: &str) -> u16 {
        let url = format!("{}{path}", self.url);
        self.client.exchange(Method::GET, &url, None, None).await.unwrap().0.as_u16()
    }

    /// A data plane that was made by hand, waiting for its agent.
    pub(crate) async fn plane(&self, id: &str) {
        let body = json!({ "cloud_provider": "hand", "region": "here", "id": id });
        self.admin("POST", "/data_planes", Some(body)).await.expect(202);
        self.state(id, "waiting_for_kas_fleetshard_operator").await;
    }

    pub(crate) async fn get_plane(&self, id: &str) -> Value {
        self.admin("GET", &format!("/data_planes/{id}"), None).await.expect(200)
    }

    /// Waits until a data plane is in that state.
    #[track_caller]
    pub(crate) fn state<'a>(
        &'a self,
        id: &'a str,
        state: &'a str,
    ) -> impl Future<Output = ()> + 'a {
        let at = std::panic::Location::caller();
        async move {
            let begun = Instant::now();
            loop {
                let plane = self.get_plane(id).await;
                if plane["status"] == state {
                    return;
                }
                assert!(begun.elapsed() < Duration::from_secs(20), "{at}: not {state}: {plane}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// A data plane of OpenShift Cluster Manager that a person asked for, as soon as its nodes are counted.
    pub(crate) async fn ocm_plane(&self, region: &str) -> String {
        self.counted_plane("aws", region).await
    }

    /// A data plane that a person asked for, as soon as its nodes are counted.
    pub(crate) async fn counted_plane(&self, provider: &str, region: &str) -> String {
        let body = json!({ "cloud_provider": provider, "region": region });
        let made = self.admin("POST", "/data_planes", Some(body)).await.expect(202);
        let id = made["id"].as_str().unwrap().to_owned();
        self.state(&id, "waiting_for_kas_fleetshard_operator").await;
        eventually("counted", async || self.get_plane(&id).await["nodes_actual"] == 3).await;
        id
    }

    pub(crate) async fn report(&self, plane: &str, body: Value) -> Answer {
        let token = self.signer.agent(plane);
        self.ask("PUT", &format!("/agent-clusters/{plane}/status"), &token, Some(body)).await
    }

    /// The reasons of all that was decided about a data plane, oldest first.
    pub(crate) async fn decisions(&self, plane: &str) -> Vec<String> {
        let found = self.admin("GET", &format!("/data_planes/{plane}/decisions"), None).await;
        let items = found.expect(200)["items"].as_array().unwrap().clone();
        items.iter().rev().map(decision).collect()
    }

    /// All decisions about regions, oldest first.
    pub(crate) async fn region_decisions(&self, kind: &str) -> Vec<String> {
        let found = self.admin("GET", "/decisions", None).await.expect(200);
        let items = found["items"].as_array().unwrap().clone();
        items.iter().rev().filter(|one| one["kind"] == kind).map(decision).collect()
    }

    /// A region, as administrators see it.
    pub(crate) async fn region(&self, id: &str) -> Value {
        let list = self.admin("GET", "/regions", None).await.expect(200);
        let items = list["items"].as_array().unwrap();
        items.iter().find(|one| one["id"] == id).unwrap().clone()
    }

    /// Ends the workers and the server.
    pub(crate) fn stop(&self) {
        let _ = self.stop.send(true);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop();
    }
}

fn decision(one: &Value) -> String {
    let word = |name: &str| one[name].as_str().unwrap().to_owned();
    format!("{} {}->{}: {}", word("kind"), word("was"), word("becomes"), word("reason"))
}

/// A report of a ready agent: room left, nodes (current, ceiling, floor, minimum), step of three.
pub(crate) fn report(left: (u64, u64), nodes: (u32, u32, u32, u32)) -> Value {
    let room = |connections: u64, partitions: u64| {
        json!({
            "ingressEgressThroughputPerSec": "40Gi", "connections": connections,
            "dataRetentionSize": "40Ti", "partitions": partitions,
        })
    };
    json!({
        "conditions": [{ "type": "Ready", "status": "True" }],
        "total": room(10_000, 10_000),
        "remaining": room(left.0, left.1),
        "nodeInfo": {
            "current": nodes.0, "ceiling": nodes.1, "floor": nodes.2,
            "currentWorkLoadMinimum": nodes.3,
        },
        "resizeInfo": { "nodeDelta": 3, "delta": room(1000, 1000) },
    })
}

/// Waits until something holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
