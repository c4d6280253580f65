//! The controllers and who of them votes.

pub mod format;
mod initial;
pub mod mode;
mod record;
mod view;

pub use initial::{InitialController, InitialControllers, InvalidInitialControllers};
pub use record::QuorumRecord;
pub use view::{Mark, QuorumView, Replica, majority};
