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
    let cluster = Cluster::builder().controllers(1).brokers(3).log_dirs(2).start().await?;
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
    ensure!(said.contains("of brokers 100, 101, 102 are unknown"), "{said}");
    // What was saved is the same cluster.
    let (again, _) = balance(&[&["--from", saved], GOALS].concat())?;
    assert_eq!(again["partitions"], plan["partitions"]);

    carry_out(&cluster, &bootstrap, &plan).await?;

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
            break;
        }
        ensure!(Instant::now() < deadline, "the replicas are at {counts:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    empty_a_disk(&cluster, &admin, &bootstrap).await
}

/// Gives a plan to Kafka's own tool.
async fn carry_out(cluster: &Cluster, bootstrap: &str, plan: &Value) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("plan.json");
    std::fs::write(&file, plan.to_string())?;
    let file = file.to_str().context("a path of our own is text")?;
    let class = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";
    let arguments =
        ["--bootstrap-server", bootstrap, "--reassignment-json-file", file, "--execute"];
    cluster.run_tool(class, &arguments).await?;
    Ok(())
}

/// The replicas on a broker with two disks go to one of them.
async fn empty_a_disk(cluster: &Cluster, admin: &Admin, bootstrap: &str) -> anyhow::Result<()> {
    let broker = NodeId::new(101).unwrap();
    let dirs = admin.describe_log_dirs(broker).await?;
    let full = dirs.iter().max_by_key(|dir| dir.replicas.len()).context("no disk")?;
    ensure!(!full.replicas.is_empty(), "{dirs:?}");
    let volume = format!("{broker}:{}", full.path);
    let words = ["--bootstrap", bootstrap, "--mode", "remove-disks", "--volumes"];
    let (plan, _) = balance(&[&words[..], &[&volume]].concat())?;
    assert_eq!(plan["partitions"].as_array().map(Vec::len), Some(full.replicas.len()), "{plan}");
    carry_out(cluster, bootstrap, &plan).await?;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let dirs = admin.describe_log_dirs(broker).await?;
        let left = dirs.iter().find(|dir| dir.path == full.path).context("it is gone")?;
        if left.replicas.is_empty() {
            break;
        }
        ensure!(Instant::now() < deadline, "{left:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let wrong = balance(&[&words[..], &["101:/nowhere"]].concat()).unwrap_err().to_string();
    ensure!(wrong.contains("broker 101 has no disk /nowhere; it has "), "{wrong}");
    Ok(())
}
