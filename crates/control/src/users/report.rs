//! The status of a resource.

use super::access::ResourceKind;
use super::resource::{Login, Resource, by_certificate};
use crate::annotations::Annotation;
use crate::topics::{self, News};

/// What the status of a resource says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// What holds.
    pub conditions: Vec<Condition>,
    /// How Kafka knows the user.
    pub username: Option<String>,
    /// The Secret with its credentials.
    pub secret: Option<String>,
}

/// A condition. It holds: one that does not is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: Kind,
    /// Why, for programs.
    pub reason: Option<Reason>,
    /// Why, for people.
    pub message: Option<String>,
}

/// A type of condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The user is as the spec asks for.
    Ready,
    /// It is not. Strimzi has this type instead of a `Ready` that does not hold.
    NotReady,
    /// The operator leaves the user alone for a while, by an annotation.
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
            Self::NotReady => "NotReady",
            Self::ReconciliationPaused => "ReconciliationPaused",
            Self::Warning => "Warning",
        }
    }
}

/// Why a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The spec or the metadata of the resource is wrong.
    InvalidResource,
    /// Something that the resource refers to is missing or wrong.
    InvalidReference,
    /// A Secret of the name belongs to something else.
    SecretConflict,
    /// The clients CA cannot issue certificates.
    AuthorityError,
    /// Kafka refuses it, or does not answer.
    KafkaError,
    /// Kubernetes refuses it, or does not answer.
    KubernetesError,
    /// No listener accepts this kind of authentication.
    NoListener,
    /// Access rules that a resource cannot have are kept.
    RulesKept,
    /// An annotation has a value that is not known.
    UnknownAnnotation,
    /// A setting of the entity operator in the `Kafka` cannot be read.
    InvalidSetting,
}

impl Reason {
    /// All reasons.
    pub const ALL: &'static [Self] = &[
        Self::InvalidResource,
        Self::InvalidReference,
        Self::SecretConflict,
        Self::AuthorityError,
        Self::KafkaError,
        Self::KubernetesError,
        Self::NoListener,
        Self::RulesKept,
        Self::UnknownAnnotation,
    ];

    /// As it is written in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidResource => "InvalidResource",
            Self::InvalidReference => "InvalidReference",
            Self::SecretConflict => "SecretConflict",
            Self::AuthorityError => "AuthorityError",
            Self::KafkaError => "KafkaError",
            Self::KubernetesError => "KubernetesError",
            Self::NoListener => "NoListener",
            Self::RulesKept => "RulesKept",
            Self::UnknownAnnotation => "UnknownAnnotation",
            Self::InvalidSetting => "InvalidSetting",
        }
    }
}

/// Why a user is not as its spec asks for, or what its user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl Problem {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Kafka refused a request with an error code, whose name is `name`, and perhaps with a text.
    #[must_use]
    pub fn refused(code: i16, name: &str, text: Option<&str>) -> Self {
        Self::new(Reason::KafkaError, topics::Problem::refused(code, name, text).message)
    }

    /// A request to Kafka got no answer, so that it may or may not have been carried out. The next pass finds out.
    #[must_use]
    pub fn no_answer(what: &str) -> Self {
        Self::new(Reason::KafkaError, format!("{what}; the operator tries again"))
    }

    /// A Secret or something else in Kubernetes could not be read or written.
    #[must_use]
    pub fn kubernetes(what: &str) -> Self {
        Self::new(Reason::KubernetesError, format!("{what}; the operator tries again"))
    }

    /// A Secret of this name exists that does not have the labels of a user.
    #[must_use]
    pub fn secret_exists(name: &str) -> Self {
        Self::foreign_secret(name, "it does not have the label strimzi.io/kind=KafkaUser")
    }

    /// The certificate could not be made.
    #[must_use]
    pub fn not_issued(why: &str) -> Self {
        Self::new(Reason::AuthorityError, format!("cannot issue the certificate: {why}"))
    }

    pub(super) fn foreign_secret(name: &str, why: &str) -> Self {
        let message = format!(
            "The Secret {name} is not changed: {why}. Delete or rename it, or give the KafkaUser another name"
        );
        Self::new(Reason::SecretConflict, message)
    }

    pub(super) fn rule_without_name(kind: ResourceKind) -> Self {
        let message = format!(
            "An access rule for resource type {} has no name: set spec.authorization.acls[].resource.name, or * for all",
            kind.name()
        );
        Self::new(Reason::InvalidResource, message)
    }

    pub(super) fn no_authorization() -> Self {
        let message = "Access rules are configured, but the Kafka cluster has no simple authorization: set \
                       spec.kafka.authorization of the Kafka to type simple, or remove spec.authorization here";
        Self::new(Reason::InvalidResource, message)
    }

    pub(super) fn reserved_label(name: &str) -> Self {
        let message = format!("Labels that begin with strimzi.io/ are not allowed: remove {name}");
        Self::new(Reason::InvalidResource, message)
    }

    pub(super) fn reserved_template(name: &str) -> Self {
        let message = format!(
            "Labels and annotations that begin with strimzi.io/ are not allowed in spec.template.secret: remove {name}"
        );
        Self::new(Reason::InvalidResource, message)
    }

    pub(super) fn long_name(letters: usize) -> Self {
        let message = format!(
            "A user with a certificate can have a name of only up to {letters} characters long: use another name, or \
             another type of authentication"
        );
        Self::new(Reason::InvalidResource, message)
    }

    pub(super) fn incomplete_reference() -> Self {
        let message = "The reference to a password is incomplete: set name and key of \
                       spec.authentication.password.valueFrom.secretKeyRef";
        Self::new(Reason::InvalidResource, message)
    }

    pub(super) fn no_password_secret(namespace: &str, name: &str) -> Self {
        let message = format!(
            "Secret {name} in namespace {namespace} not found: create it with the password of the user"
        );
        Self::new(Reason::InvalidReference, message)
    }

    pub(super) fn no_password_entry(name: &str, key: &str) -> Self {
        let message =
            format!("Secret {name} does not contain the key {key}: add it with the password");
        Self::new(Reason::InvalidReference, message)
    }

    pub(super) fn empty_password(name: &str, key: &str) -> Self {
        let message =
            format!("The key {key} of Secret {name} holds no text: put the password there");
        Self::new(Reason::InvalidReference, message)
    }

    pub(super) fn no_authority(what: &str) -> Self {
        let message = format!("Waiting for the clients CA: {what}");
        Self::new(Reason::AuthorityError, message)
    }

    pub(super) fn authority_cannot_sign() -> Self {
        let message = "The key of the clients CA is not that of its certificate: correct the Secrets of the clients CA";
        Self::new(Reason::AuthorityError, message)
    }

    pub(super) fn no_listener(kind: &str) -> Self {
        let message = format!(
            "No listener of the Kafka cluster has authentication of type {kind}: the user cannot log in until one is \
             added to spec.kafka.listeners of the Kafka"
        );
        Self::new(Reason::NoListener, message)
    }

    pub(super) fn rules_kept(count: usize) -> Self {
        let message = format!(
            "Kafka has {count} access rules of this user that a KafkaUser cannot express, such as for delegation tokens: \
             they are left unchanged"
        );
        Self::new(Reason::RulesKept, message)
    }

    pub(super) fn unknown_key(text: &str) -> Self {
        let message = format!(
            "The annotation {} is {text}, which is not a kind of key: use ec or rsa; ec is used until then",
            Annotation::UserKey.name()
        );
        Self::new(Reason::UnknownAnnotation, message)
    }

    pub(super) fn invalid_exclusion(why: &str) -> Self {
        let message = format!(
            "{why}. Correct it in spec.entityOperator.template.userOperatorContainer.env of the Kafka (look-around is not \
             supported); until then labels are copied as by default"
        );
        Self::new(Reason::InvalidSetting, message)
    }
}

impl Report {
    /// The user is as its spec asks for.
    pub(super) fn ready(
        resource: &Resource,
        login: &Login,
        secret: Option<String>,
        warnings: &[Problem],
    ) -> Self {
        let ready = Condition { kind: Kind::Ready, reason: None, message: None };
        let username = match login.by_certificate() {
            true => by_certificate(&resource.name),
            false => resource.name.clone(),
        };
        let warnings = warnings.iter().map(|one| Condition::new(Kind::Warning, one.clone()));
        Self {
            observed_generation: resource.generation,
            conditions: std::iter::once(ready).chain(warnings).collect(),
            username: Some(username),
            secret,
        }
    }

    /// Something keeps the user from being as its spec asks for.
    #[must_use]
    pub fn failed(resource: &Resource, problem: Problem) -> Self {
        Self {
            observed_generation: resource.generation,
            conditions: vec![Condition::new(Kind::NotReady, problem)],
            username: None,
            secret: None,
        }
    }

    pub(super) fn paused(resource: &Resource) -> Self {
        let paused = Condition { kind: Kind::ReconciliationPaused, reason: None, message: None };
        Self {
            observed_generation: resource.observed_generation.unwrap_or(0),
            conditions: vec![paused],
            username: None,
            secret: None,
        }
    }

    /// What is new since the last status; that is told once, and not at every pass.
    #[must_use]
    pub fn news(&self, resource: &Resource) -> Option<News> {
        let failed = self.conditions.iter().find(|one| one.kind == Kind::NotReady)?;
        let reason = failed.reason.map_or("NotReady", Reason::name);
        let message = failed.message.clone().unwrap_or_default();
        let is_known = resource
            .failure
            .as_ref()
            .is_some_and(|known| (&*known.0, &known.1) == (reason, &message));
        (!is_known).then_some(News { is_warning: true, reason, message })
    }

    /// Whether the user is as its spec asks for, or left alone as somebody wants.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.conditions.iter().all(|one| one.kind != Kind::NotReady)
    }
}

impl Condition {
    fn new(kind: Kind, problem: Problem) -> Self {
        Self { kind, reason: Some(problem.reason), message: Some(problem.message) }
    }
}
