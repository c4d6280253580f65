//! All partitions with what must be in sync of them, read once in a pass, from brokers that keep up
//! with the controllers.

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::{Partitions, Snapshot};
use control::cluster::witness::PARTITION_WITNESSES;
use control::quorum::QuorumView;
use control::rolling::availability::PartitionFacts;
use model::{NodeId, TopicName, TopicPartition};

use super::pass::Work;
use super::steps::kafka::view;
use super::witnesses;
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::words::chain;

const MIN_ISR: &str = "min.insync.replicas";

/// Reads all partitions, and then the quorum again, which shows whether the brokers that answered
/// kept up. If any part could not be read, partitions are unknown.
pub(crate) async fn read(work: &Work, snapshot: &mut Snapshot) {
    let brokers = snapshot.witnesses();
    let admin = work.known.kafka.access.as_ref().and_then(|access| access.brokers.as_ref());
    let (Some(admin), false) = (admin, brokers.is_empty()) else {
        snapshot.kafka.partitions = Fact::Unknown(Why::Unreachable);
        return;
    };
    let at_ms = now_ms();
    let answers = witnesses::ask(&brokers, PARTITION_WITNESSES, |broker| ask(work, admin, broker));
    let answers = answers.await;
    let quorum = describe_quorum(work).await;
    snapshot.kafka.accept_answers(answers, at_ms, quorum);
}

/// The quorum as it is now.
async fn describe_quorum(work: &Work) -> Fact<QuorumView> {
    let Some(access) = &work.known.kafka.access else { return Fact::Unknown(Why::Unreachable) };
    let at_ms = now_ms();
    work.ctx.writer.metrics().kafka_call("describe quorum", KafkaEffect::Read);
    match access.controllers.describe_quorum().await {
        Ok(quorum) => Fact::read(view(work, &quorum), at_ms),
        Err(error) => {
            tracing::info!("the quorum is unknown: {}", chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// What one broker knows of all partitions.
async fn ask(work: &Work, admin: &kafka_admin::Admin, broker: NodeId) -> Option<Partitions> {
    let admin = admin.at(broker);
    work.ctx.writer.metrics().kafka_call("describe topics", KafkaEffect::Read);
    let page = match admin.describe_topics(&[]).await {
        Ok(page) => page,
        Err(error) => {
            tracing::info!("cannot read the partitions from broker {broker}: {}", chain(&error));
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
    Some(Partitions { facts, leaders, brokers: [broker].into() })
}
