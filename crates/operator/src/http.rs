//! The operator's health and metrics endpoint.
//!
//! It answers before the election, so that one that waits for its turn counts as ready: a Deployment with
//! two replicas is complete when one leads and one waits. Nothing here is secret, and nothing can be changed.
//!
//! `/livez` follows the progress of the loops ([`Beats`]): it answers 503 and the name of a loop that is stalled.

use std::future::Future;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::liveness::Beats;
use crate::metrics::Metrics;

/// What the numbers are written in.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Listens; nothing is answered before [`serve`].
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers until it is told to stop.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    beats: Beats,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes(metrics, beats)).with_graceful_shutdown(stop).await
}

fn routes(metrics: Metrics, beats: Beats) -> Router {
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
        let server = tokio::spawn(serve(listener, metrics, Beats::default(), async {
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
        assert!(ask("/secrets").await.starts_with("HTTP/1.1 404 "));
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
