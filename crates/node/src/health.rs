//! The node's HTTP health endpoint.
//!
//! | path | answer |
//! |---|---|
//! | `/live` | 200 while the node starts or Kafka runs; 503 if its JVM makes no progress |
//! | `/ready` | 200 or 503, with the reason, as JSON |
//! | `/broker-state` | state of the broker and what is left to recover, as JSON; 404 without a broker. While Kafka does not respond in time: log recovery, if that was the last reported state |
//! | `/directory-id` | id of the metadata log directory, as text; 404 before it is formatted |
//! | `/metrics` | metrics of the JMX exporter in Kafka's JVM |
//! | `/v1/broker-state`, `/v1/ready` | the same, in the format of Strimzi's agent |
//!
//! If TLS is enabled, the plain address serves only `/live` and `/ready`, for probes.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use control::node::Roles;
use control::node::liveness::{self, Interval, Liveness};
use control::node::readiness::{self, BrokerState, RaftState, Readiness};
use model::DirectoryId;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::agent::{Agent, Said};
use crate::disks;
use crate::process::Process;
use crate::pulse::Pulse;
use crate::signs::Signs;
use crate::tls::{TlsFiles, TlsListener};

/// How long to wait for a liveness response in each interval: shorter than the interval.
const SIGN_WAIT: Duration = Duration::from_secs(4);

/// Listen addresses of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Without TLS.
    pub http: SocketAddr,
    /// With TLS, for clients with a certificate.
    pub https: Option<(SocketAddr, TlsFiles)>,
    /// The JMX exporter in Kafka's JVM. It is unauthenticated: loopback only.
    pub agent: SocketAddr,
    /// The exporter with the user's rules, if configured.
    pub metrics: Option<SocketAddr>,
}

/// State behind the health endpoint.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) roles: Roles,
    pub(crate) beat_ms: Option<u64>,
    pub(crate) metadata_dir: PathBuf,
    pub(crate) agent: Agent,
    pub(crate) pulse: Pulse,
    pub(crate) stopping: AtomicBool,
    /// One permit: if a disk hangs, at most one thread waits for it.
    pub(crate) disk: Arc<Semaphore>,
}

impl Health {
    async fn ask(&self) -> Option<Said> {
        let asked = self.agent.ask().await;
        // A late page counts too: a broker that has been running stays so.
        let last = self.agent.last().and_then(|heard| heard.said.broker);
        if last.is_some_and(BrokerState::has_served) {
            self.pulse.serves();
        }
        match asked {
            Ok(page) => Some(Said::read(&page)),
            Err(error) => {
                tracing::debug!("{error}");
                None
            }
        }
    }

    /// The last reported state, if it still holds.
    fn recovers(&self) -> Option<Said> {
        let last = self.agent.last()?;
        let Said { logs_to_recover, segments_to_recover, .. } = last.said;
        let age = last.at.elapsed();
        readiness::still_recovers(logs_to_recover, segments_to_recover, age).then_some(last.said)
    }

    /// Whether Kafka's JVM makes progress.
    pub(crate) fn liveness(&self) -> Liveness {
        self.pulse.liveness(self.stopping.load(Ordering::Relaxed))
    }

    /// Probes a started JVM for liveness until the program ends.
    pub(crate) async fn follow_pulse(self: Arc<Self>, jvm: Process) {
        let mut ticks = tokio::time::interval(liveness::ASK_INTERVAL);
        // After a pause there is one interval, and not all that were missed.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signs = Signs::new(self.agent.address());
        loop {
            ticks.tick().await;
            let interval = interval(signs.hear(SIGN_WAIT).await, &jvm).await;
            self.pulse.enter(interval, self.stopping.load(Ordering::Relaxed)).await;
        }
    }

    /// The id of the metadata log directory, read on a blocking thread: a disk that hangs must not delay
    /// probes. The client sets the timeout.
    async fn directory_id(&self) -> io::Result<Option<DirectoryId>> {
        let permit = Arc::clone(&self.disk).acquire_owned().await.map_err(io::Error::other)?;
        let dir = self.metadata_dir.clone();
        let read = tokio::task::spawn_blocking(move || {
            let id = disks::directory_id(&dir);
            drop(permit);
            id
        });
        read.await.map_err(io::Error::other)?
    }

    fn readiness(&self, said: Said) -> Readiness {
        readiness::decide(&readiness::Facts {
            roles: self.roles,
            stopping: self.stopping.load(Ordering::Relaxed),
            broker: said.broker,
            controller: said.controller,
            beat_ms: self.beat_ms,
        })
    }
}

/// Result of a liveness interval. A JVM whose process cannot be read may be blocked.
async fn interval(is_answered: bool, jvm: &Process) -> Interval {
    if is_answered {
        return Interval::Answered;
    }
    match jvm.is_blocked().await {
        Ok(false) => Interval::Silent,
        Ok(true) => {
            tracing::warn!(
                "Kafka's JVM does not respond: it waits for storage or has no file descriptors left"
            );
            Interval::Blocked
        }
        Err(error) => {
            tracing::warn!(%error, "Kafka's JVM does not respond, and its process cannot be inspected");
            Interval::Blocked
        }
    }
}

/// Serves without TLS.
pub(crate) fn serve_plain(listener: TcpListener, health: Arc<Health>, everything: bool) {
    let router = if everything { all(health) } else { probes(health) };
    tokio::spawn(async move { report(axum::serve(listener, router).await) });
}

/// Serves clients with a certificate.
pub(crate) fn serve_tls(listener: TlsListener, health: Arc<Health>) {
    let router = all(health);
    tokio::spawn(async move { report(axum::serve(listener, router).await) });
}

fn report(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(%error, "the health endpoint stopped");
    }
}

fn probes(health: Arc<Health>) -> Router {
    Router::new().route("/live", get(live)).route("/ready", get(ready)).with_state(health)
}

fn all(health: Arc<Health>) -> Router {
    let more = Router::new()
        .route("/broker-state", get(broker_state))
        .route("/directory-id", get(directory_id))
        .route("/metrics", get(metrics))
        .route("/v1/broker-state", get(v1_broker_state))
        .route("/v1/broker-state/", get(v1_broker_state))
        .route("/v1/ready", get(v1_ready))
        .route("/v1/ready/", get(v1_ready))
        .with_state(Arc::clone(&health));
    probes(health).merge(more)
}

/// Without a request to the JVM: if it hangs, the probe would too. The node program ends with Kafka.
async fn live(State(health): State<Arc<Health>>) -> Response {
    match health.liveness() {
        Liveness::Live => "live\n".into_response(),
        Liveness::Hung { unanswered } => {
            let silent = liveness::ASK_INTERVAL * unanswered;
            let why = format!("Kafka's JVM has not responded for {} s\n", silent.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

async fn ready(State(health): State<Arc<Health>>) -> Response {
    let said = health.ask().await.unwrap_or_default();
    let (status, awaits) = match health.readiness(said) {
        Readiness::Ready => (StatusCode::OK, None),
        Readiness::NotReady(awaited) => {
            (StatusCode::SERVICE_UNAVAILABLE, Some(awaited.to_string()))
        }
    };
    let body = json!({
        "ready": awaits.is_none(),
        "awaits": awaits,
        "broker": said.broker.map(|state| state.name()),
        "controller": controller(&health, &said),
    });
    answer(status, &body)
}

/// The node's view of the quorum; a broker reports itself as an observer.
fn controller(health: &Health, said: &Said) -> Value {
    let Some(state) = said.controller.state else { return Value::Null };
    let state = match state {
        RaftState::Leader => "leader",
        RaftState::Follower => "follower",
        RaftState::Observer => "observer",
        RaftState::Leaderless => "leaderless",
    };
    let lag = said.controller.applied_lag_ms.filter(|_| health.roles.is_controller());
    json!({
        "state": state,
        "leader": said.controller.leader.map(model::NodeId::get),
        "highWatermark": said.controller.high_watermark,
        "appliedLagMs": lag,
    })
}

async fn broker_state(State(health): State<Arc<Health>>) -> Response {
    if !health.roles.is_broker() {
        return (StatusCode::NOT_FOUND, "this node is not a broker\n").into_response();
    }
    let said = health.ask().await.or_else(|| health.recovers()).unwrap_or_default();
    let Some(state) = said.broker else { return no_answer() };
    let body = json!({
        "state": state.name(),
        "number": state.number(),
        "remainingLogsToRecover": said.logs_to_recover,
        "remainingSegmentsToRecover": said.segments_to_recover,
    });
    answer(StatusCode::OK, &body)
}

async fn directory_id(State(health): State<Arc<Health>>) -> Response {
    match health.directory_id().await {
        Ok(Some(id)) => format!("{id}\n").into_response(),
        Ok(None) => {
            (StatusCode::NOT_FOUND, "the metadata log directory is not formatted\n").into_response()
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the directory id");
            (StatusCode::SERVICE_UNAVAILABLE, "cannot read the metadata log directory\n")
                .into_response()
        }
    }
}

async fn metrics(State(health): State<Arc<Health>>) -> Response {
    match health.agent.ask().await {
        Ok(page) => {
            let format = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, format)], page.to_string()).into_response()
        }
        Err(error) => {
            tracing::debug!("{error}");
            no_answer()
        }
    }
}

/// Compatible with Strimzi's agent: 404 as long as there is no state, which is always for a controller.
async fn v1_broker_state(State(health): State<Arc<Health>>) -> Response {
    let said = health.ask().await.unwrap_or_default();
    let Some(state) = said.broker else { return StatusCode::NOT_FOUND.into_response() };
    let mut body = json!({ "brokerState": state.number() });
    if state == BrokerState::Recovery {
        body["recoveryState"] = json!({
            "remainingLogsToRecover": said.logs_to_recover,
            "remainingSegmentsToRecover": said.segments_to_recover,
        });
    }
    answer(StatusCode::OK, &body)
}

/// Compatible with Strimzi's agent: a broker that is stopping is still ready.
async fn v1_ready(State(health): State<Arc<Health>>) -> Response {
    let said = health.ask().await.unwrap_or_default();
    let status = match said.broker.map(BrokerState::number) {
        None => StatusCode::NOT_FOUND,
        Some(127) => StatusCode::SERVICE_UNAVAILABLE,
        Some(number) if number >= BrokerState::Running.number() => StatusCode::NO_CONTENT,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    status.into_response()
}

fn no_answer() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "Kafka has not reported its state yet\n").into_response()
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
