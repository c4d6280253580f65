//! What a cluster lacks if no plan is acceptable: goal, broker, amount, and how many brokers to add.

use std::collections::BTreeSet;
use std::fmt;

use model::NodeId;

use crate::check::Judgement;
use crate::goals::{CPU_SHARE, DISK_SHARE, Goal, NETWORK_SHARE, REPLICAS_MAX};
use crate::plan::BrokerShare;
use crate::view::{Capacity, View};

/// A missing resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// The goal; `None` if partitions have too few brokers.
    pub goal: Option<Goal>,
    /// The broker that lacks the most, if the goal concerns brokers.
    pub broker: Option<NodeId>,
    /// The missing amount in the unit of the goal: for the whole cluster if it is too small, else for the
    /// broker.
    pub missing: f64,
    /// The unit.
    pub unit: &'static str,
    /// Number of brokers (like the largest existing one) to add; `None` if that would not help or is not
    /// necessary.
    pub brokers: Option<usize>,
    /// How many racks are missing.
    pub racks: usize,
}

/// What the cluster lacks for the goals that remain violated.
pub(crate) fn hints(view: &View, after: &Judgement, shares: &[BrokerShare]) -> Vec<Hint> {
    let mut hints = Vec::new();
    if !after.structure.is_empty() {
        hints.extend(places(view));
    }
    for goal in after.violated() {
        hints.extend(hint(view, goal, shares));
    }
    hints
}

type Pick = (fn(&BrokerShare) -> f64, fn(&Capacity) -> f64, f64, &'static str);

fn hint(view: &View, goal: Goal, shares: &[BrokerShare]) -> Option<Hint> {
    let pick: Pick = match goal {
        Goal::RackAware => return racks(view, goal),
        Goal::ReplicaCapacity => (|s| f64::from(s.replicas), |_| REPLICAS_MAX, 1.0, "replicas"),
        Goal::DiskCapacity => (|s| s.disk_mb, |c| c.disk_mb, DISK_SHARE, "MB"),
        Goal::NetworkInboundCapacity => {
            (|s| s.network_in_kb, |c| c.network_in_kb, NETWORK_SHARE, "KB/s inbound")
        }
        Goal::NetworkOutboundCapacity => {
            (|s| s.network_out_kb, |c| c.network_out_kb, NETWORK_SHARE, "KB/s outbound")
        }
        Goal::CpuCapacity => (|s| s.cpu_percent, |c| c.cpu_percent, CPU_SHARE, "% of a core"),
        // Soft, or not a question of capacity.
        Goal::RackAwareDistribution
        | Goal::MinTopicLeadersPerBroker
        | Goal::ReplicaDistribution
        | Goal::PotentialNwOut
        | Goal::DiskUsageDistribution
        | Goal::NetworkInboundUsageDistribution
        | Goal::NetworkOutboundUsageDistribution
        | Goal::CpuUsageDistribution
        | Goal::TopicReplicaDistribution
        | Goal::LeaderReplicaDistribution
        | Goal::LeaderBytesInDistribution
        | Goal::PreferredLeaderElection => return None,
    };
    Some(capacity(view, goal, shares, pick))
}

fn capacity(view: &View, goal: Goal, shares: &[BrokerShare], pick: Pick) -> Hint {
    let (load, capacity, share, unit) = pick;
    let room = |broker: usize| capacity(&view.brokers[broker].capacity) * share;
    let total: f64 = shares.iter().map(load).sum();
    let all: f64 = view.live().map(room).sum();
    let largest = view.live().map(room).fold(0.0, f64::max);
    let over = |broker: &usize| load(&shares[*broker]) - room(*broker);
    let worst = view.live().max_by(|a, b| over(a).total_cmp(&over(b)));
    let lacking = total - all;
    let brokers = (lacking > 0.0 && largest > 0.0).then(|| (lacking / largest).ceil() as usize);
    let missing = if lacking > 0.0 { lacking } else { worst.map_or(0.0, |worst| over(&worst)) };
    let broker = worst.map(|worst| view.brokers[worst].id);
    Hint { goal: Some(goal), broker, missing, unit, brokers, racks: 0 }
}

/// Racks for the partitions with the most replicas.
fn racks(view: &View, goal: Goal) -> Option<Hint> {
    let racks = view.live().map(|broker| view.rack[broker]).collect::<BTreeSet<_>>().len();
    let missing = most_replicas(view).checked_sub(racks).filter(|missing| *missing > 0)?;
    Some(Hint {
        goal: Some(goal),
        broker: None,
        missing: missing as f64,
        unit: "racks",
        brokers: Some(missing),
        racks: missing,
    })
}

/// Brokers for the partitions with the most replicas.
fn places(view: &View) -> Option<Hint> {
    let brokers = view.live().count();
    let missing = most_replicas(view).checked_sub(brokers).filter(|missing| *missing > 0)?;
    Some(Hint {
        goal: None,
        broker: None,
        missing: missing as f64,
        unit: "brokers",
        brokers: Some(missing),
        racks: 0,
    })
}

fn most_replicas(view: &View) -> usize {
    (0..view.partitions()).map(|partition| view.slots(partition).len()).max().unwrap_or(0)
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.goal {
            Some(goal) => write!(f, "{goal}: ")?,
            None => f.write_str("too few brokers for all replicas: ")?,
        }
        write!(f, "{:.0} {} are missing", self.missing, self.unit)?;
        if let Some(broker) = self.broker {
            write!(f, ", most on broker {broker}")?;
        }
        match (self.racks, self.brokers) {
            (0, Some(brokers)) => write!(f, "; add {brokers} brokers"),
            (0, None) => f.write_str("; total capacity suffices, but no distribution fits"),
            (racks, _) => write!(f, "; add brokers in {racks} more racks"),
        }
    }
}
