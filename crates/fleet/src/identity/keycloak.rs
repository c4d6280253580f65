//! Keycloak, over its admin API.
//!
//! Clients are known by a name, and everything about them by an internal id, which has to be looked up.

use futures::future::BoxFuture;
use hyper::Method;
use serde_json::{Value, json};

use super::{Credentials, Identity, IdentityError, account_name, client_name};
use crate::auth::{AGENT_CLAIM, AGENT_ROLE};
use crate::client::{Client, ClientError, query_value};
use crate::provider::Cause;

/// Keycloak.
#[derive(Debug, Clone)]
pub struct Keycloak {
    /// Where the realm is administered: `https://HOST/admin/realms/NAME`.
    pub realm_url: String,
    /// A file with a token that may manage clients.
    pub token_file: std::path::PathBuf,
    /// For whom agents' tokens are.
    pub audience: String,
    /// Where people are sent after they logged in to a data plane; `{cluster-id}` is replaced.
    pub redirect_uris: Vec<String>,
    /// How it is asked.
    pub client: Client,
}

#[derive(Debug, thiserror::Error)]
enum KeycloakError {
    #[error("the answer has no {0}")]
    Missing(&'static str),
    #[error("the client that was just created does not exist")]
    NotMade,
}

impl Keycloak {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Cause> {
        let token = tokio::fs::read_to_string(&self.token_file).await?;
        let url = format!("{}{path}", self.realm_url);
        Ok(self.client.json(method, &url, Some(token.trim()), body).await?)
    }

    async fn find(&self, client_id: &str) -> Result<Vec<String>, Cause> {
        let name = query_value(client_id);
        let found = self.ask(Method::GET, &format!("/clients?clientId={name}"), None).await?;
        let ids = found.as_array().into_iter().flatten().filter_map(|one| one["id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    /// The internal id of a client, which is made if it is not there.
    async fn make(&self, client_id: &str, body: &Value) -> Result<String, Cause> {
        if let Some(id) = self.find(client_id).await?.into_iter().next() {
            return Ok(id);
        }
        match self.ask(Method::POST, "/clients", Some(body)).await {
            // Somebody was faster, or an earlier request of ours was late.
            Err(error) if is_conflict(&error) => {}
            other => drop(other?),
        }
        let made = self.find(client_id).await?.into_iter().next();
        Ok(made.ok_or(KeycloakError::NotMade)?)
    }

    async fn make_client(&self, plane: &str) -> Result<(), Cause> {
        let uris = self.redirect_uris.iter().map(|uri| uri.replace("{cluster-id}", plane));
        let body = json!({
            "clientId": client_name(plane), "publicClient": false, "standardFlowEnabled": true,
            "redirectUris": uris.collect::<Vec<_>>(),
        });
        self.make(&client_name(plane), &body).await.map(drop)
    }

    /// An account that gets tokens for us, with the role of agents and the data plane's id in them.
    async fn make_account(&self, plane: &str) -> Result<Credentials, Cause> {
        let name = account_name(plane);
        let id = self.make(&name, &self.account(&name, plane)).await?;
        let user =
            self.ask(Method::GET, &format!("/clients/{id}/service-account-user"), None).await?;
        let user = user["id"].as_str().ok_or(KeycloakError::Missing("id of the account"))?;
        let role = self.ask(Method::GET, &format!("/roles/{AGENT_ROLE}"), None).await?;
        let path = format!("/users/{user}/role-mappings/realm");
        self.ask(Method::POST, &path, Some(&json!([role]))).await?;
        let secret = self.ask(Method::GET, &format!("/clients/{id}/client-secret"), None).await?;
        let secret = secret["value"].as_str().ok_or(KeycloakError::Missing("secret"))?;
        let realm = self.realm_url.replacen("/admin/realms/", "/realms/", 1);
        Ok(Credentials::Client {
            token_url: format!("{realm}/protocol/openid-connect/token"),
            id: name,
            secret: secret.to_owned(),
        })
    }

    fn account(&self, name: &str, plane: &str) -> Value {
        let mapper = |name: &str, kind: &str, config: Value| {
            json!({
                "name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": config,
            })
        };
        let claim = json!({
            "claim.name": AGENT_CLAIM, "claim.value": plane, "jsonType.label": "String",
            "access.token.claim": "true",
        });
        let audience =
            json!({ "included.custom.audience": self.audience, "access.token.claim": "true" });
        json!({
            "clientId": name, "publicClient": false, "standardFlowEnabled": false,
            "serviceAccountsEnabled": true,
            "protocolMappers": [
                mapper("data-plane", "oidc-hardcoded-claim-mapper", claim),
                mapper("audience", "oidc-audience-mapper", audience),
            ],
        })
    }

    async fn remove(&self, client_id: &str) -> Result<(), Cause> {
        for id in self.find(client_id).await? {
            match self.ask(Method::DELETE, &format!("/clients/{id}"), None).await {
                Err(error) if is_not_found(&error) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}

fn is_conflict(error: &Cause) -> bool {
    let error = error.downcast_ref::<ClientError>();
    matches!(error, Some(ClientError::Status { status, .. }) if status.as_u16() == 409)
}

fn is_not_found(error: &Cause) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(ClientError::is_not_found)
}

impl Identity for Keycloak {
    fn make_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async { self.make_client(plane).await.map_err(IdentityError::MakeClient) })
    }

    fn make_account<'a>(
        &'a self,
        plane: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, IdentityError>> {
        Box::pin(async { self.make_account(plane).await.map_err(IdentityError::MakeAccount) })
    }

    fn remove_client<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async move {
            self.remove(&client_name(plane)).await.map_err(IdentityError::RemoveClient)
        })
    }

    fn remove_account<'a>(&'a self, plane: &'a str) -> BoxFuture<'a, Result<(), IdentityError>> {
        Box::pin(async move {
            self.remove(&account_name(plane)).await.map_err(IdentityError::RemoveAccount)
        })
    }
}
