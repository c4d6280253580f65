//! Clusters that are edited at random, decided on by the areas of a pass, under faults.
//!
//! The world stands in for Kubernetes and Kafka; the record, the snapshot, the decisions, the order and the handling
//! of answers are those of the operator. Kafka does not answer now and then, answers to acts are lost, acts are not
//! carried out or carried out late, the operator dies between any two of its acts or pauses for a minute, and replicas
//! land where they can. In the end everything is as the last edit asked for, and on the way no voter is stopped, no
//! replica loses its disk, no majority of the voters is without a pod because of a change of voters, and no broker
//! that runs or holds replicas is unregistered.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::act::{Act, What, settle};
use control::cluster::areas::{self, Decider};
use control::cluster::draft::{Draft, Flow, Outputs};
use control::cluster::fact::{Fact, Why};
use control::cluster::journal::Entered;
use control::cluster::record::Record;
use control::cluster::snapshot::{
    BrokerView, ClaimView, FeaturesView, Needs, NodeView, Partitions, PodView, RebalanceView,
    Revision, Snapshot,
};
use control::node::Roles;
use control::quorum::answer::Answer;
use control::quorum::format::QuorumMode;
use control::quorum::{QuorumView, Replica};
use control::rebalance::auto::{Partner, PerMode, Setting};
use control::registration::KafkaVersion;
use control::rolling::availability::PartitionFacts;
use control::rolling::facts::{Contact, Recovery};
use control::scaling::guard::Phase;
use control::scaling::up;
use model::{DirectoryId, NodeId, TopicName, TopicPartition};

const SEEDS: u64 = 100;
const PASSES: usize = 120;
const QUIET_PASSES: usize = 120;

/// The areas of a pass that are decided from a snapshot, in their order.
#[rustfmt::skip]
const AREAS: [Decider; 8] = [
    areas::KAFKA, areas::MIGRATION, areas::QUORUM, areas::ROLL, areas::REBALANCE, areas::SCALE_IN,
    areas::REGISTRATION, areas::LEFTOVERS,
];

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

    /// The quorum; `None` if no voter runs.
    fn quorum(&self) -> Option<QuorumView> {
        let now = self.world.now_ms;
        let replica = |node: NodeId, disk: DirectoryId| {
            let runs = self.world.pods.contains_key(&node);
            let at = if runs { now } else { now - 600_000 };
            Replica {
                id: node,
                directory: Some(disk),
                log_end: Some(100),
                last_fetch_ms: Some(at),
                last_caught_up_ms: Some(at),
            }
        };
        let voters: Vec<Replica> =
            self.world.voters.iter().map(|(node, disk)| replica(*node, *disk)).collect();
        // Every node follows: brokers too.
        let follows = |node: &&NodeId| !self.world.voters.contains_key(node);
        let observers = self.world.pods.keys().filter(follows);
        let leads = |voter: &&Replica| self.world.pods.contains_key(&voter.id);
        Some(QuorumView {
            leader: voters.iter().find(leads)?.id,
            epoch: 1,
            high_watermark: Some(100),
            observers: observers.map(|node| replica(*node, self.world.disks[node])).collect(),
            voters,
            fetch_timeout_ms: 2000,
        })
    }

    /// What a pass observes.
    fn snapshot(&self, silent: bool) -> Snapshot {
        let world = &self.world;
        let now = world.now_ms;
        let node = |node: &control::cluster::record::Node| {
            let desired = world.desired.get(&node.id).copied();
            let current = self.record.roles_now(node, desired);
            let view = NodeView {
                pool: node.pool.clone(),
                pod: pod(node.id),
                host: pod(node.id),
                recorded: Some(node.roles),
                desired,
                current,
                revision: current.map(revision),
                settings: None,
            };
            (node.id, view)
        };
        let mut snapshot = Snapshot {
            now_ms: now,
            objects_ms: now,
            nodes: self.record.nodes().iter().map(node).collect(),
            ..Snapshot::default()
        };
        let pods = world.pods.iter().map(|(node, roles)| {
            let view = PodView {
                node: Some(*node),
                uid: self.uid(*node),
                ready: true,
                roles: Some(*roles),
                kafka_version: Some(KafkaVersion::new(4, 3, 1)),
                pool: Some("p".to_owned()),
                dynamic_quorum: true,
                deleting: false,
                created_ms: 0,
                waiting: None,
                unschedulable: false,
                revision: revision(*roles),
                restart: false,
            };
            (pod(*node), view)
        });
        snapshot.pods = pods.collect();
        let claim = |node: &NodeId| {
            let (uid, name) = (node.to_string(), format!("data-{}", pod(*node)));
            let view = ClaimView {
                uid,
                ours: true,
                delete_with_node: true,
                deleting: false,
                resize_pending: false,
            };
            (name, view)
        };
        snapshot.claims = world.disks.keys().map(claim).collect();
        snapshot.desired.kafka_version = Some(KafkaVersion::new(4, 3, 1));
        snapshot.desired.pools = ["p".to_owned()].into();
        snapshot.desired.configured_dynamic = true;
        let drained = self.record.leaving.iter().filter(|(_, one)| one.phase == Phase::Draining);
        let held = |node: &NodeId| world.partitions.get(node).is_some_and(|count| *count > 0);
        let rebalance = RebalanceView {
            settings: PerMode { remove: Setting::Off, add: Setting::Off },
            partners: PerMode { remove: Partner::Missing, add: Partner::Missing },
            moving: drained.map(|(node, _)| *node).filter(held).collect(),
            unclaimed: false,
        };
        snapshot.rebalance = Fact::read(rebalance, now);
        let kafka = &mut snapshot.kafka;
        if silent {
            kafka.quorum = Fact::Unknown(Why::NoAnswer);
            kafka.brokers = Fact::Unknown(Why::NoAnswer);
            kafka.features = Fact::Unknown(Why::NoAnswer);
            return snapshot;
        }
        let quorum = self.quorum();
        kafka.quorum = quorum.map_or(Fact::Unknown(Why::NoAnswer), |view| Fact::read(view, now));
        let broker =
            |(node, fenced): (&NodeId, &bool)| (*node, BrokerView { fenced: *fenced, rack: None });
        kafka.brokers = Fact::read(world.registered.iter().map(broker).collect(), now);
        // Below 4.3 no broker can be closed.
        let level = if self.cordons { 30 } else { 29 };
        let features = FeaturesView { kraft_version: Some(1), metadata_version: Some(level) };
        kafka.features = Fact::read(features, now);
        snapshot.desired.metadata_version =
            Some(if self.cordons { "4.3-IV0" } else { "4.2-IV1" }.to_owned());
        snapshot
    }

    /// Reads what an area needs besides.
    fn read(&self, snapshot: &mut Snapshot, needs: &Needs, silent: bool) {
        fn fact<T>(value: T, now: u64, silent: bool) -> Fact<T> {
            if silent { Fact::Unknown(Why::NoAnswer) } else { Fact::read(value, now) }
        }
        let (world, now) = (&self.world, self.world.now_ms);
        let kafka = &mut snapshot.kafka;
        if needs.partitions {
            kafka.partitions = fact(self.partitions(), now, silent);
        }
        if needs.controllers {
            kafka.controllers = fact(world.voters.keys().copied().collect(), now, silent);
        }
        for node in &needs.directories {
            let disk = world.disks.get(node).filter(|_| world.pods.contains_key(node));
            let disk = disk.map_or(Fact::Unknown(Why::NoAnswer), |disk| Fact::read(*disk, now));
            kafka.directories.insert(*node, disk);
        }
        for node in &needs.servers {
            // Every node was started with a list of all controllers.
            let all = world.voters.keys().map(|voter| format!("{}:9090", pod(*voter)));
            let all = Some(all.collect::<Vec<_>>().join(","));
            kafka.servers.insert(*node, fact(all, now, silent));
        }
        for node in &needs.contacts {
            kafka.contacts.insert(*node, fact(Contact::Answers, now, silent));
        }
        for node in &needs.recoveries {
            kafka.recoveries.insert(*node, fact(Recovery::No, now, silent));
        }
        for node in &needs.cordons {
            kafka.cordons.insert(*node, fact(world.cordoned.contains(node), now, silent));
        }
    }

    fn partitions(&self) -> Partitions {
        let mut all = Partitions::default();
        for (node, count) in &self.world.partitions {
            for partition in 0..*count {
                let topic = TopicName::new(format!("t{node}")).unwrap();
                let number = i32::try_from(partition).unwrap();
                all.facts.push(PartitionFacts {
                    partition: TopicPartition::new(topic, number),
                    replicas: vec![*node],
                    isr: vec![*node],
                    adding: vec![],
                    removing: vec![],
                    min_isr: Some(1),
                });
            }
        }
        all
    }

    fn observe(&self, areas: &[Decider], before: &Draft, silent: bool) -> Snapshot {
        let mut snapshot = self.snapshot(silent);
        for area in areas {
            let mut rounds = 0;
            loop {
                let needs = (area.needs)(&snapshot, before);
                if needs.is_empty() {
                    break;
                }
                rounds += 1;
                assert!(rounds <= 3, "seed {}: three rounds are not enough", self.seed);
                self.read(&mut snapshot, &needs, silent);
            }
        }
        snapshot
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
        self.pods_follow();
        self.act(faults)?;
        let mut outputs = Outputs::default();
        for area in AREAS {
            let before = Draft { outputs, ..Draft::new(self.record.clone()) };
            let mut snapshot = self.observe(&[area], &before, faults.silent);
            let (draft, flow) = area.draft(&snapshot, &before);
            // Record, then act.
            self.record = draft.record;
            outputs = draft.outputs;
            self.act(faults)?;
            let mut again: Option<Draft> = None;
            for (sent, act) in draft.acts.iter().enumerate() {
                if faults.disturbed && self.chance.percent(10) {
                    self.world.now_ms += 60_000;
                    (0..5).for_each(|_| self.replicas_move(false));
                    self.count("pauses");
                }
                if act.is_stale(&snapshot, self.world.now_ms) {
                    let areas: Vec<_> = area.rests_on.iter().copied().chain([area]).collect();
                    snapshot = self.observe(&areas, &before, faults.silent);
                    again = Some(area.draft_again(&snapshot, &before).0);
                }
                if let Some(again) = again.take_if(|again| !again.acts.contains(act)) {
                    self.count("acts dropped");
                    if sent == 0 {
                        self.record = again.record;
                    }
                    return Ok(());
                }
                let answer = self.carry_out(act, faults.disturbed);
                self.act(faults)?;
                let ends = settle(&mut self.record, act, (answer, None), self.world.now_ms);
                self.act(faults)?;
                if ends {
                    return Ok(());
                }
            }
            match flow {
                Flow::Go | Flow::Wait(_) => {}
                Flow::Stop(_) => return Ok(()),
                Flow::Hold(note) | Flow::Fault(note) => panic!("seed {}: {note:?}", self.seed),
            }
        }
        Ok(())
    }

    /// Pods that should run are started, and those that should not are stopped. One that runs is restarted by the
    /// roller only.
    fn pods_follow(&mut self) {
        for node in self.record.nodes() {
            match self.record.roles_now(&node, self.world.desired.get(&node.id).copied()) {
                Some(now) => {
                    if !self.world.pods.contains_key(&node.id) {
                        self.start(node.id, now);
                    }
                    self.record.pools.get_mut(&node.pool).unwrap().insert(node.id, now);
                }
                None => {
                    let was = self.world.pods.remove(&node.id);
                    self.is_stopped(node.id, was);
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
        let alive = self.world.voters.keys().filter(|id| self.world.pods.contains_key(id)).count();
        let all = self.world.voters.len();
        assert!(alive * 2 > all, "seed {seed}: {alive} of {all} voters run after {}", act.what);
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
