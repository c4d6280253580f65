//! The lines of a plan: what happened in the world, put together for people and programs.

use std::collections::{BTreeMap, BTreeSet};

use api::names::node_of_pod;
use control::cluster::act::What;
use control::cluster::snapshot::{ObjectKey, ObjectKind};
use control::conditions::{Note, Reason};
use control::node::Roles;
use control::rebalance::auto::Mode;
use control::rolling::config::Change;
use control::rolling::reasons;
use model::{NodeId, TopicPartition};

use super::{Concluded, End, Forward, Left, Pace, Paces, Trace, Traced};

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// At best.
    pub low_ms: u64,
    /// As expected.
    pub expected_ms: u64,
    /// At worst.
    pub high_ms: u64,
}

/// One thing that happens, or that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What.
    pub step: Step,
    /// When it begins, in milliseconds since the plan begins.
    pub begin_ms: u64,
    /// How long it takes; nothing if it does not happen.
    pub estimate: Estimate,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Certificates of these nodes are issued.
    Certificates(BTreeSet<NodeId>),
    /// Claims are created.
    MakeClaims(Vec<String>),
    /// A claim grows.
    Grow {
        /// Which.
        claim: String,
        /// The size before.
        from: String,
        /// The size after.
        to: String,
    },
    /// Another object is created or changed.
    Write {
        /// Its kind and name.
        object: String,
        /// Whether it existed.
        exists: bool,
    },
    /// New nodes are started at once.
    Start {
        /// Their pool.
        pool: String,
        /// Which.
        nodes: BTreeSet<NodeId>,
    },
    /// A static quorum becomes dynamic.
    Migrate,
    /// A voter is added.
    AddVoter(NodeId),
    /// A voter is removed.
    RemoveVoter {
        /// Which.
        node: NodeId,
        /// Why.
        why: Removal,
    },
    /// A setting is changed while nodes run.
    Set {
        /// Its name.
        key: String,
        /// Its value; `None` for its default.
        value: Option<String>,
        /// On which node; `None` for all.
        node: Option<NodeId>,
    },
    /// A batch of nodes is restarted.
    Restart(Batch),
    /// A broker is closed for new replicas.
    Cordon(NodeId),
    /// A broker is opened for new replicas.
    Uncordon(NodeId),
    /// Replicas are moved off brokers that leave, or to brokers that have come.
    Move {
        /// Whether the brokers leave.
        drains: bool,
        /// The brokers.
        brokers: BTreeSet<NodeId>,
        /// The number of partitions.
        partitions: usize,
        /// The number of bytes, if the sizes are known.
        bytes: Option<u64>,
    },
    /// A node is stopped.
    Stop(NodeId),
    /// A broker is unregistered.
    Unregister(NodeId),
    /// Claims are deleted with the data on them.
    DeleteClaims(Vec<String>),
    /// Claims of nodes that are gone are kept.
    KeepClaims(Vec<String>),
    /// A node that was on its way out stays.
    Keep(NodeId),
    /// Another object is deleted.
    Delete(String),
    /// The metadata version changes.
    Metadata(String),
    /// This is not carried out.
    Refused {
        /// The nodes that stay, or do not come.
        nodes: BTreeSet<NodeId>,
        /// Why.
        why: String,
    },
    /// The spec is refused.
    Invalid(Note),
    /// Nothing happens beyond this.
    Blocked(String),
}

/// A batch of restarts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The nodes, each with why.
    pub nodes: BTreeMap<NodeId, Vec<reasons::Reason>>,
    /// Roles that change, before and after.
    pub roles: BTreeMap<NodeId, (Roles, Roles)>,
    /// The certificate: the partitions with the least to spare, the replicas that stay in sync, and those that must.
    pub left: Vec<(TopicPartition, usize, usize)>,
    /// Partitions that go offline whatever one does.
    pub offline: usize,
}

/// Why a voter is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is not to be a voter any more.
    Unwanted,
    /// It does not run.
    Down,
    /// Its disk was replaced, and it votes with the directory of the one before.
    DiskReplaced,
}

/// Puts the lines together.
pub(super) fn plan(
    trace: &[Traced],
    (begin_ms, roles): (u64, &BTreeMap<NodeId, Roles>),
    (end, paces): (End, &Paces),
    left: &Left,
    passes: u64,
) -> Forward {
    let mut book = Book { begin_ms, roles: roles.clone(), paces: *paces, ..Book::default() };
    for node in &left.back {
        book.line(0, Step::Keep(*node));
    }
    for one in trace {
        book.enter(one);
    }
    book.keep_claims(&left.claims);
    book.conclude(&end);
    let last_ms = book.lines.iter().map(|line| line.begin_ms + line.estimate.expected_ms).max();
    let spread = |of: fn(&Estimate) -> u64| book.lines.iter().map(|line| of(&line.estimate)).sum();
    let (low, high): (u64, u64) =
        (spread(|one| one.expected_ms - one.low_ms), spread(|one| one.high_ms - one.expected_ms));
    let expected_ms = last_ms.unwrap_or_default();
    // Lines that overlap are not that much faster together.
    let least_ms = book.lines.iter().map(|line| line.estimate.low_ms).max().unwrap_or_default();
    let estimate = Estimate {
        low_ms: expected_ms.saturating_sub(low).max(least_ms),
        expected_ms,
        high_ms: expected_ms.saturating_add(high),
    };
    let warnings = book.concluded.warnings;
    Forward { lines: book.lines, acts: book.acts, end, warnings, estimate, passes }
}

/// What is being put together.
#[derive(Default)]
struct Book {
    begin_ms: u64,
    paces: Paces,
    lines: Vec<Line>,
    acts: Vec<(u64, What)>,
    /// The roles of the nodes that have run.
    roles: BTreeMap<NodeId, Roles>,
    /// The lines that end when a node is ready.
    starting: BTreeMap<NodeId, usize>,
    /// The lines that end when a pod is gone.
    stopping: BTreeMap<NodeId, usize>,
    /// Whether the next restart begins a batch.
    batch: Option<Batch>,
    /// ConfigMaps that changed.
    settings: Vec<Step>,
    concluded: Concluded,
}

impl Book {
    fn enter(&mut self, one: &Traced) {
        let at_ms = one.at_ms.saturating_sub(self.begin_ms);
        match &one.what {
            Trace::Act { what, applied } => {
                self.acts.push((at_ms, what.clone()));
                self.act(at_ms, what, applied.as_ref());
            }
            Trace::Batch(certificate) => {
                let (left, offline) = (certificate.left.clone(), certificate.offline.len());
                self.batch = Some(Batch { left, offline, ..Batch::default() });
            }
            Trace::Created { pod, pool } => self.created(at_ms, pod, pool),
            Trace::Started(node, roles) => self.started(*node, *roles),
            Trace::Ready(node) => {
                if let Some(index) = self.starting.remove(node) {
                    self.end(index, at_ms);
                }
            }
            Trace::Removed(pod) => {
                if let Some(node) = node_of_pod(pod) {
                    let index = self.line(at_ms, Step::Stop(node));
                    self.stopping.insert(node, index);
                }
            }
            Trace::Gone(pod) => {
                let index = node_of_pod(pod).and_then(|node| self.stopping.remove(&node));
                index.into_iter().for_each(|index| self.end(index, at_ms));
            }
            Trace::Moves { mode, brokers, partitions, bytes } => {
                let drains = *mode == Mode::RemoveBrokers;
                let (brokers, partitions, bytes) = (brokers.clone(), *partitions, *bytes);
                if partitions > 0 {
                    self.line(at_ms, Step::Move { drains, brokers, partitions, bytes });
                }
            }
            Trace::Moved(mode) => {
                let is_open = |line: &Line| matches!(&line.step, Step::Move { drains, .. } if *drains == (*mode == Mode::RemoveBrokers));
                if let Some(index) = self.lines.iter().rposition(is_open) {
                    self.end(index, at_ms);
                }
            }
            Trace::Decided(concluded) => self.concluded = (**concluded).clone(),
            Trace::Refused(_) | Trace::Outcome(_) => {}
        }
    }

    fn line(&mut self, begin_ms: u64, step: Step) -> usize {
        self.lines.push(Line { step, begin_ms, estimate: Estimate::default() });
        self.lines.len() - 1
    }

    /// The line ends now.
    fn end(&mut self, index: usize, at_ms: u64) {
        let paces = self.paces;
        if let Some(line) = self.lines.get_mut(index) {
            line.estimate = estimate(&line.step, at_ms.saturating_sub(line.begin_ms), &paces);
        }
    }

    fn act(&mut self, at_ms: u64, what: &What, applied: Option<&super::Applied>) {
        let step = match what {
            What::Apply(key) => return self.apply(at_ms, key, applied),
            What::RestartPod { id, reasons, .. } => {
                return self.restart(at_ms, *id, reasons.clone());
            }
            What::StoreCertificate { id } => {
                if let Some(Line { step: Step::Certificates(nodes), .. }) = self.lines.last_mut() {
                    nodes.insert(*id);
                    return;
                }
                Step::Certificates([*id].into())
            }
            What::DeleteClaim { name, .. } => {
                if let Some(Line { step: Step::DeleteClaims(claims), .. }) = self.lines.last_mut() {
                    claims.push(name.clone());
                    return;
                }
                Step::DeleteClaims(vec![name.clone()])
            }
            What::AlterNode { id, changes } => return self.set(at_ms, changes, Some(*id)),
            What::AlterCluster { changes } => return self.set(at_ms, changes, None),
            What::AddVoter { id, .. } => Step::AddVoter(*id),
            What::RemoveVoter { id, .. } => {
                let why = applied.and_then(|one| one.removal).unwrap_or(Removal::Unwanted);
                Step::RemoveVoter { node: *id, why }
            }
            What::Unregister { id } => Step::Unregister(*id),
            What::Cordon { id } => Step::Cordon(*id),
            What::Uncordon { id } => Step::Uncordon(*id),
            What::RaiseKraftVersion { .. } => Step::Migrate,
            What::ChangeMetadataVersion { to, .. } => Step::Metadata(to.to_string()),
            What::Delete { kind, name, .. } => match is_spoken_of(*kind) {
                true => return,
                false => Step::Delete(format!("{kind:?} {name}")),
            },
            What::ElectPreferred { .. }
            | What::ClearRestartRequest { .. }
            | What::ShrinkPodSet { .. }
            | What::RemoveMigrationAnnotation
            | What::ChangeAuthority { .. }
            | What::PublishTrust
            | What::StoreOperatorCertificate
            | What::Rebalance(_)
            | What::StopUnclaimedMoves
            | What::RememberCredential { .. }
            | What::SetCredential { .. }
            | What::DeleteCredential { .. }
            | What::ReleaseUser { .. } => return,
        };
        let index = self.line(at_ms, step);
        self.end(index, at_ms + QUICK_MS);
    }

    fn apply(&mut self, at_ms: u64, key: &ObjectKey, applied: Option<&super::Applied>) {
        let exists = applied.is_some_and(|one| one.exists);
        let object = format!("{} {}", kind(key.kind), key.name);
        let step = match (key.kind, applied.and_then(|one| one.grows.clone())) {
            (ObjectKind::PersistentVolumeClaim, Some((from, to))) => {
                Step::Grow { claim: key.name.clone(), from, to }
            }
            (ObjectKind::PersistentVolumeClaim, None) if !exists => {
                if let Some(Line { step: Step::MakeClaims(claims), .. }) = self.lines.last_mut() {
                    claims.push(key.name.clone());
                    return;
                }
                Step::MakeClaims(vec![key.name.clone()])
            }
            (ObjectKind::ConfigMap, _) => {
                return self.settings.push(Step::Write { object, exists });
            }
            (kind, _) if is_spoken_of(kind) => return,
            _ => Step::Write { object, exists },
        };
        let index = self.line(at_ms, step);
        self.end(index, at_ms + QUICK_MS);
    }

    fn restart(&mut self, at_ms: u64, id: NodeId, reasons: Vec<reasons::Reason>) {
        let begun = self.batch.take();
        if let Some(batch) = begun {
            self.line(at_ms, Step::Restart(batch));
        }
        let is_batch = |line: &Line| matches!(line.step, Step::Restart(_));
        let index = match self.lines.last().filter(|line| is_batch(line)) {
            Some(_) => self.lines.len() - 1,
            None => self.line(at_ms, Step::Restart(Batch::default())),
        };
        if let Some(Line { step: Step::Restart(batch), .. }) = self.lines.get_mut(index) {
            batch.nodes.insert(id, reasons);
        }
        self.starting.insert(id, index);
    }

    fn created(&mut self, at_ms: u64, pod: &str, pool: &str) {
        let Some(node) = node_of_pod(pod) else { return };
        if self.starting.contains_key(&node) || self.roles.contains_key(&node) {
            return;
        }
        let is_same = |line: &Line| {
            line.begin_ms == at_ms
                && matches!(&line.step, Step::Start { pool: other, .. } if other == pool)
        };
        let index = match self.lines.iter().rposition(is_same) {
            Some(index) => index,
            None => {
                let (pool, nodes) = (pool.to_owned(), BTreeSet::new());
                self.line(at_ms, Step::Start { pool, nodes })
            }
        };
        if let Some(Line { step: Step::Start { nodes, .. }, .. }) = self.lines.get_mut(index) {
            nodes.insert(node);
        }
        self.starting.insert(node, index);
    }

    fn started(&mut self, node: NodeId, roles: Roles) {
        let before = self.roles.insert(node, roles).filter(|before| *before != roles);
        let index = self.starting.get(&node).copied();
        let line = index.and_then(|index| self.lines.get_mut(index));
        if let (Some(before), Some(Line { step: Step::Restart(batch), .. })) = (before, line) {
            batch.roles.insert(node, (before, roles));
        }
    }

    fn set(&mut self, at_ms: u64, changes: &[Change], node: Option<NodeId>) {
        for change in changes {
            let (key, value) = match change {
                Change::Set(key, value) => (key.clone(), Some(value.clone())),
                Change::Delete(key) => (key.clone(), None),
            };
            let index = self.line(at_ms, Step::Set { key, value, node });
            self.end(index, at_ms + QUICK_MS);
        }
    }

    /// The claims of nodes that were stopped and that are not deleted.
    fn keep_claims(&mut self, claims: &BTreeMap<NodeId, Vec<String>>) {
        let stopped = self.lines.iter().filter_map(|line| {
            let Step::Stop(node) = line.step else { return None };
            Some((node, line.begin_ms + line.estimate.expected_ms))
        });
        let kept: Vec<_> =
            stopped.filter_map(|(node, at_ms)| Some((at_ms, claims.get(&node)?.clone()))).collect();
        let at_ms = kept.iter().map(|(at_ms, _)| *at_ms).max().unwrap_or_default();
        let all: Vec<String> = kept.into_iter().flat_map(|(_, claims)| claims).collect();
        if !all.is_empty() {
            self.line(at_ms, Step::KeepClaims(all));
        }
    }

    /// What is left undone in the end.
    fn conclude(&mut self, end: &End) {
        let at_ms = self.lines.iter().map(|line| line.begin_ms + line.estimate.expected_ms).max();
        let at_ms = at_ms.unwrap_or_default();
        if self.lines.is_empty() {
            for step in std::mem::take(&mut self.settings) {
                self.line(at_ms, step);
            }
        }
        if let End::Refused(note) = end {
            self.line(at_ms, Step::Invalid(note.clone()));
            return;
        }
        let Concluded { holds, refused, warnings } = self.concluded.clone();
        let mut is_told = false;
        for (node, why) in holds {
            is_told = true;
            self.line(at_ms, Step::Refused { nodes: [node].into(), why });
        }
        let why = |reason: Reason| warnings.iter().find(move |note| note.reason == reason);
        if !refused.is_empty() {
            let note = why(Reason::StaticQuorum).map(|note| note.message.clone());
            let why = note.unwrap_or_else(|| "the quorum of the controllers is static".to_owned());
            self.line(at_ms, Step::Refused { nodes: refused, why });
        }
        for note in warnings.iter().filter(|note| is_refusal(note.reason)) {
            let why = format!("{} ({})", note.message, note.reason);
            self.line(at_ms, Step::Refused { nodes: BTreeSet::new(), why });
        }
        match end {
            End::Settled | End::Refused(_) => {}
            End::Paused if self.lines.is_empty() => {}
            End::Paused => {
                let why = "nothing is done while the annotation strimzi.io/pause-reconciliation is \"true\"";
                self.line(at_ms, Step::Blocked(why.to_owned()));
            }
            // What a node that leaves waits for is told already.
            End::Waits(note) if is_told && note.reason == Reason::ScalingDown => {}
            End::Waits(note) | End::Endless(note) => {
                let why = format!("{} ({})", note.message, note.reason);
                self.line(at_ms, Step::Blocked(why));
            }
        }
    }
}

/// How long an act takes whose effect is there at once.
const QUICK_MS: u64 = 1_000;

/// How long a line takes at best and at worst.
fn estimate(step: &Step, took_ms: u64, paces: &Paces) -> Estimate {
    let scaled = |by: fn(&Pace) -> u64| {
        let of = |pace: &Pace| took_ms.saturating_mul(by(pace)) / by(&paces.expected).max(1);
        (of(&paces.fast), of(&paces.slow))
    };
    let (low_ms, high_ms) = if matches!(step, Step::Start { .. }) {
        scaled(|pace| pace.start_ms)
    } else if matches!(step, Step::Restart(_)) {
        scaled(|pace| pace.stop_ms + pace.start_ms + pace.catch_up_ms)
    } else if matches!(step, Step::Stop(_)) {
        scaled(|pace| pace.stop_ms)
    } else if matches!(step, Step::Move { .. }) {
        let rate = |pace: &Pace| u128::from(pace.move_bytes_per_s.unwrap_or(1).max(1));
        let of = |pace: &Pace| {
            let ms = u128::from(took_ms) * rate(&paces.expected) / rate(pace);
            u64::try_from(ms).unwrap_or(u64::MAX)
        };
        (of(&paces.fast), of(&paces.slow))
    } else {
        (took_ms / 2, took_ms.saturating_mul(5))
    };
    Estimate { low_ms: low_ms.min(took_ms), expected_ms: took_ms, high_ms: high_ms.max(took_ms) }
}

/// Whether something that the user asked for is not carried out for this.
const fn is_refusal(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ControllerScaleDownRefused
            | Reason::MetadataVersionRefused
            | Reason::QuorumMigrationRefused
            | Reason::AutoRebalanceFailed
            | Reason::AutoRebalanceTemplateMissing
            | Reason::AutoRebalanceTemplateUnmarked
    )
}

/// Kinds that are spoken of in other words: pods, their settings, their keys, their disks.
const fn is_spoken_of(kind: ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::PodSet
            | ObjectKind::PersistentVolumeClaim
    )
}

const fn kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::ConfigMap => "ConfigMap",
        ObjectKind::Secret => "Secret",
        ObjectKind::Service => "Service",
        ObjectKind::PodSet => "StrimziPodSet",
        ObjectKind::ServiceAccount => "ServiceAccount",
        ObjectKind::NetworkPolicy => "NetworkPolicy",
        ObjectKind::PodDisruptionBudget => "PodDisruptionBudget",
        ObjectKind::ClusterRoleBinding => "ClusterRoleBinding",
        ObjectKind::PersistentVolumeClaim => "PersistentVolumeClaim",
    }
}
