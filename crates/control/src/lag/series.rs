//! The series of a cluster, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::{TopicName, TopicPartition};

use super::{Filter, Group, Partition, Picture, Topic};

/// A metric of the exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Brokers.
    Brokers,
    /// A broker and where it listens.
    BrokerInfo,
    /// Partitions of a topic.
    Partitions,
    /// The offset that the next record of a partition gets.
    CurrentOffset,
    /// The first offset of a partition that is still there.
    OldestOffset,
    /// The broker that leads a partition.
    Leader,
    /// Whether the first replica of a partition leads it.
    LeaderIsPreferred,
    /// Replicas of a partition.
    Replicas,
    /// Replicas of a partition that are in sync.
    InSyncReplica,
    /// Whether replicas of a partition are out of sync.
    UnderReplicated,
    /// Members of a group.
    GroupMembers,
    /// What a group has committed, by partition.
    GroupOffset,
    /// The same, by topic.
    GroupOffsetSum,
    /// How far a group is behind, by partition.
    GroupLag,
    /// The same, by topic.
    GroupLagSum,
}

impl Family {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 15] = [
        Self::Brokers,
        Self::BrokerInfo,
        Self::Partitions,
        Self::CurrentOffset,
        Self::OldestOffset,
        Self::Leader,
        Self::LeaderIsPreferred,
        Self::Replicas,
        Self::InSyncReplica,
        Self::UnderReplicated,
        Self::GroupMembers,
        Self::GroupOffset,
        Self::GroupOffsetSum,
        Self::GroupLag,
        Self::GroupLagSum,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brokers => "kafka_brokers",
            Self::BrokerInfo => "kafka_broker_info",
            Self::Partitions => "kafka_topic_partitions",
            Self::CurrentOffset => "kafka_topic_partition_current_offset",
            Self::OldestOffset => "kafka_topic_partition_oldest_offset",
            Self::Leader => "kafka_topic_partition_leader",
            Self::LeaderIsPreferred => "kafka_topic_partition_leader_is_preferred",
            Self::Replicas => "kafka_topic_partition_replicas",
            Self::InSyncReplica => "kafka_topic_partition_in_sync_replica",
            Self::UnderReplicated => "kafka_topic_partition_under_replicated_partition",
            Self::GroupMembers => "kafka_consumergroup_members",
            Self::GroupOffset => "kafka_consumergroup_current_offset",
            Self::GroupOffsetSum => "kafka_consumergroup_current_offset_sum",
            Self::GroupLag => "kafka_consumergroup_lag",
            Self::GroupLagSum => "kafka_consumergroup_lag_sum",
        }
    }

    const fn help(self) -> &'static str {
        match self {
            Self::Brokers => "Number of brokers that are up",
            Self::BrokerInfo => "A broker and the address that it listens on",
            Self::Partitions => "Number of partitions of a topic",
            Self::CurrentOffset => "Offset that the next record of a partition gets",
            Self::OldestOffset => "First offset of a partition that is still available",
            Self::Leader => "Broker that leads a partition",
            Self::LeaderIsPreferred => "1 if the first replica of a partition is its leader",
            Self::Replicas => "Number of replicas of a partition",
            Self::InSyncReplica => "Number of in-sync replicas of a partition",
            Self::UnderReplicated => "1 if a partition has fewer in-sync replicas than replicas",
            Self::GroupMembers => "Number of members of a group",
            Self::GroupOffset => "Offset that a group has committed for a partition; -1 if none",
            Self::GroupOffsetSum => "Sum of the offsets that a group has committed for a topic",
            Self::GroupLag => "Records of a partition that a group has not read; -1 if unknown",
            Self::GroupLagSum => "Records of a topic that a group has not read",
        }
    }

    /// The lines before its series.
    #[must_use]
    pub fn header(self) -> String {
        let name = self.name();
        format!("# HELP {name} {}\n# TYPE {name} gauge\n", self.help())
    }
}

/// The labels that every series of a cluster has, as they are written: those that Strimzi's PodMonitor would take from the
/// exporter's pod.
#[must_use]
pub fn labels(namespace: &str, cluster: &str) -> String {
    let name = format!("{cluster}-kafka-exporter");
    let all = [
        ("namespace", namespace),
        ("strimzi_io_cluster", cluster),
        ("strimzi_io_kind", "Kafka"),
        ("strimzi_io_name", &name),
    ];
    all.map(|(name, value)| label(name, value)).join(",")
}

/// The series of a family, without its header. `common` are the labels that all of them have.
#[must_use]
pub fn render(family: Family, picture: &Picture, filter: &Filter, common: &str) -> String {
    let mut out = Lines { name: family.name(), common, text: String::new() };
    match family {
        Family::Brokers => out.line(&[], picture.brokers.len()),
        Family::BrokerInfo => {
            for broker in &picture.brokers {
                out.line(&[("id", &broker.id.to_string()), ("address", &broker.address)], 1);
            }
        }
        Family::Partitions => {
            for topic in &picture.topics {
                out.line(&[("topic", topic.name.as_str())], topic.partitions.len());
            }
        }
        Family::CurrentOffset
        | Family::OldestOffset
        | Family::Leader
        | Family::LeaderIsPreferred
        | Family::Replicas
        | Family::InSyncReplica
        | Family::UnderReplicated => {
            for topic in &picture.topics {
                for one in &topic.partitions {
                    let number = one.number.to_string();
                    let labels = [("topic", topic.name.as_str()), ("partition", &*number)];
                    of_partition(family, one).into_iter().for_each(|n| out.line(&labels, n));
                }
            }
        }
        Family::GroupMembers => {
            for group in &picture.groups {
                let labels = [("consumergroup", &*group.id)];
                group.members.into_iter().for_each(|count| out.line(&labels, count));
            }
        }
        Family::GroupOffset | Family::GroupOffsetSum | Family::GroupLag | Family::GroupLagSum => {
            let topics = picture.topics.iter().map(|topic| (&topic.name, topic)).collect();
            for group in &picture.groups {
                of_group(family, group, &topics, filter, &mut out);
            }
        }
    }
    out.text
}

fn of_partition(family: Family, one: &Partition) -> Option<i64> {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    match family {
        Family::CurrentOffset => one.latest.map(signed),
        Family::OldestOffset => one.oldest.map(signed),
        Family::Leader => one.leader.map(|leader| i64::from(leader.get())),
        Family::LeaderIsPreferred => {
            Some(i64::from(one.leader.is_some() && one.leader == one.preferred))
        }
        Family::Replicas => Some(count(one.replicas)),
        Family::InSyncReplica => Some(count(one.in_sync)),
        Family::UnderReplicated => Some(i64::from(one.in_sync < one.replicas)),
        Family::Brokers
        | Family::BrokerInfo
        | Family::Partitions
        | Family::GroupMembers
        | Family::GroupOffset
        | Family::GroupOffsetSum
        | Family::GroupLag
        | Family::GroupLagSum => None,
    }
}

/// A topic appears for a group if it has committed to one of the partitions that are shown; then all of these appear.
fn of_group(
    family: Family,
    group: &Group,
    topics: &BTreeMap<&TopicName, &Topic>,
    filter: &Filter,
    out: &mut Lines<'_>,
) {
    let mut names: Vec<&TopicName> = group.committed.keys().map(|key| &key.topic).collect();
    names.dedup();
    for name in names {
        let Some(topic) = topics.get(name) else { continue };
        let shown: Vec<Shown> = topic
            .partitions
            .iter()
            .filter_map(|partition| shown(group, name, partition, filter))
            .collect();
        if shown.iter().all(|one| one.committed.is_none()) {
            continue;
        }
        let of_topic = [("consumergroup", &*group.id), ("topic", name.as_str())];
        if family == Family::GroupOffsetSum {
            out.line(&of_topic, shown.iter().map(Shown::offset).sum::<i64>());
            continue;
        }
        if family == Family::GroupLagSum {
            let known = shown.iter().filter(|one| one.committed.is_some());
            out.line(&of_topic, known.filter_map(Shown::lag).sum::<i64>());
            continue;
        }
        for one in &shown {
            let value = if family == Family::GroupLag { one.lag() } else { Some(one.offset()) };
            let number = one.number.to_string();
            let [group, topic] = of_topic;
            let labels = [group, topic, ("partition", &*number)];
            value.into_iter().for_each(|value| out.line(&labels, value));
        }
    }
}

/// A partition of a topic that a group reads.
struct Shown {
    number: i32,
    committed: Option<u64>,
    latest: Option<u64>,
}

impl Shown {
    fn offset(&self) -> i64 {
        self.committed.map_or(-1, signed)
    }

    /// It may be negative: both offsets were read at different moments.
    fn lag(&self) -> Option<i64> {
        let latest = signed(self.latest?);
        Some(self.committed.map_or(-1, |committed| latest - signed(committed)))
    }
}

fn shown(group: &Group, topic: &TopicName, one: &Partition, filter: &Filter) -> Option<Shown> {
    let key = TopicPartition::new(topic.clone(), one.number);
    let is_assigned = || group.assigned.as_ref().is_some_and(|all| all.contains(&key));
    let shown = || Shown {
        number: one.number,
        committed: group.committed.get(&key).copied(),
        latest: one.latest,
    };
    (filter.shows_all_offsets || is_assigned()).then(shown)
}

fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// Series of one family.
struct Lines<'a> {
    name: &'static str,
    common: &'a str,
    text: String,
}

impl Lines<'_> {
    fn line(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.text.push_str(self.name);
        self.text.push('{');
        for (name, value) in labels {
            self.text.push_str(&label(name, value));
            self.text.push(',');
        }
        self.text.push_str(self.common);
        // Writing to a text does not fail.
        let _ = writeln!(self.text, "}} {value}");
    }
}

fn label(name: &str, value: &str) -> String {
    let mut text = format!("{name}=\"");
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}
