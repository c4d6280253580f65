//! The meaning of what Cruise Control answers. It keeps nothing over a restart, so a task that it does not know is over
//! only when it moves nothing.

use serde::{Deserialize, Serialize};

use super::machine::{Execution, Proposal};
use super::record::{Record, Session};
use super::snapshot::Answers;
use super::words::Failure;

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Task {
    /// Cruise Control does not know it: it was restarted, or has forgotten it.
    Unknown,
    /// It thinks.
    Active,
    /// It moves.
    InExecution,
    /// It is done.
    Completed,
    /// It failed, or was stopped; it does not say which.
    CompletedWithError,
    /// Cruise Control has too many tasks; the operator asks again.
    Busy,
    /// It could not be asked.
    Failed(Failure),
}

/// The plan of this attempt, as it is recorded or as its task tells; `None` is unknown.
pub(super) fn proposal(record: &Record, answers: &Answers) -> Option<Proposal> {
    if record.plan().is_some() {
        return Some(recorded_proposal(record));
    }
    if record.session().proposal.is_none() {
        return Some(Proposal::Unasked);
    }
    let failed = || Failure::Final("Cruise Control could not make a plan".to_owned());
    Some(match answers.proposal.known()? {
        Task::Unknown => Proposal::Unasked,
        Task::Active => Proposal::Computing,
        Task::InExecution | Task::Completed => Proposal::Ready,
        Task::CompletedWithError => Proposal::Failed(failed()),
        Task::Busy | Task::Failed(Failure::Passing(_)) => return None,
        Task::Failed(failure) => Proposal::Failed(failure.clone()),
    })
}

/// The plan of this attempt, as it is recorded.
pub(super) fn recorded_proposal(record: &Record) -> Proposal {
    match record.plan().map(|plan| &plan.failure) {
        None => Proposal::Unasked,
        Some(Some(failure)) => Proposal::Failed(failure.clone()),
        Some(None) => Proposal::Ready,
    }
}

/// The moves of this attempt; `None` is unknown.
pub(super) fn execution(session: &Session, answers: &Answers) -> Option<Execution> {
    if let Some(failure) = &session.failure {
        return Some(Execution::Failed(failure.clone()));
    }
    if !session.asked {
        return Some(Execution::Unstarted);
    }
    let idle = answers.idle.known().copied();
    if session.execution.is_none() {
        // Asked for, and the answer was not heard.
        return Some(if idle? { Execution::Lost } else { Execution::Running });
    }
    let failed = || Failure::Final("Cruise Control could not carry the plan out".to_owned());
    Some(match (answers.execution.known()?, idle) {
        (Task::Active | Task::InExecution, _) => Execution::Running,
        (Task::Completed, _) => Execution::Finished,
        // It moves still, or that is unknown.
        (Task::Unknown | Task::CompletedWithError, None) => return None,
        (Task::Unknown | Task::CompletedWithError, Some(false)) => Execution::Running,
        (Task::Unknown, Some(true)) => Execution::Lost,
        (Task::CompletedWithError, Some(true)) if session.stopping => Execution::Stopped,
        (Task::CompletedWithError, Some(true)) => Execution::Failed(failed()),
        (Task::Busy | Task::Failed(Failure::Passing(_)), _) => return None,
        // An error is no end of what still moves.
        (Task::Failed(_), None | Some(false)) => return None,
        (Task::Failed(failure), Some(true)) => Execution::Failed(failure.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fact::Fact;
    use crate::rebalance::request::machine::Recorded;
    use crate::rebalance::request::record::Plan;

    fn fact<T>(value: Option<T>) -> Fact<T> {
        value.map_or_else(Fact::default, |value| Fact::read(value, 0))
    }

    fn passing() -> Failure {
        Failure::Passing("503".to_owned())
    }

    fn last() -> Failure {
        Failure::Final("no".to_owned())
    }

    fn word<T: std::fmt::Debug>(found: Option<T>) -> String {
        let text = found.map_or("unknown".to_owned(), |found| format!("{found:?}"));
        text.split('(').next().unwrap_or_default().to_owned()
    }

    #[test]
    #[rustfmt::skip]
    fn a_plan_is_what_is_recorded_and_else_what_its_task_says() {
        let made = |attempt, failure| Some(Plan { attempt, failure, unknown: Vec::new() });
        // The plan that is recorded, whether a task was begun, what is known of it, and what that means.
        let rows = [
            (made(1, None),         false, None, "Ready"),
            (made(1, Some(last())), false, None, "Failed"),
            (made(0, None),         false, None, "Unasked"),
            (None, false, None,                            "Unasked"),
            (None, true,  None,                            "unknown"),
            (None, true,  Some(Task::Unknown),             "Unasked"),
            (None, true,  Some(Task::Active),              "Computing"),
            (None, true,  Some(Task::InExecution),         "Ready"),
            (None, true,  Some(Task::Completed),           "Ready"),
            (None, true,  Some(Task::CompletedWithError),  "Failed"),
            (None, true,  Some(Task::Busy),                "unknown"),
            (None, true,  Some(Task::Failed(passing())),   "unknown"),
            (None, true,  Some(Task::Failed(last())),      "Failed"),
        ];
        for (plan, begun, task, expected) in rows {
            let session = Session { attempt: 1, proposal: begun.then(|| "t".to_owned()), ..Session::default() };
            let request = Recorded { attempt: 1, ..Recorded::default() };
            let record = Record { request, plan, session: Some(session), ..Record::default() };
            let answers = Answers { proposal: fact(task.clone()), ..Answers::default() };
            assert_eq!(word(proposal(&record, &answers)), expected, "{record:?} {task:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn tasks_that_are_lost_or_ended_are_over_only_when_nothing_moves() {
        let (idle, moves) = (Some(true), Some(false));
        let done = Task::CompletedWithError;
        // Asked for, has a task, asked to stop, what is known of the task and of the executor, and what that means.
        let rows = [
            (false, false, false, None,                          idle,  "Unstarted"),
            (true,  false, false, None,                          idle,  "Lost"),
            (true,  false, false, None,                          moves, "Running"),
            (true,  false, false, None,                          None,  "unknown"),
            (true,  true,  false, None,                          idle,  "unknown"),
            (true,  true,  false, Some(Task::Unknown),           idle,  "Lost"),
            (true,  true,  false, Some(Task::Unknown),           moves, "Running"),
            (true,  true,  false, Some(Task::Unknown),           None,  "unknown"),
            (true,  true,  true,  Some(done.clone()),            moves, "Running"),
            (true,  true,  true,  Some(done.clone()),            idle,  "Stopped"),
            (true,  true,  false, Some(done.clone()),            idle,  "Failed"),
            (true,  true,  false, Some(done),                    None,  "unknown"),
            (true,  true,  false, Some(Task::Active),            None,  "Running"),
            (true,  true,  false, Some(Task::InExecution),       idle,  "Running"),
            (true,  true,  false, Some(Task::Completed),         None,  "Finished"),
            (true,  true,  false, Some(Task::Busy),              idle,  "unknown"),
            (true,  true,  false, Some(Task::Failed(passing())), idle,  "unknown"),
            (true,  true,  false, Some(Task::Failed(last())),    moves, "unknown"),
            (true,  true,  false, Some(Task::Failed(last())),    None,  "unknown"),
            (true,  true,  false, Some(Task::Failed(last())),    idle,  "Failed"),
        ];
        for (asked, has_task, stopping, task, executor, expected) in rows {
            let execution_id = has_task.then(|| "t".to_owned());
            let session = Session { asked, stopping, execution: execution_id, ..Session::default() };
            let answers = Answers { idle: fact(executor), execution: fact(task.clone()), ..Answers::default() };
            assert_eq!(word(execution(&session, &answers)), expected, "{session:?} {task:?} {executor:?}");
        }
        let refused = Session { asked: true, failure: Some(last()), ..Session::default() };
        assert_eq!(execution(&refused, &Answers::default()), Some(Execution::Failed(last())));
    }
}
