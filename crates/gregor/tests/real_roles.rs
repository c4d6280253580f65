//! A cluster with a static quorum that becomes dynamic, loses a disk, and whose nodes get and lose roles and leave, all
//! under load. The long forms are `soak_migration`, `soak_quorum` and `soak_roles`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use elastic::{CLUSTER, Elastic, Shape};
use kafka::wait_for;
use serde_json::{Value, json};

const MIGRATION: &str = "strimzi.io/kraft-quorum-migration";
const DUAL: &[i32] = &[0, 1, 2];
const WITH_EXTRA: &[(&str, &[i32])] = &[("dual-role", DUAL), ("extra", &[3])];

#[test]
fn a_static_quorum_is_migrated_and_nodes_change_disks_and_roles() {
    let ground = elastic::ground();
    let elastic = Elastic::with_static_quorum(&ground, "roles", "kafka-dual-role.yaml");
    a_static_quorum_gets_no_voter(&elastic);
    the_quorum_becomes_dynamic(&elastic);
    a_lost_disk_is_another_voter(&elastic);
    a_broker_with_data_keeps_its_role(&elastic);
    a_controller_leaves(&elastic);
    elastic.end();
}

/// A pool of controllers waits until the quorum is dynamic.
fn a_static_quorum_gets_no_voter(elastic: &Elastic<'_>) {
    let shape = [("dual-role", DUAL)];
    elastic.becomes(&Shape { pools: &shape, brokers: DUAL, voters: DUAL });
    let kafka = elastic.place.get("kafka", CLUSTER);
    assert_eq!(kafka["status"]["clusterId"], elastic::STATIC_ID);
    assert_eq!(kafka["status"]["initialControllers"], Value::Null);
    let config = elastic.place.get("configmap", "my-cluster-dual-role-0");
    let config = config["data"]["server.config"].as_str().unwrap().to_owned();
    assert!(config.contains("controller.quorum.voters=0@"), "{config}");
    assert!(!config.contains("controller.quorum.bootstrap.servers"), "{config}");
    let before = elastic.place.pods();
    elastic.add_pool("extra", &["controller"], 1);
    elastic.warns("StaticQuorum", &["not added: 3", MIGRATION]);
    assert_eq!(elastic.place.pods(), before);
}

fn the_quorum_becomes_dynamic(elastic: &Elastic<'_>) {
    let place = &elastic.place;
    place.kubectl(&["annotate", "kafka", CLUSTER, &format!("{MIGRATION}=true")]);
    wait_for(|| {
        let left = place.get("kafka", CLUSTER)["metadata"]["annotations"][MIGRATION].clone();
        let status = || place.get("kafka", CLUSTER)["status"]["conditions"].to_string();
        if left.is_null() { Ok(()) } else { Err(status()) }
    });
    // The node that waited becomes a voter.
    elastic.becomes(&Shape { pools: WITH_EXTRA, brokers: DUAL, voters: &[0, 1, 2, 3] });
    elastic.warns_no_more("StaticQuorum");
    let record = place.get("configmap", "my-cluster-gregor");
    let record: Value =
        serde_json::from_str(record["data"]["record.json"].as_str().unwrap()).unwrap();
    assert_eq!(record["quorumMigration"], "done");
}

/// The disk of the leader, which is the worst that can be lost. The broker on it gets its replicas from others.
fn a_lost_disk_is_another_voter(elastic: &Elastic<'_>) {
    let directory = |id: i32| {
        let voters = elastic.quorum().voters;
        voters.iter().find(|one| one.id.get() == id).and_then(|one| one.directory)
    };
    let leader = elastic.quorum().leader.get();
    let lost = directory(leader).unwrap();
    let pool = if leader == 3 { "extra" } else { "dual-role" };
    let pod = format!("{CLUSTER}-{pool}-{leader}");
    elastic.place.kubectl(&["delete", "pvc", &format!("data-0-{pod}"), "--wait=false"]);
    elastic.place.kubectl(&["delete", "pod", &pod, "--wait=false"]);
    wait_for(|| match directory(leader) {
        Some(now) if now != lost => Ok(()),
        now => Err(format!("{now:?}")),
    });
    elastic.becomes(&Shape { pools: WITH_EXTRA, brokers: DUAL, voters: &[0, 1, 2, 3] });
}

/// A controller becomes a broker too; with data it keeps that role, without it loses it.
fn a_broker_with_data_keeps_its_role(elastic: &Elastic<'_>) {
    let both = Shape { pools: WITH_EXTRA, brokers: &[0, 1, 2, 3], voters: &[0, 1, 2, 3] };
    let before = elastic.pods("dual-role");
    elastic.set_roles("extra", &["controller", "broker"]);
    elastic.becomes(&both);
    elastic.create("held", &[&[3, 0, 1]]);
    elastic.set_roles("extra", &["controller"]);
    elastic.warns("ScaleDownPreventionCheck", &["KafkaNodePool extra", "broker 3", "1 partition"]);
    elastic.becomes(&both);
    let roles = || elastic.place.get("kafkanodepool", "extra")["status"]["roles"].clone();
    assert_eq!(roles(), json!(["controller", "broker"]));
    elastic.empty(&[3], DUAL);
    elastic.becomes(&Shape { pools: WITH_EXTRA, brokers: DUAL, voters: &[0, 1, 2, 3] });
    elastic.warns_no_more("ScaleDownPreventionCheck");
    assert_eq!(roles(), json!(["controller"]));
    assert_eq!(elastic.pods("dual-role"), before);
}

/// It is no voter any more before it is stopped, and it is deleted completely.
fn a_controller_leaves(elastic: &Elastic<'_>) {
    let before = elastic.pods("dual-role");
    elastic.place.kubectl(&["delete", "kafkanodepool", "extra", "--wait=false"]);
    let dual = [("dual-role", DUAL)];
    elastic.becomes(&Shape { pools: &dual, brokers: DUAL, voters: DUAL });
    wait_for(|| {
        let mut left = elastic.place.names("kafkanodepools,strimzipodsets,configmaps,secrets,pvc");
        left.retain(|name| name.contains("extra"));
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert_eq!(elastic.pods("dual-role"), before);
}
