//! All partitions with what must be in sync of them.

use std::collections::{BTreeMap, BTreeSet};

use control::rolling::availability::PartitionFacts;
use model::{NodeId, TopicName, TopicPartition};

use super::pass::Work;
use crate::metrics::KafkaEffect;
use crate::words::chain;

const MIN_ISR: &str = "min.insync.replicas";

/// What was read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) facts: Vec<PartitionFacts>,
    /// Each partition with its preferred leader and its leader.
    pub(crate) leaders: Vec<(TopicPartition, Option<NodeId>, Option<NodeId>)>,
}

impl Seen {
    /// To how many partitions each broker is assigned; one that is missing has none.
    pub(crate) fn assigned(&self) -> BTreeMap<NodeId, usize> {
        let mut counts = BTreeMap::new();
        for partition in &self.facts {
            for node in &partition.replicas {
                *counts.entry(*node).or_default() += 1;
            }
        }
        counts
    }
}

/// Reads all partitions. `None` if any part could not be had: half a view is none.
pub(crate) async fn read(work: &Work) -> Option<Seen> {
    let admin = work.known.kafka.access.as_ref()?.brokers.as_ref()?;
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
    Some(Seen { facts, leaders })
}
