//! Kafka clusters in containers: images, chart, operator and nodes on a real kubelet with containerd, in namespaces that
//! enforce the Pod Security profile `restricted`. Clients are pods, and nothing they were promised is lost.
//!
//! `make soak PART=e2e` builds the images and starts the nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod e2e;

use std::collections::BTreeSet;
use std::process::Command;

use e2e::{Load, Place, kubectl, registry, try_kubectl, wait_for};

#[test]
fn a_cluster_serves_clients_in_pods_by_their_names() {
    let place = Place::with_cluster("names");
    let load = Load::start(&place);
    load.more(200);
    // All that runs comes from the registry that the chart was given, as a user that is not root.
    let mut pods = place.pods();
    let operator = ["get", "pods", "--namespace", "gregor", "--output", "json"];
    let operator: serde_json::Value = serde_json::from_str(&kubectl(&operator)).unwrap();
    pods.extend(operator["items"].as_array().unwrap().clone());
    assert_eq!(pods.len(), 7);
    for pod in &pods {
        for container in pod["spec"]["containers"].as_array().unwrap() {
            let image = container["image"].as_str().unwrap();
            assert!(image.starts_with(&format!("{}/gregor-", registry())), "{image}");
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        }
    }
    let id = place.kubectl(&["exec", "my-cluster-broker-10", "--", "id"]);
    assert!(id.starts_with("uid=1001 gid=0(root)"), "{id}");
    let wrote = ["exec", "my-cluster-broker-10", "--", "touch", "/opt/kafka/x"];
    assert!(place.try_kubectl(&wrote).unwrap_err().contains("Read-only file system"));
    load.stop();
    place.nothing_failed();
    place.end();
}

#[test]
fn nodes_are_rolled_one_by_one_and_no_record_is_lost() {
    let place = Place::with_cluster("roll");
    let load = Load::start(&place);
    for pool in ["broker", "controller"] {
        let before = place.uids(pool);
        let set = format!("strimzipodset/my-cluster-{pool}");
        place.kubectl(&["annotate", &set, "strimzi.io/manual-rolling-update=true"]);
        wait_for(|| {
            let pods = place.pods();
            let down: Vec<_> = pods.iter().filter(|pod| !is_ready(pod)).collect();
            // A pod that is deleted is not there for a moment.
            let missing = 6 - pods.len();
            assert!(down.len() + missing <= 1, "{} of {pool} are down", down.len() + missing);
            let after = place.uids(pool);
            let same = after.values().filter(|uid| before.values().any(|old| old == *uid)).count();
            if after.len() == 3 && same == 0 { Ok(()) } else { Err(format!("{after:?}")) }
        });
        place.ready();
    }
    load.more(100);
    load.stop();
    place.nothing_failed();
    place.end();
}

#[test]
fn brokers_come_and_go_and_no_record_is_lost() {
    let place = Place::with_cluster("scale");
    let load = Load::start(&place);
    place.kubectl(&["scale", "kafkanodepool/broker", "--replicas=4"]);
    wait_for(|| if place.uids("broker").len() == 4 { Ok(()) } else { Err("3 brokers".to_owned()) });
    place.ready();
    load.more(100);
    // Replicas are moved to the new broker, so that there is something to drain.
    wait_for(|| match replicas(&place, 13) {
        0 => Err("broker 13 has no replicas".to_owned()),
        _ => Ok(()),
    });
    wait_for(|| rebalanced(&place));
    place.kubectl(&["scale", "kafkanodepool/broker", "--replicas=3"]);
    wait_for(|| if place.uids("broker").len() == 3 { Ok(()) } else { Err("4 brokers".to_owned()) });
    wait_for(|| rebalanced(&place));
    place.ready();
    let left: BTreeSet<_> = place.uids("broker").into_keys().collect();
    let expected = [10, 11, 12].map(|id| format!("my-cluster-broker-{id}"));
    assert_eq!(left, BTreeSet::from(expected));
    load.more(100);
    load.stop();
    place.nothing_failed();
    place.end();
}

#[test]
fn a_drained_machine_gives_its_nodes_to_others_and_no_record_is_lost() {
    let place = Place::with_cluster("drain");
    let load = Load::start(&place);
    let on_n2 = |pods: &[serde_json::Value]| {
        pods.iter().filter(|pod| pod["spec"]["nodeName"] == "n2").count()
    };
    let before = on_n2(&place.pods());
    assert!(before > 0, "there is nothing to drain");
    let drain = ["drain", "n2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s"];
    let drained = try_kubectl(&drain);
    let moved = place.pods();
    kubectl(&["uncordon", "n2"]);
    drained.unwrap();
    assert_eq!(on_n2(&moved), 0, "{moved:?}");
    place.ready();
    wait_for(|| match place.pods().iter().all(is_ready) {
        true => Ok(()),
        false => Err(place.kubectl(&["get", "pods", "-o", "wide"])),
    });
    load.more(100);
    load.stop();
    place.nothing_failed();
    place.end();
}

#[test]
fn a_cluster_serves_while_there_is_no_operator_and_the_next_one_restarts_nothing() {
    let place = Place::with_cluster("orphan");
    let load = Load::start(&place);
    let before = [place.uids("broker"), place.uids("controller")];
    e2e::uninstall();
    assert_eq!(kubectl(&["get", "deployments", "--namespace", "gregor", "--output", "name"]), "");
    load.more(200);
    e2e::install_again();
    // What it does shows that it has seen the cluster.
    place.kubectl(&["scale", "kafkanodepool/broker", "--replicas=4"]);
    wait_for(|| if place.uids("broker").len() == 4 { Ok(()) } else { Err("3 brokers".to_owned()) });
    place.ready();
    let after = place.uids("broker");
    assert!(
        before[0].iter().all(|(name, uid)| after.get(name) == Some(uid)),
        "{before:?} {after:?}"
    );
    assert_eq!(before[1], place.uids("controller"));
    load.more(100);
    load.stop();
    place.nothing_failed();
    place.end();
}

/// The network of a machine, as the tests run where its cable ends.
fn cable(machine: &str, state: &str) {
    let words = ["link", "set", &format!("ve-{machine}"), state];
    assert!(Command::new("ip").args(words).status().unwrap().success());
}

fn machine_is_ready(machine: &str, expected: &str) -> Result<(), String> {
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let status = kubectl(&["get", "node", machine, "--output", path]);
    if status == expected { Ok(()) } else { Err(format!("{machine}: Ready is {status}")) }
}

#[test]
fn a_machine_that_is_cut_off_and_comes_back_takes_no_record_with_it() {
    let place = Place::with_cluster("cut");
    let load = Load::start(&place);
    let pods = place.pods();
    // A machine with a node of the cluster, without which two of each role are left.
    let on = |machine: &str, role: &str| {
        let label = &format!("strimzi.io/{role}-role");
        let own = pods.iter().filter(|pod| pod["spec"]["nodeName"] == machine);
        own.filter(|pod| pod["metadata"]["labels"][label] == "true").count()
    };
    let mut machines = ["n2", "n3"].into_iter();
    let cut = machines.find(|machine| on(machine, "broker") == 1 && on(machine, "controller") <= 1);
    let cut = cut.unwrap_or_else(|| panic!("no machine has one broker and at most one controller"));
    let before = [place.uids("broker"), place.uids("controller")];
    cable(cut, "down");
    wait_for(|| machine_is_ready(cut, "Unknown"));
    load.more(200);
    cable(cut, "up");
    wait_for(|| machine_is_ready(cut, "True"));
    wait_for(|| match place.pods().iter().all(is_ready) {
        true => Ok(()),
        false => Err(place.kubectl(&["get", "pods", "-o", "wide"])),
    });
    place.ready();
    assert_eq!(before, [place.uids("broker"), place.uids("controller")]);
    load.more(100);
    load.stop();
    let restarts = place.restarts();
    assert!(restarts.values().all(|count| *count == 0), "{restarts:?}");
    place.end();
}

fn is_ready(pod: &serde_json::Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    ready && pod["metadata"]["deletionTimestamp"].is_null()
}

/// The partitions of which a broker holds a replica.
fn replicas(place: &Place, broker: u32) -> usize {
    let own = format!(
        "/opt/java/bin/java -Xmx64m -cp '/opt/kafka/libs/*' org.apache.kafka.tools.TopicCommand \
        --bootstrap-server my-cluster-kafka-bootstrap.{}.svc:9092 --describe --topic load",
        place.namespace
    );
    let text = place.kubectl(&["exec", "consumer", "--", "sh", "-c", &own]);
    let replicas = text.lines().filter_map(|line| line.split("Replicas: ").nth(1));
    let ids = replicas.filter_map(|rest| rest.split_whitespace().next());
    ids.filter(|ids| ids.split(',').any(|id| id == broker.to_string())).count()
}

/// Whether no automatic rebalance is in progress.
fn rebalanced(place: &Place) -> Result<(), String> {
    let kafka = place.get(&["kafka", e2e::CLUSTER]);
    let state = &kafka["status"]["autoRebalance"]["state"];
    if state == "Idle" { Ok(()) } else { Err(kafka["status"].to_string()) }
}
