//! Reads topics from Kafka, many at once.
//!
//! Whatever fails here fails the whole read: a topic that was not shown must not look like one that does not exist.

use std::collections::{BTreeMap, BTreeSet};

use control::topics::batch::DESCRIBED_MAX;
use control::topics::config::Setting;
use control::topics::{Found, Problem, View, replicas};
use kafka_admin::{
    Admin, Code, ConfigEntry, ConfigSource, Partition, Reassignment, Refusal, Topic,
};
use model::{NodeId, TopicName, TopicPartition};

use super::error::TopicsError;
use crate::liveness;
use crate::metrics::{KafkaEffect, Metrics};

/// Reads topics. With each goes the number of replicas that its resource asks for, if it does.
pub(super) async fn read(
    admin: &Admin,
    metrics: &Metrics,
    wanted: &BTreeMap<TopicName, Option<usize>>,
) -> Result<BTreeMap<TopicName, View>, TopicsError> {
    // Without a name, Kafka would show all topics.
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names: Vec<_> = wanted.keys().cloned().collect();
    let (mut topics, mut views) = (Vec::new(), BTreeMap::new());
    let mut pages = admin.topic_pages(&names).without_moves();
    loop {
        metrics.kafka_call("describe topics", KafkaEffect::Read);
        let Some(page) = pages.next().await? else { break };
        liveness::progress();
        topics.extend(page.topics);
        let view = |(name, refusal): (TopicName, Refusal)| match refusal.code {
            Code::UNKNOWN_TOPIC_OR_PARTITION => (name, View::Absent),
            _ => (name, View::Refused(problem(&refusal))),
        };
        views.extend(page.refused.into_iter().map(view));
    }
    let mut settings = settings(admin, metrics, &topics).await?;
    let moves = moves(admin, metrics, &topics, wanted).await?;
    for topic in topics {
        let view = match settings.remove(&topic.name) {
            Some(Ok(config)) => View::Found(found(&topic, config, &moves)),
            // Each of them was asked for; this is for the compiler.
            None => continue,
            Some(Err(refusal)) => View::Refused(problem(&refusal)),
        };
        views.insert(topic.name, view);
    }
    Ok(views)
}

/// What Kafka's refusal means to the user of a topic.
pub(super) fn problem(refusal: &Refusal) -> Problem {
    let name = refusal.code.to_string();
    Problem::refused(refusal.code.0, &name, refusal.message.as_deref())
}

type Settings = BTreeMap<TopicName, Result<Vec<ConfigEntry>, Refusal>>;

async fn settings(
    admin: &Admin,
    metrics: &Metrics,
    topics: &[Topic],
) -> Result<Settings, TopicsError> {
    let mut all = Settings::new();
    for some in topics.chunks(DESCRIBED_MAX) {
        metrics.kafka_call("describe topic configs", KafkaEffect::Read);
        let names: BTreeSet<_> = some.iter().map(|topic| topic.name.clone()).collect();
        all.extend(admin.describe_topic_values(&names).await?);
        liveness::progress();
    }
    Ok(all)
}

type Moves = BTreeMap<TopicPartition, Reassignment>;

/// The moves in flight. Asked for only where a topic has not the number of replicas that it should have.
async fn moves(
    admin: &Admin,
    metrics: &Metrics,
    topics: &[Topic],
    wanted: &BTreeMap<TopicName, Option<usize>>,
) -> Result<Moves, TopicsError> {
    let differs = |topic: &Topic| {
        let wanted = wanted.get(&topic.name).copied().flatten();
        let other = |one: &Partition| Some(one.replicas.len()) != wanted;
        wanted.is_some() && topic.partitions.iter().any(other)
    };
    if !topics.iter().any(differs) {
        return Ok(Moves::new());
    }
    metrics.kafka_call("list reassignments", KafkaEffect::Read);
    Ok(admin.list_reassignments().await?)
}

fn found(topic: &Topic, config: Vec<ConfigEntry>, moves: &Moves) -> Found {
    let setting = |entry: ConfigEntry| {
        let is_override = entry.source == ConfigSource::Topic;
        (entry.name, Setting { value: entry.value, is_override })
    };
    let partition = |one: &Partition| {
        let moving = moves.get(&TopicPartition::new(topic.name.clone(), one.id.0));
        // The controller tells of a move before the brokers do.
        let replicas = moving.map_or(&one.replicas, |moving| &moving.replicas).iter().copied();
        let stays = |broker: &NodeId| moving.is_none_or(|moving| !moving.removing.contains(broker));
        replicas::Partition {
            number: one.id.0,
            replicas: replicas.filter(stays).collect(),
            in_sync: one.isr.iter().copied().collect(),
            leader: one.leader,
            is_moving: moving.is_some(),
        }
    };
    Found {
        id: topic.id,
        partitions: topic.partitions.iter().map(partition).collect(),
        config: config.into_iter().map(setting).collect(),
    }
}
