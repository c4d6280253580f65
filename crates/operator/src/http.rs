//! The operator's health and metrics endpoint.
//!
//! It answers before the election, so that one that waits for its turn counts as ready: a Deployment with
//! two replicas is complete when one leads and one waits. Nothing here is secret, and nothing can be changed.
//!
//! `/livez` follows the progress of the loops ([`Beats`]): it answers 503 and the name of a loop that is stalled.

use std::future::Future;
use std::net::SocketAddr;
use std::time::SystemTime;

use api::names::Names;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::lag::{Pictures, plain};
use crate::liveness::Beats;
use crate::metrics::Metrics;

/// What the numbers are written in.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the series of topics and groups are written in: the format of the exporter whose names they have.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is answered from.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// The numbers of the operator.
    pub metrics: Metrics,
    /// The progress of its loops.
    pub beats: Beats,
    /// Metrics of topics and groups.
    pub(crate) pictures: Pictures,
}

/// Listens; nothing is answered before [`serve`].
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers until it is told to stop.
pub async fn serve(
    listener: TcpListener,
    answers: Answers,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes(answers)).with_graceful_shutdown(stop).await
}

fn routes(Answers { metrics, beats, pictures }: Answers) -> Router {
    let of_clusters = {
        let pictures = pictures.clone();
        get(move |headers: HeaderMap| async move { series(&pictures, None, &headers) })
    };
    let of_one = get(
        move |Path((namespace, cluster)): Path<(String, String)>, headers: HeaderMap| async move {
            series(&pictures, Some(&Names::new(&namespace, &cluster)), &headers)
        },
    );
    let ok = || async { "ok\n" };
    let live = move |alive: StatusCode| {
        let beats = beats.clone();
        get(move || {
            let live = live(&beats, alive);
            async { live }
        })
    };
    // Strimzi's, for dashboards and Deployments that people have.
    let no_content = || async { StatusCode::NO_CONTENT };
    Router::new()
        .route("/healthz", live(StatusCode::OK))
        .route("/livez", live(StatusCode::OK))
        .route("/readyz", get(ok))
        .route("/healthy", live(StatusCode::NO_CONTENT))
        .route("/ready", get(no_content))
        .route("/metrics", get(numbers))
        .route("/metrics/kafka", of_clusters)
        .route("/metrics/kafka/{namespace}/{cluster}", of_one)
        .with_state(metrics)
}

/// The answer to a liveness probe.
fn live(beats: &Beats, alive: StatusCode) -> (StatusCode, String) {
    match beats.check() {
        Ok(()) if alive == StatusCode::NO_CONTENT => (alive, String::new()),
        Ok(()) => (alive, format!("ok: {}\n", beats.loops().join(", "))),
        Err(stalled) => {
            tracing::error!(%stalled, "liveness probe failed");
            (StatusCode::SERVICE_UNAVAILABLE, format!("{stalled}\n"))
        }
    }
}

async fn numbers(State(metrics): State<Metrics>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics.encode())
}

/// The series of topics and groups: of one cluster, or of all.
fn series(pictures: &Pictures, only: Option<&Names>, headers: &HeaderMap) -> Response {
    let packed = match pictures.answer(only, SystemTime::now()) {
        Ok(Some(packed)) => packed,
        Ok(None) => return StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::error!("cannot answer a scrape: {error}");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let kind = (header::CONTENT_TYPE, PROMETHEUS);
    if accepted.is_some_and(|accepted| accepted.contains("gzip")) {
        return ([kind, (header::CONTENT_ENCODING, "gzip")], packed).into_response();
    }
    ([kind], Body::from_stream(plain(packed))).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn probes_and_numbers_are_answered() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::new();
        metrics.set_leader(true);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let answers = Answers { metrics, ..Answers::default() };
        let server = tokio::spawn(serve(listener, answers, async {
            let _ = stopped.await;
        }));
        let ask = async |path: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        for path in ["/healthz", "/livez", "/readyz"] {
            assert!(ask(path).await.starts_with("HTTP/1.1 200 "), "{path}");
        }
        for path in ["/healthy", "/ready"] {
            assert!(ask(path).await.starts_with("HTTP/1.1 204 "), "{path}");
        }
        let numbers = ask("/metrics").await;
        assert!(numbers.contains(OPEN_METRICS), "{numbers}");
        assert!(numbers.contains("gregor_leader 1"), "{numbers}");
        let series = ask("/metrics/kafka").await;
        assert!(series.contains(PROMETHEUS) && series.contains("# TYPE"), "{series}");
        assert!(ask("/metrics/kafka/n/c").await.starts_with("HTTP/1.1 404 "));
        assert!(ask("/secrets").await.starts_with("HTTP/1.1 404 "));
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
