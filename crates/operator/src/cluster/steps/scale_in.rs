//! Nodes that go: each only when nothing needs it any more, as [`control::scaling`] says.

use std::collections::{BTreeMap, BTreeSet};

use control::conditions::{Note, Reason};
use control::quorum::format::QuorumMode;
use control::scaling::controllers;
use control::scaling::guard::{self, Cordon, Registration};
use control::scaling::leaving::{self, Leaving, Member};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kafka_admin::{ConfigChange, ConfigResource};
use kube::ResourceExt as _;
use model::NodeId;

use super::registration::SKIP_CHECK;
use crate::cluster::error::PassError;
use crate::cluster::partitions;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::Node;
use crate::cluster::resources::claims::DELETE_CLAIM;
use crate::words::chain;

/// With which setting a broker is closed for new replicas.
const CORDON: &str = "cordoned.log.dirs";

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let recorded = work.record.nodes();
    let wished = work.blueprint.wished.clone();
    let members = recorded
        .iter()
        .map(|node| (node.id, Member { pool: node.pool.clone(), roles: node.roles }));
    let members: BTreeMap<NodeId, Member> = members.collect();
    let leaving = leaving::admit(&work.record.leaving, &members, &wished);
    let controllers = released(work, &recorded);
    let released = controllers.released.clone();
    if leaving.is_empty() && controllers.holds.is_empty() && released.is_empty() {
        (work.record.leaving, work.record.released_controllers) = (leaving, released);
        work.save().await?;
        return Ok(Step::Done);
    }
    let facts = facts(work, &leaving, &controllers).await;
    let pass = leaving::pass(&leaving, &facts);
    work.record.leaving = pass.leaving.clone();
    work.record.released_controllers = released.clone();
    work.save().await?;
    work.warnings.extend(pass.warnings());
    for (id, duty) in &pass.duties {
        cordon(work, *id, *duty, facts.get(id).and_then(|facts| facts.cordon)).await;
        if duty.delete_claims {
            delete_claims(work, *id).await?;
        }
    }
    forget(work, &pass.done).await?;
    // That a user has moved partitions away is no event.
    work.known.look_again_soon();
    let held = controllers.holds.iter().map(|(id, hold)| format!("controller {id}: {hold}"));
    // Those of a static quorum stay, and a warning says so; nothing is awaited.
    let is_static = work.record.quorum.mode == QuorumMode::Static;
    let held = held.filter(|_| !is_static);
    work.known.leaving = Some(pass.clone());
    let mut awaited: Vec<_> = held.collect();
    // One that waits as a broker is told as such.
    let released = released.iter().filter(|id| !pass.holds.contains_key(id));
    awaited.extend(released.map(|id| format!("controller {id}: it is on its way out")));
    Ok(match pass.progress() {
        Some(note) => Step::Waiting(note),
        None if !awaited.is_empty() => {
            Step::Waiting(Note::new(Reason::ScalingDown, awaited.join("; ")))
        }
        // Somebody has to act, and a warning says what; everything else goes on.
        None => Step::Done,
    })
}

/// The controllers that the quorum lets go.
fn released(work: &Work, recorded: &[Node]) -> controllers::Decision {
    let wished =
        |id: &NodeId| work.blueprint.wished.get(id).is_some_and(|roles| roles.is_controller());
    let controllers = recorded.iter().filter(|node| node.roles.is_controller());
    let leaving: BTreeSet<NodeId> =
        controllers.map(|node| node.id).filter(|id| !wished(id)).collect();
    let before = &work.record.released_controllers;
    controllers::release(before, &leaving, work.known.quorum_facts.as_ref())
}

/// What is known of each broker that leaves.
async fn facts(
    work: &Work,
    leaving: &BTreeMap<NodeId, Leaving>,
    controllers: &controllers::Decision,
) -> BTreeMap<NodeId, guard::Facts> {
    if leaving.is_empty() {
        return BTreeMap::new();
    }
    let assigned = partitions::read(work).await.map(|seen| seen.assigned());
    let skip = work.blueprint.kafka.annotations().get(SKIP_CHECK).is_some_and(|v| v == "true");
    let is_broker =
        |id: &NodeId| work.blueprint.wished.get(id).is_some_and(|roles| roles.is_broker());
    let mut all = BTreeMap::new();
    for (id, one) in leaving {
        let pod = work.blueprint.names.pod(&one.pool, *id);
        let found = work.found.pods.get(&pod);
        let as_broker = found.map(|pod| super::roll::roles_of(pod).is_none_or(|r| r.is_broker()));
        let brokers = work.known.kafka.brokers.as_ref();
        let registration = brokers.map(|all| match all.nodes.iter().find(|one| one.id == *id) {
            None => Registration::Gone,
            Some(one) if one.fenced => Registration::Fenced,
            Some(_) => Registration::Live,
        });
        let others = work.blueprint.wished.keys().filter(|other| *other != id);
        all.insert(
            *id,
            guard::Facts {
                wished: is_broker(id),
                partitions: assigned.as_ref().map(|all| all.get(id).copied().unwrap_or_default()),
                skip_check: skip,
                held: work.known.held.as_ref().map(|held| held.contains(id)),
                cordon: cordon_of(work, *id, found.is_some()).await,
                quorum: controllers.lets_go(*id),
                runs: Some(as_broker.unwrap_or(false)),
                registration,
                claims_left: Some(!claims_to_delete(work, *id).is_empty()),
                others_stay: others.into_iter().any(is_broker),
            },
        );
    }
    all
}

/// Whether a broker takes new replicas.
async fn cordon_of(work: &Work, id: NodeId, runs: bool) -> Option<Cordon> {
    let kafka = work.known.configuration.kafka_version.parse().ok();
    let level = work.known.kafka.metadata_level();
    // Where it cannot be closed at all, nobody need be asked.
    if let Some(known) = Cordon::of(kafka, level, None) {
        return Some(known);
    }
    let admin = work.known.kafka.access.as_ref()?.brokers.as_ref()?;
    if !runs {
        return None;
    }
    let found = admin.describe_configs(&ConfigResource::Node(id), Some(&[CORDON])).await;
    match found {
        Ok(entries) => {
            let value = entries.get(CORDON).and_then(|entry| entry.value.clone());
            Cordon::of(kafka, level, Some(!value.unwrap_or_default().is_empty()))
        }
        Err(error) => {
            tracing::info!("whether broker {id} is closed is not known: {}", chain(&error));
            None
        }
    }
}

/// Closes a broker for new replicas, or opens it again.
async fn cordon(work: &Work, id: NodeId, duty: guard::Duty, now: Option<Cordon>) {
    let change = match (duty.cordoned, now) {
        (true, Some(Cordon::Open)) => ConfigChange::Set(CORDON.to_owned(), "*".to_owned()),
        (false, Some(Cordon::Closed)) => ConfigChange::Delete(CORDON.to_owned()),
        (true | false, Some(Cordon::Open | Cordon::Closed | Cordon::Unsupported) | None) => return,
    };
    let access = work.known.kafka.access.as_ref();
    let Some(admin) = access.and_then(|access| access.brokers.as_ref()) else { return };
    let what = match duty.cordoned {
        true => format!("close broker {id} for new replicas"),
        false => format!("open broker {id} for new replicas"),
    };
    let (of, changes) = (ConfigResource::Node(id), [change]);
    let call = admin.alter_configs(&of, &changes, false);
    let done = work.ctx.writer.kafka("cordon", &what, call, |error| error.outcome()).await;
    if let Err(error) = done {
        tracing::info!("{}", chain(&error));
    }
}

/// The claims of a node that go with it.
fn claims_to_delete(work: &Work, id: NodeId) -> Vec<PersistentVolumeClaim> {
    let suffix = work.record.nodes().into_iter().find(|node| node.id == id);
    let Some(node) = suffix else { return Vec::new() };
    let suffix = format!("-{}", work.blueprint.names.pod(&node.pool, id));
    let claims = work.found.claims.values().filter(|claim| {
        let delete = claim.annotations().get(DELETE_CLAIM).is_some_and(|value| value == "true");
        delete && claim.name_any().ends_with(&suffix)
    });
    claims.cloned().collect()
}

async fn delete_claims(work: &Work, id: NodeId) -> Result<(), PassError> {
    let api = work.api::<PersistentVolumeClaim>();
    for claim in claims_to_delete(work, id) {
        if let (None, Some(uid)) = (&claim.metadata.deletion_timestamp, claim.uid()) {
            work.ctx.writer.delete(&api, &claim.name_any(), &uid, None).await?;
        }
    }
    Ok(())
}

/// Takes nodes of which there is no trace out of the record: brokers that are done, and controllers that
/// were released and whose pods are gone.
async fn forget(work: &mut Work, done: &BTreeSet<NodeId>) -> Result<(), PassError> {
    let recorded = work.record.nodes();
    let only_controllers = recorded.iter().filter(|node| {
        work.record.released_controllers.contains(&node.id)
            && !node.roles.is_broker()
            && !work.blueprint.wished.contains_key(&node.id)
            && !work.found.pods.contains_key(&work.blueprint.names.pod(&node.pool, node.id))
    });
    let mut gone: BTreeSet<NodeId> = done.clone();
    for node in only_controllers {
        delete_claims(work, node.id).await?;
        gone.insert(node.id);
    }
    if gone.is_empty() {
        return Ok(());
    }
    let controllers = recorded.iter().filter(|node| node.roles.is_controller());
    let former = controllers.map(|node| node.id).filter(|id| gone.contains(id));
    work.record.former_controllers.extend(former);
    for nodes in work.record.pools.values_mut() {
        nodes.retain(|id, _| !gone.contains(id));
    }
    let spec = &work.blueprint.spec;
    work.record.pools.retain(|pool, nodes| {
        !nodes.is_empty() || spec.pools.iter().any(|wished| wished.name == *pool)
    });
    work.record.leaving.retain(|id, _| !gone.contains(id));
    work.record.released_controllers.retain(|id| !gone.contains(id));
    work.save().await
}
