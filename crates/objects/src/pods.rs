//! Pods of the nodes, and their pod sets.
//!
//! A pod has annotations for everything that it was started with and that cannot change while it runs. Its
//! revision is a hash of the whole pod: if the pod set requires another revision, the pod must be restarted,
//! and the annotations tell why.

use std::collections::BTreeMap;

use api::kafka::Probe;
use api::kafka::template::{ContainerTemplate, PodTemplate};
use api::names::{
    AGENT_PORT, BROKER_LABEL, CONTROLLER_LABEL, CONTROLLER_PORT, HEALTH_PORT, POD_CONTROLLER_LABEL,
    POD_SET_LABEL, REPLICATION_PORT,
};
use api::{StrimziPodSet, Verbatim};
use control::annotations::Annotation;
use control::cluster::spec::{ListenerKind, Rack};
use control::cluster::validate::templates::{expand, is_own_init_variable, is_own_variable};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::areas::configuration::{DYNAMIC, QUORUM};
use crate::blueprint::with_template;
use crate::services::port_name;
use crate::{Blueprint, Node, hash, object, security};

/// Port of the user's metrics.
pub const METRICS_PORT: u16 = 9404;
/// Annotation: hash of the whole pod.
pub const REVISION: &str = Annotation::Revision.name();
/// Annotation: hash of the settings when the pod was created.
pub const SETTINGS: &str = Annotation::Settings.name();

/// Directory of a node's configuration.
const CONFIG_DIR: &str = "/opt/kafka/custom-config";
/// Directory of a node's certificate.
const CERTIFICATE_DIR: &str = "/opt/kafka/certs/node";
/// Directory of trusted certificates.
const TRUST_DIR: &str = "/opt/kafka/certs/trust";
/// Directory of files about the Kubernetes Node.
const MACHINE_DIR: &str = "/opt/kafka/init";
/// Directory for temporary files, because the root file system is read-only. Not `/tmp`, which local mode
/// would hide from local programs.
const TMP_DIR: &str = "/opt/kafka/tmp";
/// Default grace period, in which Kafka hands over its leaderships.
const GRACE_SECONDS: i64 = 30;

/// Start parameters of each node, as annotations.
pub type Marks = BTreeMap<model::NodeId, BTreeMap<String, String>>;

/// The annotations that pods have because of certificates.
pub const MARKS: [&str; 5] = [
    Annotation::ClusterCaCertGeneration.name(),
    Annotation::ClusterCaKeyGeneration.name(),
    Annotation::ClientsCaCertGeneration.name(),
    Annotation::ServerCertHash.name(),
    Annotation::ListenerCertThumbprints.name(),
];

/// A volume of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// `data`, or `data-<id>` where there are several.
    pub name: String,
    /// Mount path.
    pub mount: String,
    /// Where its data is stored.
    pub source: Source,
}

/// Storage of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a claim.
    Claim,
    /// Deleted with the pod.
    Scratch {
        /// The maximum size; `None` if there is none.
        size_limit: Option<String>,
    },
}

/// Parts of a pool's pods besides the blueprint.
#[derive(Debug)]
pub struct PodParts {
    /// The image of the containers.
    pub image: String,
    /// Start parameters of each node, as annotations.
    pub marks: Marks,
    /// A hash of all settings of each node.
    pub settings: BTreeMap<model::NodeId, String>,
    /// The volumes with data.
    pub volumes: Vec<Volume>,
    /// Memory limit of a node, for its heap.
    pub memory_bytes: Option<u64>,
    /// Annotations of the pod set itself.
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

/// The user's templates: a part of the pool's replaces that of the cluster.
#[derive(Default)]
struct Templates<'a> {
    pod: Option<&'a PodTemplate>,
    container: Option<&'a ContainerTemplate>,
    init: Option<&'a ContainerTemplate>,
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
        init: pool
            .and_then(|template| template.init_container.as_ref())
            .or_else(|| cluster.and_then(|template| template.init_container.as_ref())),
        pod_set: pool
            .and_then(|template| template.pod_set.as_ref())
            .or_else(|| cluster.and_then(|template| template.pod_set.as_ref()))
            .and_then(|template| template.metadata.as_ref()),
    }
}

/// Whether the kubelet reports a pod as ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Whether brokers need facts about their Kubernetes Node before they start.
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
    // After the revision is computed: a change of these must not restart a running pod.
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
        spec["initContainers"] = json!([machine_container(blueprint, parts, templates.init)]);
    }
    let template = templates.pod.map(|template| json!(template)).unwrap_or_default();
    spec["securityContext"] = security::pod(template.get("securityContext"));
    add_template(&mut spec, &template);
    extend(&mut spec["volumes"], templated_volumes(blueprint, node, &template).as_ref());
    if with_machine {
        require_label(&mut spec, blueprint);
    }
    spec
}

/// Adds the user's pod template to the spec; lists are appended to ours. Fields that are not listed here are
/// not passed on, such as `serviceAccountName`, `hostNetwork` and `hostPID`.
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

/// The templated volumes of a node. Placeholders are replaced where Kubernetes expects names, keys and paths.
fn templated_volumes(blueprint: &Blueprint, node: &Node, template: &Value) -> Option<Value> {
    let (id, pod) = (node.id.to_string(), blueprint.pod(node));
    let fill = |value: Option<&mut Value>| {
        if let Some(Value::String(text)) = value {
            *text = expand(text, &id, &pod);
        }
    };
    let mut volumes = template.get("templatedVolumes")?.clone();
    let sources =
        [("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName")];
    for volume in volumes.as_array_mut()? {
        for (source, name) in sources {
            let Some(source) = volume.get_mut(source) else { continue };
            fill(source.get_mut(name));
            for item in source.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten()
            {
                ["key", "path"].into_iter().for_each(|field| fill(item.get_mut(field)));
            }
        }
    }
    Some(volumes)
}

fn extend(list: &mut Value, more: Option<&Value>) {
    if let (Some(list), Some(more)) = (list.as_array_mut(), more.and_then(Value::as_array)) {
        list.extend(more.iter().cloned());
    }
}

/// A broker whose rack is a Node label must run on a Node with that label.
fn require_label(spec: &mut Value, blueprint: &Blueprint) {
    let Some(Rack::TopologyLabel(key)) = &blueprint.spec.rack else { return };
    let has = json!({ "key": key, "operator": "Exists" });
    let required =
        &mut spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required["nodeSelectorTerms"].as_array_mut() {
        // Terms are alternatives, so each of them needs the requirement.
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

/// Credentials with which the init container queries the API server.
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

fn machine_container(
    blueprint: &Blueprint,
    parts: &PodParts,
    template: Option<&ContainerTemplate>,
) -> Value {
    let mut env = vec![
        field("NODE_NAME", "spec.nodeName"),
        json!({ "name": "GREGOR_MACHINE_DIR", "value": MACHINE_DIR }),
    ];
    if let Some(Rack::TopologyLabel(key)) = &blueprint.spec.rack {
        env.push(json!({ "name": "RACK_TOPOLOGY_KEY", "value": key }));
    }
    env.extend(variables(template, is_own_init_variable));
    let template = template.map(|template| json!(template)).unwrap_or_default();
    let mut container = json!({
        "name": "kafka-init",
        "image": parts.image,
        "args": ["--describe-machine"],
        "env": env,
        "securityContext": security::container(template.get("securityContext")),
        "volumeMounts": [
            { "name": "rack-volume", "mountPath": MACHINE_DIR },
            {
                "name": "kube-api-access",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": true,
            },
        ],
    });
    extend(&mut container["volumeMounts"], template.get("volumeMounts"));
    container
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
        "livenessProbe": probe("/live", 15, blueprint.kafka.spec.kafka.liveness_probe.as_ref()),
        "readinessProbe": probe("/ready", 0, blueprint.kafka.spec.kafka.readiness_probe.as_ref()),
    });
    let resources = blueprint.pool(&node.pool).and_then(|pool| pool.spec.resources.as_ref());
    if let Some(resources) = resources {
        // Only these: resource claims would grant devices.
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

/// A probe with our times, or with those of the user. Theirs replace ours as a whole, with Strimzi's defaults.
fn probe(path: &str, delay_seconds: u32, of_user: Option<&Probe>) -> Value {
    let mut probe = json!({ "httpGet": { "path": path, "port": HEALTH_PORT, "scheme": "HTTP" } });
    let Some(user) = of_user else {
        probe["initialDelaySeconds"] = json!(delay_seconds);
        probe["periodSeconds"] = json!(5);
        probe["timeoutSeconds"] = json!(5);
        return probe;
    };
    let delay = Some(user.initial_delay_seconds.unwrap_or(15)).filter(|delay| *delay != 0);
    let times = [
        ("initialDelaySeconds", delay),
        ("timeoutSeconds", Some(user.timeout_seconds.unwrap_or(5))),
        ("periodSeconds", user.period_seconds),
        ("successThreshold", user.success_threshold),
        ("failureThreshold", user.failure_threshold),
    ];
    for (name, value) in times {
        if let Some(value) = value {
            probe[name] = json!(value);
        }
    }
    probe
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
        // First, because others refer to it: pods on one machine have their own addresses.
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
    env.extend(variables(template, is_own_variable));
    env
}

/// The variables of a template. Ours cannot be overridden; a warning reports it.
fn variables(
    template: Option<&ContainerTemplate>,
    is_own: fn(&str) -> bool,
) -> impl Iterator<Item = Value> {
    let all = template.and_then(|template| template.env.as_deref()).unwrap_or_default();
    let name = |one: &Verbatim| one.0.get("name").and_then(Value::as_str).map(str::to_owned);
    let users = all.iter().filter(move |one| !is_own(&name(one).unwrap_or_default()));
    users.map(|one| Value::Object(one.0.clone().into_iter().collect::<Map<_, _>>()))
}

/// Whether a node is a controller of a quorum that is not dynamic. The permission to format its lost disk
/// names its pod; no other pod is restarted to learn its own uid.
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
