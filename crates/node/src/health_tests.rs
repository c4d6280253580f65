//! Tests of the health endpoint with a fake exporter and real certificates.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::*;

/// An exporter that always returns this page.
async fn agent(page: &'static str) -> Agent {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{page}").as_bytes()).await;
        }
    });
    Agent::new(address)
}

async fn health(roles: Roles, page: &'static str, dir: &Path) -> Arc<Health> {
    Arc::new(Health {
        roles,
        beat_ms: Some(500),
        metadata_dir: dir.to_owned(),
        agent: agent(page).await,
        pulse: Pulse::new(roles, dir.join("hangs")),
        stopping: AtomicBool::new(false),
        disk: Arc::new(Semaphore::new(1)),
    })
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, path: &str) -> (u16, String) {
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server may close TLS without close_notify; the response counts.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or(("HTTP/1.0 0", ""));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.trim_end().to_owned())
}

/// Starts a server without TLS and returns its address.
async fn plain(health: &Arc<Health>, everything: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    serve_plain(listener, Arc::clone(health), everything);
    address
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(TcpStream::connect(address).await.unwrap(), path).await
}

#[tokio::test]
async fn a_broker_that_recovers_says_what_is_left() {
    let page = "kafka_broker_state 2.0\nkafka_log_remaining_logs_to_recover{dir=\"/a\"} 7.0\n\
                kafka_log_remaining_segments_to_recover{dir=\"/a\",thread=\"0\"} 3.0\n";
    let temp = tempfile::tempdir().unwrap();
    let address = plain(&health(Roles::Broker, page, temp.path()).await, true).await;
    let (status, body) = get(address, "/ready").await;
    assert_eq!(status, 503);
    assert!(body.contains("the broker is recovery (2)"), "{body}");
    let (status, body) = get(address, "/broker-state").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({"state": "recovery", "number": 2, "remainingLogsToRecover": 7,
               "remainingSegmentsToRecover": 3})
    );
    let (_, body) = get(address, "/v1/broker-state/").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let left = json!({"remainingLogsToRecover": 7, "remainingSegmentsToRecover": 3});
    assert_eq!(body, json!({"brokerState": 2, "recoveryState": left}));
    assert_eq!(get(address, "/v1/ready").await.0, 503);
    assert_eq!(get(address, "/metrics").await.1, page.trim_end());
}

/// An exporter that returns these pages one after the other, each too late.
async fn late_agent(pages: &'static [&'static str]) -> Agent {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for page in pages {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            tokio::time::sleep(readiness::ANSWER_TIMEOUT + Duration::from_millis(200)).await;
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{page}").as_bytes()).await;
        }
        std::future::pending::<()>().await;
    });
    Agent::new(address)
}

/// As on a machine that is busy with log recovery.
#[tokio::test]
async fn log_recovery_is_told_from_a_late_page_and_nothing_else_is() {
    const PAGES: [&str; 3] = [
        "kafka_broker_state 1.0\nkafka_log_remaining_logs_to_recover{dir=\"/a\"} 7.0\n",
        "kafka_broker_state 1.0\n",
        "kafka_broker_state 3.0\n",
    ];
    let temp = tempfile::tempdir().unwrap();
    let mut health = health(Roles::Broker, "", temp.path()).await;
    Arc::get_mut(&mut health).unwrap().agent = late_agent(&PAGES).await;
    let address = plain(&health, true).await;
    // The state while a page is in progress, which then arrives.
    let told = async || {
        let before = health.agent.last().map(|heard| heard.at);
        let (status, _) = get(address, "/broker-state").await;
        while health.agent.last().map(|heard| heard.at) == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        status
    };
    assert_eq!(told().await, 503);
    // It recovers its logs, as last reported.
    assert_eq!(told().await, 200);
    // It last reported that it starts with nothing left to recover, so it may be running by now.
    assert_eq!(told().await, 503);
    assert_eq!(get(address, "/broker-state").await.0, 503);
    // It was running; a late page proves that too.
    is_silent(&health, liveness::UNANSWERED_MAX).await;
    assert_eq!(get(address, "/live").await.0, 503);
}

#[tokio::test]
async fn silence_counts_unless_the_jvm_is_or_may_be_blocked() {
    let mut child = std::process::Command::new("cat");
    let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let process = Process::of(rustix::process::Pid::from_child(&child));
    assert_eq!(interval(true, &process).await, Interval::Answered);
    // Once started it waits for its input, which is not storage.
    while interval(false, &process).await != Interval::Silent {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(interval(false, &process).await, Interval::Blocked);
}

#[tokio::test]
async fn a_node_that_stops_is_not_ready_but_live() {
    let temp = tempfile::tempdir().unwrap();
    let health = health(Roles::Broker, "kafka_broker_state 3.0\n", temp.path()).await;
    let address = plain(&health, true).await;
    assert_eq!(get(address, "/ready").await.0, 200);
    health.stopping.store(true, Ordering::Relaxed);
    assert_eq!(get(address, "/ready").await.0, 503);
    assert_eq!(get(address, "/live").await.0, 200);
}

/// Enters one response, and then this many intervals without one.
async fn is_silent(health: &Health, intervals: u32) {
    let stopping = health.stopping.load(Ordering::Relaxed);
    health.pulse.enter(Interval::Answered, stopping).await;
    for _ in 0..intervals {
        health.pulse.enter(Interval::Silent, stopping).await;
    }
}

#[tokio::test]
async fn a_jvm_that_hangs_is_not_live_until_it_answers_again() {
    let temp = tempfile::tempdir().unwrap();
    let health = health(Roles::Broker, "kafka_broker_state 3.0\n", temp.path()).await;
    let address = plain(&health, true).await;
    assert_eq!(get(address, "/ready").await.0, 200);
    is_silent(&health, liveness::UNANSWERED_MAX - 1).await;
    assert_eq!(get(address, "/live").await.0, 200);
    is_silent(&health, liveness::UNANSWERED_MAX).await;
    let (status, body) = get(address, "/live").await;
    assert_eq!(status, 503);
    assert_eq!(body, "Kafka's JVM has not responded for 60 s");
    // A thread dump is requested.
    health.pulse.hangs.notified().await;
    is_silent(&health, 0).await;
    assert_eq!(get(address, "/live").await.0, 200);
}

#[tokio::test]
async fn a_broker_that_recovers_its_logs_is_live_however_silent_it_is() {
    let page = "kafka_broker_state 2.0\nkafka_log_remaining_logs_to_recover{dir=\"/a\"} 7.0\n";
    let temp = tempfile::tempdir().unwrap();
    let health = health(Roles::Combined, page, temp.path()).await;
    let address = plain(&health, true).await;
    assert_eq!(get(address, "/ready").await.0, 503);
    is_silent(&health, 1_000).await;
    assert_eq!(get(address, "/live").await.0, 200);
}

#[tokio::test]
async fn a_node_that_stops_is_left_to_its_grace_period() {
    let temp = tempfile::tempdir().unwrap();
    let health = health(Roles::Controller, "", temp.path()).await;
    health.stopping.store(true, Ordering::Relaxed);
    is_silent(&health, 100).await;
    assert_eq!(health.liveness(), Liveness::Live);
    health.stopping.store(false, Ordering::Relaxed);
    is_silent(&health, 100).await;
    assert_eq!(health.liveness(), Liveness::Hung { unanswered: 100 });
}

/// The file is a pipe, which returns data when something is written to it.
#[tokio::test]
async fn a_disk_that_does_not_answer_keeps_one_question_waiting_and_no_probe() {
    let temp = tempfile::tempdir().unwrap();
    let pipe = temp.path().join("meta.properties");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let health = health(Roles::Broker, "kafka_broker_state 3.0\n", temp.path()).await;
    let address = plain(&health, true).await;
    let mut asked: JoinSet<_> = [1, 2].into_iter().map(|_| get(address, "/directory-id")).collect();
    assert_eq!(get(address, "/live").await.0, 200);
    assert_eq!(get(address, "/ready").await.0, 200);
    // Opening it waits for a reader. Of two concurrent readers one would get nothing.
    let meta = "version=1\ncluster.id=c\nnode.id=0\ndirectory.id=9f7Q2Kx1TbeyGn1oVb3o5A\n";
    while !asked.is_empty() {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::write(pipe, meta).unwrap());
        let told = asked.join_next().await.unwrap().unwrap();
        assert_eq!(told, (200, "9f7Q2Kx1TbeyGn1oVb3o5A".to_owned()));
    }
}

#[tokio::test]
async fn an_agent_that_is_silent_makes_nobody_ready() {
    let temp = tempfile::tempdir().unwrap();
    let health = health(Roles::Combined, "", temp.path()).await;
    let address = plain(&health, true).await;
    for (path, status) in [
        ("/live", 200),
        ("/ready", 503),
        ("/broker-state", 503),
        ("/v1/broker-state", 404),
        ("/v1/ready", 404),
        ("/directory-id", 404),
        ("/quorum-state", 404),
    ] {
        assert_eq!(get(address, path).await.0, status, "{path}");
    }
}

/// A certificate authority and the certificates that it issued.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a certificate and its key.
    fn issue(&self, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new(["node".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Writes the files of a server that accepts clients of this authority.
    fn write(&self, dir: &Path) -> TlsFiles {
        let (certificate, key) = self.issue(ExtendedKeyUsagePurpose::ServerAuth);
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            certificate: write("tls.crt", &certificate),
            key: write("tls.key", &key),
            client_authorities: write("ca.crt", &self.0.pem()),
        }
    }

    /// Sends a request to a server of this authority as a client of `client`'s.
    async fn ask(
        &self,
        at: SocketAddr,
        client: Option<&Self>,
        path: &str,
    ) -> Option<(u16, String)> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.0.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.issue(ExtendedKeyUsagePurpose::ClientAuth);
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let connector = TlsConnector::from(Arc::new(config));
        let stream = TcpStream::connect(at).await.unwrap();
        let name = ServerName::try_from("node").unwrap();
        let stream = connector.connect(name, stream).await.ok()?;
        // With TLS 1.3 a client learns only when it reads that it was rejected.
        Some(ask(stream, path).await).filter(|(status, _)| *status != 0)
    }
}

#[tokio::test]
async fn only_a_client_of_the_authority_is_told_everything() {
    let temp = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let files = ours.write(temp.path());
    let meta = "version=1\ncluster.id=c\nnode.id=0\ndirectory.id=9f7Q2Kx1TbeyGn1oVb3o5A\n";
    fs::write(temp.path().join("meta.properties"), meta).unwrap();
    let health = health(Roles::Broker, "kafka_broker_state 3.0\n", temp.path()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    serve_tls(TlsListener::new(listener, &files).unwrap(), Arc::clone(&health));

    let told = ours.ask(at, Some(&ours), "/directory-id").await;
    assert_eq!(told, Some((200, "9f7Q2Kx1TbeyGn1oVb3o5A".to_owned())));
    assert_eq!(ours.ask(at, None, "/live").await, None);
    assert_eq!(ours.ask(at, Some(&theirs), "/live").await, None);

    // Without TLS only the probes are served.
    let bare = plain(&health, false).await;
    assert_eq!(get(bare, "/live").await.0, 200);
    assert_eq!(get(bare, "/ready").await.0, 200);
    for path in ["/directory-id", "/broker-state", "/metrics", "/v1/ready"] {
        assert_eq!(get(bare, path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn new_certificates_are_used_and_broken_ones_are_not() {
    let temp = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.write(temp.path());
    let health = health(Roles::Broker, "", temp.path()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    serve_tls(TlsListener::new(listener, &files).unwrap(), health);
    assert!(old.ask(at, Some(&old), "/live").await.is_some());

    fs::write(&files.certificate, "nothing").unwrap();
    assert!(old.ask(at, Some(&old), "/live").await.is_some());
    new.write(temp.path());
    assert!(new.ask(at, Some(&new), "/live").await.is_some());
    assert!(old.ask(at, Some(&old), "/live").await.is_none());
}

#[tokio::test]
async fn files_that_are_no_certificates_are_told_by_name() {
    let temp = tempfile::tempdir().unwrap();
    let files = Authority::new().write(temp.path());
    let error = async |files: &TlsFiles| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        TlsListener::new(listener, files).unwrap_err().to_string()
    };
    let missing = TlsFiles { key: temp.path().join("none"), ..files.clone() };
    assert!(error(&missing).await.ends_with("/none"));
    let other_key = Authority::new().issue(ExtendedKeyUsagePurpose::ServerAuth).1;
    fs::write(&files.key, other_key).unwrap();
    assert_eq!(error(&files).await, "the certificate and its key do not match or are not valid");
    fs::write(&files.client_authorities, "").unwrap();
    assert_eq!(error(&files).await, "no client certificate authority is configured");
}
