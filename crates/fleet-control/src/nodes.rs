//! What one report means: the state of the data plane, and whether nodes come or go.
//!
//! 0. The manager's own bounds win: a report outside them is refused, and changes nothing.
//! 1. No step goes above the restricted ceiling, or below the restricted floor, what the workload needs,
//!    or three nodes.
//! 2. `ready` is said only if a Kafka of Model T fits; `full` if and only if none fits and no step up is
//!    permitted.
//! 3. After a step down there is still room for a Kafka of Model T, so that the step is not taken back.
//! 4. What is not known permits nothing: without the provider's word that no step is going on, none begins. While a step
//!    is in progress none begins, and steps are counted from what was asked for, never from what has arrived of it.
//! 5. Contradictions of a report are recorded. Each bound holds by itself, so a report with contradictory bounds
//!    takes a node away only if all of them permit it.
//! 6. Nodes on which the brokers of a Kafka cannot be placed, however many there are, are a reason for a person to look and
//!    never a reason for more nodes.

use super::reasons::{NodeReason, OutOfBounds, StateReason};
use super::report::{AgentReady, Assumption, Capacity, Report, broken_assumptions};
use super::state::PlaneState;
use super::steps::StepProgress;

/// A data plane in several zones has as many nodes in each, so nodes come and go by three.
const MULTI_AZ_NODES: u32 = 3;

/// No data plane is made smaller than this, in one zone or in three.
const NODES_MIN: u32 = 3;

/// How long after a step up none goes down, unless somebody says otherwise. Kafkas that are being created
/// have not connected anyone yet.
pub const COOL_DOWN_MS: u64 = 10 * 60 * 1000;

/// Who decides about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The reports do.
    Auto,
    /// A person does; every data plane with a working agent is `ready`.
    Manual,
}

/// What the manager permits, whatever a report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeBounds {
    /// The least number of nodes.
    pub nodes_min: u32,
    /// The most nodes.
    pub nodes_max: u32,
    /// The most nodes of one step.
    pub node_delta_max: u32,
}

/// What is known of a data plane besides its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneFacts {
    /// Where it is in its life.
    pub state: PlaneState,
    /// Whether it is in several zones.
    pub multi_az: bool,
    /// Who decides about nodes.
    pub mode: Mode,
    /// What the manager permits.
    pub bounds: NodeBounds,
    /// What one Kafka of Model T takes.
    pub model_t: Capacity,
    /// What Kafkas take that were placed here and that the report does not count yet.
    pub reserved: Capacity,
    /// What the Kafkas take that wait for a place and were given to this data plane to grow for.
    pub queued: Option<Capacity>,
    /// Whether any Kafka waits that may come here, given to this data plane or not.
    pub others_wait: bool,
    /// How far the last step has come.
    pub progress: StepProgress,
    /// How many nodes the provider is to make. Steps are counted from this; from the report if it is not known.
    pub desired: Option<u32>,
    /// Whether nobody scales its nodes: no step is ever permitted.
    pub nodes_fixed: bool,
    /// How many Kafkas are placed here; unknown if nobody has counted them.
    pub kafkas: Option<u64>,
    /// How long ago the last step up was; nothing if there was none.
    pub since_step_up_ms: Option<u64>,
    /// How long after a step up none goes down.
    pub cool_down_ms: u64,
}

/// What to do with the nodes. Targets are whole numbers of nodes, so that asking twice is no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeStep {
    /// Nothing.
    Stay,
    /// More nodes.
    Up {
        /// How many there are to be.
        target: u32,
    },
    /// Fewer nodes.
    Down {
        /// How many there are to be.
        target: u32,
    },
}

impl NodeStep {
    /// How many nodes there are to be, if that is to change.
    #[must_use]
    pub fn target(self) -> Option<u32> {
        match self {
            NodeStep::Stay => None,
            NodeStep::Up { target } | NodeStep::Down { target } => Some(target),
        }
    }
}

/// Everything that follows from one report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The state from now on.
    pub state: PlaneState,
    /// Why that state.
    pub state_reason: StateReason,
    /// What to do with the nodes.
    pub step: NodeStep,
    /// Why that step, or why none.
    pub step_reason: NodeReason,
    /// What the report contradicts itself in.
    pub broken: Vec<Assumption>,
    /// Why the report is refused; empty if it is not. A refused report changes nothing.
    pub refused: Vec<OutOfBounds>,
}

/// "Restricted Ceiling: The provided ceiling in the status but rounded down to multi-az node requirements
/// (3) ONLY in case the cluster is multi-az."
#[must_use]
pub fn restricted_ceiling(ceiling: u32, multi_az: bool) -> u32 {
    if multi_az { ceiling - ceiling % MULTI_AZ_NODES } else { ceiling }
}

/// "Restricted Floor: The provided floor in the status but rounded up to multi-az node requirements (3)
/// ONLY in case the cluster is multi-az."
#[must_use]
pub fn restricted_floor(floor: u32, multi_az: bool) -> u32 {
    round_up(floor, multi_az)
}

/// "If the cluster being scaled is a Multi-AZ cluster and nodeDelta is not a multiple of the Multi-AZ
/// required number of nodes (3) then the value to increase will be round-up to that nearest multiple." The
/// same holds for the value to decrease.
#[must_use]
pub fn step_nodes(node_delta: u32, multi_az: bool) -> u32 {
    round_up(node_delta, multi_az)
}

fn round_up(nodes: u32, multi_az: bool) -> u32 {
    // A number too large to be rounded is no number of nodes, and no step of that size is permitted.
    if multi_az {
        nodes.checked_next_multiple_of(MULTI_AZ_NODES).unwrap_or(u32::MAX)
    } else {
        nodes
    }
}

/// What one report means.
///
/// "The capacity calculation will be performed from the data received, BEFORE performing the scaling
/// actions."
#[must_use]
pub fn judge_report(facts: &PlaneFacts, report: &Report) -> Judgement {
    let broken = broken_assumptions(report, facts.model_t);
    let stay = |state, state_reason| Judgement {
        state,
        state_reason,
        step: NodeStep::Stay,
        step_reason: NodeReason::NotAsked,
        broken: broken.clone(),
        refused: Vec::new(),
    };
    let refused = out_of_bounds(facts, report);
    if !refused.is_empty() {
        return Judgement { refused, ..stay(facts.state, StateReason::Refused) };
    }
    if !facts.state.accepts_reports() {
        return stay(facts.state, StateReason::NotAccepting);
    }
    if report.ready == AgentReady::No {
        return stay(PlaneState::WaitingForAgent, StateReason::AgentNotReady);
    }
    if let Some(unsuitable) = report.unsuitable {
        let judged = stay(PlaneState::WaitingForAgent, StateReason::Unsuitable(unsuitable));
        return Judgement { step_reason: NodeReason::Unsuitable(unsuitable), ..judged };
    }
    if facts.mode == Mode::Manual {
        return stay(PlaneState::Ready, StateReason::Manual);
    }
    let (state, state_reason) = capacity_state(facts, report);
    let (step, step_reason) = plan_nodes(facts, report);
    Judgement { state, state_reason, step, step_reason, broken, refused: Vec::new() }
}

/// Where nobody scales the nodes, no report orders any.
fn out_of_bounds(facts: &PlaneFacts, report: &Report) -> Vec<OutOfBounds> {
    let NodeBounds { nodes_max, node_delta_max, .. } = facts.bounds;
    let (ceiling, delta) = (report.nodes.ceiling, report.resize.node_delta);
    let rows = [
        (ceiling > nodes_max, OutOfBounds::Ceiling { reported: ceiling, limit: nodes_max }),
        (delta > node_delta_max, OutOfBounds::NodeDelta { reported: delta, limit: node_delta_max }),
    ];
    let broken = rows.into_iter().filter(|(broken, _)| *broken && !facts.nodes_fixed);
    broken.map(|(_, which)| which).collect()
}

/// A data plane whose agent has not been heard of for that long. What it said last may be wrong by now, so
/// nothing is placed there until it speaks again.
#[must_use]
pub fn judge_silence(state: PlaneState, for_ms: u64, limit_ms: u64) -> (PlaneState, StateReason) {
    if !state.accepts_reports() || for_ms <= limit_ms {
        return (state, StateReason::AgentHeard);
    }
    (PlaneState::WaitingForAgent, StateReason::AgentSilent { for_ms })
}

/// "To calculate whether the cluster being evaluated has available capacity Kas Fleet Manager will check
/// whether the number of remaining Kafka Connections or remaining Kafka Partitions is less than what a single
/// Kafka Cluster of Model T consumes correspondingly. If there's available capacity then the cluster will be
/// marked as `ready`. If there's no available capacity: […] `compute_node_scaling_up` […] `full`"
///
/// Which of the two is decided by whether a step up is permitted (see the documentation of the crate, 1).
fn capacity_state(facts: &PlaneFacts, report: &Report) -> (PlaneState, StateReason) {
    let remaining = report.remaining.less(facts.reserved);
    if remaining.covers(facts.model_t) {
        return (PlaneState::Ready, StateReason::Room { remaining });
    }
    if facts.progress == (StepProgress::Going { growing: true }) && !facts.nodes_fixed {
        return (PlaneState::ScalingUp, StateReason::Grows { remaining });
    }
    match step_up(facts, report) {
        Ok(_) => (PlaneState::ScalingUp, StateReason::CanGrow { remaining }),
        Err(because) => (PlaneState::Full, StateReason::CannotGrow { because }),
    }
}

/// Whether nodes come or go. Up is looked at first; a report never does both.
fn plan_nodes(facts: &PlaneFacts, report: &Report) -> (NodeStep, NodeReason) {
    match need_for_more(facts, report) {
        Some(need) => match step_up(facts, report).and_then(|target| begin(facts, target)) {
            Ok(target) => (NodeStep::Up { target }, need),
            Err(reason) => (NodeStep::Stay, reason),
        },
        None => match step_down(facts, report).and_then(|target| begin(facts, target)) {
            Ok(target) => (NodeStep::Down { target }, spare(facts, report)),
            Err(reason) => (NodeStep::Stay, reason),
        },
    }
}

fn spare(facts: &PlaneFacts, report: &Report) -> NodeReason {
    let remaining = report.remaining.less(facts.reserved);
    NodeReason::Spare { remaining, delta: report.resize.delta }
}

/// "**At least one** of the reported Kafka attribute values has crossed its corresponding Scale-Up
/// threshold": it is less than what one Kafka of Model T takes. A Kafka that waits for a place and would find
/// one on more nodes is a need, too.
fn need_for_more(facts: &PlaneFacts, report: &Report) -> Option<NodeReason> {
    let remaining = report.remaining.less(facts.reserved);
    if !remaining.covers(facts.model_t) {
        return Some(NodeReason::NoRoom { remaining });
    }
    let need = facts.queued?;
    let grown = remaining.plus(growth(facts, report));
    (!remaining.holds(need) && grown.holds(need)).then_some(NodeReason::Queued { need })
}

/// The room that all further steps up would add, those of a step in progress included.
#[must_use]
pub fn growth(facts: &PlaneFacts, report: &Report) -> Capacity {
    let fails = matches!(facts.progress, StepProgress::Failed { growing: true, .. });
    if facts.nodes_fixed || fails || facts.mode == Mode::Manual || report.unsuitable.is_some() {
        return Capacity::default();
    }
    let ceiling = restricted_ceiling(report.nodes.ceiling, facts.multi_az);
    let steps = ceiling
        .saturating_sub(report.nodes.current)
        .checked_div(step_nodes(report.resize.node_delta, facts.multi_az))
        .unwrap_or(0);
    step_capacity(facts, report).times(u64::from(steps))
}

/// "The current number of nodes is smaller than the restricted ceiling value. The number of nodes that would
/// result after performing scale-up is still less or equal than the restricted ceiling value."
fn step_up(facts: &PlaneFacts, report: &Report) -> Result<u32, NodeReason> {
    let current = facts.desired.unwrap_or(report.nodes.current);
    let ceiling = restricted_ceiling(report.nodes.ceiling, facts.multi_az);
    let step = step_nodes(report.resize.node_delta, facts.multi_az);
    if facts.nodes_fixed {
        return Err(NodeReason::NodesFixed);
    }
    if let StepProgress::Failed { growing: true, wanted, actual } = facts.progress {
        return Err(NodeReason::StepFailed { wanted, actual });
    }
    if current >= ceiling {
        return Err(NodeReason::AtCeiling { current, ceiling });
    }
    if step == 0 {
        return Err(NodeReason::StepIsZero);
    }
    match current.checked_add(step).filter(|target| *target <= ceiling) {
        Some(target) => Ok(target),
        None => Err(NodeReason::StepOverCeiling { current, step, ceiling }),
    }
}

/// "**All** of the reported Kafka attribute values have crossed their corresponding Scale-Down threshold. The
/// current number of nodes is strictly higher than the currentWorkLoadMinimum value. The number of nodes that
/// would remain after performing the Scale-Down value calculation is higher than currentWorkLoadMinimum,
/// higher than restricted floor, higher than multi-az multiple requirement (3) and higher than 0."
///
/// "Higher than" is "no lower than" for the first three: six nodes become three where three are enough.
fn step_down(facts: &PlaneFacts, report: &Report) -> Result<u32, NodeReason> {
    let current = facts.desired.unwrap_or(report.nodes.current);
    let minimum = report.nodes.current_work_load_minimum;
    let step = step_nodes(report.resize.node_delta, facts.multi_az);
    let remaining = report.remaining.less(facts.reserved);
    if facts.nodes_fixed {
        return Err(NodeReason::NodesFixed);
    }
    if !remaining.exceeds(report.resize.delta) {
        return Err(NodeReason::NothingToSpare);
    }
    if current <= minimum {
        return Err(NodeReason::WorkloadNeedsAll { current, minimum });
    }
    if minimum == 0 && facts.kafkas != Some(0) {
        return Err(NodeReason::WorkloadNotCounted { kafkas: facts.kafkas });
    }
    if step == 0 {
        return Err(NodeReason::StepIsZero);
    }
    let floor = restricted_floor(report.nodes.floor.max(facts.bounds.nodes_min), facts.multi_az);
    let after = current.saturating_sub(step);
    let bounds = [(minimum, "workload minimum"), (floor, "floor"), (NODES_MIN, "least of all")];
    for (minimum, bound) in bounds {
        if after < minimum {
            return Err(NodeReason::TooFew { current, step, minimum, bound });
        }
    }
    let left = remaining.less(step_capacity(facts, report));
    if !left.covers(facts.model_t) {
        return Err(NodeReason::WouldComeBack { left });
    }
    if facts.queued.is_some() || facts.others_wait {
        return Err(NodeReason::QueueNotEmpty);
    }
    if facts.since_step_up_ms.is_some_and(|since| since < facts.cool_down_ms) {
        return Err(NodeReason::CoolingDown);
    }
    Ok(after)
}

/// The room of the nodes of one step. The report's delta is that of `nodeDelta` nodes, and a step that was
/// rounded up has more of them.
fn step_capacity(facts: &PlaneFacts, report: &Report) -> Capacity {
    let nodes = u64::from(step_nodes(report.resize.node_delta, facts.multi_az));
    let of = u64::from(report.resize.node_delta.max(1));
    let scaled = |value: u64| value.saturating_mul(nodes).div_ceil(of);
    let delta = report.resize.delta;
    Capacity {
        connections: scaled(delta.connections),
        partitions: scaled(delta.partitions),
        throughput_bytes: scaled(delta.throughput_bytes),
        retention_bytes: scaled(delta.retention_bytes),
    }
}

/// "There's no scaling action already in progress".
fn begin(facts: &PlaneFacts, target: u32) -> Result<u32, NodeReason> {
    match facts.progress {
        StepProgress::Done => Ok(target),
        // More nodes than before it are asked for in place of a step down that does not come to its end.
        StepProgress::Failed { growing: false, wanted, .. } if target > wanted => Ok(target),
        StepProgress::Failed { wanted, actual, .. } => {
            Err(NodeReason::StepFailed { wanted, actual })
        }
        StepProgress::Going { .. } => Err(NodeReason::InProgress),
        StepProgress::Unknown => Err(NodeReason::ProgressUnknown),
    }
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "nodes_step_tests.rs"]
mod step_tests;
