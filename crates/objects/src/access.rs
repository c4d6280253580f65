//! Who may reach the nodes and what they may read: the ServiceAccount, the right to read the labels of
//! machines, the NetworkPolicy; and how many nodes may be evicted at a time.

use api::Verbatim;
use api::names::{AGENT_PORT, CONTROLLER_PORT, KIND_LABEL, REPLICATION_PORT};
use control::annotations::Annotation;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::{Value, json};

use crate::pods::METRICS_PORT;
use crate::{Blueprint, object};

/// The ClusterRole that lets Kafka nodes read the machine that they run on, for racks and node ports.
pub const KAFKA_NODE_ROLE: &str = "gregor-kafka-node";

/// The annotation with the namespace of the cluster that a binding is for.
pub const NAMESPACE: &str = Annotation::Namespace.name();

type Built<K> = Result<K, serde_json::Error>;

/// The account that all nodes run as.
pub fn service_account(blueprint: &Blueprint) -> Built<ServiceAccount> {
    let template = blueprint.kafka.spec.kafka.template.as_ref();
    let template = template.and_then(|template| template.service_account.as_ref());
    let metadata = blueprint.metadata(
        &blueprint.names.component(),
        blueprint.labels(),
        template.and_then(|template| template.metadata.as_ref()),
    );
    object(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }))
}

/// The right of the nodes to read the labels and addresses of machines. Belongs to no namespace, so
/// nothing owns it: it is taken away by name.
pub fn node_reader(blueprint: &Blueprint) -> Built<ClusterRoleBinding> {
    let mut metadata =
        blueprint.metadata(&blueprint.names.init_binding(), blueprint.labels(), None);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("namespace");
        metadata.remove("ownerReferences");
        metadata.insert("annotations".to_owned(), json!({ NAMESPACE: blueprint.names.namespace }));
    }
    object(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": KAFKA_NODE_ROLE,
        },
        "subjects": [{
            "kind": "ServiceAccount",
            "name": blueprint.names.component(),
            "namespace": blueprint.names.namespace,
        }],
    }))
}

/// Evictions leave all nodes but one, unless the user says otherwise. The number is absolute because
/// Kubernetes cannot count the pods of a controller that it does not know.
pub fn disruption_budget(blueprint: &Blueprint) -> Built<PodDisruptionBudget> {
    let template = blueprint.kafka.spec.kafka.template.as_ref();
    let template = template.and_then(|template| template.pod_disruption_budget.as_ref());
    let unavailable = template.and_then(|template| template.max_unavailable).unwrap_or(1);
    let nodes = i64::try_from(blueprint.nodes.len()).unwrap_or(i64::MAX);
    let metadata = blueprint.metadata(
        &blueprint.names.component(),
        blueprint.labels(),
        template.and_then(|template| template.metadata.as_ref()),
    );
    object(json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {
            "minAvailable": (nodes - unavailable).max(0),
            "selector": { "matchLabels": blueprint.names.selector(None) },
        },
    }))
}

/// Controllers and brokers are reached by each other and by the operator; each listener by whom its
/// user says, which is everybody if he says nothing.
pub fn network_policy(blueprint: &Blueprint) -> Built<NetworkPolicy> {
    let operator = json!({
        "podSelector": { "matchLabels": { KIND_LABEL: "cluster-operator" } },
        "namespaceSelector": {},
    });
    let nodes = json!({ "podSelector": { "matchLabels": blueprint.names.selector(None) } });
    let mut ingress = vec![
        rule(CONTROLLER_PORT.into(), &[nodes.clone(), operator.clone()]),
        rule(REPLICATION_PORT.into(), &[nodes, operator.clone()]),
        rule(AGENT_PORT.into(), &[operator]),
    ];
    for listener in &blueprint.kafka.spec.kafka.listeners {
        let peers = listener.network_policy_peers.as_deref().unwrap_or_default();
        let peers: Vec<_> = peers.iter().map(|Verbatim(peer)| json!(peer)).collect();
        ingress.push(rule(listener.port, &peers));
    }
    if blueprint.spec.metrics.is_some() {
        ingress.push(rule(METRICS_PORT.into(), &[]));
    }
    let metadata = blueprint.metadata(&blueprint.names.network_policy(), blueprint.labels(), None);
    object(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": { "matchLabels": blueprint.names.selector(None) },
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }))
}

/// A port and who may reach it; everybody if nobody is named.
fn rule(port: i64, from: &[Value]) -> Value {
    let mut rule = json!({ "ports": [{ "port": port, "protocol": "TCP" }] });
    if !from.is_empty() {
        rule["from"] = json!(from);
    }
    rule
}
