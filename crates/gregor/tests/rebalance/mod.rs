//! A cluster of three brokers with data in thirty topics and load on another, and how its replicas are looked at.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

pub(crate) mod cruise_control;
mod fill;
pub(crate) mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_admin::{Admin, ClientOptions, Layout, NewTopic, OffsetAt, ThrottleValues};
use model::{NodeId, TopicName, TopicPartition};
use serde_json::Value;
use testkit::{Load, LoadOptions};
use tokio::runtime::Runtime;

use crate::kafka::{Ground, Place, wait_for, wait_for_mut};

pub(crate) const CLUSTER: &str = "my-cluster";
const TOPICS: usize = 30;
const PARTITIONS: i32 = 3;
const REPLICAS: i16 = 3;
/// Ten times 20 KB in each partition: 18 MB in all, 54 with their replicas.
const RECORDS: i64 = 10;
const RECORD_BYTES: usize = 20_000;

/// One controller, two brokers in one pool and one in another.
const CLUSTER_YAML: &str = "\
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: controller, labels: {strimzi.io/cluster: my-cluster}}
spec: {replicas: 1, roles: [controller], storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: a, labels: {strimzi.io/cluster: my-cluster}, annotations: {strimzi.io/next-node-ids: '[0-9]'}}
spec: {replicas: 2, roles: [broker], storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: b, labels: {strimzi.io/cluster: my-cluster}, annotations: {strimzi.io/next-node-ids: '[10-19]'}}
spec: {replicas: 1, roles: [broker], storage: {type: persistent-claim, size: 1Gi, deleteClaim: true}}
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
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
      offsets.topic.num.partitions: 3
  cruiseControl:
    autoRebalance:
      - {mode: add-brokers, template: {name: template}}
      - {mode: remove-brokers, template: {name: template}}
";

/// How fast replicas are moved, in bytes a second and broker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// So that it is over soon, and there is a throttle to be taken back.
    Quick,
    /// So that it is caught in the middle.
    Slow,
}

impl Pace {
    fn bytes(self) -> u64 {
        match self {
            Self::Quick => 20_000_000,
            Self::Slow => 400_000,
        }
    }
}

pub(crate) struct Scene<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) runtime: Runtime,
    load: Option<Load>,
    ends: BTreeMap<TopicPartition, u64>,
}

impl<'a> Scene<'a> {
    /// Makes the cluster, its topics and its load.
    pub(crate) fn start(ground: &'a Ground, name: &str) -> Self {
        let place = ground.namespace(name);
        let runtime = Runtime::new().unwrap();
        let mut scene = Self { place, runtime, load: None, ends: BTreeMap::new() };
        scene.template(Pace::Quick);
        scene.place.apply(CLUSTER_YAML);
        scene.place.ready(CLUSTER);
        scene.fill();
        scene.load = Some(scene.start_load());
        scene
    }

    /// Writes the template with the pace of moves.
    pub(crate) fn template(&self, pace: Pace) {
        let yaml = format!(
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
             metadata: {{name: template, annotations: {{strimzi.io/rebalance-template: 'true'}}}}\n\
             spec: {{replicationThrottle: {}}}\n",
            pace.bytes()
        );
        let file = self.place.ground.world.file("template.yaml", &yaml);
        self.place.kubectl(&["apply", "-f", &file]);
    }

    /// A client. Made anew for each look, as nodes come and go.
    fn admin(&self) -> Admin {
        let call_timeout = Duration::from_secs(60);
        self.place.admin(CLUSTER, ClientOptions { call_timeout, ..ClientOptions::default() })
    }

    /// Makes the topics and writes to them.
    fn fill(&mut self) {
        let admin = self.admin();
        let name = |n: usize| TopicName::new(format!("topic-{n:02}")).unwrap();
        let mut topics: Vec<_> =
            (0..TOPICS).map(|n| NewTopic::new(name(n), PARTITIONS, REPLICAS)).collect();
        topics.push(NewTopic::new(TopicName::new("load").unwrap(), PARTITIONS, REPLICAS));
        let made = self.runtime.block_on(admin.create_topics(&topics, false)).unwrap();
        assert!(made.values().all(Result::is_ok), "{made:?}");
        wait_for(|| match self.partitions().len() {
            all if all >= (TOPICS + 1) * PARTITIONS as usize => Ok(()),
            some => Err(format!("{some} partitions")),
        });
        let hosts = self.place.names_of_hosts();
        let cluster = self.runtime.block_on(admin.describe_cluster()).unwrap();
        for (partition, (_, _, leader)) in self.partitions() {
            if !partition.topic.as_str().starts_with("topic-") {
                continue;
            }
            let node = cluster.nodes.iter().find(|node| Some(node.id) == leader).unwrap();
            let endpoint = node.endpoint.as_ref().unwrap();
            let at = (hosts.find(&endpoint.host).unwrap(), endpoint.port);
            let name = (partition.topic.as_str(), partition.partition.0);
            fill::write(at, name, RECORDS, RECORD_BYTES);
        }
        self.ends = self.ends_now();
        assert!(self.ends.values().all(|end| *end == RECORDS as u64), "{:?}", self.ends);
    }

    fn ends_now(&self) -> BTreeMap<TopicPartition, u64> {
        let wanted: BTreeSet<TopicPartition> = self
            .partitions()
            .into_keys()
            .filter(|one| one.topic.as_str().starts_with("topic-"))
            .collect();
        let admin = self.admin();
        let found = self.runtime.block_on(admin.list_offsets(&wanted, OffsetAt::Latest)).unwrap();
        found.into_iter().map(|(name, end)| (name, end.unwrap().unwrap_or_default())).collect()
    }

    fn start_load(&self) -> Load {
        let ground = self.place.ground;
        let bootstrap = self.place.bootstrap(CLUSTER, "plain");
        let options = LoadOptions::new(ground.home.clone(), &bootstrap, "load");
        let options = options.hosts(ground.hosts()).rate(50);
        self.runtime.block_on(Load::start(options)).unwrap()
    }

    /// All partitions: replicas, those in sync, leader.
    pub(crate) fn partitions(
        &self,
    ) -> BTreeMap<TopicPartition, (Vec<NodeId>, Vec<NodeId>, Option<NodeId>)> {
        let page = self.runtime.block_on(self.admin().describe_topics(&[])).unwrap();
        let mut all = BTreeMap::new();
        for topic in page.topics {
            for partition in topic.partitions {
                let name = TopicPartition { topic: topic.name.clone(), partition: partition.id };
                all.insert(name, (partition.replicas, partition.isr, partition.leader));
            }
        }
        all
    }

    /// How many replicas a broker has.
    pub(crate) fn replicas_on(&self, broker: i64) -> usize {
        let id = NodeId::new(i32::try_from(broker).unwrap()).unwrap();
        self.partitions().values().filter(|(replicas, ..)| replicas.contains(&id)).count()
    }

    /// The brokers that Kafka knows, and whether each is fenced.
    pub(crate) fn registered(&self) -> Result<BTreeMap<i64, bool>, String> {
        let found = self.runtime.block_on(async { self.admin().describe_cluster().await });
        let found = found.map_err(|error| format!("{error:?}"))?;
        Ok(found.nodes.iter().map(|node| (i64::from(node.id.get()), node.fenced)).collect())
    }

    /// The brokers of a pool.
    pub(crate) fn brokers(&self, pool: &str) -> Vec<i64> {
        let ids = self.place.get("kafkanodepool", pool)["status"]["nodeIds"].clone();
        ids.as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect()
    }

    pub(crate) fn scale(&self, pool: &str, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.place.kubectl(&["scale", "kafkanodepool", pool, &replicas]);
    }

    /// Waits until a pool has so many pods that are ready.
    pub(crate) fn has(&self, pool: &str, count: usize) {
        let prefix = format!("{CLUSTER}-{pool}-");
        wait_for(|| {
            let pods = self.place.names("pods");
            let found = pods.iter().filter(|pod| pod.starts_with(&prefix)).count();
            let told = self.place.get("kafka", CLUSTER)["status"].to_string();
            if found == count { Ok(()) } else { Err(format!("{pods:?}: {told}")) }
        });
    }

    /// What the status says of auto-rebalancing.
    pub(crate) fn auto(&self) -> Value {
        self.place.get("kafka", CLUSTER)["status"]["autoRebalance"].clone()
    }

    /// Waits until the cluster does that for itself, and returns what the status said of it then.
    pub(crate) fn does(&self, state: &str) -> Value {
        let mut found = Value::Null;
        wait_for_mut(|| {
            let auto = self.auto();
            if auto["state"] != state {
                return Err(format!("{state}: {auto}"));
            }
            found = auto;
            Ok(())
        });
        found
    }

    /// Waits until a broker has no replicas, and returns what the cluster did for itself meanwhile, in order.
    pub(crate) fn drained(&self, broker: i64) -> Vec<String> {
        let mut states: Vec<String> = Vec::new();
        wait_for_mut(|| {
            let state = self.auto()["state"].as_str().unwrap_or_default().to_owned();
            let left = self.replicas_on(broker);
            // What the status said may be of the time after the drain, unless replicas were there even later.
            if left == 0 {
                return Ok(());
            }
            if state != "Idle" && states.last() != Some(&state) {
                states.push(state);
            }
            Err(format!("{left} replicas on broker {broker}: {states:?}"))
        });
        states
    }

    /// Makes a topic with one partition on these brokers.
    pub(crate) fn create(&self, topic: &str, brokers: &[i64]) {
        let id = |broker: &i64| NodeId::new(i32::try_from(*broker).unwrap()).unwrap();
        let layout = Layout::Assigned(vec![brokers.iter().map(id).collect()]);
        let new = NewTopic { layout, ..NewTopic::new(TopicName::new(topic).unwrap(), 1, 3) };
        let made = self.runtime.block_on(self.admin().create_topics(&[new], false)).unwrap();
        assert!(made.values().all(Result::is_ok), "{made:?}");
    }

    /// Deletes a topic.
    pub(crate) fn delete(&self, topic: &str) {
        let name = TopicName::new(topic).unwrap();
        let gone = self.runtime.block_on(self.admin().delete_topics(&[name])).unwrap();
        assert!(gone.values().all(Result::is_ok), "{gone:?}");
    }

    /// The state of a request, if there is one.
    pub(crate) fn state(&self, name: &str) -> Option<String> {
        let words = ["get", "kafkarebalance", name, "--ignore-not-found", "-o", "json"];
        let kr: Value = serde_json::from_str(&self.place.kubectl(&words)).ok()?;
        const STATES: [&str; 8] = [
            "New",
            "PendingProposal",
            "ProposalReady",
            "Rebalancing",
            "Stopped",
            "NotReady",
            "Ready",
            "ReconciliationPaused",
        ];
        let conditions = kr["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let kinds = conditions.iter().filter_map(|one| one["type"].as_str());
        kinds.filter(|kind| STATES.contains(kind)).map(str::to_owned).next()
    }

    pub(crate) fn reaches(&self, name: &str, state: &str) {
        wait_for(|| match self.state(name) {
            Some(found) if found == state => Ok(()),
            other => Err(format!("{name}: {other:?}, not {state}")),
        });
    }

    /// Waits until moves of a request are under way.
    pub(crate) fn moves(&self, name: &str) {
        self.reaches(name, "Rebalancing");
        wait_for(|| match self.in_flight() {
            0 => Err(format!("nothing moves: {:?}", self.state(name))),
            _ => Ok(()),
        });
    }

    /// How many partitions are being moved.
    pub(crate) fn in_flight(&self) -> usize {
        self.runtime.block_on(self.admin().list_reassignments()).unwrap().len()
    }

    pub(crate) fn annotate(&self, name: &str, command: &str) {
        let annotation = format!("strimzi.io/rebalance={command}");
        self.place.kubectl(&["annotate", "--overwrite", "kafkarebalance", name, &annotation]);
    }

    /// Waits until nothing is done any more, and checks that nothing is left of it.
    pub(crate) fn settles(&self) {
        self.does("Idle");
        self.place.ready(CLUSTER);
        self.does("Idle");
        assert_eq!(self.auto()["modes"], Value::Null, "{}", self.auto());
        let left = self.place.names("kafkarebalance");
        assert!(!left.iter().any(|name| name.contains("auto-rebalancing")), "{left:?}");
        wait_for(|| {
            let bad: Vec<_> = self
                .partitions()
                .into_iter()
                .filter(|(_, (replicas, isr, leader))| {
                    replicas.len() != 3 || isr.len() != 3 || leader.is_none()
                })
                .collect();
            if bad.is_empty() { Ok(()) } else { Err(format!("{bad:?}")) }
        });
        assert_eq!(self.in_flight(), 0);
        self.no_throttle();
        assert_eq!(self.ends_now(), self.ends, "records are missing");
    }

    /// Fails if a throttle was left.
    pub(crate) fn no_throttle(&self) {
        let admin = self.admin();
        let topics: BTreeSet<TopicName> =
            self.partitions().into_keys().map(|partition| partition.topic).collect();
        let none = ThrottleValues::default();
        let found = self.runtime.block_on(admin.topic_throttles(&topics)).unwrap();
        for (topic, values) in found {
            assert_eq!(values.unwrap(), none, "{topic}");
        }
        for node in self.runtime.block_on(admin.describe_cluster()).unwrap().nodes {
            let values = self.runtime.block_on(admin.broker_throttle(node.id)).unwrap();
            assert_eq!(values, none, "broker {}", node.id);
        }
    }

    /// Kills the JVM of a pod.
    pub(crate) fn kill(&self, pod: &str) {
        crate::up::signal(self.place.java(pod), rustix::process::Signal::KILL);
    }

    /// Ends the load and checks that no record of it was lost; then looks for unexpected faults.
    pub(crate) fn end(mut self) {
        self.nothing_is_lost();
        self.place.ground.assert_operator_is_content();
    }

    /// Ends the load and checks that no record of it was lost.
    pub(crate) fn nothing_is_lost(&mut self) {
        let load = self.load.take().unwrap();
        let report = self.runtime.block_on(load.stop()).unwrap();
        println!("{} records, longest gap {:?}", report.acknowledged, report.longest_gap);
        report.check().unwrap();
    }
}
