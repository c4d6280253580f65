//! What people are told of a roll, in the form in which it is stored.
//!
//! The operator keeps it in its record of the cluster (the ConfigMap `<cluster>-gregor`, entry `record.json`,
//! field `PART`), and `gregor status` and `gregor why` read it there. Nothing decides by it.
//!
//! 1. It changes only when there is something else to tell. What depends on the time, such as the end that is
//!    foretold, is computed when it is read ([`Account::estimate`]).
//! 2. Nodes that wait for the same thing are told together: a thousand brokers that wait for one are one entry.
//! 3. There is none where there is nothing to tell.

use std::fmt;

use model::{NodeId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::batch::Certificate;
use super::estimate::{Estimate, estimate};
use super::memory::RollMemory;
use super::pass::{Decision, Standing};
use super::reasons::{self, Reason};
use super::why::{Hold, Why, list};

/// How many entries are put into one sentence for a condition. Whoever wants all asks `gregor why`.
const SENTENCES_MAX: usize = 8;
/// How many of the partitions that go offline are named.
const OFFLINE_SHOWN: usize = 10;

/// What there is to tell of a roll.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// How it stands.
    pub standing: Standing,
    /// When it began, how many restarts were begun, and how long the batches took. None if nodes are only
    /// waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roll: Option<RollMemory>,
    /// The nodes that are being restarted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub under_way: Vec<NodeId>,
    /// The nodes that are still to be restarted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<NodeId>,
    /// The nodes that were given up. They are tried on, but not waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<NodeId>,
    /// The nodes that stop everything else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stopping: Vec<NodeId>,
    /// What the batch under way leaves of the partitions that it touches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<Margin>,
    /// What nodes wait for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
}

/// Nodes that wait for the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// Why they are to be restarted. Empty if they are only being looked after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// What they wait for.
    pub hold: Hold,
    /// Whether they were given up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

/// What a batch leaves of the partitions that it touches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Margin {
    /// The partitions with the least to spare.
    pub tightest: Vec<Left>,
    /// Some of those that go offline for writers whatever one does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offline: Vec<TopicPartition>,
    /// How many of those there are.
    pub offline_count: usize,
}

/// What is left of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// The partition.
    pub partition: TopicPartition,
    /// How many replicas stay in sync.
    pub in_sync: usize,
    /// How many must.
    pub min_isr: usize,
}

impl Account {
    /// What there is to tell after a decision, and what there was before it. None if there is nothing.
    #[must_use]
    pub fn of(decision: &Decision, before: Option<&Self>) -> Option<Self> {
        let progress = &decision.progress;
        if decision.standing == Standing::Settled && decision.why.is_empty() {
            return None;
        }
        // A certificate is issued when a batch begins, and is of interest until it has ended.
        let margin = match progress.certificate == Certificate::default() {
            false => Some(Margin::of(&progress.certificate)),
            true if progress.under_way.is_empty() => None,
            true => before.and_then(|before| before.margin.clone()),
        };
        Some(Self {
            standing: decision.standing,
            roll: decision.memory.roll.clone(),
            under_way: progress.under_way.clone(),
            left: progress.left.clone(),
            given_up: progress.given_up.clone(),
            stopping: progress.stopping.clone(),
            margin,
            waits: waits(&decision.why),
        })
    }

    /// When the roll will have ended. None as long as nobody knows how long a batch takes.
    #[must_use]
    pub fn estimate(&self, now_ms: u64) -> Option<Estimate> {
        estimate(self.roll.as_ref()?, self.left.len(), now_ms)
    }

    /// How many restarts have ended.
    #[must_use]
    pub fn restarted(&self) -> usize {
        let begun = self.roll.as_ref().map_or(0, |roll| roll.restarts);
        usize::try_from(begun).unwrap_or(usize::MAX).saturating_sub(self.under_way.len())
    }
}

impl Margin {
    fn of(certificate: &Certificate) -> Self {
        let left = certificate.left.iter().map(|(partition, in_sync, min_isr)| Left {
            partition: partition.clone(),
            in_sync: *in_sync,
            min_isr: *min_isr,
        });
        Self {
            tightest: left.collect(),
            offline: certificate.offline.iter().take(OFFLINE_SHOWN).cloned().collect(),
            offline_count: certificate.offline.len(),
        }
    }
}

/// Those who wait for the same thing together, in the order in which they are first named.
fn waits(why: &[Why]) -> Vec<Wait> {
    let mut waits: Vec<Wait> = Vec::new();
    for why in why {
        let same = |wait: &&mut Wait| {
            (&wait.reasons, &wait.hold, wait.given_up) == (&why.reasons, &why.hold, why.given_up)
        };
        match waits.iter_mut().find(same) {
            Some(wait) => wait.nodes.push(why.node),
            None => waits.push(Wait {
                nodes: vec![why.node],
                reasons: why.reasons.clone(),
                hold: why.hold.clone(),
                given_up: why.given_up,
            }),
        }
    }
    waits
}

/// As a condition says it: how far, and what is waited for.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.roll.is_some() {
            let (done, now, left) = (self.restarted(), self.under_way.len(), self.left.len());
            write!(f, "{done} restarted, {now} under way, {left} to come")?;
        }
        for (place, wait) in self.waits.iter().take(SENTENCES_MAX).enumerate() {
            let between = if place == 0 && self.roll.is_none() { "" } else { "; " };
            write!(f, "{between}{wait}")?;
        }
        match self.waits.len().checked_sub(SENTENCES_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "; and {more} more, which gregor why lists"),
        }
    }
}

impl Wait {
    /// The nodes that wait, and why they are to be restarted.
    #[must_use]
    pub fn about(&self) -> String {
        let nodes = list(&self.nodes);
        match self.reasons.is_empty() {
            true => nodes,
            false => format!("{nodes} ({})", reasons::list(&self.reasons)),
        }
    }

    /// What they wait for.
    #[must_use]
    pub fn awaited(&self) -> String {
        let tried = if self.given_up { "; given up, tried on" } else { "" };
        format!("{}{tried}", self.hold)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about(), self.awaited())
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
