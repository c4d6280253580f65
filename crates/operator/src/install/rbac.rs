//! What the operator may do, and no more.
//!
//! A right is here because something in this crate uses it; a test in which the operator runs with these
//! rights fails on the first request that is refused.

use serde_json::{Value, json};

use super::{Installation, NAME, labels};

/// The ClusterRole that lets Kafka nodes read the machine that they run on, for racks and node ports.
pub const KAFKA_NODE_ROLE: &str = "gregor-kafka-node";

const API_GROUP: &str = "rbac.authorization.k8s.io";

/// A right: group, resources, verbs.
type Right = (&'static str, &'static [&'static str], &'static [&'static str]);

/// What it may do in the namespaces where clusters are.
#[rustfmt::skip]
pub const NAMESPACED: &[Right] = &[
    // What people write. It is annotated and gets finalizers; rebalances it also makes itself.
    ("kafka.strimzi.io", &["kafkas", "kafkanodepools"], &["get", "list", "watch", "patch", "update"]),
    ("kafka.strimzi.io", &["kafkarebalances"], &["get", "list", "watch", "create", "patch", "update", "delete"]),
    ("kafka.strimzi.io", &["kafkas/status", "kafkanodepools/status", "kafkarebalances/status"], &["get", "patch", "update"]),
    // An owner that must not be deleted before what it owns: some clusters ask for this right.
    ("kafka.strimzi.io", &["kafkas/finalizers", "kafkanodepools/finalizers", "kafkarebalances/finalizers"], &["update"]),
    ("core.strimzi.io", &["strimzipodsets"], &["get", "list", "watch", "create", "patch", "update", "delete"]),
    ("core.strimzi.io", &["strimzipodsets/status"], &["get", "patch", "update"]),
    ("core.strimzi.io", &["strimzipodsets/finalizers"], &["update"]),
    // What a cluster is made of.
    ("", &["pods"], &["get", "list", "watch", "create", "patch", "delete"]),
    ("", &["configmaps", "secrets", "services", "serviceaccounts", "persistentvolumeclaims"],
        &["get", "list", "watch", "create", "patch", "update", "delete"]),
    ("networking.k8s.io", &["networkpolicies"], &["get", "list", "watch", "create", "patch", "update", "delete"]),
    ("policy", &["poddisruptionbudgets"], &["get", "list", "watch", "create", "patch", "update", "delete"]),
    ("events.k8s.io", &["events"], &["create", "patch"]),
];

/// What it may do with what belongs to no namespace.
#[rustfmt::skip]
pub const GLOBAL: &[Right] = &[
    // The addresses of machines, for listeners on node ports; and what it gives to the Kafka nodes.
    ("", &["nodes"], &["get", "list"]),
    // Whether a namespace is being deleted.
    ("", &["namespaces"], &["get"]),
    // Whether volumes can grow.
    ("storage.k8s.io", &["storageclasses"], &["get", "list"]),
    // Lets the nodes of one cluster read their machines.
    (API_GROUP, &["clusterrolebindings"], &["get", "list", "create", "patch", "update", "delete"]),
];

/// The account, the roles, and who has them.
pub(super) fn objects(installation: &Installation) -> Vec<Value> {
    let namespace = installation.namespace.as_str();
    let mut objects = vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": NAME, "namespace": namespace, "labels": labels() },
        }),
        cluster_role(NAME, NAMESPACED),
        cluster_role(&global_name(), GLOBAL),
        cluster_role(KAFKA_NODE_ROLE, &[("", &["nodes"], &["get"])]),
    ];
    match installation.watch_namespaces.as_slice() {
        [] => objects.push(binding(None, NAME, ("ClusterRole", NAME), namespace)),
        watched => objects.extend(
            watched.iter().map(|to| binding(Some(to), NAME, ("ClusterRole", NAME), namespace)),
        ),
    }
    let global = global_name();
    objects.push(binding(None, &global, ("ClusterRole", &global), namespace));
    let election = election_name();
    objects.push(election_role(namespace));
    objects.push(binding(Some(namespace), &election, ("Role", &election), namespace));
    objects
}

fn global_name() -> String {
    format!("{NAME}-global")
}

fn election_name() -> String {
    format!("{NAME}-election")
}

fn cluster_role(name: &str, rights: &[Right]) -> Value {
    let rules: Vec<_> = rights
        .iter()
        .map(|(group, resources, verbs)| {
            json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
        })
        .collect();
    json!({
        "apiVersion": format!("{API_GROUP}/v1"),
        "kind": "ClusterRole",
        "metadata": { "name": name, "labels": labels() },
        "rules": rules,
    })
}

/// Leases of other programs are none of its business. Only a name that exists can be named in a rule, so
/// making one is allowed in general.
fn election_role(namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{API_GROUP}/v1"),
        "kind": "Role",
        "metadata": { "name": election_name(), "namespace": namespace, "labels": labels() },
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["create"],
            },
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": [NAME],
                "verbs": ["get", "update"],
            },
        ],
    })
}

/// Gives the operator a role, in a namespace or everywhere.
fn binding(
    namespace: Option<&str>,
    name: &str,
    (kind, role): (&str, &str),
    operator_namespace: &str,
) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    metadata["labels"] = labels();
    json!({
        "apiVersion": format!("{API_GROUP}/v1"),
        "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" },
        "metadata": metadata,
        "roleRef": { "apiGroup": API_GROUP, "kind": kind, "name": role },
        "subjects": [
            { "kind": "ServiceAccount", "name": NAME, "namespace": operator_namespace },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_right_is_for_everything() {
        for (group, resources, verbs) in NAMESPACED.iter().chain(GLOBAL) {
            assert!(!group.contains('*'), "{group}");
            assert!(
                !resources.iter().chain(*verbs).any(|word| word.contains('*')),
                "{resources:?}"
            );
            // Rights about rights, with which one could take any other.
            assert!(!verbs.iter().any(|verb| ["escalate", "bind", "impersonate"].contains(verb)));
        }
    }

    #[test]
    fn what_it_gives_to_kafka_nodes_it_has_itself() {
        let may = |verb: &str| {
            GLOBAL
                .iter()
                .any(|(_, resources, verbs)| resources.contains(&"nodes") && verbs.contains(&verb))
        };
        assert!(may("get"), "else the API server refuses to let it bind the role");
    }
}
