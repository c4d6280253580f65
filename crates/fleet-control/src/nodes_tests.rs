//! The scenario tables of one report, every boundary, and what holds for any report.

use proptest::prelude::*;

use super::*;
use crate::report::{NodeInfo, ResizeInfo};

pub(super) fn room(connections: u64, partitions: u64) -> Capacity {
    Capacity { connections, partitions, ..Capacity::default() }
}

/// Several zones, ready, Model T of 100 and 100, and a provider that has nothing to do.
pub(super) fn facts() -> PlaneFacts {
    PlaneFacts {
        state: PlaneState::Ready,
        multi_az: true,
        mode: Mode::Auto,
        // Wide enough for every report of the tables.
        bounds: NodeBounds { nodes_min: 0, nodes_max: u32::MAX, node_delta_max: u32::MAX },
        model_t: room(100, 100),
        reserved: Capacity::default(),
        queued: None,
        others_wait: false,
        progress: StepProgress::Done,
        desired: None,
        nodes_fixed: false,
        kafkas: Some(0),
        since_step_up_ms: None,
        cool_down_ms: COOL_DOWN_MS,
    }
}

fn report() -> Report {
    Report {
        ready: AgentReady::Yes,
        unsuitable: None,
        total: Capacity::default(),
        remaining: Capacity::default(),
        nodes: NodeInfo::default(),
        resize: ResizeInfo { node_delta: 3, delta: Capacity::default() },
    }
}

/// A report in one line: `current ceiling=.. floor=.. min=.. left=C/P delta=C/P step=N`.
pub(super) fn line(text: &str) -> Report {
    let mut report = report();
    let pair = |value: &str| {
        let (connections, partitions) = value.split_once('/').unwrap();
        room(connections.parse().unwrap(), partitions.parse().unwrap())
    };
    for word in text.split_whitespace() {
        match word.split_once('=') {
            None => report.nodes.current = word.parse().unwrap(),
            Some(("ceiling", value)) => report.nodes.ceiling = value.parse().unwrap(),
            Some(("floor", value)) => report.nodes.floor = value.parse().unwrap(),
            Some(("min", value)) => {
                report.nodes.current_work_load_minimum = value.parse().unwrap();
            }
            Some(("left", value)) => report.remaining = pair(value),
            Some(("delta", value)) => report.resize.delta = pair(value),
            Some(("step", value)) => report.resize.node_delta = value.parse().unwrap(),
            Some(other) => panic!("no field is called {other:?}"),
        }
    }
    report
}

/// How many nodes there are to be.
pub(super) fn nodes(facts: &PlaneFacts, text: &str) -> (u32, String) {
    let report = line(text);
    let judged = judge_report(facts, &report);
    (judged.step.target().unwrap_or(report.nodes.current), judged.step_reason.to_string())
}

#[test]
fn nodes_of_the_scenario_table() {
    let rows = [
        ("N1", "3 ceiling=10000 min=3", 6),
        ("N2", "3 ceiling=10000 min=3 left=10000000000/0", 6),
        ("N3", "3 ceiling=5 min=3", 3),
        ("N4", "6 ceiling=10000 min=3 delta=1000/1000 left=100000/100000", 3),
        ("N5", "6 ceiling=10000 min=3 delta=1000/1000 left=999/100000", 6),
        ("N6", "6 ceiling=10000 min=6 delta=1000/1000 left=100000/100000", 6),
        ("N7", "6 ceiling=10000 min=3 floor=5 delta=1000/1000 left=100000/100000", 6),
        ("N8", "12 ceiling=30 floor=3 min=3 delta=1000/1000 left=200/200", 12),
    ];
    for (name, text, expected) in rows {
        assert_eq!(nodes(&facts(), text).0, expected, "{name}");
    }
}

#[test]
fn states_of_the_scenario_table() {
    use PlaneState::{Full, Ready, ScalingUp, WaitingForAgent};
    let rows = [
        ("S1", Full, Mode::Auto, "3 ceiling=10000 left=101/101", Ready),
        ("S2", Ready, Mode::Auto, "3 ceiling=10000", ScalingUp),
        ("S3", Ready, Mode::Auto, "10 ceiling=11", Full),
        ("S4", WaitingForAgent, Mode::Manual, "3 ceiling=10000", Ready),
        ("with room", WaitingForAgent, Mode::Auto, "3 ceiling=10000 left=100/100", Ready),
        ("all 0", Ready, Mode::Auto, "0 left=1000000/0", Full),
    ];
    for (name, state, mode, text, expected) in rows {
        let facts = PlaneFacts { state, mode, ..facts() };
        assert_eq!(judge_report(&facts, &line(text)).state, expected, "{name}");
    }
}

/// The ambiguities of the text, each with the reading that holds. 10 to 14 are in `regions.rs`.
#[test]
fn every_ambiguity_has_its_reading() {
    const FREE: &str = "delta=1000/1000 left=100000/100000";
    let one_az = PlaneFacts { multi_az: false, ..facts() };
    let rows = [
        // 1: after a step down, exactly the minimum and exactly the floor are enough.
        (facts(), format!("9 ceiling=30 min=6 floor=6 {FREE}"), 6),
        (facts(), format!("9 ceiling=30 min=7 floor=6 {FREE}"), 9),
        (facts(), format!("9 ceiling=30 min=6 floor=7 {FREE}"), 9),
        // 2: three nodes are the least in one zone, too.
        (one_az, format!("6 ceiling=30 min=1 floor=1 {FREE}"), 3),
        (one_az, format!("5 ceiling=30 min=1 floor=1 {FREE}"), 5),
        (one_az, format!("4 ceiling=30 min=1 floor=1 step=1 {FREE}"), 3),
        (one_az, format!("3 ceiling=30 min=1 floor=1 step=1 {FREE}"), 3),
        // 3: a threshold up is crossed below it, not at it.
        (facts(), "3 ceiling=30 left=99/100".to_owned(), 6),
        (facts(), "3 ceiling=30 left=100/99".to_owned(), 6),
        (facts(), "3 ceiling=30 left=100/100".to_owned(), 3),
        // 4: a threshold down is crossed above it, not at it. Model T is free besides, as 3.6-B wants.
        (facts(), "6 ceiling=30 delta=1000/1000 left=1100/1100".to_owned(), 3),
        (facts(), "6 ceiling=30 delta=1000/1000 left=1000/1100".to_owned(), 6),
        (facts(), "6 ceiling=30 delta=1000/1000 left=1100/1000".to_owned(), 6),
        // 7: a state of scaling up does not keep a step from beginning; the provider's word does.
        (
            PlaneFacts { state: PlaneState::ScalingUp, ..facts() },
            "3 ceiling=30 left=0/0".to_owned(),
            6,
        ),
        (
            PlaneFacts { progress: StepProgress::Going { growing: true }, ..facts() },
            "3 ceiling=30 left=0/0".to_owned(),
            3,
        ),
        (
            PlaneFacts { progress: StepProgress::Unknown, ..facts() },
            "3 ceiling=30 left=0/0".to_owned(),
            3,
        ),
        (
            PlaneFacts { progress: StepProgress::Going { growing: true }, ..facts() },
            format!("9 ceiling=30 min=3 {FREE}"),
            9,
        ),
        // 15: any step is possible, and rounded up to three in several zones.
        (facts(), "3 ceiling=30 step=1".to_owned(), 6),
        (facts(), "3 ceiling=30 step=4".to_owned(), 9),
        (one_az, "3 ceiling=30 step=4".to_owned(), 7),
        (one_az, "3 ceiling=30 step=1".to_owned(), 4),
    ];
    for (index, (facts, text, expected)) in rows.iter().enumerate() {
        let (target, reason) = nodes(facts, text);
        assert_eq!(target, *expected, "row {index}: {text}: {reason}");
    }
}

/// Every threshold, one below it, at it, and one above it.
#[test]
fn every_threshold_is_held_to_the_number() {
    const FREE: &str = "left=100000/100000";
    const ALL: [bool; 2] = [false, true];
    /// In one zone and in several, if it makes no difference.
    const ONE: [bool; 1] = [false];
    const SEVERAL: [bool; 1] = [true];
    let rows: &[(&[bool], &str, [(u32, u32); 3])] = &[
        // (value in place of #, nodes afterwards) for three values.
        // Up: what is left, against what a Kafka of Model T takes.
        (&ALL, "3 ceiling=30 left=#/5000", [(99, 6), (100, 3), (101, 3)]),
        (&ALL, "3 ceiling=30 left=5000/#", [(99, 6), (100, 3), (101, 3)]),
        // Up: the restricted ceiling, against what there is and what there would be.
        (&ALL, "3 ceiling=# left=0/0", [(5, 3), (6, 6), (7, 6)]),
        (&ALL, "6 ceiling=# left=0/0", [(5, 6), (6, 6), (7, 6)]),
        (&ONE, "3 ceiling=# left=0/0 step=4", [(6, 3), (7, 7), (8, 7)]),
        (&SEVERAL, "3 ceiling=# left=0/0 step=4", [(8, 3), (9, 9), (11, 9)]),
        (&ONE, "3 ceiling=# left=0/0 step=1", [(3, 3), (4, 4), (5, 4)]),
        (&SEVERAL, "3 ceiling=# left=0/0 step=1", [(5, 3), (6, 6), (8, 6)]),
        // Down: what is left, against one step and a Kafka of Model T on top of it.
        (
            &ALL,
            "9 ceiling=30 min=3 floor=3 delta=1000/1000 left=#/5000",
            [(1099, 9), (1100, 6), (1101, 6)],
        ),
        (
            &ALL,
            "9 ceiling=30 min=3 floor=3 delta=1000/1000 left=5000/#",
            [(1099, 9), (1100, 6), (1101, 6)],
        ),
        (
            &ALL,
            "9 ceiling=30 min=3 floor=3 delta=1000/1000 left=#/5000",
            [(999, 9), (1000, 9), (1001, 9)],
        ),
        // The delta is that of one or two nodes, and in several zones three go.
        (
            &SEVERAL,
            "9 ceiling=30 min=3 floor=3 step=1 delta=300/300 left=#/5000",
            [(999, 9), (1000, 6), (1001, 6)],
        ),
        (
            &SEVERAL,
            "9 ceiling=30 min=3 floor=3 step=2 delta=600/600 left=#/5000",
            [(999, 9), (1000, 6), (1001, 6)],
        ),
        (
            &ONE,
            "9 ceiling=30 min=3 floor=3 step=1 delta=300/300 left=#/5000",
            [(399, 9), (400, 8), (401, 8)],
        ),
        (
            &ONE,
            "9 ceiling=30 min=3 floor=3 step=2 delta=600/600 left=#/5000",
            [(699, 9), (700, 7), (701, 7)],
        ),
        // Down: what the workload needs, and the restricted floor, which is rounded up in several zones.
        (&ALL, "9 ceiling=30 min=# floor=3 delta=10/10", [(5, 6), (6, 6), (7, 9)]),
        (&ALL, "9 ceiling=30 min=# floor=3 delta=10/10", [(8, 9), (9, 9), (10, 9)]),
        (&ONE, "10 ceiling=30 min=3 floor=# delta=10/10", [(6, 7), (7, 7), (8, 10)]),
        (&SEVERAL, "9 ceiling=30 min=3 floor=# delta=10/10", [(5, 6), (6, 6), (7, 9)]),
        (&SEVERAL, "9 ceiling=30 min=3 floor=# delta=10/10", [(3, 6), (4, 6), (8, 9)]),
        // Down: three nodes are the least.
        (&ALL, "# ceiling=30 min=1 floor=1 delta=10/10", [(5, 5), (6, 3), (7, 4)]),
        (&ONE, "# ceiling=30 min=1 floor=1 step=1 delta=10/10", [(3, 3), (4, 3), (5, 4)]),
        (&SEVERAL, "# ceiling=30 min=1 floor=1 step=1 delta=10/10", [(5, 5), (6, 3), (7, 4)]),
    ];
    for (zones, template, values) in rows {
        for (multi_az, (value, expected)) in
            zones.iter().flat_map(|zone| values.iter().map(move |value| (*zone, value)))
        {
            let mut text = template.replace('#', &value.to_string());
            if !text.contains("left=") {
                text = format!("{text} {FREE}");
            }
            let facts = PlaneFacts { multi_az, ..facts() };
            let (nodes, reason) = nodes(&facts, &text);
            assert_eq!(nodes, *expected, "several zones: {multi_az}: {text}: {reason}");
        }
    }
}

#[test]
fn no_capacity_is_said_if_one_of_two_numbers_is_short() {
    // 5: "or" for what is missing, "and" for what is there. 6: in four states. 8: the state needs a step.
    for (left, state) in [
        ("100/100", PlaneState::Ready),
        ("99/100", PlaneState::ScalingUp),
        ("100/99", PlaneState::ScalingUp),
        ("0/0", PlaneState::ScalingUp),
    ] {
        let judged = judge_report(&facts(), &line(&format!("3 ceiling=6 left={left}")));
        assert_eq!(judged.state, state, "{left}");
    }
    for state in &crate::state::ALL {
        let judged = judge_report(&PlaneFacts { state: *state, ..facts() }, &line("3 ceiling=3"));
        let expected = if state.accepts_reports() { PlaneState::Full } else { *state };
        assert_eq!((judged.state, judged.step), (expected, NodeStep::Stay), "{state}");
    }
}

/// Without room and without a permitted step, a data plane must not wait for nodes for ever.
#[test]
fn a_data_plane_that_cannot_take_a_step_is_full() {
    let one_az = PlaneFacts { multi_az: false, ..facts() };
    let rows = [
        (one_az, "4 ceiling=5", "no step: 4+3 > ceiling 5"),
        (facts(), "4 ceiling=6", "no step: 4+3 > ceiling 6"),
        (facts(), "6 ceiling=9 step=6", "no step: 6+6 > ceiling 9"),
        (facts(), "3 ceiling=9 step=0", "no step: nodeDelta is 0"),
        (facts(), "6 ceiling=8", "no step: 6 >= ceiling 6"),
        (facts(), "9 ceiling=6", "no step: 9 >= ceiling 6"),
        (
            facts(),
            "3 ceiling=4294967295 step=4294967295",
            "no step: 3+4294967295 > ceiling 4294967295",
        ),
    ];
    for (facts, text, reason) in rows {
        let judged = judge_report(&facts, &line(text));
        assert_eq!(judged.state, PlaneState::Full, "{text}");
        assert_eq!(judged.step, NodeStep::Stay, "{text}");
        assert_eq!(judged.step_reason.to_string(), reason);
        assert_eq!(judged.state_reason.to_string(), format!("no capacity; {reason}"));
    }
    // One node more below the ceiling makes the step possible.
    assert_eq!(judge_report(&one_az, &line("4 ceiling=7")).step, NodeStep::Up { target: 7 });
    // A step that is going on elsewhere is no reason to be full.
    let waiting = PlaneFacts { progress: StepProgress::Going { growing: true }, ..facts() };
    assert_eq!(judge_report(&waiting, &line("3 ceiling=6")).state, PlaneState::ScalingUp);
}

/// By the letter 9 nodes would become 6, then 9 again, for ever.
#[test]
fn nodes_do_not_go_if_they_would_come_back() {
    let rows = [
        ("9 ceiling=30 min=3 floor=3 delta=1000/1000 left=1001/1001", 9),
        ("9 ceiling=30 min=3 floor=3 delta=1000/1000 left=1099/1100", 9),
        ("9 ceiling=30 min=3 floor=3 delta=1000/1000 left=1100/1100", 6),
        // The step has six nodes, and the delta is that of four.
        ("12 ceiling=30 min=3 floor=3 step=4 delta=1000/1000 left=1599/2000", 12),
        ("12 ceiling=30 min=3 floor=3 step=4 delta=1000/1000 left=1600/1600", 6),
    ];
    for (text, expected) in rows {
        assert_eq!(nodes(&facts(), text).0, expected, "{text}");
    }
}

/// Reports of other agents: the formulae hold as they stand, each bound by itself, and the reason names the rule.
#[test]
fn reports_with_contradictory_bounds_are_recorded_and_follow_the_formulae() {
    use Assumption::*;
    const FREE: &str = "delta=1000/1000 left=100000/100000";
    const SPARE: &str = "100000 connections and 100000 partitions left, more than 1000 connections \
                         and 1000 partitions";
    let rows = [
        ("9 ceiling=30 floor=3 min=3", vec![], 6, SPARE),
        // Floor 0: three nodes are the least all the same.
        ("9 ceiling=30 floor=0 min=3", vec![BoundsArePositive], 6, SPARE),
        ("6 ceiling=30 floor=0 min=0", vec![BoundsArePositive], 3, SPARE),
        ("5 ceiling=30 floor=0 min=0", vec![BoundsArePositive], 5, "no step: 5-3 < least of all 3"),
        // Floor above the workload minimum: the floor holds, rounded up.
        ("9 ceiling=30 floor=4 min=3", vec![FloorBelowWorkload], 6, SPARE),
        ("9 ceiling=30 floor=7 min=3", vec![FloorBelowWorkload], 9, "no step: 9-3 < floor 9"),
        // Floor below it: the workload holds.
        ("9 ceiling=30 floor=3 min=7", vec![], 9, "no step: 9-3 < workload minimum 7"),
        ("9 ceiling=30 floor=3 min=9", vec![], 9, "no step: 9 <= workload minimum 9"),
        // A ceiling below the current size, below the workload, below the floor.
        ("9 ceiling=6 floor=3 min=3", vec![], 6, SPARE),
        (
            "9 ceiling=6 floor=3 min=7",
            vec![CeilingCoversWorkload],
            9,
            "no step: 9-3 < workload minimum 7",
        ),
        ("9 ceiling=3 floor=6 min=3", vec![FloorBelowWorkload, CeilingAboveFloor], 6, SPARE),
        ("9 ceiling=0 floor=0 min=3", vec![CeilingCoversWorkload, BoundsArePositive], 6, SPARE),
        // Fewer nodes than the report itself asks for.
        (
            "2 ceiling=30 floor=1 min=3",
            vec![CurrentCoversWorkload],
            2,
            "no step: 2 <= workload minimum 3",
        ),
        (
            "6 ceiling=30 floor=7 min=3",
            vec![CurrentAtFloor, FloorBelowWorkload],
            6,
            "no step: 6-3 < floor 9",
        ),
        ("9 ceiling=30 floor=3 min=3 step=0", vec![StepIsPositive], 9, "no step: nodeDelta is 0"),
    ];
    for (text, broken, target, reason) in rows {
        let text = format!("{text} {FREE}");
        assert_eq!(judge_report(&facts(), &line(&text)).broken, broken, "{text}");
        assert_eq!(nodes(&facts(), &text), (target, reason.to_owned()), "{text}");
    }
    let crossing = "9 ceiling=30 floor=3 min=3 delta=1000/1000 left=1001/1001";
    assert_eq!(judge_report(&facts(), &line(crossing)).broken, [StepKeepsThreshold]);
    let left =
        "no step: with 1 connections and 1 partitions left the nodes would have to come back";
    assert_eq!(nodes(&facts(), crossing), (9, left.to_owned()));
    // More nodes are given to it all the same, and none with a step of 0 or a ceiling below the current size.
    for (text, target) in [
        ("2 ceiling=30 floor=0 min=3", 5),
        ("3 ceiling=30 floor=6 min=3", 6),
        ("3 ceiling=30 floor=3 min=9", 6),
        ("9 ceiling=6 floor=3 min=3", 9),
        ("3 ceiling=30 floor=3 min=3 step=0", 3),
    ] {
        assert_eq!(nodes(&facts(), text).0, target, "{text}");
    }
}

#[test]
fn a_report_outside_the_bounds_of_the_manager_is_refused_and_changes_nothing() {
    let bounds = NodeBounds { nodes_min: 6, nodes_max: 18, node_delta_max: 3 };
    let bounded = PlaneFacts { bounds, state: PlaneState::Full, ..facts() };
    let ceiling = "nodeInfo.ceiling is 19, and at most 18 nodes are permitted";
    let delta = "resizeInfo.nodeDelta is 4, and at most 3 are permitted";
    let rows: [(&str, u32, &[&str]); 7] = [
        ("3 ceiling=18", 6, &[]),
        ("3 ceiling=19", 3, &[ceiling]),
        ("15 ceiling=18", 18, &[]),
        ("16 ceiling=18", 16, &[]),
        ("3 ceiling=18 step=4", 3, &[delta]),
        ("3 ceiling=19 step=4", 3, &[ceiling, delta]),
        (
            "3 ceiling=4294967295",
            3,
            &["nodeInfo.ceiling is 4294967295, and at most 18 nodes are permitted"],
        ),
    ];
    for (text, target, refused) in rows {
        let judged = judge_report(&bounded, &line(text));
        let told: Vec<_> = judged.refused.iter().map(ToString::to_string).collect();
        assert_eq!(told, refused, "{text}");
        assert_eq!(nodes(&bounded, text).0, target, "{text}");
        if !refused.is_empty() {
            assert_eq!((judged.state, judged.step), (PlaneState::Full, NodeStep::Stay), "{text}");
        }
    }
    // The manager's own floor holds where the report has a lower one.
    const FREE: &str = "delta=1000/1000 left=100000/100000";
    assert_eq!(nodes(&bounded, &format!("9 ceiling=18 floor=1 min=1 {FREE}")).0, 6);
    let held = (6, "no step: 6-3 < floor 6".to_owned());
    assert_eq!(nodes(&bounded, &format!("6 ceiling=18 floor=1 min=1 {FREE}")), held);
}

#[test]
fn a_workload_minimum_of_0_takes_no_node_away_where_kafkas_are_or_may_be() {
    const TEXT: &str = "9 ceiling=30 floor=3 min=0 delta=1000/1000 left=100000/100000";
    for (kafkas, target, reason) in [
        (Some(0), 6, "100000 connections"),
        (Some(2), 9, "no step: the workload minimum is 0 with 2 Kafkas placed"),
        (None, 9, "no step: the workload minimum is 0 and the Kafkas are not counted"),
    ] {
        let (nodes, told) = nodes(&PlaneFacts { kafkas, ..facts() }, TEXT);
        assert_eq!(nodes, target, "{kafkas:?}");
        assert!(told.starts_with(reason), "{told}");
    }
}

#[test]
fn nodes_that_nobody_scales_are_full_without_capacity_and_never_go() {
    let fixed = PlaneFacts { nodes_fixed: true, queued: Some(room(500, 500)), ..facts() };
    let judged = judge_report(&fixed, &line("3 ceiling=30 min=3"));
    assert_eq!((judged.state, judged.step), (PlaneState::Full, NodeStep::Stay));
    assert_eq!(judged.step_reason, NodeReason::NodesFixed);
    let fixed = PlaneFacts { nodes_fixed: true, ..facts() };
    let free = "9 ceiling=30 min=3 floor=3 delta=1000/1000 left=100000/100000";
    assert_eq!(nodes(&fixed, free), (9, "no step: these nodes are not scaled".to_owned()));
    assert_eq!(judge_report(&fixed, &line(free)).state, PlaneState::Ready);
}

#[test]
fn an_agent_that_is_not_ready_stops_everything() {
    for state in [PlaneState::Ready, PlaneState::Full, PlaneState::ScalingUp] {
        let facts = PlaneFacts { state, ..facts() };
        let report = Report { ready: AgentReady::No, ..line("3 ceiling=30") };
        let judged = judge_report(&facts, &report);
        assert_eq!(judged.state, PlaneState::WaitingForAgent);
        assert_eq!((judged.step, judged.step_reason), (NodeStep::Stay, NodeReason::NotAsked));
    }
}

#[test]
fn what_is_placed_or_waits_counts_as_demand() {
    let placed = PlaneFacts { reserved: room(50, 50), ..facts() };
    let judged = judge_report(&placed, &line("3 ceiling=6 left=149/200"));
    assert_eq!((judged.state, judged.step), (PlaneState::ScalingUp, NodeStep::Up { target: 6 }));

    let queued = PlaneFacts { queued: Some(room(500, 500)), ..facts() };
    let rows = [
        // It fits: nothing is needed, but nothing goes either.
        (
            "9 ceiling=30 delta=1000/1000 left=100000/100000",
            9,
            "no step: a Kafka waits for capacity",
        ),
        // It would fit on more nodes.
        (
            "3 ceiling=6 delta=1000/1000 left=400/400",
            6,
            "a Kafka waits for 500 connections and 500 partitions",
        ),
        // It would not, even on all of them.
        ("3 ceiling=6 delta=50/50 left=400/400", 3, "no step: 3 <= workload minimum 3"),
    ];
    for (text, target, reason) in rows {
        assert_eq!(nodes(&queued, &format!("{text} min=3")), (target, reason.to_owned()), "{text}");
    }
}

fn any_report() -> impl Strategy<Value = Report> {
    let capacity = || (0u64..3000, 0u64..3000).prop_map(|(c, p)| room(c, p));
    let nodes = (0u32..40, 0u32..40, 0u32..40, 0u32..40);
    (capacity(), capacity(), nodes, 0u32..8).prop_map(|(remaining, delta, nodes, node_delta)| {
        Report {
            remaining,
            nodes: NodeInfo {
                ceiling: nodes.0,
                floor: nodes.1,
                current: nodes.2,
                current_work_load_minimum: nodes.3,
            },
            resize: ResizeInfo { node_delta, delta },
            ..report()
        }
    })
}

fn any_facts() -> impl Strategy<Value = PlaneFacts> {
    let states = proptest::sample::select(crate::state::ALL.to_vec());
    let ready = prop_oneof![Just(PlaneState::Ready), states];
    (any::<bool>(), 0u64..300, proptest::option::of(0u64..4000), ready).prop_map(
        |(multi_az, reserved, queued, state)| PlaneFacts {
            state,
            multi_az,
            reserved: room(reserved, reserved),
            queued: queued.map(|need| room(need, need)),
            ..facts()
        },
    )
}

proptest! {
    #[test]
    fn every_state_that_follows_from_a_report_is_in_the_table(
        facts in any_facts(), report in any_report(), ready in any::<bool>(),
    ) {
        let ready = if ready { AgentReady::Yes } else { AgentReady::No };
        let judged = judge_report(&facts, &Report { ready, ..report });
        prop_assert!(judged.state == facts.state || facts.state.can_become(judged.state));
    }

    #[test]
    fn no_step_leaves_its_bounds(facts in any_facts(), report in any_report()) {
        let NodeInfo { ceiling, floor, current, current_work_load_minimum: minimum } = report.nodes;
        match judge_report(&facts, &report).step {
            NodeStep::Stay => {}
            NodeStep::Up { target } => {
                prop_assert!(target > current && target <= ceiling);
                prop_assert!(!facts.multi_az || (target - current).is_multiple_of(3));
            }
            NodeStep::Down { target } => {
                prop_assert!(target < current && target >= floor && target >= minimum);
                prop_assert!(target >= 3);
                prop_assert!(!facts.multi_az || (current - target).is_multiple_of(3));
            }
        }
    }

    #[test]
    fn ready_is_said_only_if_something_fits_and_full_only_if_nothing_can_be_done(
        facts in any_facts(), report in any_report(),
    ) {
        let facts = PlaneFacts { state: PlaneState::Ready, ..facts };
        let judged = judge_report(&facts, &report);
        let fits = report.remaining.less(facts.reserved).covers(facts.model_t);
        prop_assert_eq!(judged.state == PlaneState::Ready, fits);
        if judged.state == PlaneState::ScalingUp {
            let grows = matches!(judged.step, NodeStep::Up { .. });
            prop_assert!(grows);
        }
        if judged.state == PlaneState::Full {
            prop_assert_eq!(judged.step, NodeStep::Stay);
        }
    }

    /// A constant workload comes to rest: nodes never go and come back, or come and go.
    #[test]
    fn a_constant_workload_reaches_a_fixed_point(
        multi_az in any::<bool>(), used in 0u64..20_000, per_node in 1u64..2000,
        start in 0u32..60, node_delta in 1u32..8, bounds in (1u32..60, 1u32..60),
    ) {
        let facts = PlaneFacts { multi_az, ..facts() };
        let mut current = start;
        let mut directions = Vec::new();
        for _ in 0..100 {
            let left = (per_node * u64::from(current)).saturating_sub(used);
            let delta = per_node * u64::from(node_delta);
            let report = Report {
                remaining: room(left, left),
                nodes: NodeInfo {
                    ceiling: bounds.0.max(bounds.1),
                    floor: bounds.0.min(bounds.1),
                    current,
                    current_work_load_minimum: u32::try_from(used.div_ceil(per_node)).unwrap(),
                },
                resize: ResizeInfo { node_delta, delta: room(delta, delta) },
                ..report()
            };
            match judge_report(&facts, &report).step {
                NodeStep::Stay => return Ok(()),
                NodeStep::Up { target } => { directions.push(true); current = target; }
                NodeStep::Down { target } => { directions.push(false); current = target; }
            }
            prop_assert!(directions.windows(2).all(|pair| pair[0] == pair[1]), "{directions:?}");
        }
        prop_assert!(false, "no rest after 100 steps");
    }
}
