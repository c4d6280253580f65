//! The pods of the nodes, and the pod sets that hold them.
//!
//! A pod carries marks of everything that it was started with and cannot change while it runs. Its
//! revision is a hash of the whole, so a pod with another revision than its set wants has to be
//! restarted, and the marks tell why.

use std::collections::BTreeMap;

use api::kafka::template::{ContainerTemplate, PodTemplate};
use api::names::{
    AGENT_PORT, BROKER_LABEL, CONTROLLER_LABEL, CONTROLLER_PORT, HEALTH_PORT, POD_CONTROLLER_LABEL,
    POD_SET_LABEL, REPLICATION_PORT,
};
use api::{StrimziPodSet, Verbatim};
use control::annotations::Annotation;
use control::cluster::spec::{ListenerKind, Rack};
use control::cluster::validate::templates::is_own_variable;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::areas::configuration::{DYNAMIC, QUORUM};
use crate::blueprint::with_template;
use crate::services::port_name;
use crate::{Blueprint, Node, hash, object, security};

/// Where metrics are served if the user asks for them.
pub const METRICS_PORT: u16 = 9404;
/// The annotation with the hash of the whole pod.
pub const REVISION: &str = Annotation::Revision.name();
/// The annotation with a hash of the settings that there were when the pod was made.
pub const SETTINGS: &str = Annotation::Settings.name();

/// Where a node finds its configuration.
const CONFIG_DIR: &str = "/opt/kafka/custom-config";
/// Where a node finds its own certificate.
const CERTIFICATE_DIR: &str = "/opt/kafka/certs/node";
/// Where a node finds what it trusts.
const TRUST_DIR: &str = "/opt/kafka/certs/trust";
/// Where a broker finds what is known of the machine that it runs on.
const MACHINE_DIR: &str = "/opt/kafka/init";
/// Where a node writes temporary files: the root file system is read-only. Not `/tmp`, which local mode would
/// hide from programs of the machine.
const TMP_DIR: &str = "/opt/kafka/tmp";
/// Kafka has this long to hand over its partitions unless the user says otherwise.
const GRACE_SECONDS: i64 = 30;

/// What each node is started with and keeps until it is restarted, by annotation.
pub type Marks = BTreeMap<model::NodeId, BTreeMap<String, String>>;

/// A volume of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// `data`, or `data-<id>` where there are several.
    pub name: String,
    /// Where it is in the container.
    pub mount: String,
    /// Where its data is.
    pub source: Source,
}

/// Where the data of a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a claim.
    Claim,
    /// Gone with the pod.
    Scratch {
        /// The maximum size; `None` if there is none.
        size_limit: Option<String>,
    },
}

/// What the pods of a pool are made of besides the blueprint.
#[derive(Debug)]
pub struct PodParts {
    /// The image of the containers.
    pub image: String,
    /// What each node was decided to be started with, by annotation.
    pub marks: Marks,
    /// A hash of all settings of each node.
    pub settings: BTreeMap<model::NodeId, String>,
    /// The volumes with data.
    pub volumes: Vec<Volume>,
    /// Bytes that a node may use, for its heap.
    pub memory_bytes: Option<u64>,
    /// What the pod set itself remembers.
    pub annotations: BTreeMap<String, String>,
}

/// The pod set of a pool.
pub fn pod_set(
    blueprint: &Blueprint,
    pool: &str,
    parts: &PodParts,
) -> Result<StrimziPodSet, serde_json::Error> {
    let nodes = blueprint.nodes.iter().filter(|node| node.pool == pool);
    let pods: Vec<_> = nodes.map(|node| pod(blueprint, node, parts)).collect();
    let template = templates(blueprint, pool).pod_set;
    let mut metadata =
        blueprint.metadata(&blueprint.names.pod_set(pool), blueprint.pool_labels(pool), template);
    for (name, value) in &parts.annotations {
        metadata["annotations"][name] = json!(value);
    }
    object(json!({
        "apiVersion": "core.strimzi.io/v1",
        "kind": "StrimziPodSet",
        "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": blueprint.names.selector(Some(pool)) },
            "pods": pods,
        },
    }))
}

/// What the user adds to pods: a part that the pool has replaces that of the cluster.
#[derive(Default)]
struct Templates<'a> {
    pod: Option<&'a PodTemplate>,
    container: Option<&'a ContainerTemplate>,
    pod_set: Option<&'a api::ObjectTemplate>,
}

fn templates<'a>(blueprint: &'a Blueprint, pool: &str) -> Templates<'a> {
    let cluster = blueprint.kafka.spec.kafka.template.as_ref();
    let pool = blueprint.pool(pool).and_then(|pool| pool.spec.template.as_ref());
    Templates {
        pod: pool
            .and_then(|template| template.pod.as_ref())
            .or_else(|| cluster.and_then(|template| template.pod.as_ref())),
        container: pool
            .and_then(|template| template.kafka_container.as_ref())
            .or_else(|| cluster.and_then(|template| template.kafka_container.as_ref())),
        pod_set: pool
            .and_then(|template| template.pod_set.as_ref())
            .or_else(|| cluster.and_then(|template| template.pod_set.as_ref()))
            .and_then(|template| template.metadata.as_ref()),
    }
}

/// Whether the kubelet finds a pod ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Whether brokers have to know the machine that they run on before they start.
#[must_use]
pub fn needs_machine(blueprint: &Blueprint) -> bool {
    let by_label = matches!(blueprint.spec.rack, Some(Rack::TopologyLabel(_)));
    by_label || blueprint.spec.listeners.iter().any(|l| l.kind == ListenerKind::NodePort)
}

fn pod(blueprint: &Blueprint, node: &Node, parts: &PodParts) -> Value {
    let templates = templates(blueprint, &node.pool);
    let name = blueprint.pod(node);
    let mut labels = blueprint.node_labels(node);
    let own = [
        (POD_CONTROLLER_LABEL, "strimzipodset".to_owned()),
        (POD_SET_LABEL, blueprint.names.pod_set(&node.pool)),
        (BROKER_LABEL, node.roles.is_broker().to_string()),
        (CONTROLLER_LABEL, node.roles.is_controller().to_string()),
    ];
    labels.extend(own.map(|(name, value)| (name.to_owned(), value)));
    let metadata = templates.pod.and_then(|pod| pod.metadata.as_ref());
    let (labels, mut annotations) = with_template(labels, metadata);
    annotations.extend(parts.marks.get(&node.id).cloned().unwrap_or_default());
    let spec = pod_spec(blueprint, node, parts, &templates);
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": blueprint.names.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    });
    let revision = hash::short(pod.to_string().as_bytes());
    pod["metadata"]["annotations"][REVISION] = json!(revision);
    // After the revision: that they are others is no reason to restart a pod that runs.
    if let Some(settings) = parts.settings.get(&node.id) {
        pod["metadata"]["annotations"][SETTINGS] = json!(settings);
    }
    pod
}

fn pod_spec(
    blueprint: &Blueprint,
    node: &Node,
    parts: &PodParts,
    templates: &Templates<'_>,
) -> Value {
    let with_machine = node.roles.is_broker() && needs_machine(blueprint);
    let mut spec = json!({
        "restartPolicy": "Always",
        "hostname": blueprint.pod(node),
        "subdomain": blueprint.names.brokers_service(),
        "serviceAccountName": blueprint.names.component(),
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "volumes": volumes(blueprint, node, parts, with_machine),
        "containers": [container(blueprint, node, parts, templates, with_machine)],
    });
    if with_machine {
        spec["initContainers"] = json!([machine_container(blueprint, parts)]);
    }
    let template = templates.pod.map(|template| json!(template)).unwrap_or_default();
    spec["securityContext"] = security::pod(template.get("securityContext"));
    add_template(&mut spec, &template);
    if with_machine {
        require_label(&mut spec, blueprint);
    }
    spec
}

/// Puts what the user said of the pod into its spec; lists are added to ours. A field that is not in the list
/// is not passed on, `serviceAccountName`, `hostNetwork` and `hostPID` among them.
fn add_template(spec: &mut Value, template: &Value) {
    let fields = [
        "imagePullSecrets",
        "terminationGracePeriodSeconds",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "priorityClassName",
        "schedulerName",
        "hostAliases",
        "dnsPolicy",
        "dnsConfig",
        "enableServiceLinks",
        "hostUsers",
    ];
    for field in fields {
        if let Some(value) = template.get(field) {
            spec[field] = value.clone();
        }
    }
    extend(&mut spec["volumes"], template.get("volumes"));
}

fn extend(list: &mut Value, more: Option<&Value>) {
    if let (Some(list), Some(more)) = (list.as_array_mut(), more.and_then(Value::as_array)) {
        list.extend(more.iter().cloned());
    }
}

/// A broker that names its rack by a label of the machine must run on one that has the label.
fn require_label(spec: &mut Value, blueprint: &Blueprint) {
    let Some(Rack::TopologyLabel(key)) = &blueprint.spec.rack else { return };
    let has = json!({ "key": key, "operator": "Exists" });
    let required =
        &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required["nodeSelectorTerms"].as_array_mut() {
        // Terms are alternatives, so each of them has to ask for it.
        Some(terms) => {
            for term in terms {
                match term["matchExpressions"].as_array_mut() {
                    Some(expressions) => expressions.push(has.clone()),
                    None => term["matchExpressions"] = json!([has]),
                }
            }
        }
        None => required["nodeSelectorTerms"] = json!([{ "matchExpressions": [has] }]),
    }
}

fn volumes(blueprint: &Blueprint, node: &Node, parts: &PodParts, with_machine: bool) -> Vec<Value> {
    let pod = blueprint.pod(node);
    let data = parts.volumes.iter().map(|volume| {
        let name = &volume.name;
        match &volume.source {
            Source::Claim => json!({
                "name": name,
                "persistentVolumeClaim": {
                    "claimName": blueprint.names.claim(name, &node.pool, node.id),
                },
            }),
            Source::Scratch { size_limit: None } => json!({ "name": name, "emptyDir": {} }),
            Source::Scratch { size_limit: Some(limit) } => {
                json!({ "name": name, "emptyDir": { "sizeLimit": limit } })
            }
        }
    });
    let mut volumes: Vec<_> = data.collect();
    volumes.extend([
        json!({ "name": "kafka-metrics-and-logging", "configMap": { "name": pod } }),
        json!({ "name": "node-certificate", "secret": { "secretName": pod } }),
        json!({
            "name": "trust-bundle",
            "secret": { "secretName": blueprint.names.trust_bundle() },
        }),
        json!({ "name": "tmp", "emptyDir": {} }),
    ]);
    if with_machine {
        volumes.push(json!({
            "name": "rack-volume",
            "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" },
        }));
        volumes.push(token_volume());
    }
    volumes
}

/// What the container that looks at the machine needs to ask the API server.
fn token_volume() -> Value {
    json!({
        "name": "kube-api-access",
        "projected": { "defaultMode": 420, "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
            { "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{ "key": "ca.crt", "path": "ca.crt" }],
            } },
            { "downwardAPI": { "items": [{
                "path": "namespace",
                "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
            }] } },
        ] },
    })
}

fn machine_container(blueprint: &Blueprint, parts: &PodParts) -> Value {
    let mut env = vec![
        field("NODE_NAME", "spec.nodeName"),
        json!({ "name": "GREGOR_MACHINE_DIR", "value": MACHINE_DIR }),
    ];
    if let Some(Rack::TopologyLabel(key)) = &blueprint.spec.rack {
        env.push(json!({ "name": "RACK_TOPOLOGY_KEY", "value": key }));
    }
    json!({
        "name": "kafka-init",
        "image": parts.image,
        "args": ["--describe-machine"],
        "env": env,
        "securityContext": security::container(None),
        "volumeMounts": [
            { "name": "rack-volume", "mountPath": MACHINE_DIR },
            {
                "name": "kube-api-access",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": true,
            },
        ],
    })
}

fn field(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } })
}

fn container(
    blueprint: &Blueprint,
    node: &Node,
    parts: &PodParts,
    templates: &Templates<'_>,
    with_machine: bool,
) -> Value {
    let mut mounts: Vec<_> = parts
        .volumes
        .iter()
        .map(|volume| json!({ "name": volume.name, "mountPath": volume.mount }))
        .collect();
    mounts.extend([
        json!({ "name": "kafka-metrics-and-logging", "mountPath": CONFIG_DIR, "readOnly": true }),
        json!({ "name": "node-certificate", "mountPath": CERTIFICATE_DIR, "readOnly": true }),
        json!({ "name": "trust-bundle", "mountPath": TRUST_DIR, "readOnly": true }),
        json!({ "name": "tmp", "mountPath": TMP_DIR }),
    ]);
    if with_machine {
        mounts.push(json!({ "name": "rack-volume", "mountPath": MACHINE_DIR, "readOnly": true }));
    }
    let mut container = json!({
        "name": "kafka",
        "image": parts.image,
        "env": env(blueprint, node, parts, templates.container),
        "ports": ports(blueprint, node),
        "volumeMounts": mounts,
        "livenessProbe": probe("/live", 15),
        "readinessProbe": probe("/ready", 0),
    });
    let resources = blueprint.pool(&node.pool).and_then(|pool| pool.spec.resources.as_ref());
    if let Some(resources) = resources {
        // No more than these: claims refer to devices.
        let all = [("limits", &resources.limits), ("requests", &resources.requests)];
        container["resources"] = json!({});
        for (name, amounts) in all {
            if let Some(amounts) = amounts {
                container["resources"][name] = json!(amounts);
            }
        }
    }
    let template = templates.container.map(|template| json!(template)).unwrap_or_default();
    container["securityContext"] = security::container(template.get("securityContext"));
    extend(&mut container["volumeMounts"], template.get("volumeMounts"));
    container
}

fn probe(path: &str, delay_seconds: u32) -> Value {
    json!({
        "httpGet": { "path": path, "port": HEALTH_PORT, "scheme": "HTTP" },
        "initialDelaySeconds": delay_seconds,
        "periodSeconds": 5,
        "timeoutSeconds": 5,
    })
}

fn env(
    blueprint: &Blueprint,
    node: &Node,
    parts: &PodParts,
    template: Option<&ContainerTemplate>,
) -> Vec<Value> {
    let pod = blueprint.pod(node);
    let value = |name: &str, value: String| json!({ "name": name, "value": value });
    let mut env = vec![
        // First, as the others refer to it: pods that share a machine have addresses of their own.
        field("POD_IP", "status.podIP"),
        value("GREGOR_NODE_HTTP", format!("$(POD_IP):{HEALTH_PORT}")),
        value("GREGOR_NODE_HTTPS", format!("$(POD_IP):{AGENT_PORT}")),
        value("GREGOR_NODE_TLS_CERT", format!("{CERTIFICATE_DIR}/{pod}.crt")),
        value("GREGOR_NODE_TLS_KEY", format!("{CERTIFICATE_DIR}/{pod}.key")),
        value("GREGOR_NODE_TLS_CLIENT_CA", format!("{TRUST_DIR}/cluster-ca.crt")),
        value("KAFKA_CLUSTER_NAME", blueprint.names.cluster.clone()),
        value("TMPDIR", TMP_DIR.to_owned()),
    ];
    if blueprint.spec.metrics.is_some() {
        env.push(value("GREGOR_NODE_METRICS", format!("$(POD_IP):{METRICS_PORT}")));
    }
    if votes_by_its_id(node, parts) {
        env.push(field("GREGOR_POD_UID", "metadata.uid"));
    }
    if let Some(bytes) = parts.memory_bytes {
        env.push(value("GREGOR_MEMORY_BYTES", bytes.to_string()));
    }
    let more = template.and_then(|template| template.env.as_deref()).unwrap_or_default();
    for Verbatim(more) in more {
        // What the node is started with is not the user's to replace; a warning says so.
        let name = more.get("name").and_then(Value::as_str).unwrap_or_default();
        if !is_own_variable(name) {
            env.push(Value::Object(more.clone().into_iter().collect::<Map<_, _>>()));
        }
    }
    env
}

/// Whether a node is a controller of a quorum that is not dynamic. The permission to format its lost disk names its pod;
/// no other pod is restarted to learn its own uid.
fn votes_by_its_id(node: &Node, parts: &PodParts) -> bool {
    let marks = parts.marks.get(&node.id);
    let quorum = marks.and_then(|marks| marks.get(QUORUM)).map(String::as_str);
    node.roles.is_controller() && quorum != Some(DYNAMIC)
}

fn ports(blueprint: &Blueprint, node: &Node) -> Vec<Value> {
    let port = |name: &str, number: u16| json!({ "name": name, "containerPort": number, "protocol": "TCP" });
    let mut ports = vec![port("tcp-health", HEALTH_PORT), port("tcp-kafkaagent", AGENT_PORT)];
    if node.roles.is_controller() {
        ports.push(port("tcp-ctrlplane", CONTROLLER_PORT));
    }
    if node.roles.is_broker() {
        ports.push(port("tcp-replication", REPLICATION_PORT));
        ports.extend(blueprint.spec.listeners.iter().map(|l| port(&port_name(l), l.port)));
    }
    if blueprint.spec.metrics.is_some() {
        ports.push(port("tcp-prometheus", METRICS_PORT));
    }
    ports
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
