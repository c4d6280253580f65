//! A cluster with many topics, read page by page.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{brokers, eventually, so, topic};
use kafka_admin::{Admin, NewTopic};
use testkit::Cluster;

const TOPICS: usize = 2000;

/// Partitions of the one topic that is longer than a page.
const LONG: usize = 700;

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_topics_are_read_in_pages_each_once_and_whole() -> anyhow::Result<()> {
    // Two thousand logs with small indexes: the default would map ten megabytes for each.
    let cluster = Cluster::builder()
        .combined(1)
        .broker_config("log.index.size.max.bytes", "4096")
        .start()
        .await?;
    let admin = brokers(&cluster).with_call_timeout(Duration::from_secs(120));
    create(&admin).await?;
    eventually("all are there", async || {
        let listed = admin.list_topics().await?.len();
        so(listed == TOPICS + 1, listed)
    })
    .await?;

    let mut pages = admin.topic_pages(&[]).with_page_partitions(300);
    let (mut count, mut seen) = (0, BTreeMap::new());
    while let Some(page) = pages.next().await? {
        count += 1;
        assert!(page.refused.is_empty());
        for topic in page.topics {
            let numbers: Vec<_> = topic.partitions.iter().map(|p| p.id.0).collect();
            assert!(seen.insert(topic.name, numbers).is_none(), "no topic comes twice");
        }
    }
    // 2,700 partitions in pages of 300; the two pages that only begin the long topic are joined
    // with the one that ends it.
    assert_eq!(count, 7);
    assert_eq!(seen.len(), TOPICS + 1);
    let long: Vec<i32> = (0..i32::try_from(LONG)?).collect();
    assert_eq!(seen.remove(&topic("long")), Some(long));
    assert!(seen.values().all(|numbers| numbers == &[0]));

    let some = admin.describe_topics(&[topic("t-0007"), topic("t-1999")]).await?;
    assert_eq!(some.topics.len(), 2);
    Ok(())
}

async fn create(admin: &Admin) -> anyhow::Result<()> {
    let long = NewTopic::new(topic("long"), i32::try_from(LONG)?, 1);
    let short = (0..TOPICS).map(|number| NewTopic::new(topic(&format!("t-{number:04}")), 1, 1));
    let all: Vec<NewTopic> = std::iter::once(long).chain(short).collect();
    for some in all.chunks(500) {
        for (name, result) in admin.create_topics(some, false).await? {
            result.map_err(|refusal| anyhow::anyhow!("{name}: {refusal}"))?;
        }
    }
    Ok(())
}
