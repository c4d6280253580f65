//! Steps in progress, steps that failed, unsuitable nodes, and demand that was given to a data plane.

use super::tests::{facts, line, nodes, room};
use super::*;
use crate::report::Unsuitable;

#[test]
fn while_nodes_boot_no_more_are_asked_for() {
    let growing =
        PlaneFacts { progress: StepProgress::Going { growing: true }, desired: Some(6), ..facts() };
    // Three of six were there, then four, then five: by the letter 6, 7 and 8 would be asked for.
    for current in 3..=6 {
        for ceiling in [6, 7, 18] {
            let text = format!("{current} ceiling={ceiling} min=3");
            let judged = judge_report(&growing, &line(&text));
            assert_eq!(
                (judged.state, judged.step),
                (PlaneState::ScalingUp, NodeStep::Stay),
                "{text}"
            );
        }
    }
    // They are there: the next step is counted from them.
    let done = PlaneFacts { progress: StepProgress::Done, ..growing };
    assert_eq!(nodes(&done, "6 ceiling=18 min=3").0, 9);
    // One of them is sick, and does not count for the agent: whole steps all the same.
    assert_eq!(nodes(&done, "5 ceiling=18 min=3").0, 9);
    assert_eq!(nodes(&done, "5 ceiling=6 min=3"), (5, "no step: 6 >= ceiling 6".to_owned()));
    const FREE: &str = "min=3 floor=3 delta=1000/1000 left=100000/100000";
    assert_eq!(nodes(&done, &format!("5 ceiling=18 {FREE}")).0, 3);
    // While some go, none comes.
    let shrinking = PlaneFacts {
        progress: StepProgress::Going { growing: false },
        desired: Some(3),
        ..facts()
    };
    let judged = judge_report(&shrinking, &line("5 ceiling=18 min=3"));
    assert_eq!((judged.state, judged.step), (PlaneState::ScalingUp, NodeStep::Stay));
}

#[test]
fn a_step_that_failed_is_not_repeated_with_more_nodes() {
    let failed = |growing, wanted, actual| PlaneFacts {
        progress: StepProgress::Failed { growing, wanted, actual },
        desired: Some(wanted),
        ..facts()
    };
    let judged = judge_report(&failed(true, 6, 4), &line("4 ceiling=18 min=3"));
    assert_eq!((judged.state, judged.step), (PlaneState::Full, NodeStep::Stay));
    let told = "no step: the last one failed; of 6 nodes 4 are there";
    assert_eq!(judged.step_reason.to_string(), told);
    assert_eq!(judged.state_reason.to_string(), format!("no capacity; {told}"));
    // What waits does not wait for it.
    let queued = PlaneFacts { queued: Some(room(500, 500)), ..failed(true, 6, 4) };
    assert_eq!(growth(&queued, &line("4 ceiling=18 delta=1000/1000")), Capacity::default());
    // Nodes that do not go: more may come in place of that, and no further ones go.
    assert_eq!(nodes(&failed(false, 3, 6), "6 ceiling=18 min=3").0, 6);
    let judged = judge_report(&failed(false, 3, 6), &line("6 ceiling=18 min=3"));
    assert_eq!(judged.step, NodeStep::Up { target: 6 });
    const FREE: &str = "min=3 floor=3 delta=1000/1000 left=100000/100000";
    let judged = judge_report(&failed(false, 6, 9), &line(&format!("9 ceiling=18 {FREE}")));
    assert_eq!(judged.step, NodeStep::Stay);
    assert_eq!(
        judged.step_reason.to_string(),
        "no step: the last one failed; of 6 nodes 9 are there"
    );
}

#[test]
fn nodes_that_no_kafka_can_be_placed_on_are_told_and_not_multiplied() {
    for (unsuitable, told) in [
        (
            Unsuitable::ZonesMissing,
            "the nodes are in fewer than three zones, or have no zone label",
        ),
        (Unsuitable::NodesTooSmall, "no node is large enough for a broker of Model T"),
        (Unsuitable::Other, "the agent reports unsuitable nodes"),
    ] {
        for text in ["3 ceiling=18 min=3", "9 ceiling=18 min=3 delta=10/10 left=5000/5000"] {
            let report = Report { unsuitable: Some(unsuitable), ..line(text) };
            let queued = PlaneFacts { queued: Some(room(500, 500)), ..facts() };
            let judged = judge_report(&queued, &report);
            assert_eq!((judged.state, judged.step), (PlaneState::WaitingForAgent, NodeStep::Stay));
            assert_eq!(judged.state_reason.to_string(), told);
            assert_eq!(judged.step_reason.to_string(), format!("no step: {told}"));
            assert_eq!(growth(&queued, &report), Capacity::default());
        }
        assert_eq!(Unsuitable::from_name(unsuitable.name()), unsuitable);
    }
    assert_eq!(Unsuitable::from_name("MoonPhase"), Unsuitable::Other);
}

#[test]
fn only_the_data_plane_that_a_kafka_was_given_to_grows_for_it() {
    let other = PlaneFacts { others_wait: true, ..facts() };
    const SMALL: &str = "3 ceiling=18 min=3 delta=1000/1000 left=400/400";
    assert_eq!(nodes(&other, SMALL).0, 3);
    let given = PlaneFacts { queued: Some(room(500, 500)), others_wait: true, ..facts() };
    assert_eq!(nodes(&given, SMALL).0, 6);
    // No nodes go while somebody waits.
    const FREE: &str = "9 ceiling=18 min=3 delta=1000/1000 left=100000/100000";
    assert_eq!(nodes(&other, FREE), (9, "no step: a Kafka waits for capacity".to_owned()));
}

#[test]
fn after_a_step_up_none_goes_down_for_a_while() {
    const TEXT: &str = "9 ceiling=30 min=3 floor=3 delta=1000/1000 left=100000/100000";
    for (since, target) in [(None, 6), (Some(0), 9), (Some(599_999), 9), (Some(600_000), 6)] {
        let facts = PlaneFacts { since_step_up_ms: since, ..facts() };
        assert_eq!(nodes(&facts, TEXT).0, target, "{since:?}");
    }
}

#[test]
fn silence_is_noticed_after_its_limit() {
    use PlaneState::{Full, Provisioning, Ready, WaitingForAgent};
    let rows = [
        (Ready, 180_000, Ready),
        (Ready, 180_001, WaitingForAgent),
        (Full, 200_000, WaitingForAgent),
        (Provisioning, 999_999, Provisioning),
    ];
    for (state, for_ms, expected) in rows {
        assert_eq!(judge_silence(state, for_ms, 180_000).0, expected, "{state} {for_ms}");
    }
}
