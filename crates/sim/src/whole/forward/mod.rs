//! A plan: one operator without faults, from the snapshot of a real cluster with edited resources, until it settles.
//!
//! 1. The operator is the one that ships. What it would be told by Kubernetes and Kafka is simulated, without chance.
//! 2. What the snapshot does not know stays unknown: the operator waits for it here as it would there, and the plan ends.
//! 3. Everything that is new starts. A pod that does not start now still does not start, until it is replaced.

mod adopt;
mod lines;
mod measured;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use control::cluster::act::What;
use control::cluster::decide::Decision;
use control::cluster::record::Record;
use control::cluster::snapshot::{Needs, Snapshot};
use control::conditions::{Note, Outcome};
use control::node::Roles;
use control::rebalance::auto::Mode;
use control::rolling::batch::Certificate;
use control::scaling::guard;
use k8s_openapi::api::core::v1::ConfigMap;
use model::{NodeId, TopicPartition};
use objects::Blueprint;
use objects::found::Found;
use serde_json::Value;

pub use lines::{Batch, Estimate, Line, Removal, Step};

use super::operator::Operator;
use super::pace::Pace;
use super::sabotage::Sabotage;
use super::world::World;

/// What a plan begins with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The `Kafka` as it would be.
    pub kafka: Value,
    /// The objects that exist, with the pools as they would be.
    pub found: Found,
    /// The stored record.
    pub record: Option<Record>,
    /// What was observed.
    pub snapshot: Snapshot,
    /// The annotations that pods are to have because of certificates, where they are known.
    pub marks: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// The size of the replicas of partitions, as far as it is known.
    pub sizes: BTreeMap<TopicPartition, u64>,
    /// The images of Kafka nodes, by version.
    pub images: BTreeMap<String, String>,
    /// The DNS domain.
    pub domain: String,
    /// Whether volumes of StorageClasses can grow.
    pub classes: BTreeMap<String, bool>,
    /// ConfigMaps with rules for metrics.
    pub metrics: BTreeMap<String, ConfigMap>,
    /// How long things take.
    pub pace: Paces,
}

/// How long things take: at best, as expected, and at worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paces {
    /// At best.
    pub fast: Pace,
    /// As expected.
    pub expected: Pace,
    /// At worst.
    pub slow: Pace,
}

impl Default for Paces {
    fn default() -> Self {
        Self { fast: Pace::TESTS, expected: Pace::TESTS, slow: Pace::TESTS }
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// What happens, in order.
    pub lines: Vec<Line>,
    /// Every act of the operator, with the milliseconds since the begin.
    pub acts: Vec<(u64, What)>,
    /// How it ends.
    pub end: End,
    /// What the user should know in the end.
    pub warnings: Vec<Note>,
    /// How long all of it takes.
    pub estimate: Estimate,
    /// The number of passes.
    pub passes: u64,
}

/// How a plan ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The cluster matches its spec.
    Settled,
    /// The user has paused the reconciliation.
    Paused,
    /// The spec is refused.
    Refused(Note),
    /// Nothing happens any more, and this is waited for.
    Waits(Note),
    /// It goes on longer than is worth following.
    Endless(Note),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Traced {
    pub(crate) at_ms: u64,
    pub(crate) what: Trace,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Trace {
    /// An act was carried out.
    Act { what: What, applied: Option<Applied> },
    /// A batch of restarts begins.
    Batch(Certificate),
    /// A pod set created a pod of a pool.
    Created { pod: String, pool: String },
    /// A pod set removed a pod.
    Removed(String),
    /// A pod is gone.
    Gone(String),
    /// A node started with these roles.
    Started(NodeId, Roles),
    /// A pod is ready.
    Ready(NodeId),
    /// Moves began.
    Moves { mode: Mode, brokers: BTreeSet<NodeId>, partitions: usize, bytes: Option<u64> },
    /// They ended.
    Moved(Mode),
    /// The spec was refused.
    Refused(Note),
    /// What a pass decided about nodes that leave and that do not come, and what people should know.
    Decided(Box<Concluded>),
    /// A pass ended.
    Outcome(Outcome),
}

/// What becomes of an object that is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Whether it existed.
    pub(crate) exists: bool,
    /// The sizes before and after, if it is a claim that grows.
    pub(crate) grows: Option<(String, String)>,
    /// Why it is removed, if it is a voter.
    pub(crate) removal: Option<Removal>,
}

/// What is left in the end.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Left {
    /// The claims of nodes that are gone.
    pub(crate) claims: BTreeMap<NodeId, Vec<String>>,
    /// Nodes that were on their way out and stay.
    pub(crate) back: BTreeSet<NodeId>,
}

/// What a pass left undone, for people.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Concluded {
    /// What nodes that leave wait for.
    pub(crate) holds: BTreeMap<NodeId, String>,
    /// Controllers that are not created.
    pub(crate) refused: BTreeSet<NodeId>,
    /// Warnings.
    pub(crate) warnings: Vec<Note>,
}

/// After how long without an act and without a pod that comes or goes nothing happens any more.
const STUCK_MS: u64 = 15 * 60_000;
/// How far time jumps at most.
const JUMP_MS: u64 = 60_000;
/// How long a plan is followed.
const HORIZON_MS: u64 = 90 * 24 * 3_600_000;
/// The number of passes that a plan is followed.
const PASSES_MAX: u64 = 100_000;
/// A pass that ends with at least this pause has nothing left to look for.
const SETTLED_MS: u64 = 60_000;

/// Runs an operator until the cluster settles.
#[must_use]
pub fn forward(start: Start) -> Forward {
    follow(start).0
}

/// Runs an operator until the cluster settles, and observes it then: a plan, and what the next one begins with. There is none
/// if the spec is refused.
#[must_use]
pub fn after(start: Start) -> (Forward, Option<Start>) {
    let (plan, mut world, mut operator) = follow(start);
    let next = world.observed(&mut operator);
    (plan, next)
}

fn follow(mut start: Start) -> (Forward, World, Operator) {
    // What a paused cluster would do is followed all the same, and said to be blocked.
    let annotations = start.kafka["metadata"]["annotations"].as_object_mut();
    let pause = annotations.and_then(|all| all.remove(super::user::PAUSE));
    let is_paused = pause.is_some_and(|value| value == "true");
    let (pace, begin_ms) = (start.pace, start.snapshot.now_ms);
    let mark = start.snapshot.kafka.earlier.clone();
    let before: BTreeMap<NodeId, Roles> = adopt::roles(&start);
    let leaving = start.record.as_ref().map(on_their_way_out).unwrap_or_default();
    let mut world = adopt::world(start);
    let mut operator = Operator::new(0, Sabotage::None);
    operator.mark = mark;
    world.lease.holder = Some(0);
    let end = run(&mut world, &mut operator, begin_ms);
    let end = if is_paused && !matches!(end, End::Refused(_)) { End::Paused } else { end };
    let trace = world.trace.take().unwrap_or_default();
    let left = left(&world, &leaving);
    let plan = lines::plan(&trace, (begin_ms, &before), (end, &pace), &left, operator.passes);
    (plan, world, operator)
}

/// Nodes that a record removes.
fn on_their_way_out(record: &Record) -> BTreeSet<NodeId> {
    let leaving = record.leaving.iter().filter(|(_, one)| !guard::FINAL.contains(&one.phase));
    leaving.map(|(id, _)| *id).collect()
}

/// What is left in the end. `leaving` were on their way out.
fn left(world: &World, leaving: &BTreeSet<NodeId>) -> Left {
    let record = world.record().unwrap_or_default();
    let still = on_their_way_out(&record);
    let nodes: BTreeSet<NodeId> = record.pools.values().flat_map(BTreeMap::keys).copied().collect();
    let back = leaving.iter().filter(|id| nodes.contains(id) && !still.contains(id));
    let mut claims: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for name in world.kubernetes.found.claims.keys() {
        if let Some(node) = api::names::node_of_pod(name).filter(|node| !nodes.contains(node)) {
            claims.entry(node).or_default().push(name.clone());
        }
    }
    Left { claims, back: back.copied().collect() }
}

fn run(world: &mut World, operator: &mut Operator, begin_ms: u64) -> End {
    // The number of things that have happened, and when the cluster got any further last.
    let mut stirred = (0, begin_ms);
    loop {
        operator.run(world);
        let now = world.now_ms;
        let is_told = operator.is_told(world);
        let new = world.trace.as_ref().map(|all| all.get(stirred.0..).unwrap_or_default());
        let new = new.unwrap_or_default();
        stirred.0 += new.len();
        if new.iter().any(Traced::stirs) || !world.kafka.moving().is_empty() {
            stirred.1 = now;
        }
        match &world.outcome {
            Some(Outcome::Held(note)) if is_refused(world) => return End::Refused(note.clone()),
            Some(Outcome::Done)
                if !is_told && !world.is_busy() && operator.due_ms() >= now + SETTLED_MS =>
            {
                return End::Settled;
            }
            Some(Outcome::Held(note) | Outcome::Progressing(note)) => {
                if now - stirred.1 > STUCK_MS {
                    return End::Waits(note.clone());
                }
                if now - begin_ms > HORIZON_MS || operator.passes > PASSES_MAX {
                    return End::Endless(note.clone());
                }
            }
            Some(Outcome::Done | Outcome::Paused) | None if now - stirred.1 > STUCK_MS => {
                return End::Settled;
            }
            Some(Outcome::Done | Outcome::Paused) | None => {}
        }
        let moves_end_ms = world.moves_alone_until();
        let dt_ms = match moves_end_ms {
            Some(end_ms) if !is_told => {
                operator.sleep_until(end_ms);
                end_ms.saturating_sub(now).max(1_000)
            }
            _ if is_told || world.is_busy() => 1_000,
            _ => operator.due_ms().saturating_sub(now).clamp(1_000, JUMP_MS),
        };
        // The Lease is renewed all the time.
        world.lease.until_ms = now + dt_ms + super::operator::LEASE_MS;
        world.tick(dt_ms);
    }
}

/// Whether the last pass did not begin because of the spec.
fn is_refused(world: &World) -> bool {
    let last = world.trace.as_ref().and_then(|all| {
        all.iter().rev().find(|one| matches!(one.what, Trace::Refused(_) | Trace::Decided(_)))
    });
    last.is_some_and(|one| matches!(one.what, Trace::Refused(_)))
}

impl Traced {
    /// Whether the cluster got any further.
    const fn stirs(&self) -> bool {
        matches!(
            self.what,
            Trace::Act { .. }
                | Trace::Created { .. }
                | Trace::Removed(_)
                | Trace::Gone(_)
                | Trace::Started(..)
                | Trace::Ready(_)
                | Trace::Moved(_)
        )
    }
}

impl World {
    /// What can be observed of the cluster.
    pub(crate) fn observed(&mut self, operator: &mut Operator) -> Option<Start> {
        let kafka = self.kubernetes.kafka.clone();
        let mut work = operator.accept(self, kafka.clone()).ok()?;
        operator.build(&mut work);
        let mut snapshot = operator.observe(self, &work, &work.record);
        let nodes = || snapshot.nodes.keys().copied().collect();
        let needs = Needs {
            partitions: true,
            controllers: true,
            rebalance: true,
            settings: nodes(),
            cordons: nodes(),
            ..Needs::default()
        };
        self.read(&work, &mut snapshot, &needs, operator.observer(self));
        Some(Start {
            kafka: (*kafka).clone(),
            found: (*self.kubernetes.found).clone(),
            record: self.record(),
            snapshot,
            marks: self.keys.as_ref().map(|keys| keys.marks.clone()).unwrap_or_default(),
            sizes: self.kafka.sizes.clone(),
            images: self.surroundings.images.clone(),
            domain: self.surroundings.domain.clone(),
            classes: self.surroundings.classes.clone(),
            metrics: self.surroundings.metrics.clone(),
            ..Start::default()
        })
    }

    /// Keeps what a decision says to people.
    pub(crate) fn trace_decision(&mut self, decision: &Decision, blueprint: &Blueprint) {
        if self.trace.is_none() {
            return;
        }
        let restarts =
            decision.acts.iter().any(|(_, act)| matches!(act.what, What::RestartPod { .. }));
        if let Some(roll) = decision.outputs.roll.as_deref().filter(|_| restarts) {
            self.trace(|| Trace::Batch(roll.1.progress.certificate.clone()));
        }
        let holds = decision.outputs.leaving.iter().flat_map(|pass| &pass.holds);
        let concluded = Concluded {
            holds: holds.map(|(id, hold)| (*id, hold.to_string())).collect(),
            refused: blueprint.refused.clone(),
            warnings: decision.warnings.clone(),
        };
        self.trace(|| Trace::Decided(Box::new(concluded)));
    }

    /// Until when moves of replicas are all that happens.
    fn moves_alone_until(&self) -> Option<u64> {
        let listed: usize =
            self.kubernetes.found.pod_sets.values().map(|set| set.spec.pods.len()).sum();
        let ready = self.runtimes.values().filter(|one| one.is_ready).count();
        let runs = |kr: &Option<super::rebalance::Kr>| kr.as_ref().is_some_and(|kr| kr.moves());
        let rebalancing = runs(&self.rebalances.remove) || runs(&self.rebalances.add);
        let still = listed == ready && self.kafka.quorum.leader.is_some();
        (rebalancing && still)
            .then_some(self.kafka.moves_end_ms)
            .filter(|end| *end > self.now_ms + 1_000)
    }
}
