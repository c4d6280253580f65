//! The REST API: agents, users, administrators.
//!
//! The routes and their description are one list, which is served as OpenAPI 3.1 at
//! `/api/kafkas_mgmt/v1/openapi`.

mod admin;
mod agent;
mod callers;
mod credentials;
mod error;
mod kafkas;
mod public;
mod quotas;
mod regions;
mod report;
mod server;
mod tokens;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::sync::Notify;
use utoipa::OpenApi as _;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use server::serve;

pub use agent::{
    AgentConfig, AgentSpec, DataPlaneKafkaStatus, KafkaCapacity, KafkaSpec, ManagedKafka,
    ManagedKafkaList, MaxNodes, Metadata, Net, OwnerCredential, PoolSpec, Versions,
};
pub(crate) use report::NODES_SUITABLE;
pub use report::{AgentReport, Amounts, Condition, FieldErrors, Nodes, Resize};

use crate::auth::Authenticator;
use crate::config::Config;
use crate::facts::NodeRules;
use crate::limits::Limiter;
use crate::metrics::Counters;
use crate::reports::ReportWriter;
use crate::store::Store;
use error::{Code, Refusal};

/// Where everything is.
pub const BASE: &str = "/api/kafkas_mgmt/v1";

/// No request takes longer; whoever waits for longer has gone away.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// Interval of the checks of the database.
const PING_PAUSE: Duration = Duration::from_secs(5);

/// The content type of metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What handlers share.
#[derive(Debug, Clone)]
pub struct App {
    store: Store,
    reports: ReportWriter,
    auth: Arc<Authenticator>,
    limiter: Arc<Limiter>,
    config: Arc<Config>,
    /// Wakes the workers.
    wake: Arc<Notify>,
    counters: Counters,
    /// When the database last answered, and whether it did.
    pinged: Arc<tokio::sync::Mutex<Option<(Instant, bool)>>>,
}

impl App {
    /// What handlers share.
    #[must_use]
    pub fn new(store: Store, auth: Authenticator, config: Arc<Config>, wake: Arc<Notify>) -> Self {
        let rules = NodeRules::from(&*config);
        Self {
            reports: ReportWriter::start(store.clone(), rules),
            store,
            auth: Arc::new(auth),
            limiter: Arc::new(Limiter::new(config.limits.requests_per_second, config.limits.burst)),
            config,
            wake,
            counters: Counters::default(),
            pinged: Arc::default(),
        }
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Gregor fleet manager", description = "Kafkas on data planes that grow and shrink"),
    components(schemas(error::Error)),
    security(("Bearer" = []))
)]
struct Description;

/// The API and its description.
fn api() -> (Router<App>, utoipa::openapi::OpenApi) {
    let (router, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(agent::get_agent))
        .routes(routes!(agent::put_status))
        .routes(routes!(agent::get_kafkas))
        .routes(routes!(agent::put_kafkas_status))
        .routes(routes!(public::list_kafkas, public::create_kafka))
        .routes(routes!(public::get_kafka, public::delete_kafka))
        .routes(routes!(credentials::create_credentials))
        .routes(routes!(public::list_cloud_providers))
        .routes(routes!(public::list_regions))
        .routes(routes!(public::list_instance_types))
        .routes(routes!(public::list_errors))
        .routes(routes!(public::get_error))
        .routes(routes!(kafkas::list_all_kafkas))
        .routes(routes!(kafkas::get_any_kafka))
        .routes(routes!(admin::list_planes, admin::create_plane))
        .routes(routes!(admin::get_plane, admin::delete_plane))
        .routes(routes!(admin::drain_plane))
        .routes(routes!(admin::scale_plane))
        .routes(routes!(regions::list_regions))
        .routes(routes!(quotas::list_quotas, quotas::put_quota, quotas::delete_quota))
        .routes(routes!(tokens::list_tokens, tokens::create_token))
        .routes(routes!(tokens::revoke_token))
        .routes(routes!(admin::plane_decisions))
        .routes(routes!(admin::list_decisions))
        .routes(routes!(admin::get_settings, admin::put_settings))
        .routes(routes!(admin::audit_log))
        .split_for_parts();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
    let components = description.components.get_or_insert_default();
    components.add_security_scheme("Bearer", SecurityScheme::Http(scheme));
    (router, description)
}

/// The description of the API, as it is served.
#[must_use]
pub fn description() -> utoipa::openapi::OpenApi {
    api().1
}

/// All routes.
pub fn router(app: App) -> Router {
    let (api, description) = api();
    let text = description.to_json().unwrap_or_default();
    let serve =
        move || async move { ([("content-type", "application/json")], text).into_response() };
    let limit = app.config.limits.body_bytes;
    api.route(&format!("{BASE}/openapi"), get(serve))
        .route("/healthz", get(|| async { StatusCode::OK }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .fallback(|| async { Refusal::not_found() })
        .method_not_allowed_fallback(|| async {
            Refusal::new(Code::NotImplemented, Code::NotImplemented.meaning())
        })
        .layer(DefaultBodyLimit::max(limit))
        .layer(middleware::from_fn_with_state(app.clone(), audit))
        .layer(middleware::from_fn(in_time))
        .with_state(app)
}

/// Readiness: whether the database answers. The database is checked at an interval, not per request.
async fn ready(State(app): State<App>) -> StatusCode {
    let mut pinged = app.pinged.lock().await;
    let answers = match *pinged {
        Some((at, answers)) if at.elapsed() < PING_PAUSE => answers,
        _ => {
            let answers = app.store.ping().await.is_ok();
            *pinged = Some((Instant::now(), answers));
            answers
        }
    };
    if answers { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Metrics of the fleet, for administrators only: they show its size.
async fn metrics(State(app): State<App>, _: callers::Admin) -> Result<Response, Refusal> {
    let text = app.counters.encode(&app.store).await?;
    Ok(([("content-type", OPEN_METRICS)], text).into_response())
}

async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let body = Json(Code::General.body("the request timed out"));
            (StatusCode::GATEWAY_TIMEOUT, body).into_response()
        }
    }
}

/// What an administrator reads, and what anybody is refused, is remembered with its answer. Changes write their own entries
/// ([`callers::Change`]).
async fn audit(State(app): State<App>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let by_admin = path.starts_with(&format!("{BASE}/admin/"));
    let by_agent = path.starts_with(&format!("{BASE}/agent-clusters/"));
    if by_agent || !(by_admin || method != Method::GET) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let subject = callers::subject(&parts, &app).await;
    let response = next.run(Request::from_parts(parts, body)).await;
    // Strangers must not be able to fill the log, nor callers who ask too often; they were refused.
    let Some(subject) = subject else { return response };
    let refused = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS];
    // A change that was made is written with it, in one transaction.
    let is_written = method != Method::GET && response.status().is_success();
    if is_written || refused.contains(&response.status()) {
        return response;
    }
    let path: String = path.chars().take(500).collect();
    let status = response.status().as_u16();
    if let Err(error) = app.store.audit(&subject, method.as_str(), &path, status).await {
        tracing::error!(error = %crate::chain(&error), "the audit log was not written");
    }
    response
}

/// Times as they are served.
fn rfc3339(ms: i64) -> String {
    use time::format_description::well_known::Rfc3339;
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    at.ok().and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default()
}
