//! Load with an account of every record, while a broker restarts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::Duration;

use artifacts::{Environment, Silent, kafka};
use testkit::{Cluster, Load, LoadOptions};

#[tokio::test(flavor = "multi_thread")]
async fn no_record_is_lost_while_a_broker_restarts() {
    let cluster = Cluster::builder().combined(3).start().await.unwrap();
    let bootstrap: Vec<_> =
        cluster.bootstrap_brokers().iter().map(|(host, port)| format!("{host}:{port}")).collect();
    let bootstrap = bootstrap.join(",");
    let topic = ["--bootstrap-server", &bootstrap, "--create", "--topic", "safe"];
    let topic = [&topic[..], &["--partitions", "6", "--replication-factor", "3"]].concat();
    cluster.run_tool("org.apache.kafka.tools.TopicCommand", &topic).await.unwrap();
    let kafka = kafka::ensure(&Environment::from_process(), Some(cluster.version()), &Silent);
    let kafka = kafka.unwrap();

    let load = Load::start(LoadOptions::new(kafka, &bootstrap, "safe")).await.unwrap();
    load.wait_acknowledged(500).await.unwrap();
    cluster.node(201).restart().await.unwrap();
    load.wait_acknowledged(500).await.unwrap();
    let report = load.stop().await.unwrap();
    report.check().unwrap();
    assert!(report.acknowledged >= 1_000 && report.read >= report.acknowledged, "{report:?}");
    assert!(report.longest_gap < Duration::from_secs(60), "{report:?}");
}
