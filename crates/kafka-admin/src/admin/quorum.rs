//! The quorum of controllers: who votes, who follows, and changing that.

use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::describe_quorum_response as answer;
use kafka_protocol::messages::{
    AddRaftVoterRequest, DescribeQuorumRequest, DescribeQuorumResponse, RemoveRaftVoterRequest,
    add_raft_voter_request,
};
use kafka_protocol::protocol::StrBytes;
use model::{ClusterId, DirectoryId, NodeId};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Outcome, Route};
use crate::proto::Api;

/// The log that the quorum replicates.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The quorum, as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// The leader. It need not be a voter: one that is being removed leads until it is out.
    pub leader: NodeId,
    /// How many leaders there were before.
    pub leader_epoch: i32,
    /// What a majority has; unknown for a moment after an election.
    pub high_watermark: Option<u64>,
    /// Those that vote, by id.
    pub voters: Vec<QuorumReplica>,
    /// Those that only follow, by id: every broker, and controllers that are no voters. One that is
    /// gone stays listed for some minutes; the time of its last fetch tells.
    pub observers: Vec<QuorumReplica>,
}

/// One replica of the metadata log. With a replaced disk, one id can be there twice: as the voter that
/// it was and the observer that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// The node.
    pub id: NodeId,
    /// The disk that its metadata is on. Not known for the voters of a static quorum.
    pub directory: Option<DirectoryId>,
    /// Where its log ends.
    pub log_end: Option<u64>,
    /// When it last fetched, in ms since 1970 by the leader's clock. Not known to a leader that has
    /// just been elected.
    pub last_fetch_ms: Option<u64>,
    /// When it last had everything, likewise.
    pub last_caught_up_ms: Option<u64>,
    /// Where it listens. Only voters' endpoints are known.
    pub endpoints: Vec<VoterListener>,
}

/// Where a controller listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoterListener {
    /// The listener's name, in capitals, as in the controllers' configuration.
    pub name: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Quorum {
    /// The leader's own replica. It is looked for among the voters first.
    #[must_use]
    pub fn leader_replica(&self) -> Option<&QuorumReplica> {
        self.voters.iter().chain(&self.observers).find(|replica| replica.id == self.leader)
    }

    /// How many records a replica is behind the leader, if both ends are known.
    #[must_use]
    pub fn lag(&self, replica: &QuorumReplica) -> Option<u64> {
        let leader_end = self.leader_replica()?.log_end?;
        Some(leader_end.saturating_sub(replica.log_end?))
    }
}

plain_error!(
    /// Why the quorum could not be described.
    DescribeQuorumError,
    "describe the quorum"
);

/// Why a voter was not added or removed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum VoterChangeError {
    /// No answer came.
    #[error("cannot change the voters")]
    Call(#[from] CallError),
    /// Kafka's code 7. It has many causes (another change pending, the new voter behind or under
    /// another directory id, no majority yet) and does not say whether the change was written: it may
    /// still be committed, or be lost with the leader.
    #[error("the change of voters may or may not happen: {}", message.as_deref().unwrap_or("no reason given"))]
    Unknown {
        /// What Kafka said, for people.
        message: Option<String>,
    },
    /// The id votes already, with this directory or with another.
    #[error("the node is a voter already, with this directory id or another")]
    Duplicate,
    /// No voter has this id and directory, or it is the last voter.
    #[error("no voter has this id and directory id, or it is the last voter")]
    NotFound,
    /// The node asked does not lead, or stopped to while the change was under way.
    #[error("the node asked does not lead the quorum, or stopped leading it meanwhile")]
    NotLeader,
    /// The quorum is static: its voters are in configuration files.
    #[error("the quorum is static (kraft.version 0): its voters cannot be changed")]
    StaticQuorum {
        /// What Kafka said, for people.
        message: Option<String>,
    },
    /// The request makes no sense to Kafka.
    #[error("the request is not valid: {}", message.as_deref().unwrap_or("no reason given"))]
    Invalid {
        /// What Kafka said, for people.
        message: Option<String>,
    },
    /// It is another cluster.
    #[error("the cluster has another id")]
    WrongCluster,
    /// Kafka said no for another reason.
    #[error("Kafka refused to change the voters")]
    Refused(#[source] Refusal),
}

impl VoterChangeError {
    fn from_refusal(refusal: Refusal) -> Self {
        let Refusal { code, message } = refusal;
        match code {
            Code::REQUEST_TIMED_OUT => VoterChangeError::Unknown { message },
            Code::DUPLICATE_VOTER => VoterChangeError::Duplicate,
            Code::VOTER_NOT_FOUND => VoterChangeError::NotFound,
            Code::NOT_LEADER_OR_FOLLOWER => VoterChangeError::NotLeader,
            Code::UNSUPPORTED_VERSION => VoterChangeError::StaticQuorum { message },
            Code::INVALID_REQUEST => VoterChangeError::Invalid { message },
            Code::INCONSISTENT_CLUSTER_ID => VoterChangeError::WrongCluster,
            code => VoterChangeError::Refused(Refusal { code, message }),
        }
    }

    /// Whether the change may have happened, or may yet happen. Whatever it says: describe the
    /// quorum again before the next step.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            VoterChangeError::Call(error) => error.outcome(),
            // A leader that loses its office in the middle of the change answers so too.
            VoterChangeError::Unknown { .. } | VoterChangeError::NotLeader => Outcome::Unknown,
            VoterChangeError::Duplicate
            | VoterChangeError::NotFound
            | VoterChangeError::StaticQuorum { .. }
            | VoterChangeError::Invalid { .. }
            | VoterChangeError::WrongCluster
            | VoterChangeError::Refused(_) => Outcome::NotDone,
        }
    }
}

impl Admin {
    /// Voters, observers and leader, as the leader sees them.
    pub async fn describe_quorum(&self) -> Result<Quorum, DescribeQuorumError> {
        let partition = PartitionData::default().with_partition_index(0);
        let topic = TopicData::default()
            .with_topic_name(kafka_protocol::messages::TopicName(StrBytes::from_static_str(
                METADATA_TOPIC,
            )))
            .with_partitions(vec![partition]);
        let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
        let code = |answer: &DescribeQuorumResponse| match metadata_partition(answer) {
            Some(partition) if answer.error_code == 0 => Code(partition.error_code),
            _ => Code(answer.error_code),
        };
        let answer = self.client.call(Route::Controller, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message.clone())?;
        let partition = metadata_partition(&answer)
            .ok_or_else(|| wire::nonsense(DescribeQuorumRequest::ID, "no metadata partition"))?;
        Refusal::check(partition.error_code, partition.error_message.clone())?;
        Ok(quorum(&answer, partition)?)
    }

    /// Makes a controller that follows already into a voter.
    ///
    /// `cluster` guards against talking to the wrong cluster. A wrong directory id is answered like a
    /// node that is behind, every time; so read it from the node, not from memory.
    pub async fn add_voter(
        &self,
        cluster: Option<&ClusterId>,
        id: NodeId,
        directory: DirectoryId,
        listeners: &[VoterListener],
    ) -> Result<(), VoterChangeError> {
        let listener = |listener: &VoterListener| {
            add_raft_voter_request::Listener::default()
                .with_name(wire::text(&listener.name))
                .with_host(wire::text(&listener.host))
                .with_port(listener.port)
        };
        let request = AddRaftVoterRequest::default()
            .with_cluster_id(cluster.map(|id| wire::text(id.as_str())))
            .with_timeout_ms(self.client.server_timeout_ms())
            .with_voter_id(id.get())
            .with_voter_directory_id(wire::uuid(directory))
            .with_listeners(listeners.iter().map(listener).collect());
        let code = |answer: &<AddRaftVoterRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        self.judge_voter_change(answer.error_code, answer.error_message)
    }

    /// Takes a voter out of the quorum; the node goes on as an observer if it runs.
    ///
    /// Kafka does not ask whether those that remain can work without it: that is the caller's to know.
    pub async fn remove_voter(
        &self,
        cluster: Option<&ClusterId>,
        id: NodeId,
        directory: DirectoryId,
    ) -> Result<(), VoterChangeError> {
        let request = RemoveRaftVoterRequest::default()
            .with_cluster_id(cluster.map(|id| wire::text(id.as_str())))
            .with_voter_id(id.get())
            .with_voter_directory_id(wire::uuid(directory));
        let code = |answer: &<RemoveRaftVoterRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await?;
        self.judge_voter_change(answer.error_code, answer.error_message)
    }

    fn judge_voter_change(
        &self,
        code: i16,
        message: Option<StrBytes>,
    ) -> Result<(), VoterChangeError> {
        let outcome = Refusal::check(code, message).map_err(VoterChangeError::from_refusal);
        if matches!(outcome, Err(VoterChangeError::NotLeader)) {
            // The next call must find the new leader, not ask the old one again.
            self.client.forget_controller();
        }
        outcome
    }
}

fn metadata_partition(answer: &DescribeQuorumResponse) -> Option<&answer::PartitionData> {
    answer.topics.first()?.partitions.first()
}

fn quorum(
    answer: &DescribeQuorumResponse,
    partition: &answer::PartitionData,
) -> Result<Quorum, CallError> {
    let replicas = |states: &[answer::ReplicaState]| {
        let mut replicas: Vec<QuorumReplica> =
            states.iter().map(|state| replica(answer, state)).collect::<Result<_, _>>()?;
        replicas.sort_by_key(|replica| (replica.id, replica.directory));
        Ok::<_, CallError>(replicas)
    };
    Ok(Quorum {
        leader: wire::node_id(DescribeQuorumRequest::ID, partition.leader_id)?,
        leader_epoch: partition.leader_epoch,
        high_watermark: wire::known(partition.high_watermark),
        voters: replicas(&partition.current_voters)?,
        observers: replicas(&partition.observers)?,
    })
}

fn replica(
    answer: &DescribeQuorumResponse,
    state: &answer::ReplicaState,
) -> Result<QuorumReplica, CallError> {
    let node = answer.nodes.iter().find(|node| node.node_id == state.replica_id);
    let listeners = node.map(|node| node.listeners.as_slice()).unwrap_or_default();
    let endpoint = |listener: &answer::Listener| VoterListener {
        name: listener.name.to_string(),
        host: listener.host.to_string(),
        port: listener.port,
    };
    Ok(QuorumReplica {
        id: wire::node_id(DescribeQuorumRequest::ID, state.replica_id)?,
        directory: DirectoryId::from_bytes(*state.replica_directory_id.as_bytes()),
        log_end: wire::known(state.log_end_offset),
        last_fetch_ms: wire::known(state.last_fetch_timestamp),
        last_caught_up_ms: wire::known(state.last_caught_up_timestamp),
        endpoints: listeners.iter().map(endpoint).collect(),
    })
}
