//! Migration to a dynamic quorum, as [`control::cluster::areas::migration`] decides.

use control::cluster::areas;
use control::conditions::Reason;
use kube::Resource as _;
use kube::runtime::events::{Event, EventType};

use crate::cluster::act;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let before = work.record.quorum_migration;
    let step = act::run(work, areas::MIGRATION).await?;
    let now = work.record.quorum_migration;
    if now != before {
        let names = &work.blueprint.names;
        tracing::info!("{}/{}: migration: {before:?} -> {now:?}", names.namespace, names.cluster);
    }
    tell_ignored(work).await;
    Ok(step)
}

/// An Event, once, for an annotation that has no effect. The condition stays as long as the annotation.
async fn tell_ignored(work: &Work) {
    const IGNORED: Reason = Reason::QuorumMigrationIgnored;
    let Some(note) = work.warnings.iter().find(|note| note.reason == IGNORED) else { return };
    let kafka = &work.blueprint.kafka;
    let conditions = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_told =
        conditions.into_iter().flatten().any(|one| one.reason.as_deref() == Some(IGNORED.name()));
    if is_told {
        return;
    }
    let event = Event {
        type_: EventType::Warning,
        reason: IGNORED.name().to_owned(),
        note: Some(note.message.clone()),
        action: "Reconcile".to_owned(),
        secondary: None,
    };
    if let Err(error) = work.ctx.recorder.publish(&event, &kafka.object_ref(&())).await {
        tracing::info!("no Event could be published: {error}");
    }
}
