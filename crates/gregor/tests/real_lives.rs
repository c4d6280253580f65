//! An operator that dies after everything it does, and a machine on which everything is killed at once: what
//! was begun is finished, nothing is made twice, and no record is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kafka::{Ground, Place};
use rustix::process::Signal;
use up::{World, signal};

const CLUSTER: &str = "my-cluster";

/// Starts the operator again, at once, whenever it has ended itself.
const AGAIN: &str = "#!/bin/sh
export GREGOR_ONE_ACT_PER_LIFE=true
while :; do
  GREGOR operator \"$@\"
  [ $? -eq 137 ] || exit 1
done
";

/// A local Kubernetes whose operator lives for one act.
fn one_act_per_life() -> Ground {
    let world = World::with_operator();
    let script = world.file(
        "operator",
        &AGAIN.replace("GREGOR operator", &format!("{} operator", env!("CARGO_BIN_EXE_gregor"))),
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let image = format!("gregor-operator:{}={script}", env!("CARGO_PKG_VERSION"));
    Ground::start_in(world, &["--image", &image])
}

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
        let field = |kind: &str, name: &str, path: &str| {
            let path = format!("jsonpath={{{path}}}");
            let found = place.kubectl(&["get", kind, name, "--ignore-not-found", "-o", &path]);
            Some(found).filter(|found| !found.is_empty())
        };
        let record = field("configmap", "my-cluster-gregor", ".data.record\\.json");
        if let Some(record) = record {
            let record: serde_json::Value = serde_json::from_str(&record).unwrap();
            self.cluster_ids.extend(record["clusterId"].as_str().map(str::to_owned));
            self.initial.extend(record["quorum"]["initial"].as_str().map(str::to_owned));
            self.nodes.insert(record["pools"].to_string());
        }
        self.cluster_ids.extend(field("kafka", CLUSTER, ".status.clusterId"));
        for authority in ["my-cluster-cluster-ca-cert", "my-cluster-clients-ca-cert"] {
            let found = field("secret", authority, ".data.ca\\.crt");
            self.authorities.extend(found.map(|pem| format!("{authority} {pem}")));
        }
    }
}

#[test]
fn a_cluster_is_made_one_act_per_life_and_survives_the_death_of_everything() {
    let ground = one_act_per_life();
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
    let log = ground.operator_log();
    let lives = log.lines().filter(|line| line.starts_with("one act per life: ")).count();
    println!("{lives} lives");
    // A record, authorities, Services, claims, certificates, settings and pods of three nodes.
    assert!(lives > 30, "{lives} lives only:\n{log}");
    all_is_killed(&ground, &place);
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
