//! Network and API access of the nodes: ServiceAccount, permission to read Node labels, NetworkPolicy; and
//! the PodDisruptionBudget.

use api::Verbatim;
use api::names::{AGENT_PORT, CONTROLLER_PORT, KIND_LABEL, NAME_LABEL, REPLICATION_PORT};
use control::annotations::Annotation;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::{Value, json};

use crate::pods::METRICS_PORT;
use crate::{Blueprint, object};

/// The ClusterRole with which Kafka nodes read their Kubernetes Node, for racks and node ports.
pub const KAFKA_NODE_ROLE: &str = "gregor-kafka-node";

/// Annotation: the namespace of the cluster that a binding belongs to.
pub const NAMESPACE: &str = Annotation::Namespace.name();

/// Components of Strimzi that use the port of the brokers until Gregor replaces them, or for as long as the user keeps them.
const STRIMZI_COMPONENTS: [&str; 3] = ["entity-operator", "kafka-exporter", "cruise-control"];

type Built<K> = Result<K, serde_json::Error>;

/// The account of all nodes.
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

/// Permission of the nodes to read labels and addresses of Kubernetes Nodes. It is cluster-scoped and has no
/// owner, so it is deleted by name.
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

/// Evictions leave all nodes but one, unless the user configures otherwise. The number is absolute because
/// Kubernetes cannot count the pods of an unknown controller.
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

/// Controllers and brokers are reachable by each other and by the operator, brokers by components of Strimzi; each listener by the peers that
/// its user configured, default: all.
pub fn network_policy(blueprint: &Blueprint) -> Built<NetworkPolicy> {
    let operator = json!({
        "podSelector": { "matchLabels": { KIND_LABEL: "cluster-operator" } },
        "namespaceSelector": {},
    });
    let nodes = json!({ "podSelector": { "matchLabels": blueprint.names.selector(None) } });
    let mut replication = vec![nodes.clone(), operator.clone()];
    let components = STRIMZI_COMPONENTS.iter().map(|component| {
        let name = format!("{}-{component}", blueprint.names.cluster);
        json!({ "podSelector": { "matchLabels": { NAME_LABEL: name } } })
    });
    replication.extend(components);
    let mut ingress = vec![
        rule(CONTROLLER_PORT.into(), &[nodes.clone(), operator.clone()]),
        rule(REPLICATION_PORT.into(), &replication),
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

/// A rule for a port; all peers if none are listed.
fn rule(port: i64, from: &[Value]) -> Value {
    let mut rule = json!({ "ports": [{ "port": port, "protocol": "TCP" }] });
    if !from.is_empty() {
        rule["from"] = json!(from);
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::blueprint;

    #[test]
    fn components_of_strimzi_reach_the_brokers_and_nothing_else() {
        let policy = network_policy(&blueprint(json!({}), json!({}))).unwrap();
        let policy = serde_json::to_value(policy).unwrap();
        let rules = policy["spec"]["ingress"].as_array().unwrap();
        let ports_of = |component: &str| -> Vec<i64> {
            let of = format!("my-{component}");
            let has = |rule: &&Value| {
                let mut peers = rule["from"].as_array().into_iter().flatten();
                peers.any(|peer| peer["podSelector"]["matchLabels"][NAME_LABEL] == of)
            };
            rules.iter().filter(has).filter_map(|rule| rule["ports"][0]["port"].as_i64()).collect()
        };
        for component in STRIMZI_COMPONENTS {
            assert_eq!(ports_of(component), [i64::from(REPLICATION_PORT)], "{component}");
        }
    }
}
