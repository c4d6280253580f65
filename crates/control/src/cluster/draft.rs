//! What the areas of a pass decide, area by area.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::act::{Act, Rule, What};
use super::record::Record;
use crate::certificates::authority::Signing;
use crate::conditions::{Note, Reason};
use crate::quorum::plan;
use crate::rebalance::auto;
use crate::registration::MetadataVersion;
use crate::rolling;
use crate::scaling::leaving;

/// How soon Kafka is asked again for a change of which no event tells.
pub const LOOK_AGAIN_MS: u64 = 5_000;

/// How a pass goes on after an area.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Flow {
    /// The area is done.
    #[default]
    Go,
    /// The area waits for something; the areas after it do not depend on it.
    Wait(Note),
    /// The area waits for something, and the areas after it depend on it.
    Stop(Note),
    /// A person has to act, and the areas after this one depend on it.
    Hold(Note),
    /// A person has to act; the areas after this one do not depend on it.
    Fault(Note),
}

impl Flow {
    /// Why the pass does not simply go on.
    #[must_use]
    pub const fn note(&self) -> Option<&Note> {
        match self {
            Self::Go => None,
            Self::Wait(note) | Self::Stop(note) | Self::Hold(note) | Self::Fault(note) => {
                Some(note)
            }
        }
    }
}

/// The decision of a pass so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The record; it is saved before any act.
    pub record: Record,
    /// The acts, in order.
    pub acts: Vec<Act>,
    /// What people should know.
    pub warnings: Vec<Note>,
    /// After how long the next pass should begin, at the latest, because no event announces what is awaited.
    pub look_again_ms: Option<u64>,
    /// What areas tell later ones. Each field has one writer.
    pub outputs: Outputs,
}

/// What areas tell later ones, and the report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outputs {
    /// Authorities: whether the cluster CA may sign.
    pub signing: Option<Signing>,
    /// Quorum: what its decision is based on.
    pub quorum: Option<plan::Facts>,
    /// Quorum: whether every controller votes with the disk that it has, and no voter changes.
    pub quorum_settled: Option<bool>,
    /// Quorum: nodes that have to be restarted before voters go.
    pub outdated_bootstrap: BTreeSet<NodeId>,
    /// Roll: what its decision is based on, and the decision.
    pub roll: Option<Arc<(rolling::facts::Facts, rolling::pass::Decision)>>,
    /// Scale-in: what was decided about nodes that leave.
    pub leaving: Option<leaving::Pass>,
    /// Registration: the registered brokers that are not asked for and have no pod; `None` if that is unknown.
    pub stale_brokers: Option<BTreeSet<NodeId>>,
    /// Registration: the metadata version of the cluster.
    pub metadata_version: Option<MetadataVersion>,
    /// Rebalance: what was decided; the status shows it.
    pub auto_rebalance: Option<auto::Decision>,
    /// Rebalance: brokers that must not be stopped, because moves concern them; `None` if that is unknown.
    pub held: Option<BTreeSet<NodeId>>,
}

impl Draft {
    /// A draft with this record and nothing decided.
    #[must_use]
    pub fn new(record: Record) -> Self {
        Self { record, ..Self::default() }
    }

    /// Asks for an act.
    pub fn act(&mut self, what: What, rule: Rule) {
        self.acts.push(Act::new(what, rule));
    }

    /// Asks for another pass after at most this time. The earliest that an area asks for holds.
    pub fn look_again(&mut self, after_ms: u64) {
        self.look_again_ms =
            Some(self.look_again_ms.map_or(after_ms, |before| before.min(after_ms)));
    }

    /// Adds a warning.
    pub fn warn(&mut self, reason: Reason, message: impl Into<String>) {
        self.warnings.push(Note::new(reason, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_next_pass_wins() {
        let mut draft = Draft::default();
        for (after_ms, expected) in [(5_000, 5_000), (9_000, 5_000), (500, 500), (5_000, 500)] {
            draft.look_again(after_ms);
            assert_eq!(draft.look_again_ms, Some(expected), "{after_ms}");
        }
    }
}
