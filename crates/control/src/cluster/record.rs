//! The record of a cluster: everything a decision needs that cannot be read from Kubernetes or Kafka.
//!
//! 1. The record is saved before any act that depends on it, and only over the version that was read.
//! 2. Within one major [`FormatVersion`] fields are added and never change their meaning. An operator that
//!    meets a newer major version stops and touches nothing; fields of a newer minor version are kept.
//! 3. The status of the resources is a readable copy. It is never read back, except to rebuild a lost record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use model::{DirectoryId, NodeId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use super::journal::{Journal, Unregistration};
use crate::conditions::Reason;
use crate::node::Roles;
use crate::quorum::{QuorumRecord, migrate};
use crate::rebalance::auto;
use crate::registration::metadata_version;
use crate::rolling::{account, memory};
use crate::scaling::leaving::Leaving;
use crate::scaling::roles;

/// The version of the record's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormatVersion {
    /// Raised when older operators would misread the record.
    pub major: u32,
    /// Raised when fields are added.
    pub minor: u32,
}

impl FormatVersion {
    /// The form that this operator writes. A record without a version is of major version 1.
    pub const CURRENT: Self = Self { major: 1, minor: 4 };

    /// Whether this operator can read a record of that form.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.major <= Self::CURRENT.major
    }
}

impl Default for FormatVersion {
    fn default() -> Self {
        Self { major: 1, minor: 0 }
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A text that is not a format version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a format version such as {version}", version = FormatVersion::CURRENT)]
pub struct InvalidFormatVersion(String);

impl FromStr for FormatVersion {
    type Err = InvalidFormatVersion;

    fn from_str(text: &str) -> Result<Self, InvalidFormatVersion> {
        let numbers = text.split_once('.').and_then(|(major, minor)| {
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        numbers.ok_or_else(|| InvalidFormatVersion(text.to_owned()))
    }
}

/// A Kafka node, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The pool that it belongs to.
    pub pool: String,
    /// Its roles.
    pub roles: Roles,
}

/// Everything that has to survive the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The id of the cluster in Kafka. Generated once.
    pub cluster_id: Option<String>,
    /// The mode of the quorum and its initial controllers.
    pub quorum: QuorumRecord,
    /// The nodes of each pool, with their roles.
    pub pools: BTreeMap<String, BTreeMap<NodeId, Roles>>,
    /// The storage with which the nodes of each pool were created, as it was written.
    pub storage: BTreeMap<String, String>,
    /// Whether the cluster has ever matched its spec.
    pub was_ready: bool,
    /// The voters of the last description of the quorum, with their directory ids.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub voters: BTreeMap<NodeId, DirectoryId>,
    /// The phase of the migration from a static to a dynamic quorum.
    #[serde(skip_serializing_if = "is_default")]
    pub quorum_migration: migrate::Phase,
    /// Brokers that are being removed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub leaving: BTreeMap<NodeId, Leaving>,
    /// Controllers that the quorum has released.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub released_controllers: BTreeSet<NodeId>,
    /// Controllers that are gone. Kafka keeps their registrations.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub former_controllers: BTreeSet<NodeId>,
    /// Brokers whose registration looked stale in the last pass.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub stale_registrations: BTreeSet<NodeId>,
    /// The metadata version that Kafka refused last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_metadata_version: Option<metadata_version::Refused>,
    /// The settings that each node was seen to run with, as a fingerprint.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub confirmed_settings: BTreeMap<NodeId, String>,
    /// The roller's memory.
    #[serde(skip_serializing_if = "is_default")]
    pub roll: memory::Memory,
    /// The report of the roll in progress. No decision depends on it, so one that cannot be read is dropped.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub roll_account: Option<account::Account>,
    /// Nodes that do not start, if nothing else keeps the cluster from being ready. A rebalance is not hindered by
    /// nodes that leave. Passes that decide nothing leave it as it is.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub stuck_nodes: BTreeSet<NodeId>,
    /// Warnings that an Event was published for and that last. One that this operator does not know is dropped.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", deserialize_with = "known")]
    pub noticed: BTreeSet<Reason>,
    /// The outcomes of acts that later decisions depend on.
    #[serde(skip_serializing_if = "Journal::is_empty")]
    pub journal: Journal,
    /// The outcomes of unregistrations, by broker.
    #[serde(skip_serializing_if = "Journal::is_empty")]
    pub unregistrations: Journal<Unregistration>,
    /// The state of automatic rebalancing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_rebalance: Option<auto::Recorded>,
}

impl Record {
    /// The recorded nodes, by id.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        let of_pool = |(pool, nodes): (&String, &BTreeMap<NodeId, Roles>)| {
            let node = |(id, roles): (&NodeId, &Roles)| Node {
                id: *id,
                pool: pool.clone(),
                roles: *roles,
            };
            nodes.iter().map(node).collect::<Vec<_>>()
        };
        let mut nodes: Vec<_> = self.pools.iter().flat_map(of_pool).collect();
        nodes.sort();
        nodes
    }

    /// The ids of the recorded nodes of a pool.
    #[must_use]
    pub fn ids(&self, pool: &str) -> BTreeSet<NodeId> {
        self.pools.get(pool).into_iter().flatten().map(|(id, _)| *id).collect()
    }

    /// The roles that the pod of a node has on the way from what is recorded to what is desired; `None` if it has
    /// no pod.
    #[must_use]
    pub fn roles_now(&self, node: &Node, desired: Option<Roles>) -> Option<Roles> {
        roles::now(&roles::Facts {
            desired,
            recorded: Some(node.roles),
            leaving: self.leaving.get(&node.id),
            released: self.released_controllers.contains(&node.id),
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a value that nothing depends on: `None` if it has another form.
fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read<T> {
        Known(T),
        Other(IgnoredAny),
    }
    Ok(match Option::<Read<T>>::deserialize(from)? {
        Some(Read::Known(value)) => Some(value),
        Some(Read::Other(_)) | None => None,
    })
}

/// Reads the reasons that are known.
fn known<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<Reason>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read {
        Known(Reason),
        Other(IgnoredAny),
    }
    let all = Vec::<Read>::deserialize(from)?.into_iter();
    Ok(all
        .filter_map(|one| match one {
            Read::Known(reason) => Some(reason),
            Read::Other(_) => None,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    #[test]
    fn format_versions_are_two_numbers() {
        let version = |major, minor| FormatVersion { major, minor };
        let rows = [
            ("1.0", Some(version(1, 0)), true),
            ("1.99", Some(version(1, 99)), true),
            ("2.0", Some(version(2, 0)), false),
            ("10.3", Some(version(10, 3)), false),
            ("1", None, false),
            ("1.0.0", None, false),
            ("", None, false),
            ("-1.0", None, false),
        ];
        for (text, expected, readable) in rows {
            let parsed = text.parse::<FormatVersion>().ok();
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.is_some_and(FormatVersion::is_readable), readable, "{text}");
        }
        assert!(FormatVersion::default().is_readable());
        assert_eq!(FormatVersion::CURRENT.to_string().parse(), Ok(FormatVersion::CURRENT));
    }

    /// Written by the operator before records had a version.
    const UNVERSIONED: &str = include_str!("../../testdata/record-unversioned.json");

    #[test]
    fn a_record_without_a_version_is_read_whole() {
        let record: Record = serde_json::from_str(UNVERSIONED).unwrap();
        assert_eq!(record.cluster_id.as_deref(), Some("5L6g3nShT-eMCtK--X86sw"));
        let roles: Vec<_> = record.nodes().iter().map(|n| (n.id.get(), n.roles)).collect();
        assert_eq!(
            roles,
            [(0, Roles::Broker), (1, Roles::Broker), (3, Roles::Controller), (4, Roles::Combined)]
        );
        assert_eq!(record.ids("controller"), [id(3)].into());
        assert_eq!(record.voters.len(), 1);
        assert_eq!(record.quorum_migration, migrate::Phase::Rolling);
        assert!(record.leaving.contains_key(&id(1)));
        assert_eq!(record.released_controllers, [id(4)].into());
        assert_eq!(record.former_controllers, [id(5)].into());
        assert_eq!(record.stale_registrations, [id(7)].into());
        assert!(record.refused_metadata_version.is_some());
        assert_eq!(record.confirmed_settings[&id(0)], "abc");
        assert!(record.roll.nodes.contains_key(&id(0)));
        assert!(record.roll_account.is_some());
        assert!(record.auto_rebalance.is_some());
        assert!(record.was_ready);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn who_was_seen_in_a_static_quorum_is_unknown_in_the_record_of_an_earlier_operator() {
        for ready in ["true", "false"] {
            let text = format!(r#"{{"quorum": {{"mode": "static"}}, "wasReady": {ready}}}"#);
            let record: Record = serde_json::from_str(&text).unwrap();
            assert_eq!(record.quorum.seen(id(3)), None, "{text}");
        }
    }

    #[test]
    fn a_report_of_another_form_is_dropped_and_a_fact_of_another_form_is_not() {
        let other = r#"{ "wasReady": true, "rollAccount": { "standing": "levitating" } }"#;
        let record: Record = serde_json::from_str(other).unwrap();
        assert!(record.was_ready && record.roll_account.is_none());
        let other = r#"{ "noticed": ["QuorumLevitates", { "a": 1 }, "UnregistrationFailed"] }"#;
        let record: Record = serde_json::from_str(other).unwrap();
        assert_eq!(record.noticed, [Reason::UnregistrationFailed].into());
        let other = r#"{ "quorumMigration": "levitating" }"#;
        assert!(serde_json::from_str::<Record>(other).is_err());
        let other = r#"{ "pools": { "broker": { "0": "librarian" } } }"#;
        assert!(serde_json::from_str::<Record>(other).is_err());
    }
}
