//! A `KafkaUser`, as decisions see it.

use std::collections::BTreeMap;

use super::access::{Operation, Pattern, Permission, ResourceKind};

/// No certificate of a user is valid for longer: a thousand years.
const VALIDITY_DAYS_MAX: i64 = 365_000;

/// A `KafkaUser`.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Its namespace.
    pub namespace: String,
    /// Its name, and that of the user.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// The generation that its status is about.
    pub observed_generation: Option<i64>,
    /// The reason and the message for which its status says that it is not ready.
    pub failure: Option<(String, String)>,
    /// The cluster that its label names.
    pub cluster: Option<String>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether its user paused it.
    pub is_paused: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The labels that its Secret has in any case.
    pub own_labels: BTreeMap<String, String>,
    /// The kind of key that it asks for.
    pub key: KeyKind,
    /// Its spec; `None` if it has none or cannot be read.
    pub spec: Option<Spec>,
}

/// A kind of private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on the curve P-256.
    P256,
    /// RSA, for clients that know nothing else.
    Rsa,
    /// A text that names none.
    Unknown(String),
}

impl KeyKind {
    /// What an annotation says.
    #[must_use]
    pub fn of(text: Option<&str>) -> Self {
        match text {
            None | Some("ec") => Self::P256,
            Some("rsa") => Self::Rsa,
            Some(other) => Self::Unknown(other.to_owned()),
        }
    }
}

/// The desired user.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spec {
    /// How the user is authenticated.
    pub login: Login,
    /// The access rules; `None` if the spec says nothing about authorization.
    pub rules: Option<Vec<RuleSpec>>,
    /// The quotas, by Kafka's names for them.
    pub quotas: BTreeMap<&'static str, f64>,
    /// Labels that its user adds to the Secret.
    pub secret_labels: BTreeMap<String, String>,
    /// Annotations that its user adds to the Secret.
    pub secret_annotations: BTreeMap<String, String>,
}

/// How a user is authenticated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Login {
    /// Not by anything that is managed here.
    #[default]
    None,
    /// By a certificate of the clients CA.
    Tls(Option<Days>),
    /// By a certificate that somebody else issues.
    TlsExternal,
    /// By a password.
    Scram(Option<PasswordReference>),
}

/// For how long a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days {
    /// How many days from its issue.
    pub validity: i64,
    /// How many days before its end it is renewed.
    pub renewal: i64,
}

/// The entry of a Secret with a password. Both must be there, but the API server does not demand it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PasswordReference {
    /// The name of the Secret.
    pub secret: Option<String>,
    /// The entry.
    pub key: Option<String>,
}

/// An access rule as it is written, for several operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSpec {
    /// Whether it allows or denies.
    pub permission: Permission,
    /// The kind of what it is about.
    pub kind: ResourceKind,
    /// The name of that.
    pub name: Option<String>,
    /// How the name is meant.
    pub pattern: Pattern,
    /// The address of the client.
    pub host: String,
    /// What it allows or denies.
    pub operations: Vec<Operation>,
}

impl Resource {
    /// Whether a change from an earlier version needs a pass. A new status does not: the operator wrote it.
    #[must_use]
    pub fn differs_from(&self, before: &Self) -> bool {
        let without_status =
            |one: &Self| Self { observed_generation: None, failure: None, ..one.clone() };
        without_status(self) != without_status(before)
    }
}

impl Days {
    /// A certificate that can be issued, and that is not due at once: it would be issued again at every pass.
    pub(super) fn bounded(self) -> Self {
        let validity = self.validity.clamp(1, VALIDITY_DAYS_MAX);
        Self { validity, renewal: self.renewal.clamp(0, validity - 1) }
    }
}

impl Login {
    /// Whether Kafka knows the user by the subject of its certificate.
    #[must_use]
    pub const fn by_certificate(&self) -> bool {
        match self {
            Self::Tls(_) | Self::TlsExternal => true,
            Self::None | Self::Scram(_) => false,
        }
    }

    /// Whether its credentials are in a Secret.
    #[must_use]
    pub const fn has_secret(&self) -> bool {
        match self {
            Self::Tls(_) | Self::Scram(_) => true,
            Self::None | Self::TlsExternal => false,
        }
    }
}

/// How Kafka knows a user who shows a certificate.
#[must_use]
pub(super) fn by_certificate(name: &str) -> String {
    format!("CN={name}")
}
