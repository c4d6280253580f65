//! Throttling replication, and taking it back.
//!
//! A throttle is four settings: a rate on each broker for what it sends and what it receives, and on
//! each topic the lists of replicas that these rates hold for. A throttle that is forgotten slows a
//! cluster down for ever, and values that a user had set are lost if they are only deleted.
//! So, in this order:
//! 1. what is there is read into a [`ThrottleRecord`];
//! 2. the caller stores the record;
//! 3. the throttle is set;
//! 4. the record is what brings the former values back, from the guard or, after a crash, from
//!    where it was stored. Bringing them back twice does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use model::{NodeId, PartitionId, TopicName};
use serde::{Deserialize, Serialize};

use super::configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
use super::{Admin, AlterConfigsError, DescribeConfigsError};
use crate::code::{Code, Refusal};
use crate::net::{Bootstrap, CallError};

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
const LEADER_REPLICAS: &str = "leader.replication.throttled.replicas";
const FOLLOWER_REPLICAS: &str = "follower.replication.throttled.replicas";

/// A list that has every replica in it.
const ALL_REPLICAS: &str = "*";

/// What to throttle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttle {
    /// Bytes a second that each broker may send, and may receive, for the replicas listed.
    pub rate_bytes: u64,
    /// The brokers.
    pub brokers: BTreeSet<NodeId>,
    /// The replicas that send, by topic: partition and broker.
    pub leaders: BTreeMap<TopicName, BTreeSet<(PartitionId, NodeId)>>,
    /// The replicas that receive, likewise.
    pub followers: BTreeMap<TopicName, BTreeSet<(PartitionId, NodeId)>>,
}

/// The values that were there before. Store it before the throttle is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleRecord {
    brokers: BTreeMap<NodeId, ThrottleValues>,
    topics: BTreeMap<TopicName, ThrottleValues>,
}

/// The two values of one broker (rates) or topic (lists of replicas); none where nothing is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleValues {
    /// For what is sent.
    pub leader: Option<String>,
    /// For what is received.
    pub follower: Option<String>,
}

/// Why a throttle was not set or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum ThrottleError {
    /// What was there could not be read: nothing was changed.
    #[error("cannot read the throttle that is there")]
    Observe(#[source] DescribeConfigsError),
    /// Likewise, for topics.
    #[error("cannot read the topics' throttle that is there")]
    ObserveTopics(#[source] CallError),
    /// Likewise, for one topic.
    #[error("cannot read the throttle of topic {topic}")]
    ObserveTopic {
        /// The topic.
        topic: TopicName,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
    /// The record could not be stored: nothing was changed.
    #[error("the record of the former values was not stored")]
    Record(#[source] Box<dyn Error + Send + Sync>),
    /// Setting it failed, perhaps half-way: take it back with the record.
    #[error("cannot set the throttle of {resource}")]
    Alter {
        /// Whose.
        resource: String,
        /// Why not.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Some former values are not back; the others are. Try again later.
    #[error("the former throttle is not back on {}", left.join(", "))]
    Restore {
        /// Whose, and why not.
        left: Vec<String>,
    },
}

/// A throttle that is set. It stays set until [`restore`](Self::restore).
#[derive(Debug)]
#[must_use = "a throttle stays until it is restored"]
pub struct ThrottleGuard {
    admin: Admin,
    brokers: BTreeSet<NodeId>,
    record: ThrottleRecord,
    restored: bool,
}

impl Admin {
    /// Sets a throttle. `store` is given the record of what was there and must have stored it when it
    /// returns; if it fails, nothing is changed.
    ///
    /// A throttle of ours that a crash left behind must be taken back first
    /// ([`ThrottleRecord::restore`]), or it would be recorded as a setting of the user.
    pub async fn throttle(
        &self,
        throttle: &Throttle,
        store: impl AsyncFnOnce(&ThrottleRecord) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<ThrottleGuard, ThrottleError> {
        let record = self.observe_throttle(throttle).await?;
        store(&record).await.map_err(ThrottleError::Record)?;
        let guard = ThrottleGuard {
            admin: self.clone(),
            brokers: throttle.brokers.clone(),
            record,
            restored: false,
        };
        // The lists first: a rate without them throttles nothing, so there is no moment at which
        // more is throttled than was asked for.
        self.set_lists(throttle, &guard.record).await?;
        guard.set_rate(throttle.rate_bytes).await?;
        Ok(guard)
    }

    async fn observe_throttle(&self, throttle: &Throttle) -> Result<ThrottleRecord, ThrottleError> {
        let mut record = ThrottleRecord::default();
        for broker in &throttle.brokers {
            let found = self.broker_throttle(*broker).await.map_err(ThrottleError::Observe)?;
            record.brokers.insert(*broker, found);
        }
        let topics: BTreeSet<TopicName> =
            throttle.leaders.keys().chain(throttle.followers.keys()).cloned().collect();
        let found = self.topic_throttles(&topics).await.map_err(ThrottleError::ObserveTopics)?;
        for (topic, found) in found {
            let found = found.map_err(|refusal| {
                let topic = topic.clone();
                ThrottleError::ObserveTopic { topic, refusal }
            })?;
            record.topics.insert(topic, found);
        }
        Ok(record)
    }

    /// The rates that are set on a broker itself, and not on all.
    pub async fn broker_throttle(
        &self,
        broker: NodeId,
    ) -> Result<ThrottleValues, DescribeConfigsError> {
        let resource = ConfigResource::Node(broker);
        let found = self.describe_configs(&resource, Some(&[LEADER_RATE, FOLLOWER_RATE])).await?;
        let own = |name: &str| found.get(name).and_then(|e| own(e, ConfigSource::DynamicNode));
        Ok(ThrottleValues { leader: own(LEADER_RATE), follower: own(FOLLOWER_RATE) })
    }

    /// The lists of replicas that are set on topics.
    pub async fn topic_throttles(
        &self,
        topics: &BTreeSet<TopicName>,
    ) -> Result<BTreeMap<TopicName, Result<ThrottleValues, Refusal>>, CallError> {
        let keys = [LEADER_REPLICAS, FOLLOWER_REPLICAS];
        let values = |entries: Vec<ConfigEntry>| {
            let own = |name: &str| {
                let entry = entries.iter().find(|entry| entry.name == name);
                entry.and_then(|entry| own(entry, ConfigSource::Topic))
            };
            ThrottleValues { leader: own(LEADER_REPLICAS), follower: own(FOLLOWER_REPLICAS) }
        };
        let found = self.describe_topic_configs(topics, Some(&keys)).await?;
        Ok(found.into_iter().map(|(topic, entries)| (topic, entries.map(values))).collect())
    }

    /// Makes the rates of a broker these. Record what was there before.
    ///
    /// A client that began with brokers asks the broker itself. One that began with controllers
    /// reaches also a broker that is down: it finds the rates when it comes back.
    pub async fn set_broker_throttle(
        &self,
        broker: NodeId,
        values: &ThrottleValues,
    ) -> Result<(), AlterConfigsError> {
        let changes = values.changes(LEADER_RATE, FOLLOWER_RATE);
        let resource = ConfigResource::Node(broker);
        match self.client.bootstrap() {
            Bootstrap::Brokers(_) => self.alter_configs(&resource, &changes, false).await,
            Bootstrap::Controllers(_) => self.alter_unchecked(&resource, &changes).await,
        }
    }

    /// Makes the lists of topics these. Record what was there before.
    pub async fn set_topic_throttles(
        &self,
        values: &BTreeMap<TopicName, ThrottleValues>,
    ) -> Result<BTreeMap<TopicName, Result<(), Refusal>>, CallError> {
        let changes = |(topic, values): (&TopicName, &ThrottleValues)| {
            (topic.clone(), values.changes(LEADER_REPLICAS, FOLLOWER_REPLICAS))
        };
        self.alter_topic_configs(&values.iter().map(changes).collect()).await
    }

    async fn set_lists(
        &self,
        throttle: &Throttle,
        record: &ThrottleRecord,
    ) -> Result<(), ThrottleError> {
        let mut changes: BTreeMap<TopicName, Vec<ConfigChange>> = BTreeMap::new();
        for (topic, before) in &record.topics {
            let sides = [
                (LEADER_REPLICAS, &throttle.leaders, &before.leader),
                (FOLLOWER_REPLICAS, &throttle.followers, &before.follower),
            ];
            for (name, lists, before) in sides {
                let Some(replicas) = lists.get(topic) else { continue };
                let value = joined(before.as_deref(), replicas);
                let change = ConfigChange::Set(name.to_owned(), value);
                changes.entry(topic.clone()).or_default().push(change);
            }
        }
        let topics = |source: CallError| ThrottleError::Alter {
            resource: "the topics".to_owned(),
            source: source.into(),
        };
        for (topic, result) in self.alter_topic_configs(&changes).await.map_err(topics)? {
            result.map_err(|refusal| ThrottleError::Alter {
                resource: format!("topic {topic}"),
                source: refusal.into(),
            })?;
        }
        Ok(())
    }
}

impl ThrottleGuard {
    /// The values that were there before.
    #[must_use]
    pub fn record(&self) -> &ThrottleRecord {
        &self.record
    }

    /// Changes the rate on all brokers of the throttle.
    pub async fn set_rate(&self, rate_bytes: u64) -> Result<(), ThrottleError> {
        let rate = rate_bytes.to_string();
        let changes = [LEADER_RATE, FOLLOWER_RATE]
            .map(|name| ConfigChange::Set(name.to_owned(), rate.clone()));
        for broker in &self.brokers {
            let resource = ConfigResource::Node(*broker);
            let altered = self.admin.alter_configs(&resource, &changes, false).await;
            altered.map_err(|source| ThrottleError::Alter {
                resource: resource.to_string(),
                source: source.into(),
            })?;
        }
        Ok(())
    }

    /// Takes the throttle back: every value is again what it was. What could not be done is said, and
    /// can be tried again with the record.
    pub async fn restore(mut self) -> Result<(), ThrottleError> {
        self.restored = true;
        self.record.restore(&self.admin).await
    }
}

impl Drop for ThrottleGuard {
    fn drop(&mut self) {
        if !self.restored {
            // Nothing can be awaited here; the record that was stored is what brings it back.
            tracing::warn!("a replication throttle is left in place; its record can take it back");
        }
    }
}

impl ThrottleRecord {
    /// Brings the former values back, on all brokers and topics that can be reached. A topic that is
    /// gone needs nothing.
    pub async fn restore(&self, admin: &Admin) -> Result<(), ThrottleError> {
        let mut left = Vec::new();
        for (broker, before) in &self.brokers {
            if let Err(error) = admin.set_broker_throttle(*broker, before).await {
                left.push(format!("broker {broker} ({})", reason(&error)));
            }
        }
        match admin.set_topic_throttles(&self.topics).await {
            Err(error) => left.push(format!("{} topics ({})", self.topics.len(), reason(&error))),
            Ok(results) => left.extend(results.into_iter().filter_map(|(topic, result)| {
                let refusal = result.err()?;
                let gone = refusal.code == Code::UNKNOWN_TOPIC_OR_PARTITION;
                (!gone).then(|| format!("topic {topic} ({refusal})"))
            })),
        }
        if left.is_empty() { Ok(()) } else { Err(ThrottleError::Restore { left }) }
    }
}

impl ThrottleValues {
    fn changes(&self, leader: &str, follower: &str) -> Vec<ConfigChange> {
        let change = |name: &str, value: &Option<String>| match value {
            Some(value) => ConfigChange::Set(name.to_owned(), value.clone()),
            None => ConfigChange::Delete(name.to_owned()),
        };
        vec![change(leader, &self.leader), change(follower, &self.follower)]
    }
}

/// The innermost cause, which is what a person needs to know.
fn reason(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The value that was set on the resource itself, not one that it inherits.
fn own(entry: &ConfigEntry, source: ConfigSource) -> Option<String> {
    if entry.source == source {
        return entry.value.clone();
    }
    let synonym = entry.synonyms.iter().find(|(from, _)| *from == source);
    synonym.and_then(|(_, value)| value.clone())
}

/// The list with more replicas in it.
fn joined(before: Option<&str>, replicas: &BTreeSet<(PartitionId, NodeId)>) -> String {
    let before = before.unwrap_or_default();
    if before == ALL_REPLICAS {
        return before.to_owned();
    }
    let mut all: BTreeSet<String> =
        before.split(',').map(str::trim).filter(|r| !r.is_empty()).map(str::to_owned).collect();
    all.extend(replicas.iter().map(|(partition, broker)| format!("{partition}:{broker}")));
    all.into_iter().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(of: &[(i32, i32)]) -> BTreeSet<(PartitionId, NodeId)> {
        of.iter().map(|(p, b)| (PartitionId(*p), NodeId::new(*b).unwrap())).collect()
    }

    #[test]
    fn replicas_join_those_that_are_throttled_already() {
        assert_eq!(joined(None, &replicas(&[(0, 1), (1, 2)])), "0:1,1:2");
        assert_eq!(joined(Some(""), &replicas(&[(0, 1)])), "0:1");
        assert_eq!(joined(Some("0:1, 3:4"), &replicas(&[(0, 1), (1, 2)])), "0:1,1:2,3:4");
        assert_eq!(joined(Some("*"), &replicas(&[(0, 1)])), "*");
    }

    #[test]
    fn an_inherited_value_is_not_the_resource_s_own() {
        let mut entry = ConfigEntry {
            name: LEADER_RATE.to_owned(),
            value: Some("5".to_owned()),
            source: ConfigSource::DynamicDefault,
            read_only: false,
            sensitive: false,
            synonyms: vec![(ConfigSource::DynamicDefault, Some("5".to_owned()))],
        };
        assert_eq!(own(&entry, ConfigSource::DynamicNode), None);
        entry.synonyms.insert(0, (ConfigSource::DynamicNode, Some("7".to_owned())));
        assert_eq!(own(&entry, ConfigSource::DynamicNode), Some("7".to_owned()));
    }

    #[test]
    fn what_was_not_set_is_deleted_again_and_what_was_is_set_again() {
        let before = ThrottleValues { leader: None, follower: Some("9".to_owned()) };
        assert_eq!(
            before.changes("l", "f"),
            [
                ConfigChange::Delete("l".to_owned()),
                ConfigChange::Set("f".to_owned(), "9".to_owned())
            ]
        );
    }

    #[test]
    fn a_record_survives_being_stored() {
        let mut record = ThrottleRecord::default();
        let before = ThrottleValues { leader: Some("*".to_owned()), follower: None };
        record.topics.insert(TopicName::new("a").unwrap(), before);
        record.brokers.insert(NodeId::new(3).unwrap(), ThrottleValues::default());
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<ThrottleRecord>(&text).unwrap(), record);
    }
}
