//! What Cruise Control answers, in the words of [`control::rebalance::request`].

use control::rebalance::request::{Failure, Task};
use serde_json::Value;

/// The summary of a plan, as Cruise Control writes it, for `optimizationResult`.
pub type Summary = Value;

/// What it answers to a request for a plan or for moves.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// There is a plan, or the moves have begun.
    Ready(Summary),
    /// It thinks.
    Computing,
    /// It has not seen enough of the cluster.
    TooLittleKnown(String),
    /// It has too many tasks; ask again.
    Busy,
    /// It cannot do that.
    Failed(Failure),
}

/// What it does.
#[derive(Debug, Clone, PartialEq)]
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

const TOO_LITTLE: &str = "NotEnoughValidWindowsException";
/// How it says that it has too many tasks.
const CAPACITY: &str = "which has reached the servlet capacity";

/// Reads the answer to a request for a plan or for moves.
#[must_use]
pub(super) fn rebalance(status: u16, body: &str) -> Answer {
    let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let error = json.get("errorMessage").and_then(Value::as_str);
    let last = |what: String| Answer::Failed(Failure::Final(what));
    match (status, error) {
        (200 | 201, Some(error)) => last(error.to_owned()),
        (200 | 201, None) => match json.get("summary") {
            Some(summary) => Answer::Ready(summary.clone()),
            None => last("Rebalance returned unknown response".to_owned()),
        },
        (202, _) if json.get("progress").is_some() => Answer::Computing,
        (202, _) => last("Rebalance returned unknown response".to_owned()),
        (500, Some(error)) if error.contains(TOO_LITTLE) => {
            Answer::TooLittleKnown(error.to_owned())
        }
        (500, Some(error)) if error.contains(CAPACITY) => Answer::Busy,
        (500, Some(error))
            if error.contains("IllegalArgumentException") && error.contains("does not exist.") =>
        {
            last("Some/all brokers specified don't exist".to_owned())
        }
        (500, Some(error)) => last(format!("Cruise Control answered: {error}")),
        // Somebody in between, or it is only just starting.
        (502..=504, _) => {
            Answer::Failed(Failure::Passing(format!("Cruise Control answered with {status}")))
        }
        (status, _) => last(format!("Unexpected status code {status}")),
    }
}

/// Reads the answer to the question of how a task is, and the summary of its plan.
#[must_use]
pub(super) fn task(status: u16, body: &str, id: &str) -> (Task, Option<Summary>) {
    let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let error = json.get("errorMessage").and_then(Value::as_str);
    if status != 200 {
        let task = match error {
            Some(error) if error.contains(CAPACITY) => Task::Busy,
            Some(error) => {
                Task::Failed(Failure::Final(format!("Cruise Control answered: {error}")))
            }
            None => {
                Task::Failed(Failure::Passing(format!("Cruise Control answered with {status}")))
            }
        };
        return (task, None);
    }
    let Some(tasks) = json.get("userTasks").and_then(Value::as_array) else {
        let failure = Failure::Final("user_tasks returned unknown response".to_owned());
        return (Task::Failed(failure), None);
    };
    let ours = |task: &&Value| task.get("UserTaskId").and_then(Value::as_str) == Some(id);
    let Some(task) = tasks.iter().find(ours) else { return (Task::Unknown, None) };
    // The answer of then is in it as a text, which is no JSON when the task failed.
    let original = task.get("originalResponse").and_then(Value::as_str);
    let original: Option<Value> = original.and_then(|text| serde_json::from_str(text).ok());
    let summary = original.and_then(|original| original.get("summary").cloned());
    match task.get("Status").and_then(Value::as_str) {
        Some("Active") => (Task::Active, None),
        Some("InExecution") => (Task::InExecution, summary),
        Some("Completed") => (Task::Completed, summary),
        Some("CompletedWithError" | "COMPLETED_WITH_ERROR") => (Task::CompletedWithError, None),
        other => {
            let word = other.unwrap_or("nothing");
            (Task::Failed(Failure::Final(format!("a task has the status {word}"))), None)
        }
    }
}

/// Reads what it does; `None` if the answer does not say.
#[must_use]
pub(super) fn state(status: u16, body: &str) -> Option<ExecutorState> {
    let json: Value = serde_json::from_str(body).ok().filter(|_| status == 200)?;
    let executor = json.get("ExecutorState")?;
    let mb = |name: &str| executor.get(name).and_then(Value::as_u64);
    Some(ExecutorState {
        state: executor.get("state")?.as_str()?.to_owned(),
        moved_mb: mb("finishedDataMovement").zip(mb("totalDataToMove")),
    })
}
