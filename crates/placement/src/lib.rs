//! Where replicas should be.
//!
//! [`plan`] takes a [`View`] of a cluster and a list of [`Goals`] and gives the assignment that it would
//! have instead, with a [`Report`] of what each goal looked like before and after. [`check`] judges any
//! assignment by the goals' definitions; it shares no code with the search, so a plan that passes it
//! was not only thought to be good.
//!
//! Goals have the names, the order, the thresholds and the meaning of "violated" that Cruise Control
//! gives them.
//!
//! What it must not do: move a replica for beauty. Bytes moved are what a plan costs; leadership costs
//! none.

#![warn(clippy::wildcard_enum_match_arm)]

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
