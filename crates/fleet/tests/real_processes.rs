//! Fleet managers as processes that are killed: nothing that was acknowledged is lost, and nothing is
//! done twice. And whatever is asked of it, it never answers that it is its own fault.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/ocm.rs"]
mod ocm;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/tokens.rs"]
mod tokens;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fleet::client::Client;
use fleet::http::BASE;
use hyper::Method;
use ocm::FakeOcm;
use postgres::Postgres;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Process, Reaper};
use tokens::{AUDIENCE, ISSUER, Signer, claims};

/// How long a right holds without being renewed, in the tests.
const LEASE: Duration = Duration::from_secs(3);

/// What fleet managers of one test share.
struct World {
    dir: TempDir,
    signer: Signer,
    ocm: FakeOcm,
    client: Client,
    reaper: Arc<Reaper>,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let signer = Signer::ec("test");
        let ocm = FakeOcm::start().await;
        let jwks = dir.path().join("jwks.json");
        fs::write(&jwks, json!({ "keys": [signer.jwk()] }).to_string()).unwrap();
        let realm = json!({ "issuer": ISSUER, "audience": AUDIENCE });
        let most = json!({ "kafkas": 1_000_000, "connections": 1_000_000_000, "partitions": 1_000_000_000 });
        let config = json!({
            "cloud_providers": [{ "id": "aws", "regions": [
                { "id": "us-east-1", "provider": "ocm", "planes_max": 0 },
            ] }],
            // What is empty would go, and with it what was acknowledged.
            "scaling": "manual",
            "ocm": { "url": ocm.url, "machine_type": "m5.xlarge" },
            "auth": { "jwks_file": jwks, "agent": realm, "public": realm, "admin": realm },
            "quotas": { "organisation": most, "user": most },
            "limits": { "requests_per_second": 1_000_000, "burst": 1_000_000 },
            "times": { "round_ms": 50, "lease_ms": LEASE.as_millis() as u64, "provider_ms": 1000 },
        });
        fs::write(dir.path().join("fleet.json"), config.to_string()).unwrap();
        let client = Client::new(Duration::from_secs(10)).unwrap();
        let reaper = Arc::new(Reaper::start(None).unwrap());
        Self { dir, signer, ocm, client, reaper }
    }

    fn sqlite(&self) -> String {
        format!("sqlite:{}", self.dir.path().join("fleet.db").display())
    }

    /// A fleet manager that answers.
    async fn start(&self, database: &str) -> Manager {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let config = self.dir.path().join("fleet.json").display().to_string();
        let program = program();
        let line = [program.to_str().unwrap(), &config, database, &address];
        let log_path = self.dir.path().join(format!("{port}.log"));
        let log = File::create(&log_path).unwrap();
        let process = Process::spawn(&self.reaper, &line, log).unwrap();
        let url = format!("http://{address}");
        let begun = Instant::now();
        while self.client.get_bytes(&format!("{url}/readyz")).await.is_err() {
            let log = fs::read_to_string(&log_path).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(60), "{log}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Manager { url, process }
    }

    /// A caller that is everything: a person, an administrator, and the agent of one data plane.
    fn token(&self, plane: &str) -> String {
        self.signer.sign(&claims(json!({
            "username": "ann", "org_id": "org",
            "realm_access": { "roles": ["kas_fleetshard_operator", "kas-fleet-manager-admin-full"] },
            "kas-fleetshard-operator-cluster-id": plane,
        })))
    }

    /// The answer, if there was one.
    async fn ask(
        &self,
        url: &str,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Option<(u16, Value)> {
        let plane = path.strip_prefix("/agent-clusters/").and_then(|rest| rest.split('/').next());
        let token = self.token(plane.unwrap_or_default());
        let url = format!("{url}{BASE}{path}");
        let method: Method = method.parse().unwrap();
        let asked = self.client.exchange(method, &url, Some(&token), body.as_ref());
        let answer = tokio::time::timeout(Duration::from_secs(10), asked).await.ok()?.ok()?;
        Some((answer.0.as_u16(), serde_json::from_slice(&answer.1).unwrap_or(Value::Null)))
    }

    async fn new_plane(&self, url: &str) -> Option<String> {
        let body = json!({ "cloud_provider": "aws", "region": "us-east-1" });
        let (status, made) = self.ask(url, "POST", "/admin/data_planes", Some(body)).await?;
        (status == 202).then(|| made["id"].as_str().unwrap().to_owned())
    }

    /// Waits until a data plane is made and waits for its agent.
    async fn wait_for_plane(&self, url: &str, id: &str, limit: Duration) {
        let begun = Instant::now();
        loop {
            let answer = self.ask(url, "GET", &format!("/admin/data_planes/{id}"), None).await;
            let status = answer.map(|(_, plane)| plane["status"].clone()).unwrap_or_default();
            if status == "waiting_for_kas_fleetshard_operator" || status == "ready" {
                return;
            }
            assert!(begun.elapsed() < limit, "{id} is {status} after {limit:?}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Every cluster was asked for once.
    fn assert_nothing_was_done_twice(&self, planes: &[String]) {
        let clusters = self.ocm.clusters.lock().unwrap();
        assert!(clusters.created.values().all(|count| *count == 1), "{:?}", clusters.created);
        for plane in planes {
            assert_eq!(clusters.created.get(plane), Some(&1), "{plane}");
        }
    }
}

/// The example `serve`, which is built with the tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples/serve");
    assert!(program.exists(), "{program:?} is missing; cargo build --package fleet --examples");
    program
}

struct Manager {
    url: String,
    process: Process,
}

impl Manager {
    /// As by `kill -9`.
    fn kill(self) {
        drop(self.process);
    }
}

fn report(sequence: u64, left: u64) -> Value {
    let room = |connections: u64| {
        json!({
            "ingressEgressThroughputPerSec": "40Gi", "connections": connections,
            "dataRetentionSize": "40Ti", "partitions": 100_000,
        })
    };
    json!({
        "sequence": sequence,
        "conditions": [{ "type": "Ready", "status": "True" }],
        "total": room(1_000_000), "remaining": room(left),
        "nodeInfo": { "current": 3, "ceiling": 3, "floor": 3, "currentWorkLoadMinimum": 3 },
        "resizeInfo": { "nodeDelta": 3, "delta": room(1000) },
    })
}

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    kafkas: Vec<String>,
    planes: Vec<String>,
    /// By data plane: what its last acknowledged report said.
    reports: BTreeMap<String, u64>,
}

impl Acknowledged {
    /// Whether it is so much that a loss would show.
    fn is_load(&self) -> bool {
        self.kafkas.len() > 20 && self.planes.len() > 5
    }
}

/// Asks for as much as it can until the time is over; what is not answered may or may not have happened.
async fn load(world: &World, url: &str, planes: &[String], until: Instant) -> Acknowledged {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let next = || NUMBER.fetch_add(1, Ordering::Relaxed);
    let kafkas = async {
        let mut done = Vec::new();
        while Instant::now() < until {
            let body = json!({ "name": format!("k{}", next()), "plan": "developer.x1" });
            let answer = world.ask(url, "POST", "/kafkas?async=true", Some(body)).await;
            match answer {
                Some((202, kafka)) => done.push(kafka["id"].as_str().unwrap().to_owned()),
                Some((status, body)) => assert!(status < 500, "{status}: {body}"),
                None => break,
            }
        }
        done
    };
    let reports = async {
        let mut done = BTreeMap::new();
        'all: while Instant::now() < until {
            for plane in planes {
                let number = next();
                let path = format!("/agent-clusters/{plane}/status");
                let body = report(number, 500_000 + number);
                match world.ask(url, "PUT", &path, Some(body)).await {
                    Some((204, _)) => drop(done.insert(plane.clone(), 500_000 + number)),
                    Some((status, body)) => assert!(status < 500, "{status}: {body}"),
                    None => break 'all,
                }
            }
        }
        done
    };
    let made = async {
        let mut done = Vec::new();
        while Instant::now() < until {
            done.extend(world.new_plane(url).await);
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        done
    };
    let (kafkas, reports, planes) = tokio::join!(kafkas, reports, made);
    Acknowledged { kafkas, planes, reports }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_is_killed_under_load_loses_nothing_and_does_nothing_twice() {
    // More where the machine is slow and little is acknowledged in a round.
    const ROUNDS: u32 = 5;
    const ROUNDS_MAX: u32 = 40;
    let world = World::new().await;
    let mut manager = world.start(&world.sqlite()).await;
    let mut planes = Vec::new();
    for _ in 0..3 {
        planes.push(world.new_plane(&manager.url).await.unwrap());
    }
    for plane in &planes {
        world.wait_for_plane(&manager.url, plane, Duration::from_secs(30)).await;
    }
    let reporting = planes.clone();
    let mut all = Acknowledged::default();
    let mut rounds = 0;
    while rounds < ROUNDS || !all.is_load() {
        assert!(rounds < ROUNDS_MAX, "hardly any load");
        // Another moment in each round, somewhere in the middle of everything.
        let alive = Duration::from_millis(250 + 137 * u64::from(rounds));
        rounds += 1;
        let url = manager.url.clone();
        let until = Instant::now() + alive + Duration::from_secs(2);
        let loaded = load(&world, &url, &reporting, until);
        let killed = async {
            tokio::time::sleep(alive).await;
            manager.kill();
        };
        let (some, ()) = tokio::join!(loaded, killed);
        all.kafkas.extend(some.kafkas);
        all.planes.extend(some.planes);
        all.reports.extend(some.reports);
        manager = world.start(&world.sqlite()).await;
    }
    println!(
        "{rounds} kills: {} Kafkas, {} data planes and reports of {} acknowledged",
        all.kafkas.len(),
        all.planes.len(),
        all.reports.len()
    );
    for id in &all.kafkas {
        let (status, _) =
            world.ask(&manager.url, "GET", &format!("/kafkas/{id}"), None).await.unwrap();
        assert_eq!(status, 200, "Kafka {id} was acknowledged and is lost");
    }
    for (plane, said) in &all.reports {
        let path = format!("/admin/data_planes/{plane}");
        let (_, plane) = world.ask(&manager.url, "GET", &path, None).await.unwrap();
        // One that was sent last may have been stored without an answer.
        assert!(plane["remaining_connections"].as_u64().unwrap() >= *said, "{plane} lost {said}");
    }
    for plane in &all.planes {
        world.wait_for_plane(&manager.url, plane, Duration::from_secs(60)).await;
    }
    planes.extend(all.planes);
    world.assert_nothing_was_done_twice(&planes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_replicas_on_postgresql_one_goes_on_when_the_other_is_killed() {
    let postgres = Postgres::start();
    let database = postgres.database("replicas");
    let world = World::new().await;
    let first = world.start(&database).await;
    let second = world.start(&database).await;
    let mut planes = Vec::new();
    for index in 0..6 {
        let url = if index % 2 == 0 { &first.url } else { &second.url };
        planes.push(world.new_plane(url).await.unwrap());
    }
    for plane in &planes {
        world.wait_for_plane(&second.url, plane, Duration::from_secs(30)).await;
    }
    // Reports of one data plane to both: the highest number wins, whoever gets it.
    let path = format!("/agent-clusters/{}/status", planes[0]);
    let put = |number: u64| {
        let url = if number.is_multiple_of(2) { &first.url } else { &second.url };
        world.ask(url, "PUT", &path, Some(report(number, 1000 + number)))
    };
    for answer in futures::future::join_all((1..=40).map(put)).await {
        assert_eq!(answer.unwrap().0, 204);
    }
    let (_, plane) = world
        .ask(&second.url, "GET", &format!("/admin/data_planes/{}", planes[0]), None)
        .await
        .unwrap();
    assert_eq!(plane["remaining_connections"], 1040);

    // The first one was started first, so the work is its own, until it is killed.
    first.kill();
    let killed = Instant::now();
    let plane = world.new_plane(&second.url).await.unwrap();
    let limit = LEASE + Duration::from_secs(20);
    world.wait_for_plane(&second.url, &plane, limit).await;
    println!("the other one went on after {:.1?}", killed.elapsed());
    planes.push(plane);
    world.assert_nothing_was_done_twice(&planes);
}

/// schemathesis reads the served description and asks whatever comes to its mind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_it_is_never_our_own_fault() {
    let program = testkit::tool("schemathesis").join("bin/schemathesis");
    let postgres = Postgres::start();
    let world = World::new().await;
    let manager = world.start(&postgres.database("schemathesis")).await;
    let plane = world.new_plane(&manager.url).await.unwrap();
    world.wait_for_plane(&manager.url, &plane, Duration::from_secs(30)).await;
    let token = world.token(&plane);
    let url = format!("{}{BASE}/openapi", manager.url);
    // It writes files where it runs.
    let dir = world.dir.path().to_owned();
    let run = tokio::task::spawn_blocking(move || {
        Command::new(program)
            .current_dir(dir)
            .args(["run", &url, "--checks", "not_a_server_error", "--phases", "examples,fuzzing"])
            .args(["--max-examples", "12", "--seed", "1", "--no-color"])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .output()
            .unwrap()
    });
    let run = run.await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    println!("{text}");
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
}
