//! The operator is upgraded from an older commit and downgraded again, under load: definitions and rights come with
//! `gregor install`, the record is read by both, and a record of a newer major format stops the older operator.
//!
//! The older program is built from the history of this repository, once per checkout. Its operator runs in a local Kubernetes
//! of this program, and so do its nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use elastic::{CLUSTER, Elastic, PATIENT, Shape};
use kafka::{Ground, Place, wait_for};
use serde_json::{Value, json};
use up::World;

/// The older operator: the last commit before records had the format 1.4. Any later commit with operators that check the major
/// version serves, too.
const OLD: &str = "854874cced14de458f8e891ed4704b762518ec17";
const OLD_FORMAT: &str = "1.3";
const RECORD: &str = "my-cluster-gregor";

/// The operator that runs is the program in a file.
const OPERATOR: &str = "#!/bin/sh
export GREGOR_TEST_WORLD=STATE
exec \"$(cat FILE)\" operator \"$@\"
";

#[test]
fn an_operator_is_upgraded_and_downgraded_and_nothing_is_lost() {
    let old = built(OLD);
    let world = World::with_operator();
    let which = world.file("program", old.to_str().unwrap());
    let script = OPERATOR.replace("STATE", world.state().to_str().unwrap()).replace("FILE", &which);
    let script = world.file("operator", &script);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let image = format!("gregor-operator:{}={script}", env!("CARGO_PKG_VERSION"));
    let ground = Ground::start_in(world, &["--nodes", "3", "--image", &image]);
    let versions = Versions { ground: &ground, which, old };
    versions.begin(Version::Old);
    let place = ground.namespace("upgrade");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kafka-dual-role.yaml");
    let manifest = fs::read_to_string(example).unwrap().replace("    config:\n", PATIENT);
    place.apply(&manifest);
    place.ready(CLUSTER);
    assert_eq!(format(&place), OLD_FORMAT);
    let elastic = Elastic::on(place);
    let place = &elastic.place;
    let claims = uids(place);

    println!("-- upgrade");
    versions.begin(Version::New);
    place.ready(CLUSTER);
    wait_for(|| if format(place) == current() { Ok(()) } else { Err(format(place)) });
    edit(place, 360_000_001);
    elastic.scale("dual-role", 4);
    elastic.becomes(&shape(&[0, 1, 2, 3]));

    println!("-- downgrade");
    versions.begin(Version::Old);
    edit(place, 360_000_002);
    elastic.serves();

    println!("-- a record of a newer major format");
    let record = record(place);
    let mut newer = record.clone();
    newer["formatVersion"] = json!("2.0");
    store(place, &newer);
    elastic.scale("dual-role", 5);
    let (reason, message) = place.held(CLUSTER);
    assert_eq!(reason, "RecordTooNew", "{message}");
    let pods = place.pods();
    elastic.serves();
    assert_eq!((place.pods(), self::record(place)), (pods, newer), "nothing is touched");
    elastic.scale("dual-role", 4);
    store(place, &record);

    println!("-- upgrade again");
    versions.begin(Version::New);
    edit(place, 360_000_003);
    elastic.becomes(&shape(&[0, 1, 2, 3]));
    assert_eq!(format(place), current());
    let kept = uids(place);
    assert!(claims.iter().all(|claim| kept.contains(claim)), "{claims:?} {kept:?}");
    elastic.end();
}

fn shape(ids: &'static [i32]) -> Shape<'static> {
    const POOLS: &[(&str, &[i32])] = &[("dual-role", &[0, 1, 2, 3])];
    Shape { pools: POOLS, brokers: ids, voters: ids }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Old,
    New,
}

struct Versions<'a> {
    ground: &'a Ground,
    /// The file that names the program of the operator.
    which: String,
    old: PathBuf,
}

impl Versions<'_> {
    /// Installs this version as a user does, and waits until its operator leads.
    fn begin(&self, version: Version) {
        let program = match version {
            Version::Old => self.old.clone(),
            Version::New => PathBuf::from(env!("CARGO_BIN_EXE_gregor")),
        };
        let mut words = vec!["install".to_owned()];
        words.extend(self.images());
        let manifest = run(Command::new(&program).args(&words));
        let file = self.ground.world.file("install.yaml", &manifest);
        self.ground.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
        fs::write(&self.which, program.to_str().unwrap()).unwrap();
        let deployment = "deployment/gregor-operator";
        self.ground.kubectl(&["-n", "gregor", "rollout", "restart", deployment]);
        self.ground.kubectl(&["-n", "gregor", "rollout", "status", deployment, "--timeout=240s"]);
        wait_for(|| {
            let pods = self.ground.kubectl(&["-n", "gregor", "get", "pods", "-o", "name"]);
            if pods.lines().count() == 1 { Ok(()) } else { Err(pods) }
        });
        // Operators of older versions do not publish theirs.
        let lease = self.ground.place("gregor").get("lease", "gregor-operator");
        let published = &lease["metadata"]["annotations"]["gregor.io/record-format"];
        if version == Version::New {
            wait_for(|| {
                let lease = self.ground.place("gregor").get("lease", "gregor-operator");
                let found = lease["metadata"]["annotations"]["gregor.io/record-format"].clone();
                if found == current() { Ok(()) } else { Err(format!("{published} {found}")) }
            });
        }
    }

    /// The images of the present Deployment.
    fn images(&self) -> Vec<String> {
        let deployment = self.ground.place("gregor").get("deployment", "gregor-operator");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let env = container["env"].as_array().unwrap();
        let kafka = env.iter().find(|one| one["name"] == "GREGOR_KAFKA_IMAGES").unwrap();
        let mut words = vec![format!("--image={}", container["image"].as_str().unwrap())];
        let all = kafka["value"].as_str().unwrap().split(' ');
        words.extend(all.map(|image| format!("--kafka-image={image}")));
        words
    }
}

/// Changes a setting, and waits until Kafka's resource says that it is done.
fn edit(place: &Place<'_>, retention_ms: u64) {
    let config = json!({ "log.retention.ms": retention_ms });
    let patch = json!({ "spec": { "kafka": { "config": config } } }).to_string();
    place.kubectl(&["patch", "kafka", CLUSTER, "--type=merge", "-p", &patch]);
    place.ready(CLUSTER);
}

fn record(place: &Place<'_>) -> Value {
    let map = place.get("configmap", RECORD);
    serde_json::from_str(map["data"]["record.json"].as_str().unwrap()).unwrap()
}

fn store(place: &Place<'_>, record: &Value) {
    let patch = json!({ "data": { "record.json": record.to_string() } }).to_string();
    place.kubectl(&["patch", "configmap", RECORD, "--type=merge", "-p", &patch]);
}

fn format(place: &Place<'_>) -> String {
    record(place)["formatVersion"].as_str().unwrap_or_default().to_owned()
}

/// The format of the records of this version.
fn current() -> String {
    let shown =
        run(Command::new(env!("CARGO_BIN_EXE_gregor")).args(["version", "--client", "-o", "json"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["client"]["recordFormat"].as_str().unwrap().to_owned()
}

/// The claims with their uids.
fn uids(place: &Place<'_>) -> Vec<(String, String)> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    place.list("pvc").iter().map(|one| (text(one, "name"), text(one, "uid"))).collect()
}

/// The program of an older commit, built from the history in a directory of its own.
fn built(commit: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let place = root.join("target/upgrade").join(commit);
    let (source, target) = (place.join("src"), place.join("target"));
    if !source.join("Cargo.toml").exists() {
        fs::create_dir_all(&source).unwrap();
        let mut archive = Command::new("git");
        archive.current_dir(&root).args(["archive", commit]).stdout(Stdio::piped());
        let mut archive = archive.spawn().unwrap();
        let mut tar = Command::new("tar");
        tar.arg("x").current_dir(&source).stdin(archive.stdout.take().unwrap());
        let unpacked = tar.status().unwrap().success();
        let found = archive.wait().unwrap().success();
        assert!(unpacked && found, "commit {commit} is not in the history: fetch all of it");
    }
    let mut cargo = Command::new(env!("CARGO"));
    // The settings of this build are not those of the other.
    let own = std::env::vars_os().map(|(name, _)| name);
    let own = own.filter(|name| name.to_str().is_some_and(|name| name.starts_with("CARGO_")));
    own.filter(|name| name != "CARGO_HOME").for_each(|name| _ = cargo.env_remove(name));
    cargo.current_dir(&source).args(["build", "--locked", "--workspace", "--bins", "--target-dir"]);
    run(cargo.arg(&target));
    target.join("debug/gregor")
}

/// What a program prints; it must not fail.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
