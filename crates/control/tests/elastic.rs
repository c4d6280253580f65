//! Clusters that are edited at random, and what the decisions make of them together.
//!
//! Each pass is put together as the operator does it: release controllers, take leaving brokers on, let new
//! nodes come, make pods follow, change one voter, unregister. Kafka is silent now and then, the operator dies
//! between record and act, replicas land where they can. In the end everything is as the last edit asked for,
//! and on the way no voter is stopped, no replica loses its disk, and no running broker is forgotten.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};

use control::node::Roles;
use control::quorum::format::QuorumMode;
use control::quorum::plan::{self, Controller, Listener, Step};
use control::quorum::{QuorumView, Replica};
use control::registration::unregister;
use control::scaling::guard::{self, Cordon, Registration};
use control::scaling::leaving::{self, Leaving, Member};
use control::scaling::{controllers, roles, up};
use model::{DirectoryId, NodeId};

const SEEDS: u64 = 120;
const PASSES: usize = 120;
const QUIET_PASSES: usize = 80;

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

/// What the operator has recorded.
#[derive(Debug, Clone, Default)]
struct Record {
    members: BTreeMap<NodeId, Member>,
    leaving: BTreeMap<NodeId, Leaving>,
    released: BTreeSet<NodeId>,
    suspects: BTreeSet<NodeId>,
}

/// What there is.
#[derive(Debug, Clone, Default)]
struct World {
    /// Pods that run, and as what.
    pods: BTreeMap<NodeId, Roles>,
    /// Disks, which outlive pods.
    disks: BTreeMap<NodeId, DirectoryId>,
    voters: BTreeMap<NodeId, DirectoryId>,
    /// Registered brokers, and whether each is fenced.
    registered: BTreeMap<NodeId, bool>,
    /// How many partitions each broker has.
    partitions: BTreeMap<NodeId, usize>,
    cordoned: BTreeSet<NodeId>,
    wished: BTreeMap<NodeId, Roles>,
    disks_made: u32,
}

struct Life {
    seed: u64,
    chance: Chance,
    world: World,
    record: Record,
    cordons: bool,
    counted: BTreeMap<&'static str, usize>,
}

fn id(n: u64) -> NodeId {
    NodeId::new(i32::try_from(n).unwrap()).unwrap()
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut life = Self {
            seed,
            chance: Chance(seed),
            world: World::default(),
            record: Record::default(),
            cordons: seed.is_multiple_of(2),
            counted: BTreeMap::new(),
        };
        life.edit();
        for (node, role) in life.world.wished.clone() {
            life.start(node, role);
            if role.is_controller() {
                let disk = life.world.disks[&node];
                life.world.voters.insert(node, disk);
            }
            life.record.members.insert(node, Member { pool: "p".to_owned(), roles: role });
        }
        life.settle();
        life
    }

    fn count(&mut self, what: &'static str) {
        *self.counted.entry(what).or_default() += 1;
    }

    /// A wish with at least one of each role.
    fn edit(&mut self) {
        let mut wished = BTreeMap::new();
        for n in 0..8 {
            let role = match self.chance.below(5) {
                0 => Roles::Broker,
                1 => Roles::Controller,
                2 => Roles::Combined,
                _ => continue,
            };
            wished.insert(id(n), role);
        }
        if !wished.values().any(|role: &Roles| role.is_broker()) {
            wished.insert(id(8), Roles::Broker);
        }
        if !wished.values().any(|role: &Roles| role.is_controller()) {
            wished.insert(id(9), Roles::Controller);
        }
        self.world.wished = wished;
    }

    fn start(&mut self, node: NodeId, role: Roles) {
        if !self.world.disks.contains_key(&node) {
            self.world.disks_made += 1;
            let mut bytes = [7; 16];
            bytes[..4].copy_from_slice(&self.world.disks_made.to_be_bytes());
            self.world.disks.insert(node, DirectoryId::from_bytes(bytes).unwrap());
        }
        self.world.pods.insert(node, role);
    }

    /// What Kafka notices by itself.
    fn settle(&mut self) {
        let World { pods, registered, .. } = &mut self.world;
        for (node, role) in pods.iter().filter(|(_, role)| role.is_broker()) {
            let _ = role;
            registered.insert(*node, false);
        }
        for (node, fenced) in registered.iter_mut() {
            *fenced = !pods.get(node).is_some_and(|role| role.is_broker());
        }
    }

    fn replicas_move(&mut self, quiet: bool) {
        // A rebalance empties brokers that are drained, a bit at a time.
        for node in leaving::to_drain(&self.record.leaving) {
            if let Some(partitions) = self.world.partitions.get_mut(&node) {
                *partitions = partitions.saturating_sub(1);
            }
        }
        let open: Vec<NodeId> = self
            .world
            .registered
            .keys()
            .copied()
            .filter(|node| !self.world.cordoned.contains(node))
            .collect();
        for node in open {
            if !quiet && self.chance.percent(5) {
                *self.world.partitions.entry(node).or_default() += 1;
            }
        }
    }

    fn view(&self) -> QuorumView {
        let replica = |node: NodeId, disk: DirectoryId| Replica {
            id: node,
            directory: Some(disk),
            log_end: Some(100),
            last_fetch_ms: Some(9_000),
            last_caught_up_ms: Some(9_000),
        };
        let voters: Vec<Replica> =
            self.world.voters.iter().map(|(node, disk)| replica(*node, *disk)).collect();
        // Every node follows: brokers too.
        let follows = |node: &&NodeId| !self.world.voters.contains_key(node);
        let observers = self.world.pods.keys().filter(follows);
        QuorumView {
            leader: voters[0].id,
            epoch: 1,
            high_watermark: Some(100),
            observers: observers.map(|node| replica(*node, self.world.disks[node])).collect(),
            voters,
            fetch_timeout_ms: 2000,
        }
    }

    fn plan_facts(&self, answers: bool) -> plan::Facts {
        let listener = Listener { name: "C".to_owned(), host: "h".to_owned(), port: 1 };
        let wished = self.world.wished.iter().filter(|(_, role)| role.is_controller());
        let wish = |(node, _): (&NodeId, &Roles)| {
            let stopped = self.record.leaving.get(node).is_some_and(Leaving::is_stopped);
            let runs = self.world.pods.get(node).is_some_and(|role| role.is_controller());
            let runs = runs && !stopped;
            (*node, Controller { runs: Some(runs), listeners: vec![listener.clone()] })
        };
        plan::Facts {
            mode: QuorumMode::Dynamic,
            wished: wished.map(wish).collect(),
            disks: self.world.disks.clone(),
            quorum: answers.then(|| self.view()),
            earlier: None,
            recorded_voters: BTreeMap::new(),
            failed_adds: BTreeMap::new(),
        }
    }

    fn guard_facts(
        &self,
        node: NodeId,
        quorum: &controllers::Decision,
        answers: bool,
    ) -> guard::Facts {
        let wished = self.world.wished.get(&node).is_some_and(|role| role.is_broker());
        let partitions = self.world.partitions.get(&node).copied().unwrap_or(0);
        let runs = self.world.pods.get(&node).is_some_and(|role| role.is_broker());
        let cordon = match (self.cordons, self.world.cordoned.contains(&node)) {
            (false, _) => Cordon::Unsupported,
            (true, true) => Cordon::Closed,
            (true, false) => Cordon::Open,
        };
        let registration = match self.world.registered.get(&node) {
            None => Registration::Gone,
            Some(true) => Registration::Fenced,
            Some(false) => Registration::Live,
        };
        let leaves =
            |node: &&NodeId| !self.world.wished.get(node).is_some_and(|role| role.is_broker());
        guard::Facts {
            wished,
            partitions: answers.then_some(partitions),
            skip_check: false,
            held: Some(leaving::to_drain(&self.record.leaving).contains(&node) && partitions > 0),
            cordon: (answers && runs).then_some(cordon),
            quorum: quorum.lets_go(node),
            runs: Some(runs),
            registration: answers.then_some(registration),
            claims_left: Some(self.world.disks.contains_key(&node)),
            others_stay: self.world.registered.keys().any(|node| !leaves(&node)),
        }
    }

    /// One pass; `dies` says after which of its acts.
    fn pass(&mut self, answers: bool, mut lives: usize) {
        let facts = self.plan_facts(answers);
        let leaving_controllers: BTreeSet<NodeId> = self
            .record
            .members
            .iter()
            .filter(|(_, member)| member.roles.is_controller())
            .map(|(node, _)| *node)
            .filter(|node| !self.world.wished.get(node).is_some_and(|role| role.is_controller()))
            .collect();
        let quorum =
            controllers::release(&self.record.released, &leaving_controllers, Some(&facts));
        self.record.released.clone_from(&quorum.released);

        let all = leaving::admit(&self.record.leaving, &self.record.members, &self.world.wished);
        let each = all.keys().map(|node| (*node, self.guard_facts(*node, &quorum, answers)));
        let each: BTreeMap<NodeId, guard::Facts> = each.collect();
        let pass = leaving::pass(&all, &each);
        self.record.leaving.clone_from(&pass.leaving);

        let come = up::Facts {
            wished: self.world.wished.clone(),
            recorded: Some(self.record.members.iter().map(|(n, m)| (*n, m.roles)).collect()),
            refused: BTreeSet::new(),
        };
        for node in up::decide(&come).start {
            let member = Member { pool: "p".to_owned(), roles: self.world.wished[&node] };
            self.record.members.insert(node, member);
        }

        let mut act = |life: &mut Self| {
            let alive = lives > 0;
            lives = lives.saturating_sub(1);
            if !alive {
                life.count("deaths");
            }
            alive
        };
        if !act(self) {
            return;
        }
        self.follow(&pass);
        if !act(self) {
            return;
        }
        self.change_voter(&plan::decide(&facts).step);
        if !act(self) {
            return;
        }
        self.unregister(answers);
    }

    /// Pods, cordons and claims follow what was decided.
    fn follow(&mut self, pass: &leaving::Pass) {
        for node in self.record.members.keys().copied().collect::<Vec<_>>() {
            let member = self.record.members[&node].clone();
            let now = roles::now(&roles::Facts {
                wished: self.world.wished.get(&node).copied(),
                recorded: Some(member.roles),
                leaving: pass.leaving.get(&node),
                released: self.record.released.contains(&node),
            });
            let was = self.world.pods.get(&node).copied();
            if was.is_some_and(Roles::is_controller) && !now.is_some_and(Roles::is_controller) {
                assert!(!self.world.voters.contains_key(&node), "seed {}: {node} votes", self.seed);
                self.count("controllers stopped");
            }
            match now {
                Some(now) => {
                    self.start(node, now);
                    self.record.members.insert(node, Member { roles: now, ..member });
                }
                None => {
                    self.world.pods.remove(&node);
                }
            }
            let duty = pass.duties.get(&node);
            if self.cordons && self.world.pods.contains_key(&node) {
                match duty.is_some_and(|duty| duty.cordoned) {
                    true => self.world.cordoned.insert(node),
                    false => self.world.cordoned.remove(&node),
                };
            }
            if duty.is_some_and(|duty| duty.delete_claims) && now.is_none() {
                let partitions = self.world.partitions.get(&node).copied().unwrap_or(0);
                assert_eq!(partitions, 0, "seed {}: the disk of {node} has replicas", self.seed);
                self.world.disks.remove(&node);
                self.world.cordoned.remove(&node);
                self.count("disks deleted");
            }
            // A controller that is no broker has no guard: its disk goes when it has gone.
            if duty.is_none() && now.is_none() {
                self.world.disks.remove(&node);
                self.record.members.remove(&node);
                self.record.released.remove(&node);
            }
        }
        for node in &pass.done {
            self.record.members.remove(node);
            self.record.released.remove(node);
        }
    }

    fn change_voter(&mut self, step: &Step) {
        match step {
            Step::Add { id, directory, .. } => {
                assert!(
                    self.world.pods[id].is_controller(),
                    "seed {}: {id} is no controller",
                    self.seed
                );
                self.world.voters.insert(*id, *directory);
                self.count("voters added");
            }
            Step::Remove { id, .. } => {
                self.world.voters.remove(id);
                self.count("voters removed");
            }
            Step::Wait(_) | Step::Settled => {}
            step @ (Step::Refuse(_) | Step::QuorumLost(_) | Step::StaticRefused { .. }) => {
                panic!("seed {}: {step:?}", self.seed)
            }
        }
    }

    fn unregister(&mut self, answers: bool) {
        let wished = self.world.wished.iter().filter(|(_, role)| role.is_broker());
        let wished: BTreeSet<NodeId> = wished.map(|(node, _)| *node).collect();
        let running = self.world.pods.iter().filter(|(_, role)| role.is_broker());
        let facts = unregister::Facts {
            registered: answers.then(|| self.world.registered.clone()),
            wished: &wished | &leaving::stay_registered(&self.record.leaving),
            running: Some(running.map(|(node, _)| *node).collect()),
            assigned: answers.then(|| self.world.partitions.clone()),
            suspects: self.record.suspects.clone(),
            ..unregister::Facts::default()
        };
        let decision = unregister::decide(&facts);
        self.record.suspects = decision.suspects;
        for node in decision.unregister {
            let runs = self.world.pods.get(&node).is_some_and(|role| role.is_broker());
            assert!(!runs, "seed {}: {node} runs and is forgotten", self.seed);
            self.world.registered.remove(&node);
            self.count("unregistered");
        }
    }

    fn is_as_wished(&self) -> bool {
        let world = &self.world;
        let voters: BTreeSet<NodeId> = world.voters.keys().copied().collect();
        let of = |which: fn(Roles) -> bool| -> BTreeSet<NodeId> {
            world.wished.iter().filter(|(_, role)| which(**role)).map(|(node, _)| *node).collect()
        };
        let registered: BTreeSet<NodeId> = world.registered.keys().copied().collect();
        let disks: BTreeSet<NodeId> = world.disks.keys().copied().collect();
        world.pods == world.wished
            && voters == of(Roles::is_controller)
            && registered == of(Roles::is_broker)
            && disks == world.wished.keys().copied().collect()
            // What is left for an id that is gone is cleared when the id comes again.
            && !world.cordoned.iter().any(|node| world.pods.contains_key(node))
            && self.record.leaving.is_empty()
    }

    fn live(&mut self) {
        for _ in 0..PASSES {
            if self.chance.percent(6) {
                self.edit();
                self.count("edits");
            }
            let answers = !self.chance.percent(10);
            let lives = if self.chance.percent(15) {
                usize::try_from(self.chance.below(3)).unwrap()
            } else {
                3
            };
            self.pass(answers, lives);
            self.settle();
            self.replicas_move(false);
        }
        for _ in 0..QUIET_PASSES {
            self.pass(true, 3);
            self.settle();
            self.replicas_move(true);
            if self.is_as_wished() {
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
        "controllers stopped",
        "deaths",
        "disks deleted",
        "edits",
        "unregistered",
        "voters added",
        "voters removed",
    ];
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), expected);
    assert!(all.values().all(|count| *count > 50), "{all:?}");
}
