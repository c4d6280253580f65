//! What administrators ask: data planes, why they are as they are, and the dry-run switch.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use fleet_control::PlaneState;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::callers::{Admin, Body, Change, Id, Params, is_new_id};
use super::error::{Code, Error, Refusal};
use super::{App, BASE, rfc3339};
use crate::store::{
    Decision, DecisionKind, DecisionsAbout, NewDecision, NewPlane, Plane, PlaneFilter, new_id,
};

/// The largest number of nodes that a request may ask for.
const NODES_MAX: i64 = 10_000;

/// A data plane.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DataPlane {
    id: String,
    kind: String,
    href: String,
    cloud_provider: String,
    region: String,
    multi_az: bool,
    provider_type: String,
    status: String,
    /// Why it is in this state.
    status_reason: String,
    /// Why the number of its nodes changes or stays.
    nodes_reason: String,
    /// Contradictions in its last report.
    #[serde(skip_serializing_if = "Option::is_none")]
    contradictions: Option<String>,
    /// Why Kafkas cannot be placed on its nodes, whatever their number. An administrator has to change the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes_unsuitable: Option<String>,
    /// Why the provider cannot create the desired nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes_failed: Option<String>,
    /// Whether new Kafkas are placed elsewhere (cordoned).
    draining: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes_wanted: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes_desired: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes_actual: Option<i64>,
    /// When its agent last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_connections: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_partitions: Option<u64>,
    created_at: String,
    updated_at: String,
}

/// A page of data planes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DataPlaneList {
    kind: String,
    page: i64,
    size: i64,
    total: i64,
    items: Vec<DataPlane>,
}

/// Selects a page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Number of the page, starting at 1.
    #[param(minimum = 1, maximum = 1_000_000)]
    page: i64,
    /// Number of items per page.
    #[param(minimum = 1, maximum = 1000)]
    size: i64,
}

impl Default for PageParams {
    fn default() -> Self {
        Self { page: 1, size: 100 }
    }
}

impl PageParams {
    fn window(&self) -> Result<(i64, i64), Refusal> {
        if !(1..=1_000_000).contains(&self.page) || !(1..=1000).contains(&self.size) {
            let reason = "page must be 1 to 1000000 and size 1 to 1000";
            return Err(Refusal::new(Code::Malformed, reason));
        }
        Ok(((self.page - 1) * self.size, self.size))
    }
}

fn served(plane: &Plane) -> DataPlane {
    let remaining = plane.report.as_ref().map(|report| report.remaining.capacity());
    DataPlane {
        id: plane.id.clone(),
        kind: "DataPlane".to_owned(),
        href: format!("{BASE}/admin/data_planes/{}", plane.id),
        cloud_provider: plane.cloud_provider.clone(),
        region: plane.region.clone(),
        multi_az: plane.multi_az,
        provider_type: plane.provider_type.clone(),
        status: plane.state().to_string(),
        status_reason: plane.state_reason.clone(),
        nodes_reason: plane.step_reason.clone(),
        contradictions: (!plane.broken.is_empty()).then(|| plane.broken.clone()),
        nodes_unsuitable: (!plane.unsuitable.is_empty()).then(|| plane.unsuitable.clone()),
        nodes_failed: (!plane.nodes_failed.is_empty()).then(|| plane.nodes_failed.clone()),
        draining: plane.draining,
        nodes_wanted: plane.nodes_wanted,
        nodes_desired: plane.nodes_desired,
        nodes_actual: plane.nodes_actual,
        last_seen: plane.last_seen.map(rfc3339),
        remaining_connections: remaining.map(|room| room.connections),
        remaining_partitions: remaining.map(|room| room.partitions),
        created_at: rfc3339(plane.created_at),
        updated_at: rfc3339(plane.updated_at),
    }
}

/// List the data planes.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/data_planes", tag = "admin",
    params(PageParams),
    responses((status = 200, body = DataPlaneList), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_planes(
    State(app): State<App>,
    _: Admin,
    Params(params): Params<PageParams>,
) -> Result<Json<DataPlaneList>, Refusal> {
    let (offset, limit) = params.window()?;
    let filter = PlaneFilter { region: None, offset, limit: Some(limit) };
    let planes = app.store.planes(&filter).await?;
    Ok(Json(DataPlaneList {
        kind: "DataPlaneList".to_owned(),
        page: params.page,
        size: i64::try_from(planes.len()).unwrap_or(0),
        total: app.store.count_planes().await?,
        items: planes.iter().map(served).collect(),
    }))
}

/// A data plane to create, or to register if it exists already.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DataPlaneRequest {
    cloud_provider: String,
    region: String,
    /// The id, for a `standalone` data plane whose agent has it already.
    #[serde(default)]
    #[schema(pattern = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]
    id: Option<String>,
    /// The provider that creates it; the provider of the region by default.
    #[serde(default)]
    provider_type: Option<String>,
}

/// Create a data plane.
#[utoipa::path(post, path = "/api/kafkas_mgmt/v1/admin/data_planes", tag = "admin",
    request_body = DataPlaneRequest,
    responses((status = 202, body = DataPlane), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 409, body = Error),
        (status = 413, body = Error), (status = 429, body = Error)))]
pub(super) async fn create_plane(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Body(request): Body<DataPlaneRequest>,
) -> Result<(StatusCode, Json<DataPlane>), Refusal> {
    let region = app.config.region(&request.cloud_provider, &request.region);
    let region = region.ok_or_else(|| Refusal::new(Code::Region, Code::Region.meaning()))?;
    let id = request.id.unwrap_or_else(new_id);
    if !is_new_id(&id) {
        return Err(Refusal::new(
            Code::Fields,
            "id must have at most 63 letters, digits, dashes, dots and underscores, and begin and end with a letter or digit",
        ));
    }
    let provider_type = request.provider_type.unwrap_or_else(|| region.provider.clone());
    if provider_type != region.provider && provider_type != "standalone" {
        return Err(Refusal::new(Code::Fields, "provider_type is not that of the region"));
    }
    let mut tx = app.store.begin().await?;
    if tx.plane_ever(&id).await? {
        return Err(Refusal::new(Code::Conflict, "there is or was a data plane with this id"));
    }
    tx.add_plane(&NewPlane {
        id: id.clone(),
        cloud_provider: request.cloud_provider.clone(),
        region: request.region.clone(),
        multi_az: region.multi_az,
        provider_type,
        nodes: region.nodes,
    })
    .await?;
    tx.decide(NewDecision {
        plane: Some(&id),
        region: Some(format!("{}/{}", request.cloud_provider, request.region)),
        kind: DecisionKind::Create,
        was: String::new(),
        becomes: PlaneState::Accepted.to_string(),
        code: "ByHand",
        reason: "created by an administrator".to_owned(),
        dry_run: false,
    })
    .await?;
    change.audit(&mut tx, StatusCode::ACCEPTED).await?;
    tx.commit().await?;
    app.wake.notify_waiters();
    Ok((StatusCode::ACCEPTED, Json(served(&plane(&app, &id).await?))))
}

async fn plane(app: &App, id: &str) -> Result<Plane, Refusal> {
    app.store.plane(id).await?.ok_or_else(Refusal::not_found)
}

/// Show a data plane.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/data_planes/{id}", tag = "admin",
    params(("id" = String, Path)),
    responses((status = 200, body = DataPlane), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn get_plane(
    State(app): State<App>,
    _: Admin,
    Id(id): Id,
) -> Result<Json<DataPlane>, Refusal> {
    Ok(Json(served(&plane(&app, &id).await?)))
}

/// Delete an empty data plane.
#[utoipa::path(delete, path = "/api/kafkas_mgmt/v1/admin/data_planes/{id}", tag = "admin",
    params(("id" = String, Path)),
    responses((status = 202, body = DataPlane), (status = 401, body = Error),
        (status = 404, body = Error), (status = 409, body = Error), (status = 429, body = Error)))]
pub(super) async fn delete_plane(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Id(id): Id,
) -> Result<(StatusCode, Json<DataPlane>), Refusal> {
    let mut tx = app.store.begin().await?;
    let mut plane = tx.plane(&id).await?.ok_or_else(Refusal::not_found)?;
    let kafkas = tx.kafkas_on(&id).await?;
    if kafkas > 0 {
        let reason = format!("{kafkas} Kafkas are on it; drain it and delete them first");
        return Err(Refusal::new(Code::Conflict, reason));
    }
    if !plane.state().is_going() {
        let next = PlaneState::Deprovisioning;
        let because = ("ByHand", "deleted by an administrator");
        tx.change_state(DecisionKind::Remove, &mut plane, next, because).await?;
        plane.removed_by_hand = true;
        tx.save_plane(&plane).await?;
    }
    change.audit(&mut tx, StatusCode::ACCEPTED).await?;
    tx.commit().await?;
    app.wake.notify_waiters();
    Ok((StatusCode::ACCEPTED, Json(served(&plane))))
}

/// Whether a data plane is cordoned.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DrainRequest {
    /// `true` places no new Kafkas on it, `false` permits them again.
    draining: bool,
}

/// Cordon or uncordon a data plane.
#[utoipa::path(put, path = "/api/kafkas_mgmt/v1/admin/data_planes/{id}/drain", tag = "admin",
    params(("id" = String, Path)), request_body = DrainRequest,
    responses((status = 200, body = DataPlane), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 413, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn drain_plane(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Id(id): Id,
    Body(request): Body<DrainRequest>,
) -> Result<Json<DataPlane>, Refusal> {
    let mut tx = app.store.begin().await?;
    let mut plane = tx.plane(&id).await?.ok_or_else(Refusal::not_found)?;
    plane.draining = request.draining;
    tx.save_plane(&plane).await?;
    change.audit(&mut tx, StatusCode::OK).await?;
    tx.commit().await?;
    app.wake.notify_waiters();
    Ok(Json(served(&plane)))
}

/// A number of nodes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleRequest {
    /// The desired number.
    #[schema(minimum = 0, maximum = 10_000)]
    nodes: i64,
}

/// Scale a data plane. Its workload's minimum, as last reported, is the lower limit.
#[utoipa::path(put, path = "/api/kafkas_mgmt/v1/admin/data_planes/{id}/scale", tag = "admin",
    params(("id" = String, Path)), request_body = ScaleRequest,
    responses((status = 200, body = DataPlane), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 409, body = Error),
        (status = 413, body = Error), (status = 429, body = Error)))]
pub(super) async fn scale_plane(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Id(id): Id,
    Body(request): Body<ScaleRequest>,
) -> Result<Json<DataPlane>, Refusal> {
    let mut tx = app.store.begin().await?;
    let mut plane = tx.plane(&id).await?.ok_or_else(Refusal::not_found)?;
    if !(0..=NODES_MAX).contains(&request.nodes) {
        return Err(Refusal::new(Code::Fields, "nodes must be 0 to 10000"));
    }
    if plane.state().is_going() {
        return Err(Refusal::new(Code::Conflict, "the data plane is being deleted"));
    }
    let minimum = plane.report.as_ref().map_or(0, |report| i64::from(report.nodes[3]));
    if request.nodes < minimum {
        let reason = format!("the workload needs at least {minimum} nodes");
        return Err(Refusal::new(Code::Conflict, reason));
    }
    tx.decide(NewDecision {
        plane: Some(&id),
        region: None,
        kind: DecisionKind::Nodes,
        was: plane.nodes_wanted.map(|nodes| nodes.to_string()).unwrap_or_default(),
        becomes: request.nodes.to_string(),
        code: "ByHand",
        reason: "scaled by an administrator".to_owned(),
        dry_run: false,
    })
    .await?;
    plane.want_nodes(request.nodes, true);
    tx.save_plane(&plane).await?;
    change.audit(&mut tx, StatusCode::OK).await?;
    tx.commit().await?;
    app.wake.notify_waiters();
    Ok(Json(served(&plane)))
}

/// A decision.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServedDecision {
    id: String,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_plane_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    /// `state`, `nodes`, `create`, `remove`, `place`, `grow` or `hold`.
    kind: String,
    was: String,
    becomes: String,
    /// Why.
    reason: String,
    /// Whether it was only decided, because acts are disabled.
    dry_run: bool,
}

/// A page of decisions, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecisionList {
    kind: String,
    items: Vec<ServedDecision>,
}

fn history(decisions: Vec<Decision>) -> Json<DecisionList> {
    let items = decisions.into_iter().map(|one| ServedDecision {
        id: one.id,
        at: rfc3339(one.at),
        data_plane_id: one.plane,
        region: one.region,
        kind: one.kind,
        was: one.was,
        becomes: one.becomes,
        reason: one.reason,
        dry_run: one.dry_run,
    });
    Json(DecisionList { kind: "DecisionList".to_owned(), items: items.collect() })
}

/// List the decisions about a data plane, with reasons; also about a deleted one.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/data_planes/{id}/decisions", tag = "admin",
    params(("id" = String, Path)),
    responses((status = 200, body = DecisionList), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn plane_decisions(
    State(app): State<App>,
    _: Admin,
    Id(id): Id,
) -> Result<Json<DecisionList>, Refusal> {
    Ok(history(app.store.decisions(DecisionsAbout::Plane(&id), 1000).await?))
}

/// Filters decisions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct DecisionParams {
    /// A region, as PROVIDER/REGION; all decisions without one.
    region: String,
}

/// List the newest decisions, of a region or all.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/decisions", tag = "admin",
    params(DecisionParams),
    responses((status = 200, body = DecisionList), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_decisions(
    State(app): State<App>,
    _: Admin,
    Params(params): Params<DecisionParams>,
) -> Result<Json<DecisionList>, Refusal> {
    let about = match params.region.as_str() {
        "" => DecisionsAbout::Everything,
        // PostgreSQL has no text with a zero in it.
        region if region.contains('\0') => {
            return Err(Refusal::new(Code::Malformed, "region is not the name of a region"));
        }
        region => DecisionsAbout::Region(region),
    };
    Ok(history(app.store.decisions(about, 1000).await?))
}

/// Settings that can be changed at run time.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Decisions about nodes and data planes are recorded and not carried out.
    dry_run: bool,
}

/// Show the settings that can be changed at run time.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/settings", tag = "admin",
    responses((status = 200, body = Settings), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn get_settings(
    State(app): State<App>,
    _: Admin,
) -> Result<Json<Settings>, Refusal> {
    let dry_run = app.store.setting("dry_run").await?.as_deref() == Some("true");
    Ok(Json(Settings { dry_run }))
}

/// Change settings at run time.
#[utoipa::path(put, path = "/api/kafkas_mgmt/v1/admin/settings", tag = "admin",
    request_body = Settings,
    responses((status = 200, body = Settings), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 413, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn put_settings(
    State(app): State<App>,
    _: Admin,
    change: Change,
    Body(settings): Body<Settings>,
) -> Result<Json<Settings>, Refusal> {
    let mut tx = app.store.begin().await?;
    tx.set("dry_run", if settings.dry_run { "true" } else { "false" }).await?;
    change.audit(&mut tx, StatusCode::OK).await?;
    tx.commit().await?;
    Ok(Json(settings))
}

/// An entry of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditEntry {
    at: String,
    subject: String,
    method: String,
    path: String,
    status: i64,
}

/// A page of the audit log, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditList {
    kind: String,
    items: Vec<AuditEntry>,
}

/// List the audit log.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/audit", tag = "admin",
    responses((status = 200, body = AuditList), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn audit_log(
    State(app): State<App>,
    _: Admin,
) -> Result<Json<AuditList>, Refusal> {
    let entries = app.store.audit_log(1000).await?.into_iter();
    let items = entries.map(|(at, subject, method, path, status)| AuditEntry {
        at: rfc3339(at),
        subject,
        method,
        path,
        status,
    });
    Ok(Json(AuditList { kind: "AuditList".to_owned(), items: items.collect() }))
}
