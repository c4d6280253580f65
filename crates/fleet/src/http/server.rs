//! Connections: how many there may be, how long a peer may take to say what it wants, and TLS.
//!
//! 1. A peer that is slow, or has many connections, costs others nothing: one without a place is closed at once.
//! 2. Certificates are read again when they change. Broken ones leave the last good ones in use.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{App, REQUEST_MAX, router};
use crate::config::TlsFiles;

/// After an accept that failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Between two looks at the certificate.
const TLS_PAUSE: Duration = Duration::from_secs(2);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
enum TlsError {
    #[error("cannot read {0:?}")]
    Read(PathBuf, #[source] std::io::Error),
    #[error("{0:?} is not valid PEM")]
    Pem(PathBuf, #[source] pem::Error),
    #[error("the certificate and its key are not valid")]
    Identity(#[source] rustls::Error),
}

/// Serves until it is stopped, and completes requests in progress.
///
/// # Errors
/// If the certificate cannot be used.
pub async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let limits = app.config.limits.clone();
    let tls = app.config.tls.as_ref().map(Tls::load).transpose().map_err(std::io::Error::other)?;
    let slots = ConnectionSlots::new(limits.connections, limits.connections_per_address);
    let (told, stopped) = watch::channel(false);
    let one = One { router: router(app), header: Duration::from_millis(limits.header_ms), stopped };
    let mut connections = JoinSet::new();
    let mut renewal = tokio::time::interval(TLS_PAUSE);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            _ = renewal.tick() => {
                tls.iter().for_each(Tls::renew);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if let Some(place) = slots.take(peer.ip()) {
            connections.spawn(one.clone().run(stream, tls.as_ref().map(Tls::acceptor), place));
        }
    }
    drop(listener);
    let _ = told.send(true);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(REQUEST_MAX, all).await;
    Ok(())
}

/// The state that connections share.
#[derive(Clone)]
struct One {
    router: Router,
    header: Duration,
    stopped: watch::Receiver<bool>,
}

impl One {
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>, _place: ConnectionSlot) {
        match tls {
            None => self.answer(stream).await,
            Some(acceptor) => {
                let shaken = tokio::time::timeout(self.header, acceptor.accept(stream)).await;
                if let Ok(Ok(stream)) = shaken {
                    self.answer(stream).await;
                }
            }
        }
    }

    /// Errors concern the peer alone.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(mut self, stream: S) {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.header);
        let service = TowerToHyperService::new(self.router);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = self.stopped.wait_for(|stopped| *stopped) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// ConnectionSlots for connections, in all and for each address.
#[derive(Debug, Clone)]
struct ConnectionSlots {
    most: usize,
    most_per_address: usize,
    taken: Arc<Mutex<(usize, HashMap<IpAddr, usize>)>>,
}

impl ConnectionSlots {
    fn new(most: usize, most_per_address: usize) -> Self {
        Self { most, most_per_address, taken: Arc::default() }
    }

    fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_address) = &mut *taken;
        let here = by_address.get(&address).copied().unwrap_or(0);
        if *all >= self.most || here >= self.most_per_address {
            return None;
        }
        *all += 1;
        by_address.insert(address, here + 1);
        Some(ConnectionSlot { slots: self.clone(), address })
    }
}

/// The place of one connection, as long as it lives.
struct ConnectionSlot {
    slots: ConnectionSlots,
    address: IpAddr,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, by_address) = &mut *taken;
        *all = all.saturating_sub(1);
        let here = by_address.get(&self.address).copied().unwrap_or(0);
        match here {
            0 | 1 => by_address.remove(&self.address),
            more => by_address.insert(self.address, more - 1),
        };
    }
}

/// The certificate that is shown, and the bytes that it was read from.
struct Tls {
    files: TlsFiles,
    current: RwLock<([Vec<u8>; 2], Arc<ServerConfig>)>,
}

impl Tls {
    fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let bytes = read_both(files)?;
        let config = server_config(files, &bytes)?;
        Ok(Self { files: files.clone(), current: RwLock::new((bytes, config)) })
    }

    fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current.1))
    }

    fn renew(&self) {
        let known = self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone();
        let read = match read_both(&self.files) {
            Ok(bytes) if bytes == known => return,
            Ok(bytes) => server_config(&self.files, &bytes).map(|config| (bytes, config)),
            Err(error) => Err(error),
        };
        match read {
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
                tracing::info!(certificate = ?self.files.certificate, "new certificate in use");
            }
            Err(error) => {
                tracing::warn!(error = %crate::chain(&error), "the last good certificate stays in use");
            }
        }
    }
}

fn read_both(files: &TlsFiles) -> Result<[Vec<u8>; 2], TlsError> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error));
    Ok([read(&files.certificate)?, read(&files.key)?])
}

fn server_config(files: &TlsFiles, bytes: &[Vec<u8>; 2]) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |path: &Path| {
        let path = path.to_owned();
        move |error| TlsError::Pem(path, error)
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes[0]).collect();
    let chain = chain.map_err(pem(&files.certificate))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes[1]).map_err(pem(&files.key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Identity)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Identity)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_in_all_and_for_each_address() {
        let slots = ConnectionSlots::new(3, 2);
        let address = |last| IpAddr::from([127, 0, 0, last]);
        let first = slots.take(address(1));
        let second = slots.take(address(1));
        assert!(first.is_some() && second.is_some());
        assert!(slots.take(address(1)).is_none(), "two for each");
        let third = slots.take(address(2));
        assert!(third.is_some());
        assert!(slots.take(address(3)).is_none(), "three in all");
        drop(first);
        let again = slots.take(address(1));
        assert!(again.is_some());
        drop((second, third, again));
        assert_eq!(*slots.taken.lock().unwrap(), (0, HashMap::new()));
    }
}
