//! A pod: its decisions, its status, and its actor.

mod actor;
mod attempt;
pub(crate) mod decide;
mod hosts;
mod orphan;
mod report;
mod slot;
mod start;
pub(crate) mod status;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::probe::Kind;
use super::probe::ask::Report;

pub(crate) use actor::Actor;
pub(crate) use orphan::{end_orphan, pause};

/// A message to an actor.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The pod object.
    Pod(Arc<Pod>),
    /// The pod object was deleted.
    Gone,
    /// Something may have changed: a process, a volume, the time.
    Look,
    /// A probe of a run reports.
    Probe { index: usize, number: u32, kind: Kind, report: Report },
    /// The node stops: stop the containers so that the next start resumes them.
    Pause,
}
