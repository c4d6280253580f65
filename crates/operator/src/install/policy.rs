//! Limits which ClusterRoleBindings the operator writes.
//!
//! RBAC cannot: a right on `clusterrolebindings` names no role, and whoever may create a binding may bind every
//! role whose rights it holds itself, such as its own, to any account. The verb `bind` only adds to that. So an
//! admission policy refuses every binding of the operator but those of [`KAFKA_NODE_ROLE`] to accounts of Kafka
//! nodes, and every deletion of a binding that is not one of these.

use objects::access::KAFKA_NODE_ROLE;
use serde_json::{Value, json};

use super::{NAME, labels};

/// The role that Strimzi binds by the name that we use, too. A cluster that is taken over has such a binding,
/// and a role cannot be changed in place.
const STRIMZI_NODE_ROLE: &str = "strimzi-kafka-broker";

/// The name of the policy and of its binding.
const POLICY: &str = "gregor-operator-bindings";

/// The policy, and where it holds: everywhere.
pub(super) fn objects(namespace: &str) -> [Value; 2] {
    let api_version = "admissionregistration.k8s.io/v1";
    let metadata = json!({ "name": POLICY, "labels": labels() });
    let operator =
        format!(r#"request.userInfo.username == "system:serviceaccount:{namespace}:{NAME}""#);
    [
        json!({
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": ["rbac.authorization.k8s.io"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["clusterrolebindings"],
                }] },
                "matchConditions": [{ "name": "operator", "expression": operator }],
                "validations": validations(),
            },
        }),
        json!({
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": { "policyName": POLICY, "validationActions": ["Deny"] },
        }),
    ]
}

fn validations() -> Value {
    json!([
        {
            "expression": format!(
                r#"request.operation == "DELETE" || object.roleRef.name == "{KAFKA_NODE_ROLE}""#
            ),
            "message": format!("the operator may bind only the ClusterRole {KAFKA_NODE_ROLE}"),
        },
        {
            "expression": "request.operation == \"DELETE\" || !has(object.subjects) || \
                object.subjects.all(s, s.kind == \"ServiceAccount\" && s.name.endsWith(\"-kafka\"))",
            "message": format!("the operator may bind {KAFKA_NODE_ROLE} only to accounts of Kafka nodes"),
        },
        {
            "expression": format!(
                r#"request.operation == "CREATE" || oldObject.roleRef.name in ["{KAFKA_NODE_ROLE}", "{STRIMZI_NODE_ROLE}"]"#
            ),
            "message": "the operator may change and delete only the bindings of Kafka nodes",
        },
    ])
}
