//! The controllers and who of them votes.

pub mod format;
mod initial;

pub use initial::{InitialController, InitialControllers, InvalidInitialControllers};
