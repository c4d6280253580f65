//! A large cluster, as it can be observed.

use control::cluster::fact::Fact;
use control::cluster::snapshot::{Partitions, Snapshot};
use control::rolling::availability::PartitionFacts;
use model::{NodeId, TopicName, TopicPartition};
use objects::found::Found;
use serde_json::json;
use sim::whole::{End, Script, Shape, Start, after, start_of};

/// The replicas of a partition.
const REPLICAS: usize = 3;
/// The partitions of a topic.
const PARTITIONS: usize = 100;

/// Sets the number of nodes of a pool.
pub(crate) fn scale(start: &mut Start, pool: &str, replicas: usize) {
    let pools = &mut start.found.pools;
    let one = pools.iter_mut().find(|one| one.written["metadata"]["name"] == pool).unwrap();
    one.written["spec"]["replicas"] = json!(replicas);
    one.pool = serde_json::from_value(one.written.clone()).unwrap();
}

/// A cluster with so many brokers and partitions.
pub(crate) fn large(brokers: usize, partitions: usize) -> Start {
    let shape = Shape {
        controllers: 3,
        brokers: 3,
        combined: 0,
        version: 2,
        rebalances: true,
        machines: 6,
    };
    let small = start_of(&Script { seed: 1, shape, events: Vec::new() }).unwrap();
    // A new cluster of the same user.
    let mut new = Start {
        found: Found { pools: small.found.pools, ..Found::default() },
        snapshot: Snapshot { now_ms: small.snapshot.now_ms, ..Snapshot::default() },
        record: None,
        ..small
    };
    scale(&mut new, "broker", brokers);
    let (plan, created) = after(new);
    assert_eq!(plan.end, End::Settled, "{:?}", plan.lines.last());
    let mut created = created.unwrap();
    let ids: Vec<NodeId> =
        created.snapshot.kafka.brokers.known().unwrap().keys().copied().collect();
    assert_eq!(ids.len(), brokers);
    let mut all =
        Partitions { brokers: ids.first().copied().into_iter().collect(), ..Partitions::default() };
    for index in 0..partitions {
        let topic = TopicName::new(format!("topic-{}", index / PARTITIONS)).unwrap();
        let number = i32::try_from(index % PARTITIONS).unwrap();
        let name = TopicPartition::new(topic, number);
        let replicas: Vec<NodeId> =
            (0..REPLICAS).map(|nth| ids[(index + nth * (1 + index % 7)) % ids.len()]).collect();
        all.leaders.push((name.clone(), replicas.first().copied(), replicas.first().copied()));
        all.facts.push(PartitionFacts {
            partition: name.clone(),
            isr: replicas.clone(),
            replicas,
            adding: Vec::new(),
            removing: Vec::new(),
            min_isr: Some(2),
        });
        created.sizes.insert(name, 1 << 28);
    }
    let at_ms = created.snapshot.now_ms;
    created.snapshot.kafka.partitions = Fact::read(all, at_ms);
    created
}
