//! `gregor balance` plans for a cluster that runs, and Kafka's own reassignment tool carries the plan out.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, Layout, NewTopic};
use model::{NodeId, TopicName};
use serde_json::Value;
use testkit::Cluster;

const TOPIC: &str = "orders";
const PARTITIONS: usize = 12;
const GOALS: &[&str] = &["--goals", "RackAware,ReplicaDistribution", "--skip-hard-goal-check"];

fn balance(arguments: &[&str]) -> anyhow::Result<(Value, String)> {
    let arguments = [&["balance", "-o", "json"], arguments].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_gregor")).args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    Ok((serde_json::from_slice(&output.stdout)?, said))
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_carries_out_a_plan_for_a_cluster_that_runs() -> anyhow::Result<()> {
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

    let (host, port) = &addresses[0];
    let bootstrap = format!("{host}:{port}");
    let dir = tempfile::tempdir()?;
    let saved = dir.path().join("cluster");
    let saved = saved.to_str().context("a path of our own is text")?;
    let live = ["--bootstrap", &bootstrap, "--sample", "1", "--save", saved];
    let deadline = Instant::now() + Duration::from_secs(60);
    let (plan, said) = loop {
        let (plan, said) = balance(&[&live, GOALS].concat())?;
        let count = |key: &str| plan[key].as_array().map_or(0, Vec::len);
        // The broker that is asked may hear of the topic a little later.
        if count("partitions") > 0 && count("unknown") == 1 {
            break (plan, said);
        }
        ensure!(Instant::now() < deadline, "{plan} {said}");
    };
    // No node was asked what it sends, and that is said.
    ensure!(said.contains("not known of brokers 100, 101, 102"), "{said}");
    // What was saved is the same cluster.
    let (again, _) = balance(&[&["--from", saved], GOALS].concat())?;
    assert_eq!(again["partitions"], plan["partitions"]);

    let file = dir.path().join("plan.json");
    std::fs::write(&file, plan.to_string())?;
    let file = file.to_str().context("a path of our own is text")?;
    let class = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";
    let arguments =
        ["--bootstrap-server", &bootstrap, "--reassignment-json-file", file, "--execute"];
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
        // Nine percent to either side of four, rounded away from it.
        if counts.iter().all(|count| (3..=5).contains(count)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the replicas are at {counts:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
