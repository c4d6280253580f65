//! A simulated cluster that obeys, slowly, and breaks when it is told to.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use model::{NodeId, TopicName};

pub(super) fn broker(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

pub(super) fn partition(number: i32) -> TopicPartition {
    // Three partitions to a topic.
    let topic = TopicName::new(format!("t{}", number / 3)).unwrap();
    TopicPartition::new(topic, number % 3)
}

pub(super) fn ids(list: &[i32]) -> Vec<NodeId> {
    list.iter().map(|id| broker(*id)).collect()
}

/// A cluster: partitions with what moves, and settings.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) partitions: BTreeMap<TopicPartition, PartitionNow>,
    /// What partitions had before the move that is in flight.
    original: BTreeMap<TopicPartition, Vec<NodeId>>,
    pub(super) disks: BTreeMap<Disk, DiskNow>,
    pub(super) settings: BTreeMap<Subject, Values>,
    pub(super) brokers: BTreeSet<NodeId>,
    pub(super) live: BTreeSet<NodeId>,
    pub(super) clock_ms: u64,
    /// Partitions that a move has cost the majority of their replicas in sync.
    pub(super) weakened: usize,
    /// What a pass has asked to be read.
    pub(super) reads: BTreeSet<Subject>,
}

/// The bytes of every replica, and what arrives of one in a tick.
pub(super) const SIZE: u64 = 100;
const ARRIVES: u64 = 50;

impl Cluster {
    pub(super) fn new(brokers: i32, partitions: &[Vec<i32>]) -> Self {
        let all: BTreeSet<NodeId> = (0..brokers).map(broker).collect();
        let now = |replicas: &Vec<i32>| PartitionNow {
            replicas: ids(replicas),
            isr: ids(replicas),
            leader: Some(broker(replicas[0])),
            ..PartitionNow::default()
        };
        let partitions =
            partitions.iter().zip(0..).map(|(p, number)| (partition(number), now(p))).collect();
        // Somebody has set something on a broker and on a topic.
        let set = |text: &str| Values { leader: Some(text.to_owned()), follower: None };
        let settings = BTreeMap::from([
            (Subject::Broker(broker(1)), set("77777777")),
            (Subject::Topic(partition(0).topic), set("*")),
        ]);
        Self {
            partitions,
            original: BTreeMap::new(),
            disks: BTreeMap::new(),
            settings,
            brokers: all.clone(),
            live: all,
            clock_ms: 1_000,
            weakened: 0,
            reads: BTreeSet::new(),
        }
    }

    pub(super) fn facts(&self) -> Facts {
        let read = |subject: &Subject| {
            (subject.clone(), self.settings.get(subject).cloned().unwrap_or_default())
        };
        Facts {
            partitions: Some(self.partitions.clone()),
            disks: Some(self.disks.clone()),
            brokers: self.brokers.clone(),
            live: Some(self.live.clone()),
            settings: self.reads.iter().map(read).collect(),
            distress: Some(false),
            claimed: Some(true),
            now_ms: self.clock_ms,
            ..Facts::default()
        }
    }

    pub(super) fn act(&mut self, act: &Act) {
        match act {
            Act::Configure(subject, values) => {
                if *values == Values::default() {
                    self.settings.remove(subject);
                } else {
                    self.settings.insert(subject.clone(), values.clone());
                }
            }
            Act::Reassign(which, target) => self.reassign(which, target),
            Act::Cancel(which) => self.cancel(which),
            Act::Shift(replica, path) => {
                if let Some(now) = self.disks.get_mut(replica) {
                    now.future = Some(path.clone());
                }
            }
            Act::Elect(all) => {
                for which in all {
                    let Some(now) = self.partitions.get_mut(which) else { continue };
                    let first = now.replicas[0];
                    if now.isr.contains(&first) && self.live.contains(&first) {
                        now.leader = Some(first);
                    }
                }
            }
        }
    }

    pub(super) fn reassign(&mut self, which: &TopicPartition, target: &[NodeId]) {
        let Some(now) = self.partitions.get_mut(which) else { return };
        let original = self.original.entry(which.clone()).or_insert_with(|| now.replicas.clone());
        now.adding = target.iter().copied().filter(|b| !original.contains(b)).collect();
        now.removing = original.iter().copied().filter(|b| !target.contains(b)).collect();
        now.replicas = target.iter().chain(&now.removing).copied().collect();
        now.arrived_bytes = 0;
        if !now.is_moving() {
            self.original.remove(which);
        }
    }

    fn cancel(&mut self, which: &TopicPartition) {
        let Some(original) = self.original.remove(which) else { return };
        let Some(now) = self.partitions.get_mut(which) else { return };
        now.isr.retain(|broker| original.contains(broker));
        now.replicas = original;
        (now.adding, now.removing, now.arrived_bytes) = Default::default();
        self.lead(which);
    }

    fn lead(&mut self, which: &TopicPartition) {
        let live = self.live.clone();
        let Some(now) = self.partitions.get_mut(which) else { return };
        let fits = |b: &NodeId, now: &PartitionNow| live.contains(b) && now.isr.contains(b);
        if now.leader.is_none_or(|leader| !fits(&leader, now) || !now.replicas.contains(&leader)) {
            now.leader = now.replicas.iter().copied().find(|b| fits(b, now));
        }
    }

    /// Time goes by: what runs catches up, copies, and ends its moves.
    pub(super) fn tick(&mut self) {
        self.clock_ms += 10_000;
        for now in self.disks.values_mut() {
            if let Some(path) = now.future.take() {
                now.path = path;
            }
        }
        for which in self.partitions.keys().cloned().collect::<Vec<_>>() {
            self.lead(&which);
            let Some(now) = self.partitions.get_mut(&which) else { continue };
            if now.leader.is_none() {
                continue;
            }
            let behind = |b: &&NodeId| {
                self.live.contains(b) && !now.isr.contains(b) && !now.adding.contains(b)
            };
            let caught_up: Vec<NodeId> = now.replicas.iter().filter(behind).copied().collect();
            now.isr.extend(caught_up);
            if !now.is_moving() || !now.adding.iter().all(|b| self.live.contains(b)) {
                continue;
            }
            let all = SIZE * now.adding.len() as u64;
            now.arrived_bytes = (now.arrived_bytes + ARRIVES).min(all);
            if now.arrived_bytes == all {
                let had = now.replicas.iter().filter(|b| !now.adding.contains(b)).count();
                let was_strong = 2 * now.isr.len() > had;
                now.isr.extend(std::mem::take(&mut now.adding));
                let removing = std::mem::take(&mut now.removing);
                now.replicas.retain(|b| !removing.contains(b));
                now.isr.retain(|b| !removing.contains(b));
                now.arrived_bytes = 0;
                let is_strong = 2 * now.isr.len() > now.replicas.len();
                self.weakened += usize::from(was_strong && !is_strong);
                self.original.remove(&which);
                self.lead(&which);
            }
        }
    }

    pub(super) fn kill(&mut self, dead: NodeId) {
        self.live.remove(&dead);
        for which in self.partitions.keys().cloned().collect::<Vec<_>>() {
            let Some(now) = self.partitions.get_mut(&which) else { continue };
            if now.isr.len() > 1 {
                now.isr.retain(|b| *b != dead);
            }
            self.lead(&which);
        }
    }
}
