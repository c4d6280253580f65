//! What a cluster should be: its validated wishes, its nodes and their ids, what each node's Kafka is told.
//!
//! The order of the work: [`spec`] is what somebody asked for, read from the custom resources;
//! [`validate`] is whether it makes sense; [`ids`] gives the nodes their ids; [`storage`] is where their
//! data is and stays; [`properties`] is what each node's Kafka is told and [`jvm`] how it is started.
//! [`quantity`] is how amounts of bytes are written, and [`record`] is what must survive the process.

pub mod area;
pub mod ids;
pub mod jvm;
pub mod properties;
pub mod quantity;
pub mod record;
pub mod spec;
pub mod storage;
pub mod validate;

#[cfg(test)]
mod samples;
