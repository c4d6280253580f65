//! Tables of what users see of a request, and of when it is looked at again.

use super::*;
use crate::rebalance::request::record::{Plan, Session};
use crate::rebalance::request::words::{Failure, Hindrance};

fn basis() -> Basis {
    Basis {
        resource: Resource { uid: "u".to_owned(), generation: 5, ..Resource::default() },
        interval_ms: 120_000,
        moved_on: false,
        duty: Duty::Rest,
        ignored: false,
        warnings: Vec::new(),
        others_running: Some(false),
        runs: false,
        session: SessionId::Attempt,
        shows_unknown: true,
    }
}

fn record(phase: Phase) -> Record {
    let request = Recorded { phase, attempt: 1, ..Recorded::default() };
    Record { request, plan: Some(Plan { attempt: 1, ..Plan::default() }), ..Record::default() }
}

fn report(basis: &Basis, record: &Record) -> Report {
    basis.report(record, &Answer::default()).unwrap()
}

#[test]
#[rustfmt::skip]
fn what_is_said_of_progress_is_what_the_states_ask_for() {
    let progress = Progress { bytes_total: 200, bytes_done: 50, left_ms: Some(120_000), ..Progress::default() };
    let early = Progress { left_ms: None, ..progress };
    let rows = [
        (Phase::New,                  Some(&progress), "none"),
        (Phase::PendingProposal,      Some(&progress), "none"),
        (Phase::ReconciliationPaused, Some(&progress), "none"),
        (Phase::ProposalReady,        None,            "Percent=Number(0)"),
        (Phase::Rebalancing,          Some(&progress), "Minutes=Number(2) Percent=Number(25) Executor=Executor"),
        (Phase::Rebalancing,          Some(&early),    "Percent=Number(25) Executor=Executor"),
        (Phase::Rebalancing,          None,            "Minutes=Kept Percent=Kept Executor=Kept"),
        (Phase::Stopped,              Some(&progress), "Percent=Kept Executor=Kept"),
        (Phase::NotReady,             None,            "Percent=Kept Executor=Kept"),
        (Phase::Ready,                None,            "Minutes=Number(0) Percent=Number(100)"),
    ];
    for (phase, progress, expected) in rows {
        let found = entries(phase, progress).map_or("none".to_owned(), |entries| {
            let texts = entries.iter().map(|(entry, content)| format!("{entry:?}={content:?}"));
            texts.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found, expected, "{phase:?}");
    }
}

#[test]
#[rustfmt::skip]
fn a_plan_is_shown_while_there_is_one_to_speak_of() {
    // The phase, whether the ConfigMap is written, and whether the result and the session are shown.
    let rows = [
        (Phase::New,                  false, false, false),
        (Phase::PendingProposal,      false, false, true),
        (Phase::ProposalReady,        true,  true,  true),
        (Phase::Rebalancing,          true,  true,  true),
        (Phase::Stopped,              true,  true,  false),
        (Phase::NotReady,             true,  false, false),
        (Phase::Ready,                true,  true,  false),
        (Phase::ReconciliationPaused, false, false, false),
    ];
    for (phase, entries, result, session) in rows {
        let found = report(&basis(), &record(phase));
        assert_eq!((found.entries.is_some(), found.shows_result), (entries, result), "{phase:?}");
        assert_eq!(found.session, session.then(|| "u/1".to_owned()), "{phase:?}");
        let failure = Some(Failure::Final("no".to_owned()));
        for plan in [None, Some(Plan { attempt: 0, ..Plan::default() }), Some(Plan { attempt: 1, failure, ..Plan::default() })] {
            let found = report(&basis(), &Record { plan, ..record(phase) });
            assert!(found.entries.is_none() && !found.shows_result, "{phase:?}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn the_session_is_what_the_engine_knows_the_request_by() {
    let text = |text: &str| Some(text.to_owned());
    let session = |proposal, execution| Some(Session { attempt: 1, proposal, execution, ..Session::default() });
    let rows = [
        (SessionId::Attempt, None, text("u/1")),
        (SessionId::None,    session(text("p"), text("x")), None),
        (SessionId::Task,    None, None),
        (SessionId::Task,    session(text("p"), None), text("p")),
        (SessionId::Task,    session(text("p"), text("x")), text("x")),
        (SessionId::Task,    Some(Session { attempt: 0, proposal: text("p"), ..Session::default() }), None),
    ];
    for (id, session, expected) in rows {
        let basis = Basis { session: id, ..basis() };
        let found = report(&basis, &Record { session: session.clone(), ..record(Phase::Rebalancing) });
        assert_eq!(found.session, expected, "{id:?} {session:?}");
    }
}

fn shown(condition: &Condition) -> String {
    let reason = condition.reason.map_or("-", Reason::name);
    format!("{} {reason} {}", condition.kind.name(), condition.message.as_deref().unwrap_or("-"))
}

#[test]
#[rustfmt::skip]
fn only_what_is_not_ready_says_why() {
    let rows = [
        (Phase::Ready,    Some(Failure::Final("no".to_owned())),        "Ready - -"),
        (Phase::NotReady, None,                                         "NotReady - -"),
        (Phase::NotReady, Some(Failure::Final("no".to_owned())),        "NotReady RebalanceFailed no"),
        (Phase::NotReady, Some(Failure::Passing("later".to_owned())),   "NotReady EngineUnavailable later"),
        (Phase::NotReady, Some(Failure::Hindered(Hindrance::KafkaNotReady)), "NotReady KafkaNotReady Kafka cluster is not Ready"),
        (Phase::NotReady, Some(Failure::Hindered(Hindrance::InvalidSpec("goals".to_owned()))), "NotReady InvalidResourceException goals"),
    ];
    for (phase, failure, expected) in rows {
        let mut record = record(phase);
        record.request.failure = failure;
        assert_eq!(shown(&report(&basis(), &record).conditions[0]), expected);
    }
}

#[test]
fn warnings_come_after_the_state_in_one_order() {
    let mut basis = basis();
    basis.warnings = vec![Warning::KafkaNotReady];
    basis.resource.ignored_fields =
        vec![IgnoredField::Unknown("a".to_owned()), IgnoredField::Unhonoured("b".to_owned())];
    let mut record = record(Phase::ProposalReady);
    record.plan.as_mut().unwrap().unknown = vec!["CPU".to_owned(), "rates".to_owned()];
    let warnings = vec![Warning::Unreachable("no route".to_owned())];
    let answer = Answer { warnings, ..Answer::default() };
    let reasons = |basis: &Basis| {
        let found = basis.report(&record, &answer).unwrap().conditions;
        found.iter().map(shown).collect::<Vec<_>>()
    };
    let all = [
        "ProposalReady - -",
        "Warning KafkaNotReady Kafka cluster is not Ready; moves that have begun go on",
        "Warning CruiseControlUnreachable no route",
        "Warning PartialKnowledge The plan does not take into account: CPU, rates",
        "Warning UnknownFields a",
        "Warning UnhonouredFields b",
    ];
    assert_eq!(reasons(&basis), all);
    basis.shows_unknown = false;
    assert!(!reasons(&basis).iter().any(|one| one.contains("PartialKnowledge")));
    basis.ignored = true;
    assert_eq!(basis.report(&record, &answer), None, "a template has no status");
}

#[test]
fn a_status_is_about_the_generation_that_the_attempt_is_for() {
    let mut record = record(Phase::New);
    assert_eq!(report(&basis(), &record).observed_generation, 5, "nothing was asked for yet");
    record.request.generation = 4;
    assert_eq!(report(&basis(), &record).observed_generation, 4);
}

#[test]
#[rustfmt::skip]
fn a_request_is_looked_at_again_as_soon_as_something_may_have_changed() {
    let recovering = || Some(Failure::Passing("later".to_owned()));
    let (at_once, busy, later, interval) = (100, 1_000, 5_000, 120_000);
    // The phase, the failure, what else holds, and when.
    let rows = [
        (Phase::New,                  None,         "",              busy),
        (Phase::PendingProposal,      None,         "",              busy),
        (Phase::Rebalancing,          None,         "",              busy),
        (Phase::Ready,                None,         "",              interval),
        (Phase::Ready,                None,         "event",         at_once),
        (Phase::Ready,                None,         "changed",       at_once),
        (Phase::Ready,                None,         "runs",          busy),
        (Phase::ProposalReady,        None,         "",              interval),
        (Phase::ProposalReady,        None,         "others",        later),
        (Phase::ProposalReady,        None,         "others?",       later),
        (Phase::NotReady,             recovering(), "",              later),
        (Phase::NotReady,             None,         "",              interval),
        (Phase::NotReady,             None,         "stop stopping", busy),
        (Phase::Stopped,              None,         "stop stopping", busy),
        (Phase::Stopped,              None,         "stop",          interval),
        (Phase::Stopped,              None,         "stopping",      interval),
        (Phase::ReconciliationPaused, None,         "",              interval),
        // One that goes begins nothing any more.
        (Phase::New,                  None,         "template",      interval),
        (Phase::PendingProposal,      None,         "deleting",      interval),
        (Phase::ProposalReady,        None,         "template others", interval),
        (Phase::NotReady,             recovering(), "deleting",      interval),
        (Phase::NotReady,             None,         "deleting runs", busy),
        (Phase::Rebalancing,          None,         "deleting",      busy),
        (Phase::Stopped,              None,         "deleting event", at_once),
    ];
    for (phase, failure, words, expected) in rows {
        let (mut basis, mut answer, mut record) = (basis(), Answer::default(), record(phase));
        record.request.failure = failure;
        for word in words.split_whitespace() {
            match word {
                "event" => basis.moved_on = true,
                "changed" => answer.changed = true,
                "runs" => basis.runs = true,
                "others" => basis.others_running = Some(true),
                "others?" => basis.others_running = None,
                "stop" => basis.duty = Duty::Stop,
                "deleting" => basis.resource.deleting = true,
                "template" => {
                    basis.resource.annotations.template = Some("true".to_owned());
                }
                other => answer.stopping = other == "stopping",
            }
        }
        assert_eq!(basis.look_again_ms(&record, &answer), expected, "{phase:?} {words}");
    }
}
