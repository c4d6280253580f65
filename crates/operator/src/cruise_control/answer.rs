//! Reads what Cruise Control answers. What it means, [`control::rebalance::request::answers`] decides.

use control::rebalance::request::Task;
use control::rebalance::request::answers::{ExecutorState, Listed, Reply};
use serde_json::Value;

/// The summary of a plan, as Cruise Control writes it, for `optimizationResult`.
pub type Summary = Value;

fn json(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or(Value::Null)
}

fn error(json: &Value) -> Option<&str> {
    json.get("errorMessage").and_then(Value::as_str)
}

/// Reads the reply to a request for a plan or for moves, and the summary in it.
#[must_use]
pub(super) fn rebalance(status: u16, body: &str, task: Option<String>) -> (Reply, Option<Summary>) {
    let json = json(body);
    let reply = Reply {
        status,
        task,
        error: error(&json).map(str::to_owned),
        has_summary: json.get("summary").is_some(),
        has_progress: json.get("progress").is_some(),
    };
    (reply, json.get("summary").cloned())
}

/// Reads the reply to the question of how a task is, and the summary of its plan.
#[must_use]
pub(super) fn task(status: u16, body: &str, id: &str) -> (Task, Option<Summary>) {
    let json = json(body);
    let tasks = json.get("userTasks").and_then(Value::as_array);
    let ours = |task: &&Value| task.get("UserTaskId").and_then(Value::as_str) == Some(id);
    let found = tasks.and_then(|tasks| tasks.iter().find(ours));
    let word = |task: &Value| task.get("Status").and_then(Value::as_str).map(str::to_owned);
    let listed = match (tasks, found) {
        (None, _) => Listed::Unreadable,
        (Some(_), None) => Listed::Absent,
        (Some(_), Some(task)) => Listed::Status(word(task)),
    };
    let task = Task::of(status, error(&json), &listed);
    // The answer of then is in it as a text, which is no JSON when the task failed.
    let original = found.and_then(|task| task.get("originalResponse")?.as_str());
    let original: Option<Value> = original.and_then(|text| serde_json::from_str(text).ok());
    let summary = original.and_then(|original| original.get("summary").cloned());
    let summary = summary.filter(|_| task.has_plan());
    (task, summary)
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
