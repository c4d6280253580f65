//! The nodes of the cluster, and forgetting those that are gone.

use kafka_protocol::messages::{DescribeClusterRequest, UnregisterBrokerRequest};
use model::{ClusterId, NodeId};

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{Bootstrap, CallError, Effect, Endpoint, Outcome, Route};
use crate::proto::Api;

/// What the nodes of a description are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Brokers, since brokers were asked.
    Brokers,
    /// Controllers, since controllers were asked.
    Controllers,
}

/// The cluster, as the nodes asked see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its id.
    pub id: ClusterId,
    /// What `nodes` lists.
    pub kind: NodeKind,
    /// The active controller; only controllers know it. (Brokers name one of themselves, which means
    /// nothing, so it is left out.)
    pub active_controller: Option<NodeId>,
    /// The registered nodes by id. Of brokers, those that are fenced too: stopped, starting, or gone
    /// and never unregistered. Of controllers, also those that are long gone, since Kafka has no way
    /// to forget one.
    pub nodes: Vec<ClusterNode>,
}

/// A registered node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its id.
    pub id: NodeId,
    /// Where it listens, on the listener that we asked through. A fenced broker may have none there.
    pub endpoint: Option<Endpoint>,
    /// Its rack.
    pub rack: Option<String>,
    /// Whether it is a broker that takes no part.
    pub fenced: bool,
}

plain_error!(
    /// Why the cluster could not be described.
    DescribeClusterError,
    "describe the cluster"
);

/// Why a broker was not unregistered, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum UnregisterBrokerError {
    /// No answer came.
    #[error("cannot unregister broker {broker}")]
    Call {
        /// The broker.
        broker: NodeId,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// It is not registered: never was, or not any more.
    #[error("broker {broker} is not registered")]
    NotRegistered {
        /// The broker.
        broker: NodeId,
    },
    /// Kafka said no for another reason.
    #[error("Kafka refused to unregister broker {broker}")]
    Refused {
        /// The broker.
        broker: NodeId,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
}

impl UnregisterBrokerError {
    /// Whether the broker may be unregistered by now.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            UnregisterBrokerError::Call { source, .. } => source.outcome(),
            UnregisterBrokerError::NotRegistered { .. } => Outcome::NotDone,
            UnregisterBrokerError::Refused { refusal, .. } => refusal.outcome(),
        }
    }
}

impl Admin {
    /// All registered nodes of the kind that was bootstrapped from.
    pub async fn describe_cluster(&self) -> Result<Cluster, DescribeClusterError> {
        let kind = match self.client.bootstrap() {
            Bootstrap::Brokers(_) => NodeKind::Brokers,
            Bootstrap::Controllers(_) => NodeKind::Controllers,
        };
        let request = DescribeClusterRequest::default()
            .with_endpoint_type(self.client.bootstrap().endpoint_type())
            .with_include_fenced_brokers(kind == NodeKind::Brokers);
        let code = |answer: &<DescribeClusterRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Any, Effect::Reads, &request, code).await?;
        Refusal::check(answer.error_code, answer.error_message)?;

        let api = DescribeClusterRequest::ID;
        let mut nodes = Vec::with_capacity(answer.brokers.len());
        for broker in answer.brokers {
            let port = u16::try_from(broker.port).ok().filter(|port| *port > 0);
            let endpoint = port.filter(|_| !broker.host.is_empty());
            nodes.push(ClusterNode {
                id: wire::node_id(api, broker.broker_id)?,
                endpoint: endpoint.map(|port| Endpoint::new(broker.host.to_string(), port)),
                rack: broker.rack.map(|rack| rack.to_string()),
                fenced: broker.is_fenced,
            });
        }
        nodes.sort_by_key(|node| node.id);
        let id = ClusterId::new(answer.cluster_id.to_string());
        let controller = NodeId::new(answer.controller_id.0);
        Ok(Cluster {
            id: id.map_err(|error| wire::nonsense(api, error))?,
            kind,
            active_controller: controller.filter(|_| kind == NodeKind::Controllers),
            nodes,
        })
    }

    /// Whether a node answers at this endpoint: a node of the kind that was bootstrapped from, asked
    /// itself and once, whatever others say of it.
    pub async fn reach(&self, endpoint: &Endpoint) -> Result<(), CallError> {
        self.client.reach(endpoint).await
    }

    /// Makes Kafka forget a broker.
    ///
    /// Kafka does this to a running broker as well, without a word, even if that holds the only
    /// replica of a partition. Whether the broker is gone is the caller's to know.
    pub async fn unregister_broker(&self, broker: NodeId) -> Result<(), UnregisterBrokerError> {
        let request = UnregisterBrokerRequest::default().with_broker_id(wire::node(broker));
        let code = |answer: &<UnregisterBrokerRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await;
        let answer = answer.map_err(|source| UnregisterBrokerError::Call { broker, source })?;
        Refusal::check(answer.error_code, answer.error_message).map_err(|refusal| {
            match refusal.code {
                Code::BROKER_ID_NOT_REGISTERED => UnregisterBrokerError::NotRegistered { broker },
                _ => UnregisterBrokerError::Refused { broker, refusal },
            }
        })
    }
}
