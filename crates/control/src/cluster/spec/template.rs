//! The parts of pod templates that are passed on to Kubernetes, as they were written.
//!
//! Whether a part may be passed on is decided by `validate`. This module decides nothing and knows no
//! field of Kubernetes.

use std::collections::BTreeMap;
use std::fmt;

/// What a `Kafka` or a `KafkaNodePool` adds to pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodTemplate {
    /// Where it was written, such as `KafkaNodePool broker: spec.template`.
    pub place: String,
    /// The parts that are passed on, by their path below `place`, such as `pod.volumes`.
    pub parts: BTreeMap<String, Written>,
}

/// A value of any shape, as a user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number that is not whole or too large, in the user's digits.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Written>),
    /// A map.
    Map(BTreeMap<String, Written>),
}

impl Written {
    /// The entry of a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Written> {
        match self {
            Self::Map(fields) => fields.get(key),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::List(_) => None,
        }
    }

    /// The text of an entry of a map.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Self::Text(text) => Some(text),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Number(_)
            | Self::List(_)
            | Self::Map(_) => None,
        }
    }

    /// The items of a list; none of anything else.
    #[must_use]
    pub fn items(&self) -> &[Written] {
        match self {
            Self::List(items) => items,
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::Map(_) => &[],
        }
    }
}

impl fmt::Display for Written {
    /// Short enough for a message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => flag.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => f.write_str(number),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a map"),
        }
    }
}
