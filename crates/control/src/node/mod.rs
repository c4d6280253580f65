//! What one Kafka node needs to be told, and what it tells about itself.

pub mod heap;
pub mod liveness;
pub mod machine;
pub mod readiness;
mod roles;

pub use roles::{InvalidRoles, Roles};
