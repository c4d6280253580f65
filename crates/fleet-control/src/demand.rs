//! Which data plane grows for a Kafka that waits: one of them, and the same one until the Kafka has its place.
//!
//! 1. A Kafka that waits is demand for at most one data plane, so that a region does not grow by as many steps as it has
//!    data planes.
//! 2. What was given is kept as long as that data plane can still grow to it. The store remembers it; a restart changes nothing.
//! 3. The fewest data planes grow: one that must grow anyway is preferred, then one that needs the least.

use std::collections::BTreeMap;

use super::placement::{Candidate, Request, is_home, place};
use super::report::Capacity;
use super::state::PlaneState;

/// A Kafka that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its id.
    pub id: String,
    /// What it asks for.
    pub request: Request,
    /// The data plane that it was given to.
    pub given: Option<String>,
}

/// By Kafka, in the order in which they wait: the data plane that grows for it, if any.
///
/// One that has a place already is given to none, and one that no data plane can grow for is not listed.
#[must_use]
pub fn give(waiting: &[Waiting], candidates: &[Candidate]) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    // What is left of each when it has grown and all that was given to it is there.
    let mut left: BTreeMap<&str, Capacity> =
        candidates.iter().map(|one| (one.id.as_str(), one.free.plus(one.growth))).collect();
    let (kept, new): (Vec<_>, Vec<_>) = waiting.iter().partition(|one| one.given.is_some());
    for one in kept.into_iter().chain(new) {
        if place(&one.request, candidates).on.is_some() {
            continue;
        }
        if let Some(on) = home(one, candidates, (&left, &given)) {
            if let Some(room) = left.get_mut(on.as_str()) {
                *room = room.less(one.request.need);
            }
            given.insert(one.id.clone(), on);
        }
    }
    given
}

fn home(
    one: &Waiting,
    candidates: &[Candidate],
    (left, given): (&BTreeMap<&str, Capacity>, &BTreeMap<String, String>),
) -> Option<String> {
    let need = one.request.need;
    let room = |candidate: &Candidate| left.get(candidate.id.as_str()).copied().unwrap_or_default();
    let homes = candidates.iter().filter(|candidate| {
        matches!(candidate.state, PlaneState::Ready | PlaneState::ScalingUp)
            && is_home(&one.request, candidate)
            && candidate.growth != Capacity::default()
            && room(candidate).holds(need)
    });
    let grows = |candidate: &Candidate| {
        candidate.state == PlaneState::ScalingUp || given.values().any(|on| *on == candidate.id)
    };
    let best = homes.min_by_key(|candidate| {
        let kept = one.given.as_ref() == Some(&candidate.id);
        let missing = need.less(candidate.free);
        let missing = (missing.connections, missing.partitions);
        (!kept, !grows(candidate), missing, &candidate.id)
    });
    best.map(|candidate| candidate.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use PlaneState::{Full, Ready, ScalingUp, WaitingForAgent};

    fn room(connections: u64) -> Capacity {
        Capacity { connections, partitions: connections, ..Capacity::default() }
    }

    /// Room that is there, and room that it can grow by.
    fn candidate(id: &str, state: PlaneState, free: u64, growth: u64) -> Candidate {
        Candidate {
            id: id.to_owned(),
            provider: "aws".to_owned(),
            region: "r".to_owned(),
            multi_az: true,
            state,
            draining: false,
            free: room(free),
            growth: room(growth),
        }
    }

    fn waiting(id: &str, need: u64, given: Option<&str>) -> Waiting {
        let request = Request {
            provider: "aws".to_owned(),
            region: "r".to_owned(),
            multi_az: true,
            need: room(need),
        };
        Waiting { id: id.to_owned(), request, given: given.map(str::to_owned) }
    }

    fn given(waiting: &[Waiting], candidates: &[Candidate]) -> Vec<(String, String)> {
        give(waiting, candidates).into_iter().collect()
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(kafka, plane)| ((*kafka).to_owned(), (*plane).to_owned())).collect()
    }

    #[test]
    fn one_data_plane_grows_for_a_kafka_that_waits() {
        let both = [candidate("a", Ready, 100, 900), candidate("b", Ready, 200, 900)];
        // The one that needs the least.
        assert_eq!(given(&[waiting("k", 500, None)], &both), pairs(&[("k", "b")]));
        // The other stays the one that was chosen before.
        assert_eq!(given(&[waiting("k", 500, Some("a"))], &both), pairs(&[("k", "a")]));
        // Both come to one data plane as long as it can take both.
        let two = [waiting("k", 500, None), waiting("l", 500, None)];
        assert_eq!(given(&two, &both), pairs(&[("k", "b"), ("l", "b")]));
        let three = [two[0].clone(), two[1].clone(), waiting("m", 500, None)];
        assert_eq!(given(&three, &both), pairs(&[("k", "b"), ("l", "b"), ("m", "a")]));
        // What was given comes first, also if it waits for less long.
        let later = [waiting("k", 900, None), waiting("l", 900, Some("b"))];
        assert_eq!(given(&later, &both), pairs(&[("k", "a"), ("l", "b")]));
        // One that grows anyway.
        let one_grows = [candidate("a", ScalingUp, 50, 900), candidate("b", Ready, 200, 900)];
        assert_eq!(given(&[waiting("k", 500, None)], &one_grows), pairs(&[("k", "a")]));
    }

    #[test]
    fn a_data_plane_that_cannot_grow_to_it_is_not_asked_to() {
        let none: [(String, String); 0] = [];
        let need = [waiting("k", 500, Some("a"))];
        let fit = candidate("a", Ready, 100, 900);
        for other in [
            candidate("a", Ready, 100, 300),
            candidate("a", Full, 0, 900),
            candidate("a", WaitingForAgent, 100, 900),
            Candidate { draining: true, ..fit.clone() },
            Candidate { multi_az: false, ..fit.clone() },
            Candidate { region: "else".to_owned(), ..fit.clone() },
            Candidate { provider: "gcp".to_owned(), ..fit.clone() },
            // It has a place already, here or elsewhere.
            candidate("a", Ready, 500, 900),
        ] {
            assert_eq!(given(&need, std::slice::from_ref(&other)), none, "{other:?}");
        }
        assert_eq!(given(&need, std::slice::from_ref(&fit)), pairs(&[("k", "a")]));
        // The one that it was given to is gone.
        let other = Candidate { id: "b".to_owned(), ..fit };
        assert_eq!(given(&need, &[other]), pairs(&[("k", "b")]));
    }
}
