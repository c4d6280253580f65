//! All partitions with what must be in sync of them, read once in a pass.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::Partitions;
use control::rolling::availability::PartitionFacts;
use model::{TopicName, TopicPartition};

use super::pass::Work;
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::words::chain;

const MIN_ISR: &str = "min.insync.replicas";

/// All partitions, read when they are first asked for. If any part could not be read they are unknown.
pub(crate) async fn fact(work: &Work) -> &Fact<Partitions> {
    work.known.partitions.get_or_init(|| describe(work)).await
}

async fn describe(work: &Work) -> Fact<Partitions> {
    let at_ms = now_ms();
    let admin = work.known.kafka.access.as_ref().and_then(|access| access.brokers.as_ref());
    let Some(admin) = admin else { return Fact::Unknown(Why::NobodyToAsk) };
    match ask(work, admin).await {
        Some(partitions) => Fact::read(partitions, at_ms),
        None => Fact::Unknown(Why::NoAnswer),
    }
}

async fn ask(work: &Work, admin: &kafka_admin::Admin) -> Option<Partitions> {
    work.ctx.writer.metrics().kafka_call("describe topics", KafkaEffect::Read);
    let page = match admin.describe_topics(&[]).await {
        Ok(page) => page,
        Err(error) => {
            tracing::info!("the partitions are not known: {}", chain(&error));
            return None;
        }
    };
    if !page.refused.is_empty() {
        return None;
    }
    let names: BTreeSet<TopicName> = page.topics.iter().map(|topic| topic.name.clone()).collect();
    let configs = match admin.describe_topic_configs(&names, Some(&[MIN_ISR])).await {
        Ok(configs) => configs,
        Err(error) => {
            tracing::info!("the settings of topics are not known: {}", chain(&error));
            return None;
        }
    };
    let min_isr: BTreeMap<&TopicName, usize> = configs
        .iter()
        .filter_map(|(name, entries)| {
            let entry = entries.as_ref().ok()?.iter().find(|entry| entry.name == MIN_ISR)?;
            Some((name, entry.value.as_ref()?.parse().ok()?))
        })
        .collect();
    let (mut facts, mut leaders) = (Vec::new(), Vec::new());
    for topic in &page.topics {
        for partition in &topic.partitions {
            let name = TopicPartition { topic: topic.name.clone(), partition: partition.id };
            leaders.push((name.clone(), partition.replicas.first().copied(), partition.leader));
            facts.push(PartitionFacts {
                partition: name,
                replicas: partition.replicas.clone(),
                isr: partition.isr.clone(),
                adding: partition.adding.clone(),
                removing: partition.removing.clone(),
                min_isr: min_isr.get(&topic.name).copied(),
            });
        }
    }
    Some(Partitions { facts, leaders })
}
