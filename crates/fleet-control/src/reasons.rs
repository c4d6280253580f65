//! Why a report is refused, why a data plane is in its state, and why nodes come, go or stay. In types for those who
//! decide, and in words for those who read; nothing reads the words back.

use std::fmt;

use super::report::{Capacity, Unsuitable};

/// A number of a report that is outside the manager's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfBounds {
    /// The ceiling is higher than the manager permits.
    Ceiling {
        /// The reported ceiling.
        reported: u32,
        /// The most nodes.
        limit: u32,
    },
    /// A step is larger than the manager permits.
    NodeDelta {
        /// The reported step.
        reported: u32,
        /// The most nodes of one step.
        limit: u32,
    },
}

/// Why a data plane is in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateReason {
    /// The report is outside the manager's bounds.
    Refused,
    /// In this state reports change nothing.
    NotAccepting,
    /// The agent says so, or says nothing.
    AgentNotReady,
    /// Brokers cannot be placed on these nodes, however many there are.
    Unsuitable(Unsuitable),
    /// Nothing has been heard for so long.
    AgentSilent {
        /// How long.
        for_ms: u64,
    },
    /// The agent has been heard of recently.
    AgentHeard,
    /// Room is not looked at.
    Manual,
    /// One more Kafka of Model T fits.
    Room {
        /// What is left.
        remaining: Capacity,
    },
    /// None fits, and there can be more nodes.
    CanGrow {
        /// What is left.
        remaining: Capacity,
    },
    /// None fits, and more nodes are coming.
    Grows {
        /// What is left.
        remaining: Capacity,
    },
    /// None fits, and there cannot be more nodes.
    CannotGrow {
        /// Why not.
        because: NodeReason,
    },
}

/// Why nodes come, go or stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeReason {
    /// The state, the agent or the mode let no step begin.
    NotAsked,
    /// No Kafka of Model T fits in what is left.
    NoRoom {
        /// What is left.
        remaining: Capacity,
    },
    /// A Kafka that waits for a place does not fit in what is left.
    Queued {
        /// What it takes.
        need: Capacity,
    },
    /// There are as many nodes as there may be.
    AtCeiling {
        /// How many there are.
        current: u32,
        /// The restricted ceiling.
        ceiling: u32,
    },
    /// One step would be too many.
    StepOverCeiling {
        /// How many there are.
        current: u32,
        /// One step.
        step: u32,
        /// The restricted ceiling.
        ceiling: u32,
    },
    /// A step without nodes is none.
    StepIsZero,
    /// Brokers cannot be placed on these nodes, however many there are.
    Unsuitable(Unsuitable),
    /// An earlier step is not done.
    InProgress,
    /// An earlier step has failed. The provider still has the request.
    StepFailed {
        /// How many nodes were asked for.
        wanted: u32,
        /// How many there are.
        actual: u32,
    },
    /// Whether an earlier step is done cannot be said.
    ProgressUnknown,
    /// More than a step is free, and what is left will do.
    Spare {
        /// What is left.
        remaining: Capacity,
        /// The room of one step.
        delta: Capacity,
    },
    /// There is room, but not more than one step.
    NothingToSpare,
    /// After a step down there would be no capacity, and the nodes would come back.
    WouldComeBack {
        /// What would be left.
        left: Capacity,
    },
    /// What runs there needs all nodes.
    WorkloadNeedsAll {
        /// How many there are.
        current: u32,
        /// How many it needs.
        minimum: u32,
    },
    /// After a step down there would be too few.
    TooFew {
        /// How many there are.
        current: u32,
        /// One step.
        step: u32,
        /// How many there must be.
        minimum: u32,
        /// What says so.
        bound: &'static str,
    },
    /// The last step up was a short time ago.
    CoolingDown,
    /// Somebody waits for a place.
    QueueNotEmpty,
    /// The report says that the workload needs no nodes, and there may be Kafkas.
    WorkloadNotCounted {
        /// How many there are, if that is known.
        kafkas: Option<u64>,
    },
    /// Nobody scales these nodes.
    NodesFixed,
}

impl StateReason {
    /// A short name, for metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            StateReason::Refused => "Refused",
            StateReason::NotAccepting => "NotAccepting",
            StateReason::AgentNotReady => "AgentNotReady",
            StateReason::Unsuitable(_) => "Unsuitable",
            StateReason::AgentSilent { .. } => "AgentSilent",
            StateReason::AgentHeard => "AgentHeard",
            StateReason::Manual => "Manual",
            StateReason::Room { .. } => "Room",
            StateReason::CanGrow { .. } => "CanGrow",
            StateReason::Grows { .. } => "Grows",
            StateReason::CannotGrow { .. } => "CannotGrow",
        }
    }
}

impl NodeReason {
    /// A short name, for metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            NodeReason::NotAsked => "NotAsked",
            NodeReason::NoRoom { .. } => "NoRoom",
            NodeReason::Queued { .. } => "Queued",
            NodeReason::AtCeiling { .. } => "AtCeiling",
            NodeReason::StepOverCeiling { .. } => "StepOverCeiling",
            NodeReason::StepIsZero => "StepIsZero",
            NodeReason::Unsuitable(_) => "Unsuitable",
            NodeReason::InProgress => "InProgress",
            NodeReason::StepFailed { .. } => "StepFailed",
            NodeReason::ProgressUnknown => "ProgressUnknown",
            NodeReason::Spare { .. } => "Spare",
            NodeReason::NothingToSpare => "NothingToSpare",
            NodeReason::WouldComeBack { .. } => "WouldComeBack",
            NodeReason::WorkloadNeedsAll { .. } => "WorkloadNeedsAll",
            NodeReason::TooFew { .. } => "TooFew",
            NodeReason::CoolingDown => "CoolingDown",
            NodeReason::QueueNotEmpty => "QueueNotEmpty",
            NodeReason::WorkloadNotCounted { .. } => "WorkloadNotCounted",
            NodeReason::NodesFixed => "NodesFixed",
        }
    }
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutOfBounds::Ceiling { reported, limit } => {
                write!(f, "nodeInfo.ceiling is {reported}, and at most {limit} nodes are permitted")
            }
            OutOfBounds::NodeDelta { reported, limit } => {
                write!(f, "resizeInfo.nodeDelta is {reported}, and at most {limit} are permitted")
            }
        }
    }
}

impl fmt::Display for StateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateReason::Refused => write!(f, "the report is outside the bounds of the manager"),
            StateReason::NotAccepting => write!(f, "reports change nothing in this state"),
            StateReason::AgentNotReady => write!(f, "the agent is not ready"),
            StateReason::Unsuitable(why) => write!(f, "{why}"),
            StateReason::AgentSilent { for_ms } => {
                write!(f, "the agent has been silent for {} s", for_ms / 1000)
            }
            StateReason::AgentHeard => write!(f, "the agent reported recently"),
            StateReason::Manual => write!(f, "nodes are scaled by an administrator"),
            StateReason::Room { remaining } => write!(f, "room for {remaining}"),
            StateReason::CanGrow { remaining } => {
                write!(f, "room for no more than {remaining}; more nodes are permitted")
            }
            StateReason::Grows { remaining } => {
                write!(f, "room for no more than {remaining}; more nodes are coming")
            }
            StateReason::CannotGrow { because } => write!(f, "no capacity; {because}"),
        }
    }
}

impl fmt::Display for NodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeReason::NotAsked => write!(f, "no step: the nodes are unknown"),
            NodeReason::NoRoom { remaining } => write!(f, "room for no more than {remaining}"),
            NodeReason::Queued { need } => write!(f, "a Kafka waits for {need}"),
            NodeReason::AtCeiling { current, ceiling } => {
                write!(f, "no step: {current} >= ceiling {ceiling}")
            }
            NodeReason::StepOverCeiling { current, step, ceiling } => {
                write!(f, "no step: {current}+{step} > ceiling {ceiling}")
            }
            NodeReason::StepIsZero => write!(f, "no step: nodeDelta is 0"),
            NodeReason::Unsuitable(why) => write!(f, "no step: {why}"),
            NodeReason::InProgress => write!(f, "no step: the last one is in progress"),
            NodeReason::StepFailed { wanted, actual } => {
                write!(f, "no step: the last one failed; of {wanted} nodes {actual} are there")
            }
            NodeReason::ProgressUnknown => {
                write!(f, "no step: the provider has not reported the result of the last one")
            }
            NodeReason::Spare { remaining, delta } => {
                write!(f, "{remaining} left, more than {delta}")
            }
            NodeReason::NothingToSpare => write!(f, "no step: no whole step is free"),
            NodeReason::WouldComeBack { left } => {
                write!(f, "no step: with {left} left the nodes would have to come back")
            }
            NodeReason::WorkloadNeedsAll { current, minimum } => {
                write!(f, "no step: {current} <= workload minimum {minimum}")
            }
            NodeReason::TooFew { current, step, minimum, bound } => {
                write!(f, "no step: {current}-{step} < {bound} {minimum}")
            }
            NodeReason::CoolingDown => write!(f, "no step: the last step up was just now"),
            NodeReason::QueueNotEmpty => write!(f, "no step: a Kafka waits for capacity"),
            NodeReason::WorkloadNotCounted { kafkas: Some(kafkas) } => {
                write!(f, "no step: the workload minimum is 0 with {kafkas} Kafkas placed")
            }
            NodeReason::WorkloadNotCounted { kafkas: None } => {
                write!(f, "no step: the workload minimum is 0 and the Kafkas are not counted")
            }
            NodeReason::NodesFixed => write!(f, "no step: these nodes are not scaled"),
        }
    }
}
