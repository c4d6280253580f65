//! The objects of each area: pure functions of the blueprint, the existing objects and outputs of earlier
//! areas.
//!
//! 1. An area that needs more than [`Found`](crate::found::Found) has a function `needs`. The operator reads
//!    that and passes it in.
//! 2. Objects are applied in the order in which they are built.
//! 3. [`Built::flow`] says what the pass is waiting for; nothing here waits.

pub mod access;
pub mod certificates;
pub mod claims;
pub mod configuration;
pub mod services;
pub mod workload;

use control::cluster::draft::Flow;
use control::conditions::Note;

use crate::Object;

/// The result of an area.
#[derive(Debug, Clone, PartialEq)]
pub struct Built<T = ()> {
    /// Its objects, in the order in which they are applied.
    pub objects: Vec<Object>,
    /// Warnings for the user.
    pub warnings: Vec<Note>,
    /// Outputs for later areas and the operator.
    pub outputs: T,
    /// How the pass continues after the objects were applied.
    pub flow: Flow,
}

impl<T> Built<T> {
    /// These outputs and no objects so far.
    fn new(outputs: T) -> Self {
        Self { objects: Vec::new(), warnings: Vec::new(), outputs, flow: Flow::Go }
    }
}
