//! What flows: from two samples to a load for each partition.

use std::collections::BTreeMap;

use model::{NodeId, TopicName};
use placement::LeaderLoad;

use super::{Counters, Mark, PartitionSeen, Sample, Unknown};

const KB: f64 = 1_024.0;

/// How much of a broker's time traffic takes, each KB of it by its kind.
const WEIGHT_IN: f64 = 0.7;
const WEIGHT_OUT: f64 = 0.15;
const WEIGHT_FOLLOWER_IN: f64 = 0.15;

/// The sizes of partitions in bytes, in the order of the sample; `None` where nobody could tell.
pub(super) type Sizes = Vec<Option<u64>>;

/// A partition of a sample.
pub(super) type Named<'a> = (&'a TopicName, &'a PartitionSeen);

/// All partitions, in order.
pub(super) fn partitions(sample: &Sample) -> impl Iterator<Item = Named<'_>> {
    sample.topics.iter().flat_map(|(topic, all)| all.iter().map(move |seen| (topic, seen)))
}

/// The rates of all partitions, in order; sizes are not in it. What is not known is added to `unknown`.
pub(super) fn rates(
    sample: &Sample,
    earlier: Option<&Mark>,
    sizes: &Sizes,
    unknown: &mut Vec<Unknown>,
) -> Vec<LeaderLoad> {
    let zero =
        LeaderLoad { cpu_percent: 0.0, network_in_kb: 0.0, network_out_kb: 0.0, disk_mb: 0.0 };
    let mut loads = vec![zero; sizes.len()];
    let Some(earlier) = earlier.filter(|earlier| earlier.at_ms < sample.at_ms) else {
        unknown.push(Unknown::TooEarly);
        return loads;
    };
    let missing = inbound(sample, earlier, sizes, &mut loads);
    if missing > 0 {
        unknown.push(Unknown::Offsets { partitions: missing, of: sizes.len() });
    }
    match counted(sample, earlier) {
        Ok(counted) => {
            outbound(sample, &counted, &mut loads);
            cpu(sample, &counted, &mut loads);
        }
        Err(brokers) => unknown.push(Unknown::Metrics { brokers }),
    }
    loads
}

/// What comes in. Of how many partitions that is not known.
fn inbound(sample: &Sample, earlier: &Mark, sizes: &Sizes, loads: &mut [LeaderLoad]) -> usize {
    let seconds = (sample.at_ms - earlier.at_ms) as f64 / 1_000.0;
    let span = |seen: &PartitionSeen| seen.offsets.map(|(first, end)| end.saturating_sub(first));
    // For partitions that have lost all their records to retention: the mean of all.
    let (mut bytes, mut records) = (0.0, 0.0);
    for ((_, seen), size) in partitions(sample).zip(sizes) {
        if let (Some(span), Some(size)) = (span(seen), size) {
            bytes += *size as f64;
            records += span as f64;
        }
    }
    let mean = if records > 0.0 { bytes / records } else { 0.0 };
    let mut missing = 0;
    for (((topic, seen), size), load) in partitions(sample).zip(sizes).zip(loads) {
        let before = earlier.ends.get(topic).and_then(|ends| ends.get(&seen.id));
        let (Some((_, end)), Some(before)) = (seen.offsets, before) else {
            missing += 1;
            continue;
        };
        // A topic that was made anew has a smaller end than before.
        let advance = end.checked_sub(*before).unwrap_or(end) as f64;
        let own = match (span(seen), size) {
            (Some(span), Some(size)) if span > 0 => *size as f64 / span as f64,
            _ => mean,
        };
        load.network_in_kb = advance * own / KB / seconds;
    }
    missing
}

/// What brokers did in a second.
struct Counted {
    cpu_percent: f64,
    out_kb: BTreeMap<TopicName, f64>,
}

/// What all brokers that run did, or those of which it is not known.
fn counted(sample: &Sample, earlier: &Mark) -> Result<BTreeMap<NodeId, Counted>, Vec<NodeId>> {
    let (mut all, mut missing) = (BTreeMap::new(), Vec::new());
    for (id, seen) in sample.brokers.iter().filter(|(_, seen)| !seen.fenced) {
        let now = seen.counters.as_ref();
        match now.zip(earlier.counters.get(id)).and_then(|(now, before)| since(now, before)) {
            Some(counted) => drop(all.insert(*id, counted)),
            None => missing.push(*id),
        }
    }
    if missing.is_empty() { Ok(all) } else { Err(missing) }
}

fn since(now: &Counters, before: &Counters) -> Option<Counted> {
    let seconds = now.at_ms.checked_sub(before.at_ms).filter(|ms| *ms > 0)? as f64 / 1_000.0;
    // A counter that is lower than before began anew.
    let advance = |now: f64, before: f64| if now >= before { now - before } else { now };
    let out = |(topic, bytes): (&TopicName, &f64)| {
        let before = before.bytes_out.get(topic).copied().unwrap_or(0.0);
        (topic.clone(), advance(*bytes, before) / KB / seconds)
    };
    Some(Counted {
        cpu_percent: advance(now.cpu_seconds, before.cpu_seconds) / seconds * 100.0,
        out_kb: now.bytes_out.iter().map(out).collect(),
    })
}

/// What goes out: to consumers, and to each follower what comes in.
fn outbound(sample: &Sample, counted: &BTreeMap<NodeId, Counted>, loads: &mut [LeaderLoad]) {
    // What comes in, and how many there are, of each topic on each broker that leads some of it.
    let mut led: BTreeMap<(NodeId, &TopicName), (f64, f64)> = BTreeMap::new();
    for ((topic, seen), load) in partitions(sample).zip(loads.iter()) {
        if let Some(leader) = seen.leader {
            let of = led.entry((leader, topic)).or_default();
            *of = (of.0 + load.network_in_kb, of.1 + 1.0);
        }
    }
    for ((topic, seen), load) in partitions(sample).zip(loads) {
        let Some(leader) = seen.leader else { continue };
        let got = counted.get(&leader).and_then(|counted| counted.out_kb.get(topic));
        let (all_in, count) = led.get(&(leader, topic)).copied().unwrap_or((0.0, 1.0));
        let share = if all_in > 0.0 { load.network_in_kb / all_in } else { 1.0 / count };
        let followers = seen.replicas.len().saturating_sub(1) as f64;
        load.network_out_kb = got.copied().unwrap_or(0.0) * share + load.network_in_kb * followers;
    }
}

/// What that takes.
fn cpu(sample: &Sample, counted: &BTreeMap<NodeId, Counted>, loads: &mut [LeaderLoad]) {
    let traffic =
        |load: &LeaderLoad| WEIGHT_IN * load.network_in_kb + WEIGHT_OUT * load.network_out_kb;
    let mut all: BTreeMap<NodeId, f64> = BTreeMap::new();
    for ((_, seen), load) in partitions(sample).zip(loads.iter()) {
        for broker in &seen.replicas {
            *all.entry(*broker).or_default() += match Some(*broker) == seen.leader {
                true => traffic(load),
                false => WEIGHT_FOLLOWER_IN * load.network_in_kb,
            };
        }
    }
    for ((_, seen), load) in partitions(sample).zip(loads) {
        let Some(leader) = seen.leader else { continue };
        let (Some(counted), Some(all)) = (counted.get(&leader), all.get(&leader)) else { continue };
        if *all > 0.0 {
            load.cpu_percent = counted.cpu_percent * traffic(load) / all;
        }
    }
}
