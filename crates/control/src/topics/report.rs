//! The status of a resource.
//!
//! Reasons and messages are those that dashboards and scripts for Strimzi know, where there are such.

use model::TopicId;

use super::resource::Resource;

/// What the status of a resource says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// What holds.
    pub conditions: Vec<Condition>,
    /// The topic that the resource manages.
    pub topic_name: Option<String>,
    /// Its id.
    pub topic_id: Option<String>,
    /// The change of the number of replicas.
    pub replicas_change: Option<ReplicasChange>,
}

/// A change of the number of replicas, as a status has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicasChange {
    /// How many replicas there will be.
    pub target: i64,
    /// How far it is.
    pub state: Option<ChangeState>,
    /// Why it waits, for people.
    pub message: Option<String>,
    /// By what its moves are known.
    pub session: Option<String>,
}

/// How far a change of the number of replicas is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeState {
    /// Not begun.
    Pending,
    /// In progress.
    Ongoing,
}

impl ReplicasChange {
    pub(super) fn pending(target: usize, message: String) -> Self {
        let state = Some(ChangeState::Pending);
        Self { target: signed(target), state, message: Some(message), session: None }
    }

    pub(super) fn ongoing(target: usize, session: &str) -> Self {
        let (state, session) = (Some(ChangeState::Ongoing), Some(session.to_owned()));
        Self { target: signed(target), state, message: None, session }
    }

    /// In one line, for tests.
    #[cfg(test)]
    pub(super) fn line(&self) -> String {
        let target = self.target;
        match (self.state, &self.message, &self.session) {
            (Some(ChangeState::Pending), Some(message), None) => {
                format!("pending {target}: {message}")
            }
            (Some(ChangeState::Ongoing), None, Some(session)) => {
                format!("ongoing {target} {session}")
            }
            other => format!("{target} {other:?}"),
        }
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Something that happened to a topic, for an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Whether a person has to act.
    pub is_warning: bool,
    /// For programs.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: Kind,
    /// Whether it holds.
    pub holds: bool,
    /// Why, for programs.
    pub reason: Option<Reason>,
    /// Why, for people.
    pub message: Option<String>,
}

/// A type of condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The topic is as the spec asks for.
    Ready,
    /// The operator leaves the topic alone, by an annotation.
    Unmanaged,
    /// The operator leaves the topic alone for a while, by an annotation.
    ReconciliationPaused,
    /// Something that its user should know.
    Warning,
}

impl Kind {
    /// As it is written in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Unmanaged => "Unmanaged",
            Self::ReconciliationPaused => "ReconciliationPaused",
            Self::Warning => "Warning",
        }
    }
}

/// Why a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Another resource manages the topic.
    ResourceConflict,
    /// The change cannot be made.
    NotSupported,
    /// Kafka refuses it.
    KafkaError,
    /// The spec cannot be translated for Kafka.
    InternalError,
    /// A part of the configuration needs attention.
    InvalidConfig,
    /// Overrides that the spec does not have are kept.
    ConfigKept,
}

impl Reason {
    /// All reasons.
    pub const ALL: &'static [Self] = &[
        Self::ResourceConflict,
        Self::NotSupported,
        Self::KafkaError,
        Self::InternalError,
        Self::InvalidConfig,
        Self::ConfigKept,
    ];

    /// As it is written in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResourceConflict => "ResourceConflict",
            Self::NotSupported => "NotSupported",
            Self::KafkaError => "KafkaError",
            Self::InternalError => "InternalError",
            Self::InvalidConfig => "InvalidConfig",
            Self::ConfigKept => "ConfigKept",
        }
    }
}

/// Why a topic is not as its spec asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// Something that a user should know of a topic that is as its spec asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// The exceptions of the Java client, by Kafka's error codes.
#[rustfmt::skip]
const EXCEPTIONS: &[(i16, &str)] = &[
    (-1, "UnknownServerException"),
    (3, "UnknownTopicOrPartitionException"),
    (7, "TimeoutException"),
    (17, "InvalidTopicException"),
    (29, "TopicAuthorizationException"),
    (31, "ClusterAuthorizationException"),
    (36, "TopicExistsException"),
    (37, "InvalidPartitionsException"),
    (38, "InvalidReplicationFactorException"),
    (39, "InvalidReplicaAssignmentException"),
    (40, "InvalidConfigurationException"),
    (41, "NotControllerException"),
    (42, "InvalidRequestException"),
    (44, "PolicyViolationException"),
    (60, "ReassignmentInProgressException"),
    (73, "TopicDeletionDisabledException"),
    (89, "ThrottlingQuotaExceededException"),
];

/// What the Java client says where Kafka sends no text.
#[rustfmt::skip]
const TEXTS: &[(i16, &str)] = &[
    (3, "This server does not host this topic-partition."),
    (7, "The request timed out."),
    (73, "Topic deletion is disabled."),
];

impl Problem {
    /// Kafka refused a request with an error code, whose name is `name`, and perhaps with a text.
    #[must_use]
    pub fn refused(code: i16, name: &str, text: Option<&str>) -> Self {
        let usual = TEXTS.iter().find(|(of, _)| *of == code).map(|(_, text)| *text);
        Self::kafka(code, text.or(usual).unwrap_or(name))
    }

    /// Kafka answered with an error code.
    #[must_use]
    pub fn kafka(code: i16, text: &str) -> Self {
        let class = EXCEPTIONS.iter().find(|(of, _)| *of == code);
        let message = match class {
            Some((_, class)) => format!("org.apache.kafka.common.errors.{class}: {text}"),
            None => format!("Kafka answered with error {code}: {text}"),
        };
        Self { reason: Reason::KafkaError, message }
    }

    /// A request got no answer, so that it may or may not have been carried out. The next pass finds out.
    #[must_use]
    pub fn no_answer(what: &str) -> Self {
        Self { reason: Reason::KafkaError, message: format!("{what}; the operator tries again") }
    }

    pub(super) fn renamed(from: &str, to: &str) -> Self {
        let message = format!(
            "Changing spec.topicName is not supported: set it back to {from}, and create another KafkaTopic for {to}"
        );
        Self { reason: Reason::NotSupported, message }
    }

    pub(super) fn conflict(namespace: &str, owner: &str) -> Self {
        let message = format!(
            "Managed by Ref{{namespace='{namespace}', name='{owner}'}}: delete one of the two, which deletes no topic, or \
             set another spec.topicName"
        );
        Self { reason: Reason::ResourceConflict, message }
    }

    pub(super) fn invalid_name(why: &str) -> Self {
        Self::kafka(17, &format!("Topic name is invalid: {why}"))
    }

    pub(super) fn null_value(name: &str) -> Self {
        Self::kafka(40, &format!("Null value not supported for topic configs: {name}"))
    }

    pub(super) fn nested_value(name: &str) -> Self {
        let message = format!(
            "Invalid value for topic config '{name}': use a string, a number, a boolean or a list of these"
        );
        Self { reason: Reason::InternalError, message }
    }

    pub(super) fn fewer_partitions(count: i32) -> Self {
        let message = format!(
            "Decreasing partitions not supported: the topic has {count}. Set spec.partitions to {count} or more"
        );
        Self { reason: Reason::NotSupported, message }
    }
}

impl Report {
    /// The topic is as its spec asks for.
    pub(super) fn ready(resource: &Resource, id: Option<TopicId>, warnings: &[Warning]) -> Self {
        let warning = |warning: &Warning| Condition {
            kind: Kind::Warning,
            holds: true,
            reason: Some(warning.reason),
            message: Some(warning.message.clone()),
        };
        let ready = Condition { kind: Kind::Ready, holds: true, reason: None, message: None };
        Self {
            observed_generation: resource.generation,
            conditions: std::iter::once(ready).chain(warnings.iter().map(warning)).collect(),
            topic_name: Some(resource.claimed_topic().to_owned()),
            topic_id: id.map(|id| id.to_string()),
            replicas_change: None,
        }
    }

    /// Something keeps the topic from being as its spec asks for.
    #[must_use]
    pub fn failed(resource: &Resource, id: Option<TopicId>, problem: Problem) -> Self {
        let condition = Condition {
            kind: Kind::Ready,
            holds: false,
            reason: Some(problem.reason),
            message: Some(problem.message),
        };
        Self {
            observed_generation: resource.generation,
            conditions: vec![condition],
            topic_name: Some(resource.claimed_topic().to_owned()),
            topic_id: id.map(|id| id.to_string()),
            replicas_change: resource.status.replicas_change.clone(),
        }
    }

    pub(super) fn unmanaged(resource: &Resource) -> Self {
        Self::left_alone(resource, Kind::Unmanaged, None)
    }

    pub(super) fn paused(resource: &Resource) -> Self {
        let topic = resource.claimed_topic().to_owned();
        Self::left_alone(resource, Kind::ReconciliationPaused, Some(topic))
    }

    fn left_alone(resource: &Resource, kind: Kind, topic_name: Option<String>) -> Self {
        Self {
            observed_generation: resource.generation,
            conditions: vec![Condition { kind, holds: true, reason: None, message: None }],
            topic_name,
            topic_id: None,
            replicas_change: None,
        }
    }

    /// What is new since the last status; that is told once, and not at every pass.
    #[must_use]
    pub fn news(&self, resource: &Resource) -> Option<News> {
        let before = &resource.status;
        let failed = self.conditions.iter().find(|one| one.kind == Kind::Ready && !one.holds);
        if let Some(condition) = failed {
            let reason = condition.reason.map_or("NotReady", Reason::name);
            let message = condition.message.clone().unwrap_or_default();
            let is_known = before
                .failure
                .as_ref()
                .is_some_and(|known| (&*known.0, &known.1) == (reason, &message));
            return (!is_known).then_some(News { is_warning: true, reason, message });
        }
        if let (Some(was), Some(is)) = (&before.topic_id, &self.topic_id)
            && was != is
        {
            let message = format!(
                "The topic was deleted and created again behind this KafkaTopic: its id was {was} and is {is}. The records \
                 that it had are gone"
            );
            return Some(News { is_warning: true, reason: "TopicRecreated", message });
        }
        let state = |change: &Option<ReplicasChange>| {
            let change = change.as_ref()?;
            Some((change.target, change.state?))
        };
        match (state(&before.replicas_change), state(&self.replicas_change)) {
            (was, Some(now @ (target, ChangeState::Ongoing))) if was != Some(now) => Some(News {
                is_warning: false,
                reason: "ReplicasChangeStarted",
                message: format!("Changing the number of replicas to {target}"),
            }),
            (Some((target, ChangeState::Ongoing)), None) if before.topic_id == self.topic_id => {
                Some(News {
                    is_warning: false,
                    reason: "ReplicasChangeEnded",
                    message: format!("The change of the number of replicas to {target} has ended"),
                })
            }
            _ => None,
        }
    }

    /// Whether the topic is as its spec asks for, or left alone as its user wants.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.conditions.iter().all(|one| one.holds)
    }
}
