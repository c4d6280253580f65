//! What the roller is told of the nodes: their pods, and how their settings differ.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::snapshot::Partitions;
use control::node::Roles;
use control::rolling::config::{self, Described, Diff, Source};
use control::rolling::facts::{Facts, NodeFacts, Pod, PodFacts, Recovery};
use control::rolling::{quorum, reasons::Reason};
use k8s_openapi::api::core::v1 as core;
use kafka_admin::{ConfigEntry, ConfigResource, ConfigSource};
use kube::ResourceExt as _;
use model::NodeId;

use super::{MANUAL, contact};
use crate::cluster::error::PassError;
use crate::cluster::pass::Work;
use crate::cluster::resources::Node;
use crate::cluster::resources::pods::{REVISION, SETTINGS};
use crate::cluster::steps::certificates::SERVER_CERT;
use crate::cluster::steps::configuration::major_minor;
use crate::cluster::steps::kafka::view;
use crate::cluster::steps::workload::is_ready;
use crate::metrics::KafkaEffect;
use crate::pki::names;
use crate::words::chain;

/// Kafka's number for a broker that recovers its logs.
const RECOVERY: i64 = 2;

/// As many nodes are asked at a time. Some may not answer, and each of those takes as long as it may.
const ASKED_AT_ONCE: usize = 16;

/// What is known of every node.
pub(super) async fn nodes(work: &Work) -> Result<Vec<NodeFacts>, PassError> {
    let confirmed = &work.record.confirmed_settings;
    let mut all = Vec::new();
    for some in work.blueprint.nodes.chunks(ASKED_AT_ONCE) {
        let asked = some.iter().map(|node| one(work, node, confirmed.get(&node.id)));
        all.extend(futures::future::join_all(asked).await);
    }
    Ok(all)
}

async fn one(work: &Work, node: &Node, confirmed: Option<&String>) -> NodeFacts {
    let found = work.found.pods.get(&work.blueprint.pod(node));
    let set = work.found.pod_sets.get(&work.blueprint.names.pod_set(&node.pool));
    let set_annotated =
        set.is_some_and(|set| set.annotations().get(MANUAL).is_some_and(|value| value == "true"));
    let is_up = found.is_some_and(is_ready);
    let reasons = found.map(|pod| reasons(work, node, pod)).unwrap_or_default();
    let config = async {
        match is_up {
            true => settings(work, node, confirmed).await,
            false => None,
        }
    };
    let is_wanted = set_annotated || !reasons.is_empty();
    let (config, recovery, contact) = tokio::join!(
        config,
        recovery(work, node, is_up),
        contact::of(work, node, (is_up, is_wanted)),
    );
    NodeFacts {
        node: node.id,
        roles: found.and_then(roles_of).unwrap_or(node.roles),
        pool: node.pool.clone(),
        rack: rack(work, node.id),
        pod: found.map_or(Pod::Absent, |pod| Pod::There(pod_facts(pod))),
        reasons,
        set_annotated,
        recovery,
        contact,
        config,
        leads_preferred: None,
    }
}

/// The rack of a broker, as it told when it registered. One that is down has not moved.
fn rack(work: &Work, node: NodeId) -> Option<String> {
    let brokers = work.known.kafka.brokers.as_ref()?;
    brokers.nodes.iter().find(|broker| broker.id == node)?.rack.clone()
}

/// What a pod is for, by its labels.
pub(crate) fn roles_of(pod: &core::Pod) -> Option<Roles> {
    let is = |label: &str| pod.labels().get(label).map(|value| value == "true");
    match (is(api::names::BROKER_LABEL)?, is(api::names::CONTROLLER_LABEL)?) {
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => None,
    }
}

fn pod_facts(pod: &core::Pod) -> PodFacts {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let inits = status.and_then(|status| status.init_container_statuses.as_ref());
    let waiting = inits
        .into_iter()
        .chain(containers)
        .flatten()
        .find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let unschedulable = conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_millisecond());
    PodFacts {
        uid: pod.uid().unwrap_or_default(),
        ready: is_ready(pod),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        created_ms: created.and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default(),
        waiting,
        unschedulable,
    }
}

/// Whether a node recovers its logs. One that is ready does not, and controllers have none.
async fn recovery(work: &Work, node: &Node, is_up: bool) -> Recovery {
    if is_up || !node.roles.is_broker() {
        return Recovery::No;
    }
    let pod = work.blueprint.pod(node);
    let Some(client) = work.known.kafka.nodes.as_ref() else { return Recovery::Unknown };
    match client.broker_state(&work.blueprint.names.host(&pod)).await {
        Ok(state) if state.number == RECOVERY => Recovery::Yes {
            logs: state.remaining_logs_to_recover.unwrap_or_default(),
            segments: state.remaining_segments_to_recover.unwrap_or_default(),
        },
        Ok(_) => Recovery::No,
        Err(error) => {
            tracing::debug!("the state of {pod} is not known: {}", chain(&error));
            Recovery::Unknown
        }
    }
}

/// Why a pod should be restarted, as far as it tells by itself.
fn reasons(work: &Work, node: &Node, pod: &core::Pod) -> BTreeSet<Reason> {
    let mut reasons = BTreeSet::new();
    let has = |name: &str| pod.annotations().get(name);
    if has(MANUAL).is_some_and(|value| value == "true") {
        reasons.insert(Reason::ManualRollingUpdate);
    }
    if work.known.outputs.strangers.contains(&node.id) {
        let keys = vec![control::quorum::bootstrap::SERVERS.to_owned()];
        reasons.insert(Reason::ConfigChangeRequiresRestart { keys });
    }
    let Some(wanted) = wanted_annotations(work, node) else { return reasons };
    if has(REVISION) != wanted.get(REVISION) {
        reasons.insert(Reason::PodHasOldRevision);
    }
    // One that is ready is asked for its settings. A pod without the mark was made before there was one.
    if !is_ready(pod) && has(SETTINGS).is_some() && has(SETTINGS) != wanted.get(SETTINGS) {
        reasons.insert(Reason::PodHasOldSettings);
    }
    let marks = [
        (names::CLUSTER_CERT_GENERATION, Reason::CaCertHasOldGeneration),
        (names::CLIENTS_CERT_GENERATION, Reason::CaCertHasOldGeneration),
        (names::CLUSTER_KEY_GENERATION, Reason::ClusterCaCertKeyReplaced),
        (SERVER_CERT, Reason::KafkaCertificatesChanged),
    ];
    reasons.extend(
        marks.into_iter().filter(|(mark, _)| has(mark) != wanted.get(*mark)).map(|(_, why)| why),
    );
    let suffix = format!("-{}", pod.name_any());
    let grown =
        work.found.claims.iter().filter(|(name, _)| name.ends_with(&suffix)).any(|(_, claim)| {
            let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|condition| {
                condition.type_ == "FileSystemResizePending" && condition.status == "True"
            })
        });
    if grown {
        reasons.insert(Reason::FileSystemResizeNeeded);
    }
    reasons
}

/// The annotations that the pod set wants on the pod of a node.
fn wanted_annotations(work: &Work, node: &Node) -> Option<BTreeMap<String, String>> {
    let set = work.found.pod_sets.get(&work.blueprint.names.pod_set(&node.pool))?;
    let name = work.blueprint.pod(node);
    let pod = set
        .spec
        .pods
        .iter()
        .find(|pod| pod.0.get("metadata").is_some_and(|m| m["name"] == name))?;
    serde_json::from_value(pod.0.get("metadata")?.get("annotations")?.clone()).ok()
}

/// How the settings of a running node differ. Settings that it was found to run with before are not asked
/// for again.
async fn settings(work: &Work, node: &Node, confirmed: Option<&String>) -> Option<Diff> {
    let wished = work.known.configuration.properties.get(&node.id)?;
    if confirmed == work.known.configuration.fingerprint(node.id).as_ref() {
        return Some(Diff::default());
    }
    let version = &work.known.configuration.kafka_version;
    let access = work.known.kafka.access.as_ref()?;
    let admin = match node.roles {
        Roles::Broker | Roles::Combined => access.brokers.as_ref()?,
        Roles::Controller => &access.controllers,
    };
    work.ctx.writer.metrics().kafka_call("describe configs", KafkaEffect::Read);
    match admin.describe_configs(&ConfigResource::Node(node.id), None).await {
        Ok(entries) => {
            let described = entries.into_iter().map(|(name, entry)| (name, described(entry)));
            let of = config::Node { roles: node.roles, version: major_minor(version) };
            let wished = wished.iter().cloned().collect();
            Some(config::diff(of, &wished, &described.collect()))
        }
        Err(error) => {
            tracing::info!("the settings of node {} are not known: {}", node.id, chain(&error));
            None
        }
    }
}

fn described(entry: ConfigEntry) -> Described {
    let source = |source: ConfigSource| match source {
        ConfigSource::DynamicNode => Source::DynamicNode,
        ConfigSource::DynamicDefault => Source::DynamicCluster,
        ConfigSource::StaticNode => Source::File,
        ConfigSource::Default => Source::Default,
        ConfigSource::Topic | ConfigSource::Other(_) => Source::Other,
    };
    Described {
        value: entry.value,
        source: source(entry.source),
        read_only: entry.read_only,
        sensitive: entry.sensitive,
        synonyms: entry.synonyms.into_iter().map(|(from, value)| (source(from), value)).collect(),
    }
}

/// Remembers which nodes run with what is wished for, so that they need not be asked again.
pub(super) async fn confirm(work: &mut Work, facts: &Facts) -> Result<(), PassError> {
    let same = facts.nodes.iter().filter(|node| {
        node.config.as_ref().is_some_and(|diff| !diff.has_updates() && diff.restart.is_empty())
    });
    let fingerprint = |node: NodeId| work.known.configuration.fingerprint(node);
    let confirmed: BTreeMap<NodeId, String> =
        same.filter_map(|node| Some((node.node, fingerprint(node.node)?))).collect();
    work.record.confirmed_settings = confirmed;
    work.save().await
}

/// The quorum, as the roller wants it.
pub(super) fn quorum(work: &Work) -> Option<quorum::Facts> {
    let view = view(work, work.known.kafka.quorum.as_ref()?);
    let leader = view.leader_replica().and_then(|leader| leader.last_caught_up_ms);
    Some(quorum::Facts {
        leader: Some(view.leader),
        leader_caught_up_ms: leader,
        voters: view.voters.iter().map(|voter| (voter.id, voter.last_caught_up_ms)).collect(),
        fetch_timeout_ms: view.fetch_timeout_ms,
    })
}

/// Whether brokers lead what they should lead.
pub(super) fn leaderships(facts: &mut Facts, seen: Option<&Partitions>) {
    let Some(seen) = seen else { return };
    let in_sync: BTreeMap<_, _> =
        seen.facts.iter().map(|partition| (&partition.partition, &partition.isr)).collect();
    for node in &mut facts.nodes {
        let should = seen.leaders.iter().filter(|(partition, preferred, _)| {
            *preferred == Some(node.node)
                && in_sync.get(partition).is_some_and(|isr| isr.contains(&node.node))
        });
        let mut should = should;
        node.leads_preferred = Some(should.all(|(_, preferred, leader)| preferred == leader));
    }
}
