//! From a sample to a view.

use std::collections::{BTreeMap, BTreeSet};

use model::{NodeId, TopicPartition};
use placement::{
    BrokerDisks, BrokerSpec, BrokerState, Capacity, DiskReplica, DiskSpec, InvalidView, Rate,
    ViewBuilder,
};

use super::rates::{self, Sizes};
use super::{BrokerSeen, DirSeen, Given, LoadOptions, Loaded, Mark, Sample, Unknown};

const MB: f64 = 1_048_576.0;

/// What is taken for a disk of which nothing is known: so much that no plan rests on it.
const BOUNDLESS_MB: f64 = 1e12;

/// What the cluster carries, with rates since the earlier mark. It cannot be said of a cluster that has no
/// broker to hold anything.
pub fn load(
    sample: &Sample,
    earlier: Option<&Mark>,
    options: &LoadOptions<'_>,
) -> Result<Loaded, InvalidView> {
    let mut unknown = Vec::new();
    let sizes = sizes(sample);
    let missing = sizes.iter().filter(|size| size.is_none()).count();
    if missing > 0 {
        unknown.push(Unknown::Sizes { partitions: missing });
    }
    let loads = rates::rates(sample, earlier, &sizes, &mut unknown);
    let mut builder = ViewBuilder::default();
    brokers(sample, options, &mut builder, &mut unknown)?;
    for (((topic, seen), size), load) in rates::partitions(sample).zip(&sizes).zip(loads) {
        let mut load = load;
        load.disk_mb = size.map_or(0.0, |bytes| bytes as f64 / MB);
        let mut replicas = seen.replicas.clone();
        // A leader that goes with a move that is in flight is none of those that stay.
        if let Some(at) = replicas.iter().position(|id| Some(*id) == seen.leader) {
            replicas[..=at].rotate_right(1);
        }
        builder.partition(topic, seen.id, &replicas, load)?;
        if let Some(first) = seen.replicas.first() {
            builder.prefer(*first);
        }
    }
    for topic in sample.topics.keys().filter(|topic| (options.pinned)(topic)) {
        builder.pin(topic);
    }
    let fenced: BTreeSet<NodeId> =
        sample.brokers.iter().filter(|(_, seen)| seen.fenced).map(|(id, _)| *id).collect();
    // What does not run gets nothing.
    for broker in fenced.iter().chain(&options.closed) {
        builder.close(*broker);
        builder.exclude_from_leadership(*broker);
    }
    let disks = disks(sample, options);
    Ok(Loaded { view: builder.build()?, disks, unknown, fenced })
}

/// The sizes of all partitions, in order: that of the leader's replica, else of the largest.
fn sizes(sample: &Sample) -> Sizes {
    let mut found: BTreeMap<&TopicPartition, BTreeMap<NodeId, u64>> = BTreeMap::new();
    for (id, seen) in &sample.brokers {
        for (partition, bytes) in seen.dirs.iter().flatten().flat_map(|dir| &dir.replicas) {
            found.entry(partition).or_default().insert(*id, *bytes);
        }
    }
    let size = |(topic, seen): rates::Named<'_>| {
        let number = i32::try_from(seen.id).ok()?;
        let on = found.get(&TopicPartition::new(topic.clone(), number))?;
        let of_leader = seen.leader.and_then(|leader| on.get(&leader));
        of_leader.or_else(|| on.values().max()).copied()
    };
    rates::partitions(sample).map(size).collect()
}

fn brokers(
    sample: &Sample,
    options: &LoadOptions<'_>,
    builder: &mut ViewBuilder,
    unknown: &mut Vec<Unknown>,
) -> Result<(), InvalidView> {
    let given = |id: &NodeId| options.capacities.get(id).copied().unwrap_or_default();
    // Whoever is to hold something afterwards.
    let stays = |id: &&NodeId| !options.removed.contains(id);
    let mut lacks = |rate: Rate, pick: fn(&Given) -> Option<f64>| {
        let without = sample.brokers.keys().filter(stays).filter(|id| pick(&given(id)).is_none());
        let brokers: Vec<NodeId> = without.copied().collect();
        if !brokers.is_empty() {
            unknown.push(Unknown::Capacity { rate, brokers });
        }
    };
    lacks(Rate::Inbound, |given| given.network_in_kb);
    lacks(Rate::Outbound, |given| given.network_out_kb);
    lacks(Rate::Cpu, |given| given.cpu_cores);
    let disk = |(id, seen): (&NodeId, &BrokerSeen)| {
        given(id).disk_mb.or_else(|| volumes_mb(seen.dirs.as_deref()?))
    };
    let largest = sample.brokers.iter().filter_map(disk).fold(0.0, f64::max);
    let largest = if largest > 0.0 { largest } else { BOUNDLESS_MB };
    let mut without = Vec::new();
    for (id, seen) in &sample.brokers {
        let disk_mb = disk((id, seen));
        if disk_mb.is_none() && stays(&id) {
            without.push(*id);
        }
        let given = given(id);
        let capacity = Capacity {
            cpu_percent: given.cpu_cores.unwrap_or(1.0) * 100.0,
            network_in_kb: given.network_in_kb.unwrap_or(BOUNDLESS_MB),
            network_out_kb: given.network_out_kb.unwrap_or(BOUNDLESS_MB),
            disk_mb: disk_mb.unwrap_or(largest),
        };
        let state = match () {
            () if options.removed.contains(id) => BrokerState::Removed,
            () if options.added.contains(id) => BrokerState::New,
            () => BrokerState::Alive,
        };
        builder.broker(BrokerSpec { id: *id, rack: seen.rack.clone(), capacity, state })?;
    }
    if !without.is_empty() {
        unknown.push(Unknown::DiskCapacity { brokers: without });
    }
    // Brokers that Kafka has forgotten while partitions are still assigned to them: they are gone.
    let holders: BTreeSet<NodeId> =
        rates::partitions(sample).flat_map(|(_, seen)| seen.replicas.iter().copied()).collect();
    for id in holders.into_iter().filter(|id| !sample.brokers.contains_key(id)) {
        let capacity =
            Capacity { cpu_percent: 0.0, network_in_kb: 0.0, network_out_kb: 0.0, disk_mb: 0.0 };
        builder.broker(BrokerSpec { id, rack: None, capacity, state: BrokerState::Removed })?;
    }
    Ok(())
}

/// The size of a broker's volumes, if all are known.
fn volumes_mb(dirs: &[DirSeen]) -> Option<f64> {
    let all: Option<u64> = dirs.iter().map(|dir| dir.total_bytes).sum();
    all.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64 / MB)
}

fn disks(sample: &Sample, options: &LoadOptions<'_>) -> Vec<BrokerDisks> {
    let of_broker = |(id, seen): (&NodeId, &BrokerSeen)| {
        let dirs = seen.dirs.as_ref()?;
        let mut broker = BrokerDisks { broker: *id, disks: Vec::new(), replicas: Vec::new() };
        for (disk, dir) in dirs.iter().enumerate() {
            let removed = options.removed_disks.contains(&(*id, dir.path.clone()));
            let mut capacity_mb = dir.total_bytes.map_or(BOUNDLESS_MB, |bytes| bytes as f64 / MB);
            for (partition, bytes) in &dir.replicas {
                let mb = *bytes as f64 / MB;
                let Ok(number) = u32::try_from(partition.partition.0) else { continue };
                // What stays where it is takes from what the others have.
                if !removed && (options.pinned)(&partition.topic) {
                    capacity_mb = (capacity_mb - mb).max(0.0);
                    continue;
                }
                let topic = partition.topic.clone();
                broker.replicas.push(DiskReplica { topic, partition: number, disk, mb });
            }
            broker.disks.push(DiskSpec { path: dir.path.clone(), capacity_mb, removed });
        }
        Some(broker)
    };
    sample.brokers.iter().filter_map(of_broker).collect()
}
