//! The node endpoint, through which the API server reads logs and runs commands.
//!
//! | path | content |
//! |---|---|
//! | `GET /containerLogs/{namespace}/{pod}/{container}` | the log of a container, for `kubectl logs` |
//! | `GET /exec/{namespace}/{pod}/{container}` | a command in a container, for `kubectl exec` |
//! | `GET /pods` | the pods of the node |
//! | `GET /healthz` | `ok` |
//!
//! 1. Only the API server is served, with a certificate of the configured authority.
//! 2. Nothing on the node changes, except by the commands that are run.
//!
//! Not supported: `kubectl attach`, `port-forward`, TTYs, and SPDY (see [`DECLARED_FEATURE`]).

mod error;
mod exec;
mod logs;
mod reader;
mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use error::Refusal;
use exec::ExecQuery;
use logs::LogQuery;
use reader::Reader;

pub use error::{ExecError, ServerError};
pub use tls::ServerTls;

/// The node must declare this feature in `status.declaredFeatures` so that the API server forwards
/// WebSockets.
pub const DECLARED_FEATURE: &str = "ExtendWebSocketsToKubelet";

/// A silent client must not occupy a connection forever.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// Certificates are renewed in place; interval at which the files are checked.
const RELOAD: Duration = Duration::from_secs(60);

/// The node behind the endpoint.
pub trait Host: Send + Sync + 'static {
    /// The pods of the node, with their current status.
    fn pods(&self) -> Vec<Pod>;

    /// A command that runs in the container when it is spawned. The endpoint sets its input and output;
    /// killing the process must kill the command.
    ///
    /// # Errors
    ///
    /// If the container is not running, or the command cannot be prepared.
    fn exec(&self, pod: &Pod, container: &str, command: &[String]) -> Result<Command, ExecError>;
}

/// Address, certificates and logs of an endpoint.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The node's own address; port 0 chooses a free one.
    pub address: SocketAddr,
    /// Certificates.
    pub tls: ServerTls,
    /// The directory of logs, with `<namespace>_<pod>_<uid>/<container>/<attempt>.log` in it.
    pub logs: PathBuf,
}

/// The endpoint of a node.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: ServerTls,
    config: Arc<ServerConfig>,
    node: Node,
}

impl Server {
    /// Binds the address; connections wait until [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// If the address is in use, or the certificates are not valid.
    pub async fn bind(options: ServerOptions, host: Arc<dyn Host>) -> Result<Self, ServerError> {
        let config = options.tls.load()?;
        let listen = |source| ServerError::Listen { address: options.address, source };
        let listener = TcpListener::bind(options.address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let node = Node { host, logs: options.logs };
        Ok(Self { listener, address, tls: options.tls, config, node })
    }

    /// Its address, for `status.daemonEndpoints`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    pub async fn run(self) -> Infallible {
        let doors = Doors {
            open: router(self.node),
            shut: Router::new().fallback(|| async { Refusal::Stranger }),
            client_name: self.tls.client_name.clone(),
        };
        let (doors, mut config, mut loaded) = (Arc::new(doors), self.config, Instant::now());
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            if loaded.elapsed() > RELOAD {
                loaded = Instant::now();
                match self.tls.load() {
                    Ok(newer) => config = newer,
                    Err(error) => {
                        tracing::warn!(%error, "cannot reload certificates; the previous ones stay in use")
                    }
                }
            }
            match accepted {
                Ok((stream, _)) => {
                    let acceptor = TlsAcceptor::from(config.clone());
                    connections.spawn(serve(stream, acceptor, doors.clone()));
                }
                // Most likely out of file descriptors: others may be closed meanwhile.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Routes for the API server, and for others.
struct Doors {
    open: Router,
    shut: Router,
    client_name: String,
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, doors: Arc<Doors>) {
    let stream = match timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "rejected a client"),
        Err(_) => return tracing::debug!("the TLS handshake of a client timed out"),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let name = certificates.first().and_then(tls::common_name);
    let known = name.as_ref() == Some(&doors.client_name);
    let router = if known { doors.open.clone() } else { doors.shut.clone() };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection was aborted");
    }
}

#[derive(Clone)]
struct Node {
    host: Arc<dyn Host>,
    logs: PathBuf,
}

fn router(node: Node) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/pods", get(pods))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs))
        .route("/exec/{namespace}/{pod}/{container}", get(run).post(async || Refusal::NoWebSocket))
        .with_state(node)
}

/// Namespace, pod and container in the path of a request.
type Target = Path<(String, String, String)>;

impl Node {
    fn pod(&self, namespace: &str, name: &str) -> Result<Pod, Refusal> {
        let found =
            self.host.pods().into_iter().find(|pod| {
                pod.name_any() == name && pod.namespace().as_deref() == Some(namespace)
            });
        found.ok_or_else(|| Refusal::NoPod(name.to_owned()))
    }

    fn log_file(&self, pod: &Pod, container: &str, attempt: u32) -> PathBuf {
        let (namespace, uid) = (pod.namespace().unwrap_or_default(), pod.uid().unwrap_or_default());
        // The API server has validated these names: they contain no slash.
        self.logs
            .join(format!("{namespace}_{}_{uid}", pod.name_any()))
            .join(container)
            .join(format!("{attempt}.log"))
    }
}

async fn pods(State(node): State<Node>) -> Response {
    let list =
        serde_json::json!({"kind": "PodList", "apiVersion": "v1", "items": node.host.pods()});
    ([(header::CONTENT_TYPE, "application/json")], list.to_string()).into_response()
}

async fn container_logs(
    State(node): State<Node>,
    Path((namespace, name, container)): Target,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = LogQuery::parse(query.as_deref().unwrap_or_default(), Timestamp::now())?;
    let pod = node.pod(&namespace, &name)?;
    let attempt = logs::attempt(&pod, &container, query.previous)?;
    let path = node.log_file(&pod, &container, attempt);
    let (uid, of) = (pod.uid(), container.clone());
    let goes_on = move || {
        node.pod(&namespace, &name)
            .is_ok_and(|pod| pod.uid() == uid && logs::is_running(&pod, &of, attempt))
    };
    let reader = Reader::open(path, query, goes_on)
        .map_err(|source| Refusal::ReadLog { container, source })?;
    let parts = futures::stream::try_unfold(reader, |mut reader| async {
        reader.next().await.map(|part| part.map(|part| (Bytes::from(part), reader)))
    });
    Ok(([(header::CONTENT_TYPE, "text/plain")], Body::from_stream(parts)).into_response())
}

async fn run(
    State(node): State<Node>,
    Path((namespace, name, container)): Target,
    RawQuery(query): RawQuery,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let upgrade = upgrade.map_err(|_| Refusal::NoWebSocket)?;
    let query = ExecQuery::parse(query.as_deref().unwrap_or_default())?;
    let pod = node.pod(&namespace, &name)?;
    let command = node.host.exec(&pod, &container, &query.command).map_err(Refusal::Exec)?;
    exec::start(upgrade, command, &query)
}
