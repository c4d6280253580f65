//! Tables of what the engines say of a request, what has to be read for that, and what is asked of them.

use super::*;
use crate::cluster::fact::{Fact, Why};
use crate::rebalance::cruise_control::Refusal;
use crate::rebalance::execution::{self, Outcome};
use crate::rebalance::request::cruise_control::Task;
use crate::rebalance::request::record::{Plan, Session};

/// A request with the uid `u` in its second attempt, in words: the phase, `cc` for Cruise Control as its engine, and
/// `own`, `old` or `other` for moves of this attempt, of an earlier one and of another request, with how far they are.
struct Case {
    snapshot: Snapshot,
    record: Record,
}

fn moves(uid: &str, attempt: u64, how: &str) -> Moves {
    use execution::Phase::{Ended, Moving};
    let (phase, outcome) = match how {
        "runs" => (Moving, None),
        "finished" => (Ended, Some(Outcome::Finished)),
        "stopped" => (Ended, Some(Outcome::Stopped)),
        _ => (Ended, Some(Outcome::Outdated)),
    };
    Moves {
        by: Claimant { name: "r".to_owned(), uid: uid.to_owned(), attempt },
        recorded: execution::Recorded { phase, outcome, ..execution::Recorded::default() },
    }
}

fn case(text: &str) -> Case {
    let mut words = text.split_whitespace();
    let phase = Phase::from_name(words.next().unwrap()).unwrap();
    let mut kafka = Kafka { has_record: true, ..Kafka::default() };
    let mut snapshot = Snapshot { moves: Fact::read(None, 0), ..Snapshot::default() };
    snapshot.resource.uid = "u".to_owned();
    let paused_in = (phase == Phase::ReconciliationPaused).then_some(Phase::Rebalancing);
    let request = Recorded { phase, attempt: 2, paused_in, ..Recorded::default() };
    let mut record = Record { request, ..Record::default() };
    let mut session = Session { attempt: 2, ..Session::default() };
    let asked = |idle| CruiseControl::Asked(Answers { idle, ..Answers::default() });
    for word in words {
        let set = |of: Moves| Fact::read(Some(of), 0);
        match word.split_once('-').unwrap_or((word, "")) {
            ("cc", "") => kafka.engine = Some("cruise-control".to_owned()),
            ("unrecorded", "") => kafka.has_record = false,
            ("own", how) => snapshot.moves = set(moves("u", 2, how)),
            ("old", how) => snapshot.moves = set(moves("u", 1, how)),
            ("other", how) => snapshot.moves = set(moves("v", 2, how)),
            ("moves?", "") => snapshot.moves = Fact::Unknown(Why::Unreachable),
            ("stored", "") => snapshot.plan_stored = Fact::read(true, 0),
            ("unstored", "") => snapshot.plan_stored = Fact::read(false, 0),
            ("gone", "") => snapshot.other = Fact::read(None, 0),
            ("heard", how) => {
                let attempt = if how == "older" { 1 } else { 2 };
                let phase = if how == "not" { Phase::Rebalancing } else { Phase::Ready };
                let other = Recorded { phase, attempt, ..Recorded::default() };
                snapshot.other = Fact::read(Some(other), 0);
            }
            ("plan", _) => record.plan = Some(Plan { attempt: 2, ..Plan::default() }),
            ("oldplan", _) => record.plan = Some(Plan { attempt: 1, ..Plan::default() }),
            ("task", _) => session.proposal = Some("p".to_owned()),
            ("asked", _) => session.asked = true,
            ("moving", _) => session.execution = Some("x".to_owned()),
            ("failed", _) => session.failure = Some(Failure::Final("no".to_owned())),
            ("refused", _) => {
                snapshot.cruise_control = Fact::read(CruiseControl::Refused(Refusal::Scheme), 0);
            }
            ("missing", _) => {
                snapshot.cruise_control = Fact::read(CruiseControl::Missing("a".to_owned()), 0);
            }
            ("idle", _) => snapshot.cruise_control = Fact::read(asked(Fact::read(true, 0)), 0),
            ("busy", _) => snapshot.cruise_control = Fact::read(asked(Fact::read(false, 0)), 0),
            ("idle?", _) => snapshot.cruise_control = Fact::read(asked(Fact::default()), 0),
            ("forgotten", _) => {
                let answers =
                    Answers { proposal: Fact::read(Task::Unknown, 0), ..Answers::default() };
                snapshot.cruise_control = Fact::read(CruiseControl::Asked(answers), 0);
            }
            (other, _) => panic!("{other}"),
        }
    }
    record.session = Some(session);
    snapshot.kafka = Fact::read(Some(kafka), 0);
    Case { snapshot, record }
}

impl Case {
    fn view(&self) -> View<'_> {
        let kafka = self.snapshot.kafka.known().and_then(Option::as_ref);
        View { snapshot: &self.snapshot, record: &self.record, kafka }
    }
}

fn word<T: std::fmt::Debug>(found: Option<T>) -> String {
    let text = found.map_or("?".to_owned(), |found| format!("{found:?}"));
    text.split('(').next().unwrap_or_default().to_owned()
}

#[test]
#[rustfmt::skip]
fn what_the_engines_say_of_a_request() {
    let rows = [
        // The plan, the moves, and whether others run.
        ("New",                              "Unasked Unstarted false"),
        ("New moves?",                       "Unasked Unstarted ?"),
        ("PendingProposal oldplan",          "Unasked Unstarted false"),
        ("ProposalReady plan",               "Ready Unstarted false"),
        // Approved and not begun: without its plan it never will be.
        ("Rebalancing plan stored",          "Ready Unstarted false"),
        ("Rebalancing plan unstored",        "Ready Lost false"),
        ("Rebalancing plan",                 "Ready ? false"),
        ("Rebalancing plan own-runs",        "Ready Running false"),
        ("Rebalancing plan own-finished",    "Ready Finished false"),
        ("Rebalancing plan own-stopped",     "Ready Stopped false"),
        ("Rebalancing plan own-outdated",    "Ready Lost false"),
        // Those of an earlier attempt end first.
        ("PendingProposal old-runs",         "Unasked Running true"),
        ("PendingProposal old-finished",     "Unasked Unstarted false"),
        ("Rebalancing plan old-finished stored", "Ready Unstarted false"),
        // Others that run, or that have ended without their request having heard of it.
        ("ProposalReady plan other-runs",    "Ready Unstarted true"),
        ("Rebalancing plan stored other-finished", "Ready Unstarted false"),
        ("ProposalReady plan other-finished", "Ready Unstarted ?"),
        ("ProposalReady plan other-finished gone", "Ready Unstarted false"),
        ("ProposalReady plan other-finished heard", "Ready Unstarted false"),
        ("ProposalReady plan other-finished heard-not", "Ready Unstarted true"),
        ("ProposalReady plan other-finished heard-older", "Ready Unstarted false"),
        // Cruise Control.
        ("PendingProposal cc",               "? ? ?"),
        ("PendingProposal cc refused",       "? ? ?"),
        ("PendingProposal cc missing",       "Failed ? ?"),
        ("PendingProposal cc idle",          "Unasked Unstarted false"),
        ("PendingProposal cc busy",          "Unasked Unstarted true"),
        ("PendingProposal cc idle?",         "Unasked Unstarted ?"),
        ("PendingProposal cc idle other-runs", "Unasked Unstarted true"),
        ("PendingProposal cc idle moves?",   "Unasked Unstarted ?"),
        ("PendingProposal cc task idle",     "? Unstarted false"),
        ("PendingProposal cc task forgotten", "Unasked Unstarted ? forgotten"),
        ("Rebalancing cc plan asked busy",   "Ready Running false"),
        // It is heard of its moves also when the engine is another one by now.
        ("Rebalancing plan asked busy",      "Ready Running false"),
        ("Rebalancing plan asked idle",      "Ready Lost false"),
        ("Rebalancing plan asked refused",   "? ? ?"),
        ("ReconciliationPaused plan asked busy", "Ready Running false"),
        ("Rebalancing plan asked failed stored", "Ready Unstarted false"),
        ("Stopped plan asked busy",          "Ready Unstarted false"),
        // Moves of our own, of a time when we were the engine, end first.
        ("Rebalancing cc plan own-runs refused", "Ready Running false"),
        ("Rebalancing cc plan own-finished idle", "Ready Unstarted false"),
    ];
    for (text, expected) in rows {
        let heard = case(text).view().heard();
        let forgotten = if heard.forgotten { " forgotten" } else { "" };
        let (plan, moves, others) = (word(heard.proposal), word(heard.execution), word(heard.others_running));
        assert_eq!(format!("{plan} {moves} {others}{forgotten}"), expected, "{text}");
    }
}

#[test]
#[rustfmt::skip]
fn only_what_a_decision_rests_on_is_read() {
    let none = Needs::default;
    let other = || Claimant { name: "r".to_owned(), uid: "v".to_owned(), attempt: 2 };
    let ask = |state, proposal: Option<&str>, execution: Option<&str>| Needs {
        cruise_control: Some(Questions {
            state, proposal: proposal.map(str::to_owned), execution: execution.map(str::to_owned),
        }),
        ..none()
    };
    let rows = [
        ("PendingProposal",                        none()),
        ("Rebalancing plan",                       Needs { plan: Some(2), ..none() }),
        ("Rebalancing plan stored",                none()),
        ("Rebalancing plan own-runs",              none()),
        ("Rebalancing plan own-finished",          none()),
        ("Rebalancing plan old-runs",              none()),
        ("Rebalancing plan old-finished",          Needs { plan: Some(2), ..none() }),
        ("ProposalReady plan other-finished",      Needs { other: Some(other()), ..none() }),
        ("ProposalReady plan other-finished gone", none()),
        ("ProposalReady plan other-runs",          none()),
        ("PendingProposal other-finished",         none()),
        ("PendingProposal cc",                     ask(true, None, None)),
        ("PendingProposal cc task",                ask(true, Some("p"), None)),
        ("ProposalReady cc task plan",             ask(true, None, None)),
        ("Rebalancing cc task plan asked moving",  ask(true, None, Some("x"))),
        ("Rebalancing cc plan asked moving failed", ask(true, None, None)),
        ("Rebalancing cc plan own-runs",           ask(false, None, None)),
        ("Rebalancing plan asked moving",          ask(true, None, Some("x"))),
        ("Stopped plan asked moving",              none()),
        ("Rebalancing cc plan idle",               none()),
    ];
    for (text, expected) in rows {
        assert_eq!(case(text).view().needs(), expected, "{text}");
    }
}

#[test]
#[rustfmt::skip]
fn what_is_asked_of_an_engine() {
    let drive = |claimed, stop, hold| Some(Act::Drive(Orders { claimed, stop, hold }));
    let rows = [
        ("PendingProposal",                      Duty::Propose, Some(Act::MakePlan)),
        ("PendingProposal oldplan",              Duty::Propose, Some(Act::MakePlan)),
        ("PendingProposal plan",                 Duty::Propose, None),
        ("ProposalReady plan",                   Duty::Rest,    None),
        // Moves begin when nothing else has the note of moves.
        ("Rebalancing plan",                     Duty::Execute, Some(Act::BeginMoves)),
        ("Rebalancing plan old-finished",        Duty::Execute, Some(Act::BeginMoves)),
        ("Rebalancing plan other-finished",      Duty::Execute, Some(Act::BeginMoves)),
        ("Rebalancing plan other-runs",          Duty::Execute, None),
        ("Rebalancing plan own-finished",        Duty::Execute, None),
        ("Rebalancing plan moves?",              Duty::Execute, None),
        // Moves that run are seen to their end.
        ("Rebalancing plan own-runs",            Duty::Execute, drive(true, false, false)),
        ("Rebalancing plan own-runs",            Duty::Stop,    drive(true, true, false)),
        ("ReconciliationPaused plan own-runs",   Duty::Hold,    drive(true, false, true)),
        ("NotReady plan own-runs",               Duty::Stop,    drive(false, true, false)),
        ("PendingProposal old-runs",             Duty::Propose, drive(false, true, false)),
        ("Rebalancing plan old-runs",            Duty::Execute, drive(false, true, false)),
        ("Rebalancing cc plan own-runs idle",    Duty::Execute, drive(true, false, false)),
        ("Rebalancing plan own-runs unrecorded", Duty::Execute, None),
        ("Stopped other-runs",                   Duty::Stop,    None),
        // Cruise Control is asked once, and only if it can be.
        ("PendingProposal cc idle",              Duty::Propose, Some(Act::AskPlan)),
        ("PendingProposal cc idle task",         Duty::Propose, None),
        ("PendingProposal cc idle plan",         Duty::Propose, None),
        ("PendingProposal cc refused",           Duty::Propose, None),
        ("PendingProposal cc missing",           Duty::Propose, None),
        ("Rebalancing cc idle plan",             Duty::Execute, Some(Act::AskMoves)),
        ("Rebalancing cc idle plan asked",       Duty::Execute, Some(Act::AskProgress)),
        ("Rebalancing cc busy plan asked",       Duty::Stop,    Some(Act::AskStop)),
        ("Rebalancing cc busy plan",             Duty::Stop,    None),
        ("Stopped cc busy plan asked",           Duty::Stop,    None),
        // What it moves it is asked about, whatever the engine is by now.
        ("Rebalancing busy plan asked",          Duty::Execute, Some(Act::AskProgress)),
        ("Rebalancing busy plan asked",          Duty::Stop,    Some(Act::AskStop)),
        ("NotReady busy plan asked",             Duty::Stop,    None),
        // To stop it ends the moves of all requests: one that is over does not ask for that.
        ("NotReady cc busy plan asked",          Duty::Stop,    None),
        ("ReconciliationPaused cc busy asked",   Duty::Hold,    None),
    ];
    for (text, duty, expected) in rows {
        assert_eq!(case(text).view().act(duty), expected, "{text} {duty:?}");
    }
}

#[test]
fn moves_begin_on_facts_of_ten_seconds_and_not_on_older_ones() {
    const READ_MS: u64 = 1_000_000;
    let orders = Orders { claimed: true, stop: false, hold: false };
    let rows = [
        (Act::BeginMoves, true),
        (Act::AskMoves, true),
        (Act::Drive(orders), false),
        (Act::MakePlan, false),
        (Act::AskPlan, false),
        (Act::AskProgress, false),
        (Act::AskStop, false),
    ];
    type Read = fn(&mut Snapshot);
    let facts: [(&str, Read); 5] = [
        ("the cluster", |s| s.kafka = Fact::read(None, READ_MS)),
        ("moves", |s| s.moves = Fact::read(None, READ_MS)),
        ("the plan", |s| s.plan_stored = Fact::read(true, READ_MS)),
        ("the other request", |s| s.other = Fact::read(None, READ_MS)),
        ("Cruise Control", |s| {
            let answers = CruiseControl::Asked(Answers::default());
            s.cruise_control = Fact::read(answers, READ_MS);
        }),
    ];
    for (act, hurts) in rows {
        assert!(!act.is_stale(&Snapshot::default(), READ_MS), "{act:?}: unknown facts have no age");
        for (name, read) in facts {
            let mut snapshot = Snapshot::default();
            read(&mut snapshot);
            assert!(!act.is_stale(&snapshot, READ_MS + 10_000), "{act:?} {name}");
            assert_eq!(act.is_stale(&snapshot, READ_MS + 10_001), hurts, "{act:?} {name}");
        }
    }
}
