//! Reads what a cluster carries. What it means is for [`control::rebalance::load`].
//!
//! 1. All partitions are seen, or there is no sample: no plan rests on a partial view.
//! 2. What else could not be read is missing in the sample, and said to be unknown.
//! 3. Rates need two samples. One is kept in the memory of the process; a restart begins anew.

mod capacity;
mod page;
mod samples;

use std::collections::{BTreeMap, BTreeSet};

use api::names::Names;
use control::rebalance::load::{
    BrokerSeen, Counters, DirSeen, LoadOptions, Loaded, PartitionSeen, Sample, load,
};
use futures::future::join_all;
use kafka_admin::{
    Admin, Cluster, DescribeClusterError, DescribeTopicsError, LogDir, OffsetAt, Refusal, Topic,
};
use model::{NodeId, TopicName, TopicPartition};
use placement::InvalidView;

use crate::cluster::admins::Keys;
use crate::cluster::nodes::NodeClient;
use crate::time::now_ms;
use crate::words::chain;
pub use capacity::capacities;
pub use samples::Samples;

/// Why it is not known what a cluster carries.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The brokers could not be read.
    #[error("the brokers are not known")]
    Brokers(#[source] DescribeClusterError),
    /// The partitions could not be read.
    #[error("the partitions are not known")]
    Topics(#[source] DescribeTopicsError),
    /// Some of them could not.
    #[error("topic {topic} is not known")]
    Topic {
        /// Which.
        topic: TopicName,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
    /// What was read makes no cluster.
    #[error("the state of the cluster is inconsistent; cannot compute a plan")]
    View(#[source] InvalidView),
}

/// Asks the nodes of a cluster what they count.
pub struct Nodes {
    client: NodeClient,
    hosts: BTreeMap<NodeId, String>,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// With what nodes are asked, in PEM.
#[derive(Debug, Clone, Copy)]
pub struct NodeKeys<'a> {
    /// Whom to trust.
    pub authorities: &'a [u8],
    /// The operator's own certificate.
    pub certificate: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
}

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the metrics of the nodes")]
pub struct UnusableKeys(#[source] Box<dyn std::error::Error + Send + Sync>);

impl Nodes {
    /// The nodes at these hosts, asked with these keys.
    pub fn with_keys(
        keys: &NodeKeys<'_>,
        hosts: BTreeMap<NodeId, String>,
    ) -> Result<Self, UnusableKeys> {
        let NodeKeys { authorities, certificate, key } = *keys;
        let client = NodeClient::new(&Keys { authorities, certificate, key });
        Ok(Self::new(client.map_err(|error| UnusableKeys(Box::new(error)))?, hosts))
    }

    /// The nodes at these hosts, asked by a client that is there already.
    pub(crate) fn new(client: NodeClient, hosts: BTreeMap<NodeId, String>) -> Self {
        Self { client, hosts }
    }

    async fn counters(&self, node: NodeId) -> Option<Counters> {
        let host = self.hosts.get(&node)?;
        match self.client.metrics(host, page::matters).await {
            Ok(page) => page::read(&page, now_ms()),
            Err(error) => {
                tracing::info!("the metrics of node {node} are unknown: {}", chain(&error));
                None
            }
        }
    }
}

/// Whom to ask.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The brokers.
    pub admin: &'a Admin,
    /// Their nodes; without them what goes out and processor time are not known.
    pub nodes: Option<&'a Nodes>,
}

/// Reads what a cluster carries now, and compares it with what was read of it before. Rates are known from
/// the second time on that it is asked for, if some seconds went by.
pub async fn collect(
    source: &Source<'_>,
    samples: &Samples,
    of: &Names,
    options: &LoadOptions<'_>,
) -> Result<Loaded, LoadError> {
    let sample = sample(source).await?;
    let earlier = samples.turn(of, sample.mark());
    load(&sample, earlier.as_ref(), options).map_err(LoadError::View)
}

/// Reads what a cluster carries now.
pub async fn sample(source: &Source<'_>) -> Result<Sample, LoadError> {
    let cluster = source.admin.describe_cluster().await.map_err(LoadError::Brokers)?;
    let page = source.admin.describe_topics(&[]).await.map_err(LoadError::Topics)?;
    if let Some((topic, refusal)) = page.refused.into_iter().next() {
        return Err(LoadError::Topic { topic, refusal });
    }
    let brokers = join_all(cluster.nodes.iter().map(|node| broker(source, &cluster, node.id)));
    let brokers: Vec<(NodeId, BrokerSeen)> = brokers.await;
    let names = |topic: &Topic| {
        let name = topic.name.clone();
        let named = move |id| TopicPartition { topic: name.clone(), partition: id };
        topic.partitions.iter().map(|partition| named(partition.id)).collect::<Vec<_>>()
    };
    let all: BTreeSet<TopicPartition> = page.topics.iter().flat_map(names).collect();
    let first = offsets(source.admin, &all, OffsetAt::Earliest).await;
    let at_ms = now_ms();
    let end = offsets(source.admin, &all, OffsetAt::Latest).await;
    let topics = page.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().filter_map(|partition| {
            let name = TopicPartition { topic: topic.name.clone(), partition: partition.id };
            let stays = |broker: &&NodeId| !partition.removing.contains(broker);
            Some(PartitionSeen {
                id: u32::try_from(partition.id.0).ok()?,
                replicas: partition.replicas.iter().filter(stays).copied().collect(),
                leader: partition.leader,
                offsets: first.get(&name).copied().zip(end.get(&name).copied()),
            })
        });
        (topic.name.clone(), partitions.collect())
    });
    Ok(Sample { at_ms, brokers: brokers.into_iter().collect(), topics: topics.collect() })
}

async fn broker(source: &Source<'_>, cluster: &Cluster, id: NodeId) -> (NodeId, BrokerSeen) {
    let node = cluster.nodes.iter().find(|node| node.id == id);
    let mut seen = BrokerSeen {
        rack: node.and_then(|node| node.rack.clone()),
        fenced: node.is_none_or(|node| node.fenced),
        ..BrokerSeen::default()
    };
    // One that is down would only be waited for.
    if !seen.fenced {
        let counters = async {
            match source.nodes {
                Some(nodes) => nodes.counters(id).await,
                None => None,
            }
        };
        (seen.dirs, seen.counters) = tokio::join!(log_dirs(source.admin, id), counters);
    }
    (id, seen)
}

/// The directories of a broker. One that has failed hides what is in it, so that its broker is not known.
async fn log_dirs(admin: &Admin, broker: NodeId) -> Option<Vec<DirSeen>> {
    let dirs = match admin.describe_log_dirs(broker).await {
        Ok(dirs) => dirs,
        Err(error) => {
            tracing::info!("the disks of broker {broker} are not known: {}", chain(&error));
            return None;
        }
    };
    let seen = |dir: LogDir| {
        if let Some(refusal) = dir.failure {
            tracing::info!("disk {} of broker {broker} has failed: {refusal}", dir.path);
            return None;
        }
        let here = dir.replicas.into_iter().filter(|replica| !replica.future);
        Some(DirSeen {
            path: dir.path,
            total_bytes: dir.total_bytes,
            replicas: here.map(|replica| (replica.partition, replica.size_bytes)).collect(),
        })
    };
    dirs.into_iter().map(seen).collect()
}

/// Offsets, as far as they are known.
async fn offsets(
    admin: &Admin,
    partitions: &BTreeSet<TopicPartition>,
    at: OffsetAt,
) -> BTreeMap<TopicPartition, u64> {
    match admin.list_offsets(partitions, at).await {
        Ok(all) => all.into_iter().filter_map(|(name, found)| Some((name, found.ok()??))).collect(),
        Err(error) => {
            tracing::info!("offsets are not known: {}", chain(&error));
            BTreeMap::new()
        }
    }
}
