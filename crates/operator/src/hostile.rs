//! Peers that misbehave, for the tests of all clients: endless answers and answers that drip, from plain sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kafka_admin::{Resolve, Resolving};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) type Own = rcgen::CertifiedKey<rcgen::KeyPair>;

/// A certificate that is its own authority.
pub(crate) fn certificate(name: &str) -> Own {
    rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap()
}

pub(crate) fn acceptor(own: &Own) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// What a peer answers to every request.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// The status, such as `200 OK`.
    pub(crate) status: &'static str,
    /// A header before the body.
    pub(crate) header: &'static str,
    /// What it writes repeatedly, until the connection is closed.
    pub(crate) piece: Vec<u8>,
    /// The pause between two pieces.
    pub(crate) pause: Duration,
}

impl Manner {
    /// Writes as fast as it can.
    pub(crate) fn flood(header: &'static str, piece: &[u8]) -> Self {
        // Large writes, so that a test is quick.
        let times = (1 << 16) / piece.len() + 1;
        Self { status: "200 OK", header, piece: piece.repeat(times), pause: Duration::ZERO }
    }

    /// Writes byte by byte, and never ends.
    pub(crate) fn drip() -> Self {
        let pause = Duration::from_millis(100);
        Self { status: "200 OK", header: "Connection: close", piece: b" ".to_vec(), pause }
    }

    /// Answers with a status and two bytes, as a peer that behaves.
    pub(crate) fn status(status: &'static str) -> Self {
        Self { status, ..Self::flood("Content-Length: 2\r\nConnection: close", b"{}") }
    }
}

/// A server on this machine. It is found by any name and port: see [`Resolve`].
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    written: Arc<AtomicUsize>,
}

impl Peer {
    pub(crate) async fn start(tls: Option<TlsAcceptor>, manner: Manner) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let peer = Self { address, written: Arc::default() };
        let serving = peer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (peer, tls, manner) = (serving.clone(), tls.clone(), manner.clone());
                tokio::spawn(async move {
                    match tls {
                        None => peer.answer(stream, &manner).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                peer.answer(stream, &manner).await;
                            }
                        }
                    }
                });
            }
        });
        peer
    }

    /// The bytes of bodies that were taken off it. What fits into the buffers of two sockets was not read.
    pub(crate) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    async fn answer(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, manner: &Manner) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            request.push(byte);
        }
        let head = format!("HTTP/1.1 {}\r\n{}\r\n\r\n", manner.status, manner.header);
        let _ = stream.write_all(head.as_bytes()).await;
        while stream.write_all(&manner.piece).await.is_ok() && stream.flush().await.is_ok() {
            self.written.fetch_add(manner.piece.len(), Ordering::Relaxed);
            tokio::time::sleep(manner.pause).await;
        }
    }
}

impl Resolve for Peer {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
        Box::pin(async { Ok(vec![self.address]) })
    }
}
