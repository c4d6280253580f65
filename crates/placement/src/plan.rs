//! A plan: what changes, what it costs, and what it is good for.

use model::{NodeId, TopicName};

use crate::check::{Judgement, check};
use crate::goals::Goals;
use crate::provision::{Hint, hints};
use crate::search::{Scope, search};
use crate::view::{Assignment, BrokerState, View};

/// A partition whose replicas or leader change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The topic.
    pub topic: TopicName,
    /// The partition in it.
    pub partition: u32,
    /// Its brokers before, leader first.
    pub before: Vec<NodeId>,
    /// Its brokers after, leader first.
    pub after: Vec<NodeId>,
    /// The MB that this moves over the network.
    pub mb: f64,
}

impl Change {
    /// Whether only the leader changes, which moves nothing.
    #[must_use]
    pub fn is_leadership(&self) -> bool {
        self.after.iter().all(|broker| self.before.contains(broker))
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The assignment that the cluster would have.
    pub assignment: Assignment,
    /// The partitions that change.
    pub changes: Vec<Change>,
    /// The MB that it moves in all.
    pub mb: f64,
}

/// A broker's part of the whole, before or after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BrokerShare {
    /// The broker.
    pub broker: NodeId,
    /// Replicas on it.
    pub replicas: u32,
    /// Of these, leaders.
    pub leaders: u32,
    /// MB on its disks.
    pub disk_mb: f64,
    /// Inbound, KB a second.
    pub network_in_kb: f64,
    /// Of this, what producers send to what it leads.
    pub leader_in_kb: f64,
    /// Outbound, KB a second.
    pub network_out_kb: f64,
    /// What it would send if it led all that it has, KB a second.
    pub potential_out_kb: f64,
    /// CPU, percent of one core.
    pub cpu_percent: f64,
}

/// What a plan is good for.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What the goals look like now.
    pub before: Judgement,
    /// What they would look like.
    pub after: Judgement,
    /// The brokers now.
    pub brokers_before: Vec<BrokerShare>,
    /// The brokers then.
    pub brokers_after: Vec<BrokerShare>,
    /// What the cluster lacks, if a hard goal cannot be met.
    pub hints: Vec<Hint>,
    /// What the plan leaves undone, and what it would cost.
    pub rest: Option<Rest>,
}

/// What could be had for more MB. A plan that empties brokers moves nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    /// The MB that it would cost beyond the plan.
    pub mb: f64,
    /// The balancedness that the cluster would have.
    pub balancedness: f64,
}

/// Finds an assignment in which the goals hold, with few MB moved. The same view and goals give the
/// same plan, always.
#[must_use]
pub fn plan(view: &View, goals: &Goals) -> (Plan, Report) {
    // When brokers leave, what need not move stays: the drain is what was asked for, not a tidy-up.
    let draining = view.brokers.iter().any(|broker| broker.state == BrokerState::Removed);
    let scope = if draining { Scope::Displaced } else { Scope::All };
    let assignment = search(view, goals, scope);
    let changes: Vec<Change> =
        (0..view.partitions()).filter_map(|p| change(view, &assignment, p)).collect();
    let after = check(view, goals, &assignment);
    let brokers_after = shares(view, &assignment);
    let mb = view.moved_mb(&assignment);
    let report = Report {
        rest: if draining { rest(view, goals, &after, mb) } else { None },
        before: check(view, goals, view.assignment()),
        brokers_before: shares(view, view.assignment()),
        hints: hints(view, &after, &brokers_after),
        after,
        brokers_after,
    };
    (Plan { assignment, changes, mb }, report)
}

/// What a plan without the drain's restraint would come to, if that is better.
fn rest(view: &View, goals: &Goals, after: &Judgement, mb: f64) -> Option<Rest> {
    if after.goals.iter().all(|state| state.findings == 0) {
        return None;
    }
    let all = search(view, goals, Scope::All);
    let balancedness = check(view, goals, &all).balancedness;
    let rest = Rest { mb: view.moved_mb(&all) - mb, balancedness };
    (rest.balancedness > after.balancedness && rest.mb > 0.0).then_some(rest)
}

fn change(view: &View, assignment: &Assignment, partition: usize) -> Option<Change> {
    let slots = view.slots(partition);
    let (before, after) = (&view.assignment()[slots.clone()], &assignment[slots]);
    let added = after.iter().filter(|broker| !before.contains(broker)).count();
    // Followers have no order, so another order of the same is no change.
    if added == 0 && before.first() == after.first() {
        return None;
    }
    let ids = |brokers: &[u16]| {
        brokers.iter().map(|broker| view.brokers()[usize::from(*broker)].id).collect()
    };
    let (topic, number) = view.partition_name(partition);
    Some(Change {
        topic: topic.clone(),
        partition: number,
        before: ids(before),
        after: ids(after),
        mb: view.partition_mb(partition) * added as f64,
    })
}

fn shares(view: &View, assignment: &Assignment) -> Vec<BrokerShare> {
    let empty = |broker: &crate::view::BrokerSpec| BrokerShare {
        broker: broker.id,
        replicas: 0,
        leaders: 0,
        disk_mb: 0.0,
        network_in_kb: 0.0,
        leader_in_kb: 0.0,
        network_out_kb: 0.0,
        potential_out_kb: 0.0,
        cpu_percent: 0.0,
    };
    let mut shares: Vec<BrokerShare> = view.brokers().iter().map(empty).collect();
    for partition in 0..view.partitions() {
        let load = &view.load[partition];
        for (at, broker) in assignment[view.slots(partition)].iter().enumerate() {
            let share = &mut shares[usize::from(*broker)];
            share.replicas += 1;
            share.disk_mb += load.disk;
            share.network_in_kb += load.inbound;
            share.potential_out_kb += load.outbound;
            if at == 0 {
                share.leaders += 1;
                share.leader_in_kb += load.inbound;
                share.network_out_kb += load.outbound;
                share.cpu_percent += load.cpu_leader;
            } else {
                share.cpu_percent += load.cpu_follower;
            }
        }
    }
    shares
}
