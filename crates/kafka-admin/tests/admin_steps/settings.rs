//! Configuration: of brokers, topics, the cluster's default, and of controllers.

use anyhow::{Context as _, ensure};
use kafka_admin::{
    Admin, AlterConfigsError, Code, ConfigChange, ConfigResource, ConfigSource,
    DescribeConfigsError,
};
use testkit::Cluster;

use crate::common::{brokers, controllers, eventually, node, so, topic};

fn set(name: &str, value: &str) -> [ConfigChange; 1] {
    [ConfigChange::Set(name.to_owned(), value.to_owned())]
}

fn delete(name: &str) -> [ConfigChange; 1] {
    [ConfigChange::Delete(name.to_owned())]
}

async fn becomes(
    admin: &Admin,
    resource: &ConfigResource,
    name: &str,
    expected: (Option<&str>, ConfigSource),
) -> anyhow::Result<()> {
    eventually(&format!("{name} of {resource} is {expected:?}"), async || {
        let entries = admin.describe_configs(resource, Some(&[name])).await?;
        let entry = entries.get(name).context("the setting is there")?;
        let seen = (entry.value.clone(), entry.source);
        so((seen.0.as_deref(), seen.1) == expected, seen)
    })
    .await
}

pub(crate) async fn of_nodes_topics_and_the_cluster(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let broker = ConfigResource::Node(node(101));
    let all = admin.describe_configs(&broker, None).await?;
    assert_eq!(all["node.id"].value.as_deref(), Some("101"));
    assert!(all["process.roles"].read_only && !all["message.max.bytes"].read_only);
    assert_eq!(all["message.max.bytes"].source, ConfigSource::Default);

    let name = "message.max.bytes";
    admin.alter_configs(&broker, &set(name, "2000000"), true).await?;
    becomes(&admin, &broker, name, (Some("1048588"), ConfigSource::Default)).await?;
    admin.alter_configs(&broker, &set(name, "2000000"), false).await?;
    becomes(&admin, &broker, name, (Some("2000000"), ConfigSource::DynamicNode)).await?;
    admin.alter_configs(&broker, &delete(name), false).await?;
    becomes(&admin, &broker, name, (Some("1048588"), ConfigSource::Default)).await?;

    let default = ConfigResource::ClusterDefault;
    admin.alter_configs(&default, &set(name, "2000000"), false).await?;
    becomes(&admin, &broker, name, (Some("2000000"), ConfigSource::DynamicDefault)).await?;
    admin.alter_configs(&default, &delete(name), false).await?;
    becomes(&admin, &broker, name, (Some("1048588"), ConfigSource::Default)).await?;

    let plain = ConfigResource::Topic(topic("plain"));
    becomes(&admin, &plain, "retention.ms", (Some("3600000"), ConfigSource::Topic)).await?;
    admin.alter_configs(&plain, &set("min.insync.replicas", "2"), false).await?;
    becomes(&admin, &plain, "min.insync.replicas", (Some("2"), ConfigSource::Topic)).await?;
    let policy = |change: fn(String, String) -> ConfigChange| {
        [change("cleanup.policy".to_owned(), "compact".to_owned())]
    };
    admin.alter_configs(&plain, &policy(ConfigChange::Append), false).await?;
    becomes(&admin, &plain, "cleanup.policy", (Some("delete,compact"), ConfigSource::Topic))
        .await?;
    admin.alter_configs(&plain, &policy(ConfigChange::Subtract), false).await?;
    becomes(&admin, &plain, "cleanup.policy", (Some("delete"), ConfigSource::Topic)).await?;

    let refused = admin.alter_configs(&broker, &set("process.roles", "broker"), false).await;
    ensure!(matches!(refused, Err(AlterConfigsError::Refused { .. })), "{refused:?}");
    let missing = ConfigResource::Topic(topic("missing"));
    let refused = admin.describe_configs(&missing, None).await;
    let Err(DescribeConfigsError::Refused { refusal, .. }) = refused else {
        anyhow::bail!("{refused:?}");
    };
    assert_eq!(refusal.code, Code::UNKNOWN_TOPIC_OR_PARTITION);
    Ok(())
}

pub(crate) async fn of_controllers(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = controllers(cluster);
    // Each answers for itself, also those that do not lead.
    for id in admin.describe_quorum().await?.voters.iter().map(|voter| voter.id) {
        let all = admin.describe_configs(&ConfigResource::Node(id), None).await?;
        assert_eq!(all["node.id"].value, Some(id.to_string()));
        assert_eq!(all["process.roles"].value.as_deref(), Some("controller"));
    }

    // What a controller would store without a word is refused here.
    let first = ConfigResource::Node(node(0));
    let read_only = admin.alter_configs(&first, &set("process.roles", "broker"), false).await;
    ensure!(matches!(read_only, Err(AlterConfigsError::ReadOnly { .. })), "{read_only:?}");
    let unknown = admin.alter_configs(&first, &set("no.such.setting", "1"), false).await;
    ensure!(matches!(unknown, Err(AlterConfigsError::NoSuchSetting { .. })), "{unknown:?}");

    let name = "max.connections.per.ip";
    let altered = admin.alter_configs(&first, &set(name, "1000"), false).await;
    if cluster.version().to_string().starts_with("4.1") {
        // Before 4.2 the active controller knows only brokers by id.
        let Err(AlterConfigsError::Refused { refusal, .. }) = altered else {
            anyhow::bail!("{altered:?}");
        };
        assert_eq!(refusal.code, Code::BROKER_ID_NOT_REGISTERED);
        return Ok(());
    }
    altered?;
    becomes(&admin, &first, name, (Some("1000"), ConfigSource::DynamicNode)).await?;
    admin.alter_configs(&first, &delete(name), false).await?;
    becomes(&admin, &first, name, (Some("2147483647"), ConfigSource::Default)).await
}
