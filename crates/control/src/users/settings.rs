//! How the users of a cluster are managed: what its spec says.

use crate::topics;

/// Letters of a password, unless the spec says otherwise.
const PASSWORD_LETTERS: usize = 32;

/// No password is longer, whatever the spec says.
const PASSWORD_LETTERS_MAX: usize = 1024;

/// How the users of a cluster are managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often all users are compared with Kafka.
    pub interval_ms: u64,
    /// What the names of Secrets begin with.
    pub secret_prefix: String,
    /// Letters of a generated password.
    pub password_letters: usize,
    /// Whether Kafka has access rules.
    pub has_access_rules: bool,
    /// Whether a listener accepts certificates.
    pub takes_certificates: bool,
    /// Whether a listener accepts passwords.
    pub takes_passwords: bool,
    /// For how many days certificates are valid.
    pub validity_days: i64,
    /// How many days before their end certificates are renewed.
    pub renewal_days: i64,
    /// When certificates may be renewed.
    pub windows: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval_ms: topics::interval_ms(None),
            secret_prefix: String::new(),
            password_letters: PASSWORD_LETTERS,
            has_access_rules: true,
            takes_certificates: true,
            takes_passwords: true,
            validity_days: 365,
            renewal_days: 30,
            windows: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads what the environment of Strimzi's container and `reconciliationIntervalMs` say. The rest is the default.
    #[must_use]
    pub fn read(environment: &[(String, String)], interval_ms: Option<i64>) -> Self {
        let value = |name: &str| {
            environment.iter().rev().find(|(of, _)| of == name).map(|(_, value)| value.trim())
        };
        let letters = value("STRIMZI_SCRAM_SHA_PASSWORD_LENGTH").and_then(|text| text.parse().ok());
        let letters = letters.filter(|letters| (1..=PASSWORD_LETTERS_MAX).contains(letters));
        Self {
            interval_ms: topics::interval_ms(interval_ms),
            password_letters: letters.unwrap_or(PASSWORD_LETTERS),
            ..Self::default()
        }
    }
}
