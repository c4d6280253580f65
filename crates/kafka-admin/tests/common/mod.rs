//! What the tests on real clusters share.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, Quorum, VoterListener};
use model::{DirectoryId, NodeId, TopicName, TopicPartition};
use testkit::{CONTROLLER_PORT, Cluster, Node};

/// How long the world may take to come to where it should. Machines under test are slow and shared.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn endpoints(addresses: Vec<(String, u16)>) -> Vec<Endpoint> {
    addresses.into_iter().map(|(host, port)| Endpoint::new(host, port)).collect()
}

pub(crate) fn brokers(cluster: &Cluster) -> Admin {
    let bootstrap = Bootstrap::Brokers(endpoints(cluster.bootstrap_brokers()));
    Admin::new(bootstrap, ClientOptions::default()).unwrap()
}

pub(crate) fn controllers(cluster: &Cluster) -> Admin {
    let bootstrap = Bootstrap::Controllers(endpoints(cluster.bootstrap_controllers()));
    Admin::new(bootstrap, ClientOptions::default()).unwrap()
}

pub(crate) fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(crate) fn nodes(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().copied().map(node).collect()
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

pub(crate) fn partition(name: &str, number: i32) -> TopicPartition {
    TopicPartition::new(topic(name), number)
}

pub(crate) fn directory(node: &Node) -> anyhow::Result<DirectoryId> {
    Ok(node.directory_id()?.parse()?)
}

/// Where a controller of the testkit listens.
pub(crate) fn listener(node: &Node) -> VoterListener {
    let name = "CONTROLLER".to_owned();
    VoterListener { name, host: node.host().to_owned(), port: CONTROLLER_PORT }
}

pub(crate) fn voter_ids(quorum: &Quorum) -> Vec<i32> {
    quorum.voters.iter().map(|voter| voter.id.get()).collect()
}

/// Asks again and again until the answer is `Some`. The last thing seen is in the error.
pub(crate) async fn eventually<T, S: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Result<T, S>>,
) -> anyhow::Result<T> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let seen = match look().await.with_context(|| format!("while waiting until {what}"))? {
            Ok(found) => return Ok(found),
            Err(seen) => seen,
        };
        if tokio::time::Instant::now() > deadline {
            bail!("not so within {PATIENCE:?}: {what}; seen last: {seen:?}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// `Ok` when the condition holds, else what was seen, for [`eventually`].
pub(crate) fn so<S>(holds: bool, seen: S) -> anyhow::Result<Result<(), S>> {
    Ok(if holds { Ok(()) } else { Err(seen) })
}

/// Writes records to a topic with Kafka's own producer and waits until all are acknowledged.
pub(crate) async fn produce(
    cluster: &Cluster,
    topic: &str,
    records: u32,
    size: u32,
) -> anyhow::Result<()> {
    let bootstrap = bootstrap(cluster);
    let (records, size) = (records.to_string(), size.to_string());
    let old = has_old_options(cluster);
    let old_bootstrap = format!("bootstrap.servers={bootstrap}");
    let connection: &[&str] = if old {
        &["--producer-props", &old_bootstrap, "acks=all"]
    } else {
        &["--bootstrap-server", &bootstrap, "--command-property", "acks=all"]
    };
    let what =
        ["--topic", topic, "--num-records", &records, "--record-size", &size, "--throughput", "-1"];
    let arguments = [&what, connection].concat();
    let class = "org.apache.kafka.tools.ProducerPerformance";
    cluster.run_tool(class, &arguments).await.map(drop)
}

fn bootstrap(cluster: &Cluster) -> String {
    let all = cluster.bootstrap_brokers();
    all.iter().map(|(host, port)| format!("{host}:{port}")).collect::<Vec<_>>().join(",")
}

/// Kafka before 4.2 has other names for the same options.
fn has_old_options(cluster: &Cluster) -> bool {
    cluster.version().to_string().starts_with("4.1")
}

/// Reads a topic as a member of a group with Kafka's own consumer. It ends when it is dropped: a member that is killed
/// stays in its group for a while.
pub(crate) async fn consume(
    cluster: &Cluster,
    topic: &str,
    group: &str,
    protocol: &str,
) -> anyhow::Result<()> {
    let bootstrap = bootstrap(cluster);
    let protocol = format!("group.protocol={protocol}");
    let property =
        if has_old_options(cluster) { "--consumer-property" } else { "--command-property" };
    let first = "auto.offset.reset=earliest";
    // A commit a second is soon enough to wait for.
    let often = "auto.commit.interval.ms=1000";
    let arguments = [
        &["--bootstrap-server", bootstrap.as_str(), "--topic", topic, "--group", group][..],
        &[property, &protocol, property, first, property, often],
    ]
    .concat();
    let class = "org.apache.kafka.tools.consumer.ConsoleConsumer";
    cluster.run_tool(class, &arguments).await.map(drop)
}
