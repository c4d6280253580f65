//! From a static quorum to a dynamic one, when the user asks for it or somebody else has made it so.
//!
//! The machine is [`control::quorum::migrate`]. Here its facts are gathered, the phase is recorded, and then
//! the duty of the phase is done, one phase a pass: whatever is interrupted goes on from what is recorded.

use std::collections::{BTreeMap, BTreeSet};

use control::conditions::{Note, Reason};
use control::node::Roles;
use control::quorum::format::QuorumMode;
use control::quorum::migrate::{self, ANNOTATION, Duty, Facts, Hold, Phase};
use control::quorum::mode::DYNAMIC_LEVEL;
use control::registration::KafkaVersion;
use kafka_admin::{LevelChange, Outcome};
use kube::runtime::events::{Event, EventType};
use kube::{Resource as _, ResourceExt as _};
use model::NodeId;
use serde_json::{Value, json};

use super::configuration::{DYNAMIC, KAFKA_VERSION, QUORUM};
use super::kafka::view;
use super::roll::roles_of;
use super::workload::is_ready;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::words::chain;
use crate::write::KafkaWriteError;

/// What a migration is called in the conditions.
const REASON: Reason = Reason::QuorumMigration;
/// What it is called where it is not begun.
const REFUSED: Reason = Reason::QuorumMigrationRefused;
/// What an annotation is called that means nothing.
const IGNORED: Reason = Reason::QuorumMigrationIgnored;

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let before = work.record.quorum_migration;
    let facts = facts(work);
    if migrate::is_ignored(before, &facts) {
        ignore(work).await;
    }
    let next = migrate::read(before, &facts).and_then(|event| migrate::next(before, event));
    let now = next.unwrap_or(before);
    if now != before {
        let (names, to) = (&work.blueprint.names, now);
        tracing::info!("{}/{}: migration: {before:?} -> {to:?}", names.namespace, names.cluster);
        work.record.quorum_migration = now;
        work.save().await?;
    }
    let step = match migrate::duty(now) {
        Duty::Nothing | Duty::Roll => waiting(work, now, &facts),
        Duty::RaiseKraftVersion => raise(work).await,
        Duty::RecordControllers => record(work, &facts).await?,
        Duty::RemoveAnnotation => {
            unmark(work).await?;
            Step::Waiting(Note::new(REASON, Hold::Annotation.to_string()))
        }
    };
    // Nodes were told otherwise earlier in this pass. None is restarted before they are told what holds.
    let is_dynamic = work.record.quorum.mode == QuorumMode::Dynamic;
    match step {
        Step::Done | Step::Waiting(_) if is_dynamic != work.known.configuration.is_dynamic => {
            Ok(Step::Stop(Note::new(
                REASON,
                "the nodes are about to be told that the quorum is dynamic",
            )))
        }
        step => Ok(step),
    }
}

fn facts(work: &Work) -> Facts {
    let names = &work.blueprint.names;
    let quorum = work.known.kafka.quorum.as_ref();
    // Where a voter is that we do not know, only Kafka can tell.
    let told = quorum.into_iter().flat_map(|quorum| &quorum.voters);
    let told = told.filter_map(|voter| {
        let at = voter.endpoints.first()?;
        Some((voter.id, (at.host.clone(), at.port)))
    });
    let mut endpoints: BTreeMap<NodeId, (String, u16)> = told.collect();
    let (mut wished, mut running) = (BTreeSet::new(), BTreeSet::new());
    let mut versions: Vec<Option<KafkaVersion>> = Vec::new();
    // Those that there are. More, or fewer, can be had when it is done.
    for node in work.blueprint.controllers() {
        let pod = work.blueprint.pod(node);
        endpoints.insert(node.id, (names.host(&pod), api::names::CONTROLLER_PORT));
        wished.insert(node.id);
        let found = work.found.pods.get(&pod);
        if found.is_some_and(|pod| is_ready(pod) && roles_of(pod).is_some_and(Roles::is_controller))
        {
            running.insert(node.id);
        }
        versions.push(found.and_then(|pod| pod.annotations().get(KAFKA_VERSION)?.parse().ok()));
    }
    let versions: Option<Vec<KafkaVersion>> = versions.into_iter().collect();
    Facts {
        asked: is_asked(work),
        record: work.record.quorum.clone(),
        kraft_version: work.known.kafka.kraft_version(),
        metadata_level: work.known.kafka.metadata_level(),
        oldest_kafka: versions.and_then(|all| all.into_iter().min()),
        wished,
        running,
        quorum: quorum.map(|quorum| view(work, quorum)),
        endpoints,
        rolled: Some(are_moved(work)),
        refused: work.ctx.marks.get(names).refused,
    }
}

fn is_asked(work: &Work) -> bool {
    work.blueprint.kafka.annotations().get(ANNOTATION).is_some_and(|value| value == "true")
}

/// Whether every node was started with `controller.quorum.bootstrap.servers`, and serves.
fn are_moved(work: &Work) -> bool {
    work.blueprint.nodes.iter().all(|node| {
        let pod = work.found.pods.get(&work.blueprint.pod(node));
        pod.is_some_and(|pod| {
            is_ready(pod) && pod.annotations().get(QUORUM).is_some_and(|told| told == DYNAMIC)
        })
    })
}

/// What is awaited in a phase that has nothing to do here.
fn waiting(work: &mut Work, phase: Phase, facts: &Facts) -> Step {
    match (phase, migrate::hold(phase, facts)) {
        (_, None) if phase == Phase::Gathering => {
            Step::Waiting(Note::new(REASON, "the quorum is about to be made dynamic"))
        }
        // Of nodes that have to be restarted the roller tells more.
        (_, None) | (Phase::Rolling, Some(_)) => Step::Done,
        (_, Some(hold @ (Hold::KafkaTooOld(_) | Hold::MetadataTooOld(_)))) => {
            work.warn(REFUSED, hold.to_string());
            Step::Done
        }
        (_, Some(hold)) => Step::Waiting(Note::new(REASON, hold.to_string())),
    }
}

async fn raise(work: &mut Work) -> Step {
    let names = work.blueprint.names.clone();
    let Some(access) = work.known.kafka.access.clone() else {
        return Step::Waiting(Note::new(REASON, Hold::Unknown.to_string()));
    };
    let call = access.controllers.update_feature(
        "kraft.version",
        DYNAMIC_LEVEL,
        LevelChange::Upgrade,
        false,
    );
    let what = format!("raise kraft.version to {DYNAMIC_LEVEL}");
    let done = work.ctx.writer.kafka("update feature", &what, call, |e| e.outcome()).await;
    let (said, is_refused) = match &done {
        Ok(()) => (None, false),
        Err(KafkaWriteError::Kafka { source, .. }) => {
            (Some(chain(source)), source.outcome() == Outcome::NotDone)
        }
        Err(error) => (Some(chain(error)), false),
    };
    if let Some(said) = &said {
        tracing::info!("kraft.version is not raised, or not known to be: {said}");
    }
    work.ctx.marks.change(&names, |kept| kept.refused.clone_from(&said));
    let note = Note::new(REASON, Hold::Raise(said).to_string());
    match is_refused {
        // It may take something else in this pass, such as a restart, before Kafka does it.
        true => Step::Waiting(note),
        // The quorum is, or may be, another one now: it is looked at before anything else is done.
        false => Step::Stop(note),
    }
}

/// Records the controllers and that they were seen. Nobody is restarted before that.
async fn record(work: &mut Work, facts: &Facts) -> Result<Step, PassError> {
    if let Some(quorum) = migrate::controllers(facts) {
        work.record.quorum = quorum;
        work.save().await?;
    }
    Ok(Step::Stop(Note::new(REASON, Hold::Disks.to_string())))
}

async fn unmark(work: &mut Work) -> Result<(), PassError> {
    let api = work.api::<api::Kafka>();
    let kafka = &work.blueprint.kafka;
    if !kafka.annotations().contains_key(ANNOTATION) {
        return Ok(());
    }
    let patch = json!({ "metadata": { "annotations": { ANNOTATION: Value::Null } } });
    work.ctx.writer.patch(&api, &kafka.name_any(), &patch, Some(kafka)).await?;
    Ok(())
}

/// Tells that the annotation means nothing: as long as it is there in the status, and once as an Event.
async fn ignore(work: &mut Work) {
    let message = format!(
        "the quorum is dynamic already: the annotation {ANNOTATION} means nothing; remove it"
    );
    let kafka = &work.blueprint.kafka;
    let conditions = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_told =
        conditions.into_iter().flatten().any(|one| one.reason.as_deref() == Some(IGNORED.name()));
    if !is_told {
        let event = Event {
            type_: EventType::Warning,
            reason: IGNORED.name().to_owned(),
            note: Some(message.clone()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = work.ctx.recorder.publish(&event, &kafka.object_ref(&())).await {
            tracing::info!("no Event could be told: {error}");
        }
    }
    work.warn(IGNORED, message);
}
