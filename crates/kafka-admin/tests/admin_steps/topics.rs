//! Topics from their creation to their end, and the offsets in them.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kafka_admin::{Code, CreatePartitionsError, Layout, NewTopic, OffsetAt, Refusal};
use testkit::Cluster;

use crate::common::{brokers, controllers, eventually, nodes, partition, produce, so, topic};

fn code<T>(result: Option<&Result<T, Refusal>>) -> Option<Code> {
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
    assert_eq!(checked[&plain.name], Ok(None), "there is no topic yet, so it has no id");
    let results = admin.create_topics(&[plain.clone(), assigned, too_much], false).await?;
    let ids = [topic("plain"), topic("assigned")].map(|name| results[&name].clone().unwrap());
    assert!(ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1], "{ids:?}");
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
    assert_eq!(Some(page.topics[0].id), ids[1]);
    let listed = admin.list_topics().await?;
    assert!(listed.iter().any(|t| t.name == topic("plain") && Some(t.id) == ids[0]), "{listed:?}");
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

    many_topics_in_one_request(cluster).await?;
    let deleted = admin.delete_topics(&[topic("assigned"), topic("missing")]).await?;
    assert_eq!(deleted[&topic("assigned")], Ok(()));
    let missing = code(deleted.get(&topic("missing")));
    assert_eq!(missing, Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
    Ok(())
}

/// Partitions, values and deletions of several topics, each with an answer of its own.
async fn many_topics_in_one_request(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let names = ["many-1", "many-2", "many-3"].map(topic);
    let new = names.clone().map(|name| NewTopic::new(name, 2, 1).with_config("retention.ms", "7"));
    let made = admin.create_topics(&new, false).await?;
    let first = made[&names[0]].clone()?.context("a new topic has an id")?;
    let wanted = [(names[0].clone(), 4), (names[1].clone(), 1), (topic("missing"), 3)];
    let grown = admin.create_partitions_of(&wanted.into()).await?;
    assert_eq!(grown[&names[0]], Ok(()));
    assert_eq!(code(grown.get(&names[1])), Some(Code(37)), "INVALID_PARTITIONS");
    assert_eq!(code(grown.get(&topic("missing"))), Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
    let asked: BTreeSet<_> = names.iter().cloned().collect();
    eventually("the values of all are there", async || {
        let found = admin.describe_topic_values(&asked).await?;
        let value = |entries: &Vec<kafka_admin::ConfigEntry>| {
            let entry = entries.iter().find(|entry| entry.name == "retention.ms");
            entry.and_then(|entry| entry.value.clone()).as_deref() == Some("7")
                && entries.iter().all(|entry| entry.synonyms.is_empty())
        };
        so(found.values().all(|one| one.as_ref().is_ok_and(value)), format!("{found:?}"))
    })
    .await?;
    let mut pages = admin.topic_pages(&names).without_moves();
    let page = pages.next().await?.context("the topics are there")?;
    assert_eq!(page.topics.len(), 3);

    // By id, so that a topic of the same name that was created since is kept.
    assert_eq!(admin.delete_topics_by_id(&[first]).await?[&first], Ok(()));
    let again = admin.create_topics(&new[..1], false).await?;
    ensure!(again[&names[0]].is_ok(), "{again:?}");
    let twice = admin.delete_topics_by_id(&[first]).await?;
    assert_eq!(code(twice.get(&first)), Some(Code::UNKNOWN_TOPIC_ID));
    let deleted = admin.delete_topics(&names).await?;
    assert!(deleted.values().all(Result::is_ok), "{deleted:?}");
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
