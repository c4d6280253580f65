//! A cluster under load whose nodes come and go, for the tests that look on.
//!
//! All the time a producer with `acks=all` writes and a consumer reads, and at the end no record is missing.
//! What is asked for is edited with kubectl, as people do; what has come of it is asked of Kafka itself.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use kafka_admin::{Admin, Bootstrap, ClientOptions, Cluster, Endpoint, Layout, NewTopic, Quorum};
use model::{NodeId, TopicName, TopicPartition};
use serde_json::{Value, json};
use testkit::{Load, LoadOptions};
use tokio::runtime::Runtime;

use crate::kafka::{Ground, Place, wait_for, wait_for_mut};

/// The cluster of the examples.
pub(crate) const CLUSTER: &str = "my-cluster";
/// The id of a cluster that begins with a static quorum.
pub(crate) const STATIC_ID: &str = "q3KxBhPXQ9-Jc0Ckhc1d-g";
/// What the load is put on.
pub(crate) const LOADED: &str = "loaded";
/// After which a controller that does not fetch counts as out of date, in these clusters.
pub(crate) const FETCH_TIMEOUT_MS: u64 = 10_000;

/// A slow machine must not look like a fault; and few partitions are moved quickly.
pub(crate) const PATIENT: &str = "    config:
      broker.session.timeout.ms: 30000
      controller.quorum.fetch.timeout.ms: 10000
      controller.quorum.election.timeout.ms: 3000
      replica.lag.time.max.ms: 60000
      offsets.topic.num.partitions: 3
      group.initial.rebalance.delay.ms: 0
";

/// A local Kubernetes with three machines.
pub(crate) fn ground() -> Ground {
    Ground::start_as_asked(&["--nodes", "3"])
}

/// A cluster, the load on it, and what it takes to wait for either.
pub(crate) struct Elastic<'a> {
    pub(crate) place: Place<'a>,
    runtime: Runtime,
    load: Option<Load>,
}

/// What a cluster shall have become: its pools with the ids of their nodes, and who is what.
pub(crate) struct Shape<'a> {
    pub(crate) pools: &'a [(&'a str, &'a [i32])],
    pub(crate) brokers: &'a [i32],
    pub(crate) voters: &'a [i32],
}

/// The text of one of the examples.
fn read(example: &str) -> String {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::read_to_string(examples.join(example)).unwrap()
}

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

impl<'a> Elastic<'a> {
    /// A cluster of one of the examples, as soon as it is ready and records flow.
    pub(crate) fn start(ground: &'a Ground, namespace: &str, example: &str) -> Self {
        Self::start_with(ground, namespace, &read(example))
    }

    /// A cluster with one controller and three brokers: the fewest processes for tests of brokers.
    pub(crate) fn with_one_controller(ground: &'a Ground, namespace: &str) -> Self {
        // The pool of controllers is the first in the file.
        let manifest = read("kafka-persistent.yaml").replacen("replicas: 3", "replicas: 1", 1);
        Self::start_with(ground, namespace, &manifest)
    }

    /// A cluster of one of the examples whose record says that its quorum is static, as that of a cluster which
    /// Strimzi made.
    pub(crate) fn with_static_quorum(ground: &'a Ground, namespace: &str, example: &str) -> Self {
        let place = ground.namespace(namespace);
        let record =
            json!({ "clusterId": STATIC_ID, "quorum": { "mode": "static", "staticSeen": true } });
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "my-cluster-gregor", "labels": { "strimzi.io/cluster": CLUSTER } },
            "data": { "record.json": record.to_string() },
        });
        place.apply(&map.to_string());
        Self::start_in(place, &read(example))
    }

    fn start_with(ground: &'a Ground, namespace: &str, manifest: &str) -> Self {
        Self::start_in(ground.namespace(namespace), manifest)
    }

    fn start_in(place: Place<'a>, manifest: &str) -> Self {
        place.apply(&manifest.replace("    config:\n", PATIENT));
        place.ready(CLUSTER);
        Self::on(place)
    }

    /// A cluster that is ready, as soon as records flow. It has the brokers 0, 1 and 2.
    pub(crate) fn on(place: Place<'a>) -> Self {
        Self::on_brokers(place, &[0, 1, 2])
    }

    /// The same, of a cluster that has these three brokers.
    pub(crate) fn on_brokers(place: Place<'a>, ids: &[i32]) -> Self {
        let (a, b, c) = (ids[0], ids[1], ids[2]);
        let ground = place.ground;
        let runtime = Runtime::new().unwrap();
        let mut elastic = Self { place, runtime, load: None };
        elastic.create(LOADED, &[&[a, b, c], &[b, c, a], &[c, a, b]]);
        let bootstrap = elastic.place.bootstrap(CLUSTER, "plain");
        let options = LoadOptions::new(ground.home.clone(), &bootstrap, LOADED);
        let load = Load::start(options.hosts(ground.hosts()).rate(50));
        elastic.load = Some(elastic.runtime.block_on(load).unwrap());
        elastic
    }

    /// Ends the load and fails if a record is missing; then looks for unexpected faults.
    pub(crate) fn end(mut self) {
        self.nothing_is_lost();
        self.place.ground.assert_operator_is_content();
    }

    /// Ends the load and fails if a record is missing.
    pub(crate) fn nothing_is_lost(&mut self) {
        let load = self.load.take().unwrap();
        let report = self.runtime.block_on(load.stop()).unwrap();
        println!("{report:?}");
        report.check().unwrap();
    }

    /// Waits until records flow: what was written from now on has been read.
    pub(crate) fn serves(&self) {
        let load = self.load.as_ref().unwrap();
        self.runtime.block_on(load.wait_acknowledged(50)).unwrap();
    }

    /// A client of the brokers.
    fn admin(&self) -> Admin {
        let call_timeout = Duration::from_secs(60);
        self.place.admin(CLUSTER, ClientOptions { call_timeout, ..ClientOptions::default() })
    }

    fn registered(&self) -> Result<Cluster, String> {
        let found = self.runtime.block_on(async { self.admin().describe_cluster().await });
        found.map_err(|error| format!("{error:?}"))
    }

    /// The quorum, or why it is unknown: its leader may be about to change.
    pub(crate) fn quorum_now(&self) -> Result<Quorum, String> {
        let found = self.runtime.block_on(async { self.admin().describe_quorum().await });
        found.map_err(|error| format!("{error:?}"))
    }

    /// The quorum, as soon as it is known.
    pub(crate) fn quorum(&self) -> Quorum {
        let mut found = None;
        wait_for_mut(|| self.quorum_now().map(|quorum| found = Some(quorum)));
        found.unwrap()
    }

    /// Creates a topic with a partition on each of these lists of brokers.
    pub(crate) fn create(&self, topic: &str, partitions: &[&[i32]]) {
        let on = partitions.iter().map(|ids| ids.iter().map(|id| node(*id)).collect()).collect();
        let mut new = NewTopic::new(TopicName::new(topic).unwrap(), 1, 1);
        new.layout = Layout::Assigned(on);
        let made = self.runtime.block_on(async { self.admin().create_topics(&[new], false).await });
        assert!(made.unwrap().values().all(Result::is_ok));
    }

    /// Creates a topic where Kafka likes.
    pub(crate) fn create_with(&self, topic: &str, partitions: i32, replicas: i16) {
        let new = NewTopic::new(TopicName::new(topic).unwrap(), partitions, replicas);
        let made = self.runtime.block_on(async { self.admin().create_topics(&[new], false).await });
        let made = made.unwrap();
        assert!(made.values().all(Result::is_ok), "{made:?}");
    }

    /// All brokers that have a replica of a topic.
    pub(crate) fn replicas(&self, topic: &str) -> BTreeSet<i32> {
        let names = [TopicName::new(topic).unwrap()];
        let page = self.runtime.block_on(async { self.admin().describe_topics(&names).await });
        let topics = page.unwrap().topics;
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        partitions.flat_map(|partition| &partition.replicas).map(|id| id.get()).collect()
    }

    /// The brokers in the ISR of every partition under load, as this broker of a pool knows it; none if it does not
    /// answer. A broker that is fenced is in no list of the others, so it is asked under its own name.
    pub(crate) fn in_sync_at(&self, pool: &str, broker: i32) -> BTreeSet<i32> {
        let namespace = &self.place.namespace;
        let host = format!("{CLUSTER}-{pool}-{broker}.{CLUSTER}-kafka-brokers.{namespace}.svc");
        let names = Arc::new(self.place.names_of_hosts());
        let options = ClientOptions { names, ..ClientOptions::default() };
        let itself = Bootstrap::Brokers(vec![Endpoint::new(host, 9092)]);
        let admin = Admin::new(itself, options).unwrap().at(node(broker));
        let topics = [TopicName::new(LOADED).unwrap()];
        let page = self.runtime.block_on(async { admin.describe_topics(&topics).await });
        let Ok(page) = page else { return BTreeSet::new() };
        let partitions = page.topics.iter().flat_map(|topic| &topic.partitions);
        let sets = partitions.map(|p| p.isr.iter().map(|id| id.get()).collect::<BTreeSet<i32>>());
        sets.reduce(|all, one| &all & &one).unwrap_or_default()
    }

    pub(crate) fn delete(&self, topic: &str) {
        let names = [TopicName::new(topic).unwrap()];
        let gone = self.runtime.block_on(async { self.admin().delete_topics(&names).await });
        assert!(gone.unwrap().values().all(Result::is_ok));
    }

    /// Moves every partition that has a replica on one of these brokers to others, and waits for it.
    pub(crate) fn empty(&self, from: &[i32], to: &[i32]) {
        let from: BTreeSet<NodeId> = from.iter().map(|id| node(*id)).collect();
        let to: Vec<NodeId> = to.iter().map(|id| node(*id)).collect();
        let moved = async {
            let admin = self.admin();
            let mut targets = BTreeMap::new();
            for topic in admin.describe_topics(&[]).await.unwrap().topics {
                for partition in &topic.partitions {
                    let stay: Vec<NodeId> = partition
                        .replicas
                        .iter()
                        .filter(|id| !from.contains(id))
                        .copied()
                        .collect();
                    let mut others: Vec<NodeId> =
                        to.iter().filter(|id| !stay.contains(id)).copied().collect();
                    let turn = usize::try_from(partition.id.0).unwrap() % others.len().max(1);
                    others.rotate_left(turn);
                    let missing = partition.replicas.len() - stay.len();
                    let replicas = stay.into_iter().chain(others.into_iter().take(missing));
                    let name =
                        TopicPartition { topic: topic.name.clone(), partition: partition.id };
                    if missing > 0 {
                        targets.insert(name, Some(replicas.collect::<Vec<_>>()));
                    }
                }
            }
            assert!(!targets.is_empty());
            let begun = admin.alter_reassignments(&targets, true).await.unwrap();
            assert!(begun.values().all(Result::is_ok), "{begun:?}");
        };
        self.runtime.block_on(moved);
        wait_for(|| {
            let moves = self.runtime.block_on(async { self.admin().list_reassignments().await });
            let moves = moves.map_err(|error| format!("{error:?}"))?;
            if moves.is_empty() { Ok(()) } else { Err(format!("{moves:?}")) }
        });
    }

    pub(crate) fn scale(&self, pool: &str, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        self.place.kubectl(&["scale", "kafkanodepool", pool, &replicas]);
    }

    pub(crate) fn edit_pool(&self, pool: &str, patch: &Value) {
        let patch = patch.to_string();
        self.place.kubectl(&["patch", "kafkanodepool", pool, "--type", "merge", "-p", &patch]);
    }

    pub(crate) fn set_roles(&self, pool: &str, roles: &[&str]) {
        self.edit_pool(pool, &json!({ "spec": { "roles": roles } }));
    }

    /// Adds a pool like those of the examples.
    pub(crate) fn add_pool(&self, pool: &str, roles: &[&str], replicas: u32) {
        let volume = json!({ "id": 0, "type": "persistent-claim", "size": "1Gi", "deleteClaim": true,
                             "kraftMetadata": "shared" });
        let pool = json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaNodePool",
            "metadata": { "name": pool, "labels": { "strimzi.io/cluster": CLUSTER } },
            "spec": {
                "replicas": replicas,
                "roles": roles,
                "storage": { "type": "jbod", "volumes": [volume] },
            },
        });
        let file = self.place.ground.world.file("pool.json", &pool.to_string());
        self.place.kubectl(&["apply", "-f", &file]);
    }

    /// The pods of a pool with their uids.
    pub(crate) fn pods(&self, pool: &str) -> BTreeMap<String, String> {
        self.place.pods_of_pool(CLUSTER, pool)
    }

    /// The message of a warning of the cluster.
    pub(crate) fn warning(&self, reason: &str) -> Option<String> {
        self.place.warning(CLUSTER, reason)
    }

    /// Waits for a warning that has these words.
    pub(crate) fn warns(&self, reason: &str, words: &[&str]) {
        wait_for(|| {
            let conditions =
                || self.place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
            let message = self.warning(reason).ok_or_else(conditions)?;
            let told = words.iter().all(|word| message.contains(word));
            if told { Ok(()) } else { Err(message) }
        });
    }

    pub(crate) fn warns_no_more(&self, reason: &str) {
        wait_for(|| self.warning(reason).map_or(Ok(()), Err));
    }

    /// Waits until the cluster is ready and what it says of itself, what runs, and what Kafka knows are all
    /// the same: this.
    pub(crate) fn becomes(&self, shape: &Shape<'_>) {
        self.has(shape);
        self.serves();
    }

    /// The same without load.
    pub(crate) fn has(&self, shape: &Shape<'_>) {
        wait_for(|| self.differs(shape).map_or(Ok(()), Err));
    }

    fn differs(&self, shape: &Shape<'_>) -> Option<String> {
        let mut wrong = Vec::new();
        let mut same = |what: &str, found: Vec<i64>, wanted: &[i32]| {
            let wanted: Vec<i64> = wanted.iter().map(|id| i64::from(*id)).collect();
            if found != wanted {
                wrong.push(format!("{what}: {found:?}, not {wanted:?}"));
            }
        };
        let kafka = self.place.get("kafka", CLUSTER);
        let status = &kafka["status"];
        let mut all = BTreeSet::new();
        for (pool, ids) in shape.pools {
            all.extend(ids.iter().copied());
            let told = self.place.get("kafkanodepool", pool);
            same(&format!("status of {pool}"), numbers(&told["status"]["nodeIds"]), ids);
            let replicas = i32::try_from(ids.len()).unwrap();
            let found = told["status"]["replicas"].as_i64().into_iter().collect();
            same(&format!("replicas of {pool}"), found, &[replicas]);
            let suffix = |pod: &String| pod.rsplit('-').next()?.parse::<i64>().ok();
            let mut pods: Vec<_> = self.pods(pool).keys().filter_map(suffix).collect();
            pods.sort_unstable();
            same(&format!("pods of {pool}"), pods, ids);
        }
        let all: Vec<i32> = all.into_iter().collect();
        same("nodes", numbers(&status["nodeIds"]), &all);
        let (brokers, quorum) = match (self.registered(), self.quorum_now()) {
            (Ok(brokers), Ok(quorum)) => (brokers, quorum),
            (Err(error), _) | (_, Err(error)) => return Some(error),
        };
        let live = brokers.nodes.iter().filter(|one| !one.fenced).map(|one| one.id.get());
        same("live brokers", live.map(i64::from).collect(), shape.brokers);
        let registered = brokers.nodes.iter().map(|one| i64::from(one.id.get()));
        same("registered brokers", registered.collect(), shape.brokers);
        let voters = quorum.voters.iter().map(|one| i64::from(one.id.get()));
        same("voters", voters.collect(), shape.voters);
        let told: BTreeMap<_, _> = status["controllers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| (one["id"].as_i64(), one["directoryId"].as_str().map(str::to_owned)))
            .collect();
        let voters = quorum.voters.iter().map(|one| {
            (Some(i64::from(one.id.get())), one.directory.map(|directory| directory.to_string()))
        });
        if told != voters.collect() {
            wrong.push(format!("status.controllers: {told:?}"));
        }
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is = |kind: &str| conditions.iter().any(|one| one["type"] == kind);
        if !is("Ready") || is("Progressing") {
            wrong.push(status["conditions"].to_string());
        }
        let count = self.place.pods().len();
        if count != all.len() {
            wrong.push(format!("{count} pods"));
        }
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }

    /// Lets no pod start, or lets them again.
    pub(crate) fn cordon_machines(&self, closed: bool) {
        let machines = self.place.ground.kubectl(&["get", "nodes", "-o", "name"]);
        let verb = if closed { "cordon" } else { "uncordon" };
        for machine in machines.lines() {
            self.place.ground.kubectl(&[verb, machine.trim_start_matches("node/")]);
        }
    }
}

impl Drop for Elastic<'_> {
    /// What a test that failed leaves to look at.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.place.ground.operator_log();
            let lines: Vec<_> = log.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(200)..].join("\n"));
            println!("{}", self.place.kubectl(&["get", "pods,knp,kafka,pvc", "-o", "wide"]));
        }
    }
}
