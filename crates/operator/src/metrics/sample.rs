//! What a decision about a cluster looks like as series: pure functions of the decision and its facts.
//!
//! What is unknown has no series: 0 would be a statement. The number of series of a cluster depends on the number of its
//! voters and on closed lists, never on topics or partitions.

use std::collections::BTreeMap;

use control::certificates::Stored;
use control::cluster::decide::Decision;
use control::cluster::fact::Fact;
use control::cluster::record::Record;
use control::cluster::snapshot::{AuthorityView, Snapshot};
use control::quorum::{QuorumView, majority};
use control::rebalance::execution::{Progress, Recorded};
use control::rolling::account::Account;
use control::rolling::pass::Standing;
use control::scaling::guard::{Hold, Phase};

use crate::words::word;

/// The labels of a series besides those of the cluster.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) labels: Labels,
    pub(super) value: f64,
}

fn plain(name: &'static str, value: f64) -> Sample {
    Sample { name, labels: Vec::new(), value }
}

fn with(name: &'static str, label: (&'static str, impl Into<String>), value: f64) -> Sample {
    Sample { name, labels: vec![(label.0, label.1.into())], value }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// What a decision says about a cluster. Certificates and the times of facts are kept when they were not read; see
/// [`certificates`] and [`fact_times`].
pub(super) fn of_decision(snapshot: &Snapshot, decision: &Decision) -> Vec<Sample> {
    let mut all = waiting(decision);
    all.extend(roll(&decision.record));
    all.extend(quorum(snapshot));
    all.extend(drains(decision));
    all
}

fn waiting(decision: &Decision) -> Vec<Sample> {
    let noted = decision.flows.iter().filter_map(|(area, flow)| Some((area, flow.note()?)));
    let sample = |(area, note): (&control::cluster::area::Area, &control::conditions::Note)| {
        let labels =
            vec![("area", area.name().to_owned()), ("reason", note.reason.name().to_owned())];
        Sample { name: "gregor_cluster_waiting", labels, value: 1.0 }
    };
    noted.map(sample).collect()
}

/// All states of a roll, each of which has a series.
const STANDINGS: [Standing; 5] =
    [Standing::Settled, Standing::Rolling, Standing::Waiting, Standing::Failed, Standing::Stopped];

fn roll(record: &Record) -> Vec<Sample> {
    let none = Account::default();
    let account = record.roll_account.as_ref().unwrap_or(&none);
    let state = |one: Standing| {
        let holds = f64::from(u8::from(one == account.standing));
        with("gregor_roll_state", ("state", word(&one)), holds)
    };
    let mut all: Vec<Sample> = STANDINGS.into_iter().map(state).collect();
    for (state, nodes) in [
        ("left", &account.left),
        ("under_way", &account.under_way),
        ("given_up", &account.given_up),
        ("stopping", &account.stopping),
    ] {
        all.push(with("gregor_roll_nodes", ("state", state), nodes.len() as f64));
    }
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for wait in &account.waits {
        *held.entry(word(&wait.hold)).or_default() += wait.nodes.len();
    }
    let held = held.into_iter();
    all.extend(
        held.map(|(hold, count)| with("gregor_roll_held_nodes", ("hold", hold), count as f64)),
    );
    let roll = account.roll.as_ref();
    all.push(plain(
        "gregor_roll_batch_nodes",
        roll.map_or(0.0, |roll| f64::from(roll.batch_nodes)),
    ));
    if let Some(roll) = roll {
        all.push(plain("gregor_roll_started_timestamp_seconds", seconds(roll.started_ms)));
    }
    all
}

/// The time at which a roll is estimated to end.
pub(super) fn estimated_end(end_ms: u64) -> Sample {
    plain("gregor_roll_estimated_end_timestamp_seconds", seconds(end_ms))
}

fn quorum(snapshot: &Snapshot) -> Vec<Sample> {
    let is_desired = |node: &&control::cluster::snapshot::NodeView| {
        node.desired.is_some_and(control::node::Roles::is_controller)
    };
    let desired = snapshot.nodes.values().filter(is_desired).count() + snapshot.refused.len();
    let mut all = vec![plain("gregor_quorum_controllers_desired", desired as f64)];
    let known = snapshot.kafka.quorum.known();
    all.push(plain("gregor_quorum_known", f64::from(u8::from(known.is_some()))));
    if let Some(view) = known {
        all.extend(known_quorum(view));
    }
    all
}

fn known_quorum(view: &QuorumView) -> Vec<Sample> {
    let caught_up = view.voters.iter().filter(|voter| view.has_caught_up(voter)).count();
    let voters = view.voters.len();
    let tolerated = caught_up as f64 - majority(voters) as f64;
    let mut all = vec![
        with("gregor_quorum_voters", ("state", "caught_up"), caught_up as f64),
        with("gregor_quorum_voters", ("state", "behind"), (voters - caught_up) as f64),
        plain("gregor_quorum_failures_tolerated", tolerated),
        plain("gregor_quorum_leader_node", f64::from(view.leader.get())),
        plain("gregor_quorum_leader_epoch", f64::from(view.epoch)),
    ];
    let lag = |voter: &control::quorum::Replica| {
        let node = ("node", voter.id.to_string());
        Some(with("gregor_quorum_voter_lag_records", node, view.lag(voter)? as f64))
    };
    all.extend(view.voters.iter().filter_map(lag));
    all
}

fn drains(decision: &Decision) -> Vec<Sample> {
    let mut phases: BTreeMap<String, usize> = [(word(&Phase::Draining), 0)].into();
    let leaving = decision.record.leaving.values();
    for phase in leaving.map(|one| one.phase).filter(|phase| *phase != Phase::Kept) {
        *phases.entry(word(&phase)).or_default() += 1;
    }
    let phases = phases.into_iter();
    let mut all: Vec<Sample> = phases
        .map(|(phase, count)| with("gregor_drain_brokers", ("phase", phase), count as f64))
        .collect();
    let replicas = match &decision.outputs.leaving {
        Some(pass) => replicas_left(pass.holds.values()),
        None if decision.record.leaving.is_empty() => Some(0),
        None => None,
    };
    all.extend(replicas.map(|replicas| plain("gregor_drain_replicas", replicas as f64)));
    all
}

/// The replicas on brokers that leave; `None` if those of one of them are unknown.
fn replicas_left<'a>(mut holds: impl Iterator<Item = &'a Hold>) -> Option<usize> {
    holds.try_fold(0, |sum, hold| match hold {
        Hold::Partitions { partitions, .. } => Some(sum + partitions),
        Hold::PartitionsUnknown => None,
        Hold::Rebalance
        | Hold::LastBroker
        | Hold::Cordon
        | Hold::Quorum(_)
        | Hold::Process
        | Hold::Fence
        | Hold::Registration
        | Hold::Claims
        | Hold::Return => Some(sum),
    })
}

/// When certificates expire, in seconds since 1970, by type; those that were read.
pub(super) fn certificates(snapshot: &Snapshot) -> BTreeMap<&'static str, i64> {
    let mut all = BTreeMap::new();
    if let Some(authorities) = snapshot.authorities.known() {
        all.extend(end_of(&authorities.cluster).map(|end| ("cluster-ca", end)));
        all.extend(end_of(&authorities.clients).map(|end| ("client-ca", end)));
        let operator = authorities.operator.found.read();
        all.extend(operator.map(|found| ("operator", found.validity.not_after)));
    }
    if let Some(certificates) = snapshot.certificates.known() {
        let found = certificates.nodes.values().filter_map(|node| node.found.read());
        let first = found.map(|found| found.validity.not_after).min();
        all.extend(first.map(|end| ("nodes", end)));
    }
    all
}

fn end_of(authority: &AuthorityView) -> Option<i64> {
    match &authority.facts.certificates {
        Stored::Present(stored) => stored.current.read().map(|found| found.validity.not_after),
        Stored::Absent => None,
    }
}

/// When facts were read, by source; those that were.
pub(super) fn fact_times(snapshot: &Snapshot) -> BTreeMap<&'static str, u64> {
    const fn at<T>(fact: &Fact<T>) -> Option<u64> {
        match fact {
            Fact::Read { at_ms, .. } => Some(*at_ms),
            Fact::Unknown(_) => None,
        }
    }
    let kafka = &snapshot.kafka;
    let all = [
        ("kubernetes", Some(snapshot.objects_ms).filter(|ms| *ms > 0)),
        ("quorum", at(&kafka.quorum)),
        ("brokers", at(&kafka.brokers)),
        ("features", at(&kafka.features)),
        ("partitions", at(&kafka.partitions)),
        ("authorities", at(&snapshot.authorities)),
        ("certificates", at(&snapshot.certificates)),
        ("rebalances", at(&snapshot.rebalance)),
    ];
    all.into_iter().filter_map(|(source, ms)| Some((source, ms?))).collect()
}

/// The time at which a source of facts was read.
pub(super) fn read_at(source: &str, ms: u64) -> Sample {
    with("gregor_facts_timestamp_seconds", ("source", source), seconds(ms))
}

/// What is recorded of an execution of moves.
pub(super) fn moves(recorded: &Recorded) -> Vec<Sample> {
    let mut all = vec![
        with("gregor_moves_phase", ("phase", word(&recorded.phase)), 1.0),
        plain("gregor_moves_throttled_objects", recorded.former.len() as f64),
    ];
    let rate = recorded.rate_bytes;
    all.extend(rate.map(|rate| plain("gregor_moves_throttle_bytes_per_second", rate as f64)));
    all
}

/// How far an execution of moves is.
pub(super) fn progress(progress: &Progress) -> Vec<Sample> {
    let Progress { moves_total, moves_done, moves_in_flight, moves_waiting, .. } = *progress;
    let open = moves_total.saturating_sub(moves_done + moves_in_flight + moves_waiting);
    let mut all = vec![
        plain("gregor_moves_bytes", progress.bytes_total as f64),
        plain("gregor_moves_copied_bytes", progress.bytes_done as f64),
    ];
    for (state, count) in [
        ("done", moves_done),
        ("in_flight", moves_in_flight),
        ("waiting", moves_waiting),
        ("open", open),
    ] {
        all.push(with("gregor_moves_partitions", ("state", state), count as f64));
    }
    all
}
