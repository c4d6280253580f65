//! What a pass records before it acts, and the next one reads.
//!
//! A node that is as it should be has no entry, so that nothing is written when nothing happens.

use std::collections::BTreeMap;

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::node::Phase;
use super::reasons::Reason;

/// What the roller remembers of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// The nodes of which there is something to remember.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<NodeId, NodeMemory>,
    /// The pods that were there when a restart of a whole pool was asked for, by pool. Those are
    /// restarted; the pods that follow them are not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, BTreeMap<NodeId, String>>,
    /// The roll that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roll: Option<RollMemory>,
}

/// What the roller remembers of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMemory {
    /// Where it is.
    pub phase: Phase,
    /// Since when.
    pub since_ms: u64,
    /// Which pod this is about: the one to be deleted, or the one that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Since when that pod has been waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaited_ms: Option<u64>,
    /// Since when that pod is seen to be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleting_ms: Option<u64>,
    /// Since when it cannot be asked whether it still recovers its logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// Whether we restarted it, and have not seen it well since.
    #[serde(skip_serializing_if = "is_false")]
    pub ours: bool,
    /// Why it was restarted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Whether it was restarted although nobody could tell whether that is safe.
    #[serde(skip_serializing_if = "is_false")]
    pub forced: bool,
    /// How often it was held back.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Since when it is held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// When the next attempt counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until_ms: Option<u64>,
    /// Whether it was given up.
    #[serde(skip_serializing_if = "is_false")]
    pub given_up: bool,
    /// When it was last restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted_ms: Option<u64>,
    /// The ailment that a restart was already tried against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Ailment>,
    /// A digest of the settings that it was last restarted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_tried: Option<u64>,
    /// The change of settings that is being tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateMemory>,
}

/// What a node can have that a restart may cure, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum Ailment {
    /// It was not ready.
    Unready,
    /// It did not answer.
    Unresponsive,
}

/// A change of settings that is being tried on a running node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateMemory {
    /// A digest of the change.
    pub digest: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next.
    pub next_ms: u64,
}

/// What the roller remembers of a roll, to tell how long it will take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollMemory {
    /// When it began.
    pub started_ms: u64,
    /// How many restarts have been begun.
    pub restarts: u32,
    /// The last batches that ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<BatchMemory>,
    /// The batch under way: when it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_started_ms: Option<u64>,
    /// And of how many nodes it is.
    #[serde(skip_serializing_if = "is_zero")]
    pub batch_nodes: u32,
}

/// A batch that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchMemory {
    /// How many nodes it had.
    pub nodes: u32,
    /// How long it took, until all was well again.
    pub took_ms: u64,
}

impl NodeMemory {
    /// Whether there is nothing to remember.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let quiet = self.phase == Phase::Serving && !self.ours;
        let untried = self.tried.is_none() && self.config_tried.is_none() && self.update.is_none();
        quiet && untried && self.attempts == 0 && !self.given_up
    }

    /// Forgets that it was held back.
    pub(super) fn forget_attempts(&mut self) {
        self.attempts = 0;
        self.held_ms = None;
        self.backoff_until_ms = None;
        self.given_up = false;
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}
