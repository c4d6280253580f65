//! A Cruise Control that answers in the shapes that real ones were recorded with, and moves nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

const SUMMARY: &str = r#"{"numReplicaMovements":16,"dataToMoveMB":120,"numLeaderMovements":3,
 "onDemandBalancednessScoreBefore":62.5,"onDemandBalancednessScoreAfter":82.6,"recentWindows":5,
 "provisionStatus":"RIGHT_SIZED","excludedTopics":[]}"#;
const PROGRESS: &str = r#"{"progress":[{"operation":"Rebalance","operationProgress":[
 {"step":"GENERATING_CLUSTER_MODEL","description":"..","time-in-ms":12,"completionPercentage":40.0}]}],"version":1}"#;

/// What it does and was asked.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// How often it says next that it has seen too little.
    pub(crate) too_little: usize,
    /// Whether moves end when they are looked at.
    pub(crate) finishes: bool,
    /// Its tasks: an id, and the status.
    tasks: Vec<(String, &'static str)>,
    /// How many tasks it has ever had.
    made: usize,
    /// What it was asked, by path.
    pub(crate) asked: Vec<String>,
}

/// The server. It ends with the test.
#[derive(Debug, Clone)]
pub(crate) struct CruiseControl {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) url: String,
}

impl CruiseControl {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &shared);
            }
        });
        Self { state, url }
    }

    /// It is restarted: all its tasks are forgotten, and it moves nothing.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().tasks.clear();
    }
}

fn answer(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let mut header = String::new();
    while reader.read_line(&mut header).is_ok_and(|read| read > 2) {
        header.clear();
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, task, body) = state.lock().unwrap().answer(&path);
    let task = task.map(|id| format!("User-Task-ID: {id}\r\n")).unwrap_or_default();
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\n{task}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let _ = (&stream).write_all(text.as_bytes());
}

impl State {
    fn answer(&mut self, path: &str) -> (u16, Option<String>, String) {
        self.asked.push(path.to_owned());
        let (endpoint, query) = path.rsplit('/').next().unwrap().split_once('?').unwrap();
        let plain = |body: Value| (200, None, body.to_string());
        match endpoint {
            "state" => {
                let moves = self.tasks.iter().any(|(_, status)| *status == "InExecution");
                plain(json!({ "ExecutorState": match moves {
                    true => json!({ "state": "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS",
                                    "finishedDataMovement": 30, "totalDataToMove": 120 }),
                    false => json!({ "state": "NO_TASK_IN_PROGRESS" }),
                } }))
            }
            "stop_proposal_execution" => {
                for (_, status) in &mut self.tasks {
                    if *status == "InExecution" {
                        *status = "CompletedWithError";
                    }
                }
                plain(json!({ "message": "Proposal execution stopped.", "version": 1 }))
            }
            "user_tasks" => {
                let id = query.rsplit_once("user_task_ids=").unwrap().1;
                let found = self.tasks.iter_mut().find(|(task, _)| task == id);
                let tasks: Vec<Value> =
                    found.map(|task| self_task(task, self.finishes)).into_iter().collect();
                plain(json!({ "userTasks": tasks, "version": 1 }))
            }
            _ if self.too_little > 0 => {
                self.too_little -= 1;
                let what =
                    "com.linkedin.cruisecontrol.exception.NotEnoughValidWindowsException: no";
                let message =
                    format!("Error processing POST request '/rebalance' due to: '{what}'.");
                (500, None, json!({ "version": 1, "errorMessage": message }).to_string())
            }
            _ => {
                self.made += 1;
                let id = format!("task-{}", self.made);
                if query.contains("dryrun=true") {
                    self.tasks.push((id.clone(), "Active"));
                    return (202, Some(id), PROGRESS.to_owned());
                }
                self.tasks.push((id.clone(), "InExecution"));
                (200, Some(id), format!(r#"{{"summary":{SUMMARY},"version":1}}"#))
            }
        }
    }
}

/// A task as it is told; one that thinks is done when it is asked again.
fn self_task((id, status): &mut (String, &'static str), finishes: bool) -> Value {
    let told = *status;
    match *status {
        "Active" => *status = "Completed",
        "InExecution" if finishes => *status = "Completed",
        _ => {}
    }
    let original = match told {
        "CompletedWithError" => "CompletedWithError".to_owned(),
        _ => format!(r#"{{"summary":{SUMMARY},"version":1}}"#),
    };
    json!({ "Status": told, "UserTaskId": id, "StartMs": "1", "ClientIdentity": "x",
            "RequestURL": "POST /rebalance", "originalResponse": original })
}
