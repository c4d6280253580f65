//! Local mode: a real Kubernetes on one machine, without containers.
//!
//! - [`control_plane`]: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes,
//!   with a PKI of their own.
//! - [`kubelet`]: a node agent that runs pods as processes. It talks to the API server only, so it joins
//!   any control plane that it is given a kubeconfig for.
//! - [`manifests`]: objects from files, applied to a cluster.
//! - [`services`]: a proxy for services, and the names of services and pods.
//! - [`storage`]: volumes that are directories on the nodes of this process.
//!
//! What it must not do: imitate the Kubernetes API, or know anything of Kafka.

pub mod control_plane;
pub mod kubelet;
pub mod manifests;
pub mod network;
mod rights;
pub mod services;
pub mod storage;
mod watch;
