//! An operator that asks what to do, records it, does it, and crashes in between.

use control::rolling::facts::{Facts, Settings};
use control::rolling::memory::Memory;
use control::rolling::pass::{Action, Decision, Standing, decide};
use model::NodeId;

use super::Cluster;

/// Where an operator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Nowhere.
    Never,
    /// Before it has recorded anything.
    BeforeRecord,
    /// After the record, and after so many actions.
    AfterActions(usize),
}

/// An operator.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    /// What it has recorded.
    pub memory: Memory,
    /// How patient it is.
    pub settings: Settings,
    /// The batches it began.
    pub batches: Vec<Vec<NodeId>>,
}

impl Operator {
    /// One pass.
    pub fn pass(&mut self, cluster: &mut Cluster, crash: Crash) -> Decision {
        let facts = cluster.facts(self.memory.clone());
        self.pass_on(&facts, cluster, crash)
    }

    /// One pass on facts that may be older than the cluster.
    pub fn pass_on(&mut self, facts: &Facts, cluster: &mut Cluster, crash: Crash) -> Decision {
        let decision = decide(facts, &self.settings, cluster.now_ms);
        let actions = match crash {
            Crash::BeforeRecord => return decision,
            Crash::Never => decision.actions.len(),
            Crash::AfterActions(actions) => actions,
        };
        self.memory = decision.memory.clone();
        let restart = |action: &Action| match action {
            Action::Restart { node, .. } => Some(*node),
            Action::UpdateNode { .. }
            | Action::UpdateCluster { .. }
            | Action::ElectPreferred { .. }
            | Action::ClearManual { .. } => None,
        };
        let batch: Vec<NodeId> = decision.actions.iter().filter_map(restart).collect();
        if !batch.is_empty() {
            self.batches.push(batch);
        }
        for action in decision.actions.iter().take(actions) {
            cluster.act(action);
        }
        decision
    }

    /// Passes until there is nothing to do, or until the time is over; then the last decision.
    pub fn run(&mut self, cluster: &mut Cluster, for_ms: u64) -> Decision {
        self.run_with(cluster, for_ms, |_| {})
    }

    /// The same; before each pass something may happen to the cluster.
    pub fn run_with(
        &mut self,
        cluster: &mut Cluster,
        for_ms: u64,
        mut happens: impl FnMut(&mut Cluster),
    ) -> Decision {
        let end_ms = cluster.now_ms + for_ms;
        loop {
            happens(cluster);
            let decision = self.pass(cluster, Crash::Never);
            let settled = decision.standing == Standing::Settled && decision.wait_ms.is_none();
            if (settled && decision.actions.is_empty()) || cluster.now_ms >= end_ms {
                return decision;
            }
            // Pods change without being asked for; a real operator hears of it.
            cluster.tick(decision.wait_ms.unwrap_or(5_000).clamp(1, 5_000));
        }
    }
}
