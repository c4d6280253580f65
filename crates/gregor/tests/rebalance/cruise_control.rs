//! A Cruise Control that answers in the shapes that real ones were recorded with, and moves nothing.
//!
//! It is reached as a real one is: through a Service of the cluster's namespace, with a certificate of the cluster CA.
//! Its pod only waits. The pods of a local Kubernetes have loopback addresses, so this process listens on the pod's.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};

use super::CLUSTER;
use crate::kafka::{Place, wait_for};

const PORT: u16 = 9090;
const PASSWORD: &str = "of-the-operator";

const SUMMARY: &str = r#"{"numReplicaMovements":16,"dataToMoveMB":120,"numLeaderMovements":3,
 "onDemandBalancednessScoreBefore":62.5,"onDemandBalancednessScoreAfter":82.6,"recentWindows":5,
 "provisionStatus":"RIGHT_SIZED","excludedTopics":[]}"#;
const PROGRESS: &str = r#"{"progress":[{"operation":"Rebalance","operationProgress":[
 {"step":"GENERATING_CLUSTER_MODEL","description":"..","time-in-ms":12,"completionPercentage":40.0}]}],"version":1}"#;

/// What it does and was asked.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// How often it says next that it has seen too little.
    pub(crate) too_little: usize,
    /// Whether moves end when they are looked at.
    pub(crate) finishes: bool,
    /// Its tasks: an id, and the status.
    tasks: Vec<(String, &'static str)>,
    /// How many tasks it has ever had.
    made: usize,
    /// What it was asked, by path.
    pub(crate) asked: Vec<String>,
    /// Requests without the password of the Secret.
    pub(crate) strangers: usize,
}

/// The server. It ends with the test.
#[derive(Debug, Clone)]
pub(crate) struct CruiseControl {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) url: String,
}

impl CruiseControl {
    /// Deploys a pod, a Service and the Secret with the password, and serves at the address of the pod.
    pub(crate) fn start(place: &Place<'_>) -> Self {
        let service = format!("{CLUSTER}-cruise-control");
        let yaml = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {service}, labels: {{app: {service}}}}}\n\
             spec: {{containers: [{{name: pause, image: pause}}], terminationGracePeriodSeconds: 1}}\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {{name: {service}}}\n\
             spec: {{selector: {{app: {service}}}, ports: [{{port: {PORT}}}]}}\n---\n\
             apiVersion: v1\nkind: Secret\nmetadata: {{name: {service}-api}}\n\
             stringData: {{rebalance-operator.password: {PASSWORD}}}\n"
        );
        let file = place.ground.world.file("cruise-control.yaml", &yaml);
        place.kubectl(&["apply", "-f", &file]);
        wait_for(|| match place.get("pod", &service)["status"]["phase"].as_str() {
            Some("Running") => Ok(()),
            phase => Err(format!("{service} is {phase:?}")),
        });
        let address = place.get("pod", &service)["status"]["podIP"].clone();
        let address: IpAddr = address.as_str().unwrap().parse().unwrap();
        let host = format!("{service}.{}.svc", place.namespace);
        let tls = Arc::new(tls(place, &host));
        let listener = TcpListener::bind((address, PORT)).unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &tls, &shared);
            }
        });
        Self { state, url: format!("https://{host}:{PORT}") }
    }

    /// Fails unless it was asked for a plan for this broker, and then to carry one out.
    pub(crate) fn was_asked(&self, endpoint: &str, broker: i64) {
        let asked = self.state.lock().unwrap().asked.clone();
        let of = |path: &&String| {
            let brokers = path.split(['?', '&']).find_map(|word| word.strip_prefix("brokerid="));
            path.contains(&format!("/{endpoint}?")) && brokers == Some(broker.to_string().as_str())
        };
        let dry: Vec<bool> =
            asked.iter().filter(of).map(|path| path.contains("dryrun=true")).collect();
        assert_eq!(dry, [true, false], "{endpoint} for broker {broker}: {asked:?}");
    }

    /// It is restarted: all its tasks are forgotten, and it moves nothing.
    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().tasks.clear();
    }
}

/// A certificate of the cluster CA for that host, as Strimzi's Cruise Control has one.
fn tls(place: &Place<'_>, host: &str) -> ServerConfig {
    let entry = |secret: &str, entry: &str| {
        let secret = place.get("secret", &format!("{CLUSTER}-{secret}"));
        let text = STANDARD.decode(secret["data"][entry].as_str().unwrap()).unwrap();
        String::from_utf8(text).unwrap()
    };
    let key = KeyPair::from_pem(&entry("cluster-ca", "ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&entry("cluster-ca-cert", "ca.crt"), key).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap()
}

fn answer(stream: TcpStream, tls: &Arc<ServerConfig>, state: &Mutex<State>) {
    let connection = ServerConnection::new(tls.clone()).unwrap();
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let login = STANDARD.encode(format!("rebalance-operator:{PASSWORD}"));
    let (mut header, mut known) = (String::new(), false);
    while reader.read_line(&mut header).is_ok_and(|read| read > 2) {
        known |= header.trim_end().ends_with(&format!("Basic {login}"));
        header.clear();
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, task, body) = {
        let mut state = state.lock().unwrap();
        state.strangers += usize::from(!known);
        state.answer(&path)
    };
    let task = task.map(|id| format!("User-Task-ID: {id}\r\n")).unwrap_or_default();
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\n{task}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let stream = reader.get_mut();
    let _ = stream.write_all(text.as_bytes());
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

impl State {
    fn answer(&mut self, path: &str) -> (u16, Option<String>, String) {
        self.asked.push(path.to_owned());
        let (endpoint, query) = path.rsplit('/').next().unwrap().split_once('?').unwrap();
        let plain = |body: Value| (200, None, body.to_string());
        match endpoint {
            "state" => {
                let moves = self.tasks.iter().any(|(_, status)| *status == "InExecution");
                plain(json!({ "ExecutorState": match moves {
                    true => json!({ "state": "INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS",
                                    "finishedDataMovement": 30, "totalDataToMove": 120 }),
                    false => json!({ "state": "NO_TASK_IN_PROGRESS" }),
                } }))
            }
            "stop_proposal_execution" => {
                for (_, status) in &mut self.tasks {
                    if *status == "InExecution" {
                        *status = "CompletedWithError";
                    }
                }
                plain(json!({ "message": "Proposal execution stopped.", "version": 1 }))
            }
            "user_tasks" => {
                let id = query.rsplit_once("user_task_ids=").unwrap().1;
                let found = self.tasks.iter_mut().find(|(task, _)| task == id);
                let tasks: Vec<Value> =
                    found.map(|task| self_task(task, self.finishes)).into_iter().collect();
                plain(json!({ "userTasks": tasks, "version": 1 }))
            }
            _ if self.too_little > 0 => {
                self.too_little -= 1;
                let what =
                    "com.linkedin.cruisecontrol.exception.NotEnoughValidWindowsException: no";
                let message =
                    format!("Error processing POST request '/rebalance' due to: '{what}'.");
                (500, None, json!({ "version": 1, "errorMessage": message }).to_string())
            }
            _ => {
                self.made += 1;
                let id = format!("task-{}", self.made);
                if query.contains("dryrun=true") {
                    self.tasks.push((id.clone(), "Active"));
                    return (202, Some(id), PROGRESS.to_owned());
                }
                self.tasks.push((id.clone(), "InExecution"));
                (200, Some(id), format!(r#"{{"summary":{SUMMARY},"version":1}}"#))
            }
        }
    }
}

/// A task as it is told; one that thinks is done when it is asked again.
fn self_task((id, status): &mut (String, &'static str), finishes: bool) -> Value {
    let told = *status;
    match *status {
        "Active" => *status = "Completed",
        "InExecution" if finishes => *status = "Completed",
        _ => {}
    }
    let original = match told {
        "CompletedWithError" => "CompletedWithError".to_owned(),
        _ => format!(r#"{{"summary":{SUMMARY},"version":1}}"#),
    };
    json!({ "Status": told, "UserTaskId": id, "StartMs": "1", "ClientIdentity": "x",
            "RequestURL": "POST /rebalance", "originalResponse": original })
}
