//! The next change of voters, if any: one at a time, and described again after each.
//!
//! Kafka appends a change of voters whatever it does to the quorum, so all of this is ours:
//!
//! 1. After a removal, the remaining voters that have caught up are a majority of the remaining set; after
//!    an addition, likewise.
//! 2. Voters that are dead and not desired go first, and so do the former selves of controllers whose
//!    disk was replaced: without them the quorum needs fewer, and loses nobody.
//! 3. Then new controllers are added, and only when all of them vote are healthy old ones removed; the
//!    leader last. (Seed 001 unregisters first. An edit that replaces all controllers would have to remove
//!    the last voter so.)
//! 4. A healthy voter is removed only if what remains in the end has a caught-up majority. Else the whole
//!    scale-down is refused, with the voters that are in its way.
//! 5. Only a node whose pod runs as a controller is added, under the directory id that its disk has and
//!    that the leader sees fetching: every broker is an observer too, and a wrong directory id is answered
//!    like a node that is behind, for ever.
//! 6. A voter whose disk is not known stays. Unknown is not lost.
//! 7. A controller is stopped, or loses its role, only when the voters without it stand ([`may_stop`]).
//! 8. Where so many disks are known to be others that the voters that are left can be no majority, the
//!    metadata is lost, and nobody but a person does anything about it.
//!
//! What is told of an answer to a change is in [`super::answer`]: whatever it is, the quorum is described
//! before the next step.

use std::collections::{BTreeMap, BTreeSet};

use model::{DirectoryId, NodeId};
use serde::{Deserialize, Serialize};

use super::format::QuorumMode;
use super::view::{Mark, QuorumView, Replica, majority};

/// After so many additions in a row that came to nothing, people are told. Some are common: a new
/// controller is behind for a moment, and every change while another is pending is answered the same.
const FAILED_ADDS_WORTH_TELLING: u32 = 5;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// The controllers that are desired.
    pub desired: BTreeMap<NodeId, Controller>,
    /// The directory id that the metadata disk of each node has now, of desired and other ones. A node of
    /// which it is not known is missing.
    pub disks: BTreeMap<NodeId, DirectoryId>,
    /// The quorum; `None` if it could not be described.
    pub quorum: Option<QuorumView>,
    /// Where the leader was when it was described before. It need not survive a restart.
    pub earlier: Option<Mark>,
    /// The voters when the quorum was last described, from the record.
    pub recorded_voters: BTreeMap<NodeId, DirectoryId>,
    /// How often in a row each controller could not be added. It need not survive a restart.
    pub failed_adds: BTreeMap<NodeId, u32>,
}

/// A controller that is desired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Controller {
    /// Whether its pod runs, was started as a controller, and stays one: a node that is being stopped and is
    /// desired again comes back as another one ([`crate::scaling::leaving::Leaving::is_stopped`]). What
    /// the pod is, not what it should be.
    pub runs: Option<bool>,
    /// Where it listens for controllers.
    pub listeners: Vec<Listener>,
}

/// Where a controller listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The listener's name, in capitals.
    pub name: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The next step and what to tell about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The next step.
    pub step: Step,
    /// What people should know besides.
    pub warnings: Vec<Warning>,
}

/// What to do about the voters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Add this one.
    Add {
        /// The node.
        id: NodeId,
        /// Its disk.
        directory: DirectoryId,
        /// Where it listens.
        listeners: Vec<Listener>,
    },
    /// Remove this one. Record that it was seen first ([`super::QuorumRecord::before_removal`]).
    Remove {
        /// The node.
        id: NodeId,
        /// Its disk.
        directory: DirectoryId,
        /// Why.
        why: Removal,
    },
    /// Nothing can be done now; it will go on by itself.
    Wait(Vec<Waiting>),
    /// The voters are those that are desired.
    Settled,
    /// The removal of these controllers is not carried out: they stay, and keep voting.
    Refuse(Refusal),
    /// The metadata is lost.
    QuorumLost(QuorumLost),
    /// The quorum is static: its controllers cannot be changed.
    StaticRefused {
        /// Those that are not started.
        add: BTreeSet<NodeId>,
        /// Those that stay.
        remove: BTreeSet<NodeId>,
    },
}

/// Why a voter is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is not desired and has not caught up.
    Dead,
    /// Its disk was replaced; the controller joins again with the new one.
    DiskReplaced,
    /// It is not desired.
    NotDesired,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Whether the quorum is static or dynamic is not known.
    Mode,
    /// The quorum could not be described.
    NotDescribed,
    /// A leader that has just been elected, or that is on its way out.
    Leader,
    /// Too few voters have caught up for any change.
    Majority {
        /// How many have.
        caught_up: usize,
        /// Of how many.
        voters: usize,
        /// Those that have not.
        behind: BTreeSet<NodeId>,
    },
    /// A controller that does not run yet, or not yet as a controller.
    Pod(NodeId),
    /// A controller that does not say which disk it has.
    Disk(NodeId),
    /// A controller that is not, or not yet, level with the leader.
    CatchUp(NodeId),
    /// A voter that fetches, while its node says that it has another disk. One of them is old news.
    DiskContradicts(NodeId),
}

/// Why controllers are not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No controller would be left.
    NoControllers,
    /// What would be left has no majority that has caught up.
    NoMajority {
        /// The healthy voters that stay although they are not desired.
        keep: BTreeSet<NodeId>,
        /// Those that would be left and have not caught up.
        behind: BTreeSet<NodeId>,
        /// How many would be left.
        left: usize,
    },
}

/// So many voters came back without their metadata that the rest is no majority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumLost {
    /// The voters whose disk is another one now.
    pub lost: BTreeSet<NodeId>,
    /// The voters of which that is not known.
    pub left: BTreeSet<NodeId>,
}

/// Something people should know that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// An even number of controllers bears no more failures than one less.
    EvenCount(usize),
    /// A controller that cannot be added again and again.
    CannotAdd {
        /// Which.
        id: NodeId,
        /// How often in a row.
        times: u32,
    },
}

/// Why a node may not be stopped as a controller, or lose that role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The quorum, or its mode, is not known.
    Unknown,
    /// It votes.
    Votes,
    /// It votes, and its removal is refused: it stays until the spec or the other controllers change.
    Refused,
    /// It leads, on its way out.
    Leads,
    /// It votes no more, but a majority does not have that yet.
    NotCommitted,
}

/// Decides the next change of voters.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    Decision { step: step(facts), warnings: warnings(facts) }
}

/// Whether a node that is not desired as a controller may be stopped or lose its role.
pub fn may_stop(facts: &Facts, node: NodeId) -> Result<(), Hold> {
    let (QuorumMode::Dynamic | QuorumMode::Static, Some(view)) = (facts.mode, &facts.quorum) else {
        return Err(Hold::Unknown);
    };
    if view.voter(node).is_some() {
        return Err(if step(facts).keeps(node) { Hold::Refused } else { Hold::Votes });
    }
    if view.leader == node {
        return Err(Hold::Leads);
    }
    if view.voters_stand(facts.earlier.as_ref()) { Ok(()) } else { Err(Hold::NotCommitted) }
}

impl Step {
    /// Whether the removal of this voter, which is not desired, is refused.
    fn keeps(&self, node: NodeId) -> bool {
        match self {
            Self::Refuse(Refusal::NoControllers) => true,
            Self::Refuse(Refusal::NoMajority { keep, .. }) => keep.contains(&node),
            Self::StaticRefused { remove, .. } => remove.contains(&node),
            Self::Add { .. }
            | Self::Remove { .. }
            | Self::Wait(_)
            | Self::Settled
            | Self::QuorumLost(_) => false,
        }
    }
}

/// The desired controllers that do not vote with the disk that they have now. The roller restarts no
/// other controller while there is one. `None` if it is not known. Those of a static quorum vote by their
/// configuration; one that is desired and is no voter will not become one.
#[must_use]
pub fn unsettled(facts: &Facts) -> Option<BTreeSet<NodeId>> {
    let view = facts.quorum.as_ref()?;
    if facts.mode == QuorumMode::Static {
        return Some(BTreeSet::new());
    }
    let settled = |id: &NodeId| {
        let Some(voter) = view.voter(*id) else { return false };
        match (facts.disks.get(id), voter.directory) {
            (Some(disk), Some(directory)) => *disk == directory,
            (None, _) | (_, None) => true,
        }
    };
    Some(facts.desired.keys().filter(|id| !settled(id)).copied().collect())
}

fn step(facts: &Facts) -> Step {
    match (facts.mode, &facts.quorum) {
        (QuorumMode::Unknown, _) => Step::Wait(vec![Waiting::Mode]),
        (QuorumMode::Dynamic, None) => match lost(facts) {
            Some(lost) => Step::QuorumLost(lost),
            None => Step::Wait(vec![Waiting::NotDescribed]),
        },
        (QuorumMode::Static, None) => Step::Wait(vec![Waiting::NotDescribed]),
        (QuorumMode::Static, Some(view)) => static_step(facts, view),
        (QuorumMode::Dynamic, Some(view)) => dynamic_step(facts, view),
    }
}

fn lost(facts: &Facts) -> Option<QuorumLost> {
    let replaced = |(id, directory): &(&NodeId, &DirectoryId)| {
        facts.disks.get(id).is_some_and(|disk| disk != *directory)
    };
    let (lost, left): (Vec<_>, Vec<_>) = facts.recorded_voters.iter().partition(replaced);
    let ids = |list: Vec<(&NodeId, &DirectoryId)>| list.into_iter().map(|(id, _)| *id).collect();
    let needed = majority(facts.recorded_voters.len());
    let is_lost = !lost.is_empty() && left.len() < needed;
    is_lost.then(|| QuorumLost { lost: ids(lost), left: ids(left) })
}

fn static_step(facts: &Facts, view: &QuorumView) -> Step {
    let voters: BTreeSet<NodeId> = view.voters.iter().map(|voter| voter.id).collect();
    let desired: BTreeSet<NodeId> = facts.desired.keys().copied().collect();
    if voters == desired {
        return Step::Settled;
    }
    Step::StaticRefused { add: &desired - &voters, remove: &voters - &desired }
}

fn dynamic_step(facts: &Facts, view: &QuorumView) -> Step {
    if facts.desired.is_empty() {
        return Step::Refuse(Refusal::NoControllers);
    }
    if view.high_watermark.is_none() || view.voter(view.leader).is_none() {
        return Step::Wait(vec![Waiting::Leader]);
    }
    let room = Room::new(facts, view);
    if let Some(step) = room.dead() {
        return step;
    }
    let (addable, pending) = room.joining();
    if let Some(step) = room.add(&addable) {
        return step;
    }
    let leaving = room.leaving();
    if !leaving.is_empty()
        && let Some(refusal) = room.refusal(&leaving, pending.len() + addable.len())
    {
        return Step::Refuse(refusal);
    }
    let mut waiting = pending;
    if !addable.is_empty() || room.has_dead() {
        waiting.insert(0, room.majority_waiting());
    }
    if !waiting.is_empty() {
        return Step::Wait(waiting);
    }
    match room.remove(&leaving) {
        Some(step) => step,
        None if leaving.is_empty() => Step::Settled,
        None => Step::Wait(vec![room.majority_waiting()]),
    }
}

/// The voters in the light of what is desired.
struct Room<'a> {
    facts: &'a Facts,
    view: &'a QuorumView,
    voters: usize,
    caught_up: usize,
}

/// What a voter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is desired, with this disk as far as is known.
    Stays,
    /// It is the former self of a desired controller.
    Former,
    /// It is not desired.
    Leaves,
}

impl<'a> Room<'a> {
    fn new(facts: &'a Facts, view: &'a QuorumView) -> Self {
        let caught_up = view.voters.iter().filter(|voter| view.has_caught_up(voter)).count();
        Self { facts, view, voters: view.voters.len(), caught_up }
    }

    fn standing(&self, voter: &Replica) -> Standing {
        if !self.facts.desired.contains_key(&voter.id) {
            return Standing::Leaves;
        }
        let disk = self.facts.disks.get(&voter.id);
        match (disk, voter.directory) {
            (Some(disk), Some(directory)) if *disk != directory => Standing::Former,
            (Some(_) | None, Some(_) | None) => Standing::Stays,
        }
    }

    /// Whether a majority of what remains has caught up once this voter is gone (1).
    fn may_remove(&self, voter: &Replica) -> bool {
        let caught_up = self.caught_up - usize::from(self.view.has_caught_up(voter));
        self.voters > 1 && caught_up >= majority(self.voters - 1)
    }

    fn removal(&self, voter: &Replica, why: Removal) -> Option<Step> {
        // A dynamic quorum knows the disk of every voter.
        let directory = voter.directory?;
        self.may_remove(voter).then_some(Step::Remove { id: voter.id, directory, why })
    }

    /// The dead voters that are to go, and why each is.
    fn dead_voters(&self) -> impl Iterator<Item = (&'a Replica, Removal)> {
        let view = self.view;
        let dead = view.voters.iter().filter(move |voter| !view.has_caught_up(voter));
        dead.filter_map(|voter| match self.standing(voter) {
            Standing::Stays => None,
            Standing::Former => Some((voter, Removal::DiskReplaced)),
            Standing::Leaves => Some((voter, Removal::Dead)),
        })
    }

    fn has_dead(&self) -> bool {
        self.dead_voters().next().is_some()
    }

    /// The removal of a dead voter (2).
    fn dead(&self) -> Option<Step> {
        self.dead_voters().find_map(|(voter, why)| self.removal(voter, why))
    }

    /// The desired controllers that do not vote: those that can be added, and what the others lack.
    fn joining(&self) -> (Vec<NodeId>, Vec<Waiting>) {
        let (mut addable, mut pending) = (Vec::new(), Vec::new());
        for (id, controller) in &self.facts.desired {
            match self.view.voter(*id).map(|voter| self.standing(voter)) {
                Some(Standing::Stays | Standing::Leaves) => {}
                // It is dead or will be: its node has another disk.
                Some(Standing::Former) => pending.push(Waiting::DiskContradicts(*id)),
                None => match self.lacks(*id, controller) {
                    None => addable.push(*id),
                    Some(waiting) => pending.push(waiting),
                },
            }
        }
        let dead: BTreeSet<NodeId> = self.dead_voters().map(|(voter, _)| voter.id).collect();
        // What is waited for there is a majority, not the news.
        pending.retain(
            |waiting| !matches!(waiting, Waiting::DiskContradicts(id) if dead.contains(id)),
        );
        let failures = |id: &NodeId| self.facts.failed_adds.get(id).copied().unwrap_or(0);
        addable.sort_by_key(|id| (failures(id), *id));
        (addable, pending)
    }

    /// What a controller lacks to be added (5).
    fn lacks(&self, id: NodeId, controller: &Controller) -> Option<Waiting> {
        if controller.runs != Some(true) || controller.listeners.is_empty() {
            return Some(Waiting::Pod(id));
        }
        let Some(disk) = self.facts.disks.get(&id) else { return Some(Waiting::Disk(id)) };
        match self.view.observer(id, *disk) {
            Some(observer) if self.view.has_caught_up(observer) => None,
            Some(_) | None => Some(Waiting::CatchUp(id)),
        }
    }

    /// The addition of the first of these (3), if a majority of all has caught up then.
    fn add(&self, addable: &[NodeId]) -> Option<Step> {
        let id = *addable.first()?;
        let directory = *self.facts.disks.get(&id)?;
        let listeners = self.facts.desired.get(&id)?.listeners.clone();
        let safe = self.caught_up + 1 >= majority(self.voters + 1);
        safe.then_some(Step::Add { id, directory, listeners })
    }

    /// The healthy voters that are to go, the leader last.
    fn leaving(&self) -> Vec<&'a Replica> {
        let leaves = |voter: &&Replica| {
            self.standing(voter) == Standing::Leaves && self.view.has_caught_up(voter)
        };
        let mut leaving: Vec<&Replica> = self.view.voters.iter().filter(leaves).collect();
        leaving.sort_by_key(|voter| (voter.id == self.view.leader, voter.id));
        leaving
    }

    /// Why healthy voters may not go at all (4). Those that are still to join are taken to do so.
    fn refusal(&self, leaving: &[&Replica], joining: usize) -> Option<Refusal> {
        let stays = |voter: &&Replica| self.standing(voter) == Standing::Stays;
        let (well, behind): (Vec<_>, Vec<_>) =
            self.view.voters.iter().filter(stays).partition(|voter| self.view.has_caught_up(voter));
        let left = self.facts.desired.len();
        // A former self joins again under its new one.
        let again = self.view.voters.iter().filter(|v| self.standing(v) == Standing::Former);
        let again = again.filter(|voter| !self.view.has_caught_up(voter)).count();
        if well.len() + joining + again >= majority(left) {
            return None;
        }
        let ids = |list: Vec<&Replica>| list.into_iter().map(|voter| voter.id).collect();
        Some(Refusal::NoMajority { keep: ids(leaving.to_vec()), behind: ids(behind), left })
    }

    fn remove(&self, leaving: &[&Replica]) -> Option<Step> {
        leaving.iter().find_map(|voter| self.removal(voter, Removal::NotDesired))
    }

    fn majority_waiting(&self) -> Waiting {
        let behind = self.view.voters.iter().filter(|voter| !self.view.has_caught_up(voter));
        Waiting::Majority {
            caught_up: self.caught_up,
            voters: self.voters,
            behind: behind.map(|voter| voter.id).collect(),
        }
    }
}

fn warnings(facts: &Facts) -> Vec<Warning> {
    let count = facts.desired.len();
    let even = (count > 0 && count.is_multiple_of(2)).then_some(Warning::EvenCount(count));
    let failing = facts
        .failed_adds
        .iter()
        .filter(|(id, times)| {
            **times >= FAILED_ADDS_WORTH_TELLING && facts.desired.contains_key(id)
        })
        .map(|(id, times)| Warning::CannotAdd { id: *id, times: *times });
    even.into_iter().chain(failing).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
