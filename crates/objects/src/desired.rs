//! Accepts or rejects a spec, and determines the desired nodes.
//!
//! 1. A rejected spec changes nothing: the running cluster is left as it is.
//! 2. A cluster gets its id and its initial controllers once. A lost record is rebuilt from existing
//!    resources.
//! 3. Storage that cannot be changed stays unchanged, and the user is warned.

use std::collections::{BTreeMap, BTreeSet};

use api::compat::{self, Verdict};
use api::names::{BROKER_LABEL, CONTROLLER_LABEL, Names, POOL_LABEL, node_of_pod};
use api::node_pool::Role;
use api::{Kafka, KafkaNodePool, Verbatim};
use control::annotations::{self, Annotation};
use control::cluster::ids;
use control::cluster::record::Record;
use control::cluster::spec::{ClusterSpec, PoolSpec};
use control::cluster::storage;
use control::cluster::validate::{self, Current, Finding, Severity, is_refused, validate};
use control::conditions::{Note, Reason};
use control::life::recover;
use control::node::Roles;
use control::quorum::format::QuorumMode;
use control::quorum::mode;
use control::quorum::{InitialController, InitialControllers};
use control::scaling::up;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use model::{DirectoryId, NodeId};
use serde_json::Value;

use crate::areas::configuration::known_versions;
use crate::found::Found;
use crate::{Blueprint, Node, claims};

/// Facts about a cluster and the operator.
pub struct Input<'a> {
    /// The Kafka resource.
    pub kafka: Kafka,
    /// The same, as its user wrote it.
    pub written: &'a Value,
    /// Existing objects of the cluster.
    pub found: &'a Found,
    /// Its record, if it exists.
    pub record: Option<Record>,
    /// Images of Kafka nodes by Kafka version.
    pub images: &'a BTreeMap<String, String>,
    /// The DNS domain of the Kubernetes cluster.
    pub domain: &'a str,
    /// Whether a cluster may manage resources in another namespace.
    pub watches_other_namespaces: bool,
    /// Generates a new unique id.
    pub fresh: &'a mut dyn FnMut() -> DirectoryId,
}

/// The accepted desired state.
#[derive(Debug)]
pub struct Desired {
    /// The input of all builders.
    pub blueprint: Blueprint,
    /// The record with new nodes. It is saved before any of their objects is created.
    pub record: Record,
    /// Warnings for the user.
    pub warnings: Vec<Note>,
}

/// A rejected spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub note: Note,
    /// Other warnings.
    pub warnings: Vec<Note>,
}

/// Accepts or rejects a spec.
///
/// # Errors
/// If the spec is rejected.
pub fn accept(input: Input<'_>) -> Result<Desired, Refused> {
    let Input { kafka, written, found, record, images, domain, watches_other_namespaces, fresh } =
        input;
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let (mut warnings, refused) = field_findings(written, found);
    let refuse = |note: Note, warnings: &[Note]| Refused { note, warnings: warnings.to_vec() };
    if let Some(note) = refused {
        return Err(refuse(note, &warnings));
    }
    let pools: Vec<_> = found.pools.iter().map(|found| found.pool.clone()).collect();
    let spec = api::read::cluster(&kafka, &pools).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        refuse(Note::new(Reason::InvalidResource, lines.join("; ")), &warnings)
    })?;
    let watched = validate::watched_namespaces(&spec, watches_other_namespaces);
    warnings.extend(watched.iter().map(Finding::note));
    let mut record = match record {
        Some(record) => record,
        None => rebuild(&names, &kafka, &pools, found).map_err(|note| refuse(note, &warnings))?,
    };
    let spec = accepted(images, spec, (&kafka, &mut record), &mut warnings)
        .map_err(|note| refuse(note, &warnings))?;
    let mut blueprint = Blueprint {
        names,
        kafka,
        pools,
        spec,
        nodes: Vec::new(),
        desired: BTreeMap::new(),
        refused: BTreeSet::new(),
        domain: domain.to_owned(),
    };
    choose_nodes(&mut blueprint, &mut record, found, &mut warnings)
        .map_err(|note| refuse(note, &warnings))?;
    begin(&blueprint, &mut record, fresh).map_err(|note| refuse(note, &warnings))?;
    Ok(Desired { blueprint, record, warnings })
}

/// Verdicts on the fields of the spec: warnings, and the first reason to reject it.
fn field_findings(written: &Value, found: &Found) -> (Vec<Note>, Option<Note>) {
    let kafka = compat::unhonoured(written, compat::Kind::Kafka);
    let kafka = kafka.into_iter().map(|finding| ("Kafka".to_owned(), finding));
    let pools = found.pools.iter().flat_map(|pool| {
        let name = format!("KafkaNodePool {}", pool.pool.name_any());
        let findings = compat::unhonoured(&pool.written, compat::Kind::KafkaNodePool);
        findings.into_iter().map(move |finding| (name.clone(), finding))
    });
    let (mut warnings, mut refused) = (annotation_findings(written, found), Vec::new());
    for (resource, finding) in kafka.chain(pools) {
        let message = format!("{resource}: {finding}");
        match finding.verdict {
            Verdict::Honoured | Verdict::Unneeded => {}
            Verdict::Accepted => warnings.push(Note::new(Reason::UnhonouredFields, message)),
            Verdict::Unknown => warnings.push(Note::new(Reason::UnknownFields, message)),
            Verdict::Refused => refused.push(message),
        }
    }
    for (pool, why) in &found.unreadable_pools {
        refused.push(format!("KafkaNodePool {pool} cannot be read: {why}"));
    }
    let refused =
        (!refused.is_empty()).then(|| Note::new(Reason::InvalidResource, refused.join("; ")));
    (warnings, refused)
}

/// Annotations of users that have no effect.
fn annotation_findings(written: &Value, found: &Found) -> Vec<Note> {
    let of_kafka = written.pointer("/metadata/annotations").cloned().unwrap_or_default();
    let of_kafka: BTreeMap<String, String> = serde_json::from_value(of_kafka).unwrap_or_default();
    let pools = found.pools.iter().map(|found| &found.pool);
    let pools = pools.map(|pool| ("KafkaNodePool", pool.name_any(), pool.annotations().clone()));
    let pods = found.pods.values();
    let pods = pods.map(|pod| ("Pod", pod.name_any(), pod.annotations().clone()));
    let all = [("Kafka", String::new(), of_kafka)].into_iter().chain(pools).chain(pods);
    let notes = all.flat_map(|(kind, name, annotations)| {
        let resource = format!("{kind} {name}").trim_end().to_owned();
        annotations::without_effect(kind, &annotations).into_iter().map(move |(name, why)| {
            let message = format!("{resource}: the annotation {name} is not supported: {why}");
            Note::new(Reason::UnhonouredFields, message)
        })
    });
    notes.collect()
}

/// The record for a cluster without one: empty for a new cluster, else rebuilt from its resources and claims.
fn rebuild(
    names: &Names,
    kafka: &Kafka,
    pools: &[KafkaNodePool],
    found: &Found,
) -> Result<Record, Note> {
    let (cluster_id, mode, nodes) = match recover::decide(&remains(names, kafka, pools, found)) {
        recover::Decision::New => return Ok(Record::default()),
        recover::Decision::Known { cluster_id, mode, pools } => (cluster_id, mode, pools),
        recover::Decision::Refuse(conflicts) => {
            let lines: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
            return Err(Note::new(Reason::RecordLost, lines.join("; ")));
        }
    };
    let mut record = Record { cluster_id: Some(cluster_id), pools: nodes, ..Record::default() };
    record.quorum.rebuilt = true;
    // Kafka is asked all the same; the mode is what its nodes start with if none of them runs.
    record.quorum.mode = mode;
    let status = kafka.status.as_ref();
    // Written by the previous operator, and only after a complete reconciliation.
    record.was_ready =
        status.is_some_and(|status| status.operator_last_successful_version.is_some());
    let initial = status.and_then(|status| status.initial_controllers.as_deref());
    record.quorum.initial = initial.and_then(|text| text.parse().ok()).unwrap_or_default();
    // Only Gregor writes that list, and only for dynamic quorums.
    if !record.quorum.initial.is_empty() {
        record.quorum.mode = QuorumMode::Dynamic;
    }
    for pool in pools {
        // The pod set has annotations with the settings of its pods.
        let set = found.pod_sets.get(&names.pod_set(&pool.name_any()));
        if let Some(text) = set.and_then(|set| set.annotations().get(Annotation::Storage.name())) {
            record.storage.insert(pool.name_any(), text.clone());
        }
    }
    rebuild_removed(pools, found, &mut record);
    Ok(record)
}

/// What is left of a cluster without a record.
fn remains(names: &Names, kafka: &Kafka, pools: &[KafkaNodePool], found: &Found) -> recover::Facts {
    let of_kafka = kafka.status.as_ref().and_then(|status| status.cluster_id.clone());
    let of_pools = pools.iter().find_map(|pool| pool.status.as_ref()?.cluster_id.clone());
    let pool = |pool: &KafkaNodePool| {
        let status = pool.status.as_ref();
        let roles = status.and_then(|status| status.roles.as_ref()).unwrap_or(&pool.spec.roles);
        let ids = status.and_then(|status| status.node_ids.as_ref());
        let id = |id: &i64| NodeId::new(i32::try_from(*id).ok()?);
        let of_set = || {
            let set = found.pod_sets.get(&names.pod_set(&pool.name_any()))?;
            Some(set.spec.pods.iter().filter_map(node_of).map(|(id, _)| id).collect())
        };
        recover::Pool {
            name: pool.name_any(),
            roles: roles_of(roles),
            listed: ids.map(|ids| ids.iter().filter_map(id).collect()).or_else(of_set),
        }
    };
    let removed = found.pod_sets.values().filter_map(|set| set.labels().get(POOL_LABEL).cloned());
    let claim = |claim: &PersistentVolumeClaim| {
        let (pool, node) = names.node_of_claim(&claim.name_any())?;
        let annotation = |name: &str| claim.annotations().get(name).cloned();
        Some(recover::Claim {
            name: claim.name_any(),
            pool,
            node,
            roles: annotation(claims::ROLES).and_then(|text| text.parse().ok()),
            cluster_id: annotation(claims::CLUSTER_ID).filter(|id| !id.is_empty()),
            mode: annotation(claims::QUORUM_MODE)
                .map_or(QuorumMode::Unknown, |text| claims::mode_from(&text)),
            is_deleting: claim.metadata.deletion_timestamp.is_some(),
        })
    };
    recover::Facts {
        cluster_id: of_kafka.or(of_pools),
        pools: pools.iter().map(pool).collect(),
        removed: removed.collect(),
        claims: found.claims.values().filter_map(claim).collect(),
    }
}

/// Nodes of pools that were removed past their finalizer: only their pod sets still list them, and they are
/// scaled down like others.
fn rebuild_removed(pools: &[KafkaNodePool], found: &Found, record: &mut Record) {
    for set in found.pod_sets.values() {
        let Some(pool) = set.labels().get(POOL_LABEL) else { continue };
        if pools.iter().any(|one| one.name_any() == *pool) {
            continue;
        }
        let nodes: BTreeMap<NodeId, Roles> = set.spec.pods.iter().filter_map(node_of).collect();
        if let Some(text) = set.annotations().get(Annotation::Storage.name()) {
            record.storage.insert(pool.clone(), text.clone());
        }
        if !nodes.is_empty() {
            record.pools.insert(pool.clone(), nodes);
        }
    }
}

/// The node of a pod in a pod set, with the roles from its labels.
fn node_of(pod: &Verbatim) -> Option<(NodeId, Roles)> {
    let metadata = pod.0.get("metadata")?;
    let id = node_of_pod(metadata.get("name")?.as_str()?)?;
    let is = |label: &str| metadata.get("labels")?.get(label)?.as_str();
    let (broker, controller) = (is(BROKER_LABEL)? == "true", is(CONTROLLER_LABEL)? == "true");
    let roles = match (broker, controller) {
        (true, true) => Roles::Combined,
        (true, false) => Roles::Broker,
        (false, true) => Roles::Controller,
        (false, false) => return None,
    };
    Some((id, roles))
}

fn roles_of(roles: &[Role]) -> Option<Roles> {
    match (roles.contains(&Role::Broker), roles.contains(&Role::Controller)) {
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => None,
    }
}

/// The validated spec with warnings, or the reason to reject it.
fn accepted(
    images: &BTreeMap<String, String>,
    spec: ClusterSpec,
    (kafka, record): (&Kafka, &mut Record),
    warnings: &mut Vec<Note>,
) -> Result<ClusterSpec, Note> {
    let status = kafka.status.as_ref();
    let metadata = status.and_then(|status| status.kafka_metadata_version.as_deref());
    let current = Current { metadata: metadata.and_then(|text| text.parse().ok()) };
    let current = record.cluster_id.is_some().then_some(&current);
    let findings = validate(&spec, &known_versions(images), current);
    let is_told = |finding: &&Finding| finding.severity() != Severity::Refused;
    warnings.extend(findings.iter().filter(is_told).map(Finding::note));
    if !is_refused(&findings) {
        return Ok(with_kept_storage(spec, record, warnings));
    }
    let refused: Vec<_> = findings.iter().filter(|finding| !is_told(finding)).collect();
    let reason = refused.first().map_or(Reason::InvalidResource, |one| Reason::Spec(one.reason));
    let lines: Vec<_> = refused.iter().map(|finding| finding.message.as_str()).collect();
    Err(Note::new(reason, lines.join("; ")))
}

/// The spec with unchanged storage where it cannot be changed, with warnings.
fn with_kept_storage(
    mut spec: ClusterSpec,
    record: &mut Record,
    warnings: &mut Vec<Note>,
) -> ClusterSpec {
    for pool in &mut spec.pools {
        let known =
            record.storage.get(&pool.name).filter(|_| record.pools.contains_key(&pool.name));
        let known = known.and_then(|text| api::read::storage_from_text(text, &pool.name).ok());
        let decision = match known {
            Some(known) => storage::diff(&known, &pool.storage, pool.roles),
            None => storage::first(&pool.storage),
        };
        warnings.extend(decision.note(&pool.name));
        pool.storage = decision.effective;
        record.storage.insert(pool.name.clone(), api::read::storage_text(&pool.storage));
    }
    spec
}

/// Assigns ids to new nodes, and finds nodes that are not desired any more.
fn choose_nodes(
    blueprint: &mut Blueprint,
    record: &mut Record,
    found: &Found,
    warnings: &mut Vec<Note>,
) -> Result<(), Note> {
    let spec = &blueprint.spec;
    let annotation = |pool: &str, name: &str| {
        blueprint.pool(pool).and_then(|pool| pool.annotations().get(name).cloned())
    };
    let facts: Vec<_> = spec
        .pools
        .iter()
        .map(|pool| ids::PoolFacts {
            name: pool.name.clone(),
            recorded: record.ids(&pool.name),
            replicas: wanted(blueprint, pool),
            next: annotation(&pool.name, ids::NEXT),
            remove: annotation(&pool.name, ids::REMOVE),
        })
        .collect();
    let pods = found.pods.keys().filter_map(|pod| api::names::node_of_pod(pod));
    let others = record.pools.values().flat_map(BTreeMap::keys).copied();
    let taken: BTreeSet<_> = pods.chain(others).collect();
    let assigned = ids::assign(&facts, &taken).map_err(|duplicates| {
        let lines: Vec<_> = duplicates.iter().map(ToString::to_string).collect();
        Note::new(Reason::DuplicateNodeIds, lines.join("; "))
    })?;
    let all = spec.pools.iter().zip(&assigned);
    let desired = all.flat_map(|(pool, ids)| ids.desired().into_iter().map(|id| (id, pool.roles)));
    let (refused, coming) = come(record, desired.collect());
    for (pool, ids) in spec.pools.iter().zip(&assigned) {
        let nodes = record.pools.entry(pool.name.clone()).or_default();
        let added = ids.added.iter().filter(|id| coming.start.contains(id));
        nodes.extend(added.map(|id| (*id, pool.roles)));
        for warning in &ids.warnings {
            let message = format!("KafkaNodePool {}: {warning}", pool.name);
            warnings.push(Note::new(Reason::InvalidNodeIds, message));
        }
    }
    blueprint.nodes = now(record, &coming.desired);
    blueprint.desired = coming.desired;
    blueprint.refused = refused;
    Ok(())
}

/// Nodes to add, and controllers that cannot be added.
fn come(record: &Record, desired: BTreeMap<NodeId, Roles>) -> (BTreeSet<NodeId>, up::Decision) {
    let recorded = record.nodes().into_iter().map(|node| (node.id, node.roles)).collect();
    // A new quorum will be created, as a dynamic one.
    let mode = record.cluster_id.as_ref().map_or(QuorumMode::Dynamic, |_| record.quorum.mode);
    let refused = up::refused(mode, &desired, &recorded);
    let facts = up::Facts { desired, recorded: Some(recorded), refused: refused.clone() };
    let decision = up::decide(&facts);
    (refused, decision)
}

/// Nodes with a pod, with their current roles in a role change. Completed role changes are recorded.
fn now(record: &mut Record, desired: &BTreeMap<NodeId, Roles>) -> Vec<Node> {
    let mut nodes = Vec::new();
    for node in record.nodes() {
        let desired = desired.get(&node.id).copied();
        let Some(roles) = record.roles_now(&node, desired) else { continue };
        let pool = record.pools.entry(node.pool.clone()).or_default();
        pool.insert(node.id, roles);
        nodes.push(Node { roles, ..node });
    }
    nodes
}

/// Desired replicas of a pool: none if it is being deleted.
fn wanted(blueprint: &Blueprint, pool: &PoolSpec) -> u32 {
    let deleted =
        blueprint.pool(&pool.name).is_some_and(|pool| pool.metadata.deletion_timestamp.is_some());
    if deleted { 0 } else { pool.replicas }
}

/// Generates the id and the initial controllers of a new cluster. Everything else depends on these, so they
/// are generated once and recorded first.
fn begin(
    blueprint: &Blueprint,
    record: &mut Record,
    fresh: &mut dyn FnMut() -> DirectoryId,
) -> Result<(), Note> {
    let facts = mode::Facts {
        recorded: record.quorum.mode,
        has_initial: !record.quorum.initial.is_empty(),
        existed: record.cluster_id.is_some(),
        kraft_version: None,
    };
    match mode::decide(&facts) {
        mode::Decision::Begin => {}
        mode::Decision::Is { .. } | mode::Decision::Hold(_) if facts.existed => return Ok(()),
        mode::Decision::Is { .. } | mode::Decision::Hold(_) => {
            let message =
                "the record of the cluster describes a quorum but has no cluster id: restore it";
            return Err(Note::new(Reason::QuorumModeUnknown, message));
        }
    }
    let names = &blueprint.names;
    let controllers = blueprint.controllers().map(|node| InitialController {
        node: node.id,
        host: names.host(&names.pod(&node.pool, node.id)),
        port: api::names::CONTROLLER_PORT,
        directory: fresh(),
    });
    // Ids are random and nodes are listed once, so the list is always valid.
    let initial = InitialControllers::new(controllers.collect()).unwrap_or_default();
    record.quorum.mode = QuorumMode::Dynamic;
    record.quorum.initial = initial;
    record.cluster_id = Some(fresh().to_string());
    Ok(())
}

#[cfg(test)]
#[path = "desired_tests.rs"]
mod tests;
