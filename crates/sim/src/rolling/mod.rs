//! Restarts: a cluster whose pods stop, start and catch up in simulated time, and an operator that asks
//! `control` what to do with it, and crashes.

mod cluster;
mod operator;

pub use cluster::{Cluster, Node, Partition, State, Times};
pub use operator::{Crash, Operator};
