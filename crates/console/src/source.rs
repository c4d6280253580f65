//! Where observations come from, and what carries out changes. The program implements it for a Kubernetes cluster and
//! for snapshot files.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::page::{Cluster, Fleet, Overview};

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

/// Why a request of the user was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The user lacks a right.
    Forbidden,
    /// Somebody has changed the resource meanwhile.
    Conflict,
    /// The request is not valid.
    Invalid,
    /// It could not be carried out, or it is unknown whether it was.
    Failed,
}

/// A request of the user that was refused, with a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, in one word.
    pub reason: Reason,
    /// The sentence.
    pub message: String,
}

/// A request of the user that is being carried out.
pub type Acting<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// The resources of a cluster, as a user edits them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// The Kafka and its pools as YAML, without what the API server and the operator write.
    pub yaml: String,
    /// The versions that were read, by `KIND/NAME`.
    pub versions: BTreeMap<String, String>,
}

/// An edit of the resources of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    /// The Kafka, its pools or both, as YAML.
    pub yaml: String,
    /// The versions that the edit is based on.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

/// Observes clusters, and carries out what users ask for.
pub trait Source: Send + Sync + 'static {
    /// All clusters in short.
    fn overview(&self) -> Observing<'_, Overview>;

    /// One cluster; `None` if there is none of that name.
    fn cluster<'a>(&'a self, id: &'a ClusterId) -> Observing<'a, Option<Cluster>>;

    /// The fleet; `None` if none is configured.
    fn fleet(&self) -> Observing<'_, Option<Fleet>> {
        Box::pin(async { Ok(None) })
    }

    /// How long to wait between two observations of the same; `None` if nothing ever changes.
    fn interval(&self) -> Option<Duration>;

    /// How long to wait between two observations of a cluster whose pages were closed, for its history; `None` if it is
    /// not observed without a page.
    fn background(&self) -> Option<Duration> {
        None
    }

    /// What is observed: the address of the API server, or the name of a file.
    fn origin(&self) -> String;

    /// Whether there is a fleet to show.
    fn has_fleet(&self) -> bool {
        false
    }

    /// The resources of a cluster, for an editor.
    fn resources<'a>(&'a self, id: &'a ClusterId) -> Acting<'a, Resources>;

    /// The effects of an edit, as `gregor plan -o json` prints them.
    fn plan<'a>(&'a self, id: &'a ClusterId, edit: &'a Edit) -> Acting<'a, Value>;

    /// Applies an edit, and returns the resources that were changed.
    fn apply<'a>(&'a self, id: &'a ClusterId, edit: &'a Edit) -> Acting<'a, Vec<String>>;

    /// Asks the operator to approve, stop or refresh a rebalance.
    fn command<'a>(
        &'a self,
        id: &'a ClusterId,
        rebalance: &'a str,
        command: &'a str,
    ) -> Acting<'a, ()>;
}

/// A user that was let in.
#[derive(Clone)]
pub struct Admitted {
    /// The name of the user.
    pub user: String,
    /// Observes and acts with the rights of the user.
    pub source: Arc<dyn Source>,
}

/// Lets users in.
pub trait Logins: Send + Sync + 'static {
    /// The user to whom a bearer token belongs.
    fn admit<'a>(&'a self, token: &'a str) -> Acting<'a, Admitted>;
}
