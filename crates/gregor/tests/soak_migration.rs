//! A cluster that Strimzi left: it is adopted with its disks, its id and its keys, and then its static quorum
//! becomes a dynamic one, all under load.
//!
//! The cluster is made here with a static quorum, and turned into the layout of Strimzi while no operator runs
//! (`strimzi_layout` says what stands in for the real thing). No record of ours is left then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod strimzi_layout;
mod up;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kafka::{Ground, Place, wait_for};
use serde_json::{Value, json};
use strimzi_layout::{CLUSTER, KINDS};
use testkit::{Load, LoadOptions};

const CLUSTER_ID: &str = "q3KxBhPXQ9-Jc0Ckhc1d-g";
const ANNOTATION: &str = "strimzi.io/kraft-quorum-migration";
const DEPLOYMENT: &str = "deployment/gregor-operator";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_strimzi_left_is_adopted_and_migrated_to_a_dynamic_quorum() {
    let ground = Ground::start_as_asked(&["--nodes", "3"]);
    let place = ground.namespace("left");
    a_static_cluster(&place);
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    place.produce(&bootstrap, "kept", "", 1000);
    operators(&ground, 0);
    strimzi_layout::turn(&ground.world.client().await, "left").await;
    nothing_is_ours(&place);
    let before = Kept::of(&place);
    let load = load(&ground, &bootstrap).await;

    operators(&ground, 1);
    is_adopted(&place, &before);
    place.consume(&bootstrap, "kept", "", 1000);
    controllers_stay_as_they_are(&place);

    is_migrated(&ground, &place);
    assert_eq!(Kept::of(&place), before);
    place.consume(&bootstrap, "kept", "", 1000);
    asking_again_means_nothing(&place);

    load.wait_acknowledged(100).await.unwrap();
    let report = load.stop().await.unwrap();
    println!("{} records, longest gap {:?}", report.acknowledged, report.longest_gap);
    report.check().unwrap();
    ground.assert_operator_is_content();
}

/// Three controllers and three brokers with the authority that Strimzi would have made, and a static
/// quorum, as the record says.
fn a_static_cluster(place: &Place<'_>) {
    let record =
        json!({ "clusterId": CLUSTER_ID, "quorum": { "mode": "static", "staticSeen": true } });
    let mut objects = strimzi_layout::authority();
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "my-cluster-gregor", "labels": { "strimzi.io/cluster": CLUSTER } },
        "data": { "record.json": record.to_string() },
    }));
    place.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string());
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-persistent.yaml");
    // A machine that is busy is not a node that is gone.
    let patient = "    config:\n      broker.session.timeout.ms: 30000\n      \
                   controller.quorum.fetch.timeout.ms: 10000\n      \
                   controller.quorum.election.timeout.ms: 5000\n";
    let example = fs::read_to_string(example).unwrap().replace("    config:\n", patient);
    place.apply(&example);
    place.ready(CLUSTER);
}

/// So many operators run, and no others.
fn operators(ground: &Ground, count: usize) {
    ground.kubectl(&["-n", "gregor", "scale", DEPLOYMENT, &format!("--replicas={count}")]);
    wait_for(|| {
        let pods = ground.kubectl(&["-n", "gregor", "get", "pods", "-o", "name"]);
        if pods.lines().count() == count { Ok(()) } else { Err(pods) }
    });
}

/// Nothing says any more who made it.
fn nothing_is_ours(place: &Place<'_>) {
    for object in place.list(KINDS) {
        let metadata = &object["metadata"];
        let empty = serde_json::Map::new();
        let marks = metadata["annotations"].as_object().unwrap_or(&empty).keys();
        let mut marks = marks.filter(|mark| mark.starts_with("gregor.io/"));
        assert_eq!(marks.next(), None, "{metadata}");
        assert_ne!(metadata["labels"]["app.kubernetes.io/managed-by"], "gregor", "{metadata}");
        assert!(!metadata["finalizers"].to_string().contains("gregor.io/"), "{metadata}");
        assert_ne!(metadata["name"], "my-cluster-gregor");
    }
    let managers = place.kubectl(&["get", KINDS, "--show-managed-fields", "-o", "json"]);
    assert!(!managers.contains("\"manager\": \"gregor\""), "{managers}");
}

/// What must be the same before and after.
#[derive(Debug, PartialEq)]
struct Kept {
    cluster_id: Value,
    /// Claims with their uids.
    claims: BTreeMap<String, String>,
    /// The authorities, byte by byte.
    authorities: BTreeMap<String, Value>,
    services: BTreeMap<String, String>,
}

impl Kept {
    fn of(place: &Place<'_>) -> Self {
        let uids = |kind: &str| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let all = place.list(kind).into_iter();
            all.map(|one| (text(&one["metadata"]["name"]), text(&one["metadata"]["uid"]))).collect()
        };
        let secrets = ["cluster-ca", "cluster-ca-cert", "clients-ca", "clients-ca-cert"];
        let secrets = secrets.map(|name| format!("{CLUSTER}-{name}"));
        Self {
            cluster_id: place.get("kafka", CLUSTER)["status"]["clusterId"].clone(),
            claims: uids("pvc"),
            authorities: secrets
                .map(|name| (name.clone(), place.get("secret", &name)["data"].clone()))
                .into(),
            services: uids("services"),
        }
    }
}

async fn load(ground: &Ground, bootstrap: &str) -> Load {
    let words = ["--bootstrap-server", bootstrap, "--create", "--topic", "load"];
    let words = [&words[..], &["--partitions", "6", "--replication-factor", "3"]].concat();
    ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
    let options = LoadOptions::new(ground.home.clone(), bootstrap, "load");
    let options = options.hosts(ground.hosts()).rate(50);
    Load::start(options).await.unwrap()
}

fn nodes(place: &Place<'_>) -> Vec<Value> {
    let mut pods = place.list("pods");
    pods.retain(|pod| pod["metadata"]["labels"]["strimzi.io/name"] == "my-cluster-kafka");
    pods
}

/// Waits until every node was started with this word about the quorum, and serves. Each has its own time:
/// they are restarted one after the other.
fn are_told(place: &Place<'_>, word: &str) {
    for count in 1..=6 {
        wait_for(|| {
            let is_told = |pod: &&Value| {
                let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                pod["metadata"]["annotations"]["gregor.io/quorum"] == word
                    && all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
            };
            let told = nodes(place).iter().filter(is_told).count();
            let status = || place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
            if told >= count { Ok(()) } else { Err(format!("{told}: {}", status())) }
        });
    }
}

fn server_configs(place: &Place<'_>) -> Vec<String> {
    let of = |pod: &Value| {
        let map = place.get("configmap", pod["metadata"]["name"].as_str().unwrap());
        map["data"]["server.config"].as_str().unwrap().to_owned()
    };
    nodes(place).iter().map(of).collect()
}

fn is_adopted(place: &Place<'_>, before: &Kept) {
    are_told(place, "static");
    let kafka = place.ready(CLUSTER);
    assert_eq!(kafka["status"]["clusterId"], CLUSTER_ID);
    assert_eq!(kafka["status"]["initialControllers"], Value::Null);
    let voters = kafka["status"]["controllers"].as_array().unwrap();
    // Kafka knows the disks of its voters only if the quorum is dynamic.
    assert!(voters.iter().all(|voter| voter["directoryId"] == Value::Null), "{voters:?}");
    let ids: Vec<_> = voters.iter().map(|voter| voter["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [3, 4, 5]);
    assert_eq!(Kept::of(place), *before);
    for config in server_configs(place) {
        assert!(config.contains("controller.quorum.voters=3@"), "{config}");
    }
    assert_eq!(record(place)["quorum"]["mode"], "static");
    // Controllers were replaced before brokers.
    let created = |role: &str| -> Vec<String> {
        let mut times: Vec<_> = nodes(place)
            .iter()
            .filter(|pod| pod["metadata"]["labels"][role] == "true")
            .map(|pod| pod["metadata"]["creationTimestamp"].as_str().unwrap().to_owned())
            .collect();
        times.sort();
        times
    };
    let controllers = created("strimzi.io/controller-role");
    let brokers = created("strimzi.io/broker-role");
    assert!(controllers.last() <= brokers.first(), "{controllers:?} {brokers:?}");
}

fn record(place: &Place<'_>) -> Value {
    let map = place.get("configmap", "my-cluster-gregor");
    serde_json::from_str(map["data"]["record.json"].as_str().unwrap()).unwrap()
}

fn is_warned(place: &Place<'_>, reason: &str, expected: bool) {
    wait_for(|| match (place.warning(CLUSTER, reason), expected) {
        (Some(_), true) | (None, false) => Ok(()),
        (found, _) => Err(format!("{reason}: {found:?}")),
    });
}

fn controllers_stay_as_they_are(place: &Place<'_>) {
    place.kubectl(&["scale", "kafkanodepool", "controller", "--replicas=4"]);
    is_warned(place, "StaticQuorum", true);
    let message = place.warning(CLUSTER, "StaticQuorum").unwrap();
    assert!(message.contains("not added: 6") && message.contains(ANNOTATION), "{message}");
    place.ready(CLUSTER);
    assert_eq!((nodes(place).len(), place.names("pvc").len()), (6, 6));
    place.kubectl(&["scale", "kafkanodepool", "controller", "--replicas=2"]);
    wait_for(|| match place.warning(CLUSTER, "StaticQuorum") {
        Some(message) if message.contains("not removed: 5") => Ok(()),
        found => Err(format!("{found:?}")),
    });
    place.ready(CLUSTER);
    assert_eq!(nodes(place).len(), 6);
    place.kubectl(&["scale", "kafkanodepool", "controller", "--replicas=3"]);
    is_warned(place, "StaticQuorum", false);
}

fn is_migrated(ground: &Ground, place: &Place<'_>) {
    place.kubectl(&["annotate", "kafka", CLUSTER, &format!("{ANNOTATION}=true")]);
    // Killed when the quorum is another one already, and the nodes do not know it yet.
    wait_for(|| match record(place)["quorumMigration"].as_str() {
        Some("rolling") => Ok(()),
        found => Err(format!("{found:?}: {:?}", place.condition(CLUSTER, "Progressing"))),
    });
    let words = ["-n", "gregor", "delete", "pod", "--all", "--force", "--grace-period=0"];
    ground.kubectl(&words);
    are_told(place, "dynamic");
    wait_for(|| {
        let left = place.get("kafka", CLUSTER)["metadata"]["annotations"][ANNOTATION].clone();
        if left.is_null() { Ok(()) } else { Err(format!("the annotation is {left}")) }
    });
    let kafka = place.ready(CLUSTER);
    assert_eq!(record(place)["quorumMigration"], "done");
    assert_eq!(kafka["status"]["clusterId"], CLUSTER_ID);
    let voters = kafka["status"]["controllers"].as_array().unwrap();
    let initial = kafka["status"]["initialControllers"].as_str().unwrap();
    assert_eq!(voters.len(), 3);
    for voter in voters {
        let (id, directory) = (&voter["id"], voter["directoryId"].as_str().unwrap());
        assert_eq!(directory, disk(ground, id.as_u64().unwrap()), "the disk of {id}");
        let listed = initial.split(',').any(|one| {
            one.starts_with(&format!("{id}@")) && one.ends_with(&format!(":{directory}"))
        });
        assert!(listed, "{voter} is not in {initial}");
    }
    for config in server_configs(place) {
        assert!(config.contains("controller.quorum.bootstrap.servers="), "{config}");
        assert!(!config.contains("controller.quorum.voters="), "{config}");
    }
}

/// The id of the disk that a controller's metadata is on, as it says itself.
fn disk(ground: &Ground, id: u64) -> String {
    let mut folders = vec![ground.world.state()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            let found = path.join("meta.properties");
            if !kind.is_dir() {
                continue;
            }
            if path.ends_with(format!("kafka-log{id}")) && found.exists() {
                let text = fs::read_to_string(found).unwrap();
                let line = text.lines().find_map(|line| line.strip_prefix("directory.id="));
                return line.unwrap().to_owned();
            }
            folders.push(path);
        }
    }
    panic!("node {id} has no disk")
}

/// On a dynamic quorum the annotation is told of, and nothing else happens.
fn asking_again_means_nothing(place: &Place<'_>) {
    let before = place.pods();
    place.kubectl(&["annotate", "kafka", CLUSTER, &format!("{ANNOTATION}=true")]);
    is_warned(place, "QuorumMigrationIgnored", true);
    let events = place.kubectl(&["get", "events.events.k8s.io", "-o", "json"]);
    assert!(events.contains("QuorumMigrationIgnored"), "{events}");
    place.kubectl(&["annotate", "kafka", CLUSTER, &format!("{ANNOTATION}-")]);
    is_warned(place, "QuorumMigrationIgnored", false);
    assert_eq!(place.pods(), before);
}
