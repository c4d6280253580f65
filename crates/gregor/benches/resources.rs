//! Topics and users as resources at their design point, with a real Kafka node and a real API server: each figure with its
//! goal, and with what is known of Strimzi's operators and exporter.
//!
//! `GREGOR_BENCH_OBJECTS` is the number of resources of each kind (10,000). There is one broker, so topics have one replica.
//! The figures of Strimzi are those that its users and its own tests have published for other machines: compare the order
//! of magnitude only.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

#[path = "../tests/kafka/mod.rs"]
mod kafka;
#[path = "../tests/up/mod.rs"]
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use control::lag::{
    Family, Filter, Group, Partition, Patterns, Picture, SERIES_MAX, TEXT_BYTES_MAX, Topic, bound,
    labels, render,
};
use futures::stream::{self, StreamExt as _};
use kafka::{Ground, Place};
use kafka_admin::ClientOptions;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use model::{NodeId, TopicName, TopicPartition};
use serde_json::{Value, json};

const OBJECTS: &str = "GREGOR_BENCH_OBJECTS";
const CLUSTER: &str = "c";
const NAMESPACE: &str = "bench";

/// Requests at a time with which resources are created.
const CREATORS: usize = 16;

/// Edits of one resource among all.
const EDITS: usize = 30;

/// The interval of the passes over all resources, unless a spec says otherwise.
const INTERVAL: Duration = Duration::from_secs(120);

/// Nothing here takes longer, with some room.
const LIMIT: Duration = Duration::from_secs(1800);

const MANIFEST: &str = "
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata:
  name: node
  labels: {strimzi.io/cluster: c}
spec:
  replicas: 1
  roles: [controller, broker]
  storage: {type: ephemeral}
  jvmOptions: {-Xms: 2g, -Xmx: 2g}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: c
spec:
  kafka:
    authorization: {type: simple, superUsers: [ANONYMOUS]}
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
      - {name: tls, port: 9093, type: internal, tls: true, authentication: {type: tls}}
      - {name: scram, port: 9094, type: internal, tls: false, authentication: {type: scram-sha-512}}
    config:
      default.replication.factor: 1
      min.insync.replicas: 1
      offsets.topic.replication.factor: 1
  entityOperator: {topicOperator: {}, userOperator: {}}
  kafkaExporter: {}
";

#[tokio::main]
async fn main() {
    let count = std::env::var(OBJECTS).map_or(10_000, |text| text.parse().unwrap());
    let ground = Ground::start(&["--nodes", "1"]);
    let place = ground.namespace(NAMESPACE);
    place.apply(MANIFEST);
    place.ready(CLUSTER);
    let client = ground.world.client().await;
    let bench = Bench { place, client, count };
    println!("{count} KafkaTopics and {count} KafkaUsers");
    row("", "goal", "Strimzi", "here");
    row("---", "---", "---", "---");
    let idle = bench.resident_mib();
    bench.topics_become_ready().await;
    bench.one_topic_changes().await;
    bench.one_bad_topic_harms_no_other().await;
    bench.users_become_ready().await;
    bench.certificates_are_issued_again().await;
    bench.nothing_changes().await;
    let grown = format!("{:.0} MiB more than idle", bench.resident_mib() - idle);
    row("G9 memory", "150 MB more than idle", "12 GiB at 55,100 users", &grown);
    bench.the_operator_starts_again().await;
    bench.metrics_are_collected().await;
    series_of_a_large_cluster_are_made();
}

/// The cluster of goal G10, which no machine of a developer can run: only what the operator computes for it.
fn series_of_a_large_cluster_are_made() {
    let node = |number: i32| NodeId::new(number % 10);
    let partition = |number| Partition {
        number,
        leader: node(number),
        preferred: node(number),
        replicas: 3,
        in_sync: 3,
        oldest: Some(0),
        latest: Some(1_000_000),
    };
    let name = |number: i32| TopicName::new(format!("topic-{number:04}")).unwrap();
    let topic =
        |number| Topic { name: name(number), partitions: (0..100).map(partition).collect() };
    let group = |number| Group {
        id: format!("group-{number:04}"),
        members: Some(3),
        assigned: None,
        committed: (0..40)
            .map(|of| (TopicPartition::new(name(number % 1000), of), 999_000))
            .collect(),
    };
    let mut picture = Picture {
        brokers: Vec::new(),
        topics: (0..1000).map(topic).collect(),
        groups: (0..2000).map(group).collect(),
    };
    let filter = Filter::new(&Patterns::default()).unwrap();
    let begun = Instant::now();
    let dropped = bound(&mut picture, SERIES_MAX, TEXT_BYTES_MAX);
    let common = labels(NAMESPACE, CLUSTER);
    let texts: Vec<_> =
        Family::ALL.iter().map(|family| render(*family, &picture, &filter, &common)).collect();
    let took = begun.elapsed();
    let series = texts.iter().flat_map(|text| text.lines()).count();
    let mib = texts.iter().map(String::len).sum::<usize>() >> 20;
    row(
        "G10 series of 100,000 partitions and 2,000 groups are made",
        "a part of 5 s",
        "-",
        &format!("{took:.1?} for {series} series, {mib} MiB, {dropped} dropped"),
    );
}

/// One figure: a row of the table in `docs/performance.md`.
fn row(what: &str, goal: &str, strimzi: &str, here: &str) {
    println!("| {what:<58} | {goal:<32} | {strimzi:<29} | {here} |");
}

struct Bench<'a> {
    place: Place<'a>,
    client: Client,
    count: usize,
}

/// Counters of the operator: by family, those of all labels.
type Counters = BTreeMap<String, f64>;

impl Bench<'_> {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource(kind))
    }

    async fn create(&self, kind: &str, names: &[String], spec: &Value) {
        let api = &self.api(kind);
        let created = stream::iter(names).map(|name| async move {
            let object = object(kind, name, spec);
            api.create(&PostParams::default(), &object).await.unwrap();
        });
        created.buffer_unordered(CREATORS).collect::<Vec<()>>().await;
    }

    /// Waits until resources are ready in their present generation.
    async fn ready(&self, kind: &str, names: &[String]) {
        let mut missing: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let watch = watcher(self.api(kind), watcher::Config::default());
        let mut watch = std::pin::pin!(watch);
        let begun = Instant::now();
        while !missing.is_empty() {
            let event = tokio::time::timeout(LIMIT, watch.next()).await.expect("no event");
            let Some(Ok(watcher::Event::InitApply(found) | watcher::Event::Apply(found))) = event
            else {
                continue;
            };
            if is_ready(&found) {
                missing.remove(found.name_any().as_str());
            }
            assert!(begun.elapsed() < LIMIT, "{} are not ready", missing.len());
        }
    }

    /// Creates resources; how long it takes until all are ready.
    async fn created(&self, kind: &str, prefix: &str, count: usize, spec: &Value) -> Duration {
        let names: Vec<_> = (0..count).map(|number| format!("{prefix}-{number:05}")).collect();
        let begun = Instant::now();
        tokio::join!(self.create(kind, &names, spec), self.ready(kind, &names));
        begun.elapsed()
    }

    async fn topics_become_ready(&self) {
        let before = self.counters();
        let spec = json!({ "partitions": 1, "replicas": 1 });
        let took = self.created("KafkaTopic", "t", self.count, &spec).await;
        let writes = self.grown(&before, "gregor_writes_total") / self.count as f64;
        let here = format!("{took:.0?}, {writes:.2} writes for each");
        row(
            "G2 new topics until they are ready",
            "150 s, 2 writes for each",
            "8 min (21/s, tuned)",
            &here,
        );
    }

    async fn one_topic_changes(&self) {
        let api = self.api("KafkaTopic");
        let mut times = Vec::new();
        for edit in 0..EDITS {
            let config = json!({ "spec": { "config": { "retention.ms": 1_000_000 + edit } } });
            let begun = Instant::now();
            api.patch("t-00000", &PatchParams::default(), &Patch::Merge(config)).await.unwrap();
            while !is_ready(&api.get("t-00000").await.unwrap()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            times.push(begun.elapsed());
        }
        times.sort();
        let here =
            format!("p50 {:.0?}, slowest of {EDITS} {:.0?}", times[EDITS / 2], times[EDITS - 1]);
        row(
            "G3 one topic is changed among all",
            "p50 0.3 s, p99 1 s",
            "100 ms linger and a batch",
            &here,
        );
    }

    async fn one_bad_topic_harms_no_other(&self) {
        let bad = object("KafkaTopic", "bad", &json!({ "config": { "retention.ms": { "a": 1 } } }));
        let api = self.api("KafkaTopic");
        api.create(&PostParams::default(), &bad).await.unwrap();
        self.created("KafkaTopic", "beside", 99, &json!({ "partitions": 1, "replicas": 1 })).await;
        let bad = api.get("bad").await.unwrap();
        let reason = bad.data["status"]["conditions"][0]["reason"].clone();
        assert_eq!(reason, "InternalError", "{bad:?}");
        let all = api.list(&Default::default()).await.unwrap().items;
        let failed = all.iter().filter(|one| !is_ready(one)).count();
        row(
            "G8 one bad topic among all",
            "1 shows an error",
            "up to 100 lose their pass",
            &format!("{failed} shows an error"),
        );
    }

    async fn users_become_ready(&self) {
        let rule = |name: String| json!({ "resource": { "type": "topic", "name": name }, "operations": ["Read"] });
        let rules: Vec<_> = (0..5).map(|number| rule(format!("t-{number:05}"))).collect();
        let spec = json!({
            "authentication": { "type": "scram-sha-512" },
            "authorization": { "type": "simple", "acls": rules },
        });
        let before = self.counters();
        let took = self.created("KafkaUser", "u", self.count, &spec).await;
        let calls = self.grown(&before, "gregor_kafka_calls_total/create ACLs");
        let here = format!("{took:.0?}, {calls} requests for rules");
        row(
            "G5 new users with 5 rules until they are ready",
            "180 s, 10 requests for rules",
            "18 to 83 min (2 to 9/s)",
            &here,
        );
    }

    async fn certificates_are_issued_again(&self) {
        let count = self.count / 10;
        let spec = json!({ "authentication": { "type": "tls" } });
        let issued = self.created("KafkaUser", "s", count, &spec).await;
        let before = self.counters();
        let begun = Instant::now();
        let mark = "strimzi.io/force-renew=true";
        self.place.kubectl(&["annotate", "secret", "c-clients-ca-cert", mark]);
        self.until(|| self.grown(&before, "gregor_writes_total/Secret") >= count as f64).await;
        let here = format!("{:.0?} for {count}, {issued:.0?} when they were new", begun.elapsed());
        row(
            "G7 the clients CA is renewed until all are issued again",
            "150 s for 10,000",
            "-",
            &here,
        );
    }

    /// One interval in which nothing changes.
    async fn nothing_changes(&self) {
        let (begun, seconds) = (self.counters(), self.processor_seconds());
        let time = INTERVAL + INTERVAL / 10;
        tokio::time::sleep(time).await;
        let share = (self.processor_seconds() - seconds) / time.as_secs_f64() * 100.0;
        let writes = self.grown(&begun, "gregor_writes_total");
        let calls = self.grown(&begun, "gregor_kafka_calls_total");
        let here = format!("{share:.1} % of a core, {writes} writes, {calls} calls to Kafka");
        let strimzi = "10,000 writes and 20,000 GETs";
        row(
            &format!("G4, G6 nothing changes for {INTERVAL:?}"),
            "5 % of a core, 0 writes",
            strimzi,
            &here,
        );
    }

    async fn the_operator_starts_again(&self) {
        let pid = self.operator().to_string();
        assert!(
            std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success()
        );
        let killed = Instant::now();
        self.until(|| self.page("/metrics").is_some_and(|page| page.contains("gregor_leader 1")))
            .await;
        let leads = Instant::now();
        let passes = "strimzi_reconciliations_successful_total/KafkaTopic";
        let all = self.count as f64;
        self.until(|| self.counters().get(passes).is_some_and(|done| *done >= all)).await;
        let counters = self.counters();
        let of = |name: &str| counters.get(name).copied().unwrap_or_default();
        let here = format!(
            "{:.1?} ({:.0?} after it was killed), {} writes, {} calls to Kafka",
            leads.elapsed(),
            killed.elapsed(),
            of("gregor_writes_total"),
            of("gregor_kafka_calls_total")
        );
        row(
            "G1 the operator starts until all topics are verified",
            "30 s, 0 writes, 50 calls",
            "does not start with defaults",
            &here,
        );
    }

    async fn metrics_are_collected(&self) {
        const GROUPS: usize = 200;
        let admin = self.place.admin(CLUSTER, ClientOptions::default());
        let topics = (0..self.count.min(50)).map(|number| format!("t-{number:05}"));
        let keys = topics.map(|name| TopicPartition::new(TopicName::new(&name).unwrap(), 0));
        let commits: BTreeMap<_, _> = keys.map(|key| (key, 0)).collect();
        for group in 0..GROUPS {
            admin.commit_offsets(&format!("g{group}"), &commits).await.unwrap();
        }
        let last = format!("consumergroup=\"g{}\"", GROUPS - 1);
        self.until(|| self.page("/metrics/kafka").is_some_and(|page| page.contains(&last))).await;
        let begun = Instant::now();
        let page = self.page("/metrics/kafka").unwrap();
        let answered = begun.elapsed();
        let line =
            page.lines().find(|line| line.starts_with("gregor_kafka_metrics_collection_duration"));
        let took = line.and_then(|line| line.rsplit(' ').next()).unwrap_or("?");
        let series = page.lines().filter(|line| line.starts_with("kafka_")).count();
        let here = format!("{took} s for {series} series, answered in {answered:.1?}");
        row(
            "G10 metrics of topics and 200 groups are collected",
            "5 s for 100,000 partitions, 1 s",
            "minutes, or 504",
            &here,
        );
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < LIMIT, "{}", self.place.ground.operator_log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The process of the operator.
    fn operator(&self) -> u32 {
        let all = self.place.ground.world.processes();
        let is_it = |process: &&up::Process| {
            process.is("gregor") && process.words.get(1).is_some_and(|word| word == "operator")
        };
        all.iter().find(is_it).unwrap().pid
    }

    fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.operator())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// The time that the operator has used of processors, by ticks of 10 ms.
    fn processor_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.operator())).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
    }

    fn page(&self, path: &str) -> Option<String> {
        let pods = self.place.ground.place("gregor").list("pods");
        let address = pods.first()?["status"]["podIP"].as_str()?.to_owned();
        let mut stream = TcpStream::connect((address.as_str(), 8080)).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        Some(page)
    }

    /// Counters by family, and by family and what they are about.
    fn counters(&self) -> Counters {
        let page = self.page("/metrics").unwrap_or_default();
        let mut sums = Counters::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let (family, labels) = name.split_once('{').unwrap_or((name, ""));
            let is_counted = family != "gregor_writes_total" || labels.contains("\"Changed\"");
            let (true, Ok(value)) = (is_counted, value.parse::<f64>()) else { continue };
            *sums.entry(family.to_owned()).or_default() += value;
            for (label, of) in [("kind", family), ("call", family)] {
                let mark = format!("{label}=\"");
                let about =
                    labels.split(',').find_map(|one| one.trim_end_matches('}').strip_prefix(&mark));
                if let Some(about) = about {
                    *sums.entry(format!("{of}/{}", about.trim_end_matches('"'))).or_default() +=
                        value;
                }
            }
        }
        sums
    }

    fn grown(&self, before: &Counters, name: &str) -> f64 {
        let at = |all: &Counters| all.get(name).copied().unwrap_or_default();
        at(&self.counters()) - at(before)
    }
}

fn resource(kind: &str) -> ApiResource {
    ApiResource {
        group: "kafka.strimzi.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "kafka.strimzi.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    let labels = json!({ "strimzi.io/cluster": CLUSTER });
    serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": kind,
        "metadata": { "name": name, "labels": labels }, "spec": spec,
    }))
    .unwrap()
}

fn is_ready(found: &DynamicObject) -> bool {
    let status = &found.data["status"];
    let ready = &status["conditions"][0];
    ready["type"] == "Ready"
        && ready["status"] == "True"
        && status["observedGeneration"].as_i64() == found.metadata.generation
}
