//! The client of the API server: every request is counted, and none waits for its answer for ever.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Method, Request, Response, StatusCode};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, Layer, Service};

use crate::metrics::Metrics;

/// How long the head of an answer may take. That of a watch comes at once as well; what follows is watched
/// by the watchers themselves.
const ANSWER: Duration = Duration::from_secs(30);

/// Makes a client whose requests are counted. A read that is not allowed is logged as an error: it is a
/// fault of the installation, and would else only look like an object that is never there.
pub(crate) fn counted(config: Config, metrics: &Metrics) -> Result<Client, kube::Error> {
    let builder = ClientBuilder::try_from(config)?;
    let counting = Counting { metrics: metrics.clone() };
    Ok(builder.with_layer(&TimeoutLayer::new(ANSWER)).with_layer(&counting).build())
}

/// Makes a client that only reads: any other request is refused before it is sent, whoever makes it.
pub(crate) fn reading(mut config: Config) -> Result<Client, kube::Error> {
    config.connect_timeout = Some(CONNECT);
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&TimeoutLayer::new(ANSWER)).with_layer(&ReadingLayer).build())
}

/// How long a person waits for an API server that does not take the connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Somebody wanted to write with a client that only reads.
#[derive(Debug, thiserror::Error)]
#[error("{0} was not sent: nothing is changed here")]
struct NotSent(Method);

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
    let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
    let verb = match (method.as_str(), name) {
        ("GET", _) if is_watch => "watch",
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
    use super::*;

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
}
