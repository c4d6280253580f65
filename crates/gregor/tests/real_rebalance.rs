//! Brokers that come are filled and brokers that go are drained, without anybody doing anything else; and requests that
//! people make by hand. Under load, with thirty topics of data, and nothing is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod rebalance;
mod up;

use kafka::Ground;
use rebalance::cruise_control::CruiseControl;
use rebalance::{CLUSTER, Scene};
use serde_json::{Map, Value, json};

/// In bytes per second: slow enough to be stopped in the soak test.
const THROTTLE: u32 = if cfg!(feature = "soak") { 300_000 } else { 20_000_000 };
const FILL: &str = "my-cluster-auto-rebalancing-add-brokers";
const DRAIN: &str = "my-cluster-auto-rebalancing-remove-brokers";

#[test]
fn brokers_that_come_are_filled_and_brokers_that_go_are_drained() {
    let ground = Ground::start(&["--nodes", "2"]);
    let scene = Scene::start(&ground, "rebalance");
    a_new_broker_is_filled(&scene);
    a_broker_that_goes_is_drained(&scene);
    #[cfg(feature = "soak")]
    both_in_one_edit(&scene);
    a_request_by_hand(&scene);
    what_cannot_be_begun_says_why(&scene);
    let other = a_cruise_control_that_is_there_is_asked(&scene);
    #[cfg(feature = "soak")]
    it_is_asked_to_fill_and_to_drain(&scene, &other);
    drop(other);
    scene.end();
}

fn a_new_broker_is_filled(scene: &Scene<'_>) {
    println!("-- 3 to 4");
    scene.scale("b", 2);
    scene.has("b", 2);
    let auto = scene.does("RebalanceOnScaleUp");
    let new = scene.brokers("b")[1];
    let filled =
        json!({ "mode": "add-brokers", "brokers": [new], "replicationThrottle": 20_000_000 });
    assert_eq!(scene.place.get("kafkarebalance", FILL)["spec"], filled);
    assert_eq!(auto["modes"], json!([{ "mode": "add-brokers", "brokers": [new] }]));
    scene.settles();
    // A quarter of what there is, more or less.
    let (on, all) = (scene.replicas_on(new), scene.partitions().len() * 3);
    assert!(on * 4 > all * 3 / 4 && on * 4 < all * 5 / 4, "{on} of {all} replicas");
}

fn a_broker_that_goes_is_drained(scene: &Scene<'_>) {
    println!("-- 4 to 3");
    let leaves = scene.brokers("b")[1];
    assert!(scene.replicas_on(leaves) > 0, "there is something to drain");
    let copied = another_template_for_drains(scene);
    scene.scale("b", 1);
    let auto = scene.does("RebalanceOnScaleDown");
    let mut drained = json!({ "mode": "remove-brokers", "brokers": [leaves] });
    drained.as_object_mut().unwrap().extend(copied);
    assert_eq!(scene.place.get("kafkarebalance", DRAIN)["spec"], drained);
    assert_eq!(auto["modes"], json!([{ "mode": "remove-brokers", "brokers": [leaves] }]));
    scene.has("b", 1);
    scene.settles();
    assert_eq!(scene.brokers("b").len(), 1);
}

/// Gives the mode remove-brokers a template of its own, and returns the fields that a request copies from it.
fn another_template_for_drains(scene: &Scene<'_>) -> Map<String, Value> {
    let copied = json!({
        "goals": ["RackAwareGoal", "ReplicaDistributionGoal"],
        "skipHardGoalCheck": true,
        "replicationThrottle": 30_000_000,
    });
    let template = json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaRebalance",
        "metadata": { "name": "drain", "annotations": { "strimzi.io/rebalance-template": "true" } },
        "spec": copied,
    });
    let file = scene.place.ground.world.file("drain.yaml", &template.to_string());
    scene.place.kubectl(&["apply", "-f", &file]);
    let mode = |mode: &str, name: &str| json!({ "mode": mode, "template": { "name": name } });
    let both = [mode("add-brokers", "template"), mode("remove-brokers", "drain")];
    let patch = json!({ "spec": { "cruiseControl": { "autoRebalance": both } } }).to_string();
    scene.place.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", &patch]);
    copied.as_object().unwrap().clone()
}

#[cfg(feature = "soak")]
fn both_in_one_edit(scene: &Scene<'_>) {
    println!("-- one comes, one goes");
    let pools = |a: u32, b: u32| {
        let pool = |name: &str, ids: &str, replicas: u32| {
            format!(
                "apiVersion: kafka.strimzi.io/v1\nkind: KafkaNodePool\n\
                 metadata: {{name: {name}, labels: {{strimzi.io/cluster: {CLUSTER}}}, \
                 annotations: {{strimzi.io/next-node-ids: '[{ids}]'}}}}\n\
                 spec: {{replicas: {replicas}, roles: [broker], storage: {{type: persistent-claim, \
                 size: 1Gi, deleteClaim: true}}}}\n---\n"
            )
        };
        pool("a", "0-9", a) + &pool("b", "10-19", b)
    };
    let leaves = scene.brokers("b")[0];
    let file = scene.place.ground.world.file("pools.yaml", &pools(3, 0));
    scene.place.kubectl(&["apply", "-f", &file]);
    assert_eq!(scene.drained(leaves), ["RebalanceOnScaleDown"], "the drain comes first");
    scene.has("a", 3);
    scene.has("b", 0);
    scene.settles();
    let new = scene.brokers("a")[2];
    assert!(scene.replicas_on(new) > 30, "the new broker has what the other one had");
}

fn a_request_by_hand(scene: &Scene<'_>) {
    println!("-- by hand");
    // A broker more, which nobody fills, as nothing says so.
    let off = r#"{"spec":{"cruiseControl":{"autoRebalance":null}}}"#;
    scene.place.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", off]);
    let count = scene.brokers("a").len() + 1;
    scene.scale("a", u32::try_from(count).unwrap());
    scene.has("a", count);
    scene.place.ready(CLUSTER);
    let new = *scene.brokers("a").last().unwrap();
    assert_eq!(scene.replicas_on(new), 0);
    let yaml = format!(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
         metadata: {{name: mine, labels: {{strimzi.io/cluster: {CLUSTER}}}}}\n\
         spec: {{mode: add-brokers, brokers: [{new}], replicationThrottle: {THROTTLE}}}\n"
    );
    let file = scene.place.ground.world.file("mine.yaml", &yaml);
    scene.place.kubectl(&["apply", "-f", &file]);
    scene.reaches("mine", "ProposalReady");
    let kr = scene.place.get("kafkarebalance", "mine");
    let result = &kr["status"]["optimizationResult"];
    assert!(result["numReplicaMovements"].as_u64().unwrap() > 10, "{result}");
    assert_eq!(result["afterBeforeLoadConfigMap"], "mine");
    assert_eq!(kr["status"]["progress"]["rebalanceProgressConfigMap"], "mine");
    let load: Value = serde_json::from_str(&shown(scene, "mine", "brokerLoad.json")).unwrap();
    assert_eq!(load[new.to_string()]["replicas"]["before"], 0);
    assert_eq!(scene.replicas_on(new), 0, "nothing moves before it is approved");
    scene.annotate("mine", "approve");
    #[cfg(feature = "soak")]
    stopped_changed_and_refreshed(scene);
    scene.reaches("mine", "Ready");
    scene.no_throttle();
    assert_eq!(shown(scene, "mine", "completedByteMovementPercentage"), "100");
    assert!(scene.replicas_on(new) > 30);
    let annotations = scene.place.get("kafkarebalance", "mine")["metadata"]["annotations"].clone();
    assert_eq!(annotations["strimzi.io/rebalance"], Value::Null, "the annotation is removed");
    assert_eq!(scene.state(FILL), None);
}

/// Nothing is left of the moves of a request that is stopped. Changed and refreshed, it has a new plan, for what is left.
#[cfg(feature = "soak")]
fn stopped_changed_and_refreshed(scene: &Scene<'_>) {
    scene.moves("mine");
    scene.annotate("mine", "stop");
    scene.reaches("mine", "Stopped");
    assert_eq!(scene.in_flight(), 0);
    scene.no_throttle();
    let quick = r#"{"spec":{"replicationThrottle":20000000}}"#;
    scene.place.kubectl(&["patch", "kafkarebalance", "mine", "--type", "merge", "-p", quick]);
    scene.annotate("mine", "refresh");
    scene.reaches("mine", "ProposalReady");
    scene.annotate("mine", "approve");
}

fn shown(scene: &Scene<'_>, name: &str, entry: &str) -> String {
    scene.place.get("configmap", name)["data"][entry].as_str().unwrap_or_default().to_owned()
}

fn what_cannot_be_begun_says_why(scene: &Scene<'_>) {
    let yaml = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
                metadata: {name: lost, labels: {strimzi.io/cluster: nowhere}}\nspec: {}\n---\n\
                apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
                metadata: {name: bare}\nspec: {}\n";
    let file = scene.place.ground.world.file("lost.yaml", yaml);
    scene.place.kubectl(&["apply", "-f", &file]);
    scene.reaches("lost", "NotReady");
    scene.reaches("bare", "NotReady");
    let said = scene.place.get("kafkarebalance", "lost")["status"]["conditions"][0].clone();
    assert_eq!(said["reason"], "NoSuchResourceException", "{said}");
    assert_eq!(scene.state("template"), None, "a template has no status");
}

fn a_cruise_control_that_is_there_is_asked(scene: &Scene<'_>) -> CruiseControl {
    println!("-- Cruise Control");
    let url = |url: &str| {
        let url = format!("gregor.io/cruise-control-url={url}");
        let engine = "gregor.io/engine=cruise-control";
        scene.place.kubectl(&["annotate", "--overwrite", "kafka", CLUSTER, engine, &url]);
    };
    // An address outside of the namespace is refused, and nobody connects to it.
    let trap = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    url(&format!("http://{}", trap.local_addr().unwrap()));
    let other = CruiseControl::start(&scene.place);
    other.state.lock().unwrap().too_little = 1;
    let yaml = format!(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
         metadata: {{name: theirs, labels: {{strimzi.io/cluster: {CLUSTER}}}}}\nspec: {{}}\n"
    );
    let file = scene.place.ground.world.file("theirs.yaml", &yaml);
    scene.place.kubectl(&["apply", "-f", &file]);
    scene.reaches("theirs", "NotReady");
    let said = scene.place.get("kafkarebalance", "theirs")["status"]["conditions"][0].clone();
    assert_eq!(said["reason"], "InvalidCruiseControlUrl", "{said}");
    let message = said["message"].as_str().unwrap();
    assert_eq!(message, "gregor.io/cruise-control-url: the scheme must be https");
    assert!(trap.accept().is_err(), "nobody connects to an address that is refused");
    // With one that is admitted it goes on by itself.
    url(&other.url);
    scene.reaches("theirs", "ProposalReady");
    let kr = scene.place.get("kafkarebalance", "theirs");
    assert_eq!(kr["status"]["optimizationResult"]["dataToMoveMB"], 120);
    assert_eq!(kr["status"]["sessionId"], "task-1");
    // It forgets what it moves: another plan is asked for, and nothing is carried out twice.
    scene.annotate("theirs", "approve");
    scene.reaches("theirs", "Rebalancing");
    other.forget();
    scene.reaches("theirs", "ProposalReady");
    scene.annotate("theirs", "approve");
    scene.reaches("theirs", "Rebalancing");
    scene.annotate("theirs", "stop");
    scene.reaches("theirs", "Stopped");
    scene.annotate("theirs", "refresh");
    scene.reaches("theirs", "ProposalReady");
    other.state.lock().unwrap().finishes = true;
    scene.annotate("theirs", "approve");
    scene.reaches("theirs", "Ready");
    assert_eq!(other.state.lock().unwrap().strangers, 0, "every request carries the password");
    let asked = other.state.lock().unwrap().asked.clone();
    let count = |words: &str| asked.iter().filter(|path| path.contains(words)).count();
    assert_eq!(count("rebalance?json=true&dryrun=false"), 3, "{asked:?}");
    assert!(count("stop_proposal_execution") > 0, "{asked:?}");
    other
}

/// A cluster that is scaled asks it too, and moves nothing itself.
#[cfg(feature = "soak")]
fn it_is_asked_to_fill_and_to_drain(scene: &Scene<'_>, other: &CruiseControl) {
    println!("-- Cruise Control, for a cluster that is scaled");
    let template = |mode: &str| json!({ "mode": mode, "template": { "name": "template" } });
    let both = [template("add-brokers"), template("remove-brokers")];
    let on = json!({ "spec": { "cruiseControl": { "autoRebalance": both } } }).to_string();
    scene.place.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", &on]);
    scene.settles();
    other.state.lock().unwrap().finishes = false;
    let before = scene.brokers("a").len();
    scene.scale("a", u32::try_from(before + 1).unwrap());
    scene.has("a", before + 1);
    scene.does("RebalanceOnScaleUp");
    scene.reaches(FILL, "Rebalancing");
    let new = *scene.brokers("a").last().unwrap();
    other.was_asked("add_broker", new);
    other.state.lock().unwrap().finishes = true;
    scene.settles();
    assert_eq!(scene.replicas_on(new), 0, "the test server moves nothing, nor does Gregor");
    // One that holds a replica is drained before it goes.
    let brokers = scene.brokers("a");
    scene.create("held", &[new, brokers[0], brokers[1]]);
    other.state.lock().unwrap().finishes = false;
    scene.scale("a", u32::try_from(before).unwrap());
    scene.does("RebalanceOnScaleDown");
    scene.reaches(DRAIN, "Rebalancing");
    other.was_asked("remove_broker", new);
    assert_eq!(scene.replicas_on(new), 1);
    assert_eq!(scene.brokers("a").len(), before + 1, "it stays while it is being drained");
    scene.delete("held");
    other.state.lock().unwrap().finishes = true;
    scene.has("a", before);
    scene.settles();
}
