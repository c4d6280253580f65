//! Asks a node how it is, over the port where `gregor node` tells those who have a certificate.
//!
//! What a node does not answer is not known, and no question waits for long: a pass asks several.

use std::sync::Arc;
use std::time::Duration;

use api::names::AGENT_PORT;
use control::node::readiness::ANSWER_TIMEOUT;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use kafka_admin::{Resolve, SystemNames};
use model::DirectoryId;
use serde::Deserialize;
use tokio_rustls::TlsConnector;

use super::admins::Keys;
use crate::body::{self, BodyError, Page};
use crate::https::{self, Identity, Peer, RequestError};

/// A node program answers when Kafka's JVM has answered it, or has not in time; the rest is for the connection. A shorter
/// deadline would make a slow node an unknown one.
const DEADLINE: Duration = ANSWER_TIMEOUT.saturating_add(Duration::from_secs(2));
/// More than any answer we ask for has.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// All that a broker counts is a page of some megabytes where there are ten thousand topics, and takes longer. Most of
/// it is dropped as it comes: the lines that are kept have about 100 bytes for each topic.
const METRICS_BYTES_MAX: usize = 64 << 20;
const METRICS_KEPT_MAX: usize = 4 << 20;
const METRICS_DEADLINE: Duration = Duration::from_secs(5);

/// Asks nodes of one cluster.
#[derive(Clone)]
pub(crate) struct NodeClient {
    tls: TlsConnector,
    names: Arc<dyn Resolve>,
}

/// How an answer is read.
#[derive(Debug, Clone, Copy)]
enum Read {
    Whole,
    Lines(Page),
}

/// Why a node did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("no answer in time")]
    Late,
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    #[error("the name of the node cannot be used")]
    Name,
    #[error("the answer is truncated")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the answer cannot be read")]
    Body(#[source] BodyError),
    #[error("it answers with {0}")]
    Status(StatusCode),
    #[error("its answer cannot be parsed: {0}")]
    Nonsense(String),
}

impl From<RequestError> for AskError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Name => Self::Name,
            RequestError::Connect(error) | RequestError::Handshake(error) => Self::Connect(error),
            RequestError::Broken(error) => Self::Broken(Box::new(error)),
        }
    }
}

/// Why nodes cannot be asked at all.
#[derive(Debug, thiserror::Error)]
#[error("the keys for requests to nodes are not valid: {0}")]
pub(crate) struct InvalidKeys(#[from] https::InvalidKeys);

/// The state of a broker.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BrokerState {
    /// Kafka's number for it; 2 while logs are recovered.
    pub(crate) number: i64,
    pub(crate) remaining_logs_to_recover: Option<u64>,
    pub(crate) remaining_segments_to_recover: Option<u64>,
}

/// The same, in the words of Strimzi's agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StrimziState {
    broker_state: i64,
    #[serde(default)]
    recovery_state: StrimziRecovery,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StrimziRecovery {
    remaining_logs_to_recover: Option<u64>,
    remaining_segments_to_recover: Option<u64>,
}

impl From<StrimziState> for BrokerState {
    fn from(state: StrimziState) -> Self {
        Self {
            number: state.broker_state,
            remaining_logs_to_recover: state.recovery_state.remaining_logs_to_recover,
            remaining_segments_to_recover: state.recovery_state.remaining_segments_to_recover,
        }
    }
}

impl NodeClient {
    /// A client with these keys.
    pub(crate) fn new(keys: &Keys<'_>) -> Result<Self, InvalidKeys> {
        let identity = Identity { certificate: keys.certificate, key: keys.key };
        let tls = https::connector(keys.authorities, Some(identity))?;
        Ok(Self { tls, names: Arc::new(SystemNames) })
    }

    /// The same, with nodes found by these names.
    pub(crate) fn with_names(self, names: Arc<dyn Resolve>) -> Self {
        Self { names, ..self }
    }

    /// The id of the disk that the node's metadata is on.
    pub(crate) async fn directory(&self, host: &str) -> Result<DirectoryId, AskError> {
        let text = self.get(host, "/directory-id").await?;
        let text = String::from_utf8_lossy(&text);
        text.trim().parse().map_err(|_| AskError::Nonsense(text.chars().take(80).collect()))
    }

    /// Whether the JVM of a node makes no progress, as the node says. A pod that Strimzi has started does not tell.
    pub(crate) async fn hangs(&self, host: &str) -> Result<bool, AskError> {
        match self.get(host, "/live").await {
            Ok(_) | Err(AskError::Status(StatusCode::NOT_FOUND)) => Ok(false),
            Err(AskError::Status(StatusCode::SERVICE_UNAVAILABLE)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The state of the node's broker. A pod that Strimzi has started tells it in another place, and is
    /// asked there: one that recovers its logs must be known for that, whoever has started it.
    pub(crate) async fn broker_state(&self, host: &str) -> Result<BrokerState, AskError> {
        let nonsense = |error: serde_json::Error| AskError::Nonsense(error.to_string());
        match self.get(host, "/broker-state").await {
            Ok(text) => serde_json::from_slice(&text).map_err(nonsense),
            Err(AskError::Status(StatusCode::NOT_FOUND)) => {
                let text = self.get(host, "/v1/broker-state/").await?;
                serde_json::from_slice::<StrimziState>(&text).map(Into::into).map_err(nonsense)
            }
            Err(error) => Err(error),
        }
    }

    /// The lines of the node's page of metrics that are to be kept.
    pub(crate) async fn metrics(
        &self,
        host: &str,
        keep: fn(&[u8]) -> bool,
    ) -> Result<String, AskError> {
        let page = Page { bytes_max: METRICS_BYTES_MAX, kept_max: METRICS_KEPT_MAX, keep };
        let asked = self.ask(host, "/metrics", Read::Lines(page));
        let page = tokio::time::timeout(METRICS_DEADLINE, asked).await;
        let page = page.map_err(|_| AskError::Late)??;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }

    async fn get(&self, host: &str, path: &str) -> Result<Vec<u8>, AskError> {
        let asked = self.ask(host, path, Read::Whole);
        tokio::time::timeout(DEADLINE, asked).await.map_err(|_| AskError::Late)?
    }

    async fn ask(&self, host: &str, path: &str, read: Read) -> Result<Vec<u8>, AskError> {
        let request = Request::get(path)
            .header(hyper::header::HOST, host)
            .body(Empty::<Bytes>::new())
            .map_err(|error| AskError::Nonsense(error.to_string()))?;
        let peer = Peer { tls: &self.tls, names: self.names.as_ref(), host, port: AGENT_PORT };
        https::exchange(peer, request, async |answer| {
            if answer.status() != StatusCode::OK {
                return Err(AskError::Status(answer.status()));
            }
            let body = answer.into_body();
            let body = match read {
                Read::Whole => body::read(body, ANSWER_BYTES_MAX).await,
                Read::Lines(page) => body::read_lines(body, page).await,
            };
            body.map_err(AskError::Body)
        })
        .await
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::hostile::{self, Manner, Peer};

    const HOST: &str = "c-broker-0.c-kafka-brokers.ns.svc";

    #[test]
    fn the_agent_of_strimzi_is_understood() {
        let state =
            |text: &str| BrokerState::from(serde_json::from_str::<StrimziState>(text).unwrap());
        let runs = state(r#"{"brokerState":3}"#);
        assert_eq!((runs.number, runs.remaining_logs_to_recover), (3, None));
        let recovers = state(
            r#"{"brokerState":2,"recoveryState":{"remainingLogsToRecover":10,"remainingSegmentsToRecover":100}}"#,
        );
        let left = (recovers.remaining_logs_to_recover, recovers.remaining_segments_to_recover);
        assert_eq!((recovers.number, left), (2, (Some(10), Some(100))));
    }

    /// A client of a node that answers in this manner.
    pub(in crate::cluster) async fn hostile(manner: Manner) -> (NodeClient, Peer) {
        let own = hostile::certificate(HOST);
        let peer = Peer::start(Some(hostile::acceptor(&own)), manner).await;
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let keys = Keys {
            authorities: certificate.as_bytes(),
            certificate: certificate.as_bytes(),
            key: key.as_bytes(),
        };
        (NodeClient::new(&keys).unwrap().with_names(Arc::new(peer.clone())), peer)
    }

    #[tokio::test]
    async fn endless_answers_are_given_up() {
        let (client, peer) = hostile(Manner::flood("Connection: close", b"x")).await;
        let error = client.directory(HOST).await.unwrap_err();
        assert!(matches!(error, AskError::Body(BodyError::TooLarge(ANSWER_BYTES_MAX))), "{error}");
        assert!(peer.written() < 8 << 20, "{} bytes were taken", peer.written());
        // A page whose lines all matter.
        let (client, peer) = hostile(Manner::flood("Connection: close", b"cpu 1\n")).await;
        let error = client.metrics(HOST, |_| true).await.unwrap_err();
        assert!(matches!(error, AskError::Body(BodyError::TooLarge(METRICS_KEPT_MAX))), "{error}");
        assert!(peer.written() < 8 * METRICS_KEPT_MAX, "{} bytes were taken", peer.written());
        // One of a single line.
        let (client, _peer) = hostile(Manner::flood("Connection: close", b"x")).await;
        let error = client.metrics(HOST, |_| true).await.unwrap_err();
        assert!(matches!(error, AskError::Body(BodyError::LineTooLong(_))), "{error}");
        // One of which nothing matters: it is dropped as it comes, and ends with its bytes or its time.
        let (client, peer) = hostile(Manner::flood("Connection: close", b"# x\n")).await;
        let error = client.metrics(HOST, |_| false).await.unwrap_err();
        let ended = matches!(error, AskError::Body(BodyError::TooLarge(METRICS_BYTES_MAX)));
        assert!(ended || matches!(error, AskError::Late), "{error}");
        assert!(peer.written() < 2 * METRICS_BYTES_MAX, "{} bytes were taken", peer.written());
    }

    #[tokio::test]
    async fn a_node_that_waits_for_its_kafka_is_waited_for() {
        let header = "Content-Length: 2\r\nConnection: close";
        let (status, piece) = ("200 OK", b"x".to_vec());
        let manner = Manner { status, header, piece, pause: ANSWER_TIMEOUT };
        let (client, _peer) = hostile(manner).await;
        assert!(matches!(client.hangs(HOST).await, Ok(false)));
    }

    #[tokio::test]
    async fn only_a_node_that_says_so_hangs() {
        let rows = [
            ("200 OK", Some(false)),
            // A pod that Strimzi has started.
            ("404 Not Found", Some(false)),
            ("503 Service Unavailable", Some(true)),
            ("500 Internal Server Error", None),
        ];
        for (status, expected) in rows {
            let (client, _peer) = hostile(Manner::status(status)).await;
            assert_eq!(client.hangs(HOST).await.ok(), expected, "{status}");
        }
    }

    #[tokio::test]
    async fn answers_that_drip_are_given_up_in_time() {
        let (client, _peer) = hostile(Manner::drip()).await;
        let begun = std::time::Instant::now();
        assert!(matches!(client.broker_state(HOST).await, Err(AskError::Late)));
        assert!(matches!(client.metrics(HOST, |_| true).await, Err(AskError::Late)));
        assert!(begun.elapsed() < 3 * (DEADLINE + METRICS_DEADLINE), "{:?}", begun.elapsed());
    }
}
