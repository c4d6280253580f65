//! Where partitions begin and end.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest, MetadataRequest};
use model::{NodeId, TopicName, TopicPartition};

use super::{Admin, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Route};
use crate::proto::Api;

/// Which offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetAt {
    /// The first that is still there.
    Earliest,
    /// The one that the next record gets.
    Latest,
    /// That of the first record at or after this time, in ms since 1970.
    Time(u64),
}

impl OffsetAt {
    fn to_wire(self) -> i64 {
        match self {
            OffsetAt::Latest => -1,
            OffsetAt::Earliest => -2,
            OffsetAt::Time(ms) => i64::try_from(ms).unwrap_or(i64::MAX),
        }
    }
}

/// Why offsets could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list offsets")]
pub struct ListOffsetsError(#[from] CallError);

/// How often the leaders are looked up again when some have moved meanwhile.
const LOOK_UPS_MAX: usize = 3;

/// Offsets by partition; `None` where no record is that young.
pub type Offsets = BTreeMap<TopicPartition, Result<Option<u64>, Refusal>>;

impl Admin {
    /// The offsets of partitions, each asked of its leader. `None` where no record is that young.
    pub async fn list_offsets(
        &self,
        partitions: &BTreeSet<TopicPartition>,
        at: OffsetAt,
    ) -> Result<Offsets, ListOffsetsError> {
        let mut offsets = Offsets::new();
        let mut open = partitions.clone();
        for _ in 0..LOOK_UPS_MAX {
            if open.is_empty() {
                break;
            }
            let found = self.leaders(&open).await?;
            let mut by_leader: BTreeMap<NodeId, Vec<TopicPartition>> = BTreeMap::new();
            for (partition, leader) in found {
                match leader {
                    Ok(leader) => by_leader.entry(leader).or_default().push(partition),
                    Err(refusal) => drop(offsets.insert(partition, Err(refusal))),
                }
            }
            offsets.extend(self.list_offsets_of(&by_leader, at).await?);
            let moved = |result: &Result<_, Refusal>| matches!(result, Err(refusal) if refusal.code.passing());
            open.retain(|partition| offsets.get(partition).is_none_or(moved));
        }
        Ok(offsets)
    }

    /// The offsets of partitions whose leaders are known, each asked of its leader in one request and not looked up again.
    pub async fn list_offsets_of(
        &self,
        by_leader: &BTreeMap<NodeId, Vec<TopicPartition>>,
        at: OffsetAt,
    ) -> Result<Offsets, ListOffsetsError> {
        let mut offsets = Offsets::new();
        for (leader, partitions) in by_leader {
            offsets.extend(self.offsets_of_leader(*leader, partitions, at).await?);
        }
        Ok(offsets)
    }

    /// The leader of each partition.
    async fn leaders(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Result<NodeId, Refusal>>, CallError> {
        let api = MetadataRequest::ID;
        let names: BTreeSet<&TopicName> = partitions.iter().map(|p| &p.topic).collect();
        let topic =
            |name: &TopicName| MetadataRequestTopic::default().with_name(Some(wire::topic(name)));
        let request = MetadataRequest::default()
            .with_topics(Some(names.into_iter().map(topic).collect()))
            .with_allow_auto_topic_creation(false);
        let code = |answer: &<MetadataRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        let mut leaders = BTreeMap::new();
        for topic in answer.topics {
            let name = wire::topic_name(api, &topic.name.unwrap_or_default())?;
            if let Err(refusal) = Refusal::check_code(topic.error_code) {
                let of_topic = partitions.iter().filter(|partition| partition.topic == name);
                leaders.extend(of_topic.map(|p| (p.clone(), Err(refusal.clone()))));
            }
            for partition in topic.partitions {
                let key = TopicPartition::new(name.clone(), partition.partition_index);
                let refused = Refusal { code: Code::LEADER_NOT_AVAILABLE, message: None };
                let leader = NodeId::new(partition.leader_id.0).ok_or(refused);
                leaders.insert(key, leader);
            }
        }
        let leader = |partition: &TopicPartition| {
            let unknown = Refusal { code: Code::UNKNOWN_TOPIC_OR_PARTITION, message: None };
            (partition.clone(), leaders.get(partition).cloned().unwrap_or(Err(unknown)))
        };
        Ok(partitions.iter().map(leader).collect())
    }

    async fn offsets_of_leader(
        &self,
        leader: NodeId,
        partitions: &[TopicPartition],
        at: OffsetAt,
    ) -> Result<Offsets, CallError> {
        let api = ListOffsetsRequest::ID;
        let topics = wire::numbers_by_topic(partitions).map(|(name, numbers)| {
            let partition = |number| {
                ListOffsetsPartition::default()
                    .with_partition_index(number)
                    .with_current_leader_epoch(-1)
                    .with_timestamp(at.to_wire())
            };
            ListOffsetsTopic::default()
                .with_name(name)
                .with_partitions(numbers.into_iter().map(partition).collect())
        });
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(topics.collect())
            .with_timeout_ms(self.client.server_timeout_ms());
        let route = Route::Node(leader);
        let answer = self.client.call(route, Effect::Reads, &request, |_| Code::NONE).await?;
        let mut offsets = Offsets::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let key = wire::partition(api, &topic.name, partition.partition_index)?;
                let result = Refusal::check_code(partition.error_code);
                offsets.insert(key, result.map(|()| wire::known(partition.offset)));
            }
        }
        Ok(offsets)
    }
}
