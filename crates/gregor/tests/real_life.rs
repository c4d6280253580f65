//! The life of an installation on a real cluster under load: its versions, a report without secrets, a record of a newer
//! operator, a Strimzi operator in the same namespaces, a lost record with lost statuses, a lost key, a lost namespace, and the
//! end of the operator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use elastic::{CLUSTER, Elastic, PATIENT, Shape};
use kafka::{Ground, Place, wait_for};
use serde_json::{Value, json};
use up::Run;
use zip::ZipArchive;

const NAMESPACE: &str = "life";
const RECORD: &str = "my-cluster-gregor";
/// With gaps: ids that nobody would choose again.
const IDS: &[i32] = &[3, 7, 12];
/// Records that are written before the cluster is lost.
const RECORDS: u32 = 2000;
const PASSWORD: &str = "canary-password-of-alice";

#[test]
fn an_installation_lives_and_ends_and_loses_nothing() {
    let ground = elastic::ground();
    let place = ground.namespace(NAMESPACE);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kafka-dual-role.yaml");
    let manifest = fs::read_to_string(example).unwrap();
    // Alice logs in with a password that the test knows.
    let tls = "        tls: true\n";
    let manifest = manifest
        .replace("    config:\n", PATIENT)
        .replace(
            "  name: dual-role\n",
            "  name: dual-role\n  annotations: {strimzi.io/next-node-ids: \"[3,7,12]\"}\n",
        )
        .replace(tls, &format!("{tls}        authentication: {{type: scram-sha-512}}\n"));
    place.apply(&(manifest + &alice()));
    place.ready(CLUSTER);
    let mut elastic = Elastic::on_brokers(place, IDS);
    let pools = [("dual-role", IDS)];
    let shape = Shape { pools: &pools, brokers: IDS, voters: IDS };
    elastic.becomes(&shape);
    versions_are_shown(&elastic.place);
    a_report_has_no_secret(&elastic.place);
    a_newer_record_is_left_alone(&elastic);
    a_strimzi_operator_is_left_alone(&elastic);
    a_lost_record_is_found_again(&elastic, &shape);
    elastic.create("kept", &[IDS]);
    let bootstrap = elastic.place.bootstrap(CLUSTER, "plain");
    elastic.place.produce(&bootstrap, "kept", "", RECORDS);
    let backup = a_backup_is_written(&elastic.place);
    a_lost_key_is_restored(&elastic.place, &backup);
    elastic.nothing_is_lost();
    a_lost_cluster_is_restored(&elastic, &shape, &backup);
    installations_are_compared(&ground);
    a_namespace_goes_without_an_operator(&ground);
    the_operator_is_removed(&ground, &elastic.place);
}

fn alice() -> String {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "alice-password" },
        "stringData": { "password": PASSWORD },
    });
    let from = json!({ "secretKeyRef": { "name": "alice-password", "key": "password" } });
    let user = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
        "metadata": { "name": "alice", "labels": { "strimzi.io/cluster": CLUSTER } },
        "spec": { "authentication": { "type": "scram-sha-512", "password": { "valueFrom": from } } },
    });
    format!("---\n{secret}\n---\n{user}\n")
}

/// The program, for all namespaces.
fn gregor(ground: &Ground, words: &[&str]) -> Run {
    let kubeconfig = ground.world.state().join("kubeconfig");
    ground.world.gregor(&[words, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat())
}

fn versions_are_shown(place: &Place<'_>) {
    let shown: Value =
        serde_json::from_str(&gregor(place.ground, &["version", "-o", "json"]).ok().out).unwrap();
    let own = &shown["client"];
    let operator = &shown["operators"][0];
    assert_eq!(operator["runs"], true, "{shown}");
    assert_eq!(operator["version"], own["version"], "{shown}");
    assert_eq!(operator["recordFormat"], own["recordFormat"], "{shown}");
    assert!(operator["kafka"].as_array().unwrap().contains(&json!("4.3.1")), "{shown}");
    let record = json!({ "namespace": NAMESPACE, "kafka": CLUSTER, "format": own["recordFormat"] });
    assert_eq!(shown["records"], json!([record]));
    assert_eq!(shown["skew"], json!([]));
}

/// Every secret value that the API server has, as texts that must not be found.
fn secrets(place: &Place<'_>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for secret in place.list("secrets") {
        let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
        for (entry, value) in secret["data"].as_object().into_iter().flatten() {
            let encoded = value.as_str().unwrap();
            let bytes = STANDARD.decode(encoded).unwrap();
            // Certificates are public. They are in the same Secrets as keys and passwords.
            if entry.ends_with(".crt") || bytes.len() < 8 {
                continue;
            }
            all.insert(encoded.to_owned(), format!("{name}: {entry}"));
            if let Ok(text) = String::from_utf8(bytes) {
                let lines =
                    text.lines().filter(|line| line.len() >= 16 && !line.starts_with("---"));
                all.extend(lines.map(|line| (line.to_owned(), format!("{name}: {entry}"))));
            }
        }
    }
    all
}

fn a_report_has_no_secret(place: &Place<'_>) {
    wait_for(|| {
        let user = place.get("kafkauser", "alice");
        let ready = user["status"]["conditions"][0]["type"] == "Ready";
        if ready { Ok(()) } else { Err(user["status"].to_string()) }
    });
    let known = secrets(place);
    assert!(known.contains_key(PASSWORD), "{:?}", known.values().collect::<BTreeSet<_>>());
    assert!(known.values().any(|of| of.contains("my-cluster-cluster-ca: ca.key")));
    let file = place.ground.world.temp().join("report.zip");
    let path = file.to_str().unwrap();
    // A setting and an annotation in which a careless user has put the password.
    place.kubectl(&["annotate", "kafka", CLUSTER, &format!("note=the password is {PASSWORD}")]);
    let report = place.gregor(&["report", CLUSTER, "--file", path]).ok();
    assert!(!report.err.contains("missing in the report: the snapshot"), "{}", report.err);
    let mut archive = ZipArchive::new(File::open(&file).unwrap()).unwrap();
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(entry.name().unwrap().into_owned(), text);
    }
    for (name, text) in &files {
        for (secret, of) in &known {
            assert!(!text.contains(secret.as_str()), "{name} has {of}");
        }
        assert!(!text.contains("PRIVATE KEY-----"), "{name} has a private key");
    }
    let has = |name: &str| files.keys().any(|one| one.starts_with(name));
    for name in [
        "snapshot.json",
        "resources/Kafka.json",
        "resources/KafkaUser.json",
        "resources/Event.json",
        "logs/my-cluster-dual-role-3/",
        "logs/gregor-operator",
        "operator/gregor/Deployment.json",
    ] {
        assert!(has(name), "no {name} in {:?}", files.keys());
    }
    let metrics = files.iter().find(|(name, _)| name.ends_with("metrics.txt"));
    assert!(metrics.unwrap().1.contains("# TYPE"), "metrics");
    let why = place.ground.world.gregor(&["why", "--from-snapshot", path]).ok();
    assert!(why.out.contains(CLUSTER), "{}", why.out);
    place.kubectl(&["annotate", "kafka", CLUSTER, "note-"]);
}

/// Everything of the cluster that an operator writes, with its version.
fn versions(place: &Place<'_>) -> BTreeMap<String, String> {
    let kinds =
        "configmaps,secrets,services,pvc,pods,strimzipodsets,kafkanodepools,kafkatopics,kafkausers";
    let text =
        |object: &Value, path: &str| object.pointer(path).unwrap().as_str().unwrap().to_owned();
    let named = |object: Value| {
        let name = format!("{} {}", text(&object, "/kind"), text(&object, "/metadata/name"));
        // Of pods, what the kubelet writes is no concern here.
        let version =
            if name.starts_with("Pod ") { "/metadata/uid" } else { "/metadata/resourceVersion" };
        (name, text(&object, version))
    };
    place.list(kinds).into_iter().map(named).collect()
}

/// An operator that meets a record of a newer major version stops with a condition and touches nothing.
fn a_newer_record_is_left_alone(elastic: &Elastic<'_>) {
    let place = &elastic.place;
    let record = place.get("configmap", RECORD)["data"]["record.json"].as_str().unwrap().to_owned();
    let mut newer: Value = serde_json::from_str(&record).unwrap();
    newer["formatVersion"] = json!("9.0");
    let patch = |record: &str| {
        let patch = json!({ "data": { "record.json": record } }).to_string();
        place.kubectl(&["patch", "configmap", RECORD, "--type=merge", "-p", &patch]);
    };
    patch(&newer.to_string());
    // Something to do.
    elastic.scale("dual-role", 4);
    let (reason, message) = place.held(CLUSTER);
    assert_eq!(reason, "RecordTooNew", "{message}");
    assert!(message.contains("9.0"), "{message}");
    let before = versions(place);
    // Some passes: each is begun by a change.
    for number in 0..3 {
        place.kubectl(&["annotate", "kafka", CLUSTER, &format!("poke={number}"), "--overwrite"]);
        std::thread::sleep(Duration::from_secs(2));
    }
    assert_eq!(versions(place), before);
    let skew = gregor(place.ground, &["version"]).ok().out;
    assert!(skew.contains("upgrade the operator"), "{skew}");
    elastic.scale("dual-role", 3);
    patch(&record);
    place.ready(CLUSTER);
}

/// A Strimzi operator that watches the namespace keeps this one away, until a user confirms.
fn a_strimzi_operator_is_left_alone(elastic: &Elastic<'_>) {
    let place = &elastic.place;
    place.ground.kubectl(&["create", "namespace", "strimzi"]);
    let env = json!([{ "name": "STRIMZI_NAMESPACE", "value": NAMESPACE }]);
    let labels =
        json!({ "name": "strimzi-cluster-operator", "strimzi.io/kind": "cluster-operator" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "strimzi-cluster-operator", "labels": { "app": "strimzi" } },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "strimzi-cluster-operator", "image": "pause", "env": env }] },
            },
        },
    });
    let file = place.ground.world.file("strimzi.json", &deployment.to_string());
    place.ground.kubectl(&["apply", "-n", "strimzi", "-f", &file]);
    let mut number = 0;
    kafka::wait_for_mut(|| {
        number += 1;
        place.kubectl(&["annotate", "kafka", CLUSTER, &format!("poke=s{number}"), "--overwrite"]);
        let events = place.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
        if events.contains("StrimziRuns") { Ok(()) } else { Err(events) }
    });
    let before = versions(place);
    place.kubectl(&[
        "patch",
        "kafka",
        CLUSTER,
        "--type=merge",
        "-p",
        r#"{"spec":{"kafka":{"config":{"log.retention.ms":360000000}}}}"#,
    ]);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(versions(place), before, "changed beside a Strimzi operator");
    // A user confirms.
    place.kubectl(&["annotate", "kafka", CLUSTER, "gregor.io/ignore-strimzi=true"]);
    place.ready(CLUSTER);
    place.kubectl(&["annotate", "kafka", CLUSTER, "gregor.io/ignore-strimzi-"]);
    place.ground.kubectl(&["delete", "namespace", "strimzi"]);
}

/// A backup, and the password with which it is read.
struct Backup {
    file: String,
    password: String,
}

impl Backup {
    fn restore(&self, place: &Place<'_>, words: &[&str]) -> Run {
        let all = [&["restore", &self.file, "--password-file", &self.password], words].concat();
        place.gregor(&all)
    }
}

fn a_backup_is_written(place: &Place<'_>) -> Backup {
    let password = place.ground.world.file("password", "a password of the backup\n");
    let file = place.ground.world.temp().join("my-cluster.gregor").to_str().unwrap().to_owned();
    let words = ["backup", CLUSTER, "--password-file", &password, "--file", &file];
    let written = place.gregor(&[&words[..], &["-o", "json"]].concat()).ok().out;
    let written: Value = serde_json::from_str(&written).unwrap();
    let has = |kind: &str, name: &str| {
        let names = written["objects"][kind].as_array().unwrap();
        assert!(names.contains(&json!(name)), "no {kind} {name} in {written}");
    };
    has("Kafka", CLUSTER);
    has("KafkaNodePool", "dual-role");
    has("KafkaUser", "alice");
    has("ConfigMap", RECORD);
    has("Secret", "my-cluster-cluster-ca");
    has("Secret", "my-cluster-clients-ca-cert");
    has("Secret", "alice");
    // A Secret that a resource refers to.
    has("Secret", "alice-password");
    has("PersistentVolumeClaim", "data-0-my-cluster-dual-role-7");
    assert_eq!(written["objects"]["PersistentVolume"].as_array().unwrap().len(), IDS.len());
    // Certificates of nodes are issued again.
    let issued = json!("my-cluster-dual-role-3");
    assert!(!written["objects"]["Secret"].as_array().unwrap().contains(&issued), "{written}");
    let sealed = fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&sealed);
    for (secret, of) in secrets(place) {
        assert!(!text.contains(&secret), "the backup shows {of}");
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    place.gregor(&words).failed("a backup is not overwritten");
    assert_eq!(fs::read(&file).unwrap(), sealed);
    Backup { file, password }
}

/// The key of the cluster CA is lost: the cluster says so, and goes on with the key from the backup. No node is restarted.
fn a_lost_key_is_restored(place: &Place<'_>, backup: &Backup) {
    const KEY: &str = "my-cluster-cluster-ca";
    let pods = place.pods();
    let key = place.secret(KEY, "ca.key");
    place.kubectl(&["delete", "secret", KEY]);
    wait_for(|| {
        let message = place.warning(CLUSTER, "CertificateAuthority").unwrap_or_default();
        if message.contains("the key of the authority is gone") { Ok(()) } else { Err(message) }
    });
    let only = format!("Secret/{KEY}");
    let foreign = place.ground.world.file("foreign", "another password\n");
    let wrong = ["restore", &backup.file, "--password-file", &foreign, "--only", &only];
    place.gregor(&wrong).failed("the password is wrong");
    let whole = backup.restore(place, &[]);
    assert_eq!(whole.code, 1);
    assert!(whole.err.contains("Kafka my-cluster exists"), "{}", whole.err);
    backup.restore(place, &["--only", &only]).ok();
    assert_eq!(place.secret(KEY, "ca.key"), key);
    wait_for(|| place.warning(CLUSTER, "CertificateAuthority").map_or(Ok(()), Err));
    place.ready(CLUSTER);
    assert_eq!(place.pods(), pods, "no node is restarted");
    // It is there again, and is kept as it is.
    let again = backup.restore(place, &["--only", &only]).ok().out;
    assert!(again.contains("restored 0 objects"), "{again}");
}

/// All objects of a cluster are lost with their namespace while no operator runs, and are restored with other uids. The
/// volumes were kept.
fn a_lost_cluster_is_restored(elastic: &Elastic<'_>, shape: &Shape<'_>, backup: &Backup) {
    let place = &elastic.place;
    let before = place.get("kafka", CLUSTER);
    let id = before["status"]["clusterId"].clone();
    let claims = uids(place, "pvc");
    let volumes = volumes(place);
    let password = place.secret("alice", "password");
    let authority = place.secret("my-cluster-cluster-ca-cert", "ca.crt");
    for volume in volumes.values() {
        let patch = r#"{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#;
        place.ground.kubectl(&["patch", "pv", volume, "--type=merge", "-p", patch]);
    }
    stop_operator(place.ground);
    place.ground.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
    // The deletion waits for the finalizers of an operator that is gone.
    wait_for(|| {
        let pool = place.get("kafkanodepool", "dual-role");
        let kafkas = place.names("kafka");
        let waits = pool["metadata"]["deletionTimestamp"].is_string() && kafkas.is_empty();
        if waits { Ok(()) } else { Err(format!("{kafkas:?} {}", pool["metadata"])) }
    });
    let early = backup.restore(place, &[]);
    assert!(early.err.contains("is being deleted: wait"), "{}", early.err);
    // The one-liner of docs/upgrading.md.
    place.gregor(&["uninstall", "--finalizers-only"]).ok();
    namespace_is_gone(place.ground, NAMESPACE);
    let nowhere = backup.restore(place, &["--dry-run"]);
    assert!(nowhere.err.contains("the namespace of the cluster does not exist"), "{}", nowhere.err);
    place.ground.kubectl(&["create", "namespace", NAMESPACE]);
    let dry = backup.restore(place, &["--dry-run"]).ok().out;
    assert!(dry.contains("would be restored") && dry.contains("release"), "{dry}");
    assert!(place.names("kafka,pvc,secrets").is_empty());
    backup.restore(place, &[]).ok();
    start_operator(place.ground);
    place.ready(CLUSTER);
    elastic.has(shape);
    let after = place.get("kafka", CLUSTER);
    assert_eq!(after["status"]["clusterId"], id);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let restored = uids(place, "pvc");
    assert_eq!(restored.keys().collect::<Vec<_>>(), claims.keys().collect::<Vec<_>>());
    assert!(restored.iter().all(|(claim, uid)| claims[claim] != *uid));
    assert_eq!(self::volumes(place), volumes, "each claim has its volume again");
    assert_eq!(place.secret("alice", "password"), password);
    assert_eq!(place.secret("my-cluster-cluster-ca-cert", "ca.crt"), authority);
    // No object has an owner that does not exist.
    let owner = &place.get("configmap", RECORD)["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, after["metadata"]["uid"]);
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    place.consume(&bootstrap, "kept", "", RECORDS);
}

/// The volumes of the claims, by claim.
fn volumes(place: &Place<'_>) -> BTreeMap<String, String> {
    let text =
        |object: &Value, path: &str| object.pointer(path).unwrap().as_str().unwrap().to_owned();
    let claims = place.list("pvc");
    claims.iter().map(|one| (text(one, "/metadata/name"), text(one, "/spec/volumeName"))).collect()
}

fn namespace_is_gone(ground: &Ground, name: &str) {
    wait_for(|| {
        let namespaces = ground.kubectl(&["get", "namespaces", "-o", "name"]);
        let is_there = namespaces.lines().any(|line| line == format!("namespace/{name}"));
        if is_there { Err(namespaces) } else { Ok(()) }
    });
}

/// The record, the statuses and the pod sets are lost: ids, roles and disks are found again from the claims, and nothing is
/// formatted.
fn a_lost_record_is_found_again(elastic: &Elastic<'_>, shape: &Shape<'_>) {
    let place = &elastic.place;
    let claims = uids(place, "pvc");
    let id = place.get("kafka", CLUSTER)["status"]["clusterId"].clone();
    stop_operator(place.ground);
    place.kubectl(&["delete", "configmap", RECORD]);
    place.kubectl(&["annotate", "kafkanodepool", "dual-role", "strimzi.io/next-node-ids-"]);
    for (kind, name) in [("kafka", CLUSTER), ("kafkanodepool", "dual-role")] {
        let patch = r#"{"status":null}"#;
        place.kubectl(&["patch", kind, name, "--subresource=status", "--type=merge", "-p", patch]);
        assert!(place.get(kind, name)["status"]["clusterId"].is_null());
    }
    // The pods run on: clients do not notice.
    place.kubectl(&["delete", "strimzipodset", "my-cluster-dual-role", "--cascade=orphan"]);
    start_operator(place.ground);
    place.ready(CLUSTER);
    elastic.becomes(shape);
    assert_eq!(place.get("kafka", CLUSTER)["status"]["clusterId"], id);
    assert_eq!(uids(place, "pvc"), claims);
}

fn uids(place: &Place<'_>, kind: &str) -> BTreeMap<String, String> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    place.list(kind).iter().map(|one| (text(one, "name"), text(one, "uid"))).collect()
}

fn scale_operator(ground: &Ground, replicas: u32) {
    let replicas = format!("--replicas={replicas}");
    ground.kubectl(&["scale", "-n", "gregor", "deployment/gregor-operator", &replicas]);
}

fn stop_operator(ground: &Ground) {
    scale_operator(ground, 0);
    wait_for(|| {
        let pods = ground.place("gregor").names("pods");
        if pods.is_empty() { Ok(()) } else { Err(format!("{pods:?}")) }
    });
}

fn start_operator(ground: &Ground) {
    scale_operator(ground, 1);
}

fn installations_are_compared(ground: &Ground) {
    let image = format!("gregor-operator:{}", env!("CARGO_PKG_VERSION"));
    let deployment = ground.place("gregor").get("deployment", "gregor-operator");
    let kafka = deployment["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let kafka = kafka.as_array().unwrap().iter().find(|one| one["name"] == "GREGOR_KAFKA_IMAGES");
    let images: Vec<_> = kafka.unwrap()["value"].as_str().unwrap().split(' ').collect();
    let mut same = vec!["install", "--diff", "--image", &image];
    same.extend(images.iter().flat_map(|one| ["--kafka-image", *one]));
    gregor(ground, &same).ok();
    // An older definition: its upgrade is a part of the manifest.
    let older = r#"[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/maintenanceTimeWindows"}]"#;
    ground.kubectl(&["patch", "crd", "kafkas.kafka.strimzi.io", "--type=json", "-p", older]);
    let run = gregor(ground, &[same.as_slice(), &["--replicas=2"]].concat());
    assert_eq!(run.code, 5, "{}", run.err);
    assert!(
        run.out.contains("update CustomResourceDefinition kafkas.kafka.strimzi.io"),
        "{}",
        run.out
    );
    assert!(run.out.contains("maintenanceTimeWindows"), "{}", run.out);
    assert!(run.out.contains("spec.replicas: 1 -> 2"), "{}", run.out);
    assert!(run.out.ends_with("2 of 18 objects would change\n"), "{}", run.out);
    let manifest: Vec<_> = same.iter().copied().filter(|word| *word != "--diff").collect();
    let manifest = ground.world.gregor(&manifest).ok().out;
    let file = ground.world.file("install.yaml", &manifest);
    ground.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    gregor(ground, &same).ok();
}

/// A namespace with a pool that has our finalizer is deleted while no operator runs.
fn a_namespace_goes_without_an_operator(ground: &Ground) {
    let place = ground.namespace("abandoned");
    let pool = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool",
        "metadata": { "name": "p", "labels": { "strimzi.io/cluster": "gone" }, "finalizers": ["gregor.io/drain", "example.org/other"] },
        "spec": { "replicas": 1, "roles": ["broker"], "storage": { "type": "ephemeral" } },
    });
    let topic = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic",
        "metadata": { "name": "t", "labels": { "strimzi.io/cluster": "gone" }, "finalizers": ["strimzi.io/topic-operator"] },
        "spec": {},
    });
    stop_operator(ground);
    place.apply(&format!("---\n{pool}\n---\n{topic}\n"));
    ground.kubectl(&["delete", "namespace", "abandoned", "--wait=false"]);
    wait_for(|| {
        let pool = place.get("kafkanodepool", "p");
        let is_deleting = pool["metadata"]["deletionTimestamp"].is_string();
        if is_deleting { Ok(()) } else { Err(pool["metadata"].to_string()) }
    });
    // The one-liner of docs/upgrading.md.
    place.gregor(&["uninstall", "--finalizers-only"]).ok();
    let others = place.get("kafkanodepool", "p")["metadata"]["finalizers"].clone();
    assert_eq!(others, json!(["example.org/other"]), "finalizers of others stay");
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    place.kubectl(&["patch", "kafkanodepool", "p", "--type=merge", "-p", patch]);
    namespace_is_gone(ground, "abandoned");
    start_operator(ground);
}

/// The operator is removed, its clusters run on, and their namespace can be deleted.
fn the_operator_is_removed(ground: &Ground, place: &Place<'_>) {
    wait_for(|| {
        let shown = gregor(ground, &["version", "-o", "json"]).ok().out;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        if shown["operators"][0]["runs"] == true { Ok(()) } else { Err(shown.to_string()) }
    });
    let pool = || place.get("kafkanodepool", "dual-role")["metadata"]["finalizers"].clone();
    wait_for(
        || if pool() == json!(["gregor.io/drain"]) { Ok(()) } else { Err(pool().to_string()) },
    );
    let refused = gregor(ground, &["uninstall"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("Kafka life/my-cluster would run without an operator"),
        "{}",
        refused.err
    );
    assert_eq!(pool(), json!(["gregor.io/drain"]));
    let only = place.gregor(&["uninstall", "--finalizers-only", "--leave-clusters", "--force"]);
    assert!(only.err.contains("the operator runs"), "{}", only.err);
    let pods = place.pods();
    let removed = gregor(ground, &["uninstall", "--leave-clusters"]).ok().out;
    assert!(removed.contains("KafkaNodePool life/dual-role (gregor.io/drain)"), "{removed}");
    assert!(removed.contains("Deployment gregor/gregor-operator"), "{removed}");
    assert!(removed.contains("kubectl delete crd kafkas.kafka.strimzi.io"), "{removed}");
    assert!(removed.contains("cluster life/my-cluster with"), "{removed}");
    assert!(pool().is_null(), "{}", pool());
    assert_eq!(place.pods(), pods, "the cluster runs on");
    let left = ground.kubectl(&[
        "get",
        "all,leases,roles,rolebindings,clusterroles,clusterrolebindings",
        "-A",
        "-o",
        "name",
        "-l",
        "app.kubernetes.io/part-of=gregor",
    ]);
    assert_eq!(left.trim(), "clusterrole.rbac.authorization.k8s.io/gregor-kafka-node");
    // Again: what is gone is no error.
    gregor(ground, &["uninstall", "--leave-clusters"]).ok();
    ground.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=240s"]);
}
