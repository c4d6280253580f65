//! Passes over one request from its facts to its decision.

use super::record::{Plan, Session};
use super::snapshot::{Annotations, Answers, Claimant, CruiseControl, Moves, Readiness, Resource};
use super::*;
use crate::cluster::fact::Fact;
use crate::rebalance::execution::{self, Outcome};

fn snapshot(annotations: &[(&str, &str)]) -> Snapshot {
    let value = |wanted: &str| {
        let found = annotations.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    let kafka = Kafka {
        has_cruise_control: true,
        readiness: Readiness::Ready,
        has_record: true,
        ..Kafka::default()
    };
    Snapshot {
        now_ms: 1_000,
        interval_ms: 120_000,
        resource: Resource {
            uid: "u".to_owned(),
            generation: 1,
            cluster: Some("c".to_owned()),
            annotations: Annotations {
                rebalance: value("rebalance"),
                template: value("template"),
                auto_approval: value("auto"),
                pause: value("pause"),
            },
            ..Resource::default()
        },
        kafka: Fact::read(Some(kafka), 0),
        moves: Fact::read(None, 0),
        ..Snapshot::default()
    }
}

fn recorded(phase: Phase) -> Record {
    let request = Recorded { phase, attempt: 1, generation: 1, ..Recorded::default() };
    let plan = Some(Plan { attempt: 1, ..Plan::default() });
    Record { request, cluster: Some("c".to_owned()), plan, session: None }
}

/// A decision in words: the phase that is recorded, the act, `consume`, and the state that is reported.
fn show(decision: &Decision) -> String {
    let phase = decision.record.as_ref().map_or("-", |record| record.request.phase.name());
    let act = decision.act.map_or("-".to_owned(), |act| format!("{act:?}"));
    let consume = if decision.consume { " consume" } else { "" };
    let report = decision.report.as_ref().map_or("-", |report| report.conditions[0].kind.name());
    format!("{phase} {act}{consume} {report}")
}

#[test]
#[rustfmt::skip]
fn annotations_say_what_is_wanted() {
    use Phase::{ProposalReady, Ready};
    let rows: &[(&[(&str, &str)], Option<Phase>, &str)] = &[
        (&[],                        None,                "PendingProposal MakePlan PendingProposal"),
        (&[],                        Some(ProposalReady), "ProposalReady - ProposalReady"),
        (&[("auto", "true")],        Some(ProposalReady), "Rebalancing BeginMoves Rebalancing"),
        (&[("auto", "yes")],         Some(ProposalReady), "ProposalReady - ProposalReady"),
        (&[("rebalance", "approve")], Some(ProposalReady), "ProposalReady - consume -"),
        (&[("pause", "true")],       Some(Ready),         "ReconciliationPaused - ReconciliationPaused"),
        (&[("pause", "false")],      Some(Ready),         "Ready - Ready"),
        // A template is no request: it has neither a record nor a status, unless it was a request before.
        (&[("rebalance", "template")], None,              "- - -"),
        (&[("template", "true")],    None,                "- - -"),
        (&[("template", "true")],    Some(ProposalReady), "ProposalReady - -"),
        (&[("template", "false")],   None,                "PendingProposal MakePlan PendingProposal"),
    ];
    for (annotations, phase, expected) in rows {
        let record = phase.map(recorded);
        let decision = decide(&snapshot(annotations), record.as_ref());
        assert_eq!(show(&decision), *expected, "{annotations:?} {phase:?}");
    }
}

#[test]
fn a_request_that_goes_before_it_was_begun_asks_for_nothing() {
    let mut going = snapshot(&[]);
    (going.resource.deleting, going.kafka) = (true, Fact::default());
    assert_eq!(needs(&going, None), Needs::default());
    let decision = decide(&going, None);
    assert_eq!((show(&decision).as_str(), decision.look_again_ms), ("- - -", 120_000));
    let known = recorded(Phase::Ready);
    assert_eq!(needs(&going, Some(&known)).kafka.as_deref(), Some("c"));
}

#[test]
#[rustfmt::skip]
fn the_cluster_is_that_of_the_label_and_else_that_of_the_record() {
    let rows = [
        (Some("d"), true,  Some("d")),
        (Some("d"), false, Some("d")),
        (None,      true,  Some("c")),
        (None,      false, None),
    ];
    for (label, has_record, expected) in rows {
        let mut facts = snapshot(&[]);
        (facts.kafka, facts.moves) = (Fact::default(), Fact::default());
        facts.resource.cluster = label.map(str::to_owned);
        let record = has_record.then(|| recorded(Phase::Ready));
        assert_eq!(needs(&facts, record.as_ref()).kafka.as_deref(), expected, "{label:?}");
    }
}

#[test]
fn an_unknown_cluster_raises_no_event() {
    let mut facts = snapshot(&[]);
    (facts.kafka, facts.moves) = (Fact::default(), Fact::default());
    let decision = decide(&facts, None);
    assert_eq!((decision.event, decision.act), (None, None));
    facts.kafka = Fact::read(None, 0);
    assert_eq!(show(&decide(&facts, None)), "NotReady - NotReady");
}

#[test]
fn the_answer_to_an_act_is_a_part_of_the_report() {
    let mut decision = decide(&snapshot(&[]), Some(&recorded(Phase::PendingProposal)));
    assert_eq!(decision.look_again_ms, 100, "the plan that is recorded is an event");
    let waits = Record { plan: None, ..recorded(Phase::PendingProposal) };
    decision = decide(&snapshot(&[]), Some(&waits));
    assert_eq!((decision.act, decision.look_again_ms), (Some(Act::MakePlan), 1_000));
    let warnings = vec![Warning::TooLittleKnown("no window".to_owned())];
    decision.hear(&waits, &Answer { warnings, ..Answer::default() });
    let reasons = decision.report.unwrap().conditions.into_iter().map(|one| one.reason);
    assert_eq!(reasons.collect::<Vec<_>>(), [None, Some(Reason::TooLittleKnown)]);
}

#[test]
fn a_command_is_acted_on_and_reported_when_its_annotation_is_gone() {
    let facts = snapshot(&[("rebalance", "approve")]);
    let mut decision = decide(&facts, Some(&recorded(Phase::ProposalReady)));
    assert!(decision.consume);
    let record = decision.record.clone().unwrap();
    assert_eq!(record.request.command, Some(Command::Approve));
    decision.hear(&record, &Answer { stopping: true, ..Answer::default() });
    assert_eq!((&decision.report, decision.look_again_ms), (&None, 100));
    let next = decide(&snapshot(&[]), Some(&record));
    assert_eq!(show(&next), "Rebalancing BeginMoves Rebalancing");
}

#[test]
fn a_snapshot_survives_a_file() {
    let facts = snapshot(&[("rebalance", "approve")]);
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), facts);
}

/// A request in words: its phase, and then what is recorded and known of it. `cc` is Cruise Control as the engine,
/// `asked` that it was asked for moves, `busy` and `idle` what it does, and `own` moves of the native engine.
fn case(text: &str) -> (Snapshot, Record) {
    let mut words = text.split_whitespace();
    let mut record = recorded(Phase::from_name(words.next().unwrap()).unwrap());
    let mut facts = snapshot(&[]);
    let mut kafka = facts.kafka.known().cloned().flatten();
    let mut session = Session { attempt: 1, ..Session::default() };
    let own = |phase, outcome| Moves {
        by: Claimant { name: "r".to_owned(), uid: "u".to_owned(), attempt: 1 },
        recorded: execution::Recorded { phase, outcome, ..execution::Recorded::default() },
    };
    let does = |idle| Answers { idle: Fact::read(idle, 0), ..Answers::default() };
    let answers = |answers| Fact::read(CruiseControl::Asked(answers), 0);
    for word in words {
        match word {
            "auto" => facts.resource.annotations.auto_approval = Some("true".to_owned()),
            "template" => facts.resource.annotations.template = Some("true".to_owned()),
            "deleting" => facts.resource.deleting = true,
            "no-label" => facts.resource.cluster = None,
            "label-d" => facts.resource.cluster = Some("d".to_owned()),
            "later" => facts.now_ms = 1_000_000,
            "no-kafka" => kafka = None,
            "cc" => kafka.as_mut().unwrap().engine = Some("cruise-control".to_owned()),
            "own-runs" => facts.moves = Fact::read(Some(own(execution::Phase::Moving, None)), 0),
            "own-finished" => {
                let over = own(execution::Phase::Ended, Some(Outcome::Finished));
                facts.moves = Fact::read(Some(over), 0);
            }
            "stored" => facts.plan_stored = Fact::read(true, 0),
            "unstored" => facts.plan_stored = Fact::read(false, 0),
            "unplanned" => record.plan = None,
            "+stop" => record.request.command = Some(Command::Stop),
            "!passing" => {
                record.request.failure = Some(Failure::Passing("503".to_owned()));
                record.request.failures = 1;
            }
            "task" => session.proposal = Some("p".to_owned()),
            "asked" => session.asked = true,
            "moving" => session.execution = Some("x".to_owned()),
            "idle" => facts.cruise_control = answers(does(true)),
            "busy" => facts.cruise_control = answers(does(false)),
            "forgotten" => {
                let proposal = Fact::read(Task::Unknown, 0);
                facts.cruise_control = answers(Answers { proposal, ..does(true) });
            }
            "error" => {
                let execution = Fact::read(Task::Failed(Failure::Final("400".to_owned())), 0);
                facts.cruise_control = answers(Answers { execution, ..does(false) });
            }
            other => panic!("{other}"),
        }
    }
    facts.kafka = Fact::read(kafka, 0);
    record.session = (session != Session { attempt: 1, ..Session::default() }).then_some(session);
    (facts, record)
}

#[test]
#[rustfmt::skip]
fn what_follows_from_the_facts() {
    let rows = [
        // Moves of the native engine, and when to look again.
        ("Rebalancing own-runs",            "Rebalancing Drive(Orders { claimed: true, stop: false, hold: false }) Rebalancing", 1_000),
        ("Rebalancing own-runs deleting",   "Rebalancing Drive(Orders { claimed: true, stop: true, hold: false }) Rebalancing", 1_000),
        ("Rebalancing own-runs no-label",   "Rebalancing Drive(Orders { claimed: true, stop: true, hold: false }) Rebalancing", 1_000),
        ("NotReady own-runs",               "NotReady Drive(Orders { claimed: false, stop: true, hold: false }) NotReady", 1_000),
        ("Rebalancing own-finished",        "Ready - Ready", 100),
        ("Rebalancing stored no-label",     "NotReady - NotReady", 100),
        // A failure that may pass.
        ("NotReady !passing",               "NotReady - NotReady", 5_000),
        ("NotReady !passing later",         "PendingProposal MakePlan PendingProposal", 100),
        // One that goes and runs nothing is not polled.
        ("PendingProposal unplanned deleting", "PendingProposal - PendingProposal", 120_000),
        ("PendingProposal unplanned template", "PendingProposal - -", 120_000),
        // The plan of another cluster is not that of this one.
        ("ProposalReady auto label-d",      "PendingProposal MakePlan PendingProposal", 100),
        // Cruise Control.
        ("Rebalancing cc idle",             "Rebalancing AskMoves Rebalancing", 1_000),
        ("Rebalancing cc asked busy",       "Rebalancing AskProgress Rebalancing", 1_000),
        ("Rebalancing cc asked busy +stop", "Rebalancing AskStop Rebalancing", 1_000),
        // An error is no end of what still moves.
        ("Rebalancing cc asked moving error", "Rebalancing AskProgress Rebalancing", 1_000),
        ("Rebalancing cc asked moving error +stop", "Rebalancing AskStop Rebalancing", 1_000),
        // Without its label it is stopped on the cluster of the record.
        ("Rebalancing cc asked busy no-label", "Rebalancing AskStop Rebalancing", 1_000),
        ("Rebalancing cc asked idle no-label", "NotReady - NotReady", 100),
        ("Rebalancing cc asked no-label",   "Rebalancing - Rebalancing", 1_000),
        ("NotReady cc asked busy no-label", "NotReady - NotReady", 120_000),
        // With neither there is nobody to ask.
        ("Rebalancing asked no-kafka",      "NotReady - NotReady", 100),
        ("Rebalancing asked no-label no-kafka", "NotReady - NotReady", 100),
        // The engine was changed while Cruise Control moves.
        ("Rebalancing auto asked busy unstored", "Rebalancing AskProgress Rebalancing", 1_000),
        ("Rebalancing asked busy unstored +stop", "Rebalancing AskStop Rebalancing", 1_000),
        ("Rebalancing asked idle unstored", "PendingProposal MakePlan PendingProposal", 100),
    ];
    for (text, expected, look_again_ms) in rows {
        let (facts, record) = case(text);
        let decision = decide(&facts, Some(&record));
        assert_eq!((show(&decision).as_str(), decision.look_again_ms), (expected, look_again_ms), "{text}");
    }
}

#[test]
#[rustfmt::skip]
fn a_plan_that_was_forgotten_is_asked_for_again_and_moves_are_not() {
    let rows = [
        ("PendingProposal cc unplanned task forgotten", Some(Act::AskPlan), None),
        ("Rebalancing cc unplanned task asked moving forgotten", Some(Act::AskProgress), Some((true, None))),
    ];
    for (text, act, expected) in rows {
        let (facts, record) = case(text);
        let decision = decide(&facts, Some(&record));
        let session = decision.record.unwrap().session.map(|session| (session.asked, session.proposal));
        assert_eq!((decision.act, session), (act, expected), "{text}");
    }
}

#[test]
fn a_request_that_is_for_another_cluster_now_has_no_plan() {
    let (facts, record) = case("ProposalReady auto cc label-d task idle");
    let record = decide(&facts, Some(&record)).record.unwrap();
    assert_eq!((record.cluster.as_deref(), record.request.attempt), (Some("d"), 2));
    assert_eq!((record.plan, record.session), (None, None));
}
