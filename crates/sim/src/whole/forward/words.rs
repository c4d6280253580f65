//! The lines of a plan in words.

use std::collections::BTreeSet;
use std::fmt;

use control::rolling::reasons;
use control::words::{claims_named, count, list, nodes_named};
use model::NodeId;

use super::lines::{Batch, Removal, Step};

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates(nodes) => write!(f, "issue certificates for {}", nodes_named(nodes)),
            Self::MakeClaims(claims) => write!(f, "create {}", claims_named(claims)),
            Self::Grow { claim, from, to } => write!(f, "grow claim {claim} from {from} to {to}"),
            Self::Write { object, exists: true } => write!(f, "change {object}"),
            Self::Write { object, exists: false } => write!(f, "create {object}"),
            Self::Start { pool, nodes } => write!(f, "start {} of {pool}", nodes_named(nodes)),
            Self::Migrate => {
                f.write_str("raise kraft.version: the quorum becomes dynamic, for good")
            }
            Self::AddVoter(id) => write!(f, "add controller {id} to the voters"),
            Self::RemoveVoter { node, why: Removal::Unwanted } => {
                write!(f, "remove controller {node} from the voters")
            }
            Self::RemoveVoter { node, why: Removal::Down } => {
                write!(f, "remove controller {node}, which does not run, from the voters")
            }
            Self::RemoveVoter { node, why: Removal::DiskReplaced } => {
                write!(f, "remove the stale voter entry of controller {node} (disk replaced)")
            }
            Self::Keep(node) => write!(f, "keep broker {node}, which was to be removed"),
            Self::Set { key, value, node } => {
                match value {
                    Some(value) => write!(f, "set {key} to {value}")?,
                    None => write!(f, "reset {key} to its default")?,
                }
                match node {
                    Some(node) => write!(f, " on node {node}, without a restart"),
                    None => f.write_str(" on all nodes, without a restart"),
                }
            }
            Self::Restart(batch) => batch.fmt(f),
            Self::Cordon(id) => write!(f, "cordon broker {id}"),
            Self::Uncordon(id) => write!(f, "uncordon broker {id}"),
            Self::Move { drains, brokers, partitions, bytes } => {
                let what = count(*partitions, "partition");
                let size = match bytes {
                    Some(bytes) => format!(" ({})", size(*bytes)),
                    None => String::new(),
                };
                let brokers = match brokers.len() {
                    1 => format!("broker {}", list(brokers)),
                    _ => format!("brokers {}", list(brokers)),
                };
                match drains {
                    true => write!(f, "move {what}{size} from {brokers} to others"),
                    false => write!(f, "move about {what}{size} to the new {brokers}"),
                }
            }
            Self::Stop(id) => write!(f, "stop node {id}"),
            Self::Unregister(id) => write!(f, "unregister broker {id}"),
            Self::DeleteClaims(claims) => {
                write!(f, "delete {} and the data on it", claims_named(claims))
            }
            Self::KeepClaims(claims) => write!(f, "keep {} with its data", claims_named(claims)),
            Self::Delete(object) => write!(f, "delete {object}"),
            Self::Metadata(to) => write!(f, "change the metadata version to {to}"),
            Self::Refused { nodes, why } => write!(f, "refused for {}: {why}", nodes_named(nodes)),
            Self::Invalid(note) => write!(f, "refused: {} ({})", note.message, note.reason),
            Self::Blocked(why) => write!(f, "not yet: {why}"),
        }
    }
}

impl Step {
    /// Its kind in one word, for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Certificates(_) => "issueCertificates",
            Self::MakeClaims(_) => "createClaims",
            Self::Grow { .. } => "growClaim",
            Self::Write { .. } => "write",
            Self::Start { .. } => "start",
            Self::Migrate => "migrateQuorum",
            Self::AddVoter(_) => "addVoter",
            Self::RemoveVoter { .. } => "removeVoter",
            Self::Set { .. } => "setting",
            Self::Restart(_) => "restart",
            Self::Cordon(_) => "cordon",
            Self::Uncordon(_) => "uncordon",
            Self::Move { drains: true, .. } => "drain",
            Self::Move { drains: false, .. } => "fill",
            Self::Stop(_) => "stop",
            Self::Unregister(_) => "unregister",
            Self::DeleteClaims(_) => "deleteClaims",
            Self::KeepClaims(_) => "keepClaims",
            Self::Keep(_) => "keep",
            Self::Delete(_) => "delete",
            Self::Metadata(_) => "metadataVersion",
            Self::Refused { .. } => "refused",
            Self::Invalid(_) => "invalid",
            Self::Blocked(_) => "blocked",
        }
    }

    /// Whether it says that something is not carried out.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Invalid(_) | Self::Blocked(_))
    }

    /// The nodes that it is about.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        match self {
            Self::Certificates(nodes)
            | Self::Start { nodes, .. }
            | Self::Move { brokers: nodes, .. }
            | Self::Refused { nodes, .. } => nodes.clone(),
            Self::Restart(batch) => batch.nodes.keys().copied().collect(),
            Self::Set { node, .. } => node.iter().copied().collect(),
            Self::AddVoter(node)
            | Self::RemoveVoter { node, .. }
            | Self::Cordon(node)
            | Self::Uncordon(node)
            | Self::Stop(node)
            | Self::Unregister(node)
            | Self::Keep(node) => [*node].into(),
            Self::MakeClaims(_)
            | Self::Grow { .. }
            | Self::Write { .. }
            | Self::Migrate
            | Self::DeleteClaims(_)
            | Self::KeepClaims(_)
            | Self::Delete(_)
            | Self::Metadata(_)
            | Self::Invalid(_)
            | Self::Blocked(_) => BTreeSet::new(),
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut why: Vec<&reasons::Reason> = self.nodes.values().flatten().collect();
        why.sort_unstable();
        why.dedup();
        let why: Vec<String> = why.into_iter().map(ToString::to_string).collect();
        f.write_str(&self.text(&why))
    }
}

impl Batch {
    /// The batch in a line, with these reasons.
    #[must_use]
    pub fn text(&self, why: &[String]) -> String {
        let nodes: BTreeSet<NodeId> = self.nodes.keys().copied().collect();
        let mut text = format!("restart {}", nodes_named(&nodes));
        let roles: BTreeSet<_> = self.roles.values().collect();
        if let (Some((from, to)), 1, true) =
            (roles.first(), roles.len(), self.roles.len() == nodes.len())
        {
            text.push_str(&format!(" as {to} (was {from})"));
        }
        if !why.is_empty() {
            text.push_str(&format!(": {}", why.join("; ")));
        }
        if let Some((partition, in_sync, min_isr)) = self.left.first() {
            text.push_str(&format!(
                " [certificate: {partition} keeps {in_sync} in sync, {min_isr} required]"
            ));
        }
        if self.offline > 0 {
            let partitions = count(self.offline, "partition");
            text.push_str(&format!(
                " [{partitions} without a margin cannot be written to meanwhile]"
            ));
        }
        text
    }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = bytes;
    while value >= 10_240 && unit + 1 < UNITS.len() {
        value /= 1_024;
        unit += 1;
    }
    format!("{value} {}", UNITS.get(unit).copied().unwrap_or("B"))
}
