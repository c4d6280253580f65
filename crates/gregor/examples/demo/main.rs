//! The demonstration that `make demo` runs: a real Kubernetes and a real Kafka cluster on this machine that
//! changes its shape while records are written and read, from the same YAML and through the same operator
//! as anywhere.
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

/// The topic whose every record is counted.
const COUNTED: &str = "orders";
/// Topics with something in them to move.
const TOPICS: u32 = 10;
const PARTITIONS: &str = "6";
/// Records of a kilobyte in each.
const RECORDS: &str = "2000";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let keep = std::env::args().any(|argument| argument == "--keep");
    let stage = Stage::new(CLUSTER)?;
    let told = tell(&stage).await;
    match (&told, keep) {
        (Ok(()), true) => stage.say_what_to_try(),
        (Ok(()) | Err(_), _) => stage.clean_up()?,
    }
    told
}

async fn tell(stage: &Stage) -> anyhow::Result<()> {
    title("Kubernetes on this machine, the operator in it, and a cluster from examples/");
    stage.gregor(&["up", "--detach", "--nodes", "3", "-f", EXAMPLE])?;
    println!("\nready {:.0} s after the first line", stage.begun.elapsed().as_secs_f32());
    stage.gregor(&["status", CLUSTER])?;

    title("Ten topics with data, and from here on records with acks=all, each of which is counted");
    let bootstrap = stage.bootstrap("plain")?;
    fill(stage, &bootstrap)?;
    let home = kafka::ensure(&Environment::from_process(), None, &Silent)?;
    let options = LoadOptions::new(home, &bootstrap, COUNTED).hosts(stage.hosts()).rate(200);
    let load = Load::start(options).await.context("no load could be put on the cluster")?;
    load.wait_acknowledged(1_000).await?;
    println!("1000 records are written, and it goes on");

    let mut moved = Moved::default();
    title("A fourth broker: it joins, and gets its share of the data by itself");
    stage.kubectl(&["scale", "kafkanodepool", "broker", "--replicas=4"])?;
    reshape(stage, 4, &mut moved).await?;
    partitions(stage, &bootstrap)?;

    title("Back to three: it is emptied first, then it goes");
    stage.kubectl(&["scale", "kafkanodepool", "broker", "--replicas=3"])?;
    reshape(stage, 3, &mut moved).await?;
    partitions(stage, &bootstrap)?;

    title("Two controllers more: they follow, then they vote, one at a time");
    stage.kubectl(&["scale", "kafkanodepool", "controller", "--replicas=5"])?;
    let voters =
        || anyhow::Ok(stage.cluster()?["status"]["controllers"].as_array().map_or(0, Vec::len));
    stage.wait("voters", || Ok((voters()? == 5, format!("{} voters", voters()?)))).await?;
    stage.ready().await?;

    title("Every node is restarted, in an order that breaks neither quorum nor min-ISR");
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
    stage.ready().await?;
    stage.gregor(&["status", CLUSTER])?;

    let report = load.stop().await.context("the load could not be ended")?;
    close(stage, &report, &moved)
}

/// Makes the topics.
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

/// What was moved over the network by rebalances.
#[derive(Default)]
struct Moved {
    megabytes: u64,
}

/// Waits until a rebalance is over and the cluster has so many brokers.
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

/// How far a rebalance is, and how much it moves in all.
fn progress(rebalance: &Value) -> (u64, u64) {
    let result = &rebalance["status"]["optimizationResult"];
    let megabytes = result["dataToMoveMB"].as_u64().unwrap_or_default();
    (rebalance["percent"].as_u64().unwrap_or_default(), megabytes)
}

/// Prints on how many brokers the replicas are.
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

/// The report at the end. The story has failed if a record was lost.
fn close(stage: &Stage, report: &Report, moved: &Moved) -> anyhow::Result<()> {
    title("What came of it");
    println!("records written, with acks=all:   {}", report.acknowledged);
    println!("records read:                     {}", report.read);
    println!("records lost:                     {}", report.lost.len());
    println!("longest time without a record:    {:.1} s", report.longest_gap.as_secs_f32());
    println!("moved between brokers:            {} MB", moved.megabytes);
    println!("seconds in all:                   {:.0}", stage.begun.elapsed().as_secs_f32());
    report.check()
}
