//! JVMs that are stopped for good while their cluster serves: each is replaced without anybody doing anything, in its
//! pod, and no record is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use elastic::{CLUSTER, Elastic, Shape};
use kafka::{Ground, wait_for};
use rustix::process::Signal;

#[test]
fn nodes_whose_jvm_hangs_are_healed() {
    let ground = elastic::ground();
    combined_nodes(&ground);
    #[cfg(feature = "soak")]
    controllers_and_brokers(&ground);
}

fn combined_nodes(ground: &Ground) {
    const IDS: &[i32] = &[0, 1, 2];
    let mut elastic = Elastic::start(ground, "stuck", "kafka-dual-role.yaml");
    let pools = [("dual-role", IDS)];
    let shape = Shape { pools: &pools, brokers: IDS, voters: IDS };
    // It leads the quorum, and a third of the partitions.
    let active = elastic.quorum().leader.get();
    a_hung_node_is_healed(&elastic, "dual-role", active, &shape);
    elastic.nothing_is_lost();
    #[cfg(feature = "soak")]
    a_majority_of_hung_nodes_is_healed(&elastic);
    ground.assert_operator_is_content();
}

#[cfg(feature = "soak")]
fn controllers_and_brokers(ground: &Ground) {
    const BROKERS: &[i32] = &[0, 1, 2];
    const CONTROLLERS: &[i32] = &[3, 4, 5];
    let elastic = Elastic::start(ground, "apart", "kafka-persistent.yaml");
    let pools = [("broker", BROKERS), ("controller", CONTROLLERS)];
    let shape = Shape { pools: &pools, brokers: BROKERS, voters: CONTROLLERS };
    a_hung_node_is_healed(&elastic, "broker", 1, &shape);
    let active = elastic.quorum().leader.get();
    a_hung_node_is_healed(&elastic, "controller", active, &shape);
    let active = elastic.quorum().leader.get();
    let follower = *CONTROLLERS.iter().find(|id| **id != active).unwrap();
    a_hung_node_is_healed(&elastic, "controller", follower, &shape);
    elastic.end();
}

/// The others serve while it hangs, it gets a new JVM in the same pod, and all is as before.
fn a_hung_node_is_healed(elastic: &Elastic<'_>, pool: &str, id: i32, shape: &Shape<'_>) {
    let pods = elastic.place.pods();
    let pod = format!("{CLUSTER}-{pool}-{id}");
    let jvm = elastic.place.java(&pod);
    let restarts = restarts(elastic, &pod);
    up::signal(jvm, Signal::STOP);
    elastic.serves();
    has_another_jvm(elastic, &pod, jvm);
    elastic.becomes(shape);
    elastic.place.all_pods_ready();
    assert_eq!(self::restarts(elastic, &pod), restarts + 1, "once");
    assert_eq!(elastic.place.pods(), pods, "no pod was deleted");
}

/// Without a quorum nobody can be asked for anything. It takes longer than a producer waits, so there is no load.
#[cfg(feature = "soak")]
fn a_majority_of_hung_nodes_is_healed(elastic: &Elastic<'_>) {
    let place = &elastic.place;
    let pods = place.pods();
    let hung = [1, 2].map(|id| format!("{CLUSTER}-dual-role-{id}"));
    let jvms = hung.each_ref().map(|pod| (pod, place.java(pod)));
    jvms.iter().for_each(|(_, jvm)| up::signal(*jvm, Signal::STOP));
    jvms.iter().for_each(|(pod, jvm)| has_another_jvm(elastic, pod, *jvm));
    place.all_pods_ready();
    place.ready(CLUSTER);
    assert_eq!(place.pods(), pods, "no pod was deleted");
    place.produce_and_consume(&place.bootstrap(CLUSTER, "plain"), elastic::LOADED, "", 100);
}

fn has_another_jvm(elastic: &Elastic<'_>, pod: &str, before: u32) {
    wait_for(|| {
        let found = elastic.place.javas(pod);
        let is_new = matches!(found.as_slice(), [jvm] if *jvm != before);
        if is_new { Ok(()) } else { Err(format!("{pod}: {found:?}, {before} before")) }
    });
}

/// How often the container of a pod was started again.
fn restarts(elastic: &Elastic<'_>, pod: &str) -> i64 {
    let pod = elastic.place.get("pod", pod);
    pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap()
}
