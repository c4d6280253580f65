//! Who makes data planes and their nodes.
//!
//! 1. Every call may be repeated: a data plane is known by its id, and asking twice makes one.
//! 2. "Gone" is said only if the provider says that there is no such thing, never because it does not answer.
//! 3. Numbers of nodes are whole numbers, never steps.

pub mod capi;
pub mod ocm;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

/// A cause, whatever it is.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a provider could not do.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Make a data plane.
    #[error("cannot create the data plane")]
    Create(#[source] Cause),
    /// Say how far it has come.
    #[error("cannot ask how far the data plane has come")]
    Progress(#[source] Cause),
    /// Put an agent on it.
    #[error("cannot install the agent")]
    InstallAgent(#[source] Cause),
    /// Say how many nodes there are.
    #[error("cannot ask for the nodes")]
    Nodes(#[source] Cause),
    /// Make or remove nodes.
    #[error("cannot scale the nodes")]
    SetNodes(#[source] Cause),
    /// Delete it.
    #[error("cannot delete the data plane")]
    Delete(#[source] Cause),
}

/// A data plane, as a provider is told of it.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeCounts {
    /// How many there are to be.
    pub desired: u32,
    /// How many there are.
    pub actual: u32,
}

/// The one contract of all providers.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Begins to make a data plane. Returns what the provider calls it.
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> BoxFuture<'a, Result<String, ProviderError>>;
    /// How far it has come.
    fn progress<'a>(
        &'a self,
        plane: &'a PlaneRef,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>>;
    /// Puts the agent on it; what is there already stays.
    fn install_agent<'a>(&'a self, plane: &'a PlaneRef)
    -> BoxFuture<'a, Result<(), ProviderError>>;
    /// How many nodes there are and are to be.
    fn nodes<'a>(&'a self, plane: &'a PlaneRef)
    -> BoxFuture<'a, Result<NodeCounts, ProviderError>>;
    /// Says how many there are to be.
    fn set_nodes<'a>(
        &'a self,
        plane: &'a PlaneRef,
        nodes: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>>;
    /// Begins to delete it, or goes on; true if it is gone.
    fn delete<'a>(&'a self, plane: &'a PlaneRef) -> BoxFuture<'a, Result<bool, ProviderError>>;
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
#[error("the nodes of a standalone data plane are not ours")]
struct NotOurs;

impl Provider for Standalone {
    fn create<'a>(&'a self, plane: &'a PlaneRef) -> BoxFuture<'a, Result<String, ProviderError>> {
        Box::pin(async { Ok(plane.id.clone()) })
    }

    fn progress<'a>(&'a self, _: &'a PlaneRef) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        Box::pin(async { Ok(Progress::There) })
    }

    fn install_agent<'a>(&'a self, _: &'a PlaneRef) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async { Ok(()) })
    }

    fn nodes<'a>(&'a self, _: &'a PlaneRef) -> BoxFuture<'a, Result<NodeCounts, ProviderError>> {
        Box::pin(async { Err(ProviderError::Nodes(NotOurs.into())) })
    }

    fn set_nodes<'a>(
        &'a self,
        _: &'a PlaneRef,
        _: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async { Err(ProviderError::SetNodes(NotOurs.into())) })
    }

    fn delete<'a>(&'a self, _: &'a PlaneRef) -> BoxFuture<'a, Result<bool, ProviderError>> {
        Box::pin(async { Ok(true) })
    }
}
