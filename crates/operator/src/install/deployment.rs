//! The Deployment of the operator.

use api::names::KIND_LABEL;
use serde_json::{Value, json};

use super::{Installation, NAME, labels};
use crate::strimzi::SELECTOR_VARIABLE;

/// Where it answers probes and tells its numbers.
pub const HTTP_PORT: u16 = 8080;

/// The variable with the time that a pod may take to become ready. The name is Strimzi's.
pub const TIMEOUT_VARIABLE: &str = "STRIMZI_OPERATION_TIMEOUT_MS";

/// The user of the image.
const USER: u32 = 1001;

pub(super) fn deployment(installation: &Installation) -> Value {
    // What network policies of clusters let in; the name is Strimzi's.
    let mut pod_labels = labels();
    pod_labels[KIND_LABEL] = "cluster-operator".into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": installation.namespace, "labels": labels() },
        "spec": {
            "replicas": installation.replicas,
            "selector": { "matchLabels": { "app.kubernetes.io/name": NAME } },
            "template": {
                "metadata": {
                    "labels": pod_labels,
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": HTTP_PORT.to_string(),
                        "prometheus.io/path": "/metrics",
                    },
                },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": USER,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [container(installation)],
                },
            },
        },
    })
}

fn container(installation: &Installation) -> Value {
    let probe = |path: &str, period: u32| json!({ "httpGet": { "path": path, "port": "http" }, "periodSeconds": period });
    // A busy node may answer late; a runtime whose threads are all blocked never answers, and fails this way.
    let mut liveness = probe("/livez", 10);
    liveness["timeoutSeconds"] = 5.into();
    json!({
        "name": "operator",
        "image": installation.image,
        "env": env(installation),
        "ports": [{ "name": "http", "containerPort": HTTP_PORT }],
        "livenessProbe": liveness,
        "readinessProbe": probe("/readyz", 5),
        // Most of the memory is what the watches have brought: 1,000 clusters fit into the limit.
        "resources": {
            "requests": { "cpu": "100m", "memory": "128Mi" },
            "limits": { "cpu": "1", "memory": "384Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    })
}

fn env(installation: &Installation) -> Value {
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let images = installation.kafka_images.iter();
    let images: Vec<_> = images.map(|(version, image)| format!("{version}={image}")).collect();
    let mut env = vec![
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        // Its own address only: in local mode all pods are on one machine.
        field("GREGOR_HTTP_HOST", "status.podIP"),
        json!({ "name": "GREGOR_KAFKA_IMAGES", "value": images.join(" ") }),
    ];
    if !installation.watch_namespaces.is_empty() {
        let namespaces = installation.watch_namespaces.join(",");
        env.push(json!({ "name": "GREGOR_NAMESPACES", "value": namespaces }));
    }
    if !installation.selector.is_empty() {
        let selector = installation.selector.to_string();
        env.push(json!({ "name": SELECTOR_VARIABLE, "value": selector }));
    }
    if let Some(ms) = installation.operation_timeout_ms {
        env.push(json!({ "name": TIMEOUT_VARIABLE, "value": ms.to_string() }));
    }
    env.into()
}
