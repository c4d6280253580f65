//! Estimates a plan in waves of concurrent moves.
//!
//! This is the estimated duration of a plan. Its execution depends on the actual speed of the brokers and may
//! be faster.

use std::collections::BTreeMap;

use model::NodeId;

use crate::plan::{Change, Plan};

/// Limits of concurrency, with Cruise Control's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveLimits {
    /// Concurrent moves per broker, as source or destination.
    pub per_broker_max: usize,
    /// Concurrent moves in the cluster.
    pub cluster_max: usize,
    /// Concurrent leadership changes.
    pub leaders_max: usize,
}

impl Default for WaveLimits {
    fn default() -> Self {
        Self { per_broker_max: 5, cluster_max: 1_250, leaders_max: 1_000 }
    }
}

/// Concurrent changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Wave {
    /// Indices of changes in the plan.
    pub changes: Vec<usize>,
    /// MB moved.
    pub mb: f64,
}

impl Plan {
    /// Divides the plan into waves: first replicas, in plan order as limits permit, then leadership.
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

/// Source and destination brokers.
fn takes_part(change: &Change) -> impl Iterator<Item = NodeId> + '_ {
    let added = change.after.iter().filter(|broker| !change.before.contains(broker));
    change.before.first().into_iter().chain(added).copied()
}
