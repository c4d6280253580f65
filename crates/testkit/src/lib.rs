//! Real Kafka clusters as processes, for tests and demonstrations.
//!
//! A [`Cluster`] is a set of KRaft nodes, each a JVM of its own on an address of its own
//! (`127.a.b.c`) with the real port numbers, in a temporary directory. Tests stop, kill, freeze and
//! wipe nodes through [`Node`] and look at the outcome through whatever they test.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use testkit::Cluster;
//! let cluster = Cluster::builder().controllers(3).brokers(3).start().await?;
//! let (host, port) = cluster.bootstrap_brokers().remove(0);
//! cluster.node(100).kill().await?;
//! # Ok(()) }
//! ```
//!
//! Node ids: controllers are 0, 1, …; brokers 100, 101, …; nodes with both roles 200, 201, ….
//!
//! What holds, also when a test panics or its process is killed with `-9`:
//!
//! 1. No process of a cluster outlives the process that started it, but for the moment that
//!    the reaper needs to kill it.
//! 2. Two clusters never share an address, whichever processes they belong to.
//! 3. The directory of a test that failed stays, with the nodes' logs; that of one that passed goes.
//!
//! This crate must not speak Kafka's protocol (the clients that do are tested with it) and must not
//! be a dependency of anything but tests and demonstrations.

mod address;
mod archive;
mod cluster;
mod config;
mod ground;
mod load;
mod node;
mod process;
mod storage;
mod tls;
mod tools;

pub use cluster::{Builder, Cluster};
pub use config::{
    BROKER_PORT, CONTROLLER_PORT, PLAIN_USERS, Quorum, Role, SASL_PORT, Security, TLS_SUPER_USER,
};
pub use load::{Load, LoadOptions, Report};
pub use node::Node;
pub use tls::{Authority, Identity};
pub use tools::{skip, tool};

// For tests that start programs of their own beside, or in the place of, a cluster's nodes.
pub use address::Network;
pub use process::{Process, Reaper};
