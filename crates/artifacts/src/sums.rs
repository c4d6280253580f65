//! Pinned SHA-256 checksums of jars.
//!
//! A repository proves nothing about its own files: jars that Maven downloaded enter the cache only if each
//! one matches the checksum that was pinned when the version was added. The checksums of Kafka are files in
//! `kafka/`, in `sha256sum` format; pom.xml describes how to create them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::manifest::Manifest;
use crate::{FetchError, KafkaVersion};

/// Checksums by Kafka version; a test requires the versions of pom.xml.
pub(crate) const KAFKA: [(&str, &str); 2] = [
    ("4.1.2", include_str!("../kafka/jars-4.1.2.sha256")),
    ("4.3.1", include_str!("../kafka/jars-4.3.1.sha256")),
];

/// Pinned checksums of one directory, by file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sums(BTreeMap<String, String>);

impl Sums {
    /// Parses the output of `sha256sum`. `None` for anything else, and for an empty text, which would pin
    /// nothing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let entry = |line: &str| {
            let (sum, name) = line.split_once("  ")?;
            let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_sum.then(|| (name.to_owned(), sum.to_ascii_lowercase()))
        };
        let sums = text.lines().map(entry).collect::<Option<BTreeMap<_, _>>>()?;
        (!sums.is_empty()).then_some(Self(sums))
    }

    /// The first jar that differs from its pin, is missing, or is not pinned.
    pub(crate) fn find_difference(&self, found: &Manifest) -> Option<Difference> {
        let found: BTreeMap<_, _> = found.sums().collect();
        let wrong = self.0.iter().find_map(|(name, pinned)| match found.get(name.as_str()) {
            None => Some(Difference::Missing(name.clone())),
            Some(sum) if sum != pinned => Some(Difference::Changed {
                name: name.clone(),
                found: (*sum).to_owned(),
                pinned: pinned.clone(),
            }),
            Some(_) => None,
        });
        let unexpected = || found.keys().find(|name| !self.0.contains_key(**name));
        wrong.or_else(|| unexpected().map(|name| Difference::Unexpected((*name).to_owned())))
    }
}

/// How a set of jars differs from its pins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// A jar with another checksum.
    #[error("{name} has SHA-256 {found}, pinned is {pinned}")]
    Changed {
        /// The jar.
        name: String,
        /// Its checksum.
        found: String,
        /// The pinned checksum.
        pinned: String,
    },
    /// A pinned jar is missing.
    #[error("{0} is missing")]
    Missing(String),
    /// A jar that is not pinned.
    #[error("{0} is not pinned")]
    Unexpected(String),
}

/// The pinned checksums of a Kafka version.
pub(crate) fn of_kafka(
    pinned: &[(String, String)],
    version: KafkaVersion,
) -> Result<Option<Sums>, FetchError> {
    let version = version.to_string();
    match pinned.iter().find(|(name, _)| *name == version) {
        None => Ok(None),
        Some((_, text)) => read(&format!("Kafka {version}"), text).map(Some),
    }
}

/// Parses checksums that must be valid.
pub(crate) fn read(what: &str, text: &str) -> Result<Sums, FetchError> {
    Sums::parse(text).ok_or_else(|| FetchError::SumsUnreadable { what: what.to_owned() })
}

/// Compares the jars that Maven copied with their pins.
pub(crate) fn check(what: &str, sums: &Sums, found: &Manifest) -> Result<(), FetchError> {
    match sums.find_difference(found) {
        None => Ok(()),
        Some(difference) => Err(FetchError::SumDiffers { what: what.to_owned(), difference }),
    }
}

/// The checksums of a directory, in `sha256sum` format.
pub(crate) fn text_of(root: &Path) -> Result<String, FetchError> {
    let found = Manifest::of(root, &crate::jars::LAYOUT)?;
    Ok(found.sums().map(|(name, sum)| format!("{sum}  {name}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tested_version_is_pinned_with_its_main_jars() {
        for version in [KafkaVersion::default_version(), KafkaVersion::oldest_supported()] {
            let pinned = KAFKA.map(|(version, text)| (version.to_owned(), text.to_owned()));
            let sums = of_kafka(&pinned, version).unwrap().unwrap();
            let has = |name: &str| sums.0.keys().any(|one| one.starts_with(name));
            assert!(sums.0.len() > 50, "{version}");
            assert!(has(&format!("libs/kafka-clients-{version}.jar")), "{version}");
            assert!(has("agents/jmx_prometheus_javaagent-"), "{version}");
        }
    }

    #[test]
    fn only_the_output_of_sha256sum_is_a_list_of_sums() {
        let sum = "ab".repeat(32);
        assert!(Sums::parse(&format!("{sum}  libs/a.jar\n")).is_some());
        let bad = ["", "\n", "ab  libs/a.jar", &format!("{sum} libs/a.jar"), &"zz".repeat(32)];
        for text in bad {
            assert_eq!(Sums::parse(text), None, "{text}");
        }
    }
}
