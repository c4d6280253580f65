//! The controllers and who of them votes.

pub mod answer;
pub mod bootstrap;
pub mod format;
mod initial;
pub mod migrate;
pub mod mode;
pub mod plan;
mod plan_words;
mod record;
pub mod replace;
mod view;

pub use initial::{InitialController, InitialControllers, InvalidInitialControllers};
pub use record::QuorumRecord;
pub use view::{METADATA_LAG_MS_MAX, Mark, QuorumView, Replica, majority};
