//! One pass over one request: observe, decide, record, take the annotation away, act, and report.

use std::time::Duration;

use api::names::CLUSTER_LABEL;
use api::{Kafka, KafkaRebalance};
use control::rebalance::request::{Act, Needs, Record, Snapshot, decide, needs};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{COMMAND, observe, progress, status};
use crate::context::Context;
use crate::metrics::Rebalance;
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::{self, CruiseControl};
use crate::rebalance::site::Site;
use crate::rebalance::store::{Document, Kept, Moves, RequestRecord, StoreError};
use crate::time::now_ms;

/// What a decision needs first says which facts it needs next, and that is all.
const ROUNDS_MAX: usize = 3;

/// A pass over one request.
pub(crate) struct Work {
    pub(crate) ctx: Context,
    pub(crate) kr: KafkaRebalance,
    /// Its cluster, if there is one.
    pub(crate) kafka: Option<Kafka>,
    /// What is known of that.
    pub(crate) site: Option<Site>,
    /// What is remembered of the request.
    pub(crate) record: RequestRecord,
    kept: Kept<RequestRecord>,
    document: Document,
    /// The moves of its cluster.
    pub(crate) moves: Option<(Document, Kept<Moves>)>,
    /// The Cruise Control of its cluster, if that is the engine and can be asked.
    pub(crate) cruise_control: Option<CruiseControl>,
}

/// Makes one pass. Returns when to look again.
pub(super) async fn run(
    ctx: &Context,
    kr: KafkaRebalance,
    written: &Value,
) -> Result<Duration, RebalanceError> {
    let mut work = Work::read(ctx, kr).await?;
    let snapshot = work.observe(written).await?;
    let mut decision = decide(&snapshot, work.known().as_ref());
    if let Some(record) = &decision.record {
        work.record.decided(record);
        work.save().await?;
    }
    if let Some(event) = decision.event {
        let (of, phase) = (work.of(), work.record.request.phase.name());
        tracing::info!("KafkaRebalance {of}: {event:?}: {phase}");
    }
    if decision.consume {
        work.consume().await?;
    }
    let told = match decision.act {
        Some(act) if work.holds(act, &snapshot, written).await? => {
            engine::act(&mut work, act).await?
        }
        Some(_) => engine::Told::dropped(),
        None => engine::Told::default(),
    };
    decision.hear(&work.record.facts(), &told.answer);
    work.measure();
    if let Some(report) = &decision.report {
        let shown = progress::show(&work, report, &told).await?;
        status::write(&work, report, shown.as_deref()).await?;
    }
    Ok(Duration::from_millis(decision.look_again_ms))
}

impl Work {
    async fn read(ctx: &Context, kr: KafkaRebalance) -> Result<Self, RebalanceError> {
        let document = Document::of_request(&ctx.client, &kr)?;
        let kept: Kept<RequestRecord> = document.load().await?;
        Ok(Self {
            ctx: ctx.clone(),
            kr,
            kafka: None,
            site: None,
            record: kept.value.clone().unwrap_or_default(),
            kept,
            document,
            moves: None,
            cruise_control: None,
        })
    }

    /// Publishes the state of the request as metrics.
    fn measure(&self) {
        let cluster = self.record.cluster.clone();
        let Some(cluster) = cluster.or_else(|| self.kr.labels().get(CLUSTER_LABEL).cloned()) else {
            return;
        };
        let plan = self.record.proposal.as_ref();
        let score = |name: &str| plan.and_then(|plan| plan.summary[name].as_f64());
        let balancedness =
            (score("onDemandBalancednessScoreBefore"), score("onDemandBalancednessScoreAfter"));
        let phase = self.record.request.phase.name();
        let rebalance = Rebalance { cluster, phase, balancedness };
        self.ctx.writer.metrics().rebalance(&self.namespace(), &self.kr.name_any(), rebalance);
    }

    /// Reads what a decision needs.
    async fn observe(&mut self, written: &Value) -> Result<Snapshot, RebalanceError> {
        let mut snapshot = Snapshot {
            // From before the first read: a fact must not seem younger than it is.
            now_ms: now_ms(),
            interval_ms: u64::try_from(self.ctx.settings.interval.as_millis()).unwrap_or(u64::MAX),
            resource: observe::resource(&self.kr, written),
            ..Snapshot::default()
        };
        for _ in 0..ROUNDS_MAX {
            let needs = needs(&snapshot, self.known().as_ref());
            if needs == Needs::default() {
                break;
            }
            observe::read(self, &needs, &mut snapshot).await?;
        }
        Ok(snapshot)
    }

    /// Whether an act may be sent. If its facts are old, they are read once more, and a decision on them has to ask for
    /// it too. The next pass decides anew about one that is dropped.
    async fn holds(
        &mut self,
        act: Act,
        snapshot: &Snapshot,
        written: &Value,
    ) -> Result<bool, RebalanceError> {
        if !act.is_stale(snapshot, now_ms()) {
            return Ok(true);
        }
        let snapshot = self.observe(written).await?;
        let holds = decide(&snapshot, self.known().as_ref()).act == Some(act);
        if !holds {
            tracing::info!("KafkaRebalance {}: {act:?} dropped: the facts have changed", self.of());
        }
        Ok(holds)
    }

    /// The record that is stored, with what was read since then, as decisions see it.
    fn known(&self) -> Option<Record> {
        self.kept.value.as_ref().map(|_| self.record.facts())
    }

    /// The request, for logs.
    pub(crate) fn of(&self) -> String {
        format!("{}/{}", self.namespace(), self.kr.name_any())
    }

    pub(crate) fn namespace(&self) -> String {
        self.kr.namespace().unwrap_or_default()
    }

    /// Its uid; a resource that was read has one.
    pub(crate) fn uid(&self) -> String {
        self.kr.uid().unwrap_or_default()
    }

    /// The moves that run on the cluster, or ran last.
    pub(crate) fn moves(&self) -> Option<&Moves> {
        self.moves.as_ref()?.1.value.as_ref()
    }

    /// Writes what is remembered, if it has changed, before anything is done that rests on it.
    pub(crate) async fn save(&mut self) -> Result<(), StoreError> {
        self.document.save(&self.ctx.writer, &mut self.kept, &self.record).await
    }

    /// The API of requests.
    pub(crate) fn api(&self) -> Api<KafkaRebalance> {
        Api::namespaced(self.ctx.client.clone(), &self.namespace())
    }

    /// Takes the annotation away, if the resource is still the one that was read.
    async fn consume(&self) -> Result<(), RebalanceError> {
        let patch = json!({ "metadata": {
            "annotations": { COMMAND: null },
            "resourceVersion": self.kr.resource_version(),
        } });
        self.ctx.writer.patch(&self.api(), &self.kr.name_any(), &patch, Some(&self.kr)).await?;
        Ok(())
    }
}
