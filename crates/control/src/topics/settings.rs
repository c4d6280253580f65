//! How the topics of a cluster are treated: what its users set in `spec.entityOperator`.

use std::collections::BTreeSet;

/// How often all topics are compared with Kafka, unless the spec says otherwise.
const INTERVAL_MS: u64 = 120_000;

/// How the topics of a cluster are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether resources get a finalizer. Without it, a resource that is deleted while no operator runs leaves its topic.
    pub uses_finalizers: bool,
    /// The configuration that may be changed.
    pub alterable: Alterable,
    /// How often all topics are compared with Kafka.
    pub interval_ms: u64,
}

/// Names of the configuration that may be changed after a topic was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alterable {
    /// All.
    All,
    /// These only.
    Only(BTreeSet<String>),
}

impl Default for Settings {
    fn default() -> Self {
        Self { uses_finalizers: true, alterable: Alterable::All, interval_ms: INTERVAL_MS }
    }
}

impl Settings {
    /// Reads the settings by the environment variables that users set in the template of Strimzi's container, and by
    /// `reconciliationIntervalMs`; zero is the default.
    #[must_use]
    pub fn read(environment: &[(String, String)], interval_ms: Option<i64>) -> Self {
        // Of a variable that is there twice a container sees the last.
        let value = |name: &str| {
            environment.iter().rev().find(|(of, _)| of == name).map(|(_, value)| value.trim())
        };
        let uses_finalizers = value("STRIMZI_USE_FINALIZERS").filter(|text| !text.is_empty());
        Self {
            uses_finalizers: uses_finalizers.is_none_or(|text| text.eq_ignore_ascii_case("true")),
            alterable: Alterable::of(value("STRIMZI_ALTERABLE_TOPIC_CONFIG").unwrap_or("ALL")),
            interval_ms: self::interval_ms(interval_ms),
        }
    }
}

/// `reconciliationIntervalMs`; zero is the default.
pub(crate) fn interval_ms(spec: Option<i64>) -> u64 {
    spec.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0).unwrap_or(INTERVAL_MS)
}

impl Alterable {
    /// `ALL` or nothing for all, `NONE` for none, or a list with commas.
    #[must_use]
    pub fn of(text: &str) -> Self {
        match text {
            "ALL" | "" => Self::All,
            "NONE" => Self::Only(BTreeSet::new()),
            list => Self::Only(
                list.split(',')
                    .map(|name| name.split_whitespace().collect::<String>())
                    .filter(|name| !name.is_empty())
                    .collect(),
            ),
        }
    }

    /// Whether a name may be changed.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &[(&str, &str)], interval: Option<i64>) -> Settings {
        let rows: Vec<_> =
            rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::read(&rows, interval)
    }

    #[test]
    fn settings_are_read_by_the_names_of_the_environment() {
        assert_eq!(read(&[], None), Settings::default());
        assert_eq!(read(&[], Some(0)).interval_ms, INTERVAL_MS, "zero would be a busy loop");
        assert_eq!(read(&[], Some(-5)).interval_ms, INTERVAL_MS);
        assert_eq!(read(&[], Some(30_000)).interval_ms, 30_000);
        for (text, expected) in [("false", false), ("TRUE", true), ("no", false), ("", true)] {
            let read = read(&[("STRIMZI_USE_FINALIZERS", text)], None);
            assert_eq!(read.uses_finalizers, expected, "{text}");
        }
        let twice = [("STRIMZI_USE_FINALIZERS", "true"), ("STRIMZI_USE_FINALIZERS", "false")];
        assert!(!read(&twice, None).uses_finalizers);
    }

    #[test]
    fn alterable_configuration_is_all_none_or_a_list() {
        let allows = |text: &str| {
            let read = read(&[("STRIMZI_ALTERABLE_TOPIC_CONFIG", text)], None).alterable;
            ["retention.ms", "cleanup.policy"].map(|name| read.allows(name))
        };
        for (text, expected) in [
            ("ALL", [true, true]),
            ("", [true, true]),
            ("NONE", [false, false]),
            ("retention.ms", [true, false]),
            (" retention.ms , cleanup.policy", [true, true]),
            ("retention.ms; cleanup.policy", [false, false]),
            ("invalid", [false, false]),
        ] {
            assert_eq!(allows(text), expected, "{text}");
        }
    }
}
