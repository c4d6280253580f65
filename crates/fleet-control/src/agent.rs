//! What an agent reports, computed from the nodes, the pool and the Kafkas that are there.
//!
//! - `total`: the usable nodes times what one node offers.
//! - `remaining`: that, less what the Kafkas take. If one more Kafka of Model T would not find room for its
//!   brokers on the nodes as they are, it is less than that Kafka takes, whatever the sums say.
//! - `nodeInfo.current`: the nodes that exist, also those that are not ready: they are coming or are sick,
//!   and both are paid for. `floor` and `ceiling` are the bounds of the pool; a floor is at least one node.
//! - `nodeInfo.currentWorkLoadMinimum`: the least number of nodes on which all brokers find room, in several zones each
//!   zone by itself. Which nodes would go is the provider's choice, so the smallest of them are taken to stay.
//! - `resizeInfo`: the step of the pool, and what so many nodes offer.
//! - Nodes on which a Kafka of Model T can never be placed are [`Unsuitable`]: more of them would not help.
//!
//! The brokers of a Kafka are spread over the zones, and where their number is not a multiple of three, those left over
//! come to the zones with the most room.

use super::report::{Capacity, NodeInfo, ResizeInfo, Unsuitable};

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

impl BrokerNeed {
    fn holds(self, other: Self) -> bool {
        self.memory_bytes >= other.memory_bytes && self.cpu_milli >= other.cpu_milli
    }

    fn at_most(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            cpu_milli: self.cpu_milli.min(other.cpu_milli),
        }
    }
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
    /// Its zone, as a number from 0; unknown if the node has no zone label.
    pub zone: Option<usize>,
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
    /// Why brokers cannot be placed on the nodes, however many there are.
    pub unsuitable: Option<Unsuitable>,
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
            current_work_load_minimum: workload_minimum(pool, nodes, (kafkas, used)),
        },
        resize: ResizeInfo {
            node_delta: pool.node_delta,
            delta: pool.per_node.times(u64::from(pool.node_delta)),
        },
        unsuitable: unsuitable(pool, nodes),
    }
}

/// Fewer nodes than zones are only too few.
fn unsuitable(pool: &Pool, nodes: &[PlaneNode]) -> Option<Unsuitable> {
    let mut zones: Vec<_> = nodes.iter().filter_map(|node| node.zone).collect();
    zones.sort_unstable();
    zones.dedup();
    if pool.multi_az && nodes.len() >= ZONES && zones.len() < ZONES {
        return Some(Unsuitable::ZonesMissing);
    }
    let fits = nodes.iter().any(|node| node.offers.holds(pool.model_t.need));
    (!nodes.is_empty() && !fits).then_some(Unsuitable::NodesTooSmall)
}

/// The least number of the pool's nodes that the Kafkas can do with; never below the floor, as fewer are not
/// to be had.
fn workload_minimum(
    pool: &Pool,
    nodes: &[PlaneNode],
    (kafkas, used): (&[HostedKafka], Capacity),
) -> u32 {
    let by = zones(pool);
    let least = nodes_for(pool.per_node, used).max(u64::from(pool.nodes_min)).max(1);
    let mut count = usize::try_from(least).unwrap_or(usize::MAX).next_multiple_of(by);
    let largest = nodes.iter().map(|node| node.offers).max().unwrap_or_default();
    // What runs there runs, so no broker is larger than the largest node; and this ends when each has one to itself.
    let clamped: Vec<_> = kafkas
        .iter()
        .map(|kafka| HostedKafka { need: kafka.need.at_most(largest), ..*kafka })
        .collect();
    while !packs(pool, &smallest(nodes, by, count / by, largest), &clamped) {
        count += by;
    }
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// So many nodes in each zone: the smallest of those there are, and more of the largest kind where there are fewer.
fn smallest(nodes: &[PlaneNode], by: usize, each: usize, largest: BrokerNeed) -> Vec<PlaneNode> {
    let mut chosen = Vec::with_capacity(by * each);
    for zone in 0..by {
        let more = PlaneNode { zone: Some(zone), usable: true, offers: largest };
        let here =
            nodes.iter().filter(|node| by == 1 || node.zone.map(|one| one % by) == Some(zone));
        let mut here: Vec<_> = here.copied().collect();
        here.sort_by_key(|node| node.offers);
        chosen.extend(here.into_iter().chain(std::iter::repeat(more)).take(each));
    }
    chosen
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

fn zones(pool: &Pool) -> usize {
    if pool.multi_az { ZONES } else { 1 }
}

/// Whether all brokers find room on these very nodes, largest first.
fn packs(pool: &Pool, nodes: &[PlaneNode], kafkas: &[HostedKafka]) -> bool {
    let by = zones(pool);
    let mut free: Vec<Vec<BrokerNeed>> = vec![Vec::new(); by];
    for node in nodes {
        // A node that does not say where it is takes no broker that must be in a zone.
        if let Some(zone) = if by == 1 { Some(0) } else { node.zone } {
            free[zone % by].push(node.offers);
        }
    }
    let mut kafkas: Vec<_> = kafkas.iter().collect();
    kafkas.sort_by_key(|kafka| std::cmp::Reverse(kafka.need));
    kafkas.into_iter().all(|kafka| spread(kafka, &mut free))
}

/// Places as many brokers in each zone, and those left over in the zones with the most room, one in each.
fn spread(kafka: &HostedKafka, free: &mut [Vec<BrokerNeed>]) -> bool {
    let brokers = usize::try_from(kafka.brokers).unwrap_or(usize::MAX);
    let (each, over) = (brokers / free.len(), brokers % free.len());
    let in_each = free.iter_mut().all(|zone| (0..each).all(|_| take(zone, kafka.need)));
    let mut order: Vec<usize> = (0..free.len()).collect();
    order.sort_by_key(|zone| (std::cmp::Reverse(sum(&free[*zone])), *zone));
    let mut left = over;
    for zone in order {
        if left > 0 && take(&mut free[zone], kafka.need) {
            left -= 1;
        }
    }
    in_each && left == 0
}

fn sum(zone: &[BrokerNeed]) -> BrokerNeed {
    zone.iter().fold(BrokerNeed::default(), |sum, one| BrokerNeed {
        memory_bytes: sum.memory_bytes.saturating_add(one.memory_bytes),
        cpu_milli: sum.cpu_milli.saturating_add(one.cpu_milli),
    })
}

/// From the node with the least room of those that have enough, so that large ones stay free for large brokers.
fn take(zone: &mut [BrokerNeed], need: BrokerNeed) -> bool {
    let Some(left) = zone.iter_mut().filter(|left| left.holds(need)).min() else { return false };
    left.memory_bytes -= need.memory_bytes;
    left.cpu_milli -= need.cpu_milli;
    true
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
            per_node: room(1000, 1000),
            model_t: kafka(3, 4, 100),
        }
    }

    fn nodes(count: usize, unusable: usize) -> Vec<PlaneNode> {
        let node = |index| PlaneNode {
            zone: Some(index % 3),
            usable: index >= unusable,
            offers: BrokerNeed { memory_bytes: 16 * GIB, cpu_milli: 4000 },
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
            // A broker of its own in each zone for four.
            (true, vec![kafka(1, 16, 10); 3], 3),
            (true, vec![kafka(1, 16, 10); 4], 6),
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

    /// Nodes of that many GiB in these zones.
    fn mixed(sizes: &[(Option<usize>, u64)]) -> Vec<PlaneNode> {
        let node = |(zone, gib): &(Option<usize>, u64)| PlaneNode {
            zone: *zone,
            usable: true,
            offers: BrokerNeed { memory_bytes: gib * GIB, cpu_milli: 64_000 },
        };
        sizes.iter().map(node).collect()
    }

    #[test]
    fn kafkas_of_one_broker_are_spread_by_what_is_free() {
        // Three of them need a node each; in one zone two of them would have none.
        let small = [kafka(1, 16, 100); 3];
        let found = survey(&pool(true), &nodes(3, 0), &small);
        assert_eq!(found.nodes.current_work_load_minimum, 3);
        let found = survey(&pool(true), &nodes(6, 0), &small);
        assert!(found.remaining.covers(room(100, 100)), "{}", found.remaining);
        // Four brokers: two in the zone that has the most room.
        let four = [kafka(4, 16, 100)];
        assert_eq!(survey(&pool(true), &nodes(4, 0), &four).nodes.current_work_load_minimum, 6);
        assert!(packs(&pool(true), &nodes(4, 0), &four));
        assert!(!packs(&pool(true), &nodes(4, 0), &[kafka(5, 16, 100)]));
    }

    #[test]
    fn brokers_are_packed_on_the_nodes_that_there_are() {
        let (a, b, c) = (Some(0), Some(1), Some(2));
        // A broker of 16 GiB does not fit on a node of 8, whatever its neighbours are.
        let small = mixed(&[(a, 8), (b, 8), (c, 8)]);
        let large = mixed(&[(a, 8), (b, 8), (c, 8), (a, 32), (b, 32), (c, 32)]);
        assert!(!packs(&pool(true), &small, &[kafka(3, 16, 100)]));
        assert!(packs(&pool(true), &large, &[kafka(3, 16, 100)]));
        // Two brokers of 16 GiB fit on one node of 32, and the small node takes nothing of it.
        let (pool, two) = (pool(true), [kafka(6, 16, 100)]);
        assert!(survey(&pool, &large, &two).remaining.covers(room(100, 100)), "4 GiB fit on 8");
        let full = mixed(&[(a, 2), (b, 2), (c, 2), (a, 32), (b, 32), (c, 32)]);
        assert!(!survey(&pool, &full, &two).remaining.covers(room(100, 100)));
        // The provider may remove the large ones, so all six are needed.
        assert_eq!(survey(&pool, &large, &two).nodes.current_work_load_minimum, 6);
        assert_eq!(survey(&pool, &large, &[kafka(3, 8, 100)]).nodes.current_work_load_minimum, 3);
    }

    #[test]
    fn nodes_that_no_kafka_can_be_placed_on_are_told() {
        use Unsuitable::{NodesTooSmall, ZonesMissing};
        let (a, b, c) = (Some(0), Some(1), Some(2));
        let rows: [(bool, &[(Option<usize>, u64)], Option<Unsuitable>); 10] = [
            (true, &[(a, 16), (b, 16), (c, 16)], None),
            (true, &[(a, 16), (b, 16), (c, 16), (None, 16)], None),
            (true, &[(a, 16), (b, 16), (b, 16)], Some(ZonesMissing)),
            (true, &[(a, 16), (a, 16), (a, 16), (a, 16)], Some(ZonesMissing)),
            (true, &[(None, 16), (None, 16), (None, 16)], Some(ZonesMissing)),
            (true, &[(a, 16), (b, 16), (None, 16)], Some(ZonesMissing)),
            // They are only too few: the others may come to the other zones.
            (true, &[(a, 16), (b, 16)], None),
            (false, &[(None, 16), (None, 16), (None, 16)], None),
            (true, &[(a, 2), (b, 2), (c, 3)], Some(NodesTooSmall)),
            (false, &[], None),
        ];
        for (multi_az, sizes, expected) in rows {
            let found = survey(&pool(multi_az), &mixed(sizes), &[]);
            assert_eq!(found.unsuitable, expected, "{multi_az} {sizes:?}");
        }
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
