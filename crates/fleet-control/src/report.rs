//! What the agent of a data plane reports, and what should hold for it.

use std::fmt;

/// An amount of room, in the four numbers that a Kafka is sized by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Client connections.
    pub connections: u64,
    /// Partitions, without their replicas.
    pub partitions: u64,
    /// What goes in and what goes out, in bytes a second.
    pub throughput_bytes: u64,
    /// What may be kept, in bytes.
    pub retention_bytes: u64,
}

impl Capacity {
    /// What is left after that is taken away; never less than nothing.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self {
            connections: self.connections.saturating_sub(other.connections),
            partitions: self.partitions.saturating_sub(other.partitions),
            throughput_bytes: self.throughput_bytes.saturating_sub(other.throughput_bytes),
            retention_bytes: self.retention_bytes.saturating_sub(other.retention_bytes),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            connections: self.connections.saturating_add(other.connections),
            partitions: self.partitions.saturating_add(other.partitions),
            throughput_bytes: self.throughput_bytes.saturating_add(other.throughput_bytes),
            retention_bytes: self.retention_bytes.saturating_add(other.retention_bytes),
        }
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            connections: self.connections.saturating_mul(count),
            partitions: self.partitions.saturating_mul(count),
            throughput_bytes: self.throughput_bytes.saturating_mul(count),
            retention_bytes: self.retention_bytes.saturating_mul(count),
        }
    }

    /// Whether that fits in, by all four numbers.
    #[must_use]
    pub fn holds(self, other: Self) -> bool {
        self.connections >= other.connections
            && self.partitions >= other.partitions
            && self.throughput_bytes >= other.throughput_bytes
            && self.retention_bytes >= other.retention_bytes
    }

    /// Whether there is as much by connections and partitions, the two that scaling goes by.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.connections >= other.connections && self.partitions >= other.partitions
    }

    /// Whether there is more of both connections and partitions.
    #[must_use]
    pub fn exceeds(self, other: Self) -> bool {
        self.connections > other.connections && self.partitions > other.partitions
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections and {} partitions", self.connections, self.partitions)
    }
}

/// The nodes of a data plane, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeInfo {
    /// The most there may be.
    pub ceiling: u32,
    /// The least there may be.
    pub floor: u32,
    /// How many there are.
    pub current: u32,
    /// The least that what runs there now can do with.
    pub current_work_load_minimum: u32,
}

/// What one step changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResizeInfo {
    /// The nodes of one step.
    pub node_delta: u32,
    /// The room of so many nodes.
    pub delta: Capacity,
}

/// What the agent says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentReady {
    /// It does its work.
    Yes,
    /// It says that it does not, or says nothing: without the condition it is not ready.
    No,
}

/// Why brokers cannot be placed on the nodes of a data plane, however many there are. A person has to change the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unsuitable {
    /// The data plane is to be in three zones, and its nodes are in fewer, or do not say in which.
    ZonesMissing,
    /// A broker of Model T is larger than every node.
    NodesTooSmall,
    /// The agent names another reason.
    Other,
}

impl Unsuitable {
    /// As reports have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unsuitable::ZonesMissing => "ZonesMissing",
            Unsuitable::NodesTooSmall => "NodesTooSmall",
            Unsuitable::Other => "Other",
        }
    }

    /// From a report. A reason that is not known here is a reason all the same.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "ZonesMissing" => Unsuitable::ZonesMissing,
            "NodesTooSmall" => Unsuitable::NodesTooSmall,
            _ => Unsuitable::Other,
        }
    }
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsuitable::ZonesMissing => {
                "the nodes are in fewer than three zones, or have no zone label"
            }
            Unsuitable::NodesTooSmall => "no node is large enough for a broker of Model T",
            Unsuitable::Other => "the agent reports unsuitable nodes",
        })
    }
}

/// One report. Fields that are missing or negative never become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether the agent is ready.
    pub ready: AgentReady,
    /// Why brokers cannot be placed on these nodes, if the agent says so.
    pub unsuitable: Option<Unsuitable>,
    /// All the room there is.
    pub total: Capacity,
    /// The room that is left.
    pub remaining: Capacity,
    /// The nodes.
    pub nodes: NodeInfo,
    /// One step.
    pub resize: ResizeInfo,
}

/// What the formulae take for granted. What a report breaks is recorded; the bounds that it gives hold all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// 1: there are no fewer nodes than the workload needs.
    CurrentCoversWorkload,
    // 2 is no assumption but a permission: there may be more nodes than the ceiling.
    /// 3: there are no fewer nodes than the floor.
    CurrentAtFloor,
    /// 4: the floor is no higher than what the workload needs.
    FloorBelowWorkload,
    /// 5: the workload fits below the ceiling.
    CeilingCoversWorkload,
    /// 6: the ceiling is no lower than the floor.
    CeilingAboveFloor,
    /// 7: the ceiling and the floor are numbers of nodes, not nothing.
    BoundsArePositive,
    /// 8: a step never crosses the opposite threshold.
    StepKeepsThreshold,
    /// 9: a step has nodes.
    StepIsPositive,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Assumption::CurrentCoversWorkload => "current is below currentWorkLoadMinimum",
            Assumption::CurrentAtFloor => "current is below floor",
            Assumption::FloorBelowWorkload => "floor is above currentWorkLoadMinimum",
            Assumption::CeilingCoversWorkload => "ceiling is below currentWorkLoadMinimum",
            Assumption::CeilingAboveFloor => "ceiling is below floor",
            Assumption::BoundsArePositive => "ceiling or floor is 0",
            Assumption::StepKeepsThreshold => "a step down would cross the threshold for a step up",
            Assumption::StepIsPositive => "nodeDelta is 0",
        })
    }
}

/// The assumptions that a report breaks, in their order.
#[must_use]
pub fn broken_assumptions(report: &Report, model_t: Capacity) -> Vec<Assumption> {
    let NodeInfo { ceiling, floor, current, current_work_load_minimum: minimum } = report.nodes;
    let (remaining, delta) = (report.remaining, report.resize.delta);
    let crosses = remaining.exceeds(delta) && !remaining.less(delta).covers(model_t);
    let rows = [
        (current < minimum, Assumption::CurrentCoversWorkload),
        (current < floor, Assumption::CurrentAtFloor),
        (floor > minimum, Assumption::FloorBelowWorkload),
        (ceiling < minimum, Assumption::CeilingCoversWorkload),
        (ceiling < floor, Assumption::CeilingAboveFloor),
        (ceiling == 0 || floor == 0, Assumption::BoundsArePositive),
        (crosses, Assumption::StepKeepsThreshold),
        (report.resize.node_delta == 0, Assumption::StepIsPositive),
    ];
    rows.into_iter().filter_map(|(broken, which)| broken.then_some(which)).collect()
}
