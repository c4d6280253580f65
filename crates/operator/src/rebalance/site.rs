//! What is known of the cluster that replicas are moved in.

use std::collections::{BTreeMap, BTreeSet};

use api::Kafka;
use api::names::Names;
use control::cluster::record::Record;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use model::NodeId;

use super::RebalanceError;
use crate::cluster::admins::Access;
use crate::cluster::record::Stored;
use crate::context::Context;

/// What is known of a cluster.
pub(crate) struct Site {
    pub(crate) names: Names,
    pub(crate) kafka: Kafka,
    /// Its brokers, those that leave too.
    pub(crate) brokers: BTreeSet<NodeId>,
    /// Its pods by the ids of their nodes.
    pub(crate) pods: BTreeMap<NodeId, String>,
    /// Brokers that are to get nothing, because they leave.
    pub(crate) closed: BTreeSet<NodeId>,
    /// Nodes that do not start, if nothing else kept the cluster from being ready when that was last decided.
    pub(crate) stuck_nodes: BTreeSet<NodeId>,
    /// Whether the cluster was ever ready.
    pub(crate) was_ready: bool,
    /// The ways in; `None` before the first pass over the cluster has opened them.
    pub(crate) access: Option<Access>,
}

impl Site {
    /// Reads it from the record of the cluster; `None` if there is none yet.
    pub(crate) async fn read(ctx: &Context, kafka: &Kafka) -> Result<Option<Self>, RebalanceError> {
        let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
        let api: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), &names.namespace);
        let map = api.get_opt(&names.record()).await;
        let map = map.map_err(|error| RebalanceError::Read(Box::new(error)))?;
        let Some((record, _)) = Stored::of(map.as_ref())? else { return Ok(None) };
        Ok(Some(Self::of(ctx, kafka, names, &record)?))
    }

    /// The same, of a record that is at hand.
    pub(crate) fn of(
        ctx: &Context,
        kafka: &Kafka,
        names: Names,
        record: &Record,
    ) -> Result<Self, RebalanceError> {
        let nodes = record.nodes();
        let brokers = nodes.iter().filter(|node| node.roles.is_broker());
        let closed = record.leaving.iter().filter(|(_, one)| one.is_closed());
        Ok(Self {
            kafka: kafka.clone(),
            brokers: brokers.clone().map(|node| node.id).collect(),
            pods: brokers.map(|node| (node.id, names.pod(&node.pool, node.id))).collect(),
            closed: closed.map(|(id, _)| *id).collect(),
            stuck_nodes: record.stuck_nodes.clone(),
            was_ready: record.was_ready,
            access: ctx.admins.kept(&names),
            names,
        })
    }
}
