//! What decisions about the nodes of a data plane are made from: its row and the configuration, without demand.

use fleet_control::{Capacity, Mode, NodeBounds, PlaneFacts, growth, step_progress};

use crate::config::Config;
use crate::provider::STANDALONE;
use crate::store::Plane;

/// What is configured about nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeRules {
    /// What one Kafka of Model T takes.
    pub model_t: Capacity,
    /// Who decides about nodes.
    pub mode: Mode,
    /// What the manager permits.
    pub bounds: NodeBounds,
    /// How long after a step up none goes down.
    pub cool_down_ms: u64,
    /// After that a step that is not complete has failed.
    pub step_ms: u64,
}

impl From<&Config> for NodeRules {
    fn from(config: &Config) -> Self {
        Self {
            model_t: config.model_t.capacity(),
            mode: config.mode(),
            bounds: config.bounds(),
            cool_down_ms: config.times.cool_down_ms,
            step_ms: config.times.step_ms,
        }
    }
}

impl NodeRules {
    /// What is known of a data plane of which the agent counts so many nodes.
    pub(crate) fn facts(&self, plane: &Plane, counted: u32, now: i64) -> PlaneFacts {
        let nodes = plane.provider_nodes(now);
        PlaneFacts {
            state: plane.state(),
            multi_az: plane.multi_az,
            mode: self.mode,
            bounds: self.bounds,
            model_t: self.model_t,
            reserved: Capacity::default(),
            queued: None,
            others_wait: false,
            progress: step_progress(&nodes, counted, self.step_ms),
            desired: nodes.desired,
            nodes_fixed: plane.provider_type == STANDALONE,
            kafkas: None,
            since_step_up_ms: plane.last_step_up.map(|at| u64::try_from(now - at).unwrap_or(0)),
            cool_down_ms: self.cool_down_ms,
        }
    }

    /// What all further nodes would add to a data plane, by its last report.
    pub(crate) fn growth(&self, plane: &Plane, now: i64) -> Capacity {
        let Some(stored) = &plane.report else { return Capacity::default() };
        let report = stored.report();
        growth(&self.facts(plane, report.nodes.current, now), &report)
    }
}
