//! One collection: what Kafka says of brokers, topics and groups.
//!
//! With B brokers it takes about 6 B requests: two for offsets at each leader; the list of groups at each broker; members
//! (two protocols) and commits at each coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime};

use api::names::Names;
use control::lag::{
    Broker, Family, Filter, Group, Partition, Picture, SERIES_MAX, TEXT_BYTES_MAX, Topic, bound,
    labels, render,
};
use futures::future::try_join_all;
use kafka_admin::{
    Admin, DescribeClusterError, DescribeGroupsError, FetchOffsetsError, GroupKind,
    ListGroupsError, ListOffsetsError, ListTopicsError, OffsetAt, Offsets,
};
use model::{NodeId, TopicName, TopicPartition};

use super::pictures::{Packed, Series};
use crate::context::Context;
use crate::liveness;
use crate::metrics::{KafkaEffect, Metrics};

/// Why metrics of a cluster could not be collected.
#[derive(Debug, thiserror::Error)]
pub(super) enum CollectError {
    /// No pass over the cluster has opened a connection yet, or it has no brokers.
    #[error("the cluster has no brokers yet")]
    NoBrokers,
    /// The brokers are unknown.
    #[error("cannot list the brokers")]
    Brokers(#[from] DescribeClusterError),
    /// The topics are unknown.
    #[error("cannot list the topics")]
    Topics(#[from] ListTopicsError),
    /// The offsets of partitions are unknown.
    #[error("cannot list the offsets of partitions")]
    Offsets(#[from] ListOffsetsError),
    /// The groups are unknown.
    #[error("cannot list the groups")]
    Groups(#[from] ListGroupsError),
    /// The members of groups are unknown.
    #[error("cannot describe the groups")]
    Members(#[from] DescribeGroupsError),
    /// The commits of groups are unknown.
    #[error("cannot read the commits of groups")]
    Commits(#[from] FetchOffsetsError),
    /// The series could not be compressed.
    #[error("cannot compress the series")]
    Pack(#[source] std::io::Error),
    /// The thread that made the series has ended.
    #[error("cannot render the series")]
    Render(#[from] tokio::task::JoinError),
}

/// Collects the metrics of a cluster and keeps them for scrapes.
pub(super) async fn run(ctx: &Context, names: &Names, filter: &Filter) -> Result<(), CollectError> {
    let begun = Instant::now();
    let access = ctx.admins.kept(names).and_then(|access| access.brokers);
    let admin = access.ok_or(CollectError::NoBrokers)?;
    let collector = Collector { admin: &admin, metrics: ctx.writer.metrics(), filter };
    let picture = collector.picture().await?;
    let (filter, of) = (filter.clone(), names.clone());
    // Seconds of computing for the largest clusters.
    let packed = tokio::task::spawn_blocking(move || pack(picture, &filter, &of)).await??;
    if packed.dropped > 0 {
        let (namespace, cluster, dropped) = (&names.namespace, &names.cluster, packed.dropped);
        tracing::warn!("{namespace}/{cluster} has {dropped} series of topics and groups too many");
    }
    ctx.pictures.keep(names, Packed { took: begun.elapsed(), ..packed });
    Ok(())
}

/// Renders and compresses the series of a cluster, a family at a time.
fn pack(mut picture: Picture, filter: &Filter, names: &Names) -> Result<Packed, CollectError> {
    let dropped = bound(&mut picture, SERIES_MAX, TEXT_BYTES_MAX);
    let common = labels(&names.namespace, &names.cluster);
    let pack = |family: &Family| {
        let series = Series::new(&render(*family, &picture, filter, &common));
        Ok((*family, series.map_err(CollectError::Pack)?))
    };
    let families = Family::ALL.iter().map(pack).collect::<Result<_, CollectError>>()?;
    let (at, took) = (SystemTime::now(), Default::default());
    Ok(Packed { families, labels: common, dropped, at, took })
}

struct Collector<'a> {
    admin: &'a Admin,
    metrics: &'a Metrics,
    filter: &'a Filter,
}

type Leaders = BTreeMap<NodeId, Vec<TopicPartition>>;

impl Collector<'_> {
    fn count(&self, call: &str) {
        liveness::progress();
        self.metrics.kafka_call(call, KafkaEffect::Read);
    }

    async fn picture(&self) -> Result<Picture, CollectError> {
        self.count("describe cluster");
        let nodes = self.admin.describe_cluster().await?.nodes;
        let brokers: Vec<Broker> = nodes
            .iter()
            .filter(|node| !node.fenced)
            .map(|node| Broker {
                id: node.id,
                address: node.endpoint.as_ref().map(ToString::to_string).unwrap_or_default(),
            })
            .collect();
        // Groups before the ends of partitions: a lag is then rather too large than negative.
        let groups = self.groups(&brokers).await?;
        let topics = self.topics(&brokers).await?;
        Ok(Picture { brokers, topics, groups })
    }

    async fn topics(&self, brokers: &[Broker]) -> Result<Vec<Topic>, CollectError> {
        self.count("list topics");
        // A topic that Kafka does not show has no series.
        let page = self.admin.all_topics().await?;
        let wanted = page.topics.into_iter();
        let wanted: Vec<_> =
            wanted.filter(|topic| self.filter.wants_topic(topic.name.as_str())).collect();
        let up: BTreeSet<NodeId> = brokers.iter().map(|broker| broker.id).collect();
        let mut leaders = Leaders::new();
        for topic in &wanted {
            for one in &topic.partitions {
                let leader = one.leader.filter(|leader| up.contains(leader));
                let key = TopicPartition::new(topic.name.clone(), one.id.0);
                leader.into_iter().for_each(|of| leaders.entry(of).or_default().push(key.clone()));
            }
        }
        let oldest = self.offsets(&leaders, OffsetAt::Earliest).await?;
        let latest = self.offsets(&leaders, OffsetAt::Latest).await?;
        let topic = |topic: kafka_admin::Topic| {
            let name = topic.name.clone();
            let partition = |one| partition(&name, one, &oldest, &latest);
            let partitions = topic.partitions.into_iter().map(partition).collect();
            Topic { name: topic.name, partitions }
        };
        Ok(wanted.into_iter().map(topic).collect())
    }

    /// The leaders are asked side by side. What one refuses is unknown.
    async fn offsets(&self, leaders: &Leaders, at: OffsetAt) -> Result<Offsets, CollectError> {
        let asked = leaders.iter().map(|(leader, partitions)| {
            self.count("list offsets");
            let one = BTreeMap::from([(*leader, partitions.clone())]);
            async move { self.admin.list_offsets_of(&one, at).await }
        });
        let all = try_join_all(asked).await?;
        Ok(all.into_iter().flatten().collect())
    }

    async fn groups(&self, brokers: &[Broker]) -> Result<Vec<Group>, CollectError> {
        let asked = brokers.iter().map(|broker| {
            self.count("list groups");
            self.admin.list_groups(broker.id)
        });
        let listed = try_join_all(asked).await?.into_iter().flatten();
        // The others have offsets of another kind, or none.
        let has_offsets =
            |kind| matches!(kind, GroupKind::Classic | GroupKind::Consumer | GroupKind::Streams);
        let wanted: BTreeSet<String> = listed
            .filter(|group| has_offsets(group.kind) && self.filter.wants_group(&group.id))
            .map(|group| group.id)
            .collect();
        // Without a group no coordinator is looked up, which would create Kafka's topic of groups.
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.count("describe groups");
        let mut described = self.admin.describe_groups(&wanted).await?;
        self.count("fetch offsets");
        let mut committed = self.admin.fetch_offsets(&wanted).await?;
        let group = |id: String| {
            let found = described.remove(&id).and_then(Result::ok);
            let assigned = |group: &kafka_admin::Group| {
                let all: Option<Vec<_>> =
                    group.members.iter().map(|member| member.assigned.clone()).collect();
                all.map(|all| all.into_iter().flatten().collect())
            };
            // One that went away meanwhile, or that refuses, has no series.
            let committed = committed.remove(&id).and_then(Result::ok)?;
            Some(Group {
                members: found.as_ref().map(|group| group.members.len()),
                assigned: found.as_ref().and_then(assigned),
                committed,
                id,
            })
        };
        Ok(wanted.into_iter().filter_map(group).collect())
    }
}

fn partition(
    topic: &TopicName,
    one: kafka_admin::Partition,
    oldest: &Offsets,
    latest: &Offsets,
) -> Partition {
    let key = TopicPartition::new(topic.clone(), one.id.0);
    let known = |all: &Offsets| all.get(&key).and_then(|found| found.clone().ok()).flatten();
    Partition {
        number: one.id.0,
        leader: one.leader,
        preferred: one.replicas.first().copied(),
        replicas: one.replicas.len(),
        in_sync: one.isr.len(),
        oldest: known(oldest),
        latest: known(latest),
    }
}
