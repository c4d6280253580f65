//! Moving replicas: between disks, between brokers under a throttle, and leadership.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use kafka_admin::{
    Admin, AlterConfigsError, Code, ConfigChange, ConfigResource, Election, ElectionOutcome,
    Layout, NewTopic, Partition, ReplicaMove, Throttle, ThrottleError, ThrottleRecord,
    ThrottleValues,
};
use model::{PartitionId, TopicPartition};
use testkit::Cluster;

use crate::common::{brokers, controllers, eventually, node, nodes, partition, produce, so, topic};

async fn create(admin: &Admin, name: &str, layout: &[&[i32]]) -> anyhow::Result<()> {
    let layout = Layout::Assigned(layout.iter().map(|ids| nodes(ids)).collect());
    let new = NewTopic { layout, ..NewTopic::new(topic(name), 0, 0) };
    let results = admin.create_topics(&[new], false).await?;
    results[&topic(name)].clone().context("created")?;
    // The broker that is asked next hears of it a little later.
    eventually(&format!("{name} is seen"), async || {
        let page = admin.describe_topics(&[topic(name)]).await?;
        let led = page.topics.iter().flat_map(|t| &t.partitions).all(|p| p.leader.is_some());
        so(led && !page.topics.is_empty(), page)
    })
    .await
}

async fn only_partition(admin: &Admin, name: &str) -> anyhow::Result<Partition> {
    let page = admin.describe_topics(&[topic(name)]).await?;
    let topic = page.topics.first().context("the topic is there")?;
    topic.partitions.first().cloned().context("the partition is there")
}

pub(crate) async fn between_the_disks_of_a_broker(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    create(&admin, "on-disk", &[&[100]]).await?;
    produce(cluster, "on-disk", 500, 1000).await?;
    let moved = partition("on-disk", 0);
    let dirs = admin.describe_log_dirs(node(100)).await?;
    assert_eq!(dirs.len(), 2);
    assert!(dirs.iter().all(|dir| dir.failure.is_none() && dir.total_bytes > dir.usable_bytes));
    let holds = |dir: &&kafka_admin::LogDir| dir.replicas.iter().any(|r| r.partition == moved);
    let from = dirs.iter().find(holds).context("it is on one of the disks")?;
    let size = from.replicas.iter().find(|r| r.partition == moved).map(|r| r.size_bytes);
    assert!(size.is_some_and(|bytes| bytes > 500_000), "{size:?}");
    let to = dirs.iter().find(|dir| !holds(dir)).context("and not on the other")?;

    let wrong = ReplicaMove { partition: moved.clone(), path: "/no/such/directory".to_owned() };
    let refused = admin.move_replicas(node(100), &[wrong]).await?;
    assert_eq!(refused[&moved].clone().unwrap_err().code, Code(57), "LOG_DIR_NOT_FOUND");
    let right = ReplicaMove { partition: moved.clone(), path: to.path.clone() };
    assert_eq!(admin.move_replicas(node(100), &[right]).await?[&moved], Ok(()));
    eventually("the replica is on the other disk alone", async || {
        let dirs = admin.describe_log_dirs(node(100)).await?;
        let of_it = |dir: &kafka_admin::LogDir| {
            let replica = dir.replicas.iter().find(|r| r.partition == moved)?;
            Some((dir.path.clone(), replica.future))
        };
        let seen: Vec<_> = dirs.iter().filter_map(of_it).collect();
        so(seen == [(to.path.clone(), false)], seen)
    })
    .await
}

/// The four settings of the throttle, as they are on broker 102 and on the topic.
async fn throttle_settings(admin: &Admin) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for resource in [ConfigResource::Node(node(102)), ConfigResource::Topic(topic("heavy"))] {
        for (name, entry) in admin.describe_configs(&resource, None).await? {
            let value = entry.value.unwrap_or_default();
            let unset = value.is_empty() || value == i64::MAX.to_string();
            if name.contains("replication.throttled") && !unset {
                found.insert(name, value);
            }
        }
    }
    Ok(found)
}

fn throttle(moved: &TopicPartition) -> Throttle {
    let replica = |id| BTreeSet::from([(PartitionId(0), node(id))]);
    Throttle {
        rate_bytes: 50_000,
        brokers: [100, 101, 102].into_iter().map(node).collect(),
        leaders: BTreeMap::from([(moved.topic.clone(), replica(100))]),
        followers: BTreeMap::from([(moved.topic.clone(), replica(102))]),
    }
}

pub(crate) async fn under_a_throttle_cancelled_half_way(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    create(&admin, "heavy", &[&[100, 101]]).await?;
    produce(cluster, "heavy", 10_000, 1000).await?;
    let moved = partition("heavy", 0);

    // Somebody has a throttle of their own on one broker and on this topic.
    let rate = ConfigChange::Set("follower.replication.throttled.rate".into(), "7654321".into());
    admin.alter_configs(&ConfigResource::Node(node(102)), &[rate], false).await?;
    let list = ConfigChange::Set("leader.replication.throttled.replicas".into(), "0:101".into());
    admin.alter_configs(&ConfigResource::Topic(topic("heavy")), &[list], false).await?;
    let before = eventually("the settings that were made by hand are there", async || {
        let settings = throttle_settings(&admin).await?;
        Ok(if settings.len() == 2 { Ok(settings) } else { Err(settings) })
    })
    .await?;

    let not_stored = admin
        .throttle(&throttle(&moved), async |_: &ThrottleRecord| Err("the disk is full".into()))
        .await;
    ensure!(matches!(not_stored, Err(ThrottleError::Record(_))), "{not_stored:?}");
    assert_eq!(throttle_settings(&admin).await?, before, "nothing was changed");

    let mut stored = String::new();
    let guard = admin
        .throttle(&throttle(&moved), async |record: &ThrottleRecord| {
            let settings = throttle_settings(&admin).await?;
            assert_eq!(settings, before, "recorded before anything is changed");
            stored = serde_json::to_string(record)?;
            Ok(())
        })
        .await?;
    eventually("the throttle is set", async || {
        let settings = throttle_settings(&admin).await?;
        let leaders = settings.get("leader.replication.throttled.replicas").cloned();
        let rate = settings.get("follower.replication.throttled.rate").cloned();
        let set = leaders.as_deref() == Some("0:100,0:101") && rate.as_deref() == Some("50000");
        so(set && settings.len() == 4, settings)
    })
    .await?;

    let target = BTreeMap::from([(moved.clone(), Some(nodes(&[101, 102])))]);
    assert_eq!(admin.alter_reassignments(&target, true).await?[&moved], Ok(()));
    let in_flight = admin.list_reassignments().await?;
    assert_eq!(in_flight[&moved].adding, nodes(&[102]));
    assert_eq!(in_flight[&moved].removing, nodes(&[100]));
    let seen = only_partition(&admin, "heavy").await?;
    assert_eq!((&seen.adding, &seen.removing), (&nodes(&[102]), &nodes(&[100])));

    guard.set_rate(60_000).await?;
    assert_eq!(admin.cancel_reassignments([moved.clone()]).await?[&moved], Ok(()));
    let again = admin.cancel_reassignments([moved.clone()]).await?;
    let code = again[&moved].clone().unwrap_err().code;
    assert_eq!(code, Code::NO_REASSIGNMENT_IN_PROGRESS);
    eventually("the partition is where it was", async || {
        let seen = only_partition(&admin, "heavy").await?;
        // Kafka keeps the brokers but not their order: the target's come first.
        let brokers: BTreeSet<_> = seen.replicas.iter().copied().collect();
        let back = brokers == BTreeSet::from([node(100), node(101)]) && seen.adding.is_empty();
        so(back && admin.list_reassignments().await?.is_empty(), seen)
    })
    .await?;

    guard.restore().await?;
    settings_become(&admin, &before).await?;
    // After a crash the stored record does the same, and doing it twice does no harm.
    let record: ThrottleRecord = serde_json::from_str(&stored)?;
    record.restore(&admin).await?;
    settings_become(&admin, &before).await
}

/// Through controllers the settings of a broker can be made that would not answer itself.
pub(crate) async fn throttle_of_a_broker_through_controllers(
    cluster: &Cluster,
) -> anyhow::Result<()> {
    let (admin, through) = (brokers(cluster), controllers(cluster));
    let is = async |values: &ThrottleValues| {
        eventually("the broker has it", async || {
            let found = admin.broker_throttle(node(101)).await?;
            so(found == *values, found)
        })
        .await
    };
    let before = admin.broker_throttle(node(101)).await?;
    let ours = ThrottleValues { leader: Some("1234567".to_owned()), follower: None };
    through.set_broker_throttle(node(101), &ours).await?;
    is(&ours).await?;
    through.set_broker_throttle(node(101), &before).await?;
    is(&before).await?;
    let missing = through.set_broker_throttle(node(199), &ThrottleValues::default()).await;
    let code = Code::BROKER_ID_NOT_REGISTERED;
    ensure!(
        matches!(&missing, Err(AlterConfigsError::Refused { refusal, .. }) if refusal.code == code),
        "{missing:?}"
    );
    Ok(())
}

async fn settings_become(admin: &Admin, expected: &BTreeMap<String, String>) -> anyhow::Result<()> {
    eventually("the settings are what they were", async || {
        let settings = throttle_settings(admin).await?;
        so(settings == *expected, settings)
    })
    .await
}

pub(crate) async fn leaders_are_elected(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    create(&admin, "led", &[&[100, 101]]).await?;
    let led = partition("led", 0);
    let preferred =
        async || admin.elect_leaders(Election::Preferred, Some(std::slice::from_ref(&led))).await;
    eventually("it is led by its first replica", async || {
        so(only_partition(&admin, "led").await?.leader == Some(node(100)), ())
    })
    .await?;
    assert_eq!(preferred().await?[&led], ElectionOutcome::NotNeeded);

    // Another order of the same replicas does not move the leader by itself.
    let target = BTreeMap::from([(led.clone(), Some(nodes(&[101, 100])))]);
    assert_eq!(admin.alter_reassignments(&target, true).await?[&led], Ok(()));
    eventually("the order has changed", async || {
        let seen = only_partition(&admin, "led").await?;
        so(seen.replicas == nodes(&[101, 100]) && seen.leader == Some(node(100)), seen)
    })
    .await?;
    assert_eq!(preferred().await?[&led], ElectionOutcome::Elected);
    eventually("it is led by its new first replica", async || {
        so(only_partition(&admin, "led").await?.leader == Some(node(101)), ())
    })
    .await?;

    let missing = partition("missing", 0);
    let outcome =
        admin.elect_leaders(Election::Unclean, Some(std::slice::from_ref(&missing))).await?;
    ensure!(matches!(outcome[&missing], ElectionOutcome::Refused(_)), "{outcome:?}");
    let all = admin.elect_leaders(Election::Preferred, None).await?;
    ensure!(all.values().all(|o| !matches!(o, ElectionOutcome::Refused(_))), "{all:?}");
    Ok(())
}
