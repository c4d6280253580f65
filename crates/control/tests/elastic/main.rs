//! Clusters that are edited at random, decided on by the areas of a pass, under faults.
//!
//! The world stands in for Kubernetes and Kafka; the record, the snapshot, the decisions, the order and the handling
//! of answers are those of the operator. Kafka does not answer now and then, answers to acts are lost, acts are not
//! carried out or carried out late, the operator dies between any two of its acts or pauses for a minute, and replicas
//! land where they can. In the end everything is as the last edit asked for, and on the way no voter is stopped, no
//! replica loses its disk, no majority of the voters is without a pod because of a change of voters, and no broker
//! that runs or holds replicas is unregistered.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod observe;

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::act::{Act, What};
use control::cluster::area::Area;
use control::cluster::decide::{Scope, decide};
use control::cluster::execute::{Execution, Next};
use control::cluster::journal::Entered;
use control::cluster::record::Record;
use control::cluster::snapshot::Revision;
use control::conditions::{Outcome, Reason};
use control::node::Roles;
use control::quorum::answer::Answer;
use control::quorum::format::QuorumMode;
use control::scaling::guard::Phase;
use control::scaling::up;
use model::{DirectoryId, NodeId};

const SEEDS: u64 = 100;
const PASSES: usize = 120;
const QUIET_PASSES: usize = 120;

/// The areas of a pass that the world has facts for.
fn scope() -> Scope {
    use Area::{Kafka, Leftovers, Migration, Quorum, Rebalance, Registration, Roll, ScaleIn};
    Scope::of([Kafka, Migration, Quorum, Roll, Rebalance, ScaleIn, Registration, Leftovers])
}

/// A small generator of numbers that is the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What there is.
#[derive(Debug, Clone, Default)]
struct World {
    /// Pods that run, and as what.
    pods: BTreeMap<NodeId, Roles>,
    /// How many pods each node has had.
    pods_made: BTreeMap<NodeId, u32>,
    /// Disks, which outlive pods.
    disks: BTreeMap<NodeId, DirectoryId>,
    voters: BTreeMap<NodeId, DirectoryId>,
    /// Registered brokers, and whether each is fenced.
    registered: BTreeMap<NodeId, bool>,
    /// How many partitions each broker has.
    partitions: BTreeMap<NodeId, usize>,
    cordoned: BTreeSet<NodeId>,
    desired: BTreeMap<NodeId, Roles>,
    disks_made: u32,
    now_ms: u64,
}

/// What goes wrong in a pass.
#[derive(Debug, Clone, Copy)]
struct Faults {
    /// Whether Kafka answers questions.
    silent: bool,
    /// After how many acts the operator dies.
    lives: usize,
    /// Whether things happen to acts and between them.
    disturbed: bool,
}

const NONE: Faults = Faults { silent: false, lives: usize::MAX, disturbed: false };

struct Life {
    seed: u64,
    chance: Chance,
    world: World,
    record: Record,
    cordons: bool,
    counted: BTreeMap<&'static str, usize>,
}

/// The operator died.
struct Dead;

fn id(n: u64) -> NodeId {
    NodeId::new(i32::try_from(n).unwrap()).unwrap()
}

/// What a pod is started with: here, its roles.
fn revision(roles: Roles) -> Revision {
    Revision { pod: Some(format!("{roles:?}")), ..Revision::default() }
}

fn pod(node: NodeId) -> String {
    format!("c-p-{node}")
}

impl Life {
    fn new(seed: u64) -> Self {
        let world = World { now_ms: 1_000_000, ..World::default() };
        let mut life = Self {
            seed,
            chance: Chance(seed),
            world,
            record: Record { cluster_id: Some("c".to_owned()), ..Record::default() },
            cordons: seed.is_multiple_of(2),
            counted: BTreeMap::new(),
        };
        life.record.quorum.mode = QuorumMode::Dynamic;
        life.edit();
        for (node, role) in life.world.desired.clone() {
            life.start(node, role);
            if role.is_controller() {
                let disk = life.world.disks[&node];
                life.world.voters.insert(node, disk);
            }
            life.record.pools.entry("p".to_owned()).or_default().insert(node, role);
        }
        life.settle();
        life
    }

    fn count(&mut self, what: &'static str) {
        *self.counted.entry(what).or_default() += 1;
    }

    /// Asks for at least one node of each role.
    fn edit(&mut self) {
        let mut desired = BTreeMap::new();
        for n in 0..8 {
            let role = match self.chance.below(5) {
                0 => Roles::Broker,
                1 => Roles::Controller,
                2 => Roles::Combined,
                _ => continue,
            };
            desired.insert(id(n), role);
        }
        if !desired.values().any(|role: &Roles| role.is_broker()) {
            desired.insert(id(8), Roles::Broker);
        }
        if !desired.values().any(|role: &Roles| role.is_controller()) {
            desired.insert(id(9), Roles::Controller);
        }
        self.world.desired = desired;
    }

    fn start(&mut self, node: NodeId, role: Roles) {
        if !self.world.disks.contains_key(&node) {
            self.world.disks_made += 1;
            let mut bytes = [7; 16];
            bytes[..4].copy_from_slice(&self.world.disks_made.to_be_bytes());
            self.world.disks.insert(node, DirectoryId::from_bytes(bytes).unwrap());
        }
        self.world.pods.insert(node, role);
        *self.world.pods_made.entry(node).or_default() += 1;
    }

    /// The uid of the pod that a node has, or had last.
    fn uid(&self, node: NodeId) -> String {
        format!("{node}-{}", self.world.pods_made.get(&node).copied().unwrap_or_default())
    }

    /// What Kafka notices by itself.
    fn settle(&mut self) {
        let World { pods, registered, .. } = &mut self.world;
        for (node, _) in pods.iter().filter(|(_, role)| role.is_broker()) {
            registered.insert(*node, false);
        }
        for (node, fenced) in registered.iter_mut() {
            *fenced = !pods.get(node).is_some_and(|role| role.is_broker());
        }
    }

    fn replicas_move(&mut self, quiet: bool) {
        // A rebalance empties brokers that are drained, a bit at a time.
        let drained = self.record.leaving.iter().filter(|(_, one)| one.phase == Phase::Draining);
        for (node, _) in drained {
            if let Some(partitions) = self.world.partitions.get_mut(node) {
                *partitions = partitions.saturating_sub(1);
            }
        }
        let open = self.world.registered.keys().copied();
        let open: Vec<NodeId> = open.filter(|node| !self.world.cordoned.contains(node)).collect();
        for node in open {
            if !quiet && self.chance.percent(5) {
                *self.world.partitions.entry(node).or_default() += 1;
            }
        }
    }

    fn pass(&mut self, mut faults: Faults) {
        if self.try_pass(&mut faults).is_err() {
            self.count("deaths");
        }
    }

    fn act(&mut self, faults: &mut Faults) -> Result<(), Dead> {
        self.world.now_ms += 100;
        faults.lives = faults.lives.checked_sub(1).ok_or(Dead)?;
        Ok(())
    }

    fn try_pass(&mut self, faults: &mut Faults) -> Result<(), Dead> {
        self.world.now_ms += 2_500;
        let recorded = self.record.nodes().into_iter().map(|node| (node.id, node.roles)).collect();
        let desired = self.world.desired.clone();
        let come = up::Facts { wished: desired, recorded: Some(recorded), refused: [].into() };
        for node in up::decide(&come).start {
            let roles = self.world.desired[&node];
            self.record.pools.entry("p".to_owned()).or_default().insert(node, roles);
        }
        self.act(faults)?;
        let follow = self.pods_to_follow();
        self.act(faults)?;
        let before = self.record.clone();
        let mut snapshot = self.observe(&before, faults.silent);
        let decision = decide(&snapshot, &before, &scope());
        // Record, then act.
        self.record = decision.record.clone();
        self.act(faults)?;
        // Pod sets are applied by the first acts of a pass, as they were built before it was decided.
        self.pods_follow(follow);
        let mut execution = Execution::new(decision, before, scope());
        loop {
            if faults.disturbed && self.chance.percent(10) {
                self.world.now_ms += 60_000;
                (0..5).for_each(|_| self.replicas_move(false));
                self.count("pauses");
            }
            match execution.next(&mut self.record, &snapshot, self.world.now_ms) {
                Next::End => break,
                Next::ReadAgain => {
                    snapshot = self.observe(execution.before(), faults.silent);
                    execution.reread(&snapshot);
                }
                Next::Send(act) if faults.disturbed && self.chance.percent(3) => {
                    // Its outcome is unknown.
                    if self.chance.percent(50) {
                        self.carry_out(&act, false);
                    }
                    self.count("errors");
                    break;
                }
                Next::Send(act) => {
                    let answer = self.carry_out(&act, faults.disturbed);
                    self.act(faults)?;
                    execution.answered(&mut self.record, (answer, None), self.world.now_ms);
                    self.act(faults)?;
                }
            }
        }
        if execution.dropped().is_some() {
            self.count("acts dropped");
        }
        let outcome = execution.finish(&mut self.record);
        self.act(faults)?;
        match outcome {
            // A node that was held back too often counts as given up, and is tried on.
            Outcome::Held(note) if note.reason == Reason::RollFailed => {}
            Outcome::Held(note) => panic!("seed {}: {note:?}", self.seed),
            Outcome::Done | Outcome::Progressing(_) | Outcome::Paused => {}
        }
        Ok(())
    }

    /// The roles that each recorded node should run with; `None` if its pod should be stopped.
    fn pods_to_follow(&mut self) -> Vec<(NodeId, Option<Roles>)> {
        let mut all = Vec::new();
        for node in self.record.nodes() {
            let now = self.record.roles_now(&node, self.world.desired.get(&node.id).copied());
            if let Some(now) = now {
                self.record.pools.get_mut(&node.pool).unwrap().insert(node.id, now);
            }
            all.push((node.id, now));
        }
        all
    }

    /// Pods that should run are started, and those that should not are stopped. One that runs is restarted by the
    /// roller only.
    fn pods_follow(&mut self, all: Vec<(NodeId, Option<Roles>)>) {
        for (node, roles) in all {
            match roles {
                Some(roles) if !self.world.pods.contains_key(&node) => self.start(node, roles),
                Some(_) => {}
                None => {
                    let was = self.world.pods.remove(&node);
                    self.is_stopped(node, was);
                }
            }
        }
    }

    /// A controller that votes is not stopped for good.
    fn is_stopped(&mut self, node: NodeId, was: Option<Roles>) {
        if was.is_some_and(Roles::is_controller) {
            let votes = self.world.voters.contains_key(&node);
            assert!(!votes, "seed {}: {node} votes and is stopped", self.seed);
            self.count("controllers stopped");
        }
    }

    /// Deletes a pod, which comes again in the next pass. The other voters that run are a majority; of one or two voters
    /// that cannot be.
    fn restart(&mut self, node: NodeId, uid: &str) {
        if self.uid(node) != uid {
            return;
        }
        let was = self.world.pods.remove(&node);
        let recorded = self.record.nodes().into_iter().find(|one| one.id == node).unwrap();
        let now = self.record.roles_now(&recorded, self.world.desired.get(&node).copied());
        if !now.is_some_and(Roles::is_controller) {
            self.is_stopped(node, was);
        }
        self.count("restarts");
        let voters = &self.world.voters;
        let alive = voters.keys().filter(|id| self.world.pods.contains_key(id)).count();
        let majority = alive * 2 > voters.len() || voters.len() <= 2;
        let votes = voters.contains_key(&node);
        assert!(majority || !votes, "seed {}: {node} restarts: {voters:?}", self.seed);
    }

    /// Carries out an act, perhaps not, and answers, perhaps not.
    fn carry_out(&mut self, act: &Act, disturbed: bool) -> Answer {
        let (lost, silent) = match disturbed {
            true => (self.chance.percent(10), self.chance.percent(10)),
            false => (false, false),
        };
        if lost {
            self.count("acts lost");
            let answers = [Answer::Unknown, Answer::NotLeader, Answer::Refused, Answer::NotSent];
            return answers[usize::try_from(self.chance.below(4)).unwrap()];
        }
        if let What::Cordon { id } | What::Uncordon { id } = act.what
            && !self.world.pods.get(&id).is_some_and(|roles| roles.is_broker())
        {
            // Kafka changes settings of a running broker only.
            return Answer::Refused;
        }
        self.apply(act);
        if silent {
            self.count("answers lost");
            return Answer::Unknown;
        }
        Answer::Done
    }

    fn apply(&mut self, act: &Act) {
        let seed = self.seed;
        match &act.what {
            What::AddVoter { id, directory, .. } => {
                let runs = self.world.pods.get(id).is_some_and(|roles| roles.is_controller());
                assert!(runs, "seed {seed}: {id} is no controller");
                self.world.voters.insert(*id, *directory);
                self.count("voters added");
            }
            What::RemoveVoter { id, directory } => {
                assert_eq!(self.world.voters.get(id), Some(directory), "seed {seed}: {id}");
                self.world.voters.remove(id);
                self.count("voters removed");
            }
            What::Unregister { id } => {
                let runs = self.world.pods.get(id).is_some_and(|roles| roles.is_broker());
                assert!(!runs, "seed {seed}: {id} runs and is unregistered");
                let held = self.world.partitions.get(id).copied().unwrap_or(0);
                assert_eq!(held, 0, "seed {seed}: {id} holds replicas and is unregistered");
                self.world.registered.remove(id);
                self.count("unregistered");
            }
            What::Cordon { id } => {
                self.world.cordoned.insert(*id);
            }
            What::Uncordon { id } => {
                self.world.cordoned.remove(id);
            }
            What::DeleteClaim { uid, .. } => {
                let node = NodeId::new(uid.parse().unwrap()).unwrap();
                let held = self.world.partitions.get(&node).copied().unwrap_or(0);
                assert_eq!(held, 0, "seed {seed}: the disk of {node} has replicas");
                assert!(!self.world.pods.contains_key(&node), "seed {seed}: {node} runs");
                assert!(!self.world.voters.contains_key(&node), "seed {seed}: {node} votes");
                self.world.disks.remove(&node);
                self.count("disks deleted");
            }
            What::RestartPod { id, uid, .. } => return self.restart(*id, uid),
            other => panic!("seed {seed}: nobody asked to {other}"),
        }
        // A restart has its own rule.
        if matches!(act.what, What::AddVoter { .. } | What::RemoveVoter { .. }) {
            let voters = &self.world.voters;
            let alive = voters.keys().filter(|id| self.world.pods.contains_key(id)).count();
            let all = voters.len();
            assert!(alive * 2 > all, "seed {seed}: {alive} of {all} voters run after {}", act.what);
        }
    }

    fn is_as_desired(&self) -> bool {
        let world = &self.world;
        let voters: BTreeSet<NodeId> = world.voters.keys().copied().collect();
        let of = |which: fn(Roles) -> bool| -> BTreeSet<NodeId> {
            world.desired.iter().filter(|(_, role)| which(**role)).map(|(node, _)| *node).collect()
        };
        let registered: BTreeSet<NodeId> = world.registered.keys().copied().collect();
        let disks: BTreeSet<NodeId> = world.disks.keys().copied().collect();
        world.pods == world.desired
            && voters == of(Roles::is_controller)
            && registered == of(Roles::is_broker)
            && disks == world.desired.keys().copied().collect()
            // What is left for an id that is gone is cleared when the id comes again.
            && !world.cordoned.iter().any(|node| world.registered.contains_key(node))
            && self.record.leaving.is_empty()
            && self.record.journal.iter().all(|entry| match entry.act {
                Entered::Uncordon(id) => !world.registered.contains_key(&id),
                Entered::AddVoter(_) | Entered::RemoveVoter(_) | Entered::RaiseKraftVersion => false,
            })
            && self.record.unregistrations.is_empty()
    }

    fn live(&mut self) {
        for _ in 0..PASSES {
            if self.chance.percent(6) {
                self.edit();
                self.count("edits");
            }
            let silent = self.chance.percent(10);
            let dies = self.chance.percent(15);
            let lives =
                if dies { usize::try_from(self.chance.below(9)).unwrap() } else { usize::MAX };
            self.pass(Faults { silent, lives, disturbed: true });
            self.settle();
            self.replicas_move(false);
        }
        for _ in 0..QUIET_PASSES {
            self.pass(NONE);
            self.settle();
            self.replicas_move(true);
            if self.is_as_desired() {
                return;
            }
        }
        panic!("seed {} does not settle: {:#?} {:#?}", self.seed, self.world, self.record);
    }
}

#[test]
fn whatever_is_edited_the_cluster_becomes_it_and_loses_nothing() {
    let mut all: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut life = Life::new(seed);
        life.live();
        for (what, count) in life.counted {
            *all.entry(what).or_default() += count;
        }
    }
    let expected = [
        "acts dropped",
        "acts lost",
        "answers lost",
        "controllers stopped",
        "deaths",
        "disks deleted",
        "edits",
        "errors",
        "pauses",
        "restarts",
        "unregistered",
        "voters added",
        "voters removed",
    ];
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), expected);
    let rare = |what: &str| if what == "acts dropped" { 3 } else { 50 };
    assert!(all.iter().all(|(what, count)| *count >= rare(what)), "{all:?}");
}
