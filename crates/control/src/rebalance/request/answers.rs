//! What the answer of an engine changes: in the record, and in the report.
//!
//! 1. What an answer must not be lost with is recorded before the engine is asked ([`before`]): that moves may have been
//!    asked for, and that they are to stop.
//! 2. No answer is not a no: moves that were asked for may have begun, unless Cruise Control itself says that they have
//!    not. Its codes 502 to 504 are the words of somebody in between.
//! 3. What fails for now is asked for again; what Cruise Control refuses for good is recorded.

use super::cruise_control::Task;
use super::engine::{Act, Orders};
use super::record::Session;
use super::report::Answer;
use super::words::{Failure, Warning};
use crate::rebalance::execution::Progress;

/// How Cruise Control says that it has not seen enough of the cluster.
const TOO_LITTLE: &str = "NotEnoughValidWindowsException";
/// How it says that it has too many tasks.
const CAPACITY: &str = "which has reached the servlet capacity";

/// What was heard after an act.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Nothing was asked: there is nobody to ask, or the lease could expire before the answer.
    NotAsked,
    /// Cruise Control did not answer, and why.
    Silent(String),
    /// Cruise Control replied to a request for a plan or for moves.
    Replied(Reply),
    /// Cruise Control replied to a request to stop, with this status code.
    StopReplied(u16),
    /// What Cruise Control does; `None` if it does not say.
    State(Option<ExecutorState>),
    /// What the native engine made of a request for a plan.
    Planned(Result<(), Unmade>),
    /// The native engine recorded that moves begin.
    Begun,
    /// The native engine made a pass over moves. Whether there was an event, and how far they are; `None` if it could
    /// not act.
    Passed(Option<(bool, Progress)>),
}

/// A reply of Cruise Control, reduced to what its meaning depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The task that the reply belongs to.
    pub task: Option<String>,
    /// Its error message.
    pub error: Option<String>,
    /// Whether it has the summary of a plan.
    pub has_summary: bool,
    /// Whether it says how far the computation is.
    pub has_progress: bool,
}

/// What Cruise Control does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorState {
    /// Its own word for it.
    pub state: String,
    /// MB that it has moved, and has to move in all, where it says so.
    pub moved_mb: Option<(u64, u64)>,
}

impl ExecutorState {
    /// Whether it moves nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == "NO_TASK_IN_PROGRESS"
    }
}

/// A task, as Cruise Control lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// The reply has no list.
    Unreadable,
    /// The list does not have the task.
    Absent,
    /// It has this status, if it has one.
    Status(Option<String>),
}

/// Why the native engine has made no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmade {
    /// Something is not known yet.
    Later(String),
    /// There is none.
    Failed(Failure),
}

/// What becomes of the plan that is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PlanChange {
    /// Nothing.
    #[default]
    Kept,
    /// What was heard has a plan, which is recorded.
    Made,
    /// That there is none is recorded.
    Failed(Failure),
    /// It is forgotten.
    Forgotten,
}

/// What an answer changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The tasks, if they are recorded anew.
    pub session: Option<Session>,
    /// What becomes of the plan.
    pub plan: PlanChange,
    /// What the report says.
    pub answer: Answer,
}

/// What is recorded of the tasks of Cruise Control before an act (1).
#[must_use]
pub fn before(act: Act, session: Session) -> Session {
    match act {
        Act::AskMoves => Session { asked: true, ..session },
        Act::AskStop => Session { stopping: true, ..session },
        Act::Drive(_) | Act::MakePlan | Act::BeginMoves | Act::AskPlan | Act::AskProgress => {
            session
        }
    }
}

/// What an answer changes. `session` is what is recorded.
#[must_use]
pub fn after(act: Act, session: Session, heard: Heard) -> Change {
    let mut change = match (act, heard) {
        (Act::AskPlan, Heard::Replied(reply)) => plan(session, reply),
        (Act::AskMoves, Heard::Replied(reply)) => moves(session, reply),
        (Act::AskProgress, Heard::State(state)) => measured(state),
        (Act::AskProgress, Heard::Silent(why)) => warning(Warning::NoProgress(why)),
        (_, Heard::Silent(why)) => warning(Warning::Unreachable(why)),
        // It is asked again until nothing runs; that it refuses is for a person.
        (Act::AskStop, Heard::StopReplied(status)) if status != 200 => {
            let why = format!("Cruise Control answered the request to stop with {status}");
            warning(Warning::Unreachable(why))
        }
        (Act::MakePlan, Heard::Planned(Ok(()))) => changed(None, PlanChange::Made),
        (Act::MakePlan, Heard::Planned(Err(Unmade::Later(what)))) => {
            warning(Warning::TooLittleKnown(what))
        }
        (Act::MakePlan, Heard::Planned(Err(Unmade::Failed(failure)))) => {
            changed(None, PlanChange::Failed(failure))
        }
        (Act::BeginMoves, Heard::Begun) => changed(None, PlanChange::Kept),
        (Act::Drive(_), Heard::Passed(Some((changed, progress)))) => {
            let answer = Answer { changed, progress: Some(progress), ..Answer::default() };
            Change { answer, ..Change::default() }
        }
        (_, _) => Change::default(),
    };
    change.answer.stopping = match act {
        // Also where nobody has heard it: it is asked again until nothing runs.
        Act::AskStop => true,
        Act::Drive(Orders { stop, claimed, .. }) => stop || !claimed,
        Act::MakePlan | Act::BeginMoves | Act::AskPlan | Act::AskMoves | Act::AskProgress => false,
    };
    change
}

fn changed(session: Option<Session>, plan: PlanChange) -> Change {
    Change { session, plan, answer: Answer { changed: true, ..Answer::default() } }
}

fn warning(warning: Warning) -> Change {
    let answer = Answer { warnings: vec![warning], ..Answer::default() };
    Change { answer, ..Change::default() }
}

fn plan(mut session: Session, reply: Reply) -> Change {
    let plan = match reply.meaning() {
        Meaning::Ready => PlanChange::Made,
        Meaning::Computing => PlanChange::Kept,
        // Asked again in the next pass: it has made no task of it.
        Meaning::Busy => return Change::default(),
        Meaning::TooLittleKnown(what) => return warning(Warning::TooLittleKnown(what)),
        Meaning::Failed(failure) => PlanChange::Failed(failure),
    };
    session.proposal = reply.task;
    changed(Some(session), plan)
}

fn moves(mut session: Session, reply: Reply) -> Change {
    let meaning = reply.meaning();
    match &meaning {
        Meaning::Busy => session.asked = false,
        // Such as the 504 of a proxy: the moves may have begun all the same (2).
        Meaning::Failed(Failure::Passing(_))
        | Meaning::Ready
        | Meaning::Computing
        | Meaning::TooLittleKnown(_) => {}
        Meaning::Failed(failure) => session.failure = Some(failure.clone()),
    }
    session.execution = reply.task.filter(|_| session.asked);
    let plan = match meaning {
        Meaning::Ready => PlanChange::Made,
        // It has lost what it knew; so is the plan.
        Meaning::TooLittleKnown(_) => PlanChange::Forgotten,
        Meaning::Failed(Failure::Passing(why)) => {
            return Change { session: Some(session), ..warning(Warning::Unreachable(why)) };
        }
        Meaning::Computing | Meaning::Busy | Meaning::Failed(_) => PlanChange::Kept,
    };
    changed(Some(session), plan)
}

fn measured(state: Option<ExecutorState>) -> Change {
    const MB: u64 = 1 << 20;
    let skipped = |why: String| warning(Warning::NoProgress(why));
    let Some(state) = state else { return skipped("it reports no state".to_owned()) };
    let Some((done, total)) = state.moved_mb else {
        return skipped(format!("executor is in '{}' state", state.state));
    };
    let (bytes_total, bytes_done) = (total.saturating_mul(MB), done.saturating_mul(MB));
    let progress = Progress { bytes_total, bytes_done, ..Progress::default() };
    let answer = Answer { progress: Some(progress), ..Answer::default() };
    Change { answer, ..Change::default() }
}

/// What a reply to a request for a plan or for moves means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meaning {
    /// There is a plan, or the moves have begun.
    Ready,
    /// It thinks.
    Computing,
    /// It has not seen enough of the cluster.
    TooLittleKnown(String),
    /// It has too many tasks; ask again.
    Busy,
    /// It cannot do that.
    Failed(Failure),
}

impl Reply {
    fn meaning(&self) -> Meaning {
        let last = |what: String| Meaning::Failed(Failure::Final(what));
        let unknown = || last("Rebalance returned unknown response".to_owned());
        match (self.status, self.error.as_deref()) {
            (200 | 201, Some(error)) => last(error.to_owned()),
            (200 | 201, None) if self.has_summary => Meaning::Ready,
            (200 | 201, None) => unknown(),
            (202, _) if self.has_progress => Meaning::Computing,
            (202, _) => unknown(),
            (500, Some(error)) if error.contains(TOO_LITTLE) => {
                Meaning::TooLittleKnown(error.to_owned())
            }
            (500, Some(error)) if error.contains(CAPACITY) => Meaning::Busy,
            (500, Some(error))
                if error.contains("IllegalArgumentException")
                    && error.contains("does not exist.") =>
            {
                last("Some/all brokers specified don't exist".to_owned())
            }
            (500, Some(error)) => last(format!("Cruise Control answered: {error}")),
            // Somebody in between, or it is only just starting.
            (502..=504, _) => {
                let why = format!("Cruise Control answered with {}", self.status);
                Meaning::Failed(Failure::Passing(why))
            }
            (status, _) => last(format!("Unexpected status code {status}")),
        }
    }
}

impl Task {
    /// From a reply to the question of how a task is: its status code, its error message, and the task.
    #[must_use]
    pub fn of(status: u16, error: Option<&str>, listed: &Listed) -> Self {
        if status != 200 {
            return match error {
                Some(error) if error.contains(CAPACITY) => Self::Busy,
                Some(error) => {
                    Self::Failed(Failure::Final(format!("Cruise Control answered: {error}")))
                }
                None => {
                    Self::Failed(Failure::Passing(format!("Cruise Control answered with {status}")))
                }
            };
        }
        let word = match listed {
            Listed::Unreadable => {
                let failure = Failure::Final("user_tasks returned unknown response".to_owned());
                return Self::Failed(failure);
            }
            Listed::Absent => return Self::Unknown,
            Listed::Status(word) => word.as_deref(),
        };
        match word {
            Some("Active") => Self::Active,
            Some("InExecution") => Self::InExecution,
            Some("Completed") => Self::Completed,
            Some("CompletedWithError" | "COMPLETED_WITH_ERROR") => Self::CompletedWithError,
            other => {
                let word = other.unwrap_or("nothing");
                Self::Failed(Failure::Final(format!("a task has the status {word}")))
            }
        }
    }

    /// Whether its reply has the plan that it made.
    #[must_use]
    pub const fn has_plan(&self) -> bool {
        match self {
            Self::InExecution | Self::Completed => true,
            Self::Unknown
            | Self::Active
            | Self::CompletedWithError
            | Self::Busy
            | Self::Failed(_) => false,
        }
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
