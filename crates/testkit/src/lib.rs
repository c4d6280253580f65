//! Real Kafka clusters as processes, for tests and demonstrations.
//!
//! A [`Cluster`] is a set of KRaft nodes, each a JVM with its own address (`127.a.b.c`) and the real port
//! numbers, in a temporary directory. Tests stop, kill, freeze and wipe nodes through [`Node`] and observe
//! the outcome through the code under test.
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
//! Guarantees, also if a test panics or its process is killed with `-9`:
//!
//! 1. No process of a cluster outlives the process that started it, except for the moment that the reaper
//!    needs to kill it.
//! 2. Two clusters never share an address, across processes.
//! 3. The directory of a failed test is kept, with the nodes' logs; that of a passed test is removed.
//!
//! This crate does not speak Kafka's protocol, because the clients that do are tested with it. Only tests and
//! demonstrations may depend on it.

#![allow(
    missing_docs,
    reason = "fields and error variants whose names or messages say it need no comment"
)]

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
pub use load::{Account, Load, LoadOptions, Report};
pub use node::Node;
pub use tls::{Authority, Identity};
pub use tools::{skip, tool};

// For tests that start other programs besides, or instead of, a cluster's nodes.
pub use address::Network;
pub use host::reaper::Reaper;
pub use process::Process;
