//! What a data plane has at the identity provider: made before its agent, removed after everything else.
//!
//! 1. Everything is known by a name that is made from the data plane's id, so that whatever was cut off can be
//!    done again and makes nothing twice.
//! 2. What is not there has been removed.
//! 3. No secret is logged or stored here; it goes from the identity provider to the data plane.

mod keycloak;

use std::fmt;

use futures::future::BoxFuture;

use crate::provider::Cause;

pub use keycloak::Keycloak;

/// What could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The client for people who log in to the data plane.
    #[error("cannot create the identity client of the data plane")]
    MakeClient(#[source] Cause),
    /// The service account of its agent.
    #[error("cannot create the service account of the agent")]
    MakeAccount(#[source] Cause),
    /// The client for people who log in to the data plane.
    #[error("cannot remove the identity client of the data plane")]
    RemoveClient(#[source] Cause),
    /// The service account of its agent.
    #[error("cannot remove the service account of the agent")]
    RemoveAccount(#[source] Cause),
}

/// What an agent proves with who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Whoever runs the agent gives it a token.
    Elsewhere,
    /// A token.
    Token(String),
    /// A name and a secret, for which it gets tokens.
    Client {
        /// Where tokens are to be had.
        token_url: String,
        /// The name.
        id: String,
        /// The secret.
        secret: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Elsewhere => f.write_str("Elsewhere"),
            Credentials::Token(_) => f.write_str("Token"),
            Credentials::Client { id, .. } => write!(f, "Client({id})"),
        }
    }
}

/// Where data planes have identities.
pub trait Identity: fmt::Debug + Send + Sync {
    /// Makes the client for people who log in to the data plane; one that is there stays.
    fn make_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>>;
    /// Makes the service account of its agent; one that is there stays.
    fn make_account<'a>(
        &'a self,
        plane: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, IdentityError>>;
    /// Removes the client for people who log in to the data plane.
    fn remove_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>>;
    /// Removes the service account of its agent.
    fn remove_account<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>>;
}

/// Data planes have no identities anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoIdentity;

impl Identity for NoIdentity {
    fn make_client<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { Ok(()) })
    }

    fn make_account<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Credentials, IdentityError>> {
        Box::pin(async { Ok(Credentials::Elsewhere) })
    }

    fn remove_client<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { Ok(()) })
    }

    fn remove_account<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The name of the client for people who log in to a data plane. With the prefix no data plane can have the name of
/// another client of the realm.
#[must_use]
pub fn client_name(plane: &str) -> String {
    format!("gregor-data-plane-{plane}")
}

/// The name of the service account of a data plane's agent.
#[must_use]
pub fn account_name(plane: &str) -> String {
    format!("kas-fleetshard-agent-{plane}")
}
