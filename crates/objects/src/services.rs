//! The Services of a cluster: the headless one, bootstrap Services, and one per broker for listeners that are
//! reached through Services.

use api::kafka::template::ServiceTemplate;
use api::names::{
    AGENT_PORT, BROKER_LABEL, CONTROLLER_PORT, DISCOVERY_LABEL, Labels, POD_NAME_LABEL,
    REPLICATION_PORT,
};
use control::annotations::Annotation;
use control::cluster::spec::{Authentication, Listener, ListenerKind, ServiceSettings};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::{Blueprint, Node, object};

type Built = Result<Service, serde_json::Error>;

/// All Services of the cluster.
pub fn all(blueprint: &Blueprint) -> Result<Vec<Service>, serde_json::Error> {
    let mut services = vec![headless(blueprint)?, bootstrap(blueprint)?];
    for listener in &blueprint.spec.listeners {
        if listener.kind == ListenerKind::Internal {
            continue;
        }
        if has_bootstrap(listener) {
            services.push(listener_bootstrap(blueprint, listener)?);
        }
        for node in blueprint.brokers() {
            services.push(listener_broker(blueprint, listener, node)?);
        }
    }
    Ok(services)
}

/// Whether a listener has its own bootstrap Service.
#[must_use]
pub fn has_bootstrap(listener: &Listener) -> bool {
    listener.kind != ListenerKind::LoadBalancer || listener.services.create_bootstrap
}

/// The name of a listener's port, as in Strimzi.
pub(crate) fn port_name(listener: &Listener) -> String {
    match (listener.kind, listener.name.as_str(), listener.port) {
        (ListenerKind::Internal, "plain", 9092) => "tcp-clients".to_owned(),
        (ListenerKind::Internal, "tls", 9093) => "tcp-clientstls".to_owned(),
        (_, "external", 9094) => "tcp-external".to_owned(),
        (_, name, _) => format!("tcp-{name}"),
    }
}

fn port(name: &str, number: u16) -> Value {
    json!({ "name": name, "port": number, "targetPort": number, "protocol": "TCP" })
}

fn internal(blueprint: &Blueprint) -> impl Iterator<Item = &Listener> {
    blueprint.spec.listeners.iter().filter(|listener| listener.kind == ListenerKind::Internal)
}

fn internal_ports(blueprint: &Blueprint) -> impl Iterator<Item = Value> {
    internal(blueprint).map(|listener| port(&port_name(listener), listener.port))
}

fn headless(blueprint: &Blueprint) -> Built {
    let mut ports = vec![
        port("tcp-ctrlplane", CONTROLLER_PORT),
        port("tcp-replication", REPLICATION_PORT),
        port("tcp-kafkaagent", AGENT_PORT),
    ];
    ports.extend(internal_ports(blueprint));
    let template = blueprint.kafka.spec.kafka.template.as_ref();
    let template = template.and_then(|template| template.brokers_service.as_ref());
    let mut spec = json!({
        "type": "ClusterIP",
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": blueprint.names.selector(None),
        "ports": ports,
    });
    families(&mut spec, template);
    let metadata = blueprint.metadata(
        &blueprint.names.brokers_service(),
        blueprint.labels(),
        template.and_then(|template| template.metadata.as_ref()),
    );
    object(json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec }))
}

fn bootstrap(blueprint: &Blueprint) -> Built {
    let mut ports = vec![port("tcp-replication", REPLICATION_PORT)];
    ports.extend(internal_ports(blueprint));
    let template = blueprint.kafka.spec.kafka.template.as_ref();
    let template = template.and_then(|template| template.bootstrap_service.as_ref());
    let mut labels = blueprint.labels();
    labels.insert(DISCOVERY_LABEL.to_owned(), "true".to_owned());
    let mut metadata = blueprint.metadata(
        &blueprint.names.bootstrap_service(),
        labels,
        template.and_then(|template| template.metadata.as_ref()),
    );
    metadata["annotations"][Annotation::Discovery.name()] = json!(discovery(blueprint).to_string());
    let mut spec = json!({
        "type": "ClusterIP",
        "selector": broker_selector(blueprint),
        "ports": ports,
    });
    families(&mut spec, template);
    object(json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec }))
}

/// Discovery annotation of the bootstrap Service, for tools.
fn discovery(blueprint: &Blueprint) -> Value {
    let entries = internal(blueprint).map(|listener| {
        let auth = match listener.authentication {
            Authentication::None => "none",
            Authentication::Tls => "tls",
            Authentication::ScramSha512 => "scram-sha-512",
            Authentication::Custom { .. } => "custom",
        };
        json!({
            "port": listener.port,
            "tls": listener.tls,
            "protocol": "kafka",
            "auth": auth,
        })
    });
    entries.collect()
}

fn broker_selector(blueprint: &Blueprint) -> Labels {
    let mut selector = blueprint.names.selector(None);
    selector.insert(BROKER_LABEL.to_owned(), "true".to_owned());
    selector
}

fn families(spec: &mut Value, template: Option<&ServiceTemplate>) {
    if let Some(template) = template {
        set(spec, "ipFamilyPolicy", json!(template.ip_family_policy));
        set(spec, "ipFamilies", json!(template.ip_families));
    }
}

/// Sets a field unless its value is null.
fn set(object: &mut Value, field: &str, value: Value) {
    if !value.is_null() {
        object[field] = value;
    }
}

fn service_type(kind: ListenerKind) -> &'static str {
    match kind {
        ListenerKind::NodePort => "NodePort",
        ListenerKind::LoadBalancer => "LoadBalancer",
        ListenerKind::Internal | ListenerKind::ClusterIp => "ClusterIP",
    }
}

/// A list as a value, or null if it is empty.
fn unless_empty<T: serde::Serialize>(list: &[T]) -> Value {
    if list.is_empty() { Value::Null } else { json!(list) }
}

fn listener_spec(listener: &Listener, selector: Labels, settings: &ServiceSettings) -> Value {
    let services = &listener.services;
    let mut port = port(&port_name(listener), listener.port);
    let kind = listener.kind;
    let is_external = matches!(kind, ListenerKind::NodePort | ListenerKind::LoadBalancer);
    if is_external {
        set(&mut port, "nodePort", json!(settings.node_port));
    }
    let mut spec = json!({
        "type": service_type(kind),
        "selector": selector,
        "ports": [port],
    });
    set(&mut spec, "externalIPs", unless_empty(&settings.external_ips));
    set(&mut spec, "ipFamilyPolicy", json!(services.ip_family_policy));
    set(&mut spec, "ipFamilies", unless_empty(&services.ip_families));
    set(&mut spec, "publishNotReadyAddresses", json!(services.publish_not_ready));
    if is_external {
        let policy = services.external_traffic_policy.as_deref();
        spec["externalTrafficPolicy"] = json!(policy.unwrap_or("Cluster"));
    }
    if kind == ListenerKind::LoadBalancer {
        set(&mut spec, "loadBalancerIP", json!(settings.load_balancer_ip));
        set(&mut spec, "loadBalancerClass", json!(services.class));
        set(&mut spec, "loadBalancerSourceRanges", unless_empty(&services.source_ranges));
        set(&mut spec, "allocateLoadBalancerNodePorts", json!(services.allocate_node_ports));
    }
    spec
}

fn listener_bootstrap(blueprint: &Blueprint, listener: &Listener) -> Built {
    let settings = &listener.services.bootstrap;
    let template = blueprint.kafka.spec.kafka.template.as_ref();
    let template = template.and_then(|template| template.external_bootstrap_service.as_ref());
    let mut metadata = blueprint.metadata(
        &blueprint.names.listener_bootstrap_service(&listener.name),
        blueprint.labels(),
        template.and_then(|template| template.metadata.as_ref()),
    );
    add(&mut metadata, "labels", &settings.labels);
    add(&mut metadata, "annotations", &settings.annotations);
    finalizers(&mut metadata, listener);
    let spec = listener_spec(listener, broker_selector(blueprint), settings);
    object(json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec }))
}

fn listener_broker(blueprint: &Blueprint, listener: &Listener, node: &Node) -> Built {
    let none = ServiceSettings::default();
    let settings = listener.brokers.get(&node.id).map_or(&none, |broker| &broker.service);
    let cluster = blueprint.kafka.spec.kafka.template.as_ref();
    let pool = blueprint.pool(&node.pool).and_then(|pool| pool.spec.template.as_ref());
    let template = pool
        .and_then(|template| template.per_pod_service.as_ref())
        .or_else(|| cluster.and_then(|template| template.per_pod_service.as_ref()));
    let mut metadata = blueprint.metadata(
        &broker_service_name(blueprint, listener, node),
        blueprint.pool_labels(&node.pool),
        template.and_then(|template| template.metadata.as_ref()),
    );
    add(&mut metadata, "labels", &settings.labels);
    add(&mut metadata, "annotations", &settings.annotations);
    let labels = for_node(&listener.services.broker_labels, blueprint, node);
    add(&mut metadata, "labels", &labels);
    let annotations = for_node(&listener.services.broker_annotations, blueprint, node);
    add(&mut metadata, "annotations", &annotations);
    finalizers(&mut metadata, listener);
    let mut selector = blueprint.names.selector(Some(&node.pool));
    selector.insert(POD_NAME_LABEL.to_owned(), blueprint.pod(node));
    let spec = listener_spec(listener, selector, settings);
    object(json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec }))
}

/// The name of the Service of one broker for a listener.
#[must_use]
pub fn broker_service_name(blueprint: &Blueprint, listener: &Listener, node: &Node) -> String {
    let of = (listener.name.as_str(), i64::from(listener.port));
    blueprint.names.listener_broker_service(&node.pool, node.id, of)
}

fn for_node(template: &Labels, blueprint: &Blueprint, node: &Node) -> Labels {
    let pod = blueprint.pod(node);
    let fill = |text: &String| {
        text.replace("{nodeId}", &node.id.to_string()).replace("{nodePodName}", &pod)
    };
    template.iter().map(|(name, value)| (name.clone(), fill(value))).collect()
}

/// Adds entries to a map of the metadata; existing ones take precedence.
fn add(metadata: &mut Value, map: &str, entries: &Labels) {
    for (name, value) in entries {
        if metadata[map].get(name).is_none() {
            metadata[map][name] = json!(value);
        }
    }
}

fn finalizers(metadata: &mut Value, listener: &Listener) {
    if listener.kind == ListenerKind::LoadBalancer {
        set(metadata, "finalizers", unless_empty(&listener.services.finalizers));
    }
}
