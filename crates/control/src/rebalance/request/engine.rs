//! What the engines say of a request, what has to be read for that, and what is asked of them.
//!
//! 1. Moves are seen to their end by the engine that was asked for them, whatever the engine is by now.
//! 2. Moves of an earlier attempt end before anything else happens.
//! 3. Nothing is asked for twice: a plan that is made, or moves that were begun, are not asked for again.

use super::cruise_control;
use super::machine::{Duty, Execution, Phase, Proposal, Recorded};
use super::record::Record;
use super::snapshot::{Answers, Claimant, CruiseControl, Engine, Kafka, Moves, Snapshot};
use super::words::Failure;
use crate::cluster::fresh::is_old;

/// What the engines say of a request; `None` is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) proposal: Option<Proposal>,
    pub(super) execution: Option<Execution>,
    pub(super) others_running: Option<bool>,
    /// Whether Cruise Control has forgotten the plan that it was asked for.
    pub(super) forgotten: bool,
}

/// What to do about the plan and the moves of a request. Each is safe to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Make one pass over moves that run. Only the native engine has such.
    Drive(Orders),
    /// Make a plan, and store it before it is recorded.
    MakePlan,
    /// Begin the moves of the stored plan, over the version of the note of moves that was read.
    BeginMoves,
    /// Ask Cruise Control for a plan.
    AskPlan,
    /// Record that moves are asked for, and ask Cruise Control for them.
    AskMoves,
    /// Ask Cruise Control how far it is.
    AskProgress,
    /// Record that it is to stop, and ask Cruise Control to.
    AskStop,
}

impl Act {
    /// Whether it asks Cruise Control for a change, which only the holder of the lease may.
    #[must_use]
    pub const fn is_fenced(self) -> bool {
        match self {
            Self::AskMoves | Self::AskStop => true,
            Self::Drive(_)
            | Self::MakePlan
            | Self::BeginMoves
            | Self::AskPlan
            | Self::AskProgress => false,
        }
    }

    /// Whether a fact behind the act is too old for it: everything is read again before moves begin. A pass over moves
    /// that run reads its own facts, and nothing else can hurt.
    #[must_use]
    pub fn is_stale(self, snapshot: &Snapshot, now_ms: u64) -> bool {
        let ages_ms = [
            snapshot.kafka.age_ms(now_ms),
            snapshot.moves.age_ms(now_ms),
            snapshot.plan_stored.age_ms(now_ms),
            snapshot.other.age_ms(now_ms),
            snapshot.cruise_control.age_ms(now_ms),
        ];
        match self {
            Self::BeginMoves | Self::AskMoves => ages_ms.into_iter().flatten().any(is_old),
            Self::Drive(_) | Self::MakePlan | Self::AskPlan | Self::AskProgress | Self::AskStop => {
                false
            }
        }
    }
}

/// What is asked of moves that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orders {
    /// Whether there is still a request for them.
    pub claimed: bool,
    /// Whether they are to stop.
    pub stop: bool,
    /// Whether they are to begin nothing new.
    pub hold: bool,
}

impl Orders {
    /// What is asked of moves whose request is gone.
    pub const UNCLAIMED: Self = Self { claimed: false, stop: true, hold: false };

    /// Whether the moves are to stop. Without their job, which says what is to be moved, nothing can be begun; what was
    /// set is still reverted.
    #[must_use]
    pub const fn stops(self, has_job: bool) -> bool {
        self.stop || !has_job
    }
}

/// Facts that are missing and have to be read; a field that is `None` asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The `Kafka` of this name, with its moves.
    pub kafka: Option<String>,
    /// Whether the plan of this attempt is stored.
    pub plan: Option<u64>,
    /// How far the request is that the moves were made for.
    pub other: Option<Claimant>,
    /// Cruise Control.
    pub cruise_control: Option<Questions>,
}

/// What Cruise Control is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Questions {
    /// Whether it is asked what it does. If not, only whether it may be contacted has to be found out.
    pub state: bool,
    /// The task that makes the plan.
    pub proposal: Option<String>,
    /// The task that moves.
    pub execution: Option<String>,
}

/// A request with its record and what is known of its cluster, for the rules about engines.
pub(super) struct View<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) record: &'a Record,
    pub(super) kafka: Option<&'a Kafka>,
}

impl<'a> View<'a> {
    fn engine(&self) -> Engine {
        // What Cruise Control moves it goes on moving when the user chooses another engine (1).
        if self.record.may_move_by_cruise_control() {
            return Engine::CruiseControl;
        }
        self.kafka.map_or(Engine::Native, Kafka::engine)
    }

    fn moves(&self) -> Option<&'a Moves> {
        self.snapshot.moves.known().and_then(Option::as_ref)
    }

    /// Moves of this request that run, whatever attempt they are of.
    pub(super) fn running(&self) -> Option<&'a Moves> {
        let uid = &self.snapshot.resource.uid;
        self.moves().filter(|moves| moves.by.uid == *uid && !moves.is_over())
    }

    fn owns(&self, moves: &Moves) -> bool {
        self.record.owns(&self.snapshot.resource, moves)
    }

    /// Cruise Control, if that is who is asked.
    fn cruise_control(&self) -> Option<&'a CruiseControl> {
        match self.engine() {
            Engine::Native => None,
            Engine::CruiseControl => self.snapshot.cruise_control.known(),
        }
    }

    /// What is asked, and of whom.
    pub(super) fn needs(&self) -> Needs {
        let is_native = self.engine() == Engine::Native;
        let plan =
            is_native && self.rests_on_stored_plan() && self.snapshot.plan_stored.is_unread();
        let questions = || {
            // Moves of our own end first, and till then it has nothing to say.
            if self.running().is_some() {
                return Questions::default();
            }
            let session = self.record.session();
            let proposal = session.proposal.filter(|_| self.record.plan().is_none());
            let is_asked = session.asked && session.failure.is_none();
            Questions { state: true, proposal, execution: session.execution.filter(|_| is_asked) }
        };
        let asks = !is_native && self.snapshot.cruise_control.is_unread();
        let is_unread = self.snapshot.other.is_unread();
        Needs {
            kafka: None,
            plan: plan.then_some(self.record.request.attempt),
            other: self.unheard().filter(|_| is_unread).map(|moves| moves.by.clone()),
            cruise_control: asks.then(questions),
        }
    }

    pub(super) fn heard(&self) -> Heard {
        let ours = self.others_running();
        if self.engine() == Engine::Native || self.running().is_some() {
            let proposal = Some(cruise_control::recorded_proposal(self.record));
            let execution = self.native_execution();
            return Heard { proposal, execution, others_running: ours, forgotten: false };
        }
        match self.cruise_control() {
            // One that must not be contacted is a hindrance.
            None | Some(CruiseControl::Refused(_)) => Heard::default(),
            Some(CruiseControl::Missing(what)) => {
                let failure = Failure::Passing(what.clone());
                Heard { proposal: Some(Proposal::Failed(failure)), ..Heard::default() }
            }
            Some(CruiseControl::Asked(answers)) => self.heard_of_tasks(answers, ours),
        }
    }

    fn heard_of_tasks(&self, answers: &Answers, ours: Option<bool>) -> Heard {
        let session = self.record.session();
        let proposal = cruise_control::proposal(self.record, answers);
        let execution = cruise_control::execution(&session, answers);
        let busy = answers.idle.known().map(|idle| !idle && !session.asked);
        let others_running = match (ours, busy) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            (None, _) | (_, None) => None,
        };
        let forgotten = session.proposal.is_some() && proposal == Some(Proposal::Unasked);
        Heard { proposal, execution, others_running, forgotten }
    }

    /// Whether only the stored plan tells what becomes of moves that were approved.
    fn rests_on_stored_plan(&self) -> bool {
        let begun = self.running().is_some() || self.moves().is_some_and(|moves| self.owns(moves));
        !begun && self.record.request.may_run()
    }

    /// What has become of the moves of this attempt.
    fn native_execution(&self) -> Option<Execution> {
        if let Some(own) = self.moves().filter(|moves| self.owns(moves)) {
            return Some(own.recorded.execution());
        }
        if self.running().is_some() {
            // Of an earlier attempt: it ends first (2).
            return Some(Execution::Running);
        }
        if !self.rests_on_stored_plan() {
            return Some(Execution::Unstarted);
        }
        // Approved and not begun; without its plan it never will be.
        let stored = *self.snapshot.plan_stored.known()?;
        Some(if stored { Execution::Unstarted } else { Execution::Lost })
    }

    /// Moves of another request that have ended, of which that request may not have heard. It matters for the start
    /// of others.
    fn unheard(&self) -> Option<&'a Moves> {
        let uid = &self.snapshot.resource.uid;
        let may_start = self.record.request.phase == Phase::ProposalReady;
        self.moves().filter(|moves| may_start && moves.is_over() && moves.by.uid != *uid)
    }

    /// Whether other moves run on the cluster, or have ended without the request that they are for having heard of it.
    fn others_running(&self) -> Option<bool> {
        let Some(moves) = self.snapshot.moves.known()? else { return Some(false) };
        if self.owns(moves) {
            return Some(false);
        }
        if !moves.is_over() {
            return Some(true);
        }
        if self.unheard().is_none() {
            return Some(false);
        }
        let other = self.snapshot.other.known()?.as_ref();
        let unheard = |other: &Recorded| other.attempt == moves.by.attempt && other.may_run();
        Some(other.is_some_and(unheard))
    }

    /// What to do so that the engine does what the phase asks of it.
    pub(super) fn act(&self, duty: Duty) -> Option<Act> {
        let request = &self.record.request;
        let has_record = self.kafka.is_some_and(|kafka| kafka.has_record);
        if let Some(moves) = self.running().filter(|_| has_record) {
            let own = self.owns(moves);
            return Some(Act::Drive(Orders {
                claimed: own && request.may_run(),
                stop: !own || duty == Duty::Stop,
                hold: duty == Duty::Hold,
            }));
        }
        let has_plan = self.record.plan().is_some();
        if self.engine() == Engine::Native {
            return match duty {
                Duty::Propose if !has_plan => Some(Act::MakePlan),
                Duty::Execute if self.may_begin() => Some(Act::BeginMoves),
                Duty::Rest | Duty::Propose | Duty::Execute | Duty::Hold | Duty::Stop => None,
            };
        }
        let Some(CruiseControl::Asked(_)) = self.cruise_control() else { return None };
        let session = self.record.session();
        match duty {
            Duty::Propose if !has_plan && session.proposal.is_none() => Some(Act::AskPlan),
            Duty::Execute if session.asked => Some(Act::AskProgress),
            Duty::Execute => Some(Act::AskMoves),
            Duty::Stop if session.asked && request.may_run() => Some(Act::AskStop),
            // It cannot be told to begin nothing new: what it has begun it ends.
            Duty::Rest | Duty::Propose | Duty::Hold | Duty::Stop => None,
        }
    }

    /// Whether nothing else has the note of moves, of which a cluster has one.
    fn may_begin(&self) -> bool {
        let moves = self.snapshot.moves.known();
        let is_free = |moves: &Moves| moves.is_over() && !self.owns(moves);
        moves.is_some_and(|moves| moves.as_ref().is_none_or(is_free))
    }

    /// What the engine knows the request by, after an act.
    pub(super) fn session_id(&self, act: Option<Act>) -> SessionId {
        let drives = matches!(act, Some(Act::Drive(_)));
        match self.cruise_control() {
            _ if drives || self.engine() == Engine::Native => SessionId::Attempt,
            Some(CruiseControl::Asked(_)) => SessionId::Task,
            Some(CruiseControl::Refused(_) | CruiseControl::Missing(_)) | None => SessionId::None,
        }
    }

    /// Whether the native engine has made the plan, and nothing of it runs: then what it lacks is worth a word.
    pub(super) fn shows_unknown(&self, act: Option<Act>) -> bool {
        self.engine() == Engine::Native && !matches!(act, Some(Act::Drive(_)))
    }
}

/// What the engine knows a request by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionId {
    /// The uid and the attempt.
    Attempt,
    /// The task of Cruise Control.
    Task,
    /// Nothing.
    None,
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
