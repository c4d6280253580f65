//! The client against a server that answers in the shapes that Cruise Control has.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::KafkaRebalanceSpec;
use control::rebalance::request::answers::Reply;
use control::rebalance::request::{Failure, Task};
use kafka_admin::HostTable;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::body::BodyError;
use crate::hostile::{Manner, Own, Peer, acceptor, certificate};

const HOST: &str = "c-cruise-control.ns.svc";
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
    /// Where it redirects to.
    location: Option<String>,
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
        let location = self.location.as_ref().map(|at| format!("Location: {at}\r\n"));
        let location = location.unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nUser-Task-ID: {ID}\r\n{location}Content-Length: {length}\r\n\r\n{body}"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.flush().await;
    }

    /// Listens with a certificate of its own, and gives a client that trusts it.
    async fn client(&self) -> Client {
        let own = certificate(HOST);
        let port = self.listen(&own).await;
        Client::new(endpoint(port, &own)).unwrap()
    }

    /// Listens with this certificate.
    async fn listen(&self, own: &Own) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (server, tls) = (self.clone(), acceptor(own));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, tls) = (server.clone(), tls.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        server.answer(stream).await;
                    }
                });
            }
        });
        port
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// A Cruise Control on this machine with the name of a Service, and the certificate that is trusted.
fn endpoint(port: u16, trusted: &Own) -> Endpoint {
    let here = std::net::Ipv4Addr::LOCALHOST.into();
    Endpoint {
        host: HOST.to_owned(),
        port,
        authorities: trusted.cert.pem().into_bytes(),
        login: Some(("rebalance-operator".to_owned(), "secret".to_owned())),
        deadline: Some(Duration::from_secs(2)),
        names: Arc::new(HostTable::new([(HOST.to_owned(), here)])),
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
    let client = server.client().await;
    let (reply, summary) = client.propose(&spec()).await.unwrap();
    let task = Some(ID.to_owned());
    let computing = Reply { status: 202, task, has_progress: true, ..Reply::default() };
    assert_eq!((reply, summary), (computing, None));
    assert_eq!(client.task(ID).await.unwrap(), (Task::Active, None));
    let (task, summary) = client.task(ID).await.unwrap();
    assert_eq!((task, &summary.unwrap()["dataToMoveMB"]), (Task::Completed, &120.into()));
    let (reply, summary) = client.execute(&spec()).await.unwrap();
    assert!(reply.has_summary, "{reply:?}");
    assert_eq!(summary.unwrap()["dataToMoveMB"], 120);
    assert_eq!(client.task(ID).await.unwrap().0, Task::InExecution);
    assert_eq!(client.task(ID).await.unwrap().0, Task::Completed);
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].starts_with("POST /kafkacruisecontrol/remove_broker?json=true&dryrun=true"));
    assert!(asked[1].starts_with("GET /kafkacruisecontrol/user_tasks?json=true"));
    // rebalance-operator:secret
    assert!(asked[0].to_lowercase().contains("authorization: basic "));
    assert!(asked[0].contains("cmViYWxhbmNlLW9wZXJhdG9yOnNlY3JldA=="));
}

#[tokio::test]
async fn nothing_is_sent_without_a_certificate_of_the_cluster_ca_for_the_host() {
    let stopped = r#"{"message":"Proposal execution stopped.","version":1}"#;
    let server = Server::new(&[(200, stopped)]);
    let own = certificate(HOST);
    let port = server.listen(&own).await;
    let client = Client::new(endpoint(port, &own)).unwrap();
    assert_eq!(client.stop().await.unwrap(), 200);
    assert_eq!(server.asked(), 1);
    // Another authority, with the right name.
    let client = Client::new(endpoint(port, &certificate(HOST))).unwrap();
    assert!(matches!(client.stop().await, Err(ClientError::Certificate(_))));
    // The right authority, with the name of another Service.
    let other = certificate("other.ns.svc");
    let port = server.listen(&other).await;
    let client = Client::new(endpoint(port, &other)).unwrap();
    assert!(matches!(client.stop().await, Err(ClientError::Certificate(_))));
    assert_eq!(server.asked(), 1, "no request was sent to a server that is not the one");
}

#[tokio::test]
async fn a_server_without_tls_gets_no_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = vec![0; 64 * 1024];
        let read = stream.read(&mut received).await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
        received.truncate(read);
        received
    });
    let client = Client::new(endpoint(port, &certificate(HOST))).unwrap();
    assert!(matches!(client.state().await, Err(ClientError::Certificate(_))));
    let received = server.await.unwrap();
    assert_eq!(received.first(), Some(&0x16), "a TLS handshake and nothing else");
    assert!(!String::from_utf8_lossy(&received).to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Server::new(&[(200, "{}")]);
    let own = certificate(HOST);
    let port = target.listen(&own).await;
    let at = format!("https://{HOST}:{port}/kafkacruisecontrol/state");
    let server = Server { location: Some(at), ..Server::new(&[(302, ""), (307, ""), (301, "")]) };
    let port = server.listen(&own).await;
    let client = Client::new(endpoint(port, &own)).unwrap();
    let (reply, _) = client.propose(&spec()).await.unwrap();
    assert_eq!((reply.status, reply.has_summary), (302, false));
    assert!(matches!(client.task(ID).await.unwrap().0, Task::Failed(Failure::Passing(_))));
    assert_eq!(client.state().await.unwrap(), None);
    assert_eq!((server.asked(), target.asked()), (3, 0));
}

/// A client of a peer that misbehaves.
async fn hostile(manner: Manner) -> (Client, Peer) {
    let own = certificate(HOST);
    let peer = Peer::start(Some(acceptor(&own)), manner).await;
    (Client::new(endpoint(peer.address.port(), &own)).unwrap(), peer)
}

#[tokio::test]
async fn an_endless_answer_is_given_up_after_a_few_mib() {
    let chunk = [b"1000\r\n", [b'{'; 0x1000].as_slice(), b"\r\n"].concat();
    let rows = [
        ("Content-Length: 1099511627776", b" ".to_vec()),
        ("Connection: close", b" ".to_vec()),
        ("Transfer-Encoding: chunked", chunk),
    ];
    for (header, piece) in rows {
        let (client, peer) = hostile(Manner::flood(header, &piece)).await;
        let error = client.state().await.unwrap_err();
        let ClientError::Body(BodyError::TooLarge(bytes)) = error else {
            panic!("{header}: {error}")
        };
        assert_eq!(bytes, client::ANSWER_BYTES_MAX);
        let taken = peer.written();
        assert!(taken < 8 * client::ANSWER_BYTES_MAX, "{header}: {taken} bytes were taken");
    }
}

#[tokio::test]
async fn an_answer_that_drips_is_given_up_at_the_deadline() {
    let (client, _peer) = hostile(Manner::drip()).await;
    let begun = Instant::now();
    assert!(matches!(client.state().await, Err(ClientError::Late)));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn no_answer_and_no_listener_are_told_apart() {
    let client = Server::new(&[]).client().await;
    assert!(matches!(client.state().await, Err(ClientError::Late)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let nobody = Client::new(endpoint(port, &certificate(HOST))).unwrap();
    assert!(matches!(nobody.state().await, Err(ClientError::Connect(_))));
}

#[test]
#[rustfmt::skip]
fn replies_are_reduced_to_what_their_meaning_depends_on() {
    let rows = [
        (200, format!(r#"{{"summary":{SUMMARY},"version":1}}"#), (None, true, false)),
        (202, PROGRESS.to_owned(), (None, false, true)),
        (500, r#"{"errorMessage":"no","stackTrace":".."}"#.to_owned(), (Some("no"), false, false)),
        (503, "<html>".to_owned(), (None, false, false)),
        (200, "{}".to_owned(), (None, false, false)),
    ];
    for (status, body, expected) in rows {
        let (reply, summary) = answer::rebalance(status, &body, Some(ID.to_owned()));
        let found = (reply.error.as_deref(), reply.has_summary, reply.has_progress);
        assert_eq!(found, expected, "{body}");
        assert_eq!((reply.status, reply.task.as_deref()), (status, Some(ID)), "{body}");
        assert_eq!(summary.is_some(), reply.has_summary, "{body}");
    }
}

#[test]
#[rustfmt::skip]
fn answers_to_the_question_how_a_task_is() {
    let none = answer::task(200, r#"{"userTasks":[],"version":1}"#, ID);
    assert_eq!(none, (Task::Unknown, None));
    let summary = format!(r#"{{"summary":{SUMMARY}}}"#);
    // The plan of a task that failed is none, whatever else it says.
    for original in ["CompletedWithError", &summary] {
        let failed = answer::task(200, &user_tasks("CompletedWithError", original), ID);
        assert_eq!(failed, (Task::CompletedWithError, None));
    }
    let full = r#"{"errorMessage":"There are already 5 active user tasks, which has reached the servlet capacity."}"#;
    assert_eq!(answer::task(500, full, ID), (Task::Busy, None));
    assert!(matches!(answer::task(503, "<html>", ID), (Task::Failed(Failure::Passing(_)), None)));
    assert!(matches!(answer::task(200, "{}", ID), (Task::Failed(Failure::Final(_)), None)));
    let state = |word: &str| {
        let body = format!(r#"{{"ExecutorState":{{"state":"{word}","finishedDataMovement":20,"totalDataToMove":80}}}}"#);
        answer::state(200, &body).unwrap()
    };
    let moves = state("INTER_BROKER_REPLICA_MOVEMENT_TASK_IN_PROGRESS");
    assert_eq!(moves.moved_mb, Some((20, 80)));
    assert!(!moves.is_idle() && !state("STOPPING_EXECUTION").is_idle());
    assert!(state("NO_TASK_IN_PROGRESS").is_idle());
    assert_eq!(answer::state(500, "{}"), None);
}
