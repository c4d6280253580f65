//! The rights of the operator, each because a request of this crate needs it.
//!
//! Scenarios run with these rights on a real API server that logs each request, and `cargo xtask rbac` compares
//! the log with this table: a verb that no scenario uses fails the build, and so does a request that is refused.
//!
//! `patch` creates, too: server-side apply of an object that does not exist needs `create` besides.

use objects::access::KAFKA_NODE_ROLE;
use serde_json::{Value, json};

use super::{Installation, NAME, labels, policy};

const API_GROUP: &str = "rbac.authorization.k8s.io";

/// A right: group, resources, verbs.
type Right = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Rights in the namespaces of clusters.
#[rustfmt::skip]
pub const NAMESPACED: &[Right] = &[
    // Written by users. The operator annotates them and sets finalizers; rebalances it also creates itself.
    ("kafka.strimzi.io", &["kafkas"], &["get", "list", "watch", "patch"]),
    ("kafka.strimzi.io", &["kafkanodepools"], &["list", "watch", "patch"]),
    ("kafka.strimzi.io", &["kafkarebalances"], &["get", "list", "watch", "create", "patch", "delete"]),
    ("kafka.strimzi.io", &["kafkatopics"], &["list", "watch", "patch"]),
    ("kafka.strimzi.io", &["kafkausers"], &["list", "watch"]),
    ("kafka.strimzi.io", &["kafkas/status", "kafkanodepools/status", "kafkarebalances/status", "kafkatopics/status", "kafkausers/status"], &["patch"]),
    // Dependents block the deletion of their Kafka. Where the admission plugin OwnerReferencesPermissionEnforcement
    // is on (OpenShift, and local mode) that needs this right, which no request shows.
    ("kafka.strimzi.io", &["kafkas/finalizers"], &["update"]),
    ("core.strimzi.io", &["strimzipodsets"], &["get", "list", "watch", "create", "patch", "delete"]),
    ("core.strimzi.io", &["strimzipodsets/status"], &["patch"]),
    // The objects of a cluster. Records and authorities are replaced whole, so that a lost update is refused.
    ("", &["pods"], &["get", "list", "watch", "create", "patch", "delete"]),
    ("", &["configmaps", "secrets"], &["get", "list", "watch", "create", "patch", "update", "delete"]),
    // A Service is read by name before Cruise Control is contacted through it.
    ("", &["services"], &["get", "list", "watch", "create", "patch", "delete"]),
    ("", &["persistentvolumeclaims"], &["list", "watch", "create", "patch", "delete"]),
    // What is deleted of these, and of the next two, are objects of an entity operator or an exporter that this operator replaces.
    ("", &["serviceaccounts"], &["list", "watch", "create", "patch", "delete"]),
    ("networking.k8s.io", &["networkpolicies"], &["list", "watch", "create", "patch", "delete"]),
    ("policy", &["poddisruptionbudgets"], &["list", "watch", "create", "patch", "delete"]),
    ("apps", &["deployments"], &["list", "delete"]),
    (API_GROUP, &["roles", "rolebindings"], &["list", "delete"]),
    ("events.k8s.io", &["events"], &["create", "patch"]),
];

/// Rights on objects without a namespace.
#[rustfmt::skip]
pub const GLOBAL: &[Right] = &[
    // Addresses for listeners on node ports. Also what it grants to Kafka nodes: without this right the API
    // server would refuse the binding.
    ("", &["nodes"], &["get"]),
    // Whether a namespace is being deleted.
    ("", &["namespaces"], &["get"]),
    // Whether volumes can grow.
    ("storage.k8s.io", &["storageclasses"], &["get"]),
    // Lets the nodes of one cluster read their machines; which bindings, the admission policy says.
    (API_GROUP, &["clusterrolebindings"], &["get", "list", "create", "patch", "delete"]),
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
    objects.extend(policy::objects(namespace));
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
    fn the_operator_holds_what_it_grants_to_kafka_nodes() {
        let may = |verb: &str| {
            GLOBAL
                .iter()
                .any(|(_, resources, verbs)| resources.contains(&"nodes") && verbs.contains(&verb))
        };
        assert!(may("get"), "else the API server refuses to let it bind the role");
    }
}
