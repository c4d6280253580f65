//! The optimizer's view of a cluster, as flat arrays.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::{NodeId, TopicName};

/// Capacity of a broker, in the units of load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// CPU, in percent of a core.
    pub cpu_percent: f64,
    /// Inbound, KB per second.
    pub network_in_kb: f64,
    /// Outbound, KB per second.
    pub network_out_kb: f64,
    /// Disk, MB.
    pub disk_mb: f64,
}

/// State of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerState {
    /// Sends and receives replicas.
    Alive,
    /// Just added; is filled.
    New,
    /// Leaving or gone: is drained.
    Removed,
}

/// A broker.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerSpec {
    /// Its id.
    pub id: NodeId,
    /// Its failure domain. Brokers without one are a rack each.
    pub rack: Option<String>,
    /// What it can take.
    pub capacity: Capacity,
    /// What is to become of it.
    pub state: BrokerState,
}

/// The load of a partition's leader.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeaderLoad {
    /// Percent of one core.
    pub cpu_percent: f64,
    /// Produced, KB a second.
    pub network_in_kb: f64,
    /// Sent to consumers and followers, KB a second.
    pub network_out_kb: f64,
    /// Size of one replica, MB.
    pub disk_mb: f64,
}

/// An invalid cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidView {
    /// A broker twice.
    #[error("broker {0} is listed twice")]
    BrokerTwice(NodeId),
    /// More than can be numbered.
    #[error("there are more than {0} brokers")]
    TooManyBrokers(usize),
    /// A value that is not a number, or negative.
    #[error("{what} of {of} is {value}, which is not a number of zero or more")]
    Number {
        /// Which number.
        what: &'static str,
        /// Of what.
        of: String,
        /// What it is.
        value: String,
    },
    /// A replica on an unknown broker.
    #[error("{topic}-{partition} has a replica on broker {broker}, which is not listed")]
    UnknownBroker {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: u32,
        /// The broker.
        broker: NodeId,
    },
    /// A partition without replicas, or with two on one broker.
    #[error("{topic}-{partition} has no replica, or one broker twice")]
    Replicas {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: u32,
    },
    /// No broker can host replicas.
    #[error("no broker is left to host replicas")]
    NoBroker,
    /// Partitions of one topic must be added together.
    #[error("the partitions of {0} are not listed together")]
    TopicAgain(TopicName),
}

/// The brokers of all partitions, leaders first: one flat list, indexed by the view's offsets.
pub type Assignment = Vec<u16>;

/// Load of a leader in canonical order, followed by a follower's CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) disk: f64,
    pub(crate) inbound: f64,
    pub(crate) outbound: f64,
    pub(crate) cpu_leader: f64,
    pub(crate) cpu_follower: f64,
}

/// A cluster: brokers, topics, partitions, replicas and their loads.
#[derive(Debug, Clone)]
pub struct View {
    pub(crate) brokers: Vec<BrokerSpec>,
    /// The rack of each broker, as a number.
    pub(crate) rack: Vec<u16>,
    pub(crate) topics: Vec<TopicName>,
    /// Brokers that receive no new replicas.
    pub(crate) closed: Vec<bool>,
    /// Brokers that receive no new leaders.
    pub(crate) unled: Vec<bool>,
    /// Topics whose replicas do not move.
    pub(crate) pinned: Vec<bool>,
    /// Minimum number of partitions of a topic that every broker leads.
    pub(crate) leaders_min: Vec<u32>,
    pub(crate) topic_of: Vec<u32>,
    pub(crate) number_of: Vec<u32>,
    pub(crate) offsets: Vec<u32>,
    pub(crate) replicas: Assignment,
    pub(crate) load: Vec<Load>,
    /// The preferred leader of a partition, if another broker leads it.
    pub(crate) preferred: BTreeMap<u32, u16>,
}

impl View {
    /// The brokers, in the numbering of assignments.
    #[must_use]
    pub fn brokers(&self) -> &[BrokerSpec] {
        &self.brokers
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.topic_of.len()
    }

    /// Number of replicas.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// The current assignment.
    #[must_use]
    pub fn assignment(&self) -> &Assignment {
        &self.replicas
    }

    /// Topic and partition number.
    #[must_use]
    pub fn partition_name(&self, partition: usize) -> (&TopicName, u32) {
        (&self.topics[self.topic_of[partition] as usize], self.number_of[partition])
    }

    /// The size of one replica of a partition, in MB.
    #[must_use]
    pub fn partition_mb(&self, partition: usize) -> f64 {
        self.load[partition].disk
    }

    /// The load of a partition's leader.
    #[must_use]
    pub fn leader_load(&self, partition: usize) -> LeaderLoad {
        let load = &self.load[partition];
        LeaderLoad {
            cpu_percent: load.cpu_leader,
            network_in_kb: load.inbound,
            network_out_kb: load.outbound,
            disk_mb: load.disk,
        }
    }

    /// Positions of a partition's replicas in an assignment.
    #[must_use]
    pub fn slots(&self, partition: usize) -> Range<usize> {
        self.offsets[partition] as usize..self.offsets[partition + 1] as usize
    }

    /// Brokers that may host replicas.
    pub(crate) fn live(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.brokers.len()).filter(|broker| self.is_live(*broker))
    }

    pub(crate) fn is_live(&self, broker: usize) -> bool {
        self.brokers[broker].state != BrokerState::Removed
    }

    /// Whether a broker may receive leaders.
    pub(crate) fn takes_leaders(&self, broker: usize) -> bool {
        self.is_live(broker) && !self.closed[broker] && !self.unled[broker]
    }

    /// Racks with a broker that receives replicas.
    pub(crate) fn racks(&self) -> BTreeSet<u16> {
        self.live().filter(|broker| !self.closed[*broker]).map(|broker| self.rack[broker]).collect()
    }

    /// MB to move over the network from the current assignment to this one.
    #[must_use]
    pub fn moved_mb(&self, assignment: &Assignment) -> f64 {
        let added = |partition: usize| {
            let slots = self.slots(partition);
            let before = &self.replicas[slots.clone()];
            assignment[slots].iter().filter(|broker| !before.contains(broker)).count() as f64
        };
        (0..self.partitions()).map(|p| added(p) * self.load[p].disk).sum()
    }
}

/// Builds and validates a [`View`].
#[derive(Debug)]
pub struct ViewBuilder {
    view: View,
    index: BTreeMap<NodeId, u16>,
    racks: BTreeMap<String, u16>,
    seen: BTreeMap<TopicName, u32>,
}

impl Default for ViewBuilder {
    fn default() -> Self {
        let view = View {
            brokers: Vec::new(),
            rack: Vec::new(),
            topics: Vec::new(),
            closed: Vec::new(),
            unled: Vec::new(),
            pinned: Vec::new(),
            leaders_min: Vec::new(),
            topic_of: Vec::new(),
            number_of: Vec::new(),
            offsets: vec![0],
            replicas: Vec::new(),
            load: Vec::new(),
            preferred: BTreeMap::new(),
        };
        let (index, racks, seen) = Default::default();
        Self { view, index, racks, seen }
    }
}

impl ViewBuilder {
    /// Adds a broker.
    pub fn broker(&mut self, broker: BrokerSpec) -> Result<(), InvalidView> {
        let Capacity { cpu_percent, network_in_kb, network_out_kb, disk_mb } = broker.capacity;
        let of = || format!("broker {}", broker.id);
        for (what, value) in [
            ("the CPU capacity", cpu_percent),
            ("the inbound capacity", network_in_kb),
            ("the outbound capacity", network_out_kb),
            ("the disk capacity", disk_mb),
        ] {
            number(what, value, of)?;
        }
        // The last number means "none" in the search.
        let limit = usize::from(u16::MAX);
        let next = u16::try_from(self.view.brokers.len()).ok().filter(|next| *next < u16::MAX);
        let next = next.ok_or(InvalidView::TooManyBrokers(limit))?;
        if self.index.insert(broker.id, next).is_some() {
            return Err(InvalidView::BrokerTwice(broker.id));
        }
        // A name that no user can choose, because it contains a zero byte.
        let own = || format!("\0{}", broker.id);
        let rack = broker.rack.clone().filter(|rack| !rack.is_empty()).unwrap_or_else(own);
        let count = u16::try_from(self.racks.len()).unwrap_or(u16::MAX);
        let rack = *self.racks.entry(rack).or_insert(count);
        self.view.rack.push(rack);
        self.view.closed.push(false);
        self.view.unled.push(false);
        self.view.brokers.push(broker);
        Ok(())
    }

    /// Adds a partition, its leader first. Partitions of a topic are added together.
    pub fn partition(
        &mut self,
        topic: &TopicName,
        partition: u32,
        replicas: &[NodeId],
        load: LeaderLoad,
    ) -> Result<(), InvalidView> {
        let of = || format!("{topic}-{partition}");
        let LeaderLoad { cpu_percent, network_in_kb, network_out_kb, disk_mb } = load;
        for (what, value) in [
            ("the CPU load", cpu_percent),
            ("the inbound load", network_in_kb),
            ("the outbound load", network_out_kb),
            ("the size", disk_mb),
        ] {
            number(what, value, of)?;
        }
        self.begin_topic(topic)?;
        let start = self.view.replicas.len();
        for broker in replicas {
            let unknown =
                || InvalidView::UnknownBroker { topic: topic.clone(), partition, broker: *broker };
            let index = *self.index.get(broker).ok_or_else(unknown)?;
            if self.view.replicas[start..].contains(&index) {
                return Err(InvalidView::Replicas { topic: topic.clone(), partition });
            }
            self.view.replicas.push(index);
        }
        if replicas.is_empty() {
            return Err(InvalidView::Replicas { topic: topic.clone(), partition });
        }
        let view = &mut self.view;
        view.topic_of.push(u32::try_from(view.topics.len() - 1).unwrap_or(u32::MAX));
        view.number_of.push(partition);
        view.offsets.push(u32::try_from(view.replicas.len()).unwrap_or(u32::MAX));
        view.load.push(Load {
            disk: disk_mb,
            inbound: network_in_kb,
            outbound: network_out_kb,
            cpu_leader: cpu_percent,
            cpu_follower: follower_cpu(load),
        });
        Ok(())
    }

    /// Excludes a topic: its replicas stay, unless their broker is removed.
    pub fn pin(&mut self, topic: &TopicName) {
        if let Some(index) = self.seen.get(topic) {
            self.view.pinned[*index as usize] = true;
        }
    }

    /// Cordons a broker: it receives no new replicas.
    pub fn close(&mut self, broker: NodeId) {
        if let Some(index) = self.index.get(&broker) {
            self.view.closed[usize::from(*index)] = true;
        }
    }

    /// Excludes a broker from new leadership.
    pub fn exclude_from_leadership(&mut self, broker: NodeId) {
        if let Some(index) = self.index.get(&broker) {
            self.view.unled[usize::from(*index)] = true;
        }
    }

    /// Every broker leads at least `least` partitions of a topic; default: as many as possible.
    pub fn lead_everywhere(&mut self, topic: &TopicName, least: Option<u32>) {
        let Some(index) = self.seen.get(topic) else { return };
        let view = &self.view;
        let partitions = view.topic_of.iter().filter(|of| *of == index).count();
        let brokers = (0..view.brokers.len()).filter(|broker| view.takes_leaders(*broker)).count();
        let fair = partitions.checked_div(brokers).unwrap_or(0);
        let least = least.unwrap_or_else(|| u32::try_from(fair).unwrap_or(u32::MAX));
        self.view.leaders_min[*index as usize] = least;
    }

    /// Sets the preferred leader of the last added partition: the first of its replica list. Ignored unless
    /// it has a replica.
    pub fn prefer(&mut self, broker: NodeId) {
        let Some(last) = self.view.topic_of.len().checked_sub(1) else { return };
        let Some(index) = self.index.get(&broker).copied() else { return };
        let replicas = &self.view.replicas[self.view.slots(last)];
        if replicas.contains(&index) && replicas.first() != Some(&index) {
            self.view.preferred.insert(u32::try_from(last).unwrap_or(u32::MAX), index);
        }
    }

    /// Validates and builds the view.
    pub fn build(self) -> Result<View, InvalidView> {
        if self.view.live().next().is_none() {
            return Err(InvalidView::NoBroker);
        }
        Ok(self.view)
    }

    fn begin_topic(&mut self, topic: &TopicName) -> Result<(), InvalidView> {
        if self.view.topics.last() == Some(topic) {
            return Ok(());
        }
        let next = u32::try_from(self.view.topics.len()).unwrap_or(u32::MAX);
        if self.seen.insert(topic.clone(), next).is_some() {
            return Err(InvalidView::TopicAgain(topic.clone()));
        }
        self.view.topics.push(topic.clone());
        self.view.pinned.push(false);
        self.view.leaders_min.push(0);
        Ok(())
    }
}

/// CPU of a follower: only inbound replication.
fn follower_cpu(load: LeaderLoad) -> f64 {
    const INBOUND: f64 = 0.7;
    const OUTBOUND: f64 = 0.15;
    const FOLLOWER_INBOUND: f64 = 0.15;
    let all = INBOUND * load.network_in_kb + OUTBOUND * load.network_out_kb;
    if all > 0.0 { load.cpu_percent * FOLLOWER_INBOUND * load.network_in_kb / all } else { 0.0 }
}

fn number(what: &'static str, value: f64, of: impl Fn() -> String) -> Result<(), InvalidView> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(InvalidView::Number { what, of: of(), value: value.to_string() })
}
