//! The client of the API server: every request is counted, and every answer is bounded in time and size.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Method, Request, Response, StatusCode};
use kube::client::{Body, ClientBuilder};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher;
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, Layer, Service};

use crate::body::{Bounded, Bounds};
use crate::metrics::Metrics;

/// What bounds the answers of the API server.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// The time until the head of an answer. That of a watch comes at once as well.
    head: Duration,
    whole: Bounds,
    watch: Bounds,
}

/// The API server answers within seconds, or not at all.
const ANSWER: Duration = Duration::from_secs(30);
/// An answer other than a watch. The largest is a page of a list: see [`WATCH_PAGE`]. A third of the operator's memory
/// limit; the body takes no longer than the head may.
const WHOLE: Bounds = Bounds::Whole { bytes_max: 128 << 20, time_max: ANSWER };
/// A watch. An event has one object, and etcd takes no request of more than 1.5 MiB; as JSON it is larger. The API
/// server ends a watch after 290 s, as `kube` asks it to; one that goes on for longer is broken off and begun anew.
const WATCH: Bounds =
    Bounds::Watch { event_bytes_max: 16 << 20, time_max: Duration::from_secs(330) };
const LIMITS: Limits = Limits { head: ANSWER, whole: WHOLE, watch: WATCH };
/// Objects in a page of the list that a watch begins with: with objects of 1.5 MiB each, 75 MiB.
const WATCH_PAGE: u32 = 50;

/// How objects are watched.
pub(crate) fn watching() -> watcher::Config {
    watcher::Config::default().page_size(WATCH_PAGE)
}

/// How long a controller pauses after one of its watches has failed.
const WATCH_PAUSE: Duration = Duration::from_millis(500);

/// The same pause after each failure. All watches of a controller share it, and all of them fail when the API server restarts:
/// a pause that grows with each failure would resume them one by one, up to a minute apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchPause;

impl Iterator for WatchPause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(WATCH_PAUSE)
    }
}

impl Backoff for WatchPause {
    fn reset(&mut self) {}
}

/// Makes a client whose requests are counted. A read that is not allowed is logged as an error: it is a
/// fault of the installation, and would else only look like an object that is never there.
pub(crate) fn counted(config: Config, metrics: &Metrics) -> Result<Client, kube::Error> {
    counted_within(config, metrics, LIMITS)
}

fn counted_within(
    config: Config,
    metrics: &Metrics,
    limits: Limits,
) -> Result<Client, kube::Error> {
    let builder = ClientBuilder::try_from(config)?;
    let counting = Counting { metrics: metrics.clone() };
    let builder = builder.with_layer(&TimeoutLayer::new(limits.head)).with_layer(&counting);
    Ok(builder.with_layer(&BoundingLayer { limits }).build())
}

/// Makes a client that only reads: any other request is refused before it is sent, whoever makes it.
pub(crate) fn reading(mut config: Config) -> Result<Client, kube::Error> {
    config.connect_timeout = Some(CONNECT);
    let builder = ClientBuilder::try_from(config)?;
    let builder = builder.with_layer(&TimeoutLayer::new(ANSWER)).with_layer(&ReadingLayer);
    Ok(builder.with_layer(&BoundingLayer { limits: LIMITS }).build())
}

/// Makes a client that sends nothing at all, for what is decided on a snapshot.
pub(crate) fn closed() -> Client {
    let refuse = |_: Request<Body>| async { Err::<Response<Body>, _>(Closed) };
    Client::new(tower::service_fn(refuse), "default")
}

/// How long a person waits for an API server that does not take the connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A write with a client that only reads.
#[derive(Debug, thiserror::Error)]
#[error("{0} was not sent: nothing is changed here")]
struct NotSent(Method);

/// A request with a client that sends nothing.
#[derive(Debug, thiserror::Error)]
#[error("Kubernetes is not asked: all facts are in the snapshot")]
struct Closed;

#[derive(Clone)]
struct BoundingLayer {
    limits: Limits,
}

impl<S> Layer<S> for BoundingLayer {
    type Service = Bounding<S>;

    fn layer(&self, inner: S) -> Bounding<S> {
        Bounding { inner, limits: self.limits }
    }
}

/// Bounds the bodies of all answers.
struct Bounding<S> {
    inner: S,
    limits: Limits,
}

impl<S, B> Service<Request<Body>> for Bounding<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Bounded<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Limits { whole, watch, .. } = self.limits;
        let bounds = if is_watch(request.uri()) { watch } else { whole };
        let answer = self.inner.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Bounded::new(body, bounds))) })
    }
}

fn is_watch(uri: &axum::http::Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|one| one == "watch=true"))
}

#[derive(Clone)]
struct ReadingLayer;

impl<S> Layer<S> for ReadingLayer {
    type Service = Reading<S>;

    fn layer(&self, inner: S) -> Reading<S> {
        Reading { inner }
    }
}

struct Reading<S> {
    inner: S,
}

impl<S, B> Service<Request<Body>> for Reading<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.method() != Method::GET {
            let refused = NotSent(request.method().clone());
            return Box::pin(async { Err(refused.into()) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

#[derive(Clone)]
struct Counting {
    metrics: Metrics,
}

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, metrics: self.metrics.clone() }
    }
}

struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (verb, resource) = describe(request.method(), request.uri());
        self.metrics.api_call(verb, &resource);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            // Writes are refused for other reasons, too, and log the reason where they are made.
            let is_read = matches!(verb, "get" | "list" | "watch");
            if is_read && answer.status() == StatusCode::FORBIDDEN {
                tracing::error!("{verb} {resource}: not allowed");
            }
            Ok(answer)
        })
    }
}

/// The verb and the resource, as RBAC calls them.
fn describe(method: &Method, uri: &axum::http::Uri) -> (&'static str, String) {
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    // `/api/VERSION/…` or `/apis/GROUP/VERSION/…`
    let skipped = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        Some(_) | None => return ("get", "other".to_owned()),
    };
    let parts: Vec<_> = parts.skip(skipped).collect();
    let (resource, name, subresource) = match parts.as_slice() {
        ["namespaces", _, resource, rest @ ..] => (*resource, rest.first(), rest.get(1)),
        [resource, rest @ ..] => (*resource, rest.first(), rest.get(1)),
        [] => return ("get", "other".to_owned()),
    };
    let resource = match subresource {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    let verb = match (method.as_str(), name) {
        ("GET", _) if is_watch(uri) => "watch",
        ("GET", None) => "list",
        ("GET", Some(_)) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => "other",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::WatchParams;

    use super::*;
    use crate::hostile::{Manner, Peer};
    use crate::words::chain;

    #[test]
    fn watches_that_fail_together_are_resumed_within_seconds() {
        // Each of the ten watches over a cluster's objects fails twice.
        let pauses: Duration = WatchPause.take(20).sum();
        assert!(pauses <= Duration::from_secs(10), "{pauses:?}");
    }

    #[test]
    fn requests_are_called_as_in_rbac() {
        let check = |method: Method, uri: &str, verb: &str, resource: &str| {
            let described = describe(&method, &uri.parse().unwrap());
            assert_eq!(described, (verb, resource.to_owned()), "{uri}");
        };
        let (get, put) = (Method::GET, Method::PUT);
        check(get.clone(), "/api/v1/namespaces/a/pods?&limit=1", "list", "pods");
        check(get.clone(), "/api/v1/pods?&watch=true&x=y", "watch", "pods");
        check(get.clone(), "/api/v1/namespaces/a/pods/b", "get", "pods");
        check(get.clone(), "/api/v1/namespaces/a", "get", "namespaces");
        check(get.clone(), "/version", "get", "other");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b?";
        check(put, lease, "update", "leases");
        let status = "/apis/kafka.strimzi.io/v1/namespaces/a/kafkas/b/status?";
        check(Method::PATCH, status, "patch", "kafkas/status");
        check(Method::DELETE, "/api/v1/namespaces/a/pods/b", "delete", "pods");
        check(Method::POST, "/api/v1/namespaces/a/pods?", "create", "pods");
    }

    /// A client of an API server that misbehaves, and that server.
    async fn hostile(manner: Manner, limits: Limits) -> (Api<Pod>, Peer) {
        let peer = Peer::start(None, manner).await;
        let config = Config::new(format!("http://{}", peer.address).parse().unwrap());
        let client = counted_within(config, &Metrics::new(), limits).unwrap();
        (Api::namespaced(client, "ns"), peer)
    }

    #[tokio::test]
    async fn an_endless_answer_is_given_up() {
        let (api, peer) = hostile(Manner::flood("Connection: close", b" "), LIMITS).await;
        let error = chain(&api.get("a").await.unwrap_err());
        assert!(error.contains("the answer has more than 134217728 bytes"), "{error}");
        assert!(peer.written() < 256 << 20, "{} bytes were taken", peer.written());
    }

    #[tokio::test]
    async fn an_endless_event_is_given_up() {
        let (api, peer) = hostile(Manner::flood("Connection: close", b"{"), LIMITS).await;
        let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        let error = chain(&events.next().await.unwrap().unwrap_err());
        assert!(error.contains("a line of the answer has more than 16777216 bytes"), "{error}");
        assert!(peer.written() < 64 << 20, "{} bytes were taken", peer.written());
    }

    #[tokio::test]
    async fn answers_and_watches_that_drip_are_given_up_in_time() {
        let time_max = Duration::from_secs(2);
        let limits = Limits {
            whole: Bounds::Whole { bytes_max: 1 << 20, time_max },
            watch: Bounds::Watch { event_bytes_max: 1 << 20, time_max },
            ..LIMITS
        };
        let (api, _peer) = hostile(Manner::drip(), limits).await;
        let begun = std::time::Instant::now();
        let error = chain(&api.get("a").await.unwrap_err());
        assert!(error.contains("the answer did not end within 2 s"), "{error}");
        let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        let error = chain(&events.next().await.unwrap().unwrap_err());
        assert!(error.contains("the answer did not end within 2 s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn an_api_server_that_says_nothing_is_given_up_in_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let limits = Limits { head: Duration::from_secs(1), ..LIMITS };
        let config = Config::new(at.parse().unwrap());
        let client = counted_within(config, &Metrics::new(), limits).unwrap();
        let asked = Api::<Pod>::namespaced(client, "ns");
        let asked = tokio::time::timeout(Duration::from_secs(20), asked.get("a")).await;
        let error = chain(&asked.unwrap().unwrap_err());
        assert!(error.contains("timed out"), "{error}");
    }
}
