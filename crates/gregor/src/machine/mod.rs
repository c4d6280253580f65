//! Kubernetes on this machine, as far as commands share it: its nodes, the operator in it, the programs that stand for
//! images, and the data planes of a fleet that are such Kubernetes clusters.
//!
//! This is where the crates `local`, `operator` and `fleet` meet, which do not know each other.

pub(crate) mod images;
mod nodes;
pub(crate) mod operator;
pub(crate) mod planes;

pub(crate) use images::{Image, image_table};
pub(crate) use nodes::{One, audit_log, end_leftovers, start_proxy};
pub(crate) use operator::Operator;
