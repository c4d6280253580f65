//! The simulated world: Kubernetes, Kafka, machines, disks, and what was seen to go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use control::cluster::record::Record;
use control::conditions::{Outcome, Reason};
use control::rebalance::auto::{Mode, PerMode};
use model::{DirectoryId, NodeId};

use super::build::Surroundings;
use super::coverage::Coverage;
use super::forward::{Trace, Traced};
use super::invariants::{Invariant, Violation};
use super::kafka::Kafka;
use super::keys::Keys;
use super::kubelet::{Disk, Machine, Runtime};
use super::kubernetes::Kubernetes;
use super::pace::Pace;
use super::quorum::Copy;
use super::rebalance::Kr;
use super::send::Loss;

/// Which operator.
pub(crate) type OperatorId = usize;

/// The Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lease {
    /// Its holder.
    pub(crate) holder: Option<OperatorId>,
    /// When it expires if it is not renewed.
    pub(crate) until_ms: u64,
}

/// Everything outside of the operators.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The true time, which no process knows.
    pub(crate) now_ms: u64,
    /// The API server.
    pub(crate) kubernetes: Kubernetes,
    /// Kafka.
    pub(crate) kafka: Kafka,
    /// The machines.
    pub(crate) machines: Vec<Machine>,
    /// What kubelets know of pods, by uid.
    pub(crate) runtimes: BTreeMap<String, Runtime>,
    /// Disks, by the uid of their claim, or of their pod if they are deleted with it.
    pub(crate) disks: BTreeMap<String, Disk>,
    /// The metadata logs on them.
    pub(crate) copies: BTreeMap<String, Copy>,
    /// The directory ids that disks have had.
    pub(crate) directories: BTreeSet<DirectoryId>,
    /// The Lease.
    pub(crate) lease: Lease,
    /// `KafkaRebalance` resources that the cluster makes for itself.
    pub(crate) rebalances: PerMode<Option<Kr>>,
    /// The number of ids that were generated.
    pub(crate) generated: u64,
    /// Until when Kafka answers nothing.
    pub(crate) silent_until_ms: u64,
    /// Until when the API server answers nothing.
    pub(crate) unreadable_until_ms: u64,
    /// Until when machines start nothing.
    pub(crate) slow_start_ms: u64,
    /// Restarts that operators asked for, by node, and when. They explain what is down.
    pub(crate) restarted_ms: BTreeMap<NodeId, u64>,
    /// The conditions that the last pass wrote.
    pub(crate) outcome: Option<Outcome>,
    /// The warnings that the last pass wrote.
    pub(crate) warnings: BTreeSet<Reason>,
    /// The cluster id that was recorded first.
    pub(crate) cluster_id: Option<String>,
    /// What becomes of acts to come: after how many more, and what.
    pub(crate) losses: Vec<(u64, Loss)>,
    /// What went wrong.
    pub(crate) violations: Vec<Violation>,
    /// What has happened at all.
    pub(crate) coverage: Coverage,
    /// Whether everything was written into [`World::log`].
    pub(crate) is_logged: bool,
    /// What happened, for people.
    pub(crate) log: Vec<String>,
    /// How long things take.
    pub(crate) pace: Pace,
    /// What the operators were set up with.
    pub(crate) surroundings: Rc<Surroundings>,
    /// The certificates; `None` if they are not simulated.
    pub(crate) keys: Option<Keys>,
    /// Pods that do not start, by uid.
    pub(crate) stuck: BTreeSet<String>,
    /// What claims ask for whose volumes are as large as they should be, whatever number their provisioner says.
    pub(crate) fitting: BTreeMap<String, Option<String>>,
    /// The version of the objects at which nothing was left to be provisioned.
    pub(crate) provisioned: Option<u64>,
    /// The version of the objects at which the pods were those of their sets.
    pub(crate) controlled: Option<u64>,
    /// What happened, for a plan.
    pub(crate) trace: Option<Vec<Traced>>,
}

impl World {
    /// A world in which there is nothing yet but these resources.
    #[must_use]
    pub(crate) fn new(kubernetes: Kubernetes, now_ms: u64) -> Self {
        Self {
            now_ms,
            kubernetes,
            kafka: Kafka { catch_up_ms: Pace::TESTS.catch_up_ms, ..Kafka::default() },
            machines: vec![Machine::default()],
            runtimes: BTreeMap::new(),
            disks: BTreeMap::new(),
            copies: BTreeMap::new(),
            directories: BTreeSet::new(),
            lease: Lease::default(),
            rebalances: PerMode { remove: None, add: None },
            generated: 0,
            silent_until_ms: 0,
            unreadable_until_ms: 0,
            slow_start_ms: 0,
            restarted_ms: BTreeMap::new(),
            outcome: None,
            warnings: BTreeSet::new(),
            cluster_id: None,
            losses: Vec::new(),
            violations: Vec::new(),
            coverage: Coverage::default(),
            is_logged: false,
            log: Vec::new(),
            pace: Pace::TESTS,
            surroundings: Rc::new(Surroundings::tests()),
            keys: None,
            stuck: BTreeSet::new(),
            fitting: BTreeMap::new(),
            provisioned: None,
            controlled: None,
            trace: None,
        }
    }

    /// Keeps what happened, if it is for a plan.
    pub(crate) fn trace(&mut self, what: impl FnOnce() -> Trace) {
        if let Some(trace) = &mut self.trace {
            trace.push(Traced { at_ms: self.now_ms, what: what() });
        }
    }

    /// Reports that an invariant does not hold.
    pub(crate) fn violate(&mut self, invariant: Invariant, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("VIOLATION {invariant:?}: {what}"));
        self.violations.push(Violation { invariant, what, at_ms: self.now_ms });
    }

    /// Writes a line of the log.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.is_logged {
            let line = format!(
                "{:>9.1}s {}",
                f64::from(u32::try_from(self.now_ms.saturating_sub(BEGIN_MS)).unwrap_or(u32::MAX))
                    / 1000.0,
                line()
            );
            self.log.push(line);
        }
    }

    /// A directory id that no disk has had.
    pub(crate) fn generate(&mut self) -> DirectoryId {
        loop {
            self.generated += 1;
            let mut bytes = [7; 16];
            bytes[8..].copy_from_slice(&self.generated.to_be_bytes());
            let id = DirectoryId::generate(bytes);
            if let Some(id) = id.filter(|id| !self.directories.contains(id)) {
                return id;
            }
        }
    }

    /// The stored record.
    #[must_use]
    pub(crate) fn record(&self) -> Option<Record> {
        self.kubernetes.record(&self.kubernetes.found).map(|(record, _)| record)
    }

    /// The `KafkaRebalance` of a mode.
    pub(crate) const fn rebalance(&mut self, mode: Mode) -> &mut Option<Kr> {
        match mode {
            Mode::RemoveBrokers => &mut self.rebalances.remove,
            Mode::AddBrokers => &mut self.rebalances.add,
        }
    }

    /// The process of a node, if it runs.
    #[must_use]
    pub(crate) fn runs(&self, id: NodeId) -> bool {
        self.kafka.processes.contains_key(&id)
    }

    /// What becomes of the act that is sent now.
    pub(crate) fn take_loss(&mut self) -> Option<Loss> {
        let due = self.losses.iter().position(|(left, _)| *left == 0);
        let loss = due.map(|at| self.losses.remove(at).1);
        for (left, _) in &mut self.losses {
            *left = left.saturating_sub(1);
        }
        loss
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, dt_ms: u64) {
        self.now_ms += dt_ms;
        self.kubernetes.tick(self.now_ms);
        self.provision();
        self.control_pods();
        self.run_pods();
        let mut copies = std::mem::take(&mut self.copies);
        self.kafka.tick(&mut copies, self.now_ms, dt_ms);
        self.copies = copies;
        self.report_pods();
        self.run_rebalances();
        if self.kafka.quorum.lost {
            self.kafka.quorum.lost = false;
            self.violate(Invariant::MetadataIsKept, "committed metadata is lost");
        }
    }

    /// Whether something changes by itself soon, so that time must not jump.
    #[must_use]
    pub(crate) fn is_busy(&self) -> bool {
        let now = self.now_ms;
        let sets = &self.kubernetes.found.pod_sets;
        let listed: usize = sets.values().map(|set| set.spec.pods.len()).sum();
        let ready = self.runtimes.values().filter(|one| one.is_ready).count();
        let moving = || !self.kafka.moving().is_empty();
        let hindered =
            |one: &super::kafka::Process| !one.is_well(now) || now < one.recovers_until_ms;
        listed != ready
            || ready != self.kubernetes.found.pods.len()
            || self.kafka.quorum.leader.is_none()
            || self.kafka.processes.values().any(hindered)
            || self.rebalances.remove.is_some()
            || self.rebalances.add.is_some()
            || now < self.silent_until_ms
            || moving()
            || self.kafka.heals()
    }
}

/// The time at which every simulation begins.
pub(crate) const BEGIN_MS: u64 = 1_800_000_000_000;
