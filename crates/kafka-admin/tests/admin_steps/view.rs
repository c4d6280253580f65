//! What the cluster, the quorum and the features look like.

use anyhow::{Context as _, ensure};
use kafka_admin::{Code, LevelChange, NodeKind, UpdateFeatureError};
use testkit::{Cluster, Role};

use crate::common::{brokers, controllers, directory, node, voter_ids};

pub(crate) async fn cluster_as_brokers_and_controllers_see_it(
    cluster: &Cluster,
) -> anyhow::Result<()> {
    let seen = brokers(cluster).describe_cluster().await?;
    assert_eq!(seen.id.as_str(), cluster.cluster_id());
    assert_eq!(seen.kind, NodeKind::Brokers);
    assert_eq!(seen.active_controller, None);
    let ids: Vec<_> = seen.nodes.iter().map(|node| (node.id.get(), node.fenced)).collect();
    assert_eq!(ids, [(100, false), (101, false), (102, false)]);
    for broker in &seen.nodes {
        let endpoint = broker.endpoint.as_ref().context("an endpoint")?;
        assert_eq!(endpoint.host, cluster.node(broker.id.get()).host());
    }

    let seen = controllers(cluster).describe_cluster().await?;
    assert_eq!(seen.kind, NodeKind::Controllers);
    assert_eq!(seen.id.as_str(), cluster.cluster_id());
    let expected: Vec<i32> = controller_ids(cluster);
    assert_eq!(seen.nodes.iter().map(|node| node.id.get()).collect::<Vec<_>>(), expected);
    let quorum = controllers(cluster).describe_quorum().await?;
    assert_eq!(seen.active_controller, Some(quorum.leader));
    Ok(())
}

fn controller_ids(cluster: &Cluster) -> Vec<i32> {
    let controllers = cluster.nodes().into_iter().filter(|node| node.role() == Role::Controller);
    controllers.map(|node| node.id()).collect()
}

pub(crate) async fn quorum_with_directories_and_endpoints(cluster: &Cluster) -> anyhow::Result<()> {
    for admin in [brokers(cluster), controllers(cluster)] {
        let quorum = admin.describe_quorum().await?;
        assert_eq!(voter_ids(&quorum), controller_ids(cluster));
        assert!(quorum.high_watermark.is_some());
        let leader = quorum.leader_replica().context("the leader is one of them")?;
        assert_eq!(quorum.lag(leader), Some(0));
        for voter in &quorum.voters {
            let on_disk = cluster.node(voter.id.get());
            assert_eq!(voter.directory, Some(directory(&on_disk)?));
            let endpoint = voter.endpoints.first().context("a voter's endpoint is known")?;
            assert_eq!((endpoint.host.as_str(), endpoint.port), (on_disk.host(), 9093));
        }
        let observers: Vec<_> = quorum.observers.iter().map(|o| o.id.get()).collect();
        assert_eq!(observers, [100, 101, 102]);
        assert!(quorum.observers.iter().all(|o| o.directory.is_some() && o.endpoints.is_empty()));
    }
    Ok(())
}

pub(crate) async fn features_one_at_a_time(cluster: &Cluster) -> anyhow::Result<()> {
    const FEATURE: &str = "eligible.leader.replicas.version";
    for admin in [brokers(cluster), controllers(cluster)] {
        let features = admin.describe_features(None).await?;
        assert_eq!(features.finalized.get("kraft.version"), Some(&1));
        let level = *features.finalized.get("metadata.version").context("a metadata version")?;
        let (lowest, highest) = features.supported["metadata.version"];
        assert!(lowest < level && level <= highest);
        assert!(features.finalized_epoch.is_some());
    }
    let admin = brokers(cluster);
    let of_one = admin.describe_features(Some(node(101))).await?;
    assert_eq!(of_one.finalized.get(FEATURE), Some(&1));

    // Down, up, and only asked.
    admin.update_feature(FEATURE, 0, LevelChange::SafeDowngrade, true).await?;
    assert_eq!(finalized(cluster, FEATURE).await?, Some(1));
    admin.update_feature(FEATURE, 0, LevelChange::SafeDowngrade, false).await?;
    assert_eq!(finalized(cluster, FEATURE).await?, None);
    controllers(cluster).update_feature(FEATURE, 1, LevelChange::Upgrade, false).await?;
    assert_eq!(finalized(cluster, FEATURE).await?, Some(1));

    let down = admin.update_feature("kraft.version", 0, LevelChange::UnsafeDowngrade, true).await;
    ensure!(matches!(down, Err(UpdateFeatureError::Level { .. })), "{down:?}");
    let beyond = admin.update_feature("metadata.version", 999, LevelChange::Upgrade, false).await;
    ensure!(matches!(beyond, Err(UpdateFeatureError::Level { level: 999, .. })), "{beyond:?}");
    let unknown = admin.update_feature("no.such.feature", 1, LevelChange::Upgrade, true).await;
    let code = match unknown {
        Err(UpdateFeatureError::Level { .. }) => Code::INVALID_UPDATE_VERSION,
        Err(UpdateFeatureError::Refused { refusal, .. }) => refusal.code,
        other => anyhow::bail!("{other:?}"),
    };
    ensure!(!code.is_ok());
    Ok(())
}

/// As the active controller sees it: brokers learn it a little later.
async fn finalized(cluster: &Cluster, feature: &str) -> anyhow::Result<Option<i16>> {
    let admin = controllers(cluster);
    let leader = admin.describe_quorum().await?.leader;
    let features = admin.describe_features(Some(leader)).await?;
    Ok(features.finalized.get(feature).copied())
}
