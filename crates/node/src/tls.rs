//! TLS with client certificates for the health endpoint.
//!
//! Certificates are renewed while a node runs: changed files are read again, and if they are not valid the
//! previous ones stay in use.

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

/// A peer that does not speak TLS must not occupy a slot for long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// More than enough for probes and scrapes.
const HANDSHAKES_MAX: usize = 64;
/// Pause after a failed accept, most likely because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The PEM files of a server with client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of this node, with its chain.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Certificate authorities of the clients.
    pub client_authorities: PathBuf,
}

/// Why the files are not usable.
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
    /// A file without the expected content.
    #[error("{} has no {what} in PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    #[error("a client certificate authority is not valid")]
    Authority(#[source] rustls::Error),
    #[error("no client certificate authority is configured")]
    NoAuthority(#[source] VerifierBuilderError),
    #[error("the certificate and its key do not match or are not valid")]
    Identity(#[source] rustls::Error),
}

impl TlsFiles {
    fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        // Explicit: the process-wide default could be set elsewhere.
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
            // File system timestamps are coarse; but Kubernetes replaces the file.
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

/// Modification time, length and inode of each file.
type Versions = [Option<(SystemTime, u64, u64)>; 3];

/// The configuration in use, and the versions of the files that it was read from.
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
                Err(error) => {
                    tracing::warn!(%error, "cannot reload certificates; the previous ones stay in use")
                }
            }
        }
        Arc::clone(&loaded.1)
    }
}

/// Accepts connections from clients with a certificate.
#[derive(Debug)]
pub(crate) struct TlsListener {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Starts to accept.
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
            // Clients without a certificate are not logged.
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
            // The accepting task ends with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
