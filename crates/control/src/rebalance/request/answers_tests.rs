//! The meaning of every answer of both engines.

use super::*;
use Meaning::{Busy, Computing, Failed, Ready, TooLittleKnown};

const NONE: &str = "com.linkedin.cruisecontrol.exception.NotEnoughValidWindowsException: none";
const FULL: &str = "there are 5 active tasks, which has reached the servlet capacity.";
const GONE: &str = "java.lang.IllegalArgumentException: Broker 9 does not exist.";

fn last(why: &str) -> Failure {
    Failure::Final(why.to_owned())
}

fn passing(why: &str) -> Failure {
    Failure::Passing(why.to_owned())
}

fn reply(status: u16, error: Option<&str>) -> Reply {
    Reply { status, error: error.map(str::to_owned), ..Reply::default() }
}

#[test]
#[rustfmt::skip]
fn every_reply_has_a_meaning() {
    let unknown = || Failed(last("Rebalance returned unknown response"));
    // The status code, the error message, whether there is a summary and progress, what that means.
    let rows = [
        (200, None,       true,  false, Ready),
        (201, None,       true,  false, Ready),
        (200, None,       false, false, unknown()),
        (200, None,       false, true,  unknown()),
        (200, Some("no"), true,  false, Failed(last("no"))),
        (202, None,       false, true,  Computing),
        (202, Some("no"), false, true,  Computing),
        (202, None,       true,  false, unknown()),
        (500, Some(NONE), false, false, TooLittleKnown(NONE.to_owned())),
        (500, Some(FULL), false, false, Busy),
        (500, Some(GONE), false, false, Failed(last("Some/all brokers specified don't exist"))),
        (500, Some("no"), false, false, Failed(last("Cruise Control answered: no"))),
        (500, None,       false, false, Failed(last("Unexpected status code 500"))),
        (502, None,       false, false, Failed(passing("Cruise Control answered with 502"))),
        (503, Some("no"), false, false, Failed(passing("Cruise Control answered with 503"))),
        (504, None,       true,  true,  Failed(passing("Cruise Control answered with 504"))),
        (301, None,       false, false, Failed(last("Unexpected status code 301"))),
        (401, Some("no"), false, false, Failed(last("Unexpected status code 401"))),
        (404, None,       true,  false, Failed(last("Unexpected status code 404"))),
    ];
    for (status, error, has_summary, has_progress, expected) in rows {
        let reply = Reply { has_summary, has_progress, ..reply(status, error) };
        assert_eq!(reply.meaning(), expected, "{reply:?}");
    }
}

#[test]
#[rustfmt::skip]
fn every_reply_about_a_task_has_a_meaning() {
    let status = |word: &str| Listed::Status(Some(word.to_owned()));
    let failed = |failure| Task::Failed(failure);
    let rows = [
        (200, None,       status("Active"),               Task::Active),
        (200, None,       status("InExecution"),          Task::InExecution),
        (200, None,       status("Completed"),            Task::Completed),
        (200, None,       status("CompletedWithError"),   Task::CompletedWithError),
        (200, None,       status("COMPLETED_WITH_ERROR"), Task::CompletedWithError),
        (200, None,       status("Lost"),                 failed(last("a task has the status Lost"))),
        (200, None,       Listed::Status(None),           failed(last("a task has the status nothing"))),
        (200, None,       Listed::Absent,                 Task::Unknown),
        (200, None,       Listed::Unreadable,             failed(last("user_tasks returned unknown response"))),
        (500, Some(FULL), Listed::Unreadable,             Task::Busy),
        (500, Some("no"), Listed::Unreadable,             failed(last("Cruise Control answered: no"))),
        (504, None,       Listed::Unreadable,             failed(passing("Cruise Control answered with 504"))),
        (404, None,       status("Completed"),            failed(passing("Cruise Control answered with 404"))),
    ];
    for (code, error, listed, expected) in rows {
        let has_plan = matches!(expected, Task::InExecution | Task::Completed);
        let task = Task::of(code, error, &listed);
        assert_eq!((task.has_plan(), task), (has_plan, expected), "{code} {error:?} {listed:?}");
    }
}

/// Kept, made, failed or forgotten; the recorded tasks, if they are recorded anew; and the report.
fn brief(change: &Change) -> String {
    let plan = match &change.plan {
        PlanChange::Kept => "kept".to_owned(),
        PlanChange::Made => "made".to_owned(),
        PlanChange::Failed(failure) => format!("failed {failure}"),
        PlanChange::Forgotten => "forgotten".to_owned(),
    };
    let session = change.session.as_ref().map(|session| {
        let task = |of: &str, task: &Option<String>| {
            task.as_ref().map(|id| format!(" {of} {id}")).unwrap_or_default()
        };
        let (plan, moves) = (task("plan", &session.proposal), task("moves", &session.execution));
        let asked = if session.asked { " asked" } else { "" };
        let failed = session.failure.as_ref().map(|failure| format!(" failed {failure}"));
        format!(", session{plan}{moves}{asked}{}", failed.unwrap_or_default())
    });
    let answer = &change.answer;
    let warned = answer.warnings.iter().map(|one| format!(", {}", one.reason().name()));
    let progress = answer.progress.as_ref().map(|one| format!(", {} bytes", one.bytes_done));
    let flags = [(answer.changed, ", changed"), (answer.stopping, ", stopping")];
    let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned());
    let all = session.into_iter().chain(warned).chain(progress).chain(flags);
    plan + &all.collect::<String>()
}

#[test]
#[rustfmt::skip]
fn the_rows_hold() {
    use Heard::{Begun, NotAsked, Passed, Planned, Replied, Silent, State, StopReplied};
    let begun = |status, error| Replied(Reply {
        task: Some("x".to_owned()), has_summary: status == 200, has_progress: status == 202, ..reply(status, error)
    });
    let drive = |claimed, stop| Act::Drive(Orders { claimed, stop, hold: false });
    let moved = || Progress { bytes_done: 7, ..Progress::default() };
    let state = |moved_mb| State(Some(ExecutorState { state: "BUSY".to_owned(), moved_mb }));
    let silent = || Silent("late".to_owned());
    // The act, what was heard, what changes.
    let rows = [
        (Act::AskPlan, begun(200, None),             "made, session plan x, changed"),
        (Act::AskPlan, begun(202, None),             "kept, session plan x, changed"),
        (Act::AskPlan, begun(500, Some(FULL)),       "kept"),
        (Act::AskPlan, begun(500, Some(NONE)),       "kept, TooLittleKnown"),
        (Act::AskPlan, begun(500, Some("no")),       "failed Cruise Control answered: no, session plan x, changed"),
        (Act::AskPlan, begun(504, None),             "failed Cruise Control answered with 504, session plan x, changed"),
        (Act::AskPlan, silent(),                     "kept, CruiseControlUnreachable"),
        (Act::AskPlan, NotAsked,                     "kept"),
        // That moves are asked for is recorded already.
        (Act::AskMoves, begun(200, None),            "made, session moves x asked, changed"),
        (Act::AskMoves, begun(202, None),            "kept, session moves x asked, changed"),
        (Act::AskMoves, begun(500, Some(FULL)),      "kept, session, changed"),
        (Act::AskMoves, begun(500, Some(NONE)),      "forgotten, session moves x asked, changed"),
        (Act::AskMoves, begun(500, Some("no")),      "kept, session moves x asked failed Cruise Control answered: no, changed"),
        (Act::AskMoves, begun(504, None),            "kept, session moves x asked, CruiseControlUnreachable"),
        (Act::AskMoves, silent(),                    "kept, CruiseControlUnreachable"),
        (Act::AskMoves, NotAsked,                    "kept"),
        (Act::AskStop, StopReplied(200),             "kept, stopping"),
        (Act::AskStop, StopReplied(403),             "kept, CruiseControlUnreachable, stopping"),
        (Act::AskStop, StopReplied(503),             "kept, CruiseControlUnreachable, stopping"),
        (Act::AskStop, silent(),                     "kept, CruiseControlUnreachable, stopping"),
        (Act::AskStop, NotAsked,                     "kept, stopping"),
        (Act::AskProgress, State(None),              "kept, CruiseControlExecutorState"),
        (Act::AskProgress, state(None),              "kept, CruiseControlExecutorState"),
        (Act::AskProgress, state(Some((1, 2))),      "kept, 1048576 bytes"),
        (Act::AskProgress, state(Some((u64::MAX, u64::MAX))), "kept, 18446744073709551615 bytes"),
        (Act::AskProgress, silent(),                 "kept, CruiseControlExecutorState"),
        (Act::AskProgress, NotAsked,                 "kept"),
        (Act::MakePlan, Planned(Ok(())),             "made, changed"),
        (Act::MakePlan, Planned(Err(Unmade::Later("rates".to_owned()))), "kept, TooLittleKnown"),
        (Act::MakePlan, Planned(Err(Unmade::Failed(last("too full")))),   "failed too full, changed"),
        (Act::MakePlan, NotAsked,                    "kept"),
        (Act::BeginMoves, Begun,                     "kept, changed"),
        (Act::BeginMoves, NotAsked,                  "kept"),
        (drive(true, false), Passed(Some((true, moved()))),  "kept, 7 bytes, changed"),
        (drive(true, false), Passed(Some((false, moved()))), "kept, 7 bytes"),
        (drive(true, false), Passed(None),           "kept"),
        (drive(true, true), Passed(None),            "kept, stopping"),
        (drive(false, false), NotAsked,              "kept, stopping"),
    ];
    for (act, heard, expected) in rows {
        let session = before(act, Session::default());
        assert_eq!(brief(&after(act, session, heard.clone())), expected, "{act:?} {heard:?}");
    }
}

#[test]
fn what_must_not_be_lost_is_recorded_before_the_act() {
    let drive = Act::Drive(Orders { claimed: true, stop: false, hold: false });
    let rows = [
        (Act::AskMoves, true, false),
        (Act::AskStop, false, true),
        (Act::AskPlan, false, false),
        (Act::AskProgress, false, false),
        (Act::MakePlan, false, false),
        (Act::BeginMoves, false, false),
        (drive, false, false),
    ];
    for (act, asked, stopping) in rows {
        let session = before(act, Session::default());
        assert_eq!((session.asked, session.stopping), (asked, stopping), "{act:?}");
    }
}
