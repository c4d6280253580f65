//! What there is to do about each node in a pass: reasons to restart it, settings to change while it runs.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use super::config::{Change, Diff};
use super::facts::{Contact, NodeFacts, Pod};
use super::memory::{Ailment, NodeMemory, UpdateMemory};
use super::node::Phase;
use super::pass::{Action, Pass};
use super::reasons::Reason;
use super::stuck;
use super::why::Hold;

impl Pass<'_> {
    /// Remembers which pods were there when the restart of a whole pool was asked for.
    pub(super) fn remember_asked(&mut self) {
        let annotated: BTreeSet<&String> =
            self.facts.nodes.iter().filter(|node| node.set_annotated).map(|n| &n.pool).collect();
        self.memory.asked.retain(|pool, _| annotated.contains(pool));
        for pool in annotated {
            let nodes = || self.facts.nodes.iter().filter(|node| node.pool == *pool);
            // Unknown is not absent: a pod that is not seen now would be left out.
            let known = nodes().all(|node| node.pod != Pod::Unknown);
            if known && !self.memory.asked.contains_key(pool) {
                let pods =
                    nodes().filter_map(|n| Some((n.node, n.pod.uid()?.to_owned()))).collect();
                self.memory.asked.insert(pool.clone(), pods);
            }
        }
    }

    /// Takes the annotation off the sets all of whose pods have been restarted.
    pub(super) fn clear_asked(&self) -> Vec<Action> {
        let done = |(pool, pods): &(&String, &BTreeMap<NodeId, String>)| {
            let nodes = self.facts.nodes.iter().filter(|node| node.pool == **pool);
            let left = |node: &NodeFacts| {
                let asked = pods.get(&node.node).map(String::as_str);
                node.pod == Pod::Unknown || (asked.is_some() && asked == node.pod.uid())
            };
            !nodes.into_iter().any(left)
        };
        let done = self.memory.asked.iter().filter(done);
        done.map(|(pool, _)| Action::ClearManual { pool: pool.clone() }).collect()
    }

    /// Finds why each node is to be restarted.
    pub(super) fn find_work(&mut self) {
        for node in &self.facts.nodes {
            self.forget_cured(node);
            let memory = self.of(node.node);
            let reasons = self.reasons(node, &memory);
            if !reasons.is_empty() {
                self.work.insert(node.node, reasons);
            } else if memory.attempts > 0 || memory.given_up {
                self.of_mut(node.node).forget_attempts();
            }
        }
    }

    /// Forgets what a restart was tried against, where it is cured.
    fn forget_cured(&mut self, node: &NodeFacts) {
        let mut memory = self.of(node.node);
        let serves = memory.phase == Phase::Serving && node.pod.is_ready();
        match memory.tried {
            Some(Ailment::Unready) if serves => memory.tried = None,
            Some(Ailment::Unresponsive) if serves && node.contact == Contact::Answers => {
                memory.tried = None;
            }
            Some(Ailment::Unready | Ailment::Unresponsive) | None => {}
        }
        if let Some(diff) = &node.config {
            if !diff.has_updates() {
                memory.update = None;
            }
            if !diff.has_updates() && diff.restart.is_empty() && serves {
                memory.config_tried = None;
            }
        }
        if memory != self.of(node.node) {
            *self.of_mut(node.node) = memory;
        }
    }

    fn reasons(&self, node: &NodeFacts, memory: &NodeMemory) -> Vec<Reason> {
        // The pod of a restart under way is not looked at: it is gone, or as good as.
        if memory.phase == Phase::Restarting {
            return memory.reasons.clone();
        }
        // Where there is no pod, or one that is being deleted, there is nothing to delete.
        if node.pod == Pod::Absent || node.pod.is_deleting() {
            return Vec::new();
        }
        let mut reasons = node.reasons.clone();
        match memory.phase {
            Phase::Stuck | Phase::Late => {}
            Phase::Serving
            | Phase::Restarting
            | Phase::Awaited
            | Phase::Recovering
            | Phase::Healing
            | Phase::Electing => {
                reasons.remove(&Reason::PodHasOldSettings);
            }
        }
        let asked = self.memory.asked.get(&node.pool).and_then(|pods| pods.get(&node.node));
        if asked.is_some() && asked.map(String::as_str) == node.pod.uid() {
            reasons.insert(Reason::ManualRollingUpdate);
        }
        if let Some(diff) = &node.config
            && let Some((keys, digest)) = self.settings_to_restart_for(diff, memory)
            && memory.config_tried != Some(digest)
        {
            reasons.insert(Reason::ConfigChangeRequiresRestart { keys });
        }
        match memory.phase {
            Phase::Stuck if stuck::is_worth_restart(&reasons) => {
                reasons.insert(Reason::PodStuck);
            }
            // What we restarted and does not come up is not restarted again for that.
            Phase::Late if !memory.ours && memory.tried.is_none() => {
                reasons.insert(Reason::PodUnready);
            }
            Phase::Serving if memory.tried != Some(Ailment::Unresponsive) => match node.contact {
                Contact::Fails | Contact::RefusesCertificate => {
                    reasons.insert(Reason::PodUnresponsive);
                }
                Contact::Unknown | Contact::Answers => {}
            },
            Phase::Serving
            | Phase::Restarting
            | Phase::Awaited
            | Phase::Recovering
            | Phase::Stuck
            | Phase::Late
            | Phase::Healing
            | Phase::Electing => {}
        }
        reasons.into_iter().collect()
    }

    /// The settings that a node has to be restarted for: those that only a restart changes, or those
    /// that it did not take while it ran.
    pub(super) fn settings_to_restart_for(
        &self,
        diff: &Diff,
        memory: &NodeMemory,
    ) -> Option<(Vec<String>, u64)> {
        if !diff.restart.is_empty() {
            return Some((diff.restart_keys(), diff.restart_digest()));
        }
        let digest = diff.update_digest();
        let spent = |update: &UpdateMemory| {
            let all = update.attempts >= self.settings.update_attempts_max;
            update.digest == digest && all && self.now_ms >= update.next_ms
        };
        let spent = diff.has_updates() && memory.update.as_ref().is_some_and(spent);
        spent.then(|| (diff.update_keys(), digest))
    }

    /// Changes settings of nodes that run and need no restart.
    pub(super) fn update_settings(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut on_cluster: BTreeMap<String, Change> = BTreeMap::new();
        if !self.stopping().is_empty() {
            return actions;
        }
        for node in &self.facts.nodes {
            let Some(diff) = node.config.as_ref().filter(|diff| diff.has_updates()) else {
                continue;
            };
            let serves = self.phase(node.node) == Phase::Serving && node.pod.is_ready();
            if !serves || self.work.contains_key(&node.node) {
                continue;
            }
            if !self.try_update(node.node, diff) {
                continue;
            }
            for change in &diff.on_cluster {
                on_cluster.entry(change.key().to_owned()).or_insert_with(|| change.clone());
            }
            if !diff.on_node.is_empty() {
                let changes = diff.on_node.clone();
                actions.push(Action::UpdateNode { node: node.node, changes });
            }
        }
        if !on_cluster.is_empty() {
            let changes = on_cluster.into_values().collect();
            actions.push(Action::UpdateCluster { changes });
        }
        actions
    }

    /// Whether a change of settings is to be made now. An attempt is remembered before it is made and lasts until
    /// it should have settled: it is made again as long as it is not seen, as nobody knows whether whoever
    /// remembered it has lived to make it.
    fn try_update(&mut self, node: NodeId, diff: &Diff) -> bool {
        let (now_ms, settle_ms) = (self.now_ms, self.settings.update_settle_ms);
        let attempts_max = self.settings.update_attempts_max;
        let digest = diff.update_digest();
        let memory = self.of_mut(node);
        let update = memory.update.take_if(|update| update.digest == digest);
        let mut update = update.unwrap_or(UpdateMemory { digest, attempts: 0, next_ms: now_ms });
        let due = now_ms >= update.next_ms && update.attempts < attempts_max;
        if due {
            update.attempts += 1;
            update.next_ms = now_ms.saturating_add(settle_ms);
        }
        let lasts = update.attempts > 0 && now_ms < update.next_ms;
        memory.update = Some(update);
        due || lasts
    }

    /// Counts the attempts of the nodes that are held back for their own sake.
    pub(super) fn count_attempts(&mut self) {
        let (now_ms, settings) = (self.now_ms, self.settings);
        let held: Vec<(NodeId, u64)> = self
            .holds
            .iter()
            .filter(|(node, hold)| self.work.contains_key(node) && hold.is_attempt())
            .map(|(node, hold)| (*node, patience_ms(hold, settings)))
            .collect();
        for (node, patience_ms) in held {
            let memory = self.of_mut(node);
            let held_ms = *memory.held_ms.get_or_insert(now_ms);
            let due = memory.backoff_until_ms.is_none_or(|until_ms| now_ms >= until_ms);
            // Those that were all made are not counted on: it would be a write for nothing every time.
            if due && memory.attempts < settings.attempts_max {
                memory.attempts += 1;
                let backoff_ms = settings.backoff_ms(memory.attempts);
                memory.backoff_until_ms = Some(now_ms.saturating_add(backoff_ms));
            }
            let patient = now_ms.saturating_sub(held_ms) < patience_ms;
            memory.given_up |= memory.attempts >= settings.attempts_max && !patient;
        }
    }
}

/// How long a node is held back at least before it is given up, however often it was tried.
const fn patience_ms(hold: &Hold, settings: &super::facts::Settings) -> u64 {
    match hold {
        // Replicas and voters take their time; a fixed number of attempts would be burnt by then.
        Hold::MinIsr { .. }
        | Hold::LastCopy { .. }
        | Hold::PartitionsUnknown
        | Hold::CopiesUnknown
        | Hold::QuorumUnsettled => settings.heal_timeout_ms,
        Hold::LogRecovery { .. } => settings.operation_timeout_ms,
        Hold::UnderWay { .. }
        | Hold::NotReady
        | Hold::Terminating
        | Hold::Stuck { .. }
        | Hold::NoPod
        | Hold::DidNotHelp
        | Hold::StateUnknown
        | Hold::Unreachable
        | Hold::QuorumUnknown
        | Hold::Quorum(_)
        | Hold::MetadataLoss
        | Hold::ActiveControllerLast { .. }
        | Hold::Others { .. }
        | Hold::OthersNotReady { .. }
        | Hold::ControllersFirst { .. }
        | Hold::StoppedBy { .. }
        | Hold::PodsUnknown { .. }
        | Hold::NextBatch
        | Hold::SettingsNotTaken { .. } => 0,
    }
}
