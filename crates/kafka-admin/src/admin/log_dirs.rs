//! Disks of brokers: what is on them, and moving replicas between those of one broker.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, DescribeLogDirsRequest};
use model::{NodeId, TopicPartition};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{Effect, Route};
use crate::proto::Api;

/// One log directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    /// Its path on the broker.
    pub path: String,
    /// Why it cannot be used, if it cannot. What it holds is not known then.
    pub failure: Option<Refusal>,
    /// The size of its volume in bytes.
    pub total_bytes: Option<u64>,
    /// How much of it is free.
    pub usable_bytes: Option<u64>,
    /// The replicas on it.
    pub replicas: Vec<ReplicaLog>,
}

/// One replica on one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLog {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// How many records it is behind: the leader, or the log that it will replace.
    pub lag: u64,
    /// Whether it is on its way here from another disk of the broker.
    pub future: bool,
}

/// A replica and the directory that it should be in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaMove {
    /// The replica's partition.
    pub partition: TopicPartition,
    /// The path of the directory on the broker.
    pub path: String,
}

plain_error!(
    /// Why the disks of a broker could not be described.
    DescribeLogDirsError,
    "describe the log directories"
);

plain_error!(
    /// Why replicas were not moved between disks, or may not have been.
    MoveReplicasError,
    "move replicas between log directories"
);

impl Admin {
    /// The log directories of a broker, with all that is in them.
    pub async fn describe_log_dirs(
        &self,
        broker: NodeId,
    ) -> Result<Vec<LogDir>, DescribeLogDirsError> {
        let api = DescribeLogDirsRequest::ID;
        let request = DescribeLogDirsRequest::default().with_topics(None);
        let code = |answer: &<DescribeLogDirsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Node(broker), Effect::Reads, &request, code).await?;
        Refusal::check_code(answer.error_code)?;
        let mut dirs = Vec::with_capacity(answer.results.len());
        for dir in answer.results {
            let mut replicas = Vec::new();
            for topic in dir.topics {
                for replica in topic.partitions {
                    replicas.push(ReplicaLog {
                        partition: wire::partition(api, &topic.name, replica.partition_index)?,
                        size_bytes: wire::known(replica.partition_size).unwrap_or(0),
                        lag: wire::known(replica.offset_lag).unwrap_or(0),
                        future: replica.is_future_key,
                    });
                }
            }
            replicas.sort_by(|a, b| a.partition.cmp(&b.partition));
            dirs.push(LogDir {
                path: dir.log_dir.to_string(),
                failure: Refusal::check_code(dir.error_code).err(),
                total_bytes: wire::known(dir.total_bytes),
                usable_bytes: wire::known(dir.usable_bytes),
                replicas,
            });
        }
        dirs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(dirs)
    }

    /// Begins to move replicas between the disks of one broker. When a replica has arrived, the disks
    /// show it so; there is no other sign.
    pub async fn move_replicas(
        &self,
        broker: NodeId,
        moves: &[ReplicaMove],
    ) -> Result<BTreeMap<TopicPartition, Result<(), Refusal>>, MoveReplicasError> {
        let api = AlterReplicaLogDirsRequest::ID;
        let mut by_path: BTreeMap<&str, Vec<&TopicPartition>> = BTreeMap::new();
        for ReplicaMove { partition, path } in moves {
            by_path.entry(path).or_default().push(partition);
        }
        let dirs = by_path.into_iter().map(|(path, partitions)| {
            let topic = |(name, numbers)| {
                AlterReplicaLogDirTopic::default().with_name(name).with_partitions(numbers)
            };
            AlterReplicaLogDir::default()
                .with_path(wire::text(path))
                .with_topics(wire::numbers_by_topic(partitions).map(topic).collect())
        });
        let request = AlterReplicaLogDirsRequest::default().with_dirs(dirs.collect());
        let route = Route::Node(broker);
        let answer = self.client.call(route, Effect::Changes, &request, |_| Code::NONE).await?;
        let mut results = BTreeMap::new();
        for topic in answer.results {
            for partition in topic.partitions {
                let key = wire::partition(api, &topic.topic_name, partition.partition_index)?;
                results.insert(key, Refusal::check_code(partition.error_code));
            }
        }
        Ok(results)
    }
}
