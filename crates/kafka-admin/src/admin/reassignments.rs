//! Moving partitions between brokers.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest,
};
use model::{NodeId, TopicPartition};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{Effect, Route};
use crate::proto::Api;

/// A move in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// All brokers that have the partition or are to have it.
    pub replicas: Vec<NodeId>,
    /// Those of them that are new.
    pub adding: Vec<NodeId>,
    /// Those of them that will go.
    pub removing: Vec<NodeId>,
}

plain_error!(
    /// Why the moves in flight could not be listed.
    ListReassignmentsError,
    "list the moves in flight"
);

plain_error!(
    /// Why partitions were not moved, or may not have been.
    AlterReassignmentsError,
    "move partitions"
);

impl Admin {
    /// The moves in flight.
    pub async fn list_reassignments(
        &self,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>, ListReassignmentsError> {
        let api = ListPartitionReassignmentsRequest::ID;
        let request = ListPartitionReassignmentsRequest::default()
            .with_timeout_ms(self.client.server_timeout_ms())
            .with_topics(None);
        let code =
            |answer: &<ListPartitionReassignmentsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;
        let mut all = BTreeMap::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let key = wire::partition(api, &topic.name, partition.partition_index)?;
                let reassignment = Reassignment {
                    replicas: wire::node_ids(api, &partition.replicas)?,
                    adding: wire::node_ids(api, &partition.adding_replicas)?,
                    removing: wire::node_ids(api, &partition.removing_replicas)?,
                };
                all.insert(key, reassignment);
            }
        }
        Ok(all)
    }

    /// Begins to move partitions to the brokers given, preferred leader first; `None` cancels a move in
    /// flight. Kafka accepts brokers that are down and then waits for them, so look before.
    ///
    /// `keep_replica_count` makes Kafka refuse a list that is longer or shorter than what is there
    /// (servers before 4.1 do not know it and take any).
    pub async fn alter_reassignments(
        &self,
        targets: &BTreeMap<TopicPartition, Option<Vec<NodeId>>>,
        keep_replica_count: bool,
    ) -> Result<BTreeMap<TopicPartition, Result<(), Refusal>>, AlterReassignmentsError> {
        let api = AlterPartitionReassignmentsRequest::ID;
        let topics = wire::by_topic(targets).into_iter().map(|(name, partitions)| {
            let partition = |(id, replicas): (model::PartitionId, &Option<Vec<NodeId>>)| {
                ReassignablePartition::default()
                    .with_partition_index(id.0)
                    .with_replicas(replicas.as_deref().map(wire::nodes))
            };
            ReassignableTopic::default()
                .with_name(wire::topic(name))
                .with_partitions(partitions.into_iter().map(partition).collect())
        });
        let request = AlterPartitionReassignmentsRequest::default()
            .with_timeout_ms(self.client.server_timeout_ms())
            .with_allow_replication_factor_change(!keep_replica_count)
            .with_topics(topics.collect());
        let code =
            |answer: &<AlterPartitionReassignmentsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;
        let mut results = BTreeMap::new();
        for topic in answer.responses {
            for partition in topic.partitions {
                let key = wire::partition(api, &topic.name, partition.partition_index)?;
                let result = Refusal::check(partition.error_code, partition.error_message);
                results.insert(key, result);
            }
        }
        Ok(results)
    }

    /// Cancels moves in flight: the partitions stay on the brokers that had them. Kafka does not keep
    /// the order of those: brokers that the cancelled target listed come first, so the preferred
    /// leader may be another than before the move.
    pub async fn cancel_reassignments(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Result<(), Refusal>>, AlterReassignmentsError> {
        let targets = partitions.into_iter().map(|partition| (partition, None)).collect();
        self.alter_reassignments(&targets, false).await
    }
}
