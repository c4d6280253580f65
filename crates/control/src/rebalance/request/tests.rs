//! Passes over one request from its facts to its decision.

use super::record::Plan;
use super::snapshot::{Annotations, Resource};
use super::*;
use crate::cluster::fact::Fact;

fn snapshot(annotations: &[(&str, &str)]) -> Snapshot {
    let value = |wanted: &str| {
        let found = annotations.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    };
    let kafka =
        Kafka { has_cruise_control: true, is_ready: true, has_record: true, ..Kafka::default() };
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
fn a_wish_is_acted_on_and_reported_when_its_annotation_is_gone() {
    let facts = snapshot(&[("rebalance", "approve")]);
    let mut decision = decide(&facts, Some(&recorded(Phase::ProposalReady)));
    assert!(decision.consume);
    let record = decision.record.clone().unwrap();
    assert_eq!(record.request.wish, Some(Wish::Approve));
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
    let record = recorded(Phase::Ready);
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
}
