//! The simulated Kafka: processes, registrations, partitions and settings, besides the quorum.
//!
//! Everything here follows from what processes do. No rule of the operator is repeated.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use control::node::Roles;
use control::rolling::config::Described;
use model::{DirectoryId, NodeId, TopicName, TopicPartition};

use super::quorum::{Copy, Participant, Quorum};

/// A process of Kafka.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// The uid of its pod.
    pub(crate) pod: String,
    /// What it runs as.
    pub(crate) roles: Roles,
    /// The version of Kafka.
    pub(crate) version: (u32, u32),
    /// The disk that it runs on.
    pub(crate) disk: String,
    /// The directory of its metadata log.
    pub(crate) directory: DirectoryId,
    /// What its configuration file says.
    pub(crate) file: Rc<BTreeMap<String, String>>,
    /// When it listens.
    pub(crate) listens_ms: u64,
    /// Until when it recovers its logs.
    pub(crate) recovers_until_ms: u64,
    /// Until when it makes no progress.
    pub(crate) hangs_until_ms: u64,
    /// Until when it reaches no other node.
    pub(crate) cut_off_until_ms: u64,
    /// The metadata that it has if it is cut off.
    pub(crate) stale: Option<Rc<Metadata>>,
}

/// A registered broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Whether it is fenced.
    pub(crate) fenced: bool,
    /// When its last heartbeat came.
    pub(crate) heard_ms: u64,
    /// Its rack.
    pub(crate) rack: Option<String>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Its replicas, the preferred leader first.
    pub(crate) replicas: Vec<NodeId>,
    /// Those in sync.
    pub(crate) isr: BTreeSet<NodeId>,
    /// The leader.
    pub(crate) leader: Option<NodeId>,
    /// Replicas that are being added.
    pub(crate) adding: BTreeSet<NodeId>,
    /// Replicas that are being removed.
    pub(crate) removing: BTreeSet<NodeId>,
    /// When it was created.
    pub(crate) created_ms: u64,
    /// The least number of replicas in sync with which it takes writes.
    pub(crate) min_isr: usize,
    /// Since when each replica that is not in sync has been catching up.
    pub(crate) behind: BTreeMap<NodeId, u64>,
}

/// What brokers know from the metadata log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// The registered brokers.
    pub(crate) brokers: BTreeMap<NodeId, Registration>,
    /// All partitions.
    pub(crate) partitions: Rc<BTreeMap<TopicPartition, Partition>>,
}

impl Metadata {
    /// The partitions, to be changed.
    pub(crate) fn edit(&mut self) -> &mut BTreeMap<TopicPartition, Partition> {
        Rc::make_mut(&mut self.partitions)
    }
}

/// What follows from partitions that have not changed since. Whoever changes them changes their address, because a weak
/// reference keeps the place of those that this is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    of: Weak<BTreeMap<TopicPartition, Partition>>,
    /// The brokers that served when nothing was left to happen by itself.
    still_with: Option<BTreeSet<NodeId>>,
    moving: BTreeSet<NodeId>,
    /// Whether some replica is not in sync.
    heals: bool,
}

impl Summary {
    fn new(partitions: &Rc<BTreeMap<TopicPartition, Partition>>) -> Self {
        let moves = partitions.values().filter(|one| one.moves());
        Self {
            of: Rc::downgrade(partitions),
            still_with: None,
            moving: moves.flat_map(|one| one.adding.iter().chain(&one.removing)).copied().collect(),
            heals: partitions.values().any(|one| one.isr.len() < one.replicas.len()),
        }
    }

    fn is_of(&self, partitions: &Rc<BTreeMap<TopicPartition, Partition>>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Rc::as_ptr(partitions))
    }
}

/// Kafka.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kafka {
    /// The processes, by node.
    pub(crate) processes: BTreeMap<NodeId, Process>,
    /// The quorum.
    pub(crate) quorum: Quorum,
    /// What brokers know.
    pub(crate) metadata: Rc<Metadata>,
    /// Settings that were changed while nodes run.
    pub(crate) of_nodes: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// The same for all brokers.
    pub(crate) of_cluster: BTreeMap<String, String>,
    /// The level of `metadata.version`.
    pub(crate) metadata_level: i16,
    /// The level of `kraft.version`.
    pub(crate) kraft_level: i16,
    /// Registered controllers.
    pub(crate) controllers: BTreeSet<NodeId>,
    /// How long replicas take to catch up.
    pub(crate) catch_up_ms: u64,
    /// How many bytes a second moves copy; `None` if a move takes as long as a replica that catches up.
    pub(crate) move_bytes_per_s: Option<u64>,
    /// When the moves that run will have ended.
    pub(crate) moves_end_ms: u64,
    /// The size of the replicas of partitions.
    pub(crate) sizes: BTreeMap<TopicPartition, u64>,
    /// Whether the partitions are unknown.
    pub(crate) partitions_unknown: bool,
    /// What nodes say of their settings, besides the values that follow from here.
    pub(crate) described: BTreeMap<NodeId, BTreeMap<String, Described>>,
    /// `controller.quorum.fetch.timeout.ms`.
    pub(crate) fetch_timeout_ms: u64,
    /// What follows from the partitions.
    pub(crate) summary: RefCell<Summary>,
}

/// After how long without a heartbeat a broker is fenced.
const SESSION_MS: u64 = 9_000;
/// The setting that closes a broker for new replicas.
pub(crate) const CORDON: &str = "cordoned.log.dirs";

impl Process {
    /// Whether it takes part: it neither hangs nor is cut off.
    #[must_use]
    pub(crate) const fn is_well(&self, now_ms: u64) -> bool {
        now_ms >= self.hangs_until_ms && now_ms >= self.cut_off_until_ms
    }

    /// Whether it answers its clients.
    #[must_use]
    pub(crate) const fn answers(&self, now_ms: u64) -> bool {
        now_ms >= self.hangs_until_ms && now_ms >= self.listens_ms
    }
}

impl Kafka {
    /// Time passes. `copies` are the metadata logs on disks.
    pub(crate) fn tick(&mut self, copies: &mut BTreeMap<String, Copy>, now_ms: u64, dt_ms: u64) {
        let metadata = &self.metadata;
        for process in self.processes.values_mut() {
            match process.is_well(now_ms) {
                true => process.stale = None,
                false if process.stale.is_none() => process.stale = Some(metadata.clone()),
                false => {}
            }
        }
        let well =
            self.processes.iter().filter(|(_, one)| one.answers(now_ms) && one.is_well(now_ms));
        let mut running: BTreeMap<NodeId, Participant> = well
            .map(|(id, one)| {
                let copy = copies.get(&one.disk).copied().unwrap_or_default();
                let is_controller = one.roles.is_controller();
                (*id, Participant { directory: one.directory, copy, is_controller })
            })
            .collect();
        self.quorum.tick(&mut running, now_ms, dt_ms);
        for (id, one) in &running {
            if let Some(process) = self.processes.get(id) {
                copies.insert(process.disk.clone(), one.copy);
            }
        }
        if self.quorum.leader.is_some() && self.quorum.high_watermark.is_some() {
            let controllers = running.iter().filter(|(_, one)| one.is_controller);
            self.controllers.extend(controllers.map(|(id, _)| *id));
            self.heartbeats(&running, now_ms);
            self.partitions(now_ms);
        }
    }

    /// Brokers register, are fenced and unfenced.
    fn heartbeats(&mut self, running: &BTreeMap<NodeId, Participant>, now_ms: u64) {
        let serves = |id: &NodeId| {
            let one = self.processes.get(id)?;
            let is_caught_up = running.get(id)?.copy.end == self.quorum.end;
            let ready = one.roles.is_broker() && now_ms >= one.recovers_until_ms && is_caught_up;
            let rack = one.file.get("broker.rack").cloned();
            one.roles.is_broker().then_some((ready, rack))
        };
        let alive: BTreeMap<NodeId, (bool, Option<String>)> =
            running.keys().filter_map(|id| Some((*id, serves(id)?))).collect();
        let mut brokers = self.metadata.brokers.clone();
        for (id, (ready, rack)) in alive {
            let fenced = !ready;
            brokers.insert(id, Registration { fenced, heard_ms: now_ms, rack });
        }
        for one in brokers.values_mut() {
            one.fenced |= now_ms.saturating_sub(one.heard_ms) > SESSION_MS;
        }
        let same = |(id, one): (&NodeId, &Registration)| {
            self.metadata.brokers.get(id).is_some_and(|before| {
                (before.fenced, &before.rack) == (one.fenced, &one.rack)
                    && one.heard_ms.saturating_sub(before.heard_ms) < SESSION_MS / 3
            })
        };
        if brokers.len() != self.metadata.brokers.len() || !brokers.iter().all(same) {
            Rc::make_mut(&mut self.metadata).brokers = brokers;
        }
    }

    fn is_live(&self, id: NodeId) -> bool {
        self.metadata.brokers.get(&id).is_some_and(|one| !one.fenced)
    }

    /// Replicas fall out of sync and catch up, leaders change, moves go on.
    fn partitions(&mut self, now_ms: u64) {
        let is_still = |one: &Partition| {
            let in_sync = one.isr.iter().all(|id| self.is_live(*id));
            let others = one.replicas.iter().filter(|id| !one.isr.contains(id));
            let can_join = others.into_iter().any(|id| self.is_live(*id));
            let has_leader =
                one.leader.is_some_and(|id| one.isr.contains(&id)) || one.isr.is_empty();
            in_sync && !can_join && has_leader && one.adding.is_empty() && one.removing.is_empty()
        };
        let live: BTreeSet<NodeId> =
            self.metadata.brokers.keys().filter(|id| self.is_live(**id)).copied().collect();
        if self.summarized(|summary| summary.still_with.as_ref() == Some(&live)) {
            return;
        }
        if self.metadata.partitions.values().all(is_still) {
            self.summary.borrow_mut().still_with = Some(live);
            return;
        }
        let catch_up_ms = self.catch_up_ms;
        let metadata = Rc::make_mut(&mut self.metadata);
        for partition in metadata.edit().values_mut() {
            partition.tick(&live, catch_up_ms, now_ms);
        }
    }

    /// What follows from the partitions as they are.
    fn summarized<T>(&self, then: impl FnOnce(&Summary) -> T) -> T {
        let mut summary = self.summary.borrow_mut();
        if !summary.is_of(&self.metadata.partitions) {
            *summary = Summary::new(&self.metadata.partitions);
        }
        then(&summary)
    }

    /// Whether some replica is not in sync.
    #[must_use]
    pub(crate) fn heals(&self) -> bool {
        self.summarized(|summary| summary.heals)
    }

    /// A broker shuts down in order, or is gone: it leaves what it leads.
    pub(crate) fn fence(&mut self, id: NodeId) {
        let Some(one) = self.metadata.brokers.get(&id) else { return };
        if one.fenced {
            return;
        }
        let metadata = Rc::make_mut(&mut self.metadata);
        if let Some(one) = metadata.brokers.get_mut(&id) {
            (one.fenced, one.heard_ms) = (true, 0);
        }
        for partition in metadata.edit().values_mut() {
            partition.leave(id);
        }
    }

    /// Whether a broker takes new replicas.
    #[must_use]
    pub(crate) fn is_open(&self, id: NodeId) -> bool {
        let altered = self.of_nodes.get(&id).and_then(|all| all.get(CORDON));
        let file = self.processes.get(&id).and_then(|one| one.file.get(CORDON));
        altered.or(file).is_none_or(String::is_empty)
    }

    /// A topic is created. Its replicas go to brokers that serve and are open.
    pub(crate) fn create_topic(
        &mut self,
        (name, count): (&str, i32),
        (factor, min_isr): (usize, usize),
        now_ms: u64,
    ) {
        let Ok(topic) = TopicName::new(name) else { return };
        let open =
            self.metadata.brokers.keys().filter(|id| self.is_live(**id) && self.is_open(**id));
        let open: Vec<NodeId> = open.copied().collect();
        if open.is_empty() {
            return;
        }
        let factor = factor.min(open.len());
        let metadata = Rc::make_mut(&mut self.metadata);
        for number in 0..count {
            let begin = usize::try_from(number).unwrap_or_default() + name.len();
            let replicas: Vec<NodeId> =
                open.iter().cycle().skip(begin % open.len()).take(factor).copied().collect();
            let partition = Partition {
                isr: replicas.iter().copied().collect(),
                leader: replicas.first().copied(),
                replicas,
                adding: BTreeSet::new(),
                removing: BTreeSet::new(),
                created_ms: now_ms,
                min_isr: min_isr.min(factor),
                behind: BTreeMap::new(),
            };
            metadata.edit().insert(TopicPartition::new(topic.clone(), number), partition);
        }
    }

    /// Moves what it can off a broker: each replica goes to an open broker that has none. Returns whether any is left.
    pub(crate) fn move_off(&mut self, leaving: &BTreeSet<NodeId>) -> bool {
        let open = self
            .metadata
            .brokers
            .keys()
            .filter(|id| self.is_live(**id) && self.is_open(**id) && !leaving.contains(id));
        let open: Vec<NodeId> = open.copied().collect();
        let holds = |one: &Partition| one.replicas.iter().any(|id| leaving.contains(id));
        if !self.metadata.partitions.values().any(holds) {
            return false;
        }
        let metadata = Rc::make_mut(&mut self.metadata);
        for (index, partition) in metadata.edit().values_mut().enumerate() {
            let from: Vec<NodeId> =
                partition.replicas.iter().filter(|id| leaving.contains(id)).copied().collect();
            for id in from {
                if partition.removing.contains(&id) {
                    continue;
                }
                let fits = |to: &&NodeId| !partition.replicas.contains(to);
                let to: Vec<NodeId> = open.iter().filter(fits).copied().collect();
                match to.get(index % to.len().max(1)) {
                    Some(to) => {
                        partition.replicas.push(*to);
                        partition.adding.insert(*to);
                        partition.removing.insert(id);
                    }
                    // There are fewer brokers than replicas: the partition gets fewer.
                    None if partition.replicas.len() > 1 && !open.is_empty() => {
                        partition.removing.insert(id);
                    }
                    None => {}
                }
            }
            // Who leaves fewer replicas than must be in sync lowers that number first.
            let stay = partition.replicas.len() - partition.removing.len();
            partition.min_isr = partition.min_isr.min(stay.max(1));
        }
        true
    }

    /// Moves that run are cancelled.
    pub(crate) fn cancel_moves(&mut self) {
        let metadata = Rc::make_mut(&mut self.metadata);
        for partition in metadata.edit().values_mut() {
            let adding = std::mem::take(&mut partition.adding);
            partition.removing.clear();
            partition.replicas.retain(|id| !adding.contains(id));
            partition.isr.retain(|id| !adding.contains(id));
        }
    }

    /// The brokers that moves concern.
    #[must_use]
    pub(crate) fn moving(&self) -> BTreeSet<NodeId> {
        self.summarized(|summary| summary.moving.clone())
    }

    /// The partitions that are assigned to a broker and were created before.
    #[must_use]
    pub(crate) fn assigned_before(&self, id: NodeId, before_ms: u64) -> usize {
        let all = self.metadata.partitions.values().filter(|one| one.created_ms < before_ms);
        all.filter(|one| one.replicas.contains(&id)).count()
    }

    /// The partitions that are assigned to a broker.
    #[must_use]
    pub(crate) fn assigned(&self, id: NodeId) -> usize {
        self.metadata.partitions.values().filter(|one| one.replicas.contains(&id)).count()
    }
}

impl Partition {
    /// Whether replicas of it are being moved.
    fn moves(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }

    /// A replica is not in sync any more, unless it is the last one.
    fn leave(&mut self, id: NodeId) {
        if self.isr.len() > 1 {
            self.isr.remove(&id);
            self.behind.remove(&id);
        }
        if self.leader == Some(id) {
            self.leader =
                self.replicas.iter().find(|one| self.isr.contains(one) && **one != id).copied();
        }
    }

    fn tick(&mut self, live: &BTreeSet<NodeId>, catch_up_ms: u64, now_ms: u64) {
        let gone: Vec<NodeId> = self.isr.iter().filter(|id| !live.contains(id)).copied().collect();
        gone.into_iter().for_each(|id| self.leave(id));
        self.behind.retain(|id, _| live.contains(id));
        if !self.leader.is_some_and(|id| live.contains(&id) && self.isr.contains(&id)) {
            let able = |id: &&NodeId| live.contains(id) && self.isr.contains(id);
            self.leader = self.replicas.iter().find(able).copied();
        }
        if self.leader.is_some() {
            let replicas = self.replicas.iter().filter(|id| live.contains(id));
            for id in replicas.filter(|id| !self.isr.contains(id)).copied().collect::<Vec<_>>() {
                let since = *self.behind.entry(id).or_insert(now_ms);
                if now_ms.saturating_sub(since) >= catch_up_ms {
                    self.behind.remove(&id);
                    self.isr.insert(id);
                }
            }
        }
        self.end_move();
    }

    /// A move ends when what is added is in sync, and enough others stay.
    fn end_move(&mut self) {
        if self.removing.is_empty() && self.adding.is_empty() {
            return;
        }
        let stay: BTreeSet<NodeId> =
            self.replicas.iter().filter(|id| !self.removing.contains(id)).copied().collect();
        let in_sync = stay.iter().filter(|id| self.isr.contains(id)).count();
        if self.adding.iter().all(|id| self.isr.contains(id)) && in_sync > 0 {
            self.replicas.retain(|id| stay.contains(id));
            self.isr.retain(|id| stay.contains(id));
            self.min_isr = self.min_isr.min(stay.len());
            if !self.leader.is_some_and(|id| stay.contains(&id)) {
                self.leader = self.replicas.iter().find(|id| self.isr.contains(id)).copied();
            }
            (self.adding, self.removing) = (BTreeSet::new(), BTreeSet::new());
        }
    }
}

impl Kafka {
    /// Moves replicas to brokers that have come, until each has as many as the others.
    pub(crate) fn fill(&mut self, brokers: &BTreeSet<NodeId>) {
        let live: Vec<NodeId> =
            self.metadata.brokers.keys().filter(|id| self.is_live(**id)).copied().collect();
        let to: Vec<NodeId> =
            live.iter().filter(|id| brokers.contains(id) && self.is_open(**id)).copied().collect();
        let mut counts: BTreeMap<NodeId, usize> = live.iter().map(|id| (*id, 0)).collect();
        for id in self.metadata.partitions.values().flat_map(|one| &one.replicas) {
            *counts.entry(*id).or_default() += 1;
        }
        let share = counts.values().sum::<usize>().div_ceil(counts.len().max(1));
        let mut to = to.into_iter().peekable();
        let metadata = Rc::make_mut(&mut self.metadata);
        for partition in metadata.edit().values_mut() {
            let count = |id: &NodeId| counts.get(id).copied().unwrap_or_default();
            while to.next_if(|id| count(id) >= share).is_some() {}
            let Some(new) = to.peek().copied() else { break };
            // A follower of the broker with the most goes.
            let followers = partition.replicas.iter().skip(1).rev();
            let from = followers.filter(|id| !brokers.contains(id)).max_by_key(|id| count(id));
            let Some(from) = from.copied().filter(|id| count(id) > count(&new)) else { continue };
            if partition.replicas.contains(&new) {
                continue;
            }
            partition.replicas.push(new);
            partition.adding.insert(new);
            partition.removing.insert(from);
            *counts.entry(new).or_default() += 1;
            *counts.entry(from).or_default() -= 1;
        }
    }

    /// Moves that have just begun end when all their bytes are copied. Returns their number, and the
    /// bytes if the sizes of partitions are known.
    pub(crate) fn pace_moves(&mut self, now_ms: u64) -> (usize, Option<u64>) {
        let (sizes, rate) = (&self.sizes, self.move_bytes_per_s);
        let metadata = Rc::make_mut(&mut self.metadata);
        let (mut count, mut bytes) = (0, 0_u64);
        let moving = metadata.edit().iter_mut().filter(|(_, one)| !one.adding.is_empty());
        for (name, partition) in moving {
            count += 1;
            let size = sizes.get(name).copied().unwrap_or_default();
            bytes += size.saturating_mul(partition.adding.len() as u64);
        }
        if let Some(rate) = rate {
            self.moves_end_ms = now_ms + bytes.saturating_mul(1_000) / rate.max(1);
            for partition in metadata.edit().values_mut() {
                let until = partition.adding.iter().map(|id| (*id, self.moves_end_ms));
                partition.behind.extend(until);
            }
        }
        (count, (!sizes.is_empty()).then_some(bytes))
    }
}

impl Kafka {
    /// The disk of a broker is gone: none of its replicas is in sync.
    pub(crate) fn lose_replicas(&mut self, id: NodeId) {
        let metadata = Rc::make_mut(&mut self.metadata);
        for partition in metadata.edit().values_mut() {
            partition.leave(id);
        }
    }
}
