//! How much organisations and users may have, and for how long it is kept who asked for what.

use fleet_control::Quota;
use serde::{Deserialize, Serialize};

/// How much organisations and users may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// An organisation.
    pub organisation: Most,
    /// Each user of an organisation.
    pub user: Most,
}

/// The most that somebody may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Most {
    /// Kafkas.
    pub kafkas: u64,
    /// Connections of all of them.
    pub connections: u64,
    /// Partitions of all of them.
    pub partitions: u64,
}

impl From<Most> for Quota {
    fn from(most: Most) -> Self {
        let Most { kafkas, connections, partitions } = most;
        Self { kafkas, connections, partitions }
    }
}

/// What is kept of who asked for what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// For how many days.
    pub days: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        // Ten Kafkas of standard.x1 for an organisation, and half as many for each of its users.
        Self {
            organisation: Most { kafkas: 10, connections: 90_000, partitions: 15_000 },
            user: Most { kafkas: 5, connections: 45_000, partitions: 7_500 },
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self { days: 400 }
    }
}
