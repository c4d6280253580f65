//! Brokers that do not answer leave all the same. One whose machine is lost with its node agent, and one that can be
//! scheduled nowhere, are drained by the others although they keep the cluster from being ready; one that hangs and holds
//! nothing is not asked to be closed. Kafka forgets all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod rebalance;
mod up;

use kafka::{Ground, wait_for};
use rebalance::machine::Machine;
use rebalance::{CLUSTER, Pace, Scene};
use rustix::process::Signal;

/// The id of the second broker of the pool `b`.
const SECOND: i64 = 11;

#[test]
fn brokers_that_do_not_answer_leave() {
    let ground = Ground::start(&["--nodes", "4"]);
    let scene = Scene::start(&ground, "gone");
    scene.template(Pace::Quick);
    a_broker_whose_machine_is_lost_is_drained(&scene);
    a_broker_that_can_be_scheduled_nowhere_is_drained(&scene);
    a_broker_that_hangs_and_holds_nothing_goes(&scene);
    scene.end();
}

/// Its pod is never confirmed to have ended, so Kubernetes keeps it until the Node is deleted.
fn a_broker_whose_machine_is_lost_is_drained(scene: &Scene<'_>) {
    println!("-- the machine of a broker is lost");
    let pod = format!("{CLUSTER}-b-{}", scene.brokers("b")[0]);
    let image = scene.place.get("pod", &pod)["spec"]["containers"][0]["image"].clone();
    let mut machine = Machine::start(scene.place.ground, image.as_str().unwrap());
    let pod = format!("{CLUSTER}-b-{SECOND}");
    machine.keeps(&scene.place, &format!("data-{pod}"));
    scene.scale("b", 2);
    scene.has("b", 2);
    scene.does("RebalanceOnScaleUp");
    scene.settles();
    assert_eq!(scene.brokers("b")[1], SECOND);
    assert!(scene.replicas_on(SECOND) > 0);
    machine.lose(&scene.place, &pod);
    wait_for(|| match scene.registered()?.get(&SECOND) {
        Some(true) => Ok(()),
        fenced => Err(format!("fenced: {fenced:?}")),
    });
    scene.scale("b", 1);
    assert_eq!(scene.drained(SECOND), ["RebalanceOnScaleDown"]);
    wait_for(|| {
        let pods = scene.place.list("pods");
        let found = pods.iter().find(|one| one["metadata"]["name"] == pod.as_str()).unwrap();
        let status = || scene.place.get("kafka", CLUSTER)["status"].to_string();
        if found["metadata"]["deletionTimestamp"].is_null() { Err(status()) } else { Ok(()) }
    });
    machine.remove_node();
    scene.has("b", 1);
    scene.settles();
    has_left(scene, SECOND);
}

fn a_broker_that_can_be_scheduled_nowhere_is_drained(scene: &Scene<'_>) {
    println!("-- a broker can be scheduled nowhere");
    scene.scale("b", 2);
    scene.has("b", 2);
    scene.does("RebalanceOnScaleUp");
    scene.settles();
    let gone = scene.brokers("b")[1];
    assert!(scene.replicas_on(gone) > 0);
    let pod = format!("{CLUSTER}-b-{gone}");
    let machine = scene.place.get("pod", &pod)["spec"]["nodeName"].as_str().unwrap().to_owned();
    // No pod starts there any more, and the volume of the broker is nowhere else.
    scene.place.ground.kubectl(&["cordon", &machine]);
    scene.kill(&pod);
    scene.place.kubectl(&["delete", "pod", &pod, "--wait=false"]);
    let (reason, message) = scene.place.held(CLUSTER);
    assert_eq!(reason, "RollStopped", "{message}");
    scene.scale("b", 1);
    scene.does("RebalanceOnScaleDown");
    scene.has("b", 1);
    scene.settles();
    has_left(scene, gone);
    scene.place.ground.kubectl(&["uncordon", &machine]);
}

fn a_broker_that_hangs_and_holds_nothing_goes(scene: &Scene<'_>) {
    println!("-- a broker without replicas hangs");
    // Nothing is moved to brokers that come.
    let drains = r#"{"mode":"remove-brokers","template":{"name":"template"}}"#;
    let patch = format!(r#"{{"spec":{{"cruiseControl":{{"autoRebalance":[{drains}]}}}}}}"#);
    scene.place.kubectl(&["patch", "kafka", CLUSTER, "--type", "merge", "-p", &patch]);
    scene.scale("b", 2);
    scene.has("b", 2);
    scene.place.all_pods_ready();
    scene.place.ready(CLUSTER);
    let hangs = scene.brokers("b")[1];
    assert_eq!(scene.replicas_on(hangs), 0);
    let pod = format!("{CLUSTER}-b-{hangs}");
    let process = scene.place.java(&pod);
    up::signal(process, Signal::STOP);
    wait_for(|| {
        let registered = scene.registered()?;
        if registered.get(&hangs) == Some(&true) { Ok(()) } else { Err(format!("{registered:?}")) }
    });
    let ids = format!("strimzi.io/remove-node-ids=[{hangs}]");
    scene.place.kubectl(&["annotate", "--overwrite", "kafkanodepool", "b", &ids]);
    scene.scale("b", 1);
    // A JVM that hangs is replaced after a minute, and the next one would answer: the broker leaves without.
    wait_for(|| {
        let mut javas = scene.place.javas(&pod);
        javas.retain(|java| *java != process);
        assert!(javas.is_empty(), "it was restarted: {javas:?}");
        let told = scene.place.get("kafka", CLUSTER)["status"].to_string();
        if scene.place.names("pods").contains(&pod) { Err(told) } else { Ok(()) }
    });
    scene.settles();
    has_left(scene, hangs);
}

/// Waits until Kafka does not know a broker; it is deleted completely.
fn has_left(scene: &Scene<'_>, broker: i64) {
    wait_for(|| {
        let registered = scene.registered()?;
        let others_serve = registered.len() == 3 && registered.values().all(|fenced| !fenced);
        let is_gone = !registered.contains_key(&broker);
        if is_gone && others_serve { Ok(()) } else { Err(format!("{registered:?}")) }
    });
    assert!(!scene.brokers("b").contains(&broker));
    let suffix = format!("-b-{broker}");
    let left = scene.place.names("configmaps,secrets,pods,pvc");
    assert!(!left.iter().any(|name| name.ends_with(&suffix)), "{left:?}");
}
