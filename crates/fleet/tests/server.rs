//! Connections: slow peers, too many of them, and TLS with a certificate that is renewed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fleet::config::TlsFiles;
use rustls::pki_types::{CertificateDer, ServerName};
use support::{Manager, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

fn address(manager: &Manager) -> SocketAddr {
    manager.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// What is read until the peer closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    // One that was reset was closed, too.
    let _ = stream.read_to_string(&mut text).await;
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_finish_its_headers_loses_its_connection() {
    let manager = Manager::with("sqlite", |config| config.limits.header_ms = 300).await;
    for begun in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut stream = TcpStream::connect(address(&manager)).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let text = rest(&mut stream).await;
        assert!(!text.contains("200"), "{text}");
    }
    // One that is quick is answered.
    let mut stream = TcpStream::connect(address(&manager)).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_address_has_so_many_connections_and_no_more() {
    let manager = Manager::with("sqlite", |config| config.limits.connections_per_address = 3).await;
    let ask = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address(&manager)).await.unwrap();
        stream.write_all(ask).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        held.push(stream);
    }
    let refused = async || {
        let mut stream = TcpStream::connect(address(&manager)).await.unwrap();
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await;
        rest(&mut stream).await.is_empty()
    };
    assert!(refused().await);
    held.pop();
    eventually("there is a place again", async || !refused().await).await;
}

/// A new certificate in these files, and what a client trusts.
fn certificate(files: &TlsFiles) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["fleet.test".to_owned()]).unwrap();
    let write = |path: &Path, text: String| {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    };
    write(&files.key, made.signing_key.serialize_pem());
    write(&files.certificate, made.cert.pem());
    made.cert.der().clone()
}

/// Whether the manager shows the certificate that is trusted, and answers.
async fn answers(address: SocketAddr, trusted: &CertificateDer<'static>) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("fleet.test").unwrap();
    let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await else {
        return false;
    };
    let ask = b"GET /healthz HTTP/1.1\r\nhost: fleet.test\r\nconnection: close\r\n\r\n";
    stream.write_all(ask).await.unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.unwrap();
    &begin == b"HTTP/1.1 200"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_renewed_while_it_serves() {
    let dir = tempfile::tempdir().unwrap();
    let files =
        TlsFiles { certificate: dir.path().join("tls.crt"), key: dir.path().join("tls.key") };
    let first = certificate(&files);
    let used = files.clone();
    let manager = Manager::with("sqlite", |config| config.tls = Some(used)).await;
    let at = address(&manager);
    assert!(answers(at, &first).await);
    // Without TLS there is nothing to be had.
    let mut plain = TcpStream::connect(at).await.unwrap();
    let _ = plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(!rest(&mut plain).await.contains("200"));
    let second = certificate(&files);
    eventually("the new one is shown", async || answers(at, &second).await).await;
    assert!(!answers(at, &first).await);
    // A broken one changes nothing.
    fs::write(&files.certificate, "nothing").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(answers(at, &second).await);
}

/// Many probes are one question to the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_asks_the_database_at_an_interval() {
    let manager = Manager::start("sqlite").await;
    let asked = std::time::Instant::now();
    assert_eq!(manager.status_of("/readyz").await, 200);
    manager.store.close().await;
    let still_ready = manager.status_of("/readyz").await == 200;
    // On a machine that has stalled, the next question is due.
    assert!(still_ready || asked.elapsed() > Duration::from_secs(4), "it asks for each probe");
    eventually("it is not ready", async || manager.status_of("/readyz").await == 503).await;
    assert_eq!(manager.status_of("/healthz").await, 200, "another process would not help");
}
