//! A plan of `gregor balance` is carried out by Kafka's own reassignment tool.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, Layout, NewTopic};
use model::{NodeId, TopicName};
use testkit::Cluster;

const TOPIC: &str = "orders";
const PARTITIONS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn kafka_carries_out_a_plan() -> anyhow::Result<()> {
    let cluster = Cluster::builder().controllers(1).brokers(3).start().await?;
    let addresses = cluster.bootstrap_brokers();
    let endpoints = addresses.iter().map(|(host, port)| Endpoint::new(host, *port)).collect();
    let admin = Admin::new(Bootstrap::Brokers(endpoints), ClientOptions::default())?;
    // Everything on one broker.
    let first = NodeId::new(100).unwrap();
    let name = TopicName::new(TOPIC)?;
    let topic = NewTopic {
        layout: Layout::Assigned(vec![vec![first]; PARTITIONS]),
        ..NewTopic::new(name.clone(), 0, 0)
    };
    admin.create_topics(&[topic], false).await?[&name].clone()?;

    let dir = tempfile::tempdir()?;
    describe(dir.path())?;
    let output = Command::new(env!("CARGO_BIN_EXE_gregor"))
        .args(["balance", "-o", "json", "--from"])
        .arg(dir.path())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan = dir.path().join("plan.json");
    std::fs::write(&plan, &output.stdout)?;

    let (host, port) = &addresses[0];
    let bootstrap = format!("{host}:{port}");
    let plan = plan.to_str().context("a path of our own is text")?;
    let class = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";
    let arguments =
        ["--bootstrap-server", &bootstrap, "--reassignment-json-file", plan, "--execute"];
    cluster.run_tool(class, &arguments).await?;

    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let page = admin.describe_topics(std::slice::from_ref(&name)).await?;
        let on = |id| {
            let broker = NodeId::new(id).unwrap();
            let partitions = page.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.filter(|partition| partition.replicas == [broker]).count()
        };
        let counts = [on(100), on(101), on(102)];
        if counts == [4, 4, 4] {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the replicas are at {counts:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The cluster in the files that `gregor balance` reads.
fn describe(dir: &std::path::Path) -> anyhow::Result<()> {
    let mut brokers = String::from(
        "id,rack,cpu_capacity_pct,nw_in_capacity_kbps,nw_out_capacity_kbps,disk_capacity_mb,state\n",
    );
    for id in 100..103 {
        writeln!(brokers, "{id},,400,10000,10000,10000,alive")?;
    }
    let mut partitions =
        String::from("topic,partition,replicas,cpu_pct,nw_in_kbps,nw_out_kbps,disk_mb\n");
    for number in 0..PARTITIONS {
        writeln!(partitions, "{TOPIC},{number},100,1,10,10,100")?;
    }
    std::fs::write(dir.join("brokers.csv"), brokers)?;
    std::fs::write(dir.join("partitions.csv"), partitions)?;
    Ok(())
}
