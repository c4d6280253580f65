//! A plan: changes, cost, and effect.

use model::{NodeId, TopicName};

use crate::bound::least_mb;
use crate::check::{Judgement, check};
use crate::goals::Goals;
use crate::provision::{Hint, hints};
use crate::search::{Scope, search};
use crate::view::{Assignment, BrokerState, View};
use crate::waves::order;

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
    /// MB moved over the network.
    pub mb: f64,
}

impl Change {
    /// Whether only the leader changes, which moves no data.
    #[must_use]
    pub fn is_leadership(&self) -> bool {
        self.after.iter().all(|broker| self.before.contains(broker))
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The new assignment.
    pub assignment: Assignment,
    /// The changed partitions.
    pub changes: Vec<Change>,
    /// Indices of changes in the order in which to begin them: full disks are freed first, and the busiest
    /// brokers are kept busy.
    pub order: Vec<usize>,
    /// Total MB moved.
    pub mb: f64,
}

/// Load of a broker, before or after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BrokerShare {
    /// The broker.
    pub broker: NodeId,
    /// Replicas on it.
    pub replicas: u32,
    /// Leaders among them.
    pub leaders: u32,
    /// MB on its disks.
    pub disk_mb: f64,
    /// Inbound, KB per second.
    pub network_in_kb: f64,
    /// Inbound from producers, KB per second.
    pub leader_in_kb: f64,
    /// Outbound, KB per second.
    pub network_out_kb: f64,
    /// Outbound if it led all its partitions, KB per second.
    pub potential_out_kb: f64,
    /// CPU, in percent of a core.
    pub cpu_percent: f64,
}

/// Effect of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Goals before.
    pub before: Judgement,
    /// Goals after.
    pub after: Judgement,
    /// Brokers before.
    pub brokers_before: Vec<BrokerShare>,
    /// Brokers after.
    pub brokers_after: Vec<BrokerShare>,
    /// What the cluster lacks if a hard goal cannot be satisfied.
    pub hints: Vec<Hint>,
    /// MB that any plan moves which satisfies the goals that this one satisfies.
    pub least_mb: f64,
    /// Improvements that the plan omits, with their cost.
    pub rest: Option<Rest>,
}

/// Possible improvements for more MB. A plan that drains brokers moves nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rest {
    /// MB beyond the plan.
    pub mb: f64,
    /// The resulting balancedness.
    pub balancedness: f64,
}

/// Finds an assignment that satisfies the goals and moves little data. Deterministic.
#[must_use]
pub fn plan(view: &View, goals: &Goals) -> (Plan, Report) {
    // A drain moves only what it must: it is not an opportunity to rebalance the rest.
    let draining = view.brokers.iter().any(|broker| broker.state == BrokerState::Removed);
    let scope = if draining { Scope::Displaced } else { Scope::All };
    let assignment = search(view, goals, scope);
    let changes: Vec<Change> =
        (0..view.partitions()).filter_map(|p| change(view, &assignment, p)).collect();
    let after = check(view, goals, &assignment);
    let brokers_after = shares(view, &assignment);
    let mb = view.moved_mb(&assignment);
    let report = Report {
        least_mb: least_mb(view, &after),
        rest: if draining { rest(view, goals, &after, mb) } else { None },
        before: check(view, goals, view.assignment()),
        brokers_before: shares(view, view.assignment()),
        hints: hints(view, &after, &brokers_after),
        after,
        brokers_after,
    };
    let order = order(view, &changes);
    (Plan { assignment, changes, order, mb }, report)
}

/// The effect of a plan without this restriction, if it is better.
fn rest(view: &View, goals: &Goals, after: &Judgement, mb: f64) -> Option<Rest> {
    if after.goals.iter().all(|state| state.findings == 0) {
        return None;
    }
    let all = search(view, goals, Scope::Rest);
    let balancedness = check(view, goals, &all).balancedness;
    let rest = Rest { mb: view.moved_mb(&all) - mb, balancedness };
    (rest.balancedness > after.balancedness && rest.mb > 0.0).then_some(rest)
}

fn change(view: &View, assignment: &Assignment, partition: usize) -> Option<Change> {
    let slots = view.slots(partition);
    let (before, after) = (&view.assignment()[slots.clone()], &assignment[slots]);
    let added = after.iter().filter(|broker| !before.contains(broker)).count();
    // The order of followers has no meaning.
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
