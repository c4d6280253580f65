//! Replica placement.
//!
//! [`plan`] takes a [`View`] of a cluster and a list of [`Goals`] and returns a better assignment, with a
//! [`Report`] of the state of each goal before and after. [`check`] checks any assignment against the
//! definitions of the goals and shares no code with the search.
//!
//! Names, order, thresholds and semantics of goals are Cruise Control's.
//!
//! A replica moves only if that improves a goal. The cost of a plan is the data that it moves; leadership
//! changes are free.

#![warn(clippy::wildcard_enum_match_arm)]

mod bound;
mod check;
mod disks;
mod goals;
mod plan;
mod provision;
mod search;
mod view;
mod waves;

pub use check::{Finding, GoalState, Judgement, check};
pub use disks::{
    BrokerDisks, DiskChange, DiskFinding, DiskGoals, DiskReplica, DiskSpec, check_disks, plan_disks,
};
pub use goals::{Goal, Goals, InvalidGoal, Rate};
pub use plan::{BrokerShare, Change, Plan, Report, Rest, plan};
pub use provision::Hint;
pub use view::{
    Assignment, BrokerSpec, BrokerState, Capacity, InvalidView, LeaderLoad, View, ViewBuilder,
};
pub use waves::{Wave, WaveLimits};
