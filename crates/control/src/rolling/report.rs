//! What a pass tells: what each node waits for, how the roll stands, when to look again.

use model::NodeId;

use super::facts::{NodeFacts, Pod, Settings};
use super::memory::NodeMemory;
use super::node::Phase;
use super::pass::{Pass, Standing};
use super::why::{Hold, Why};

/// A node has moved on: what comes next can be decided at once. Not zero, so that a mistake of ours does
/// not keep a core busy.
const MOVED_MS: u64 = 100;
/// Logs are recovered in minutes or hours; what remains is shown this fresh.
const RECOVERY_MS: u64 = 10_000;
/// Replicas and voters catch up without an event in Kubernetes, so one has to look.
const RECHECK_MS: u64 = 5_000;

impl Pass<'_> {
    /// What each node waits for that something is to be done about.
    pub(super) fn explain(&self) -> Vec<Why> {
        let stopping = self.stopping();
        let explain = |node: &NodeFacts| self.explain_node(node, stopping.contains(&node.node));
        self.facts.nodes.iter().filter_map(explain).collect()
    }

    fn explain_node(&self, node: &NodeFacts, stops: bool) -> Option<Why> {
        let memory = self.of(node.node);
        let work = self.work.get(&node.node).cloned();
        let phase = memory.phase;
        // What it waits for itself says more than that its restart has not ended.
        let own = self.holds.get(&node.node).filter(|hold| hold.is_attempt());
        let is_lost = stops || self.is_incurable(node.node);
        let hold = match phase {
            _ if self.lingers(node) => Some(Hold::Terminating),
            Phase::Late if node.pod.is_deleting() => {
                Some(Hold::UnderWay { phase: Phase::Restarting })
            }
            Phase::Stuck if stops => self.stuck(node).map(|state| Hold::Stuck { state }),
            Phase::Late if is_lost && node.pod == Pod::Absent => Some(Hold::NoPod),
            Phase::Late if is_lost => Some(Hold::DidNotHelp),
            Phase::Recovering => Hold::recovery(node.recovery).or(Some(Hold::StateUnknown)),
            Phase::Stuck if own.is_some() => own.cloned(),
            phase if memory.ours => Some(Hold::UnderWay { phase }),
            Phase::Serving
            | Phase::Restarting
            | Phase::Awaited
            | Phase::Stuck
            | Phase::Late
            | Phase::Healing
            | Phase::Electing => {
                self.holds.get(&node.node).cloned().or_else(|| self.not_well(node, &memory))
            }
        };
        let reasons = if memory.ours { memory.reasons.clone() } else { work.unwrap_or_default() };
        Some(Why {
            node: node.node,
            reasons,
            hold: hold?,
            attempts: memory.attempts,
            backoff_until_ms: memory.backoff_until_ms,
            given_up: memory.given_up,
        })
    }

    /// What is the matter with a node that is not to be restarted.
    fn not_well(&self, node: &NodeFacts, memory: &NodeMemory) -> Option<Hold> {
        let diff = node.config.as_ref();
        let settings = diff.and_then(|diff| self.settings_to_restart_for(diff, memory));
        match (memory.phase, settings) {
            (Phase::Awaited, _) => Some(Hold::NotReady),
            (Phase::Serving, Some((keys, digest))) if memory.config_tried == Some(digest) => {
                Some(Hold::SettingsNotTaken { keys })
            }
            (_, _) => None,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let under_way = self.under_way();
        let given_up = self.memory.nodes.values().any(|memory| memory.given_up)
            || self
                .facts
                .nodes
                .iter()
                .any(|node| self.lingers(node) || self.is_incurable(node.node));
        if !self.stopping().is_empty() {
            Standing::Stopped
        } else if given_up {
            Standing::Failed
        } else if !under_way.is_empty() {
            Standing::Rolling
        } else if self.work.is_empty() {
            Standing::Settled
        } else {
            Standing::Waiting
        }
    }

    /// When to look again.
    pub(super) fn wait_ms(&self) -> Option<u64> {
        let moved = self.moved.then_some(MOVED_MS);
        let nodes = self.facts.nodes.iter().filter_map(|node| self.node_wait_ms(node.node));
        moved.into_iter().chain(nodes).min()
    }

    fn node_wait_ms(&self, node: NodeId) -> Option<u64> {
        let Settings { poll_ms, operation_timeout_ms, attempts_max, .. } = *self.settings;
        let memory = self.of(node);
        let until = |ms: u64| ms.saturating_sub(self.now_ms).max(MOVED_MS);
        let by_phase = match memory.phase {
            Phase::Restarting | Phase::Healing | Phase::Electing => Some(poll_ms),
            Phase::Awaited if memory.ours => Some(poll_ms),
            Phase::Awaited => {
                memory.awaited_ms.map(|ms| until(ms.saturating_add(operation_timeout_ms)))
            }
            Phase::Recovering => Some(RECOVERY_MS),
            Phase::Late if memory.deleting_ms.is_some() => Some(RECHECK_MS),
            // Until there is a leader, of which Kubernetes says nothing.
            Phase::Late if self.holds.get(&node) == Some(&Hold::NotReady) => Some(RECHECK_MS),
            // A container that is being made becomes stuck by age alone.
            Phase::Serving | Phase::Stuck | Phase::Late => None,
        };
        let held = self.holds.get(&node).filter(|hold| hold.is_attempt());
        let next_ms = memory.backoff_until_ms.filter(|_| memory.attempts < attempts_max);
        let held = held.map(|_| next_ms.map_or(RECHECK_MS, until).min(RECHECK_MS));
        let update = memory.update.map(|update| until(update.next_ms));
        [by_phase, held, update].into_iter().flatten().min()
    }
}
