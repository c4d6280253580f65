//! Reports of agents, many in one transaction.
//!
//! Each report is read with its data plane, `fleet-control` decides what it means, and the answer is stored. All that
//! have come while the last transaction was written go into the next one, so that the disk is waited for once
//! for many. Nobody is answered before the transaction is on disk.
//!
//! 1. The reports of one data plane are handled one after the other, in this process and in others.
//! 2. A report with a number that is not above the last one changes nothing.
//! 3. What is wanted of a provider is only recorded here; a worker asks for it.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet_control::{
    Capacity, NodeReason, NodeStep, PlaneFacts, Report, is_complete, judge_report,
};
use tokio::sync::{mpsc, oneshot};

use crate::facts::NodeRules;
use crate::identity::account_name;
use crate::store::{
    DecisionKind, Demand, NewDecision, Plane, Store, StoreError, StoredReport, Tx, now_ms,
};

/// As many as a transaction should not be larger than.
const BATCH_MAX: usize = 256;

/// Reports that may wait for a transaction. Beyond that, agents wait.
const QUEUE: usize = 4096;

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// It was stored with what follows from it.
    Stored,
    /// A later one is stored already, or this very one.
    Old,
    /// It is outside the manager's bounds, and changes nothing.
    Refused(String),
    /// There is no such data plane.
    NoSuchPlane,
}

/// A report as it came in.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its number; one that is not above the last changes nothing.
    pub sequence: Option<i64>,
    /// The report.
    pub report: Report,
    /// What the agent says about unsuitable nodes, for people.
    pub message: String,
}

struct Job {
    plane: String,
    received: Received,
    answer: oneshot::Sender<Result<ReportOutcome, StoreError>>,
}

/// Hands reports to the task that writes them. Clones share the task, which ends with the last of them.
#[derive(Debug, Clone)]
pub struct ReportWriter {
    jobs: mpsc::Sender<Job>,
}

impl ReportWriter {
    /// Starts the task.
    #[must_use]
    pub fn start(store: Store, rules: NodeRules) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(write_batches(store, rules, queue));
        Self { jobs }
    }

    /// Stores a report, with what follows from it. Returns when it is on disk.
    ///
    /// # Errors
    /// If it was not stored, or if nobody can say.
    pub async fn write(
        &self,
        plane: &str,
        received: Received,
    ) -> Result<ReportOutcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job { plane: plane.to_owned(), received, answer };
        self.jobs.send(job).await.map_err(|_| StoreError::Stopped)?;
        answered.await.map_err(|_| StoreError::Stopped)?
    }
}

async fn write_batches(store: Store, rules: NodeRules, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    while queue.recv_many(&mut jobs, BATCH_MAX).await > 0 {
        // In the order of ids, so that two replicas never wait for each other's rows. The sort is stable,
        // so the reports of one data plane stay in their order.
        jobs.sort_by(|a, b| a.plane.cmp(&b.plane));
        match write_batch(&store, &rules, &jobs).await {
            Ok(outcomes) => {
                for (job, outcome) in jobs.drain(..).zip(outcomes) {
                    let _ = job.answer.send(Ok(outcome));
                }
            }
            Err(error) => {
                tracing::warn!(error = %crate::chain(&error), reports = jobs.len(), "reports were not stored");
                for job in jobs.drain(..) {
                    let _ = job.answer.send(Err(StoreError::Stopped));
                }
                // Whatever is wrong with the database, it is not mended by being asked more often.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn write_batch(
    store: &Store,
    rules: &NodeRules,
    jobs: &[Job],
) -> Result<Vec<ReportOutcome>, StoreError> {
    let mut tx = store.begin().await?;
    let demand = tx.demand().await?;
    // Statements cost more than what they say, so all data planes are read by few, and written by few.
    let mut ids: Vec<_> = jobs.iter().map(|job| job.plane.as_str()).collect();
    ids.dedup();
    let mut planes = tx.hold_planes(&ids).await?;
    let mut changed = BTreeSet::new();
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        let outcome = match planes.get_mut(&job.plane) {
            Some(plane) => write_one(&mut tx, (rules, &demand), plane, job).await?,
            None => ReportOutcome::NoSuchPlane,
        };
        if matches!(outcome, ReportOutcome::Stored | ReportOutcome::Refused(_)) {
            changed.insert(job.plane.as_str());
        }
        outcomes.push(outcome);
    }
    planes.retain(|id, _| changed.contains(id.as_str()));
    tx.save_planes(&planes.values().collect::<Vec<_>>()).await?;
    tx.commit().await?;
    Ok(outcomes)
}

async fn write_one(
    tx: &mut Tx,
    (rules, demand): (&NodeRules, &Demand),
    plane: &mut Plane,
    job: &Job,
) -> Result<ReportOutcome, StoreError> {
    let Received { sequence, report, message } = &job.received;
    if let (Some(last), Some(new)) = (plane.sequence, *sequence)
        && new <= last
    {
        return Ok(ReportOutcome::Old);
    }
    let now = now_ms();
    let facts = facts(tx, (rules, demand), (plane, report), now).await?;
    let judged = judge_report(&facts, report);
    if !judged.refused.is_empty() {
        let why: Vec<_> = judged.refused.iter().map(ToString::to_string).collect();
        return refuse(tx, plane, why.join("; ")).await;
    }
    plane.last_seen = Some(now);
    plane.sequence = sequence.or(plane.sequence);
    if plane.state().accepts_reports() {
        plane.report = Some(StoredReport::from(report));
        let broken: Vec<_> = judged.broken.iter().map(ToString::to_string).collect();
        plane.broken = broken.join("; ");
        plane.step_reason = judged.step_reason.to_string();
        if is_complete(&plane.provider_nodes(now), report.nodes.current) {
            plane.nodes_reached = plane.nodes_wanted;
        }
        let mut reason = judged.state_reason.to_string();
        if report.unsuitable.is_some() && !message.is_empty() {
            reason = format!("{reason}: {message}");
        }
        let unsuitable = report.unsuitable.map(|_| reason.clone()).unwrap_or_default();
        let is_news = !unsuitable.is_empty() && plane.unsuitable != unsuitable;
        if is_news && judged.state == plane.state() {
            tx.decide(no_change(plane, (judged.state_reason.code(), &reason))).await?;
        }
        plane.unsuitable = unsuitable;
        let because = (judged.state_reason.code(), reason.as_str());
        tx.change_state(DecisionKind::State, plane, judged.state, because).await?;
        let step = (judged.step, judged.step_reason);
        change_nodes(tx, plane, step, demand.dry_run).await?;
    }
    Ok(ReportOutcome::Stored)
}

/// A decision that leaves the state as it is, for a reason that a person should know.
fn no_change<'a>(plane: &'a Plane, (code, reason): (&'static str, &str)) -> NewDecision<'a> {
    NewDecision {
        plane: Some(&plane.id),
        region: None,
        kind: DecisionKind::State,
        was: plane.state().to_string(),
        becomes: plane.state().to_string(),
        code,
        reason: reason.to_owned(),
        dry_run: false,
    }
}

/// Audits a refused report, once for each reason: an agent repeats itself every minute.
async fn refuse(tx: &mut Tx, plane: &mut Plane, why: String) -> Result<ReportOutcome, StoreError> {
    let broken = format!("refused: {why}");
    if plane.broken != broken {
        tracing::warn!(plane = plane.id, reason = why, "report refused");
        let path = format!("{}/agent-clusters/{}/status", crate::http::BASE, plane.id);
        tx.audit(&account_name(&plane.id), "PUT", &path, 400).await?;
        plane.broken = broken;
    }
    Ok(ReportOutcome::Refused(why))
}

async fn facts(
    tx: &mut Tx,
    (rules, demand): (&NodeRules, &Demand),
    (plane, report): (&Plane, &Report),
    now: i64,
) -> Result<PlaneFacts, StoreError> {
    let mut reserved = demand.reserved.get(&plane.id).copied().unwrap_or_default();
    if reserved != Capacity::default() && plane.state().accepts_reports() {
        reserved = tx.count_reported(&plane.id).await?;
    }
    let waits = |multi_az| {
        let key = (plane.cloud_provider.clone(), plane.region.clone(), multi_az);
        demand.waiting.contains(&key)
    };
    // Some agents do not compute the minimum; then the Kafkas that are placed there count.
    let kafkas = match report.nodes.current_work_load_minimum {
        0 => Some(tx.kafkas_on(&plane.id).await?),
        _ => None,
    };
    Ok(PlaneFacts {
        reserved,
        queued: demand.given.get(&plane.id).copied().filter(|_| !plane.draining),
        // A Kafka without zones may come to where there are some, but not the other way round.
        others_wait: !plane.draining && (waits(false) || (plane.multi_az && waits(true))),
        kafkas,
        ..rules.facts(plane, report.nodes.current, now)
    })
}

async fn change_nodes(
    tx: &mut Tx,
    plane: &mut Plane,
    (step, reason): (NodeStep, NodeReason),
    dry_run: bool,
) -> Result<(), StoreError> {
    let Some(target) = step.target().map(i64::from) else { return Ok(()) };
    let was = plane.nodes_wanted.map(|nodes| nodes.to_string()).unwrap_or_default();
    let decision = NewDecision {
        plane: Some(&plane.id),
        region: None,
        kind: DecisionKind::Nodes,
        was,
        becomes: target.to_string(),
        code: reason.code(),
        reason: reason.to_string(),
        dry_run,
    };
    tx.decide(decision).await?;
    if !dry_run {
        plane.want_nodes(target, false);
    }
    Ok(())
}
