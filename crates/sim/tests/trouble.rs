//! Nodes in trouble, lived by the roller: which are restarted unasked, which others need, what
//! would be lost with them, and what becomes of the others.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod story;

use control::rolling::facts::Recovery;
use control::rolling::pass::Standing;
use control::rolling::reasons::Reason;
use sim::rolling::{Cluster, Node, Partition};
use story::{ELSEWHERE, NO_WITNESS, Row, id, keep_reasons, row, run};

use Standing::Failed;

/// Not ready until the first restart, and says this of itself.
fn in_trouble(cluster: &mut Cluster, nodes: &[i32], recovery: Recovery) {
    for node in nodes {
        let node = cluster.node(*node).unwrap();
        node.recovery = if node.pods == 0 { recovery } else { Recovery::No };
    }
}

/// The same, and Kafka runs on it nevertheless.
fn serves_in_trouble(cluster: &mut Cluster, nodes: &[i32], recovery: Recovery) {
    in_trouble(cluster, nodes, recovery);
    for node in nodes {
        let node = cluster.node(*node).unwrap();
        node.probes_fail = node.pods == 0;
    }
}

fn ephemeral(cluster: &mut Cluster) {
    cluster.nodes.values_mut().for_each(|node| node.ephemeral = true);
}

/// The quorum has a leader while two of three voters run.
fn lead_by_majority(cluster: &mut Cluster) {
    let up = cluster.nodes.values().filter(|node| node.runs()).count();
    cluster.leader = (up >= 2).then_some(id(0));
    told_by_leader(cluster);
}

/// Without a leader nobody describes the quorum, and no broker is known to keep up with it.
fn told_by_leader(cluster: &mut Cluster) {
    cluster.quorum_readable = cluster.leader.is_some();
    cluster.partitions_readable = cluster.quorum_readable;
}

/// A partition on three brokers, of which two must be in sync.
fn share(cluster: &mut Cluster) {
    cluster.partitions.push(Partition {
        replicas: [0, 1, 2].map(id).to_vec(),
        min_isr: 2,
        behind: [].into(),
        adding: vec![],
        removing: vec![],
    });
}

/// The same, and the last of them is behind, so that both others are needed.
fn share_tightly(cluster: &mut Cluster) {
    share(cluster);
    cluster.partitions.iter_mut().for_each(|partition| partition.behind = [id(2)].into());
}

#[rustfmt::skip]
fn trouble_rows() -> Vec<Row> {
    vec![
        Row { before: |c| { share(c); keep_reasons(c, &[]); in_trouble(c, &[1], Recovery::Hung) },
              meanwhile: |c| in_trouble(c, &[1], Recovery::Hung),
              ..row("a broker that hangs", "B0-2", ELSEWHERE, &[1]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); in_trouble(c, &[1, 2], Recovery::Starting) },
              meanwhile: |c| in_trouble(c, &[1, 2], Recovery::Starting),
              ..row("two of three brokers do not begin to serve, and writes are refused", "B0-2", ELSEWHERE, &[1, 2]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); in_trouble(c, &[0, 1, 2], Recovery::Starting) },
              meanwhile: |c| { in_trouble(c, &[0, 1, 2], Recovery::Starting);
                               c.partitions_readable = c.nodes.values().any(Node::runs) },
              ..row("no broker answers, and none has begun to serve", "B0-2", ELSEWHERE, &[0, 1, 2]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); in_trouble(c, &[0, 1, 2], Recovery::Starting);
                            told_by_leader(c) },
              message: "waits for its pod to become ready",
              ..row("no broker can begin to serve, since there is no leader", "B0-2", -1, &[]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); c.partitions_readable = false;
                            serves_in_trouble(c, &[0, 1, 2], Recovery::Unknown) },
              standing: Failed, message: NO_WITNESS,
              ..row("no broker answers, and each may be the last that serves", "B0-2", ELSEWHERE, &[]) },
        Row { before: |c| { keep_reasons(c, &[]); in_trouble(c, &[2], Recovery::Hung) },
              meanwhile: |c| in_trouble(c, &[2], Recovery::Hung),
              ..row("a controller that hangs", "C0-2", 0, &[2]) },
        Row { before: |c| { keep_reasons(c, &[]); in_trouble(c, &[1, 2], Recovery::Hung) },
              meanwhile: |c| { in_trouble(c, &[1, 2], Recovery::Hung); lead_by_majority(c) },
              ..row("two of three controllers hang, and there is no leader", "C0-2", -1, &[1, 2]) },
        Row { before: |c| { keep_reasons(c, &[]); in_trouble(c, &[1, 2], Recovery::Hung) },
              meanwhile: |c| { in_trouble(c, &[1, 2], Recovery::Hung); lead_by_majority(c) },
              standing: Failed, message: NO_WITNESS,
              ..row("two of three combined nodes hang, and nobody tells whether they are fenced", "X0-2", -1, &[]) },
        Row { before: |c| { keep_reasons(c, &[]); in_trouble(c, &[1], Recovery::Starting) },
              meanwhile: |c| { in_trouble(c, &[1], Recovery::Starting);
                               c.node(0).unwrap().recovery = Recovery::Starting },
              standing: Failed, message: "it was restarted and has not become ready since",
              ..row("the first is not cured, and the second is", "B0-2", ELSEWHERE, &[0, 1]) },
    ]
}

/// Nodes that are not ready, and that others need all the same.
#[rustfmt::skip]
fn needed_rows() -> Vec<Row> {
    const NEEDED: &str = "partition t-0 has 1 replicas in sync, without it 1, and needs 2";
    vec![
        Row { before: |c| { share_tightly(c); keep_reasons(c, &[]); serves_in_trouble(c, &[1], Recovery::No) },
              standing: Failed, message: NEEDED,
              ..row("a broker whose probes fail", "B0-2", ELSEWHERE, &[]) },
        Row { before: |c| { share_tightly(c); keep_reasons(c, &[]); serves_in_trouble(c, &[1], Recovery::Unknown) },
              standing: Failed, message: NEEDED,
              ..row("a broker that cannot be asked", "B0-2", ELSEWHERE, &[]) },
        Row { before: |c| { share_tightly(c); keep_reasons(c, &[]); serves_in_trouble(c, &[1], Recovery::Hung) },
              standing: Failed, message: NEEDED,
              ..row("a broker that says that it hangs", "B0-2", ELSEWHERE, &[]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); serves_in_trouble(c, &[1], Recovery::Hung) },
              meanwhile: |c| serves_in_trouble(c, &[1], Recovery::Hung),
              ..row("the same where others have what it has", "B0-2", ELSEWHERE, &[1]) },
        Row { before: |c| { keep_reasons(c, &[]); c.lagging = [id(1)].into(); serves_in_trouble(c, &[2], Recovery::Hung) },
              standing: Failed, message: "without it 1 voters would be up to date and 2 must be",
              ..row("a controller that says that it hangs", "C0-2", 0, &[]) },
        Row { before: |c| { keep_reasons(c, &[]); c.lagging = [id(1)].into(); serves_in_trouble(c, &[2], Recovery::Unknown) },
              standing: Failed, message: "without it 1 voters would be up to date and 2 must be",
              ..row("a controller that cannot be asked", "C0-2", 0, &[]) },
    ]
}

#[test]
fn a_node_that_is_not_ready_keeps_its_pod_while_others_need_it() {
    for row in needed_rows() {
        run(&row);
    }
}

/// Nodes whose disks are deleted with their pods.
#[rustfmt::skip]
fn ephemeral_rows() -> Vec<Row> {
    vec![
        Row { before: |c| { share(c); keep_reasons(c, &[]); ephemeral(c); in_trouble(c, &[1, 2], Recovery::Starting) },
              meanwhile: |c| in_trouble(c, &[1, 2], Recovery::Starting),
              ..row("two of three brokers do not begin to serve", "B0-2", ELSEWHERE, &[1, 2]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); ephemeral(c); c.partitions_readable = false;
                            in_trouble(c, &[0, 1, 2], Recovery::Starting) },
              standing: Failed, message: NO_WITNESS,
              ..row("no broker begins to serve", "B0-2", ELSEWHERE, &[]) },
        Row { before: |c| { share(c); keep_reasons(c, &[]); ephemeral(c); in_trouble(c, &[0, 1, 2], Recovery::Starting) },
              standing: Failed, message: "is in sync on no other node that is ready",
              ..row("no broker begins to serve, and no other has what they have", "B0-2", ELSEWHERE, &[]) },
        Row { before: |c| { keep_reasons(c, &[]); ephemeral(c); in_trouble(c, &[2], Recovery::Hung) },
              meanwhile: |c| in_trouble(c, &[2], Recovery::Hung),
              ..row("a controller that hangs", "C0-2", 0, &[2]) },
        Row { before: |c| { keep_reasons(c, &[]); ephemeral(c); in_trouble(c, &[1, 2], Recovery::Hung) },
              meanwhile: |c| { in_trouble(c, &[1, 2], Recovery::Hung); lead_by_majority(c) },
              standing: Failed, message: "no controller describes the quorum",
              ..row("two of three controllers hang", "C0-2", -1, &[]) },
        Row { before: |c| { share(c); ephemeral(c) },
              ..row("all are rolled, and voters follow their disks", "B0-2 C3-5", 3, &[4, 5, 3, 0, 1, 2]) },
    ]
}

#[test]
fn a_node_keeps_its_pod_while_what_goes_with_it_may_be_the_last_copy() {
    for row in ephemeral_rows() {
        run(&row);
    }
}

/// The pod of a node whose machine is gone is deleted once and stays.
#[rustfmt::skip]
fn dead_rows() -> Vec<Row> {
    const STAYS: &str = "its pod was deleted but still exists";
    vec![
        Row { before: |c| { keep_reasons(c, &[]); c.node(1).unwrap().dead = true },
              standing: Failed, message: STAYS,
              ..row("a broker", "B0-2", ELSEWHERE, &[1]) },
        Row { before: |c| { keep_reasons(c, &[0, 2]); c.node(1).unwrap().dead = true },
              meanwhile: |c| { let is_over = c.now_ms > 2_500_000;
                               let reason = is_over.then_some(Reason::ManualRollingUpdate);
                               if c.restarts == [id(0), id(2), id(1)] { c.node(2).unwrap().reasons.extend(reason) } },
              standing: Failed, message: STAYS,
              ..row("a broker, and a restart is asked for later", "B0-2", ELSEWHERE, &[0, 2, 1, 2]) },
        Row { before: |c| { keep_reasons(c, &[]); c.node(5).unwrap().dead = true },
              meanwhile: |c| { let is_over = c.now_ms > 2_500_000;
                               let reason = is_over.then_some(Reason::ManualRollingUpdate);
                               if c.restarts == [id(5)] { c.node(0).unwrap().reasons.extend(reason) } },
              standing: Failed, message: STAYS,
              ..row("a controller, and a restart of a broker is asked for later", "B0-2 C3-5", 3, &[5, 0]) },
    ]
}

#[test]
fn a_machine_that_is_gone_does_not_hold_the_others_back_for_ever() {
    for row in dead_rows() {
        run(&row);
    }
}

#[test]
fn nodes_in_trouble_are_restarted_unasked() {
    for row in trouble_rows() {
        run(&row);
    }
}
