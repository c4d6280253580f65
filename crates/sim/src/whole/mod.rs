//! The whole system: a cluster with its Kubernetes, its Kafka, its machines and its users, and two operators that run the
//! code that ships.
//!
//! 1. The operators build objects with [`objects`], decide with [`control::cluster::decide`] and act through
//!    [`control::cluster::execute`]. Only what reads facts and what sends an act is replaced.
//! 2. The world models the effects of acts. It shares no rule with what it tests: [`Invariant`]s are judged by what the
//!    world is.
//! 3. [`forward`] runs one operator without faults from the snapshot of a real cluster: that is a plan.
//! 4. Everything follows from a [`Script`]: a seed is a reproduction, and a script that fails can be made smaller.

mod build;
mod chance;
mod coverage;
mod file;
mod forward;
mod invariants;
mod kafka;
mod keys;
mod kubelet;
mod kubernetes;
mod observe;
mod operator;
mod pace;
mod quorum;
mod rebalance;
mod run;
mod sabotage;
mod script;
mod send;
mod user;
mod world;

pub use coverage::Coverage;
pub use forward::{
    Batch, End, Estimate, Forward, Line, Paces, Removal, Start, Step, after, forward,
};
pub use invariants::{Invariant, Violation};
pub use operator::Upset;
pub use pace::Pace;
pub use run::{Report, explain, run, shrink, start_of};
pub use sabotage::Sabotage;
pub use script::{Edit, Event, Script, Shape};
pub use send::Loss;
