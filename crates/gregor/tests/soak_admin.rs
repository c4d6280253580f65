//! Every admin call on a real cluster of the oldest Kafka that we support.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

#[path = "../../kafka-admin/tests/admin_steps/mod.rs"]
mod admin_steps;
#[path = "../../kafka-admin/tests/common/mod.rs"]
mod common;

use testkit::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn every_admin_call_works_on_kafka_4_1() -> anyhow::Result<()> {
    let cluster = Cluster::builder()
        .version("4.1.2")
        .controllers(1)
        .brokers(3)
        .log_dirs(2)
        .authorizer(true)
        .start()
        .await?;
    admin_steps::run(&cluster).await
}
