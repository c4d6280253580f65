//! A cluster whose pods stop, start and catch up in simulated time.
//!
//! What a node does and what an operator sees of it are two things: a pod that is not ready may serve, and a node may say
//! that it hangs and be wrong. What a restart takes from others is judged by what the nodes do.

use std::collections::{BTreeMap, BTreeSet};

use control::node::Roles;
use control::rolling::availability::PartitionFacts;
use control::rolling::config::Diff;
use control::rolling::facts::{Contact, Facts, NodeFacts, Pod, PodFacts, Recovery};
use control::rolling::memory::Memory;
use control::rolling::pass::Action;
use control::rolling::quorum;
use control::rolling::reasons::Reason;
use model::{NodeId, TopicName, TopicPartition};

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// From the deletion of a pod until it is gone.
    pub stop_ms: u64,
    /// From there until the next one is ready.
    pub start_ms: u64,
    /// From there until its replicas are in sync.
    pub catch_up_ms: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { stop_ms: 3_000, start_ms: 10_000, catch_up_ms: 5_000 }
    }
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is up.
    Up {
        /// Since when.
        since_ms: u64,
    },
    /// Its pod is being deleted.
    Stopping {
        /// Until when.
        until_ms: u64,
    },
    /// Its new pod starts.
    Starting {
        /// Until when.
        until_ms: u64,
    },
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is for.
    pub roles: Roles,
    /// Its pool.
    pub pool: String,
    /// Its rack.
    pub rack: Option<String>,
    /// What it does.
    pub state: State,
    /// How many pods it has had.
    pub pods: u32,
    /// When its pod was made.
    pub created_ms: u64,
    /// Why its pod should be restarted; the next one should not.
    pub reasons: BTreeSet<Reason>,
    /// Whether the pod set is annotated.
    pub annotated: bool,
    /// What its container waits for; the next pod's does not.
    pub waiting: Option<String>,
    /// Whether its pods never become ready.
    pub never_ready: bool,
    /// Whether its pod is not ready although Kafka runs on it: it is in sync and votes as others do, whatever it says.
    pub probes_fail: bool,
    /// What it says of itself if it is not ready. Only one that says that it runs does, unless its probes fail.
    pub recovery: Recovery,
    /// Whether its machine is gone: nothing runs there, nothing answers, and a pod that is deleted stays.
    pub dead: bool,
    /// Whether its disks are deleted with its pod.
    pub ephemeral: bool,
    /// Whether there is something on its disks that may be lost.
    pub filled: bool,
    /// Whether Kafka answers on it.
    pub contact: Contact,
    /// Whether its pod can be read.
    pub readable: bool,
    /// How its settings differ; the next pod's do not.
    pub config: Option<Diff>,
    /// Whether it takes no settings while it runs.
    pub refuses_updates: bool,
    /// Whether it leads what it should.
    pub leads: bool,
}

impl Node {
    /// A node that is up, with a reason to be restarted.
    #[must_use]
    pub fn up(roles: Roles, reason: Option<Reason>) -> Self {
        Self {
            roles,
            pool: "pool".to_owned(),
            rack: None,
            state: State::Up { since_ms: 0 },
            pods: 0,
            created_ms: 0,
            reasons: reason.into_iter().collect(),
            annotated: false,
            waiting: None,
            never_ready: false,
            probes_fail: false,
            recovery: Recovery::No,
            dead: false,
            ephemeral: false,
            filled: true,
            contact: Contact::Answers,
            readable: true,
            config: None,
            refuses_updates: false,
            leads: true,
        }
    }

    /// Whether Kafka runs on it.
    #[must_use]
    pub fn runs(&self) -> bool {
        let up = matches!(self.state, State::Up { .. }) && !self.dead;
        let serves = self.probes_fail || self.recovery == Recovery::No;
        up && self.waiting.is_none() && !self.never_ready && serves
    }

    /// Whether its pod is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.runs() && !self.probes_fail
    }

    fn uid(&self, node: NodeId) -> String {
        format!("{node}-{}", self.pods)
    }

    fn pod(&self, node: NodeId) -> Pod {
        if !self.readable {
            return Pod::Unknown;
        }
        Pod::There(PodFacts {
            ready: self.is_ready(),
            deleting: matches!(self.state, State::Stopping { .. }),
            waiting: self.waiting.clone(),
            ..PodFacts {
                uid: self.uid(node),
                ready: true,
                created_ms: self.created_ms,
                ..PodFacts::default()
            }
        })
    }
}

/// A partition.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Its brokers, those that a move adds among them.
    pub replicas: Vec<NodeId>,
    /// How many must be in sync.
    pub min_isr: usize,
    /// Those that are not in sync although they are up.
    pub behind: BTreeSet<NodeId>,
    /// Those that a move in flight adds.
    pub adding: Vec<NodeId>,
    /// Those that a move in flight takes away.
    pub removing: Vec<NodeId>,
}

/// The cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Now.
    pub now_ms: u64,
    /// How long things take.
    pub times: Times,
    /// The nodes in the order in which they are told.
    pub order: Vec<NodeId>,
    /// The nodes.
    pub nodes: BTreeMap<NodeId, Node>,
    /// The partitions.
    pub partitions: Vec<Partition>,
    /// Who leads the quorum. It may be none of the nodes.
    pub leader: Option<NodeId>,
    /// The voters that never catch up.
    pub lagging: BTreeSet<NodeId>,
    /// Whether the voters are those that should be.
    pub quorum_settled: Option<bool>,
    /// Whether Kafka can be asked about partitions.
    pub partitions_readable: bool,
    /// Whether Kafka can be asked about the quorum.
    pub quorum_readable: bool,
    /// All restarts, in their order.
    pub restarts: Vec<NodeId>,
    /// What was broken by them.
    pub broken: Vec<String>,
}

impl Cluster {
    /// A cluster of these nodes.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = (NodeId, Node)>) -> Self {
        let nodes: Vec<(NodeId, Node)> = nodes.into_iter().collect();
        Self {
            now_ms: 1_000_000,
            times: Times::default(),
            order: nodes.iter().map(|(node, _)| *node).collect(),
            nodes: nodes.into_iter().collect(),
            partitions: Vec::new(),
            leader: None,
            lagging: BTreeSet::new(),
            quorum_settled: Some(true),
            partitions_readable: true,
            quorum_readable: true,
            restarts: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// A node that is there.
    pub fn node(&mut self, id: i32) -> Option<&mut Node> {
        self.nodes.get_mut(&NodeId::new(id)?)
    }

    /// Lets time pass.
    pub fn tick(&mut self, ms: u64) {
        self.now_ms += ms;
        for node in self.nodes.values_mut() {
            if let State::Stopping { until_ms } = node.state
                && until_ms <= self.now_ms
                && !node.dead
            {
                node.pods += 1;
                node.created_ms = until_ms;
                node.reasons.clear();
                node.waiting = None;
                node.config = node.config.as_ref().map(|_| Diff::default());
                node.leads = false;
                node.state = State::Starting { until_ms: until_ms + self.times.start_ms };
            }
            if let State::Starting { until_ms } = node.state
                && until_ms <= self.now_ms
            {
                node.state = State::Up { since_ms: until_ms };
            }
        }
        let caught_up: Vec<NodeId> =
            self.order.iter().filter(|id| self.is_caught_up(**id)).copied().collect();
        for id in caught_up {
            self.nodes.entry(id).and_modify(|node| node.filled = true);
        }
        self.elect_leader();
    }

    /// A leader that is one of the nodes and does not run is followed by the first voter that does.
    fn elect_leader(&mut self) {
        let Some(leader) = self.leader else { return };
        if self.nodes.get(&leader).is_some_and(|node| !node.runs()) {
            let voters = self.nodes.iter().filter(|(_, node)| node.roles.is_controller());
            let next = voters.filter(|(_, node)| node.runs()).map(|(id, _)| *id).next();
            self.leader = next;
        }
    }

    fn is_caught_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|facts| match facts.state {
            State::Up { since_ms } => {
                let rested = since_ms == 0 || self.now_ms >= since_ms + self.times.catch_up_ms;
                facts.runs() && rested
            }
            State::Stopping { .. } | State::Starting { .. } => false,
        })
    }

    /// The replicas of a partition that are in sync.
    #[must_use]
    pub fn isr(&self, partition: &Partition) -> Vec<NodeId> {
        let in_sync = |broker: &&NodeId| {
            // A broker that is no node of this cluster stays as it is.
            let known = self.nodes.contains_key(broker);
            let away = partition.behind.contains(broker) || partition.adding.contains(broker);
            !away && (!known || self.is_caught_up(**broker))
        };
        partition.replicas.iter().filter(in_sync).copied().collect()
    }

    /// What an operator sees.
    #[must_use]
    pub fn facts(&self, memory: Memory) -> Facts {
        let node = |id: &NodeId| self.nodes.get(id).map(|node| self.node_facts(*id, node));
        Facts {
            nodes: self.order.iter().filter_map(node).collect(),
            quorum: self.quorum_readable.then(|| self.quorum()),
            quorum_settled: self.is_settled().filter(|_| self.quorum_readable),
            voters: self.quorum().voters.into_iter().map(|(id, _)| id).collect(),
            partitions: self.partitions_readable.then(|| self.partition_facts()),
            memory,
        }
    }

    /// A controller with a new disk has to be made a voter again.
    fn is_settled(&self) -> Option<bool> {
        let is_new = |node: &Node| node.roles.is_controller() && !node.filled;
        self.quorum_settled.map(|is_settled| is_settled && !self.nodes.values().any(is_new))
    }

    /// What an operator can find out about a node: only a ready one is asked whether Kafka answers, and only one that is
    /// not ready what it does instead. A controller reports whether its JVM hangs, and nothing else.
    fn node_facts(&self, id: NodeId, node: &Node) -> NodeFacts {
        let is_ready = node.is_ready();
        NodeFacts {
            node: id,
            roles: node.roles,
            pool: node.pool.clone(),
            rack: node.rack.clone(),
            ephemeral: node.ephemeral,
            ephemeral_data: node.ephemeral,
            pod: node.pod(id),
            reasons: node.reasons.clone(),
            set_annotated: node.annotated,
            recovery: match node.recovery {
                _ if is_ready => Recovery::No,
                _ if node.dead => Recovery::Unknown,
                Recovery::Starting | Recovery::Yes { .. } if !node.roles.is_broker() => {
                    Recovery::No
                }
                said @ (Recovery::Unknown
                | Recovery::No
                | Recovery::Starting
                | Recovery::Hung
                | Recovery::Yes { .. }) => said,
            },
            fenced: self.partitions_readable.then(|| !node.runs()),
            contact: if is_ready { node.contact } else { Contact::Unknown },
            config: node.config.clone(),
            leads_preferred: Some(node.leads),
        }
    }

    fn quorum(&self) -> quorum::Facts {
        let voters = self.nodes.iter().filter(|(_, node)| node.roles.is_controller());
        let at = |id: &NodeId| match self.is_caught_up(*id) && !self.lagging.contains(id) {
            true => Some(self.now_ms),
            false => Some(1),
        };
        quorum::Facts {
            leader: self.leader,
            leader_caught_up_ms: self.leader.map(|_| self.now_ms),
            voters: voters.clone().map(|(id, _)| (*id, at(id))).collect(),
            fetched_ms: voters
                .map(|(id, node)| (*id, if node.runs() { self.now_ms } else { 1 }))
                .collect(),
            fetch_timeout_ms: quorum::FETCH_TIMEOUT_DEFAULT_MS,
        }
    }

    fn partition_facts(&self) -> Vec<PartitionFacts> {
        let Ok(topic) = TopicName::new("t") else { return Vec::new() };
        let facts = |(number, partition): (i32, &Partition)| PartitionFacts {
            partition: TopicPartition::new(topic.clone(), number),
            replicas: partition.replicas.clone(),
            isr: self.isr(partition),
            adding: partition.adding.clone(),
            removing: partition.removing.clone(),
            min_isr: Some(partition.min_isr),
        };
        (0..).zip(&self.partitions).map(facts).collect()
    }

    /// Ends the move of a partition: what it adds is in sync, what it takes away is gone.
    pub fn end_move(&mut self, partition: usize) {
        if let Some(partition) = self.partitions.get_mut(partition) {
            partition.replicas.retain(|broker| !partition.removing.contains(broker));
            partition.adding.clear();
            partition.removing.clear();
        }
    }

    /// Does what an operator asks for.
    pub fn act(&mut self, action: &Action) {
        match action {
            Action::Restart { node, uid, .. } => self.delete_pod(*node, uid),
            Action::UpdateNode { node, .. } => {
                let node = self.nodes.get_mut(node).filter(|node| !node.refuses_updates);
                if let Some(node) = node {
                    let diff = node.config.take().unwrap_or_default();
                    node.config = Some(Diff { on_node: Vec::new(), ..diff });
                }
            }
            Action::UpdateCluster { .. } => {
                for node in self.nodes.values_mut().filter(|node| !node.refuses_updates) {
                    let diff = node.config.take().unwrap_or_default();
                    node.config = Some(Diff { on_cluster: Vec::new(), ..diff });
                }
            }
            Action::ElectPreferred { brokers } => {
                let brokers = brokers.iter().copied().collect::<BTreeSet<_>>();
                let preferred = self.nodes.iter_mut().filter(|(id, _)| brokers.contains(id));
                preferred.for_each(|(_, node)| node.leads = true);
            }
            Action::ClearManual { pool } => {
                let pool = self.nodes.values_mut().filter(|node| node.pool == *pool);
                pool.for_each(|node| node.annotated = false);
            }
        }
    }

    fn delete_pod(&mut self, id: NodeId, uid: &str) {
        let until_ms = self.now_ms + self.times.stop_ms;
        let before = self.available();
        let quorum_before = self.has_quorum();
        let only_here = self.only_on(id);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        // The API server refuses another uid, and a pod is not deleted twice.
        if node.uid(id) != uid || matches!(node.state, State::Stopping { .. }) {
            return;
        }
        let recovers = matches!(node.recovery, Recovery::Yes { .. }) && node.roles.is_broker();
        // A user who has one replica, on a disk that is deleted with its pod, has chosen that restarts delete it.
        let is_ready = node.is_ready();
        let is_lost = |(_, replicas): &(usize, usize)| *replicas > 1 || !is_ready;
        let only_here = only_here.into_iter().filter(|_| node.ephemeral && node.filled);
        let lost: Vec<usize> = only_here.filter(is_lost).map(|(at, _)| at).collect();
        node.filled &= !node.ephemeral;
        node.state = State::Stopping { until_ms };
        self.restarts.push(id);
        if recovers {
            self.broken.push(format!("restart of {id} interrupted the recovery of its logs"));
        }
        let lost = lost.into_iter();
        self.broken.extend(lost.map(|at| format!("restart of {id} deleted partition {at}")));
        if !self.has_metadata() {
            self.broken.push(format!("restart of {id} deleted the metadata"));
        }
        let after = self.available();
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            if *before && !after {
                self.broken.push(format!("restart of {id} took partition {at} below its min-ISR"));
            }
        }
        if quorum_before && !self.has_quorum() {
            self.broken.push(format!("restart of {id} took the majority from the quorum"));
        }
    }

    /// Whether each partition has its min-ISR, and will when its move has ended. One that cannot keep it
    /// without one of its brokers counts as not available, since nothing could be done for it.
    fn available(&self) -> Vec<bool> {
        let available = |partition: &Partition| {
            let isr = self.isr(partition);
            let target: Vec<&NodeId> =
                partition.replicas.iter().filter(|b| !partition.removing.contains(b)).collect();
            let joins = |broker: &&&NodeId| {
                let up = self.nodes.get(**broker).is_none_or(Node::runs);
                isr.contains(broker) || (partition.adding.contains(broker) && up)
            };
            let later = target.iter().filter(joins).count();
            target.len() > partition.min_isr && isr.len().min(later) >= partition.min_isr
        };
        self.partitions.iter().map(available).collect()
    }

    /// The partitions that are in sync on no other node, and may be on this one; with the number of their replicas.
    fn only_on(&self, id: NodeId) -> Vec<(usize, usize)> {
        let is_only = |partition: &Partition| {
            let may_have = partition.replicas.contains(&id)
                && !partition.behind.contains(&id)
                && !partition.adding.contains(&id);
            may_have && self.isr(partition).iter().all(|broker| *broker == id)
        };
        let only = self.partitions.iter().enumerate().filter(|(_, partition)| is_only(partition));
        only.map(|(at, partition)| (at, partition.replicas.len())).collect()
    }

    /// Whether a majority of the voters has its disk, whether it runs or not.
    fn has_metadata(&self) -> bool {
        let voters = self.nodes.values().filter(|node| node.roles.is_controller());
        let (all, filled) = voters.fold((0_usize, 0_usize), |(all, filled), node| {
            (all + 1, filled + usize::from(node.filled))
        });
        all == 0 || filled > all / 2
    }

    /// Whether a majority of the voters is up to date; with one or two voters that is not required.
    fn has_quorum(&self) -> bool {
        let voters = self.nodes.iter().filter(|(_, node)| node.roles.is_controller());
        let (mut all, mut well) = (0_usize, 0_usize);
        for (id, _) in voters {
            all += 1;
            well += usize::from(self.is_caught_up(*id) && !self.lagging.contains(id));
        }
        all >= 3 && well > all / 2
    }
}
