//! What a data plane has at the identity provider, and how it is removed there.

use futures::future::BoxFuture;
use hyper::Method;

use crate::client::{Client, ClientError};
use crate::provider::Cause;

/// What could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The client for people who log in to the data plane.
    #[error("cannot remove the identity client of the data plane")]
    Client(#[source] Cause),
    /// The service account of its agent.
    #[error("cannot remove the service account of the agent")]
    Account(#[source] Cause),
}

/// Where data planes have identities. What is not there has been removed.
pub trait Identity: std::fmt::Debug + Send + Sync {
    /// Removes the client for people who log in to the data plane.
    fn remove_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>>;
    /// Removes the service account of its agent.
    fn remove_account<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>>;
}

/// Data planes have no identities anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoIdentity;

impl Identity for NoIdentity {
    fn remove_client<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { Ok(()) })
    }

    fn remove_account<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Keycloak, over its admin API.
#[derive(Debug, Clone)]
pub struct Keycloak {
    /// Where the realm is administered: `https://HOST/admin/realms/NAME`.
    pub realm_url: String,
    /// A file with a token that may manage clients.
    pub token_file: std::path::PathBuf,
    /// How it is asked.
    pub client: Client,
}

impl Keycloak {
    /// Clients are known by a name and deleted by an internal id, which has to be looked up.
    async fn remove(&self, client_id: &str) -> Result<(), Cause> {
        let token = tokio::fs::read_to_string(&self.token_file).await?;
        let token = Some(token.trim());
        let name: String = form_urlencoded::byte_serialize(client_id.as_bytes()).collect();
        let url = format!("{}/clients?clientId={name}", self.realm_url);
        let found = self.client.json(Method::GET, &url, token, None).await?;
        let ids = found.as_array().into_iter().flatten().filter_map(|one| one["id"].as_str());
        for id in ids {
            let url = format!("{}/clients/{id}", self.realm_url);
            match self.client.send(Method::DELETE, &url, token, None).await {
                Err(error) if !ClientError::is_not_found(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Identity for Keycloak {
    fn remove_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { self.remove(plane).await.map_err(IdentityError::Client) })
    }

    fn remove_account<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async move {
            let account = format!("kas-fleetshard-agent-{plane}");
            self.remove(&account).await.map_err(IdentityError::Account)
        })
    }
}
