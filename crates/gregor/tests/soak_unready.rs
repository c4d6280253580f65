//! A broker that recovers its logs is waited for, however long it takes, and restarted only after it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kafka::{Ground, Place, wait_for, wait_for_mut, wait_within};
use kafka_admin::{Admin, ClientOptions, Layout, NewTopic};
use model::{NodeId, TopicName};
use rustix::process::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;
use up::signal;

const CLUSTER: &str = "my-cluster";
/// The logs are recovered to the end first; then the pod takes its time to stop.
const PATIENCE: Duration = Duration::from_secs(480);
/// A log without records is recovered in milliseconds, so there are many.
const LOGS: usize = 1_000;
/// The broker that has them.
const BROKER: i32 = 0;

/// One thread recovers the logs, so that it takes its time.
const MANIFEST: &str = r#"
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: controller
  labels: {strimzi.io/cluster: my-cluster}
  annotations: {strimzi.io/next-node-ids: "[10-12]"}
spec:
  replicas: 3
  roles: [controller]
  storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: broker
  labels: {strimzi.io/cluster: my-cluster}
  annotations: {strimzi.io/next-node-ids: "[0-2]"}
spec:
  replicas: 3
  roles: [broker]
  storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: my-cluster
spec:
  kafka:
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
      offsets.topic.num.partitions: 5
      num.recovery.threads.per.data.dir: 1
"#;

#[test]
fn a_broker_that_recovers_its_logs_is_waited_for() {
    let ground = Ground::start(&["--nodes", "3"]);
    let place = ground.namespace("unready");
    place.apply(MANIFEST);
    place.ready(CLUSTER);
    let runtime = Runtime::new().unwrap();
    let call_timeout = Duration::from_secs(60);
    let options = ClientOptions { call_timeout, ..ClientOptions::default() };
    let admin = place.admin(CLUSTER, options);
    it_is_restarted_after_its_recovery(&place, &runtime, &admin);
    ground.assert_operator_is_content();
}

fn it_is_restarted_after_its_recovery(place: &Place<'_>, runtime: &Runtime, admin: &Admin) {
    let broker = NodeId::new(BROKER).unwrap();
    let name = TopicName::new("many").unwrap();
    let layout = Layout::Assigned(vec![vec![broker]; LOGS]);
    let new = NewTopic { layout, ..NewTopic::new(name.clone(), 1, 1) };
    let new = new.with_config("min.insync.replicas", "1");
    let made = runtime.block_on(admin.create_topics(&[new], false)).unwrap();
    assert!(made.values().all(Result::is_ok), "{made:?}");
    wait_for(|| {
        let page = runtime.block_on(admin.describe_topics(std::slice::from_ref(&name)));
        let page = page.map_err(|error| format!("{error:?}"))?;
        let partitions = page.topics.iter().flat_map(|topic| &topic.partitions);
        match partitions.filter(|partition| partition.leader == Some(broker)).count() {
            LOGS => Ok(()),
            led => Err(format!("{led} of {LOGS} partitions have a leader")),
        }
    });
    let pod = format!("{CLUSTER}-broker-{BROKER}");
    let before = uid(place, &pod);
    let killed = place.java(&pod);
    signal(killed, Signal::KILL);
    let slowed = Slowed::new(successor(place, &pod, killed));
    is_unready(place, &pod);
    // A broker that waits for its recovery is not restarted, whoever asks.
    let restart = "strimzi.io/manual-rolling-update=true";
    place.kubectl(&["annotate", "pod", &pod, restart]);
    let mut looks = 0;
    wait_for_mut(|| {
        // Pods tell nothing of logs: the operator looks when something changes.
        looks += 1;
        let look = format!("looked-at={looks}");
        place.kubectl(&["annotate", "--overwrite", "kafka", CLUSTER, &look]);
        let told = place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
        if told.contains("recovers its logs: ") { Ok(()) } else { Err(told) }
    });
    assert_eq!(uid(place, &pod), before, "restarted while it recovers its logs");
    drop(slowed);
    // Then it is.
    is_replaced(place, &pod, &before);
    is_restarted_for(place, &pod, "ManualRollingUpdate");
    place.ready(CLUSTER);
    let gone = runtime.block_on(admin.delete_topics(&[name])).unwrap();
    assert!(gone.values().all(Result::is_ok), "{gone:?}");
}

/// Which pod of this name there is; empty if none.
fn uid(place: &Place<'_>, pod: &str) -> String {
    let mut pods = place.pods().into_iter();
    pods.find(|(name, _)| name == pod).map(|(_, uid)| uid).unwrap_or_default()
}

/// Waits until a pod is not the one that it was.
fn is_replaced(place: &Place<'_>, pod: &str, old: &str) {
    wait_within(PATIENCE, || match uid(place, pod) == old {
        true => Err(place.get("kafka", CLUSTER)["status"]["conditions"].to_string()),
        false => Ok(()),
    });
}

/// Waits until a pod is not ready.
fn is_unready(place: &Place<'_>, pod: &str) {
    wait_for(|| {
        let conditions = place.get("pod", pod)["status"]["conditions"].clone();
        let conditions = conditions.as_array().cloned().unwrap_or_default();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        if conditions.iter().any(is_ready) { Err(format!("{pod} is ready")) } else { Ok(()) }
    });
}

/// Waits for the process that follows a killed one in its pod.
fn successor(place: &Place<'_>, pod: &str, killed: u32) -> u32 {
    let mut found = None;
    wait_for_mut(|| {
        found = place.javas(pod).into_iter().find(|pid| *pid != killed);
        found.map(|_| ()).ok_or(format!("{pod} has no other process"))
    });
    found.unwrap()
}

/// Waits until the operator has published that it restarted a pod for this reason, and for no other.
fn is_restarted_for(place: &Place<'_>, pod: &str, reason: &str) {
    wait_for(|| {
        let all = place.list("events.events.k8s.io");
        let of_pod = |one: &&Value| {
            one["action"] == "StrimziInitiatedPodRestart" && one["related"]["name"] == pod
        };
        let told = |one: &Value| one["reason"].as_str().unwrap_or_default().to_owned();
        let reasons: Vec<String> = all.iter().filter(of_pod).map(told).collect();
        if reasons == [reason] { Ok(()) } else { Err(format!("{pod}: {reasons:?}")) }
    });
}

/// A process that gets a quarter of its time, until this is dropped. Its agent still answers in time.
struct Slowed {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slowed {
    fn new(pid: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                signal(pid, Signal::STOP);
                std::thread::sleep(Duration::from_millis(150));
                signal(pid, Signal::CONT);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // It fails if the process has ended, which the test finds out by itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
