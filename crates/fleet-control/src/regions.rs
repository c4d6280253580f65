//! Whether a region gets one more data plane, and which empty ones go.
//!
//! 1. One data plane at a time is created in a region: one that is coming holds back the next.
//! 2. The last ready data plane of its kind in a region is never removed.
//! 3. Where the nodes of a data plane are unsuitable, another data plane would be no better: none is created.
//! 4. A data plane with a Kafka on it is not empty, whatever state that Kafka is in. One that has failed
//!    may hold data, and only its deletion says that nobody wants it.

use std::fmt;

use super::state::PlaneState;

/// So many data planes that failed in a region mean that the next would fail, too.
const FAILED_MAX: usize = 3;

/// A data plane, as its region sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneInRegion {
    /// Its id.
    pub id: String,
    /// Where it is in its life.
    pub state: PlaneState,
    /// Whether it is in several zones.
    pub multi_az: bool,
    /// The Kafkas that are on it, or on their way.
    pub kafkas: u64,
    /// Whether it is kept free by hand; nothing is placed on it.
    pub draining: bool,
    /// Whether nodes are being made for a Kafka that waits.
    pub growing: bool,
    /// Whether brokers cannot be placed on its nodes, however many there are.
    pub unsuitable: bool,
}

/// A region of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionFacts {
    /// All its data planes that are not deleted.
    pub planes: Vec<PlaneInRegion>,
    /// How many Kafkas wait that fit on none of them, and that none of them grows for.
    pub unplaced: u64,
    /// How many Kafkas wait, those included that a data plane grows for.
    pub waiting: u64,
    /// The most data planes there may be.
    pub planes_max: u64,
}

/// Whether a data plane is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creation {
    /// Whether.
    pub create: bool,
    /// Why, or why not.
    pub reason: CreationReason,
}

/// Why a data plane is created, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreationReason {
    /// There is none.
    NoPlane,
    /// All of them are full or failed.
    AllFull,
    /// A Kafka waits, fits on none of them, and none can grow for it.
    Unplaced {
        /// How many wait.
        kafkas: u64,
    },
    /// One has room, or will have.
    HasRoom {
        /// The state of the first such one.
        state: PlaneState,
    },
    /// There are as many as there may be.
    AtLimit {
        /// How many.
        planes: u64,
    },
    /// Too many have failed; a person has to look.
    TooManyFailed {
        /// How many.
        planes: usize,
    },
    /// Brokers cannot be placed on the nodes of some; a person has to look.
    Unsuitable {
        /// How many.
        planes: usize,
    },
}

impl CreationReason {
    /// A short name, for metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            CreationReason::NoPlane => "NoPlane",
            CreationReason::AllFull => "AllFull",
            CreationReason::Unplaced { .. } => "Unplaced",
            CreationReason::HasRoom { .. } => "HasRoom",
            CreationReason::AtLimit { .. } => "AtLimit",
            CreationReason::TooManyFailed { .. } => "TooManyFailed",
            CreationReason::Unsuitable { .. } => "Unsuitable",
        }
    }
}

impl Creation {
    /// Whether one is needed and not permitted: the region cannot get another data plane, and a person has to know.
    #[must_use]
    pub fn is_held(self) -> bool {
        match self.reason {
            CreationReason::AtLimit { .. }
            | CreationReason::TooManyFailed { .. }
            | CreationReason::Unsuitable { .. } => true,
            CreationReason::NoPlane
            | CreationReason::AllFull
            | CreationReason::Unplaced { .. }
            | CreationReason::HasRoom { .. } => false,
        }
    }
}

/// "For each region it will create a new OSD cluster in it if all the following conditions are true: All of
/// the clusters in provider's region are in state `full` or `failed`. The number of OSD clusters that will be
/// created when a scale-up is triggered will be `1`"
///
/// No clusters at all are all full, too; those on their way out count as absent.
#[must_use]
pub fn plan_creation(region: &RegionFacts) -> Creation {
    let there: Vec<_> = region.planes.iter().filter(|plane| !plane.state.is_going()).collect();
    let no = |reason| Creation { create: false, reason };
    let open = there.iter().find(|plane| {
        (plane.state.is_coming() && !plane.unsuitable)
            || (matches!(plane.state, PlaneState::Ready | PlaneState::ScalingUp) && !plane.draining)
    });
    let reason = match open {
        Some(_) if starves(region, &there) => CreationReason::Unplaced { kafkas: region.unplaced },
        Some(plane) => return no(CreationReason::HasRoom { state: plane.state }),
        None if there.is_empty() => CreationReason::NoPlane,
        None => CreationReason::AllFull,
    };
    let unsuitable = there.iter().filter(|plane| plane.unsuitable).count();
    if unsuitable > 0 {
        return no(CreationReason::Unsuitable { planes: unsuitable });
    }
    let failed = there.iter().filter(|plane| plane.state == PlaneState::Failed).count();
    if failed >= FAILED_MAX {
        return no(CreationReason::TooManyFailed { planes: failed });
    }
    let planes = there.len() as u64;
    if planes >= region.planes_max {
        return no(CreationReason::AtLimit { planes });
    }
    Creation { create: true, reason }
}

/// A Kafka waits, and nothing that is there or coming will take it. An empty data plane that does not take
/// it proves that another would not either.
fn starves(region: &RegionFacts, there: &[&PlaneInRegion]) -> bool {
    let hopeful = |plane: &&PlaneInRegion| {
        (plane.state.is_coming() && !plane.unsuitable)
            || plane.state == PlaneState::ScalingUp
            || plane.growing
            || (plane.state == PlaneState::Ready && plane.kafkas == 0 && !plane.draining)
    };
    region.unplaced > 0 && !there.iter().any(hopeful)
}

/// Whether a data plane is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Which.
    pub id: String,
    /// Whether.
    pub remove: bool,
    /// Why, or why not.
    pub reason: RemovalReason,
}

/// Why a data plane is removed, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalReason {
    /// It is empty, and that one is ready in its place.
    Empty {
        /// The sibling.
        sibling: String,
    },
    /// A person said so.
    ByHand,
    /// There are Kafkas on it.
    NotEmpty {
        /// How many.
        kafkas: u64,
    },
    /// It is not ready itself.
    NotReady {
        /// What it is.
        state: PlaneState,
    },
    /// No other of its kind is ready in the region.
    NoSibling,
    /// Kafkas wait for capacity in the region.
    QueueNotEmpty {
        /// How many.
        kafkas: u64,
    },
}

impl RemovalReason {
    /// A short name, for metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            RemovalReason::Empty { .. } => "Empty",
            RemovalReason::ByHand => "ByHand",
            RemovalReason::NotEmpty { .. } => "NotEmpty",
            RemovalReason::NotReady { .. } => "NotReady",
            RemovalReason::NoSibling => "NoSibling",
            RemovalReason::QueueNotEmpty { .. } => "QueueNotEmpty",
        }
    }
}

/// "The system will delete an OSD cluster, let's call it `clusterA`, when the following conditions are met:
/// `clusterA` is empty, `clusterA` is in a ready state, `clusterA` has at least one sibling cluster that
/// satisfies these conditions: Has the same Cloud Provider as `clusterA`. In the same region as `clusterA`.
/// That sibling is also in a 'ready' state"
///
/// A sibling has as many zones, too. The planes are looked at one after the other, and one that goes is no
/// sibling of the next, so that they never all go.
#[must_use]
pub fn plan_removals(region: &RegionFacts) -> Vec<Removal> {
    let mut going: Vec<&str> = Vec::new();
    let mut removals = Vec::new();
    for plane in &region.planes {
        if plane.state.is_going() {
            continue;
        }
        let sibling = region
            .planes
            .iter()
            .find(|other| is_sibling(plane, other) && !going.contains(&other.id.as_str()));
        let (remove, reason) = judge_removal(plane, sibling, region.waiting);
        if remove {
            going.push(&plane.id);
        }
        removals.push(Removal { id: plane.id.clone(), remove, reason });
    }
    removals
}

/// The same question again, right before the provider is asked: a Kafka may have come meanwhile, or the
/// sibling may have gone. A no takes the data plane back to `ready`.
#[must_use]
pub fn confirm_removal(region: &RegionFacts, id: &str, by_hand: bool) -> Removal {
    let answer = |remove, reason| Removal { id: id.to_owned(), remove, reason };
    let Some(plane) = region.planes.iter().find(|plane| plane.id == id) else {
        return answer(false, RemovalReason::NotReady { state: PlaneState::Cleanup });
    };
    if plane.kafkas > 0 {
        return answer(false, RemovalReason::NotEmpty { kafkas: plane.kafkas });
    }
    if by_hand {
        return answer(true, RemovalReason::ByHand);
    }
    match region.planes.iter().find(|other| is_sibling(plane, other)) {
        Some(other) => answer(true, RemovalReason::Empty { sibling: other.id.clone() }),
        None => answer(false, RemovalReason::NoSibling),
    }
}

fn is_sibling(plane: &PlaneInRegion, other: &PlaneInRegion) -> bool {
    other.id != plane.id
        && other.state == PlaneState::Ready
        && other.multi_az == plane.multi_az
        && !other.draining
}

fn judge_removal(
    plane: &PlaneInRegion,
    sibling: Option<&PlaneInRegion>,
    waiting: u64,
) -> (bool, RemovalReason) {
    if plane.kafkas > 0 {
        return (false, RemovalReason::NotEmpty { kafkas: plane.kafkas });
    }
    if plane.state != PlaneState::Ready {
        return (false, RemovalReason::NotReady { state: plane.state });
    }
    if waiting > 0 {
        return (false, RemovalReason::QueueNotEmpty { kafkas: waiting });
    }
    match sibling {
        Some(other) => (true, RemovalReason::Empty { sibling: other.id.clone() }),
        None => (false, RemovalReason::NoSibling),
    }
}

impl fmt::Display for CreationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreationReason::NoPlane => write!(f, "the region has no data plane"),
            CreationReason::AllFull => write!(f, "all data planes are full or failed"),
            CreationReason::Unplaced { kafkas } => {
                write!(f, "{kafkas} Kafkas wait, and no data plane can take them")
            }
            CreationReason::HasRoom { state } => write!(f, "a data plane is {state}"),
            CreationReason::AtLimit { planes } => write!(f, "{planes} data planes are the limit"),
            CreationReason::TooManyFailed { planes } => {
                write!(f, "{planes} data planes have failed; delete them when the cause is found")
            }
            CreationReason::Unsuitable { planes } => {
                write!(
                    f,
                    "Kafkas cannot be placed on the nodes of {planes} data planes, and another would be no better"
                )
            }
        }
    }
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemovalReason::Empty { sibling } => write!(f, "empty, and {sibling} is ready"),
            RemovalReason::ByHand => write!(f, "deleted by an administrator"),
            RemovalReason::NotEmpty { kafkas } => write!(f, "{kafkas} Kafkas are there"),
            RemovalReason::NotReady { state } => write!(f, "it is {state}"),
            RemovalReason::NoSibling => write!(f, "no other of its kind is ready in the region"),
            RemovalReason::QueueNotEmpty { kafkas } => {
                write!(f, "{kafkas} Kafkas wait for capacity")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PlaneState::*;

    fn plane(id: &str, state: PlaneState, kafkas: u64) -> PlaneInRegion {
        let id = id.to_owned();
        PlaneInRegion {
            id,
            state,
            multi_az: true,
            kafkas,
            draining: false,
            growing: false,
            unsuitable: false,
        }
    }

    fn region(planes: Vec<PlaneInRegion>) -> RegionFacts {
        RegionFacts { planes, unplaced: 0, waiting: 0, planes_max: 100 }
    }

    #[test]
    fn a_region_gets_one_when_all_are_full_or_failed() {
        let rows: &[(&[PlaneState], bool)] = &[
            // 9: none at all, and those that go, are absent.
            (&[], true),
            (&[Deprovisioning], true),
            (&[Cleanup, Full], true),
            (&[Full], true),
            (&[Failed], true),
            (&[Full, Failed], true),
            (&[Full, Ready], false),
            // 13: one is created, and then it holds back the next.
            (&[Full, Accepted], false),
            (&[Full, Provisioning], false),
            (&[Full, Provisioned], false),
            (&[Full, WaitingForAgent], false),
            (&[Full, ScalingUp], false),
            (&[Failed, Failed, Full], true),
            (&[Failed, Failed, Failed], false),
        ];
        for (states, create) in rows {
            let planes = states.iter().map(|state| plane("a", *state, 1)).collect();
            assert_eq!(plan_creation(&region(planes)).create, *create, "{states:?}");
        }
    }

    #[test]
    fn a_limit_of_data_planes_is_kept() {
        for (planes_max, create) in [(100, true), (1, false), (2, true), (0, false)] {
            let facts = RegionFacts { planes_max, ..region(vec![plane("a", Full, 1)]) };
            let creation = plan_creation(&facts);
            assert_eq!((creation.create, creation.is_held()), (create, !create), "{planes_max}");
        }
    }

    #[test]
    fn a_kafka_that_fits_nowhere_is_a_reason_unless_something_is_on_its_way() {
        let growing = PlaneInRegion { growing: true, ..plane("a", Ready, 3) };
        let draining = PlaneInRegion { draining: true, ..plane("b", Ready, 0) };
        let rows = [
            (vec![plane("a", Ready, 3)], true),
            (vec![plane("a", Ready, 3), plane("b", Provisioning, 0)], false),
            (vec![plane("a", Ready, 3), plane("b", ScalingUp, 2)], false),
            (vec![growing], false),
            // Another empty one would be no better than this.
            (vec![plane("a", Ready, 0)], false),
            (vec![plane("a", Ready, 3), draining], true),
        ];
        for (planes, create) in rows {
            let facts = RegionFacts { unplaced: 1, waiting: 1, ..region(planes) };
            assert_eq!(plan_creation(&facts).create, create, "{facts:?}");
        }
    }

    #[test]
    fn a_region_that_does_not_grow_any_more_says_so() {
        let unsuitable = |state| PlaneInRegion { unsuitable: true, ..plane("u", state, 0) };
        let full = || plane("f", Full, 3);
        let failed = || plane("x", Failed, 0);
        let rows = [
            // Nothing is needed.
            (vec![plane("a", Ready, 1)], 0, None),
            (vec![unsuitable(WaitingForAgent), plane("a", Ready, 1)], 0, None),
            (vec![failed(), failed(), failed(), plane("a", Ready, 1)], 0, None),
            // One is needed, and may not be created.
            (
                vec![failed(), failed(), failed()],
                0,
                Some("3 data planes have failed; delete them when the cause is found"),
            ),
            (
                vec![failed(), failed(), failed(), plane("a", Ready, 1)],
                1,
                Some("3 data planes have failed; delete them when the cause is found"),
            ),
            (
                vec![unsuitable(WaitingForAgent)],
                0,
                Some(
                    "Kafkas cannot be placed on the nodes of 1 data planes, and another would be no better",
                ),
            ),
            (
                vec![full(), unsuitable(Full)],
                0,
                Some(
                    "Kafkas cannot be placed on the nodes of 1 data planes, and another would be no better",
                ),
            ),
            (
                vec![plane("a", Ready, 1), unsuitable(WaitingForAgent)],
                1,
                Some(
                    "Kafkas cannot be placed on the nodes of 1 data planes, and another would be no better",
                ),
            ),
            (vec![full(), full(), full(), full(), full()], 0, Some("5 data planes are the limit")),
        ];
        for (planes, unplaced, held) in rows {
            let facts =
                RegionFacts { unplaced, waiting: unplaced, planes_max: 5, ..region(planes) };
            let creation = plan_creation(&facts);
            assert!(!creation.create, "{facts:?}");
            let told = creation.is_held().then(|| creation.reason.to_string());
            assert_eq!(told.as_deref(), held, "{facts:?}");
        }
    }

    fn removed(facts: &RegionFacts) -> Vec<String> {
        plan_removals(facts).into_iter().filter(|r| r.remove).map(|r| r.id).collect()
    }

    #[test]
    fn an_empty_ready_data_plane_goes_if_a_sibling_of_its_kind_is_ready() {
        let single = |id, kafkas| PlaneInRegion { multi_az: false, ..plane(id, Ready, kafkas) };
        let rows: Vec<(Vec<PlaneInRegion>, &[&str])> = vec![
            (vec![plane("a", Ready, 0)], &[]),
            (vec![plane("a", Ready, 0), plane("b", Ready, 5)], &["a"]),
            (vec![plane("a", Ready, 1), plane("b", Ready, 5)], &[]),
            (vec![plane("a", Ready, 0), plane("b", Full, 5)], &[]),
            (vec![plane("a", Full, 0), plane("b", Ready, 5)], &[]),
            (vec![plane("a", Ready, 0), plane("b", Deprovisioning, 0)], &[]),
            // 10: a sibling has as many zones.
            (vec![plane("a", Ready, 0), single("b", 5)], &[]),
            // All are empty, and one stays.
            (vec![plane("a", Ready, 0), plane("b", Ready, 0), plane("c", Ready, 0)], &["a", "b"]),
            (
                vec![plane("a", Ready, 0), single("b", 0), single("c", 0), plane("d", Ready, 0)],
                &["a", "b"],
            ),
        ];
        for (planes, expected) in rows {
            let facts = region(planes);
            assert_eq!(removed(&facts), expected, "{facts:?}");
            assert!(removed(&RegionFacts { waiting: 1, ..facts }).is_empty());
        }
    }

    #[test]
    fn a_removal_is_confirmed_before_the_provider_is_asked() {
        let confirm = |planes, by_hand| confirm_removal(&region(planes), "a", by_hand);
        let going = |kafkas| plane("a", Deprovisioning, kafkas);
        assert!(confirm(vec![going(0), plane("b", Ready, 0)], false).remove);
        // The sibling has gone, or a Kafka has come.
        assert_eq!(confirm(vec![going(0)], false).reason, RemovalReason::NoSibling);
        assert!(!confirm(vec![going(0), plane("b", Full, 1)], false).remove);
        assert!(!confirm(vec![going(1), plane("b", Ready, 0)], false).remove);
        // By hand no sibling is needed, but it must be empty all the same.
        assert!(confirm(vec![going(0)], true).remove);
        assert!(!confirm(vec![going(1)], true).remove);
        assert!(!confirm(vec![], true).remove);
    }
}
