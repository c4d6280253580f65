//! What happens to moves in the middle of which something else is wanted, taken back, deleted or killed: they end, the
//! cluster comes to rest, and nothing is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod rebalance;
mod up;

use kafka::{Ground, wait_for};
use rebalance::{CLUSTER, Pace, Scene};

const FILL: &str = "my-cluster-auto-rebalancing-add-brokers";
const DRAIN: &str = "my-cluster-auto-rebalancing-remove-brokers";

#[test]
fn moves_that_are_interrupted_leave_nothing_behind() {
    let ground = Ground::start(&["--nodes", "2"]);
    let scene = Scene::start(&ground, "middle");
    a_drain_comes_before_a_fill_that_runs(&scene);
    a_drain_is_taken_back(&scene);
    a_template_goes(&scene);
    a_request_is_deleted(&scene);
    a_broker_is_killed(&scene);
    scene.end();
}

/// Broker by broker: 0 and 1 in one pool, 10 in the other.
fn a_drain_comes_before_a_fill_that_runs(scene: &Scene<'_>) {
    println!("-- a scale-down in the middle of a scale-up");
    scene.template(Pace::Slow);
    scene.scale("a", 3);
    scene.does("RebalanceOnScaleUp");
    scene.moves(FILL);
    // What comes now is made of the template as it is now.
    scene.template(Pace::Quick);
    scene.scale("b", 0);
    scene.does("RebalanceOnScaleDown");
    let modes = scene.auto()["modes"].clone();
    assert_eq!(modes.as_array().map(Vec::len), Some(2), "the fill is queued: {modes}");
    scene.has("b", 0);
    scene.settles();
    let new = scene.brokers("a")[2];
    assert!(scene.replicas_on(new) > 30);
}

fn a_drain_is_taken_back(scene: &Scene<'_>) {
    println!("-- a scale-down is taken back");
    scene.scale("a", 4);
    scene.has("a", 4);
    scene.does("RebalanceOnScaleUp");
    scene.settles();
    let (last, before) = (scene.brokers("a")[3], scene.replicas_on(scene.brokers("a")[3]));
    assert!(before > 0);
    scene.template(Pace::Slow);
    scene.scale("a", 3);
    scene.does("RebalanceOnScaleDown");
    scene.moves(DRAIN);
    scene.scale("a", 4);
    scene.settles();
    assert_eq!(scene.brokers("a").len(), 4);
    assert!(scene.replicas_on(last) > 0, "it keeps what was not moved yet");
}

fn a_template_goes(scene: &Scene<'_>) {
    println!("-- a template is deleted");
    scene.scale("b", 1);
    scene.does("RebalanceOnScaleUp");
    scene.moves(FILL);
    // What was made of it goes on; it is only slow.
    scene.place.kubectl(&["delete", "kafkarebalance", "template"]);
    let quick = r#"{"spec":{"replicationThrottle":20000000}}"#;
    scene.place.kubectl(&["patch", "kafkarebalance", FILL, "--type", "merge", "-p", quick]);
    scene.settles();
    assert!(scene.replicas_on(scene.brokers("b")[0]) > 0);
    // Without it a drain waits, and says so.
    scene.scale("b", 0);
    wait_for(|| {
        let kafka = scene.place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
        match kafka.contains("AutoRebalanceTemplateMissing") {
            true => Ok(()),
            false => Err(kafka),
        }
    });
    scene.template(Pace::Quick);
    scene.has("b", 0);
    scene.settles();
}

fn a_request_is_deleted(scene: &Scene<'_>) {
    println!("-- a request is deleted");
    scene.template(Pace::Slow);
    scene.scale("b", 1);
    scene.does("RebalanceOnScaleUp");
    scene.moves(FILL);
    scene.place.kubectl(&["delete", "kafkarebalance", FILL, "--wait=false"]);
    scene.settles();
    let auto = scene.auto();
    let error = auto["lastError"].as_str().unwrap_or_default();
    assert!(error.contains("was deleted"), "{auto}");
}

fn a_broker_is_killed(scene: &Scene<'_>) {
    println!("-- a broker is killed during moves");
    scene.scale("a", 3);
    scene.does("RebalanceOnScaleDown");
    scene.moves(DRAIN);
    scene.kill(&format!("{CLUSTER}-a-{}", scene.brokers("a")[0]));
    let quick = r#"{"spec":{"replicationThrottle":20000000}}"#;
    scene.place.kubectl(&["patch", "kafkarebalance", DRAIN, "--type", "merge", "-p", quick]);
    scene.has("a", 3);
    scene.place.all_pods_ready();
    scene.settles();
}
