//! Topics from their creation to their end, and the offsets in them.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kafka_admin::{Code, CreatePartitionsError, Layout, NewTopic, OffsetAt, Refusal};
use testkit::Cluster;

use crate::common::{brokers, controllers, eventually, nodes, partition, produce, so, topic};

fn code(result: Option<&Result<(), Refusal>>) -> Option<Code> {
    Some(result?.as_ref().err()?.code)
}

pub(crate) async fn life_of_a_topic(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let plain = NewTopic::new(topic("plain"), 3, 3).with_config("retention.ms", "3600000");
    let assigned = NewTopic {
        layout: Layout::Assigned(vec![nodes(&[102, 100]), nodes(&[101, 102])]),
        ..NewTopic::new(topic("assigned"), 0, 0)
    };
    let too_much = NewTopic::new(topic("too-much"), 1, 9);

    let checked = admin.create_topics(std::slice::from_ref(&plain), true).await?;
    assert_eq!(checked[&plain.name], Ok(()));
    let results = admin.create_topics(&[plain.clone(), assigned, too_much], false).await?;
    assert_eq!(results[&plain.name], Ok(()));
    assert_eq!(results[&topic("assigned")], Ok(()));
    assert_eq!(code(results.get(&topic("too-much"))), Some(Code(38)), "INVALID_REPLICATION_FACTOR");
    let again = controllers(cluster).create_topics(&[plain], false).await?;
    assert_eq!(code(again.get(&topic("plain"))), Some(Code::TOPIC_ALREADY_EXISTS));

    eventually("both topics are listed by every broker", async || {
        let listed = admin.list_topics().await?;
        let names: Vec<_> = listed.iter().map(|t| (t.name.as_str(), t.partitions)).collect();
        so(names.contains(&("plain", 3)) && names.contains(&("assigned", 2)), format!("{names:?}"))
    })
    .await?;
    eventually("every broker tells what it knows itself", async || {
        for broker in nodes(&[100, 101, 102]) {
            let page = admin.at(broker).describe_topics(&[topic("assigned")]).await?;
            if page.topics.is_empty() {
                return so(false, format!("broker {broker}"));
            }
        }
        so(true, String::new())
    })
    .await?;
    let nobody = admin.at(crate::common::node(7)).describe_topics(&[]).await;
    ensure!(nobody.is_err(), "another one answered");
    let page = admin.describe_topics(&[topic("assigned"), topic("missing")]).await?;
    assert_eq!(page.refused[0].0, topic("missing"));
    assert_eq!(page.refused[0].1.code, Code::UNKNOWN_TOPIC_OR_PARTITION);
    let partitions = &page.topics[0].partitions;
    assert_eq!(partitions[0].replicas, nodes(&[102, 100]));
    assert_eq!(partitions[1].replicas, nodes(&[101, 102]));
    assert!(partitions.iter().all(|p| p.isr.len() == 2 && p.offline.is_empty()));
    assert_eq!(partitions[0].leader, Some(crate::common::node(102)));

    admin.create_partitions(&topic("assigned"), 3, Some(&[nodes(&[100, 101])])).await?;
    eventually("the third partition is there", async || {
        let page = admin.describe_topics(&[topic("assigned")]).await?;
        let third = page.topics.first().and_then(|t| t.partitions.get(2).cloned());
        so(third.as_ref().is_some_and(|p| p.replicas == nodes(&[100, 101])), third)
    })
    .await?;
    let fewer = admin.create_partitions(&topic("assigned"), 1, None).await;
    ensure!(matches!(fewer, Err(CreatePartitionsError::Refused { .. })), "{fewer:?}");

    let deleted = admin.delete_topics(&[topic("assigned"), topic("missing")]).await?;
    assert_eq!(deleted[&topic("assigned")], Ok(()));
    let missing = code(deleted.get(&topic("missing")));
    assert_eq!(missing, Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
    Ok(())
}

pub(crate) async fn offsets_from_the_leaders(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    produce(cluster, "plain", 1000, 100).await?;
    let mut partitions: BTreeSet<_> = (0..3).map(|number| partition("plain", number)).collect();
    let mut total = 0;
    for offset in admin.list_offsets(&partitions, OffsetAt::Latest).await?.values() {
        total += offset.clone()?.context("a partition always has an end")?;
    }
    assert_eq!(total, 1000);
    for offset in admin.list_offsets(&partitions, OffsetAt::Earliest).await?.values() {
        assert_eq!(offset, &Ok(Some(0)));
    }
    for offset in admin.list_offsets(&partitions, OffsetAt::Time(u64::MAX / 2)).await?.values() {
        assert_eq!(offset, &Ok(None));
    }
    partitions.insert(partition("plain", 77));
    partitions.insert(partition("missing", 0));
    let offsets = admin.list_offsets(&partitions, OffsetAt::Latest).await?;
    assert_eq!(offsets.values().filter(|offset| offset.is_ok()).count(), 3);
    for missing in [partition("plain", 77), partition("missing", 0)] {
        let refusal = offsets[&missing].clone().unwrap_err();
        assert_eq!(refusal.code, Code::UNKNOWN_TOPIC_OR_PARTITION);
    }
    Ok(())
}
