//! Carries out what an area decided: record, then act, and enter what became of it.

mod kafka;
mod keys;
mod kubernetes;
pub(crate) mod rebalance;
mod users;

use std::time::Duration;

use control::cluster::act::{Act, What, settle};
use control::cluster::areas::Decider;
use control::cluster::draft::{Draft, Flow, LOOK_AGAIN_MS};
use control::cluster::record::Record;
use control::cluster::snapshot::{ObjectKind, Snapshot};
use control::quorum::answer::Answer;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};

use super::error::PassError;
use super::pass::{Step, Work};
use super::steps::kafka::ask;
use super::{found, observe};
use crate::time::now_ms;

/// What an act was answered, with the words of the answer.
pub(super) type Answered = (Answer, Option<String>);

/// The number of times that an area may ask for more facts.
const ROUNDS: usize = 3;

/// Observes, decides, records and acts for one area.
pub(crate) async fn run(work: &mut Work, area: Decider) -> Result<Step, PassError> {
    let before = Draft { outputs: work.known.outputs.clone(), ..Draft::new(work.record.clone()) };
    let mut snapshot = observe(work, area, &before).await?;
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
            snapshot = read_again(work, area, &before).await?;
            again = Some(area.draft_again(&snapshot, &before));
        }
        // Every later act has to hold by the new facts too.
        if let Some((again, flow)) = again.take_if(|(again, _)| !again.acts.contains(act)) {
            tracing::info!("not done, because the facts have changed: {}", act.what);
            return outdated(work, (sent, again.record), flow).await;
        }
        tracing::debug!("{}: {}", act.what, act.rule);
        let answered = send(work, act).await?;
        if let (answer, Some(message)) = &answered {
            tracing::info!("{}: {answer:?}: {message}", act.what);
        }
        let unfinished = act.unfinished(&answered);
        let ends = settle(&mut work.record, act, answered, now_ms());
        work.save().await?;
        if let Some(note) = unfinished {
            return Ok(Step::Waiting(note));
        }
        if let (true, Flow::Wait(note)) = (ends, &flow) {
            return Ok(Step::Stop(note.clone()));
        }
    }
    Ok(flow.into())
}

/// The snapshot with everything that the area needs.
async fn observe(work: &Work, area: Decider, before: &Draft) -> Result<Snapshot, PassError> {
    let mut snapshot = observe::snapshot(work);
    complete(work, &mut snapshot, area, before).await?;
    Ok(snapshot)
}

/// Reads what the area needs besides.
async fn complete(
    work: &Work,
    snapshot: &mut Snapshot,
    area: Decider,
    before: &Draft,
) -> Result<(), PassError> {
    for _ in 0..ROUNDS {
        let needs = (area.needs)(snapshot, before);
        if needs.is_empty() {
            break;
        }
        observe::read(work, snapshot, &needs).await?;
    }
    Ok(())
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
async fn read_again(work: &mut Work, area: Decider, before: &Draft) -> Result<Snapshot, PassError> {
    let found = found::read(&work.ctx.client, &work.blueprint.names).await?;
    (work.found.pods, work.found.claims) = (found.pods, found.claims);
    work.found.at_ms = found.at_ms;
    work.known.partitions = tokio::sync::OnceCell::new();
    ask(work).await?;
    let mut snapshot = observe::snapshot(work);
    for area in area.rests_on.iter().chain([&area]) {
        complete(work, &mut snapshot, *area, before).await?;
    }
    Ok(snapshot)
}

/// Sends one act. What Kafka answered, with its words.
async fn send(work: &mut Work, act: &Act) -> Result<Answered, PassError> {
    match &act.what {
        What::DeleteClaim { name, uid } => {
            kubernetes::delete::<PersistentVolumeClaim>(work, name, uid).await
        }
        What::Delete { kind: ObjectKind::ConfigMap, name, uid } => {
            kubernetes::delete::<ConfigMap>(work, name, uid).await
        }
        What::Delete { kind: ObjectKind::Secret, name, uid } => {
            kubernetes::delete::<Secret>(work, name, uid).await
        }
        What::Delete { kind: ObjectKind::Service, name, uid } => {
            kubernetes::delete::<Service>(work, name, uid).await
        }
        What::Delete { kind: ObjectKind::PodSet, name, uid } => {
            kubernetes::delete::<api::StrimziPodSet>(work, name, uid).await
        }
        What::RestartPod { pod, uid, reasons, .. } => {
            kubernetes::restart(work, (pod, uid), reasons).await
        }
        What::RemoveMigrationAnnotation => kubernetes::remove_migration_annotation(work).await,
        What::ClearRestartRequest { pool } => kubernetes::clear_restart_request(work, pool).await,
        What::ChangeAuthority { kind, change } => keys::change_authority(work, *kind, change).await,
        What::PublishTrust => keys::publish_trust(work).await,
        What::StoreOperatorCertificate => keys::store_operator_certificate(work).await,
        What::StoreCertificate { id } => keys::store_certificate(work, *id).await,
        What::Rebalance(change) => rebalance::change(work, change).await,
        What::StopUnclaimedMoves => rebalance::stop_unclaimed(work).await,
        What::RememberCredential { user, mark } => Ok(users::remember(work, user, mark).await),
        What::SetCredential { user } => Ok(users::set(work, user).await),
        What::DeleteCredential { user } => Ok(users::delete(work, user).await),
        What::ReleaseUser { user } => Ok(users::release(work, user).await),
        What::AddVoter { .. }
        | What::RemoveVoter { .. }
        | What::Unregister { .. }
        | What::Cordon { .. }
        | What::Uncordon { .. }
        | What::RaiseKraftVersion { .. }
        | What::ChangeMetadataVersion { .. }
        | What::AlterNode { .. }
        | What::AlterCluster { .. }
        | What::ElectPreferred { .. } => Ok(kafka::send(work, &act.what).await),
    }
}
