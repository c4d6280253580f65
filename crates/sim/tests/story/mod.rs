//! A cluster, what happens to it, and what an operator makes of it, in a row.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use control::node::Roles;
use control::rolling::pass::{Decision, Standing};
use control::rolling::reasons::Reason;
use model::NodeId;
use sim::rolling::{Cluster, Node, Operator};

use Standing::Settled;

/// Longer than anything is waited for.
pub(crate) const LONG_MS: u64 = 3_000_000;
/// A leader that is none of the nodes.
pub(crate) const ELSEWHERE: i32 = 99;
pub(crate) const NO_WITNESS: &str =
    "no broker that keeps up with the controllers reports the in-sync replicas";

pub(crate) fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// A cluster such as "B0-2 C3-5", where a restart of every pod was asked for.
pub(crate) fn cluster(text: &str, leader: i32) -> Cluster {
    let mut nodes = Vec::new();
    for word in text.split_whitespace() {
        let roles = match &word[..1] {
            "B" => Roles::Broker,
            "C" => Roles::Controller,
            _ => Roles::Combined,
        };
        let ids: Vec<i32> = match word[1..].split_once('-') {
            Some((from, to)) => (from.parse().unwrap()..=to.parse().unwrap()).collect(),
            None => vec![word[1..].parse().unwrap()],
        };
        let node = || Node::up(roles, Some(Reason::ManualRollingUpdate));
        nodes.extend(ids.into_iter().map(|number| (id(number), node())));
    }
    let mut cluster = Cluster::new(nodes);
    cluster.leader = NodeId::new(leader);
    cluster
}

/// What happens to the cluster before each pass.
pub(crate) type Happens = fn(&mut Cluster);

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) nodes: &'static str,
    pub(crate) leader: i32,
    pub(crate) before: Happens,
    pub(crate) meanwhile: Happens,
    pub(crate) restarts: &'static [i32],
    pub(crate) standing: Standing,
    /// What a message says.
    pub(crate) message: &'static str,
}

pub(crate) fn run(row: &Row) -> (Cluster, Operator, Decision) {
    let mut cluster = cluster(row.nodes, row.leader);
    (row.before)(&mut cluster);
    let mut operator = Operator::default();
    let decision = operator.run_with(&mut cluster, LONG_MS, row.meanwhile);
    check(row, &cluster, &decision);
    (cluster, operator, decision)
}

pub(crate) fn check(row: &Row, cluster: &Cluster, decision: &Decision) {
    let Row { name, restarts, standing, message, .. } = row;
    let done: Vec<i32> = cluster.restarts.iter().map(|node| node.get()).collect();
    assert_eq!(done, *restarts, "{name}: {:?}", decision.why);
    assert_eq!(decision.standing, *standing, "{name}: {:?}", decision.why);
    let text: Vec<String> = decision.why.iter().map(ToString::to_string).collect();
    assert!(text.join("\n").contains(message), "{name}: {text:?}");
    assert_eq!(cluster.broken, Vec::<String>::new(), "{name}");
}

pub(crate) const NOTHING: Happens = |_| {};

pub(crate) fn keep_reasons(cluster: &mut Cluster, nodes: &[i32]) {
    let others = cluster.nodes.iter_mut().filter(|(id, _)| !nodes.contains(&id.get()));
    others.for_each(|(_, node)| node.reasons.clear());
}

pub(crate) const fn row(
    name: &'static str,
    nodes: &'static str,
    leader: i32,
    restarts: &'static [i32],
) -> Row {
    Row {
        name,
        nodes,
        leader,
        before: NOTHING,
        meanwhile: NOTHING,
        restarts,
        standing: Settled,
        message: "",
    }
}
