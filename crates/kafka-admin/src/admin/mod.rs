//! The typed calls: one module per area, one method per call.
//!
//! A new call: a line in the table of `proto/api.rs`, then a method here in the module of its area
//! with types of our own, an error enum, and a step in `tests/real_admin.rs` that makes it on a real
//! cluster. What Kafka answers for each of several things is a map or list of results, so
//! that one refusal hides no success.

mod acls;
mod cluster;
mod configs;
mod features;
mod group_offsets;
mod groups;
mod leaders;
mod log_dirs;
mod offsets;
mod quorum;
mod quotas;
mod reassignments;
mod scram;
mod throttle;
mod topics;
mod wire;

use std::time::Duration;

pub use acls::{
    Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, CreateAclsError,
    DeleteAclsError, DescribeAclsError, KnownAcls,
};
pub use cluster::{Cluster, ClusterNode, DescribeClusterError, NodeKind, UnregisterBrokerError};
pub use configs::{
    AlterConfigsError, ConfigChange, ConfigEntry, ConfigResource, ConfigSource,
    DescribeConfigsError,
};
pub use features::{DescribeFeaturesError, Features, LevelChange, UpdateFeatureError};
pub use group_offsets::{CommitOffsetsError, CommittedOffsets, FetchOffsetsError};
pub use groups::{
    DeleteGroupsError, DescribeGroupsError, Group, GroupKind, GroupListing, GroupMember,
    ListGroupsError,
};
pub use leaders::{ElectLeadersError, Election, ElectionOutcome};
pub use log_dirs::{DescribeLogDirsError, LogDir, MoveReplicasError, ReplicaLog, ReplicaMove};
pub use offsets::{ListOffsetsError, OffsetAt, Offsets};
pub use quorum::{DescribeQuorumError, Quorum, QuorumReplica, VoterChangeError, VoterListener};
pub use quotas::{DescribeQuotasError, QuotaChanges};
pub use reassignments::{AlterReassignmentsError, ListReassignmentsError, Reassignment};
pub use scram::{
    AlterScramCredentialsError, AlterScramError, DescribeScramError, ScramChange, ScramUser,
};
pub use throttle::{Throttle, ThrottleError, ThrottleGuard, ThrottleRecord, ThrottleValues};
pub use topics::{
    CreatePartitionsError, CreateTopicsError, DeleteTopicsError, DescribeTopicsError, Layout,
    ListTopicsError, NewTopic, Partition, Topic, TopicListing, TopicPage, TopicPages,
};

use model::NodeId;

use crate::net::{Bootstrap, Client, ClientOptions};

/// An admin client of one cluster. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
}

/// No address to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list of bootstrap addresses is empty")]
pub struct NoBootstrap;

impl Admin {
    /// A client that finds the cluster through these addresses. Nothing is connected yet.
    pub fn new(bootstrap: Bootstrap, options: ClientOptions) -> Result<Self, NoBootstrap> {
        let empty = match &bootstrap {
            Bootstrap::Brokers(endpoints) | Bootstrap::Controllers(endpoints) => {
                endpoints.is_empty()
            }
        };
        if empty {
            return Err(NoBootstrap);
        }
        Ok(Self { client: Client::new(bootstrap, options) })
    }

    /// The same client, with another longest time for each call.
    #[must_use]
    pub fn with_call_timeout(&self, timeout: Duration) -> Self {
        Self { client: self.client.clone().with_call_timeout(timeout) }
    }

    /// The same client, which asks this node and no other for what every node can tell. A broker tells what it knows,
    /// and one that is cut off from the controllers does not know that it is.
    #[must_use]
    pub fn at(&self, node: NodeId) -> Self {
        Self { client: self.client.clone().with_only(node) }
    }
}

/// The error of a call whose refusals need no telling apart.
macro_rules! plain_error {
    ($(#[$doc:meta])* $name:ident, $doing:literal) => {
        $(#[$doc])*
        #[derive(Debug, thiserror::Error)]
        pub enum $name {
            /// No answer came.
            #[error("cannot {}", $doing)]
            Call(#[from] $crate::net::CallError),
            /// Kafka said no.
            #[error("Kafka refused to {}", $doing)]
            Refused(#[from] $crate::code::Refusal),
        }

        impl $name {
            /// Whether it may have happened all the same.
            #[must_use]
            pub fn outcome(&self) -> $crate::net::Outcome {
                match self {
                    $name::Call(error) => error.outcome(),
                    $name::Refused(refusal) => refusal.outcome(),
                }
            }
        }
    };
}
use plain_error;
