//! What local mode costs: the time from `gregor up` to ready against what its components need by
//! themselves, pods started in a second, and what the program takes when nothing happens under 100 pods.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

#[path = "../tests/up/mod.rs"]
mod up;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;
use up::{World, signal};

const STARTS: usize = 3;
const PODS_AT_ONCE: u32 = 30;
const PODS_IDLE: u32 = 100;
/// The timers of a node, its lease and its status, have fired some times.
const IDLE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() {
    println!("gregor up, {STARTS} times from nothing:");
    for _ in 0..STARTS {
        measure_start();
    }
    let world = World::new();
    let up = world.command(&["up", "--detach"]).output().unwrap();
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let client = world.client().await;
    wait_for_node(&client).await;
    measure_pods(&client).await;
    measure_idle(&world, &client).await;
}

/// One start, from the beginning of the program to its word that all is ready.
fn measure_start() {
    let world = World::new();
    let begun = Instant::now();
    let mut command = world.command(&["up"]);
    let mut gregor = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(gregor.stderr.take().unwrap());
    let times = std::thread::spawn(move || component_times(stderr.lines().map_while(Result::ok)));
    let stdout = BufReader::new(gregor.stdout.take().unwrap());
    let is_ready = |line: &String| line.contains("is ready after");
    stdout.lines().map_while(Result::ok).find(is_ready).expect("it never was ready");
    let whole = begun.elapsed();
    signal(gregor.id(), Signal::INT);
    let times = times.join().unwrap();
    gregor.wait().unwrap();

    let sum: Duration = times.values().sum();
    let each: Vec<_> = times.iter().map(|(name, time)| format!("{name} {time:.1?}")).collect();
    let ratio = whole.as_secs_f64() / sum.as_secs_f64();
    println!(
        "  ready in {whole:.2?}, {ratio:.2} of the components' {sum:.2?} ({})",
        each.join(", ")
    );
}

/// How long each component took from its own start.
fn component_times(lines: impl Iterator<Item = String>) -> BTreeMap<String, Duration> {
    let mut started = BTreeMap::new();
    let mut times = BTreeMap::new();
    for line in lines {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [_, name, "was", "started", ..] => {
                started.insert(name.to_owned(), Instant::now());
            }
            [_, name, "is", "ready", ..] => {
                times.insert(name.to_owned(), started[name].elapsed());
            }
            _ => {}
        }
    }
    times
}

async fn wait_for_node(client: &kube::Client) {
    let nodes = Api::<Node>::all(client.clone());
    let usable = |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.taints.is_none());
    while !nodes.list(&ListParams::default()).await.unwrap().items.iter().any(usable) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn measure_pods(client: &kube::Client) {
    let begun = Instant::now();
    scale(client, PODS_AT_ONCE).await;
    let took = begun.elapsed();
    let rate = f64::from(PODS_AT_ONCE) / took.as_secs_f64();
    println!("{PODS_AT_ONCE} pods at once: all ready in {took:.2?}, {rate:.1} a second");
}

/// So many pods, and waits until all are ready.
async fn scale(client: &kube::Client, replicas: u32) {
    let labels = json!({ "app": "bench" });
    let container = json!({ "name": "main", "image": "pause" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "bench" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "terminationGracePeriodSeconds": 1, "containers": [container] },
            },
        },
    });
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let params = PatchParams::apply("bench");
    deployments.patch("bench", &params, &Patch::Apply(deployment)).await.unwrap();
    let ready = async || {
        let status = deployments.get("bench").await.unwrap().status.unwrap_or_default();
        status.ready_replicas == i32::try_from(replicas).ok()
    };
    while !ready().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn measure_idle(world: &World, client: &kube::Client) {
    let gregor = world.supervisor();
    let empty = memory_mib(gregor, "VmRSS");
    scale(client, PODS_IDLE).await;
    // What the start has left to do is done.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = cpu_seconds(gregor);
    tokio::time::sleep(IDLE).await;
    let share = 100.0 * (cpu_seconds(gregor) - before) / IDLE.as_secs_f64();
    let memory = memory_mib(gregor, "VmRSS");
    println!("idle with {PODS_IDLE} pods: {share:.3} % of a core, {memory:.1} MiB resident");
    println!(
        "  of which {:.1} MiB came with the last {}",
        memory - empty,
        PODS_IDLE - PODS_AT_ONCE
    );
    let all = world.processes();
    let shims: Vec<_> = all.iter().filter(|process| process.has("shim")).collect();
    let own: f64 = shims.iter().map(|shim| memory_mib(shim.pid, "RssAnon")).sum();
    println!(
        "  and {} shims with {:.2} MiB of their own each",
        shims.len(),
        own / shims.len() as f64
    );
}

fn memory_mib(pid: u32, field: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

/// The time that all threads of a process have worked, finer than the ticks of its `stat`.
fn cpu_seconds(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e9
}
