//! A small HTTP client: JSON out, JSON in, with a deadline.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
pub use hyper::Method;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// No answer that we ask for is larger: a list of all Kafkas of a data plane, with some KB for each.
const ANSWER_MAX: usize = 16 << 20;

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The trusted authorities of this machine cannot be had.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// It is no address.
    #[error("\"{0}\" does not answer")]
    Address(String, #[source] hyper::http::Error),
    /// There is no answer. Whether the request was carried out is unknown.
    #[error("{0} does not answer")]
    Send(String, #[source] hyper_util::client::legacy::Error),
    /// The answer broke off.
    #[error("the answer of {0} cannot be read")]
    Read(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer took too long. Whether the request was carried out is not known.
    #[error("{0} timed out")]
    TimedOut(String),
    /// The answer is a no.
    #[error("{url} answers {status}: {text}")]
    Status {
        /// Who.
        url: String,
        /// What.
        status: StatusCode,
        /// The beginning of the rest.
        text: String,
    },
    /// The answer is no JSON.
    #[error("the answer of {0} is not JSON")]
    Json(String, #[source] serde_json::Error),
}

impl ClientError {
    /// Whether the answer is that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, ClientError::Status { status: StatusCode::NOT_FOUND, .. })
    }
}

/// Whether what is sent to an address is encrypted on the way: it is `https`, or on this machine.
#[must_use]
pub fn is_confidential(url: &str) -> bool {
    let Ok(uri) = url.parse::<hyper::Uri>() else { return false };
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => true,
        (Some("http"), Some(host)) => {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        _ => false,
    }
}

/// A text as a value in the query of an address.
#[must_use]
pub fn query_value(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// An HTTP client with connections that are kept. Clones share them.
#[derive(Debug, Clone)]
pub struct Client {
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    deadline: Duration,
}

impl Client {
    /// A client that trusts the authorities of this machine. No request takes longer than the deadline.
    ///
    /// # Errors
    /// If this machine has no trusted authorities.
    pub fn new(deadline: Duration) -> Result<Self, ClientError> {
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ClientError::Tls)?
            .try_with_platform_verifier()
            .map_err(ClientError::Tls)?
            .with_no_client_auth();
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let inner = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(https);
        Ok(Self { inner, deadline })
    }

    /// Asks, and returns the body of an answer that says yes.
    ///
    /// # Errors
    /// If there is no answer in time, or it says no.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Bytes, ClientError> {
        let (status, bytes) = self.exchange(method, url, token, body).await?;
        accepted(url, status, bytes)
    }

    /// Asks, and returns the answer whatever it says.
    ///
    /// # Errors
    /// If there is no answer in time.
    pub async fn exchange(
        &self,
        method: Method,
        url: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let mut request = Request::builder().method(method).uri(url);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        self.answer(request, url, body).await
    }

    async fn answer(
        &self,
        request: hyper::http::request::Builder,
        url: &str,
        body: String,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ClientError::Address(url.to_owned(), error))?;
        let answer = async {
            let response = self.inner.request(request).await;
            let response = response.map_err(|error| ClientError::Send(url.to_owned(), error))?;
            let status = response.status();
            let bytes = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
            let bytes = bytes.map_err(|error| ClientError::Read(url.to_owned(), error))?;
            Ok((status, bytes.to_bytes()))
        };
        let answer = tokio::time::timeout(self.deadline, answer).await;
        answer.map_err(|_| ClientError::TimedOut(url.to_owned()))?
    }

    /// Asks, and reads the answer as JSON. An empty one is null.
    ///
    /// # Errors
    /// As [`Client::send`], or if it is no JSON.
    pub async fn json(
        &self,
        method: Method,
        url: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let bytes = self.send(method, url, token, body).await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Json(url.to_owned(), error))
    }

    /// Sends a form, and reads the answer as JSON.
    ///
    /// # Errors
    /// As [`Client::json`].
    pub async fn form(&self, url: &str, fields: &[(&str, &str)]) -> Result<Value, ClientError> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header("content-type", "application/x-www-form-urlencoded");
        let (status, bytes) = self.answer(request, url, body).await?;
        let bytes = accepted(url, status, bytes)?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Json(url.to_owned(), error))
    }

    /// What is served there.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn get_bytes(&self, url: &str) -> Result<Vec<u8>, ClientError> {
        Ok(self.send(Method::GET, url, None, None).await?.to_vec())
    }
}

/// The body of an answer that says yes.
fn accepted(url: &str, status: StatusCode, bytes: Bytes) -> Result<Bytes, ClientError> {
    if !status.is_success() {
        let text: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
        return Err(ClientError::Status { url: url.to_owned(), status, text });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Asks a server that goes on writing these bytes, with a pause between them. Returns what it could write.
    async fn ask_endless(head: &str, bytes: &[u8], pause: Duration) -> (ClientError, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut written = 0;
            while stream.write_all(bytes).await.is_ok() {
                written += bytes.len();
                tokio::time::sleep(pause).await;
            }
            written
        };
        let client = Client::new(Duration::from_secs(2)).unwrap();
        let (asked, written) = tokio::join!(client.get_bytes(&url), serve);
        (asked.unwrap_err(), written)
    }

    #[test]
    fn what_is_on_the_way_in_the_clear_is_known() {
        let rows = [
            ("https://fleet.example.com/x", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:8080/", true),
            ("http://localhost:1", true),
            ("http://fleet.example.com", false),
            ("http://10.0.0.1", false),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("ftp://127.0.0.1", false),
            ("fleet.example.com", false),
            ("", false),
        ];
        for (url, expected) in rows {
            assert_eq!(is_confidential(url), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn an_endless_answer_is_given_up() {
        for head in ["Connection: close", "Content-Length: 1099511627776"] {
            let (error, written) = ask_endless(head, &[b' '; 1 << 16], Duration::ZERO).await;
            assert!(matches!(error, ClientError::Read(..)), "{head}: {error}");
            // What fits into the buffers of two sockets comes on top.
            assert!(written < 3 * ANSWER_MAX, "{head}: {written} bytes were taken");
        }
    }

    #[tokio::test]
    async fn an_answer_that_drips_is_given_up_at_the_deadline() {
        let begun = std::time::Instant::now();
        let (error, _) = ask_endless("Connection: close", b" ", Duration::from_millis(100)).await;
        assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
