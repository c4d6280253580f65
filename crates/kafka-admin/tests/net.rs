//! What the client does when nodes hang, close, lie, or are not there: with servers made by hand.
//!
//! What matters for a change is that it is sent once at most, unless it was certainly not carried
//! out, and that the error says what is known.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

#[path = "support/server.rs"]
mod server;
#[expect(dead_code, reason = "no recorded answers are needed here")]
mod support;

use std::error::Error;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kafka_admin::{
    Admin, Bootstrap, CallError, ClientOptions, Cluster, ConnectError, DescribeClusterError,
    Endpoint, HostTable, LinkError, NewTopic, Outcome, Resolve, Resolving, UnregisterBrokerError,
};
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterResponse, UnregisterBrokerResponse};
use kafka_protocol::protocol::StrBytes;
use model::{NodeId, TopicName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use server::{Reply, Server};
use support::{Request, encode};

const DESCRIBE_CLUSTER: i16 = 60;
const UNREGISTER_BROKER: i16 = 64;
const NOT_CONTROLLER: i16 = 41;

/// What a hang costs in these tests.
const SHORT: Duration = Duration::from_millis(300);

/// Enough for anything that does not hang, on a machine that is busy.
const LONG: Duration = Duration::from_secs(60);

fn options(call: Duration, attempt: Duration) -> ClientOptions {
    ClientOptions {
        call_timeout: call,
        attempt_timeout: attempt,
        connect_timeout: attempt,
        ..ClientOptions::default()
    }
}

fn admin(endpoints: impl IntoIterator<Item = Endpoint>, options: ClientOptions) -> Admin {
    Admin::new(Bootstrap::Brokers(endpoints.into_iter().collect()), options).unwrap()
}

/// Fails a test that hangs, long after every deadline in it.
async fn ends<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(2 * LONG, call).await.expect("the call ends by its deadline")
}

async fn read(admin: &Admin) -> Result<Cluster, CallError> {
    ends(admin.describe_cluster()).await.map_err(|error| match error {
        DescribeClusterError::Call(error) => error,
        DescribeClusterError::Refused(refusal) => panic!("refused: {refusal}"),
    })
}

async fn change(admin: &Admin) -> Result<(), CallError> {
    ends(admin.unregister_broker(NodeId::new(7).unwrap())).await.map_err(|error| match error {
        UnregisterBrokerError::Call { source, .. } => source,
        other => panic!("refused: {other}"),
    })
}

/// An error with all its causes, as a person reads it.
fn sentence(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error: &&dyn Error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Answers a read or a change, without nodes.
fn proper(request: &Request) -> Reply {
    proper_with(request, Vec::new())
}

fn proper_with(request: &Request, brokers: Vec<DescribeClusterBroker>) -> Reply {
    Reply::Body(match request.key {
        DESCRIBE_CLUSTER => {
            let answer = DescribeClusterResponse::default()
                .with_cluster_id(StrBytes::from_static_str("cluster"))
                .with_controller_id(BrokerId(1))
                .with_brokers(brokers);
            encode(&answer, request.version)
        }
        UNREGISTER_BROKER => encode(&UnregisterBrokerResponse::default(), request.version),
        key => panic!("an unexpected request: {key}"),
    })
}

#[tokio::test]
async fn a_server_that_accepts_and_is_silent_ends_calls_by_their_deadline() {
    let server = Server::start_raw(|_, _| Reply::Nothing).await;
    let admin = admin([server.endpoint()], options(3 * SHORT, SHORT));
    for error in [read(&admin).await.unwrap_err(), change(&admin).await.unwrap_err()] {
        assert!(
            matches!(error, CallError::Connect { source: ConnectError::Expired { .. }, .. }),
            "{error:?}"
        );
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
    assert_eq!(server.requests(DESCRIBE_CLUSTER) + server.requests(UNREGISTER_BROKER), 0);
}

#[tokio::test]
async fn a_read_goes_to_the_next_node_when_one_hangs() {
    let mute = Server::start_raw(|_, _| Reply::Nothing).await;
    let hanging = Server::start(|_, _| Reply::Nothing).await;
    let good = Server::start(|request, _| proper(request)).await;
    for first in [&mute, &hanging] {
        let admin = admin([first.endpoint(), good.endpoint()], options(LONG, SHORT));
        read(&admin).await.unwrap();
    }
    assert!(hanging.requests(DESCRIBE_CLUSTER) >= 1);
}

#[tokio::test]
async fn a_node_is_asked_itself_whoever_else_would_answer() {
    let hanging = Server::start(|_, _| Reply::Nothing).await;
    let good = Server::start(|request, _| proper(request)).await;
    // Who answers may take its time on a busy machine; who hangs is given up soon.
    let patient = admin([good.endpoint()], options(LONG, LONG));
    ends(patient.reach(&good.endpoint())).await.unwrap();
    let hasty = admin([good.endpoint()], options(LONG, SHORT));
    let error = ends(hasty.reach(&hanging.endpoint())).await.unwrap_err();
    assert!(matches!(error, CallError::Expired { .. }) && !error.is_distrust(), "{error:?}");
    assert_eq!(good.requests(DESCRIBE_CLUSTER), 1);
}

#[tokio::test]
async fn a_change_goes_to_the_next_node_when_one_does_not_open() {
    let mute = Server::start_raw(|_, _| Reply::Nothing).await;
    let good = Server::start(|request, _| proper(request)).await;
    let admin = admin([mute.endpoint(), good.endpoint()], options(LONG, SHORT));
    change(&admin).await.unwrap();
    assert_eq!(good.requests(UNREGISTER_BROKER), 1);
}

#[tokio::test]
async fn a_change_without_an_answer_is_not_sent_twice_and_its_outcome_is_not_known() {
    let hanging = Server::start(|_, _| Reply::Nothing).await;
    let good = Server::start(|request, _| proper(request)).await;
    let options = ClientOptions { connect_timeout: LONG, ..options(Duration::from_secs(3), SHORT) };
    let admin = admin([hanging.endpoint(), good.endpoint()], options);
    let error = change(&admin).await.unwrap_err();
    assert!(matches!(error, CallError::Expired { .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!((hanging.requests(UNREGISTER_BROKER), good.requests(UNREGISTER_BROKER)), (1, 0));
}

#[tokio::test]
async fn a_change_whose_connection_closes_is_not_sent_twice_and_its_outcome_is_not_known() {
    let closing = Server::start(|_, _| Reply::Close).await;
    let admin = admin([closing.endpoint()], options(LONG, LONG));
    let error = change(&admin).await.unwrap_err();
    assert!(matches!(error, CallError::Lost { source: LinkError::Closed, .. }), "{error:?}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(closing.requests(UNREGISTER_BROKER), 1);
}

#[tokio::test]
async fn a_read_whose_connection_closes_is_sent_again() {
    let server = Server::start(|request, connection| match connection {
        1 => Reply::Close,
        _ => proper(request),
    })
    .await;
    let admin = admin([server.endpoint()], options(LONG, LONG));
    read(&admin).await.unwrap();
    assert_eq!((server.accepted(), server.requests(DESCRIBE_CLUSTER)), (2, 2));
}

#[tokio::test]
async fn a_port_of_another_protocol_is_told_apart() {
    let alert = vec![0x15, 3, 3, 0, 2, 2, 70];
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    for bytes in [alert, http] {
        let server = Server::start_raw(move |_, _| Reply::Raw(bytes.clone())).await;
        let admin = admin([server.endpoint()], options(LONG, LONG));
        let error = read(&admin).await.unwrap_err();
        assert!(sentence(&error).contains("TLS"), "{}", sentence(&error));
        assert_eq!(error.outcome(), Outcome::NotDone);
        assert_eq!(server.accepted(), 1, "what speaks another protocol is not asked again");
    }
}

#[tokio::test]
async fn nobody_listening_is_a_failure_to_connect() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let admin = admin([Endpoint::new("127.0.0.1", port)], options(3 * SHORT, SHORT));
    for error in [read(&admin).await.unwrap_err(), change(&admin).await.unwrap_err()] {
        assert!(
            matches!(error, CallError::Connect { source: ConnectError::Tcp { .. }, .. }),
            "{error:?}"
        );
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
}

/// Names that are in no table, and one that is there without an address.
#[derive(Debug)]
struct NoNames;

impl Resolve for NoNames {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolving<'a> {
        Box::pin(async move {
            match host {
                "empty.test" => Ok(Vec::new()),
                _ => Err(std::io::Error::other("no such name")),
            }
        })
    }
}

#[tokio::test]
async fn a_name_without_an_address_is_a_failure_to_connect() {
    let options = ClientOptions { names: Arc::new(NoNames), ..options(3 * SHORT, SHORT) };
    for (host, expected) in [("a.test", "cannot be resolved"), ("empty.test", "has no address")] {
        let admin = admin([Endpoint::new(host, 9092)], options.clone());
        let error = change(&admin).await.unwrap_err();
        assert!(sentence(&error).contains(expected), "{}", sentence(&error));
        assert!(sentence(&error).contains(host), "{}", sentence(&error));
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
}

/// An address that nobody has (it is set aside for documentation), then one that somebody has.
#[derive(Debug)]
struct GoneAndThere {
    hangs: SocketAddr,
    answers: SocketAddr,
}

/// A listener that accepts nothing and whose queue is full: the system leaves out whoever comes next
/// without a word, as a host behind a firewall does. The connections in the queue are held by those
/// returned.
async fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    // The queue takes one or two more than it was asked to; then a connection no longer comes about.
    while let Ok(stream) = timeout(Duration::from_millis(500), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
        assert!(queued.len() < 10, "a queue of one should be full by now");
    }
    (listener, queued)
}

impl Resolve for GoneAndThere {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(vec![self.hangs, self.answers]) })
    }
}

#[tokio::test]
async fn an_address_that_hangs_leaves_time_for_the_next_one() {
    let server = Server::start(|request, _| proper(request)).await;
    let (full, _queued) = full_listener().await;
    let hangs = full.local_addr().unwrap();
    let names = Arc::new(GoneAndThere { hangs, answers: server.address });
    let options = ClientOptions { names, ..options(LONG, Duration::from_secs(3)) };
    let admin = admin([Endpoint::new("broker.test", 9092)], options);
    change(&admin).await.unwrap();
    assert_eq!(server.requests(UNREGISTER_BROKER), 1);
}

#[tokio::test]
async fn names_are_looked_up_in_the_table() {
    let server = Server::start(|request, _| proper(request)).await;
    let entry = ("broker.test".to_owned(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let names = Arc::new(HostTable::new([entry]));
    let options = ClientOptions { names, ..options(LONG, LONG) };
    let admin = admin([Endpoint::new("broker.test", server.address.port())], options);
    read(&admin).await.unwrap();
    assert_eq!(server.accepted(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_share_one_connection() {
    let server = Server::start(|request, _| proper(request)).await;
    let admin = admin([server.endpoint()], options(LONG, LONG));
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let admin = admin.clone();
            tokio::spawn(async move { read(&admin).await.map(drop) })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!((server.accepted(), server.requests(DESCRIBE_CLUSTER)), (1, 100));
}

#[tokio::test]
async fn a_connection_with_an_expired_call_is_not_used_again() {
    let server = Server::start(|request, connection| match connection {
        1 => Reply::Nothing,
        _ => proper(request),
    })
    .await;
    let options = ClientOptions { connect_timeout: LONG, ..options(Duration::from_secs(3), SHORT) };
    let patient = admin([server.endpoint()], options);
    assert!(matches!(change(&patient).await, Err(CallError::Expired { .. })));
    change(&patient.with_call_timeout(LONG)).await.unwrap();
    assert_eq!((server.accepted(), server.requests(UNREGISTER_BROKER)), (2, 2));
}

#[tokio::test]
async fn an_active_controller_that_has_not_registered_is_found() {
    let follower = Server::start(|request, _| match request.key {
        UNREGISTER_BROKER => {
            let answer = UnregisterBrokerResponse::default().with_error_code(NOT_CONTROLLER);
            Reply::Body(encode(&answer, request.version))
        }
        _ => proper(request),
    })
    .await;
    // Every list names controller 1 as the active one and has no address of it.
    let leader = Server::start(|request, _| proper(request)).await;
    let controllers = Bootstrap::Controllers(vec![follower.endpoint(), leader.endpoint()]);
    let admin = Admin::new(controllers, options(LONG, LONG)).unwrap();
    change(&admin).await.unwrap();
    assert_eq!(leader.requests(UNREGISTER_BROKER), 1);
}

#[tokio::test]
async fn a_change_that_another_node_is_responsible_for_goes_there() {
    let other = Server::start(|request, _| {
        let answer = UnregisterBrokerResponse::default().with_error_code(NOT_CONTROLLER);
        Reply::Body(encode(&answer, request.version))
    })
    .await;
    let good = Server::start(|request, _| proper(request)).await;
    let admin = admin([other.endpoint(), good.endpoint()], options(LONG, LONG));
    change(&admin).await.unwrap();
    assert_eq!((other.requests(UNREGISTER_BROKER), good.requests(UNREGISTER_BROKER)), (1, 1));
}

#[tokio::test]
async fn an_answer_that_came_before_nonsense_counts() {
    let server = Server::start(|request, _| {
        let Reply::Body(body) = proper(request) else { panic!("an answer") };
        Reply::Raw([&request.answer(&body)[..], &[0xff; 64]].concat())
    })
    .await;
    let admin = admin([server.endpoint()], options(LONG, LONG));
    change(&admin).await.unwrap();
    assert_eq!(server.requests(UNREGISTER_BROKER), 1);
}

fn broker(id: i32, server: &Endpoint) -> DescribeClusterBroker {
    DescribeClusterBroker::default()
        .with_broker_id(BrokerId(id))
        .with_host(StrBytes::from_string(server.host.clone()))
        .with_port(i32::from(server.port))
}

#[tokio::test]
async fn a_change_whose_node_cannot_be_found_out_was_not_sent() {
    let hanging = Server::start(|_, _| Reply::Nothing).await;
    let bootstrap = Bootstrap::Controllers(vec![hanging.endpoint()]);
    let admin = Admin::new(bootstrap, options(4 * SHORT, SHORT)).unwrap();
    let error = change(&admin).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone, "{error:?}");
    assert_eq!(hanging.requests(UNREGISTER_BROKER), 0);
}

#[tokio::test]
async fn a_change_finds_its_node_though_another_hangs() {
    let hanging = Server::start(|_, _| Reply::Nothing).await;
    let active = Server::start(|request, _| proper(request)).await;
    let nodes = vec![broker(1, &active.endpoint())];
    let good = Server::start(move |request, _| proper_with(request, nodes.clone())).await;
    let bootstrap = Bootstrap::Controllers(vec![hanging.endpoint(), good.endpoint()]);
    let admin = Admin::new(bootstrap, options(LONG, SHORT)).unwrap();
    change(&admin).await.unwrap();
    assert_eq!(active.requests(UNREGISTER_BROKER), 1);
    assert_eq!(good.requests(UNREGISTER_BROKER) + hanging.requests(UNREGISTER_BROKER), 0);
}

#[tokio::test]
async fn a_node_is_found_in_the_list_of_another_node() {
    let wanted = Server::start(|request, _| proper(request)).await;
    let nodes = vec![broker(2, &wanted.endpoint())];
    let good = Server::start(move |request, _| proper_with(request, nodes.clone())).await;
    // A broker that is cut off from the controllers does not know who has joined since.
    let cut_off = Server::start(|request, _| proper(request)).await;
    let admin = admin([cut_off.endpoint(), good.endpoint()], options(LONG, LONG));
    read(&admin.at(NodeId::new(2).unwrap())).await.unwrap();
    assert_eq!(wanted.requests(DESCRIBE_CLUSTER), 1);
    let error = read(&admin.at(NodeId::new(3).unwrap())).await.unwrap_err();
    assert!(matches!(error, CallError::NoSuchNode { .. }), "{error:?}");
}

const LONG_REQUEST_BYTES: usize = 60_000_000;

/// Far more than the buffers of two sockets hold.
fn long_request() -> Vec<NewTopic> {
    let value = "x".repeat(LONG_REQUEST_BYTES / 2_000);
    let topic = |index| {
        let name = TopicName::new(format!("topic-{index}")).unwrap();
        NewTopic::new(name, 1, 1).with_config("a", &value)
    };
    (0..2_000).map(topic).collect()
}

#[tokio::test]
async fn what_a_peer_did_not_read_in_time_is_not_sent_later() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = tokio::spawn(async move {
        let admin = admin([Endpoint::new("127.0.0.1", port)], options(10 * SHORT, LONG));
        ends(admin.create_topics(&long_request(), false)).await.map(drop)
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut hello = vec![0; stream.read_u32().await.unwrap() as usize];
    stream.read_exact(&mut hello).await.unwrap();
    let hello = Request::parse(&hello);
    stream.write_all(&hello.answer(&support::offer_all(hello.version))).await.unwrap();
    assert!(client.await.unwrap().is_err());

    // What is in the buffers comes, and then the end, in whichever way.
    let mut rest = Vec::new();
    let _ = ends(stream.read_to_end(&mut rest)).await;
    assert!(rest.len() < LONG_REQUEST_BYTES / 2, "{} bytes came", rest.len());
}
