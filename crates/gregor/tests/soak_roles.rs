//! Roles that nodes get and lose while their cluster serves: from combined nodes to controllers and brokers
//! of their own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use elastic::{Elastic, Shape};
use serde_json::json;

const DUAL: &[i32] = &[0, 1, 2];

#[test]
fn roles_come_and_go_and_data_stays() {
    let ground = elastic::ground();
    let elastic = Elastic::start(&ground, "roles", "kafka-dual-role.yaml");
    a_broker_gets_a_vote(&elastic);
    a_broker_with_data_keeps_its_role(&elastic);
    a_broker_without_data_loses_its_role(&elastic);
    combined_nodes_become_brokers_beside_controllers(&elastic);
    elastic.end();
}

fn a_broker_gets_a_vote(elastic: &Elastic<'_>) {
    elastic.add_pool("extra", &["broker"], 1);
    let pools = [("dual-role", DUAL), ("extra", &[3][..])];
    elastic.becomes(&Shape { pools: &pools, brokers: &[0, 1, 2, 3], voters: DUAL });
    let before = elastic.pods("dual-role");
    elastic.set_roles("extra", &["controller", "broker"]);
    elastic.becomes(&Shape { pools: &pools, brokers: &[0, 1, 2, 3], voters: &[0, 1, 2, 3] });
    elastic.warns("KafkaKRaftControllerNodeCount", &["4 controllers"]);
    assert_eq!(elastic.pods("dual-role"), before);
}

fn a_broker_with_data_keeps_its_role(elastic: &Elastic<'_>) {
    let before = elastic.place.pods();
    elastic.create("held", &[&[3, 0, 1]]);
    elastic.set_roles("extra", &["controller"]);
    elastic.warns("ScaleDownPreventionCheck", &["KafkaNodePool extra", "broker 3", "1 partition"]);
    let pools = [("dual-role", DUAL), ("extra", &[3][..])];
    elastic.becomes(&Shape { pools: &pools, brokers: &[0, 1, 2, 3], voters: &[0, 1, 2, 3] });
    assert_eq!(elastic.place.pods(), before);
    // What it still is, whatever is desired.
    let roles = elastic.place.get("kafkanodepool", "extra")["status"]["roles"].clone();
    assert_eq!(roles, json!(["controller", "broker"]));
}

fn a_broker_without_data_loses_its_role(elastic: &Elastic<'_>) {
    elastic.empty(&[3], &[0, 1, 2]);
    let pools = [("dual-role", DUAL), ("extra", &[3][..])];
    elastic.becomes(&Shape { pools: &pools, brokers: DUAL, voters: &[0, 1, 2, 3] });
    elastic.warns_no_more("ScaleDownPreventionCheck");
    let roles = elastic.place.get("kafkanodepool", "extra")["status"]["roles"].clone();
    assert_eq!(roles, json!(["controller"]));
    // Its disk is the one that it had.
    let claims = elastic.place.names("pvc");
    assert!(claims.contains(&"data-0-my-cluster-extra-3".to_owned()), "{claims:?}");
}

fn combined_nodes_become_brokers_beside_controllers(elastic: &Elastic<'_>) {
    elastic.scale("extra", 3);
    elastic.set_roles("dual-role", &["broker"]);
    let pools = [("dual-role", DUAL), ("extra", &[3, 4, 5][..])];
    elastic.becomes(&Shape { pools: &pools, brokers: DUAL, voters: &[3, 4, 5] });
    for pod in elastic.place.list("pods") {
        let labels = &pod["metadata"]["labels"];
        let is_broker = labels["strimzi.io/pool-name"] == "dual-role";
        assert_eq!(labels["strimzi.io/broker-role"], json!(is_broker.to_string()));
        assert_eq!(labels["strimzi.io/controller-role"], json!((!is_broker).to_string()));
    }
}
