//! What users see of a request: its conditions, its plan, and the entries of its ConfigMap.

use std::collections::BTreeMap;

use super::engine::SessionId;
use super::machine::{Duty, Phase, Recorded};
use super::record::Record;
use super::snapshot::{IgnoredField, Resource};
use super::words::{Reason, Warning};
use crate::rebalance::execution::Progress;

/// An act or an event makes the next pass worth it at once; several events make one pass.
const AT_ONCE_MS: u64 = 100;
/// The pause while the engine works for a request.
const BUSY_MS: u64 = 1_000;
/// The pause while a request waits for something that no event announces.
const LATER_MS: u64 = 5_000;

/// What an engine answers to an act.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What users should know.
    pub warnings: Vec<Warning>,
    /// How far the moves are.
    pub progress: Option<Progress>,
    /// Whether something has changed, so that the next pass finds something to do.
    pub changed: bool,
    /// Whether moves are being stopped.
    pub stopping: bool,
}

/// What to write into the status of a request and into its ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// The conditions: the state, and then warnings.
    pub conditions: Vec<Condition>,
    /// What the engine knows the request by, where that is of interest.
    pub session: Option<String>,
    /// Whether what the plan does is shown.
    pub shows_result: bool,
    /// The entries of the ConfigMap, besides the load of the brokers; `None` leaves it as it is.
    pub entries: Option<BTreeMap<Entry, Content>>,
}

/// A condition that is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: Kind,
    /// Its reason.
    pub reason: Option<Reason>,
    /// Its message.
    pub message: Option<String>,
}

/// The type of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How far the request is.
    State(Phase),
    /// What users should know, without anything being wrong with the request.
    Warning,
}

impl Kind {
    /// The word in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::State(phase) => phase.name(),
            Self::Warning => "Warning",
        }
    }
}

/// An entry of the ConfigMap of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// How many minutes it may still take.
    Minutes,
    /// How much of the data is moved.
    Percent,
    /// What the executor does, as JSON.
    Executor,
}

impl Entry {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minutes => "estimatedTimeToCompletionInMinutes",
            Self::Percent => "completedByteMovementPercentage",
            Self::Executor => "executorState.json",
        }
    }
}

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A number.
    Number(u64),
    /// What the engine says that it does.
    Executor,
    /// What it holds already, if anything.
    Kept,
}

/// What the report rests on besides the record and the answer to the act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Basis {
    pub(super) resource: Resource,
    pub(super) interval_ms: u64,
    /// Whether there was an event.
    pub(super) moved_on: bool,
    pub(super) duty: Duty,
    /// Whether it is a template, which has no status.
    pub(super) ignored: bool,
    pub(super) warnings: Vec<Warning>,
    pub(super) others_running: Option<bool>,
    /// Whether moves of the request run.
    pub(super) runs: bool,
    pub(super) session: SessionId,
    pub(super) shows_unknown: bool,
}

impl Basis {
    pub(super) fn report(&self, record: &Record, answer: &Answer) -> Option<Report> {
        if self.ignored {
            return None;
        }
        let request = &record.request;
        let has_plan = record.plan().is_some_and(|plan| plan.failure.is_none());
        let entries = entries(request.phase, answer.progress.as_ref());
        Some(Report {
            observed_generation: match request.generation {
                0 => self.resource.generation,
                seen => seen,
            },
            conditions: self.conditions(record, answer),
            session: self.session(record),
            shows_result: has_plan && shows_result(request.phase),
            entries: entries.filter(|_| has_plan),
        })
    }

    fn conditions(&self, record: &Record, answer: &Answer) -> Vec<Condition> {
        let unknown = record.plan().map(|plan| plan.unknown.clone()).unwrap_or_default();
        let unknown = Some(unknown).filter(|unknown| self.shows_unknown && !unknown.is_empty());
        let ignored = self.resource.ignored_fields.iter().map(|field| match field {
            IgnoredField::Unhonoured(what) => Warning::UnhonouredField(what.clone()),
            IgnoredField::Unknown(what) => Warning::UnknownField(what.clone()),
        });
        let warnings = self.warnings.iter().chain(&answer.warnings).cloned();
        let warnings = warnings.chain(unknown.map(Warning::PartialKnowledge)).chain(ignored);
        let warn = |warning: Warning| Condition {
            kind: Kind::Warning,
            reason: Some(warning.reason()),
            message: Some(warning.to_string()),
        };
        [state(&record.request)].into_iter().chain(warnings.map(warn)).collect()
    }

    fn session(&self, record: &Record) -> Option<String> {
        let shows = match record.request.phase {
            Phase::PendingProposal | Phase::ProposalReady | Phase::Rebalancing => true,
            Phase::New
            | Phase::Stopped
            | Phase::NotReady
            | Phase::Ready
            | Phase::ReconciliationPaused => false,
        };
        let id = match self.session {
            SessionId::Attempt => Some(format!("{}/{}", self.resource.uid, record.request.attempt)),
            SessionId::Task => {
                let session = record.session();
                session.execution.or(session.proposal)
            }
            SessionId::None => None,
        };
        id.filter(|_| shows)
    }

    /// When to look again.
    pub(super) fn look_again_ms(&self, record: &Record, answer: &Answer) -> u64 {
        if self.moved_on || answer.changed {
            return AT_ONCE_MS;
        }
        let request = &record.request;
        let is_going = self.resource.deleting || self.resource.annotations.is_template();
        match request.phase {
            _ if self.runs => BUSY_MS,
            // Nothing of it runs, and nothing begins any more.
            phase if is_going && phase != Phase::Rebalancing => self.interval_ms,
            Phase::New | Phase::PendingProposal | Phase::Rebalancing => BUSY_MS,
            Phase::ProposalReady if self.others_running != Some(false) => LATER_MS,
            Phase::NotReady if request.recovers() => LATER_MS,
            Phase::Stopped | Phase::NotReady | Phase::Ready | Phase::ReconciliationPaused
                if self.duty == Duty::Stop && answer.stopping =>
            {
                BUSY_MS
            }
            Phase::ProposalReady
            | Phase::Stopped
            | Phase::NotReady
            | Phase::Ready
            | Phase::ReconciliationPaused => self.interval_ms,
        }
    }
}

/// When to look again after the annotation was taken away: the command is acted on in the next pass.
pub(super) const fn after_consuming_ms() -> u64 {
    AT_ONCE_MS
}

/// The condition whose type is the state.
fn state(request: &Recorded) -> Condition {
    let failure = request.failure.as_ref().filter(|_| request.phase == Phase::NotReady);
    Condition {
        kind: Kind::State(request.phase),
        reason: failure.map(super::words::Failure::reason),
        message: failure.map(ToString::to_string),
    }
}

/// Whether there is a plan to speak of.
fn shows_result(phase: Phase) -> bool {
    match phase {
        Phase::ProposalReady | Phase::Rebalancing | Phase::Stopped | Phase::Ready => true,
        Phase::New | Phase::PendingProposal | Phase::NotReady | Phase::ReconciliationPaused => {
            false
        }
    }
}

/// What the ConfigMap says of the progress.
fn entries(phase: Phase, progress: Option<&Progress>) -> Option<BTreeMap<Entry, Content>> {
    use Content::{Kept, Number};
    use Entry::{Executor, Minutes, Percent};
    Some(match (phase, progress) {
        (Phase::New | Phase::PendingProposal | Phase::ReconciliationPaused, _) => return None,
        (Phase::ProposalReady, _) => [(Percent, Number(0))].into(),
        (Phase::Rebalancing, Some(progress)) => {
            let measured = [(Percent, Number(progress.percent())), (Executor, Content::Executor)];
            let minutes = progress.left_minutes().map(|minutes| (Minutes, Number(minutes)));
            measured.into_iter().chain(minutes).collect()
        }
        (Phase::Rebalancing, None) => [Minutes, Percent, Executor].map(|one| (one, Kept)).into(),
        (Phase::Stopped | Phase::NotReady, _) => [Percent, Executor].map(|one| (one, Kept)).into(),
        (Phase::Ready, _) => [(Minutes, Number(0)), (Percent, Number(100))].into(),
    })
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
