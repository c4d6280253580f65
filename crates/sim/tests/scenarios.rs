//! The scenarios of Strimzi's roller (`KafkaRollerTest`), lived by ours.
//!
//! Broker-only nodes are B, controllers C, combined nodes X. Strimzi's tests decide by hand whether a node
//! can be rolled; here the cluster is in a state in which it can or cannot. A leader of -1 in them means
//! "none of these", which is node 99 here. Where ours does something else, the row says why.
//!
//! The facts of a row are facts that the operator can read: see `Cluster::facts`. Scenarios of Strimzi's that are one here,
//! because it asks another question of the same node, share a row. R15 and R16 have none: they are about a client that
//! fails to close, and nothing is decided by that here.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod story;

use control::rolling::config::{Change, Diff};
use control::rolling::facts::{Contact, Recovery};
use control::rolling::pass::{Decision, Standing};
use control::rolling::reasons::Reason;
use sim::rolling::{Cluster, Operator, Partition};
use story::{ELSEWHERE, LONG_MS, NO_WITNESS, Row, check, cluster, id, keep_reasons, row, run};

use Standing::{Failed, Settled, Stopped, Waiting};

/// A partition that does not bear that this broker is restarted, and concerns no other.
fn tie(cluster: &mut Cluster, broker: i32) {
    cluster.partitions.push(Partition {
        replicas: vec![id(broker), id(98), id(99)],
        min_isr: 2,
        behind: [id(99)].into(),
        adding: vec![],
        removing: vec![],
    });
}

fn untie_after(cluster: &mut Cluster, seconds: u64) {
    if cluster.now_ms > 1_000_000 + seconds * 1_000 {
        cluster.partitions.clear();
    }
}

fn fails(cluster: &mut Cluster, node: i32) {
    cluster.node(node).unwrap().contact = Contact::Fails;
}

/// Nobody can be asked anything, as while no client can be opened.
fn silent(cluster: &mut Cluster, is_silent: bool) {
    cluster.partitions_readable = !is_silent;
    cluster.quorum_readable = !is_silent;
    let contact = if is_silent { Contact::Unknown } else { Contact::Answers };
    cluster.nodes.values_mut().for_each(|node| node.contact = contact);
}

/// The same for a minute, in which no node may be restarted.
fn silent_for_a_minute(cluster: &mut Cluster) {
    let is_silent = cluster.now_ms < 1_060_000;
    silent(cluster, is_silent);
    assert!(!is_silent || cluster.restarts.is_empty(), "restarted: {:?}", cluster.restarts);
}

fn recovers(cluster: &mut Cluster, node: i32) {
    cluster.node(node).unwrap().recovery = Recovery::Yes { logs: 10, segments: 100 };
}

fn recovered_after(cluster: &mut Cluster, node: i32, seconds: u64) {
    if cluster.now_ms > 1_000_000 + seconds * 1_000 {
        cluster.node(node).unwrap().recovery = Recovery::No;
    }
}

fn never_ready(cluster: &mut Cluster, node: i32) {
    cluster.node(node).unwrap().never_ready = true;
}

fn never_ready_again(cluster: &mut Cluster, node: i32) {
    let node = cluster.node(node).unwrap();
    node.never_ready = node.pods > 0;
}

/// Unready until the first restart.
fn cured_by_restart(cluster: &mut Cluster, nodes: &[i32]) {
    for node in nodes {
        let node = cluster.node(*node).unwrap();
        node.never_ready = node.pods == 0;
    }
}

#[rustfmt::skip]
fn order_rows() -> Vec<Row> {
    vec![
        row("R1  brokers, no controller", "B0-4", -1, &[0, 1, 2, 3, 4]),
        row("R2  the active controller last", "C0-4", 2, &[0, 1, 3, 4, 2]),
        row("R3  controllers before brokers", "B0-2 C3-5", 3, &[4, 5, 3, 0, 1, 2]),
        row("R9  ids with gaps", "X10 X200 X30 X400 X500", 30, &[10, 200, 400, 500, 30]),
        row("R31 combined and controllers, led from elsewhere", "X0-2 C3-5", ELSEWHERE, &[0, 1, 2, 3, 4, 5]),
        row("R40 all roles", "B0-2 X3-5 C6-8", 6, &[3, 4, 5, 7, 8, 6, 0, 1, 2]),
        // Strimzi takes the unready ones in reverse order, by the way its list is made: 7, 4 first.
        Row { before: |c| cured_by_restart(c, &[1, 4, 7]), meanwhile: |c| cured_by_restart(c, &[1, 4, 7]),
              ..row("R41 unready ones first, in the order of their ids", "B0-2 X3-5 C6-8", ELSEWHERE,
                    &[4, 7, 3, 5, 6, 8, 1, 0, 2]) },
    ]
}

#[test]
fn nodes_are_restarted_in_order() {
    for row in order_rows() {
        run(&row);
    }
}

#[rustfmt::skip]
fn unready_rows() -> Vec<Row> {
    vec![
        Row { meanwhile: |c| never_ready_again(c, 0), standing: Stopped, message: "nothing is restarted while node 0",
              ..row("R4  a broker that does not become ready again", "B0-4", -1, &[0]) },
        // Strimzi stops here. A node that was not ready before says nothing of the others, and the roll may be one of a
        // certificate that is about to expire.
        Row { before: |c| never_ready(c, 1), standing: Failed, message: "it was restarted and has not become ready since",
              ..row("R5a, R6a, R37 unready first, then the others", "B0-4", -1, &[1, 0, 2, 3, 4]) },
        // Strimzi restarts nothing here. The proposal names "pod is unready" as a trigger.
        Row { before: |c| { never_ready(c, 1); keep_reasons(c, &[2, 3, 4]) }, standing: Failed,
              ..row("R5b, R6b unready is a reason", "B0-4", -1, &[1, 2, 3, 4]) },
        // Strimzi takes an unknown state for "does not recover" at once; here it is asked ten times more.
        Row { before: |c| { never_ready(c, 0); c.node(0).unwrap().recovery = Recovery::Unknown;
                            keep_reasons(c, &[0]) },
              meanwhile: |c| { let is_over = c.restarts == [id(0)] && c.now_ms > 2_500_000;
                               if is_over { c.node(1).unwrap().reasons.insert(Reason::CaCertHasOldGeneration); } },
              standing: Failed,
              ..row("R38 unready, state unknown, asked for, and certificates change later", "B0-4", -1, &[0, 1]) },
        Row { before: |c| { never_ready(c, 0); c.node(0).unwrap().recovery = Recovery::Unknown;
                            keep_reasons(c, &[]) },
              standing: Failed, message: "it was restarted and has not become ready since",
              ..row("R38 unready, state unknown, not asked for", "B0-4", -1, &[0]) },
        Row { before: |c| c.node(0).unwrap().readable = false, standing: Waiting,
              message: "nothing is restarted while the pods of node 0 cannot be read",
              ..row("R39 a pod that cannot be read", "B0-4", -1, &[]) },
    ]
}

#[test]
fn an_unready_node_is_waited_for_and_restarted_once_and_then_the_others_go_on() {
    for row in unready_rows() {
        run(&row);
    }
}

#[test]
fn an_active_controller_that_does_not_come_up_stops_the_roll_and_is_restarted_when_asked_again() {
    for (name, nodes) in [("R7", "C0-4"), ("R8", "X0-4")] {
        let row = Row {
            meanwhile: |c| never_ready_again(c, 2),
            standing: Stopped,
            ..row(name, nodes, 2, &[0, 1, 3, 4, 2])
        };
        let (mut cluster, mut operator, _) = run(&row);
        cluster.restarts.clear();
        cluster.node(2).unwrap().reasons.insert(Reason::ManualRollingUpdate);
        let again = operator.run_with(&mut cluster, LONG_MS, row.meanwhile);
        check(&Row { restarts: &[2], ..row }, &cluster, &again);
    }
}

#[rustfmt::skip]
fn held_rows() -> Vec<Row> {
    vec![
        // Who leads is one fact for all here; a node that does not answer is what is like it.
        Row { before: |c| fails(c, 1), ..row("R13, R25 a controller that does not answer", "C0-4", 2, &[0, 3, 4, 1, 2]) },
        Row { before: |c| fails(c, 2), ..row("R14, R26 the active one does not answer", "C0-4", 2, &[0, 1, 3, 4, 2]) },
        Row { before: |c| tie(c, 1), meanwhile: |c| untie_after(c, 120),
              ..row("R17 a broker not at first", "B0-4", -1, &[0, 2, 3, 4, 1]) },
        Row { before: |c| tie(c, 1), meanwhile: |c| untie_after(c, 120),
              ..row("R18 a combined node not at first", "X0-4", 2, &[0, 3, 4, 1, 2]) },
        Row { before: |c| fails(c, 1),
              meanwhile: |c| if c.restarts.len() == 3 { c.node(1).unwrap().contact = Contact::Answers },
              ..row("R19 a controller not at first", "C0-4", 2, &[0, 3, 4, 1, 2]) },
        Row { before: |c| tie(c, 1), standing: Failed, message: "needs 2",
              ..row("R20 a broker never", "B0-4", -1, &[0, 2, 3, 4]) },
        Row { before: |c| { tie(c, 1); keep_reasons(c, &[1]) }, standing: Failed, message: "given up",
              ..row("R20 and none but it", "B0-4", -1, &[]) },
        Row { before: |c| tie(c, 1), standing: Failed,
              ..row("R21 a combined node never", "X0-4", ELSEWHERE, &[0, 2, 3, 4]) },
        Row { meanwhile: |c| if c.restarts.len() == 4 { c.lagging = [id(0), id(1)].into() },
              standing: Failed, message: "behind: node 0, node 1",
              ..row("R22 the active controller never", "C0-4", 2, &[0, 1, 3, 4]) },
        Row { before: |c| { c.lagging = [id(0), id(1)].into(); keep_reasons(c, &[2]) }, standing: Failed,
              ..row("R22 and none but it", "C0-4", 2, &[]) },
        Row { before: |c| fails(c, 1), ..row("R23 a broker's settings are not read", "B0-4", -1, &[0, 2, 3, 4, 1]) },
        Row { before: |c| fails(c, 1), ..row("R24 a combined node's", "X0-4", ELSEWHERE, &[0, 2, 3, 4, 1]) },
        Row { before: |c| c.leader = None, standing: Failed, message: "the quorum has no leader",
              ..row("R32 no quorum", "C0-2", -1, &[]) },
        Row { meanwhile: |c| if c.restarts.len() == 3 { c.lagging = [id(0), id(1)].into() }, standing: Failed,
              message: "behind: node 0, node 1",
              ..row("R33 the active controller and one more never", "C0-4", 2, &[0, 1, 3]) },
    ]
}

#[rustfmt::skip]
fn silent_rows() -> Vec<Row> {
    const NO_CONTROLLER: &str = "no controller describes the quorum";
    vec![
        Row { meanwhile: silent_for_a_minute,
              ..row("R10 brokers that cannot be asked at first", "B0-4", -1, &[0, 1, 2, 3, 4]) },
        Row { meanwhile: silent_for_a_minute,
              ..row("R11 combined nodes that cannot be asked at first", "X0-4", ELSEWHERE, &[0, 1, 2, 3, 4]) },
        Row { meanwhile: silent_for_a_minute,
              ..row("R12 controllers that cannot be asked at first", "C0-4", 2, &[0, 1, 3, 4, 2]) },
        Row { before: |c| silent(c, true), standing: Failed, message: NO_WITNESS,
              ..row("R10 brokers that can never be asked", "B0-4", -1, &[]) },
        Row { before: |c| silent(c, true), standing: Failed, message: NO_CONTROLLER,
              ..row("R11 combined nodes that can never be asked", "X0-4", ELSEWHERE, &[]) },
        Row { before: |c| silent(c, true), standing: Failed, message: NO_CONTROLLER,
              ..row("R12 controllers that can never be asked", "C0-4", 2, &[]) },
    ]
}

#[test]
fn nothing_is_restarted_while_kafka_cannot_be_asked() {
    for row in silent_rows() {
        run(&row);
    }
}

#[test]
fn a_node_that_is_held_back_is_retried_while_the_others_go_on() {
    for row in held_rows() {
        run(&row);
    }
}

#[rustfmt::skip]
fn recovery_rows() -> Vec<Row> {
    const REMAIN: &str = "recovers its logs: 10 logs and 100 segments remain";
    vec![
        Row { before: |c| recovers(c, 0), standing: Failed, message: REMAIN,
              ..row("R34 a broker", "B0-2 C3-5", 3, &[4, 5, 3, 1, 2]) },
        // A controller tells nobody that it recovers its log, which is the metadata and short. It is one that is not
        // ready: waited for, restarted once after that, and then it is given up. Strimzi's test asks it.
        Row { before: |c| recovers(c, 0), meanwhile: |c| recovered_after(c, 0, 120),
              ..row("R35 a controller that recovers in time", "C0-2", ELSEWHERE, &[1, 0, 2]) },
        Row { before: |c| recovers(c, 0), standing: Failed, message: "it was restarted and has not become ready since",
              ..row("R35 a controller of three", "C0-2", ELSEWHERE, &[0]) },
        Row { before: |c| recovers(c, 0), standing: Failed, message: "it was restarted and has not become ready since",
              ..row("R35 a controller of five", "C0-4", ELSEWHERE, &[0, 1, 2, 3, 4]) },
        // Strimzi leaves the brokers alone; the proposal has them tried, and so do we.
        Row { before: |c| recovers(c, 4), standing: Failed, message: REMAIN,
              ..row("R36 a combined node of three", "B0-2 X3-5", 3, &[0, 1, 2]) },
        Row { before: |c| recovers(c, 4), standing: Failed, message: REMAIN,
              ..row("R36 a combined node of five", "B0-2 X3-7", 3, &[5, 6, 7, 3, 0, 1, 2]) },
    ]
}

#[test]
fn a_node_that_recovers_its_logs_is_waited_for_and_the_others_go_on() {
    for row in recovery_rows() {
        run(&row);
    }
}

#[test]
fn a_node_in_recovery_is_restarted_after_it() {
    let mut cluster = cluster("B0-2", -1);
    recovers(&mut cluster, 0);
    let mut operator = Operator::default();
    let after_a_while = |c: &mut Cluster| {
        if c.now_ms > 3_000_000 {
            c.node(0).unwrap().recovery = Recovery::No;
        }
    };
    let decision = operator.run_with(&mut cluster, LONG_MS, after_a_while);
    assert_eq!(decision.standing, Settled);
    assert_eq!(cluster.restarts, [id(1), id(2), id(0)]);
}

const STATES: [&str; 4] =
    ["CrashLoopBackOff", "ImagePullBackOff", "ContainerCreating", "InvalidImageName"];

fn stuck(state: &str, reason: Reason) -> (Cluster, Operator, Decision) {
    let mut cluster = cluster("B0-4", -1);
    for node in cluster.nodes.values_mut() {
        node.waiting = Some(state.to_owned());
        node.reasons = [reason.clone()].into();
    }
    let mut operator = Operator::default();
    let decision = operator.run(&mut cluster, LONG_MS);
    (cluster, operator, decision)
}

#[test]
fn r42_to_r45_a_stuck_pod_stops_the_roll() {
    for state in STATES {
        let (cluster, _, decision) = stuck(state, Reason::ManualRollingUpdate);
        assert!(cluster.restarts.is_empty(), "{state}");
        assert_eq!(decision.standing, Stopped, "{state}");
        assert_eq!(decision.progress.stopping.len(), 5);
        let text = decision.why[0].to_string();
        assert!(text.contains(&format!("its pod cannot start ({state})")), "{text}");
    }
}

#[test]
fn r46_to_r49_a_stuck_pod_of_an_old_revision_is_restarted() {
    for state in STATES {
        let (cluster, operator, decision) = stuck(state, Reason::PodHasOldRevision);
        assert_eq!(cluster.restarts, [0, 1, 2, 3, 4].map(id), "{state}");
        assert_eq!(decision.standing, Settled, "{state}");
        // Strimzi goes one by one. None of them runs, so none is missed.
        assert_eq!(operator.batches.len(), 1, "{state}");
    }
}

#[test]
fn a_cluster_of_combined_nodes_that_cannot_be_scheduled_recovers_as_a_whole() {
    let mut cluster = cluster("X0-2", -1);
    for node in cluster.nodes.values_mut() {
        node.waiting = Some("CrashLoopBackOff".into());
        node.reasons = [Reason::PodHasOldRevision].into();
    }
    let quorum = |c: &mut Cluster| {
        let up = c.nodes.values().filter(|node| node.runs()).count();
        c.leader = (up >= 2).then_some(id(0));
    };
    let decision = Operator::default().run_with(&mut cluster, LONG_MS, quorum);
    assert_eq!(decision.standing, Settled);
    assert_eq!(cluster.restarts.len(), 3);
}

#[test]
fn a_pod_that_crash_loops_stops_the_rest_until_its_specification_is_corrected() {
    let mut cluster = cluster("B0-2", -1);
    // The new revision is a bad one: the first pod of it crash-loops.
    let bad = |c: &mut Cluster| {
        for node in c.nodes.values_mut() {
            let first = node.pods == 1;
            node.waiting = first.then(|| "CrashLoopBackOff".to_owned());
        }
    };
    let mut operator = Operator::default();
    let decision = operator.run_with(&mut cluster, 600_000, bad);
    assert_eq!(cluster.restarts, [id(0)]);
    assert_eq!(decision.standing, Stopped);
    // It is corrected: all pods have an old revision now.
    for node in cluster.nodes.values_mut() {
        node.reasons.insert(Reason::PodHasOldRevision);
    }
    let good = |c: &mut Cluster| {
        let node = c.node(0).unwrap();
        node.waiting = (node.pods == 1).then(|| "CrashLoopBackOff".to_owned());
    };
    let decision = operator.run_with(&mut cluster, LONG_MS, good);
    assert_eq!(decision.standing, Settled, "{:?}", decision.why);
    assert_eq!(cluster.restarts, [0, 0, 1, 2].map(id));
}

fn dynamic() -> Option<Diff> {
    let set = Change::Set("log.cleaner.threads".into(), "2".into());
    Some(Diff { on_cluster: vec![set], ..Diff::default() })
}

#[test]
fn r27_settings_that_can_be_changed_while_kafka_runs_restart_nobody() {
    let mut cluster = cluster("B0-2 X3-5 C6-8", 6);
    keep_reasons(&mut cluster, &[]);
    cluster.nodes.values_mut().for_each(|node| node.config = dynamic());
    let decision = Operator::default().run(&mut cluster, LONG_MS);
    assert_eq!(decision.standing, Settled);
    assert!(cluster.restarts.is_empty());
    assert!(cluster.nodes.values().all(|node| node.config == Some(Diff::default())));
}

#[test]
fn r30_settings_that_are_not_taken_while_kafka_runs_are_a_reason_to_restart() {
    let mut cluster = cluster("B0-2", -1);
    keep_reasons(&mut cluster, &[]);
    let node = cluster.node(1).unwrap();
    node.config = dynamic();
    node.refuses_updates = true;
    let decision = Operator::default().run(&mut cluster, LONG_MS);
    assert_eq!(decision.standing, Settled);
    assert_eq!(cluster.restarts, [id(1)]);
}

#[test]
fn settings_that_a_restart_does_not_change_are_left_to_people() {
    let mut cluster = cluster("B0-2", -1);
    keep_reasons(&mut cluster, &[]);
    let stubborn = |c: &mut Cluster| {
        let node = c.node(1).unwrap();
        node.config = dynamic();
        node.refuses_updates = true;
    };
    let decision = Operator::default().run_with(&mut cluster, LONG_MS, stubborn);
    assert_eq!(cluster.restarts, [id(1)]);
    let text = decision.why[0].to_string();
    assert!(text.contains("restarted for log.cleaner.threads and still runs with other"), "{text}");
}
