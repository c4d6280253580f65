//! What the areas of a pass build: pure functions of the blueprint, the existing objects and the
//! outputs of earlier areas.
//!
//! 1. An area that needs more than [`Found`](crate::found::Found) names it with a function `needs`.
//!    The shell reads it and passes it in.
//! 2. Objects are applied in the order in which they are built.
//! 3. What is awaited is in [`Built::flow`]; nothing here waits.

pub mod access;
pub mod certificates;
pub mod claims;
pub mod configuration;
pub mod services;
pub mod workload;

use control::cluster::draft::Flow;
use control::conditions::Note;

use crate::Object;

/// What an area builds.
#[derive(Debug, Clone, PartialEq)]
pub struct Built<T = ()> {
    /// Its objects, in the order in which they are applied.
    pub objects: Vec<Object>,
    /// What people should know.
    pub warnings: Vec<Note>,
    /// What later areas and the shell need of it.
    pub outputs: T,
    /// How the pass goes on after the objects were applied.
    pub flow: Flow,
}

impl<T> Built<T> {
    /// These outputs and no objects so far.
    fn new(outputs: T) -> Self {
        Self { objects: Vec::new(), warnings: Vec::new(), outputs, flow: Flow::Go }
    }
}
