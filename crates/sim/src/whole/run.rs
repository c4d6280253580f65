//! Runs a script: the world and two operators, an event at a time, until everything has settled; and makes a script that
//! fails smaller.

use control::conditions::{Outcome, Reason};
use model::NodeId;

use super::coverage::Coverage;
use super::forward::Start;
use super::invariants::{Invariant, Violation};
use super::kubelet::Machine;
use super::kubernetes::Kubernetes;
use super::operator::{INTERVAL_MS, Operator};
use super::sabotage::Sabotage;
use super::script::{Event, Script};
use super::world::{BEGIN_MS, World};

/// What came of a simulation.
#[derive(Debug, Clone)]
pub struct Report {
    /// What went wrong. The simulation ends with the first.
    pub violations: Vec<Violation>,
    /// What it went through.
    pub coverage: Coverage,
    /// How long it lasted, in simulated milliseconds.
    pub simulated_ms: u64,
    /// What happened, if that was asked for.
    pub log: Vec<String>,
}

/// How long a cluster may take to settle when faults have stopped.
const SETTLE_MS: u64 = 45 * 60_000;
/// How long a settled cluster is watched for writes.
const WATCHED_MS: u64 = 3 * INTERVAL_MS;
/// How far time jumps at most.
const JUMP_MS: u64 = 60_000;
/// How often people look at conditions.
const PERSON_MS: u64 = 15_000;

/// Runs a script.
#[must_use]
pub fn run(script: &Script, sabotage: Sabotage, is_logged: bool) -> Report {
    let mut simulation = Simulation::new(script, sabotage, is_logged);
    simulation.live(script);
    let world = simulation.world;
    Report {
        violations: world.violations,
        coverage: world.coverage,
        simulated_ms: world.now_ms - BEGIN_MS,
        log: world.log,
    }
}

/// What can be observed of the cluster of a script when it has settled; `None` if its spec is refused.
#[must_use]
pub fn start_of(script: &Script) -> Option<Start> {
    let mut simulation = Simulation::new(script, Sabotage::None, false);
    simulation.live(script);
    let Simulation { mut world, operators: [mut operator, _], .. } = simulation;
    world.observed(&mut operator)
}

struct Simulation {
    world: World,
    operators: [Operator; 2],
    person_ms: u64,
}

impl Simulation {
    fn new(script: &Script, sabotage: Sabotage, is_logged: bool) -> Self {
        let now_ms = BEGIN_MS;
        let world = World {
            machines: vec![Machine::default(); script.shape.machines],
            generated: script.seed.wrapping_mul(1_000_000),
            is_logged,
            ..World::new(Kubernetes::of(&script.shape, now_ms), now_ms)
        };
        let operators = [Operator::new(0, sabotage), Operator::new(1, sabotage)];
        Self { world, operators, person_ms: 0 }
    }

    fn live(&mut self, script: &Script) {
        let end_ms = BEGIN_MS + script.end_ms();
        let mut events = script.events.iter().peekable();
        while self.world.now_ms < end_ms && self.world.violations.is_empty() {
            while let Some((_, event)) =
                events.next_if(|(at, _)| BEGIN_MS + at <= self.world.now_ms)
            {
                self.happen(*event);
            }
            let next = events.peek().map_or(end_ms, |(at, _)| BEGIN_MS + at);
            self.step(next);
        }
        events.for_each(|(_, event)| self.happen(*event));
        self.stop_faults();
        // Some users leave their cluster paused or their spec wrong; most do not.
        if !script.seed.is_multiple_of(8) {
            self.world.put_right();
        }
        self.settle();
    }

    /// Everything that was broken works again.
    fn stop_faults(&mut self) {
        let world = &mut self.world;
        world.note(|| "faults stop".to_owned());
        world.losses.clear();
        (world.silent_until_ms, world.unreadable_until_ms) = (0, 0);
        (world.slow_start_ms, world.kafka.catch_up_ms) = (0, 2_000);
        world.machines.iter_mut().for_each(|machine| machine.down_until_ms = 0);
        for process in world.kafka.processes.values_mut() {
            (process.hangs_until_ms, process.cut_off_until_ms) = (0, 0);
        }
        for operator in &mut self.operators {
            (operator.upset, operator.stale) = (None, None);
        }
    }

    /// Waits until the cluster has settled, and sees that nothing is written after that.
    fn settle(&mut self) {
        let end_ms = self.world.now_ms + SETTLE_MS;
        let mut since: Option<(u64, u64)> = None;
        while self.world.violations.is_empty() {
            self.step(u64::MAX);
            let world = &mut self.world;
            let acts = world.coverage.of("acts on Kafka");
            let marks = (world.kubernetes.writes + acts, world.now_ms);
            let settled = is_settled(world);
            match (settled.is_none(), since) {
                (true, None) => since = Some(marks),
                (true, Some((writes, _))) if writes != marks.0 => {
                    since = Some(marks);
                    if world.now_ms > end_ms {
                        return world.violate(
                            Invariant::NothingIsWrittenForNothing,
                            "it is settled and written to",
                        );
                    }
                }
                (true, Some((_, at_ms))) if world.now_ms - at_ms > WATCHED_MS => return,
                (true, Some(_)) => {}
                (false, _) => since = None,
            }
            if world.now_ms > end_ms + WATCHED_MS {
                let why = settled.unwrap_or_else(|| "it is written to all the time".to_owned());
                let text = format!("{why}; {:?} {:?}", world.outcome, world.warnings);
                return world.violate(Invariant::Settles, text);
            }
        }
    }

    /// Time passes until something may happen.
    fn step(&mut self, until_ms: u64) {
        let now = self.world.now_ms;
        let is_acting = self.operators.iter().any(Operator::is_acting);
        let due = self.operators.iter().map(Operator::due_ms).filter(|due| *due > now).min();
        let far = due.unwrap_or(u64::MAX).min(until_ms).min(now + JUMP_MS);
        // What is written begins a pass by itself.
        let is_told = self.operators.iter().any(|one| one.is_told(&self.world));
        let dt = if is_acting || is_told || self.world.is_busy() {
            1_000
        } else {
            far.saturating_sub(now).max(1_000)
        };
        self.world.tick(dt);
        for operator in &mut self.operators {
            operator.run(&mut self.world);
        }
        if self.world.now_ms >= self.person_ms {
            self.person_ms = self.world.now_ms + PERSON_MS;
            self.world.act_as_person();
        }
        self.world.check();
    }

    fn leader(&mut self) -> Option<&mut Operator> {
        self.operators.get_mut(self.world.lease.holder?)
    }

    fn happen(&mut self, event: Event) {
        let now = self.world.now_ms;
        if !matches!(event, Event::Edit(_)) {
            let text = format!("{event:?}");
            let name = text.split('(').next().unwrap_or_default();
            self.world.coverage.count(format!("fault {name}"));
            self.world.note(|| text.clone());
        }
        match event {
            Event::Edit(edit) => self.world.edit(edit),
            Event::KafkaSilent(ms) => self.world.silent_until_ms = now + ms,
            Event::KubernetesSilent(ms) => self.world.unreadable_until_ms = now + ms,
            Event::Lose(after, loss) => self.world.losses.push((after, loss)),
            Event::Upset(after, upset) => {
                if let Some(operator) = self.leader() {
                    operator.upset = Some((after, upset));
                }
            }
            Event::Stale(ms) => {
                let kafka = self.world.kubernetes.kafka.clone();
                if let Some(operator) = self.leader() {
                    operator.stale = Some((kafka, now + ms));
                }
            }
            Event::ClockJumps(ms) => {
                if let Some(operator) = self.leader() {
                    operator.clock_ms += ms;
                }
            }
            Event::MachineDown(index, ms) => {
                let count = self.world.machines.len().max(1);
                if let Some(machine) = self.world.machines.get_mut(index % count) {
                    (machine.down_since_ms, machine.down_until_ms) = (now, now + ms);
                }
            }
            Event::LeaderResigns => self.world.kafka.quorum.resign(),
            Event::SlowStarts(ms) => self.world.slow_start_ms = ms,
            Event::SlowReplicas(ms) => self.world.kafka.catch_up_ms = ms,
            Event::ProcessDies(index)
            | Event::ProcessHangs(index, _)
            | Event::CutOff(index, _)
            | Event::DiskReplaced(index) => {
                if let Some(node) = self.world.nth_process(index) {
                    self.world.hit(node, (index, event));
                }
            }
        }
    }
}

/// Why the cluster has not settled; `None` if it has: its spec is reached, or a condition names who must act.
fn is_settled(world: &World) -> Option<String> {
    match &world.outcome {
        Some(Outcome::Paused) => None,
        Some(Outcome::Held(note)) if needs_a_person(note.reason) => None,
        Some(Outcome::Done) => world.unmet(),
        Some(Outcome::Held(_) | Outcome::Progressing(_)) | None => {
            Some("it is not done".to_owned())
        }
    }
}

/// Whether only a person can help: the spec has to be corrected.
const fn needs_a_person(reason: Reason) -> bool {
    matches!(reason, Reason::Spec(_) | Reason::InvalidResource | Reason::DuplicateNodeIds)
}

impl World {
    fn nth_process(&self, index: usize) -> Option<NodeId> {
        let count = self.kafka.processes.len().max(1);
        self.kafka.processes.keys().nth(index % count).copied()
    }

    /// Something happens to the process of a node.
    fn hit(&mut self, node: NodeId, (index, event): (usize, Event)) {
        let now = self.now_ms;
        let Some(process) = self.kafka.processes.get_mut(&node) else { return };
        let (pod, disk) = (process.pod.clone(), process.disk.clone());
        if let Event::ProcessHangs(_, ms) = event {
            process.hangs_until_ms = now + ms;
        } else if let Event::CutOff(_, ms) = event {
            process.cut_off_until_ms = now + ms;
        } else if event == Event::ProcessDies(index) {
            self.kill(&pod, node);
        } else if self.may_lose(node) {
            self.coverage.count("disk replaced");
            self.kill(&pod, node);
            self.disks.insert(disk.clone(), super::kubelet::Disk::default());
            self.copies.remove(&disk);
            self.kafka.fence(node);
            self.kafka.lose_replicas(node);
        }
    }

    /// Whether the data of a node exists elsewhere too.
    fn may_lose(&self, node: NodeId) -> bool {
        let quorum = &self.kafka.quorum;
        let voters = quorum.voters();
        let healthy = quorum.healthy(self.now_ms, 3_000);
        let others = healthy.iter().filter(|id| **id != node).count();
        let quorum_lives =
            !voters.contains_key(&node) || (others * 2 > voters.len() && !quorum.is_changing());
        let all = self.kafka.metadata.partitions.values();
        let holds = all.filter(|one| one.replicas.contains(&node));
        let others_have = |one: &super::kafka::Partition| {
            let live = one.isr.iter().filter(|id| **id != node && self.runs(**id));
            live.count() > 0
        };
        quorum_lives && quorum.leader.is_some() && holds.into_iter().all(others_have)
    }
}

/// What is told of a script that fails: the smallest that fails likewise, and what happens in it.
#[must_use]
pub fn explain(script: &Script, sabotage: Sabotage) -> Option<String> {
    let first = run(script, sabotage, false).violations.into_iter().next()?;
    let smallest = shrink(script, sabotage, first.invariant);
    let report = run(&smallest, sabotage, true);
    let found = report.violations.first().unwrap_or(&first);
    let mut text = format!("seed {}: {:?}: {}\n", script.seed, found.invariant, found.what);
    text += &format!("{:?}\n", smallest.shape);
    for (at_ms, event) in &smallest.events {
        text += &format!("  {at_ms:>9} ms {event:?}\n");
    }
    text += &report.log.join("\n");
    Some(text)
}

/// Leaves out events as long as the same invariant is violated.
#[must_use]
pub fn shrink(script: &Script, sabotage: Sabotage, invariant: Invariant) -> Script {
    let fails = |script: &Script| {
        run(script, sabotage, false)
            .violations
            .first()
            .is_some_and(|one| one.invariant == invariant)
    };
    let mut smallest = script.clone();
    let mut size = smallest.events.len().div_ceil(2);
    let mut tries = 0;
    while size > 0 && tries < 300 {
        let mut at = 0;
        while at < smallest.events.len() && tries < 300 {
            let mut shorter = smallest.clone();
            shorter.events.drain(at..(at + size).min(smallest.events.len()));
            tries += 1;
            if fails(&shorter) {
                smallest = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    smallest
}
