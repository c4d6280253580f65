//! Access and eviction: ServiceAccount, permissions, NetworkPolicy, PodDisruptionBudget.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::ResourceExt as _;

use super::Built;
use crate::{Blueprint, access, pods};

/// The binding with which nodes read Node labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    /// The existing binding, if it can be updated.
    pub existing: Option<ClusterRoleBinding>,
    /// Uid of an existing binding that must be deleted first: the role of a binding is immutable, and Strimzi
    /// binds its own role with the same name.
    pub outdated: Option<String>,
}

/// Builds the objects of every cluster.
pub fn build(blueprint: &Blueprint) -> Result<Built, serde_json::Error> {
    let objects = vec![
        access::service_account(blueprint)?.into(),
        access::network_policy(blueprint)?.into(),
        access::disruption_budget(blueprint)?.into(),
    ];
    Ok(Built { objects, ..Built::new(()) })
}

/// The name of the ClusterRoleBinding that [`binding`] needs, if any.
#[must_use]
pub fn needs(blueprint: &Blueprint) -> Option<String> {
    pods::needs_machine(blueprint).then(|| blueprint.names.init_binding())
}

/// Builds the binding. `existing` is the binding with its name.
pub fn binding(
    blueprint: &Blueprint,
    existing: Option<ClusterRoleBinding>,
) -> Result<Built<Binding>, serde_json::Error> {
    let desired = access::node_reader(blueprint)?;
    let outputs = match existing {
        Some(found) if found.role_ref != desired.role_ref => {
            Binding { existing: None, outdated: found.uid() }
        }
        existing => Binding { existing, outdated: None },
    };
    Ok(Built { objects: vec![desired.into()], ..Built::new(outputs) })
}

#[cfg(test)]
mod tests {
    use control::cluster::draft::Flow;
    use serde_json::{Value, json};

    use super::*;
    use crate::access::KAFKA_NODE_ROLE;
    use crate::object;
    use crate::samples::blueprint;

    #[test]
    fn every_cluster_has_an_account_a_policy_and_a_budget() {
        let built = build(&blueprint(json!({}), json!({}))).unwrap();
        let names: Vec<_> = built.objects.iter().map(|object| object.name()).collect();
        assert_eq!(names, ["my-kafka", "my-network-policy-kafka", "my-kafka"]);
        assert_eq!((built.flow, built.warnings.len()), (Flow::Go, 0));
    }

    #[test]
    fn nodes_that_have_to_know_their_machine_need_a_binding() {
        let node_ports = json!([{ "name": "out", "port": 9094, "type": "nodeport", "tls": false }]);
        let rows = [
            (json!({}), None),
            (json!({ "rack": { "topologyKey": "zone" } }), Some("strimzi-here-my-kafka-init")),
            (json!({ "listeners": node_ports }), Some("strimzi-here-my-kafka-init")),
        ];
        for (kafka, expected) in rows {
            let blueprint = blueprint(kafka.clone(), json!({}));
            assert_eq!(needs(&blueprint).as_deref(), expected, "{kafka}");
        }
    }

    #[test]
    fn a_binding_of_another_role_is_replaced() {
        let found = |role: &str, uid: Value| -> ClusterRoleBinding {
            let group = "rbac.authorization.k8s.io";
            object(json!({
                "metadata": { "name": "strimzi-here-my-kafka-init", "uid": uid },
                "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
            }))
            .unwrap()
        };
        let (ours, theirs) = (KAFKA_NODE_ROLE, "strimzi-kafka-broker");
        // The existing binding, whether it is kept, the uid to delete.
        let rows = [
            (None, false, None),
            (Some(found(ours, json!("1"))), true, None),
            (Some(found(theirs, json!("2"))), false, Some("2")),
            (Some(found(theirs, Value::Null)), false, None),
        ];
        let blueprint = blueprint(json!({}), json!({}));
        for (existing, kept, outdated) in rows {
            let built = binding(&blueprint, existing.clone()).unwrap();
            assert_eq!(built.objects[0].name(), "strimzi-here-my-kafka-init");
            assert_eq!(built.outputs.existing, existing.filter(|_| kept));
            assert_eq!(built.outputs.outdated.as_deref(), outdated);
        }
    }
}
