//! TLS for the server that tells how the node is. Only clients with a certificate get in.
//!
//! Certificates are renewed while a node runs: the files are read again when they have changed, and one that
//! is broken leaves the last good ones in use.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A peer that does not speak TLS must not hold its place for long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Probes and scrapes are a handful.
const HANDSHAKES_MAX: usize = 64;
/// After an accept that failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The files that a server with client certificates needs, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of this node, with what leads to its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities whose clients are let in.
    pub client_authorities: PathBuf,
}

/// What is wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file without what should be in it.
    #[error("{} has no {what} in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    /// An authority that rustls does not take.
    #[error("a client authority is not usable")]
    Authority(#[source] rustls::Error),
    /// No authority at all.
    #[error("there is no client authority to trust")]
    NoAuthority(#[source] VerifierBuilderError),
    /// A certificate and a key that do not go together.
    #[error("the certificate and its key are not usable")]
    Identity(#[source] rustls::Error),
}

impl TlsFiles {
    fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        // Named explicitly: a process-wide default could be set by anyone.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.client_authorities)? {
            roots.add(authority).map_err(TlsError::Authority)?;
        }
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let verifier = verifier.build().map_err(TlsError::NoAuthority)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?);
        let key = key.map_err(TlsError::pem(&self.key, "key"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Identity)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate)?, key)
            .map_err(TlsError::Identity)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn versions(&self) -> Versions {
        let version = |path: &PathBuf| {
            let meta = fs::metadata(path).ok()?;
            // The clock of a file system ticks slowly; Kubernetes puts another file in the place.
            Some((meta.modified().ok()?, meta.len(), meta.ino()))
        };
        [&self.certificate, &self.key, &self.client_authorities].map(version)
    }
}

impl TlsError {
    fn pem(path: &Path, what: &'static str) -> impl Fn(pem::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Pem { path: path.clone(), what, source }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    all.map_err(TlsError::pem(path, "certificate"))
}

/// What tells a file from the one before it: when it was written, its length and its number.
type Versions = [Option<(SystemTime, u64, u64)>; 3];

/// The configuration that is in use, and the files that were read for it.
#[derive(Debug)]
struct Current {
    files: TlsFiles,
    loaded: Mutex<(Versions, Arc<ServerConfig>)>,
}

impl Current {
    fn get(&self) -> Arc<ServerConfig> {
        let versions = self.files.versions();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.0 != versions {
            loaded.0 = versions;
            match self.files.load() {
                Ok(config) => loaded.1 = config,
                Err(error) => tracing::warn!("the last good certificates stay in use: {error}"),
            }
        }
        Arc::clone(&loaded.1)
    }
}

/// Connections on which a client has shown its certificate.
#[derive(Debug)]
pub(crate) struct TlsListener {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Begins to accept.
    pub(crate) fn new(listener: TcpListener, files: &TlsFiles) -> Result<Self, TlsError> {
        let loaded = Mutex::new((files.versions(), files.load()?));
        let current = Arc::new(Current { files: files.clone(), loaded });
        let address = listener.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into());
        let (give, accepted) = mpsc::channel(1);
        tokio::spawn(accept_all(listener, current, give));
        Ok(Self { accepted, address })
    }
}

async fn accept_all(
    listener: TcpListener,
    current: Arc<Current>,
    give: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let acceptor = TlsAcceptor::from(current.get());
        let give = give.clone();
        tokio::spawn(async move {
            let shaken = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
            drop(place);
            // Who has no certificate is no business of the log.
            if let Ok(Ok(stream)) = shaken {
                let _ = give.send((stream, peer)).await;
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            // The task that accepts ends with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
