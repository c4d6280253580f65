//! What an agent reports, computed from the nodes, the pool and the Kafkas that are there.
//!
//! - `total`: the usable nodes times what one node offers.
//! - `remaining`: that, less what the Kafkas take. If one more Kafka of Model T would not find room for its
//!   brokers on the nodes as they are, it is less than that Kafka takes, whatever the sums say.
//! - `nodeInfo.current`: the nodes that exist, also those that are not ready: they are coming or are sick,
//!   and both are paid for. `floor` and `ceiling` are the bounds of the pool; a floor is at least one node.
//! - `nodeInfo.currentWorkLoadMinimum`: the least number of nodes on which all brokers find room, packed
//!   first-fit by decreasing size, in several zones each zone by itself.
//! - `resizeInfo`: the step of the pool, and what so many nodes offer.

use super::report::{Capacity, NodeInfo, ResizeInfo};

/// Zones of a data plane that is in several.
const ZONES: usize = 3;

/// What one broker asks of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct BrokerNeed {
    /// Memory.
    pub memory_bytes: u64,
    /// Thousandths of a processor.
    pub cpu_milli: u64,
}

/// A Kafka that is on the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostedKafka {
    /// What it was sized for.
    pub capacity: Capacity,
    /// How many brokers it has.
    pub brokers: u32,
    /// What each of them asks of its node.
    pub need: BrokerNeed,
}

/// A node for Kafkas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneNode {
    /// Its zone, as a number from 0.
    pub zone: usize,
    /// Whether it is ready and takes pods.
    pub usable: bool,
    /// What pods may have of it.
    pub offers: BrokerNeed,
}

/// What is set for the nodes of a data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// The least number of nodes.
    pub nodes_min: u32,
    /// The most nodes.
    pub nodes_max: u32,
    /// The nodes of one step.
    pub node_delta: u32,
    /// Whether they are in several zones.
    pub multi_az: bool,
    /// What pods may have of one node.
    pub offers: BrokerNeed,
    /// The room for Kafkas that one node gives.
    pub per_node: Capacity,
    /// A Kafka of Model T.
    pub model_t: HostedKafka,
}

/// The numbers of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Survey {
    /// All the room there is.
    pub total: Capacity,
    /// The room that is left.
    pub remaining: Capacity,
    /// The nodes.
    pub nodes: NodeInfo,
    /// One step.
    pub resize: ResizeInfo,
}

/// Computes the numbers of a report.
#[must_use]
pub fn survey(pool: &Pool, nodes: &[PlaneNode], kafkas: &[HostedKafka]) -> Survey {
    let usable: Vec<_> = nodes.iter().filter(|node| node.usable).copied().collect();
    let total = pool.per_node.times(usable.len() as u64);
    let used = kafkas.iter().fold(Capacity::default(), |sum, kafka| sum.plus(kafka.capacity));
    let mut remaining = total.less(used);
    let model_t = pool.model_t.capacity;
    let one_more: Vec<_> = kafkas.iter().chain([&pool.model_t]).copied().collect();
    if remaining.covers(model_t) && !packs(pool, &usable, &one_more) {
        remaining.connections = remaining.connections.min(model_t.connections.saturating_sub(1));
        remaining.partitions = remaining.partitions.min(model_t.partitions.saturating_sub(1));
    }
    Survey {
        total,
        remaining,
        nodes: NodeInfo {
            ceiling: pool.nodes_max,
            floor: pool.nodes_min.max(1),
            current: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            current_work_load_minimum: workload_minimum(pool, kafkas, used),
        },
        resize: ResizeInfo {
            node_delta: pool.node_delta,
            delta: pool.per_node.times(u64::from(pool.node_delta)),
        },
    }
}

/// The least number of the pool's nodes that the Kafkas can do with; never below the floor, as fewer are not
/// to be had.
fn workload_minimum(pool: &Pool, kafkas: &[HostedKafka], used: Capacity) -> u32 {
    let by = if pool.multi_az { ZONES } else { 1 };
    let least = nodes_for(pool.per_node, used).max(u64::from(pool.nodes_min)).max(1);
    let mut count = usize::try_from(least).unwrap_or(usize::MAX).next_multiple_of(by);
    let packed = |count: usize| {
        let node = |index| PlaneNode { zone: index % by, usable: true, offers: pool.offers };
        packs(pool, &(0..count).map(node).collect::<Vec<_>>(), kafkas)
    };
    // No broker is larger than a node here, so this ends when each has one to itself.
    while !packed(count) {
        count += by;
    }
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// How many nodes give that much room. What a node gives nothing of does not come from nodes.
fn nodes_for(per_node: Capacity, used: Capacity) -> u64 {
    let pairs = [
        (used.connections, per_node.connections),
        (used.partitions, per_node.partitions),
        (used.throughput_bytes, per_node.throughput_bytes),
        (used.retention_bytes, per_node.retention_bytes),
    ];
    let counts = pairs.into_iter().filter(|(_, each)| *each > 0);
    counts.map(|(used, each)| used.div_ceil(each)).max().unwrap_or(0)
}

/// Whether all brokers find room, largest first, each on the first node of its zone that has some.
fn packs(pool: &Pool, nodes: &[PlaneNode], kafkas: &[HostedKafka]) -> bool {
    let zones = if pool.multi_az { ZONES } else { 1 };
    let mut brokers: Vec<(BrokerNeed, usize)> = Vec::new();
    for kafka in kafkas {
        let need = BrokerNeed {
            memory_bytes: kafka.need.memory_bytes.min(pool.offers.memory_bytes),
            cpu_milli: kafka.need.cpu_milli.min(pool.offers.cpu_milli),
        };
        let count = usize::try_from(kafka.brokers).unwrap_or(usize::MAX);
        brokers.extend((0..count).map(|index| (need, index % zones)));
    }
    brokers.sort_by(|a, b| b.cmp(a));
    let mut free: Vec<(BrokerNeed, usize)> =
        nodes.iter().map(|node| (node.offers, node.zone % zones)).collect();
    brokers.iter().all(|(need, zone)| {
        let room = free.iter_mut().find(|(left, of)| {
            of == zone && left.memory_bytes >= need.memory_bytes && left.cpu_milli >= need.cpu_milli
        });
        match room {
            Some((left, _)) => {
                left.memory_bytes -= need.memory_bytes;
                left.cpu_milli -= need.cpu_milli;
                true
            }
            None => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn room(connections: u64, partitions: u64) -> Capacity {
        Capacity { connections, partitions, ..Capacity::default() }
    }

    fn kafka(brokers: u32, memory_gib: u64, connections: u64) -> HostedKafka {
        HostedKafka {
            capacity: room(connections, connections),
            brokers,
            need: BrokerNeed { memory_bytes: memory_gib * GIB, cpu_milli: 1000 },
        }
    }

    /// Nodes of 16 GiB and 4 processors, for 1000 connections each; Model T has three brokers of 4 GiB.
    fn pool(multi_az: bool) -> Pool {
        Pool {
            nodes_min: 3,
            nodes_max: 12,
            node_delta: 3,
            multi_az,
            offers: BrokerNeed { memory_bytes: 16 * GIB, cpu_milli: 4000 },
            per_node: room(1000, 1000),
            model_t: kafka(3, 4, 100),
        }
    }

    fn nodes(count: usize, unusable: usize) -> Vec<PlaneNode> {
        let node = |index| PlaneNode {
            zone: index % 3,
            usable: index >= unusable,
            offers: pool(true).offers,
        };
        (0..count).map(node).collect()
    }

    #[test]
    fn an_empty_data_plane_has_all_its_room() {
        let found = survey(&pool(true), &nodes(3, 0), &[]);
        assert_eq!((found.total, found.remaining), (room(3000, 3000), room(3000, 3000)));
        let expected = NodeInfo { ceiling: 12, floor: 3, current: 3, current_work_load_minimum: 3 };
        assert_eq!(found.nodes, expected);
        assert_eq!(found.resize, ResizeInfo { node_delta: 3, delta: room(3000, 3000) });
    }

    #[test]
    fn a_node_that_is_not_usable_exists_but_gives_no_room() {
        let found = survey(&pool(true), &nodes(6, 2), &[kafka(3, 4, 500)]);
        assert_eq!((found.total.connections, found.remaining.connections), (4000, 3500));
        assert_eq!(found.nodes.current, 6);
    }

    #[test]
    fn the_minimum_is_what_the_brokers_can_be_packed_on() {
        let rows = [
            (true, vec![kafka(3, 4, 100)], 3),
            (true, vec![kafka(3, 16, 100)], 3),
            // Two brokers in each zone that need a node each.
            (true, vec![kafka(6, 16, 100)], 6),
            (true, vec![kafka(3, 16, 100), kafka(3, 4, 100)], 6),
            // Four brokers of one processor fit on a node of four.
            (true, vec![kafka(3, 1, 10); 4], 3),
            (true, vec![kafka(3, 1, 10); 5], 6),
            // The sums decide where the brokers would fit.
            (true, vec![kafka(3, 1, 3500)], 6),
            (false, vec![kafka(1, 16, 100); 4], 4),
            // A broker larger than any node has one to itself.
            (true, vec![kafka(3, 99, 100)], 3),
        ];
        for (multi_az, kafkas, expected) in rows {
            let found = survey(&pool(multi_az), &nodes(3, 0), &kafkas);
            assert_eq!(found.nodes.current_work_load_minimum, expected, "{kafkas:?}");
        }
    }

    #[test]
    fn room_that_no_broker_fits_in_is_none() {
        // Each node has 2 GiB left, and a broker of Model T needs 4.
        let found = survey(&pool(true), &nodes(3, 0), &[kafka(3, 14, 100)]);
        assert!(!found.remaining.covers(room(100, 100)), "{}", found.remaining);
        // One zone is full, the others are not.
        let uneven = [kafka(1, 16, 100)];
        assert!(!survey(&pool(true), &nodes(3, 0), &uneven).remaining.covers(room(100, 100)));
        assert!(survey(&pool(true), &nodes(4, 0), &uneven).remaining.covers(room(100, 100)));
    }

    proptest! {
        #[test]
        fn what_has_room_for_model_t_can_pack_it(
            count in 0usize..12, unusable in 0usize..3, multi_az in any::<bool>(),
            sizes in proptest::collection::vec((1u32..7, 1u64..20, 0u64..900), 0..6),
        ) {
            let kafkas: Vec<_> = sizes.iter().map(|(b, m, c)| kafka(*b, *m, *c)).collect();
            let pool = pool(multi_az);
            let nodes = nodes(count, unusable);
            let found = survey(&pool, &nodes, &kafkas);
            if found.remaining.covers(pool.model_t.capacity) {
                let all: Vec<_> = kafkas.iter().chain([&pool.model_t]).copied().collect();
                let usable: Vec<_> = nodes.iter().filter(|node| node.usable).copied().collect();
                prop_assert!(packs(&pool, &usable, &all));
            }
            let minimum = found.nodes.current_work_load_minimum;
            prop_assert!(minimum >= found.nodes.floor);
            prop_assert!(!multi_az || minimum.is_multiple_of(3));
        }
    }
}
