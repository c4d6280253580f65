//! Where observations come from. The program implements it for a Kubernetes cluster and for snapshot files.

use std::pin::Pin;
use std::time::Duration;

use crate::page::{Cluster, Overview};

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId {
    /// Its namespace.
    pub namespace: String,
    /// The name of its Kafka resource.
    pub name: String,
}

/// Why an observation failed, for people: the whole chain of causes in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

/// An observation that is being made.
pub type Observing<'a, T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send + 'a>>;

/// Observes clusters.
pub trait Source: Send + Sync + 'static {
    /// All clusters in short.
    fn overview(&self) -> Observing<'_, Overview>;

    /// One cluster; `None` if there is none of that name.
    fn cluster<'a>(&'a self, id: &'a ClusterId) -> Observing<'a, Option<Cluster>>;

    /// How long to wait between two observations of the same; `None` if nothing ever changes.
    fn interval(&self) -> Option<Duration>;

    /// What is observed: the address of the API server, or the name of a file.
    fn origin(&self) -> String;
}
