//! Every admin call on a real cluster of the newest Kafka that we support. `make soak PART=admin` does it on the oldest.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod admin_steps;
mod common;

use testkit::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn every_admin_call_works_on_kafka_4_3() -> anyhow::Result<()> {
    let cluster =
        Cluster::builder().controllers(3).brokers(3).log_dirs(2).authorizer(true).start().await?;
    admin_steps::run(&cluster).await
}
