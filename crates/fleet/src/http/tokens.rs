//! Tokens that administrators create, list and revoke where there is no identity provider.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::callers::{Admin, Body, Change, Id, is_new_id};
use super::error::{Code, Error, Refusal};
use super::{App, rfc3339};
use crate::local_tokens::{self, DAYS_MAX, ROLES, TokenRole};
use crate::store::StoredToken;

/// The longest name of a token, a user or an organisation.
const NAME_MAX: usize = 255;

/// A token to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiTokenRequest {
    /// Name for people.
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// `admin-read`, `admin-write`, `admin-full`, `agent` or `user`.
    role: String,
    /// Data plane of an `agent`.
    #[serde(default)]
    data_plane: Option<String>,
    /// Name of a `user`.
    #[serde(default)]
    #[schema(max_length = 255)]
    username: Option<String>,
    /// Organisation of a `user`.
    #[serde(default)]
    #[schema(max_length = 255)]
    organisation: Option<String>,
    /// Validity in days.
    #[schema(minimum = 1, maximum = 3650)]
    expires_in_days: u32,
}

/// A token, without itself.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApiToken {
    id: String,
    kind: String,
    name: String,
    role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_plane: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    organisation: Option<String>,
    created_by: String,
    created_at: String,
    expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(super) struct NewApiToken {
    #[serde(flatten)]
    about: ApiToken,
    /// The token. No other request returns it.
    token: String,
}

/// Tokens, also those that are no longer valid.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApiTokenList {
    kind: String,
    items: Vec<ApiToken>,
}

fn served(token: &StoredToken) -> ApiToken {
    let (username, organisation, plane) = token.role.subject();
    ApiToken {
        id: token.id.clone(),
        kind: "ApiToken".to_owned(),
        name: token.name.clone(),
        role: token.role.name().to_owned(),
        data_plane: plane.map(str::to_owned),
        username: username.map(str::to_owned),
        organisation: organisation.map(str::to_owned),
        created_by: token.created_by.clone(),
        created_at: rfc3339(token.created_at),
        expires_at: rfc3339(token.expires_at),
        revoked_at: token.revoked_at.map(rfc3339),
    }
}

fn role(request: &ApiTokenRequest) -> Result<TokenRole, Refusal> {
    let invalid = |reason: String| Refusal::new(Code::Fields, reason);
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    let texts = [&request.name, &of(&request.username), &of(&request.organisation)];
    if request.name.is_empty()
        || texts.iter().any(|text| text.len() > NAME_MAX || text.contains('\0'))
    {
        return Err(invalid(
            "name must have 1 to 255 characters, username and organisation at most 255".to_owned(),
        ));
    }
    if !(1..=DAYS_MAX).contains(&request.expires_in_days) {
        return Err(invalid(format!("expires_in_days must be 1 to {DAYS_MAX}")));
    }
    let plane = of(&request.data_plane);
    if !plane.is_empty() && !is_new_id(&plane) {
        return Err(invalid("data_plane is not the id of a data plane".to_owned()));
    }
    let subject = (of(&request.username), of(&request.organisation), plane);
    TokenRole::read(&request.role, subject).ok_or_else(|| {
        let roles = ROLES.join(", ");
        invalid(format!(
            "role must be one of {roles}; an agent has a data_plane, a user has a username and an organisation"
        ))
    })
}

/// List the tokens of the manager.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/tokens", tag = "admin",
    responses((status = 200, body = ApiTokenList), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_tokens(
    State(app): State<App>,
    _: Admin,
) -> Result<Json<ApiTokenList>, Refusal> {
    let items = app.store.api_tokens().await?.iter().map(served).collect();
    Ok(Json(ApiTokenList { kind: "ApiTokenList".to_owned(), items }))
}

/// Create a token.
#[utoipa::path(post, path = "/api/kafkas_mgmt/v1/admin/tokens", tag = "admin",
    request_body = ApiTokenRequest,
    responses((status = 201, body = NewApiToken), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 413, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn create_token(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Body(request): Body<ApiTokenRequest>,
) -> Result<impl IntoResponse, Refusal> {
    let role = role(&request)?;
    let mut tx = app.store.begin().await?;
    let by = (request.name.as_str(), change.subject());
    let created = local_tokens::create(&mut tx, by, role, request.expires_in_days).await?;
    let (stored, token) = created
        .ok_or_else(|| Refusal::new(Code::General, "cannot create a token: no randomness"))?;
    change.audit(&mut tx, StatusCode::CREATED).await?;
    tx.commit().await?;
    let body = Json(NewApiToken { about: served(&stored), token });
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], body))
}

/// Revoke a token. The next request with it is refused.
#[utoipa::path(delete, path = "/api/kafkas_mgmt/v1/admin/tokens/{id}", tag = "admin",
    params(("id" = String, Path)),
    responses((status = 204), (status = 401, body = Error), (status = 404, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn revoke_token(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Id(id): Id,
) -> Result<StatusCode, Refusal> {
    let mut tx = app.store.begin().await?;
    if !tx.revoke_api_token(&id).await? {
        return Err(Refusal::not_found());
    }
    change.audit(&mut tx, StatusCode::NO_CONTENT).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
