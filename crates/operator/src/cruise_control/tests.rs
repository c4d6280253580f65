//! The client against a server that answers in the shapes that Cruise Control has.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::KafkaRebalanceSpec;
use control::rebalance::request::{Execution, Failure, Proposal};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

const ID: &str = "cfdbfdc6-3f0b-4d6f-9f8f-1a2b3c4d5e6f";
const SUMMARY: &str = r#"{"numReplicaMovements":16,"dataToMoveMB":120,"numLeaderMovements":3,
 "onDemandBalancednessScoreBefore":62.5,"onDemandBalancednessScoreAfter":82.6,"recentWindows":5,
 "provisionStatus":"RIGHT_SIZED","excludedTopics":[]}"#;
const PROGRESS: &str = r#"{"progress":[{"operation":"Rebalance","operationProgress":[
 {"step":"GENERATING_CLUSTER_MODEL","description":"..","time-in-ms":12,"completionPercentage":40.0}]}],"version":1}"#;

/// A Cruise Control: what it answers next, in order, and what it was asked.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<Vec<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answers: &[(u16, &str)]) -> Self {
        let answers = answers.iter().rev().map(|(status, body)| (*status, (*body).to_owned()));
        Self { answers: Arc::new(Mutex::new(answers.collect())), ..Self::default() }
    }

    async fn answer(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            request.push(byte);
        }
        self.asked.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
        // With no answer left it stays silent.
        let Some((status, body)) = self.answers.lock().unwrap().pop() else {
            return std::future::pending().await;
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nUser-Task-ID: {ID}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.flush().await;
    }

    /// Listens, and gives a client of it.
    async fn client(&self, tls: Option<(TlsAcceptor, Vec<u8>)>) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = self.clone();
        let (acceptor, authorities) = tls.unzip();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (server.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => server.answer(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                server.answer(stream).await;
                            }
                        }
                    }
                });
            }
        });
        let endpoint = Endpoint {
            host: "localhost".to_owned(),
            port,
            authorities,
            login: Some(("rebalance-operator".to_owned(), "secret".to_owned())),
            deadline: Some(Duration::from_millis(2_000)),
        };
        Client::new(endpoint).unwrap()
    }
}

fn spec() -> KafkaRebalanceSpec {
    serde_json::from_str(r#"{"mode":"remove-brokers","brokers":[3]}"#).unwrap()
}

fn user_tasks(status: &str, original: &str) -> String {
    let original = serde_json::to_string(original).unwrap();
    format!(
        r#"{{"userTasks":[{{"Status":"{status}","UserTaskId":"{ID}","StartMs":"1","ClientIdentity":"x",
        "RequestURL":"POST /remove_broker","originalResponse":{original}}}],"version":1}}"#
    )
}

#[tokio::test]
async fn a_plan_is_asked_for_awaited_and_carried_out() {
    let summary = format!(r#"{{"summary":{SUMMARY},"version":1}}"#);
    let (active, moves) = (user_tasks("Active", ""), user_tasks("InExecution", &summary));
    let done = user_tasks("Completed", &summary);
    let server = Server::new(&[
        (202, PROGRESS),
        (200, &active),
        (200, &done),
        (200, &summary),
        (200, &moves),
        (200, &done),
    ]);
    let client = server.client(None).await;
    let asked = client.propose(&spec()).await.unwrap();
    assert_eq!(asked, Asked { task: Some(ID.to_owned()), answer: Answer::Computing });
    assert_eq!(client.task(ID).await.unwrap().proposal(), Some(Proposal::Computing));
    assert_eq!(client.task(ID).await.unwrap().proposal(), Some(Proposal::Ready));
    let asked = client.execute(&spec()).await.unwrap();
    let Answer::Ready(summary) = asked.answer else { panic!("{asked:?}") };
    assert_eq!(summary["dataToMoveMB"], 120);
    let running = client.task(ID).await.unwrap();
    assert_eq!(running.execution(None, false), Some(Execution::Running));
    let done = client.task(ID).await.unwrap();
    assert_eq!(done.execution(None, false), Some(Execution::Finished));
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].starts_with("POST /kafkacruisecontrol/remove_broker?json=true&dryrun=true"));
    assert!(asked[1].starts_with("GET /kafkacruisecontrol/user_tasks?json=true"));
    // rebalance-operator:secret
    assert!(asked[0].to_lowercase().contains("authorization: basic "));
    assert!(asked[0].contains("cmViYWxhbmNlLW9wZXJhdG9yOnNlY3JldA=="));
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (own, other) = (made("localhost"), made("localhost"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![own.cert.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let stopped = r#"{"message":"Proposal execution stopped.","version":1}"#;
    let server = Server::new(&[(200, stopped)]);
    let trusted = own.cert.pem().into_bytes();
    let client = server.client(Some((acceptor.clone(), trusted))).await;
    assert!(client.stop().await.unwrap());
    let client = server.client(Some((acceptor, other.cert.pem().into_bytes()))).await;
    assert!(matches!(client.stop().await, Err(ClientError::Connect(_))));
    assert_eq!(server.asked.lock().unwrap().len(), 1, "nothing was sent to somebody else");
}

#[tokio::test]
async fn who_does_not_answer_or_is_not_there_is_told_apart() {
    let client = Server::new(&[]).client(None).await;
    assert!(matches!(client.state().await, Err(ClientError::Late)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let endpoint = Endpoint {
        host: "localhost".to_owned(),
        port,
        authorities: None,
        login: None,
        deadline: None,
    };
    let nobody = Client::new(endpoint).unwrap();
    assert!(matches!(nobody.state().await, Err(ClientError::Connect(_))));
}

#[test]
#[rustfmt::skip]
fn answers_to_requests() {
    let error = |what: &str| serde_json::json!({
        "version": 1, "stackTrace": "..",
        "errorMessage": format!("Error processing POST request '/rebalance' due to: '{what}'."),
    }).to_string();
    let windows = error("com.linkedin.cruisecontrol.exception.NotEnoughValidWindowsException: There are only 0 valid windows");
    assert!(matches!(answer::rebalance(500, &windows).proposal(), Some(Proposal::TooLittleKnown(_))));
    let missing = error("java.lang.IllegalArgumentException: Broker [3] does not exist.");
    let last = |what: &str| Some(Proposal::Failed(Failure::Final(what.to_owned())));
    assert_eq!(answer::rebalance(500, &missing).proposal(), last("Some/all brokers specified don't exist"));
    let full = error("There are already 5 active user tasks, which has reached the servlet capacity.");
    assert_eq!(answer::rebalance(500, &full), Answer::Busy);
    assert_eq!(answer::rebalance(500, &full).proposal(), None);
    let goals = answer::rebalance(500, &error("Missing hard goals [RackAwareGoal] in the provided goals"));
    assert!(matches!(goals, Answer::Failed(Failure::Final(what)) if what.contains("Missing hard goals")));
    assert!(matches!(answer::rebalance(503, "<html>"), Answer::Failed(Failure::Passing(_))));
    assert!(matches!(answer::rebalance(401, ""), Answer::Failed(Failure::Final(_))));
    assert!(matches!(answer::rebalance(200, "{}"), Answer::Failed(Failure::Final(_))));
    assert!(matches!(answer::rebalance(202, "{}"), Answer::Failed(Failure::Final(_))));
}

#[test]
#[rustfmt::skip]
fn tasks_that_are_lost_or_ended_are_over_only_when_nothing_moves() {
    let none = answer::task(200, r#"{"userTasks":[],"version":1}"#, ID);
    assert_eq!(none, Task::Unknown);
    let failed = answer::task(200, &user_tasks("CompletedWithError", "CompletedWithError"), ID);
    let state = |word: &str| {
        let body = format!(r#"{{"ExecutorState":{{"state":"{word}","finishedDataMovement":20,"totalDataToMove":80}}}}"#);
        answer::state(200, &body).unwrap()
    };
    let (idle, moves) = (state("NO_TASK_IN_PROGRESS"), state("INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS"));
    assert_eq!(moves.moved_mb, Some((20, 80)));
    assert_eq!(none.execution(Some(&idle), false), Some(Execution::Lost));
    assert_eq!(none.execution(Some(&moves), false), Some(Execution::Running));
    assert_eq!(none.execution(None, false), None);
    assert_eq!(failed.execution(Some(&state("STOPPING_EXECUTION")), true), Some(Execution::Running));
    assert_eq!(failed.execution(Some(&idle), true), Some(Execution::Stopped));
    assert!(matches!(failed.execution(Some(&idle), false), Some(Execution::Failed(_))));
    assert_eq!(none.proposal(), Some(Proposal::Unasked));
    let full = r#"{"errorMessage":"There are already 5 active user tasks, which has reached the servlet capacity."}"#;
    assert_eq!(answer::task(500, full, ID), Task::Busy);
    assert_eq!(answer::task(500, full, ID).execution(Some(&idle), false), None);
    assert_eq!(answer::state(500, "{}"), None);
}
