//! What a cluster should be: its validated spec, its nodes and their ids, what each node's Kafka is told.
//!
//! The order of the work: [`spec`] is what somebody asked for, read from the custom resources;
//! [`validate`] is whether it makes sense; [`ids`] gives the nodes their ids; [`storage`] is where their
//! data is and stays; [`properties`] is what each node's Kafka is told, [`jvm`] how it is started and [`logging`] what it logs.
//! [`quantity`] is how amounts of bytes are written, and [`record`] is what must survive the process.
//!
//! A pass: [`begin`] is whether there is one, [`snapshot`] is what it knows, each part of it a [`fact`], and [`witness`] says which brokers' answers count;
//! [`areas`] decide, in the order of [`area`]; a [`draft`] collects what they decide; an [`act`] is what is to be done,
//! [`fresh`] how old its facts may be then, and the [`journal`] is what became of it. [`origin`] lists which area gives which
//! reason and asks for which act.

pub mod act;
pub mod area;
pub mod areas;
pub mod begin;
pub mod decide;
pub mod draft;
pub mod execute;
pub mod fact;
pub mod fresh;
pub mod ids;
pub mod journal;
pub mod jvm;
pub mod logging;
pub mod origin;
pub mod properties;
pub mod quantity;
pub mod record;
pub mod snapshot;
pub mod spec;
pub mod storage;
pub mod validate;
pub mod witness;

#[cfg(test)]
mod samples;
