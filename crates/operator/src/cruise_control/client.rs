//! The client: one connection for each question, TLS and a password where there are some, and a deadline.

use std::sync::Arc;
use std::time::Duration;

use api::KafkaRebalanceSpec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::answer::{self, Answer, ExecutorState, Task};
use super::ask::{self, Ask};

/// It answers 202 after ten seconds if it is not done by then; more than that and some is too long.
const DEADLINE: Duration = Duration::from_secs(20);
/// A plan of a hundred thousand moves is some tens of MB; nothing has more.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The header in which it says which task an answer belongs to.
const TASK_ID: &str = "User-Task-ID";

/// Where a Cruise Control is, and who we are there.
#[derive(Clone)]
pub struct Endpoint {
    /// The name of its host.
    pub host: String,
    /// Its port; Strimzi's is 9090.
    pub port: u16,
    /// The authorities that its certificate is checked against, in PEM; none is plain HTTP.
    pub authorities: Option<Vec<u8>>,
    /// User and password, if it wants some.
    pub login: Option<(String, String)>,
    /// How long an answer may take; `None` is twenty seconds.
    pub deadline: Option<Duration>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The authorities cannot be read.
    #[error("the authorities for Cruise Control cannot be used: {0}")]
    Authorities(String),
    /// The name cannot be one.
    #[error("the name of Cruise Control's host cannot be used")]
    Name,
    /// Nobody is there.
    #[error("cannot connect to Cruise Control")]
    Connect(#[source] std::io::Error),
    /// It takes too long. It may have done what it was asked.
    #[error("Cruise Control does not answer in time")]
    Late,
    /// The answer breaks off. It may have done what it was asked.
    #[error("the answer of Cruise Control breaks off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// An answer, and the task that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The task, by which it can be asked for later.
    pub task: Option<String>,
    /// The answer.
    pub answer: Answer,
}

/// Asks a Cruise Control.
#[derive(Clone)]
pub struct Client {
    endpoint: Endpoint,
    tls: Option<TlsConnector>,
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
        let tls = endpoint.authorities.as_deref().map(connector).transpose()?;
        Ok(Self { endpoint, tls })
    }

    /// Asks for a plan.
    pub async fn propose(&self, spec: &KafkaRebalanceSpec) -> Result<Asked, ClientError> {
        self.rebalance(spec, false).await
    }

    /// Lets it move. It computes the plan anew.
    pub async fn execute(&self, spec: &KafkaRebalanceSpec) -> Result<Asked, ClientError> {
        self.rebalance(spec, true).await
    }

    /// How a task is.
    pub async fn task(&self, id: &str) -> Result<Task, ClientError> {
        let raw = self.ask(&ask::task(id)).await?;
        Ok(answer::task(raw.status, &raw.body, id))
    }

    /// Asks it to stop. It answers before it has: see [`Client::state`].
    pub async fn stop(&self) -> Result<bool, ClientError> {
        Ok(self.ask(&ask::stop()).await?.status == 200)
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
    ) -> Result<Asked, ClientError> {
        let raw = self.ask(&ask::rebalance(spec, execute)).await?;
        Ok(Asked { task: raw.task, answer: answer::rebalance(raw.status, &raw.body) })
    }

    async fn ask(&self, ask: &Ask) -> Result<Raw, ClientError> {
        let deadline = self.endpoint.deadline.unwrap_or(DEADLINE);
        tokio::time::timeout(deadline, self.connect(ask)).await.map_err(|_| ClientError::Late)?
    }

    async fn connect(&self, ask: &Ask) -> Result<Raw, ClientError> {
        let host = self.endpoint.host.as_str();
        let stream = TcpStream::connect((host, self.endpoint.port)).await;
        let stream = stream.map_err(ClientError::Connect)?;
        match &self.tls {
            None => self.send(stream, ask).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned()).map_err(|_| ClientError::Name)?;
                let stream = tls.connect(name, stream).await.map_err(ClientError::Connect)?;
                self.send(stream, ask).await
            }
        }
    }

    async fn send<S>(&self, stream: S, ask: &Ask) -> Result<Raw, ClientError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: hyper::Error| ClientError::Broken(Box::new(error));
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let method = if ask.post { "POST" } else { "GET" };
        let mut request = Request::builder()
            .method(method)
            .uri(&ask.path)
            .header(hyper::header::HOST, &self.endpoint.host);
        if let Some((user, password)) = &self.endpoint.login {
            let login = STANDARD.encode(format!("{user}:{password}"));
            request = request.header(hyper::header::AUTHORIZATION, format!("Basic {login}"));
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| ClientError::Broken(Box::new(error)))?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            let status = answer.status().as_u16();
            let task = answer.headers().get(TASK_ID).and_then(|id| id.to_str().ok());
            let task = task.map(str::to_owned);
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(ClientError::Broken)?.to_bytes();
            Ok(Raw { status, task, body: String::from_utf8_lossy(&body).into_owned() })
        };
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // How the connection ends is nothing against an answer that is there; one that breaks off
            // says so itself.
            _ = connection => answer.await,
        }
    }
}

fn connector(authorities: &[u8]) -> Result<TlsConnector, ClientError> {
    let invalid = |error: &dyn std::fmt::Display| ClientError::Authorities(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate.map_err(|error| invalid(&error))?;
        roots.add(certificate).map_err(|error| invalid(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
