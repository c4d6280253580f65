//! Names of topics and their partitions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::uuid;

/// The name of a topic: 1 to 249 characters of `[a-zA-Z0-9._-]`, not `.` and not `..`, as in Kafka.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicName(String);

/// A text that is not a valid topic name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a topic name (1 to 249 letters, digits, dots, dashes and underscores)")]
pub struct InvalidTopicName(String);

impl TopicName {
    /// A topic name; an invalid one is an error.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidTopicName> {
        let name = name.into();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let fits = (1..=249).contains(&name.len()) && name != "." && name != "..";
        if fits && name.chars().all(legal) { Ok(Self(name)) } else { Err(InvalidTopicName(name)) }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicName {
    type Err = InvalidTopicName;
    fn from_str(text: &str) -> Result<Self, InvalidTopicName> {
        Self::new(text)
    }
}

impl TryFrom<String> for TopicName {
    type Error = InvalidTopicName;
    fn try_from(text: String) -> Result<Self, InvalidTopicName> {
        Self::new(text)
    }
}

impl From<TopicName> for String {
    fn from(name: TopicName) -> Self {
        name.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

uuid! {
    /// The id of a topic. A topic that is deleted and recreated under the same name gets another one.
    TopicId, "a topic id"
}

/// The index of a partition in its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub i32);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition in it.
    pub partition: PartitionId,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    #[must_use]
    pub fn new(topic: TopicName, partition: i32) -> Self {
        Self { topic, partition: PartitionId(partition) }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topic_names_are_what_kafka_takes() {
        for name in ["a", "a.b_c-D9", "__consumer_offsets", &"x".repeat(249), "..."] {
            assert!(TopicName::new(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
            assert!(TopicName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn topic_ids_are_written_as_kafka_writes_them() {
        let text = "U3fHvCoMVWiCVYa2ri_K5w";
        let id: TopicId = text.parse().unwrap();
        assert_eq!((id.to_string().as_str(), id.to_bytes()[0]), (text, 0x53));
        for text in ["", "AAAAAAAAAAAAAAAAAAAAAA", "U3fH", "U3fHvCoMVWiCVYa2ri/K5w"] {
            let error = text.parse::<TopicId>().unwrap_err();
            assert_eq!(error.to_string(), format!("\"{text}\" is not a topic id"));
        }
    }

    #[test]
    fn a_partition_reads_as_kafka_names_its_directory() {
        let topic = TopicName::new("orders").unwrap();
        assert_eq!(TopicPartition::new(topic, 7).to_string(), "orders-7");
    }
}
