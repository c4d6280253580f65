//! Everything that `gregor up` runs is killed again and again while it works: nothing that was
//! acknowledged is lost, nothing runs twice, nothing is left, and all pods are ready again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use up::{Process, Run, World, eventually, is_alive, signal};

/// Nothing waits that long when all is well.
const PATIENCE: Duration = Duration::from_secs(90);
const GREGOR: &str = "gregor";
const COMPONENTS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Who is killed at once in which round. `gregor` is the supervisor, both kubelets, the provisioner and
/// the service proxy.
const ROUNDS: &[&[&str]] = &[
    &[GREGOR],
    &["kube-apiserver"],
    &["etcd"],
    &[GREGOR, "kube-apiserver", "etcd"],
    &["kube-controller-manager"],
    &["etcd", "kube-apiserver"],
    &["kube-scheduler", GREGOR],
    &["kube-apiserver", GREGOR],
    &["etcd", GREGOR],
    &[GREGOR, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"],
];

const WORKLOAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: workers}
spec:
  replicas: 4
  selector: {matchLabels: {app: workers}}
  template:
    metadata: {labels: {app: workers}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: work
        image: busybox
        command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.5; done"]
        env: [{name: SWEEP, value: "STATE"}]
        readinessProbe: {exec: {command: ["true"]}, periodSeconds: 2}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: gregor-local
  resources: {requests: {storage: 1Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper, labels: {app: keeper}}
spec:
  terminationGracePeriodSeconds: 2
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers:
  - name: keep
    image: busybox
    command: [sh, -c, "trap 'exit 0' TERM; echo started >>/data/starts; while :; do sleep 0.5; done"]
    env: [{name: SWEEP, value: "STATE"}]
    volumeMounts: [{name: data, mountPath: /data}]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_left_whoever_is_killed() {
    let world = World::new();
    let state = world.state();
    let file = world.file("work.yaml", &WORKLOAD.replace("STATE", state.to_str().unwrap()));
    let up = world.gregor(&["up", "--detach", "--nodes", "2", "-f", &file]).ok();
    wait_all_ready(&world, 4).await;
    let keeper = keeper(&world);
    let writer = Writer::start(&world).await;
    // A soak has more of them.
    let asked = std::env::var("GREGOR_SWEEP_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: usize = asked.unwrap_or(ROUNDS.len());
    for (number, victims) in ROUNDS.iter().cycle().take(rounds).enumerate() {
        let begun = Instant::now();
        // Pods start and end while things are killed.
        let replicas = if number % 2 == 0 { 6 } else { 4 };
        disturb(&world, replicas).await;
        // At another moment in each round.
        sleep(Duration::from_millis(70 * u64::try_from(number % 13).unwrap())).await;
        kill(&world, victims);
        if victims.contains(&GREGOR) {
            world.gregor(&["up", "--detach", "--nodes", "2"]).ok();
        }
        wait_all_ready(&world, replicas).await;
        writer.check(&world).await;
        check_processes(&world, replicas + 1).await;
        assert!(is_alive(keeper), "round {number}: a pod that nobody touched was ended");
        println!("round {number}, {victims:?}: {:?}", begun.elapsed());
    }
    writer.stop(&world).await;
    disturb(&world, 4).await;
    end_and_continue(&world, &up).await;
}

/// Stopped, nothing runs; started, all goes on; killed and not started again, nothing is left either.
async fn end_and_continue(world: &World, up: &Run) {
    world.gregor(&["down"]).ok();
    eventually("all has ended", || world.processes().is_empty());
    world.gregor(&["up", "--detach", "--nodes", "2"]).ok();
    wait_all_ready(world, 4).await;
    check_processes(world, 5).await;
    let starts = world.kubectl(up, &["exec", "keeper", "--", "cat", "/data/starts"]);
    assert_eq!(starts, "started\nstarted\n", "once by us and once after the stop");
    kill(world, &[GREGOR]);
    world.gregor(&["down", "--purge"]).ok();
    let left = world.processes();
    assert!(left.is_empty(), "these are left: {left:#?}");
    assert!(!world.state().exists());
}

/// Another number of pods, and one is deleted.
async fn disturb(world: &World, replicas: usize) {
    let client = world.client().await;
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let workers = pods.list(&ListParams::default().labels("app=workers")).await.unwrap();
    let oldest = workers.items[0].metadata.name.as_deref().unwrap();
    pods.delete(oldest, &DeleteParams::default()).await.unwrap();
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let deployments = Api::<Deployment>::default_namespaced(client);
    deployments.patch("workers", &PatchParams::default(), &patch).await.unwrap();
}

fn kill(world: &World, victims: &[&str]) {
    let components = world.pids();
    let pid = |victim: &&str| components.get(victim).copied().unwrap_or_else(|| world.supervisor());
    let pids: Vec<_> = victims.iter().map(pid).collect();
    pids.iter().for_each(|pid| signal(*pid, Signal::KILL));
    eventually("they are gone", || pids.iter().all(|pid| !is_alive(*pid)));
}

/// The first process of the pod with a claim.
fn keeper(world: &World) -> u32 {
    let all = world.processes();
    let keeps = |process: &&Process| process.words.iter().any(|word| word.contains("/data/starts"));
    all.iter().find(keeps).unwrap().pid
}

async fn wait_all_ready(world: &World, replicas: usize) {
    let begun = Instant::now();
    let mut last = String::from("nothing was read");
    while begun.elapsed() < PATIENCE {
        match timeout(Duration::from_secs(10), not_ready(world, replicas)).await {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(what))) => last = what,
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => last = "the API server does not answer".to_owned(),
        }
        sleep(Duration::from_millis(200)).await;
    }
    let log = std::fs::read_to_string(world.state().join("logs/gregor.log"));
    panic!("not ready in time: {last}\n{}", log.unwrap_or_default());
}

/// What is not as it should be.
async fn not_ready(world: &World, replicas: usize) -> kube::Result<Option<String>> {
    let client = world.client().await;
    let deployment = Api::<Deployment>::default_namespaced(client.clone()).get("workers").await?;
    let pods = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await?.items;
    let wanted = Some(i32::try_from(replicas).unwrap());
    let counted = deployment.status.unwrap_or_default().ready_replicas == wanted;
    let waiting: Vec<_> = pods.iter().filter(|pod| !is_ready(pod)).collect();
    let all = counted && waiting.is_empty() && pods.len() == replicas + 1;
    let names = || waiting.iter().filter_map(|pod| pod.metadata.name.as_deref());
    Ok((!all).then(|| {
        let names = names().collect::<Vec<_>>().join(", ");
        format!("{} pods, counted {counted}, not ready: {names}", pods.len())
    }))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// One supervisor, one of each component, and for each container one shim and one first process.
async fn check_processes(world: &World, containers: usize) {
    let mut expected: BTreeMap<&str, usize> = COMPONENTS.map(|name| (name, 1)).into();
    expected.extend([(GREGOR, 1), ("shim", containers), ("container", containers)]);
    let begun = Instant::now();
    // Files of a pod that is gone, and a probe that runs just now, take a moment.
    while count(&world.processes()) != expected {
        let all = world.processes();
        assert!(begun.elapsed() < PATIENCE, "{:?}, but:\n{all:#?}", count(&all));
        sleep(Duration::from_millis(200)).await;
    }
}

fn count(processes: &[Process]) -> BTreeMap<&'static str, usize> {
    let is_shim = |process: &Process| process.is(GREGOR) && process.has("shim");
    let shims: Vec<u32> = processes.iter().filter(|p| is_shim(p)).map(|p| p.pid).collect();
    let mut counts = BTreeMap::new();
    for process in processes {
        let component = COMPONENTS.into_iter().find(|name| process.is(name));
        let kind = match component {
            Some(name) => name,
            None if process.is(GREGOR) && process.has("up") => GREGOR,
            None if is_shim(process) && !shims.contains(&process.parent) => "shim",
            None if shims.contains(&process.parent) => "container",
            // What a container has started itself.
            None if processes.iter().any(|other| other.pid == process.parent) => continue,
            None => "left",
        };
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// Creates ConfigMaps, and deletes some, all the time.
struct Writer {
    /// What was acknowledged: whether the object is there for good, or is gone.
    acknowledged: Arc<Mutex<BTreeMap<String, bool>>>,
    stopped: Arc<AtomicBool>,
    task: Option<JoinHandle<()>>,
}

impl Writer {
    async fn start(world: &World) -> Self {
        let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let maps = Api::<ConfigMap>::default_namespaced(world.client().await);
        let (notes, end) = (Arc::clone(&acknowledged), Arc::clone(&stopped));
        let task = tokio::spawn(async move {
            let mut number = 0_u32;
            while !end.load(Ordering::Relaxed) {
                number += 1;
                // A request without an answer says nothing, and neither do we.
                let _ = timeout(Duration::from_secs(10), write(&maps, number, &notes)).await;
                sleep(Duration::from_millis(30)).await;
            }
        });
        Self { acknowledged, stopped, task: Some(task) }
    }

    async fn check(&self, world: &World) {
        // Taken before the list: what is written later may be in it or not.
        let expected = self.acknowledged.lock().unwrap().clone();
        let maps = Api::<ConfigMap>::default_namespaced(world.client().await);
        let listed = maps.list(&ListParams::default().labels("by=writer")).await.unwrap();
        let names = listed.items.into_iter().filter_map(|map| map.metadata.name);
        let there: BTreeSet<String> = names.collect();
        let wrong = expected.iter().filter(|(name, is)| there.contains(*name) != **is);
        let wrong: Vec<_> = wrong.collect();
        assert!(wrong.is_empty(), "of {} these are wrong: {wrong:?}", expected.len());
    }

    async fn stop(mut self, world: &World) {
        self.stopped.store(true, Ordering::Relaxed);
        self.task.take().unwrap().await.unwrap();
        self.check(world).await;
        let written = self.acknowledged.lock().unwrap().len();
        println!("{written} ConfigMaps were acknowledged");
        assert!(written > 100, "only {written} were acknowledged");
    }
}

async fn write(
    maps: &Api<ConfigMap>,
    number: u32,
    notes: &Mutex<BTreeMap<String, bool>>,
) -> kube::Result<()> {
    let name = format!("written-{number}");
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.clone());
    map.metadata.labels = Some([("by".to_owned(), "writer".to_owned())].into());
    maps.create(&PostParams::default(), &map).await?;
    let is_kept = !number.is_multiple_of(3);
    if !is_kept {
        maps.delete(&name, &DeleteParams::default()).await?;
    }
    notes.lock().unwrap().insert(name, is_kept);
    Ok(())
}
