//! A plan in waves: what can be moved at the same time, and how much that is.
//!
//! This is what a plan costs in time, told before it is begun. Whoever carries it out goes by what the
//! brokers do, and may well be faster.

use std::collections::BTreeMap;

use model::NodeId;

use crate::plan::{Change, Plan};

/// How much is moved at once. The numbers are Cruise Control's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveLimits {
    /// Moves that a broker takes part in, as the one that sends or one that receives.
    pub per_broker_max: usize,
    /// Moves in the cluster.
    pub cluster_max: usize,
    /// Partitions that change only their leader.
    pub leaders_max: usize,
}

impl Default for WaveLimits {
    fn default() -> Self {
        Self { per_broker_max: 5, cluster_max: 1_250, leaders_max: 1_000 }
    }
}

/// Changes that are made at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Wave {
    /// Which, as places in the plan's list.
    pub changes: Vec<usize>,
    /// The MB that they move.
    pub mb: f64,
}

impl Plan {
    /// The plan in waves: first replicas, in the plan's order as far as brokers have room, then leaders.
    #[must_use]
    pub fn waves(&self, limits: WaveLimits) -> Vec<Wave> {
        let (leaders, mut left): (Vec<usize>, Vec<usize>) =
            (0..self.changes.len()).partition(|at| self.changes[*at].is_leadership());
        let mut waves = Vec::new();
        while !left.is_empty() {
            let mut used: BTreeMap<NodeId, usize> = BTreeMap::new();
            let mut wave = Wave { changes: Vec::new(), mb: 0.0 };
            left.retain(|at| {
                let change = &self.changes[*at];
                let busy = |broker: &NodeId| {
                    used.get(broker).is_some_and(|used| *used >= limits.per_broker_max.max(1))
                };
                let full = wave.changes.len() >= limits.cluster_max.max(1);
                if full || takes_part(change).any(|broker| busy(&broker)) {
                    return true;
                }
                takes_part(change).for_each(|broker| *used.entry(broker).or_default() += 1);
                wave.changes.push(*at);
                wave.mb += change.mb;
                false
            });
            waves.push(wave);
        }
        let of_leaders = leaders.chunks(limits.leaders_max.max(1));
        waves.extend(of_leaders.map(|changes| Wave { changes: changes.to_vec(), mb: 0.0 }));
        waves
    }
}

/// The broker that sends, and those that receive.
fn takes_part(change: &Change) -> impl Iterator<Item = NodeId> + '_ {
    let added = change.after.iter().filter(|broker| !change.before.contains(broker));
    change.before.first().into_iter().chain(added).copied()
}
