//! The console in a cluster: a Deployment and a Service.
//!
//! Its account has no rights: every request to Kubernetes is made with the token of the user who looks. What users need to
//! look is a ClusterRole that administrators bind to them.

use serde_json::{Value, json};

use super::{HTTP_PORT, Installation};

/// The name of the Deployment, the Service and the account.
pub const NAME: &str = "gregor-console";

/// The role for users.
pub const VIEWER: &str = "gregor-console-viewer";

/// The user of the image.
const USER: u32 = 1001;

/// What a user needs to see everything but what only Kafka knows: group and resources, which are read.
#[rustfmt::skip]
const READ: &[(&str, &[&str])] = &[
    ("kafka.strimzi.io", &["kafkas", "kafkanodepools", "kafkarebalances", "kafkatopics", "kafkausers"]),
    ("core.strimzi.io", &["strimzipodsets"]),
    ("", &["pods", "configmaps", "services", "serviceaccounts", "persistentvolumeclaims"]),
    ("networking.k8s.io", &["networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
];

pub(super) fn objects(installation: &Installation) -> Vec<Value> {
    let namespace = installation.namespace.as_str();
    let rule = |(group, resources): &(&str, &[&str])| json!({ "apiGroups": [group], "resources": resources, "verbs": ["get", "list"] });
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": NAME, "namespace": namespace, "labels": labels() },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": VIEWER, "labels": labels() },
            "rules": READ.iter().map(rule).collect::<Vec<_>>(),
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": NAME, "namespace": namespace, "labels": labels() },
            "spec": {
                "selector": { "app.kubernetes.io/name": NAME },
                "ports": [{ "name": "http", "port": 80, "targetPort": "http" }],
            },
        }),
        deployment(installation),
    ]
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "gregor" })
}

fn deployment(installation: &Installation) -> Value {
    let probe = json!({ "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 10 });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": installation.namespace, "labels": labels() },
        "spec": {
            // Sessions are in its memory.
            "replicas": 1,
            "selector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
            "template": {
                "metadata": { "labels": labels() },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": USER,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "console",
                        "image": installation.image,
                        "command": ["gregor", "console", format!("--listen=$(POD_IP):{HTTP_PORT}")],
                        "env": [{
                            "name": "POD_IP",
                            "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } },
                        }],
                        "ports": [{ "name": "http", "containerPort": HTTP_PORT }],
                        "livenessProbe": probe,
                        "readinessProbe": probe,
                        "resources": {
                            "requests": { "cpu": "50m", "memory": "64Mi" },
                            "limits": { "cpu": "1", "memory": "512Mi" },
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_read_and_the_account_may_do_nothing() {
        let installation = Installation::default();
        let objects = objects(&installation);
        let kinds: Vec<_> = objects.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "Service", "Deployment"]);
        let rules = objects[1]["rules"].to_string();
        assert!(!rules.contains("secrets") && !rules.contains("impersonate"), "{rules}");
        for rule in objects[1]["rules"].as_array().unwrap() {
            assert_eq!(rule["verbs"], json!(["get", "list"]));
        }
    }
}
