//! `gregor node`, the first process of every Kafka node.
//!
//! It reads its configuration directory, decides how the disks are formatted ([`control::quorum::format`]), runs
//! Kafka's storage tool if necessary, starts the JVM directly on the jars, forwards stop signals and serves the
//! health endpoint.
//!
//! # Configuration directory
//!
//! One file per key of the node's ConfigMap. White space around a value is ignored.
//!
//! | file | content | if it is missing |
//! |---|---|---|
//! | `server.config` | server properties, passed to Kafka unchanged | error |
//! | `cluster.id` | the cluster that the disks belong to | error |
//! | `metadata.version` | metadata version for formatting empty disks, such as `4.3-IV0` | error |
//! | `quorum.mode` | `static`, `dynamic` or `unknown` | `unknown`: formatted disks start, empty ones wait |
//! | `initial.controllers` | `ID@HOST:PORT:DIRECTORY-ID,…` | none |
//! | `controller.seen` | `true` or `false`: whether this node has been observed with its directory id of that list, or as a voter of a static quorum | unknown: an empty disk of a listed controller, or of one of a static quorum, waits |
//! | `controller.replaced` | uid of the pod in which the empty metadata disk of this controller of a static quorum may be formatted although it has been observed | none: it waits |
//! | `log4j2.properties` | Kafka's logging configuration | level INFO to standard output |
//! | `jvm.options` | JVM options, one per line; `#` starts a comment | none |
//! | `metrics-config.json` | the user's Prometheus exporter rules, in YAML or JSON | no such exporter |
//!
//! # Node labels
//!
//! [`describe_machine`] runs before the node if the server properties refer to the Kubernetes Node, as an init
//! container with the same image. Only this part uses the Kubernetes API.
//!
//! # Exit codes
//!
//! See [`exit`]. Exit codes of Kafka itself are passed on.
//!
//! This crate makes no decisions, deletes nothing on a disk (least of all `quorum-state`), and never logs a value of
//! `server.config`.

#![allow(
    missing_docs,
    reason = "fields and error variants whose names or messages say it need no comment"
)]

mod agent;
mod archive;
mod config;
mod disks;
pub mod exit;
mod health;
mod home;
mod jvm;
mod life;
mod machine;
mod metrics;
mod process;
mod properties;
mod pulse;
mod relocate;
mod signs;
mod storage;
mod tls;

pub use archive::{ArchiveError, ArchiveOptions, make_class_archive};
pub use config::{Config, ConfigError};
pub use health::Addresses;
pub use home::{HomeError, KafkaHome};
pub use life::{NodeError, Options, run};
pub use machine::{MachineError, MachineOptions, describe_machine};
pub use tls::{TlsError, TlsFiles};
