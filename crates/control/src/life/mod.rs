//! The life of an installation: versions that work together, coexistence with another operator, recovery, removal.

pub mod coexist;
pub mod recover;
pub mod restore;
pub mod skew;
pub mod uninstall;
