//! Kafka versions, and which of them are supported.

use std::fmt;
use std::str::FromStr;

/// The Maven project of Kafka; the single place that names versions.
pub(crate) const POM: &str = include_str!("../kafka/pom.xml");

/// A released Kafka version that Gregor can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KafkaVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

/// A text that is not a supported Kafka version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVersion {
    /// Not three numbers.
    #[error(
        "\"{0}\" is not a Kafka version: write three numbers, such as {default}",
        default = KafkaVersion::DEFAULT_TEXT
    )]
    Form(String),
    /// Older than the first release with the features that Gregor needs.
    #[error("Kafka {found} is too old: Gregor supports {floor} and newer")]
    TooOld {
        /// The requested version.
        found: String,
        /// The oldest supported version.
        floor: KafkaVersion,
    },
}

impl KafkaVersion {
    /// The default version as text, for messages.
    pub(crate) const DEFAULT_TEXT: &'static str = property("kafka.version");
    const DEFAULT: Self = parse_or_stop_the_build(Self::DEFAULT_TEXT);
    const OLDEST: Self = parse_or_stop_the_build(property("kafka.version.oldest"));
    const FLOOR: Self = parse_or_stop_the_build(property("kafka.version.floor"));

    /// The default version.
    #[must_use]
    pub const fn default_version() -> Self {
        Self::DEFAULT
    }

    /// The oldest version that the tests run against.
    #[must_use]
    pub const fn oldest_supported() -> Self {
        Self::OLDEST
    }
}

impl FromStr for KafkaVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let version =
            parse(text.as_bytes()).ok_or_else(|| InvalidVersion::Form(text.to_owned()))?;
        if version < Self::FLOOR {
            return Err(InvalidVersion::TooOld { found: text.to_owned(), floor: Self::FLOOR });
        }
        Ok(version)
    }
}

impl fmt::Display for KafkaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad`, so that format widths work.
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

/// The text of a property of the Maven project. Evaluated at compile time: a missing property fails the
/// build.
const fn property(name: &str) -> &'static str {
    let (pom, name) = (POM.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at + name.len() + 2 < pom.len() {
        let opens = pom[at] == b'<' && pom[at + name.len() + 1] == b'>';
        if opens && starts_with(pom, at + 1, name) {
            let start = at + name.len() + 2;
            let mut end = start;
            while pom[end] != b'<' {
                end += 1;
            }
            return POM.split_at(end).0.split_at(start).1;
        }
        at += 1;
    }
    panic!("the property is not in pom.xml")
}

const fn starts_with(text: &[u8], from: usize, prefix: &[u8]) -> bool {
    let mut i = 0;
    while i < prefix.len() {
        if text[from + i] != prefix[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn parse_or_stop_the_build(text: &str) -> KafkaVersion {
    match parse(text.as_bytes()) {
        Some(version) => version,
        None => panic!("a version in pom.xml is not three numbers"),
    }
}

/// Exactly three numbers, separated by dots, without signs or leading zeros.
const fn parse(text: &[u8]) -> Option<KafkaVersion> {
    let mut parts = [0_u16; 3];
    let (mut part, mut digits, mut i) = (0, 0, 0);
    while i < text.len() {
        match text[i] {
            b'.' if digits > 0 && part < 2 => (part, digits) = (part + 1, 0),
            // Three digits suffice for any release and cannot overflow.
            digit @ b'0'..=b'9' if digits < 3 && !(digits == 1 && parts[part] == 0) => {
                parts[part] = parts[part] * 10 + (digit - b'0') as u16;
                digits += 1;
            }
            _ => return None,
        }
        i += 1;
    }
    if part == 2 && digits > 0 {
        Some(KafkaVersion { major: parts[0], minor: parts[1], patch: parts[2] })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_versions_come_from_the_pom() {
        assert_eq!(KafkaVersion::default_version().to_string(), "4.3.1");
        assert_eq!(KafkaVersion::oldest_supported().to_string(), "4.1.2");
        assert!(KafkaVersion::FLOOR <= KafkaVersion::OLDEST);
        assert!(KafkaVersion::OLDEST <= KafkaVersion::DEFAULT);
    }

    #[test]
    fn three_numbers_from_the_floor_on_are_a_version() {
        for text in ["4.1.0", "4.1.2", "4.3.1", "4.10.0", "5.0.0"] {
            assert_eq!(text.parse::<KafkaVersion>().unwrap().to_string(), text);
        }
        assert!("4.10.0".parse::<KafkaVersion>().unwrap() > "4.9.9".parse().unwrap());
    }

    #[test]
    fn other_texts_are_refused_with_the_form_that_is_wanted() {
        for text in [
            "",
            "4",
            "4.3",
            "4.3.",
            "4.3.1.0",
            "v4.3.1",
            "4.3.x",
            "4.3.1-rc1",
            "04.3.1",
            "+4.3.1",
            "4..1",
            "4.1000.0",
            "../4.3.1",
        ] {
            let error = text.parse::<KafkaVersion>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("\"{text}\" is not a Kafka version: write three numbers, such as 4.3.1")
            );
        }
    }

    #[test]
    fn a_version_before_the_floor_is_refused() {
        for text in ["4.0.2", "3.9.1", "0.0.0"] {
            let error = text.parse::<KafkaVersion>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("Kafka {text} is too old: Gregor supports 4.1.0")),
                "{error}"
            );
        }
    }
}
