//! What 200 clusters cost the operator: until each had its first pass, while all wait for their pods, and while their
//! Kafkas cannot be reached.
//!
//! The nodes are a stand-in, here only: no kubelet runs the pods. At first they stay pending; then this program reports
//! them as ready.
//!
//! `GREGOR_BENCH_BINARY` names the `gregor` binary of another build, which then is the operator that is measured.

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
/// The `gregor` binary of another build.
const OTHER_BINARY: &str = "GREGOR_BENCH_BINARY";
/// Requests to the API server.
const API: &str = "gregor_api_calls_total";
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
    until_all_were_seen(&client).await;
    println!("each had a pass after {:.1?}", begun.elapsed());
    until_quiet(&operator).await;
    println!("nothing is written any more after {:.1?}", begun.elapsed());
    operator.measure("all wait for their pods").await;
    let pretender = tokio::spawn(pretend(client.clone()));
    tokio::time::sleep(IDLE).await;
    until_quiet(&operator).await;
    operator.measure("no Kafka can be reached").await;
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
        let own = world.command(&[]).get_program().to_owned();
        let program = std::env::var_os(OTHER_BINARY).unwrap_or(own);
        let child = std::process::Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
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
                // Watches last for minutes.
                API => !name.contains("verb=\"watch\""),
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

    /// The CPU time that was used so far, in seconds.
    fn cpu_s(&self) -> f64 {
        // Hundredths of a second, of user and system, after the name in parentheses.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let ticks = rest.split_whitespace().skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }

    async fn measure(&self, what: &str) {
        let (before, cpu_s, begun) = (self.counters(), self.cpu_s(), Instant::now());
        tokio::time::sleep(IDLE).await;
        let after = self.counters();
        let seconds = begun.elapsed().as_secs_f64();
        let cpu_s = self.cpu_s() - cpu_s;
        let grown = |name: &str| {
            let at =
                |counters: &BTreeMap<String, f64>| counters.get(name).copied().unwrap_or_default();
            at(&after) - at(&before)
        };
        let passes = grown("strimzi_reconciliations_total");
        println!("{what}:");
        println!("  {:.1} passes per second", passes / seconds);
        println!("  {:.1} requests to the API server per second", grown(API) / seconds);
        println!("  {:.1} calls to Kafka per second", grown("gregor_kafka_calls_total") / seconds);
        println!("  {} writes (the goal is none)", grown("gregor_writes_total"));
        println!("  {:.1} % of a core", 100.0 * cpu_s / seconds);
        println!("  {:.0} MiB of memory", self.resident_mib());
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
