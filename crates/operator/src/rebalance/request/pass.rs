//! One pass over one request: observe, decide, record, take the annotation away, act, and tell.

use std::time::Duration;

use api::names::CLUSTER_LABEL;
use api::{Kafka, KafkaRebalance};
use control::rebalance::request::{self, Decision, Duty, Facts, Phase, Warning};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{DEBOUNCE, WISH, observe, progress, status};
use crate::context::Context;
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::{Engine, Told};
use crate::rebalance::site::Site;
use crate::rebalance::store::{Kept, Moves, Place, RequestRecord, StoreError};
use crate::time::now_ms;

/// How soon a request is looked at again while the engine works for it.
const BUSY: Duration = Duration::from_secs(1);
/// And while it waits for something that no event announces.
const LATER: Duration = Duration::from_secs(5);

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
    place: Place,
    /// The moves of its cluster.
    pub(crate) moves: Option<(Place, Kept<Moves>)>,
}

/// Makes one pass. Returns when to look again.
pub(super) async fn run(
    ctx: &Context,
    kr: KafkaRebalance,
    written: &Value,
) -> Result<Duration, RebalanceError> {
    let Some(mut work) = Work::read(ctx, kr).await? else { return Ok(ctx.settings.interval) };
    let engine = Engine::of(&work).await?;
    let facts = work.facts(&engine).await?;
    let mut decision = request::decide(&work.record.request, &facts);
    work.record.request = decision.recorded.clone();
    work.save().await?;
    if let Some(event) = decision.event {
        let (of, phase) = (work.of(), work.record.request.phase.name());
        tracing::info!("KafkaRebalance {of}: {event:?}: {phase}");
    }
    if decision.consume {
        work.consume().await?;
        return Ok(DEBOUNCE);
    }
    let told = engine.act(&mut work, decision.duty).await?;
    if let Some(request::Proposal::TooLittleKnown(what)) = &told.proposal {
        decision.warnings.push(Warning::TooLittleKnown(what.clone()));
    }
    if !decision.ignored {
        let shown = progress::show(&work, &told).await?;
        status::write(&work, written, &decision, (shown.as_deref(), &told)).await?;
    }
    Ok(work.next(&decision, &facts, &told))
}

impl Work {
    /// Reads what there is; `None` if there is nothing to do about it: templates, and what goes before anything
    /// was begun.
    async fn read(ctx: &Context, kr: KafkaRebalance) -> Result<Option<Self>, RebalanceError> {
        let namespace = kr.namespace().unwrap_or_default();
        let place = Place::of_request(&ctx.client, &kr)?;
        let kept: Kept<RequestRecord> = place.load().await?;
        let idle = observe::template(&kr) || kr.metadata.deletion_timestamp.is_some();
        if idle && kept.value.is_none() {
            return Ok(None);
        }
        let label = kr.labels().get(CLUSTER_LABEL).cloned();
        let remembered = kept.value.as_ref().and_then(|record| record.cluster.clone());
        let kafka = match label.or(remembered) {
            None => None,
            Some(cluster) => {
                let api: Api<Kafka> = Api::namespaced(ctx.client.clone(), &namespace);
                let found = api.get_opt(&cluster).await;
                found.map_err(|error| RebalanceError::Read(Box::new(error)))?
            }
        };
        let (moves, site) = match &kafka {
            None => (None, None),
            Some(kafka) => {
                let place = Place::of_moves(&ctx.client, kafka)?;
                let kept = place.load().await?;
                (Some((place, kept)), Site::read(ctx, kafka).await?)
            }
        };
        let mut work = Self {
            ctx: ctx.clone(),
            kr,
            kafka,
            site,
            record: RequestRecord::default(),
            kept,
            place,
            moves,
        };
        work.record = work.recorded();
        Ok(Some(work))
    }

    /// The record, rebuilt if there is none, and begun anew if the request is for another cluster now.
    fn recorded(&self) -> RequestRecord {
        let cluster = self.cluster();
        let record = match &self.kept.value {
            Some(record) => record.clone(),
            None => observe::rebuild(&self.kr, self.moves()),
        };
        let moved = record.cluster.is_some() && cluster.is_some() && record.cluster != cluster;
        if !moved {
            let cluster = record.cluster.clone().or(cluster);
            return RequestRecord { cluster, ..record };
        }
        // The attempts go on, so that nothing of the other cluster is taken for this one's.
        let attempt = record.request.attempt;
        let request = request::Recorded { attempt, ..request::Recorded::default() };
        RequestRecord { request, cluster, ..RequestRecord::default() }
    }

    fn cluster(&self) -> Option<String> {
        self.kr.labels().get(CLUSTER_LABEL).cloned()
    }

    /// The request, for people.
    pub(crate) fn of(&self) -> String {
        format!("{}/{}", self.kr.namespace().unwrap_or_default(), self.kr.name_any())
    }

    /// Its uid; a resource that was read has one.
    pub(crate) fn uid(&self) -> String {
        self.kr.uid().unwrap_or_default()
    }

    /// The moves that run on the cluster, or ran last.
    pub(crate) fn moves(&self) -> Option<&Moves> {
        self.moves.as_ref()?.1.value.as_ref()
    }

    /// Whether these moves are those of this attempt.
    pub(crate) fn is_own(&self, moves: &Moves) -> bool {
        moves.by.uid == self.uid() && moves.by.attempt == self.record.request.attempt
    }

    /// Writes what is remembered, if it has changed, before anything is done that rests on it.
    pub(crate) async fn save(&mut self) -> Result<(), StoreError> {
        self.place.save(&self.ctx.writer, &mut self.kept, &self.record).await
    }

    /// The API of requests.
    pub(crate) fn api(&self) -> Api<KafkaRebalance> {
        Api::namespaced(self.ctx.client.clone(), &self.kr.namespace().unwrap_or_default())
    }

    async fn facts(&mut self, engine: &Engine) -> Result<Facts, RebalanceError> {
        let cluster = self.cluster();
        let hindrance = observe::hindrance(&self.kr.spec, cluster.as_deref(), self.kafka.as_ref());
        let hindrance = hindrance.or_else(|| engine.hindrance());
        let seen = engine.look(self).await?;
        Ok(Facts {
            annotation: observe::wish(&self.kr),
            auto_approval: observe::auto_approval(&self.kr),
            template: observe::template(&self.kr),
            paused: observe::paused(&self.kr),
            deleting: self.kr.metadata.deletion_timestamp.is_some(),
            generation: self.kr.metadata.generation.unwrap_or_default(),
            hindrance: Some(hindrance),
            proposal: seen.proposal,
            execution: seen.execution,
            others_running: seen.others_running,
            now_ms: now_ms(),
        })
    }

    /// Takes the annotation away, if the resource is still the one that was read.
    async fn consume(&self) -> Result<(), RebalanceError> {
        let patch = json!({ "metadata": {
            "annotations": { WISH: null },
            "resourceVersion": self.kr.resource_version(),
        } });
        self.ctx.writer.patch(&self.api(), &self.kr.name_any(), &patch, Some(&self.kr)).await?;
        Ok(())
    }

    /// When to look again.
    fn next(&self, decision: &Decision, facts: &Facts, told: &Told) -> Duration {
        let request = &self.record.request;
        let runs = self.moves().is_some_and(|moves| moves.by.uid == self.uid() && !moves.is_over());
        if decision.event.is_some() || told.changed {
            return DEBOUNCE;
        }
        match request.phase {
            _ if runs => BUSY,
            Phase::New | Phase::PendingProposal | Phase::Rebalancing => BUSY,
            Phase::ProposalReady => match facts.others_running {
                Some(false) => self.ctx.settings.interval,
                Some(true) | None => LATER,
            },
            Phase::NotReady if request::recovers(request) => LATER,
            Phase::Stopped | Phase::NotReady | Phase::Ready | Phase::ReconciliationPaused => {
                match decision.duty {
                    Duty::Stop if told.stopping => BUSY,
                    Duty::Rest | Duty::Propose | Duty::Execute | Duty::Hold | Duty::Stop => {
                        self.ctx.settings.interval
                    }
                }
            }
        }
    }
}
