//! All partitions with what must be in sync of them, read once in a pass.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::Partitions;
use control::rolling::availability::PartitionFacts;
use model::{NodeId, TopicName, TopicPartition};

use super::pass::Work;
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::words::chain;

const MIN_ISR: &str = "min.insync.replicas";

/// How many brokers are asked until one answers. Each may take its whole time-out, and the pass is short.
const ASKED_MAX: usize = 2;

/// All partitions, read when they are first asked for, from one of these brokers. If any part could not be read they are
/// unknown.
pub(crate) async fn fact<'a>(work: &'a Work, witnesses: &[NodeId]) -> &'a Fact<Partitions> {
    work.known.partitions.get_or_init(|| describe(work, witnesses)).await
}

async fn describe(work: &Work, witnesses: &[NodeId]) -> Fact<Partitions> {
    let admin = work.known.kafka.access.as_ref().and_then(|access| access.brokers.as_ref());
    let (Some(admin), false) = (admin, witnesses.is_empty()) else {
        return Fact::Unknown(Why::NobodyToAsk);
    };
    for broker in witnesses.iter().take(ASKED_MAX) {
        let at_ms = now_ms();
        if let Some(partitions) = ask(work, &admin.at(*broker), *broker).await {
            return Fact::read(partitions, at_ms);
        }
    }
    Fact::Unknown(Why::NoAnswer)
}

/// What one broker knows of all partitions.
async fn ask(work: &Work, admin: &kafka_admin::Admin, broker: NodeId) -> Option<Partitions> {
    work.ctx.writer.metrics().kafka_call("describe topics", KafkaEffect::Read);
    let page = match admin.describe_topics(&[]).await {
        Ok(page) => page,
        Err(error) => {
            tracing::info!("broker {broker} does not tell the partitions: {}", chain(&error));
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
    Some(Partitions { facts, leaders, broker: Some(broker) })
}
