//! Kafkas of all organisations, for administrators: where they are, and what they wait for.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::callers::{Admin, Id, Params};
use super::error::{Code, Error, Refusal};
use super::public::ListParams;
use super::{App, BASE, rfc3339};
use crate::store::{Kafka, KafkaFilter, parse_order, parse_search};

/// A Kafka, as administrators see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdminKafka {
    id: String,
    kind: String,
    href: String,
    name: String,
    owner: String,
    organisation: String,
    status: String,
    /// Why it failed, or why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    cloud_provider: String,
    region: String,
    multi_az: bool,
    instance_type: String,
    size_id: String,
    /// Data plane that it is placed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_plane_id: Option<String>,
    /// Data plane that grows for it while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    growing_data_plane_id: Option<String>,
    created_at: String,
    updated_at: String,
}

/// A page of Kafkas.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdminKafkaList {
    kind: String,
    page: i64,
    size: i64,
    total: i64,
    items: Vec<AdminKafka>,
}

fn served(kafka: &Kafka) -> AdminKafka {
    AdminKafka {
        id: kafka.id.clone(),
        kind: "AdminKafka".to_owned(),
        href: format!("{BASE}/admin/kafkas/{}", kafka.id),
        name: kafka.name.clone(),
        owner: kafka.owner.clone(),
        organisation: kafka.organisation.clone(),
        status: kafka.status().to_string(),
        reason: (!kafka.reason.is_empty()).then(|| kafka.reason.clone()),
        cloud_provider: kafka.cloud_provider.clone(),
        region: kafka.region.clone(),
        multi_az: kafka.multi_az,
        instance_type: kafka.instance_type.clone(),
        size_id: kafka.size_id.clone(),
        data_plane_id: kafka.plane_id.clone(),
        growing_data_plane_id: kafka.growing_plane_id.clone(),
        created_at: rfc3339(kafka.created_at),
        updated_at: rfc3339(kafka.updated_at),
    }
}

/// List the Kafkas of all organisations.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/kafkas", tag = "admin", params(ListParams),
    responses((status = 200, body = AdminKafkaList), (status = 400, body = Error),
        (status = 401, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_all_kafkas(
    State(app): State<App>,
    _: Admin,
    Params(params): Params<ListParams>,
) -> Result<Json<AdminKafkaList>, Refusal> {
    let (offset, limit) = params.window()?;
    let refuse = |error: crate::store::SearchError| Refusal::new(Code::Search, error.to_string());
    let filter = KafkaFilter {
        organisation: None,
        search: parse_search(&params.search).map_err(refuse)?,
        order: parse_order(&params.order_by).map_err(refuse)?,
        offset,
        limit,
    };
    let found = app.store.kafkas(&filter).await?;
    Ok(Json(AdminKafkaList {
        kind: "AdminKafkaList".to_owned(),
        page: params.page,
        size: i64::try_from(found.items.len()).unwrap_or(0),
        total: found.total,
        items: found.items.iter().map(served).collect(),
    }))
}

/// Get a Kafka of any organisation.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/admin/kafkas/{id}", tag = "admin",
    params(("id" = String, Path)),
    responses((status = 200, body = AdminKafka), (status = 401, body = Error),
        (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn get_any_kafka(
    State(app): State<App>,
    _: Admin,
    Id(id): Id,
) -> Result<Json<AdminKafka>, Refusal> {
    let kafka = app.store.kafka(&id).await?;
    Ok(Json(served(&kafka.ok_or_else(Refusal::not_found)?)))
}
