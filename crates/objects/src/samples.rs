//! Clusters for tests to begin with.

use std::cell::RefCell;
use std::collections::BTreeSet;

use api::names::Names;
use api::{Kafka, KafkaNodePool};
use control::cluster::draft::Flow;
use control::conditions::{Note, Reason};
use control::node::Roles;
use model::NodeId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Blueprint, Node, object};

pub(crate) fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// The cluster `my` in the namespace `here`, with brokers 0 and 1 and controller 2. The fields of
/// `kafka` are set in `spec.kafka`, those of `pool` in the spec of both pools.
pub(crate) fn blueprint(kafka: Value, pool: Value) -> Blueprint {
    let listener = json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false });
    let kafka: Kafka = resource(
        "Kafka",
        "my",
        json!({ "kafka": with(json!({ "listeners": [listener] }), kafka) }),
    );
    let pools = [("broker", 2), ("controller", 1)].map(|(name, replicas)| -> KafkaNodePool {
        let storage = json!({ "type": "persistent-claim", "size": "10Gi" });
        let spec = json!({ "replicas": replicas, "roles": [name], "storage": storage });
        resource("KafkaNodePool", name, with(spec, pool.clone()))
    });
    let node = |number, pool: &str, roles| Node { id: id(number), pool: pool.to_owned(), roles };
    let nodes = vec![
        node(0, "broker", Roles::Broker),
        node(1, "broker", Roles::Broker),
        node(2, "controller", Roles::Controller),
    ];
    Blueprint {
        names: Names::new("here", "my"),
        spec: api::read::cluster(&kafka, &pools).unwrap(),
        kafka,
        pools: pools.into(),
        desired: nodes.iter().map(|node| (node.id, node.roles)).collect(),
        nodes,
        refused: Default::default(),
        domain: "cluster.local".to_owned(),
    }
}

fn resource<K: DeserializeOwned>(kind: &str, name: &str, spec: Value) -> K {
    let metadata = json!({ "name": name, "namespace": "here", "uid": "u" });
    let version = "kafka.strimzi.io/v1";
    object(json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec }))
        .unwrap()
}

fn with(mut spec: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

thread_local! {
    static SEEN: RefCell<BTreeSet<Reason>> = const { RefCell::new(BTreeSet::new()) };
}

/// The reasons of what rows build.
pub(crate) fn recorded(rows: impl FnOnce()) -> BTreeSet<Reason> {
    SEEN.take();
    rows();
    SEEN.take()
}

/// Records the reasons of what was built.
pub(crate) fn seen(warnings: &[Note], flow: &Flow) {
    let notes = warnings.iter().chain(flow.note());
    SEEN.with_borrow_mut(|seen| seen.extend(notes.map(|note| note.reason)));
}
