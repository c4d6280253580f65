//! What makes plans and carries them out: our own engine, or a Cruise Control that is already there.
//!
//! Both are asked the same four things. What was asked of one is heard of from it, also after a restart: each
//! remembers by the attempt of the request.

mod cruise_control;
pub(crate) mod native;
mod plan;

use control::rebalance::execution::Progress;
use control::rebalance::request::{Duty, Execution, Hindrance, Proposal};
use kube::ResourceExt as _;
use serde_json::Value;

use super::RebalanceError;
use super::request::Work;

/// The annotation of a `Kafka` that chooses the engine.
pub(crate) const ENGINE: &str = "gregor.io/engine";

/// Who makes plans and carries them out.
pub(crate) enum Engine {
    /// We do, in this process.
    Native,
    /// A Cruise Control that somebody else runs.
    CruiseControl(cruise_control::CruiseControl),
}

/// What an engine says of a request.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) proposal: Option<Proposal>,
    pub(crate) execution: Option<Execution>,
    pub(crate) others_running: Option<bool>,
}

/// What came of asking it for something, for people.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What it said of the plan.
    pub(crate) proposal: Option<Proposal>,
    /// How far the moves are.
    pub(crate) progress: Option<Progress>,
    /// The same, in the words of Cruise Control.
    pub(crate) executor: Option<Value>,
    /// What the engine knows the request by.
    pub(crate) session: Option<String>,
    /// What people should know, with a reason.
    pub(crate) warnings: Vec<(&'static str, String)>,
    /// Whether there is news, so that looking again at once is worth it.
    pub(crate) changed: bool,
    /// Whether something is being stopped.
    pub(crate) stopping: bool,
}

impl Engine {
    /// The engine of a request's cluster.
    pub(crate) async fn of(work: &Work) -> Result<Self, RebalanceError> {
        let chosen = work.kafka.as_ref().and_then(|kafka| kafka.annotations().get(ENGINE));
        match (chosen.map(String::as_str), &work.kafka) {
            (Some("cruise-control"), Some(kafka)) => {
                let engine = cruise_control::CruiseControl::of(&work.ctx, kafka).await?;
                Ok(Self::CruiseControl(engine))
            }
            _ => Ok(Self::Native),
        }
    }

    /// What is in the way of the engine, if the user has to change something.
    pub(crate) fn hindrance(&self) -> Option<Hindrance> {
        match self {
            Self::Native => None,
            Self::CruiseControl(engine) => engine.refusal().map(Hindrance::CruiseControlUrl),
        }
    }

    /// What the engine says of the request.
    pub(crate) async fn look(&self, work: &mut Work) -> Result<Seen, RebalanceError> {
        match self {
            Self::Native => native::look(work).await,
            Self::CruiseControl(engine) => engine.look(work).await,
        }
    }

    /// Does what is asked of the engine. Moves of our own are seen to their end whatever the engine is now.
    pub(crate) async fn act(&self, work: &mut Work, duty: Duty) -> Result<Told, RebalanceError> {
        if let Some(told) = native::drive_own(work, duty).await? {
            return Ok(told);
        }
        match self {
            Self::Native => native::act(work, duty).await,
            Self::CruiseControl(engine) => engine.act(work, duty).await,
        }
    }
}
