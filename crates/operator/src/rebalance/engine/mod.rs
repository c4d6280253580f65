//! What makes plans and carries them out: our own engine, or a Cruise Control that is already there.
//!
//! What is asked of which engine, and what its answers mean, [`control::rebalance::request`] decides. What was asked of
//! one is heard of from it, also after a restart: each remembers by the attempt of the request.

pub(crate) mod cruise_control;
pub(crate) mod native;
mod plan;

use control::annotations::Annotation;
use control::rebalance::request::answers::{self, Heard, PlanChange};
use control::rebalance::request::{Act, Answer};
use serde_json::Value;

use super::RebalanceError;
use super::request::Work;
use super::store::ProposalRecord;
pub(crate) use cruise_control::CruiseControl;

/// The annotation of a `Kafka` that chooses the engine.
pub(crate) const ENGINE: &str = Annotation::Engine.name();

/// What came of an act.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What it means.
    pub(crate) answer: Answer,
    /// How far the moves are, in the words of Cruise Control.
    pub(crate) executor: Option<Value>,
}

impl Told {
    /// The facts have changed, and nothing was done.
    pub(crate) fn dropped() -> Self {
        Self { answer: Answer { changed: true, ..Answer::default() }, executor: None }
    }
}

impl Work {
    /// Records what the answer to an act changes. `proposal` is the plan that was heard of, if there is one.
    async fn heard(
        &mut self,
        act: Act,
        heard: Heard,
        proposal: Option<ProposalRecord>,
    ) -> Result<Told, RebalanceError> {
        let attempt = self.record.request.attempt;
        let change = answers::after(act, self.record.facts().session(), heard);
        match change.plan {
            PlanChange::Kept => {}
            PlanChange::Made => self.record.proposal = proposal,
            PlanChange::Failed(failure) => {
                self.record.proposal = Some(ProposalRecord::failed(attempt, failure));
            }
            PlanChange::Forgotten => self.record.proposal = None,
        }
        if let Some(session) = change.session {
            self.record.session = Some(session);
        }
        self.save().await?;
        Ok(Told { answer: change.answer, executor: None })
    }
}

/// Does what was decided.
pub(crate) async fn act(work: &mut Work, act: Act) -> Result<Told, RebalanceError> {
    match act {
        Act::Drive(orders) => native::drive_own(work, orders).await,
        Act::MakePlan => native::propose(work).await,
        Act::BeginMoves => native::begin(work).await,
        Act::AskPlan | Act::AskMoves | Act::AskProgress | Act::AskStop => {
            cruise_control::act(work, act).await
        }
    }
}
