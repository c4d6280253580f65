//! Changes of settings and of Kafka's version, with failures in the middle of them: what has to be restarted
//! is, one by one and in order, nothing else is, and no record is lost.
//!
//! One cluster of three controllers and three brokers lives through all of it under load.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod sampling;
mod up;

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;

use kafka::{Ground, Place, wait_for};
use kafka_admin::{Admin, ClientOptions, ConfigResource, Layout, NewTopic};
use model::{NodeId, TopicName};
use rustix::process::Signal;
use sampling::{Sampler, restarts};
use serde_json::{Value, json};
use testkit::{Load, LoadOptions};
use tokio::runtime::Runtime;
use up::signal;

const CLUSTER: &str = "my-cluster";
const OLD: &str = "4.1.2";
const NEW: &str = "4.3.1";
/// A setting that brokers read when they start, and controllers do not read.
const READ_ONLY: &str = "initial.broker.registration.timeout.ms";
/// A setting that only controllers read.
const OF_CONTROLLERS: &str = "controller.quorum.election.timeout.ms";
/// How far a controller may lag behind. Longer than usual, as the machine is shared by many.
const FETCH_TIMEOUT_MS: u64 = 5_000;
/// The broker that everybody has lost track of, but Kafka.
const LOST: i32 = 7;
/// Levels of `metadata.version`.
const LEVEL_4_1: i16 = 27;
const LEVEL_4_3: i16 = 30;

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
kind: KafkaNodePool
metadata:
  name: extra
  labels: {strimzi.io/cluster: my-cluster}
  annotations: {strimzi.io/next-node-ids: "[7]"}
spec:
  replicas: 1
  roles: [broker]
  storage: {type: ephemeral}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: my-cluster
spec:
  kafka:
    version: 4.1.2
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
      offsets.topic.num.partitions: 5
      broker.session.timeout.ms: 30000
      controller.quorum.fetch.timeout.ms: 5000
"#;

struct Rolled<'a> {
    place: Place<'a>,
    runtime: &'a Runtime,
    admin: Admin,
    sampler: Sampler,
}

impl Rolled<'_> {
    fn ask<T, E: std::fmt::Debug>(&self, call: impl Future<Output = Result<T, E>>) -> T {
        self.runtime.block_on(call).unwrap()
    }

    /// Makes a topic. A machine with much to do may answer too late, so it is asked until it is there.
    fn make(&self, new: &NewTopic) {
        self.insist(|| self.admin.create_topics(std::slice::from_ref(new), false), true, &new.name);
    }

    fn delete(&self, name: &TopicName) {
        self.insist(|| self.admin.delete_topics(std::slice::from_ref(name)), false, name);
    }

    fn insist<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>>(
        &self,
        call: impl Fn() -> F,
        there: bool,
        name: &TopicName,
    ) {
        wait_for(|| {
            if let Err(error) = self.runtime.block_on(call()) {
                println!("{error:?}");
            }
            let all = self.runtime.block_on(self.admin.list_topics());
            let all = all.map_err(|error| format!("{error:?}"))?;
            let found = all.iter().any(|topic| topic.name == *name);
            if found == there { Ok(()) } else { Err(format!("{name}: {found}")) }
        });
    }

    fn patch(&self, kafka: &Value) {
        let patch = json!({ "spec": { "kafka": kafka } }).to_string();
        self.place.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", &patch]);
    }

    fn set(&self, key: &str, value: &Value) {
        self.patch(&json!({ "config": { key: value } }));
    }

    /// The uids of the pods of a pool.
    fn pods(&self, pool: &str) -> BTreeMap<String, String> {
        self.place.pods_of_pool(CLUSTER, pool)
    }

    /// A warning of the cluster, if it is there.
    fn warning(&self, reason: &str) -> Option<String> {
        self.place.warning(CLUSTER, reason)
    }

    fn wait_for_warning(&self, reason: &str) -> String {
        wait_for(|| {
            let told = || self.place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
            self.warning(reason).map(|_| ()).ok_or_else(told)
        });
        self.warning(reason).unwrap()
    }

    /// What `gregor why` says.
    fn why(&self) -> String {
        let run = self.place.gregor(&["why", CLUSTER, "-o", "json"]);
        // The other code says that Kafka does not answer.
        assert!([0, 4].contains(&run.code), "{}", run.err);
        run.out
    }

    /// Waits until `gregor why` says something like it.
    fn wait_for_why(&self, words: &[&str]) -> String {
        wait_for(|| {
            let why = self.why();
            let all = words.iter().all(|word| why.contains(word));
            if all { Ok(()) } else { Err(format!("{words:?} are not in {why}")) }
        });
        self.why()
    }

    /// Waits until the cluster is not ready for this reason, and an Event says so.
    fn is_reported(&self, reason: &str) {
        wait_for(|| {
            let kafka = self.place.get("kafka", CLUSTER);
            let conditions = kafka["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_not_ready =
                conditions.iter().any(|one| one["type"] == "NotReady" && one["reason"] == reason);
            let is_ready = conditions.iter().any(|one| one["type"] == "Ready");
            let events = self.place.list("events.events.k8s.io");
            let is_told = events.iter().any(|one| {
                (&one["regarding"]["kind"], &one["reason"]) == (&json!("Kafka"), &json!(reason))
            });
            let done = is_not_ready && !is_ready && is_told;
            if done { Ok(()) } else { Err(format!("{conditions:?}, Event: {is_told}")) }
        });
    }

    /// The Events of restarts, as `pod reason message`.
    fn events(&self) -> Vec<String> {
        let all = self.place.list("events.events.k8s.io");
        let restarts = all.iter().filter(|one| one["action"] == "StrimziInitiatedPodRestart");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |one: &Value| {
            format!(
                "{} {} {}",
                text(&one["related"]["name"]),
                text(&one["reason"]),
                text(&one["note"])
            )
        };
        restarts.map(line).collect()
    }

    /// The value that a broker runs with; none while it does not answer.
    fn value(&self, broker: i32, key: &str) -> Option<String> {
        let of = ConfigResource::Node(id(broker));
        let found = self.runtime.block_on(self.admin.describe_configs(&of, Some(&[key])));
        found.ok()?[key].value.clone()
    }

    fn wait_for_value(&self, key: &str, value: &str) {
        wait_for(|| {
            let values: Vec<_> = (0..3).map(|broker| self.value(broker, key)).collect();
            let all = values.iter().all(|one| one.as_deref() == Some(value));
            if all { Ok(()) } else { Err(format!("{values:?}")) }
        });
    }

    fn level(&self) -> i16 {
        self.ask(self.admin.describe_features(None)).finalized["metadata.version"]
    }

    /// All brokers that Kafka knows, also those that are long gone.
    fn registered(&self) -> Vec<i32> {
        let cluster = self.ask(self.admin.describe_cluster());
        cluster.nodes.iter().map(|node| node.id.get()).collect()
    }

    /// Waits until the probes of a controller have failed.
    fn is_unready(&self, controller: i32) {
        wait_for(|| {
            let pod = self.place.get("pod", &format!("my-cluster-controller-{controller}"));
            let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
            let ready =
                conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            if ready { Err("it is ready".to_owned()) } else { Ok(()) }
        });
    }

    /// No scenario leaves the operator with a fault to tell of.
    fn ends_well(&self) {
        self.place.ready(CLUSTER);
        self.place.ground.assert_operator_is_content();
    }
}

/// What is needed to understand a failure goes with the control plane, so it is shown before.
impl Drop for Rolled<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.place.kubectl(&["get", "pods", "-o", "wide"]));
            println!("{:#}", self.place.get("kafka", CLUSTER)["status"]);
            println!("{}", self.events().join("\n"));
            println!("{}", self.place.ground.operator_log());
        }
    }
}

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

#[test]
fn what_changes_is_rolled_out_and_what_fails_stops_the_rest() {
    let runtime = Runtime::new().unwrap();
    let ground = Ground::start(&["--nodes", "3", "--kafka-version", OLD]);
    let place = ground.namespace("changes");
    place.apply(MANIFEST);
    let born = place.ready(CLUSTER);
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    let admin = place.admin(CLUSTER, ClientOptions::default());
    let client = runtime.block_on(ground.world.client());
    let sampler = Sampler::new(client, &place.namespace, admin.clone());
    let rolled = Rolled { place, runtime: &runtime, admin, sampler };
    a_broker_is_lost_track_of(&rolled);
    rolled.make(&NewTopic::new(topic("load"), 6, 3));
    let home = ground.home.clone();
    let options = LoadOptions::new(home, &bootstrap, "load").hosts(ground.hosts()).rate(50);
    let load = rolled.ask(Load::start(options));
    a_setting_that_all_take_while_they_run_comes_and_goes(&rolled);
    bad_settings_stop_the_roll_and_good_ones_end_it(&rolled);
    controllers_wait_for_one_that_is_behind(&rolled);
    another_version_comes_before_its_metadata(&rolled);
    let now = rolled.place.ready(CLUSTER);
    assert_eq!(now["status"]["clusterId"], born["status"]["clusterId"]);
    let report = runtime.block_on(load.stop()).unwrap();
    println!("{report:?}");
    report.check().unwrap();
}

/// A pool is deleted by an administrator while nobody looks, and the operator's record with it: only Kafka still knows
/// the broker, and a partition is assigned to it.
fn a_broker_is_lost_track_of(rolled: &Rolled<'_>) {
    let place = &rolled.place;
    let of = Layout::Assigned(vec![vec![id(LOST), id(0), id(1)]]);
    let held = NewTopic { layout: of, ..NewTopic::new(topic("held"), 1, 3) };
    rolled.make(&held.with_config("min.insync.replicas", "1"));
    place.kubectl(&["annotate", "kafka", CLUSTER, "strimzi.io/pause-reconciliation=true"]);
    wait_for(|| {
        let paused = place.condition(CLUSTER, "ReconciliationPaused");
        paused.map(|_| ()).ok_or("not paused".to_owned())
    });
    place.kubectl(&["delete", "knp", "extra", "--wait=false"]);
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    let left = place.names("knp").contains(&"extra".to_owned());
    if left {
        place.kubectl(&["patch", "knp", "extra", "--type", "merge", "-p", patch]);
    }
    place.kubectl(&["delete", "strimzipodset", "my-cluster-extra"]);
    place.kubectl(&["delete", "configmap", "my-cluster-gregor"]);
    wait_for(|| {
        let pods = rolled.pods("extra");
        if pods.is_empty() { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    let before = place.pods();
    place.kubectl(&["annotate", "kafka", CLUSTER, "strimzi.io/pause-reconciliation-"]);
    let told = rolled.wait_for_warning("StaleBrokerRegistration");
    assert!(told.contains("broker 7") && told.contains("1 partition is"), "{told}");
    rolled.ends_well();
    assert_eq!(place.pods(), before);
    assert_eq!(rolled.registered(), [0, 1, 2, LOST]);
    // No record has it, and Kafka does.
    let ids = place.get("kafka", CLUSTER)["status"]["nodeIds"].clone();
    assert_eq!(ids, json!([0, 1, 2, LOST, 10, 11, 12]));
}

/// Controllers read it too, and Kafka 4.1 changes no setting of a single controller.
fn a_setting_that_all_take_while_they_run_comes_and_goes(rolled: &Rolled<'_>) {
    let before = rolled.place.pods();
    rolled.set("num.io.threads", &json!(5));
    rolled.wait_for_value("num.io.threads", "5");
    rolled.set("num.io.threads", &Value::Null);
    rolled.wait_for_value("num.io.threads", "8");
    rolled.ends_well();
    assert_eq!(rolled.place.pods(), before);
}

/// Kafka refuses to start with the first value, which it alone can know. With the second the broker that was
/// restarted for the first comes up by itself, and the others are restarted after it.
fn bad_settings_stop_the_roll_and_good_ones_end_it(rolled: &Rolled<'_>) {
    let (controllers, brokers) = (rolled.pods("controller"), rolled.pods("broker"));
    let first = "my-cluster-broker-0";
    rolled.set(READ_ONLY, &json!("never"));
    let why = rolled.wait_for_why(&["RollStopped", "node 0", "cannot start", READ_ONLY]);
    println!("{why}");
    rolled.is_reported("RollStopped");
    let stuck = rolled.pods("broker");
    assert_ne!(stuck[first], brokers[first]);
    let others = |pods: &BTreeMap<String, String>| {
        let mut pods = pods.clone();
        pods.remove(first);
        pods
    };
    assert_eq!(others(&stuck), others(&brokers));
    assert_eq!(rolled.pods("controller"), controllers);
    let samples = rolled.sampler.during(rolled.runtime, || {
        rolled.set(READ_ONLY, &json!(61_000));
        rolled.wait_for_value(READ_ONLY, "61000");
        rolled.place.ready(CLUSTER);
    });
    let mut order: Vec<_> = restarts(&samples).into_iter().map(|restart| restart.pod).collect();
    let expected = [0, 1, 2].map(|broker| format!("my-cluster-broker-{broker}"));
    // The kubelet may have started the first one again before its pod was replaced.
    if order.first().is_some_and(|pod| pod != first) {
        order.insert(0, first.to_owned());
    }
    assert_eq!(order, expected);
    sampling::assert_one_at_a_time(&samples);
    assert_eq!(rolled.pods("controller"), controllers);
    let events = rolled.events();
    for broker in &expected {
        let named = format!("{broker} ConfigChangeRequiresRestart");
        let told = events.iter().any(|one| one.starts_with(&named) && one.contains(READ_ONLY));
        assert!(told, "{named}: {events:?}");
    }
    rolled.ends_well();
}

/// A controller that is frozen cannot catch up: without one more there would be no majority. It is the first
/// to be restarted once it is back, and the active one the last.
fn controllers_wait_for_one_that_is_behind(rolled: &Rolled<'_>) {
    let (controllers, brokers) = (rolled.pods("controller"), rolled.pods("broker"));
    let quorum = rolled.ask(rolled.admin.describe_quorum());
    let followers: Vec<i32> =
        (10..13).filter(|controller| *controller != quorum.leader.get()).collect();
    let (frozen, other) = (followers[0], followers[1]);
    let jvm = rolled.place.java(&format!("my-cluster-controller-{frozen}"));
    signal(jvm, Signal::STOP);
    wait_for(|| {
        let lag_ms = sampling::lag_ms(&rolled.ask(rolled.admin.describe_quorum()), frozen);
        let behind = lag_ms.is_some_and(|ms| ms > FETCH_TIMEOUT_MS);
        if behind { Ok(()) } else { Err(format!("{lag_ms:?} ms behind")) }
    });
    let pod = format!("my-cluster-controller-{other}");
    rolled.place.kubectl(&["annotate", "pod", &pod, "strimzi.io/manual-rolling-update=true"]);
    let behind = format!("behind: node {frozen}");
    wait_for(|| {
        let why = rolled.why();
        let told = why.contains(&behind) && why.contains(&format!("node {other}"));
        if told { Ok(()) } else { Err(why) }
    });
    rolled.is_unready(frozen);
    // Now all of them have to be restarted.
    rolled.set(OF_CONTROLLERS, &json!(1500));
    let leader = format!("node {}", quorum.leader);
    println!("{}", rolled.wait_for_why(&[OF_CONTROLLERS, &behind, &leader]));
    assert_eq!(rolled.pods("controller"), controllers);
    let samples = rolled.sampler.during(rolled.runtime, || {
        up::resume(jvm);
        wait_for(|| {
            let now = rolled.pods("controller");
            let old = now.iter().filter(|(pod, uid)| controllers[*pod] == **uid).count();
            if old == 0 {
                Ok(())
            } else {
                Err(format!("{old} are not restarted: {}", rolled.why()))
            }
        });
        rolled.place.ready(CLUSTER);
    });
    assert_controllers_in_order(&samples);
    sampling::assert_one_at_a_time(&samples);
    assert_eq!(rolled.pods("broker"), brokers);
    rolled.ends_well();
}

/// Each controller once, and each that was not the active one when its turn came before the one that was.
fn assert_controllers_in_order(samples: &[sampling::Sample]) {
    let order = restarts(samples);
    let controllers: Vec<_> = order.iter().filter(|one| one.pod.contains("-controller-")).collect();
    assert_eq!(controllers.len(), 3, "{order:?}");
    let was_active: Vec<_> = controllers
        .iter()
        .map(|one| one.leader.is_some_and(|leader| one.pod.ends_with(&format!("-{leader}"))))
        .collect();
    assert_eq!(was_active, [false, false, true], "{order:?}");
    let last = order.iter().rposition(|one| one.pod.contains("-controller-"));
    assert_eq!(last, Some(2), "brokers come after controllers: {order:?}");
}

/// Seed 004's own case. Kafka does not raise the metadata version while it knows a broker that has never
/// run the new Kafka; it is forgotten as soon as nothing is assigned to it, and then the version goes up.
fn another_version_comes_before_its_metadata(rolled: &Rolled<'_>) {
    assert_eq!(rolled.level(), LEVEL_4_1);
    let samples = rolled.sampler.during(rolled.runtime, || {
        rolled.patch(&json!({ "version": NEW }));
        let told = rolled.wait_for_warning("MetadataUpdateFailed");
        println!("{told}");
        assert!(told.contains("(the registration of broker 7, which is gone)"), "{told}");
        rolled.place.ready(CLUSTER);
    });
    assert_controllers_in_order(&samples);
    assert_eq!(restarts(&samples).len(), 6);
    sampling::assert_one_at_a_time(&samples);
    let held = rolled.place.get("kafka", CLUSTER);
    assert_eq!(held["status"]["kafkaVersion"], NEW);
    assert_eq!(held["status"]["kafkaMetadataVersion"], "4.1-IV1");
    assert_eq!(rolled.level(), LEVEL_4_1);
    assert_eq!(rolled.registered(), [0, 1, 2, LOST]);
    let before = rolled.place.pods();
    rolled.delete(&topic("held"));
    rolled.place.kubectl(&["annotate", "kafka", CLUSTER, "looked-at=again"]);
    wait_for(|| match rolled.level() {
        LEVEL_4_3 => Ok(()),
        level => Err(format!("level {level}: {}", rolled.why())),
    });
    rolled.ends_well();
    assert_eq!(rolled.registered(), [0, 1, 2]);
    let now = rolled.place.get("kafka", CLUSTER);
    assert_eq!(now["status"]["kafkaMetadataVersion"], "4.3-IV0");
    for reason in ["MetadataUpdateFailed", "StaleBrokerRegistration"] {
        assert_eq!(rolled.warning(reason), None);
    }
    assert_eq!(rolled.place.pods(), before);
    let homes = rolled.place.ground.world.processes();
    let old = homes.iter().filter(|process| process.is("java") && runs(process.pid, OLD)).count();
    assert_eq!(old, 0, "something still runs the old Kafka");
}

/// Whether a process has the jars of this Kafka.
fn runs(pid: u32, version: &str) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).contains(version)
}
