//! The offsets that groups have committed: reading them, many groups at once, and setting them.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{OffsetCommitRequest, OffsetFetchRequest};
use model::{NodeId, TopicPartition};

use super::groups::{OfGroups, loading, wire_id};
use super::{Admin, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Outcome, Route};
use crate::proto::Api;

/// The epoch of one who is no member: an administrator.
const NO_MEMBER: i32 = -1;

/// The offsets that a group has committed, by partition: the next record that it will read.
pub type CommittedOffsets = BTreeMap<TopicPartition, u64>;

/// Why committed offsets could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch the committed offsets")]
pub struct FetchOffsetsError(#[from] CallError);

/// Why offsets were not committed, or may not have been.
#[derive(Debug, thiserror::Error)]
#[error("cannot commit offsets of group {group}")]
pub struct CommitOffsetsError {
    group: String,
    source: CallError,
}

impl CommitOffsetsError {
    /// Whether it may have happened all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.source.outcome()
    }
}

impl Admin {
    /// What each group has committed. Partitions without a commit are left out, and so are those whose offset cannot be
    /// read now, because a transaction is pending.
    pub async fn fetch_offsets(
        &self,
        groups: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Result<CommittedOffsets, Refusal>>, FetchOffsetsError> {
        let ask = |node, ids| self.fetch_offsets_at(node, ids);
        Ok(self.at_coordinators(groups, Effect::Reads, ask).await?)
    }

    async fn fetch_offsets_at(
        &self,
        node: NodeId,
        ids: Vec<String>,
    ) -> Result<OfGroups<CommittedOffsets>, CallError> {
        let api = OffsetFetchRequest::ID;
        let group = |id: &String| {
            OffsetFetchRequestGroup::default()
                .with_group_id(wire_id(id))
                .with_member_id(None)
                .with_member_epoch(NO_MEMBER)
                // All that have a commit.
                .with_topics(None)
        };
        let request = OffsetFetchRequest::default().with_groups(ids.iter().map(group).collect());
        let code = |answer: &<OffsetFetchRequest as Api>::Answer| {
            loading(answer.groups.iter().map(|group| group.error_code))
        };
        let answer = self.client.call(Route::Node(node), Effect::Reads, &request, code).await?;
        let mut found = OfGroups::new();
        for group in answer.groups {
            let id = group.group_id.0.to_string();
            if let Err(refusal) = Refusal::check_code(group.error_code) {
                found.insert(id, Err(refusal));
                continue;
            }
            let mut offsets = CommittedOffsets::new();
            for topic in group.topics {
                for partition in topic.partitions {
                    let is_ok = Code(partition.error_code).is_ok();
                    let offset = wire::known(partition.committed_offset).filter(|_| is_ok);
                    let key = wire::partition(api, &topic.name, partition.partition_index)?;
                    offsets.extend(offset.map(|offset| (key, offset)));
                }
            }
            found.insert(id, Ok(offsets));
        }
        Ok(found)
    }

    /// Sets what a group has committed. Kafka refuses with `UNKNOWN_MEMBER_ID` while the group has members, and makes a
    /// group that does not exist.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &CommittedOffsets,
    ) -> Result<BTreeMap<TopicPartition, Result<(), Refusal>>, CommitOffsetsError> {
        let ask = |node, _| async move {
            let results = self.commit_offsets_at(node, group, offsets).await?;
            // All moved together if the coordinator did.
            let moved = results.values().find_map(|result| {
                result.as_ref().err().filter(|refusal| refusal.code == Code::NOT_COORDINATOR)
            });
            let answer = match moved {
                Some(refusal) => Err(refusal.clone()),
                None => Ok(results),
            };
            Ok(OfGroups::from([(group.to_owned(), answer)]))
        };
        let only = BTreeSet::from([group.to_owned()]);
        let failed = |source| CommitOffsetsError { group: group.to_owned(), source };
        let mut answers =
            self.at_coordinators(&only, Effect::Changes, ask).await.map_err(failed)?;
        match answers.remove(group) {
            Some(Ok(results)) => Ok(results),
            Some(Err(refusal)) => {
                Ok(offsets.keys().map(|key| (key.clone(), Err(refusal.clone()))).collect())
            }
            None => Ok(BTreeMap::new()),
        }
    }

    async fn commit_offsets_at(
        &self,
        node: NodeId,
        group: &str,
        offsets: &CommittedOffsets,
    ) -> Result<BTreeMap<TopicPartition, Result<(), Refusal>>, CallError> {
        let api = OffsetCommitRequest::ID;
        let topics = wire::by_topic(offsets).into_iter().map(|(name, partitions)| {
            let partition = |(number, offset): (model::PartitionId, &u64)| {
                OffsetCommitRequestPartition::default()
                    .with_partition_index(number.0)
                    .with_committed_offset(i64::try_from(*offset).unwrap_or(i64::MAX))
                    .with_committed_leader_epoch(-1)
                    .with_committed_metadata(Some(wire::text("")))
            };
            OffsetCommitRequestTopic::default()
                .with_name(wire::topic(name))
                .with_partitions(partitions.into_iter().map(partition).collect())
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(wire_id(group))
            .with_generation_id_or_member_epoch(NO_MEMBER)
            .with_topics(topics.collect());
        let route = Route::Node(node);
        let answer = self.client.call(route, Effect::Changes, &request, |_| Code::NONE).await?;
        let mut results = BTreeMap::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let key = wire::partition(api, &topic.name, partition.partition_index)?;
                results.insert(key, Refusal::check_code(partition.error_code));
            }
        }
        Ok(results)
    }
}
