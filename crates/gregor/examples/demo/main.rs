//! The demonstration of `make demo`: a real Kafka cluster on a real Kubernetes control plane on this machine is scaled,
//! rebalanced and rolled while records are written and read. It uses the examples and the operator as they ship.
//!
//! `--keep` leaves everything running at the end.

mod stage;

use anyhow::Context as _;
use artifacts::{Environment, Silent, kafka};
use serde_json::Value;
use stage::{Stage, title};
use testkit::{Load, LoadOptions, Report};

const EXAMPLE: &str = "examples/kafka-auto-rebalance.yaml";
const CLUSTER: &str = "my-cluster";

/// The topic under load; all of its records are accounted for.
const COUNTED: &str = "orders";
/// Topics with data to move.
const TOPICS: u32 = 10;
const PARTITIONS: &str = "6";
/// Records of 1 kB per topic.
const RECORDS: &str = "2000";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let keep = std::env::args().any(|argument| argument == "--keep");
    let stage = Stage::new(CLUSTER)?;
    let outcome = demonstrate(&stage).await;
    match (&outcome, keep) {
        (Ok(()), true) => stage.suggest_commands(),
        (Ok(()) | Err(_), _) => stage.clean_up()?,
    }
    outcome
}

async fn demonstrate(stage: &Stage) -> anyhow::Result<()> {
    title("Start Kubernetes, the operator and a cluster from examples/ on this machine");
    stage.gregor(&["up", "--detach", "--nodes", "3", "-f", EXAMPLE])?;
    println!("\nready after {:.0} s", stage.begun.elapsed().as_secs_f32());
    stage.gregor(&["status", CLUSTER])?;

    title("Create ten topics with data, then write and read records with acks=all until the end");
    let bootstrap = stage.bootstrap("plain")?;
    fill(stage, &bootstrap)?;
    let home = kafka::ensure(&Environment::from_process(), None, &Silent)?;
    let options = LoadOptions::new(home, &bootstrap, COUNTED).hosts(stage.hosts()).rate(200);
    let load = Load::start(options).await.context("cannot start the load")?;
    load.wait_acknowledged(1_000).await?;
    println!("1000 records written, the load continues");

    let mut moved = Moved::default();
    title("Add a fourth broker: Gregor moves replicas to it");
    stage.kubectl(&["scale", "kafkanodepool", "broker", "--replicas=4"])?;
    reshape(stage, 4, &mut moved).await?;
    partitions(stage, &bootstrap)?;

    title("Scale back to three brokers: Gregor drains the broker, then removes it");
    stage.kubectl(&["scale", "kafkanodepool", "broker", "--replicas=3"])?;
    reshape(stage, 3, &mut moved).await?;
    partitions(stage, &bootstrap)?;

    title("Add two controllers: they join as observers and become voters one at a time");
    stage.kubectl(&["scale", "kafkanodepool", "controller", "--replicas=5"])?;
    let voters =
        || anyhow::Ok(stage.cluster()?["status"]["controllers"].as_array().map_or(0, Vec::len));
    stage.wait("voters", || Ok((voters()? == 5, format!("{} voters", voters()?)))).await?;
    stage.ready().await?;

    title("Restart all nodes, keeping the quorum and min-ISR");
    let before = stage.pods()?;
    stage.gregor(&["roll", CLUSTER])?;
    let restarted = || {
        let now = stage.pods()?;
        anyhow::Ok(before.iter().filter(|pod| !now.contains(pod)).count())
    };
    let all = before.len();
    stage
        .wait("roll", || Ok((restarted()? == all, format!("{}/{all} nodes", restarted()?))))
        .await?;
    stage.settled().await?;
    stage.gregor(&["status", CLUSTER])?;

    let report = load.stop().await.context("cannot stop the load")?;
    close(stage, &report, &moved)
}

/// Creates the topics.
fn fill(stage: &Stage, bootstrap: &str) -> anyhow::Result<()> {
    let create = |topic: &str| {
        let words = ["--bootstrap-server", bootstrap, "--create", "--topic", topic];
        let words = [&words[..], &["--partitions", PARTITIONS]].concat();
        stage.tool("org.apache.kafka.tools.TopicCommand", &words)
    };
    create(COUNTED)?;
    for topic in 0..TOPICS {
        let topic = format!("topic-{topic}");
        create(&topic)?;
        let words = ["--topic", &topic, "--num-records", RECORDS, "--record-size", "1000"];
        let words = [&words[..], &["--throughput", "-1", "--bootstrap-server", bootstrap]].concat();
        stage.tool("org.apache.kafka.tools.ProducerPerformance", &words)?;
    }
    partitions(stage, bootstrap)
}

/// Data that rebalances moved over the network.
#[derive(Default)]
struct Moved {
    megabytes: u64,
}

/// Waits until a rebalance has finished and the cluster has this many brokers.
async fn reshape(stage: &Stage, brokers: usize, moved: &mut Moved) -> anyhow::Result<()> {
    let mut most = 0;
    stage
        .wait("rebalance", || {
            let kafka = stage.cluster()?;
            let state =
                kafka["status"]["autoRebalance"]["state"].as_str().unwrap_or("Idle").to_owned();
            let running = stage.rebalances()?;
            let (percent, megabytes) = running.iter().map(progress).max().unwrap_or_default();
            most = most.max(megabytes);
            let pods = stage.pods()?.iter().filter(|(pod, _)| pod.contains("-broker-")).count();
            let seen = most > 0 && state == "Idle" && running.is_empty() && pods == brokers;
            Ok((seen, format!("{state:<24} {percent:>3} % of {most} MB, {pods} brokers")))
        })
        .await?;
    moved.megabytes += most;
    stage.ready().await
}

/// Progress of a rebalance in percent, and its total in MB.
fn progress(rebalance: &Value) -> (u64, u64) {
    let result = &rebalance["status"]["optimizationResult"];
    let megabytes = result["dataToMoveMB"].as_u64().unwrap_or_default();
    (rebalance["percent"].as_u64().unwrap_or_default(), megabytes)
}

/// Prints the number of replicas per broker.
fn partitions(stage: &Stage, bootstrap: &str) -> anyhow::Result<()> {
    let words = ["--bootstrap-server", bootstrap, "--describe"];
    let said = stage.tool("org.apache.kafka.tools.TopicCommand", &words)?;
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    let lists = said.lines().filter_map(|line| line.split("Replicas: ").nth(1)?.split('\t').next());
    lists
        .flat_map(|list| list.trim().split(','))
        .for_each(|id| *counts.entry(id).or_default() += 1);
    for (broker, count) in counts {
        println!("broker {broker}: {count} replicas");
    }
    Ok(())
}

/// Prints the report. Fails if a record was lost.
fn close(stage: &Stage, report: &Report, moved: &Moved) -> anyhow::Result<()> {
    title("Result");
    println!("records written, with acks=all:   {}", report.acknowledged);
    println!("records read:                     {}", report.read);
    println!("records lost:                     {}", report.lost.len());
    println!("longest pause of the producer:    {:.1} s", report.longest_gap.as_secs_f32());
    println!("moved between brokers:            {} MB", moved.megabytes);
    println!("total time:                       {:.0} s", stage.begun.elapsed().as_secs_f32());
    report.check()
}
