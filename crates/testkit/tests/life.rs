//! Lifecycle of real nodes: start, freeze, kill, wipe, add, remove.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use testkit::{Cluster, Quorum, Role};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_keeps_its_directory_id_until_it_is_wiped() {
    let cluster = Cluster::builder().controllers(1).brokers(1).start().await.unwrap();
    let broker = cluster.node(100);
    assert_eq!((broker.id(), broker.role(), broker.port()), (100, Role::Broker, 9092));
    assert_eq!(cluster.bootstrap_brokers(), [(broker.host().to_owned(), 9092)]);
    assert!(TcpStream::connect((broker.host(), 9092)).is_ok());
    let directory = broker.directory_id().unwrap();

    broker.freeze().unwrap();
    assert_eq!(process_state(broker.process_id().unwrap()), Some('T'));
    assert!(broker.is_running());
    broker.thaw().unwrap();
    assert_ne!(process_state(broker.process_id().unwrap()), Some('T'));

    broker.kill().await.unwrap();
    assert!(!broker.is_running());
    assert!(TcpStream::connect((broker.host(), 9092)).is_err());
    broker.start().await.unwrap();
    assert!(broker.wipe().unwrap_err().to_string().contains("stop it before"));
    cluster.wait_ready().await.unwrap();
    assert_eq!(broker.directory_id().unwrap(), directory);

    broker.stop().await.unwrap();
    assert!(broker.log_tail(20).contains("shut down completed"), "{}", broker.log_tail(20));
    broker.wipe().unwrap();
    broker.restart().await.unwrap();
    assert_ne!(broker.directory_id().unwrap(), directory);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dynamic_quorum_begins_with_the_voters_asked_for_and_grows() {
    let builder = Cluster::builder().controllers(2).brokers(1).initial_voters(1).log_dirs(2);
    let cluster = builder.broker_config("num.partitions", "7").start().await.unwrap();
    assert_eq!(cluster.add_node(Role::Broker).await.unwrap(), 101);
    assert_eq!(cluster.add_node(Role::Controller).await.unwrap(), 2);

    let broker = format!("{}:9092", cluster.node(101).host());
    let status = cluster
        .run_tool(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            &["--bootstrap-server", &broker, "describe", "--replication"],
        )
        .await
        .unwrap();
    let members: BTreeSet<(i32, String, String)> = status
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .map(|row| (row[0].parse().unwrap(), row[1].to_owned(), row[row.len() - 1].to_owned()))
        .collect();
    let expected =
        [(0, "Leader"), (1, "Observer"), (2, "Observer"), (100, "Observer"), (101, "Observer")]
            .map(|(id, status)| (id, cluster.node(id).directory_id().unwrap(), status.to_owned()));
    assert_eq!(members, BTreeSet::from(expected), "{status}");

    let directories: BTreeSet<_> =
        cluster.nodes().iter().flat_map(|node| node.directory_ids().unwrap()).collect();
    assert_eq!(directories.len(), 10, "every directory has an id of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_voters_agree_with_copied_formats() {
    let cluster = Cluster::builder().controllers(3).brokers(3).start().await.unwrap();
    // A broker is queried: Kafka's tool waits for a minute and fails if the queried controller does not know
    // yet where the active one listens.
    let (host, port) = cluster.bootstrap_brokers().remove(0);
    let broker = format!("{host}:{port}");
    let status = cluster
        .run_tool(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            &["--bootstrap-server", &broker, "describe", "--status"],
        )
        .await
        .unwrap();
    for id in 0..3 {
        let node = cluster.node(id);
        assert!(status.contains(&node.directory_id().unwrap()), "no voter {id} in {status}");
    }
    assert!(status.contains(cluster.cluster_id()), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_version_runs_with_a_static_quorum() {
    let builder = Cluster::builder().controllers(1).brokers(1).quorum(Quorum::Static);
    let cluster = builder.version("4.1.2").start().await.unwrap();
    assert_eq!(cluster.version().to_string(), "4.1.2");
    let error = cluster.add_node(Role::Controller).await.unwrap_err().to_string();
    assert!(error.contains("static quorum"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_gone_after_a_drop_and_a_handle_cannot_bring_it_back() {
    let cluster = Cluster::builder().combined(1).start().await.unwrap();
    let node = cluster.node(200);
    let (process, dir) = (node.process_id().unwrap(), cluster.dir().to_owned());
    drop(cluster);
    assert_eq!(process_state(process), None);
    assert!(!dir.exists());
    assert!(!node.is_running());
    assert!(node.start().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_start_shows_its_log() {
    let cluster = Cluster::builder().combined(1).prepare().await.unwrap();
    let node = cluster.node(200);
    let _taken = TcpListener::bind((node.host(), 9092)).unwrap();
    node.start().await.unwrap();
    let error = cluster.wait_ready().await.unwrap_err().to_string();
    assert!(error.contains("node 200 is not running; its first error is:"), "{error}");
    assert!(error.contains("Address already in use"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_test_that_panics_are_kept() {
    let cluster = Cluster::builder().combined(1).prepare().await.unwrap();
    let dir = cluster.dir().to_owned();
    let test = tokio::spawn(async move {
        let _cluster = cluster;
        tokio::time::sleep(Duration::from_millis(1)).await;
        panic!("this panic is part of the test");
    });
    assert!(test.await.unwrap_err().is_panic());
    assert!(dir.join("node-200/server.properties").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

/// The process state in /proc; `None` if there is no such process.
fn process_state(process: u32) -> Option<char> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    stat.ok()?.rsplit_once(") ")?.1.chars().next()
}
