//! From custom resources to the plain types that decisions are made of.
//!
//! A resource that can be read is not yet one that makes sense: `control::cluster::validate` looks at
//! the whole. Here a spec becomes a type, or a [`Problem`] that says where and what is wrong. All
//! problems are found, not only the first.
//!
//! What a verdict of [`compat`](crate::compat) refuses is refused there; only what the plain types cannot
//! hold is a problem here too.

mod exporter;
mod listener;
mod pool;
mod template;
mod topic;
mod user;

use std::collections::BTreeMap;
use std::fmt;

use control::cluster::spec::{
    Authority, Authorization, ClusterSpec, ConfigMapEntry, Logging, Rack,
};
use kube::ResourceExt as _;
use serde_json::Value;

use crate::common::Verbatim;
use crate::kafka::{
    self, AuthorizationType, CertificateAuthority, LoggingType, MetricsType, RackType,
};
use crate::{Kafka, KafkaNodePool};

pub use exporter::exporter;
pub use pool::{storage_from_text, storage_text};
pub use topic::{Topics, topic, topics};
pub use user::{Users, user, users};

/// Something in a resource that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The kind and the name of the resource, such as `KafkaNodePool broker`.
    pub resource: String,
    /// Where in it, such as `spec.storage.size`.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.resource, self.path, self.message)
    }
}

/// Collects the problems of one resource.
struct Notes {
    resource: String,
    problems: Vec<Problem>,
}

impl Notes {
    fn of(resource: String) -> Self {
        Self { resource, problems: Vec::new() }
    }

    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let (path, message) = (path.into(), message.into());
        self.problems.push(Problem { resource: self.resource.clone(), path, message });
    }

    /// A number that fits its type and is not below the least, or a note that says what it has to be.
    fn number<T: TryFrom<i64>>(
        &mut self,
        number: i64,
        least: i64,
        path: &str,
        range: &str,
    ) -> Option<T> {
        let fits = T::try_from(number).ok().filter(|_| number >= least);
        if fits.is_none() {
            self.add(path, format!("is {number}: it has to be {range}"));
        }
        fits
    }
}

/// What a cluster and its pools were asked to be. The pools are those of the cluster, in any order.
///
/// # Errors
/// Everything that cannot be read.
pub fn cluster(kafka: &Kafka, pools: &[KafkaNodePool]) -> Result<ClusterSpec, Vec<Problem>> {
    let mut notes = Notes::of(format!("Kafka {}", kafka.name_any()));
    let spec = kafka_spec(kafka, &mut notes);
    let mut problems = notes.problems;
    let mut found = Vec::new();
    let mut template_keys = template::of_kafka(kafka);
    let mut pod_templates: Vec<_> = template::pods_of_kafka(kafka).into_iter().collect();
    for pool in pools {
        template_keys.extend(template::of_pool(pool));
        pod_templates.extend(template::pods_of_pool(pool));
        match pool::pool(pool, kafka.spec.kafka.jvm_options.as_ref()) {
            Ok(pool) => found.push(pool),
            Err(more) => problems.extend(more),
        }
    }
    // By name, which is also the order in which the API server lists them: ids are given in it.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    match spec {
        Some(spec) if problems.is_empty() => {
            Ok(ClusterSpec { pools: found, template_keys, pod_templates, ..spec })
        }
        _ => Err(problems),
    }
}

fn kafka_spec(kafka: &Kafka, notes: &mut Notes) -> Option<ClusterSpec> {
    let spec = &kafka.spec.kafka;
    let name = kafka.metadata.name.clone();
    if name.is_none() {
        notes.add("metadata.name", "is missing");
    }
    let listeners: Vec<_> = (spec.listeners.iter().enumerate())
        .map(|(index, one)| listener::listener(one, index, notes))
        .collect();
    let config = config(spec.config.as_ref(), "spec.kafka.config", notes);
    let authorization = spec.authorization.as_ref().map(|one| authorization(one, notes));
    let rack = spec.rack.as_ref().map(|one| rack(one, notes));
    let metrics = metrics(spec.metrics_config.as_ref(), notes);
    let logging = logging(spec.logging.as_ref(), notes);
    liveness(spec.liveness_probe.as_ref(), notes);
    let cluster_ca = authority(kafka.spec.cluster_ca.as_ref(), "spec.clusterCa", notes);
    let clients_ca = authority(kafka.spec.clients_ca.as_ref(), "spec.clientsCa", notes);
    let max_unavailable = max_unavailable(spec, notes);
    Some(ClusterSpec {
        name: name?,
        namespace: kafka.namespace().unwrap_or_else(|| "default".to_owned()),
        kafka_version: spec.version.clone(),
        metadata_version: spec.metadata_version.clone(),
        image: spec.image.clone(),
        listeners: listeners.into_iter().collect::<Option<_>>()?,
        config,
        authorization: flatten(authorization)?,
        rack: flatten(rack)?,
        metrics,
        logging,
        exporter: exporter(kafka),
        topics_namespace: topics(kafka).map(|topics| topics.namespace),
        users_namespace: users(kafka).map(|users| users.namespace),
        cluster_ca: cluster_ca?,
        clients_ca: clients_ca?,
        max_unavailable: max_unavailable?,
        pools: Vec::new(),
        template_keys: Vec::new(),
        pod_templates: Vec::new(),
    })
}

/// Absent is fine; present and unreadable is not.
fn flatten<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
    }
}

/// Settings with their values as Kafka writes them.
fn config(config: Option<&Verbatim>, path: &str, notes: &mut Notes) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for (key, value) in config.into_iter().flat_map(|config| &config.0) {
        match text(value) {
            Ok(text) => drop(settings.insert(key.clone(), text)),
            Err(message) => notes.add(format!("{path}.{key}"), message),
        }
    }
    settings
}

/// A value as Kafka writes it.
fn text(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(match (number.is_f64(), number.as_f64()) {
            // `1000.0` is no number to a setting that is whole, and `1000` is one to every setting.
            (true, Some(float)) if float.fract() == 0.0 && float.abs() < 1e15 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        }),
        Value::Null => Err("has no value: give it one, or remove it"),
        Value::Array(_) | Value::Object(_) => Err(
            "is neither a text nor a number nor true nor false: write a list as a text with commas",
        ),
    }
}

fn authorization(one: &kafka::Authorization, notes: &mut Notes) -> Option<Authorization> {
    let super_users = one.super_users.clone().unwrap_or_default();
    let unsupported = match one.kind {
        AuthorizationType::Simple => return Some(Authorization { super_users }),
        AuthorizationType::Custom => "custom",
        AuthorizationType::Opa => "opa",
        AuthorizationType::Keycloak => "keycloak",
    };
    let message = format!("is {unsupported}, which is not supported: use simple, or leave it out");
    notes.add("spec.kafka.authorization.type", message);
    None
}

fn rack(rack: &kafka::Rack, notes: &mut Notes) -> Option<Rack> {
    let (path, value, make): (_, _, fn(String) -> Rack) = match rack.kind.unwrap_or_default() {
        RackType::TopologyLabel => ("topologyKey", &rack.topology_key, Rack::TopologyLabel),
        RackType::EnvironmentVariable => ("envVarName", &rack.env_var_name, Rack::Environment),
    };
    match value.as_deref().map(str::trim).filter(|value| !value.is_empty()) {
        Some(value) => Some(make(value.to_owned())),
        None => {
            notes.add(format!("spec.kafka.rack.{path}"), "is missing: without it no rack is known");
            None
        }
    }
}

/// Strimzi's own reporter is accepted and comes to nothing, as the table of fields says.
fn metrics(config: Option<&kafka::MetricsConfig>, notes: &mut Notes) -> Option<ConfigMapEntry> {
    let config = config.filter(|config| config.kind == MetricsType::JmxPrometheusExporter)?;
    let entry = entry(config.value_from.as_ref());
    if entry.is_none() {
        let message = "is missing: it names the ConfigMap and the entry with the exporter's rules";
        notes.add("spec.kafka.metricsConfig.valueFrom.configMapKeyRef", message);
    }
    entry
}

fn logging(logging: Option<&kafka::Logging>, notes: &mut Notes) -> Logging {
    let Some(logging) = logging else { return Logging::Default };
    match logging.kind {
        LoggingType::Inline => Logging::Inline(logging.loggers.clone().unwrap_or_default()),
        LoggingType::External => {
            let entry = entry(logging.value_from.as_ref());
            if entry.is_none() {
                let message = "is missing: it names the ConfigMap and the entry with the \
                               configuration of log4j2";
                notes.add("spec.kafka.logging.valueFrom.configMapKeyRef", message);
            }
            entry.map_or(Logging::Default, Logging::External)
        }
    }
}

/// The API server would refuse the pods.
fn liveness(probe: Option<&kafka::Probe>, notes: &mut Notes) {
    if let Some(count) = probe.and_then(|probe| probe.success_threshold).filter(|count| *count != 1)
    {
        let message = format!("is {count}: Kubernetes allows only 1 for a liveness probe");
        notes.add("spec.kafka.livenessProbe.successThreshold", message);
    }
}

/// A reference is whole or none.
fn entry(source: Option<&kafka::EntrySource>) -> Option<ConfigMapEntry> {
    let reference = source.and_then(|source| source.config_map_key_ref.as_ref())?;
    let (config_map, key) = (reference.name.clone()?, reference.key.clone()?);
    Some(ConfigMapEntry { config_map, key })
}

fn authority(
    one: Option<&CertificateAuthority>,
    path: &str,
    notes: &mut Notes,
) -> Option<Authority> {
    let Some(one) = one else { return Some(Authority::default()) };
    let range = "at least 1";
    let validity_days =
        notes.number(one.validity_days(), 1, &format!("{path}.validityDays"), range);
    let renewal_days = notes.number(one.renewal_days(), 1, &format!("{path}.renewalDays"), range);
    Some(Authority {
        owned: one.is_owned(),
        validity_days: validity_days?,
        renewal_days: renewal_days?,
    })
}

fn max_unavailable(spec: &kafka::KafkaCluster, notes: &mut Notes) -> Option<u32> {
    let budget = spec.template.as_ref().and_then(|t| t.pod_disruption_budget.as_ref());
    let Some(number) = budget.and_then(|budget| budget.max_unavailable) else { return Some(1) };
    let path = "spec.kafka.template.podDisruptionBudget.maxUnavailable";
    notes.number(number, 0, path, "at least 0")
}

#[cfg(test)]
mod tests;
