//! Builds the Kubernetes objects of a cluster and compares them with existing ones.
//!
//! The same [`Blueprint`] always yields the same objects. Kubernetes types are plain data here.
//!
//! This crate does not read or write anything, has no client and no clock.

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
