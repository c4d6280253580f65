//! One pod: what is decided for it, what is said of it, and the actor that does it.

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

/// What an actor is told.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The pod as it is now.
    Pod(Arc<Pod>),
    /// The pod is not there any more.
    Gone,
    /// Something may have changed: a process, a volume, the time.
    Look,
    /// A probe of a run has something to say.
    Probe { index: usize, number: u32, kind: Kind, report: Report },
    /// The node stops: end the containers, and let the next start continue.
    Pause,
}
