//! What Kafka itself says of a cluster. What could not be read is `None`, which is not "no".

use control::cluster::record::Record;
use kafka_admin::{Cluster, Features, Quorum};
use model::{ClusterId, NodeId};

use super::admins::Access;
use super::nodes::NodeClient;

/// What Kafka says in this pass.
#[derive(Clone, Default)]
pub(crate) struct KafkaFacts {
    /// The clients, if there are nodes and keys to talk to them with.
    pub(crate) access: Option<Access>,
    /// The quorum, as its leader sees it.
    pub(crate) quorum: Option<Quorum>,
    /// The registered brokers, those that are fenced too, and the broker that listed them.
    pub(crate) brokers: Option<(NodeId, Cluster)>,
    /// What the cluster has agreed on.
    pub(crate) features: Option<Features>,
    /// Asks the nodes themselves.
    pub(crate) nodes: Option<NodeClient>,
    /// When Kafka was asked, in milliseconds since 1970.
    pub(crate) asked_ms: Option<u64>,
}

impl KafkaFacts {
    /// The id with which changes of the quorum guard against another cluster.
    pub(crate) fn cluster_id(&self, record: &Record) -> Option<ClusterId> {
        ClusterId::new(record.cluster_id.as_deref()?).ok()
    }

    /// The finalized `kraft.version`; a feature that is not named is at 0, but only where the node that
    /// answered knows the agreement at all.
    pub(crate) fn kraft_version(&self) -> Option<i16> {
        let features = self.features.as_ref()?;
        features.finalized_epoch?;
        Some(features.finalized.get("kraft.version").copied().unwrap_or(0))
    }

    /// The finalized level of `metadata.version`.
    pub(crate) fn metadata_level(&self) -> Option<i16> {
        let features = self.features.as_ref()?;
        features.finalized_epoch?;
        features.finalized.get("metadata.version").copied()
    }
}
