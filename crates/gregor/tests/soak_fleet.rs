//! A fleet with real Kafkas whose manager, agents and API servers are killed at random while Kafkas are created and deleted:
//! what was acknowledged is there in the end, with the data of its disk, and nothing is there twice.
//!
//! `GREGOR_SOAK_SEED` repeats a run; `GREGOR_SOAK_ROUNDS` sets how many kills there are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod fleet_support;
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fleet_support::{FleetWorld, Manager};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Credentials, HostTable, NewTopic, Secret, Tls};
use model::{TopicId, TopicName};
use serde_json::{Value, json};

const ROUNDS: u64 = 20;

/// As many as a small machine runs besides the data planes.
const KAFKAS_MAX: usize = 4;

/// What the manager has acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// Kafkas that were created, with the cluster id once it is known.
    kafkas: BTreeMap<String, Option<String>>,
    deleted: BTreeSet<String>,
    created: u64,
}

/// A Kafka that stays through all rounds, with a topic whose id is on its disk and nowhere else.
struct Kept {
    id: String,
    access: Value,
    topic: TopicId,
}

impl Kept {
    async fn create(world: &FleetWorld) -> Self {
        let body = json!({ "name": "kept" });
        let made = world.user("POST", "/kafkas?async=true", Some(body)).await.unwrap();
        let id = made["id"].as_str().unwrap().to_owned();
        let path = format!("/kafkas/{id}");
        world
            .until("the first Kafka", async || {
                world.user("GET", &path, None).await.unwrap()["status"] == "ready"
            })
            .await;
        let access = world.user("POST", &format!("{path}/credentials"), None).await.unwrap();
        let name: TopicName = "kept".parse().unwrap();
        // The operator has to read the new user first.
        world
            .until("its owner creates a topic", async || {
                let Some(admin) = connect(world, &id, &access).await else { return false };
                let _ = admin.create_topics(&[NewTopic::new(name.clone(), 1, 1)], false).await;
                topic(world, &id, &access).await.is_some()
            })
            .await;
        let topic = topic(world, &id, &access).await.unwrap();
        Self { id, access, topic }
    }

    /// Its disk is the same, and so is the password of its owner.
    async fn check(&self, world: &FleetWorld) {
        world
            .until("the topic is there", async || {
                topic(world, &self.id, &self.access).await == Some(self.topic)
            })
            .await;
    }
}

/// A client of a Kafka, with the credentials of its owner; nothing as long as its address is unknown.
async fn connect(world: &FleetWorld, id: &str, access: &Value) -> Option<Admin> {
    let kafka = world.user("GET", &format!("/kafkas/{id}"), None).await.unwrap();
    let of_admin = world.admin("GET", &format!("/kafkas/{id}"), None).await;
    let hosts = world.kubernetes(of_admin["data_plane_id"].as_str()?).join("hosts");
    let hosts = std::fs::read_to_string(hosts).ok()?;
    let names = hosts.lines().filter(|line| !line.starts_with('#')).flat_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let address: IpAddr = words.next().unwrap().parse().unwrap();
        words.map(move |name| (name, address)).collect::<Vec<_>>()
    });
    let text = |name: &str| access[name].as_str().unwrap().to_owned();
    let options = ClientOptions {
        tls: Some(Tls::new(kafka["ca_certificate"].as_str()?.as_bytes(), None).unwrap()),
        credentials: Some(Credentials::ScramSha512 {
            username: text("username"),
            password: Secret::new(text("password")),
        }),
        names: Arc::new(HostTable::new(names)),
        wait_for_nodes: false,
        ..ClientOptions::default()
    };
    let server = kafka["bootstrap_server_host"].as_str()?.parse().unwrap();
    Some(Admin::new(Bootstrap::Brokers(vec![server]), options).unwrap())
}

/// The id of the topic `kept`; nothing if there is none, or if Kafka does not answer.
async fn topic(world: &FleetWorld, id: &str, access: &Value) -> Option<TopicId> {
    let topics = connect(world, id, access).await?.list_topics().await.ok()?;
    let name: TopicName = "kept".parse().unwrap();
    topics.into_iter().find(|topic| topic.name == name).map(|topic| topic.id)
}

/// Numbers that look random, and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

fn config() -> Value {
    let size = json!({
        "id": "x1", "multi_az": false, "brokers": 1, "connections": 100, "partitions": 100,
        "throughput": "1Mi", "retention": "100Mi", "memory": "600Mi", "cpu_milli": 300,
    });
    json!({
        "cloud_providers": [{ "id": "local", "regions": [
            { "id": "here", "provider": "local", "multi_az": false, "nodes": 3, "planes_max": 2 },
        ] }],
        "instance_types": [{ "id": "developer", "sizes": [size] }],
        "model_t": size,
        // Those that are being deleted count, too.
        "quotas": { "user": { "kafkas": 100, "connections": 10_000, "partitions": 10_000 } },
        "agent": {
            "nodes_min": 3, "nodes_max": 4, "node_delta": 1, "connections": 100, "partitions": 100,
            "throughput": "1Mi", "retention": "100Mi",
        },
        "times": { "cool_down_ms": 5000 },
        "local": { "node_capacity": "cpu=1,memory=1Gi" },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_is_there_twice() {
    let seed = number("GREGOR_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let rounds = number("GREGOR_SOAK_ROUNDS").unwrap_or(ROUNDS);
    println!("GREGOR_SOAK_SEED={seed} GREGOR_SOAK_ROUNDS={rounds}");
    let mut dice = Dice(seed);
    let world = FleetWorld::new();
    let mut manager = world.serve_with(config()).await;
    let mut acknowledged = Acknowledged::default();
    world.until("a first data plane", async || has_ready_plane(&world).await).await;
    let kept = Kept::create(&world).await;
    acknowledged.kafkas.insert(kept.id.clone(), None);
    let mut hit = BTreeMap::new();
    for round in 0..rounds {
        change(&world, &mut dice, &mut acknowledged, &kept.id).await;
        tokio::time::sleep(Duration::from_millis(dice.below(8000))).await;
        let victim = ["manager", "agent", "API server"][dice.below(3) as usize];
        println!("round {round}: the {victim} is killed");
        let killed = match victim {
            "manager" => {
                manager = restart(&world, manager).await;
                1
            }
            "agent" => world.kill_processes(&["agent", "--cluster-id="]),
            _ => world.kill_processes(&["kube-apiserver"]),
        };
        *hit.entry(victim).or_insert(0) += killed;
        learn_cluster_ids(&world, &mut acknowledged).await;
    }
    println!("killed: {hit:?}");
    assert!(hit.values().sum::<usize>() as u64 >= rounds / 2, "{hit:?}");
    settle(&world, &acknowledged).await;
    check(&world, &acknowledged).await;
    kept.check(&world).await;

    // And everything can still be deleted.
    for id in acknowledged.kafkas.keys() {
        world.user("DELETE", &format!("/kafkas/{id}?async=true"), None).await.unwrap();
    }
    world
        .until("all Kafkas are gone", async || {
            let list = world.user("GET", "/kafkas", None).await.unwrap();
            list["total"] == 0
        })
        .await;
    manager.stop();
}

async fn restart(world: &FleetWorld, manager: Manager) -> Manager {
    manager.kill();
    world.serve_with(config()).await
}

async fn has_ready_plane(world: &FleetWorld) -> bool {
    let list = world.admin("GET", "/data_planes", None).await;
    list["items"].as_array().unwrap().iter().any(|one| one["status"] == "ready")
}

/// Creates or deletes a Kafka. What is not acknowledged may or may not have happened, so it is asked for again.
async fn change(world: &FleetWorld, dice: &mut Dice, acknowledged: &mut Acknowledged, kept: &str) {
    let there = acknowledged.kafkas.len();
    if there < KAFKAS_MAX && (there < 2 || dice.below(2) == 0) {
        acknowledged.created += 1;
        let body = json!({ "name": format!("kafka-{}", acknowledged.created) });
        let made = world.user("POST", "/kafkas?async=true", Some(body)).await.unwrap();
        let id = made["id"].as_str().unwrap().to_owned();
        println!("  {} is created: {id}", made["name"]);
        acknowledged.kafkas.insert(id, None);
    } else if there > 1 {
        let which = dice.below(there as u64 - 1) as usize;
        let mut others = acknowledged.kafkas.keys().filter(|id| *id != kept);
        let id = others.nth(which).cloned().unwrap();
        println!("  {id} is deleted");
        world.user("DELETE", &format!("/kafkas/{id}?async=true"), None).await.unwrap();
        acknowledged.kafkas.remove(&id);
        acknowledged.deleted.insert(id);
    }
}

/// The Kafkas of all data planes: their ids, and what Kafka calls their clusters.
fn kafkas(world: &FleetWorld) -> Vec<(String, Option<String>)> {
    let mut all = Vec::new();
    for plane in world.planes() {
        let Ok(list) = world.try_kubectl(&plane, &["get", "kafkas", "-A", "-o", "json"]) else {
            continue;
        };
        let list: Value = serde_json::from_str(&list).unwrap();
        for one in list["items"].as_array().unwrap() {
            let id = one["metadata"]["annotations"]["bf2.org/id"].as_str().unwrap().to_owned();
            let cluster = one["status"]["clusterId"].as_str().map(str::to_owned);
            all.push((id, cluster));
        }
    }
    all
}

async fn learn_cluster_ids(world: &FleetWorld, acknowledged: &mut Acknowledged) {
    for (id, cluster) in kafkas(world) {
        if let (Some(known), Some(cluster)) = (acknowledged.kafkas.get_mut(&id), cluster) {
            let known = known.get_or_insert_with(|| cluster.clone());
            assert_eq!(*known, cluster, "{id} is another cluster now: its data are lost");
        }
    }
}

async fn settle(world: &FleetWorld, acknowledged: &Acknowledged) {
    for id in acknowledged.kafkas.keys() {
        world
            .until(&format!("{id} is ready"), async || {
                let kafka = world.user("GET", &format!("/kafkas/{id}"), None).await.unwrap();
                assert_ne!(kafka["status"], "failed", "{kafka}");
                assert!(!kafka.is_null(), "{id} was acknowledged and is lost");
                kafka["status"] == "ready"
            })
            .await;
    }
    for id in &acknowledged.deleted {
        world
            .until(&format!("{id} is gone"), async || {
                world.user("GET", &format!("/kafkas/{id}"), None).await.unwrap().is_null()
            })
            .await;
    }
}

async fn check(world: &FleetWorld, acknowledged: &Acknowledged) {
    let there = kafkas(world);
    let ids: Vec<_> = there.iter().map(|(id, _)| id.clone()).collect();
    let unique: BTreeSet<_> = ids.iter().cloned().collect();
    assert_eq!(ids.len(), unique.len(), "a Kafka is there twice: {ids:?}");
    assert_eq!(unique, acknowledged.kafkas.keys().cloned().collect(), "no more and no fewer");
    for (id, cluster) in &there {
        let known = acknowledged.kafkas[id].as_ref();
        assert!(known.is_none() || known == cluster.as_ref(), "{id} is another cluster now");
    }
    // Each was placed once, and each data plane created once.
    let decisions = world.admin("GET", "/decisions", None).await;
    let decisions = decisions["items"].as_array().unwrap().clone();
    let count = |kind: &str, field: &str| {
        let mut by = BTreeMap::new();
        for one in decisions.iter().filter(|one| one["kind"] == kind) {
            *by.entry(one[field].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
        by
    };
    let (placed, created) = (count("place", "becomes"), count("create", "data_plane_id"));
    assert!(placed.values().all(|times| *times == 1), "{placed:?}");
    assert!(created.values().all(|times| *times == 1), "{created:?}");
    let list = world.admin("GET", "/data_planes", None).await;
    let mut listed: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    listed.sort();
    assert_eq!(world.planes(), listed, "no data plane that the manager does not know");
    assert!(listed.len() <= 2, "{listed:?}");
}
