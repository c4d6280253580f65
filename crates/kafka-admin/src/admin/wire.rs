//! Between the types of the wire and ours.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;
use kafka_protocol::protocol::StrBytes;
use model::{DirectoryId, NodeId, PartitionId, TopicId, TopicName, TopicPartition};
use uuid::Uuid;

use crate::net::CallError;
use crate::proto::{ApiId, Malformed};

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic(name: &TopicName) -> m::TopicName {
    m::TopicName(text(name.as_str()))
}

/// A topic's name out of an answer. One that is none would leave a hole in what we see, so it is an
/// error.
pub(super) fn topic_name(api: ApiId, name: &m::TopicName) -> Result<TopicName, CallError> {
    TopicName::new(name.0.to_string()).map_err(|error| nonsense(api, error))
}

/// A topic's id out of an answer. Every topic of KRaft has one.
pub(super) fn topic_id(api: ApiId, id: Uuid) -> Result<TopicId, CallError> {
    TopicId::from_bytes(id.into_bytes()).ok_or_else(|| nonsense(api, "a topic without an id"))
}

pub(super) fn id(id: TopicId) -> Uuid {
    Uuid::from_bytes(id.to_bytes())
}

pub(super) fn partition(
    api: ApiId,
    topic: &m::TopicName,
    partition: i32,
) -> Result<TopicPartition, CallError> {
    Ok(TopicPartition::new(topic_name(api, topic)?, partition))
}

pub(super) fn nonsense(api: ApiId, reason: impl std::fmt::Display) -> CallError {
    CallError::Answer { api, source: Malformed::new(api.name, reason) }
}

pub(super) fn node(id: NodeId) -> m::BrokerId {
    m::BrokerId(id.get())
}

pub(super) fn nodes(ids: &[NodeId]) -> Vec<m::BrokerId> {
    ids.iter().copied().map(node).collect()
}

/// Ids out of an answer.
pub(super) fn node_ids(api: ApiId, ids: &[m::BrokerId]) -> Result<Vec<NodeId>, CallError> {
    ids.iter().map(|id| node_id(api, *id)).collect()
}

pub(super) fn node_id(api: ApiId, id: m::BrokerId) -> Result<NodeId, CallError> {
    NodeId::new(id.0).ok_or_else(|| nonsense(api, format!("node id {}", id.0)))
}

pub(super) fn uuid(id: DirectoryId) -> Uuid {
    Uuid::from_bytes(id.to_bytes())
}

/// Kafka writes "not known" as -1.
pub(super) fn known(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

/// Partitions by topic, as most requests want them.
pub(super) fn by_topic<'a, T>(
    items: impl IntoIterator<Item = (&'a TopicPartition, T)>,
) -> BTreeMap<&'a TopicName, Vec<(PartitionId, T)>> {
    let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (partition, item) in items {
        topics.entry(&partition.topic).or_default().push((partition.partition, item));
    }
    topics
}

/// The numbers of partitions, by topic.
pub(super) fn numbers_by_topic<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> impl Iterator<Item = (m::TopicName, Vec<i32>)> {
    let topics = by_topic(partitions.into_iter().map(|partition| (partition, ())));
    topics.into_iter().map(|(name, partitions)| {
        (topic(name), partitions.into_iter().map(|(partition, ())| partition.0).collect())
    })
}
