//! What must hold, judged by what the world is and not by what the operator knows.
//!
//! A fault may come between the facts of a decision and its acts. What failed a moment ago counts as it was: no operator can
//! know better than its facts, which may be 10 s old.

use std::collections::BTreeSet;

use api::names::node_of_pod;
use control::cluster::act::What;
use control::cluster::journal::Entered;
use control::node::Roles;
use model::NodeId;

use super::world::{OperatorId, World};

/// What must hold. ARCHITECTURE.md has each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// No committed metadata is lost.
    MetadataIsKept,
    /// An empty disk never comes back with an identity that a disk has had.
    IdentityIsUsedOnce,
    /// No voter is stopped for good.
    VotersAreNotStopped,
    /// No change of voters leaves less than a majority that has caught up.
    MajorityHasCaughtUp,
    /// No restart takes the majority away.
    RestartKeepsMajority,
    /// No restart takes a partition below its min-ISR.
    RestartKeepsMinIsr,
    /// No claim of a broker is deleted while a replica is assigned to it, or while it runs or votes.
    ReplicasKeepTheirDisk,
    /// No broker that runs or holds replicas is unregistered.
    RunningBrokersStayRegistered,
    /// No broker is stopped for good while a replica is assigned to it or moves concern it.
    ReplicasKeepTheirBroker,
    /// No operator acts while another one leads.
    OneOperatorActs,
    /// A write of a former leader overwrites nothing of its successor.
    SuccessorIsNotOverwritten,
    /// What an act depends on is recorded before it.
    RecordComesFirst,
    /// The id of a cluster is made once.
    IdsAreMadeOnce,
    /// One rebalance at a time.
    OneRebalanceAtATime,
    /// When faults stop, the spec is reached, or a condition names who must act.
    Settles,
    /// A cluster that has settled is not written to.
    NothingIsWrittenForNothing,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::MetadataIsKept,
        Self::IdentityIsUsedOnce,
        Self::VotersAreNotStopped,
        Self::MajorityHasCaughtUp,
        Self::RestartKeepsMajority,
        Self::RestartKeepsMinIsr,
        Self::ReplicasKeepTheirDisk,
        Self::RunningBrokersStayRegistered,
        Self::ReplicasKeepTheirBroker,
        Self::OneOperatorActs,
        Self::SuccessorIsNotOverwritten,
        Self::RecordComesFirst,
        Self::IdsAreMadeOnce,
        Self::OneRebalanceAtATime,
        Self::Settles,
        Self::NothingIsWrittenForNothing,
    ];
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
    /// When.
    pub at_ms: u64,
}

/// How long ago something may have failed that a decision could not know of: facts may be 10 s old.
const GRACE_MS: u64 = 14_000;

/// How long a pod takes at least to end and to be started again.
const RESTART_MS: u64 = 5_000;
/// How long ago a controller that serves has had all metadata.
const SERVES_MS: u64 = 4_000;

impl World {
    /// What holds at any time.
    pub(super) fn check(&mut self) {
        // A node that serves again is not being restarted any more, whatever happens to it next.
        let is_over =
            |(id, at_ms): (&NodeId, &u64)| self.now_ms > at_ms + RESTART_MS && self.is_serving(*id);
        let over: Vec<NodeId> =
            self.restarted_ms.iter().filter(|one| is_over(*one)).map(|(id, _)| *id).collect();
        for id in over {
            self.restarted_ms.remove(&id);
        }
        let record = self.kubernetes.found.config_maps.get(&self.kubernetes.record_name);
        if record.is_some() && self.cluster_id.is_none() {
            self.cluster_id = self.record().and_then(|record| record.cluster_id);
        }
        if self.rebalances.remove.is_some() && self.rebalances.add.is_some() {
            self.violate(Invariant::OneRebalanceAtATime, "the cluster has two requests of its own");
        }
    }

    /// Checks an act before it takes effect.
    pub(super) fn check_act(&mut self, operator: OperatorId, what: &What) {
        let is_led = self.lease.holder == Some(operator) || self.now_ms >= self.lease.until_ms;
        if !is_led {
            self.violate(Invariant::OneOperatorActs, format!("operator {operator}: {what}"));
        }
        self.check_recorded(what);
        if let What::RestartPod { id, uid, .. } = what
            && self.runtimes.get(uid).is_some_and(|one| one.node == *id)
        {
            self.check_restart(*id);
        }
        if let What::DeleteClaim { name, uid } = what {
            self.check_claim(name, uid);
        }
        if let What::Unregister { id } = what {
            let runs = self.kafka.processes.get(id).is_some_and(|one| one.roles.is_broker());
            let held = self.assigned(*id);
            if runs || held > 0 {
                let text = format!("broker {id} is unregistered; runs: {runs}, partitions: {held}");
                self.violate(Invariant::RunningBrokersStayRegistered, text);
            }
        }
    }

    /// What an act depends on is in the record that is stored.
    fn check_recorded(&mut self, what: &What) {
        let record = self.record().unwrap_or_default();
        let is_recorded = if let What::AddVoter { id, .. } = what {
            record.journal.get(Entered::AddVoter(*id)).is_some()
        } else if let What::RemoveVoter { id, .. } = what {
            let is_begun = record.journal.get(Entered::RemoveVoter(*id)).is_some();
            is_begun && record.quorum.seen.contains(id)
        } else if let What::RestartPod { id, .. } = what {
            record.roll.nodes.contains_key(id)
        } else {
            true
        };
        if !is_recorded {
            self.violate(Invariant::RecordComesFirst, format!("not recorded: {what}"));
        }
    }

    /// The partitions of a broker that a decision could know of: a topic may be created at any moment.
    fn assigned(&self, id: NodeId) -> usize {
        self.kafka.assigned_before(id, self.now_ms.saturating_sub(GRACE_MS))
    }

    /// Nodes that are down because an operator restarts them.
    fn restarting(&self) -> BTreeSet<NodeId> {
        let down = self.restarted_ms.keys().filter(|id| !self.is_serving(**id));
        down.copied().collect()
    }

    fn is_serving(&self, id: NodeId) -> bool {
        let Some(process) = self.kafka.processes.get(&id) else { return false };
        let ending = self.runtimes.get(&process.pod).is_some_and(|one| one.ends_ms.is_some());
        let found = self.kubernetes.found.pods.values();
        let deleting = found.into_iter().any(|pod| {
            pod.metadata.uid.as_deref() == Some(&process.pod)
                && pod.metadata.deletion_timestamp.is_some()
        });
        !ending && !deleting && process.answers(self.now_ms)
    }

    fn check_restart(&mut self, id: NodeId) {
        // A process that does not run takes nothing away.
        if !self.runs(id) {
            return;
        }
        let restarting = self.restarting();
        let voters = self.kafka.quorum.voters();
        // One that serves no client takes nothing away.
        let serves =
            self.runs(id) && self.kafka.quorum.healthy(self.now_ms, SERVES_MS).contains(&id);
        if voters.contains_key(&id) && serves {
            let mut healthy = self.kafka.quorum.healthy(self.now_ms, GRACE_MS);
            healthy.retain(|id| !restarting.contains(id));
            let before = healthy.len() * 2 > voters.len();
            healthy.remove(&id);
            if before && healthy.len() * 2 <= voters.len() && voters.len() > 2 {
                let text =
                    format!("controller {id} of {voters:?} is restarted; {healthy:?} are left");
                self.violate(Invariant::RestartKeepsMajority, text);
            }
        }
        let broken = self.kafka.metadata.partitions.iter().find_map(|(name, partition)| {
            let mut in_sync = partition.isr.clone();
            in_sync.retain(|id| !restarting.contains(id));
            let before = in_sync.len();
            // With so few replicas, before or after a move, every restart does.
            let least =
                partition.replicas.len() - partition.adding.len().max(partition.removing.len());
            let is_spared = least <= partition.min_isr;
            let breaks = in_sync.remove(&id)
                && before >= partition.min_isr
                && in_sync.len() < partition.min_isr;
            (breaks && !is_spared)
                .then(|| format!("broker {id} is restarted; {name:?} is left with {in_sync:?}"))
        });
        if let Some(text) = broken {
            self.violate(Invariant::RestartKeepsMinIsr, text);
        }
    }

    /// Checks the voters after an operator has changed them.
    pub(super) fn check_voters(&mut self, what: &What) {
        let voters = self.kafka.quorum.voters();
        let mut healthy = self.kafka.quorum.healthy(self.now_ms, GRACE_MS);
        // One that has just joined is known as it was asked for.
        if let What::AddVoter { id, directory, .. } = what {
            let seen = self.kafka.quorum.seen.get(&(*id, *directory));
            healthy.extend(seen.and_then(|seen| seen.caught_up_ms).map(|_| *id));
        }
        let restarting = self.restarting();
        healthy.retain(|id| !restarting.contains(id));
        if healthy.len() * 2 <= voters.len() {
            let text = format!("{what}: of {voters:?} only {healthy:?} have caught up");
            self.violate(Invariant::MajorityHasCaughtUp, text);
        }
    }

    fn check_claim(&mut self, name: &str, uid: &str) {
        let node = name.rsplit_once('-').and_then(|(_, number)| NodeId::new(number.parse().ok()?));
        let exists = self
            .kubernetes
            .found
            .claims
            .get(name)
            .is_some_and(|one| one.metadata.uid.as_deref() == Some(uid));
        let Some(node) = node.filter(|_| exists) else { return };
        let held = self.assigned(node);
        let runs = self.kafka.processes.get(&node).is_some_and(|one| one.disk == uid);
        let stamp = self.disks.get(uid).and_then(|disk| disk.stamp.as_ref()?.directory);
        let votes = stamp.is_some() && self.kafka.quorum.voters().get(&node).copied() == stamp;
        if held > 0 || runs || votes {
            let text =
                format!("{name} is deleted; partitions: {held}, runs: {runs}, votes: {votes}");
            self.violate(Invariant::ReplicasKeepTheirDisk, text);
        }
    }

    /// Checks a pod that is stopped for good.
    pub(super) fn check_stop(&mut self, pod: &str) {
        let Some(node) = node_of_pod(pod) else { return };
        let Some(process) = self.kafka.processes.get(&node) else { return };
        let directory = process.directory;
        let is_broker = matches!(process.roles, Roles::Broker | Roles::Combined);
        if self.kafka.quorum.voters().get(&node) == Some(&directory) {
            self.violate(Invariant::VotersAreNotStopped, format!("{pod} votes and is stopped"));
        }
        let held = self.assigned(node);
        let moves = self.kafka.moving().contains(&node);
        if is_broker && (held > 0 || moves) {
            let text = format!("{pod} is stopped; partitions: {held}, moves: {moves}");
            self.violate(Invariant::ReplicasKeepTheirBroker, text);
        }
    }
}
