//! What 200 clusters cost the operator: until each was looked at once, and when nothing changes.
//!
//! The nodes are a stand-in, here only: no kubelet runs the pods, this program reports them as ready. Their
//! Kafkas cannot be reached, so passes follow each other every other second instead of every other minute;
//! what one pass costs is the same, but for the calls to Kafka, which fail at once.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

#[path = "../tests/up/mod.rs"]
mod up;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use api::{Kafka, KafkaNodePool};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use up::World;

const CLUSTERS: usize = 200;
/// Long enough for some passes over every cluster.
const IDLE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let world = World::new();
    let up = world.gregor(&["up", "--detach", "--nodes", "0"]).ok();
    let crds = world.gregor(&["crds"]).ok();
    let crds = world.file("crds.yaml", &crds.out);
    world.kubectl(&up, &["apply", "--server-side", "-f", &crds]);
    let client = world.client().await;
    let operator = Operator::start(&world);
    let begun = Instant::now();
    create(&client).await;
    println!("{CLUSTERS} clusters were created in {:.1?}", begun.elapsed());
    let pretender = tokio::spawn(pretend(client.clone()));
    until_all_were_seen(&client).await;
    println!("each was looked at once after {:.1?}", begun.elapsed());
    until_quiet(&operator).await;
    println!("nothing is written any more after {:.1?}", begun.elapsed());
    operator.measure_idle().await;
    pretender.abort();
}

struct Operator {
    child: Child,
    port: u16,
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Operator {
    fn start(world: &World) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Ends with this program, also if that is killed.
        let gregor = world.command(&[]);
        let child = std::process::Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(gregor.get_program())
            .args(["operator", "--no-election", "--http-host", "127.0.0.1"])
            .args(["--http-port", &port.to_string(), "--kafka-image", "4.3.1=kafka"])
            .env("KUBECONFIG", world.state().join("kubeconfig"))
            .env("GREGOR_LOG", "error")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port }
    }

    /// The counters, summed up over their labels.
    fn counters(&self) -> BTreeMap<String, f64> {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return BTreeMap::new();
        };
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let mut sums = BTreeMap::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let family = name.split('{').next().unwrap_or_default();
            let wanted = match family {
                "strimzi_reconciliations_total" => name.contains("kind=\"Kafka\""),
                "gregor_writes_total" => name.contains("outcome=\"Changed\""),
                _ => true,
            };
            if let (true, Ok(value)) = (wanted, value.parse::<f64>()) {
                *sums.entry(family.to_owned()).or_default() += value;
            }
        }
        sums
    }

    fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024.0
    }

    async fn measure_idle(&self) {
        let before = self.counters();
        tokio::time::sleep(IDLE).await;
        let after = self.counters();
        let grown = |name: &str| {
            let at =
                |counters: &BTreeMap<String, f64>| counters.get(name).copied().unwrap_or_default();
            at(&after) - at(&before)
        };
        let passes = grown("strimzi_reconciliations_total");
        println!("when nothing changes, in {IDLE:?}: {passes} passes, for each of them");
        println!("  {:.2} calls to the API server", grown("gregor_api_calls_total") / passes);
        println!("  {:.2} calls to Kafka", grown("gregor_kafka_calls_total") / passes);
        println!("  {:.3} writes (the goal is none)", grown("gregor_writes_total") / passes);
        println!("memory of the operator: {:.0} MiB", self.resident_mib());
    }
}

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn create(client: &Client) {
    let (kafkas, pools): (Api<Kafka>, Api<KafkaNodePool>) =
        (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
    for number in 0..CLUSTERS {
        let name = format!("cluster-{number}");
        let pool = typed(json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaNodePool",
            "metadata": { "name": format!("pool-{number}"), "labels": { "strimzi.io/cluster": name } },
            "spec": { "replicas": 3, "roles": ["controller", "broker"], "storage": { "type": "ephemeral" } },
        }));
        pools.create(&PostParams::default(), &pool).await.unwrap();
        let kafka = typed(json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "Kafka",
            "metadata": { "name": name },
            "spec": { "kafka": { "listeners": [
                { "name": "plain", "port": 9092, "type": "internal", "tls": false },
                { "name": "tls", "port": 9093, "type": "internal", "tls": true },
            ] } },
        }));
        kafkas.create(&PostParams::default(), &kafka).await.unwrap();
    }
}

/// Says of all pods that they are ready.
async fn pretend(client: Client) {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let ready = json!({ "status": {
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": now }],
    } });
    loop {
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if phase != Some("Running") {
                let patch = Patch::Merge(&ready);
                let _ = pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn until_all_were_seen(client: &Client) {
    let kafkas: Api<Kafka> = Api::default_namespaced(client.clone());
    loop {
        let all = kafkas.list(&ListParams::default()).await.unwrap();
        let seen = all.iter().filter(|kafka| {
            kafka.status.as_ref().is_some_and(|status| status.conditions.is_some())
        });
        if seen.count() == CLUSTERS {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until ten seconds have passed without a write.
async fn until_quiet(operator: &Operator) {
    let writes = || operator.counters().get("gregor_writes_total").copied().unwrap_or_default();
    let (mut last, mut since) = (writes(), Instant::now());
    while since.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = writes();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}
