//! Nodes that come and go.
//!
//! - [`explain`]: what an edit would do;
//! - [`guard`]: one broker that is to go, from the wish to its last trace;
//! - [`leaving`]: all of them, pass by pass;
//! - [`pool`]: when a node pool that is being deleted may go;
//! - [`up`]: nodes that are to come.

pub mod explain;
pub mod guard;
pub mod leaving;
pub mod pool;
pub mod up;
