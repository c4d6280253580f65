//! An operator that dies after everything it does, and a machine on which everything is killed at once: what
//! was begun is finished, nothing is made twice, and no record is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[cfg(feature = "soak")]
mod elastic;
mod kafka;
mod up;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "soak")]
use elastic::{Elastic, Shape};
use kafka::{Ground, Place};
#[cfg(feature = "soak")]
use kafka::{wait_for, wait_for_mut};
use rustix::process::Signal;
use serde_json::Value;
use up::signal;

const CLUSTER: &str = "my-cluster";

/// Everything that is made once, as often as it was seen to be another.
#[derive(Debug, Default)]
struct Sightings {
    cluster_ids: BTreeSet<String>,
    initial: BTreeSet<String>,
    authorities: BTreeSet<String>,
    nodes: BTreeSet<String>,
}

impl Sightings {
    fn look(&mut self, place: &Place<'_>) {
        let objects = place.list("configmaps,secrets,kafkas");
        let field = |kind: &str, name: &str, path: &str| {
            let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
            let found = objects.iter().find(is_it)?.pointer(path)?.as_str()?;
            Some(found.to_owned())
        };
        let record = field("ConfigMap", "my-cluster-gregor", "/data/record.json");
        if let Some(record) = record {
            let record: Value = serde_json::from_str(&record).unwrap();
            self.cluster_ids.extend(record["clusterId"].as_str().map(str::to_owned));
            self.initial.extend(record["quorum"]["initial"].as_str().map(str::to_owned));
            self.nodes.insert(record["pools"].to_string());
        }
        self.cluster_ids.extend(field("Kafka", CLUSTER, "/status/clusterId"));
        for authority in ["my-cluster-cluster-ca-cert", "my-cluster-clients-ca-cert"] {
            let found = field("Secret", authority, "/data/ca.crt");
            self.authorities.extend(found.map(|pem| format!("{authority} {pem}")));
        }
    }
}

#[test]
fn a_cluster_is_made_one_act_per_life_and_survives_the_death_of_everything() {
    let ground = Ground::one_act_per_life(&[]);
    let place = ground.namespace("lives");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-dual-role.yaml");
    place.apply(&fs::read_to_string(example).unwrap());
    let ended = AtomicBool::new(false);
    let sightings = std::thread::scope(|scope| {
        let watched = scope.spawn(|| {
            let mut sightings = Sightings::default();
            while !ended.load(Ordering::Relaxed) {
                sightings.look(&place);
                std::thread::sleep(Duration::from_millis(200));
            }
            sightings.look(&place);
            sightings
        });
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| place.ready(CLUSTER)));
        ended.store(true, Ordering::Relaxed);
        let sightings = watched.join().unwrap();
        made.unwrap();
        sightings
    });
    assert_eq!(sightings.cluster_ids.len(), 1, "{sightings:?}");
    assert_eq!(sightings.initial.len(), 1, "{sightings:?}");
    assert_eq!(sightings.nodes.len(), 1, "{sightings:?}");
    assert_eq!(sightings.authorities.len(), 2, "{sightings:?}");
    let lives = lives(&ground);
    println!("{lives} lives");
    // A record, authorities, Services, claims, certificates, settings and pods of three nodes.
    assert!(lives > 30, "{lives} lives only:\n{}", ground.operator_log());
    #[cfg(feature = "soak")]
    a_controller_comes_and_goes(Elastic::on(place));
    all_is_killed(&ground, &ground.place("lives"));
}

/// The acts of the operator so far, each of which was its last.
fn lives(ground: &Ground) -> usize {
    ground.operator_log().lines().filter(|line| line.starts_with("one act per life: ")).count()
}

#[cfg(feature = "soak")]
fn a_controller_comes_and_goes(mut elastic: Elastic<'_>) {
    const DUAL: &[i32] = &[0, 1, 2];
    let ground = elastic.place.ground;
    let (before, pods) = (lives(ground), elastic.pods("dual-role"));
    elastic.add_pool("more", &["controller"], 1);
    let pools = [("dual-role", DUAL), ("more", &[3][..])];
    elastic.becomes(&Shape { pools: &pools, brokers: DUAL, voters: &[0, 1, 2, 3] });
    elastic.place.kubectl(&["delete", "kafkanodepool", "more", "--wait=false"]);
    wait_for(|| {
        let pools = elastic.place.names("kafkanodepools");
        if pools == ["dual-role"] { Ok(()) } else { Err(format!("{pools:?}")) }
    });
    elastic.becomes(&Shape { pools: &pools[..1], brokers: DUAL, voters: DUAL });
    assert_eq!(elastic.pods("dual-role"), pods);
    // Its claim was to be deleted with it.
    wait_for(|| {
        let claims = elastic.place.names("pvc");
        if claims.len() == 3 { Ok(()) } else { Err(format!("{claims:?}")) }
    });
    let more = lives(ground) - before;
    println!("{more} lives");
    // A node with all that is its own, two changes of voters, and what is recorded of each.
    assert!(more > 15, "{more} lives only");
    every_node_is_restarted_once(&elastic);
    elastic.nothing_is_lost();
}

#[cfg(feature = "soak")]
fn every_node_is_restarted_once(elastic: &Elastic<'_>) {
    let (ground, place) = (elastic.place.ground, &elastic.place);
    let mut seen: BTreeSet<(String, String)> = place.pods().into_iter().collect();
    let (before, pods) = (lives(ground), seen.len());
    place.gregor(&["roll", CLUSTER]).ok();
    wait_for_mut(|| {
        seen.extend(place.pods());
        if seen.len() >= 2 * pods { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    elastic.serves();
    place.ready(CLUSTER);
    seen.extend(place.pods());
    // Each once: as many new ones as there were, and all of them are there.
    assert_eq!(seen.len(), 2 * pods, "{seen:?}");
    let more = lives(ground) - before;
    println!("{more} lives");
    // Each is remembered and deleted, and comes back.
    assert!(more >= 3 * pods, "{more} lives only");
}

fn all_is_killed(ground: &Ground, place: &Place<'_>) {
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    place.produce(&bootstrap, "kept", "", 1000);
    let id = place.get("kafka", CLUSTER)["status"]["clusterId"].clone();
    for process in ground.world.processes() {
        signal(process.pid, Signal::KILL);
    }
    ground.world.gregor(&["up", "--detach"]).ok();
    place.all_pods_ready();
    place.ready(CLUSTER);
    assert_eq!(place.get("kafka", CLUSTER)["status"]["clusterId"], id);
    place.consume(&bootstrap, "kept", "", 1000);
}
