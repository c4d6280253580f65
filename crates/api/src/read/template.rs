//! Templates: the labels and annotations that users add to generated objects, and the parts of pods that
//! are passed on to Kubernetes.

use std::collections::BTreeMap;

use control::cluster::spec::{self, TemplateKey, Written};
use kube::ResourceExt as _;
use serde_json::Value;

use crate::common::{AdditionalVolume, ObjectTemplate, ResourceTemplate, Verbatim};
use crate::kafka::listener::Listener;
use crate::kafka::template::{ContainerTemplate, PodTemplate};
use crate::{Kafka, KafkaNodePool};

/// Those of a cluster.
pub(super) fn of_kafka(kafka: &Kafka) -> Vec<TemplateKey> {
    let mut keys = Vec::new();
    if let Some(template) = &kafka.spec.kafka.template {
        let plain = |one: &Option<ResourceTemplate>| one.as_ref().and_then(|t| t.metadata.clone());
        let bootstrap = template.bootstrap_service.as_ref().and_then(|t| t.metadata.clone());
        let brokers = template.brokers_service.as_ref().and_then(|t| t.metadata.clone());
        let budget = template.pod_disruption_budget.as_ref().and_then(|t| t.metadata.clone());
        let objects = [
            ("pod", template.pod.as_ref().and_then(|t| t.metadata.clone())),
            ("bootstrapService", bootstrap),
            ("brokersService", brokers),
            ("externalBootstrapService", plain(&template.external_bootstrap_service)),
            ("perPodService", plain(&template.per_pod_service)),
            ("persistentVolumeClaim", plain(&template.persistent_volume_claim)),
            ("podDisruptionBudget", budget),
            ("podSet", plain(&template.pod_set)),
            ("serviceAccount", plain(&template.service_account)),
            ("clusterCaCert", plain(&template.cluster_ca_cert)),
        ];
        for (name, metadata) in objects {
            of_object(&format!("spec.kafka.template.{name}.metadata"), metadata, &mut keys);
        }
    }
    for (index, listener) in kafka.spec.kafka.listeners.iter().enumerate() {
        of_listener(&format!("spec.kafka.listeners[{index}].configuration"), listener, &mut keys);
    }
    keys
}

/// Those of a pool.
pub(super) fn of_pool(pool: &KafkaNodePool) -> Vec<TemplateKey> {
    let mut keys = Vec::new();
    let Some(template) = &pool.spec.template else { return keys };
    let plain = |one: &Option<ResourceTemplate>| one.as_ref().and_then(|t| t.metadata.clone());
    let objects = [
        ("pod", template.pod.as_ref().and_then(|t| t.metadata.clone())),
        ("perPodService", plain(&template.per_pod_service)),
        ("persistentVolumeClaim", plain(&template.persistent_volume_claim)),
        ("podSet", plain(&template.pod_set)),
    ];
    for (name, metadata) in objects {
        let place = format!("KafkaNodePool {} spec.template.{name}.metadata", pool.name_any());
        of_object(&place, metadata, &mut keys);
    }
    keys
}

/// What a cluster passes on to pods.
pub(super) fn pods_of_kafka(kafka: &Kafka) -> Option<spec::PodTemplate> {
    let template = kafka.spec.kafka.template.as_ref()?;
    let containers = [template.kafka_container.as_ref(), template.init_container.as_ref()];
    Some(pods("spec.kafka.template".to_owned(), template.pod.as_ref(), containers))
}

/// What a pool passes on to pods.
pub(super) fn pods_of_pool(pool: &KafkaNodePool) -> Option<spec::PodTemplate> {
    let template = pool.spec.template.as_ref()?;
    let place = format!("KafkaNodePool {} spec.template", pool.name_any());
    let containers = [template.kafka_container.as_ref(), template.init_container.as_ref()];
    Some(pods(place, template.pod.as_ref(), containers))
}

/// The containers are Kafka's and the init container.
fn pods(
    place: String,
    pod: Option<&PodTemplate>,
    containers: [Option<&ContainerTemplate>; 2],
) -> spec::PodTemplate {
    let map = |one: &Verbatim| Written::Map(fields(one));
    let maps = |all: &Vec<Verbatim>| Written::List(all.iter().map(map).collect());
    let of_pod = pod.map(|pod| {
        let context = pod.security_context.as_ref().map(map);
        let volumes = |all: &Vec<AdditionalVolume>| {
            Written::List(all.iter().map(|one| map(&one.0)).collect())
        };
        [
            ("pod.securityContext".to_owned(), context),
            ("pod.volumes".to_owned(), pod.volumes.as_ref().map(volumes)),
            ("pod.templatedVolumes".to_owned(), pod.templated_volumes.as_ref().map(volumes)),
        ]
    });
    let named = ["kafkaContainer", "initContainer"].into_iter().zip(containers);
    let of_containers = named.filter_map(|(name, container)| {
        let container = container?;
        Some([
            (format!("{name}.securityContext"), container.security_context.as_ref().map(map)),
            (format!("{name}.volumeMounts"), container.volume_mounts.as_ref().map(maps)),
            (format!("{name}.env"), container.env.as_ref().map(maps)),
        ])
    });
    let parts = of_pod.into_iter().flatten().chain(of_containers.flatten());
    let parts = parts.filter_map(|(path, part)| Some((path, part?)));
    spec::PodTemplate { place, parts: parts.collect() }
}

fn fields(one: &Verbatim) -> BTreeMap<String, Written> {
    one.0.iter().map(|(name, value)| (name.clone(), written(value))).collect()
}

fn written(value: &Value) -> Written {
    match value {
        Value::Null => Written::Null,
        Value::Bool(flag) => Written::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Written::Integer(whole),
            None => Written::Number(number.to_string()),
        },
        Value::String(text) => Written::Text(text.clone()),
        Value::Array(items) => Written::List(items.iter().map(written).collect()),
        Value::Object(fields) => Written::Map(
            fields.iter().map(|(name, value)| (name.clone(), written(value))).collect(),
        ),
    }
}

fn of_object(place: &str, metadata: Option<ObjectTemplate>, keys: &mut Vec<TemplateKey>) {
    let Some(metadata) = metadata else { return };
    add(&format!("{place}.labels"), metadata.labels.as_ref(), keys);
    add(&format!("{place}.annotations"), metadata.annotations.as_ref(), keys);
}

fn of_listener(place: &str, listener: &Listener, keys: &mut Vec<TemplateKey>) {
    let Some(configuration) = &listener.configuration else { return };
    let broker_labels = configuration.per_broker_labels_template.as_ref();
    let broker_annotations = configuration.per_broker_annotations_template.as_ref();
    add(&format!("{place}.perBrokerLabelsTemplate"), broker_labels, keys);
    add(&format!("{place}.perBrokerAnnotationsTemplate"), broker_annotations, keys);
    if let Some(bootstrap) = &configuration.bootstrap {
        add(&format!("{place}.bootstrap.labels"), bootstrap.labels.as_ref(), keys);
        add(&format!("{place}.bootstrap.annotations"), bootstrap.annotations.as_ref(), keys);
    }
    for (index, broker) in configuration.brokers.iter().flatten().enumerate() {
        add(&format!("{place}.brokers[{index}].labels"), broker.labels.as_ref(), keys);
        add(&format!("{place}.brokers[{index}].annotations"), broker.annotations.as_ref(), keys);
    }
}

fn add(place: &str, map: Option<&BTreeMap<String, String>>, keys: &mut Vec<TemplateKey>) {
    let names = map.into_iter().flat_map(BTreeMap::keys);
    keys.extend(names.map(|key| TemplateKey { place: place.to_owned(), key: key.clone() }));
}
