//! Data planes that grow and shrink with demand.
//!
//! A data plane is a Kubernetes cluster that Kafkas run on. Its agent reports how much room is left and
//! how many nodes there are; the fleet manager decides whether nodes, or whole data planes, come or go.
//!
//! The words and formulae are those of *Data Plane OSD Cluster Dynamic Scaling*; its sentences stand above
//! the functions. Where they can be read in two ways, the tests have a row for each reading. Three things
//! differ, and each closes a hole in the formulae:
//!
//! 1. A data plane without room is `full` if and only if no step up is permitted. By the letter it would
//!    be `compute_node_scaling_up` for ever when one more node fits below the ceiling, but a whole step
//!    does not; nothing would be scaled, and its region would never get another data plane.
//! 2. Nodes go only if, after they are gone, there is room for one more Kafka of Model T. By the letter
//!    the next report could ask for the same nodes again, and so on for ever.
//! 3. Steps are counted from what was requested, and none begins while one is in progress. By the letter, reports that come
//!    while three nodes boot would ask for four, five and six.
//!
//! Every decision comes with its reason. Nothing here does I/O, knows what time it is or how nodes are made.

#![warn(clippy::wildcard_enum_match_arm)]

mod agent;
mod demand;
mod kafka;
mod nodes;
mod placement;
mod quota;
mod reasons;
mod regions;
mod report;
mod simulation;
mod state;
mod steps;

pub use agent::{BrokerNeed, HostedKafka, PlaneNode, Pool, Survey, survey};
pub use demand::{Waiting, give};
pub use kafka::{
    AgentWord, IllegalKafkaEvent, KAFKA_TRANSITIONS, KafkaEvent, KafkaStatus, UnknownKafkaStatus,
    read_agent,
};
pub use nodes::{
    COOL_DOWN_MS, Judgement, Mode, NodeBounds, NodeStep, PlaneFacts, growth, judge_report,
    judge_silence, restricted_ceiling, restricted_floor, step_nodes,
};
pub use placement::{Candidate, PlaceReason, Placed, Request, place};
pub use quota::{Allowance, Holder, OverQuota, Quota, admit};
pub use reasons::{NodeReason, OutOfBounds, StateReason};
pub use regions::{
    Creation, CreationReason, PlaneInRegion, RegionFacts, Removal, RemovalReason, confirm_removal,
    plan_creation, plan_removals,
};
pub use report::{
    AgentReady, Assumption, Capacity, NodeInfo, Report, ResizeInfo, Unsuitable, broken_assumptions,
};
pub use simulation::{
    Arrival, Change, Failures, Forecast, Happened, Outcome, Policy, StartPlane, forecast, simulate,
};
pub use state::{IllegalPlaneChange, PlaneState, TRANSITIONS, UnknownPlaneState};
pub use steps::{
    NodeAct, ProviderNodes, Sent, StepProgress, is_complete, plan_nodes_at_provider, step_progress,
};
