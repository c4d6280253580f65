//! Carries out what an area decided: record, then act, and enter what became of it.

use std::time::Duration;

use control::cluster::act::{Act, What, settle};
use control::cluster::areas::Decider;
use control::cluster::draft::{Flow, LOOK_AGAIN_MS};
use control::cluster::record::Record;
use control::cluster::snapshot::{ObjectKind, Snapshot};
use control::quorum::answer::Answer;
use control::quorum::migrate;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use kafka_admin::{
    ConfigChange, ConfigResource, LevelChange, Outcome, VoterChangeError, VoterListener,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::error::PassError;
use super::found::Found;
use super::observe;
use super::pass::{Step, Work};
use super::steps::kafka::ask;
use crate::time::now_ms;
use crate::words::chain;
use crate::write::KafkaWriteError;

/// The number of times that an area may ask for more facts.
const ROUNDS: usize = 3;

/// Observes, decides, records and acts for one area.
pub(crate) async fn run(work: &mut Work, area: Decider) -> Result<Step, PassError> {
    let before = (work.record.clone(), work.known.outputs.clone());
    let mut snapshot = observe(work, area).await;
    let (draft, flow) = area.draft(&snapshot, &before);
    work.record = draft.record;
    work.save().await?;
    work.warnings.extend(draft.warnings);
    work.known.outputs = draft.outputs;
    if let Some(after_ms) = draft.look_again_ms {
        work.known.look_again(Duration::from_millis(after_ms));
    }
    let mut again = None;
    for (sent, act) in draft.acts.iter().enumerate() {
        if act.is_stale(&snapshot, now_ms()) {
            snapshot = read_again(work, area).await?;
            again = Some(area.draft(&snapshot, &before));
        }
        // Every later act has to hold by the new facts too.
        if let Some((again, flow)) = again.take_if(|(again, _)| !again.acts.contains(act)) {
            tracing::info!("not done, because the facts have changed: {}", act.what);
            return outdated(work, (sent, again.record), flow).await;
        }
        tracing::debug!("{}: {}", act.what, act.rule);
        let answered = send(work, act).await?;
        let ends = settle(&mut work.record, act, answered, now_ms());
        work.save().await?;
        if let (true, Flow::Wait(note)) = (ends, &flow) {
            return Ok(Step::Stop(note.clone()));
        }
    }
    Ok(match flow {
        Flow::Go => Step::Done,
        Flow::Wait(note) => Step::Waiting(note),
        Flow::Stop(note) => Step::Stop(note),
        Flow::Hold(note) => Step::Hold(note),
        Flow::Fault(note) => Step::Fault(note),
    })
}

/// The snapshot with everything that the area needs.
async fn observe(work: &Work, area: Decider) -> Snapshot {
    let mut snapshot = observe::snapshot(work);
    for _ in 0..ROUNDS {
        let needs = (area.needs)(&snapshot, &work.record);
        if needs.is_empty() {
            break;
        }
        observe::read(work, &mut snapshot, &needs).await;
    }
    snapshot
}

/// Ends the pass because its facts were old. If nothing was done because of them, what was recorded because of them is
/// replaced by what the new facts say.
async fn outdated(
    work: &mut Work,
    (sent, record): (usize, Record),
    flow: Flow,
) -> Result<Step, PassError> {
    if sent == 0 {
        work.record = record;
        work.save().await?;
    }
    work.known.look_again(Duration::from_millis(LOOK_AGAIN_MS));
    Ok(match flow {
        Flow::Go => Step::Done,
        Flow::Wait(note) | Flow::Stop(note) => Step::Stop(note),
        Flow::Hold(note) | Flow::Fault(note) => Step::Hold(note),
    })
}

/// Reads everything again.
async fn read_again(work: &mut Work, area: Decider) -> Result<Snapshot, PassError> {
    let found = Found::read(&work.ctx.client, &work.blueprint.names).await?;
    (work.found.pods, work.found.claims) = (found.pods, found.claims);
    work.found.at_ms = found.at_ms;
    work.known.partitions = tokio::sync::OnceCell::new();
    ask(work).await?;
    Ok(observe(work, area).await)
}

/// Sends one act. What Kafka answered, with its words.
async fn send(work: &Work, act: &Act) -> Result<(Answer, Option<String>), PassError> {
    if let What::DeleteClaim { name, uid } = &act.what {
        let api = work.api::<PersistentVolumeClaim>();
        work.ctx.writer.delete(&api, name, uid, None).await?;
        return Ok((Answer::Done, None));
    }
    if let What::Delete { kind, name, uid } = &act.what {
        let (writer, name) = (&work.ctx.writer, name.as_str());
        match kind {
            ObjectKind::ConfigMap => {
                writer.delete(&work.api::<ConfigMap>(), name, uid, None).await?
            }
            ObjectKind::Secret => writer.delete(&work.api::<Secret>(), name, uid, None).await?,
            ObjectKind::Service => writer.delete(&work.api::<Service>(), name, uid, None).await?,
            ObjectKind::PodSet => {
                writer.delete(&work.api::<api::StrimziPodSet>(), name, uid, None).await?
            }
        };
        return Ok((Answer::Done, None));
    }
    if act.what == What::RemoveMigrationAnnotation {
        let (api, kafka) = (work.api::<api::Kafka>(), &work.blueprint.kafka);
        let patch = json!({ "metadata": { "annotations": { migrate::ANNOTATION: Value::Null } } });
        work.ctx.writer.patch(&api, &kafka.name_any(), &patch, Some(kafka)).await?;
        return Ok((Answer::Done, None));
    }
    let answered = to_kafka(work, act).await;
    if let (answer, Some(message)) = &answered {
        tracing::info!("{}: {answer:?}: {message}", act.what);
    }
    Ok(answered)
}

async fn to_kafka(work: &Work, act: &Act) -> (Answer, Option<String>) {
    let Some(access) = &work.known.kafka.access else { return nobody() };
    let cluster = work.known.kafka.cluster_id(&work.record);
    let (writer, what, cluster) = (&work.ctx.writer, act.what.to_string(), cluster.as_ref());
    match &act.what {
        What::AddVoter { id, directory, listeners } => {
            let listeners = listeners.iter().map(|one| VoterListener {
                name: one.name.clone(),
                host: one.host.clone(),
                port: one.port,
            });
            let listeners: Vec<_> = listeners.collect();
            let call = access.controllers.add_voter(cluster, *id, *directory, &listeners);
            answer(writer.kafka("add voter", &what, call, |e| e.outcome()).await, voter)
        }
        What::RemoveVoter { id, directory } => {
            let call = access.controllers.remove_voter(cluster, *id, *directory);
            answer(writer.kafka("remove voter", &what, call, |e| e.outcome()).await, voter)
        }
        What::Unregister { id } => {
            let Some(admin) = &access.brokers else { return nobody() };
            let call = admin.unregister_broker(*id);
            let done = writer.kafka("unregister", &what, call, |e| e.outcome()).await;
            answer(done, |error| refused(error.outcome()))
        }
        What::Cordon { id } | What::Uncordon { id } => {
            let Some(admin) = &access.brokers else { return nobody() };
            let name = observe::CORDON.to_owned();
            let changes = match matches!(act.what, What::Cordon { .. }) {
                true => [ConfigChange::Set(name, "*".to_owned())],
                false => [ConfigChange::Delete(name)],
            };
            let of = ConfigResource::Node(*id);
            let call = admin.alter_configs(&of, &changes, false);
            let done = writer.kafka("cordon", &what, call, |e| e.outcome()).await;
            answer(done, |error| refused(error.outcome()))
        }
        What::ChangeMetadataVersion { level, up, .. } => {
            let way = if *up { LevelChange::Upgrade } else { LevelChange::SafeDowngrade };
            let call = access.controllers.update_feature("metadata.version", *level, way, false);
            let done = writer.kafka("update feature", &what, call, |e| e.outcome()).await;
            answer(done, |error| refused(error.outcome()))
        }
        What::RaiseKraftVersion { level } => {
            let way = LevelChange::Upgrade;
            let call = access.controllers.update_feature("kraft.version", *level, way, false);
            let done = writer.kafka("update feature", &what, call, |e| e.outcome()).await;
            answer(done, |error| refused(error.outcome()))
        }
        What::DeleteClaim { .. } | What::Delete { .. } | What::RemoveMigrationAnnotation => {
            nobody()
        }
    }
}

fn nobody() -> (Answer, Option<String>) {
    (Answer::NotSent, Some("there is no node of Kafka to ask".to_owned()))
}

/// What the result of a call means, in the terms of decisions.
fn answer<T, E: std::error::Error + 'static>(
    done: Result<T, KafkaWriteError<E>>,
    of_error: impl FnOnce(&E) -> Answer,
) -> (Answer, Option<String>) {
    match done {
        Ok(_) => (Answer::Done, None),
        Err(KafkaWriteError::Kafka { source, .. }) => (of_error(&source), Some(chain(&source))),
        Err(error @ KafkaWriteError::NotLeader { .. }) => (Answer::NotSent, Some(chain(&error))),
        Err(error @ KafkaWriteError::Expired { .. }) => (Answer::Unknown, Some(chain(&error))),
    }
}

const fn refused(outcome: Outcome) -> Answer {
    match outcome {
        Outcome::NotDone => Answer::Refused,
        Outcome::Unknown => Answer::Unknown,
    }
}

fn voter(error: &VoterChangeError) -> Answer {
    match error {
        VoterChangeError::Call(error) => refused(error.outcome()),
        VoterChangeError::Unknown { .. } => Answer::Unknown,
        VoterChangeError::Duplicate => Answer::Duplicate,
        VoterChangeError::NotFound => Answer::NotFound,
        VoterChangeError::NotLeader => Answer::NotLeader,
        VoterChangeError::StaticQuorum { .. } => Answer::StaticQuorum,
        VoterChangeError::Invalid { .. } => Answer::Invalid,
        VoterChangeError::WrongCluster => Answer::WrongCluster,
        VoterChangeError::Refused(_) => Answer::Refused,
    }
}
