//! The metadata quorum of the simulated Kafka: one log, its copies, its voters and its leader.
//!
//! The log is a count of records. A change of voters is a record: it is in force when it is written, and it stands when a
//! majority of the new voters has it. A leader that is gone takes along what no majority has.

use std::collections::{BTreeMap, BTreeSet};

use model::{DirectoryId, NodeId};

/// A copy of the metadata log, on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Copy {
    /// The number of records.
    pub(crate) end: u64,
    /// The epoch of the leader that wrote the last one.
    pub(crate) epoch: i32,
}

/// A process that takes part: a voter or an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Participant {
    /// The directory of its metadata log.
    pub(crate) directory: DirectoryId,
    /// Its copy of the log.
    pub(crate) copy: Copy,
    /// Whether it runs as a controller.
    pub(crate) is_controller: bool,
}

/// What the leader knows of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The end of its log.
    pub(crate) end: u64,
    /// When it fetched last.
    pub(crate) fetched_ms: u64,
    /// When it had everything.
    pub(crate) caught_up_ms: Option<u64>,
}

/// The voters, each with its directory.
pub(crate) type Voters = BTreeMap<NodeId, DirectoryId>;

/// The quorum.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quorum {
    /// The number of elections so far.
    pub(crate) epoch: i32,
    /// The leader.
    pub(crate) leader: Option<NodeId>,
    /// Since when there is none, or the leader reaches no majority.
    lost_ms: Option<u64>,
    /// The end of the leader's log.
    pub(crate) end: u64,
    /// The records that a majority has had.
    pub(crate) committed: u64,
    /// The high watermark that this leader knows.
    pub(crate) high_watermark: Option<u64>,
    /// The voters from each offset on.
    changes: Vec<(u64, Voters)>,
    /// What the leader knows of the others.
    pub(crate) seen: BTreeMap<(NodeId, DirectoryId), Seen>,
    /// Whether committed records were lost.
    pub(crate) lost: bool,
}

/// How many records a participant fetches in a second: one that begins with nothing is behind for some seconds.
const RATE: u64 = 400;
/// How long voters wait before they elect another leader.
const ELECTION_MS: u64 = 2_000;
/// How long the leader lists an observer that is gone.
const OBSERVER_MS: u64 = 300_000;

impl Quorum {
    /// The voters in force.
    #[must_use]
    pub(crate) fn voters(&self) -> Voters {
        self.changes.last().map(|(_, voters)| voters.clone()).unwrap_or_default()
    }

    /// The voters in a log that ends here.
    fn voters_at(&self, end: u64) -> Voters {
        let before = self.changes.iter().rev().find(|(offset, _)| *offset < end.max(1));
        before.map(|(_, voters)| voters.clone()).unwrap_or_default()
    }

    /// Whether the last change of voters is written and not committed.
    #[must_use]
    pub(crate) fn is_changing(&self) -> bool {
        self.changes.last().is_some_and(|(offset, _)| *offset >= self.committed && *offset > 0)
    }

    /// Begins with these voters, which the storage tool writes into every log.
    pub(crate) fn begin(&mut self, voters: Voters) {
        if self.changes.is_empty() {
            self.changes.push((0, voters));
        }
    }

    /// A quorum that has lived elsewhere: its log ends here.
    #[must_use]
    pub(crate) fn adopted(leader: NodeId, epoch: i32, end: u64, voters: Voters) -> Self {
        Self {
            epoch,
            leader: Some(leader),
            end,
            committed: end,
            high_watermark: Some(end),
            changes: vec![(0, voters)],
            ..Self::default()
        }
    }

    /// Whether it ever had voters.
    #[must_use]
    pub(crate) const fn has_begun(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Writes a change of voters.
    pub(crate) fn change(&mut self, voters: Voters) {
        self.changes.push((self.end, voters));
        self.end += 1;
    }

    /// The leader resigns.
    pub(crate) fn resign(&mut self) {
        self.leader = None;
    }

    /// Time passes. `running` are the processes that reach each other; copies of the log are written back to them.
    pub(crate) fn tick(
        &mut self,
        running: &mut BTreeMap<NodeId, Participant>,
        now_ms: u64,
        dt_ms: u64,
    ) {
        if !self.has_begun() {
            return;
        }
        let leads = |one: &Participant| one.is_controller;
        if !self.leader.is_some_and(|id| running.get(&id).is_some_and(leads)) {
            self.leader = None;
        }
        match self.leader {
            None => self.elect(running, now_ms),
            Some(leader) => self.replicate(leader, running, (now_ms, dt_ms)),
        }
    }

    fn elect(&mut self, running: &mut BTreeMap<NodeId, Participant>, now_ms: u64) {
        let since = *self.lost_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since) < ELECTION_MS && self.epoch > 0 {
            return;
        }
        let votes = |candidate: NodeId, one: &Participant| -> Option<(i32, u64, NodeId)> {
            let voters = self.voters_at(one.copy.end);
            let is_voter = one.is_controller && voters.get(&candidate) == Some(&one.directory);
            let grants = voters.iter().filter(|(id, directory)| {
                running.get(id).is_some_and(|other| {
                    other.is_controller
                        && other.directory == **directory
                        && (other.copy.epoch, other.copy.end) <= (one.copy.epoch, one.copy.end)
                })
            });
            let wins = grants.count() * 2 > voters.len();
            (is_voter && wins).then_some((one.copy.epoch, one.copy.end, candidate))
        };
        let winner = running.iter().filter_map(|(id, one)| votes(*id, one)).max();
        let Some((_, end, id)) = winner else { return };
        self.lost |= end < self.committed;
        self.committed = self.committed.min(end);
        self.changes.retain(|(offset, _)| *offset < end.max(1));
        (self.leader, self.lost_ms, self.high_watermark) = (Some(id), None, None);
        self.epoch += 1;
        // A leader begins with a record of its own.
        self.end = end + 1;
        self.seen.clear();
        if let Some(one) = running.get_mut(&id) {
            one.copy = Copy { end: self.end, epoch: self.epoch };
        }
    }

    fn replicate(
        &mut self,
        leader: NodeId,
        running: &mut BTreeMap<NodeId, Participant>,
        (now_ms, dt_ms): (u64, u64),
    ) {
        // The active controller writes a record every 500 ms.
        self.end += (dt_ms / 500).clamp(1, RATE / 4);
        let fetched = RATE.saturating_mul(dt_ms.div_ceil(1_000)).max(self.end / 16);
        for (id, one) in running.iter_mut() {
            // What was written by a leader that is gone, and is not in this leader's log, is cut off.
            let from = if one.copy.epoch == self.epoch {
                one.copy.end
            } else {
                one.copy.end.min(self.committed)
            };
            let end = if *id == leader { self.end } else { self.end.min(from + fetched) };
            one.copy = Copy { end, epoch: self.epoch };
            let caught_up = end == self.end;
            let before = self.seen.get(&(*id, one.directory));
            let caught_up_ms =
                if caught_up { Some(now_ms) } else { before.and_then(|seen| seen.caught_up_ms) };
            let seen = Seen { end, fetched_ms: now_ms, caught_up_ms };
            self.seen.insert((*id, one.directory), seen);
        }
        let voters = self.voters();
        let is_kept = |(id, directory): &(NodeId, DirectoryId), seen: &mut Seen| {
            voters.get(id) == Some(directory)
                || now_ms.saturating_sub(seen.fetched_ms) < OBSERVER_MS
        };
        self.seen.retain(is_kept);
        self.commit(leader, now_ms);
    }

    /// Moves the high watermark to what a majority of the voters has.
    fn commit(&mut self, leader: NodeId, now_ms: u64) {
        let voters = self.voters();
        let recently = |seen: &&Seen| now_ms.saturating_sub(seen.fetched_ms) < 2 * ELECTION_MS;
        let ends = voters.iter().filter_map(|(id, directory)| {
            self.seen.get(&(*id, *directory)).filter(recently).map(|seen| seen.end)
        });
        let mut ends: Vec<u64> = ends.collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        match ends.get(voters.len() / 2) {
            Some(end) => {
                self.lost_ms = None;
                self.committed = self.committed.max(*end);
                self.high_watermark = Some(self.committed);
                if !voters.contains_key(&leader) && !self.is_changing() {
                    self.leader = None;
                }
            }
            // A leader that reaches no majority resigns.
            None => {
                let since = *self.lost_ms.get_or_insert(now_ms);
                if now_ms.saturating_sub(since) >= 2 * ELECTION_MS {
                    self.leader = None;
                }
            }
        }
    }

    /// The voters that run and have caught up, or were so a moment ago.
    #[must_use]
    pub(crate) fn healthy(&self, now_ms: u64, grace_ms: u64) -> BTreeSet<NodeId> {
        let caught_up = |id: &NodeId, directory: &DirectoryId| {
            let seen = self.seen.get(&(*id, *directory)).and_then(|seen| seen.caught_up_ms);
            seen.is_some_and(|at| now_ms.saturating_sub(at) <= grace_ms)
        };
        let voters = self.voters();
        voters
            .iter()
            .filter(|(id, directory)| caught_up(id, directory))
            .map(|(id, _)| *id)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: i32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn directory(n: u8) -> DirectoryId {
        DirectoryId::from_bytes([n + 1; 16]).unwrap()
    }

    /// Three voters that have all records.
    fn three() -> (Quorum, BTreeMap<NodeId, Participant>) {
        let mut quorum = Quorum::default();
        quorum.begin((0..3).map(|n| (id(n.into()), directory(n))).collect());
        let one = |n: u8| Participant {
            directory: directory(n),
            copy: Copy::default(),
            is_controller: true,
        };
        let mut running = (0..3).map(|n| (id(n.into()), one(n))).collect();
        (1..20).for_each(|at| quorum.tick(&mut running, at * 1_000, 1_000));
        (quorum, running)
    }

    #[test]
    fn a_majority_that_comes_back_empty_loses_the_metadata_and_is_seen() {
        let (mut quorum, mut running) = three();
        assert!(quorum.committed > 0 && quorum.leader.is_some() && !quorum.lost);
        let leader = quorum.leader.unwrap();
        running.remove(&leader);
        running.values_mut().for_each(|one| one.copy = Copy::default());
        (20..40).for_each(|at| quorum.tick(&mut running, at * 1_000, 1_000));
        assert!(quorum.lost && quorum.leader.is_some());
    }

    #[test]
    fn a_majority_elects_a_leader_that_has_everything() {
        let (mut quorum, mut running) = three();
        let (leader, committed) = (quorum.leader.unwrap(), quorum.committed);
        running.remove(&leader);
        (20..40).for_each(|at| quorum.tick(&mut running, at * 1_000, 1_000));
        assert!(quorum.leader.is_some_and(|other| other != leader) && !quorum.lost);
        assert!(quorum.committed >= committed);
        // One of three is no majority.
        let last = quorum.leader.unwrap();
        running.retain(|id, _| *id == last);
        (40..60).for_each(|at| quorum.tick(&mut running, at * 1_000, 1_000));
        assert_eq!(quorum.leader, None);
    }

    #[test]
    fn a_change_of_voters_that_no_majority_has_goes_with_its_leader() {
        let (mut quorum, mut running) = three();
        let before = quorum.voters();
        let mut voters = before.clone();
        voters.insert(id(3), directory(3));
        quorum.change(voters);
        assert!(quorum.is_changing() && quorum.voters().len() == 4);
        let leader = quorum.leader.unwrap();
        running.remove(&leader);
        (20..40).for_each(|at| quorum.tick(&mut running, at * 1_000, 1_000));
        assert_eq!((quorum.voters(), quorum.lost), (before, false));
    }
}
