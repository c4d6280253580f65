//! One request over one verified TLS connection, for peers that a user of one namespace may control: Cruise Control
//! and the nodes of a cluster.
//!
//! 1. Nothing is sent before the peer has presented a certificate of the given authorities for its host name.
//! 2. Redirects are not followed, and no connection is reused.
//!
//! The callers set the deadline, and bound the answer while they read it (see [`crate::body`]).

use std::sync::Arc;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kafka_admin::Resolve;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A client certificate and its key, in PEM.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) certificate: &'a [u8],
    pub(crate) key: &'a [u8],
}

/// Certificates or keys that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidKeys(String);

/// Where a request goes.
#[derive(Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) tls: &'a TlsConnector,
    pub(crate) names: &'a dyn Resolve,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The host name is not valid. Nothing was sent.
    Name,
    /// There is no connection. Nothing was sent.
    Connect(std::io::Error),
    /// The certificate of the peer is not valid, or the peer refuses ours. Nothing was sent.
    Handshake(std::io::Error),
    /// The exchange was interrupted. The peer may have done what it was asked.
    Broken(hyper::Error),
}

/// Sets up TLS with these authorities, in PEM.
pub(crate) fn connector(
    authorities: &[u8],
    identity: Option<Identity<'_>>,
) -> Result<TlsConnector, InvalidKeys> {
    let invalid = |error: &dyn std::fmt::Display| InvalidKeys(error.to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate.map_err(|error| invalid(&error))?;
        roots.add(certificate).map_err(|error| invalid(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
            let chain = chain.map_err(|error| invalid(&error))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid(&error))?;
            config.with_client_auth_cert(chain, key).map_err(|error| invalid(&error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Connects, sends the request, and lets `read` read the answer.
pub(crate) async fn exchange<T, E: From<RequestError>>(
    peer: Peer<'_>,
    request: Request<Empty<Bytes>>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, E>,
) -> Result<T, E> {
    let Peer { tls, names, host, port } = peer;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| RequestError::Name)?;
    let at = names.resolve(host, port).await.map_err(RequestError::Connect)?;
    let stream = TcpStream::connect(at.as_slice()).await.map_err(RequestError::Connect)?;
    let stream = tls.connect(name, stream).await.map_err(RequestError::Handshake)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(RequestError::Broken)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(RequestError::Broken)?;
        read(answer).await
    };
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        // An answer that is complete is valid however the connection ends; one that is truncated fails by itself.
        _ = connection => answer.await,
    }
}
