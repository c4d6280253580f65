//! Moving replicas on request and when nodes come and go.
//!
//! - [`request`]: one `KafkaRebalance`, from a request to a plan, to moves and to an end;
//! - [`cruise_control`]: which Cruise Control may be contacted;
//! - [`auto`]: which `KafkaRebalance` a cluster makes for itself when it is scaled;
//! - [`load`]: what a cluster carries, for plans;
//! - [`execution`]: how a plan is carried out, in waves.
//!
//! [`request`] and [`auto`] do not know which engine moves the replicas; [`load`] and [`execution`] are
//! those of the native one. What none of them must do: choose where replicas go.

pub mod auto;
pub mod cruise_control;
pub mod execution;
pub mod load;
pub mod request;
