//! The endpoint of a node behind a real API server: logs and commands by the real kubectl. Pods are
//! objects; their logs are written by the test, and commands run beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cluster.rs"]
mod cluster;
mod support;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifacts::kubernetes::Program;
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use local::control_plane::NodeIdentity;
use local::kubelet::server::{DECLARED_FEATURE, ExecError, Host, Server, ServerOptions, ServerTls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;

use cluster::{Cluster, eventually};

const ADDRESS: &str = "127.0.78.1";

/// A node whose pods are what the test says.
#[derive(Default)]
struct Pods(Mutex<Vec<Pod>>);

impl Host for Pods {
    fn pods(&self) -> Vec<Pod> {
        self.0.lock().unwrap().clone()
    }

    fn exec(
        &self,
        pod: &Pod,
        container: &str,
        command: &[String],
    ) -> Result<tokio::process::Command, ExecError> {
        if container != "c" {
            let pod = cluster::named(pod);
            return Err(ExecError::NotRunning { pod, container: container.to_owned() });
        }
        let mut process = tokio::process::Command::new(&command[0]);
        process.args(&command[1..]);
        Ok(process)
    }
}

struct Stage {
    cluster: Cluster,
    pods: Arc<Pods>,
    identity: NodeIdentity,
    address: SocketAddr,
    server: JoinHandle<std::convert::Infallible>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Stage {
    async fn new() -> Self {
        let cluster = Cluster::start().await;
        let ip = ADDRESS.parse().unwrap();
        let identity = cluster.plane.node_identity("n", &[ip]).unwrap();
        let pods = Arc::new(Pods::default());
        let options = ServerOptions {
            address: SocketAddr::new(ip, 0),
            tls: ServerTls {
                certificate: identity.serving.certificate.clone(),
                key: identity.serving.key.clone(),
                client_authority: identity.client_ca.clone(),
                client_name: "kube-apiserver-kubelet-client".to_owned(),
            },
            logs: cluster.node_dir("n").join("logs"),
        };
        let server = Server::bind(options, pods.clone()).await.unwrap();
        let address = server.address();
        let status = json!({
            "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
            "declaredFeatures": [DECLARED_FEATURE],
        });
        cluster.node("n", ip, status).await;
        cluster.namespace("ns").await;
        let server = tokio::spawn(server.run());
        Self { cluster, pods, identity, address, server }
    }

    /// The pod, with the state of its one container, known to the API server and the node.
    async fn pod(&self, container: Value) {
        let pods = self.cluster.api::<Pod>("ns");
        if pods.get_opt("p").await.unwrap().is_none() {
            let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "x"}]});
            let object = json!({"metadata": {"name": "p"}, "spec": spec});
            self.cluster.create::<Pod>("ns", object).await;
        }
        let mut status = json!({"name": "c", "image": "x", "imageID": "", "ready": true});
        status.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        let status = json!({"phase": "Running", "containerStatuses": [status]});
        self.cluster.patch_pod("ns", "p", status).await;
        *self.pods.0.lock().unwrap() = vec![pods.get("p").await.unwrap()];
    }

    fn log(&self, attempt: u32) -> PathBuf {
        let uid = self.pods.0.lock().unwrap()[0].metadata.uid.clone().unwrap();
        let dir = self.cluster.node_dir("n").join("logs").join(format!("ns_p_{uid}")).join("c");
        fs::create_dir_all(&dir).unwrap();
        dir.join(format!("{attempt}.log"))
    }

    fn write(&self, attempt: u32, lines: &[&str]) {
        let mut file = File::options().append(true).create(true).open(self.log(attempt)).unwrap();
        for line in lines {
            writeln!(file, "2026-11-15T01:02:03.000000004Z stdout F {line}").unwrap();
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let kubectl = support::binaries().program(Program::Kubectl);
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(self.cluster.plane.kubeconfig_path());
        command.arg("--cache-dir").arg(self.cluster.dir().join("cache")).args(arguments);
        command
    }

    async fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command(arguments);
        let input = input.to_owned();
        tokio::task::spawn_blocking(move || {
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        })
        .await
        .unwrap()
    }

    async fn says(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments, "").await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_logs_and_runs_commands() {
    let stage = Stage::new().await;
    logs_are_read(&stage).await;
    logs_are_followed_until_the_container_ends(&stage).await;
    commands_are_run(&stage).await;
    a_client_that_leaves_takes_its_command_along(&stage).await;
    the_older_protocol_is_spoken_too(&stage).await;
    nobody_else_is_served(&stage).await;
}

async fn logs_are_read(stage: &Stage) {
    let (running, ended) = (json!({"running": {}}), json!({"terminated": {"exitCode": 1}}));
    stage.pod(json!({"restartCount": 1, "state": running, "lastState": ended})).await;
    stage.write(0, &["first life"]);
    stage.write(1, &["a", "b", "c"]);
    let rows: [(&[&str], &str); 5] = [
        (&["logs", "-n", "ns", "p"], "a\nb\nc\n"),
        (&["logs", "-n", "ns", "p", "--tail=1"], "c\n"),
        (&["logs", "-n", "ns", "p", "--previous"], "first life\n"),
        (&["logs", "-n", "ns", "p", "--since=1s"], ""),
        (
            &["logs", "-n", "ns", "p", "--tail=1", "--timestamps"],
            "2026-11-15T01:02:03.000000004Z c\n",
        ),
    ];
    for (arguments, expected) in rows {
        assert_eq!(stage.says(arguments).await, expected, "{arguments:?}");
    }
    stage.pod(json!({"restartCount": 0, "state": running})).await;
    let output = stage.kubectl(&["logs", "-n", "ns", "p", "--previous"], "").await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("previous terminated container \"c\" in pod \"p\" not found"),
        "{errors}"
    );
}

async fn logs_are_followed_until_the_container_ends(stage: &Stage) {
    stage.pod(json!({"restartCount": 2, "state": {"running": {}}})).await;
    stage.write(2, &["begin"]);
    let mut command = stage.command(&["logs", "-n", "ns", "p", "-f"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        text
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    stage.write(2, &["more"]);
    let log = stage.log(2);
    fs::rename(&log, log.with_extension("log.1")).unwrap();
    stage.write(2, &["after the rotation"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.write(2, &["last words"]);
    stage.pod(json!({"restartCount": 2, "state": {"terminated": {"exitCode": 0}}})).await;
    let text = tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap().unwrap();
    assert_eq!(text, "begin\nmore\nafter the rotation\nlast words\n");
    assert!(child.wait().unwrap().success());
}

async fn commands_are_run(stage: &Stage) {
    stage.pod(json!({"restartCount": 2, "state": {"running": {}}})).await;
    let exec = ["exec", "-n", "ns", "p", "--"];
    let with = |more: &[&'static str]| [&exec[..], more].concat();
    assert_eq!(stage.says(&with(&["echo", "a b", "c"])).await, "a b c\n");
    let output = stage.kubectl(&with(&["sh", "-c", "echo out; echo err >&2; exit 7"]), "").await;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.starts_with("err\n") && errors.contains("exit code 7"), "{errors}");
    assert_eq!(output.status.code(), Some(7));
    let output = stage.kubectl(&["exec", "-i", "-n", "ns", "p", "--", "wc", "-c"], "hello").await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "5", "{errors}");
    let much = stage.says(&with(&["head", "-c", "3000000", "/dev/zero"])).await;
    assert_eq!(much.len(), 3_000_000);
    let output = stage.kubectl(&with(&["no-such-program"]), "").await;
    assert!(!output.status.success());
}

async fn a_client_that_leaves_takes_its_command_along(stage: &Stage) {
    // A number that no other process on the machine sleeps for.
    let seconds = format!("8{}", std::process::id());
    let runs = || {
        let found = fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| line == format!("sleep\0{seconds}\0").as_bytes())
        });
        async move { found }
    };
    let mut command = stage.command(&["exec", "-n", "ns", "p", "--", "sleep", &seconds]);
    let mut child = command.spawn().unwrap();
    eventually("a command that runs", || async { runs().await.then_some(()) }).await;
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("a command that is gone", || async { (!runs().await).then_some(()) }).await;
}

/// A connection with this certificate; `None` if it is turned away.
async fn connect(
    stage: &Stage,
    certificate: Option<(&str, &str)>,
) -> Option<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&stage.identity.client_ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(certificate).unwrap()],
                PrivateKeyDer::from_pem_file(key).unwrap(),
            )
            .unwrap(),
    };
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let name = rustls::pki_types::ServerName::IpAddress(stage.address.ip().into());
    connector.connect(name, stream).await.ok()
}

/// The answer to a request with this certificate, or nothing if there was none.
async fn ask(stage: &Stage, path: &str, certificate: Option<(&str, &str)>) -> String {
    let Some(mut stream) = connect(stage, certificate).await else { return String::new() };
    let request = format!("GET {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    if stream.write_all(request.as_bytes()).await.is_ok() {
        let _ = stream.read_to_end(&mut answer).await;
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The files of an identity that the control plane has made.
fn identity(stage: &Stage, name: &str) -> (String, String) {
    let pki = stage.cluster.plane.state_dir().root().join("pki");
    let path = |ending: &str| pki.join(format!("{name}.{ending}")).display().to_string();
    (path("crt"), path("key"))
}

/// Client libraries speak the older version, which the API server passes on as it is.
async fn the_older_protocol_is_spoken_too(stage: &Stage) {
    let (certificate, key) = identity(stage, "apiserver-kubelet-client");
    let stream = connect(stage, Some((&certificate, &key))).await.unwrap();
    let url = "ws://n/exec/ns/p/c?command=sh&command=-c&command=cat%3B+exit+3&input=1&output=1";
    let mut request = url.into_client_request().unwrap();
    let protocols = HeaderValue::from_static("v4.channel.k8s.io");
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols);
    let (mut socket, response) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "v4.channel.k8s.io");
    socket.send(Message::binary(&b"\x00hello"[..])).await.unwrap();
    let mut heard = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(bytes) = message else { continue };
        heard.push(String::from_utf8_lossy(&bytes).into_owned());
        if heard.last().is_some_and(|last| last == "\u{1}hello") {
            // This version cannot say that the input ends, so clients just leave.
            break;
        }
    }
    assert_eq!(heard, ["\u{1}", "\u{1}hello"]);
}

async fn nobody_else_is_served(stage: &Stage) {
    assert_eq!(ask(stage, "/pods", None).await, "");
    let (certificate, key) = identity(stage, "apiserver-kubelet-client");
    let pods = ask(stage, "/pods", Some((&certificate, &key))).await;
    assert!(pods.starts_with("HTTP/1.1 200") && pods.contains("\"PodList\""), "{pods}");
    let health = ask(stage, "/healthz", Some((&certificate, &key))).await;
    assert!(health.starts_with("HTTP/1.1 200") && health.ends_with("ok"), "{health}");
    let (certificate, key) = identity(stage, "admin");
    for path in ["/pods", "/healthz", "/exec/ns/p/c?command=true", "/containerLogs/ns/p/c"] {
        let answer = ask(stage, path, Some((&certificate, &key))).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
    }
}
