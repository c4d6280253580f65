//! The client: one TLS connection for each request, verified, bounded in time and size.
//!
//! 1. The password is sent only after the server has presented a certificate of the cluster CA for its host name.
//! 2. Redirects are not followed: any status is returned as it is.
//! 3. An answer is read up to [`ANSWER_BYTES_MAX`] and until the deadline, whatever it says of its length.

use std::sync::Arc;
use std::time::Duration;

use api::KafkaRebalanceSpec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control::rebalance::request::Task;
use control::rebalance::request::answers::{ExecutorState, Reply};
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use kafka_admin::Resolve;
use tokio_rustls::TlsConnector;

use super::answer::{self, Summary};
use super::ask::{self, Ask};
use crate::body::{self, BodyError};
use crate::https::{self, Peer, RequestError};

/// Cruise Control answers 202 if it is not done after ten seconds; anything much later is not an answer.
const DEADLINE: Duration = Duration::from_secs(11);
/// Without proposals (`verbose=false`) an answer has about 1 KB for each broker, in the load after the
/// optimization, and 2 KB for each goal; `user_tasks` carries it once more as an escaped string. 1,000 brokers are
/// about 1.5 MB.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The header in which it says which task an answer belongs to.
const TASK_ID: &str = "User-Task-ID";

/// Address and credentials of a Cruise Control. There is no plain HTTP.
#[derive(Clone)]
pub struct Endpoint {
    /// The name of its host, which its certificate must carry.
    pub host: String,
    /// Its port; Strimzi's is 9090.
    pub port: u16,
    /// The authorities that its certificate is verified against, in PEM.
    pub authorities: Vec<u8>,
    /// User and password, if it wants some.
    pub login: Option<(String, String)>,
    /// How long an answer may take; `None` is eleven seconds.
    pub deadline: Option<Duration>,
    /// How the host is looked up.
    pub names: Arc<dyn Resolve>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The authorities cannot be read.
    #[error("the authorities for Cruise Control cannot be used: {0}")]
    Authorities(String),
    /// The name is not one.
    #[error("the host name of Cruise Control is not valid")]
    Name,
    /// Nothing listens there.
    #[error("cannot connect to Cruise Control")]
    Connect(#[source] std::io::Error),
    /// The server is not Cruise Control of this cluster. Nothing was sent.
    #[error("Cruise Control has no valid certificate of the cluster CA")]
    Certificate(#[source] std::io::Error),
    /// It takes too long. It may have done what it was asked.
    #[error("Cruise Control did not answer in time")]
    Late,
    /// The answer breaks off. It may have done what it was asked.
    #[error("the answer of Cruise Control is truncated")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer is too large. It may have done what it was asked.
    #[error("the answer of Cruise Control cannot be read")]
    Body(#[source] BodyError),
}

impl From<RequestError> for ClientError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Name => Self::Name,
            RequestError::Connect(error) => Self::Connect(error),
            RequestError::Handshake(error) => Self::Certificate(error),
            RequestError::Broken(error) => Self::Broken(Box::new(error)),
        }
    }
}

/// Asks a Cruise Control.
#[derive(Clone)]
pub struct Client {
    endpoint: Endpoint,
    tls: TlsConnector,
}

/// An answer as it came.
struct Raw {
    status: u16,
    task: Option<String>,
    body: String,
}

impl Client {
    /// A client of that Cruise Control.
    pub fn new(endpoint: Endpoint) -> Result<Self, ClientError> {
        let tls = https::connector(&endpoint.authorities, None);
        let tls = tls.map_err(|error| ClientError::Authorities(error.to_string()))?;
        Ok(Self { endpoint, tls })
    }

    /// The host that it connects to.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.endpoint.host
    }

    /// Asks for a plan. Returns the reply, and the summary in it.
    pub async fn propose(
        &self,
        spec: &KafkaRebalanceSpec,
    ) -> Result<(Reply, Option<Summary>), ClientError> {
        self.rebalance(spec, false).await
    }

    /// Lets it move. It computes the plan anew.
    pub async fn execute(
        &self,
        spec: &KafkaRebalanceSpec,
    ) -> Result<(Reply, Option<Summary>), ClientError> {
        self.rebalance(spec, true).await
    }

    /// How a task is, and the summary of its plan.
    pub async fn task(&self, id: &str) -> Result<(Task, Option<Summary>), ClientError> {
        let raw = self.ask(&ask::task(id)).await?;
        Ok(answer::task(raw.status, &raw.body, id))
    }

    /// Asks it to stop, and returns the status code. It answers before it has: see [`Client::state`].
    pub async fn stop(&self) -> Result<u16, ClientError> {
        Ok(self.ask(&ask::stop()).await?.status)
    }

    /// What it does; `None` if it does not say.
    pub async fn state(&self) -> Result<Option<ExecutorState>, ClientError> {
        let raw = self.ask(&ask::state()).await?;
        Ok(answer::state(raw.status, &raw.body))
    }

    async fn rebalance(
        &self,
        spec: &KafkaRebalanceSpec,
        execute: bool,
    ) -> Result<(Reply, Option<Summary>), ClientError> {
        let raw = self.ask(&ask::rebalance(spec, execute)).await?;
        Ok(answer::rebalance(raw.status, &raw.body, raw.task))
    }

    async fn ask(&self, ask: &Ask) -> Result<Raw, ClientError> {
        let deadline = self.endpoint.deadline.unwrap_or(DEADLINE);
        tokio::time::timeout(deadline, self.send(ask)).await.map_err(|_| ClientError::Late)?
    }

    async fn send(&self, ask: &Ask) -> Result<Raw, ClientError> {
        let Endpoint { host, port, names, .. } = &self.endpoint;
        let peer = Peer { tls: &self.tls, names: names.as_ref(), host, port: *port };
        https::exchange(peer, self.request(ask)?, async |answer| {
            let status = answer.status().as_u16();
            let task = answer.headers().get(TASK_ID).and_then(|id| id.to_str().ok());
            let task = task.map(str::to_owned);
            let body = body::read_large(answer.into_body(), ANSWER_BYTES_MAX).await;
            let body = body.map_err(ClientError::Body)?;
            Ok(Raw { status, task, body: String::from_utf8_lossy(&body).into_owned() })
        })
        .await
    }

    fn request(&self, ask: &Ask) -> Result<Request<Empty<Bytes>>, ClientError> {
        let method = if ask.post { "POST" } else { "GET" };
        let mut request = Request::builder()
            .method(method)
            .uri(&ask.path)
            .header(hyper::header::HOST, &self.endpoint.host);
        if let Some((user, password)) = &self.endpoint.login {
            let login = STANDARD.encode(format!("{user}:{password}"));
            request = request.header(hyper::header::AUTHORIZATION, format!("Basic {login}"));
        }
        let request = request.body(Empty::new());
        request.map_err(|error| ClientError::Broken(Box::new(error)))
    }
}
