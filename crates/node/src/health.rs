//! Tells over HTTP how the node is.
//!
//! | path | answer |
//! |---|---|
//! | `/live` | 200 while the node starts or Kafka runs; 503 if its JVM makes no progress |
//! | `/ready` | 200 or 503, and why, in JSON |
//! | `/broker-state` | the state of the broker and what is left to recover, in JSON; 404 without a broker. While Kafka does not answer in time: that it recovers its logs, if it said so last |
//! | `/directory-id` | the id of the metadata log directory, as text; 404 before it is formatted |
//! | `/metrics` | what the agent in Kafka's JVM shows |
//! | `/v1/broker-state`, `/v1/ready` | the same as Strimzi's agent says it |
//!
//! Where there is TLS, the plain address tells no more than `/live` and `/ready`, for probes.

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

/// How long a sign of life is awaited in each interval: below the interval.
const SIGN_WAIT: Duration = Duration::from_secs(4);

/// Where a node listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Without TLS.
    pub http: SocketAddr,
    /// With TLS, for clients with a certificate.
    pub https: Option<(SocketAddr, TlsFiles)>,
    /// Where the agent in Kafka's JVM listens. It has no protection of its own: loopback.
    pub agent: SocketAddr,
    /// Where the exporter with the user's rules listens, if the user asks for one.
    pub metrics: Option<SocketAddr>,
}

/// What is told, and whom to ask for it.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) roles: Roles,
    pub(crate) beat_ms: Option<u64>,
    pub(crate) metadata_dir: PathBuf,
    pub(crate) agent: Agent,
    pub(crate) pulse: Pulse,
    pub(crate) stopping: AtomicBool,
    /// One permit: a disk that hangs may keep one thread waiting, and not one for every question.
    pub(crate) disk: Arc<Semaphore>,
}

impl Health {
    async fn ask(&self) -> Option<Said> {
        let asked = self.agent.ask().await;
        // Also from a page that came too late: what has served once has.
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

    /// What the broker said last, if it is to be taken for what it would say now.
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

    /// Asks a JVM that was started for signs of life, for as long as the program runs.
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

    /// The id of the metadata log directory. The disk is read on a thread of its own: one that hangs must not keep the
    /// probes waiting. How long to wait is left to the client.
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

/// What was heard in an interval. A JVM whose process cannot be read may be blocked.
async fn interval(is_answered: bool, jvm: &Process) -> Interval {
    if is_answered {
        return Interval::Answered;
    }
    match jvm.is_blocked().await {
        Ok(false) => Interval::Silent,
        Ok(true) => {
            tracing::warn!(
                "Kafka's JVM does not answer: it waits for storage or is out of file descriptors"
            );
            Interval::Blocked
        }
        Err(error) => {
            tracing::warn!("Kafka's JVM does not answer, and its process cannot be read: {error}");
            Interval::Blocked
        }
    }
}

/// Listens without TLS.
pub(crate) fn serve_plain(listener: TcpListener, health: Arc<Health>, everything: bool) {
    let router = if everything { all(health) } else { probes(health) };
    tokio::spawn(async move { report(axum::serve(listener, router).await) });
}

/// Listens for clients with a certificate.
pub(crate) fn serve_tls(listener: TlsListener, health: Arc<Health>) {
    let router = all(health);
    tokio::spawn(async move { report(axum::serve(listener, router).await) });
}

fn report(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::error!("nobody is told any more how the node is: {error}");
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

/// Without asking: a JVM that hangs would keep the probe waiting. The process ends when Kafka does.
async fn live(State(health): State<Arc<Health>>) -> Response {
    match health.liveness() {
        Liveness::Live => "live\n".into_response(),
        Liveness::Hung { unanswered } => {
            let silent = liveness::ASK_INTERVAL * unanswered;
            let why = format!("Kafka's JVM has given no sign of life for {} s\n", silent.as_secs());
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

/// What the node knows of the quorum; of a broker, that it is an observer.
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
        return (StatusCode::NOT_FOUND, "this node is no broker\n").into_response();
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
        Ok(None) => (StatusCode::NOT_FOUND, "the disk is not formatted yet\n").into_response(),
        Err(error) => {
            tracing::warn!("cannot read the directory id: {error}");
            (StatusCode::SERVICE_UNAVAILABLE, "the disk cannot be read\n").into_response()
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

/// As Strimzi's agent: 404 as long as there is no state, which is always for a controller.
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

/// As Strimzi's agent: a broker that stops is still ready.
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
    (StatusCode::SERVICE_UNAVAILABLE, "Kafka has not said anything yet\n").into_response()
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
