//! The configuration of each node, in its own ConfigMap: one entry per file that `gregor node` reads.

use std::collections::BTreeMap;

use control::annotations::Annotation;
use control::cluster::draft::Flow;
use control::cluster::properties::{
    self, Address, ClusterInput, NodeInput, QuorumProperties, Server,
};
use control::cluster::record::Record;
use control::cluster::spec::{ClusterSpec, ConfigMapEntry, PoolSpec};
use control::cluster::storage::layout;
use control::cluster::validate::{self, Known, Versions, resolve};
use control::cluster::{jvm, logging};
use control::conditions::{Note, Reason};
use control::quorum::format::QuorumMode;
use control::registration::KafkaVersion;
use control::rolling::config;
use model::NodeId;

use super::Built;
use super::services::Addresses;
use crate::pods::Marks;
use crate::{Blueprint, Node, hash, node_config};

/// Annotation: hash of the settings that require a restart.
pub const CONFIG_HASH: &str = Annotation::ConfigurationHash.name();
/// Annotation: the Kafka version of a pod.
pub const KAFKA_VERSION: &str = Annotation::KafkaVersion.name();

/// Annotation: how a pod discovers the controllers: `static` with `controller.quorum.voters`, `dynamic` with
/// `controller.quorum.bootstrap.servers`.
pub const QUORUM: &str = Annotation::Quorum.name();
/// The value for a dynamic quorum.
pub const DYNAMIC: &str = "dynamic";

/// Inputs of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The cluster.
    pub blueprint: &'a Blueprint,
    /// Its record.
    pub record: &'a Record,
    /// Images of Kafka nodes by Kafka version.
    pub images: &'a BTreeMap<String, String>,
    /// Addresses of its brokers; `None` if unknown.
    pub addresses: Option<&'a Addresses>,
}

/// Contents and annotations of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Whether nodes are configured for a dynamic quorum. A fact that the pass learns later is configured in
    /// the next one.
    pub is_dynamic: bool,
    /// The image of the nodes.
    pub image: String,
    /// The version of Kafka that nodes run.
    pub kafka_version: String,
    /// Metadata version for formatting empty disks.
    pub metadata_version: String,
    /// Annotations of each node.
    pub marks: Marks,
    /// The server properties of each node.
    pub properties: BTreeMap<NodeId, Vec<(String, String)>>,
}

impl Configuration {
    /// Hash of all settings of a node.
    #[must_use]
    pub fn fingerprint(&self, node: NodeId) -> Option<String> {
        let settings = self.properties.get(&node)?;
        let text: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        Some(hash::short(text.as_bytes()))
    }
}

/// What [`build`] needs of the user's ConfigMaps: the entries, or their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfUser<T> {
    /// Rules for metrics.
    pub metrics: Option<T>,
    /// The configuration of log4j2.
    pub logging: Option<T>,
}

/// The entries of ConfigMaps that [`build`] needs.
#[must_use]
pub fn needs<'a>(input: &Input<'a>) -> OfUser<&'a ConfigMapEntry> {
    let spec = &input.blueprint.spec;
    // Without an image nothing is configured.
    if versions_and_image(input).is_none() {
        return OfUser { metrics: None, logging: None };
    }
    OfUser { metrics: spec.metrics.as_ref(), logging: logging::needs(&spec.logging) }
}

/// Builds the ConfigMaps. `of_user` has the entries from [`needs`] that exist; `assumed` is what is assumed of those that could
/// not be read.
pub fn build(
    input: &Input<'_>,
    (of_user, assumed): (OfUser<&str>, Option<Note>),
) -> Result<Built<Configuration>, serde_json::Error> {
    let mut built = Built::new(Configuration::default());
    let Some((versions, image)) = versions_and_image(input) else {
        built.flow = Flow::Hold(Note::new(
            Reason::Spec(validate::Reason::UnsupportedKafkaVersion),
            "there is no image for the requested Kafka version",
        ));
        return Ok(built);
    };
    let texts = match texts(&input.blueprint.spec, of_user) {
        Ok(texts) => texts,
        Err(note) => {
            built.flow = Flow::Hold(note);
            return Ok(built);
        }
    };
    built.outputs = Configuration {
        is_dynamic: input.record.quorum.mode == QuorumMode::Dynamic,
        image,
        kafka_version: versions.kafka.to_string(),
        metadata_version: versions.metadata.to_string(),
        ..Configuration::default()
    };
    built.flow = assumed.map_or(Flow::Go, Flow::Wait);
    let quorum = quorum(input);
    for node in &input.blueprint.nodes {
        let pools = &input.blueprint.spec.pools;
        let Some(pool) = pools.iter().find(|pool| pool.name == node.pool) else { continue };
        match server(input, (node, pool), (versions.kafka, &quorum)) {
            Ok(server) => add(&mut built, input, (node, pool), &server, &texts)?,
            Err(note) => {
                built.flow = Flow::Stop(note);
                break;
            }
        }
    }
    Ok(built)
}

/// The requested versions, default: the newest ones, and the image.
fn versions_and_image(input: &Input<'_>) -> Option<(Versions, String)> {
    let spec = &input.blueprint.spec;
    let versions = resolve(spec, &known_versions(input.images))?;
    let image = input.images.get(&versions.kafka.to_string());
    Some((versions, spec.image.as_ref().or(image)?.clone()))
}

/// Kafka versions with an image.
#[must_use]
pub fn known_versions(images: &BTreeMap<String, String>) -> Known {
    Known::of(images.keys().filter_map(|version| version.parse().ok()))
}

/// Files that are the same for all nodes.
struct Texts<'a> {
    metrics: Option<&'a str>,
    log4j: String,
}

fn texts<'a>(spec: &ClusterSpec, of_user: OfUser<&'a str>) -> Result<Texts<'a>, Note> {
    let missing = |reason, field: &str, entry: &ConfigMapEntry| {
        let message = format!("{field}: ConfigMap {} has no entry {}", entry.config_map, entry.key);
        Note::new(reason, message)
    };
    let metrics = match &spec.metrics {
        Some(entry) if of_user.metrics.is_none() => {
            return Err(missing(Reason::MetricsConfigMissing, "metricsConfig", entry));
        }
        _ => of_user.metrics,
    };
    let log4j = match (logging::text(&spec.logging, of_user.logging), logging::needs(&spec.logging))
    {
        (None, Some(entry)) => {
            return Err(missing(Reason::LoggingConfigMissing, "spec.kafka.logging", entry));
        }
        (text, _) => text.unwrap_or_default(),
    };
    if let Some(problem) = logging::problem(&log4j) {
        return Err(Note::new(Reason::InvalidLogging, format!("spec.kafka.logging: {problem}")));
    }
    Ok(Texts { metrics, log4j })
}

/// How nodes discover the controllers.
fn quorum(input: &Input<'_>) -> QuorumProperties {
    let (blueprint, names) = (input.blueprint, &input.blueprint.names);
    let hosts = blueprint.controllers();
    let hosts = hosts.map(|node| (node.id, names.host(&blueprint.pod(node)))).collect();
    match input.record.quorum.mode {
        QuorumMode::Dynamic => QuorumProperties::Dynamic(hosts),
        // A quorum with unknown mode was created by an operator that knew only static ones; and a node whose
        // log has voters ignores this.
        QuorumMode::Static | QuorumMode::Unknown => QuorumProperties::Static(hosts),
    }
}

fn server(
    input: &Input<'_>,
    (node, pool): (&Node, &PoolSpec),
    (version, quorum): (KafkaVersion, &QuorumProperties),
) -> Result<Server, Note> {
    let blueprint = input.blueprint;
    let pod = blueprint.pod(node);
    let host = blueprint.names.host(&pod);
    let disks = layout(&pool.storage, node.id);
    let leaving = input.record.leaving.get(&node.id);
    let cordoned = leaving.is_some_and(|leaving| leaving.duty().cordoned);
    let known = input.addresses.map(|addresses| &addresses.brokers);
    let addresses = known.into_iter().flatten().filter(|((id, _), _)| *id == node.id);
    let addresses = addresses.map(|((_, listener), (host, port))| {
        (listener.clone(), Address { host: host.clone(), port: *port })
    });
    let input = NodeInput {
        id: node.id,
        pod: &pod,
        roles: node.roles,
        host: &host,
        domain: &blueprint.domain,
        metadata_dir: &disks.metadata_dir,
        log_dirs: &disks.log_dirs,
        addresses: &addresses.collect(),
        cordoned,
    };
    let cluster = ClusterInput { spec: &blueprint.spec, version, quorum };
    properties::server(&cluster, &input).map_err(|missing| {
        let lines: Vec<_> = missing.iter().map(ToString::to_string).collect();
        Note::new(Reason::AwaitingAddresses, format!("{pod}: {}", lines.join("; ")))
    })
}

/// Major and minor number of a Kafka version.
#[must_use]
pub fn major_minor(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(4), numbers.next().unwrap_or(0))
}

/// Adds ConfigMap, annotations and properties of a node.
fn add(
    built: &mut Built<Configuration>,
    input: &Input<'_>,
    (node, pool): (&Node, &PoolSpec),
    server: &Server,
    texts: &Texts<'_>,
) -> Result<(), serde_json::Error> {
    let jvm = jvm::options(&pool.jvm, pool.memory_bytes);
    if !jvm.left_out.is_empty() {
        let message = format!("pool {}: {}", pool.name, jvm.left_out.join(", "));
        built.warnings.push(Note::new(Reason::InvalidJvmOptions, message));
    }
    let jvm = jvm.render();
    let files = files(input, (node, &built.outputs), (server, &jvm), texts);
    built.objects.push(node_config::config_map(input.blueprint, node, &files)?.into());
    let restart_hash = restart_hash((node, &built.outputs), (server, &jvm), texts.metrics);
    let configuration = &mut built.outputs;
    let told = if configuration.is_dynamic { DYNAMIC } else { "static" };
    let marks = [
        (CONFIG_HASH, restart_hash),
        (KAFKA_VERSION, configuration.kafka_version.clone()),
        (QUORUM, told.to_owned()),
    ];
    let marks = marks.map(|(name, value)| (name.to_owned(), value)).into();
    configuration.marks.insert(node.id, marks);
    configuration.properties.insert(node.id, server.properties.clone());
    Ok(())
}

/// The files of a node, by name.
fn files(
    input: &Input<'_>,
    (node, configuration): (&Node, &Configuration),
    (server, jvm): (&Server, &str),
    texts: &Texts<'_>,
) -> BTreeMap<&'static str, String> {
    let quorum = &input.record.quorum;
    let mode = match quorum.mode {
        QuorumMode::Dynamic => "dynamic",
        QuorumMode::Static => "static",
        QuorumMode::Unknown => "unknown",
    };
    let mut files: BTreeMap<&'static str, String> = [
        ("server.config", properties::render(&server.properties)),
        ("cluster.id", input.record.cluster_id.clone().unwrap_or_default()),
        ("metadata.version", configuration.metadata_version.clone()),
        ("quorum.mode", mode.to_owned()),
        ("jvm.options", jvm.to_owned()),
        ("log4j2.properties", texts.log4j.clone()),
    ]
    .into();
    if quorum.mode == QuorumMode::Dynamic {
        files.insert("initial.controllers", quorum.initial.to_string());
    }
    // A broker is not a voter.
    let concerns = quorum.mode == QuorumMode::Dynamic
        || quorum.mode == QuorumMode::Static && node.roles.is_controller();
    if let Some(seen) = quorum.seen(node.id).filter(|_| concerns) {
        files.insert("controller.seen", seen.to_string());
    }
    if let Some(uid) = quorum.replaced.get(&node.id) {
        files.insert("controller.replaced", uid.clone());
    }
    if let Some(metrics) = texts.metrics {
        files.insert("metrics-config.json", metrics.to_owned());
    }
    files
}

/// Hash of settings that require a restart and that Kafka does not report.
fn restart_hash(
    (node, configuration): (&Node, &Configuration),
    (server, jvm): (&Server, &str),
    metrics: Option<&str>,
) -> String {
    let properties = server.properties.iter().cloned().collect();
    let version = major_minor(&configuration.kafka_version);
    let hashed =
        config::restart_hash_input(config::Node { roles: node.roles, version }, &properties);
    let mut text: String = hashed.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    text.push_str(jvm);
    text.push_str(metrics.unwrap_or_default());
    hash::short(text.as_bytes())
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
pub(super) mod tests;
