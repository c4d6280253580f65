//! What is said of an edit, line by line.

use std::fmt;

use super::explain::{Growth, Line, Object, Plan, Restart, Setting};
use crate::quorum::plan::Removal;
use crate::words::{claims_named, count, list, nodes_named};

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(note) => write!(f, "refused: {} ({})", note.message, note.reason),
            Self::Blocked(why) => write!(f, "not yet: {why}"),
            Self::TakeBack(node) => write!(f, "keep broker {node}"),
            Self::MakeClaims(claims) => write!(f, "make {}", claims_named(claims)),
            Self::Grow(Growth { claim, from, to }) => {
                write!(f, "grow claim {claim} from {from} to {to}")
            }
            Self::Write(Object { name, exists: true }) => write!(f, "change {name}"),
            Self::Write(Object { name, exists: false }) => write!(f, "make {name}"),
            Self::Unclear(keys) => write!(
                f,
                "change {}; only Kafka can tell whether nodes have to be restarted for it",
                list(keys)
            ),
            Self::Migrate => f.write_str(
                "make the quorum dynamic, for good: raise kraft.version when every controller has caught \
                 up, then restart all nodes, one after another",
            ),
            Self::Metadata(to) => write!(f, "change the metadata version to {to}"),
            Self::Change(setting) => setting.fmt(f),
            Self::Restart(Restart { node, why }) => {
                write!(f, "restart node {node}: {}", why.join("; "))
            }
            Self::DeleteClaims(claims) => {
                write!(f, "delete {} and the data on it", claims_named(claims))
            }
            Self::KeepClaims(claims) => write!(f, "keep {} with its data", claims_named(claims)),
            Self::Start { pool, nodes } => write!(f, "start {} of {pool}", nodes_named(nodes)),
            Self::Roles { node, from, to } => write!(f, "restart node {node} as {to} (was {from})"),
            Self::AddVoter(id) => write!(f, "add controller {id} to the voters"),
            Self::RemoveVoter { node, why: Removal::Dead } => {
                write!(f, "remove controller {node}, which is gone or far behind, from the voters")
            }
            Self::RemoveVoter { node, why: Removal::DiskReplaced } => {
                write!(f, "remove the entry of controller {node} with its former directory id from the voters")
            }
            Self::RemoveVoter { node, why: Removal::NotDesired } => {
                write!(f, "remove controller {node} from the voters")
            }
            Self::Drain { node, partitions } => {
                write!(f, "move {} from broker {node} to others", count(*partitions, "partition"))
            }
            Self::Stop(node) => write!(f, "stop node {node}"),
            Self::Unregister(node) => write!(f, "unregister broker {node}"),
            Self::Fill(brokers) if brokers.len() == 1 => {
                write!(f, "move partitions to the new broker {}", list(brokers))
            }
            Self::Fill(brokers) => {
                write!(f, "move partitions to the new brokers {}", list(brokers))
            }
            Self::Refused { nodes, why } => write!(f, "refused for {}: {why}", nodes_named(nodes)),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "set {} to {value}", self.key)?,
            None => write!(f, "reset {} to its default", self.key)?,
        }
        match self.node {
            Some(node) => write!(f, " on node {node}, without a restart"),
            None => f.write_str(" on all nodes, without a restart"),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            return f.write_str("nothing would change\n");
        }
        for (index, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:>3}. {line}", index + 1)?;
        }
        Ok(())
    }
}
