//! What people ask: Kafkas, and what there is to choose from.

use api::names::ORGANISATION_LABEL;
use axum::Json;
use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use fleet_control::{Allowance, Holder, KafkaEvent, admit};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::callers::{Body, Change, Id, Params, User};
use super::error::{CODES, Code, Error, Refusal};
use super::{App, BASE, rfc3339};
use crate::store::{Kafka, KafkaFilter, NewKafka, Tx, parse_order, parse_search};
use crate::tenants::organisation_label;

/// The largest number of items per page.
const PAGE_MAX: i64 = 65_500;

/// The longest name of a Kafka.
const NAME_MAX: usize = 32;

/// A Kafka to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KafkaRequestPayload)]
pub(super) struct KafkaRequestPayload {
    /// Lower-case letters, digits and dashes, starting with a letter.
    #[schema(min_length = 1, max_length = 32, pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    name: String,
    /// The cloud provider; the first configured one by default.
    #[serde(default)]
    cloud_provider: Option<String>,
    /// The region; the first configured one of the provider by default.
    #[serde(default)]
    region: Option<String>,
    /// The instance type and size, such as `standard.x1`; the first configured ones by default.
    #[serde(default)]
    plan: Option<String>,
}

/// A Kafka.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KafkaRequest {
    id: String,
    kind: String,
    href: String,
    status: String,
    cloud_provider: String,
    multi_az: bool,
    region: String,
    owner: String,
    name: String,
    /// Bootstrap address for clients, once it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    bootstrap_server_host: Option<String>,
    created_at: String,
    updated_at: String,
    /// Why it failed, or why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The certificate authority that clients have to trust, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_certificate: Option<String>,
    /// Label of the namespaces whose pods may connect.
    client_namespace_label: String,
    instance_type: String,
    size_id: String,
}

/// A page of Kafkas.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KafkaRequestList {
    kind: String,
    page: i64,
    size: i64,
    total: i64,
    items: Vec<KafkaRequest>,
}

/// Filters and sorts a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Number of the page, starting at 1.
    #[param(minimum = 1, maximum = 2_147_483_647_i64)]
    pub(super) page: i64,
    /// Number of items per page.
    #[param(minimum = 1, maximum = 65_500)]
    size: i64,
    /// A filter, for example `name LIKE 'a%' AND region = 'us-east-1'`.
    pub(super) search: String,
    /// The order, for example `name asc, created_at desc`.
    pub(super) order_by: String,
}

impl Default for ListParams {
    fn default() -> Self {
        Self { page: 1, size: 100, search: String::new(), order_by: String::new() }
    }
}

impl ListParams {
    /// How many are skipped, and how many are wanted.
    pub(super) fn window(&self) -> Result<(i64, i64), Refusal> {
        let size = if self.size < 0 || self.size > PAGE_MAX { PAGE_MAX } else { self.size };
        let offset = (self.page.max(1) - 1).checked_mul(size);
        match (self.page >= 1 && size >= 1, offset) {
            (true, Some(offset)) => Ok((offset, size)),
            _ => Err(Refusal::new(Code::Malformed, "page and size must be 1 or more")),
        }
    }
}

/// Synchronous requests are not supported.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct AsyncParams {
    /// Must be true: requests are asynchronous only.
    #[serde(rename = "async")]
    #[param(rename = "async")]
    is_async: bool,
}

impl AsyncParams {
    fn check(&self) -> Result<(), Refusal> {
        match self.is_async {
            true => Ok(()),
            false => Err(Refusal::new(Code::Synchronous, Code::Synchronous.meaning())),
        }
    }
}

fn served(kafka: &Kafka) -> KafkaRequest {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    KafkaRequest {
        id: kafka.id.clone(),
        kind: "Kafka".to_owned(),
        href: format!("{BASE}/kafkas/{}", kafka.id),
        status: kafka.status().to_string(),
        cloud_provider: kafka.cloud_provider.clone(),
        multi_az: kafka.multi_az,
        region: kafka.region.clone(),
        owner: kafka.owner.clone(),
        name: kafka.name.clone(),
        bootstrap_server_host: some(&kafka.bootstrap),
        created_at: rfc3339(kafka.created_at),
        updated_at: rfc3339(kafka.updated_at),
        failed_reason: some(&kafka.reason),
        version: some(&kafka.version),
        ca_certificate: some(&kafka.ca_certificate),
        client_namespace_label: format!(
            "{ORGANISATION_LABEL}={}",
            organisation_label(&kafka.organisation)
        ),
        instance_type: kafka.instance_type.clone(),
        size_id: kafka.size_id.clone(),
    }
}

/// List the Kafkas of the organisation.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/kafkas", tag = "public", params(ListParams),
    responses((status = 200, body = KafkaRequestList), (status = 400, body = Error),
        (status = 401, body = Error), (status = 403, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_kafkas(
    State(app): State<App>,
    user: User,
    Params(params): Params<ListParams>,
) -> Result<Json<KafkaRequestList>, Refusal> {
    let (offset, limit) = params.window()?;
    let refuse = |error: crate::store::SearchError| Refusal::new(Code::Search, error.to_string());
    let filter = KafkaFilter {
        organisation: Some(user.organisation),
        search: parse_search(&params.search).map_err(refuse)?,
        order: parse_order(&params.order_by).map_err(refuse)?,
        offset,
        limit,
    };
    let found = app.store.kafkas(&filter).await?;
    Ok(Json(KafkaRequestList {
        kind: "KafkaRequestList".to_owned(),
        page: params.page,
        size: i64::try_from(found.items.len()).unwrap_or(0),
        total: found.total,
        items: found.items.iter().map(served).collect(),
    }))
}

/// Create a Kafka. The request is accepted at once, and the Kafka is placed on a data plane afterwards.
#[utoipa::path(post, path = "/api/kafkas_mgmt/v1/kafkas", tag = "public", params(AsyncParams),
    request_body = KafkaRequestPayload,
    responses((status = 202, body = KafkaRequest), (status = 400, body = Error),
        (status = 401, body = Error), (status = 403, body = Error), (status = 409, body = Error),
        (status = 413, body = Error), (status = 429, body = Error)))]
pub(super) async fn create_kafka(
    State(app): State<App>,
    user: User,
    change: Change,
    Params(params): Params<AsyncParams>,
    Body(payload): Body<KafkaRequestPayload>,
) -> Result<(StatusCode, Json<KafkaRequest>), Refusal> {
    params.check()?;
    check_name(&payload.name)?;
    let new = wanted(&app, user, &payload)?;
    let taken = || {
        let reason = format!("Kafka cluster name \"{}\" is already used", payload.name);
        Refusal::new(Code::DuplicateName, reason)
    };
    let mut tx = app.store.begin().await?;
    check_quotas(&app, &mut tx, &new).await?;
    let id = tx.add_kafka(&new).await?.ok_or_else(taken)?;
    change.audit(&mut tx, StatusCode::ACCEPTED).await?;
    tx.commit().await?;
    app.wake.notify_waiters();
    // It may have been deleted again by now.
    let kafka = app.store.kafka(&id).await?.ok_or_else(Refusal::not_found)?;
    Ok((StatusCode::ACCEPTED, Json(served(&kafka))))
}

/// Checks the quotas of the organisation and the user for one more Kafka of that size.
async fn check_quotas(app: &App, tx: &mut Tx, new: &NewKafka) -> Result<(), Refusal> {
    tx.hold_organisation(&new.organisation).await?;
    let quotas = &app.config.quotas;
    let mut allowances = Vec::new();
    for (owner, holder, default) in [
        ("", Holder::Organisation(new.organisation.clone()), quotas.organisation),
        (new.owner.as_str(), Holder::User(new.owner.clone()), quotas.user),
    ] {
        let set = tx.quota(&new.organisation, owner).await?;
        let used = tx.used(&new.organisation, owner).await?;
        allowances.push(Allowance { holder, quota: set.unwrap_or(default.into()), used });
    }
    admit(&allowances, new.need).map_err(|over| Refusal::new(Code::Quota, over.to_string()))
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::new(Code::MinimumLength, "name must have at least 1 character"));
    }
    if name.len() > NAME_MAX {
        return Err(Refusal::new(Code::MaximumLength, "name must have at most 32 characters"));
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || name.ends_with('-') || !name.chars().all(plain) {
        let reason = "name must match ^[a-z]([-a-z0-9]*[a-z0-9])?$";
        return Err(Refusal::new(Code::KafkaName, reason));
    }
    Ok(())
}

/// A value that is missing becomes the first configured one.
fn wanted(app: &App, user: User, payload: &KafkaRequestPayload) -> Result<NewKafka, Refusal> {
    let providers = &app.config.cloud_providers;
    let provider = match &payload.cloud_provider {
        Some(id) => providers.iter().find(|one| one.id == *id),
        None => providers.first(),
    };
    let no_provider = || Refusal::new(Code::Provider, Code::Provider.meaning());
    let provider = provider.ok_or_else(no_provider)?;
    let region = match &payload.region {
        Some(id) => provider.regions.iter().find(|one| one.id == *id),
        None => provider.regions.first(),
    };
    let region = region.ok_or_else(|| Refusal::new(Code::Region, Code::Region.meaning()))?;
    let (kind, size) = match payload.plan.as_deref() {
        Some(plan) => plan.split_once('.').ok_or_else(|| {
            Refusal::new(Code::Plan, "plan must be a type and a size, such as standard.x1")
        })?,
        None => {
            let first = app.config.instance_types.first();
            let size = first.and_then(|kind| Some((kind, kind.sizes.first()?)));
            let no_plan = || Refusal::new(Code::Plan, Code::Plan.meaning());
            let (kind, size) = size.ok_or_else(no_plan)?;
            (kind.id.as_str(), size.id.as_str())
        }
    };
    if !app.config.instance_types.iter().any(|one| one.id == kind) {
        return Err(Refusal::new(Code::InstanceType, Code::InstanceType.meaning()));
    }
    let found = app.config.size(kind, size);
    let found = found.ok_or_else(|| Refusal::new(Code::Plan, Code::Plan.meaning()))?;
    Ok(NewKafka {
        name: payload.name.clone(),
        owner: user.name,
        organisation: user.organisation,
        cloud_provider: provider.id.clone(),
        region: region.id.clone(),
        multi_az: found.multi_az,
        instance_type: kind.to_owned(),
        size_id: size.to_owned(),
        need: found.capacity(),
    })
}

/// Show a Kafka of the organisation.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/kafkas/{id}", tag = "public",
    params(("id" = String, Path)),
    responses((status = 200, body = KafkaRequest), (status = 401, body = Error),
        (status = 403, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn get_kafka(
    State(app): State<App>,
    user: User,
    Id(id): Id,
) -> Result<Json<KafkaRequest>, Refusal> {
    let kafka = app.store.kafka(&id).await?;
    let kafka = kafka.filter(|kafka| kafka.organisation == user.organisation);
    Ok(Json(served(&kafka.ok_or_else(Refusal::not_found)?)))
}

/// A Kafka of the user, or of the organisation that the user administers, held until the transaction ends.
pub(super) async fn owned(tx: &mut Tx, user: &User, id: &str) -> Result<Kafka, Refusal> {
    let kafka = tx.kafka(id).await?;
    let kafka = kafka.filter(|kafka| {
        kafka.organisation == user.organisation && (kafka.owner == user.name || user.is_org_admin)
    });
    kafka.ok_or_else(Refusal::not_found)
}

/// Delete a Kafka with all its data.
#[utoipa::path(delete, path = "/api/kafkas_mgmt/v1/kafkas/{id}", tag = "public",
    params(("id" = String, Path), AsyncParams),
    responses((status = 202, body = KafkaRequest), (status = 400, body = Error),
        (status = 401, body = Error), (status = 403, body = Error), (status = 404, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn delete_kafka(
    State(app): State<App>,
    user: User,
    change: Change,
    Id(id): Id,
    Params(params): Params<AsyncParams>,
) -> Result<(StatusCode, Json<KafkaRequest>), Refusal> {
    params.check()?;
    let mut tx = app.store.begin().await?;
    let mut kafka = owned(&mut tx, &user, &id).await?;
    if !kafka.status().is_going() {
        kafka.happens(KafkaEvent::DeletionRequested)?;
        tx.save_kafka(&kafka).await?;
    }
    change.audit(&mut tx, StatusCode::ACCEPTED).await?;
    tx.commit().await?;
    app.wake.notify_waiters();
    Ok((StatusCode::ACCEPTED, Json(served(&kafka))))
}

/// A list of choices.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChoiceList {
    kind: String,
    page: i64,
    size: i64,
    total: i64,
    items: Vec<Choice>,
}

/// A choice.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Choice {
    id: String,
    kind: String,
    display_name: String,
    enabled: bool,
    /// The sizes of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<SizeChoice>,
}

/// A size.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SizeChoice {
    id: String,
    total_max_connections: u64,
    max_partitions: u64,
    max_data_retention_size: u64,
    ingress_egress_throughput_per_sec: u64,
    multi_az: bool,
}

fn choices(kind: &str, items: Vec<Choice>) -> Json<ChoiceList> {
    let count = i64::try_from(items.len()).unwrap_or(0);
    Json(ChoiceList { kind: kind.to_owned(), page: 1, size: count, total: count, items })
}

fn choice(kind: &str, id: &str, display_name: &str) -> Choice {
    let display_name = if display_name.is_empty() { id } else { display_name }.to_owned();
    let (id, kind) = (id.to_owned(), kind.to_owned());
    Choice { id, kind, display_name, enabled: true, sizes: Vec::new() }
}

/// List the cloud providers.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/cloud_providers", tag = "public",
    responses((status = 200, body = ChoiceList), (status = 401, body = Error),
        (status = 403, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_cloud_providers(State(app): State<App>, _: User) -> Json<ChoiceList> {
    let items = app.config.cloud_providers.iter();
    let items = items.map(|one| choice("CloudProvider", &one.id, &one.display_name)).collect();
    choices("CloudProviderList", items)
}

/// List the regions of a cloud provider.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/cloud_providers/{id}/regions", tag = "public",
    params(("id" = String, Path)),
    responses((status = 200, body = ChoiceList), (status = 401, body = Error),
        (status = 403, body = Error), (status = 404, body = Error), (status = 429, body = Error)))]
pub(super) async fn list_regions(
    State(app): State<App>,
    _: User,
    Id(id): Id,
) -> Result<Json<ChoiceList>, Refusal> {
    let provider = app.config.cloud_providers.iter().find(|one| one.id == id);
    let regions = &provider.ok_or_else(Refusal::not_found)?.regions;
    let items = regions.iter().map(|one| choice("CloudRegion", &one.id, &one.display_name));
    Ok(choices("CloudRegionList", items.collect()))
}

/// List the instance types and sizes of Kafkas in a region.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/instance_types/{cloud_provider}/{cloud_region}",
    tag = "public",
    params(("cloud_provider" = String, Path), ("cloud_region" = String, Path)),
    responses((status = 200, body = ChoiceList), (status = 400, body = Error),
        (status = 401, body = Error), (status = 403, body = Error), (status = 404, body = Error),
        (status = 429, body = Error)))]
pub(super) async fn list_instance_types(
    State(app): State<App>,
    _: User,
    params: RawPathParams,
) -> Result<Json<ChoiceList>, Refusal> {
    let param = |name| params.iter().find(|(one, _)| *one == name).map_or("", |(_, value)| value);
    if app.config.region(param("cloud_provider"), param("cloud_region")).is_none() {
        return Err(Refusal::not_found());
    }
    let items = app.config.instance_types.iter().map(|kind| {
        let sizes = kind.sizes.iter().map(|size| SizeChoice {
            id: size.id.clone(),
            total_max_connections: size.connections,
            max_partitions: size.partitions,
            max_data_retention_size: size.capacity().retention_bytes,
            ingress_egress_throughput_per_sec: size.capacity().throughput_bytes,
            multi_az: size.multi_az,
        });
        Choice { sizes: sizes.collect(), ..choice("InstanceType", &kind.id, &kind.display_name) }
    });
    Ok(choices("InstanceTypeList", items.collect()))
}

/// All errors of the API.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorList {
    kind: String,
    page: i64,
    size: i64,
    total: i64,
    items: Vec<Error>,
}

/// List the errors of the API.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/errors", tag = "public",
    responses((status = 200, body = ErrorList)), security(()))]
pub(super) async fn list_errors() -> Json<ErrorList> {
    let items: Vec<_> = CODES.iter().map(|code| code.body(code.meaning())).collect();
    let count = i64::try_from(items.len()).unwrap_or(0);
    Json(ErrorList { kind: "ErrorList".to_owned(), page: 1, size: count, total: count, items })
}

/// Show an error of the API.
#[utoipa::path(get, path = "/api/kafkas_mgmt/v1/errors/{id}", tag = "public",
    params(("id" = String, Path)),
    responses((status = 200, body = Error), (status = 404, body = Error)), security(()))]
pub(super) async fn get_error(Id(id): Id) -> Result<Json<Error>, Refusal> {
    let code = CODES.into_iter().find(|code| (*code as u16).to_string() == id);
    let code = code.ok_or_else(Refusal::not_found)?;
    Ok(Json(code.body(code.meaning())))
}
