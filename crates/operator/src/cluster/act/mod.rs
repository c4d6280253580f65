//! Carries out what was decided: checks that the facts are fresh, acts, and enters what became of it.

mod answers;
mod keys;
mod kubernetes;
mod objects;
mod on_kafka;
pub(crate) mod rebalance;
mod users;

use ::objects::found::Found;
use control::cluster::act::{Act, What};
use control::cluster::decide::{Decision, Scope, needs};
use control::cluster::execute::{Execution, Next};
use control::cluster::record::Record;
use control::cluster::snapshot::{ObjectKind, Snapshot};
use control::conditions::Outcome;
use control::quorum::answer::Answer;
use control::rolling::config::Change;
use serde_json::Value;
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use super::error::PassError;
use super::pass::Work;
use super::steps::kafka;
use super::{found, observe};
use crate::liveness;
use crate::time::now_ms;
use crate::trace;
use crate::words::word;

/// What an act was answered, with the words of the answer.
pub(super) type Answered = (Answer, Option<String>);

/// The answer to an act that was done.
const DONE: Answered = (Answer::Done, None);

/// The number of times that the decision may ask for more facts.
const ROUNDS: usize = 3;

/// The snapshot with everything that the decision requires, and the first read from Kubernetes that failed.
pub(crate) async fn observe(
    work: &Work,
    record: &Record,
    scope: &Scope,
) -> (Snapshot, Option<PassError>) {
    complete(work, observe::snapshot(work), (record, scope)).await
}

/// The same, with what is known already.
pub(crate) async fn complete(
    work: &Work,
    mut snapshot: Snapshot,
    (record, scope): (&Record, &Scope),
) -> (Snapshot, Option<PassError>) {
    let mut failed = None;
    for _ in 0..ROUNDS {
        liveness::progress();
        let needs = needs(&snapshot, record, scope);
        if needs.is_empty() {
            break;
        }
        let error = observe::read(work, &mut snapshot, &needs).await;
        failed = failed.or(error);
    }
    (snapshot, failed)
}

/// Carries out a decision that is recorded, and enters the answer to each act. `before` is the record that it was
/// decided on, and `failed` the first read that failed. Returns how the cluster is, and what failed first.
pub(crate) async fn all(
    work: &mut Work,
    snapshot: Snapshot,
    (decision, before): (Decision, Record),
    failed: Option<PassError>,
) -> Result<(Outcome, Option<PassError>), PassError> {
    let mut execution = Execution::new(decision, before, Scope::pass());
    let done = each(work, snapshot, &mut execution).await;
    if let Some(act) = execution.dropped() {
        tracing::info!("not done, because the facts have changed: {}", act.what);
    }
    let error = done.err().or(failed);
    let failure = error.as_ref().map(PassError::failure);
    let ended = execution.finish(&mut work.record, failure);
    work.known.look_again_ms = ended.look_again_ms;
    work.save().await?;
    Ok((ended.outcome, error))
}

/// Sends one act after the other.
async fn each(
    work: &mut Work,
    mut snapshot: Snapshot,
    execution: &mut Execution,
) -> Result<(), PassError> {
    loop {
        liveness::progress();
        match execution.next(&mut work.record, &snapshot, now_ms()) {
            Next::End => return Ok(()),
            Next::ReadAgain => {
                read_again(work).await?;
                snapshot = observe(work, execution.before(), &Scope::pass()).await.0;
                execution.reread(&snapshot);
            }
            Next::Send(act) => {
                tracing::debug!(act = %typed(&act.what), "{}: {}", act.what, act.rule);
                let span = trace::act(&act.what);
                let sent = Box::pin(send(work, &act)).instrument(span.clone()).await;
                let answer = sent.as_ref().ok().map(|(answer, _)| *answer);
                span.record("answer", answer.map_or_else(|| "error".to_owned(), |one| word(&one)));
                work.ctx.writer.metrics().acted(&work.blueprint.names, &act.what, answer);
                let answered = sent?;
                if let (answer, Some(message)) = &answered {
                    span.in_scope(|| tracing::info!("{}: {answer:?}: {message}", act.what));
                }
                execution.answered(&mut work.record, answered, now_ms());
                work.save().await?;
            }
        }
    }
}

/// An act for the log, as `gregor plan -o json` has it. Of settings only the names: values may be secret.
fn typed(what: &What) -> Value {
    let mut value = serde_json::to_value(what).unwrap_or_default();
    let changes = match what {
        What::AlterNode { changes, .. } | What::AlterCluster { changes } => changes,
        _ => return value,
    };
    if let Some(fields) = value.as_object_mut().and_then(|all| all.values_mut().next()) {
        fields["changes"] = changes.iter().map(Change::key).collect();
    }
    value
}

/// Reads Kubernetes and Kafka again.
async fn read_again(work: &mut Work) -> Result<(), PassError> {
    let found = found::read(&work.ctx.client, &work.blueprint.names).await?;
    let bindings = std::mem::take(&mut work.found.bindings);
    work.found = Found { bindings, ..found };
    work.known.rebalances = OnceCell::new();
    kafka::ask(work).await
}

/// Sends one act. What Kafka answered, with its words.
async fn send(work: &mut Work, act: &Act) -> Result<Answered, PassError> {
    match &act.what {
        What::DeleteClaim { name, uid }
        | What::Delete { kind: ObjectKind::PersistentVolumeClaim, name, uid } => {
            kubernetes::delete(work, &work.found.claims, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::ConfigMap, name, uid } => {
            kubernetes::delete(work, &work.found.config_maps, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::Secret, name, uid } => {
            kubernetes::delete(work, &work.found.secrets, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::Service, name, uid } => {
            kubernetes::delete(work, &work.found.services, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::PodSet, name, uid } => {
            kubernetes::delete(work, &work.found.pod_sets, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::ServiceAccount, name, uid } => {
            kubernetes::delete(work, &work.found.accounts, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::NetworkPolicy, name, uid } => {
            kubernetes::delete(work, &work.found.policies, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::PodDisruptionBudget, name, uid } => {
            kubernetes::delete(work, &work.found.budgets, (name, uid)).await
        }
        What::Delete { kind: ObjectKind::ClusterRoleBinding, name, uid } => {
            kubernetes::delete_binding(work, name, uid).await
        }
        What::RestartPod { pod, uid, reasons, .. } => {
            kubernetes::restart(work, (pod, uid), reasons).await
        }
        What::RemoveMigrationAnnotation => kubernetes::remove_migration_annotation(work).await,
        What::ClearRestartRequest { pool } => kubernetes::clear_restart_request(work, pool).await,
        What::Apply(key) => objects::apply(work, key).await,
        What::ShrinkPodSet { name } => objects::shrink(work, name).await,
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
        | What::ElectPreferred { .. } => Ok(on_kafka::send(work, &act.what).await),
    }
}
