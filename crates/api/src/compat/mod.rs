//! What is honoured of each field of Strimzi 1.2.0, and what a user must be told.
//!
//! The table has a verdict on each of its 2,649 field paths. It is generated from a few rules by
//! path (`compat/rules.tsv`) and the list of paths, and kept in `compat/fields.tsv` so that a change
//! of a rule shows what it changes. Besides it there are single values of honoured fields that are
//! not (`values.tsv`), and fields of `v1beta2` that `v1` no longer has (`removed.tsv`).
//!
//! A path is written as in `spec.kafka.listeners[].name`: `[]` is any item of a list, `{}` any
//! value of a map.

mod table;
mod walk;

pub use table::{Field, fields};
pub use walk::unhonoured;

/// A custom resource that users write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Kafka`.
    Kafka,
    /// `KafkaNodePool`.
    KafkaNodePool,
    /// `KafkaRebalance`.
    KafkaRebalance,
    /// `KafkaTopic`.
    KafkaTopic,
    /// `KafkaUser`.
    KafkaUser,
    /// `StrimziPodSet`.
    StrimziPodSet,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Kafka,
        Kind::KafkaNodePool,
        Kind::KafkaRebalance,
        Kind::KafkaTopic,
        Kind::KafkaUser,
        Kind::StrimziPodSet,
    ];

    /// As it is written in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kafka => "Kafka",
            Kind::KafkaNodePool => "KafkaNodePool",
            Kind::KafkaRebalance => "KafkaRebalance",
            Kind::KafkaTopic => "KafkaTopic",
            Kind::KafkaUser => "KafkaUser",
            Kind::StrimziPodSet => "StrimziPodSet",
        }
    }

    /// The kind that is written so in a manifest.
    pub fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What happens to a field that a user wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is acted on.
    Honoured,
    /// It is kept and nothing is done about it; a Warning says so.
    Accepted,
    /// It is about a pod that Gregor does not need, so that there is nothing to do and nothing to say.
    Unneeded,
    /// The resource is not acted on as long as it is there: doing the rest without it would be
    /// something else than what was asked for, and harmful.
    Refused,
    /// An unknown field, most likely a typing error. Kept, with a Warning.
    Unknown,
}

impl Verdict {
    /// As it is written in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Honoured => "honoured",
            Verdict::Accepted => "accepted",
            Verdict::Unneeded => "unneeded",
            Verdict::Refused => "refused",
            Verdict::Unknown => "unknown",
        }
    }

    /// The verdict that is written so in the tables.
    pub fn of(name: &str) -> Option<Verdict> {
        [Verdict::Honoured, Verdict::Accepted, Verdict::Unneeded, Verdict::Refused]
            .into_iter()
            .find(|verdict| verdict.name() == name)
    }
}

/// A field of an object that is not honoured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where it is, with the numbers of list items: `spec.kafka.listeners[0].type`.
    pub path: String,
    /// What happens to it.
    pub verdict: Verdict,
    /// Why.
    pub reason: &'static str,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}: {}", self.path, self.verdict.name(), self.reason)
    }
}
