//! A `KafkaTopic`, as decisions see it.

use std::collections::BTreeMap;

use super::report::ReplicasChange;

/// The finalizer that keeps a `KafkaTopic` until its topic is deleted. It is the one of Strimzi, so that resources can
/// go from one operator to the other without being rewritten.
pub const FINALIZER: &str = "strimzi.io/topic-operator";

/// A `KafkaTopic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was created, in seconds since 1970.
    pub created_s: i64,
    /// Its generation.
    pub generation: i64,
    /// The cluster that its label names.
    pub cluster: Option<String>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether it has [`FINALIZER`].
    pub has_finalizer: bool,
    /// Whether it is managed: not if its annotation says `false`.
    pub is_managed: bool,
    /// Whether its user paused it.
    pub is_paused: bool,
    /// What its annotation says about overrides that the spec does not have.
    pub config_mode: Option<ConfigMode>,
    /// Its spec; `None` if it has none, which only resources of old versions can have.
    pub spec: Option<Spec>,
    /// What its status says.
    pub status: Status,
}

/// What happens to overrides of a topic that the spec does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigMode {
    /// They stay. The operator notes it on a resource without `spec.config` whose topic existed before.
    Keep,
    /// They are deleted.
    Replace,
}

impl ConfigMode {
    /// As it is written in the annotation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Replace => "replace",
        }
    }

    /// What an annotation says; a value that is not understood says nothing.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        [Self::Keep, Self::Replace].into_iter().find(|mode| mode.name() == text)
    }
}

/// The desired topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// The name in Kafka, if it is not that of the resource.
    pub topic_name: Option<String>,
    /// How many partitions.
    pub partitions: Option<i32>,
    /// How many replicas of each.
    pub replicas: Option<i16>,
    /// The configuration; `None` if the spec says nothing about it.
    pub config: Option<BTreeMap<String, Value>>,
}

/// A value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text, a number, a boolean, or a list of such, as Kafka reads it.
    Text(String),
    /// No value.
    Null,
    /// A map, or a list that contains something other than plain values.
    Nested,
}

/// What the status of a resource says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The topic that it manages.
    pub topic_name: Option<String>,
    /// The id of that topic.
    pub topic_id: Option<String>,
    /// Whether it is ready.
    pub is_ready: bool,
    /// The reason and the message of the condition that it is not ready.
    pub failure: Option<(String, String)>,
    /// A change of the number of replicas.
    pub replicas_change: Option<ReplicasChange>,
}

impl Resource {
    /// The name of its topic, by its spec.
    #[must_use]
    pub fn topic(&self) -> &str {
        let named = self.spec.as_ref().and_then(|spec| spec.topic_name.as_deref());
        named.unwrap_or(&self.name)
    }

    /// The topic that others cannot have beside it: the one that it manages, also if its spec names another one by now.
    #[must_use]
    pub fn claimed_topic(&self) -> &str {
        self.status.topic_name.as_deref().unwrap_or_else(|| self.topic())
    }

    /// Whether its spec names another topic than the one that it manages.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.claimed_topic() != self.topic()
    }

    /// Whether a change from an earlier version needs a pass. A new status does not: the operator wrote it.
    #[must_use]
    pub fn differs_from(&self, before: &Self) -> bool {
        let without_status = |one: &Self| Self { status: Status::default(), ..one.clone() };
        without_status(self) != without_status(before)
    }
}
