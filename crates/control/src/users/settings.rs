//! How the users of a cluster are managed: what its spec says.

use regex::Regex;

use crate::{lag, topics};

/// The environment variable with the labels that are not copied.
const EXCLUSION: &str = "STRIMZI_LABELS_EXCLUSION_PATTERN";

/// Labels that say which program an object belongs to.
pub(super) const PROGRAM: &str = "app.kubernetes.io/";
/// Labels of a resource that its Secret does not get: they would make other programs take it for theirs.
const NOT_COPIED: [&str; 2] = [PROGRAM, "kustomize.toolkit.fluxcd.io"];
/// The one of them that it gets.
const COPIED: &str = "app.kubernetes.io/part-of";

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
    /// The labels of a resource that its Secret does not get.
    pub not_copied: Exclusion,
}

/// Labels of a resource that its Secret does not get.
#[derive(Debug, Clone, Default)]
pub enum Exclusion {
    /// Those of other programs, as in Strimzi.
    #[default]
    Usual,
    /// Those whose whole name matches.
    Matching(Regex),
    /// The expression cannot be read, and why; the usual ones hold.
    Invalid(String),
}

impl PartialEq for Exclusion {
    fn eq(&self, other: &Self) -> bool {
        self.written() == other.written()
    }
}

impl Eq for Exclusion {}

impl Exclusion {
    /// Reads an expression. An empty one is none.
    fn of(pattern: &str) -> Self {
        let whole = (!pattern.is_empty()).then(|| format!("^(?:{pattern})$"));
        match lag::read_regex(EXCLUSION, whole.as_deref()) {
            Ok(None) => Self::Usual,
            Ok(Some(regex)) => Self::Matching(regex),
            Err(error) => Self::Invalid(error.to_string()),
        }
    }

    /// What tells one from another.
    fn written(&self) -> (bool, &str) {
        match self {
            Self::Usual => (true, ""),
            Self::Matching(regex) => (true, regex.as_str()),
            Self::Invalid(why) => (false, why),
        }
    }

    /// Whether the Secret of a resource gets a label of this name.
    #[must_use]
    pub fn copies(&self, name: &str) -> bool {
        match self {
            Self::Matching(regex) => !regex.is_match(name),
            Self::Usual | Self::Invalid(_) => {
                name == COPIED || !NOT_COPIED.iter().any(|prefix| name.starts_with(prefix))
            }
        }
    }
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
            not_copied: Exclusion::Usual,
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
            not_copied: Exclusion::of(value(EXCLUSION).unwrap_or_default()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &str) -> Exclusion {
        let environment = [(EXCLUSION.to_owned(), pattern.to_owned())];
        Settings::read(&environment, None).not_copied
    }

    #[test]
    fn labels_that_match_the_whole_expression_are_not_copied() {
        #[rustfmt::skip]
        let rows = [
            ("",              [true, false, true, false]),
            ("team",          [false, true, true, true]),
            ("tea",           [true, true, true, true]),
            ("^app.kubernetes.io/.*$|kustomize.*", [true, false, false, false]),
            // Rust has no look-ahead: the usual labels are left out, and a warning says why.
            ("^app.kubernetes.io/(?!part-of).*",   [true, false, true, false]),
            ("(",             [true, false, true, false]),
        ];
        let labels = [
            "team",
            "app.kubernetes.io/name",
            "app.kubernetes.io/part-of",
            "kustomize.toolkit.fluxcd.io/name",
        ];
        for (pattern, expected) in rows {
            let found = read(pattern);
            assert_eq!(labels.map(|label| found.copies(label)), expected, "E6 {pattern}");
        }
        assert_eq!(Settings::read(&[], None).not_copied, Exclusion::Usual);
        assert_ne!(read("a"), read("b"));
        assert_ne!(read("("), read(""), "the warning comes and goes");
    }
}
