//! Brokers that are stopped, forgotten, and come back.

use anyhow::ensure;
use kafka_admin::{Admin, Election, ElectionOutcome, Outcome, UnregisterBrokerError};
use testkit::Cluster;

use crate::common::{brokers, controllers, eventually, node, partition, so};

/// Whether broker 102 is registered, and if so whether it is fenced.
async fn registration(admin: &Admin) -> anyhow::Result<Option<bool>> {
    let cluster = admin.describe_cluster().await?;
    Ok(cluster.nodes.iter().find(|n| n.id == node(102)).map(|n| n.fenced))
}

async fn becomes(admin: &Admin, expected: Option<bool>) -> anyhow::Result<()> {
    eventually(&format!("the registration of 102 is {expected:?}"), async || {
        let seen = registration(admin).await?;
        so(seen == expected, seen)
    })
    .await
}

pub(crate) async fn of_a_stopped_broker(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let last = cluster.node(102);
    last.stop().await?;
    becomes(&admin, Some(true)).await?;
    eventually("its replicas are seen as offline", async || {
        let page = admin.describe_topics(&[partition("plain", 0).topic]).await?;
        let all = &page.topics[0].partitions;
        so(all.iter().all(|p| p.offline == [node(102)] && !p.isr.contains(&node(102))), page)
    })
    .await?;
    // Everything has a leader elsewhere, so even an unclean election has nothing to do.
    let plain = partition("plain", 0);
    let outcome =
        admin.elect_leaders(Election::Unclean, Some(std::slice::from_ref(&plain))).await?;
    assert_eq!(outcome[&plain], ElectionOutcome::NotNeeded);

    admin.unregister_broker(node(102)).await?;
    becomes(&admin, None).await?;
    for admin in [brokers(cluster), controllers(cluster)] {
        let again = admin.unregister_broker(node(102)).await;
        let Err(error @ UnregisterBrokerError::NotRegistered { .. }) = again else {
            anyhow::bail!("{again:?}");
        };
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
    last.start().await?;
    last.wait_ready().await?;
    becomes(&admin, Some(false)).await
}

/// Kafka forgets a running broker without a word; only a restart brings it back. That is why the
/// rule that protects it has to be ours.
pub(crate) async fn of_a_running_broker(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let last = cluster.node(102);
    ensure!(last.is_running());
    admin.unregister_broker(node(102)).await?;
    eventually("those that remain do not list it", async || {
        // The forgotten broker itself still answers, with what it knew last.
        let controllers = controllers(cluster);
        let leader = controllers.describe_quorum().await?.leader;
        ensure!(leader != node(102));
        let ids: Vec<_> = admin.describe_cluster().await?.nodes.iter().map(|n| n.id).collect();
        so(!ids.contains(&node(102)), ids)
    })
    .await?;
    ensure!(last.is_running(), "the process knows nothing of it");
    last.kill().await?;
    last.start().await?;
    last.wait_ready().await?;
    becomes(&admin, Some(false)).await
}
