//! What administrators permit organisations and users, in place of the defaults.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use fleet_control::Quota;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::callers::{Admin, Body, Change, Params};
use super::error::{Code, Error, Refusal};
use crate::config::Most;
use crate::store::SetQuota;

/// The longest name of an organisation or a user.
const NAME_MAX: usize = 255;

/// A quota of an organisation or a user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FleetQuota)]
pub(super) struct QuotaPayload {
    #[schema(min_length = 1, max_length = 255)]
    organisation: String,
    /// A user of the organisation; without it the quota is that of the organisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    user: Option<String>,
    kafkas: u64,
    connections: u64,
    partitions: u64,
}

/// The default quotas, and those that replace them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FleetQuotaList)]
pub(super) struct QuotaList {
    kind: String,
    /// The default quota of an organisation.
    organisation_default: Limits,
    /// The default quota of a user.
    user_default: Limits,
    items: Vec<QuotaPayload>,
}

/// Limits of a quota.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FleetQuotaLimits)]
pub(super) struct Limits {
    kafkas: u64,
    connections: u64,
    partitions: u64,
}

impl From<Most> for Limits {
    fn from(most: Most) -> Self {
        let Most { kafkas, connections, partitions } = most;
        Self { kafkas, connections, partitions }
    }
}

/// The owner of a quota.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct WhoseParams {
    #[param(min_length = 1, max_length = 255)]
    organisation: String,
    /// A user of the organisation.
    user: String,
}

/// PostgreSQL has no text with a zero in it.
fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len()) && !text.contains('\0')
}

/// List the quotas and the default quotas.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/quotas", tag = "admin",
    responses((status = 200, body = QuotaList), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_quotas(
    State(app): State<App>,
    _: Admin,
) -> Result<Json<QuotaList>, Refusal> {
    let set = app.store.quotas().await?.into_iter().map(|one| QuotaPayload {
        organisation: one.organisation,
        user: (!one.owner.is_empty()).then_some(one.owner),
        kafkas: one.quota.kafkas,
        connections: one.quota.connections,
        partitions: one.quota.partitions,
    });
    let quotas = &app.config.quotas;
    Ok(Json(QuotaList {
        kind: "QuotaList".to_owned(),
        organisation_default: quotas.organisation.into(),
        user_default: quotas.user.into(),
        items: set.collect(),
    }))
}

/// Set a quota. Existing Kafkas stay, also if they exceed it.
#[utoipa::path(put, path = "/api/kafkas_mgmt/v1/admin/quotas", tag = "admin",
    request_body = QuotaPayload,
    responses((status = 200, body = QuotaPayload), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 413, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn put_quota(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Body(payload): Body<QuotaPayload>,
) -> Result<Json<QuotaPayload>, Refusal> {
    if !is_name(&payload.organisation) || !payload.user.as_deref().is_none_or(is_name) {
        return Err(Refusal::new(Code::Fields, "organisation and user must have 1 to 255 bytes"));
    }
    let new = SetQuota {
        organisation: payload.organisation.clone(),
        owner: payload.user.clone().unwrap_or_default(),
        quota: Quota {
            kafkas: payload.kafkas,
            connections: payload.connections,
            partitions: payload.partitions,
        },
    };
    let mut tx = app.store.begin().await?;
    tx.set_quota(&new).await?;
    change.audit(&mut tx, StatusCode::OK).await?;
    tx.commit().await?;
    Ok(Json(payload))
}

/// Reset a quota to its default.
#[utoipa::path(delete, path = "/api/kafkas_mgmt/v1/admin/quotas", tag = "admin",
    params(WhoseParams),
    responses((status = 204), (status = 400, body = Error), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn delete_quota(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Params(whose): Params<WhoseParams>,
) -> Result<StatusCode, Refusal> {
    if !is_name(&whose.organisation) || !(whose.user.is_empty() || is_name(&whose.user)) {
        return Err(Refusal::new(Code::Fields, "organisation must have 1 to 255 bytes"));
    }
    let mut tx = app.store.begin().await?;
    tx.delete_quota(&whose.organisation, &whose.user).await?;
    change.audit(&mut tx, StatusCode::NO_CONTENT).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
