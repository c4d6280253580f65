//! Who asks, as arguments of handlers: a handler that names one is not reached by anybody else.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;

use super::App;
use super::error::{Code, Refusal};
use crate::auth::{AGENT_ROLE, AuthError, Claims};
use crate::local_tokens;
use crate::store::Tx;

/// The roles of administrators.
const ADMIN_ROLES: [&str; 3] = [
    "kas-fleet-manager-admin-read",
    "kas-fleet-manager-admin-write",
    "kas-fleet-manager-admin-full",
];

/// The agent of a data plane, which may report for that data plane only.
#[derive(Debug)]
pub(super) struct Agent {
    /// The id of its data plane.
    pub(super) plane: String,
}

/// A user.
#[derive(Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) organisation: String,
    pub(super) is_org_admin: bool,
}

/// An administrator.
#[derive(Debug)]
pub(super) struct Admin;

async fn claims(parts: &Parts, app: &App) -> Result<Claims, Refusal> {
    let stranger = || Refusal::new(Code::Unauthenticated, Code::Unauthenticated.meaning());
    let value = parts.headers.get(header::AUTHORIZATION).ok_or_else(stranger)?;
    let token = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let token = token.ok_or_else(stranger)?.trim();
    if local_tokens::is_local(token) {
        return local_tokens::check(&app.store, token).await?.ok_or_else(stranger);
    }
    match app.auth.check(token).await {
        Ok(claims) => Ok(claims),
        Err(AuthError::Token(_) | AuthError::UnknownKey) => Err(stranger()),
        Err(error @ (AuthError::Keys(_) | AuthError::Config(_))) => {
            tracing::error!(error = %crate::chain(&error), "tokens cannot be checked");
            Err(stranger())
        }
    }
}

fn limit(app: &App, caller: &str) -> Result<(), Refusal> {
    if app.limiter.admits(caller) {
        return Ok(());
    }
    Err(Refusal::new(Code::TooMany, Code::TooMany.meaning()))
}

impl FromRequestParts<App> for Agent {
    type Rejection = Refusal;

    /// A token for another data plane gets 404, like an unknown id.
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let claims = claims(parts, app).await?;
        let Id(plane) = Id::from_request_parts(parts, app).await?;
        let own = claims.cluster.as_deref() == Some(plane.as_str());
        if !claims.is_of(&app.config.auth.agent) || !claims.has_role(AGENT_ROLE) || !own {
            return Err(Refusal::not_found());
        }
        limit(app, &format!("agent {plane}"))?;
        Ok(Self { plane })
    }
}

impl FromRequestParts<App> for User {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let claims = claims(parts, app).await?;
        if !claims.is_of(&app.config.auth.public) {
            return Err(Refusal::new(Code::Unauthenticated, Code::Unauthenticated.meaning()));
        }
        let forbidden = |what| Refusal::new(Code::Forbidden, format!("the token has no {what}"));
        let name = claims.name().ok_or_else(|| forbidden("username"))?.to_owned();
        let organisation = claims.organisation().ok_or_else(|| forbidden("org_id"))?.to_owned();
        limit(app, &format!("user {organisation} {name}"))?;
        Ok(Self { name, organisation, is_org_admin: claims.is_org_admin })
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let claims = claims(parts, app).await?;
        let roles: &[&str] = match parts.method {
            Method::GET => &ADMIN_ROLES,
            Method::PATCH | Method::PUT => &ADMIN_ROLES[1..],
            _ => &ADMIN_ROLES[2..],
        };
        let allowed = roles.iter().any(|role| claims.has_role(role));
        if !claims.is_of(&app.config.auth.admin) || !allowed {
            return Err(Refusal::not_found());
        }
        limit(app, &format!("admin {}", claims.sub))?;
        Ok(Self)
    }
}

/// A requested change, for the audit log. It is written in the transaction of the change.
#[derive(Debug)]
pub(super) struct Change {
    subject: String,
    method: Method,
    path: String,
}

impl Change {
    /// Who asks.
    pub(super) fn subject(&self) -> &str {
        &self.subject
    }

    /// Records the change, provided that the transaction is committed.
    pub(super) async fn audit(&self, tx: &mut Tx, status: StatusCode) -> Result<(), Refusal> {
        let (method, status) = (self.method.as_str(), status.as_u16());
        Ok(tx.audit(&self.subject, method, &self.path, status).await?)
    }
}

impl FromRequestParts<App> for Change {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let claims = claims(parts, app).await?;
        let subject = claims.name().unwrap_or(&claims.sub).to_owned();
        let path = parts.uri.path().chars().take(500).collect();
        Ok(Self { subject, method: parts.method.clone(), path })
    }
}

/// The caller, for the audit log; permissions are checked elsewhere.
pub(super) async fn subject(parts: &Parts, app: &App) -> Option<String> {
    let claims = claims(parts, app).await.ok()?;
    Some(claims.name().unwrap_or(&claims.sub).to_owned())
}

/// The id in the path. What cannot be an id is not found.
#[derive(Debug)]
pub(super) struct Id(pub(super) String);

impl FromRequestParts<App> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| Refusal::not_found())?;
        let id = params.iter().find(|(name, _)| *name == "id").map(|(_, value)| value.to_owned());
        id.filter(|id| is_id(id)).map(Self).ok_or_else(Refusal::not_found)
    }
}

/// Whether a text can be an id of ours.
pub(super) fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(fits)
}

/// Whether a text can become the id of a data plane. It must be good as the value of a Kubernetes label.
pub(super) fn is_new_id(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    is_id(text) && text.len() <= 63 && ends(text.chars().next()) && ends(text.chars().next_back())
}

/// A JSON body.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let malformed = |reason: String| {
            Refusal::new(Code::Malformed, format!("invalid request format: {reason}"))
                .into_response()
        };
        let bytes = Bytes::from_request(request, app).await.map_err(|rejection| {
            let too_large = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
            let mut response = malformed(rejection.body_text());
            if too_large {
                *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            }
            response
        })?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| malformed(error.to_string()))
    }
}

/// The query string.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let query = Query::from_request_parts(parts, app).await;
        query
            .map(|Query(value)| Self(value))
            .map_err(|rejection| Refusal::new(Code::Malformed, rejection.body_text()))
    }
}
