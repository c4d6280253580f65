//! A broker that clients and the operator reach, and that cannot reach the controllers: its metadata is stale, and no
//! other broker is restarted because of it. If it is started so, it does not become ready, and is restarted once.
//!
//! The pod of that broker resolves the name of the controller to a proxy of this test (`hostAliases`), so that the
//! connection between the two can be cut while everything else works.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod gate;
mod kafka;
mod up;

use std::time::Duration;

use elastic::{CLUSTER, Elastic, Shape};
use gate::Gate;
use kafka::{Ground, wait_for};
use rustix::process::Signal;
use serde_json::json;

/// The broker that is cut off has the lowest id, so that it is the first one that a client asks.
const CUT_OFF: i32 = 0;
const OTHERS: &[i32] = &[1, 2];
const CONTROLLER: i32 = 3;
const NAMESPACE: &str = "cut-off";
const CONTROLLER_PORT: u16 = 9090;

/// How long a pod may take to become ready before its node is restarted. A JVM starts in a third of it.
const OPERATION_TIMEOUT_MS: u32 = 30_000;

/// How often the cluster is observed while the connection is cut: a roll would begin within seconds.
const LOOKS: u32 = 10;

#[test]
fn no_broker_is_restarted_on_the_word_of_one_that_is_cut_off_from_the_controllers() {
    let ground = Ground::start(&["--nodes", "3"]);
    let gate = Gate::open(CONTROLLER_PORT);
    let place = ground.namespace(NAMESPACE);
    let host = format!("{CLUSTER}-controller-{CONTROLLER}.{CLUSTER}-kafka-brokers.{NAMESPACE}.svc");
    place.apply(&manifest(&host, &gate.address().to_string()));
    let names = place.names_of_hosts();
    let controller = host.clone();
    gate.leads_to(move || names.find(&controller).ok().map(|ip| (ip, CONTROLLER_PORT).into()));
    place.ready(CLUSTER);
    let elastic = Elastic::on(place);
    let pools = [("aside", &[CUT_OFF][..]), ("broker", OTHERS), ("controller", &[CONTROLLER])];
    let shape = Shape { pools: &pools, brokers: &[0, 1, 2], voters: &[CONTROLLER] };
    elastic.becomes(&shape);
    let before = elastic.pods("broker");
    let aside = elastic.pods("aside");

    gate.cut();
    wait_for(|| {
        let found = elastic.in_sync_at("broker", 1);
        if found == [1, 2].into() { Ok(()) } else { Err(format!("in sync: {found:?}")) }
    });
    assert_eq!(elastic.in_sync_at("aside", CUT_OFF), [0, 1, 2].into(), "its metadata is stale");
    let restart = "strimzi.io/manual-rolling-update=true";
    elastic.place.kubectl(&["annotate", "strimzipodset", "my-cluster-broker", restart]);
    for _ in 0..LOOKS {
        elastic.serves();
        assert_eq!(elastic.pods("broker"), before, "two in-sync replicas are the minimum");
        assert_eq!(elastic.in_sync_at("broker", 2), [1, 2].into(), "at least two are in sync");
        std::thread::sleep(Duration::from_secs(1));
    }
    let why = elastic.place.gregor(&["why", CLUSTER]);
    println!("{}{}", why.out, why.err);
    assert!(why.out.contains("2 replicas in sync, without it 1, and needs 2"), "{}", why.out);

    gate.restore();
    wait_for(|| {
        let now = elastic.pods("broker");
        let is_new = now.len() == before.len() && now.iter().all(|(pod, uid)| before[pod] != *uid);
        if is_new { Ok(()) } else { Err(format!("{now:?}")) }
    });
    elastic.becomes(&shape);
    assert_eq!(elastic.pods("aside"), aside, "nothing restarted the broker that was cut off");
    a_broker_that_does_not_become_ready_is_restarted(&elastic, &gate);
    elastic.becomes(&shape);
    elastic.end();
}

/// A JVM that cannot reach the controllers starts and never serves. It makes progress, so the kubelet leaves it alone.
fn a_broker_that_does_not_become_ready_is_restarted(elastic: &Elastic<'_>, gate: &Gate) {
    let place = &elastic.place;
    let timeout = format!("STRIMZI_OPERATION_TIMEOUT_MS={OPERATION_TIMEOUT_MS}");
    let namespace = ["-n", "gregor"];
    place.ground.kubectl(
        &[&namespace[..], &["set", "env", "deployment/gregor-operator", &timeout]].concat(),
    );
    let pod = format!("{CLUSTER}-aside-{CUT_OFF}");
    let (aside, others) = (elastic.pods("aside"), elastic.pods("broker"));
    gate.cut();
    up::signal(place.java(&pod), Signal::KILL);
    wait_for(|| {
        let now = elastic.pods("aside");
        let status = || place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
        if now.get(&pod).is_some_and(|uid| aside[&pod] != *uid) { Ok(()) } else { Err(status()) }
    });
    elastic.serves();
    gate.restore();
    place.all_pods_ready();
    assert_eq!(elastic.pods("broker"), others, "only the pod that is not ready is restarted");
    let events = place.list("events.events.k8s.io");
    let of_pod = events.iter().filter(|one| {
        one["action"] == "StrimziInitiatedPodRestart" && one["related"]["name"] == pod.as_str()
    });
    let reasons: Vec<_> = of_pod.map(|one| one["reason"].as_str().unwrap_or_default()).collect();
    assert_eq!(reasons, ["PodUnready"]);
}

/// One controller, two brokers, and one whose pod finds the controller at another address.
fn manifest(controller: &str, proxy: &str) -> String {
    let names = [controller.to_owned(), format!("{controller}.cluster.local")];
    let aliases = json!([{ "ip": proxy, "hostnames": names }]);
    let pool = |name: &str, id: &str, replicas: usize, role: &str, template: &str| {
        format!(
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaNodePool\n\
             metadata: {{name: {name}, labels: {{strimzi.io/cluster: {CLUSTER}}}, \
             annotations: {{strimzi.io/next-node-ids: '[{id}]'}}}}\n\
             spec: {{replicas: {replicas}, roles: [{role}], storage: {{type: persistent-claim, \
             size: 1Gi, deleteClaim: true}}{template}}}\n---\n"
        )
    };
    // The template of a pool replaces that of the cluster, which shortens the end of pods.
    let template = format!(
        ", template: {{pod: {{terminationGracePeriodSeconds: 10, hostAliases: {aliases}}}}}"
    );
    let kafka = format!(
        "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {{name: {CLUSTER}}}\n\
         spec:\n  kafka:\n    listeners:\n      \
         - {{name: plain, port: 9092, type: internal, tls: false}}\n    config:\n      \
         min.insync.replicas: 2\n      offsets.topic.replication.factor: 3\n      \
         offsets.topic.num.partitions: 3\n      group.initial.rebalance.delay.ms: 0\n"
    );
    pool("controller", &CONTROLLER.to_string(), 1, "controller", "")
        + &pool("aside", &CUT_OFF.to_string(), 1, "broker", &template)
        + &pool("broker", "1-2", OTHERS.len(), "broker", "")
        + &kafka
}
