//! The Kubernetes objects of a cluster: built from what was decided, and compared with those that
//! exist.
//!
//! The same [`Blueprint`] gives the same objects. Types of Kubernetes are data here.
//!
//! What this crate must not do: read or write anything, have a client, or know what time it is.

pub mod access;
pub mod areas;
pub mod claims;
pub mod desired;
pub mod found;
pub mod hash;
pub mod node_config;
pub mod pods;
pub mod same;
pub mod secrets;
pub mod services;
pub mod views;

mod blueprint;
mod comparison;
mod content;
mod kinds;
mod outcome;
#[cfg(test)]
mod samples;
mod security;

pub use blueprint::{Blueprint, Node, object, owner_of};
pub use comparison::{Compared, State};
pub use content::SecretContent;
pub use kinds::{Kind, Object, compare};
pub use outcome::Objects;
