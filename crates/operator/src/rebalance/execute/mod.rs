//! Carrying out a plan: one pass, which observes, asks
//! [`control::rebalance::execution`], records, and acts.
//!
//! 1. A pass never waits. What is awaited, the next pass looks for.
//! 2. What was decided is recorded before anything is done, so that a crash at any line only repeats
//!    what can be repeated: the record has the values that were there before a throttle, and the moves
//!    that may have been begun.
//! 3. Every change goes through the one door, [`Writer::kafka`]: fenced, and an act of its own.
//! 4. What could not be read is not in the facts, and is named for people.
//! 5. Facts that are old before the first act are read once more, however long that takes. The first request of a pass
//!    that begins or cancels moves is then sent; further ones only while the facts are fresh.

mod act;
mod observe;

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;

use control::rebalance::execution::{Decision, Event, Job, Progress, Recorded, decide};
use kafka_admin::{Admin, Refusal};
use model::NodeId;

use crate::time::now_ms;
use crate::write::Writer;
pub use act::{Done, act};
pub use observe::Observed;
use observe::observe;

/// The ways into a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    /// Through the brokers: nearly everything.
    pub brokers: &'a Admin,
    /// Through the controllers: what is set on topics, and on brokers that are down.
    pub controllers: &'a Admin,
    /// The door for everything that changes something.
    pub writer: &'a Writer,
}

/// What a pass over moves is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// Whether there is still a request for it; `None` if that is not known.
    pub claimed: Option<bool>,
    /// Whether it is to stop: what is in flight is cancelled.
    pub stop: bool,
    /// Whether it is to begin nothing new.
    pub hold: bool,
    /// Brokers that are to get nothing, because they leave.
    pub closed: BTreeSet<NodeId>,
    /// The time, in ms since 1970: it is compared over restarts.
    pub now_ms: u64,
}

impl Instructions {
    /// A pass over something that is wanted and goes on.
    #[must_use]
    pub fn go_on(now_ms: u64) -> Self {
        Self { claimed: Some(true), stop: false, hold: false, closed: BTreeSet::new(), now_ms }
    }
}

/// Where a pass keeps what must not be forgotten.
pub trait Store: Send {
    /// Why it could not be kept.
    type Error: Error + Send + Sync + 'static;

    /// Keeps it. When this returns, a restart finds it.
    fn save(&mut self, recorded: &Recorded)
    -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What Kafka would not do. The next pass asks again; what others were asked for is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What was asked.
    pub what: String,
    /// What Kafka said.
    pub refusal: Refusal,
}

/// Why a pass ended early. Whatever was done is in the record, and the next pass goes on.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The record was not kept: nothing was done.
    #[error("the acts were not recorded, so they were not carried out")]
    Record(#[source] Box<dyn Error + Send + Sync>),
    /// Something was not done, or may not have been.
    #[error("cannot {what}")]
    Act {
        /// What.
        what: String,
        /// Why not.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// What a pass came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// What is kept for the next pass. It is stored.
    pub recorded: Recorded,
    /// What happened, if anything.
    pub event: Option<Event>,
    /// How far it is.
    pub progress: Progress,
    /// What was asked of Kafka, acts that were sent together as one each.
    pub acts: usize,
    /// What Kafka would not do.
    pub refused: Vec<Refused>,
    /// What could not be read, for people.
    pub unread: Vec<String>,
}

/// Makes one pass. `recorded` is what the last one left, or [`Recorded::begin`]; the end is
/// [`Phase::Ended`](control::rebalance::execution::Phase::Ended) in what it returns, and
/// [`Recorded::outcome`] says which.
pub async fn pass<S: Store>(
    reach: &Reach<'_>,
    job: &Job,
    recorded: &Recorded,
    instructions: &Instructions,
    store: &mut S,
) -> Result<Passed, ExecuteError> {
    let (mut decision, mut observed) = consider(reach, job, recorded, instructions).await;
    if decision.acts.iter().any(|act| act.is_stale(&observed.facts, now_ms())) {
        // Nothing is recorded or done yet, so another decision takes its place.
        let again = Instructions { now_ms: now_ms(), ..instructions.clone() };
        (decision, observed) = consider(reach, job, recorded, &again).await;
    }
    keep(store, recorded, &decision.recorded).await?;
    let Decision { event, recorded: mut new, acts, reads: _, progress } = decision;
    let done = act(reach, job, &acts, &observed.facts).await;
    // A broker that is away cannot be asked for what it has: that Kafka acknowledged it must do.
    let before = new.clone();
    done.settled.iter().for_each(|broker| new.forget_former(*broker));
    keep(store, &before, &new).await?;
    if let Some(error) = done.error {
        return Err(error);
    }
    let (acts, refused, unread) = (done.acts, done.refused, observed.unread);
    Ok(Passed { recorded: new, event, progress, acts, refused, unread })
}

/// The first half of a pass: reads, and decides. Nothing is changed.
pub async fn consider(
    reach: &Reach<'_>,
    job: &Job,
    recorded: &Recorded,
    instructions: &Instructions,
) -> (Decision, Observed) {
    let mut observed = observe(reach, job, recorded, instructions).await;
    let decision = decide(job, recorded, &observed.facts);
    // What a throttle would be set on is known only now. What it has before is part of the decision.
    if observed.read_settings(reach, recorded, &decision.reads).await {
        return (decide(job, recorded, &observed.facts), observed);
    }
    (decision, observed)
}

async fn keep<S: Store>(
    store: &mut S,
    before: &Recorded,
    new: &Recorded,
) -> Result<(), ExecuteError> {
    if before == new {
        return Ok(());
    }
    store.save(new).await.map_err(|error| ExecuteError::Record(Box::new(error)))
}
