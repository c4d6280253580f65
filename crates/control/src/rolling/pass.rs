//! One pass of the roller: what is known goes in; what to remember, what to do and what is waited for
//! come out.
//!
//! 1. What is remembered is recorded before anything is done, and every act is one of the duties of what
//!    is remembered: a crash in between only repeats it.
//! 2. No act, first or repeated, without the checks having held on the facts of this very pass.
//! 3. At most one batch is under way. Controllers and combined nodes go one by one.
//! 4. What is not known allows nothing. Two things go on without knowing: a node that serves nothing (its pod cannot
//!    start, its broker has not begun to serve, or its JVM hangs and Kafka has lost sight of it) takes nothing along; and
//!    a node that refuses our certificate, which nobody can ask anything before it has been restarted, is restarted
//!    on the last attempt. Neither holds for a node whose volumes are deleted with its pod: it may have what no other
//!    node has.
//! 5. A node that cannot start, or was restarted and does not come up, stops the restarts of all nodes that serve: they
//!    might go the same way. One that serves nothing has nothing to lose. A node that was restarted because it was not
//!    ready says nothing of the others: it is given up, and they go on.
//! 6. A node is restarted once because it is unready, once because it does not answer, and once for the
//!    same settings. What that did not cure is left to people.
//! 7. A controller that takes the metadata of the cluster along is restarted only if a person has accepted that, whatever
//!    is the matter with it.
//! 8. A pod that is being deleted is not deleted again. If it does not go, the roll counts as failed, and the other
//!    nodes are restarted as far as they can be without it.
//!
//! The order, triggers and conditions are those of Strimzi's proposal 060, also where its code differs:
//! brokers are still tried when controllers were given up, and an unready node is restarted for that.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::availability::{self, ByBroker, PartitionFacts};
use super::batch::Certificate;
use super::config::Change;
use super::estimate::{Estimate, estimate};
use super::facts::{Facts, NodeFacts, Pod, Recovery, Settings};
use super::memory::{Memory, NodeMemory, RollMemory};
use super::node::{self, Duty, Event, Phase};
use super::reasons::Reason;
use super::why::{Hold, Why};
use super::{quorum, stuck};

/// What a pass has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// To be recorded before anything is done.
    pub memory: Memory,
    /// To be done then, in this order. Each is safe to repeat.
    pub actions: Vec<Action>,
    /// How the roll stands.
    pub standing: Standing,
    /// How far it is.
    pub progress: Progress,
    /// Each node that something is to be done about, and what it waits for.
    pub why: Vec<Why>,
    /// When to look again, if nothing happens before. None if there is nothing to look for.
    pub wait_ms: Option<u64>,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Delete the pod of a node, if it still is the one with this uid, with its grace period.
    Restart {
        /// The node.
        node: NodeId,
        /// Its pod.
        uid: String,
        /// Why.
        reasons: Vec<Reason>,
    },
    /// Change settings of a running node.
    UpdateNode {
        /// The node.
        node: NodeId,
        /// What to change.
        changes: Vec<Change>,
    },
    /// Change settings of all nodes while they run.
    UpdateCluster {
        /// What to change.
        changes: Vec<Change>,
    },
    /// Have the preferred leaders elected where these brokers are preferred.
    ElectPreferred {
        /// The brokers.
        brokers: Vec<NodeId>,
    },
    /// Take the annotation off the pod set of a pool: what it asked for has been done.
    ClearManual {
        /// The pool.
        pool: String,
    },
}

/// How the roll stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Standing {
    /// Nothing is to be restarted.
    #[default]
    Settled,
    /// A batch is under way.
    Rolling,
    /// Something is to be restarted, but not now.
    Waiting,
    /// Some nodes were given up. What else there is to do is done nevertheless.
    Failed,
    /// A node does not come up, and stops everything else.
    Stopped,
}

/// How far the roll is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// When it began.
    pub started_ms: Option<u64>,
    /// How many restarts were begun.
    pub restarts: u32,
    /// The nodes that are being restarted.
    pub under_way: Vec<NodeId>,
    /// The nodes that are still to be restarted.
    pub left: Vec<NodeId>,
    /// The nodes that were given up.
    pub given_up: Vec<NodeId>,
    /// The nodes that stop everything else.
    pub stopping: Vec<NodeId>,
    /// What the batch that begins now leaves of the partitions it touches: the tightest ten, and all
    /// that go offline whatever one does.
    pub certificate: Certificate,
    /// When the roll will have ended.
    pub estimate: Option<Estimate>,
}

/// What the shell has to ask Kafka for, besides the pods. Where nothing is to be done nothing is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The quorum.
    pub quorum: bool,
    /// The partitions.
    pub partitions: bool,
}

/// What a pass with these pods would have to know of Kafka.
#[must_use]
pub fn needs(facts: &Facts, settings: &Settings, now_ms: u64) -> Needs {
    let mut pass = Pass::new(facts, settings, now_ms);
    pass.advance();
    pass.find_work();
    let busy = |node: &&NodeFacts| {
        let memory = pass.of(node.node);
        let looked_after =
            matches!(memory.phase, Phase::Restarting | Phase::Healing | Phase::Electing);
        looked_after || pass.work.contains_key(&node.node)
    };
    let busy: Vec<_> = facts.nodes.iter().filter(busy).collect();
    Needs {
        quorum: busy.iter().any(|node| node.roles.is_controller()),
        partitions: busy.iter().any(|node| node.roles.is_broker()),
    }
}

/// Decides what to do now.
#[must_use]
pub fn decide(facts: &Facts, settings: &Settings, now_ms: u64) -> Decision {
    let mut pass = Pass::new(facts, settings, now_ms);
    let known = pass.reliable_partitions();
    let index = known.as_deref().map(ByBroker::new);
    pass.advance();
    pass.find_work();
    let mut actions = pass.recheck(index.as_ref());
    pass.keep_roll();
    let chosen = pass.choose(index.as_ref());
    actions.extend(pass.begin(&chosen));
    actions.extend(pass.update_settings());
    actions.extend(pass.elections());
    actions.extend(pass.clear_asked());
    pass.count_attempts();
    pass.finish(actions, chosen.certificate)
}

/// A pass under way.
pub(super) struct Pass<'a> {
    pub(super) facts: &'a Facts,
    pub(super) settings: &'a Settings,
    pub(super) now_ms: u64,
    pub(super) memory: Memory,
    /// Why each node is to be restarted; those that are not are not in it.
    pub(super) work: BTreeMap<NodeId, Vec<Reason>>,
    /// What each node waits for.
    pub(super) holds: BTreeMap<NodeId, Hold>,
    /// Whether a node has moved on in this pass.
    pub(super) moved: bool,
}

impl<'a> Pass<'a> {
    fn new(facts: &'a Facts, settings: &'a Settings, now_ms: u64) -> Self {
        let mut memory = facts.memory.clone();
        let desired: BTreeSet<NodeId> = facts.nodes.iter().map(|node| node.node).collect();
        memory.nodes.retain(|node, _| desired.contains(node));
        let (work, holds) = (BTreeMap::new(), BTreeMap::new());
        let mut pass = Self { facts, settings, now_ms, memory, work, holds, moved: false };
        pass.remember_asked();
        pass
    }

    /// What is remembered of a node.
    pub(super) fn of(&self, node: NodeId) -> NodeMemory {
        self.memory.nodes.get(&node).cloned().unwrap_or_default()
    }

    pub(super) fn of_mut(&mut self, node: NodeId) -> &mut NodeMemory {
        self.memory.nodes.entry(node).or_default()
    }

    pub(super) fn phase(&self, node: NodeId) -> Phase {
        self.memory.nodes.get(&node).map_or(Phase::Serving, |memory| memory.phase)
    }

    /// How a node is stuck.
    pub(super) fn stuck(&self, node: &NodeFacts) -> Option<stuck::Stuck> {
        // One that is being deleted is not going to start.
        let pod = node.pod.there().filter(|pod| !pod.deleting)?;
        stuck::state(pod, self.now_ms, self.settings.creating_ms_max)
    }

    /// The partitions, without the brokers that are known to be down.
    fn reliable_partitions(&self) -> Option<std::borrow::Cow<'a, [PartitionFacts]>> {
        let down = |node: &&NodeFacts| node.pod.is_down();
        let down: BTreeSet<NodeId> =
            self.facts.nodes.iter().filter(down).map(|node| node.node).collect();
        let partitions = self.facts.partitions.as_deref()?;
        Some(match down.is_empty() {
            true => partitions.into(),
            false => availability::without(partitions, &down).into(),
        })
    }

    /// Every node's machine goes at most one step.
    fn advance(&mut self) {
        let any_heals = self.memory.nodes.values().any(|memory| memory.phase == Phase::Healing);
        let partitions = self.facts.partitions.as_deref().filter(|_| any_heals);
        let index = partitions.map(ByBroker::new);
        for node in &self.facts.nodes {
            self.time_deletion(node);
            self.time_silence(node);
            let memory = self.of(node.node);
            let healing = memory.phase == Phase::Healing;
            let seen = node::Facts {
                pod: &node.pod,
                stuck: self.stuck(node),
                recovery: node.recovery,
                leaderless: !memory.ours && self.is_leaderless(node),
                healed: healing.then(|| self.is_healed(node, index.as_ref())).flatten(),
                elects: self.settings.elect_preferred && node.roles.is_broker() && memory.ours,
                leads: node.leads_preferred,
                uid: memory.uid.as_deref(),
                since_ms: memory.since_ms,
                awaited_ms: memory.awaited_ms.unwrap_or(self.now_ms),
                deleting_ms: self.overdue_since_ms(node),
                silent_ms: memory.silent_ms,
                now_ms: self.now_ms,
            };
            if let Some(event) = node::read(memory.phase, &seen, self.settings) {
                self.apply(node, event);
            }
        }
    }

    /// Remembers since when a pod is being deleted.
    fn time_deletion(&mut self, node: &NodeFacts) {
        let (now_ms, before) = (self.now_ms, self.of(node.node).deleting_ms);
        let after = match &node.pod {
            Pod::Unknown => before,
            Pod::There(pod) if pod.deleting => before.or(Some(now_ms)),
            Pod::There(_) | Pod::Absent => None,
        };
        if after != before {
            self.of_mut(node.node).deleting_ms = after;
        }
    }

    /// Remembers since when a node that recovered its logs cannot be asked whether it still does.
    fn time_silence(&mut self, node: &NodeFacts) {
        let memory = self.of(node.node);
        let is_silent = memory.phase == Phase::Recovering && node.recovery == Recovery::Unknown;
        let after = is_silent.then(|| memory.silent_ms.unwrap_or(self.now_ms));
        if after != memory.silent_ms {
            self.of_mut(node.node).silent_ms = after;
        }
    }

    /// Since when a pod that is being deleted should be gone: its grace period is over. By whichever clock that is
    /// later: the time of the deletion is the API server's.
    fn overdue_since_ms(&self, node: &NodeFacts) -> Option<u64> {
        let grace_ends_ms = node.pod.there().and_then(|pod| pod.deletion_ms);
        let deleting_ms = self.of(node.node).deleting_ms;
        deleting_ms.map(|ms| ms.max(grace_ends_ms.unwrap_or_default()))
    }

    /// Whether the broker of a node has not begun to serve, and cannot, since no leader of the quorum is known. One that
    /// has other reasons to be restarted does not wait for a leader: a restart may be what it lacks. Nor does one that we
    /// restarted, since the others would wait for it, and one of them may be what the quorum lacks.
    pub(super) fn is_leaderless(&self, node: &NodeFacts) -> bool {
        let leader = self.facts.quorum.as_ref().and_then(|quorum| quorum.leader);
        let starts = node.recovery == Recovery::Starting && !node.pod.is_deleting();
        starts && node.reasons.is_empty() && leader.is_none()
    }

    /// Whether a node's pod was deleted and is still there, for longer than it may take.
    pub(super) fn lingers(&self, node: &NodeFacts) -> bool {
        let since_ms = self.overdue_since_ms(node).map(|ms| self.now_ms.saturating_sub(ms));
        since_ms.is_some_and(|ms| ms >= self.settings.operation_timeout_ms)
    }

    /// Whether a node is whole again: its replicas in sync, its controller level with the others.
    fn is_healed(&self, node: &NodeFacts, index: Option<&ByBroker<'_>>) -> Option<bool> {
        let as_broker = match node.roles.is_broker() {
            true => index?.is_in_sync(node.node),
            false => true,
        };
        let as_controller = match node.roles.is_controller() {
            true => quorum::has_caught_up(self.facts.quorum.as_ref()?, node.node)?,
            false => true,
        };
        Some(as_broker && as_controller)
    }

    /// Moves a node on.
    pub(super) fn apply(&mut self, node: &NodeFacts, event: Event) {
        let now_ms = self.now_ms;
        let from = self.phase(node.node);
        // The table is whole: a test raises every event in every phase.
        let Some(to) = node::next(from, event) else { return };
        self.moved = true;
        let memory = self.of_mut(node.node);
        memory.phase = to;
        memory.since_ms = now_ms;
        match event {
            Event::Gone | Event::Unready | Event::Replaced => {
                memory.uid = node.pod.uid().map(str::to_owned);
                memory.awaited_ms = Some(now_ms);
            }
            Event::Recovered | Event::NoLeader => memory.awaited_ms = Some(now_ms),
            // What held it back before has nothing to do with what holds it back now.
            Event::TookTooLong => memory.forget_attempts(),
            Event::BecameReady => memory.awaited_ms = None,
            Event::Chosen => {
                memory.uid = node.pod.uid().map(str::to_owned);
                memory.awaited_ms = None;
                memory.restarted_ms = Some(now_ms);
                memory.ours = true;
                memory.forget_attempts();
            }
            Event::Unsafe => {
                let NodeMemory { attempts, held_ms, backoff_until_ms, given_up, .. } = *memory;
                let kept = NodeMemory {
                    attempts,
                    held_ms,
                    backoff_until_ms,
                    given_up,
                    ..NodeMemory::default()
                };
                *memory = kept;
            }
            Event::Rejoined
            | Event::HealTookTooLong
            | Event::Leads
            | Event::ElectionTookTooLong => {
                memory.ours = false;
                memory.forced = false;
                memory.uid = None;
                memory.reasons.clear();
            }
            Event::Recovers | Event::GotStuck | Event::GotLoose | Event::Healed => {}
        }
    }

    /// The nodes that are not in [`Phase::Serving`] because of us.
    pub(super) fn under_way(&self) -> Vec<NodeId> {
        let ours = self.memory.nodes.iter().filter(|(_, memory)| memory.ours);
        ours.map(|(node, _)| *node).collect()
    }

    /// Gives back leaderships.
    fn elections(&self) -> Option<Action> {
        let electing =
            |(_, memory): &(&NodeId, &NodeMemory)| node::duty(memory.phase) == Duty::ElectPreferred;
        let brokers: Vec<NodeId> =
            self.memory.nodes.iter().filter(electing).map(|(node, _)| *node).collect();
        (!brokers.is_empty()).then_some(Action::ElectPreferred { brokers })
    }

    /// Keeps the books from which the end is foretold.
    fn keep_roll(&mut self) {
        let now_ms = self.now_ms;
        let under_way = !self.under_way().is_empty();
        if self.work.is_empty() && !under_way {
            self.memory.roll = None;
            return;
        }
        let begin = || RollMemory { started_ms: now_ms, ..RollMemory::default() };
        let roll = self.memory.roll.get_or_insert_with(begin);
        if !under_way {
            roll.end_batch(now_ms);
        }
    }

    fn finish(mut self, actions: Vec<Action>, certificate: Certificate) -> Decision {
        let why = self.explain();
        let standing = self.standing();
        let wait_ms = self.wait_ms();
        let under_way = self.under_way();
        let left: Vec<NodeId> =
            self.work.keys().filter(|node| !under_way.contains(node)).copied().collect();
        let is_given_up = |why: &&Why| {
            why.given_up || why.hold == Hold::Terminating || self.is_incurable(why.node)
        };
        let given_up = why.iter().filter(is_given_up).map(|why| why.node).collect();
        let stopping = self.stopping().into_iter().collect();
        let roll = self.memory.roll.clone();
        self.memory.nodes.retain(|_, memory| !memory.is_blank());
        let progress = Progress {
            started_ms: roll.as_ref().map(|roll| roll.started_ms),
            restarts: roll.as_ref().map_or(0, |roll| roll.restarts),
            estimate: roll.as_ref().and_then(|roll| estimate(roll, left.len(), self.now_ms)),
            under_way,
            left,
            given_up,
            stopping,
            certificate,
        };
        Decision { memory: self.memory, actions, standing, progress, why, wait_ms }
    }
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
