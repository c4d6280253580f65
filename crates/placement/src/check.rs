//! Checks an assignment against the definitions of the goals.
//!
//! Independent of the search: all sums and limits are computed from scratch, so that an error in the search
//! is detected.

use std::collections::BTreeMap;

use model::{NodeId, TopicName};

use crate::goals::{
    BALANCE, BAND, CPU_SHARE, DISK_SHARE, Goal, Goals, NETWORK_SHARE, REPLICAS_MAX, TOPIC_BAND,
    TOPIC_GAP_MAX, TOPIC_GAP_MIN,
};
use crate::view::{Assignment, View};

/// A violation.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// An invalid partition.
    Structure {
        /// The topic.
        topic: TopicName,
        /// The partition in it.
        partition: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// Two replicas of a partition share a rack.
    SharedRack {
        /// The topic.
        topic: TopicName,
        /// The partition in it.
        partition: u32,
    },
    /// The replicas of a partition are not spread evenly over the racks.
    UnevenRacks {
        /// The topic.
        topic: TopicName,
        /// The partition in it.
        partition: u32,
    },
    /// A partition with another leader than the preferred one.
    Leader {
        /// The topic.
        topic: TopicName,
        /// The partition in it.
        partition: u32,
        /// The preferred leader.
        broker: NodeId,
    },
    /// A broker leads too few partitions of a topic.
    FewLeaders {
        /// The topic.
        topic: TopicName,
        /// The broker.
        broker: NodeId,
        /// Partitions that it leads.
        count: u32,
        /// Required minimum.
        low: u32,
    },
    /// A broker outside of the range of a goal.
    Broker {
        /// The broker.
        broker: NodeId,
        /// Actual value.
        value: f64,
        /// Lower limit.
        low: f64,
        /// Upper limit.
        high: f64,
    },
    /// A broker with too many or too few replicas of a topic.
    TopicOnBroker {
        /// The topic.
        topic: TopicName,
        /// The broker.
        broker: NodeId,
        /// Replicas that it has.
        count: u32,
        /// Lower limit.
        low: f64,
        /// Upper limit.
        high: f64,
    },
}

/// State of a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalState {
    /// The goal.
    pub goal: Goal,
    /// Number of violations.
    pub findings: usize,
    /// The first violation.
    pub example: Option<Finding>,
}

/// State of an assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Invalid partitions. With any of these the assignment is not acceptable.
    pub structure: Vec<Finding>,
    /// The goals, in their order.
    pub goals: Vec<GoalState>,
    /// 100 if every goal is satisfied.
    pub balancedness: f64,
}

impl Judgement {
    /// The violated goals.
    #[must_use]
    pub fn violated(&self) -> Vec<Goal> {
        self.goals.iter().filter(|state| state.findings > 0).map(|state| state.goal).collect()
    }

    /// Whether the assignment is valid and every hard goal is satisfied.
    #[must_use]
    pub fn is_acceptable(&self) -> bool {
        self.structure.is_empty() && !self.violated().iter().any(|goal| goal.is_hard())
    }
}

/// Sums of one broker.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    disk: f64,
    inbound: f64,
    outbound: f64,
    cpu: f64,
    potential: f64,
    leader_inbound: f64,
    replicas: f64,
    leaders: f64,
}

/// Checks an assignment of the view's partitions.
#[must_use]
pub fn check(view: &View, goals: &Goals, assignment: &Assignment) -> Judgement {
    let (structure, readable) = structure(view, assignment);
    if !readable {
        let worst = |goal: &Goal| GoalState { goal: *goal, findings: 1, example: None };
        let goals = goals.list().iter().map(worst).collect();
        return Judgement { structure, goals, balancedness: 0.0 };
    }
    let sums = sums(view, assignment);
    let judge = |goal: &Goal| {
        let mut found = findings(view, assignment, &sums, *goal);
        let findings = found.len();
        let example = if found.is_empty() { None } else { Some(found.swap_remove(0)) };
        GoalState { goal: *goal, findings, example }
    };
    let states: Vec<GoalState> = goals.list().iter().map(judge).collect();
    let violated: Vec<Goal> =
        states.iter().filter(|state| state.findings > 0).map(|state| state.goal).collect();
    Judgement { structure, balancedness: goals.balancedness(&violated), goals: states }
}

/// Invalid partitions, and whether goals can be checked anyway: load on removed brokers can be summed up, on
/// unknown brokers it cannot.
fn structure(view: &View, assignment: &Assignment) -> (Vec<Finding>, bool) {
    let mut found = Vec::new();
    let mut readable = true;
    for partition in 0..view.partitions() {
        let (topic, number) = view.partition_name(partition);
        let mut wrong = |what| {
            found.push(Finding::Structure { topic: topic.clone(), partition: number, what });
        };
        let Some(brokers) = assignment.get(view.slots(partition)) else {
            wrong("has no replicas");
            readable = false;
            continue;
        };
        if brokers.iter().any(|broker| usize::from(*broker) >= view.brokers.len()) {
            wrong("has a replica on an unknown broker");
            readable = false;
        } else if brokers.iter().any(|broker| !view.is_live(usize::from(*broker))) {
            wrong("has a replica on a removed broker");
        }
        if (1..brokers.len()).any(|at| brokers[..at].contains(&brokers[at])) {
            wrong("has two replicas on one broker");
        }
    }
    (found, readable)
}

fn sums(view: &View, assignment: &Assignment) -> Vec<Sums> {
    let mut all = vec![Sums::default(); view.brokers.len()];
    for partition in 0..view.partitions() {
        let load = &view.load[partition];
        for (at, broker) in assignment[view.slots(partition)].iter().enumerate() {
            let sums = &mut all[usize::from(*broker)];
            sums.disk += load.disk;
            sums.inbound += load.inbound;
            sums.potential += load.outbound;
            sums.replicas += 1.0;
            if at == 0 {
                sums.outbound += load.outbound;
                sums.cpu += load.cpu_leader;
                sums.leader_inbound += load.inbound;
                sums.leaders += 1.0;
            } else {
                sums.cpu += load.cpu_follower;
            }
        }
    }
    all
}

type Pick = fn(&Sums) -> f64;
type PickCapacity = fn(&crate::view::Capacity) -> f64;

fn findings(view: &View, assignment: &Assignment, sums: &[Sums], goal: Goal) -> Vec<Finding> {
    let limited = |pick: Pick, high: &dyn Fn(usize) -> f64| -> Vec<Finding> {
        outside(view, sums, pick, false, &|broker| (f64::NEG_INFINITY, high(broker)))
    };
    let share = |pick: Pick, capacity: PickCapacity, share: f64| {
        limited(pick, &|broker| capacity(&view.brokers[broker].capacity) * share)
    };
    let usage =
        |pick: Pick, capacity: PickCapacity, leads| usage(view, sums, (pick, capacity), leads);
    match goal {
        Goal::RackAware => shared_racks(view, assignment),
        Goal::RackAwareDistribution => uneven_racks(view, assignment),
        Goal::MinTopicLeadersPerBroker => few_leaders(view, assignment),
        Goal::ReplicaCapacity => limited(|s| s.replicas, &|_| REPLICAS_MAX),
        Goal::DiskCapacity => share(|s| s.disk, |c| c.disk_mb, DISK_SHARE),
        Goal::NetworkInboundCapacity => share(|s| s.inbound, |c| c.network_in_kb, NETWORK_SHARE),
        Goal::NetworkOutboundCapacity => share(|s| s.outbound, |c| c.network_out_kb, NETWORK_SHARE),
        Goal::CpuCapacity => share(|s| s.cpu, |c| c.cpu_percent, CPU_SHARE),
        Goal::ReplicaDistribution => counts(view, sums, |s| s.replicas, false),
        Goal::PotentialNwOut => share(|s| s.potential, |c| c.network_out_kb, NETWORK_SHARE),
        Goal::DiskUsageDistribution => usage(|s| s.disk, |c| c.disk_mb, false),
        Goal::NetworkInboundUsageDistribution => usage(|s| s.inbound, |c| c.network_in_kb, false),
        Goal::NetworkOutboundUsageDistribution => usage(|s| s.outbound, |c| c.network_out_kb, true),
        Goal::CpuUsageDistribution => usage(|s| s.cpu, |c| c.cpu_percent, true),
        Goal::TopicReplicaDistribution => topics(view, assignment),
        Goal::LeaderReplicaDistribution => counts(view, sums, |s| s.leaders, true),
        Goal::LeaderBytesInDistribution => {
            let brokers = view.live().count() as f64;
            let mean = view.live().map(|b| sums[b].leader_inbound).sum::<f64>() / brokers;
            limited(|s| s.leader_inbound, &|_| mean * BALANCE)
        }
        Goal::PreferredLeaderElection => not_preferred(view, assignment),
    }
}

/// Brokers outside of their limits. `leads` is whether the quantity increases with leadership. Brokers that
/// accept nothing have no lower limit.
fn outside(
    view: &View,
    sums: &[Sums],
    pick: Pick,
    leads: bool,
    limits: &dyn Fn(usize) -> (f64, f64),
) -> Vec<Finding> {
    let judge = |broker: usize| {
        let value = pick(&sums[broker]);
        let (low, high) = limits(broker);
        let takes = !(view.closed[broker] || leads && view.unled[broker]);
        let low = if takes { low } else { f64::NEG_INFINITY };
        let broker = view.brokers[broker].id;
        (value < low || value > high).then_some(Finding::Broker { broker, value, low, high })
    };
    view.live().filter_map(judge).collect()
}

fn usage(
    view: &View,
    sums: &[Sums],
    (pick, capacity): (Pick, PickCapacity),
    leads: bool,
) -> Vec<Finding> {
    let capacity = |broker: usize| capacity(&view.brokers[broker].capacity);
    let all: f64 = view.live().map(|broker| pick(&sums[broker])).sum();
    let mean = all / view.live().map(capacity).sum::<f64>();
    outside(view, sums, pick, leads, &|broker| {
        let fair = mean * capacity(broker);
        (fair * (1.0 - BAND), fair * (1.0 + BAND))
    })
}

fn counts(view: &View, sums: &[Sums], pick: Pick, leads: bool) -> Vec<Finding> {
    let brokers = view.live().count() as f64;
    let mean = view.live().map(|broker| pick(&sums[broker])).sum::<f64>() / brokers;
    let limits = ((mean * (1.0 - BAND)).floor(), (mean * (1.0 + BAND)).ceil());
    outside(view, sums, pick, leads, &|_| limits)
}

fn shared_racks(view: &View, assignment: &Assignment) -> Vec<Finding> {
    let shared = |partition: &usize| {
        let brokers = &assignment[view.slots(*partition)];
        let rack = |at: usize| view.rack[usize::from(brokers[at])];
        (1..brokers.len()).any(|at| (0..at).any(|other| rack(other) == rack(at)))
    };
    let named = |partition| {
        let (topic, number) = view.partition_name(partition);
        Finding::SharedRack { topic: topic.clone(), partition: number }
    };
    (0..view.partitions()).filter(shared).map(named).collect()
}

fn uneven_racks(view: &View, assignment: &Assignment) -> Vec<Finding> {
    let racks = view.racks();
    let uneven = |partition: &usize| {
        let brokers = &assignment[view.slots(*partition)];
        let count = |rack: &u16| {
            brokers.iter().filter(|broker| view.rack[usize::from(**broker)] == *rack).count()
        };
        let most = racks.iter().map(count).max().unwrap_or(0);
        let least = racks.iter().map(count).min().unwrap_or(0);
        most > 1 && most - least > 1
    };
    let named = |partition| {
        let (topic, number) = view.partition_name(partition);
        Finding::UnevenRacks { topic: topic.clone(), partition: number }
    };
    (0..view.partitions()).filter(uneven).map(named).collect()
}

fn few_leaders(view: &View, assignment: &Assignment) -> Vec<Finding> {
    let mut led: BTreeMap<(u32, u16), u32> = BTreeMap::new();
    for partition in 0..view.partitions() {
        let topic = view.topic_of[partition];
        if view.leaders_min[topic as usize] > 0 {
            *led.entry((topic, assignment[view.slots(partition).start])).or_default() += 1;
        }
    }
    let mut found = Vec::new();
    for (topic, low) in (0..).zip(&view.leaders_min) {
        for broker in (0..view.brokers.len()).filter(|broker| view.takes_leaders(*broker)) {
            let count = led.get(&(topic, broker as u16)).copied().unwrap_or(0);
            if count < *low {
                let (topic, low) = (view.topics[topic as usize].clone(), *low);
                found.push(Finding::FewLeaders {
                    topic,
                    broker: view.brokers[broker].id,
                    count,
                    low,
                });
            }
        }
    }
    found
}

fn not_preferred(view: &View, assignment: &Assignment) -> Vec<Finding> {
    let mut found = Vec::new();
    for (partition, preferred) in &view.preferred {
        let brokers = &assignment[view.slots(*partition as usize)];
        let broker = usize::from(*preferred);
        let can = view.is_live(broker) && !view.unled[broker] && brokers.contains(preferred);
        if can && brokers[0] != *preferred {
            let (topic, number) = view.partition_name(*partition as usize);
            let (topic, broker) = (topic.clone(), view.brokers[broker].id);
            found.push(Finding::Leader { topic, partition: number, broker });
        }
    }
    found
}

fn topics(view: &View, assignment: &Assignment) -> Vec<Finding> {
    let brokers = view.live().count() as f64;
    let mut found = Vec::new();
    let mut partition = 0;
    for (topic, name) in view.topics.iter().enumerate() {
        let mut counts = vec![0_u32; view.brokers.len()];
        let mut total = 0;
        while partition < view.partitions() && view.topic_of[partition] as usize == topic {
            for broker in &assignment[view.slots(partition)] {
                counts[usize::from(*broker)] += 1;
                total += 1;
            }
            partition += 1;
        }
        let mean = f64::from(total) / brokers;
        let (least, most) = (mean.ceil() + TOPIC_GAP_MIN, mean.ceil() + TOPIC_GAP_MAX);
        let high = (mean * (1.0 + TOPIC_BAND)).ceil().clamp(least, most);
        let low = (mean.floor() - TOPIC_GAP_MAX).max(0.0);
        for broker in view.live() {
            let count = counts[broker];
            if f64::from(count) > high || f64::from(count) < low {
                let (topic, broker) = (name.clone(), view.brokers[broker].id);
                found.push(Finding::TopicOnBroker { topic, broker, count, low, high });
            }
        }
    }
    found
}
