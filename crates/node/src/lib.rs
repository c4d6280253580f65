//! The node program: the first process of every Kafka node.
//!
//! It reads its configuration directory, decides how the disks are formatted (the decision is
//! [`control::quorum::format`]), runs Kafka's own storage tool if they need it, starts the JVM straight on
//! the jars, passes on what it is asked to stop with, and tells over HTTP how the node is.
//!
//! # The configuration directory
//!
//! One file for each key of the node's ConfigMap. White space around a value does not count.
//!
//! | file | what | if it is missing |
//! |---|---|---|
//! | `server.config` | the server properties, handed to Kafka as they are | refused |
//! | `cluster.id` | the cluster that the disks belong to | refused |
//! | `metadata.version` | the metadata version that empty disks are formatted for, such as `4.3-IV0` | refused |
//! | `quorum.mode` | `static`, `dynamic` or `unknown` | `unknown`: formatted disks start, empty ones wait |
//! | `initial.controllers` | `ID@HOST:PORT:DIRECTORY-ID,…` | none |
//! | `controller.seen` | `true` or `false`: whether this node has been seen with its directory id of that list, or as a voter of a static quorum | not known: an empty disk of a listed controller, or of one of a static quorum, waits |
//! | `controller.replaced` | the uid of the pod in which the empty metadata disk of this controller of a static quorum may be formatted though it has been seen | none: it waits |
//! | `log4j2.properties` | the logging of Kafka | everything from INFO on to standard output |
//! | `jvm.options` | options of the JVM, one in a line, `#` begins a comment | none |
//! | `metrics-config.json` | the rules of the Prometheus exporter that is there for the user, in YAML or JSON | no such exporter |
//!
//! # The machine
//!
//! [`describe_machine`] runs before the node where the server properties refer to the machine, as an
//! init container with the same image. It is the only part that asks the Kubernetes API.
//!
//! # Exit codes
//!
//! See [`ExitCode`](exit). Those of Kafka itself are passed on.
//!
//! What this crate must not do: decide anything, delete anything on a disk (least of all
//! `quorum-state`), or write a value of `server.config` to a log.

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
