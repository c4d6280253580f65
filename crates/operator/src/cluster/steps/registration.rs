//! What Kafka has registered and should not, and the metadata version, in this order: a registration of a
//! broker that is gone holds the version back.

use std::collections::{BTreeMap, BTreeSet};

use control::registration::metadata_version::{self, Decision, Refused};
use control::registration::{MetadataVersion, unregister};
use control::scaling::leaving;
use kafka_admin::LevelChange;
use kube::ResourceExt as _;
use model::NodeId;

use super::configuration::KAFKA_VERSION;
use super::scale_in::Outgoing;
use super::workload::is_ready;
use crate::cluster::error::PassError;
use crate::cluster::partitions;
use crate::cluster::pass::{Step, Work};
use crate::metrics::KafkaEffect;
use crate::words::chain;
use crate::write::KafkaWriteError;

/// Under which names the record keeps what the next pass must know.
const SUSPECTS: &str = "staleRegistrations";
const REFUSED: &str = "refusedMetadataVersion";
/// Under which name the record keeps the controllers that were there once: Kafka still knows them.
pub(crate) const FORMER: &str = "formerControllers";
/// The annotation with which a user gives up the check for partitions.
pub(crate) const SKIP_CHECK: &str = "strimzi.io/skip-broker-scaledown-check";

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let level = work.known.kafka.metadata_level();
    let version = level.and_then(MetadataVersion::of_level);
    work.known.metadata_version = version.map(|version| version.to_string());
    if work.known.kafka.access.is_none() {
        return Ok(Step::Done);
    }
    let stale = unregister(work).await?;
    metadata(work, &stale).await
}

/// Unregisters brokers that are gone.
async fn unregister(work: &mut Work) -> Result<unregister::Decision, PassError> {
    let brokers = work.known.kafka.brokers.as_ref();
    let nodes = &work.blueprint.nodes;
    let id = |pod: &String| api::names::node_of_pod(pod);
    // One that was started as a controller only is no broker, whatever it was before.
    let brokers_run =
        work.found.pods.iter().filter(|(_, pod)| {
            super::roll::roles_of(pod).is_none_or(control::node::Roles::is_broker)
        });
    let running: BTreeSet<_> = brokers_run.filter_map(|(pod, _)| id(pod)).collect();
    let pods = work.found.pods.keys().filter_map(id);
    let controllers = nodes.iter().filter(|node| node.roles.is_controller());
    // Those that leave are Kafka's to know until the guard of their removal says otherwise.
    let staying = leaving::stay_registered(&Outgoing::of(&work.record)?.leaving);
    let wished = work.blueprint.wished.iter().filter(|(_, roles)| roles.is_broker());
    let wished = wished.map(|(id, _)| *id).chain(staying);
    let mut facts = unregister::Facts {
        registered: brokers
            .map(|brokers| brokers.nodes.iter().map(|node| (node.id, node.fenced)).collect()),
        wished: wished.collect(),
        known_controllers: controllers.map(|node| node.id).chain(pods).collect(),
        running: Some(running),
        assigned: None,
        skip_check: work.blueprint.kafka.annotations().get(SKIP_CHECK).is_some_and(|v| v == "true"),
        suspects: work.record.part(SUSPECTS)?,
        controllers: registered_controllers(work).await?,
    };
    if !unregister::candidates(&facts).is_empty() {
        facts.assigned = partitions::read(work).await.map(|seen| seen.assigned());
    }
    let decision = unregister::decide(&facts);
    work.record.set_part(SUSPECTS, &decision.suspects)?;
    work.save().await?;
    work.warnings.extend(decision.warnings());
    if !decision.pending().is_empty() {
        work.known.look_again_soon();
    }
    let access = work.known.kafka.access.clone();
    let Some(admin) = access.and_then(|access| access.brokers) else { return Ok(decision) };
    for broker in &decision.unregister {
        let what = format!("unregister broker {broker}");
        let call = admin.unregister_broker(*broker);
        let done = work.ctx.writer.kafka("unregister", &what, call, |e| e.outcome()).await;
        if let Err(error) = done {
            tracing::info!("{}", chain(&error));
        }
    }
    Ok(decision)
}

/// The controllers that Kafka knows. It is asked only where there may be one that is gone: where one was taken
/// away, and where the metadata version was refused.
async fn registered_controllers(work: &Work) -> Result<Option<BTreeSet<NodeId>>, PassError> {
    let former: BTreeSet<NodeId> = work.record.part(FORMER)?;
    let refused: Option<Refused> = work.record.part(REFUSED)?;
    let Some(access) = &work.known.kafka.access else { return Ok(None) };
    if former.is_empty() && refused.is_none() {
        return Ok(None);
    }
    work.ctx.writer.metrics().kafka_call("describe cluster", KafkaEffect::Read);
    match access.controllers.describe_cluster().await {
        Ok(found) => Ok(Some(found.nodes.iter().map(|node| node.id).collect())),
        Err(error) => {
            tracing::info!("the registered controllers are not known: {}", chain(&error));
            Ok(None)
        }
    }
}

async fn metadata(work: &mut Work, stale: &unregister::Decision) -> Result<Step, PassError> {
    let Ok(kafka) = work.known.configuration.kafka_version.parse() else { return Ok(Step::Done) };
    let refused: Option<Refused> = work.record.part(REFUSED)?;
    let facts = metadata_version::Facts {
        wished: work.blueprint.spec.metadata_version.clone(),
        kafka,
        nodes: versions(work),
        level: work.known.kafka.metadata_level(),
        mode: work.record.quorum.mode,
        unregistering: stale.pending(),
        refused,
    };
    work.warnings.extend(metadata_version::refusal(&facts, &stale.stale(), &stale.ghosts));
    match metadata_version::decide(&facts) {
        Decision::Keep => {
            work.record.parts.remove(REFUSED);
            work.save().await?;
            Ok(Step::Done)
        }
        Decision::Wait(waiting) => Ok(Step::Waiting(waiting.note())),
        Decision::Refuse(reason) => {
            work.warnings.push(reason.note());
            Ok(Step::Done)
        }
        Decision::Change { to, level, up } => change(work, to, level, up).await,
    }
}

/// The Kafka that each node runs, as its pod says. One that is not ready may never run it.
fn versions(work: &Work) -> BTreeMap<NodeId, Option<control::registration::KafkaVersion>> {
    let of = |node: &crate::cluster::resources::Node| {
        let pod = work.found.pods.get(&work.blueprint.pod(node)).filter(|pod| is_ready(pod))?;
        pod.annotations().get(KAFKA_VERSION)?.parse().ok()
    };
    work.blueprint.nodes.iter().map(|node| (node.id, of(node))).collect()
}

async fn change(
    work: &mut Work,
    to: MetadataVersion,
    level: i16,
    up: bool,
) -> Result<Step, PassError> {
    let Some(access) = work.known.kafka.access.clone() else { return Ok(Step::Done) };
    let way = if up { LevelChange::Upgrade } else { LevelChange::SafeDowngrade };
    let what = format!("change the metadata version to {to}");
    let call = access.controllers.update_feature("metadata.version", level, way, false);
    let done = work.ctx.writer.kafka("update feature", &what, call, |e| e.outcome()).await;
    match done {
        Ok(()) => {
            work.record.parts.remove(REFUSED);
            work.known.metadata_version = Some(to.to_string());
        }
        Err(KafkaWriteError::Kafka { source, .. })
            if source.outcome() == kafka_admin::Outcome::NotDone =>
        {
            let message = chain(&source);
            work.warn("MetadataUpdateFailed", message.clone());
            work.record.set_part(REFUSED, &Refused { version: to, message })?;
        }
        Err(error) => tracing::info!("{}", chain(&error)),
    }
    work.save().await?;
    Ok(Step::Done)
}
