//! Controllers that come and go while a cluster serves, that lose their disks or die for good; and a
//! scale-down that would cost the quorum, which is not done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use elastic::{Elastic, FETCH_TIMEOUT_MS, Shape};
use kafka::wait_for;
use model::{DirectoryId, NodeId};
use serde_json::json;

const BROKERS: &[i32] = &[0, 1, 2];

fn becomes(elastic: &Elastic<'_>, controllers: &[i32]) {
    let pools = [("broker", BROKERS), ("controller", controllers)];
    elastic.becomes(&Shape { pools: &pools, brokers: BROKERS, voters: controllers });
}

#[test]
fn controllers_come_and_go_and_the_quorum_stays() {
    let ground = elastic::ground();
    let elastic = Elastic::start(&ground, "quorum", "kafka-persistent.yaml");
    three_become_five_and_three_again(&elastic);
    a_lost_disk_is_another_voter(&elastic);
    three_do_not_become_one_that_is_down(&elastic);
    one_becomes_three(&elastic);
    a_dead_one_is_replaced(&elastic);
    elastic.end();
}

fn three_become_five_and_three_again(elastic: &Elastic<'_>) {
    becomes(elastic, &[3, 4, 5]);
    let before = elastic.place.pods();
    elastic.scale("controller", 5);
    becomes(elastic, &[3, 4, 5, 6, 7]);
    // Every node is told where the new ones are, and is not restarted for it.
    let map = elastic.place.get("configmap", "my-cluster-broker-0");
    assert!(map["data"]["server.config"].as_str().unwrap().contains("my-cluster-controller-7"));
    elastic.scale("controller", 3);
    becomes(elastic, &[3, 4, 5]);
    assert_eq!(elastic.place.pods(), before);
    // Kafka has no way to forget a controller, and people should know.
    elastic.warns("StaleControllerRegistration", &["6 and 7"]);
}

fn directory(elastic: &Elastic<'_>, id: i32) -> Option<DirectoryId> {
    let voters = elastic.quorum().voters;
    voters.iter().find(|one| one.id.get() == id).and_then(|one| one.directory)
}

/// The pod and its claim go, and the node that comes back has an empty disk.
fn lose_disk(elastic: &Elastic<'_>, id: i32) {
    let (pod, claim) =
        (format!("my-cluster-controller-{id}"), format!("data-0-my-cluster-controller-{id}"));
    elastic.place.kubectl(&["delete", "pvc", &claim, "--wait=false"]);
    elastic.place.kubectl(&["delete", "pod", &pod, "--wait=false"]);
}

/// That of the leader, which is the worst that can be lost.
fn a_lost_disk_is_another_voter(elastic: &Elastic<'_>) {
    let leader = elastic.quorum().leader.get();
    let lost = directory(elastic, leader).unwrap();
    lose_disk(elastic, leader);
    wait_for(|| match directory(elastic, leader) {
        Some(now) if now != lost => Ok(()),
        now => Err(format!("{now:?}")),
    });
    becomes(elastic, &[3, 4, 5]);
}

/// Takes the pod of a controller away, with every machine closed to it, and waits until the others miss it.
fn goes_down(elastic: &Elastic<'_>, id: i32, lose: impl Fn()) {
    elastic.cordon_machines(true);
    lose();
    wait_for(|| {
        let quorum = elastic.quorum_now()?;
        let missed = NodeId::new(id).unwrap();
        let at = |node: NodeId| {
            quorum.voters.iter().find(|one| one.id == node).and_then(|one| one.last_caught_up_ms)
        };
        let (now, then) = (at(quorum.leader), at(missed));
        let lag = now.unwrap_or_default().saturating_sub(then.unwrap_or_default());
        if quorum.leader != missed && lag > FETCH_TIMEOUT_MS {
            Ok(())
        } else {
            Err(format!("{quorum:?}"))
        }
    });
}

fn three_do_not_become_one_that_is_down(elastic: &Elastic<'_>) {
    goes_down(elastic, 3, || {
        elastic.place.kubectl(&["delete", "pod", "my-cluster-controller-3", "--wait=false"]);
    });
    elastic.scale("controller", 1);
    elastic.warns("ControllerScaleDownRefused", &["4 and 5 stay", "behind: 3"]);
    assert_eq!(elastic.pods("controller").len(), 3);
    let voters: Vec<_> = elastic.quorum().voters.iter().map(|one| one.id.get()).collect();
    assert_eq!(voters, [3, 4, 5]);
    elastic.serves();
    // It comes back, and then it can be done.
    elastic.cordon_machines(false);
    becomes(elastic, &[3]);
    elastic.warns_no_more("ControllerScaleDownRefused");
}

fn one_becomes_three(elastic: &Elastic<'_>) {
    elastic.scale("controller", 3);
    becomes(elastic, &[3, 4, 5]);
}

fn a_dead_one_is_replaced(elastic: &Elastic<'_>) {
    goes_down(elastic, 4, || lose_disk(elastic, 4));
    let annotations =
        json!({ "strimzi.io/remove-node-ids": "[4]", "strimzi.io/next-node-ids": "[9]" });
    elastic.edit_pool(
        "controller",
        &json!({ "metadata": { "annotations": annotations }, "spec": { "replicas": 2 } }),
    );
    becomes(elastic, &[3, 5]);
    elastic.warns("KafkaKRaftControllerNodeCount", &["two controllers"]);
    elastic.cordon_machines(false);
    elastic.scale("controller", 3);
    becomes(elastic, &[3, 5, 9]);
    elastic.warns_no_more("KafkaKRaftControllerNodeCount");
}
