//! Our own engine: plans of `placement`, carried out by [`execute`].
//!
//! 1. The plan of an attempt is stored, with its job, before the record says that there is one.
//! 2. Moves begin when the one note of moves that a cluster has was written for this attempt, over one that
//!    says that nothing runs. So there is never more than one execution.
//! 3. Moves without a claim are stopped: by the request if its attempt is another one by now, and by the
//!    pass over the cluster if there is no such request.

use control::rebalance::execution::{Job, Phase as Moving, Progress, Recorded};
use control::rebalance::request::answers::Heard;
use control::rebalance::request::snapshot::Claimant;
use control::rebalance::request::{Act, Orders};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{Told, plan};
use crate::context::Context;
use crate::rebalance::RebalanceError;
use crate::rebalance::execute::{self, ExecuteError, Instructions, Reach};
use crate::rebalance::request::Work;
use crate::rebalance::site::Site;
use crate::rebalance::store::{self, Document, Kept, Moves, ProposalRecord, StoreError};
use crate::time::now_ms;
use crate::words::chain;
use crate::write::Writer;

/// A plan as it is stored: how it is shown, and what it is to do.
pub(crate) type Plan = (ProposalRecord, Job);

/// The stored plan of an attempt.
pub(crate) async fn stored(work: &Work, attempt: u64) -> Result<Option<Plan>, RebalanceError> {
    let key = store::key(&work.uid(), attempt);
    Ok(Document::of_plan(&work.ctx.client, &work.kr)?.get(&key).await?)
}

/// Makes a plan, and stores it before it says so.
pub(super) async fn propose(work: &mut Work) -> Result<Told, RebalanceError> {
    let attempt = work.record.request.attempt;
    // One that was stored by a process that did not live to say so is as good as any.
    if let Some((made, _)) = stored(work, attempt).await? {
        return work.heard(Act::MakePlan, Heard::Planned(Ok(())), Some(made)).await;
    }
    let Some(site) = &work.site else {
        return work.heard(Act::MakePlan, Heard::NotAsked, None).await;
    };
    let made = match plan::make(&work.ctx, site, &work.kr.spec).await? {
        Err(unmade) => return work.heard(Act::MakePlan, Heard::Planned(Err(unmade)), None).await,
        Ok(made) => made,
    };
    let record = ProposalRecord {
        attempt,
        failure: None,
        summary: made.summary,
        broker_load: made.broker_load,
        brokers: made.brokers,
        unknown: made.unknown,
    };
    let document = Document::of_plan(&work.ctx.client, &work.kr)?;
    let plan: Plan = (record, made.job);
    document.put(&work.ctx.writer, &store::key(&work.uid(), attempt), &plan).await?;
    work.heard(Act::MakePlan, Heard::Planned(Ok(())), Some(plan.0)).await
}

/// Begins the moves: the note that says so is written over the version that was read.
pub(super) async fn begin(work: &mut Work) -> Result<Told, RebalanceError> {
    let attempt = work.record.request.attempt;
    let stored = match &work.kafka {
        Some(kafka) => Some(kafka.clone()).zip(stored(work, attempt).await?),
        None => None,
    };
    let Some((kafka, (_, job))) = stored else {
        return work.heard(Act::BeginMoves, Heard::NotAsked, None).await;
    };
    let by = Claimant { name: work.kr.name_any(), uid: work.uid(), attempt };
    // Of one that ended in the last act of a process its job may be left.
    if let Some(over) = work.moves() {
        let at = Document::of_job(&work.ctx.client, &kafka, &over.key())?;
        at.drop_parts(&work.ctx.writer, over.parts).await?;
    }
    let key = store::key(&by.uid, by.attempt);
    let at = Document::of_job(&work.ctx.client, &kafka, &key)?;
    let parts = at.put(&work.ctx.writer, &key, &job).await?;
    let brokers = work.record.proposal.as_ref().map(|one| one.brokers.clone());
    let moves = Moves {
        by,
        parts,
        brokers: brokers.unwrap_or_default(),
        recorded: Recorded::begin(&job.limits, now_ms()),
    };
    if let Some((document, kept)) = &mut work.moves {
        document.save(&work.ctx.writer, kept, &moves).await?;
    }
    work.heard(Act::BeginMoves, Heard::Begun, None).await
}

/// Makes one pass over the moves of a request that run.
pub(super) async fn drive_own(work: &mut Work, orders: Orders) -> Result<Told, RebalanceError> {
    let (heard, executor) = match (&work.site, &mut work.moves) {
        (Some(site), Some((document, kept))) => {
            drive(&work.ctx, site, (document, kept), orders).await?
        }
        _ => (Heard::NotAsked, None),
    };
    Ok(Told { executor, ..work.heard(Act::Drive(orders), heard, None).await? })
}

/// Makes one pass over moves that run. Returns what was heard, and the progress in the terms of Cruise Control.
pub(crate) async fn drive(
    ctx: &Context,
    site: &Site,
    (document, kept): (&Document, &mut Kept<Moves>),
    orders: Orders,
) -> Result<(Heard, Option<Value>), RebalanceError> {
    let access = site.access.as_ref();
    let clients = access.and_then(|access| Some((access.brokers.as_ref()?, &access.controllers)));
    let (Some(moves), Some((brokers, controllers))) = (kept.value.clone(), clients) else {
        return Ok((Heard::NotAsked, None));
    };
    let at = Document::of_job(&ctx.client, &site.kafka, &moves.key())?;
    let job: Option<Job> = at.get(&moves.key()).await?;
    let instructions = Instructions {
        claimed: Some(orders.claimed),
        stop: orders.stops(job.is_some()),
        hold: orders.hold,
        closed: site.closed.clone(),
        now_ms: now_ms(),
    };
    let job = job.unwrap_or_default();
    let reach = Reach { brokers, controllers, writer: &ctx.writer };
    let mut store = Keep { writer: &ctx.writer, document, kept, moves: moves.clone() };
    let passed = match execute::pass(&reach, &job, &moves.recorded, &instructions, &mut store).await
    {
        Ok(passed) => passed,
        Err(error @ ExecuteError::Record(_)) => return Err(error.into()),
        Err(error @ ExecuteError::Act { .. }) => {
            // Kafka is busy, or a broker is away. What was recorded is done in the next pass.
            tracing::info!("moves of {}: {}", moves.by.name, chain(&error));
            // A throttle that cannot be reverted has to be seen.
            ctx.writer.metrics().moves_failed(&site.names, &store.moves.recorded);
            return Ok((Heard::Passed(None), None));
        }
    };
    for refused in &passed.refused {
        tracing::info!("moves of {}: cannot {}: {}", moves.by.name, refused.what, refused.refusal);
    }
    for unread in &passed.unread {
        tracing::debug!("moves of {}: {unread}", moves.by.name);
    }
    ctx.writer.metrics().moved(&site.names, &passed.recorded, &passed.progress);
    let executor = executor_state(&passed.recorded, &passed.progress);
    if passed.recorded.phase == Moving::Ended && moves.parts > 0 {
        at.drop_parts(&ctx.writer, moves.parts).await?;
    }
    Ok((Heard::Passed(Some((passed.event.is_some(), passed.progress))), Some(executor)))
}

/// Keeps how far moves are, in the note of the cluster.
struct Keep<'a> {
    writer: &'a Writer,
    document: &'a Document,
    kept: &'a mut Kept<Moves>,
    moves: Moves,
}

impl execute::Store for Keep<'_> {
    type Error = StoreError;

    async fn save(&mut self, recorded: &Recorded) -> Result<(), StoreError> {
        self.moves.recorded.clone_from(recorded);
        self.document.save(self.writer, self.kept, &self.moves).await
    }
}

/// What moves do, in the words in which Cruise Control tells it.
fn executor_state(recorded: &Recorded, progress: &Progress) -> Value {
    const MB: u64 = 1 << 20;
    let state = match recorded.phase {
        Moving::Moving => "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS",
        Moving::Shifting => "INTRA_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS",
        Moving::Electing => "LEADER_MOVEMENT_TASK_IN_PROGRESS",
        Moving::Stopping | Moving::Restoring => "STOPPING_EXECUTION",
        Moving::Ended => "NO_TASK_IN_PROGRESS",
    };
    json!({
        "state": state,
        "numTotalPartitionMovements": progress.moves_total,
        "numFinishedPartitionMovements": progress.moves_done,
        "numInProgressPartitionMovements": progress.moves_in_flight,
        "numPendingPartitionMovements":
            progress.moves_total.saturating_sub(progress.moves_done + progress.moves_in_flight),
        "finishedDataMovement": progress.bytes_done / MB,
        "totalDataToMove": progress.bytes_total / MB,
    })
}

/// Stops moves whose request is gone, or is another cluster's by now. Both are read again.
pub(crate) async fn drive_unclaimed(ctx: &Context, site: &Site) -> Result<(), RebalanceError> {
    let document = Document::of_moves(&ctx.client, &site.kafka)?;
    let mut kept: Kept<Moves> = document.load().await?;
    let Some(moves) = kept.value.as_ref().filter(|moves| !moves.is_over()) else {
        return Ok(());
    };
    let api: Api<api::KafkaRebalance> = Api::namespaced(ctx.client.clone(), &site.names.namespace);
    let found = api.get_opt(&moves.by.name).await;
    let found = found.map_err(|error| RebalanceError::Read(Box::new(error)))?;
    if moves.is_claimed(&site.kafka, &found) {
        return Ok(());
    }
    drive(ctx, site, (&document, &mut kept), Orders::UNCLAIMED).await?;
    Ok(())
}
