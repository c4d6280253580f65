//! Which data plane a Kafka comes to: by free room, never whoever was first.

use std::fmt;

use super::report::Capacity;
use super::state::PlaneState;

/// A Kafka that wants a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The cloud provider that was asked for.
    pub provider: String,
    /// The region that was asked for.
    pub region: String,
    /// Whether its brokers are to be in several zones.
    pub multi_az: bool,
    /// What it takes.
    pub need: Capacity,
}

/// A data plane that may be that place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// Its cloud provider.
    pub provider: String,
    /// Its region.
    pub region: String,
    /// Whether it is in several zones.
    pub multi_az: bool,
    /// Where it is in its life.
    pub state: PlaneState,
    /// Whether it is kept free by hand.
    pub draining: bool,
    /// What its last report says is left, less what was placed there since.
    pub free: Capacity,
    /// What all further nodes that are permitted would add.
    pub growth: Capacity,
}

/// Where a Kafka comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The data plane, if there is one.
    pub on: Option<String>,
    /// Why that one, or why none.
    pub reason: PlaceReason,
}

/// Why a Kafka comes to a data plane, or to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceReason {
    /// Of those it fits on, that one has the least room to spare.
    TightestFit {
        /// How many it fits on.
        of: usize,
    },
    /// None is ready in that region.
    NoneReady,
    /// Some are ready, and it fits on none of them.
    NoneFits {
        /// How many are ready.
        ready: usize,
    },
}

impl PlaceReason {
    /// A short name, for metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            PlaceReason::TightestFit { .. } => "TightestFit",
            PlaceReason::NoneReady => "NoneReady",
            PlaceReason::NoneFits { .. } => "NoneFits",
        }
    }
}

/// The tightest of the places that fit, so that others become empty and can go. All four numbers must fit.
#[must_use]
pub fn place(request: &Request, candidates: &[Candidate]) -> Placed {
    let ready = candidates.iter().filter(|one| one.state == PlaneState::Ready);
    let ready: Vec<_> = ready.filter(|one| is_home(request, one)).collect();
    let fits: Vec<_> = ready.iter().filter(|one| one.free.holds(request.need)).collect();
    // What is scarcer decides, by the share of it that the Kafka takes; the id makes the order total.
    let tightest = fits.iter().min_by_key(|one| {
        let left = one.free.less(request.need);
        (left.connections.min(left.partitions), left.connections, left.partitions, &one.id)
    });
    let reason = match (tightest, ready.len()) {
        (Some(_), _) => PlaceReason::TightestFit { of: fits.len() },
        (None, 0) => PlaceReason::NoneReady,
        (None, ready) => PlaceReason::NoneFits { ready },
    };
    Placed { on: tightest.map(|one| one.id.clone()), reason }
}

/// Whether a Kafka may come there at all, if there is room.
pub(super) fn is_home(request: &Request, one: &Candidate) -> bool {
    one.provider == request.provider
        && one.region == request.region
        && !one.draining
        && (one.multi_az || !request.multi_az)
}

impl fmt::Display for PlaceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceReason::TightestFit { of } => write!(f, "the tightest of {of} that have room"),
            PlaceReason::NoneReady => write!(f, "no data plane is ready in the region"),
            PlaceReason::NoneFits { ready } => {
                write!(f, "none of {ready} ready data planes has room")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(connections: u64, partitions: u64) -> Capacity {
        Capacity { connections, partitions, ..Capacity::default() }
    }

    fn candidate(id: &str, free: Capacity) -> Candidate {
        Candidate {
            id: id.to_owned(),
            provider: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            multi_az: true,
            state: PlaneState::Ready,
            draining: false,
            free,
            growth: Capacity::default(),
        }
    }

    fn request(need: Capacity) -> Request {
        let (provider, region) = ("aws".to_owned(), "us-east-1".to_owned());
        Request { provider, region, multi_az: true, need }
    }

    #[test]
    fn the_tightest_place_that_fits_is_taken() {
        let candidates = [
            candidate("wide", room(1000, 1000)),
            candidate("tight", room(120, 110)),
            candidate("short", room(1000, 99)),
            candidate("tight-too", room(120, 110)),
        ];
        let rows = [
            (room(100, 100), Some("tight")),
            (room(120, 110), Some("tight")),
            (room(121, 100), Some("wide")),
            (room(1001, 1), None),
        ];
        for (need, expected) in rows {
            let placed = place(&request(need), &candidates);
            assert_eq!(placed.on.as_deref(), expected, "{need}: {}", placed.reason);
        }
    }

    #[test]
    fn only_ready_data_planes_of_the_region_are_looked_at() {
        let fit = candidate("a", room(500, 500));
        let others = [
            Candidate { state: PlaneState::Full, ..fit.clone() },
            Candidate { state: PlaneState::WaitingForAgent, ..fit.clone() },
            Candidate { region: "eu-west-1".to_owned(), ..fit.clone() },
            Candidate { provider: "gcp".to_owned(), ..fit.clone() },
            Candidate { draining: true, ..fit.clone() },
            Candidate { multi_az: false, ..fit.clone() },
        ];
        let need = request(room(100, 100));
        assert_eq!(place(&need, &others).reason, PlaceReason::NoneReady);
        assert_eq!(place(&need, &[fit]).on.as_deref(), Some("a"));
        // One that needs no zones may come to where there are some.
        let small = Request { multi_az: false, ..need };
        assert_eq!(place(&small, &others).on.as_deref(), Some("a"));
    }

    #[test]
    fn bytes_count_as_well_as_numbers() {
        let free = Capacity { retention_bytes: 10, ..room(500, 500) };
        let need = Capacity { retention_bytes: 11, ..room(1, 1) };
        let placed = place(&request(need), &[candidate("a", free)]);
        assert_eq!(placed.reason, PlaceReason::NoneFits { ready: 1 });
    }
}
