//! Providers of data planes and their nodes.
//!
//! 1. Every call may be repeated: a data plane is known by its id, and asking twice makes one.
//! 2. "Gone" is said only if the provider says that there is no such thing, never because it does not answer.
//! 3. Numbers of nodes are whole numbers, never steps.
//! 4. The name of a data plane at its provider is made from its whole id, and what has that name is taken for the data plane
//!    only if it carries the id, too.

pub mod capi;
pub mod ocm;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use futures::future::BoxFuture;

use crate::identity::Credentials;

/// A cause, whatever it is.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a provider could not do.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Make a data plane.
    #[error("cannot create the data plane")]
    Create(#[source] Cause),
    /// Say how far it has come.
    #[error("cannot get the status of the data plane")]
    Progress(#[source] Cause),
    /// Put an agent on it.
    #[error("cannot install the agent")]
    InstallAgent(#[source] Cause),
    /// Say how many nodes there are.
    #[error("cannot get the nodes")]
    Nodes(#[source] Cause),
    /// Make or remove nodes.
    #[error("cannot scale the nodes")]
    SetNodes(#[source] Cause),
    /// Delete it.
    #[error("cannot delete the data plane")]
    Delete(#[source] Cause),
}

/// A data plane in a request to its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneRef {
    /// Its id.
    pub id: String,
    /// What the provider calls it; nothing before it was made.
    pub provider_id: Option<String>,
    /// Its cloud provider.
    pub cloud_provider: String,
    /// Its region.
    pub region: String,
    /// Whether it is in several zones.
    pub multi_az: bool,
    /// How many nodes it begins with.
    pub nodes: u32,
}

impl PlaneRef {
    /// What the provider calls it, or else our id.
    #[must_use]
    pub fn known_as(&self) -> &str {
        self.provider_id.as_deref().unwrap_or(&self.id)
    }
}

/// The label or property with the id of the data plane, on everything that is made for one.
pub const ID_LABEL: &str = api::names::DATA_PLANE_LABEL;

/// The name of a data plane at a provider: a prefix that says whose it is, and sixty bits of a hash of the id. Fifteen
/// characters are as many as OpenShift Cluster Manager takes in the names of its domains.
#[must_use]
pub fn cluster_name(id: &str) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = digest(&SHA256, id.as_bytes());
    let first = hash.as_ref().iter().take(8).fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let digit = |place: u32| char::from(DIGITS[((first >> (59 - 5 * place)) & 31) as usize]);
    format!("mk-{}", (0..12).map(digit).collect::<String>())
}

/// What has the name of a data plane and is not that data plane.
#[derive(Debug, thiserror::Error)]
#[error("a cluster with the name {name} exists and does not carry the id {id}")]
pub struct NotThisPlane {
    /// The name.
    pub name: String,
    /// The id of the data plane.
    pub id: String,
}

impl NotThisPlane {
    /// That data plane.
    #[must_use]
    pub fn new(plane: &PlaneRef) -> Self {
        Self { name: cluster_name(&plane.id), id: plane.id.clone() }
    }
}

/// How far a data plane has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is being made.
    Coming,
    /// It is there.
    There,
    /// It cannot be made.
    Failed(String),
}

/// Nodes, as a provider counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCounts {
    /// How many there are to be.
    pub desired: u32,
    /// How many are ready; while some are to go, how many there are.
    pub actual: u32,
    /// Why they cannot be made, if the provider says so.
    pub failed: Option<String>,
}

impl NodeCounts {
    /// Of a provider that does not tell of failures.
    #[must_use]
    pub fn new(desired: u32, actual: u32) -> Self {
        Self { desired, actual, failed: None }
    }
}

/// What an agent gets when it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAccess {
    /// Where the fleet manager is.
    pub manager: String,
    /// What the agent proves with who it is.
    pub credentials: Credentials,
}

/// What a provider answers. What it could not do, the worker knows that asked.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Cause>>;

/// The one contract of all providers.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Begins to make a data plane. Returns what the provider calls it.
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, String>;
    /// How far it has come.
    fn progress<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, Progress>;
    /// Puts the agent on it; what is there already stays.
    fn install_agent<'a>(&'a self, plane: &'a PlaneRef, access: &'a AgentAccess) -> Answer<'a, ()>;
    /// How many nodes there are and are to be.
    fn nodes<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, NodeCounts>;
    /// Says how many there are to be.
    fn set_nodes<'a>(&'a self, plane: &'a PlaneRef, nodes: u32) -> Answer<'a, ()>;
    /// Begins to delete it, or goes on; true if it is gone.
    fn delete<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, bool>;
}

/// All providers, by the name that a region has for them.
pub type Providers = BTreeMap<String, Arc<dyn Provider>>;

/// Data planes that somebody else makes: they are there when we hear of them, and stay when we forget them.
/// Their nodes cannot be scaled.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standalone;

/// The name of [`Standalone`].
pub const STANDALONE: &str = "standalone";

#[derive(Debug, thiserror::Error)]
#[error("the manager does not scale the nodes of a standalone data plane")]
struct NotOurs;

impl Provider for Standalone {
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> Answer<'a, String> {
        Box::pin(async { Ok(plane.id.clone()) })
    }

    fn progress<'a>(&'a self, _: &'a PlaneRef) -> Answer<'a, Progress> {
        Box::pin(async { Ok(Progress::There) })
    }

    fn install_agent<'a>(&'a self, _: &'a PlaneRef, _: &'a AgentAccess) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn nodes<'a>(&'a self, _: &'a PlaneRef) -> Answer<'a, NodeCounts> {
        Box::pin(async { Err(NotOurs.into()) })
    }

    fn set_nodes<'a>(&'a self, _: &'a PlaneRef, _: u32) -> Answer<'a, ()> {
        Box::pin(async { Err(NotOurs.into()) })
    }

    fn delete<'a>(&'a self, _: &'a PlaneRef) -> Answer<'a, bool> {
        Box::pin(async { Ok(true) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_id_has_a_name_of_its_own() {
        // The same letters with other signs, in another case, and with the same end.
        let mut ids: Vec<String> =
            ["p-1", "p.1", "p_1", "p1", "P1", "-p1"].map(str::to_owned).into();
        ids.extend((0..10_000).map(|number| format!("plane-{number}-0123456789ab")));
        let names: BTreeSet<_> = ids.iter().map(|id| cluster_name(id)).collect();
        assert_eq!(names.len(), ids.len());
        for name in names {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.len() == 15 && name.chars().all(fits), "{name}");
        }
        assert_eq!(cluster_name("p-1"), cluster_name("p-1"));
    }
}
