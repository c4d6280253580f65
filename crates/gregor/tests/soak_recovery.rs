//! Disasters of docs/recovery.md that take long, under load: the metadata quorum is lost and brokers have the metadata, the key
//! of the cluster CA is lost and there is no backup, and everything but the disks is lost, the record in the backup too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use elastic::{CLUSTER, Elastic, Shape};
use kafka::{Ground, Place, READY, wait_for};
use serde_json::Value;

const NAMESPACE: &str = "recovery";
const CONTROLLERS: &[i32] = &[3, 4, 5];
const BROKERS: &[i32] = &[0, 1, 2];
/// The directory of the metadata, in which a controller or a broker has its copy of the log.
const METADATA: &str = "__cluster_metadata-0";

#[test]
fn disasters_are_recovered_from_and_nothing_is_lost() {
    let ground = elastic::ground();
    let mut elastic = Elastic::start(&ground, NAMESPACE, "kafka-persistent.yaml");
    let pools = [("broker", BROKERS), ("controller", CONTROLLERS)];
    let shape = Shape { pools: &pools, brokers: BROKERS, voters: CONTROLLERS };
    elastic.becomes(&shape);
    the_metadata_quorum_is_lost(&elastic, &shape);
    the_key_of_the_authority_is_lost(&elastic, &shape);
    elastic.nothing_is_lost();
    all_but_the_disks_is_lost(&elastic, &shape);
}

/// All controllers lose their disks. The brokers serve on, and the quorum gets its metadata back from one of them.
fn the_metadata_quorum_is_lost(elastic: &Elastic<'_>, shape: &Shape<'_>) {
    println!("-- the metadata quorum is lost");
    let place = &elastic.place;
    let voters = voters(place);
    assert_eq!(voters.len(), CONTROLLERS.len(), "{voters:?}");
    elastic.create("last", &[&[0, 1, 2]]);
    operators(place.ground, 0);
    stop_controllers(place);
    for id in CONTROLLERS {
        let disk = disk(place, "controller", *id);
        fs::remove_dir_all(&disk).unwrap();
        fs::create_dir(&disk).unwrap();
    }
    operators(place.ground, 1);
    // Empty disks get new identities, which no voter has: nothing is elected from nothing.
    for id in CONTROLLERS {
        let disk = disk(place, "controller", *id);
        wait_for(|| match properties(&disk) {
            Some(found) if found["node.id"] == id.to_string() => Ok(()),
            found => Err(format!("{found:?}")),
        });
        let found = properties(&disk).unwrap();
        assert_ne!(found["directory.id"], voters[id], "an identity was given to an empty disk");
    }
    place.held(CLUSTER);
    assert!(elastic.quorum_now().is_err(), "a quorum without metadata has a leader");
    // The procedure of docs/recovery.md. The brokers run on.
    operators(place.ground, 0);
    stop_controllers(place);
    let source = BROKERS.iter().map(|id| metadata(&disk(place, "broker", *id)));
    let source = source.max_by_key(|dir| length(dir)).unwrap();
    for id in CONTROLLERS {
        let disk = disk(place, "controller", *id);
        let target = metadata(&disk);
        fs::remove_dir_all(&target).unwrap();
        copy(&source, &target);
        let file = log_dir(&disk).join("meta.properties");
        let former = properties(&disk).unwrap()["directory.id"].clone();
        let text = fs::read_to_string(&file).unwrap().replace(&former, &voters[id]);
        fs::write(&file, text).unwrap();
    }
    operators(place.ground, 1);
    place.ready(CLUSTER);
    elastic.becomes(shape);
    assert_eq!(self::voters(place), voters);
    assert_eq!(elastic.replicas("last"), [0, 1, 2].into(), "the last topic is known");
}

/// The key of the cluster CA is lost without a backup: it is replaced, and clients are served on.
fn the_key_of_the_authority_is_lost(elastic: &Elastic<'_>, shape: &Shape<'_>) {
    println!("-- the key of the cluster CA is lost");
    let place = &elastic.place;
    let former = place.secret("my-cluster-cluster-ca-cert", "ca.crt");
    place.kubectl(&["delete", "secret", "my-cluster-cluster-ca"]);
    elastic.warns("CertificateAuthority", &["the key of the authority is gone"]);
    let renew = "strimzi.io/force-renew=true";
    place.kubectl(&["annotate", "secret", "my-cluster-cluster-ca-cert", renew]);
    // All nodes restart twice.
    kafka::wait_within(3 * READY, || {
        let secret = place.get("secret", "my-cluster-cluster-ca-cert");
        let entries: Vec<_> = secret["data"].as_object().unwrap().keys().cloned().collect();
        let is_replaced = place.secret("my-cluster-cluster-ca-cert", "ca.crt") != former;
        if is_replaced && entries == ["ca.crt"] { Ok(()) } else { Err(format!("{entries:?}")) }
    });
    place.ready(CLUSTER);
    elastic.becomes(shape);
}

/// The namespace is deleted, and the backup is restored without its record, into a namespace in which the pools are created in
/// another order.
fn all_but_the_disks_is_lost(elastic: &Elastic<'_>, shape: &Shape<'_>) {
    println!("-- all but the disks is lost");
    let place = &elastic.place;
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    elastic.create("kept", &[&[0, 1, 2]]);
    place.produce(&bootstrap, "kept", "", 2000);
    let id = place.get("kafka", CLUSTER)["status"]["clusterId"].clone();
    let password = place.ground.world.file("password", "a password of the backup\n");
    let file = place.ground.world.temp().join("my-cluster.gregor").to_str().unwrap().to_owned();
    let words = [&file[..], "--password-file", &password];
    place.gregor(&["backup", CLUSTER, "--password-file", &password, "--file", &file]).ok();
    let restore = |more: &[&str]| place.gregor(&[&["restore"], &words[..], more].concat()).ok();
    for claim in place.list("pvc") {
        let volume = claim["spec"]["volumeName"].as_str().unwrap();
        let patch = r#"{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#;
        place.ground.kubectl(&["patch", "pv", volume, "--type=merge", "-p", patch]);
    }
    place.ground.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=240s"]);
    place.ground.kubectl(&["create", "namespace", NAMESPACE]);
    operators(place.ground, 0);
    // The controllers were the first; now the brokers are, which would get the ids of the controllers in a new cluster.
    restore(&["--only", "KafkaNodePool/broker"]);
    restore(&["--only", "KafkaNodePool/controller"]);
    restore(&["--rebuild-record"]);
    operators(place.ground, 1);
    place.ready(CLUSTER);
    elastic.has(shape);
    assert_eq!(place.get("kafka", CLUSTER)["status"]["clusterId"], id);
    place.consume(&place.bootstrap(CLUSTER, "plain"), "kept", "", 2000);
}

/// The voters with their directory ids, as the cluster publishes them.
fn voters(place: &Place<'_>) -> BTreeMap<i32, String> {
    let kafka = place.get("kafka", CLUSTER);
    let all = kafka["status"]["controllers"].as_array().unwrap();
    let voter = |one: &Value| {
        let id = i32::try_from(one["id"].as_i64().unwrap()).unwrap();
        (id, one["directoryId"].as_str().unwrap().to_owned())
    };
    all.iter().map(voter).collect()
}

/// So many operators run.
fn operators(ground: &Ground, count: usize) {
    let replicas = format!("--replicas={count}");
    ground.kubectl(&["-n", "gregor", "scale", "deployment/gregor-operator", &replicas]);
    wait_for(|| {
        let pods = ground.place("gregor").names("pods");
        if pods.len() == count { Ok(()) } else { Err(format!("{pods:?}")) }
    });
}

/// Deletes the pods of the controllers. Nothing creates them again while no operator runs.
fn stop_controllers(place: &Place<'_>) {
    for id in CONTROLLERS {
        place.kubectl(&[
            "delete",
            "pod",
            &format!("{CLUSTER}-controller-{id}"),
            "--ignore-not-found",
        ]);
    }
}

/// The directory of the volume of a node.
fn disk(place: &Place<'_>, pool: &str, id: i32) -> PathBuf {
    let claim = place.get("pvc", &format!("data-0-{CLUSTER}-{pool}-{id}"));
    let volume = claim["spec"]["volumeName"].as_str().unwrap();
    let volume: Value =
        serde_json::from_str(&place.ground.kubectl(&["get", "pv", volume, "-o", "json"])).unwrap();
    volume["spec"]["local"]["path"].as_str().unwrap().into()
}

/// The log directory on a disk.
fn log_dir(disk: &Path) -> PathBuf {
    let all = fs::read_dir(disk).unwrap().map(|entry| entry.unwrap().path());
    let mut found = all.filter(|path| path.join("meta.properties").exists());
    found.next().unwrap_or_else(|| panic!("{} is not formatted", disk.display()))
}

fn metadata(disk: &Path) -> PathBuf {
    log_dir(disk).join(METADATA)
}

/// The identity of a disk; nothing while it is not formatted.
fn properties(disk: &Path) -> Option<BTreeMap<String, String>> {
    let mut all = fs::read_dir(disk).ok()?.map(|entry| entry.unwrap().path());
    let file = all.find(|path| path.join("meta.properties").exists())?.join("meta.properties");
    let text = fs::read_to_string(file).ok()?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The newest segment, and how long it is.
fn length(metadata: &Path) -> Option<(String, u64)> {
    let files = fs::read_dir(metadata).unwrap().map(|entry| entry.unwrap().path());
    let segments = files.filter(|path| path.extension().is_some_and(|one| one == "log"));
    let of = |path: PathBuf| {
        // Segments are preallocated: what counts is what was written.
        let written = fs::read(&path).unwrap().iter().rposition(|byte| *byte != 0).unwrap_or(0);
        (path.file_name().unwrap().to_str().unwrap().to_owned(), written as u64)
    };
    segments.map(of).max()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
