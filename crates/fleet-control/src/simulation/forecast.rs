//! What would happen from now on: a fleet as it is, lived forward without new demand until nothing changes any more.

use super::super::reasons::NodeReason;
use super::super::regions::{CreationReason, RemovalReason};
use super::{Arrival, Capacity, Event, Plane, PlaneState, Policy, World, ZONES};

/// A data plane as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPlane {
    /// Its id.
    pub id: String,
    /// Its region.
    pub region: String,
    /// Whether it is in three zones.
    pub multi_az: bool,
    /// Its nodes.
    pub nodes: u32,
    /// What its Kafkas take.
    pub used: Capacity,
    /// How many they are.
    pub kafkas: u64,
}

/// Something that would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nodes come or go.
    Nodes {
        /// The data plane.
        plane: String,
        /// How many there are.
        from: u32,
        /// How many there are to be.
        to: u32,
        /// Why.
        reason: NodeReason,
    },
    /// A data plane is created.
    Create {
        /// A name for it.
        plane: String,
        /// Why.
        reason: CreationReason,
    },
    /// A data plane is removed.
    Remove {
        /// The data plane.
        plane: String,
        /// Why.
        reason: RemovalReason,
    },
    /// A Kafka that waits gets its place.
    Placed {
        /// Which of those that wait.
        kafka: usize,
        /// The data plane.
        plane: String,
    },
    /// A Kafka has waited too long.
    Refused {
        /// Which of those that wait.
        kafka: usize,
    },
}

/// When something would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// In so many minutes.
    pub minute: u64,
    /// What.
    pub change: Change,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// In the order of time.
    pub happened: Vec<Happened>,
    /// The data planes in the end.
    pub planes: u64,
    /// Their nodes.
    pub nodes: u64,
}

/// Lives a fleet forward for so many minutes. Kafkas that wait ask at the beginning and stay for ever.
#[must_use]
pub fn forecast(
    planes: &[StartPlane],
    waiting: &[Arrival],
    policy: &Policy,
    (planes_max, minutes): (u64, u64),
) -> Forecast {
    let of_planes = planes.iter().map(|one| (one.region.as_str(), one.multi_az));
    let of_waiting = waiting.iter().map(|one| (one.region.as_str(), one.multi_az));
    let mut world = World::new(waiting, policy, of_planes.chain(of_waiting).collect());
    world.log = Some(Vec::new());
    world.planes_max = planes_max;
    for one in planes {
        let name = (one.region.as_str(), one.multi_az);
        let region = world.regions.binary_search(&name).unwrap_or(0);
        world.by_region[region].push(world.planes.len());
        world.planes.push(Plane {
            name: one.id.clone(),
            region,
            state: PlaneState::WaitingForAgent,
            nodes: one.nodes,
            coming: None,
            used: one.used,
            kafkas: one.kafkas,
            down: [0; ZONES],
            last_up: None,
            last_down: None,
        });
    }
    for region in 0..world.regions.len() {
        world.at(0, Event::Look { region });
    }
    world.run(minutes);
    let there = world.by_region.iter().map(|all| all.len() as u64).sum();
    Forecast { planes: there, nodes: world.nodes(), happened: world.log.take().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{policy, room};
    use super::*;

    fn plane(nodes: u32, used: u64) -> StartPlane {
        StartPlane {
            id: format!("p{nodes}"),
            region: "r".to_owned(),
            multi_az: true,
            nodes,
            used: room(used),
            kafkas: used / 100,
        }
    }

    fn changes(planes: &[StartPlane], waiting: u64, policy: &Policy) -> (Vec<(u64, Change)>, u64) {
        let one = Arrival {
            at: 0,
            stays: 1_000_000,
            region: "r".to_owned(),
            multi_az: true,
            need: room(300),
        };
        let waiting: Vec<_> = (0..waiting).map(|_| one.clone()).collect();
        let found = forecast(planes, &waiting, policy, (2, 7 * 24 * 60));
        let rows = found.happened.into_iter().map(|one| (one.minute, one.change));
        (rows.collect(), found.nodes)
    }

    #[test]
    fn a_fleet_at_rest_stays() {
        assert_eq!(changes(&[plane(6, 400)], 0, &policy()), (Vec::new(), 6));
    }

    #[test]
    fn more_room_per_node_lets_nodes_go_and_less_brings_more() {
        let larger = Policy { per_node: room(300), ..policy() };
        let (rows, nodes) = changes(&[plane(9, 400)], 0, &larger);
        assert!(matches!(&rows[0], (0, Change::Nodes { from: 9, to: 6, .. })), "{rows:?}");
        assert!(nodes < 9, "{rows:?}");
        let smaller = Policy { per_node: room(70), ..policy() };
        let (rows, nodes) = changes(&[plane(6, 400)], 0, &smaller);
        assert!(matches!(&rows[0], (0, Change::Nodes { from: 6, to: 9, .. })), "{rows:?}");
        assert_eq!(nodes, 9);
    }

    #[test]
    fn those_who_wait_get_nodes_or_a_data_plane() {
        let (rows, _) = changes(&[plane(3, 200)], 1, &policy());
        assert!(matches!(&rows[0], (0, Change::Nodes { from: 3, to: 6, .. })), "{rows:?}");
        assert!(
            rows.iter().any(|(_, one)| matches!(one, Change::Placed { kafka: 0, .. })),
            "{rows:?}"
        );
        let (rows, _) = changes(&[plane(9, 900)], 1, &policy());
        assert!(
            matches!(&rows[0], (0, Change::Create { plane, .. }) if plane == "new-1"),
            "{rows:?}"
        );
    }
}
