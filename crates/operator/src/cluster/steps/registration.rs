//! What Kafka has registered and should not, and the metadata version, in this order: a registration of a
//! broker that is gone holds the version back.

use std::collections::{BTreeMap, BTreeSet};

use control::registration::metadata_version::{self, Decision, Facts, Refused};
use control::registration::{MetadataVersion, unregister};
use control::scaling::leaving;
use kafka_admin::LevelChange;
use kube::ResourceExt as _;
use model::NodeId;

use super::configuration::KAFKA_VERSION;
use super::workload::is_ready;
use crate::cluster::error::PassError;
use crate::cluster::partitions;
use crate::cluster::pass::{Step, Work};
use crate::metrics::KafkaEffect;
use crate::words::chain;
use crate::write::KafkaWriteError;

/// The annotation with which a user gives up the check for partitions.
pub(crate) const SKIP_CHECK: &str = "strimzi.io/skip-broker-scaledown-check";

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let level = work.known.kafka.metadata_level();
    let version = level.and_then(MetadataVersion::of_level);
    work.known.metadata_version = version.map(|version| version.to_string());
    if work.known.kafka.access.is_none() {
        return Ok(Step::Done);
    }
    let wish = metadata_facts(work)?;
    let stale = unregister(work, wish.as_ref()).await?;
    let metadata = match wish {
        Some(facts) => {
            metadata(work, Facts { unregistering: stale.pending(), ..facts }, &stale).await?
        }
        None => Step::Done,
    };
    Ok(match (metadata, stale.progress()) {
        (Step::Done, Some(note)) => Step::Waiting(note),
        (step, _) => step,
    })
}

/// Unregisters brokers that are gone.
async fn unregister(
    work: &mut Work,
    wish: Option<&Facts>,
) -> Result<unregister::Decision, PassError> {
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
    let voters = work.known.kafka.quorum.iter().flat_map(|quorum| &quorum.voters);
    let voters = voters.map(|voter| voter.id);
    // Those that leave are Kafka's to know until the guard of their removal says otherwise.
    let staying = leaving::stay_registered(&work.record.leaving);
    let wished = work.blueprint.wished.iter().filter(|(_, roles)| roles.is_broker());
    let wished = wished.map(|(id, _)| *id).chain(staying);
    let mut facts = unregister::Facts {
        registered: brokers
            .map(|brokers| brokers.nodes.iter().map(|node| (node.id, node.fenced)).collect()),
        wished: wished.collect(),
        known_controllers: controllers.map(|node| node.id).chain(pods).chain(voters).collect(),
        running: Some(running),
        assigned: None,
        skip_check: work.blueprint.kafka.annotations().get(SKIP_CHECK).is_some_and(|v| v == "true"),
        suspects: work.record.stale_registrations.clone(),
        controllers: registered_controllers(work, wish).await?,
    };
    if !unregister::candidates(&facts).is_empty() {
        facts.assigned = partitions::read(work).await.map(|seen| seen.assigned());
    }
    let decision = unregister::decide(&facts);
    work.record.stale_registrations.clone_from(&decision.suspects);
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
/// away, and where the metadata version was refused or is to change.
async fn registered_controllers(
    work: &Work,
    wish: Option<&Facts>,
) -> Result<Option<BTreeSet<NodeId>>, PassError> {
    let (former, refused) =
        (&work.record.former_controllers, &work.record.refused_metadata_version);
    let Some(access) = &work.known.kafka.access else { return Ok(None) };
    let is_to_change = wish.is_some_and(metadata_version::is_to_change);
    if former.is_empty() && refused.is_none() && !is_to_change {
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

/// What is known of the metadata version, but for the brokers that are about to be forgotten.
fn metadata_facts(work: &Work) -> Result<Option<Facts>, PassError> {
    let Ok(kafka) = work.known.configuration.kafka_version.parse() else { return Ok(None) };
    Ok(Some(Facts {
        wished: work.blueprint.spec.metadata_version.clone(),
        kafka,
        nodes: versions(work),
        level: work.known.kafka.metadata_level(),
        mode: work.record.quorum.mode,
        unregistering: BTreeSet::new(),
        refused: work.record.refused_metadata_version.clone(),
    }))
}

async fn metadata(
    work: &mut Work,
    mut facts: Facts,
    stale: &unregister::Decision,
) -> Result<Step, PassError> {
    let step = match metadata_version::decide(&facts) {
        Decision::Keep => {
            work.record.refused_metadata_version = None;
            Step::Done
        }
        Decision::Wait(waiting) => Step::Waiting(waiting.note()),
        Decision::Refuse(reason) => {
            work.warnings.push(reason.note());
            Step::Done
        }
        Decision::Change { to, level, up } => {
            match change(work, (to, level, up)).await {
                Asked::Done => {
                    facts.refused = None;
                    work.record.refused_metadata_version = None;
                }
                Asked::Refused(refused) => {
                    work.record.refused_metadata_version = Some(refused.clone());
                    facts.refused = Some(refused);
                }
                Asked::Unknown => {}
            }
            Step::Done
        }
    };
    work.warnings.extend(metadata_version::refusal(&facts, &stale.stale(), &stale.ghosts));
    work.save().await?;
    Ok(step)
}

/// The Kafka that each node runs, as its pod says. One that is not ready may never run it.
fn versions(work: &Work) -> BTreeMap<NodeId, Option<control::registration::KafkaVersion>> {
    let of = |node: &crate::cluster::resources::Node| {
        let pod = work.found.pods.get(&work.blueprint.pod(node)).filter(|pod| is_ready(pod))?;
        pod.annotations().get(KAFKA_VERSION)?.parse().ok()
    };
    work.blueprint.nodes.iter().map(|node| (node.id, of(node))).collect()
}

/// What came of asking Kafka for another metadata version.
enum Asked {
    Done,
    Refused(Refused),
    /// It may have happened; the next pass sees.
    Unknown,
}

async fn change(work: &mut Work, (to, level, up): (MetadataVersion, i16, bool)) -> Asked {
    let Some(access) = work.known.kafka.access.clone() else { return Asked::Unknown };
    let way = if up { LevelChange::Upgrade } else { LevelChange::SafeDowngrade };
    let what = format!("change the metadata version to {to}");
    let call = access.controllers.update_feature("metadata.version", level, way, false);
    let done = work.ctx.writer.kafka("update feature", &what, call, |e| e.outcome()).await;
    match done {
        Ok(()) => {
            work.known.metadata_version = Some(to.to_string());
            Asked::Done
        }
        Err(KafkaWriteError::Kafka { source, .. })
            if source.outcome() == kafka_admin::Outcome::NotDone =>
        {
            Asked::Refused(Refused { version: to, message: chain(&source) })
        }
        Err(error) => {
            tracing::info!("{}", chain(&error));
            Asked::Unknown
        }
    }
}
