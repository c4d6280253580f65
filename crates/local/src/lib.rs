//! Local mode: a real Kubernetes on one machine, without containers.
//!
//! - [`control_plane`]: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes, with
//!   their own PKI.
//! - [`kubelet`]: a node agent that runs pods as processes. It uses only the API server, so it can join any
//!   control plane.
//! - [`manifests`]: applies objects from files.
//! - [`services`]: a service proxy, and the names of services and pods.
//! - [`storage`]: volumes that are directories on the nodes of this process.
//!
//! This crate does not imitate the Kubernetes API and knows nothing of Kafka.

#![allow(
    missing_docs,
    reason = "fields and error variants whose names or messages say it need no comment"
)]

pub mod control_plane;
pub mod kubelet;
pub mod manifests;
pub mod network;
mod process;
mod rights;
pub mod services;
pub mod storage;
mod watch;
