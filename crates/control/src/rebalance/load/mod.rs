//! What a cluster carries, from what was read of it: the view that plans are made with.
//!
//! The model is Cruise Control's where there is a choice:
//!
//! - the size of a partition is that of its leader's replica;
//! - what a partition takes in is the advance of its end offset between two samples, times the mean size
//!   of its records, which is its size by the offsets that it spans;
//! - what consumers get of a topic from a broker is split over the partitions that it leads by what these
//!   take in, evenly if nothing comes in; followers get what comes in, once each;
//! - the processor time of a broker is split by traffic, with weights for what comes in from producers,
//!   for what goes out, and for what comes in from other brokers.
//!
//! What is not known is listed ([`Unknown`]) and is nothing in the view: a plan leaves out the goals about it
//! ([`Loaded::unknown_rates`]). No goal of emptying a broker is about a rate.
//!
//! What it must not do: fill a gap with a guess that a plan would rest on.

mod rates;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::{NodeId, TopicName, TopicPartition};
use placement::{BrokerDisks, Rate, View};

pub use view::load;

/// What was read of a cluster, at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// When the offsets were read.
    pub at_ms: u64,
    /// The registered brokers.
    pub brokers: BTreeMap<NodeId, BrokerSeen>,
    /// The partitions of all topics.
    pub topics: BTreeMap<TopicName, Vec<PartitionSeen>>,
}

/// A broker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BrokerSeen {
    /// Its failure domain.
    pub rack: Option<String>,
    /// Whether it takes no part: it is down, or starts.
    pub fenced: bool,
    /// Its log directories, if they could be read.
    pub dirs: Option<Vec<DirSeen>>,
    /// What its node counts, if it could be asked.
    pub counters: Option<Counters>,
}

/// A log directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirSeen {
    /// Where it is.
    pub path: String,
    /// The size of its volume.
    pub total_bytes: Option<u64>,
    /// What is in it, with sizes; not what is on its way there from another directory.
    pub replicas: Vec<(TopicPartition, u64)>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionSeen {
    /// Its number.
    pub id: u32,
    /// The brokers that it has, or will have when a move is done; preferred leader first.
    pub replicas: Vec<NodeId>,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// Its first offset and the one after its last, if they could be read.
    pub offsets: Option<(u64, u64)>,
}

/// What a node has counted since it was started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counters {
    /// When it was asked.
    pub at_ms: u64,
    /// Processor time.
    pub cpu_seconds: f64,
    /// What consumers got, by topic. A topic that is missing has not been read.
    pub bytes_out: BTreeMap<TopicName, f64>,
}

/// What of a sample is kept, to be compared with a later one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    /// When the offsets were read.
    pub at_ms: u64,
    ends: BTreeMap<TopicName, BTreeMap<u32, u64>>,
    counters: BTreeMap<NodeId, Counters>,
}

impl Sample {
    /// What is kept of it.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let end = |seen: &PartitionSeen| Some((seen.id, seen.offsets?.1));
        let ends = |(topic, seen): (&TopicName, &Vec<PartitionSeen>)| {
            (topic.clone(), seen.iter().filter_map(end).collect())
        };
        let counters =
            self.brokers.iter().filter_map(|(id, seen)| Some((*id, seen.counters.clone()?)));
        Mark {
            at_ms: self.at_ms,
            ends: self.topics.iter().map(ends).collect(),
            counters: counters.collect(),
        }
    }
}

/// What a broker can take, as far as somebody has said it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Given {
    /// Processor cores.
    pub cpu_cores: Option<f64>,
    /// Inbound, KB a second.
    pub network_in_kb: Option<f64>,
    /// Outbound, KB a second.
    pub network_out_kb: Option<f64>,
    /// Disk; without it, the size of the volumes.
    pub disk_mb: Option<f64>,
}

/// What the view is to be for.
pub struct LoadOptions<'a> {
    /// What brokers can take.
    pub capacities: BTreeMap<NodeId, Given>,
    /// Brokers that have just joined, and are to be filled.
    pub added: BTreeSet<NodeId>,
    /// Brokers that are to be emptied.
    pub removed: BTreeSet<NodeId>,
    /// Brokers that are to get nothing that they do not have.
    pub closed: BTreeSet<NodeId>,
    /// Log directories that are to be emptied.
    pub removed_disks: BTreeSet<(NodeId, String)>,
    /// Topics whose replicas stay where they are, unless their broker goes.
    pub pinned: &'a (dyn Fn(&TopicName) -> bool + Sync),
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        let (capacities, added, removed, closed, removed_disks) = Default::default();
        Self { capacities, added, removed, closed, removed_disks, pinned: &|_| false }
    }
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("capacities", &self.capacities)
            .field("added", &self.added)
            .field("removed", &self.removed)
            .field("closed", &self.closed)
            .field("removed_disks", &self.removed_disks)
            .finish_non_exhaustive()
    }
}

/// What is not known of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// There is no sample that is old enough to compare with.
    TooEarly,
    /// Partitions whose offsets are not known now or were not before.
    Offsets {
        /// How many.
        partitions: usize,
        /// Of how many.
        of: usize,
    },
    /// Nodes that did not say what they count, now or before.
    Metrics {
        /// The brokers.
        brokers: Vec<NodeId>,
    },
    /// What brokers can take of something.
    Capacity {
        /// Of what.
        rate: Rate,
        /// The brokers.
        brokers: Vec<NodeId>,
    },
    /// What the disks of brokers can take.
    DiskCapacity {
        /// The brokers.
        brokers: Vec<NodeId>,
    },
    /// Partitions whose size is not known.
    Sizes {
        /// How many.
        partitions: usize,
    },
}

/// Cruise Control plans if of a thousand partitions it knows all but five.
const UNKNOWN_OF_THOUSAND_MAX: usize = 5;

impl Unknown {
    /// The rates that no plan may rest on because of it.
    #[must_use]
    pub fn rates(&self) -> &[Rate] {
        match self {
            Self::TooEarly => &[Rate::Inbound, Rate::Outbound, Rate::Cpu],
            Self::Offsets { partitions, of } => {
                let few = partitions * 1_000 <= of * UNKNOWN_OF_THOUSAND_MAX;
                // What followers get, and what that takes, follows from what comes in.
                if few { &[] } else { &[Rate::Inbound, Rate::Outbound, Rate::Cpu] }
            }
            Self::Metrics { .. } => &[Rate::Outbound, Rate::Cpu],
            Self::Capacity { rate, .. } => std::slice::from_ref(rate),
            Self::DiskCapacity { .. } | Self::Sizes { .. } => &[],
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |brokers: &[NodeId]| {
            let ids: Vec<String> = brokers.iter().map(ToString::to_string).collect();
            ids.join(", ")
        };
        match self {
            Self::TooEarly => f.write_str("the rates are unknown: there is only one sample yet"),
            Self::Offsets { partitions, of } => {
                write!(f, "the inbound rate of {partitions} of {of} partitions is unknown")
            }
            Self::Metrics { brokers } => {
                write!(f, "the outbound rate and CPU use of brokers {} are unknown", list(brokers))
            }
            Self::Capacity { rate, brokers } => {
                let what = match rate {
                    Rate::Inbound => "inbound network",
                    Rate::Outbound => "outbound network",
                    Rate::Cpu => "processor",
                };
                write!(f, "the {what} capacity of brokers {} is unknown", list(brokers))
            }
            Self::DiskCapacity { brokers } => {
                write!(f, "the disk capacity of brokers {} is unknown", list(brokers))
            }
            Self::Sizes { partitions } => {
                write!(f, "the size of {partitions} partitions is unknown")
            }
        }
    }
}

/// What a cluster carries.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// For plans.
    pub view: View,
    /// The disks of brokers that could be read, for plans that move replicas between them.
    pub disks: Vec<BrokerDisks>,
    /// What is not known.
    pub unknown: Vec<Unknown>,
    /// Brokers that are registered and do not run.
    pub fenced: BTreeSet<NodeId>,
}

impl Loaded {
    /// The brokers that run.
    #[must_use]
    pub fn running(&self) -> BTreeSet<NodeId> {
        let brokers = self.view.brokers().iter().map(|one| one.id);
        brokers.filter(|id| !self.fenced.contains(id)).collect()
    }

    /// The rates that a plan must not rest on: see [`placement::Goals::without`].
    #[must_use]
    pub fn unknown_rates(&self) -> Vec<Rate> {
        let all: BTreeSet<Rate> = self.unknown.iter().flat_map(Unknown::rates).copied().collect();
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
