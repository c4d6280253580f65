//! What each node is told, in a ConfigMap of its own: one entry for each file that `gregor node` reads.

use std::collections::BTreeMap;

use control::cluster::jvm;
use control::cluster::properties::{
    self, Address, ClusterInput, NodeInput, QuorumProperties, Server,
};
use control::cluster::spec::PoolSpec;
use control::cluster::storage::layout;
use control::cluster::validate::{self, Known, Versions, resolve};
use control::conditions::{Note, Reason};
use control::quorum::format::QuorumMode;
use control::registration::KafkaVersion;
use control::rolling::config;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use model::NodeId;

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::{Node, node_config};
use crate::context::Context;
use crate::hash;

/// The annotation with the hash of what a node must be restarted for.
pub(crate) const CONFIG_HASH: &str = "strimzi.io/configuration-hash";
/// The annotation with the version of Kafka that a pod runs.
pub(crate) const KAFKA_VERSION: &str = "strimzi.io/kafka-version";

/// The annotation that says how a pod was told to find the controllers: `static` is by
/// `controller.quorum.voters`, `dynamic` by `controller.quorum.bootstrap.servers`.
pub(crate) const QUORUM: &str = "gregor.io/quorum";
/// What it says where the quorum is dynamic.
pub(crate) const DYNAMIC: &str = "dynamic";

/// What pods are made of and marked with.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// Whether nodes were told that the quorum is dynamic. What is learned of it later in a pass is told them
    /// in the next one.
    pub(crate) is_dynamic: bool,
    pub(crate) image: String,
    pub(crate) kafka_version: String,
    /// The metadata version that empty disks are formatted for.
    pub(crate) metadata_version: String,
    pub(crate) marks: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// The server properties of each node.
    pub(crate) properties: BTreeMap<NodeId, Vec<(String, String)>>,
}

impl Configuration {
    /// A hash of all settings that a node is to run with.
    pub(crate) fn fingerprint(&self, node: NodeId) -> Option<String> {
        let settings = self.properties.get(&node)?;
        let text: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        Some(hash::short(text.as_bytes()))
    }
}

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let Some((versions, image)) = versions_and_image(work) else {
        return Ok(Step::Hold(Note::new(
            Reason::Spec(validate::Reason::UnsupportedKafkaVersion),
            "there is no image for the version of Kafka that is asked for",
        )));
    };
    let metrics = match metrics(work).await? {
        Ok(metrics) => metrics,
        Err(note) => return Ok(Step::Hold(note)),
    };
    work.known.configuration.image = image;
    work.known.configuration.kafka_version = versions.kafka.to_string();
    work.known.configuration.metadata_version = versions.metadata.to_string();
    work.known.configuration.is_dynamic = work.record.quorum.mode == QuorumMode::Dynamic;
    let quorum = quorum(work);
    for node in work.blueprint.nodes.clone() {
        let pools = &work.blueprint.spec.pools;
        let Some(pool) = pools.iter().find(|pool| pool.name == node.pool).cloned() else {
            continue;
        };
        let server = match server(work, (&node, &pool), (versions.kafka, &quorum)) {
            Ok(server) => server,
            Err(note) => return Ok(Step::Stop(note)),
        };
        write(work, &node, (&pool, &server), metrics.as_deref()).await?;
    }
    Ok(Step::Done)
}

/// The versions that are asked for, the newest that there are if none are, and the image.
fn versions_and_image(work: &Work) -> Option<(Versions, String)> {
    let spec = &work.blueprint.spec;
    let versions = resolve(spec, &known_versions(&work.ctx))?;
    let image = work.ctx.settings.kafka_images.get(&versions.kafka.to_string());
    Some((versions, spec.image.as_ref().or(image)?.clone()))
}

/// The versions of Kafka that there are images for.
pub(crate) fn known_versions(ctx: &Context) -> Known {
    Known::of(ctx.settings.kafka_images.keys().filter_map(|version| version.parse().ok()))
}

/// The user's rules for metrics.
async fn metrics(work: &Work) -> Result<Result<Option<String>, Note>, PassError> {
    let Some(source) = &work.blueprint.spec.metrics else { return Ok(Ok(None)) };
    let api = work.api::<ConfigMap>();
    let found = api.get_opt(&source.config_map).await.map_err(|e| PassError::Get(Box::new(e)))?;
    let text = found.and_then(|map| map.data?.get(&source.key).cloned());
    Ok(match text {
        Some(text) => Ok(Some(text)),
        None => Err(Note::new(
            Reason::MetricsConfigMissing,
            format!("metricsConfig: ConfigMap {} has no entry {}", source.config_map, source.key),
        )),
    })
}

/// How nodes find the controllers.
fn quorum(work: &Work) -> QuorumProperties {
    let names = &work.blueprint.names;
    let hosts = work.blueprint.controllers();
    let hosts = hosts.map(|node| (node.id, names.host(&work.blueprint.pod(node)))).collect();
    match work.record.quorum.mode {
        QuorumMode::Dynamic => QuorumProperties::Dynamic(hosts),
        // A quorum of which nothing is known was made by somebody who knew static ones only; and a
        // node whose log has voters does not look at this.
        QuorumMode::Static | QuorumMode::Unknown => QuorumProperties::Static(hosts),
    }
}

fn server(
    work: &Work,
    (node, pool): (&Node, &PoolSpec),
    (version, quorum): (KafkaVersion, &QuorumProperties),
) -> Result<Server, Note> {
    let blueprint = &work.blueprint;
    let pod = blueprint.pod(node);
    let host = blueprint.names.host(&pod);
    let disks = layout(&pool.storage, node.id);
    let leaving = work.record.leaving.get(&node.id);
    let cordoned = leaving.is_some_and(|leaving| leaving.duty().cordoned);
    let known = work.known.addresses.as_ref().map(|addresses| &addresses.brokers);
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

/// Major and minor of a version of Kafka.
pub(crate) fn major_minor(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(4), numbers.next().unwrap_or(0))
}

async fn write(
    work: &mut Work,
    node: &Node,
    (pool, server): (&PoolSpec, &Server),
    metrics: Option<&str>,
) -> Result<(), PassError> {
    let jvm = jvm::options(&pool.jvm, pool.memory_bytes);
    if !jvm.left_out.is_empty() {
        let message = format!("pool {}: {}", pool.name, jvm.left_out.join(", "));
        work.warn(Reason::InvalidJvmOptions, message);
    }
    let jvm = jvm.render();
    let version = work.known.configuration.kafka_version.clone();
    let quorum = &work.record.quorum;
    let mode = match quorum.mode {
        QuorumMode::Dynamic => "dynamic",
        QuorumMode::Static => "static",
        QuorumMode::Unknown => "unknown",
    };
    let mut files: BTreeMap<&'static str, String> = [
        ("server.config", properties::render(&server.properties)),
        ("cluster.id", work.record.cluster_id.clone().unwrap_or_default()),
        ("metadata.version", work.known.configuration.metadata_version.clone()),
        ("quorum.mode", mode.to_owned()),
        ("jvm.options", jvm.clone()),
    ]
    .into();
    if quorum.mode == QuorumMode::Dynamic {
        files.insert("initial.controllers", quorum.initial.to_string());
        if let Some(seen) = quorum.seen(node.id) {
            files.insert("controller.seen", seen.to_string());
        }
    }
    if let Some(metrics) = metrics {
        files.insert("metrics-config.json", metrics.to_owned());
    }
    let map = node_config::config_map(&work.blueprint, node, &files)?;
    let name = map.name_any();
    let before = work.found.config_maps.get(&name);
    let after = work.ctx.writer.apply(&work.api(), &name, &map, before).await?;
    work.found.config_maps.insert(name, after);
    let properties = server.properties.iter().cloned().collect();
    let of = config::Node { roles: node.roles, version: major_minor(&version) };
    let hashed = config::restart_hash_input(of, &properties);
    let mut text: String = hashed.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    text.push_str(&jvm);
    text.push_str(metrics.unwrap_or_default());
    let told = if work.known.configuration.is_dynamic { DYNAMIC } else { "static" };
    let marks = [
        (CONFIG_HASH, hash::short(text.as_bytes())),
        (KAFKA_VERSION, version),
        (QUORUM, told.to_owned()),
    ];
    let marks = marks.map(|(name, value)| (name.to_owned(), value)).into();
    work.known.configuration.marks.insert(node.id, marks);
    work.known.configuration.properties.insert(node.id, server.properties.clone());
    Ok(())
}
