//! What is wished for, whether it can be had, and which nodes that means; recorded before anything is made.

use std::collections::{BTreeMap, BTreeSet};

use api::compat::{self, Verdict};
use api::names::Names;
use api::node_pool::Role;
use api::{Kafka, KafkaNodePool};
use aws_lc_rs::rand;
use control::cluster::ids;
use control::cluster::record::Record;
use control::cluster::spec::{ClusterSpec, PoolSpec};
use control::cluster::storage;
use control::cluster::validate::{Current, Finding, Severity, is_refused, validate};
use control::conditions::{Note, Reason};
use control::node::Roles;
use control::quorum::format::QuorumMode;
use control::quorum::mode;
use control::quorum::{InitialController, InitialControllers};
use control::scaling::up;
use kube::ResourceExt as _;
use model::{DirectoryId, NodeId};
use objects::areas::configuration::known_versions;
use objects::found::Found;
use objects::{Blueprint, Node, claims};
use serde_json::Value;

use crate::cluster::build::Objects;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Known, Work};
use crate::cluster::record::Stored;
use crate::context::Context;

/// What came of the wishes.
pub(crate) enum Wishes {
    /// They can be had, and are recorded.
    Good(Box<Work>),
    /// They cannot. Nothing was done.
    Refused { note: Note, warnings: Vec<Note> },
}

pub(crate) fn run(
    ctx: &Context,
    kafka: Kafka,
    written: &Value,
    found: Found,
) -> Result<Wishes, PassError> {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let (warnings, refused) = field_findings(written, &found);
    let refuse =
        |note: Note, warnings: &[Note]| Ok(Wishes::Refused { note, warnings: warnings.to_vec() });
    if let Some(note) = refused {
        return refuse(note, &warnings);
    }
    let pools: Vec<_> = found.pools.iter().map(|found| found.pool.clone()).collect();
    let spec = match api::read::cluster(&kafka, &pools) {
        Ok(spec) => spec,
        Err(problems) => {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            return refuse(Note::new(Reason::InvalidResource, lines.join("; ")), &warnings);
        }
    };
    let map = found.config_maps.get(&names.record());
    let (mut record, stored) = match Stored::of(map, &names)? {
        Some(found) => found,
        None => (rebuild(&names, &kafka, &pools, &found), Stored::default()),
    };
    let mut warnings = warnings;
    let spec = match accepted(ctx, spec, (&kafka, &mut record), &mut warnings) {
        Ok(spec) => spec,
        Err(note) => return refuse(note, &warnings),
    };
    let domain = ctx.settings.cluster_domain.clone();
    let blueprint = Blueprint {
        names,
        kafka,
        pools,
        spec,
        nodes: Vec::new(),
        wished: BTreeMap::new(),
        refused: BTreeSet::new(),
        domain,
    };
    let known = Known::default();
    let objects = Objects::default();
    let mut work =
        Work { ctx: ctx.clone(), blueprint, found, record, stored, warnings, objects, known };
    if let Err(note) = choose_nodes(&mut work) {
        return refuse(note, &work.warnings);
    }
    if let Err(note) = begin(&mut work) {
        return refuse(note, &work.warnings);
    }
    Ok(Wishes::Good(Box::new(work)))
}

/// What the table of fields says of what the user wrote: warnings, and the first reason to refuse.
fn field_findings(written: &Value, found: &Found) -> (Vec<Note>, Option<Note>) {
    let kafka = compat::unhonoured(written, compat::Kind::Kafka);
    let kafka = kafka.into_iter().map(|finding| ("Kafka".to_owned(), finding));
    let pools = found.pools.iter().flat_map(|pool| {
        let name = format!("KafkaNodePool {}", pool.pool.name_any());
        let findings = compat::unhonoured(&pool.written, compat::Kind::KafkaNodePool);
        findings.into_iter().map(move |finding| (name.clone(), finding))
    });
    let (mut warnings, mut refused) = (Vec::new(), Vec::new());
    for (resource, finding) in kafka.chain(pools) {
        let message = format!("{resource}: {finding}");
        match finding.verdict {
            Verdict::Honoured => {}
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

/// A record for a cluster that has none: empty for a new one, and for one that lived before from what
/// its resources and its claims say.
fn rebuild(names: &Names, kafka: &Kafka, pools: &[KafkaNodePool], found: &Found) -> Record {
    let status = kafka.status.as_ref();
    let of_kafka = status.and_then(|status| status.cluster_id.clone());
    let of_pools = pools.iter().find_map(|pool| pool.status.as_ref()?.cluster_id.clone());
    let of_claims = found
        .claims
        .values()
        .find_map(|claim| claim.annotations().get(claims::CLUSTER_ID).cloned());
    let mut record =
        Record { cluster_id: of_kafka.or(of_pools).or(of_claims), ..Record::default() };
    if record.cluster_id.is_none() {
        return record;
    }
    record.quorum.rebuilt = true;
    // Written by whoever looked after it before, and only once it was as it was asked for.
    record.was_ready =
        status.is_some_and(|status| status.operator_last_successful_version.is_some());
    let initial = status.and_then(|status| status.initial_controllers.as_deref());
    record.quorum.initial = initial.and_then(|text| text.parse().ok()).unwrap_or_default();
    // Nobody but us writes that list, and only for dynamic quorums.
    if !record.quorum.initial.is_empty() {
        record.quorum.mode = QuorumMode::Dynamic;
    }
    for pool in pools {
        let Some(status) = &pool.status else { continue };
        let roles = status.roles.as_ref().unwrap_or(&pool.spec.roles);
        let roles = roles_of(roles);
        let ids = status.node_ids.iter().flatten().filter_map(|id| i32::try_from(*id).ok());
        let nodes = ids.filter_map(|id| Some((NodeId::new(id)?, roles?)));
        record.pools.insert(pool.name_any(), nodes.collect());
        // The set of the pool's pods remembers what they were made with.
        let set = found.pod_sets.get(&names.pod_set(&pool.name_any()));
        if let Some(text) = set.and_then(|set| set.annotations().get("strimzi.io/storage")) {
            record.storage.insert(pool.name_any(), text.clone());
        }
    }
    record
}

fn roles_of(roles: &[Role]) -> Option<Roles> {
    match (roles.contains(&Role::Broker), roles.contains(&Role::Controller)) {
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => None,
    }
}

/// The wishes, if they may be acted on; warnings besides.
fn accepted(
    ctx: &Context,
    spec: ClusterSpec,
    (kafka, record): (&Kafka, &mut Record),
    warnings: &mut Vec<Note>,
) -> Result<ClusterSpec, Note> {
    let status = kafka.status.as_ref();
    let metadata = status.and_then(|status| status.kafka_metadata_version.as_deref());
    let current = Current { metadata: metadata.and_then(|text| text.parse().ok()) };
    let current = record.cluster_id.is_some().then_some(&current);
    let findings = validate(&spec, &known_versions(&ctx.settings.kafka_images), current);
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

/// The wishes with the storage that nodes can have: what cannot be changed stays as it was, and is told.
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

/// Gives ids to nodes that are wished for and have none, and finds those that are not wished for.
fn choose_nodes(work: &mut Work) -> Result<(), Note> {
    let spec = &work.blueprint.spec;
    let annotation = |pool: &str, name: &str| {
        work.blueprint.pool(pool).and_then(|pool| pool.annotations().get(name).cloned())
    };
    let facts: Vec<_> = spec
        .pools
        .iter()
        .map(|pool| ids::PoolFacts {
            name: pool.name.clone(),
            recorded: work.record.ids(&pool.name),
            replicas: wanted(&work.blueprint, pool),
            next: annotation(&pool.name, ids::NEXT),
            remove: annotation(&pool.name, ids::REMOVE),
        })
        .collect();
    let pods = work.found.pods.keys().filter_map(|pod| api::names::node_of_pod(pod));
    let others = work.record.pools.values().flat_map(BTreeMap::keys).copied();
    let taken: BTreeSet<_> = pods.chain(others).collect();
    let assigned = ids::assign(&facts, &taken).map_err(|duplicates| {
        let lines: Vec<_> = duplicates.iter().map(ToString::to_string).collect();
        Note::new(Reason::DuplicateNodeIds, lines.join("; "))
    })?;
    let all = spec.pools.iter().zip(&assigned);
    let wished = all.flat_map(|(pool, ids)| ids.desired().into_iter().map(|id| (id, pool.roles)));
    let (refused, coming) = come(&work.record, wished.collect());
    for (pool, ids) in spec.pools.iter().zip(&assigned) {
        let nodes = work.record.pools.entry(pool.name.clone()).or_default();
        let added = ids.added.iter().filter(|id| coming.start.contains(id));
        nodes.extend(added.map(|id| (*id, pool.roles)));
        for warning in &ids.warnings {
            let message = format!("KafkaNodePool {}: {warning}", pool.name);
            work.warnings.push(Note::new(Reason::InvalidNodeIds, message));
        }
    }
    work.blueprint.nodes = now(&mut work.record, &coming.wished);
    work.blueprint.wished = coming.wished;
    work.blueprint.refused = refused;
    Ok(())
}

/// Which nodes are added, and which controllers cannot be.
fn come(record: &Record, wished: BTreeMap<NodeId, Roles>) -> (BTreeSet<NodeId>, up::Decision) {
    let recorded = record.nodes().into_iter().map(|node| (node.id, node.roles)).collect();
    // One that never was is about to be made, and dynamic.
    let mode = record.cluster_id.as_ref().map_or(QuorumMode::Dynamic, |_| record.quorum.mode);
    let refused = up::refused(mode, &wished, &recorded);
    let facts = up::Facts { wished, recorded: Some(recorded), refused: refused.clone() };
    let decision = up::decide(&facts);
    (refused, decision)
}

/// The nodes that have a pod now, with the roles that they have on their way to what is wished for. What has
/// arrived is recorded.
fn now(record: &mut Record, wished: &BTreeMap<NodeId, Roles>) -> Vec<Node> {
    let mut nodes = Vec::new();
    for node in record.nodes() {
        let wish = wished.get(&node.id).copied();
        let Some(roles) = record.roles_now(&node, wish) else { continue };
        let pool = record.pools.entry(node.pool.clone()).or_default();
        pool.insert(node.id, roles);
        nodes.push(Node { roles, ..node });
    }
    nodes
}

/// How many nodes a pool shall have: none if it is being deleted.
fn wanted(blueprint: &Blueprint, pool: &PoolSpec) -> u32 {
    let deleted =
        blueprint.pool(&pool.name).is_some_and(|pool| pool.metadata.deletion_timestamp.is_some());
    if deleted { 0 } else { pool.replicas }
}

/// Gives a cluster that never was its id and its first controllers. Everything that it ever is follows
/// from these, so they are made once and recorded before anything else is.
fn begin(work: &mut Work) -> Result<(), Note> {
    let facts = mode::Facts {
        recorded: work.record.quorum.mode,
        has_initial: !work.record.quorum.initial.is_empty(),
        existed: work.record.cluster_id.is_some(),
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
    let names = &work.blueprint.names;
    let controllers = work.blueprint.controllers().map(|node| InitialController {
        node: node.id,
        host: names.host(&names.pod(&node.pool, node.id)),
        port: api::names::CONTROLLER_PORT,
        directory: random_id(),
    });
    // Ids are random and nodes are listed once, so the list cannot be a wrong one.
    let initial = InitialControllers::new(controllers.collect()).unwrap_or_default();
    work.record.quorum.mode = QuorumMode::Dynamic;
    work.record.quorum.initial = initial;
    work.record.cluster_id = Some(random_id().to_string());
    Ok(())
}

fn random_id() -> DirectoryId {
    loop {
        let mut bytes = [0; 16];
        // The generator of the operating system does not fail once it has begun.
        if rand::fill(&mut bytes).is_ok()
            && let Some(id) = DirectoryId::generate(bytes)
        {
            return id;
        }
    }
}
