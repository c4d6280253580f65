//! What happens to a simulated cluster from outside: edits of its user, and faults. A seed gives a script, and a script is a
//! reproduction: everything that happens in a simulation follows from it.

use super::chance::Chance;
use super::operator::Upset;
use super::send::Loss;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The user edits something.
    Edit(Edit),
    /// Kafka answers nothing for so many milliseconds.
    KafkaSilent(u64),
    /// The API server answers nothing.
    KubernetesSilent(u64),
    /// An act is lost: the one after so many others.
    Lose(u64, Loss),
    /// Something happens to the operator that leads, after so many steps.
    Upset(u64, Upset),
    /// The operator that leads sees an old `Kafka` resource for so long.
    Stale(u64),
    /// The clock of the operator that leads jumps.
    ClockJumps(i64),
    /// A machine is down for so long.
    MachineDown(usize, u64),
    /// The process of a node ends without a shutdown.
    ProcessDies(usize),
    /// The process of a node makes no progress for so long.
    ProcessHangs(usize, u64),
    /// A node reaches no other for so long.
    CutOff(usize, u64),
    /// The disk of a node is replaced, if nothing is lost for good with it.
    DiskReplaced(usize),
    /// The leader of the quorum resigns.
    LeaderResigns,
    /// Processes take so much longer to start, from now on.
    SlowStarts(u64),
    /// Replicas take so long to catch up, from now on.
    SlowReplicas(u64),
}

/// What a user does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// Sets the number of nodes of a pool.
    Scale(usize, u32),
    /// Sets the roles of a pool: 0 brokers, 1 controllers, 2 both.
    Roles(usize, usize),
    /// Adds a pool, or deletes one that exists.
    TogglePool(usize),
    /// Removes a pool past its finalizer.
    DropPool(usize),
    /// Changes a setting that nodes take while they run.
    Dynamic(u64),
    /// Changes a setting that nodes take when they start.
    Static(u64),
    /// Asks for a version of Kafka.
    Version(usize),
    /// Asks for the restart of a pod.
    RestartPod(usize),
    /// Asks for the restart of the pods of a pool.
    RestartPool(usize),
    /// Makes volumes larger.
    Grow(u64),
    /// Sets how many brokers may be restarted at once.
    MaxParallel(u64),
    /// Pauses and resumes the reconciliation.
    TogglePause,
    /// Writes a spec that cannot be accepted, or corrects it.
    ToggleInvalid,
    /// Switches automatic rebalancing on and off.
    ToggleRebalance,
    /// Creates a topic: its partitions, its replicas and its min-ISR.
    Topic(i32, usize, usize),
    /// Deletes a pod by hand.
    DeletePod(usize),
    /// Deletes the record by hand.
    DeleteRecord,
}

/// What a cluster begins as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Nodes that are controllers only.
    pub controllers: u32,
    /// Nodes that are brokers only.
    pub brokers: u32,
    /// Nodes that are both.
    pub combined: u32,
    /// The version of Kafka: 0 is the oldest.
    pub version: usize,
    /// Whether automatic rebalancing is on.
    pub rebalances: bool,
    /// The number of machines.
    pub machines: usize,
}

/// A simulation: what the cluster begins as, and what happens to it when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The seed that it was made from.
    pub seed: u64,
    /// What the cluster begins as.
    pub shape: Shape,
    /// What happens, by the milliseconds since the begin.
    pub events: Vec<(u64, Event)>,
}

/// How long a cluster has to be created before anything happens to it.
const CREATION_MS: u64 = 60_000;

impl Script {
    /// The script of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let shape = match chance.below(4) {
            0 => Shape { controllers: 0, brokers: 0, combined: 3, ..Shape::base(&mut chance) },
            1 => Shape { controllers: 3, brokers: 3, combined: 0, ..Shape::base(&mut chance) },
            2 => Shape { controllers: 1, brokers: 3, combined: 0, ..Shape::base(&mut chance) },
            _ => Shape { controllers: 3, brokers: 2, combined: 1, ..Shape::base(&mut chance) },
        };
        let mut events = vec![(CREATION_MS, Event::Edit(Edit::Topic(6, 3, 2)))];
        let mut at_ms = CREATION_MS;
        let count = chance.between(6, 16);
        // Some lives are quiet, so that edits are seen without faults.
        let faults = chance.below(4) * 25;
        for _ in 0..count {
            at_ms += chance.between(1, 45) * 1_000;
            events.push((at_ms, Event::Edit(Edit::any(&mut chance))));
            while chance.percent(faults) && events.len() < 60 {
                at_ms += chance.below(20) * 1_000;
                events.push((at_ms, Event::any(&mut chance)));
            }
        }
        Self { seed, shape, events }
    }

    /// When the last event happens.
    #[must_use]
    pub fn end_ms(&self) -> u64 {
        self.events.iter().map(|(at_ms, _)| *at_ms).max().unwrap_or(CREATION_MS)
    }
}

impl Shape {
    fn base(chance: &mut Chance) -> Self {
        Self {
            controllers: 0,
            brokers: 0,
            combined: 0,
            version: usize::try_from(chance.below(3)).unwrap_or_default(),
            rebalances: chance.percent(50),
            machines: usize::try_from(chance.between(3, 6)).unwrap_or(3),
        }
    }
}

fn index(chance: &mut Chance) -> usize {
    usize::try_from(chance.below(64)).unwrap_or_default()
}

impl Edit {
    fn any(chance: &mut Chance) -> Self {
        let count = |chance: &mut Chance| u32::try_from(chance.below(6)).unwrap_or_default();
        match chance.below(25) {
            0..=7 => Self::Scale(index(chance), count(chance)),
            8 => Self::Roles(index(chance), index(chance)),
            9 => Self::TogglePool(index(chance)),
            10 => Self::Dynamic(chance.between(1, 5)),
            11 => Self::Static(chance.between(1, 5)),
            12 => Self::Version(index(chance)),
            13 => Self::RestartPod(index(chance)),
            14 => Self::RestartPool(index(chance)),
            15 => Self::Grow(chance.between(1, 3)),
            16 => Self::MaxParallel(chance.between(0, 3)),
            17 => Self::TogglePause,
            18 => Self::ToggleInvalid,
            19 => Self::ToggleRebalance,
            20 | 21 => Self::Topic(3, index(chance) % 3 + 1, index(chance) % 2 + 1),
            22 => Self::DeletePod(index(chance)),
            23 => Self::DropPool(index(chance)),
            _ => Self::DeleteRecord,
        }
    }
}

impl Event {
    fn any(chance: &mut Chance) -> Self {
        let short = |chance: &mut Chance| chance.between(1, 15) * 1_000;
        let long = |chance: &mut Chance| chance.between(20, 90) * 1_000;
        match chance.below(22) {
            0 => Self::KafkaSilent(short(chance)),
            1 => Self::KubernetesSilent(short(chance)),
            2..=5 => {
                let all = [Loss::Act, Loss::Answer, Loss::Refused, Loss::NotLeader, Loss::Conflict];
                Self::Lose(chance.below(4), chance.one_of(&all).unwrap_or(Loss::Act))
            }
            6..=8 => Self::Upset(chance.below(12), Upset::Crash(short(chance))),
            9..=11 => Self::Upset(chance.below(12), Upset::Pause(long(chance))),
            12 => Self::Stale(short(chance)),
            13 => {
                let ms = i64::try_from(long(chance)).unwrap_or_default();
                Self::ClockJumps(if chance.percent(50) { ms } else { -ms })
            }
            14 => Self::MachineDown(index(chance), 2 * long(chance)),
            15 => Self::ProcessDies(index(chance)),
            16 => Self::ProcessHangs(index(chance), long(chance)),
            17 => Self::CutOff(index(chance), short(chance)),
            18 => Self::DiskReplaced(index(chance)),
            19 => Self::LeaderResigns,
            20 => Self::SlowStarts(chance.below(3) * 20_000),
            _ => Self::SlowReplicas(chance.between(1, 30) * 1_000),
        }
    }
}
