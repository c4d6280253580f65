//! Versions of Kafka and of its metadata: how they are written, and which comes first.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The version of Kafka itself, such as `4.3.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KafkaVersion {
    /// The first number.
    pub major: u16,
    /// The second.
    pub minor: u16,
    /// The third.
    pub patch: u16,
}

/// A version of the metadata, such as `4.1-IV1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MetadataVersion {
    /// The release of Kafka that brought it.
    pub major: u16,
    /// Its second number.
    pub minor: u16,
    /// Which one of that release.
    pub iv: u16,
}

/// A text that is not the version it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {what}")]
pub struct InvalidVersion {
    what: &'static str,
    text: String,
}

/// One level of the feature `metadata.version`.
struct Level {
    version: MetadataVersion,
    level: i16,
    /// Whether it changed the form of what is stored, so that there is no way back over it.
    changed: bool,
}

/// All levels of Kafka 4.3, from the oldest that Kafka 4 can read.
#[rustfmt::skip]
const LEVELS: &[Level] = &[
    level(3, 3, 3,  7, true),
    level(3, 4, 0,  8, true),
    level(3, 5, 0,  9, false),
    level(3, 5, 1, 10, false),
    level(3, 5, 2, 11, true),
    level(3, 6, 0, 12, false),
    level(3, 6, 1, 13, true),
    level(3, 6, 2, 14, true),
    level(3, 7, 0, 15, true),
    level(3, 7, 1, 16, false),
    level(3, 7, 2, 17, true),
    level(3, 7, 3, 18, false),
    level(3, 7, 4, 19, false),
    level(3, 8, 0, 20, false),
    level(3, 9, 0, 21, false),
    level(4, 0, 0, 22, false),
    level(4, 0, 1, 23, true),
    level(4, 0, 2, 24, false),
    level(4, 0, 3, 25, false),
    level(4, 1, 0, 26, false),
    level(4, 1, 1, 27, false),
    level(4, 2, 0, 28, false),
    level(4, 2, 1, 29, false),
    level(4, 3, 0, 30, true),
];

const fn level(major: u16, minor: u16, iv: u16, level: i16, changed: bool) -> Level {
    Level { version: MetadataVersion { major, minor, iv }, level, changed }
}

impl KafkaVersion {
    /// A version.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// The newest metadata version of its release; `None` for a release that we do not know.
    #[must_use]
    pub fn newest_metadata(self) -> Option<MetadataVersion> {
        MetadataVersion::newest_of(self.major, self.minor)
    }
}

impl MetadataVersion {
    /// The oldest level that a dynamic quorum can be at.
    pub const DYNAMIC_QUORUM: Self = Self { major: 3, minor: 9, iv: 0 };

    /// The oldest that Kafka 4 can read.
    pub const OLDEST: Self = Self { major: 3, minor: 3, iv: 3 };

    /// A metadata version as users write it: `4.1-IV1`, or `4.1` for the newest of that release.
    ///
    /// # Errors
    /// If it is not one, or none that we know.
    pub fn of_user(text: &str) -> Result<Self, InvalidVersion> {
        let known = |version: Self| version.level().map(|_| version);
        let release = |text: &str| {
            let (major, minor) = text.split_once('.')?;
            Self::newest_of(number(major)?, number(minor)?)
        };
        let found = text.parse().ok().and_then(known).or_else(|| release(text));
        found.ok_or_else(|| InvalidVersion { what: "a metadata version", text: text.to_owned() })
    }

    /// The version with that level; `None` for one that is newer than what we know.
    #[must_use]
    pub fn of_level(level: i16) -> Option<Self> {
        LEVELS.iter().find(|row| row.level == level).map(|row| row.version)
    }

    /// Its level of the feature `metadata.version`.
    #[must_use]
    pub fn level(self) -> Option<i16> {
        LEVELS.iter().find(|row| row.version == self).map(|row| row.level)
    }

    /// The newest version above `to`, up to this one, that changed the form of what is stored: there is
    /// no way back over it.
    #[must_use]
    pub fn point_of_no_return(self, to: Self) -> Option<Self> {
        let between = |row: &&Level| row.version > to && row.version <= self;
        LEVELS.iter().filter(between).filter(|row| row.changed).map(|row| row.version).next_back()
    }

    fn newest_of(major: u16, minor: u16) -> Option<Self> {
        let of_release = |row: &&Level| (row.version.major, row.version.minor) == (major, minor);
        LEVELS.iter().filter(of_release).map(|row| row.version).next_back()
    }
}

/// A number as versions are written: no sign, no leading zero.
fn number(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading = text.len() > 1 && text.starts_with('0');
    if plain && !leading { text.parse().ok() } else { None }
}

impl FromStr for KafkaVersion {
    type Err = InvalidVersion;
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let mut parts = text.split('.').map(number);
        let parsed = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => {
                Some(Self { major, minor, patch })
            }
            _ => None,
        };
        parsed.ok_or_else(|| InvalidVersion { what: "a version of Kafka", text: text.to_owned() })
    }
}

impl FromStr for MetadataVersion {
    type Err = InvalidVersion;
    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let parse = || {
            let (release, iv) = text.split_once("-IV")?;
            let (major, minor) = release.split_once('.')?;
            Some(Self { major: number(major)?, minor: number(minor)?, iv: number(iv)? })
        };
        parse().ok_or_else(|| InvalidVersion { what: "a metadata version", text: text.to_owned() })
    }
}

impl fmt::Display for KafkaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

impl fmt::Display for MetadataVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}-IV{}", self.major, self.minor, self.iv))
    }
}

impl TryFrom<String> for KafkaVersion {
    type Error = InvalidVersion;
    fn try_from(text: String) -> Result<Self, InvalidVersion> {
        text.parse()
    }
}

impl From<KafkaVersion> for String {
    fn from(version: KafkaVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for MetadataVersion {
    type Error = InvalidVersion;
    fn try_from(text: String) -> Result<Self, InvalidVersion> {
        text.parse()
    }
}

impl From<MetadataVersion> for String {
    fn from(version: MetadataVersion) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let kafka = |text: &str| text.parse::<KafkaVersion>().unwrap();
        assert!(kafka("4.1.2") < kafka("4.3.1") && kafka("4.9.9") < kafka("4.10.0"));
        let metadata = |text: &str| text.parse::<MetadataVersion>().unwrap();
        assert!(metadata("4.1-IV0") < metadata("4.1-IV1"));
        assert!(metadata("4.1-IV9") < metadata("4.1-IV10"));
        assert!(metadata("3.9-IV0") < metadata("4.0-IV0"));
        for text in ["4.1.2", "0.0.0"] {
            assert_eq!(kafka(text).to_string(), text);
        }
        assert_eq!(metadata("4.1-IV1").to_string(), "4.1-IV1");
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in
            ["", "4", "4.1", "4.1.2.3", "4.1.x", "4.01.2", "+4.1.2", " 4.1.2", "4..2", "4.1.99999"]
        {
            assert!(text.parse::<KafkaVersion>().is_err(), "{text}");
        }
        for text in
            ["", "4.1", "4.1-IV", "4.1-iv1", "4-IV1", "4.1-IV1-IV2", "4.1.0-IV1", "4.1-IV-1"]
        {
            assert!(text.parse::<MetadataVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_levels_are_those_of_kafka() {
        let version = |text: &str| MetadataVersion::of_user(text).unwrap();
        let rows = [
            ("3.5", "3.5-IV2", 11),
            ("3.6", "3.6-IV2", 14),
            ("3.6-IV1", "3.6-IV1", 13),
            ("3.9", "3.9-IV0", 21),
            ("4.1", "4.1-IV1", 27),
            ("4.2", "4.2-IV1", 29),
            ("4.3", "4.3-IV0", 30),
        ];
        for (text, full, level) in rows {
            assert_eq!(version(text).to_string(), full);
            assert_eq!(version(text).level(), Some(level), "{text}");
            assert_eq!(MetadataVersion::of_level(level), Some(version(text)));
        }
        for text in ["3.2", "4.1-IV7", "5.0", "latest", ""] {
            assert!(MetadataVersion::of_user(text).is_err(), "{text}");
        }
        assert_eq!(KafkaVersion::new(4, 1, 2).newest_metadata(), Some(version("4.1-IV1")));
        assert_eq!(KafkaVersion::new(9, 0, 0).newest_metadata(), None);
    }

    #[test]
    fn levels_and_versions_grow_together_without_a_gap() {
        for pair in LEVELS.windows(2) {
            assert!(pair[0].version < pair[1].version);
            assert_eq!(pair[0].level + 1, pair[1].level);
        }
        assert_eq!(LEVELS[0].version, MetadataVersion::OLDEST);
        assert!(MetadataVersion::DYNAMIC_QUORUM.level().is_some());
    }

    #[test]
    fn there_is_no_way_back_over_a_change_of_form() {
        let version = |text: &str| MetadataVersion::of_user(text).unwrap();
        let rows = [
            ("4.2-IV1", "4.1-IV1", None),
            ("4.3-IV0", "4.2-IV1", Some("4.3-IV0")),
            ("4.2-IV1", "4.0-IV0", Some("4.0-IV1")),
            ("4.2-IV1", "3.3-IV3", Some("4.0-IV1")),
            ("4.1-IV0", "4.1-IV0", None),
        ];
        for (from, to, expected) in rows {
            let found = version(from).point_of_no_return(version(to));
            assert_eq!(found, expected.map(version), "{from} to {to}");
        }
    }
}
