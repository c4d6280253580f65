//! Identities of nodes, disks and clusters.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The id of a Kafka node (broker or controller). Never negative: Kafka's -1 for "no node" is an [`Option`]
/// here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct NodeId(i32);

impl NodeId {
    /// A node id, or `None` for a negative number.
    #[must_use]
    pub const fn new(id: i32) -> Option<Self> {
        if id < 0 { None } else { Some(Self(id)) }
    }

    /// The number, as Kafka uses it.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl TryFrom<i32> for NodeId {
    type Error = InvalidId;
    fn try_from(id: i32) -> Result<Self, InvalidId> {
        Self::new(id).ok_or_else(|| InvalidId { what: "a node id", text: id.to_string() })
    }
}

impl From<NodeId> for i32 {
    fn from(id: NodeId) -> Self {
        id.0
    }
}

impl FromStr for NodeId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId { what: "a node id", text: text.to_owned() };
        text.parse::<i32>().ok().and_then(Self::new).ok_or_else(invalid)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {what}")]
pub struct InvalidId {
    what: &'static str,
    text: String,
}

impl InvalidId {
    pub(crate) fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.to_owned() }
    }
}

/// Declares an id of 16 bytes, which Kafka writes as 22 characters of URL-safe base64. The zero id is none: Kafka uses it
/// for "unknown".
macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 16]);

        impl $name {
            /// An id from its bytes, or `None` for the zero id.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
                (bytes != [0; 16]).then_some(Self(bytes))
            }

            /// The 16 bytes, as on the wire.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::InvalidId;
            fn from_str(text: &str) -> Result<Self, $crate::InvalidId> {
                let bytes = $crate::ids::uuid_bytes(text).and_then(Self::from_bytes);
                bytes.ok_or_else(|| $crate::InvalidId::new($what, text))
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::InvalidId;
            fn try_from(text: String) -> Result<Self, $crate::InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(&$crate::ids::uuid_text(self.0))
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use uuid;

pub(crate) fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

pub(crate) fn uuid_text(bytes: [u8; 16]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

uuid! {
    /// The id of a log directory. A disk that was wiped has another one after it is formatted.
    ///
    /// Kafka writes it in `meta.properties` and in `--initial-controllers`. Every voter of a static quorum has the zero id.
    DirectoryId, "a directory id"
}

impl DirectoryId {
    /// Ids below this number are reserved by Kafka (unassigned, lost, migrating), so a generated id must not
    /// be one of them.
    const RESERVED: u128 = 100;

    /// A new id from 16 random bytes, or `None` if Kafka would not generate it: a reserved id, or one that
    /// starts with a dash and would be parsed as a command line option.
    #[must_use]
    pub fn generate(random: [u8; 16]) -> Option<Self> {
        let id = Self(random);
        let reserved = u128::from_be_bytes(random) < Self::RESERVED;
        (!reserved && !id.to_string().starts_with('-')).then_some(id)
    }
}

/// The id of a Kafka cluster, as `kafka-storage random-uuid` generates it and every log directory stores it.
/// Kafka compares it as text, so any non-empty text is valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterId(String);

impl ClusterId {
    /// A cluster id; an empty text is an error.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidId> {
        let id = id.into();
        if id.is_empty() {
            return Err(InvalidId { what: "a cluster id", text: id });
        }
        Ok(Self(id))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ClusterId {
    type Error = InvalidId;
    fn try_from(text: String) -> Result<Self, InvalidId> {
        Self::new(text)
    }
}

impl From<ClusterId> for String {
    fn from(id: ClusterId) -> Self {
        id.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ids_are_not_negative() {
        assert_eq!(NodeId::new(-1), None);
        assert_eq!(NodeId::new(0).map(NodeId::get), Some(0));
        assert!("-1".parse::<NodeId>().is_err());
        assert!("x".parse::<NodeId>().is_err());
        assert_eq!("2147483647".parse::<NodeId>().unwrap().get(), i32::MAX);
        assert_eq!("x".parse::<NodeId>().unwrap_err().to_string(), "\"x\" is not a node id");
    }

    #[test]
    fn directory_ids_are_written_as_kafka_writes_them() {
        // The id that a Kafka 4.3 voter showed for these bytes.
        let text = "U3fHvCoMVWiCVYa2ri_K5w";
        let id: DirectoryId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(id.to_bytes()[..2], [0x53, 0x77]);
        assert_eq!(DirectoryId::from_bytes(id.to_bytes()), Some(id));
    }

    #[test]
    fn the_zero_directory_id_is_no_id() {
        assert!("AAAAAAAAAAAAAAAAAAAAAA".parse::<DirectoryId>().is_err());
        assert_eq!(DirectoryId::from_bytes([0; 16]), None);
    }

    #[test]
    fn other_lengths_and_characters_are_no_directory_id() {
        for text in ["", "U3fH", "U3fHvCoMVWiCVYa2ri_K5wAA", "U3fHvCoMVWiCVYa2ri/K5w", "ü"] {
            assert!(text.parse::<DirectoryId>().is_err(), "{text}");
        }
    }

    #[test]
    fn generated_directory_ids_avoid_what_kafka_avoids() {
        let mut reserved = [0; 16];
        reserved[15] = 99;
        assert_eq!(DirectoryId::generate(reserved), None);
        reserved[15] = 100;
        assert!(DirectoryId::generate(reserved).is_some());
        // 0xf8 gives a leading '-' in URL-safe base64.
        let mut dash = [7; 16];
        dash[0] = 0xf8;
        assert_eq!(DirectoryId::generate(dash), None);
    }

    #[test]
    fn an_empty_cluster_id_is_no_id() {
        assert!(ClusterId::new("").is_err());
        assert_eq!(ClusterId::new("abc").unwrap().as_str(), "abc");
    }
}
