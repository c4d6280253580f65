//! Lives of a quorum, with everything that goes wrong.
//!
//! A simulated quorum obeys the planner for some hundred passes, while controllers die, lag and lose their
//! disks, the spec changes, answers are lost, and the operator dies between its record and its act. Then
//! everything heals, and the voters must become those that are desired. A failure prints its seed.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};

use control::node::Roles;
use control::quorum::format::{self, Act, Disk, LogDir, QuorumMode, Stamp, Voters};
use control::quorum::plan::{self, Controller, Facts, Listener, Step};
use control::quorum::{InitialController, InitialControllers, QuorumRecord, QuorumView, Replica};
use model::{ClusterId, DirectoryId, NodeId};

const PASSES: usize = 150;
const HEALING_PASSES: usize = 60;
const SEEDS: u64 = 250;

/// A small generator of numbers that is the same everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug, Clone, Default)]
struct Node {
    has_pod: bool,
    up: bool,
    level: bool,
    disk: Option<DirectoryId>,
}

struct World {
    seed: u64,
    chance: Chance,
    nodes: BTreeMap<NodeId, Node>,
    voters: BTreeMap<NodeId, DirectoryId>,
    leader: Option<NodeId>,
    desired: BTreeSet<NodeId>,
    record: QuorumRecord,
    /// Identities of which the record says that they were seen.
    spent: BTreeSet<(NodeId, DirectoryId)>,
    epoch: i32,
    counted: Counted,
}

/// What happened at all, so that a test that meets nothing fails.
#[derive(Debug, Default)]
struct Counted {
    adds: usize,
    removes: usize,
    wipes: usize,
    refusals: usize,
    lost_answers: usize,
    crashes: usize,
    stops: usize,
}

fn id(n: u64) -> NodeId {
    NodeId::new(i32::try_from(n).unwrap()).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let first: Vec<NodeId> = (0..=2 * chance.below(3)).map(id).collect();
        let one = |node: &NodeId| InitialController {
            node: *node,
            host: format!("c{node}"),
            port: 9090,
            directory: random_directory(&mut chance),
        };
        let initial = InitialControllers::new(first.iter().map(one).collect()).unwrap();
        let voters = initial.iter().map(|one| (one.node, one.directory)).collect();
        let record = QuorumRecord { mode: QuorumMode::Dynamic, initial, ..QuorumRecord::default() };
        Self {
            seed,
            chance,
            nodes: BTreeMap::new(),
            voters,
            leader: None,
            desired: first.into_iter().collect(),
            record,
            spent: BTreeSet::new(),
            epoch: 0,
            counted: Counted::default(),
        }
    }

    /// Whether the node is a voter that takes part: it runs on the disk that votes, and has caught up.
    fn takes_part(&self, node: NodeId) -> bool {
        let Some(found) = self.nodes.get(&node) else { return false };
        found.up && found.level && found.disk.as_ref() == self.voters.get(&node)
    }

    fn caught_up(&self) -> usize {
        self.voters.keys().filter(|node| self.takes_part(**node)).count()
    }

    fn has_majority(&self) -> bool {
        2 * self.caught_up() > self.voters.len()
    }

    /// The pods that should be there are, and each that runs has a formatted disk.
    fn start_pods(&mut self) {
        for node in self.desired.clone() {
            self.nodes.entry(node).or_default().has_pod = true;
        }
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in ids {
            if self.nodes[&node].has_pod && self.nodes[&node].up && self.nodes[&node].disk.is_none()
            {
                let disk = self.format(node);
                self.nodes.get_mut(&node).unwrap().disk = disk;
            }
        }
    }

    /// What the node program would do with an empty disk.
    fn format(&mut self, node: NodeId) -> Option<DirectoryId> {
        let cluster = ClusterId::new("sim").unwrap();
        let facts = format::Facts {
            mode: self.record.mode,
            roles: Roles::Controller,
            cluster: cluster.clone(),
            node,
            initial: self.record.initial.clone(),
            seen: self.record.seen(node),
            replaced: false,
            metadata: LogDir { path: "/m".to_owned(), disk: Disk::Empty },
            others: vec![],
        };
        let directory = match format::decide(&facts).act {
            Act::Format(format) => match format.voters {
                Voters::InitialControllers(list) => list.get(node).unwrap().directory,
                Voters::NoInitialControllers => random_directory(&mut self.chance),
                Voters::Static => panic!("seed {}: a static format", self.seed),
            },
            Act::Refuse(_) | Act::Leave => return None,
        };
        assert!(
            !self.spent.contains(&(node, directory)),
            "seed {}: controller {node} got its old identity on an empty disk",
            self.seed
        );
        let stamp = Stamp { cluster, node, directory: Some(directory) };
        stamp.directory
    }

    fn elect(&mut self) {
        let leads = self.leader.filter(|leader| self.takes_part(*leader));
        if leads.is_some() && self.has_majority() && !self.chance.percent(3) {
            return;
        }
        let able: Vec<NodeId> =
            self.voters.keys().copied().filter(|node| self.takes_part(*node)).collect();
        self.leader = None;
        if self.has_majority() {
            let at = self.chance.below(u64::try_from(able.len()).unwrap());
            self.leader = Some(able[usize::try_from(at).unwrap()]);
            self.epoch += 1;
        }
    }

    fn describe(&mut self, reliable: bool) -> Option<QuorumView> {
        let leader = self.leader?;
        if !reliable && self.chance.percent(10) {
            return None;
        }
        let replica = |node: NodeId, directory: DirectoryId| {
            let found = self.nodes.get(&node).filter(|found| found.disk == Some(directory));
            let at =
                found.filter(|found| found.up).map(|found| if found.level { 9_000 } else { 10 });
            Replica {
                id: node,
                directory: Some(directory),
                log_end: at,
                last_fetch_ms: at,
                last_caught_up_ms: at,
            }
        };
        let voters =
            self.voters.iter().map(|(node, directory)| replica(*node, *directory)).collect();
        let follows = |(node, found): (&NodeId, &Node)| {
            let disk = found.disk.filter(|disk| found.up && self.voters.get(node) != Some(disk))?;
            Some(replica(*node, disk))
        };
        let observers = self.nodes.iter().filter_map(follows).collect();
        let epoch = self.epoch;
        Some(QuorumView {
            leader,
            epoch,
            high_watermark: Some(9_000),
            voters,
            observers,
            fetch_timeout_ms: 2000,
        })
    }

    /// One pass of the operator; the step that it saw.
    fn pass(&mut self, reliable: bool) -> Step {
        let quorum = self.describe(reliable);
        self.record = self.record.after(quorum.as_ref());
        self.note_spent();
        let facts = self.facts(quorum);
        let step = plan::decide(&facts).step;
        match &step {
            Step::Add { id, directory, .. } => {
                if self.survives(reliable) && self.answer_is_done(reliable) {
                    self.counted.adds += 1;
                    assert!(!self.voters.contains_key(id), "seed {}: {id} twice", self.seed);
                    self.voters.insert(*id, *directory);
                    self.judge(&step);
                }
            }
            Step::Remove { id, directory, .. } => {
                self.record = self.record.before_removal(*id);
                self.note_spent();
                if self.survives(reliable) && self.answer_is_done(reliable) {
                    self.counted.removes += 1;
                    assert_eq!(self.voters.remove(id), Some(*directory), "seed {}", self.seed);
                    self.judge(&step);
                }
            }
            Step::Refuse(_) => self.counted.refusals += 1,
            Step::Wait(_) | Step::Settled | Step::QuorumLost(_) | Step::StaticRefused { .. } => {}
        }
        if matches!(step, Step::Settled) || self.chance.percent(50) {
            self.stop_pods(&facts);
        }
        step
    }

    fn facts(&self, quorum: Option<QuorumView>) -> Facts {
        let listener = Listener { name: "C".to_owned(), host: "h".to_owned(), port: 1 };
        let desire = |node: &NodeId| {
            let runs = self.nodes.get(node).is_some_and(|found| found.up);
            (*node, Controller { runs: Some(runs), listeners: vec![listener.clone()] })
        };
        let disk = |(node, found): (&NodeId, &Node)| {
            found.disk.filter(|_| found.up).map(|disk| (*node, disk))
        };
        Facts {
            mode: self.record.mode,
            desired: self.desired.iter().map(desire).collect(),
            disks: self.nodes.iter().filter_map(disk).collect(),
            quorum,
            earlier: None,
            recorded_voters: BTreeMap::new(),
            failed_adds: BTreeMap::new(),
        }
    }

    /// With what the planner saw, nothing may be worse than a caught-up majority.
    fn judge(&self, step: &Step) {
        assert!(
            self.has_majority(),
            "seed {}: {step:?} left {} of {} voters",
            self.seed,
            self.caught_up(),
            self.voters.len()
        );
    }

    fn survives(&mut self, reliable: bool) -> bool {
        let dies = !reliable && self.chance.percent(10);
        self.counted.crashes += usize::from(dies);
        !dies
    }

    /// Code 7: half of the time it was done all the same, which the next description shows.
    fn answer_is_done(&mut self, reliable: bool) -> bool {
        let lost = !reliable && self.chance.percent(20);
        self.counted.lost_answers += usize::from(lost);
        !lost || self.chance.percent(50)
    }

    fn note_spent(&mut self) {
        let seen = self.record.initial.iter().filter(|one| self.record.seen.contains(&one.node));
        self.spent.extend(seen.map(|one| (one.node, one.directory)));
    }

    /// Pods that are not desired go when the planner lets them, and their disks with them.
    fn stop_pods(&mut self, facts: &Facts) {
        let unwanted: Vec<NodeId> =
            self.nodes.keys().copied().filter(|node| !self.desired.contains(node)).collect();
        // The facts were read before this pass's change, as they are in the operator.
        for node in unwanted {
            if plan::may_stop(facts, node).is_ok() && !self.voters.contains_key(&node) {
                self.nodes.remove(&node);
                self.counted.stops += 1;
            } else if plan::may_stop(facts, node).is_ok() {
                panic!("seed {}: {node} would be stopped and votes", self.seed);
            }
        }
    }

    fn trouble(&mut self) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in ids {
            let (dies, comes, lags, levels) = (
                self.chance.percent(4),
                self.chance.percent(30),
                self.chance.percent(4),
                self.chance.percent(50),
            );
            let found = self.nodes.get_mut(&node).unwrap();
            found.up = if found.up { !dies } else { comes };
            found.level = if found.level { !lags } else { levels };
            let wiped = self.chance.percent(3);
            if wiped && self.can_spare(node) {
                self.counted.wipes += 1;
                let found = self.nodes.get_mut(&node).unwrap();
                (found.disk, found.level) = (None, false);
            }
        }
        if self.chance.percent(8) {
            let count = 1 + self.chance.below(5);
            self.desired = (0..count).map(|_| id(self.chance.below(8))).collect();
        }
    }

    /// Whether a majority of the voters still has its disks without this one. More than that is lost,
    /// whatever one does.
    fn can_spare(&self, node: NodeId) -> bool {
        let intact = |voter: &NodeId, directory: &DirectoryId| {
            *voter != node
                && self.nodes.get(voter).is_some_and(|n| n.disk.as_ref() == Some(directory))
        };
        let left = self.voters.iter().filter(|(voter, directory)| intact(voter, directory)).count();
        2 * left > self.voters.len()
    }

    fn heal(&mut self) {
        for node in self.nodes.values_mut() {
            (node.up, node.level) = (true, true);
        }
    }

    fn live(&mut self) -> bool {
        for _ in 0..PASSES {
            self.start_pods();
            self.trouble();
            self.elect();
            self.pass(false);
        }
        for _ in 0..HEALING_PASSES {
            self.start_pods();
            self.heal();
            self.start_pods();
            self.elect();
            if self.pass(true) == Step::Settled && self.nodes.len() == self.desired.len() {
                let voters: BTreeSet<NodeId> = self.voters.keys().copied().collect();
                assert_eq!(voters, self.desired, "seed {}", self.seed);
                assert_eq!(self.caught_up(), self.desired.len(), "seed {}", self.seed);
                return true;
            }
        }
        false
    }
}

fn random_directory(chance: &mut Chance) -> DirectoryId {
    loop {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&chance.next().to_be_bytes());
        bytes[8..].copy_from_slice(&chance.next().to_be_bytes());
        if let Some(directory) = DirectoryId::generate(bytes) {
            return directory;
        }
    }
}

#[test]
fn whatever_happens_the_quorum_is_kept_and_becomes_the_desired_one() {
    let mut all = Counted::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        assert!(
            world.live(),
            "seed {seed} does not settle: desired {:?}, voters {:?}, record {:?}, nodes {:?}, leader {:?}",
            world.desired,
            world.voters,
            world.record,
            world.nodes,
            world.leader,
        );
        let counted = world.counted;
        all.adds += counted.adds;
        all.removes += counted.removes;
        all.wipes += counted.wipes;
        all.refusals += counted.refusals;
        all.lost_answers += counted.lost_answers;
        all.crashes += counted.crashes;
        all.stops += counted.stops;
    }
    let met =
        [all.adds, all.removes, all.wipes, all.refusals, all.lost_answers, all.crashes, all.stops];
    assert!(met.iter().all(|count| *count > 100), "{all:?}");
}
