//! Every order of events around one broker that leaves.
//!
//! The world around the guard may do anything at any time, also between the moment a pass has read its facts
//! and the moment it acts, and the operator may die between its record and its act. All states that can be
//! reached are visited. In none of them is a claim deleted while a replica is assigned to its broker, or a
//! broker unregistered that runs; and from each of them both ends can still be reached.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use control::scaling::guard::{
    Cordon, Event, FINAL, Facts, Phase, Registration, TRANSITIONS, duty, next, read,
};

/// What the broker has of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Replica {
    None,
    /// Assigned while it was down: nothing on its disk.
    Empty,
    Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Live,
    Fenced,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    replica: Replica,
    runs: bool,
    /// Its process hangs, and answers nothing.
    frozen: bool,
    known: Known,
    closed: bool,
    claims: bool,
    desired: bool,
    held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    phase: Phase,
    world: World,
    /// What a pass that is under way has read.
    read: Option<World>,
}

const START: State = State {
    phase: Phase::Requested,
    world: World {
        replica: Replica::Data,
        runs: true,
        frozen: false,
        known: Known::Live,
        closed: false,
        claims: true,
        desired: false,
        held: false,
    },
    read: None,
};

/// Whether processes hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hangs {
    Never,
    /// The roller restarts one that stays. One that leaves hangs for ever.
    Forever,
    /// One that hangs may come back at any time.
    AWhile,
}

/// Whether Kafka can close brokers, and whether they hang.
type Kind = (bool, Hangs);

const KINDS: [Kind; 6] = [
    (false, Hangs::Never),
    (false, Hangs::Forever),
    (false, Hangs::AWhile),
    (true, Hangs::Never),
    (true, Hangs::Forever),
    (true, Hangs::AWhile),
];

impl World {
    fn answers(&self) -> bool {
        self.runs && !self.frozen
    }
}

fn facts(world: &World, supported: bool) -> Facts {
    let cordon = match (supported, world.closed) {
        (false, _) => Cordon::Unsupported,
        (true, true) => Cordon::Closed,
        (true, false) => Cordon::Open,
    };
    Facts {
        desired: world.desired,
        partitions: Some(usize::from(world.replica != Replica::None)),
        skip_check: false,
        held: Some(world.held),
        // A broker that does not run, or hangs, cannot be asked.
        cordon: world.answers().then_some(cordon),
        quorum: Ok(()),
        runs: Some(world.runs),
        registration: Some(match world.known {
            Known::Live => Registration::Live,
            Known::Fenced => Registration::Fenced,
            Known::Gone => Registration::Gone,
        }),
        claims_left: Some(world.claims),
        others_stay: true,
    }
}

/// What may happen to the world at any time.
fn happenings(world: &World, (supported, hangs): Kind) -> Vec<World> {
    let mut all = vec![
        World { desired: !world.desired, ..*world },
        World { held: !world.held, ..*world },
        World { replica: Replica::None, ..*world },
    ];
    // Kafka places replicas also on a fenced broker, if too few others are there.
    let takes = world.known != Known::Gone && !(supported && world.closed);
    if takes && world.replica == Replica::None {
        let up = world.answers() && world.known == Known::Live;
        let replica = if up { Replica::Data } else { Replica::Empty };
        all.push(World { replica, ..*world });
    }
    if !world.answers() && world.known == Known::Live {
        all.push(World { known: Known::Fenced, ..*world });
    }
    if world.answers() && hangs != Hangs::Never {
        all.push(World { frozen: true, ..*world });
    }
    if world.frozen && (world.desired || hangs == Hangs::AWhile) {
        all.push(World { frozen: false, ..*world });
    }
    if world.answers() && world.known != Known::Live {
        let replica = match world.replica {
            Replica::None => Replica::None,
            Replica::Empty | Replica::Data => Replica::Data,
        };
        all.push(World { known: Known::Live, replica, ..*world });
    }
    all
}

/// What the operator does with what it has read.
fn act(state: &State, seen: &World, supported: bool) -> Vec<State> {
    let event = read(state.phase, &facts(seen, supported));
    let phase = event.and_then(|event| next(state.phase, event)).unwrap_or(state.phase);
    let duty = duty(phase);
    let mut world = state.world;
    if world.answers() {
        world.closed = supported && duty.cordoned;
    }
    if duty.runs && !world.runs {
        world.claims = true;
    }
    world.runs = duty.runs;
    // A process that hangs is killed in the end.
    world.frozen &= world.runs;
    let was_out = !seen.runs && seen.known == Known::Fenced && seen.replica == Replica::None;
    if duty.unregister && was_out {
        assert!(!world.runs, "a running broker is unregistered: {state:?}");
        world.known = Known::Gone;
    }
    if duty.delete_claims && world.claims {
        assert_eq!(world.replica, Replica::None, "claims with a replica: {state:?}");
        assert!(!world.runs && world.known == Known::Gone, "{state:?}");
        world.claims = false;
    }
    let done = State { phase, world, read: None };
    // It dies when it has recorded, and has done nothing.
    let died = State { phase, world: state.world, read: None };
    vec![done, died]
}

fn successors(state: &State, kind: Kind) -> Vec<State> {
    if FINAL.contains(&state.phase) {
        return vec![];
    }
    let mut all: Vec<State> =
        happenings(&state.world, kind).into_iter().map(|world| State { world, ..*state }).collect();
    match &state.read {
        None => all.push(State { read: Some(state.world), ..*state }),
        Some(seen) => all.extend(act(state, seen, kind.0)),
    }
    all
}

/// All states that can be reached, each with those that lead to it.
fn explore(kind: Kind) -> BTreeMap<State, Vec<State>> {
    let mut before: BTreeMap<State, Vec<State>> = BTreeMap::from([(START, vec![])]);
    let mut queue = VecDeque::from([START]);
    while let Some(state) = queue.pop_front() {
        for to in successors(&state, kind) {
            let known = before.contains_key(&to);
            before.entry(to).or_default().push(state);
            if !known {
                queue.push_back(to);
            }
        }
    }
    before
}

/// The states from which one of those can be reached.
fn leading_to(before: &BTreeMap<State, Vec<State>>, end: Phase) -> BTreeSet<State> {
    let mut reached: BTreeSet<State> =
        before.keys().filter(|state| state.phase == end).copied().collect();
    let mut queue: VecDeque<State> = reached.iter().copied().collect();
    while let Some(state) = queue.pop_front() {
        for from in &before[&state] {
            if reached.insert(*from) {
                queue.push_back(*from);
            }
        }
    }
    reached
}

#[test]
fn nothing_is_lost_in_any_order_of_events_and_no_state_is_a_dead_end() {
    for kind in KINDS {
        let (before, supported) = (explore(kind), kind.0);
        assert!(before.len() > 2_000, "{kind:?} {}", before.len());
        let (to_done, to_kept) =
            (leading_to(&before, Phase::Done), leading_to(&before, Phase::Kept));
        for state in before.keys() {
            let soon = has_read(state, supported);
            let kept = state.phase == Phase::Kept || soon == Some(Event::Back);
            assert!(to_done.contains(state) || kept, "{state:?}");
            let too_late = matches!(state.phase, Phase::Cleaning | Phase::Done);
            let gone = too_late || soon == Some(Event::Forgotten);
            assert!(to_kept.contains(state) || gone, "{state:?}");
        }
    }
}

/// What a pass that is under way makes of what it has read.
fn has_read(state: &State, supported: bool) -> Option<Event> {
    state.read.and_then(|seen| read(state.phase, &facts(&seen, supported)))
}

#[test]
fn every_edge_of_the_machine_is_taken() {
    for kind in KINDS {
        let (supported, hangs) = kind;
        let mut taken = BTreeSet::new();
        for state in explore(kind).keys() {
            if let Some(event) = has_read(state, supported) {
                taken.insert((state.phase, event));
            }
        }
        for (from, on, _) in TRANSITIONS {
            // What is closed gets no replica, so nothing brings it back from there. A broker that hangs could not be
            // closed, and a replica may land there after all.
            let is_closed = supported && hangs == Hangs::Never;
            let closed = is_closed && *on == Event::Refilled && *from != Phase::Cordoning;
            assert_eq!(taken.contains(&(*from, *on)), !closed, "{kind:?} {from:?} {on:?}");
        }
    }
}

/// A benign world brings a broker out in a bounded number of passes, and back as well.
#[test]
fn a_quiet_world_reaches_the_end_soon() {
    for supported in [false, true] {
        // Whether it is desired again, and whether it hangs.
        for (desired, frozen) in [(false, false), (true, false), (false, true)] {
            let mut state = START;
            state.world.replica = Replica::None;
            state.phase = if desired { Phase::Stopped } else { Phase::Requested };
            state.world.runs = !desired;
            (state.world.desired, state.world.frozen) = (desired, frozen);
            let mut passes = 0;
            while !FINAL.contains(&state.phase) {
                state = act(&state, &state.world.clone(), supported)[0];
                let (answers, known) = (state.world.answers(), state.world.known);
                state.world.known = match (answers, known) {
                    (true, _) => Known::Live,
                    (false, Known::Live) => Known::Fenced,
                    (false, known @ (Known::Fenced | Known::Gone)) => known,
                };
                passes += 1;
                assert!(passes < 20, "{state:?}");
            }
            let expected = if desired { Phase::Kept } else { Phase::Done };
            assert_eq!(state.phase, expected);
        }
    }
}
