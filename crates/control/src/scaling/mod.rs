//! Nodes that come and go.
//!
//! - [`controllers`]: controllers that are to go, or to lose that role;
//! - [`guard`]: one broker that is to go, from the decision to its last trace;
//! - [`leaving`]: all of them, pass by pass;
//! - [`pool`]: when a node pool that is being deleted may go;
//! - [`roles`]: what a node is now, on its way;
//! - [`up`]: nodes that are to come.

pub mod controllers;
pub mod guard;
pub mod leaving;
pub mod pool;
pub mod roles;
pub mod up;
