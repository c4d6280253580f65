//! What administrators ask about regions: how many data planes they have, and whether they may get another.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::callers::Admin;
use super::error::{Error, Refusal};
use super::{App, rfc3339};

/// A region of a cloud provider.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FleetRegion)]
pub(super) struct Region {
    cloud_provider: String,
    id: String,
    /// The provider of its data planes.
    provider_type: String,
    /// The largest number of data planes that are created automatically.
    data_planes_max: u64,
    /// Number of data planes by status.
    data_planes: BTreeMap<String, u64>,
    /// Number of Kafkas that wait for capacity.
    kafkas_waiting: u64,
    /// Why it does not get another data plane although it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_since: Option<String>,
}

/// All regions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FleetRegionList)]
pub(super) struct RegionList {
    kind: String,
    items: Vec<Region>,
}

/// List the regions, with their data planes and whether they may get another one.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/regions", tag = "admin",
    responses((status = 200, body = RegionList), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_regions(
    State(app): State<App>,
    _: Admin,
) -> Result<Json<RegionList>, Refusal> {
    let planes = app.store.plane_counts().await?;
    let waiting = app.store.demand_by_region().await?;
    let held = app.store.held_regions().await?;
    let mut items = Vec::new();
    for provider in &app.config.cloud_providers {
        for region in &provider.regions {
            let here = planes
                .iter()
                .filter(|one| one.cloud_provider == provider.id && one.region == region.id);
            let mut by_status = BTreeMap::new();
            for plane in here {
                *by_status.entry(plane.state.to_string()).or_default() += plane.planes;
            }
            let held = held
                .iter()
                .find(|one| one.cloud_provider == provider.id && one.region == region.id);
            let waiting = waiting
                .iter()
                .find(|one| one.cloud_provider == provider.id && one.region == region.id);
            items.push(Region {
                cloud_provider: provider.id.clone(),
                id: region.id.clone(),
                provider_type: region.provider.clone(),
                data_planes_max: region.planes_max,
                data_planes: by_status,
                kafkas_waiting: waiting.map_or(0, |one| one.kafkas),
                held: held.map(|one| one.held.clone()),
                held_since: held.map(|one| rfc3339(one.since)),
            });
        }
    }
    Ok(Json(RegionList { kind: "RegionList".to_owned(), items }))
}
