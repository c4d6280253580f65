//! What a node is for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The value of `process.roles`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Roles {
    /// Holds partitions of topics.
    Broker,
    /// Holds the metadata, or may come to.
    Controller,
    /// Both in one process.
    Combined,
}

impl Roles {
    /// Whether the node holds partitions of topics.
    #[must_use]
    pub const fn is_broker(self) -> bool {
        matches!(self, Self::Broker | Self::Combined)
    }

    /// Whether the node can be a voter.
    #[must_use]
    pub const fn is_controller(self) -> bool {
        matches!(self, Self::Controller | Self::Combined)
    }
}

/// A text that names no roles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is neither broker nor controller nor both")]
pub struct InvalidRoles(String);

impl FromStr for Roles {
    type Err = InvalidRoles;
    fn from_str(text: &str) -> Result<Self, InvalidRoles> {
        let (mut broker, mut controller) = (false, false);
        for word in text.split(',').map(str::trim) {
            let role = match word {
                "broker" => &mut broker,
                "controller" => &mut controller,
                _ => return Err(InvalidRoles(text.to_owned())),
            };
            // Kafka refuses a role that is named twice.
            if std::mem::replace(role, true) {
                return Err(InvalidRoles(text.to_owned()));
            }
        }
        Ok(match (broker, controller) {
            (true, true) => Self::Combined,
            (true, false) => Self::Broker,
            (false, _) => Self::Controller,
        })
    }
}

impl From<Roles> for String {
    fn from(roles: Roles) -> Self {
        roles.to_string()
    }
}

impl TryFrom<String> for Roles {
    type Error = InvalidRoles;

    fn try_from(text: String) -> Result<Self, InvalidRoles> {
        text.parse()
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Broker => "broker",
            Self::Controller => "controller",
            Self::Combined => "broker,controller",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_kafka_reads_them() {
        let rows = [
            ("broker", Some(Roles::Broker)),
            ("controller", Some(Roles::Controller)),
            ("broker,controller", Some(Roles::Combined)),
            ("controller , broker", Some(Roles::Combined)),
            ("", None),
            ("broker,", None),
            ("broker,broker", None),
            ("Broker", None),
            ("zookeeper", None),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
        assert_eq!(Roles::Combined.to_string().parse(), Ok(Roles::Combined));
    }
}
